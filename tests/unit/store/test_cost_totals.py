"""Costs of finished days, which a job sums, against the calls themselves, added up here, after any history."""

import statistics
from collections import defaultdict
from datetime import date, datetime, timedelta
from random import Random
from typing import Any

import pytest

from bot.evaluation.cost_report import start_of_day
from bot.store.cost_totals import SETTLED_AFTER, CostGrouping
from tests.unit.store.conftest import NOON, LedgerFixture

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
READ = """
select ref, substr(at, 1, 10), venue, forecaster, role, provider || ':' || model, scope, state,
  coalesce(cost_usd, worst_usd), attempts, tokens_in, latency_s from model_call order by rowid
"""
EVENTS = ("call", "call", "call", "settle", "lose", "wait", "sum", "go_back")
NAMES = (CostGrouping.QUESTION, CostGrouping.DAY, CostGrouping.VENUE, CostGrouping.FORECASTER, CostGrouping.ROLE)
PLACES = {by: place for place, by in enumerate((*NAMES, CostGrouping.MODEL))}


class RandomCalls:
    """Makes calls of forecasts that continue on any day, and sums days; time passes, and sometimes goes back."""

    def __init__(self, fixture: LedgerFixture, seed: int) -> None:
        self.fixture, self.random, self.now = fixture, Random(seed), NOON
        self.made = 0
        self.running: list[str] = []

    async def run(self, events: int) -> None:
        for _ in range(events):
            await getattr(
                self, self.random.choice(["call", "call", "call", "settle", "lose", "wait", "sum", "go_back"])
            )()

    async def call(self) -> None:
        draw, venue = self.random.choice, self.random.choice(["lantern", "beacon"])
        self.made += 1
        charge = {"venue": venue, "ref": f"{venue}:rain", "scope": f"{venue} {draw('abc')}"}
        reservation = self.fixture.reservation(
            f"call {self.made}",
            at=self.now,
            forecaster=draw(["plain", "bold"]),
            role=draw(["main", "judge"]),
            model=draw(["small", "large"]),
            **charge,
        )
        await self.fixture.ledger.calls.reserve(reservation)
        self.running.append(reservation.id)

    async def settle(self) -> None:
        if self.running:
            call = self.running.pop(self.random.randrange(len(self.running)))
            cost_usd, answer = self.random.choice([0.0, 0.25, 1.5]), self.random.choice([None, '"yes"'])
            settlement = self.fixture.settlement(cost_usd, answer=answer, latency_s=float(self.random.randrange(9)))
            await self.fixture.ledger.calls.settle(call, settlement)

    async def lose(self) -> None:
        if self.random.random() < 0.3:
            await self.fixture.ledger.calls.mark_lost(at=self.now)
            self.running.clear()

    async def wait(self) -> None:
        self.now += self.random.choice([HOUR, 6 * HOUR, DAY, 2 * DAY])

    async def go_back(self) -> None:
        if self.random.random() < 0.1:
            self.now -= 2 * DAY

    async def sum(self) -> None:
        await sum_days(self.fixture, self.now)


async def sum_days(fixture: LedgerFixture, now: datetime) -> int:
    return await fixture.ledger.calls.sum_finished_days(now=now)


def added_up(fixture: LedgerFixture, by: CostGrouping, since: date | None) -> dict[str, tuple[Any, ...]]:
    """Return for each group: forecasts, calls, calls without an answer, requests, tokens, dollars, mean latency."""
    groups = defaultdict(list)
    for row in fixture.rows(READ):
        if since is None or row[1] >= since.isoformat():
            groups[row[PLACES[by]]].append(row)
    return {
        name: (
            len({row[6] for row in rows}),
            len(rows),
            sum(row[7] in {"failed", "lost"} for row in rows),
            sum(row[9] for row in rows),
            sum(row[10] for row in rows),
            pytest.approx(sum(row[8] for row in rows)),
            pytest.approx(statistics.mean([row[11] for row in rows if row[7] == "done"] or [0.0])),
        )
        for name, rows in groups.items()
    }


