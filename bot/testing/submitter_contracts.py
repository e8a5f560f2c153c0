"""Contract kits for submitters, which are writers and paper books; those that trade have trading_contract too."""

# ruff: noqa: S101 - pytest is made of assert
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field, replace
from datetime import datetime
from typing import Any, ClassVar, Literal

from bot.core.errors import RequestRejectedError
from bot.core.interfaces import SealingSubmitter, VenueSubmitter, WriteListingSubmitter
from bot.core.light_dataclass import dataclass
from bot.core.orders import Order
from bot.core.plugin_specs import VenueSpec
from bot.core.predictions import BinaryPrediction
from bot.core.questions import describe_changes
from bot.core.submissions import Intent, IntentState, SealedRequest, SubmissionBatch, WriteReceipt

RECEIPT_STATES = frozenset({IntentState.ACKED, IntentState.REFUSED, IntentState.UNKNOWN, IntentState.ABSENT})


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedTrade:
    """An order that is filled at once, and what it does by the venue's own documentation.

    ``price`` is the average price of one share of the side that is traded, ``fee`` what the venue takes for the whole
    order, both in the currency of the account, and ``shares`` how many are traded. ``unfilled`` is the same order at a
    limit that nobody meets, None where the venue has no limits.
    """

    order: Order
    price: float
    fee: float
    shares: float
    unfilled: Order | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitterSetup:
    """The parts that a kit needs: a submitter, batches for it, and the other side seen by other means.

    ``batch`` is accepted as it is, every intent of ``refused_batch`` is refused. ``count_effects`` counts what took
    effect at the other side, ever. ``reopen`` returns another submitter for the same account, as after a restart.
    ``advance_time`` lets so many seconds pass for both sides, ``now`` is their time. ``lose_request`` and
    ``lose_reply`` lose the next write, without effect or with it; after ``replace_reply`` it takes effect, and a server
    in between answers with status 502. ``edit_questions`` changes the text of every question
    of ``batch`` at the other side; a paper book reads no venue and needs none. ``resting_batch`` is an order that
    nobody fills. ``trades`` are made one after another: of YES and of NO a purchase, and then a sale of no more than it
    bought, on contracts of ``batch``.
    """

    sealer: SealingSubmitter
    batch: SubmissionBatch
    refused_batch: SubmissionBatch
    count_effects: Callable[[], int]
    reopen: Callable[[], Awaitable[SealingSubmitter]]
    advance_time: Callable[[float], Awaitable[None]]
    now: Callable[[], datetime]
    lose_request: Callable[[], None]
    lose_reply: Callable[[], None]
    replace_reply: Callable[[], None] | None = None
    edit_questions: Callable[[], None] | None = None
    resting_batch: SubmissionBatch | None = None
    trades: Sequence[ExpectedTrade] = ()
    secrets: tuple[str, ...] = field(default=(), repr=False)


