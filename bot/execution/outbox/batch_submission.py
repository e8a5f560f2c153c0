"""Submits one batch.

Checks it again, seals its requests, compares the questions with a fresh reading, records that it is being sent, and
writes it once. Rejected intents go back to the gate. Nothing is retried, and no error after the record proves a
refusal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from bot.core.concurrency import reject_unrequested_cancellation
from bot.core.errors import FoxcastError, MalformedDataError, RequestRejectedError, StoreError, describe_error_with_type
from bot.core.interfaces import SealingSubmitter
from bot.core.questions import Question, describe_changes
from bot.core.submissions import Intent, IntentAction, IntentState, SealedRequest, SubmissionBatch, WriteReceipt
from bot.execution.outbox.account_session import (
    UNSETTLED_STATES,
    WAITING_STATES,
    AccountSession,
    checked_receipt,
    is_standing_forecast,
    log,
    receipts_by_intent,
    unknown_receipt,
)
from bot.execution.outbox.safety_halts import halt_on_wrong_fills
from bot.store.schedule import DueEntry
from bot.store.submissions import BatchRow, IntentRow


async def drop_changed_questions(
    session: AccountSession, items: Sequence[IntentRow], sealed: Mapping[str, SealedRequest]
) -> list[IntentRow]:
    """Return the items whose question, as read for their request, is the one that was forecast."""
    readings = {one.intent: one.question for one in sealed.values() if one.question is not None}
    if not readings:
        return [*items]
    await session.ledger.questions.record([*readings.values()], seen_at=session.clock.now(), by_writer=True)
    return [item for item in items if not await _is_held_back(session, item.intent, readings.get(item.intent.id))]


async def _is_held_back(session: AccountSession, intent: Intent, reading: Question | None) -> bool:
    """Send an intent back to the gate if its question changed; return whether it was."""
    if reading is None or not intent.requires_same_question:
        return False
    forecast = await session.ledger.forecasts.get(intent.forecast)
    changes = describe_changes((await session.ledger.forecasts.questions_of([forecast]))[forecast.version], reading)
    if not changes:
        return False
    why = f"the question changed: {'; '.join(changes)}"
    await session.ledger.submissions.abandon(intent.id, why=why, at=session.clock.now())
    await _schedule_forecast(session, reading, forecast.forecaster, why)
    log.warning("held: the question changed", intent=intent.id, question=str(intent.ref), why=why)
    return True


async def _schedule_forecast(session: AccountSession, question: Question, forecaster: str, why: str) -> None:
    """Make a question due now, unless its newest forecast is of this version already."""
    basis = (await session.ledger.forecasts.read_bases([question.ref], forecaster)).get(question.ref)
    if basis is None or basis.question is None:
        return
    due = DueEntry(
        ref=question.ref,
        forecaster=forecaster,
        due_at=basis.change_due_at(session.clock.now()),
        why=why,
        closes_at=question.closes_at,
        answered_at=basis.made_at,
    )
    await session.ledger.schedule.plan([due])


# An incomplete batch is sent again with the next intent that joins it, or after this time.
RETRY_BATCH_AFTER = timedelta(hours=6)


# Time until a single intent that was not accepted is sent again.
RETRY_INTENT_AFTER = timedelta(minutes=5)


# Time until an order is planned again whose request cannot be made on the market as it is.
REPLAN_ORDER_AFTER = timedelta(minutes=10)


# The same for an order whose request cannot be made now, unless the error names a longer time.
RESEAL_ORDER_AFTER = timedelta(minutes=1)
REQUEST_NOT_MADE = "its request cannot be made"


async def submit_batch(session: AccountSession, row: BatchRow) -> int:
    """Send what waits in a batch; return how many intents were acknowledged.

    A batch with an unsettled intent waits: a write without that intent might undo it.
    """
    items = await session.read_intents(row)
    if any(item.state in UNSETTLED_STATES for item in items):
        return 0
    waiting = [item for item in items if item.state in WAITING_STATES]
    if all(_is_waiting_to_retry(item, row, session.clock.now()) for item in waiting):
        return 0
    fresh = await _check_intents(session, waiting)
    if not fresh:
        return 0
    # If each request is made separately, acknowledged forecasts are not written again.
    standing = [] if session.sealing_submitter else [item.intent for item in items if is_standing_forecast(item)]
    return await _write_batch(session, await session.build_batch(row, [*standing, *_intents_of_rows(fresh)]), fresh)


async def submit_comments(session: AccountSession, row: BatchRow) -> int:
    """Send, one by one, the comments whose forecast was acknowledged; return how many were."""
    acked = 0
    for item in await session.read_intents(row):
        if item.state not in WAITING_STATES or _is_waiting_to_retry(item, row, session.clock.now()):
            continue
        parent_state = await session.ledger.submissions.parent_intent_state(item.intent.id)
        if parent_state in {None, IntentState.REFUSED, IntentState.SUPERSEDED}:
            why = f"its forecast is {parent_state or 'missing'}"
            await session.ledger.submissions.abandon(item.intent.id, why=why, at=session.clock.now())
        elif parent_state is IntentState.ACKED and await _check_intents(session, [item]):
            acked += await _write_batch(session, await session.build_single_batch(item.intent), [item])
    return acked


def _intents_of_rows(items: Sequence[IntentRow]) -> list[Intent]:
    return [item.intent for item in items]


async def _check_intents(session: AccountSession, items: Sequence[IntentRow]) -> list[IntentRow]:
    """Return the items that may be sent; the rest goes back to the gate, except withdrawals, which wait."""
    cleared = []
    for item in items:
        why = await _intent_objection(session, item)
        if why is None:
            cleared.append(item)
        elif item.intent.action is not IntentAction.WITHDRAW:
            await session.ledger.submissions.abandon(item.intent.id, why=why, at=session.clock.now())
            log.info("back to the gate", intent=item.intent.id, why=why)
    return cleared


async def _intent_objection(session: AccountSession, item: IntentRow) -> str | None:
    if session.mode is not None and item.mode is not session.mode:
        return f"it was decided in {item.mode} mode, and the venue is in {session.mode} mode now"
    try:
        return await session.pre_send_check(item.intent)
    except StoreError:
        raise
    except FoxcastError as error:
        return f"it cannot be checked again: {error}"


async def _write_batch(session: AccountSession, batch: SubmissionBatch, fresh: Sequence[IntentRow]) -> int:
    """Write the fresh items of the batch; its other intents are repeated because they are in force."""
    if session.sealing_submitter is not None:
        sealed = await _seal_batch(session, session.sealing_submitter, batch)
        fresh = await drop_changed_questions(session, [item for item in fresh if item.intent.id in sealed], sealed)
        await _refuse_intents(
            session, [one.intent for one in fresh if not sealed[one.intent.id].body], REQUEST_NOT_MADE
        )
        # Sealing reads from the venue, which takes time: things may have changed.
        fresh = await _check_intents(session, [item for item in fresh if sealed[item.intent.id].body])
        ids = {item.intent.id for item in fresh}
        batch = replace(batch, intents=tuple(one for one in batch.intents if one.id in ids))
        batch = replace(batch, sealed=tuple(sealed[intent.id] for intent in batch.intents))
    # The last check before the record says that it is being sent.
    if not fresh or session.is_stopping() or session.kill_switch.halt_reason():
        return 0
    ids = {item.intent.id for item in fresh}
    asked_at = session.clock.now()
    try:
        await session.ledger.submissions.begin_attempt(
            [intent.id for intent in batch.intents if intent.id in ids], at=asked_at, sealed=batch.sealed
        )
    except MalformedDataError as error:
        log.error("not sent", batch=batch.key, error=str(error))
        return 0
    receipts = [one for one in await _submit_once(session, batch) if one.intent in ids]
    await halt_on_wrong_fills(session, batch.intents, receipts)
    await _record_receipts(session, receipts, asked_at)
    acked = sum(receipt.state is IntentState.ACKED for receipt in receipts)
    details = sorted({receipt.detail for receipt in receipts if receipt.detail})
    venue = batch.intents[0].ref.venue
    log.info("sent", venue=venue, batch=batch.key, acked=acked, of=len(receipts), detail="; ".join(details[:3]))
    return acked


async def _record_receipts(session: AccountSession, receipts: Sequence[WriteReceipt], asked_at: datetime) -> None:
    """Record the receipts; absent intents wait again, except orders, which are decided again."""
    requeued = [replace(one, state=IntentState.PLANNED) for one in receipts if one.state is IntentState.ABSENT]
    await session.ledger.submissions.settle([*receipts, *requeued], at=session.clock.now(), as_of=asked_at)


async def _submit_once(session: AccountSession, batch: SubmissionBatch) -> list[WriteReceipt]:
    """Write once; an error of any kind is no proof of refusal, and an intent without an answer is unknown."""
    try:
        with reject_unrequested_cancellation("the writer"):
            receipts = receipts_by_intent(await session.submitter.submit(batch))
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 - after any error the write may have happened
        log.warning("submission unknown", batch=batch.key, error=describe_error_with_type(error))
        return [unknown_receipt(intent, describe_error_with_type(error)) for intent in batch.intents]
    return [checked_receipt(intent, receipts.get(intent.id)) for intent in batch.intents]


async def _seal_batch(
    session: AccountSession, sealer: SealingSubmitter, batch: SubmissionBatch
) -> dict[str, SealedRequest]:
    """Return the requests by intent; rejected intents are refused, and orders that cannot be sealed yet go back."""
    try:
        with reject_unrequested_cancellation("the writer"):
            requests = await sealer.seal_requests(batch)
        _require_valid_requests(batch, requests)
    except StoreError:
        raise
    except RequestRejectedError as error:
        await _refuse_intents(session, batch.intents, str(error))
        return {}
    except FoxcastError as error:
        log.warning("cannot be sealed", batch=batch.key, error=str(error))
        await _return_unsealed_orders(session, batch, str(error), retry_after_s=getattr(error, "retry_after_s", None))
        return {}
    except Exception as error:  # noqa: BLE001 - nothing has been sent yet
        log.error("cannot be sealed", batch=batch.key, error=describe_error_with_type(error))
        await _return_unsealed_orders(session, batch, describe_error_with_type(error))
        return {}
    sealed = {one.intent: one for one in requests}
    await _refuse_intents(session, [one for one in batch.intents if one.id not in sealed], REQUEST_NOT_MADE)
    return sealed


async def _return_unsealed_orders(
    session: AccountSession, batch: SubmissionBatch, why: str, *, retry_after_s: float | None = None
) -> None:
    """Send orders back to the gate, so that they reserve nothing until they can be sealed, and the reason is on record.

    Other intents wait: they do not depend on a price.
    """
    now = session.clock.now()
    until = now + max(RESEAL_ORDER_AFTER, timedelta(seconds=retry_after_s or 0.0))
    for intent in batch.intents:
        if intent.action is IntentAction.ORDER:
            reason = f"{REQUEST_NOT_MADE} now: {why}"
            await session.ledger.submissions.abandon(intent.id, why=reason, at=now, until=until)


def _require_valid_requests(batch: SubmissionBatch, requests: Sequence[SealedRequest]) -> None:
    asked = {intent.id: intent for intent in batch.intents}
    ids = [one.intent for one in requests]
    if len(set(ids)) != len(ids) or not set(ids) <= asked.keys():
        message = f"requests for {sorted(ids)} instead of {sorted(asked)}"
        raise MalformedDataError(message)
    for one in requests:
        one.body.encode()  # UnicodeEncodeError: it could not be kept byte for byte
        if one.question is not None and one.question.ref != asked[one.intent].ref:
            message = f"the request of intent {one.intent} was made for {one.question.ref}"
            raise MalformedDataError(message)
        is_reading = not one.body and one.question is not None
        has_zone = one.fence is None or one.fence.utcoffset() is not None
        if not is_reading and not (one.tag and has_zone):
            message = f"the request of intent {one.intent} has no tag, or a fence without a time zone"
            raise MalformedDataError(message)
    tags = [one.tag for one in requests if one.tag]
    if len(set(tags)) != len(tags):
        message = f"requests of {batch.key} share a tag"
        raise MalformedDataError(message)


async def _refuse_intents(session: AccountSession, intents: Sequence[Intent], why: str) -> None:
    """Refuse intents for good; of an order only this plan, since the gate decides again when the market has moved."""
    if not intents:
        return
    now = session.clock.now()
    log.info("refused before sending", of=len(intents), why=why)
    for intent in intents:
        if intent.action is IntentAction.ORDER:
            await session.ledger.submissions.abandon(intent.id, why=why, at=now, until=now + REPLAN_ORDER_AFTER)
    others = [intent.id for intent in intents if intent.action is not IntentAction.ORDER]
    if others:
        await session.ledger.submissions.refuse(others, why=why, at=now)


def _is_waiting_to_retry(item: IntentRow, row: BatchRow, now: datetime) -> bool:
    """Return whether the intent was sent and returned a short while ago."""
    # A comment is a batch of its own too.
    wait = RETRY_INTENT_AFTER if row.batch == item.intent.id else RETRY_BATCH_AFTER
    returned = item.state is IntentState.PLANNED and item.changed_at > item.planned_at
    return returned and now < item.changed_at + wait
