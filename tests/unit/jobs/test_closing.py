"""Closing positions: for a person and by policy, through the same gate; told of as it was, and not bought back."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.config.venue_schema import TradingSection
from bot.domain.order import Account, ClosingWish, Leg, Order, Plan, Side
from bot.domain.permission import Role
from bot.domain.question import QuestionRef
from bot.domain.request import ClosePositions, ClosingTarget
from bot.domain.submission import Mode
from bot.jobs.closing import PositionClosing, close_asked
from bot.store import closings, principals
from bot.store.closings import ClosingResult, ClosingState
from bot.store.principals import Principal
from bot.testing.exchange import MemoryExchange, Mishap
from tests.unit.jobs.conftest import VENUE, House
from tests.unit.jobs.market import Shopfloor, Wants


class Seller(Wants):
    """A planner that also sells, all at ``bid``."""

    bid = 0.5

    async def plan_closing(self, wish: ClosingWish) -> Plan:
        order = Order(
            contract=wish.position.contract,
            leg=wish.position.leg,
            side=Side.SELL,
            shares=wish.position.shares,
            limit=self.bid,
            cost=0.0,
            expected=self.bid,
            currency="COIN",
        )
        return Plan(why="sell", order=order)


class Exchange(MemoryExchange):
    """Positions with the price that is bid; shares of the keys of questions."""

    bid: float | None = 0.5

    async def account(self) -> Account:
        has = await super().account()
        held = tuple(replace(one, ref=QuestionRef(VENUE, one.contract), mark=self.bid) for one in has.positions)
        return replace(has, positions=held)


class Floor:
    """A venue where positions are bought and closed."""

    def __init__(self, house: House, folder: Path) -> None:
        self.floor, self.folder = Shopfloor.of(house), folder
        self.exchange = Exchange(house.clock)
        self.floor.broker = self.exchange  # type: ignore[assignment]
        self.floor.wants = Seller()
        self.house = house

    @property
    def closing(self) -> PositionClosing:
        return PositionClosing(
            folder=self.folder,
            ledger=self.house.ledger,
            lanes={VENUE: self.floor.lane},
            gate=self.floor.gate,
            outbox=self.floor.outbox,
            clock=self.house.clock,
            planners={VENUE: self.floor.wants},
            readiness=self.floor.readiness,
        )

    async def bought(self, *keys: str) -> None:
        await self.floor.forecast(*keys)
        await self.floor.submit()
        assert len(self.exchange.placed) == len(keys)

    async def close(self, *keys: str, by: str = "ann") -> list[ClosingResult]:
        await self.house.clock.advance(1)
        targets = tuple(ClosingTarget(venue=VENUE, contract=key, leg=Leg.YES) for key in keys)
        path = closings.ask(self.folder, ClosePositions(by=by, asked_at=self.house.clock.now(), targets=targets))
        await close_asked(self.closing)
        return await closings.results_of(self.house.ledger, path.stem)

    async def submit(self) -> str:
        return await self.floor.told(closing=self.closing)

    @property
    def sides(self) -> list[Side]:
        return [one.order.side for one in self.exchange.placed]


@pytest.fixture
def floor(house: House, tmp_path: Path) -> Floor:
    return Floor(house, tmp_path)


async def test_a_position_is_sold_for_a_person_and_the_decision_is_on_record(floor: Floor) -> None:
    await floor.bought("rain")
    [result] = await floor.close("rain")
    assert (result.state, result.sold, result.cash) == (ClosingState.CLOSED, 20.0, 10.0)
    assert floor.sides == [Side.BUY, Side.SELL]
    assert (await floor.floor.whys("rain"))[-1] == "closing: ann asked for it"
    assert (await floor.exchange.account()).positions == ()


async def test_its_question_is_not_bought_again_before_the_time_and_is_after_it(floor: Floor) -> None:
    await floor.bought("rain")
    await floor.close("rain")
    for days, orders in ((3, 2), (5, 3)):
        await floor.house.clock.advance(days * 86_400)
        await floor.house.forecast()
        await floor.floor.submit()
        assert len(floor.exchange.placed) == orders
    assert floor.sides == [Side.BUY, Side.SELL, Side.BUY]


async def test_it_is_bought_at_once_where_nobody_is_to_stay_out(floor: Floor) -> None:
    floor.floor.bound(trading={"stay_out_h": 0.0})
    floor.floor.lane = replace(floor.floor.lane, bankroll=Shopfloor.of(floor.house).lane.bankroll)
    await floor.bought("rain")
    await floor.close("rain")
    await floor.house.clock.advance(3 * 86_400 + 60)
    await floor.house.forecast()
    await floor.floor.submit()
    assert floor.sides == [Side.BUY, Side.SELL, Side.BUY]


async def test_a_lock_and_a_cap_of_nothing_keep_no_person_from_closing(floor: Floor) -> None:
    await floor.bought("rain")
    floor.floor.bound(total=0.0, per_day=0.0)
    ref, now = QuestionRef(VENUE, "rain"), floor.house.clock.now()
    await floor.house.ledger.schedule.lock(ref, forecaster=None, reason="left alone", until=None, now=now)
    [result] = await floor.close("rain")
    assert result.state is ClosingState.CLOSED


async def test_while_halted_unarmed_or_too_often_nothing_is_sold_and_the_reason_is_told(floor: Floor) -> None:
    await floor.bought("rain", "snow")
    floor.floor.bound(orders_per_hour=2)
    [result] = await floor.close("rain")
    assert (result.state, result.why) == (ClosingState.HELD, "caps.orders_per_hour = 2: 2 in the last hour")
    floor.floor.bound(Mode.LIVE)
    [result] = await floor.close("rain")
    assert result.state is ClosingState.HELD
    assert "not armed" in result.why
    floor.floor.bound()
    floor.house.brake.stop_file.write_text("no more")
    [result] = await floor.close("rain")
    assert result.state is ClosingState.HELD
    assert floor.sides == [Side.BUY, Side.BUY]


async def test_a_part_a_lost_answer_and_a_refusal_are_what_they_are(floor: Floor) -> None:
    await floor.bought("rain", "snow", "wind")
    floor.exchange.portion = 0.5
    [part] = await floor.close("rain")
    assert (part.state, part.sold, part.held) == (ClosingState.PART, 10.0, 20.0)
    assert "10.00 of 20.00 yes of rain at lantern sold for 5.00 COIN" in str(part)
    floor.exchange.mishaps.append(Mishap.REPLY_LOST)
    [lost] = await floor.close("snow")
    assert lost.state is ClosingState.PENDING
    floor.exchange.mishaps.append(Mishap.REFUSED)
    [refused] = await floor.close("wind")
    assert (refused.state, refused.why) == (ClosingState.HELD, "the market is closed")


async def test_what_is_not_held_is_told_and_who_may_not_is_refused(floor: Floor) -> None:
    await floor.bought("rain")
    [result] = await floor.close("hail")
    assert result.why == "nothing of it is held"
    made = Principal(name="bob", role=Role.APPROVER, salt="00" * 8, hash="00" * 16, made_at=floor.house.clock.now())
    await floor.house.ledger.leave.write(lambda database: principals.add(database, made))
    assert await floor.close("rain") == []
    assert len(closings.refused(floor.folder)) == 1


@pytest.mark.parametrize(
    ("policy", "bid", "said"),
    [
        ({"stop_loss": 0.5}, 0.2, "stop-loss: selling would bring 4.00 of the 10.00 COIN that it cost"),
        ({"take_profit": 0.5}, 0.8, "take-profit: selling would bring 16.00 of the 10.00 COIN that it cost"),
    ],
)
async def test_a_policy_sells_with_its_reason_and_stays_out(
    floor: Floor, policy: dict[str, Any], bid: float, said: str
) -> None:
    await floor.bought("rain")
    floor.exchange.bid = bid
    assert floor.sides == [Side.BUY]
    await floor.submit()
    assert floor.sides == [Side.BUY]
    floor.floor.lane = replace(floor.floor.lane, trading=TradingSection(**policy))
    assert said in await floor.submit()
    assert floor.sides == [Side.BUY, Side.SELL]
    assert (await floor.floor.whys("rain"))[-1].startswith(f"closing: {said}")
    assert "closing" not in await floor.submit()


async def test_a_policy_leaves_alone_what_is_locked_and_what_it_must_not_sell_unasked(floor: Floor) -> None:
    await floor.bought("rain")
    floor.exchange.bid = 0.2
    floor.floor.lane = replace(floor.floor.lane, trading=TradingSection(stop_loss=0.5))
    ref, now = QuestionRef(VENUE, "rain"), floor.house.clock.now()
    await floor.house.ledger.schedule.lock(ref, forecaster=None, reason="left alone", until=None, now=now)
    await floor.submit()
    assert floor.sides == [Side.BUY]
    floor.exchange.bid = None
    await floor.house.ledger.schedule.unlock(ref, forecaster=None)
    await floor.submit()
    assert floor.sides == [Side.BUY]


async def test_a_sale_that_came_to_nothing_is_tried_again_by_the_policy_after_a_while(floor: Floor) -> None:
    await floor.bought("rain")
    floor.exchange.bid = 0.2
    floor.floor.lane = replace(floor.floor.lane, trading=TradingSection(stop_loss=0.5))
    floor.exchange.mishaps.append(Mishap.REFUSED)
    assert "the market is closed" in await floor.submit()
    await floor.submit()
    assert floor.sides == [Side.BUY]
    await floor.house.clock.advance(timedelta(minutes=11).total_seconds())
    await floor.submit()
    assert floor.sides == [Side.BUY, Side.SELL]
