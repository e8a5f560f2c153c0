"""Puts cases together: what the gate must know of a forecast, and the plan of its order. Writes nothing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import inf

import structlog

from bot.domain.forecast import Forecast
from bot.domain.order import Account, Appetite, Plan, Side, Wish
from bot.domain.permission import Approval, Arm, Usage
from bot.domain.question import QuestionRef
from bot.domain.submission import Decision, Hold, Mode
from bot.errors import FoxcastError, Rejected, StoreError, Unavailable, named
from bot.gate.caps import most, rooms
from bot.gate.case import PLAN_AGAIN, Case, Lane, exposure_of
from bot.gate.joint import ProposedStake, size_together
from bot.gate.readiness import Readiness
from bot.ports import Planner
from bot.store import arms
from bot.store.decisions import Rule
from bot.store.dockets import Asked, Docket
from bot.store.leave import Leaves
from bot.store.ledger import Ledger
from bot.store.usage import Counted, usage

log = structlog.get_logger(__name__)

# A plan that was made beside others is used as it is for so long; after that the market is read again.
FRESH_PLAN = timedelta(seconds=30)
NOT_LOOKED_AT = ("whether it is ready was never looked at",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What stands around all forecasts of one pass: the lanes, what each venue has, and how things stand."""

    ledger: Ledger
    lanes: Mapping[str, Lane]
    planners: Mapping[str, Planner] = field(default_factory=dict)
    readiness: Readiness | None = None
    leaves: Leaves = field(default_factory=Leaves)

    def lane(self, venue: str) -> Lane:
        """Return the way out of a venue; one that config no longer uses, or whose plugin is broken, has none."""
        return self.lanes.get(venue) or Lane(venue=venue, mode=Mode.OFF, primary="", account="")

    async def case(self, forecast: Forecast, docket: Docket, now: datetime) -> Case:
        """Return the case of a forecast, without plan and usage."""
        lane = self.lane(forecast.ref.venue)
        return Case(
            lane=lane,
            forecast=forecast,
            question=docket.question,
            standing=docket.standing,
            locked=docket.locked,
            now=now,
            forecast_on=docket.forecast_on,
            stops=self.leaves.stops,
            arm=self.leaves.arms.get(lane.venue),
            lacking=self._lacking(lane),
            approval=await self._approval(lane, forecast.id),
            clairvoyant=docket.clairvoyant,
            apart=docket.apart,
            trades=lane.venue in self.planners,
            closed_at=docket.closed_at,
        )

    def _lacking(self, lane: Lane) -> Sequence[str]:
        if not lane.live:
            return ()
        return NOT_LOOKED_AT if self.readiness is None else self.readiness.lacking(lane.venue)

    async def _approval(self, lane: Lane, forecast_id: str) -> Approval | None:
        return await self.ledger.leave.approval(forecast_id) if lane.live else None


async def with_dockets(around: Around, forecasts: Sequence[Forecast], now: datetime) -> list[tuple[Forecast, Docket]]:
    """Return each forecast with what stands for its question, all read at one moment."""
    asked = [
        Asked(
            ref=forecast.ref,
            forecaster=forecast.forecaster,
            revision=forecast.revision,
            account=around.lane(forecast.ref.venue).account,
            paper=not around.lane(forecast.ref.venue).live,
        )
        for forecast in forecasts
    ]
    return list(zip(forecasts, await around.ledger.dockets.of(asked, now=now), strict=True))


def counted(case: Case) -> Counted:
    """Return what is counted for the caps of a case."""
    return Counted(
        ref=case.forecast.ref,
        account=case.lane.account,
        paper=not case.lane.live,
        exposure=exposure_of(case.question),
        since=case.arm.armed_at if case.lane.live and case.arm is not None else None,
    )


def counts(case: Case) -> bool:
    """Say whether what is at stake matters to the case; counting it for thousands of others would take long."""
    return case.trades or case.lane.caps.orders_per_hour is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedOrder:
    """What would be ordered if the others of the pass were not, or why nothing; ``part`` is what it may cost at most.

    ``account`` is the one that all proposals of the pass are made on, so that their order makes no difference.
    """

    found: Case | Hold
    account: Account
    part: float = inf


