import pytest

from bot.domain.order import Account
from bot.domain.submission import Hold, Mode, Send
from bot.jobs.cases import Around
from bot.jobs.preflight import Look, Preflight, look
from tests.unit.jobs.conftest import VENUE, House
from tests.unit.jobs.market import Shopfloor


@pytest.fixture
def floor(house: House) -> Shopfloor:
    return Shopfloor.of(house)


async def looked(floor: Shopfloor, *, cash: float | None = 100.0) -> dict[str, Look]:
    house = floor.house
    now = house.clock.now()
    around = Around(
        ledger=house.ledger,
        lanes={VENUE: floor.lane},
        planners={VENUE: floor.wants},
        readiness=floor.readiness,
        leaves=await house.ledger.leave.standing({VENUE: "me"}, now=now),
    )
    account = None if cash is None else Account(at=now, currency="COIN", cash=cash)
    parts = Preflight(
        around=around,
        gate=floor.gate,
        clock=house.clock,
        reader=house.venue,
        accounts={} if account is None else {VENUE: account},
    )
    return {one.case.forecast.ref.key: one for one in await look(parts, VENUE)}


async def test_what_is_shown_is_what_is_then_sent(floor: Shopfloor) -> None:
    floor.bound(total=25.0)
    await floor.forecast("rain", "snow", "wind", "fog")
    shown = await looked(floor)
    costs = sorted(
        one.decision.intent.order.cost
        for one in shown.values()
        if isinstance(one.decision, Send) and one.decision.intent.order
    )
    assert costs == pytest.approx([6.25] * 4)
    await floor.submit()
    assert sorted(floor.bought()) == pytest.approx(costs)


async def test_nothing_is_written_by_looking(floor: Shopfloor) -> None:
    await floor.forecast("rain")
    await looked(floor)
    assert len(await floor.house.ledger.forecasts.undecided(9)) == 1
    assert await floor.whys() == []
    assert floor.broker.reads == 0


async def test_each_thing_that_is_held_has_its_reason(floor: Shopfloor) -> None:
    floor.bound(Mode.LIVE)
    await floor.forecast("rain")
    held = (await looked(floor))["rain"].decision
    assert isinstance(held, Hold)
    assert "not armed" in held.why
    await floor.arm()
    assert isinstance((await looked(floor))["rain"].decision, Send)


async def test_what_was_held_until_later_is_looked_at_too(floor: Shopfloor) -> None:
    floor.wants.stake = 0.0
    await floor.forecast("rain")
    await floor.submit()
    floor.wants.stake = 10.0
    assert isinstance((await looked(floor))["rain"].decision, Send)


async def test_without_an_account_no_order_is_sized(floor: Shopfloor) -> None:
    await floor.forecast("rain")
    held = (await looked(floor, cash=None))["rain"].decision
    assert isinstance(held, Hold)
    assert "its account was never read" in held.why


async def test_cash_is_shared_by_all_that_is_shown(floor: Shopfloor) -> None:
    await floor.forecast("rain", "snow")
    shown = await looked(floor, cash=15.0)
    orders = [one.decision.intent.order for one in shown.values() if isinstance(one.decision, Send)]
    assert [order.cost for order in orders if order is not None] == [7.5, 7.5]
