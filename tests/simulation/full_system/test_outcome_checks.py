"""Which outcomes must be on record, by the state of an exchange that is written by hand."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bot.simulator.venues.metaculus_state import FakeMetaculusComment, FakeMetaculusQuestion, FakeMetaculusState
from bot.simulator.venues.polymarket_state import FakePolymarketMarket, FakePolymarketState
from tests.simulation.full_system.fake_venues import SimulationVenues
from tests.simulation.full_system.outcome_checks import OutcomeChecks

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
WINS, LOSES = (Decimal(1), Decimal(0)), (Decimal(0), Decimal(1))


@dataclass
class Exchange:
    """The state of a double alone."""

    state: FakePolymarketState = field(default_factory=FakePolymarketState)


@dataclass
class Venues:
    """One exchange, and no other venue."""

    polymarket: Exchange = field(default_factory=Exchange)
    manifold: None = None
    metaculus: None = None


def market(name: str, hours_ago: float | None, pays: Any = None, *, event: str = "race") -> FakePolymarketMarket:
    """Return a market that ended so many hours ago, None for one that is open."""
    resolved = None if hours_ago is None else round((NOON - timedelta(hours=hours_ago)).timestamp())
    kept: dict[str, Any] = {"id": name, "condition": name, "tokens": (f"{name}1", f"{name}2"), "slug": name}
    return FakePolymarketMarket(
        **kept, question=f"{name}?", created=0, end=0, event=event, payouts=pays, resolved_at=resolved
    )


def judge(markets: list[FakePolymarketMarket], ref: str, made_hours_ago: float, *recorded: Any) -> list[str]:
    venues = Venues()
    venues.polymarket.state.markets |= {one.condition: one for one in markets}
    checks = OutcomeChecks(bridges=cast("SimulationVenues", venues), undone={}, now=NOON, slower=1.0)
    made = {"ref": ref, "made_at": (NOON - timedelta(hours=made_hours_ago)).isoformat()}
    return [*checks.judge(recorded, [made])]


# A job looks every six hours, and may fail once; an hour is left for the clock that people set.
@pytest.mark.parametrize(
    ("ended", "made", "count"),
    [(20.0, 30.0, 1), (12.0, 30.0, 0), (None, 30.0, 0), (20.0, 15.0, 1), (20.0, 12.0, 0), (20.0, 2.0, 0)],
)
def test_an_outcome_is_on_record_once_there_was_time_to_read_it_since_the_first_forecast(
    ended: float | None, made: float, count: int
) -> None:
    found = judge([market("lamp", ended, None if ended is None else WINS)], "polymarket:lamp", made)
    assert len(found) == count
    assert all("none is on record" in one for one in found)


# Of several markets the question is over once one of them wins, or once all have ended.
@pytest.mark.parametrize(
    ("ends", "count"),
    [
        ([(20.0, LOSES), (None, None), (None, None)], 0),
        ([(20.0, LOSES), (20.0, LOSES), (2.0, WINS)], 0),
        ([(20.0, WINS), (None, None), (None, None)], 1),
        ([(20.0, LOSES), (20.0, LOSES), (19.0, LOSES)], 1),
        ([(20.0, LOSES), (20.0, LOSES), (2.0, LOSES)], 0),
    ],
)
def test_a_question_of_several_markets_is_over_with_its_winner(ends: list[tuple[Any, Any]], count: int) -> None:
    markets = [market(f"port {number}", ago, pays) for number, (ago, pays) in enumerate(ends)]
    assert len(judge(markets, "polymarket:event:race", 30.0)) == count


def test_an_outcome_before_the_winner_was_known_is_too_early() -> None:
    markets = [market("a", 20.0, LOSES), market("b", 5.0, WINS)]
    for hours_ago, count in ((4.0, 0), (19.0, 1)):
        seen = (NOON - timedelta(hours=hours_ago)).isoformat()
        row = {"ref": "polymarket:event:race", "target": "outcome", "kind": "chosen", "value": None, "seen_at": seen}
        assert len(judge(markets, "polymarket:event:race", 30.0, row)) == count


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, ""),
        (None, "not on record"),
        ({"title": "port?"}, "is 'port?'"),
        ({"closes_at": (NOON + timedelta(hours=8)).isoformat()}, "closes at"),
        ({"closes_at": None}, "closes at"),
    ],
)
def test_a_question_is_on_record_as_its_venue_asks_it(changed: dict[str, Any] | None, words: str) -> None:
    asked = market("lamp", None)
    asked.end = round((NOON + timedelta(hours=9)).timestamp())
    venues = Venues()
    venues.polymarket.state.markets["lamp"] = asked
    checks = OutcomeChecks(bridges=cast("SimulationVenues", venues), undone={}, now=NOON, slower=1.0)
    row = {"ref": "polymarket:lamp", "title": "lamp?", "closes_at": (NOON + timedelta(hours=9)).isoformat()}
    rows = [] if changed is None else [{**row, "body": '{"shape": {}}', "price": 0.5, **changed}]
    found = [*checks.judge_questions(rows, NOON - timedelta(hours=3))]
    assert [words in one for one in found] == [True] * bool(words)


def contest() -> Any:
    """Return venues that are Metaculus alone, with the account of Foxcast."""
    return SimpleNamespace(
        manifold=None,
        polymarket=None,
        metaculus=SimpleNamespace(state=FakeMetaculusState()),
        environment=SimpleNamespace(metaculus_account=SimpleNamespace(id=7)),
    )


@pytest.mark.parametrize(
    ("later_h", "text", "post", "author", "count"),
    [
        (25.0, "second", 1, 7, 0),
        (3.0, "second", 1, 7, 1),
        (25.0, "first", 1, 7, 1),
        (3.0, "first", 2, 7, 0),
        (3.0, "first", 1, 8, 0),
    ],
)
def test_a_post_has_one_comment_in_a_day_and_none_twice(
    later_h: float, text: str, post: int, author: int, count: int
) -> None:
    venues = contest()
    said = [(7, 1, "first", 0.0), (author, post, text, later_h)]
    for number, (who, where, what, hours) in enumerate(said, 1):
        created = NOON + timedelta(hours=hours)
        comment = FakeMetaculusComment(id=number, author=who, post=where, text=what, created=created, is_private=True)
        venues.metaculus.state.comments[number] = comment
    checks = OutcomeChecks(bridges=venues, undone={}, now=NOON, slower=1.0)
    assert len([*checks.judge_comments()]) == count


# A question without an outcome, which was taken back: no account has scores of it any more, once that was read.
@pytest.mark.parametrize(
    ("undone_h", "set_h", "count"), [(None, 1.0, 1), (20.0, 18.0, 1), (20.0, None, 0), (20.0, 2.0, 0)]
)
def test_scores_of_a_venue_follow_its_last_outcome(undone_h: float | None, set_h: float | None, count: int) -> None:
    venues = contest()
    resolved = None if set_h is None else NOON - timedelta(hours=set_h)
    times: Any = dict.fromkeys(
        ("created", "open", "scheduled_close", "scheduled_resolve"), NOON - timedelta(hours=30.0)
    )
    venues.metaculus.state.questions[2] = FakeMetaculusQuestion(
        id=2, post=1, title="lit?", type="binary", resolution="annulled", resolution_set=resolved, **times
    )
    undone = {} if undone_h is None else {"metaculus:2": NOON - timedelta(hours=undone_h)}
    checks = OutcomeChecks(bridges=venues, undone=undone, now=NOON, slower=1.0)
    assert len([*checks.judge_scores([{"ref": "metaculus:1:2", "rule": "baseline", "value": 3.0}])]) == count
