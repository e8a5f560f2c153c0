"""Closing positions: for a person and by policy, through the same gate; told of as it was, and not bought back."""

import sqlite3
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from bot.config.venue_schema import TradingSection
from bot.core.errors import ServiceUnavailableError
from bot.core.operator_requests import ClosePositions, PositionToClose
from bot.core.orders import Account, ClosingProposal, ContractSide, Order, OrderPlan, OrderSide, Position
from bot.core.permissions import UserRole
from bot.core.questions import QuestionRef
from bot.core.submissions import ExecutionMode
from bot.jobs.live_readiness import refresh_readiness
from bot.jobs.position_closing import ClosingContext, close_requested_positions, exit_reason
from bot.store import permissions, requests
from bot.store.event_log import ALERT_EVENT
from bot.store.permissions import PrincipalRecord
from bot.store.requests import CLOSING_EVENT_KIND, ClosingResult, ClosingState
from bot.testing.exchange import FakeExchange, WriteFailure
from tests.unit.jobs.conftest import VENUE, JobsFixture
from tests.unit.jobs.test_live_readiness import preparing
from tests.unit.jobs.trading_fixture import FakeOrderPlanner, TradingFixture


class FakeClosingPlanner(FakeOrderPlanner):
    """A planner that also sells, all at ``bid``."""

    bid = 0.5
    changes: ClassVar[dict[str, Any]] = {}
    closing_fault: Exception | None = None

    async def plan_closing(self, wish: ClosingProposal) -> OrderPlan:
        if self.closing_fault is not None:
            raise self.closing_fault
        order = Order(
            contract=wish.position.contract,
            leg=wish.position.leg,
            side=OrderSide.SELL,
            shares=wish.position.shares,
            limit=self.bid,
            cost=0.0,
            expected=self.bid,
            currency="COIN",
        )
        return OrderPlan(why="sell", order=replace(order, **self.changes))


class FakePricedExchange(FakeExchange):
    """Positions with the price that is bid; shares of the keys of questions."""

    bid: float | None = 0.5

    async def account(self) -> Account:
        has = await super().account()
        held = tuple(replace(one, ref=QuestionRef(VENUE, one.contract), mark=self.bid) for one in has.positions)
        return replace(has, positions=held)


class ClosingFixture:
    """A venue where positions are bought and closed."""

    def __init__(self, jobs_fixture: JobsFixture, folder: Path) -> None:
        self.trading_fixture, self.folder = TradingFixture.of(jobs_fixture), folder
        self.exchange = FakePricedExchange(jobs_fixture.clock)
        self.trading_fixture.broker = self.exchange  # type: ignore[assignment]
        self.trading_fixture.wants = FakeClosingPlanner()
        self.jobs_fixture = jobs_fixture

    @property
    def closing(self) -> ClosingContext:
        return ClosingContext(
            folder=self.folder,
            ledger=self.jobs_fixture.ledger,
            execution_policies={VENUE: self.trading_fixture.execution_policy},
            gate=self.trading_fixture.gate,
            outbox=self.trading_fixture.outbox,
            clock=self.jobs_fixture.clock,
            planners={VENUE: self.trading_fixture.wants},
            readiness=self.trading_fixture.readiness,
            refresh_readiness=self.look,
        )

    async def look(self) -> None:
        if self.trading_fixture.look is not None:
            await self.trading_fixture.look()

    async def bought(self, *keys: str) -> None:
        await self.trading_fixture.forecast(*keys)
        await self.trading_fixture.submit()
        assert len(self.exchange.placed_orders) == len(keys)

    async def close(self, *keys: str, by: str = "ann") -> list[ClosingResult]:
        await self.jobs_fixture.clock.advance(1)
        targets = tuple(PositionToClose(venue=VENUE, contract=key, leg=ContractSide.NO) for key in keys)
        path = requests.request_closing(
            self.folder, ClosePositions(by=by, asked_at=self.jobs_fixture.clock.now(), targets=targets)
        )
        await close_requested_positions(self.closing)
        return await requests.read_closing_results(self.jobs_fixture.ledger, path.stem)

    async def submit(self) -> str:
        return await self.trading_fixture.told(closing=self.closing)

    @property
    def sides(self) -> list[OrderSide]:
        return [one.order.side for one in self.exchange.placed_orders]


