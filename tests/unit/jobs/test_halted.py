import pytest

from bot.errors import Unavailable
from bot.jobs.halted import Halting
from bot.store import stops
from bot.store.stops import EVERYWHERE, Stop, StopEnd
from tests.unit.jobs.conftest import VENUE, House
from tests.unit.jobs.market import Shopfloor


@pytest.fixture
def floor(house: House) -> Shopfloor:
    return Shopfloor.of(house)


def halting(floor: Shopfloor) -> Halting:
    house = floor.house
    return Halting(
        ledger=house.ledger,
        brake=house.brake,
        clock=house.clock,
        lanes={VENUE: floor.lane},
        submitters={VENUE: floor.broker},
    )


async def kinds(floor: Shopfloor) -> list[str]:
    return [row.kind for row in await floor.house.ledger.leave.audited(limit=99)][::-1]


async def stop(floor: Shopfloor, venue: str) -> None:
    one = Stop(venue=venue, at=floor.house.clock.now(), why="odd", by="ann")
    await floor.house.ledger.leave.write(lambda database: stops.add(database, one))


async def test_while_nothing_is_halted_orders_rest(floor: Shopfloor) -> None:
    floor.broker.rest("a")
    assert await halting(floor).run() == "nothing is halted"
    assert (len(floor.broker.resting), floor.broker.reads) == (1, 0)


@pytest.mark.parametrize("venue", [VENUE, EVERYWHERE])
async def test_a_halt_takes_back_what_rests_with_an_audit_row_before_and_after(floor: Shopfloor, venue: str) -> None:
    floor.broker.rest("a")
    floor.broker.rest("b")
    await stop(floor, venue)
    job = halting(floor)
    assert await job.run() == "1 venues halted, 2 orders cancelled"
    assert floor.broker.resting == []
    assert await kinds(floor) == ["cancel", "cancelled"]
    for seconds in (0, 60, 60, 60, 60):
        await floor.house.clock.advance(seconds)
        assert await job.run() == "1 venues halted, 0 orders cancelled"
    # Empty at once and for two minutes, and then left alone.
    assert floor.broker.reads == 1 + 3


async def test_nothing_is_taken_back_where_the_credentials_were_refused(floor: Shopfloor) -> None:
    floor.broker.rest("a")
    made = Stop(venue=VENUE, at=floor.house.clock.now(), why="refused", ends=StopEnd.RENEWED)
    await floor.house.ledger.leave.write(lambda database: stops.add(database, made))
    assert await halting(floor).run() == "nothing is halted"
    assert (len(floor.broker.resting), floor.broker.reads) == (1, 0)


async def test_a_write_that_is_under_way_keeps_a_halted_venue_from_being_done(floor: Shopfloor) -> None:
    floor.broker.drop_reply()
    await floor.forecast("rain")
    await floor.submit()
    await stop(floor, VENUE)
    job, before = halting(floor), floor.broker.reads
    for _ in range(6):
        await job.run()
        await floor.house.clock.advance(60)
    # Every minute at first, then every two.
    assert floor.broker.reads - before == 4
    floor.broker.rest("late")
    assert await job.run() == "1 venues halted, 1 orders cancelled"


async def test_a_halt_of_another_venue_leaves_orders_alone(floor: Shopfloor) -> None:
    floor.broker.rest("a")
    await stop(floor, "torch")
    assert await halting(floor).run() == "nothing is halted"
    assert len(floor.broker.resting) == 1


async def test_the_stop_file_takes_back_orders_too_and_the_audit_hears_of_it_once(floor: Shopfloor) -> None:
    floor.broker.rest("a")
    (floor.house.path / "STOP").write_text("SIGUSR1\n")
    job = halting(floor)
    assert await job.run() == "1 venues halted, 1 orders cancelled"
    await job.run()
    assert await kinds(floor) == ["halt", "cancel", "cancelled"]
    [row] = await floor.house.ledger.leave.audited(limit=1, kind="halt")
    assert (row.actor, row.body["reason"]) == ("stop file", "SIGUSR1")


async def test_a_venue_that_does_not_answer_is_asked_until_it_does(floor: Shopfloor) -> None:
    floor.broker.rest("a")
    await stop(floor, VENUE)
    floor.broker.fault = Unavailable("down")
    job = halting(floor)
    assert await job.run() == "1 venues halted, 0 orders cancelled"
    floor.broker.fault = None
    assert await job.run() == "1 venues halted, 1 orders cancelled"


async def test_a_second_halt_takes_back_what_came_to_rest_between(floor: Shopfloor) -> None:
    job = halting(floor)
    await stop(floor, VENUE)
    await job.run()
    at = floor.house.clock.now()
    await floor.house.ledger.leave.write(lambda database: stops.resume(database, None, by="ann", at=at))
    await job.run()
    floor.broker.rest("c")
    await stop(floor, VENUE)
    assert await job.run() == "1 venues halted, 1 orders cancelled"
