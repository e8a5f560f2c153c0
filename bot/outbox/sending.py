"""From a waiting intent to an answer: checked once more, sealed, committed as sending, written once.

What a check objects to goes back to the gate. Nothing here retries a write, and nothing that goes wrong after the
commit is proof of anything but what the submitter says.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from bot.domain.submission import Batch, Intent, IntentAction, IntentState, Receipt, Sealed
from bot.errors import ContractError, FoxcastError, Rejected, StoreError, named
from bot.outbox.door import UNSETTLED, WAITING, Door, answer, first_of, log, stands, unknown
from bot.outbox.doubts import watch
from bot.outbox.question_check import without_changed
from bot.ports import Sealer
from bot.store.submissions import BatchRow, IntentRow

# A batch that came back as incomplete goes again with the next intent that joins it, or else after so long.
AGAIN_AFTER = timedelta(hours=6)
# An intent that goes alone and did not get through.
ALONE_AGAIN_AFTER = timedelta(minutes=5)

# An order whose request cannot be made on the market as it is.
PLAN_AGAIN_AFTER = timedelta(minutes=10)
UNMADE = "its request cannot be made"


async def send(door: Door, row: BatchRow) -> int:
    """Send what waits in a batch; return how many intents were acknowledged.

    A batch with an intent in doubt stays: a write that left the doubtful one out might undo it.
    """
    items = await door.intents(row)
    if any(item.state in UNSETTLED for item in items):
        return 0
    waiting = [item for item in items if item.state in WAITING]
    if all(_came_back(item, row, door.clock.now()) for item in waiting):
        return 0
    fresh = await _cleared(door, waiting)
    if not fresh:
        return 0
    # Where each request is made by itself, nothing that stands is written again.
    beside = [] if door.sealer else [item.intent for item in items if stands(item)]
    return await _write(door, await door.batch(row, [*beside, *_intents(fresh)]), fresh)


async def send_comments(door: Door, row: BatchRow) -> int:
    """Send, one by one, the comments whose forecast was acknowledged; return how many were."""
    acked = 0
    for item in await door.intents(row):
        if door.stopping() or item.state not in WAITING or _came_back(item, row, door.clock.now()):
            continue
        leader = await door.ledger.submissions.leader(item.intent.id)
        if leader in {None, IntentState.REFUSED, IntentState.SUPERSEDED}:
            why = f"what it belongs to is {leader or 'not there'}"
            await door.ledger.submissions.abandon(item.intent.id, why=why, at=door.clock.now())
        elif leader is IntentState.ACKED and await _cleared(door, [item]):
            acked += await _write(door, await door.alone(item.intent), [item])
    return acked


def _intents(items: Sequence[IntentRow]) -> list[Intent]:
    return [item.intent for item in items]


async def _cleared(door: Door, items: Sequence[IntentRow]) -> list[IntentRow]:
    """Return what may still go; the rest goes back to the gate, or where it was no forecast of ours, stays."""
    cleared = []
    for item in items:
        why = await _objection(door, item)
        if why is None:
            cleared.append(item)
        elif item.intent.action is not IntentAction.WITHDRAW:
            await door.ledger.submissions.abandon(item.intent.id, why=why, at=door.clock.now())
            log.info("back to the gate", intent=item.intent.id, why=why)
    return cleared


async def _objection(door: Door, item: IntentRow) -> str | None:
    if door.mode is not None and item.mode is not door.mode:
        return f"it was decided in {item.mode} mode, and the venue is in {door.mode} mode now"
    try:
        return await door.recheck(item.intent)
    except StoreError:
        raise
    except FoxcastError as error:
        return f"it cannot be checked again: {error}"


async def _write(door: Door, batch: Batch, fresh: Sequence[IntentRow]) -> int:
    """Write those of the batch that are fresh; the others are there because they stand."""
    if door.sealer is not None:
        sealed = await _sealed(door, door.sealer, batch)
        fresh = await without_changed(door, [item for item in fresh if item.intent.id in sealed], sealed)
        await _refuse(door, [one.intent for one in fresh if not sealed[one.intent.id].body], UNMADE)
        # Sealing asks the venue, which takes its time: what was so before may not be any more.
        fresh = await _cleared(door, [item for item in fresh if sealed[item.intent.id].body])
        names = {item.intent.id for item in fresh}
        batch = replace(batch, intents=tuple(one for one in batch.intents if one.id in names))
        batch = replace(batch, sealed=tuple(sealed[intent.id] for intent in batch.intents))
    # The last look before the record says that it is on its way.
    if not fresh or door.stopping() or door.brake.holds():
        return 0
    names = {item.intent.id for item in fresh}
    asked_at = door.clock.now()
    try:
        await door.ledger.submissions.begin_attempt(
            [intent.id for intent in batch.intents if intent.id in names], at=asked_at, sealed=batch.sealed
        )
    except ContractError as error:
        log.error("not sent", batch=batch.key, error=str(error))
        return 0
    receipts = [one for one in await _submitted(door, batch) if one.intent in names]
    await watch(door, batch.intents, receipts)
    await _settle(door, receipts, asked_at)
    acked = sum(receipt.state is IntentState.ACKED for receipt in receipts)
    details = sorted({receipt.detail for receipt in receipts if receipt.detail})
    venue = batch.intents[0].ref.venue
    log.info("sent", venue=venue, batch=batch.key, acked=acked, of=len(receipts), detail="; ".join(details[:3]))
    return acked


async def _settle(door: Door, receipts: Sequence[Receipt], asked_at: datetime) -> None:
    """Record the answers; what is absent waits again, but for an order, which is decided anew."""
    back = [replace(one, state=IntentState.PLANNED) for one in receipts if one.state is IntentState.ABSENT]
    await door.ledger.submissions.settle([*receipts, *back], at=door.clock.now(), as_of=asked_at)


async def _submitted(door: Door, batch: Batch) -> list[Receipt]:
    """Write once; an error of any kind is no proof of refusal, and an intent without an answer is unknown."""
    try:
        receipts = first_of(await door.submitter.submit(batch))
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a plugin raises, the write may have happened
        log.warning("submission in doubt", batch=batch.key, error=named(error))
        return [unknown(intent, named(error)) for intent in batch.intents]
    return [answer(intent, receipts.get(intent.id)) for intent in batch.intents]


async def _sealed(door: Door, sealer: Sealer, batch: Batch) -> dict[str, Sealed]:
    """Return the requests by intent; what the submitter will not write is refused, what it cannot make yet waits."""
    try:
        made = await sealer.seal(batch)
        _require_sound(batch, made)
    except StoreError:
        raise
    except Rejected as error:
        await _refuse(door, batch.intents, str(error))
        return {}
    except FoxcastError as error:
        log.warning("cannot be sealed", batch=batch.key, error=str(error))
        return {}
    except Exception as error:  # noqa: BLE001 - whatever a plugin raises, nothing has left
        log.error("cannot be sealed", batch=batch.key, error=named(error))
        return {}
    sealed = {one.intent: one for one in made}
    await _refuse(door, [one for one in batch.intents if one.id not in sealed], UNMADE)
    return sealed


def _require_sound(batch: Batch, made: Sequence[Sealed]) -> None:
    asked = {intent.id: intent for intent in batch.intents}
    names = [one.intent for one in made]
    if len(set(names)) != len(names) or not set(names) <= asked.keys():
        message = f"requests for {sorted(names)} where {sorted(asked)} were to be sealed"
        raise ContractError(message)
    for one in made:
        one.body.encode()  # UnicodeEncodeError: it could not be kept byte for byte
        if one.question is not None and one.question.ref != asked[one.intent].ref:
            message = f"the request of intent {one.intent} was made for {one.question.ref}"
            raise ContractError(message)
        if not one.body and one.question is not None:
            continue
        if not one.tag or (one.fence is not None and one.fence.utcoffset() is None):
            message = f"the request of intent {one.intent} has no tag, or a fence without a time zone"
            raise ContractError(message)
    tags = [one.tag for one in made if one.tag]
    if len(set(tags)) != len(tags):
        message = f"requests of {batch.key} share a tag"
        raise ContractError(message)


async def _refuse(door: Door, intents: Sequence[Intent], why: str) -> None:
    """Refuse for good; of an order only this plan is: the market may move, so the gate is asked again later."""
    if not intents:
        return
    now = door.clock.now()
    log.info("refused before sending", of=len(intents), why=why)
    for intent in intents:
        if intent.action is IntentAction.ORDER:
            await door.ledger.submissions.abandon(intent.id, why=why, at=now, until=now + PLAN_AGAIN_AFTER)
    others = [intent.id for intent in intents if intent.action is not IntentAction.ORDER]
    if others:
        await door.ledger.submissions.refuse(others, why=why, at=now)


def _came_back(item: IntentRow, row: BatchRow, now: datetime) -> bool:
    """Say whether the intent was sent and came back a short while ago."""
    alone = row.comments or row.batch == item.intent.id
    wait = ALONE_AGAIN_AFTER if alone else AGAIN_AFTER
    returned = item.state is IntentState.PLANNED and item.changed_at > item.planned_at
    return returned and now < item.changed_at + wait