class SealingSubmitterContract:
    """What every submitter that seals must do. The subclass gives the fixture ``setup``.

    ``requests_expire`` is False where a request may take effect at any later time (there the fence is the time after
    which a request that was sent at once has arrived), ``has_fences`` False where any reading proves an absence.
    """

    # The venue of this submitter, so that a test can check that every venue has its kits.
    spec: ClassVar[VenueSpec[Any]]
    part: ClassVar[Literal["writer", "paper"]]
    requests_expire: ClassVar[bool] = True
    has_fences: ClassVar[bool] = True

    @property
    def _is_paper(self) -> bool:
        return getattr(self, "part", "writer") == "paper"

    async def test_sealing_sends_nothing(self, setup: SubmitterSetup) -> None:
        await seal_batch(setup.sealer, setup.batch)
        assert setup.count_effects() == 0, "seal_requests wrote to the venue: only submit may send anything"
        found = receipt_states(setup.batch, await setup.sealer.read_submissions(setup.batch))
        assert IntentState.ACKED not in found, "read_submissions finds what was never sent: look for the tag"

    async def test_each_intent_has_one_complete_request(self, setup: SubmitterSetup) -> None:
        sealed = await seal_batch(setup.sealer, setup.batch)
        found, wanted = (sorted(names) for names in ((one.intent for one in sealed.sealed), _intent_ids(setup.batch)))
        assert found == wanted, f"seal_requests makes requests of {found}, expected one of each of {wanted}"
        for one in sealed.sealed:
            assert one.tag.strip(), f"{one.intent}: the tag is empty: it is the id by which the request is found again"
            assert one.body.encode(), f"{one.intent}: the body is empty: it is the whole request, without secrets"
            assert (one.fence is not None) is self.has_fences, (
                f"{one.intent}: the fence is {one.fence}: it is the moment after which the request can no longer "
                "arrive; set has_fences = False where any reading proves an absence"
            )
            if one.fence is not None:
                assert one.fence.utcoffset() is not None, f"{one.intent}: the fence has no time zone"
                assert one.fence > setup.now(), f"{one.intent}: the fence {one.fence} is over already: mind its unit"

    async def test_each_request_shows_its_question_as_the_writer_read_it(self, setup: SubmitterSetup) -> None:
        if self._is_paper:
            return
        asked = {question.ref: question for question in setup.batch.questions}
        refs = {intent.id: intent.ref for intent in setup.batch.intents}
        for one in (await seal_batch(setup.sealer, setup.batch)).sealed:
            assert one.question is not None, (
                f"the request of {one.intent} shows no question: set SealedRequest.question to what the writer has "
                "just read, made by the code that makes the reader's questions"
            )
            assert one.question.ref == refs[one.intent], (
                f"the request of {one.intent} shows {one.question.ref}, but the intent is about {refs[one.intent]}"
            )
            known = asked.get(one.question.ref, one.question)
            changes = describe_changes(known, one.question)
            assert changes == (), f"nobody edited it, but the writer reads it differently from the reader: {changes}"

    async def test_a_question_that_was_edited_is_shown_as_it_is_now(self, setup: SubmitterSetup) -> None:
        if self._is_paper:
            return
        assert setup.edit_questions is not None, (
            "set SubmitterSetup.edit_questions: a function that edits the questions of the batch at the other side"
        )
        before = {one.intent: one.question for one in await setup.sealer.seal_requests(setup.batch)}
        setup.edit_questions()
        now = {one.intent: one.question for one in await setup.sealer.seal_requests(setup.batch)}
        for intent in setup.batch.intents:
            old, new = before.get(intent.id), now.get(intent.id)
            assert old is not None, f"{intent.id}: its request shows no question: set SealedRequest.question"
            assert new is not None, (
                f"{intent.id}: a changed question must be shown, with SealedRequest.without_request, not omitted"
            )
            assert describe_changes(old, new), f"{intent.id}: the request shows its question as it was before the edit"

    async def test_no_two_requests_have_the_same_tag(self, setup: SubmitterSetup) -> None:
        first = await seal_batch(setup.sealer, setup.batch)
        other = replace(setup.batch, intents=tuple(replace(one, id=f"{one.id}-other") for one in setup.batch.intents))
        second = await seal_batch(await setup.reopen(), other)
        tags = [one.tag for one in (*first.sealed, *second.sealed)]
        assert len(set(tags)) == len(tags), (
            f"two requests have the same tag: {tags}. Make it from the id of the intent and the time, so that a second "
            "attempt has another one"
        )

    async def test_requests_hold_no_secret(self, setup: SubmitterSetup) -> None:
        sealed = await seal_batch(setup.sealer, setup.batch)
        text = " ".join(f"{one.tag} {one.body}" for one in sealed.sealed)
        shown = sum(secret in text for secret in setup.secrets)
        assert shown == 0, f"{shown} secrets are in SealedRequest.tag or body, which are stored: add keys in submit"

    async def test_what_was_acknowledged_is_found_by_its_request_after_a_restart(self, setup: SubmitterSetup) -> None:
        sealed, _ = await seal_and_submit(setup, setup.batch)
        count, wanted = setup.count_effects(), len(sealed.intents)
        assert count == wanted, f"{wanted} orders were acknowledged, and {count} took effect at the venue"
        states = receipt_states(sealed, await (await setup.reopen()).read_submissions(sealed))
        assert states == {IntentState.ACKED}, (
            f"after a restart read_submissions says {_states_text(states)} of what was acknowledged: look for the tag "
            "at the venue, on all pages, and not in memory"
        )

    async def test_the_list_of_writes_names_what_was_written_as_the_ledger_does(self, setup: SubmitterSetup) -> None:
        if not isinstance(setup.sealer, WriteListingSubmitter):
            return
        since = setup.now()
        sealed = await seal_batch(setup.sealer, setup.batch)
        receipts = await setup.sealer.submit(sealed)
        await setup.advance_time(1.0)
        reopened = await setup.reopen()
        assert isinstance(reopened, WriteListingSubmitter), "the reopened submitter has no list_writes"
        listed = await reopened.list_writes(since)
        known = {receipt.reference for receipt in receipts} | {one.tag for one in sealed.sealed}
        unknown = {one.reference for one in listed} - known
        assert not unknown, (
            f"list_writes names {sorted(unknown)}, but receipts and requests name {sorted(known)}: these would be "
            "taken for orders of a stranger, and stop the venue"
        )
        assert len(listed) == len(sealed.intents), f"list_writes shows {len(listed)} of {len(sealed.intents)} writes"
        contracts = {one.order.contract for one in sealed.intents if one.order is not None}
        shown = {one.contract for one in listed}
        assert shown == contracts, f"list_writes shows the contracts {sorted(shown)}, written were {sorted(contracts)}"
        assert all(since <= one.at <= setup.now() for one in listed), (
            f"list_writes shows writes at {[str(one.at) for one in listed]}, but they were made since {since}: mind "
            "unit and zone, and the parameter since"
        )

    async def test_it_is_found_among_the_requests_of_earlier_attempts(self, setup: SubmitterSetup) -> None:
        earlier = await seal_batch(setup.sealer, setup.batch)
        if self.has_fences:
            await _pass_fence(setup, earlier)
        sealed = await seal_batch(setup.sealer, setup.batch)
        await setup.sealer.submit(sealed)
        both = replace(sealed, sealed=(*sealed.sealed, *earlier.sealed))
        states = receipt_states(both, await setup.sealer.read_submissions(both))
        assert states == {IntentState.ACKED}, (
            f"read_submissions says {_states_text(states)}: an intent may have several requests, of which the last is "
            "not always the one that took effect; look for the tags of all"
        )

    async def test_a_lost_reply_is_a_doubt_that_reading_settles(self, setup: SubmitterSetup) -> None:
        sealed = await seal_batch(setup.sealer, _first_intent_only(setup.batch))
        setup.lose_reply()
        states = receipt_states(sealed, await setup.sealer.submit(sealed))
        count = setup.count_effects()
        assert count == 1, f"the reply was lost, and the order took effect {count} times: submit must not send again"
        assert states == {IntentState.UNKNOWN}, f"the reply was lost, which is UNKNOWN, but submit says {states}"
        await wait_until_settled(setup, sealed, self.has_fences)
        states = receipt_states(sealed, await (await setup.reopen()).read_submissions(sealed))
        assert states == {IntentState.ACKED}, (
            f"read_submissions says {states} of a request that took effect: does it read all pages, and look for the "
            "tag of the request?"
        )
        assert setup.count_effects() == 1, "read_submissions wrote: it must only read"

    async def test_an_error_of_a_server_in_between_is_a_doubt(self, setup: SubmitterSetup) -> None:
        if setup.replace_reply is None:
            return
        sealed = await seal_batch(setup.sealer, _first_intent_only(setup.batch))
        setup.replace_reply()
        states = receipt_states(sealed, await setup.sealer.submit(sealed))
        assert states == {IntentState.UNKNOWN}, (
            f"status 502 says nothing about the order, which is UNKNOWN, but submit says {_states_text(states)}: an "
            "order that took effect would be made again"
        )
        count = setup.count_effects()
        assert count == 1, f"the reply was lost, and the order took effect {count} times: submit must not send again"

    async def test_a_lost_request_is_a_doubt_and_then_an_absence(self, setup: SubmitterSetup) -> None:
        sealed = await seal_batch(setup.sealer, _first_intent_only(setup.batch))
        setup.lose_request()
        states = receipt_states(sealed, await setup.sealer.submit(sealed))
        count = setup.count_effects()
        assert count == 0, f"the request was lost, and {count} orders took effect: submit must not send it again"
        assert states == {IntentState.UNKNOWN}, f"the request was lost, which is UNKNOWN, but submit says {states}"
        await wait_until_settled(setup, sealed, self.has_fences)
        states = receipt_states(sealed, await (await setup.reopen()).read_submissions(sealed))
        assert states == {IntentState.ABSENT}, (
            f"the request never arrived and its fence is over, which is ABSENT, but read_submissions says "
            f"{_states_text(states)}"
        )

    async def test_reading_writes_nothing(self, setup: SubmitterSetup) -> None:
        sealed = await seal_batch(setup.sealer, _first_intent_only(setup.batch))
        setup.lose_request()
        await setup.sealer.submit(sealed)
        for _ in range(2):
            await setup.sealer.read_submissions(sealed)
        assert setup.count_effects() == 0, "read_submissions wrote what it found missing: it must only read"

    async def test_past_its_fence_a_request_has_no_effect(self, setup: SubmitterSetup) -> None:
        if not (self.requests_expire and self.has_fences):
            return
        sealed = await seal_batch(setup.sealer, _first_intent_only(setup.batch))
        await _pass_fence(setup, sealed)
        states = receipt_states(sealed, await setup.sealer.submit(sealed))
        assert IntentState.ACKED not in states, (
            "submit sent a request after its fence: refuse it, or send its moment of expiry, in the right unit"
        )
        assert setup.count_effects() == 0, "a request took effect after its fence: send its moment of expiry with it"

    async def test_a_refusal_has_a_reason_and_no_effect(self, setup: SubmitterSetup) -> None:
        why, sealed = await _try_to_seal(setup.sealer, setup.refused_batch)
        assert why is None or why.strip(), "seal_requests raises RequestRejectedError without a reason"
        names = {one.intent for one in sealed}
        rest = tuple(intent for intent in setup.refused_batch.intents if intent.id in names)
        asked = replace(setup.refused_batch, intents=rest, sealed=tuple(sealed))
        receipts = await setup.sealer.submit(asked) if rest else []
        states = receipt_states(asked, receipts)
        assert states <= {IntentState.REFUSED}, f"the venue refuses this batch, but submit says {states}"
        assert all(receipt.detail.strip() for receipt in receipts), "a refusal needs its reason in WriteReceipt.detail"
        assert setup.count_effects() == 0, "a refused order took effect"

    async def test_an_empty_batch_leaves_no_trace(self, setup: SubmitterSetup) -> None:
        empty = replace(setup.batch, intents=())
        for step in (setup.sealer.seal_requests, setup.sealer.submit, setup.sealer.read_submissions):
            found = list(await step(empty))
            assert found == [], f"{step.__name__} of a batch without intents returns {found}"
        assert setup.count_effects() == 0, "a batch without intents took effect"


