import asyncio
import hashlib
import math
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.core.beliefs import ModelUsage
from bot.core.errors import MalformedDataError, NotFoundError, StoreError
from bot.store.cost_totals import CostGrouping, CostRow
from bot.store.model_calls import ScopeSpending
from tests.unit.store.conftest import NOON, LedgerFixture

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


async def test_a_call_is_on_record_before_it_is_made_and_settled_after(ledger_fixture: LedgerFixture) -> None:
    calls = ledger_fixture.ledger.calls
    await calls.reserve(ledger_fixture.reservation())
    assert ledger_fixture.rows("select state, worst_usd, cost_usd, answer from model_call") == [
        ("reserved", 0.05, None, None)
    ]
    digest = await calls.settle("call", ledger_fixture.settlement(0.01, finish="stop", detail="served by eu-1"))
    assert digest == hashlib.sha256(b'{"text":"0.3"}').hexdigest()
    row = ledger_fixture.rows("""
        select state, cost_usd, attempts, calls, tokens_in, tokens_cached, tokens_out, latency_s, finish, detail, answer
        from model_call
    """)
    assert row == [("done", 0.01, 1, 1, 1000, 600, 50, 2.0, "stop", "served by eu-1", digest)]
    assert (await ledger_fixture.ledger.documents.get(digest, scope="forecast")).content == b'{"text":"0.3"}'


async def test_a_call_that_failed_has_its_cost_and_no_answer(ledger_fixture: LedgerFixture) -> None:
    await ledger_fixture.ledger.calls.reserve(ledger_fixture.reservation())
    assert (
        await ledger_fixture.ledger.calls.settle(
            "call", ledger_fixture.settlement(0.02, answer=None, detail="cut \ud800")
        )
        is None
    )
    assert ledger_fixture.rows("select state, cost_usd, detail from model_call") == [("failed", 0.02, "cut \ufffd")]
    assert await ledger_fixture.ledger.calls.find_recorded_answer("request of call") is None


async def test_two_calls_cannot_have_one_id(ledger_fixture: LedgerFixture) -> None:
    await ledger_fixture.ledger.calls.reserve(ledger_fixture.reservation())
    with pytest.raises(MalformedDataError, match="call is already recorded"):
        await ledger_fixture.ledger.calls.reserve(ledger_fixture.reservation(worst_usd=9.0))
    assert await ledger_fixture.ledger.calls.spent_on("forecast") == 0.05


async def test_what_was_not_reserved_cannot_be_settled(ledger_fixture: LedgerFixture) -> None:
    with pytest.raises(NotFoundError, match="no call call"):
        await ledger_fixture.ledger.calls.settle("call", ledger_fixture.settlement(0.01))
    assert ledger_fixture.rows("select count(*) from bundle") == [(0,)]


async def test_what_is_settled_or_lost_stays_so(ledger_fixture: LedgerFixture) -> None:
    calls = ledger_fixture.ledger.calls
    for call in ("done", "lost"):
        await calls.reserve(ledger_fixture.reservation(call))
    await calls.settle("done", ledger_fixture.settlement(0.01))
    assert await calls.mark_lost(at=NOON) == 1
    for call in ("done", "lost"):
        with pytest.raises(StoreError, match=f"the call {call} is {call} and cannot be settled again"):
            await calls.settle(call, ledger_fixture.settlement(0.02, answer='"another"'))
    assert await calls.spent_on("forecast") == pytest.approx(0.01 + 0.05)
    assert ledger_fixture.rows("select count(*) from bundle") == [(1,)]


async def test_the_newest_answer_to_the_very_same_request_is_found(ledger_fixture: LedgerFixture) -> None:
    calls = ledger_fixture.ledger.calls
    begun = {"old": -2 * HOUR, "new": -HOUR, "failed": timedelta(0), "under way": timedelta(0)}
    for call, ago in begun.items():
        await calls.reserve(ledger_fixture.reservation(call, request="r", at=NOON + ago))
    await calls.settle("new", ledger_fixture.settlement(0.01, answer='"new"'))
    await calls.settle("old", ledger_fixture.settlement(0.01, answer='"old"'))
    await calls.settle("failed", ledger_fixture.settlement(0.01, answer=None))
    assert await calls.find_recorded_answer("r") == (hashlib.sha256(b'"new"').hexdigest(), '"new"')
    assert await calls.find_recorded_answer("R") is None