@pytest.fixture
def trading_fixture(jobs_fixture: JobsFixture, tmp_path: Path) -> ClosingFixture:
    return ClosingFixture(jobs_fixture, tmp_path)


async def test_a_position_is_sold_for_a_person_and_the_decision_is_on_record(trading_fixture: ClosingFixture) -> None:
    await trading_fixture.bought("rain")
    [result] = await trading_fixture.close("rain")
    assert (result.state, result.sold, result.cash) == (ClosingState.CLOSED, 20.0, 10.0)
    assert trading_fixture.sides == [OrderSide.BUY, OrderSide.SELL]
    assert (await trading_fixture.trading_fixture.whys("rain"))[-1] == "closing: ann asked for it"
    assert (await trading_fixture.exchange.account()).positions == ()


async def test_who_closes_what_is_in_the_audit_before_the_sale_but_for_paper(trading_fixture: ClosingFixture) -> None:
    fixture, audit = trading_fixture.trading_fixture, trading_fixture.jobs_fixture.ledger.permissions
    await trading_fixture.bought("hail", "rain", "snow")
    await trading_fixture.close("hail")
    assert await audit.recent_audit_rows(limit=10, kind="close") == []
    fixture.bound(ExecutionMode.LIVE)
    await fixture.arm()
    results = await trading_fixture.close("rain", "snow")
    assert [one.state for one in results] == [ClosingState.CLOSED, ClosingState.CLOSED]
    [row] = await audit.recent_audit_rows(limit=10, kind="close")
    assert (row.venue, row.actor, row.body) == (VENUE, "ann", {"positions": "no rain; no snow", "count": "2"})
    later = [one.kind for one in await audit.recent_audit_rows(limit=20) if one.seq > row.seq]
    assert later.count("write") == 2


async def test_nothing_is_sold_with_a_clock_that_was_set_since_the_last_look(trading_fixture: ClosingFixture) -> None:
    fixture = trading_fixture.trading_fixture
    fixture.bound(ExecutionMode.LIVE)
    await fixture.arm()
    await trading_fixture.bought("rain")
    parts = preparing(fixture, fixture.readiness)
    for skew_s, state in ((60.0, ClosingState.HELD), (0.2, ClosingState.CLOSED)):
        fixture.look = partial(refresh_readiness, replace(parts, clock_skew=partial(float, skew_s)))
        [result] = await trading_fixture.close("rain")
        assert (result.state, "clock" in result.why) == (state, state is ClosingState.HELD)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"shares": 20.1}, "it would sell 20.1 no of rain, and 20 are held"),
        ({"contract": "snow"}, "it would sell 20 no of snow, and 0 are held"),
        ({"leg": ContractSide.YES}, "it would sell 20 yes of rain, and 0 are held"),
        ({"currency": "SHELL"}, "the order is in SHELL, and the account in COIN"),
        ({"side": OrderSide.BUY, "cost": 10.0}, "the planner buys instead of selling"),
    ],
)
async def test_only_the_position_itself_is_sold(
    trading_fixture: ClosingFixture, changes: dict[str, Any], why: str
) -> None:
    await trading_fixture.bought("rain", "snow")
    trading_fixture.trading_fixture.wants.changes = changes  # type: ignore[attr-defined]  # of the closing planner
    [result] = await trading_fixture.close("rain")
    assert (result.state, result.sold) == (ClosingState.HELD, 0.0)
    assert why in result.why
    assert trading_fixture.sides == [OrderSide.BUY, OrderSide.BUY]


