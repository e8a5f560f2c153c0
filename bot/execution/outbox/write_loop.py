"""The loops of a writer whose venue takes one request at a time: seal, write, read back and cancel, one by one.

A writer provides the step for one intent or order and these loops do the rest. Each request is written once, nothing is
retried, and after a write without an answer the rest of the batch is not begun.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import structlog

from bot.core.errors import (
    AuthenticationError,
    FoxcastError,
    MalformedDataError,
    RequestRejectedError,
    ServiceUnavailableError,
)
from bot.core.interfaces import WriteClient
from bot.core.light_dataclass import dataclass
from bot.core.questions import Question, describe_changes
from bot.core.submissions import Intent, IntentAction, IntentState, SealedRequest, SubmissionBatch, WriteReceipt
from bot.core.venue_http import HttpRequest, HttpResponse, ResponsibleParty, WriteVerdict

log = structlog.get_logger(__name__)

# At most this much of an invalid request is logged.
MAX_LOGGED_CHARS = 2000

# Makes the request of an intent; the question is None if the batch does not hold it.
SealStep = Callable[[Intent, Question | None], Awaitable[SealedRequest]]
# Returns why the request of an intent is not begun now, given the receipts so far, or "".
BeginCheck = Callable[[Intent, SealedRequest, Mapping[str, WriteReceipt]], str]
WriteStep = Callable[[Intent, SealedRequest], Awaitable[WriteReceipt]]
# Reads back an intent by all requests that were made for it.
ReadStep = Callable[[Intent, Sequence[SealedRequest]], Awaitable[WriteReceipt]]

# Cancels an order; returns whether the response confirms it.
CancelStep = Callable[[str], Awaitable[bool]]
_MAX_UNANSWERED_CANCELLATIONS = 2


async def seal_in_turn(batch: SubmissionBatch, seal: SealStep) -> Sequence[SealedRequest]:
    """Return the requests of all intents that may be written now; those that the step rejects are left out.

    Raises RequestRejectedError, with the reasons, if the step rejects all, and any other error of the step.
    """
    sealed: list[SealedRequest] = []
    reasons: list[str] = []
    for intent in batch.intents:
        try:
            sealed.append(await seal(intent, find_batch_question(batch, intent)))
        except RequestRejectedError as error:
            log.info("not sealed", intent=intent.id, question=str(intent.ref), why=str(error))
            reasons.append(str(error))
    if reasons and not sealed:
        raise RequestRejectedError("; ".join(dict.fromkeys(reasons)))
    return tuple(sealed)


def _begin_always(_intent: Intent, _sealed: SealedRequest, _receipts: Mapping[str, WriteReceipt]) -> str:
    return ""


async def write_in_turn(
    batch: SubmissionBatch, write: WriteStep, *, objection: BeginCheck = _begin_always
) -> Sequence[WriteReceipt]:
    """Write each request once, one after the other, comments last; return the receipts in the order of the batch.

    An intent with an ``objection`` is absent, and so is the rest after a write without an answer: it was not begun.
    """
    sealed = {one.intent: one for one in batch.sealed}
    receipts: dict[str, WriteReceipt] = {}
    broken = ""
    for intent in sorted(batch.intents, key=lambda one: one.action is IntentAction.COMMENT):
        request = sealed.get(intent.id)
        if request is None:
            receipts[intent.id] = write_receipt(intent, IntentState.REFUSED, "it has no sealed request")
        elif broken:
            receipts[intent.id] = write_receipt(intent, IntentState.ABSENT, f"not begun after {broken}")
        elif why := objection(intent, request, receipts):
            receipts[intent.id] = write_receipt(intent, IntentState.ABSENT, why)
        else:
            receipts[intent.id] = receipt = await write(intent, request)
            broken = (receipt.detail or "a write without an answer") if receipt.state is IntentState.UNKNOWN else ""
    return tuple(receipts[intent.id] for intent in batch.intents)


async def read_in_turn(batch: SubmissionBatch, read: ReadStep) -> Sequence[WriteReceipt]:
    """Read back each intent; what cannot be read is unknown. Raises AuthenticationError."""
    receipts = []
    for intent in batch.intents:
        try:
            receipts.append(await read(intent, [one for one in batch.sealed if one.intent == intent.id]))
        except AuthenticationError:
            raise
        except FoxcastError as error:
            receipts.append(write_receipt(intent, IntentState.UNKNOWN, f"cannot be read: {error}"))
    return tuple(receipts)


async def cancel_in_turn(order_ids: Sequence[str], cancel: CancelStep) -> frozenset[str]:
    """Cancel orders one after the other; return those of which the step says that the venue confirmed it.

    A cancellation without an answer holds up no other one: the list of orders afterwards shows what it did. Raises the
    error of the second in a row, since the venue is away then, and any other error of the step.
    """
    confirmed, unanswered = set(), 0
    for order_id in order_ids:
        try:
            is_confirmed = await cancel(order_id)
        except (ServiceUnavailableError, MalformedDataError) as error:
            unanswered += 1
            if unanswered == _MAX_UNANSWERED_CANCELLATIONS:
                raise
            log.warning("a cancellation has no answer", order=order_id, error=str(error))
            continue
        unanswered = 0
        if is_confirmed:
            confirmed.add(order_id)
    return frozenset(confirmed)


async def send_once(
    client: WriteClient,
    request: HttpRequest,
    read_verdict: Callable[[HttpResponse], WriteVerdict],
    *,
    max_bytes: int,
    deadline_s: float,
) -> tuple[WriteVerdict, HttpResponse | None]:
    """Send a request once, and return the verdict on the response.

    Without a response (None) the verdict is absent if the client rejected the request before sending it, else unknown.
    """
    try:
        reply = await client.send(request, max_bytes=max_bytes, deadline_s=deadline_s)
    except RequestRejectedError as error:
        return WriteVerdict(state=IntentState.ABSENT, detail=str(error)), None
    except (ServiceUnavailableError, MalformedDataError) as error:
        return WriteVerdict(state=IntentState.UNKNOWN, detail=str(error)), None
    return read_verdict(reply), reply


@dataclass(slots=True, kw_only=True)
class AccountRefusal:
    """Remembers that the venue refused the account itself: nothing more is sealed until the writer is opened again.

    ``remedy`` says what a person must do.
    """

    venue: str
    remedy: str
    reason: str = ""

    def require_accepted(self) -> None:
        """Raise AuthenticationError once the account was refused."""
        if self.reason:
            raise AuthenticationError(self.reason)

    def note_verdict(self, verdict: WriteVerdict, sealed: SealedRequest) -> None:
        """Log a verdict that needs action, and remember a refusal of the account itself."""
        detail = verdict.detail
        if verdict.responsible is ResponsibleParty.DEVELOPER:
            body = sealed.body[:MAX_LOGGED_CHARS]
            log.error("invalid request", venue=self.venue, tag=sealed.tag, body=body, detail=detail)
        elif verdict.responsible is ResponsibleParty.OPERATOR and verdict.state is IntentState.REFUSED:
            self.reason = f"the account was refused ({detail}); {self.remedy}"
            log.error("nothing more is sent until the next start", venue=self.venue, detail=detail)
        elif verdict.responsible is ResponsibleParty.OPERATOR:
            log.error("operator must act", venue=self.venue, detail=detail)


def find_batch_question(batch: SubmissionBatch, intent: Intent) -> Question | None:
    """Return the question of an intent, None if the batch does not hold it."""
    return next((question for question in batch.questions if question.ref == intent.ref), None)


def report_changed_question(intent: Intent, asked: Question | None, reading: Question) -> SealedRequest | None:
    """Return the reading instead of a request if the question has changed since the forecast, else None."""
    if asked is None or not intent.requires_same_question or not describe_changes(asked, reading):
        return None
    return SealedRequest.without_request(intent, reading)


def write_receipt(intent: Intent, state: IntentState, detail: str = "", *, reference: str = "") -> WriteReceipt:
    """Return the receipt of an intent without fills."""
    return WriteReceipt(intent=intent.id, state=state, reference=reference, detail=detail)