@dataclass(slots=True, kw_only=True)
class Shop:
    """Plans the orders of one venue in one pass, one after the other, on the account as it was read at its begin.

    ``reserved`` is what intents may take from it that it does not show yet. A venue that does not answer is not asked
    again in this pass. ``bought`` is what the orders of the pass may cost so far, ``proposed`` are those by forecast
    that are sized together.
    """

    planner: Planner
    account: Account
    down: str = ""
    bought: float = 0.0
    proposed: dict[str, ProposedOrder] = field(default_factory=dict)
    worth: float = field(init=False)

    def __post_init__(self) -> None:
        """Take the worth of the account as it was read: purchases do not lower it."""
        self.worth = self.account.equity

    def spend(self, cost: float) -> None:
        """Count what was sent: the account as it was read does not show it."""
        self.account = replace(self.account, cash=max(0.0, self.account.cash - cost))

    async def propose(self, cases: Sequence[Case], *, reserved: float) -> None:
        """Plan each of the cases as if it were alone, and size their orders together; one alone is as it is."""
        if len(cases) < 2:
            return
        account = self._account(reserved)
        found = {case.forecast.id: await self._planned(self._known(case), account) for case in cases}
        stakes = [_stake(one) for one in found.values() if isinstance(one, Case) and _buys(one)]
        share = cases[0].lane.bankroll
        sized = size_together(stakes, cash=account.cash, correlation=share.correlation, least=share.least)
        self.proposed |= {
            name: ProposedOrder(found=one, account=account, part=sized.get(name, inf)) for name, one in found.items()
        }

    async def plan(self, case: Case, *, reserved: float) -> Case | Hold:
        """Return the case with its plan, or why there can be none."""
        known = self.proposed.pop(case.forecast.id, None)
        if known is None:
            return await self._planned(self._known(case), self._account(reserved))
        if isinstance(known.found, Hold):
            return known.found
        case, order = replace(self._known(case), part=known.part), known.found.order
        if order is None or known.part <= 0.0:
            plan = known.found.plan
            return replace(case, plan=None if plan is None else replace(plan, order=None))
        fresh = case.now - known.found.now <= FRESH_PLAN
        if fresh and order.cost <= min(most(case), known.part):
            return replace(case, plan=known.found.plan)
        return await self._planned(case, known.account)

    def _account(self, reserved: float) -> Account:
        return replace(self.account, cash=max(0.0, self.account.cash - reserved))

    def _known(self, case: Case) -> Case:
        return replace(case, worth=self.worth, in_pass=self.bought)

    async def _planned(self, case: Case, account: Account) -> Case | Hold:
        if self.down:
            return case.later(self.down)
        try:
            plan = await self.planner.plan(wish_of(case, account))
        except Unavailable as error:
            self.down = f"the market cannot be read: {error}"
            return case.later(self.down)
        except Rejected as error:
            return Hold(why=f"not traded: {error}")
        except StoreError:
            raise
        except FoxcastError as error:
            return case.later(f"no plan: {named(error)}", PLAN_AGAIN)
        except Exception as error:
            log.exception("planner failed", question=str(case.forecast.ref))
            return case.later(f"the planner failed: {type(error).__name__}", PLAN_AGAIN)
        return replace(case, plan=plan if plan.order is None else _sound(plan, case.forecast.ref, account))


def rule_of(case: Case, decide: Callable[[Case], Decision]) -> Rule:
    """Return what decides over a case in the transaction that stores it, on arm record and stakes as they are then."""
    return lambda database: decide(
        _as_it_stands(
            case,
            arm=lambda: arms.newest(database, case.lane.venue, case.lane.account),
            at_stake=lambda stake: usage(database, stake, case.now),
        )
    )


def _as_it_stands(case: Case, *, arm: Callable[[], Arm | None], at_stake: Callable[[Counted], Usage]) -> Case:
    now = replace(case, arm=arm()) if case.lane.live else case
    return replace(now, usage=at_stake(counted(now))) if counts(now) else now


def _buys(case: Case) -> bool:
    return case.order is not None and case.order.side is Side.BUY


def _stake(case: Case) -> ProposedStake:
    order = case.order
    return ProposedStake(
        name=case.forecast.id,
        stake=0.0 if order is None else order.cost,
        edge=0.0 if order is None else order.edge,
        event=exposure_of(case.question).event,
        rooms=tuple(rooms(case)),
    )


def wish_of(case: Case, account: Account) -> Wish:
    """Return what the planner is asked, within what the caps leave."""
    trading = case.lane.trading
    appetite = Appetite(
        kelly=trading.kelly,
        shrink=trading.shrink,
        edge=trading.edge,
        band=trading.band,
        most=min(most(case), account.cash),
    )
    return Wish(
        question=case.question,
        predictions=case.forecast.predictions,
        account=account,
        appetite=appetite,
        now=case.now,
    )


def _sound(plan: Plan, ref: QuestionRef, account: Account) -> Plan:
    """Return the plan, without its order where no account could pay for it."""
    order = plan.order
    if order is None or order.cost <= account.cash + 1e-9:
        return plan
    log.error("planned beyond the account", question=str(ref), cost=order.cost, cash=account.cash)
    return replace(plan, order=None, why=f"it would cost {order.cost:.2f}, and {account.cash:.2f} is free")