async def test_its_question_is_not_bought_again_before_the_time_and_is_after_it(
    trading_fixture: ClosingFixture,
) -> None:
    await trading_fixture.bought("rain")
    await trading_fixture.close("rain")
    for days, orders in ((3, 2), (5, 3)):
        await trading_fixture.jobs_fixture.clock.advance(days * 86_400)
        await trading_fixture.jobs_fixture.forecast()
        await trading_fixture.trading_fixture.submit()
        assert len(trading_fixture.exchange.placed_orders) == orders
    assert trading_fixture.sides == [OrderSide.BUY, OrderSide.SELL, OrderSide.BUY]


async def test_it_is_bought_at_once_where_nobody_is_to_stay_out(trading_fixture: ClosingFixture) -> None:
    trading_fixture.trading_fixture.bound(trading={"cooldown_h": 0.0})
    trading_fixture.trading_fixture.execution_policy = replace(
        trading_fixture.trading_fixture.execution_policy,
        bankroll=TradingFixture.of(trading_fixture.jobs_fixture).execution_policy.bankroll,
    )
    await trading_fixture.bought("rain")
    await trading_fixture.close("rain")
    await trading_fixture.jobs_fixture.clock.advance(3 * 86_400 + 60)
    await trading_fixture.jobs_fixture.forecast()
    await trading_fixture.trading_fixture.submit()
    assert trading_fixture.sides == [OrderSide.BUY, OrderSide.SELL, OrderSide.BUY]


async def test_a_lock_and_a_cap_of_nothing_keep_no_person_from_closing(trading_fixture: ClosingFixture) -> None:
    await trading_fixture.bought("rain")
    trading_fixture.trading_fixture.bound(total=0.0, per_day=0.0)
    ref, now = QuestionRef(VENUE, "rain"), trading_fixture.jobs_fixture.clock.now()
    await trading_fixture.jobs_fixture.ledger.schedule.lock(
        ref, forecaster=None, reason="left alone", until=None, now=now
    )
    [result] = await trading_fixture.close("rain")
    assert result.state is ClosingState.CLOSED


async def test_while_halted_unarmed_or_too_often_nothing_is_sold_and_the_reason_is_told(
    trading_fixture: ClosingFixture,
) -> None:
    await trading_fixture.bought("rain", "snow")
    trading_fixture.trading_fixture.bound(orders_per_hour=2)
    [result] = await trading_fixture.close("rain")
    assert (result.state, result.why) == (ClosingState.HELD, "caps.orders_per_hour = 2: 2 in the last hour")
    trading_fixture.trading_fixture.bound(ExecutionMode.LIVE)
    [result] = await trading_fixture.close("rain")
    assert result.state is ClosingState.HELD
    assert "not armed" in result.why
    trading_fixture.trading_fixture.bound()
    trading_fixture.jobs_fixture.kill_switch.stop_file.write_text("no more")
    [result] = await trading_fixture.close("rain")
    assert result.state is ClosingState.HELD
    assert trading_fixture.sides == [OrderSide.BUY, OrderSide.BUY]


async def test_a_part_a_lost_answer_and_a_refusal_are_what_they_are(trading_fixture: ClosingFixture) -> None:
    await trading_fixture.bought("rain", "snow", "wind")
    trading_fixture.exchange.fill_share = 0.5
    [part] = await trading_fixture.close("rain")
    assert (part.state, part.sold, part.held) == (ClosingState.PART, 10.0, 20.0)
    assert "10.00 of 20.00 no of rain at lantern sold for 5.00 COIN" in str(part)
    trading_fixture.exchange.next_failures.append(WriteFailure.REPLY_LOST)
    [lost] = await trading_fixture.close("snow")
    assert lost.state is ClosingState.PENDING
    trading_fixture.exchange.next_failures.append(WriteFailure.REFUSED)
    [refused] = await trading_fixture.close("wind")
    assert (refused.state, refused.why) == (ClosingState.HELD, "the market is closed")


