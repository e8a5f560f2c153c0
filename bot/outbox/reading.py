"""From doubt to knowledge: what stands is read back, and an absence is believed from the fence on.

A request that may still take effect, or that a reading may not show yet, is not absent. What no reading settles long
after that is parked for a person, and counts as spent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.domain.submission import Intent, IntentAction, IntentState, Mode, Receipt, Sealed
from bot.outbox.door import Door, answer, first_of, log
from bot.outbox.doubts import stop, watch
from bot.store.submissions import AttemptRow, BatchRow, IntentRow

# An intent that readings cannot settle is in doubt so long after its fence, or after it became unknown.
PARK_AFTER = timedelta(hours=1)
# Lists may show an order late that was taken; so long after its fence nobody waits for that any more.
SURE_AFTER = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trace:
    """The requests of one intent, newest first; ``whole`` says that no attempt under way went without one."""

    sealed: tuple[Sealed, ...]
    whole: bool

    @property
    def fence(self) -> datetime | None:
        """The moment from which on none of them can take effect, None where any reading is proof."""
        return max((one.fence for one in self.sealed if one.fence is not None), default=None)


async def read_back(door: Door, row: BatchRow) -> int:
    """Read back what is unknown of a batch; return how many intents that settled. Raises what the venue raises."""
    items = [item for item in await door.intents(row) if item.state is IntentState.UNKNOWN]
    groups = [[item] for item in items] if row.comments else [items]
    settled = 0
    for group in groups:
        settled += await _read(door, row, group) if group else 0
    return settled


async def read_resting(door: Door, item: IntentRow) -> bool:
    """Read back an order that was taken: what was filled of it, and at its fence what it cost for good.

    Returns whether it rests no more. Raises what the venue raises.
    """
    trace = (await _traces(door, [item]))[item.intent.id]
    asked_at = door.clock.now()
    found = first_of(await door.submitter.standing(await door.alone(item.intent, trace.sealed)))
    receipt = answer(item.intent, found.get(item.intent.id))
    if receipt.state not in {IntentState.ACKED, IntentState.ABSENT}:
        return False
    over = _is_behind(door, trace, asked_at)
    if receipt.state is IntentState.ABSENT and await door.ledger.submissions.fills(item.intent.id):
        return over and await _contradicted(door, item.intent, asked_at)
    if receipt.state is IntentState.ABSENT:
        late = _is_behind(door, trace, asked_at - SURE_AFTER)
        return late and await _vanished(door, item.intent, asked_at)
    await watch(door, [item.intent], [receipt])
    await door.ledger.submissions.settle([receipt], at=door.clock.now(), as_of=asked_at)
    return over


async def _contradicted(door: Door, intent: Intent, asked_at: datetime) -> bool:
    """An order of which parts were filled is not there: whatever is wrong, all that it may cost stays reserved."""
    why = f"the order {intent.id} on {intent.ref} was filled in part by its own account, and the venue does not know it"
    await stop(door, intent.ref.venue, why)
    await door.ledger.submissions.keep(intent.id, as_of=asked_at)
    return True


async def _vanished(door: Door, intent: Intent, asked_at: datetime) -> bool:
    """An order that was taken is not there: others may have filled it, so all that it may cost stays reserved."""
    what = (
        f"the order {intent.id} on {intent.ref} was taken, and the venue lists neither it nor a fill; all that it may "
        "cost stays reserved: look there"
    )
    log.error("not listed", venue=intent.ref.venue, intent=intent.id)
    await door.alarm(intent.ref.venue, what)
    await door.ledger.submissions.keep(intent.id, as_of=asked_at)
    return True


async def revoke(door: Door, row: BatchRow) -> int:
    """Take back acknowledgements of forecasts that do not stand any more, after a restore; return how many.

    An order that was taken is never written again, whatever became of it, nor is anything that was said.
    """
    items = [item for item in await door.intents(row) if item.state is IntentState.ACKED]
    intents = [item.intent for item in items if item.intent.action is IntentAction.FORECAST]
    if not intents:
        return 0
    traces = await _traces(door, items)
    sealed = [one for intent in intents for one in traces[intent.id].sealed]
    found = first_of(await door.submitter.standing(await door.batch(row, intents, sealed)))
    gone = [one.id for one in intents if one.id in found and found[one.id].state is IntentState.ABSENT]
    detail = "read back after a restore: it does not stand"
    await door.ledger.submissions.revoke(gone, detail=detail, at=door.clock.now())
    return len(gone)


async def _read(door: Door, row: BatchRow, items: Sequence[IntentRow]) -> int:
    traces = await _traces(door, items)
    sealed = [one for item in items for one in traces[item.intent.id].sealed]
    batch = await door.batch(row, [item.intent for item in items], sealed)
    asked_at = door.clock.now()
    found = first_of(await door.submitter.standing(batch))
    settled = []
    for item in items:
        receipt = answer(item.intent, found.get(item.intent.id))
        trace = traces[item.intent.id]
        if receipt.state is IntentState.ACKED or (
            receipt.state is IntentState.ABSENT and _is_proof(door, item, trace, asked_at)
        ):
            settled.append(receipt)
        elif asked_at >= _patience_ends(item, trace):
            await _park(door, item, receipt)
    await watch(door, [item.intent for item in items], settled)
    await door.ledger.submissions.settle(settled, at=door.clock.now(), as_of=asked_at)
    return len(settled)


def _is_proof(door: Door, item: IntentRow, trace: _Trace, asked_at: datetime) -> bool:
    """Say whether an absence read at that moment is one for good.

    Of a request that is not on record only a paper book can say so: it knows intents, not tags.
    """
    if door.sealer is not None and not trace.whole and item.mode is not Mode.PAPER:
        return False
    return trace.fence is None or _is_behind(door, trace, asked_at)


def _is_behind(door: Door, trace: _Trace, moment: datetime) -> bool:
    """Say whether there is a fence and it lay behind at the moment; by a clock that is wrong now nothing is said."""
    return trace.fence is not None and moment >= trace.fence and not door.clock_fault()


def _patience_ends(item: IntentRow, trace: _Trace) -> datetime:
    return max(item.changed_at, trace.fence or item.changed_at) + PARK_AFTER


async def _park(door: Door, item: IntentRow, receipt: Receipt) -> None:
    detail = receipt.detail or "reading back does not tell whether it arrived"
    await door.ledger.submissions.mark(item.intent.id, IntentState.IN_DOUBT, detail=detail, at=door.clock.now())
    what = (
        f"intent {item.intent.id} on {item.intent.ref} is in doubt and counts as spent ({detail}); look there, say so"
    )
    log.error("in doubt", venue=item.intent.ref.venue, intent=item.intent.id, detail=detail)
    await door.alarm(item.intent.ref.venue, what)


async def _traces(door: Door, items: Sequence[IntentRow]) -> Mapping[str, _Trace]:
    names = [item.intent.id for item in items]
    attempts = await door.ledger.submissions.attempts(names)
    return {name: _trace([one for one in attempts if one.intent == name]) for name in names}


def _trace(attempts: Sequence[AttemptRow]) -> _Trace:
    open_ = [one for one in attempts if one.state in {IntentState.SENDING, IntentState.UNKNOWN}]
    return _Trace(
        sealed=tuple(one.sealed for one in attempts if one.sealed is not None),
        whole=all(one.sealed is not None for one in open_),
    )
