from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from bot.core.errors import ServiceUnavailableError
from bot.core.operator_requests import HaltSubmissions
from bot.jobs.halts import HaltEnforcer
from bot.jobs.privileged_requests import PrivilegedRequestContext, handle_privileged_request
from bot.store import permissions
from bot.store.permissions import ALL_VENUES, HaltEndCondition, SubmissionHalt
from tests.unit.jobs.conftest import VENUE, JobsFixture
from tests.unit.jobs.trading_fixture import FakeTradingAccount, TradingFixture


@pytest.fixture
def trading_fixture(jobs_fixture: JobsFixture) -> TradingFixture:
    return TradingFixture.of(jobs_fixture)


def halting(trading_fixture: TradingFixture) -> HaltEnforcer:
    jobs_fixture = trading_fixture.jobs_fixture
    return HaltEnforcer(
        ledger=jobs_fixture.ledger,
        kill_switch=jobs_fixture.kill_switch,
        clock=jobs_fixture.clock,
        execution_policies={VENUE: trading_fixture.execution_policy},
        submitters={VENUE: trading_fixture.broker},
    )


async def rest(trading_fixture: TradingFixture, *keys: str) -> list[str]:
    """Place an order on each of these questions, and have it rest; return their names at the venue."""
    names = []
    for key in keys:
        await trading_fixture.forecast(key)
        assert await trading_fixture.submit() == "1 planned, 0 held, 1 acknowledged"
        names.append(f"write {len(trading_fixture.broker.writes)}")
        trading_fixture.broker.rest(names[-1])
    return names


async def kinds(trading_fixture: TradingFixture) -> list[str]:
    return [row.kind for row in await trading_fixture.jobs_fixture.ledger.permissions.recent_audit_rows(limit=99)][::-1]


async def stop(trading_fixture: TradingFixture, venue: str) -> None:
    one = SubmissionHalt(venue=venue, at=trading_fixture.jobs_fixture.clock.now(), why="odd", by="ann")
    await trading_fixture.jobs_fixture.ledger.permissions.write(lambda database: permissions.add_halt(database, one))


async def test_while_nothing_is_halted_orders_rest(trading_fixture: TradingFixture) -> None:
    trading_fixture.broker.rest("a")
    assert await halting(trading_fixture).enforce_halts() == "nothing is halted"
    assert (len(trading_fixture.broker.resting), trading_fixture.broker.reads) == (1, 0)


@pytest.mark.parametrize("venue", [VENUE, ALL_VENUES])
async def test_a_halt_takes_back_what_rests_with_an_audit_row_before_and_after(
    trading_fixture: TradingFixture, venue: str
) -> None:
    await rest(trading_fixture, "rain", "snow")
    before = trading_fixture.broker.reads
    await stop(trading_fixture, venue)
    job = halting(trading_fixture)
    assert await job.enforce_halts() == "1 venues halted, 2 orders cancelled"
    assert trading_fixture.broker.resting == []
    assert await kinds(trading_fixture) == ["cancel", "cancelled"]
    for seconds in (0, 60, 60, 60, 60):
        await trading_fixture.jobs_fixture.clock.advance(seconds)
        assert await job.enforce_halts() == "1 venues halted, 0 orders cancelled"
    # Empty at once and for two minutes, and then left alone.
    assert trading_fixture.broker.reads - before == 1 + 3


class UnyieldingAccount(FakeTradingAccount):
    """Cancels nothing."""

    async def cancel(self, order_ids: Sequence[str] | None) -> Sequence[str]:
        return []


async def test_orders_that_still_rest_are_not_logged_as_cancelled(jobs_fixture: JobsFixture) -> None:
    trading_fixture = TradingFixture(jobs_fixture, UnyieldingAccount(jobs_fixture.clock.now))
    await rest(trading_fixture, "rain")
    await stop(trading_fixture, VENUE)
    with capture_logs() as logs:
        assert await halting(trading_fixture).enforce_halts() == "1 venues halted, 0 orders cancelled"
    assert [(one["event"], one["orders"]) for one in logs] == [("open orders were not cancelled", 1)]


async def test_nothing_is_taken_back_where_the_credentials_were_refused(trading_fixture: TradingFixture) -> None:
    trading_fixture.broker.rest("a")
    made = SubmissionHalt(
        venue=VENUE, at=trading_fixture.jobs_fixture.clock.now(), why="refused", end_condition=HaltEndCondition.RENEWED
    )
    await trading_fixture.jobs_fixture.ledger.permissions.write(lambda database: permissions.add_halt(database, made))
    assert await halting(trading_fixture).enforce_halts() == "nothing is halted"
    assert (len(trading_fixture.broker.resting), trading_fixture.broker.reads) == (1, 0)


