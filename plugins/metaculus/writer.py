"""The writer: one question per request, sealed from a fresh reading, read back after it was accepted.

The venue has no idempotency keys: a write is found again by its effect. A forecast is compared with the active one, a
comment with our comments on its post. A new forecast replaces the one before, so writing one twice does no harm; before
a comment is written, the post is checked for it.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256

import structlog

from bot.api import (
    AccountRefusal,
    FoxcastError,
    HttpRequest,
    HttpResponse,
    Intent,
    IntentAction,
    IntentState,
    MalformedDataError,
    NotFoundError,
    Question,
    RequestRejectedError,
    ResponsibleParty,
    SealedRequest,
    SubmissionBatch,
    VenueSubmitter,
    VenueWriterContext,
    WriteReceipt,
    WriteVerdict,
    find_batch_question,
    read_in_turn,
    report_changed_question,
    response_json,
    seal_in_turn,
    send_once,
    write_in_turn,
    write_receipt,
)
from plugins.metaculus.api_client import MetaculusClient, api_url, request_headers
from plugins.metaculus.api_records import MetaculusAccountRecord, MetaculusCommentRecord, parse_record
from plugins.metaculus.post_parser import (
    MetaculusParsedPosts,
    PostQuestion,
    QuestionForm,
    build_question,
    question_shape,
)
from plugins.metaculus.question_names import SETTINGS_TABLE, VENUE, split_question_ref
from plugins.metaculus.reader import question_objection
from plugins.metaculus.settings import MetaculusSettings
from plugins.metaculus.write_requests import (
    END_FIELD,
    active_since,
    build_forecast_item,
    clean_comment,
    is_withdrawn,
    read_forecast_item,
    write_verdict,
)

log = structlog.get_logger(__name__)

WRITE_PATHS = {
    IntentAction.FORECAST: "questions/forecast/",
    IntentAction.WITHDRAW: "questions/withdraw/",
    IntentAction.COMMENT: "comments/create/",
}
MAX_RESPONSE_BYTES = 4_000_000
# A sealed request may be sent for this long; then its question is read again.
MAX_SEND_AGE_S = 30.0
# From waiting for the rate limit to the last byte of the response.
WRITE_DEADLINE_S = 45.0
# How long after that a request may still take effect, and readings may be outdated.
SETTLEMENT_DELAY_S = 45.0
# A group or conditional gets one comment per round, for its first question.
COMMENT_INTERVAL = timedelta(hours=24)
# After this many posts in a row refuse this account, log an error.
MAX_REFUSING_POSTS = 3


class MetaculusWriter:
    """Implements ``SealingSubmitter`` for forecasts, withdrawals and private comments; nothing is ever public.

    Once the account itself was refused nothing more is sealed, until the writer is opened again.
    """

    def __init__(self, settings: MetaculusSettings, context: VenueWriterContext) -> None:
        self._settings = settings
        self._clock = context.clock
        self._write_client = context.wire
        self._client = MetaculusClient(settings, context.http, context.clock)
        self._refusal = AccountRefusal(venue=VENUE, remedy=f"correct token in {SETTINGS_TABLE}, then start again")
        self._refusing_posts: set[int] = set()
        self._author: int | None = None

    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        """Return the requests of all intents that may be written now, by a fresh reading.

        Others are left out. Raises RequestRejectedError, with reasons, if all are, AuthenticationError once the account
        was refused, and the errors of reading.
        """
        self._refusal.require_accepted()
        return await seal_in_turn(batch, partial(self._seal_intent, {}))

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        """Write each request once, forecasts before comments; without proof in the response a write is unknown.

        After a write without an answer the rest is absent: it was not begun.
        """
        return await write_in_turn(batch, partial(self._write, batch), objection=partial(self._begin_objection, batch))

    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        """Read back; what cannot be read is unknown. Raises AuthenticationError."""
        return await read_in_turn(batch, partial(self._read_back, {}))

    async def _seal_intent(
        self, posts: dict[int, Mapping[int, PostQuestion]], intent: Intent, asked: Question | None
    ) -> SealedRequest:
        """Return the request for the question as read now, or only the reading if the question has changed."""
        post_id, question_id = split_question_ref(intent.ref)
        if intent.action is IntentAction.WITHDRAW:
            return _seal_request(intent, [{"question": question_id}], self._clock.now())
        if intent.action is IntentAction.ORDER:
            message = "nothing is traded here"
            raise RequestRejectedError(message)
        try:
            entry = (await self._post_questions(post_id, posts))[question_id]
        except (NotFoundError, KeyError) as error:
            message = f"question {question_id} of post {post_id} is no longer visible"
            raise RequestRejectedError(message) from error
        now, is_comment = self._clock.now(), intent.action is IntentAction.COMMENT
        # The site may hide the text of a closed question, so closing is checked first.
        margin = timedelta(seconds=self._settings.close_margin_s)
        if not is_comment and (why := question_objection(entry, now, margin)):
            message = f"{intent.ref} cannot be forecast: {why}"
            raise RequestRejectedError(message)
        reading = build_question(entry)
        if (changed := report_changed_question(intent, asked, reading)) is not None:
            return changed
        body = _comment_body(intent, post_id, entry.form) if is_comment else [self._forecast_item(intent, entry, now)]
        return replace(_seal_request(intent, body, now), question=reading)

    def _forecast_item(self, intent: Intent, entry: PostQuestion, now: datetime) -> Mapping[str, object]:
        (prediction,) = intent.predictions.values()
        item = build_forecast_item(entry.question.id, prediction, question_shape(entry.question))
        if (lifetime := self._settings.forecast_lifetime()) is not None:
            item[END_FIELD] = (now + lifetime).isoformat()
        return item

    async def _post_questions(
        self, post_id: int, posts: dict[int, Mapping[int, PostQuestion]]
    ) -> Mapping[int, PostQuestion]:
        """Return the questions of a post by number, read once per batch."""
        if post_id not in posts:
            unpacked = MetaculusParsedPosts()
            unpacked.add_post(await self._client.post(post_id))
            if not unpacked.entries and unpacked.complaints:
                raise MalformedDataError(unpacked.complaints[0])
            posts[post_id] = {entry.question.id: entry for entry in unpacked.entries}
        return posts[post_id]

    def _begin_objection(
        self, batch: SubmissionBatch, intent: Intent, sealed: SealedRequest, receipts: Mapping[str, WriteReceipt]
    ) -> str:
        """Return why a request must not be sent now, or "": it is late, or a comment before its forecast."""
        if why := self._too_late(intent, sealed, batch):
            return why
        waits = intent.action is IntentAction.COMMENT and not _is_forecast_accepted(intent, batch, receipts)
        return "its forecast must be submitted first" if waits else ""

    def _too_late(self, intent: Intent, sealed: SealedRequest, batch: SubmissionBatch) -> str:
        now = self._clock.now()
        if sealed.fence is not None and now > sealed.fence - timedelta(seconds=WRITE_DEADLINE_S + SETTLEMENT_DELAY_S):
            return "sealed too long ago; the question must be read again"
        question = find_batch_question(batch, intent)
        if intent.action is not IntentAction.FORECAST or question is None or question.closes_at is None:
            return ""
        margin = timedelta(seconds=self._settings.close_margin_s)
        return "closed, or closes soon" if now >= question.closes_at - margin else ""

    async def _write(self, batch: SubmissionBatch, intent: Intent, sealed: SealedRequest) -> WriteReceipt:
        post_id, _ = split_question_ref(intent.ref)
        if (
            intent.action is IntentAction.COMMENT
            and (found := await self._find_comment(intent, sealed, batch)) is not None
        ):
            return found
        request = HttpRequest(
            method="POST",
            url=api_url(self._settings, WRITE_PATHS[intent.action]),
            headers={**request_headers(self._settings), "Content-Type": "application/json"},
            body=sealed.body.encode(),
            is_cancellation=intent.action is IntentAction.WITHDRAW,
        )
        verdict, reply = await send_once(
            self._write_client, request, write_verdict, max_bytes=MAX_RESPONSE_BYTES, deadline_s=WRITE_DEADLINE_S
        )
        if reply is not None:
            self._note_verdict(verdict, post_id, sealed)
        if verdict.state is not IntentState.ACKED or reply is None:
            return write_receipt(intent, verdict.state, verdict.detail)
        return await self._compare_response(intent, sealed, reply)

    def _note_verdict(self, verdict: WriteVerdict, post_id: int, sealed: SealedRequest) -> None:
        """Log the verdict, note a refusal of the account, and count posts that refuse it."""
        self._refusal.note_verdict(verdict, sealed)
        if verdict.responsible is ResponsibleParty.NOBODY:
            self._refusing_posts.clear()
        elif verdict.responsible is ResponsibleParty.OPERATOR_IF_ALL:
            self._refusing_posts.add(post_id)
            log_refusal, count = log.warning, len(self._refusing_posts)
            if count >= MAX_REFUSING_POSTS:
                log_refusal = log.error
            log_refusal("a post refuses this account", post=post_id, posts_in_a_row=count, detail=verdict.detail)

    async def _compare_response(self, intent: Intent, sealed: SealedRequest, reply: HttpResponse) -> WriteReceipt:
        """Read back an accepted write. If that fails it stays acknowledged; if the reading differs it is unknown."""
        if intent.action is IntentAction.COMMENT:
            return _compare_comment(intent, sealed, reply)
        try:
            found = await self._read_back({}, intent, [sealed])
        except FoxcastError as error:
            return write_receipt(intent, IntentState.ACKED, f"accepted; it could not be read back: {error}")
        if found.state is IntentState.ACKED:
            return found
        return write_receipt(intent, IntentState.UNKNOWN, f"accepted, but the reading differs: {found.detail}")

    async def _read_back(
        self, posts: dict[int, Mapping[int, PostQuestion]], intent: Intent, sealed: Sequence[SealedRequest]
    ) -> WriteReceipt:
        post_id, question_id = split_question_ref(intent.ref)
        if intent.action is IntentAction.COMMENT:
            return await self._read_comment(intent, sealed, post_id)
        entry = (await self._post_questions(post_id, posts)).get(question_id)
        if entry is None:
            return write_receipt(intent, IntentState.UNKNOWN, f"question {question_id} is no longer on its post")
        now = self._clock.now()
        if intent.action is IntentAction.WITHDRAW:
            done = is_withdrawn(entry.question, now)
            return write_receipt(intent, IntentState.ACKED if done else IntentState.ABSENT)
        for item in _sent_items(intent, sealed, entry):
            if (since := active_since(entry.question, item, now)) is not None:
                return write_receipt(intent, IntentState.ACKED, reference=f"{question_id} since {since:.6f}")
        return write_receipt(intent, IntentState.ABSENT, "another forecast is active, or none")

    async def _read_comment(self, intent: Intent, sealed: Sequence[SealedRequest], post_id: int) -> WriteReceipt:
        texts = {_comment_text(one.body) for one in sealed} or {clean_comment(intent.text)}
        for comment in await self._comments(post_id):
            if comment.text.strip() in texts:
                return write_receipt(intent, IntentState.ACKED, reference=str(comment.id))
        return write_receipt(intent, IntentState.ABSENT, "no such comment on the post")

    async def _find_comment(self, intent: Intent, sealed: SealedRequest, batch: SubmissionBatch) -> WriteReceipt | None:
        """Return the comment if it exists; posts of several questions have one per round, with any text."""
        question = find_batch_question(batch, intent)
        single = question is not None and question.facts.get("form") == QuestionForm.SINGLE
        post_id, _ = split_question_ref(intent.ref)
        try:
            comments = await self._comments(post_id)
        except FoxcastError as error:
            return write_receipt(intent, IntentState.ABSENT, f"its post cannot be read: {error}")
        since, text = self._clock.now() - COMMENT_INTERVAL, _comment_text(sealed.body)
        for comment in comments:
            recent = comment.created_at is not None and comment.created_at >= since
            if comment.text.strip() == text or (recent and not single):
                return write_receipt(
                    intent, IntentState.ACKED, "the post already has the comment", reference=str(comment.id)
                )
        return None

    async def _comments(self, post_id: int) -> list[MetaculusCommentRecord]:
        if self._author is None:
            self._author = parse_record(MetaculusAccountRecord, await self._client.own_account(), "the account").id
        found = await self._client.comments(post_id, self._author)
        comments = [parse_record(MetaculusCommentRecord, raw, f"a comment on post {post_id}") for raw in found]
        return [comment for comment in comments if not comment.is_soft_deleted]


@asynccontextmanager
async def open_writer(settings: MetaculusSettings, context: VenueWriterContext) -> AsyncIterator[VenueSubmitter]:
    """Open the live writer."""
    yield MetaculusWriter(settings, context)


def _seal_request(intent: Intent, body: object, now: datetime) -> SealedRequest:
    text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    digest = sha256(f"{intent.id} {WRITE_PATHS[intent.action]} {text}".encode(errors="replace")).hexdigest()[:16]
    fence = now + timedelta(seconds=MAX_SEND_AGE_S + WRITE_DEADLINE_S + SETTLEMENT_DELAY_S)
    return SealedRequest(
        intent=intent.id, tag=f"{intent.action}-{digest}-{now.timestamp():.3f}", body=text, fence=fence
    )


def _comment_body(intent: Intent, post_id: int, form: QuestionForm) -> dict[str, object]:
    text = clean_comment(intent.text)
    if not text:
        message = f"the comment on {intent.ref} is empty"
        raise RequestRejectedError(message)
    # Posts of several questions accept no forecast with a comment; the field would stay null.
    attached = {"included_forecast": True} if form is QuestionForm.SINGLE else {}
    return {"on_post": post_id, "text": text, "is_private": True, **attached}


def _comment_text(body: str) -> str:
    content = json.loads(body)
    return str(content.get("text", "")) if isinstance(content, dict) else ""


def _sent_items(intent: Intent, sealed: Sequence[SealedRequest], entry: PostQuestion) -> Sequence[Mapping[str, object]]:
    """Return the request items of an intent; without a sealed request, as they would be now."""
    if sealed:
        return [read_forecast_item(json.loads(one.body)) for one in sealed]
    (prediction,) = intent.predictions.values()
    return [build_forecast_item(entry.question.id, prediction, question_shape(entry.question))]


def _compare_comment(intent: Intent, sealed: SealedRequest, reply: HttpResponse) -> WriteReceipt:
    """Compare a comment with the one in the response."""
    try:
        comment = parse_record(MetaculusCommentRecord, response_json(reply), "the created comment")
    except MalformedDataError as error:
        return write_receipt(intent, IntentState.ACKED, f"accepted; the response does not show it: {error}")
    if comment.text.strip() != _comment_text(sealed.body) or not comment.is_private:
        log.error("a comment differs from what was sent", comment=comment.id, private=comment.is_private)
        return write_receipt(intent, IntentState.ACKED, "accepted, but not as it was sent", reference=str(comment.id))
    return write_receipt(intent, IntentState.ACKED, reference=str(comment.id))


def _is_forecast_accepted(intent: Intent, batch: SubmissionBatch, receipts: Mapping[str, WriteReceipt]) -> bool:
    """Return whether every forecast of the batch on the post of a comment was accepted."""
    post_id, _ = split_question_ref(intent.ref)
    return all(
        receipts[one.id].state is IntentState.ACKED
        for one in batch.intents
        if one.action is IntentAction.FORECAST and split_question_ref(one.ref)[0] == post_id
    )
