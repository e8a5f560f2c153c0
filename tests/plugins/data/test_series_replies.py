"""The price at the end of each day, against a search over all moves for each day by itself."""

from datetime import UTC, date, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from plugins.data._series_replies import daily_prices, last_finished_day, start_of_day
from tests.plugins.data.shared_values import LAST_DAYS

UNTIL = datetime(2026, 3, 5, tzinfo=UTC)
MOVES = st.lists(
    st.tuples(
        st.datetimes(
            min_value=datetime(2026, 2, 1),  # noqa: DTZ001 - the zone is added
            max_value=datetime(2026, 3, 10),  # noqa: DTZ001 - as above
            timezones=st.just(UTC),
        ),
        st.floats(0.0, 1.0),
    ),
    max_size=30,
    unique_by=lambda move: move[0],
)


def price_at(moves: list[tuple[datetime, float]], moment: datetime) -> float | None:
    earlier = [move for move in moves if move[0] < moment]
    return max(earlier)[1] if earlier else None


@given(moves=MOVES, days=st.integers(1, 40))
def test_each_day_has_the_last_price_before_its_end(moves: list[tuple[datetime, float]], days: int) -> None:
    since = UNTIL - timedelta(days=days)
    expected: dict[date, float] = {}
    for step in range(days):
        end = since + timedelta(days=step + 1)
        price = price_at(moves, end)
        if price is not None:
            expected[(end - timedelta(days=1)).date()] = price
    assert daily_prices(moves, since=since, until=UNTIL) == expected


def test_days_end_at_midnight_in_utc() -> None:
    for before, last in LAST_DAYS.items():
        assert last_finished_day(before).isoformat() == last
        assert start_of_day(before) <= before < start_of_day(before) + timedelta(days=1)
