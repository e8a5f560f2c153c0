"""Decide over every new forecast, then let the outbox carry what may leave."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from bot.domain.forecast import Forecast
from bot.domain.order import Account
from bot.domain.permission import Approval
from bot.domain.submission import Decision, Hold, Intent, IntentState, Send
from bot.errors import FoxcastError, StoreError
from bot.gate.case import Case, Lane, on_paper
from bot.gate.gate import Gate
from bot.gate.readiness import Readiness
from bot.jobs.cases import Around, Shop, counted, counts, rule_of, with_dockets
from bot.jobs.closing import PositionClosing
from bot.jobs.comment import Commenting, plan_comments, text_of
from bot.jobs.losses import stop_losing
from bot.jobs.stop_loss import close_by_policy, has_policy
from bot.jobs.together import together
from bot.jobs.waits import BatchWait
from bot.jobs.withdraw import StaleWithdrawing, withdraw_stale
from bot.outbox.outbox import Outbox
from bot.ports import Clock, Planner, Trader
from bot.store import approvals, holds, stops
from bot.store.audit import AuditRow
from bot.store.closings import ClosingResult
from bot.store.dockets import Docket
from bot.store.ledger import Ledger

__all__ = ["BatchWait", "Begin", "Submitting", "submit_due"]

log = structlog.get_logger(__name__)

CHUNK = 500
PLACES = 64
_UNDER_WAY = frozenset(
    {IntentState.PLANNED, IntentState.READY, IntentState.SENDING, IntentState.UNKNOWN, IntentState.IN_DOUBT}
)

Pair = tuple[Forecast, Docket]
Look = Callable[[], Awaitable[None]]


async def _look_at_nothing() -> None:
    """Nothing is live."""


@dataclass(slots=True)
class Begin:
    """The begin of a run: what was held before it is asked about again, since config and venues may have changed."""

    is_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitting:
    """What the submit job works with; a venue with a planner takes orders.

    ``commenting`` plans what is said beside forecasts that stand, ``stale`` withdraws those that could not be renewed,
    ``closing`` sells what a policy says, each where config asks for that. ``look`` brings ``readiness`` up to date
    before anything is decided.
    """

    ledger: Ledger
    lanes: Mapping[str, Lane]
    gate: Gate
    outbox: Outbox
    clock: Clock
    planners: Mapping[str, Planner] = field(default_factory=dict)
    readiness: Readiness | None = None
    look: Look = _look_at_nothing
    begin: Begin = field(default_factory=lambda: Begin(is_over=True))
    commenting: Commenting | None = None
    closing: PositionClosing | None = None
    stale: StaleWithdrawing | None = None


async def submit_due(parts: Submitting) -> str:
    """Store a decision for each undecided forecast, ask again about held ones, send what is ready."""
    await parts.look()
    around, now = await _look_around(parts), parts.clock.now()
    if not parts.begin.is_over:
        await parts.ledger.leave.write(lambda database: holds.ask_again(database, at=now))
        parts.begin.is_over = True
    this = _Pass(parts=parts, around=around, shops={}, acked=[])
    sold = await _close_by_policy(this)
    sent, held, waits = 0, 0, Counter[str]()
    async for forecasts in _to_decide(parts):
        pairs = await with_dockets(around, forecasts, parts.clock.now())
        decisions = await _decide_all(this, pairs)
        sent += sum(isinstance(decision, Send) for decision in decisions)
        held += sum(isinstance(decision, Hold) for decision in decisions)
        waits.update(one.why for one in decisions if isinstance(one, Hold) and one.until is not None)
    withdrawn = 0 if parts.stale is None else await withdraw_stale(parts.stale)
    acknowledged = sum(this.acked) + await parts.outbox.flush()
    if parts.commenting is not None and await plan_comments(parts.commenting):
        acknowledged += await parts.outbox.flush()
    told = f"; {withdrawn} stale ones withdrawn" if withdrawn else ""
    told += "".join(f"; {count} wait: {why}" for why, count in waits.most_common(1))
    told += "".join(f"; {result}" for result in sold)
    return f"{sent} planned, {held} held, {acknowledged} acknowledged{told}"


async def _close_by_policy(this: "_Pass") -> list[ClosingResult]:
    """Sell what stop-loss and take-profit say before anything is bought."""
    closing, sold = this.parts.closing, list[ClosingResult]()
    for venue in this.parts.planners if closing is not None else ():
        lane = this.around.lane(venue)
        if closing is None or not has_policy(lane) or isinstance(shop := await this.shop(venue), str):
            continue
        shop.account, found = await close_by_policy(closing, this.around, lane, shop.account)
        sold += found
    return sold


async def _look_around(parts: Submitting) -> Around:
    """Read how all lanes stand; a venue that lost too much is stopped first, and questions that expired are closed."""
    now = parts.clock.now()
    await parts.ledger.leave.write(lambda database: approvals.expire(database, now))
    await stop_losing(parts.ledger, parts.lanes, now=now)
    accounts = {venue: lane.account for venue, lane in parts.lanes.items()}
    return Around(
        ledger=parts.ledger,
        lanes=parts.lanes,
        planners=parts.planners,
        readiness=parts.readiness,
        leaves=await parts.ledger.leave.standing(accounts, now=now, paper=on_paper(parts.lanes)),
    )


async def _to_decide(parts: Submitting) -> AsyncIterator[list[Forecast]]:
    """Yield all new forecasts, then one chunk of those whose hold has run out."""
    while forecasts := await parts.ledger.forecasts.undecided(CHUNK):
        yield forecasts
        if parts.outbox.stopping():
            return
    if again := await parts.ledger.forecasts.held(CHUNK, now=parts.clock.now()):
        yield again


@dataclass(frozen=True, slots=True)
class _Pass:
    """One pass: ``shops`` are those opened in it, or why one could not be; ``acked`` counts what was acknowledged.

    ``sent`` is what the accounts, as they were read, were not charged with yet.
    """

    parts: Submitting
    around: Around
    shops: dict[str, Shop | str]
    acked: list[int]
    sent: dict[str, list[Intent]] = field(default_factory=dict)

    async def shop(self, venue: str) -> Shop | str:
        """Return the shop of a venue, with its account read once a pass."""
        if venue not in self.shops:
            self.shops[venue] = await _opened(self.parts, venue)
        return self.shops[venue]

    async def charge(self, venue: str, shop: Shop) -> None:
        """Charge the account with what was acknowledged, whoever sent it; what is under way counts as reserved."""
        under_way = []
        for intent in self.sent.pop(venue, ()):
            state = (await self.parts.ledger.submissions.get(intent.id)).state
            if state is IntentState.ACKED and intent.order is not None:
                shop.spend(intent.order.cost)
            elif state in _UNDER_WAY:
                under_way.append(intent)
        self.sent[venue] = under_way


async def _decide_all(this: _Pass, pairs: Sequence[Pair]) -> list[Decision]:
    """Decide side by side; what would be orders at one venue one after the other, since each takes of the same cash."""
    ways: dict[str, list[Pair]] = {}
    apart = [pair for pair in pairs if pair[0].ref.venue not in this.parts.planners]
    for pair in pairs:
        if pair[0].ref.venue in this.parts.planners:
            ways.setdefault(pair[0].ref.venue, []).append(pair)
    decisions = [*await together(lambda pair: _decide(this, *pair), apart, places=PLACES)]
    for done in await together(lambda way: _one_by_one(this, way), [*ways.values()], places=PLACES):
        decisions += done
    return decisions


async def _one_by_one(this: _Pass, pairs: Sequence[Pair]) -> list[Decision]:
    """Size all together, then decide one after the other, and send each order before the next one is looked at."""
    await _propose(this, pairs)
    decisions = []
    for pair in pairs:
        if this.parts.outbox.stopping():
            break
        decisions.append(decision := await _decide(this, *pair))
        if isinstance(decision, Send):
            venue, order = decision.intent.ref.venue, decision.intent.order
            this.sent.setdefault(venue, []).append(decision.intent)
            if order is not None and isinstance(shop := this.shops.get(venue), Shop):
                shop.bought += order.cost
            this.acked.append(await this.parts.outbox.flush())
    return decisions


async def _propose(this: _Pass, pairs: Sequence[Pair]) -> None:
    """Have the orders of a venue sized together, of what would come as far as its planner."""
    cases = [case for pair in pairs if (case := await _to_plan(this, *pair)) is not None]
    if len(cases) < 2:
        return
    lane = cases[0].lane
    shop = await this.shop(lane.venue)
    if not isinstance(shop, str):
        reserved = await this.parts.ledger.leave.waiting(lane.venue, lane.account, paper=not lane.live)
        await shop.propose(cases, reserved=reserved)


async def _to_plan(this: _Pass, forecast: Forecast, docket: Docket) -> Case | None:
    parts, now = this.parts, this.parts.clock.now()
    if docket.successor is not None:
        return None
    case = await this.around.case(forecast, docket, now)
    if parts.gate.before(case) is not None:
        return None
    return replace(case, usage=await parts.ledger.leave.usage(counted(case), now=now))


async def _decide(this: _Pass, forecast: Forecast, docket: Docket) -> Decision:
    parts, now = this.parts, this.parts.clock.now()
    if docket.successor is not None:
        return await _store(parts, forecast, Hold(why=f"superseded by revision {docket.successor}"))
    case = await this.around.case(forecast, docket, now)
    if hold := parts.gate.before(case):
        return await _store(parts, forecast, hold)
    if counts(case):
        case = replace(case, usage=await parts.ledger.leave.usage(counted(case), now=now))
    if case.trades:
        planned = await _planned(this, case)
        if isinstance(planned, Hold):
            return await _store(parts, forecast, planned)
        case = replace(planned, now=parts.clock.now())
    if asked := parts.gate.question(case):
        return await _store(parts, forecast, await _ask(parts, case, asked))
    return await _settle(parts, case)


async def _planned(this: _Pass, case: Case) -> Case | Hold:
    shop = await this.shop(case.lane.venue)
    if isinstance(shop, str):
        return case.later(shop)
    reserved = await this.parts.ledger.leave.waiting(case.lane.venue, case.lane.account, paper=not case.lane.live)
    # After that, so that what is acknowledged just now is counted twice rather than not at all.
    await this.charge(case.lane.venue, shop)
    return await shop.plan(case, reserved=reserved)


async def _settle(parts: Submitting, case: Case) -> Decision:
    """Decide and store in one transaction, in which what is at stake is counted again where caps depend on it."""
    lane = case.lane
    if counts(case) or lane.live:
        decision = await parts.ledger.submissions.decide_by(
            rule_of(case, parts.gate.decide),
            forecast_id=case.forecast.id,
            at=case.now,
        )
    else:
        decision = await _store(parts, case.forecast, parts.gate.decide(case))
    return decision


async def _store(parts: Submitting, forecast: Forecast, decision: Decision) -> Decision:
    return await parts.ledger.submissions.decide(forecast_id=forecast.id, decision=decision, at=parts.clock.now())


async def _ask(parts: Submitting, case: Case, asked: Approval) -> Hold:
    """Put the question to people, with what would be said beside it, and its row in the audit."""
    lane, commenting = case.lane, parts.commenting
    if commenting is not None and lane.comment and lane.venue in commenting.lanes:
        said = await text_of(commenting, asked.forecast, case.order)
        asked = replace(asked, shown={**asked.shown, "comment": said})
    body = {"approval": asked.id, "forecast": asked.forecast, "cost": f"{asked.cost:.6f}", **asked.shown}
    row = AuditRow(at=asked.asked_at, kind="ask", venue=asked.venue, actor="", body=body)
    await parts.ledger.leave.act(lambda database: approvals.ask(database, asked), row)
    log.warning("needs approval", approval=asked.id, question=str(case.forecast.ref), why=asked.shown["why"])
    return case.later(f"waits for approval {asked.id}: foxcast approve {asked.id}")


async def _opened(parts: Submitting, venue: str) -> Shop | str:
    account = account_reader(parts.outbox, venue)
    if account is None:
        return f"{venue} has no account to pay from"
    try:
        read = await account()
        return await _fallen(parts, venue, read) or Shop(planner=parts.planners[venue], account=read)
    except StoreError:
        raise
    except FoxcastError as error:
        return f"the account cannot be read: {error}"
    except Exception as error:
        log.exception("account cannot be read", venue=venue)
        return f"the account cannot be read: {type(error).__name__}"


async def _fallen(parts: Submitting, venue: str, account: Account) -> str | None:
    """Keep a reading, and say why nothing is bought where it shows that too much was lost."""
    lane, now = parts.lanes[venue], parts.clock.now()
    await parts.ledger.readings.add(venue, lane.account, account, paper=not lane.live)
    if not await stop_losing(parts.ledger, {venue: lane}, now=now):
        return None
    stop = next(one for one in await parts.ledger.leave.read(stops.standing) if one.venue == venue and not one.by)
    return f"{stop}; {stop.remedy}"


def account_reader(outbox: Outbox, venue: str) -> Callable[[], Awaitable[Account]] | None:
    """Return what reads the account of a venue; None where no orders are taken."""
    submitter = outbox.submitters.get(venue)
    return submitter.account if isinstance(submitter, Trader) else None