async def test_a_call_in_flight_when_its_run_died_is_spent_at_its_worst_for_ever(ledger_fixture: LedgerFixture) -> None:
    calls = ledger_fixture.ledger.calls
    await calls.reserve(ledger_fixture.reservation("lost"))
    assert await calls.mark_lost(at=NOON + HOUR) == 1
    assert await calls.mark_lost(at=NOON + DAY) == 0
    assert ledger_fixture.rows("select state, lost_at from model_call") == [("lost", "2026-03-01T13:00:00.000000Z")]
    assert await calls.spent(since=NOON) == (ScopeSpending(scope="forecast", provider="house", cost_usd=0.05),)


async def test_what_was_spent_is_told_by_scope_and_provider_from_a_moment_on(ledger_fixture: LedgerFixture) -> None:
    calls = ledger_fixture.ledger.calls
    begun = [("f1", "house", 0), ("f1", "house", 1), ("f1", "guest", 1), ("f2", "house", 2)]
    for number, (scope, provider, hours) in enumerate(begun):
        reservation = ledger_fixture.reservation(
            str(number), scope=scope, provider=provider, at=NOON + hours * HOUR, worst_usd=2.0**number
        )
        await calls.reserve(reservation)
    assert await calls.spent(since=NOON) == (
        ScopeSpending(scope="f1", provider="guest", cost_usd=4.0),
        ScopeSpending(scope="f1", provider="house", cost_usd=3.0),
        ScopeSpending(scope="f2", provider="house", cost_usd=8.0),
    )
    assert [spent.cost_usd for spent in await calls.spent(since=NOON + HOUR)] == [4.0, 2.0, 8.0]
    assert await calls.spent(since=NOON + 2 * HOUR + timedelta.resolution) == ()
    assert [await calls.spent_on(scope) for scope in ("f1", "f2", "f3")] == [7.0, 8.0, 0.0]


async def test_a_provider_may_cost_more_than_the_worst_case(ledger_fixture: LedgerFixture) -> None:
    await ledger_fixture.ledger.calls.reserve(ledger_fixture.reservation(worst_usd=0.01))
    await ledger_fixture.ledger.calls.settle("call", ledger_fixture.settlement(0.5))
    assert await ledger_fixture.ledger.calls.spent_on("forecast") == 0.5


async def test_cached_tokens_are_never_more_than_those_in(ledger_fixture: LedgerFixture) -> None:
    await ledger_fixture.ledger.calls.reserve(ledger_fixture.reservation())
    usage = ModelUsage(calls=1, tokens_in=10, tokens_cached=64, cost_usd=0.01)
    await ledger_fixture.ledger.calls.settle("call", ledger_fixture.settlement(0, usage=usage))
    assert ledger_fixture.rows("select tokens_in, tokens_cached from model_call") == [(10, 10)]


@pytest.mark.parametrize("amount", [-0.01, math.nan, math.inf])
def test_no_call_is_written_with_an_amount_that_no_budget_can_hold(
    ledger_fixture: LedgerFixture, amount: float
) -> None:
    with pytest.raises(ValueError, match="maximum cost of a call"):
        ledger_fixture.reservation(worst_usd=amount)
    with pytest.raises(ValueError, match="latency of a call"):
        ledger_fixture.settlement(0.01, latency_s=amount)
    with pytest.raises(ValueError, match="cost of a call"):
        ledger_fixture.settlement(math.inf)


@dataclass
class SpendingAccount:
    """What a person would reckon with paper and pencil, beside the ledger; amounts are exact."""

    scope: str
    reserved: dict[str, tuple[int, Fraction]] = field(default_factory=dict)
    spent: list[tuple[int, Fraction]] = field(default_factory=list)

    def total(self, since: int) -> Fraction:
        return sum((usd for hour, usd in [*self.reserved.values(), *self.spent] if hour >= since), Fraction(0))


