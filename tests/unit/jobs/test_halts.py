import pytest

from bot.core.errors import ServiceUnavailableError
from bot.core.operator_requests import HaltSubmissions
from bot.jobs.halts import HaltEnforcer
from bot.jobs.privileged_requests import PrivilegedRequestContext, handle_privileged_request
from bot.store import permissions
from bot.store.permissions import ALL_VENUES, HaltEndCondition, SubmissionHalt
from tests.unit.jobs.conftest import VENUE, JobsFixture
from tests.unit.jobs.trading_fixture import TradingFixture


@pytest.fixture
def floor(house: JobsFixture) -> TradingFixture:
    return TradingFixture.of(house)


def halting(floor: TradingFixture) -> HaltEnforcer:
    house = floor.house
    return HaltEnforcer(
        ledger=house.ledger,
        kill_switch=house.brake,
        clock=house.clock,
        execution_policies={VENUE: floor.execution_policy},
        submitters={VENUE: floor.broker},
    )


async def rest(floor: TradingFixture, *keys: str) -> list[str]:
    """Place an order on each of these questions, and have it rest; return their names at the venue."""
    names = []
    for key in keys:
        await floor.forecast(key)
        assert await floor.submit() == "1 planned, 0 held, 1 acknowledged"
        names.append(f"write {len(floor.broker.writes)}")
        floor.broker.rest(names[-1])
    return names


async def kinds(floor: TradingFixture) -> list[str]:
    return [row.kind for row in await floor.house.ledger.permissions.recent_audit_rows(limit=99)][::-1]


async def stop(floor: TradingFixture, venue: str) -> None:
    one = SubmissionHalt(venue=venue, at=floor.house.clock.now(), why="odd", by="ann")
    await floor.house.ledger.permissions.write(lambda database: permissions.add_halt(database, one))


async def test_while_nothing_is_halted_orders_rest(floor: TradingFixture) -> None:
    floor.broker.rest("a")
    assert await halting(floor).enforce_halts() == "nothing is halted"
    assert (len(floor.broker.resting), floor.broker.reads) == (1, 0)


@pytest.mark.parametrize("venue", [VENUE, ALL_VENUES])
async def test_a_halt_takes_back_what_rests_with_an_audit_row_before_and_after(
    floor: TradingFixture, venue: str
) -> None:
    await rest(floor, "rain", "snow")
    before = floor.broker.reads
    await stop(floor, venue)
    job = halting(floor)
    assert await job.enforce_halts() == "1 venues halted, 2 orders cancelled"
    assert floor.broker.resting == []
    assert await kinds(floor) == ["cancel", "cancelled"]
    for seconds in (0, 60, 60, 60, 60):
        await floor.house.clock.advance(seconds)
        assert await job.enforce_halts() == "1 venues halted, 0 orders cancelled"
    # Empty at once and for two minutes, and then left alone.
    assert floor.broker.reads - before == 1 + 3


async def test_nothing_is_taken_back_where_the_credentials_were_refused(floor: TradingFixture) -> None:
    floor.broker.rest("a")
    made = SubmissionHalt(
        venue=VENUE, at=floor.house.clock.now(), why="refused", end_condition=HaltEndCondition.RENEWED
    )
    await floor.house.ledger.permissions.write(lambda database: permissions.add_halt(database, made))
    assert await halting(floor).enforce_halts() == "nothing is halted"
    assert (len(floor.broker.resting), floor.broker.reads) == (1, 0)


async def test_a_write_that_is_under_way_keeps_a_halted_venue_from_being_done(floor: TradingFixture) -> None:
    floor.broker.lose_next_reply()
    await floor.forecast("rain")
    await floor.submit()
    await stop(floor, VENUE)
    job, before = halting(floor), floor.broker.reads
    for _ in range(6):
        await job.enforce_halts()
        await floor.house.clock.advance(60)
    # Every minute at first, then every two.
    assert floor.broker.reads - before == 4
    # Nobody has heard its name, and it is where one in doubt would be; the other one is somebody else's.
    floor.broker.rest("late", contract="rain")
    floor.broker.rest("other")
    assert await job.enforce_halts() == "1 venues halted, 1 orders cancelled"
    assert [order.id for order in floor.broker.resting] == ["other"]


async def test_a_halt_of_another_venue_leaves_orders_alone(floor: TradingFixture) -> None:
    floor.broker.rest("a")
    await stop(floor, "torch")
    assert await halting(floor).enforce_halts() == "nothing is halted"
    assert len(floor.broker.resting) == 1


async def test_the_stop_file_takes_back_orders_too_and_the_audit_hears_of_it_once(floor: TradingFixture) -> None:
    await rest(floor, "rain")
    (floor.house.path / "STOP").write_text("SIGUSR1\n")
    job = halting(floor)
    assert await job.enforce_halts() == "1 venues halted, 1 orders cancelled"
    await job.enforce_halts()
    assert await kinds(floor) == ["halt", "cancel", "cancelled"]
    [row] = await floor.house.ledger.permissions.recent_audit_rows(limit=1, kind="halt")
    assert (row.actor, row.body["reason"]) == ("stop file", "SIGUSR1")


async def test_a_venue_that_does_not_answer_is_asked_until_it_does(floor: TradingFixture) -> None:
    await rest(floor, "rain")
    await stop(floor, VENUE)
    floor.broker.fault = ServiceUnavailableError("down")
    job = halting(floor)
    assert await job.enforce_halts() == "1 venues halted, 0 orders cancelled"
    floor.broker.fault = None
    assert await job.enforce_halts() == "1 venues halted, 1 orders cancelled"


async def test_a_second_halt_takes_back_what_came_to_rest_between(floor: TradingFixture) -> None:
    job = halting(floor)
    await stop(floor, VENUE)
    await job.enforce_halts()
    at = floor.house.clock.now()
    await floor.house.ledger.permissions.write(
        lambda database: permissions.resume_submissions(database, None, by="ann", at=at)
    )
    await job.enforce_halts()
    await rest(floor, "rain")
    await stop(floor, VENUE)
    assert await job.enforce_halts() == "1 venues halted, 1 orders cancelled"


async def test_orders_of_others_on_the_account_rest_until_somebody_asks_for_all(floor: TradingFixture) -> None:
    [own] = await rest(floor, "rain")
    floor.broker.rest("by hand")
    await stop(floor, VENUE)
    job = halting(floor)
    assert await job.enforce_halts() == "1 venues halted, 1 orders cancelled"
    for _ in range(5):
        await floor.house.clock.advance(60)
        await job.enforce_halts()
    assert [order.id for order in floor.broker.resting] == ["by hand"]
    [row] = await floor.house.ledger.permissions.recent_audit_rows(limit=9, kind="cancelled")
    assert row.body["orders"] == own
    asked = HaltSubmissions(
        by="ann", asked_at=floor.house.clock.now(), reason="all of it", venue=VENUE, all_orders=True
    )
    house = floor.house
    permitting = PrivilegedRequestContext(
        ledger=house.ledger,
        clock=house.clock,
        stop_file=house.path / "STOP",
        execution_policies={VENUE: floor.execution_policy},
    )
    await handle_privileged_request(permitting, asked)
    assert await job.enforce_halts() == "1 venues halted, 1 orders cancelled"
    assert floor.broker.resting == []