@pytest.mark.parametrize("seed", range(4))
async def test_costs_equal_what_the_calls_give_after_any_history(ledger_fixture: LedgerFixture, seed: int) -> None:
    history, calls = RandomCalls(ledger_fixture, seed), ledger_fixture.ledger.calls
    most_summed = 0
    for _ in range(6):
        await history.run(30)
        assert ledger_fixture.faults() == {}
        for since in (None, *((NOON + days * DAY).date() for days in range(0, 30, 3))):
            at = None if since is None else start_of_day(since)
            for by in CostGrouping:
                found = {
                    row.name: (
                        *(row.forecasts, row.calls, row.failed, row.attempts, row.usage.tokens_in),
                        *(row.usage.cost_usd, row.latency_s),
                    )
                    for row in await calls.costs(by, since=at)
                }
                assert found == added_up(ledger_fixture, by, since)
            rows = [row for row in ledger_fixture.rows(READ) if since is None or row[1] >= since.isoformat()]
            assert await calls.count_forecasts(since=at) == len({row[6] for row in rows})
            billed = [row[8] for row in rows if row[7] == "lost" or (row[7] == "failed" and row[8] > 0)]
            unanswered = await calls.unanswered_costs(since=at)
            assert unanswered.calls == len(billed)
            assert unanswered.cost_usd == pytest.approx(sum(billed))
        ((summed,),) = ledger_fixture.rows("select count(distinct day) from cost_day")
        most_summed = max(most_summed, summed)
    assert most_summed > 2


async def test_a_day_is_summed_once_it_is_over_and_all_its_calls_have_ended(ledger_fixture: LedgerFixture) -> None:
    midnight = start_of_day((NOON + DAY).date())
    await ledger_fixture.ledger.calls.reserve(ledger_fixture.reservation("a", at=midnight - HOUR))
    assert await sum_days(ledger_fixture, midnight + DAY) == 0
    await ledger_fixture.ledger.calls.settle("a", ledger_fixture.settlement(0.5))
    assert await sum_days(ledger_fixture, midnight + SETTLED_AFTER - timedelta(seconds=1)) == 0
    assert await sum_days(ledger_fixture, midnight + SETTLED_AFTER) == 1
    assert await sum_days(ledger_fixture, midnight + DAY) == 0


async def test_a_call_that_arrives_late_is_counted_too(ledger_fixture: LedgerFixture) -> None:
    calls = ledger_fixture.ledger.calls
    for name, at in (("a", NOON), ("b", NOON + DAY), ("c", NOON + 2 * DAY)):
        await calls.reserve(ledger_fixture.reservation(name, at=at))
        await calls.settle(name, ledger_fixture.settlement(0.5))
    assert await sum_days(ledger_fixture, NOON + 4 * DAY) == 3
    await calls.reserve(ledger_fixture.reservation("late", at=NOON + DAY + HOUR))
    assert [row.calls for row in await calls.costs(CostGrouping.DAY)] == [1, 2, 1]
    await calls.settle("late", ledger_fixture.settlement(0.5))
    assert await sum_days(ledger_fixture, NOON + 4 * DAY) == 2
    assert ledger_fixture.faults() == {}


async def test_costs_of_a_part_of_a_day_are_read_from_its_calls(ledger_fixture: LedgerFixture) -> None:
    calls = ledger_fixture.ledger.calls
    for name, at in (("early", NOON - HOUR), ("late", NOON + HOUR)):
        await calls.reserve(ledger_fixture.reservation(name, at=at))
        await calls.settle(name, ledger_fixture.settlement(0.5))
    assert await sum_days(ledger_fixture, NOON + 4 * DAY) == 1
    assert [row.calls for row in await calls.costs(CostGrouping.MODEL, since=NOON)] == [1]
    with pytest.raises(ValueError, match="beginning of a day"):
        await calls.count_forecasts(since=NOON)