amounts = st.integers(0, 2**20).map(lambda number: Fraction(number, 1024))
moves = st.lists(
    st.tuples(st.sampled_from(["reserve", "done", "failed", "lose"]), st.integers(0, 9), amounts), max_size=30
)
numbers = count()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(moves=moves, since=st.integers(0, 10))
async def test_whatever_happens_to_calls_each_counts_once_at_its_worst_or_at_its_cost(
    ledger_fixture: LedgerFixture, moves: list[tuple[str, int, Fraction]], since: int
) -> None:
    budget = SpendingAccount(scope=f"forecast {next(numbers)}")
    for move, number, usd in moves:
        await _move(ledger_fixture, budget, move, number, usd)
        assert await ledger_fixture.ledger.calls.spent_on(budget.scope) == budget.total(0)
    spent = await ledger_fixture.ledger.calls.spent(since=NOON + since * HOUR)
    assert sum(one.cost_usd for one in spent if one.scope == budget.scope) == budget.total(since)
    # The next example begins with nothing under way.
    assert await ledger_fixture.ledger.calls.mark_lost(at=NOON) == len(budget.reserved)
    assert await ledger_fixture.ledger.calls.spent_on(budget.scope) == budget.total(0)


async def _move(ledger_fixture: LedgerFixture, budget: SpendingAccount, move: str, number: int, usd: Fraction) -> None:
    calls, call = ledger_fixture.ledger.calls, f"{budget.scope}, call {len(budget.reserved) + len(budget.spent)}"
    if move == "reserve":
        reservation = ledger_fixture.reservation(
            call, scope=budget.scope, at=NOON + number * HOUR, worst_usd=float(usd)
        )
        await calls.reserve(reservation)
        budget.reserved[call] = (number, usd)
    elif move == "lose":
        assert await calls.mark_lost(at=NOON) == len(budget.reserved)
        budget.spent += budget.reserved.values()
        budget.reserved.clear()
    elif budget.reserved:
        call = sorted(budget.reserved)[number % len(budget.reserved)]
        await calls.settle(call, ledger_fixture.settlement(float(usd), answer='"yes"' if move == "done" else None))
        budget.spent.append((budget.reserved.pop(call)[0], usd))


async def test_the_typical_cost_is_the_mean_of_forecasts_that_were_answered_as_a_whole(
    ledger_fixture: LedgerFixture,
) -> None:
    costs = {"f1": [0.25, 0.5], "f2": [0.0], "f3": [0.125, 0.125, 0.5]}
    for scope, each in costs.items():
        for number, cost in enumerate(each):
            await _called(ledger_fixture, f"{scope}{number}", cost, scope=scope)
    await _called(ledger_fixture, "other", 99.0, scope="f4", forecaster="other")
    await _called(ledger_fixture, "half", 99.0, scope="f5")
    await ledger_fixture.ledger.calls.reserve(ledger_fixture.reservation("lost", scope="f6", worst_usd=99.0))
    await ledger_fixture.ledger.calls.mark_lost(at=NOON)
    await ledger_fixture.ledger.calls.reserve(ledger_fixture.reservation("under way", scope="f5"))
    await _called(ledger_fixture, "answered", 99.0, scope="f7")
    await _called(ledger_fixture, "refused", 0.0, answer=None, scope="f7")
    typical = ledger_fixture.ledger.calls.typical_cost
    assert await typical("plain", min_forecasts=3) == (0.75 + 0.0 + 0.75) / 3
    assert await typical("plain", min_forecasts=4) is None
    assert await typical("plain") is None
    assert await typical("unknown", min_forecasts=0) is None


async def test_the_typical_cost_is_that_of_the_models_in_their_present_roles(ledger_fixture: LedgerFixture) -> None:
    played = [("judge", "house:small"), ("main", "house:large")]
    plays = {"f1": played, "f2": played[1:], "f3": [*played, ("main", "house:small")], "f4": [("judge", "house:large")]}
    for scope, pairs in plays.items():
        for number, (role, model) in enumerate(pairs):
            await _called(ledger_fixture, f"{scope}{number}", 2.0 ** int(scope[1]), scope=scope, role=role, model=model)
    typical = ledger_fixture.ledger.calls.typical_cost
    assert await typical("plain", players=played, min_forecasts=2) == (2 * 2.0 + 4.0) / 2
    assert await typical("plain", players=played, min_forecasts=3) is None
    assert await typical("plain", players=[], min_forecasts=1) is None
    assert await typical("plain", min_forecasts=4) == (2 * 2.0 + 4.0 + 3 * 8.0 + 16.0) / 4