async def seal_batch(sealer: SealingSubmitter, batch: SubmissionBatch) -> SubmissionBatch:
    """Return the batch with the requests that the submitter makes of it."""
    sealed = await sealer.seal_requests(batch)
    assert isinstance(sealed, list | tuple), f"seal_requests returns {type(sealed).__name__}: return a list"
    assert all(isinstance(one, SealedRequest) for one in sealed), (
        "seal_requests returns other things than SealedRequest"
    )
    return replace(batch, sealed=tuple(sealed))


async def _try_to_seal(sealer: SealingSubmitter, batch: SubmissionBatch) -> tuple[str | None, Sequence[SealedRequest]]:
    try:
        return None, await sealer.seal_requests(batch)
    except RequestRejectedError as error:
        return str(error), []


async def seal_and_submit(
    setup: SubmitterSetup, batch: SubmissionBatch
) -> tuple[SubmissionBatch, Sequence[WriteReceipt]]:
    """Return the batch with its requests, and the receipts of its orders; all must be accepted."""
    sealed = await seal_batch(setup.sealer, batch)
    receipts = await setup.sealer.submit(sealed)
    states, why = receipt_states(sealed, receipts), "; ".join(one.detail for one in receipts if one.detail)
    assert states == {IntentState.ACKED}, (
        f"the venue accepts {_orders_text(sealed)}, but submit says {_states_text(states)}: {why or 'no reason given'}"
    )
    return sealed, receipts


