"""Halts a venue where more writes would make matters worse.

If too many writes have an unknown outcome, the venue resumes by itself once all of them were read back; if money may be
lost, a person must resume it. If fills contradict their orders, a person must always resume it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from bot.core.orders import Fill, Order, OrderSide
from bot.core.submissions import Intent, WriteReceipt
from bot.execution.gate.decision_context import RETRY_HOLD_AFTER
from bot.execution.outbox.account_session import AccountSession, log
from bot.store import decisions, permissions
from bot.store.audit_log import AuditRow
from bot.store.permissions import HaltEndCondition, SubmissionHalt
from bot.store.submission_attempts import COST_TOLERANCE, UnsettledWrites


async def halt_if_too_many_unsettled(session: AccountSession, venue: str) -> bool:
    """Halt a venue with too many unknown writes, counted since a person last resumed it; return whether it has."""
    found = await session.ledger.submissions.count_unsettled(venue, now=session.clock.now())
    if found.blocking <= session.max_unsettled:
        return False
    await halt_venue(session, venue, unsettled_reason(session.max_unsettled), end_condition=HaltEndCondition.SETTLED)
    return True


def unsettled_reason(limit: int) -> str:
    """Return the reason for halting a venue with more than ``limit`` unknown writes."""
    return f"more than {limit} writes are without a known outcome, and are read back"


async def halt_venue(
    session: AccountSession, venue: str, why: str, *, end_condition: HaltEndCondition = HaltEndCondition.PERSON
) -> None:
    """Halt a venue, with a row in the audit, and alert people; an equal halt is not repeated."""
    halts = await session.ledger.permissions.read(permissions.list_active_halts)
    equal_halts = [one for one in halts if (one.venue, one.end_condition) == (venue, end_condition)]
    if any(one.why == why or end_condition is not HaltEndCondition.PERSON for one in equal_halts):
        return
    halt = SubmissionHalt(venue=venue, at=session.clock.now(), why=why, end_condition=end_condition)
    row = AuditRow(at=halt.at, kind="stop", venue=venue, actor="", body={"why": why})
    await session.ledger.permissions.write_with_audit(lambda database: permissions.add_halt(database, halt), row)
    log.error("stopped", venue=venue, why=why, remedy=halt.remedy)
    await session.alert(venue, f"{halt}; {halt.remedy}")


async def resume_if_settled(session: AccountSession, venue: str) -> None:
    """Resume a venue whose unknown writes are all settled, and alert people; if money may be lost, require a person.

    The gate decides at once on what was held meanwhile.
    """
    halts = await session.ledger.permissions.read(permissions.list_active_halts)
    halt = next((one for one in halts if (one.venue, one.end_condition) == (venue, HaltEndCondition.SETTLED)), None)
    if halt is None:
        return
    now = session.clock.now()
    found = await session.ledger.submissions.count_unsettled(venue, now=now)
    if found.unread:
        return
    if found.lost:
        await _require_person(session, halt, found)
        return
    why = "all writes with an unknown outcome were read back"
    row = AuditRow(at=now, kind="resume", venue=venue, actor="", body={"why": why})
    release = decisions.releasing_holds(
        lambda database: permissions.end_halts(database, venue, HaltEndCondition.SETTLED, at=now),
        at=now,
        by=now + RETRY_HOLD_AFTER,
        venue=venue,
    )
    await session.ledger.permissions.write_with_audit(release, row)
    log.warning("resumed", venue=venue, why=why)
    await session.alert(venue, f"{venue} resumes: {why}")


async def _require_person(session: AccountSession, halt: SubmissionHalt, found: UnsettledWrites) -> None:
    orders = "an order" if found.lost == 1 else f"{found.lost} orders"
    why = f"no reading shows the outcome of {orders}; money may be lost; check the venue, then: foxcast orders adopt"
    row = AuditRow(at=session.clock.now(), kind="stop", venue=halt.venue, actor="", body={"why": why})
    await session.ledger.permissions.write_with_audit(
        lambda database: permissions.require_manual_resume(database, halt.venue, why), row
    )
    manual_halt = replace(halt, why=why, end_condition=HaltEndCondition.PERSON)
    log.error("stopped", venue=halt.venue, why=why, remedy=manual_halt.remedy)
    await session.alert(halt.venue, f"{manual_halt}; {manual_halt.remedy}")


async def halt_on_wrong_fills(
    session: AccountSession, intents: Sequence[Intent], receipts: Sequence[WriteReceipt]
) -> None:
    """Halt the venue of an order that cost more than it may, or whose fills it reported differently before.

    Runs before fills are recorded, so that none is missed; they are recorded anyway, since they are what happened.
    """
    with_fills = {receipt.intent: receipt for receipt in receipts if receipt.fills}
    for intent in [one for one in intents if one.id in with_fills]:
        receipt = with_fills[intent.id]
        known = {fill.reference: fill for fill in await session.ledger.submissions.fills(intent.id)}
        fills = {fill.reference: fill for fill in receipt.fills} | known
        if why := _cost_breach(intent, [*fills.values()]) or _fill_contradiction(intent, receipt, known):
            await halt_venue(session, intent.ref.venue, why)


def _fill_contradiction(intent: Intent, receipt: WriteReceipt, known: Mapping[str, Fill]) -> str | None:
    """Return that a recorded fill has other figures now, or None."""
    for fill in receipt.fills:
        one = known.get(fill.reference)
        if one is not None and not (_is_close(one.cash, fill.cash) and _is_close(one.shares, fill.shares)):
            figures = f"{fill.shares:g} shares for {fill.cash:g}, and {one.shares:g} for {one.cash:g} before"
            return f"the venue reports fill {fill.reference} of the order {intent.id} differently: {figures}"
    return None


def _is_close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=COST_TOLERANCE, abs_tol=COST_TOLERANCE)


def _cost_breach(intent: Intent, fills: Sequence[Fill]) -> str | None:
    """Return that the fills of an order cost more than allowed, sold more, or at a worse price; else None."""
    order = intent.order
    if order is None:
        return None
    paid = -math.fsum(fill.cash for fill in fills)
    if paid > order.cost + COST_TOLERANCE * max(1.0, order.cost):
        return f"the order {intent.id} on {intent.ref} may cost {order.cost:g} at most, but cost {paid:g}"
    sold = math.fsum(fill.shares for fill in fills)
    if order.side is OrderSide.SELL and sold > order.shares + COST_TOLERANCE * max(1.0, order.shares):
        return f"the order {intent.id} on {intent.ref} may sell {order.shares:g} shares at most, but sold {sold:g}"
    return _price_breach(intent, order, fills)


def _price_breach(intent: Intent, order: Order, fills: Sequence[Fill]) -> str | None:
    """Return that the average price is worse than the limit, or None; single fills may be worse at some venues."""
    shares = math.fsum(fill.shares for fill in fills)
    price = math.fsum(fill.shares * fill.price for fill in fills) / shares
    worse = price - order.limit if order.side is OrderSide.BUY else order.limit - price
    if worse <= COST_TOLERANCE:
        return None
    return f"the order {intent.id} on {intent.ref} was limited to {order.limit:g}, but the price was {price:g}"