async def test_the_typical_cost_is_that_of_late_not_of_long_ago(ledger_fixture: LedgerFixture) -> None:
    await _all_called(ledger_fixture, [("old", NOON - DAY)] * 2, cost_usd=64.0)
    await _all_called(ledger_fixture, [(f"s{number // 999}", NOON) for number in range(4995)], cost_usd=0.5)
    # 5 x 999 calls of late and those two are all that there is: everything is seen.
    assert await ledger_fixture.ledger.calls.typical_cost("plain", min_forecasts=6) == (128.0 + 5 * 499.5) / 6
    await _all_called(ledger_fixture, [("new", NOON)] * 4, cost_usd=0.5)
    # Now one call of the old forecast is the 5,001st: the forecast is not seen as a whole and left out.
    assert await ledger_fixture.ledger.calls.typical_cost("plain", min_forecasts=6) == (2.0 + 5 * 499.5) / 6


async def test_the_estimate_of_a_cost_is_exact_while_calls_are_few_and_then_lags_by_a_twentieth_of_them(
    ledger_fixture: LedgerFixture,
) -> None:
    calls, players = ledger_fixture.ledger.calls, [("forecaster", "prime:big")]
    await _all_called(ledger_fixture, [(f"s{number}", NOON) for number in range(5)], cost_usd=1.0)
    (players[0],) = {*ledger_fixture.rows("select role, model from model_call")}
    assert await calls.estimate_typical_cost("plain", players) == 1.0
    await _all_called(ledger_fixture, [("six", NOON)], cost_usd=7.0)
    assert await calls.estimate_typical_cost("plain", players) == 2.0
    await _all_called(ledger_fixture, [(f"t{number}", NOON) for number in range(994)], cost_usd=2.0)
    assert await calls.estimate_typical_cost("plain", players) == 2.0
    await _all_called(ledger_fixture, [(f"u{number}", NOON) for number in range(50)], cost_usd=23.0)
    assert await calls.typical_cost("plain", players=players) == 3.0
    assert await calls.estimate_typical_cost("plain", players) == 2.0
    await _all_called(ledger_fixture, [("v", NOON)], cost_usd=3.0)
    # Of 1,051 calls 51 are new, fewer than a twentieth.
    assert await calls.estimate_typical_cost("plain", players) == 2.0
    await _all_called(ledger_fixture, [(f"w{number}", NOON) for number in range(3)], cost_usd=3.0)
    assert await calls.estimate_typical_cost("plain", players) == 3.0
    # Other models have a mean of their own.
    assert await calls.estimate_typical_cost("plain", [("forecaster", "another")]) is None


async def _all_called(ledger_fixture: LedgerFixture, begun: list[tuple[str, datetime]], *, cost_usd: float) -> None:
    calls, settlement = ledger_fixture.ledger.calls, ledger_fixture.settlement(cost_usd, answer='"yes"')
    named = [(f"{scope}, call {number}", scope, at) for number, (scope, at) in enumerate(begun)]
    await asyncio.gather(
        *(calls.reserve(ledger_fixture.reservation(call, scope=scope, at=at)) for call, scope, at in named)
    )
    await asyncio.gather(*(calls.settle(call, settlement) for call, *_ in named))


async def _called(
    ledger_fixture: LedgerFixture, call: str, cost_usd: float, *, answer: str | None = '"yes"', **changes: Any
) -> None:
    latency_s = changes.pop("latency_s", 2.0)
    await ledger_fixture.ledger.calls.reserve(ledger_fixture.reservation(call, **changes))
    settlement = ledger_fixture.settlement(cost_usd, answer=answer, latency_s=latency_s, attempts=1 if answer else 3)
    await ledger_fixture.ledger.calls.settle(call, settlement)