def _orders_text(batch: SubmissionBatch) -> str:
    orders = [intent.order for intent in batch.intents if intent.order is not None]
    shown = (f"{one.side} {one.shares:g} {one.leg} of {one.contract} at {one.limit:g}" for one in orders)
    return "; ".join(shown) or "the batch"


def _states_text(states: set[IntentState]) -> str:
    return " and ".join(sorted(states)) or "nothing"


async def _pass_fence(setup: SubmitterSetup, sealed: SubmissionBatch) -> None:
    fences = [one.fence for one in sealed.sealed if one.fence is not None]
    await setup.advance_time((max(fences) - setup.now()).total_seconds() + 0.001)


async def wait_until_settled(setup: SubmitterSetup, sealed: SubmissionBatch, fences: bool) -> None:  # noqa: FBT001 - of the class
    """Let the time pass after which a request that is not found did not arrive."""
    if fences:
        await _pass_fence(setup, sealed)


def _first_intent_only(batch: SubmissionBatch) -> SubmissionBatch:
    return replace(batch, intents=batch.intents[:1])


def receipt_states(batch: SubmissionBatch, receipts: object) -> set[IntentState]:
    """Return the states after checking that there is one honest receipt per intent."""
    return _require_receipts(batch, receipts, RECEIPT_STATES)


