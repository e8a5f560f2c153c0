"""Closes positions: sells what an account holds whatever the belief, through the gate and the outbox like all else.

Who asks is proved here again. A sale that does not go through is told of and not tried again by itself; a policy looks
again later.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

import structlog

from bot.domain.forecast import Forecast
from bot.domain.order import Account, ClosingWish, Plan, Position
from bot.domain.request import ClosePositions, ClosingTarget
from bot.domain.submission import Hold, IntentState, Mode
from bot.errors import FoxcastError, StoreError, named, told
from bot.gate.case import Case, Lane, on_paper
from bot.gate.gate import Gate
from bot.gate.readiness import Readiness
from bot.jobs.cases import Around, rule_of
from bot.jobs.permit import require_allowed
from bot.outbox.outbox import Outbox
from bot.ports import Clock, ClosingPlanner, Planner, Trader
from bot.store import closings, orders
from bot.store.audit import AuditRow
from bot.store.closings import ClosingResult, ClosingState
from bot.store.dockets import Asked
from bot.store.ledger import Ledger

log = structlog.get_logger(__name__)

# A sale that came to nothing is tried again by a policy after so long.
POLICY_AGAIN = timedelta(minutes=10)
# Venues sell whole hundredths; a position of which less is left is closed.
LEFT_OVER = 0.01
_ON_ITS_WAY = frozenset(
    {IntentState.READY, IntentState.SENDING, IntentState.UNKNOWN, IntentState.IN_DOUBT, IntentState.PLANNED}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionClosing:
    """What it takes to close positions; ``folder`` is where people leave their requests."""

    folder: Path
    ledger: Ledger
    lanes: Mapping[str, Lane]
    gate: Gate
    outbox: Outbox
    clock: Clock
    planners: Mapping[str, Planner] = field(default_factory=dict)
    readiness: Readiness | None = None

    async def around(self) -> Around:
        """Return how all lanes stand now."""
        accounts = {venue: lane.account for venue, lane in self.lanes.items()}
        now = self.clock.now()
        return Around(
            ledger=self.ledger,
            lanes=self.lanes,
            planners=self.planners,
            readiness=self.readiness,
            leaves=await self.ledger.leave.standing(accounts, now=now, paper=on_paper(self.lanes)),
        )


async def close_asked(parts: PositionClosing) -> str:
    """Do each waiting request, note what became of each position, and take it away; put aside what makes no sense."""
    done, refused, sold = 0, 0, 0
    for request in closings.waiting(parts.folder):
        name = request.path.stem
        try:
            asked = request.read()
            require_allowed(asked, await parts.ledger.leave.principals(), now=parts.clock.now())
            found = await close_targets(parts, asked, name)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one keeps none behind it from being done
            refused += 1
            note = f"request refused, kept in {request.refuse()}: {told(error)}"
            log.warning("request refused", request=request.path.name, why=told(error))
        else:
            done += 1
            closed = sum(one.state is ClosingState.CLOSED for one in found)
            sold += closed
            note = f"{closed} of {len(found)} positions closed for {asked.by} [{name}]"
            request.done()
        await parts.ledger.journal.note("request", note, at=parts.clock.now())
    return f"{done} requests done, {sold} positions closed" + (f", {refused} refused" if refused else "")


async def close_targets(parts: PositionClosing, asked: ClosePositions, name: str) -> list[ClosingResult]:
    """Close the positions that a person named, one after the other; ``name`` is that of the request."""
    around, accounts = await parts.around(), dict[str, Account | str]()
    await _audit(parts, asked)
    found = []
    for target in asked.targets:
        if target.venue not in accounts:
            accounts[target.venue] = await account_of(parts, target.venue)
        result = await _closed(parts, around, target, accounts[target.venue], f"{asked.by} asked for it")
        result = replace(result, request=name)
        await closings.keep(parts.ledger, result, at=parts.clock.now())
        log.info("position closed", state=result.state, venue=target.venue, contract=target.contract, told=str(result))
        found.append(result)
    for venue in accounts:
        await _read_again(parts, venue)
    return found


async def _read_again(parts: PositionClosing, venue: str) -> None:
    """Keep a new reading of an account, so that what is told of it shows the sales."""
    account, lane = await account_of(parts, venue), parts.lanes.get(venue)
    if lane is not None and not isinstance(account, str):
        await parts.ledger.readings.add(venue, lane.account, account, paper=not lane.live)


async def account_of(parts: PositionClosing, venue: str) -> Account | str:
    """Read an account, its positions with the questions that they were bought for, or say why it cannot be read."""
    trader, lane = parts.outbox.submitters.get(venue), parts.lanes.get(venue)
    if not isinstance(trader, Trader) or lane is None:
        return f"{venue} has no account that could sell; is it off, or its plugin not enabled?"
    try:
        return await with_questions(parts.ledger, lane, await trader.account())
    except StoreError:
        raise
    except FoxcastError as error:
        return f"the account cannot be read: {named(error)}"
    except Exception as error:
        log.exception("account cannot be read", venue=venue)
        return f"the account cannot be read: {type(error).__name__}"


async def with_questions(ledger: Ledger, lane: Lane, account: Account) -> Account:
    """Return the account with the questions that its positions were bought for, where the venue names contracts."""
    contracts = {one.contract for one in account.positions if one.ref is None}
    known = await ledger.submissions.readers.run(
        lambda database: orders.traded(database, lane.venue, lane.account, contracts)
    )

    def position(one: Position) -> Position:
        found = known.get(one.contract) if one.ref is None else None
        return one if found is None else replace(one, ref=found.ref, option=one.option or found.option)

    return replace(account, positions=tuple(position(one) for one in account.positions))


async def closing_case(
    around: Around, lane: Lane, account: Account, position: Position, *, why: str, now: datetime
) -> Case | str:
    """Return the case of a position that is to be sold, with its plan; or why there can be none."""
    planner = around.planners.get(lane.venue)
    if not isinstance(planner, ClosingPlanner):
        return f"{lane.venue} has no planner that sells"
    forecast = None if position.ref is None else await _forecast(around.ledger, lane, position)
    if forecast is None:
        return "no forecast here is of its question, so nobody can tell what it is; sell it at the venue"
    asked = Asked(
        ref=forecast.ref,
        forecaster=forecast.forecaster,
        revision=forecast.revision,
        account=lane.account,
        paper=not lane.live,
    )
    (docket,) = await around.ledger.dockets.of([asked], now=now)
    case = await around.case(forecast, docket, now)
    wish = ClosingWish(question=docket.question, position=position, account=account, now=now)
    try:
        plan = await planner.plan_closing(wish)
    except StoreError:
        raise
    except FoxcastError as error:
        return f"no plan: {named(error)}"
    except Exception as error:
        log.exception("planner failed", question=str(forecast.ref))
        return f"the planner failed: {type(error).__name__}"
    return replace(case, plan=_closing(plan, why))


async def close_position(
    parts: PositionClosing, around: Around, account: Account, position: Position, *, venue: str, why: str
) -> ClosingResult:
    """Sell one position and say what became of it."""
    result = ClosingResult(
        request="",
        venue=venue,
        question=str(position.ref.key) if position.ref is not None else "",
        contract=position.contract,
        leg=position.leg,
        held=position.shares,
        state=ClosingState.HELD,
        currency=account.currency,
    )
    found = await closing_case(around, parts.lanes[venue], account, position, why=why, now=parts.clock.now())
    if isinstance(found, str):
        return replace(result, why=found)
    case = replace(found, now=parts.clock.now())
    decision = await parts.ledger.submissions.decide_by(
        rule_of(case, parts.gate.decide_closing),
        forecast_id=case.forecast.id,
        at=case.now,
    )
    if isinstance(decision, Hold):
        return replace(result, why=decision.why)
    await parts.outbox.flush()
    return await _result(parts, result, decision.intent.id)


async def _closed(
    parts: PositionClosing, around: Around, target: ClosingTarget, account: Account | str, why: str
) -> ClosingResult:
    nothing = ClosingResult(
        request="",
        venue=target.venue,
        question="",
        contract=target.contract,
        leg=target.leg,
        held=0.0,
        state=ClosingState.HELD,
    )
    if isinstance(account, str):
        return replace(nothing, why=account)
    for position in account.positions:
        if (position.contract, position.leg) == (target.contract, target.leg):
            return await close_position(parts, around, account, position, venue=target.venue, why=why)
    return replace(nothing, why="nothing of it is held")


async def _result(parts: PositionClosing, result: ClosingResult, intent: str) -> ClosingResult:
    """Read what became of the order: its fills are what is known to be sold."""
    row, fills = await parts.ledger.submissions.get(intent), await parts.ledger.submissions.fills(intent)
    sold, cash = sum(one.shares for one in fills), sum(one.cash for one in fills)
    state, why = ClosingState.PART, row.detail
    if sold >= result.held - LEFT_OVER:
        state, why = ClosingState.CLOSED, ""
    elif row.state in _ON_ITS_WAY:
        state, why = ClosingState.PENDING, f"{row.state}; what became of it is read back. {row.detail}".strip()
    elif row.state is IntentState.ACKED and not fills:
        state, why = ClosingState.PENDING, f"taken by the venue, not settled yet. {row.detail}".strip()
    elif not fills:
        state, why = ClosingState.HELD, row.detail or f"the order is {row.state}"
    return replace(result, state=state, why=why, sold=sold, cash=cash, intent=intent)


async def _forecast(ledger: Ledger, lane: Lane, position: Position) -> Forecast | None:
    """Return the forecast that the position was bought for, else the newest of the one that leads."""
    if position.ref is None:
        return None
    standing = await ledger.submissions.standing(position.ref, lane.account, paper=not lane.live)
    if standing is not None:
        return await ledger.forecasts.get(standing.forecast)
    history: Sequence[Forecast] = await ledger.forecasts.history(position.ref)
    return history[-1] if history else None


def _closing(plan: Plan, why: str) -> Plan:
    return plan if plan.order is None else replace(plan, order=replace(plan.order, closing=why))


async def _audit(parts: PositionClosing, asked: ClosePositions) -> None:
    """Tell the audit who closes what, but for paper."""
    for venue in dict.fromkeys(target.venue for target in asked.targets):
        lane = parts.lanes.get(venue)
        if lane is None or lane.mode is Mode.PAPER:
            continue
        names = [f"{one.leg} {one.contract}" for one in asked.targets if one.venue == venue]
        body = {"positions": "; ".join(names), "count": str(len(names))}
        row = AuditRow(at=parts.clock.now(), kind="close", venue=venue, actor=asked.by, body=body)
        await parts.ledger.leave.act(lambda _: None, row)
