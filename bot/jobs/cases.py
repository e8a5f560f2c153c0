"""Puts cases together: what the gate must know of a forecast, and the plan of its order. Writes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import structlog

from bot.domain.forecast import Forecast
from bot.domain.order import Account, Appetite, Plan, Wish
from bot.domain.permission import Approval
from bot.domain.question import QuestionRef
from bot.domain.submission import Hold, Mode
from bot.errors import FoxcastError, Rejected, StoreError, Unavailable, named
from bot.gate.caps import most
from bot.gate.case import PLAN_AGAIN, Case, Lane, exposure_of
from bot.gate.readiness import Readiness
from bot.ports import Planner
from bot.store.dockets import Asked, Docket
from bot.store.leave import Leaves
from bot.store.ledger import Ledger
from bot.store.usage import Counted

log = structlog.get_logger(__name__)

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


@dataclass(slots=True, kw_only=True)
class Shop:
    """Plans the orders of one venue in one pass, one after the other, on the account as it was read at its begin.

    ``reserved`` is what intents may take from it that it does not show yet. A venue that does not answer is not asked
    again in this pass.
    """

    planner: Planner
    account: Account
    down: str = ""

    def spend(self, cost: float) -> None:
        """Count what was sent: the account as it was read does not show it."""
        self.account = replace(self.account, cash=max(0.0, self.account.cash - cost))

    async def plan(self, case: Case, *, reserved: float) -> Case | Hold:
        """Return the case with its plan, or why there can be none."""
        if self.down:
            return case.later(self.down)
        account = replace(self.account, cash=max(0.0, self.account.cash - reserved))
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