async def test_what_is_not_held_is_told_and_who_may_not_is_refused(trading_fixture: ClosingFixture) -> None:
    await trading_fixture.bought("rain")
    [result] = await trading_fixture.close("hail")
    assert result.why == "no shares of it are held"
    made = PrincipalRecord(
        name="bob",
        role=UserRole.APPROVER,
        salt="00" * 8,
        hash="00" * 16,
        made_at=trading_fixture.jobs_fixture.clock.now(),
    )
    await trading_fixture.jobs_fixture.ledger.permissions.write(
        lambda database: permissions.add_principal(database, made)
    )
    assert await trading_fixture.close("rain") == []
    assert len(list(trading_fixture.folder.glob("**/refused/*.json"))) == 1


@pytest.mark.parametrize(
    ("policy", "bid", "said"),
    [
        ({"stop_loss": 0.5}, 0.2, "stop-loss: selling would bring 4.00 of the 10.00 COIN that it cost"),
        ({"take_profit": 0.5}, 0.8, "take-profit: selling would bring 16.00 of the 10.00 COIN that it cost"),
    ],
)
async def test_a_policy_sells_with_its_reason_and_stays_out(
    trading_fixture: ClosingFixture, policy: dict[str, Any], bid: float, said: str
) -> None:
    await trading_fixture.bought("rain")
    trading_fixture.exchange.bid = bid
    assert trading_fixture.sides == [OrderSide.BUY]
    await trading_fixture.submit()
    assert trading_fixture.sides == [OrderSide.BUY]
    trading_fixture.trading_fixture.execution_policy = replace(
        trading_fixture.trading_fixture.execution_policy, trading=TradingSection(**policy)
    )
    assert said in await trading_fixture.submit()
    assert trading_fixture.sides == [OrderSide.BUY, OrderSide.SELL]
    assert (await trading_fixture.trading_fixture.whys("rain"))[-1].startswith(f"closing: {said}")
    assert "closing" not in await trading_fixture.submit()


async def test_a_sale_by_policy_that_could_not_be_reported_is_reported_in_the_next_pass(
    trading_fixture: ClosingFixture,
) -> None:
    await trading_fixture.bought("rain")
    trading_fixture.exchange.bid = 0.2
    trading_fixture.trading_fixture.execution_policy = replace(
        trading_fixture.trading_fixture.execution_policy, trading=TradingSection(stop_loss=0.5)
    )
    events = trading_fixture.jobs_fixture.ledger.events
    fails = (
        "create temp trigger fails before insert on event when new.kind = 'alert' begin select raise(abort, 'no'); end"
    )
    await events.writer.run(lambda database: database.execute(fails))
    with pytest.raises(sqlite3.IntegrityError):
        await trading_fixture.submit()
    assert trading_fixture.sides == [OrderSide.BUY, OrderSide.SELL]
    assert await events.recent(9, CLOSING_EVENT_KIND) == []
    await events.writer.run(lambda database: database.execute("drop trigger fails"))
    for _ in range(2):
        await trading_fixture.submit()
        (reported,) = await events.recent(9, ALERT_EVENT)
        assert reported.text.startswith(f"{VENUE}: stop-loss: selling would bring 4.00 of the 10.00 COIN that it cost")
        assert reported.text.endswith(f"20.00 of 20.00 no of rain at {VENUE} sold for 10.00 COIN")
        assert len(await events.recent(9, CLOSING_EVENT_KIND)) == 1
    assert trading_fixture.sides == [OrderSide.BUY, OrderSide.SELL]


async def test_a_person_is_told_of_the_sale_that_a_killed_run_made(trading_fixture: ClosingFixture) -> None:
    await trading_fixture.bought("rain")
    fails = (
        "create temp trigger fails before insert on event when new.kind = 'close' begin select raise(abort, 'no'); end"
    )
    writer = trading_fixture.jobs_fixture.ledger.events.writer
    await writer.run(lambda database: database.execute(fails))
    assert await trading_fixture.close("rain") == []
    assert trading_fixture.sides == [OrderSide.BUY, OrderSide.SELL]
    await writer.run(lambda database: database.execute("drop trigger fails"))
    (result,) = await trading_fixture.close("rain")
    assert (result.state, result.sold, result.why) == (ClosingState.CLOSED, 20.0, "")
    (again,) = await trading_fixture.close("rain")
    assert (again.state, again.why) == (ClosingState.HELD, "no shares of it are held")


