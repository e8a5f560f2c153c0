import pytest

from bot.core.orders import Account
from bot.core.submissions import ExecutionMode, HoldDecision, SendDecision
from bot.execution.preflight import PreflightContext, PreflightDecision, preview_decisions
from bot.execution.submission_planning import DecisionContextBuilder
from tests.unit.jobs.conftest import VENUE, JobsFixture
from tests.unit.jobs.trading_fixture import TradingFixture


@pytest.fixture
def trading_fixture(jobs_fixture: JobsFixture) -> TradingFixture:
    return TradingFixture.of(jobs_fixture)


async def looked(trading_fixture: TradingFixture, *, cash: float | None = 100.0) -> dict[str, PreflightDecision]:
    jobs_fixture = trading_fixture.jobs_fixture
    now = jobs_fixture.clock.now()
    around = DecisionContextBuilder(
        ledger=jobs_fixture.ledger,
        execution_policies={VENUE: trading_fixture.execution_policy},
        planners={VENUE: trading_fixture.wants},
        readiness=trading_fixture.readiness,
        permissions=await jobs_fixture.ledger.permissions.read_status({VENUE: "me"}, now=now),
    )
    account = None if cash is None else Account(at=now, currency="COIN", cash=cash)
    parts = PreflightContext(
        context_builder=around,
        gate=trading_fixture.gate,
        clock=jobs_fixture.clock,
        reader=jobs_fixture.venue,
        accounts={} if account is None else {VENUE: account},
    )
    return {one.context.forecast.ref.key: one for one in await preview_decisions(parts, VENUE)}


async def test_what_is_shown_is_what_is_then_sent(trading_fixture: TradingFixture) -> None:
    trading_fixture.bound(total=25.0)
    await trading_fixture.forecast("rain", "snow", "wind", "fog")
    shown = await looked(trading_fixture)
    costs = sorted(
        one.decision.intent.order.cost
        for one in shown.values()
        if isinstance(one.decision, SendDecision) and one.decision.intent.order
    )
    assert costs == pytest.approx([6.25] * 4)
    await trading_fixture.submit()
    assert sorted(trading_fixture.bought()) == pytest.approx(costs)


async def test_nothing_is_written_by_looking(trading_fixture: TradingFixture) -> None:
    await trading_fixture.forecast("rain")
    await looked(trading_fixture)
    assert len(await trading_fixture.jobs_fixture.ledger.forecasts.undecided(9)) == 1
    assert await trading_fixture.whys() == []
    assert trading_fixture.broker.reads == 0


async def test_each_thing_that_is_held_has_its_reason(trading_fixture: TradingFixture) -> None:
    trading_fixture.bound(ExecutionMode.LIVE)
    await trading_fixture.forecast("rain")
    held = (await looked(trading_fixture))["rain"].decision
    assert isinstance(held, HoldDecision)
    assert "not armed" in held.why
    await trading_fixture.arm()
    assert isinstance((await looked(trading_fixture))["rain"].decision, SendDecision)


async def test_what_was_held_until_later_is_looked_at_too(trading_fixture: TradingFixture) -> None:
    trading_fixture.wants.stake = 0.0
    await trading_fixture.forecast("rain")
    await trading_fixture.submit()
    trading_fixture.wants.stake = 10.0
    assert isinstance((await looked(trading_fixture))["rain"].decision, SendDecision)


async def test_without_an_account_no_order_is_sized(trading_fixture: TradingFixture) -> None:
    await trading_fixture.forecast("rain")
    held = (await looked(trading_fixture, cash=None))["rain"].decision
    assert isinstance(held, HoldDecision)
    assert "its account was never read" in held.why


async def test_cash_is_shared_by_all_that_is_shown(trading_fixture: TradingFixture) -> None:
    await trading_fixture.forecast("rain", "snow")
    shown = await looked(trading_fixture, cash=15.0)
    orders = [one.decision.intent.order for one in shown.values() if isinstance(one.decision, SendDecision)]
    assert [order.cost for order in orders if order is not None] == [7.5, 7.5]