async def test_a_write_that_is_under_way_keeps_a_halted_venue_from_being_done(trading_fixture: TradingFixture) -> None:
    trading_fixture.broker.lose_next_reply()
    await trading_fixture.forecast("rain")
    await trading_fixture.submit()
    await stop(trading_fixture, VENUE)
    job, before = halting(trading_fixture), trading_fixture.broker.reads
    for _ in range(6):
        await job.enforce_halts()
        await trading_fixture.jobs_fixture.clock.advance(60)
    # Every minute at first, then every two.
    assert trading_fixture.broker.reads - before == 4
    # Nobody has heard its name, and it is where one in doubt would be; the other one is somebody else's.
    trading_fixture.broker.rest("late", contract="rain")
    trading_fixture.broker.rest("other")
    assert await job.enforce_halts() == "1 venues halted, 1 orders cancelled"
    assert [order.id for order in trading_fixture.broker.resting] == ["other"]


async def test_a_halt_of_another_venue_leaves_orders_alone(trading_fixture: TradingFixture) -> None:
    trading_fixture.broker.rest("a")
    await stop(trading_fixture, "torch")
    assert await halting(trading_fixture).enforce_halts() == "nothing is halted"
    assert len(trading_fixture.broker.resting) == 1


async def test_the_stop_file_takes_back_orders_too_and_the_audit_hears_of_it_once(
    trading_fixture: TradingFixture,
) -> None:
    await rest(trading_fixture, "rain")
    (trading_fixture.jobs_fixture.path / "STOP").write_text("SIGUSR1\n")
    job = halting(trading_fixture)
    assert await job.enforce_halts() == "1 venues halted, 1 orders cancelled"
    await job.enforce_halts()
    assert await kinds(trading_fixture) == ["halt", "cancel", "cancelled"]
    [row] = await trading_fixture.jobs_fixture.ledger.permissions.recent_audit_rows(limit=1, kind="halt")
    assert (row.actor, row.body["reason"]) == ("stop file", "SIGUSR1")


async def test_a_venue_that_does_not_answer_is_asked_until_it_does(trading_fixture: TradingFixture) -> None:
    await rest(trading_fixture, "rain")
    await stop(trading_fixture, VENUE)
    trading_fixture.broker.fault = ServiceUnavailableError("down")
    job = halting(trading_fixture)
    assert await job.enforce_halts() == "1 venues halted, 0 orders cancelled"
    trading_fixture.broker.fault = None
    assert await job.enforce_halts() == "1 venues halted, 1 orders cancelled"


async def test_a_second_halt_takes_back_what_came_to_rest_between(trading_fixture: TradingFixture) -> None:
    job = halting(trading_fixture)
    await stop(trading_fixture, VENUE)
    await job.enforce_halts()
    at = trading_fixture.jobs_fixture.clock.now()
    await trading_fixture.jobs_fixture.ledger.permissions.write(
        lambda database: permissions.resume_submissions(database, None, by="ann", at=at)
    )
    await job.enforce_halts()
    await rest(trading_fixture, "rain")
    await stop(trading_fixture, VENUE)
    assert await job.enforce_halts() == "1 venues halted, 1 orders cancelled"


async def test_orders_of_others_on_the_account_rest_until_somebody_asks_for_all(
    trading_fixture: TradingFixture,
) -> None:
    [own] = await rest(trading_fixture, "rain")
    trading_fixture.broker.rest("by hand")
    await stop(trading_fixture, VENUE)
    job = halting(trading_fixture)
    assert await job.enforce_halts() == "1 venues halted, 1 orders cancelled"
    for _ in range(5):
        await trading_fixture.jobs_fixture.clock.advance(60)
        await job.enforce_halts()
    assert [order.id for order in trading_fixture.broker.resting] == ["by hand"]
    [row] = await trading_fixture.jobs_fixture.ledger.permissions.recent_audit_rows(limit=9, kind="cancelled")
    assert row.body["orders"] == own
    asked = HaltSubmissions(
        by="ann", asked_at=trading_fixture.jobs_fixture.clock.now(), reason="all of it", venue=VENUE, all_orders=True
    )
    jobs_fixture = trading_fixture.jobs_fixture
    permitting = PrivilegedRequestContext(
        ledger=jobs_fixture.ledger,
        clock=jobs_fixture.clock,
        stop_file=jobs_fixture.path / "STOP",
        execution_policies={VENUE: trading_fixture.execution_policy},
    )
    await handle_privileged_request(permitting, asked)
    assert await job.enforce_halts() == "1 venues halted, 1 orders cancelled"
    assert trading_fixture.broker.resting == []