@pytest.mark.parametrize("unpriced", [True, False])
async def test_a_policy_leaves_alone_what_has_no_price_now(trading_fixture: ClosingFixture, *, unpriced: bool) -> None:
    policy = replace(trading_fixture.trading_fixture.execution_policy, trading=TradingSection(stop_loss=0.5))
    held = Position(contract="rain", leg=ContractSide.YES, shares=20.0, paid=10.0, mark=0.2, is_unpriced=unpriced)
    assert (exit_reason(policy, held, "COIN") is None) is unpriced


async def test_a_policy_leaves_alone_what_is_locked_and_what_it_must_not_sell_unasked(
    trading_fixture: ClosingFixture,
) -> None:
    await trading_fixture.bought("rain")
    trading_fixture.exchange.bid = 0.2
    trading_fixture.trading_fixture.execution_policy = replace(
        trading_fixture.trading_fixture.execution_policy, trading=TradingSection(stop_loss=0.5)
    )
    ref, now = QuestionRef(VENUE, "rain"), trading_fixture.jobs_fixture.clock.now()
    await trading_fixture.jobs_fixture.ledger.schedule.lock(
        ref, forecaster=None, reason="left alone", until=None, now=now
    )
    await trading_fixture.submit()
    assert trading_fixture.sides == [OrderSide.BUY]
    trading_fixture.exchange.bid = None
    await trading_fixture.jobs_fixture.ledger.schedule.unlock(ref, forecaster=None)
    await trading_fixture.submit()
    assert trading_fixture.sides == [OrderSide.BUY]


@pytest.mark.parametrize(("fill_share", "left"), [(None, 20.0), (0.5, 10.0), (1.0, 0.0)])
async def test_what_a_policy_could_not_sell_is_still_held_when_purchases_are_sized(
    trading_fixture: ClosingFixture, fill_share: float | None, left: float
) -> None:
    await trading_fixture.bought("rain")
    fixture, planner = trading_fixture.trading_fixture, trading_fixture.trading_fixture.wants
    assert isinstance(planner, FakeClosingPlanner)
    planner.closing_fault = ServiceUnavailableError("no books now") if fill_share is None else None
    trading_fixture.exchange.bid, trading_fixture.exchange.fill_share = 0.2, fill_share or 1.0
    fixture.execution_policy = replace(fixture.execution_policy, trading=TradingSection(stop_loss=0.5))
    await trading_fixture.jobs_fixture.clock.advance(3 * 86_400 + 60)
    await trading_fixture.jobs_fixture.forecast()
    assert "stop-loss" in await trading_fixture.submit()
    assert sum(one.shares for one in planner.wishes[-1].account.positions) == left


async def test_a_sale_that_came_to_nothing_is_tried_again_by_the_policy_after_a_while(
    trading_fixture: ClosingFixture,
) -> None:
    await trading_fixture.bought("rain")
    trading_fixture.exchange.bid = 0.2
    trading_fixture.trading_fixture.execution_policy = replace(
        trading_fixture.trading_fixture.execution_policy, trading=TradingSection(stop_loss=0.5)
    )
    trading_fixture.exchange.next_failures.append(WriteFailure.REFUSED)
    assert "the market is closed" in await trading_fixture.submit()
    await trading_fixture.submit()
    assert trading_fixture.sides == [OrderSide.BUY]
    await trading_fixture.jobs_fixture.clock.advance(timedelta(minutes=11).total_seconds())
    await trading_fixture.submit()
    assert trading_fixture.sides == [OrderSide.BUY, OrderSide.SELL]