@pytest.fixture
async def spender(ledger_fixture: LedgerFixture) -> LedgerFixture:
    """A ledger with two forecasts on two questions in two days: five calls, one failed, one lost."""
    rain: dict[str, Any] = {"scope": "f1", "ref": "lantern:rain", "forecaster": "plain"}
    snow: dict[str, Any] = {"scope": "f2", "ref": "beacon:snow", "venue": "beacon", "forecaster": "bold"}
    snow["at"] = NOON + DAY
    await _called(ledger_fixture, "a", 1.0, **rain, latency_s=2.0)
    await _called(ledger_fixture, "b", 2.0, **rain, latency_s=4.0)
    await _called(ledger_fixture, "c", 0.5, answer=None, **rain, role="judge", latency_s=60.0)
    await _called(ledger_fixture, "d", 8.0, **snow, model="house:large")
    await ledger_fixture.ledger.calls.reserve(
        ledger_fixture.reservation("e", **snow, role="judge", provider="guest", worst_usd=16.0)
    )
    await ledger_fixture.ledger.calls.mark_lost(at=NOON + DAY)
    return ledger_fixture


EXPECTED = {
    CostGrouping.QUESTION: [("beacon:snow", 1, 2, 24.0), ("lantern:rain", 1, 3, 3.5)],
    CostGrouping.VENUE: [("beacon", 1, 2, 24.0), ("lantern", 1, 3, 3.5)],
    CostGrouping.FORECASTER: [("bold", 1, 2, 24.0), ("plain", 1, 3, 3.5)],
    CostGrouping.MODEL: [("guest:small", 1, 1, 16.0), ("house:large", 1, 1, 8.0), ("house:small", 1, 3, 3.5)],
    CostGrouping.DAY: [("2026-03-01", 1, 3, 3.5), ("2026-03-02", 1, 2, 24.0)],
    CostGrouping.ROLE: [("judge", 2, 2, 16.5), ("forecaster", 2, 3, 11.0)],
}


@pytest.mark.parametrize("by", CostGrouping)
async def test_costs_are_told_by_whatever_is_asked_dearest_first_and_days_in_order(
    spender: LedgerFixture, by: CostGrouping
) -> None:
    rows = await spender.ledger.calls.costs(by)
    assert [(row.name, row.forecasts, row.calls, row.usage.cost_usd) for row in rows] == EXPECTED[by]


async def test_a_row_of_costs_counts_tokens_requests_failures_and_the_wait_for_answers(spender: LedgerFixture) -> None:
    _, rain = await spender.ledger.calls.costs(CostGrouping.QUESTION)
    assert rain == CostRow(
        name="lantern:rain",
        forecasts=1,
        calls=3,
        failed=1,
        attempts=5,
        usage=ModelUsage(calls=3, tokens_in=3000, tokens_cached=1800, tokens_out=150, cost_usd=3.5),
        latency_s=3.0,
    )
    (lost,) = [row for row in await spender.ledger.calls.costs(CostGrouping.MODEL) if row.name == "guest:small"]
    assert (lost.failed, lost.attempts, lost.usage, lost.latency_s) == (1, 0, ModelUsage(cost_usd=16.0), 0.0)


async def test_costs_can_be_told_from_a_moment_on(spender: LedgerFixture) -> None:
    costs = spender.ledger.calls.costs
    assert [row.name for row in await costs(CostGrouping.DAY, since=NOON + DAY)] == ["2026-03-02"]
    assert await costs(CostGrouping.DAY, since=NOON + 2 * DAY) == ()


async def test_what_each_forecast_cost_is_readable_with_plain_sqlite(spender: LedgerFixture) -> None:
    rows = spender.rows("select scope, ref, calls, unanswered, attempts, tokens_in, cost_usd from cost order by scope")
    assert rows == [("f1", "lantern:rain", 3, 1, 5, 3000, 3.5), ("f2", "beacon:snow", 2, 1, 1, 1000, 24.0)]


async def test_many_calls_at_once_lose_nothing(ledger_fixture: LedgerFixture) -> None:
    await asyncio.gather(*(_called(ledger_fixture, str(n), 0.25, scope=f"f{n % 7}") for n in range(200)))
    assert sum(spent.cost_usd for spent in await ledger_fixture.ledger.calls.spent(since=NOON)) == 50.0
    assert ledger_fixture.rows("select distinct state from model_call") == [("done",)]
