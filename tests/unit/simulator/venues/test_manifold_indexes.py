"""What the fake Manifold finds by an index is what a look at everything finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bot.simulator.venues import manifold_request_schemas as schemas
from bot.simulator.venues.manifold_read_api import list_bets
from bot.simulator.venues.manifold_responses import day_volume
from bot.simulator.venues.manifold_state import FakeManifoldBet, FakeManifoldMarket, FakeManifoldState

DAY_MS = 86_400_000
NOW = 10 * DAY_MS
USERS, MARKETS, ANSWERS = ("ada", "bob", "crowd"), ("rain", "snow", "wind"), (None, "red", "blue")


@dataclass(frozen=True)
class PlacedBet:
    """Whose bet it was, where and when, and whether it rests as an order."""

    user: str
    market: str
    answer: str | None
    created: int
    rests: bool


PLACED = st.lists(
    st.builds(
        PlacedBet,
        user=st.sampled_from(USERS),
        market=st.sampled_from(MARKETS),
        answer=st.sampled_from(ANSWERS),
        created=st.integers(NOW - 2 * DAY_MS, NOW),
        rests=st.booleans(),
    )
)


def state_of(placed: list[PlacedBet]) -> FakeManifoldState:
    """Return a state with these bets and the resulting holdings; each bet is put on record twice."""
    state = FakeManifoldState()
    for number, one in enumerate(placed):
        limit = 0.4 if one.rests else None
        bet = FakeManifoldBet(
            id=state.new_id("bet"),
            user=one.user,
            market=one.market,
            answer=one.answer,
            outcome="YES",
            amount=1.0 + number,
            order_amount=100.0,
            shares=2.0,
            prob_before=0.4,
            prob_after=0.5,
            created=one.created,
            limit=limit,
            is_filled=not one.rests,
        )
        state.add_bet(bet)
        state.add_bet(bet)
        state.holding(one.user, one.market, one.answer).buy("YES", bet.shares, bet.amount)
    return state


def page(state: FakeManifoldState, **asked: Any) -> list[str]:
    """Return the ids of a page of bets."""
    return [bet.id for bet in list_bets(state, schemas.check_fields(schemas.BETS, asked), NOW)]


@given(PLACED)
def test_bets_and_holdings_by_market_and_by_user_are_those_of_a_scan(placed: list[PlacedBet]) -> None:
    state = state_of(placed)
    assert [bet.id for bet in state.bets.values()] == [f"bet{number:06d}" for number in range(1, len(placed) + 1)]
    for market in (*MARKETS, "nowhere"):
        assert [*state.bets_on(market)] == [bet for bet in state.bets.values() if bet.market == market]
        assert [*state.holdings_of(market)] == [
            (user, answer, holding) for (user, where, answer), holding in state.holdings.items() if where == market
        ]
        for answer in ANSWERS:
            orders = [one for one in state.bets.values() if (one.market, one.answer) == (market, answer)]
            assert [*state.book(market, answer, NOW)] == [one for one in orders if one.is_resting(NOW)]
    for user in (*USERS, "nobody"):
        assert [*state.bets_by(user)] == [bet for bet in state.bets.values() if bet.user == user]


@given(
    PLACED,
    st.none() | st.lists(st.sampled_from((*MARKETS, "nowhere"))),
    st.none() | st.sampled_from((*USERS, "nobody")),
)
def test_a_page_of_bets_of_some_is_the_page_of_all_without_the_others(
    placed: list[PlacedBet], markets: list[str] | None, user: str | None
) -> None:
    state = state_of(placed)
    asked = {name: value for name, value in (("contractId", markets), ("userId", user)) if value is not None}
    wanted = [
        number
        for number in page(state)
        if (markets is None or state.bets[number].market in markets) and user in {None, state.bets[number].user}
    ]
    assert page(state, **asked) == wanted


@given(PLACED)
def test_the_volume_of_a_day_is_what_was_bet_on_the_market_within_it(placed: list[PlacedBet]) -> None:
    state = state_of(placed)
    for name in MARKETS:
        market = FakeManifoldMarket(
            id=name, slug=name, question="?", creator="ada", type="BINARY", created=0, closes=None
        )
        recent = [bet for bet in state.bets.values() if bet.market == name and bet.created > NOW - DAY_MS]
        assert day_volume(state, market, NOW) == sum(bet.amount for bet in recent)