def _require_receipts(batch: SubmissionBatch, receipts: object, known: frozenset[IntentState]) -> set[IntentState]:
    assert isinstance(receipts, list | tuple), f"the receipts are {type(receipts).__name__}: return a list"
    assert all(isinstance(receipt, WriteReceipt) for receipt in receipts), "there are other things than WriteReceipt"
    found, wanted = sorted(receipt.intent for receipt in receipts), sorted(_intent_ids(batch))
    assert found == wanted, f"there are receipts of {found}, expected one of each of {wanted}"
    states = {receipt.state for receipt in receipts}
    assert states <= known, f"a receipt is {_states_text(states - known)}; it may be {_states_text(set(known))}"
    return states


def _intent_ids(batch: SubmissionBatch) -> list[str]:
    return [intent.id for intent in batch.intents]


class SubmitterContract:
    """What every writer and paper book must do where the last answer to a question counts; orders have their own kit.

    Those that make their requests beforehand must make them first, and refuse in ``submit`` what they refuse here. The
    subclass gives the fixtures ``submitter`` (open, without answers), ``batch`` (accepted as it is, with binary
    predictions), ``refused_batch`` (every intent of it is refused) and ``answers`` (a function that counts the answers
    at the other side, by other means than the submitter).
    """

    # The venue of this submitter, so that a test can check that every venue has its kits.
    spec: ClassVar[VenueSpec[Any]]
    part: ClassVar[Literal["writer", "paper"]]

    async def test_nothing_stands_before_it_is_submitted(
        self, submitter: VenueSubmitter, batch: SubmissionBatch
    ) -> None:
        await _require_reading(submitter, batch, IntentState.ABSENT, "nothing was submitted")

    async def test_what_was_acknowledged_stands(self, submitter: VenueSubmitter, batch: SubmissionBatch) -> None:
        batch = await _sealed_if_needed(submitter, batch)
        states = _submission_states(batch, await submitter.submit(batch))
        assert states == {IntentState.ACKED}, f"the venue accepts this batch, but submit says {_states_text(states)}"
        await _require_reading(submitter, batch, IntentState.ACKED, "it was acknowledged")

    async def test_submitting_twice_is_standing_once(
        self, submitter: VenueSubmitter, batch: SubmissionBatch, answers: Callable[[], int]
    ) -> None:
        batch = await _sealed_if_needed(submitter, batch)
        await submitter.submit(batch)
        once = answers()
        batch = await _sealed_if_needed(submitter, batch)
        await submitter.submit(batch)
        assert once > 0, "submit acknowledged the batch, but the venue has no answer"
        assert answers() == once, f"submitted twice, the venue has {answers()} answers, and {once} after the first time"
        await _require_reading(submitter, batch, IntentState.ACKED, "it was submitted twice")

    async def test_the_later_answer_stands(self, submitter: VenueSubmitter, batch: SubmissionBatch) -> None:
        batch = await _sealed_if_needed(submitter, batch)
        changed = replace(batch, intents=tuple(_changed_intent(intent) for intent in batch.intents), sealed=())
        await submitter.submit(batch)
        await _require_reading(submitter, changed, IntentState.ABSENT, "an earlier answer is there, with other values")
        changed = await _sealed_if_needed(submitter, changed)
        await submitter.submit(changed)
        await _require_reading(submitter, changed, IntentState.ACKED, "it is the later answer")
        await _require_reading(submitter, batch, IntentState.ABSENT, "a later answer replaced it")

    async def test_a_refusal_is_a_receipt_with_a_reason(
        self, submitter: VenueSubmitter, refused_batch: SubmissionBatch, answers: Callable[[], int]
    ) -> None:
        refused_batch = await _sealed_if_needed(submitter, refused_batch)
        receipts = await submitter.submit(refused_batch)
        states = _submission_states(refused_batch, receipts)
        assert states == {IntentState.REFUSED}, f"the venue refuses this batch, but submit says {_states_text(states)}"
        assert all(receipt.detail for receipt in receipts), "a refusal needs its reason in WriteReceipt.detail"
        assert answers() == 0, "a refused answer took effect"
        found = _submission_states(refused_batch, await submitter.read_submissions(refused_batch))
        assert IntentState.ACKED not in found, "read_submissions finds an answer that was refused"

    async def test_an_empty_batch_leaves_no_trace(
        self, submitter: VenueSubmitter, batch: SubmissionBatch, answers: Callable[[], int]
    ) -> None:
        found = list(await submitter.submit(replace(batch, intents=())))
        assert found == [], f"submit of a batch without intents returns {found}"
        assert answers() == 0, "a batch without intents took effect"


