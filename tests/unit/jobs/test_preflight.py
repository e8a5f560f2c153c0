import pytest

from bot.core.orders import Account
from bot.core.submissions import ExecutionMode, HoldDecision, SendDecision
from bot.execution.preflight import PreflightContext, PreflightDecision, preview_decisions
from bot.execution.submission_planning import DecisionContextBuilder
from tests.unit.jobs.conftest import VENUE, JobsFixture
from tests.unit.jobs.trading_fixture import TradingFixture


@pytest.fixture
def floor(house: JobsFixture) -> TradingFixture:
    return TradingFixture.of(house)


async def looked(floor: TradingFixture, *, cash: float | None = 100.0) -> dict[str, PreflightDecision]:
    house = floor.house
    now = house.clock.now()
    around = DecisionContextBuilder(
        ledger=house.ledger,
        execution_policies={VENUE: floor.execution_policy},
        planners={VENUE: floor.wants},
        readiness=floor.readiness,
        permissions=await house.ledger.permissions.read_status({VENUE: "me"}, now=now),
    )
    account = None if cash is None else Account(at=now, currency="COIN", cash=cash)
    parts = PreflightContext(
        context_builder=around,
        gate=floor.gate,
        clock=house.clock,
        reader=house.venue,
        accounts={} if account is None else {VENUE: account},
    )
    return {one.context.forecast.ref.key: one for one in await preview_decisions(parts, VENUE)}


async def test_what_is_shown_is_what_is_then_sent(floor: TradingFixture) -> None:
    floor.bound(total=25.0)
    await floor.forecast("rain", "snow", "wind", "fog")
    shown = await looked(floor)
    costs = sorted(
        one.decision.intent.order.cost
        for one in shown.values()
        if isinstance(one.decision, SendDecision) and one.decision.intent.order
    )
    assert costs == pytest.approx([6.25] * 4)
    await floor.submit()
    assert sorted(floor.bought()) == pytest.approx(costs)


async def test_nothing_is_written_by_looking(floor: TradingFixture) -> None:
    await floor.forecast("rain")
    await looked(floor)
    assert len(await floor.house.ledger.forecasts.undecided(9)) == 1
    assert await floor.whys() == []
    assert floor.broker.reads == 0


async def test_each_thing_that_is_held_has_its_reason(floor: TradingFixture) -> None:
    floor.bound(ExecutionMode.LIVE)
    await floor.forecast("rain")
    held = (await looked(floor))["rain"].decision
    assert isinstance(held, HoldDecision)
    assert "not armed" in held.why
    await floor.arm()
    assert isinstance((await looked(floor))["rain"].decision, SendDecision)


async def test_what_was_held_until_later_is_looked_at_too(floor: TradingFixture) -> None:
    floor.wants.stake = 0.0
    await floor.forecast("rain")
    await floor.submit()
    floor.wants.stake = 10.0
    assert isinstance((await looked(floor))["rain"].decision, SendDecision)


async def test_without_an_account_no_order_is_sized(floor: TradingFixture) -> None:
    await floor.forecast("rain")
    held = (await looked(floor, cash=None))["rain"].decision
    assert isinstance(held, HoldDecision)
    assert "its account was never read" in held.why


async def test_cash_is_shared_by_all_that_is_shown(floor: TradingFixture) -> None:
    await floor.forecast("rain", "snow")
    shown = await looked(floor, cash=15.0)
    orders = [one.decision.intent.order for one in shown.values() if isinstance(one.decision, SendDecision)]
    assert [order.cost for order in orders if order is not None] == [7.5, 7.5]
