"""Stops a venue where something is wrong that more writes would make worse.

Too much may be in doubt there: whatever swallows its answers would swallow the next one, too. The venue resumes by
itself once all of it was read back; a person resumes it where no reading told what became of money. Or the books do not
agree: it took more than an order allowed, or tells nothing of what it had filled. That is always for a person.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from bot.domain.order import Fill, Order, Side
from bot.domain.submission import Intent, Receipt
from bot.gate.case import ASK_AGAIN
from bot.outbox.door import Door, log
from bot.store import holds, stops
from bot.store.audit import AuditRow
from bot.store.stops import Stop, StopEnd
from bot.store.writes import ROUNDING, Doubts


async def too_many(door: Door, venue: str) -> bool:
    """Say whether nothing more may be written there, counted since a person let it go on; then it is stopped."""
    found = await door.ledger.submissions.doubts(venue, now=door.clock.now())
    if found.holding <= door.most_doubts:
        return False
    await stop(door, venue, why_doubtful(door.most_doubts), ends=StopEnd.SETTLED)
    return True


def why_doubtful(most: int) -> str:
    """Say why a venue is stopped where more than so many writes have no known outcome."""
    return f"more than {most} writes are without a known outcome, and are read back"


async def stop(door: Door, venue: str, why: str, *, ends: StopEnd = StopEnd.PERSON) -> None:
    """Stop a venue, with a row in the audit, and tell people; one that is stopped for that already stays so."""
    standing = await door.ledger.leave.read(stops.standing)
    alike = [one for one in standing if (one.venue, one.ends) == (venue, ends)]
    if any(one.why == why or ends is not StopEnd.PERSON for one in alike):
        return
    made = Stop(venue=venue, at=door.clock.now(), why=why, ends=ends)
    row = AuditRow(at=made.at, kind="stop", venue=venue, actor="", body={"why": why})
    await door.ledger.leave.act(lambda database: stops.add(database, made), row)
    log.error("stopped", venue=venue, why=why, remedy=made.remedy)
    await door.alarm(venue, f"{made}; {made.remedy}")


async def resume_settled(door: Door, venue: str) -> None:
    """Let a venue go on whose doubts have all settled, and tell people; leave it to a person where money may be lost.

    What was held meanwhile comes before the gate at once.
    """
    standing = await door.ledger.leave.read(stops.standing)
    made = next((one for one in standing if (one.venue, one.ends) == (venue, StopEnd.SETTLED)), None)
    if made is None:
        return
    now = door.clock.now()
    found = await door.ledger.submissions.doubts(venue, now=now)
    if found.unread:
        return
    if found.lost:
        await _leave_to_person(door, made, found)
        return
    why = "all that was without a known outcome was read back"
    row = AuditRow(at=now, kind="resume", venue=venue, actor="", body={"why": why})
    work = holds.freeing(
        lambda database: stops.end(database, venue, StopEnd.SETTLED, at=now), at=now, by=now + ASK_AGAIN, venue=venue
    )
    await door.ledger.leave.act(work, row)
    log.warning("resumed", venue=venue, why=why)
    await door.alarm(venue, f"{venue} goes on: {why}")


async def _leave_to_person(door: Door, made: Stop, found: Doubts) -> None:
    orders = "an order" if found.lost == 1 else f"{found.lost} orders"
    why = f"no reading tells what became of {orders}; money may be lost; look there, then say so: foxcast orders adopt"
    row = AuditRow(at=door.clock.now(), kind="stop", venue=made.venue, actor="", body={"why": why})
    await door.ledger.leave.act(lambda database: stops.leave_to_person(database, made.venue, why), row)
    left = replace(made, why=why, ends=StopEnd.PERSON)
    log.error("stopped", venue=made.venue, why=why, remedy=left.remedy)
    await door.alarm(made.venue, f"{left}; {left.remedy}")


async def watch(door: Door, intents: Sequence[Intent], receipts: Sequence[Receipt]) -> None:
    """Stop the venue of an order that took more than it may cost, or of whose fills it told otherwise before.

    Asked before fills are kept, lest one is missed; they are kept all the same, for they are what happened.
    """
    told = {receipt.intent: receipt for receipt in receipts if receipt.fills}
    for intent in intents:
        if (receipt := told.get(intent.id)) is None:
            continue
        known = {fill.reference: fill for fill in await door.ledger.submissions.fills(intent.id)}
        fills = {fill.reference: fill for fill in receipt.fills} | known
        if why := _overcharge(intent, [*fills.values()]) or _contradiction(intent, receipt, known):
            await stop(door, intent.ref.venue, why)


def _contradiction(intent: Intent, receipt: Receipt, known: Mapping[str, Fill]) -> str | None:
    """Say that a fill that is on record has other figures now, or nothing."""
    for fill in receipt.fills:
        one = known.get(fill.reference)
        if one is not None and not (_near(one.cash, fill.cash) and _near(one.shares, fill.shares)):
            figures = f"{fill.shares:g} shares for {fill.cash:g}, and {one.shares:g} for {one.cash:g} before"
            return f"the venue tells of fill {fill.reference} of the order {intent.id}: {figures}"
    return None


def _near(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=ROUNDING, abs_tol=ROUNDING)


def _overcharge(intent: Intent, fills: Sequence[Fill]) -> str | None:
    """Say that all fills of an order together took more cash than it may cost, sold more, or at a worse price."""
    order = intent.order
    if order is None:
        return None
    paid = -math.fsum(fill.cash for fill in fills)
    if paid > order.cost + ROUNDING * max(1.0, order.cost):
        return f"the order {intent.id} on {intent.ref} was to cost {order.cost:g} at most, and took {paid:g}"
    sold = math.fsum(fill.shares for fill in fills)
    if order.side is Side.SELL and sold > order.shares + ROUNDING * max(1.0, order.shares):
        return f"the order {intent.id} on {intent.ref} was to sell {order.shares:g} shares at most, and sold {sold:g}"
    return _too_dear(intent, order, fills)


def _too_dear(intent: Intent, order: Order, fills: Sequence[Fill]) -> str | None:
    """Say that the average price is worse than the limit; of parts alone venues have their own notions."""
    shares = math.fsum(fill.shares for fill in fills)
    price = math.fsum(fill.shares * fill.price for fill in fills) / shares if shares else order.limit
    worse = price - order.limit if order.side is Side.BUY else order.limit - price
    if worse <= ROUNDING:
        return None
    return f"the order {intent.id} on {intent.ref} was limited to {order.limit:g}, and the price was {price:g}"