POSSIBLE_STATES = frozenset({IntentState.ACKED, IntentState.REFUSED, IntentState.UNKNOWN})


def _submission_states(batch: SubmissionBatch, receipts: object) -> set[IntentState]:
    """Return the states after checking that there is one honest receipt per intent."""
    return _require_receipts(batch, receipts, POSSIBLE_STATES | {IntentState.ABSENT})


async def _require_reading(submitter: VenueSubmitter, batch: SubmissionBatch, wanted: IntentState, why: str) -> None:
    states = _submission_states(batch, await submitter.read_submissions(batch))
    assert states == {wanted}, f"read_submissions says {_states_text(states)}, expected {wanted}: {why}"


async def _sealed_if_needed(submitter: VenueSubmitter, batch: SubmissionBatch) -> SubmissionBatch:
    """Return the batch as it is written: with its requests, where the submitter makes them beforehand."""
    if not isinstance(submitter, SealingSubmitter):
        return batch
    return replace(batch, sealed=tuple(await submitter.seal_requests(batch)))


def _changed_intent(intent: Intent) -> Intent:
    moved = {
        key: BinaryPrediction(prediction.probability / 2 or 0.5)
        if isinstance(prediction, BinaryPrediction)
        else prediction
        for key, prediction in intent.predictions.items()
    }
    return replace(intent, id=f"{intent.id}-changed", predictions=moved)
