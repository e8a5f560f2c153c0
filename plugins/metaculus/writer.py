"""The writing half: one question a request, sealed from a fresh reading, read back after it was taken.

The venue has no keys for requests that were made before: what was sent is found again by what stands. A forecast is
compared with the one that stands, a comment with those of ours on its post. A new forecast replaces the one before, so
writing one twice does no harm; that no comment is written twice is the business of ``standing``.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256

import structlog

from bot.api import (
    Batch,
    ContractError,
    FoxcastError,
    Intent,
    IntentAction,
    IntentState,
    NotFound,
    Question,
    Receipt,
    Rejected,
    Reply,
    Request,
    Sealed,
    Submitter,
    Unauthorized,
    Unavailable,
    Verdict,
    Who,
    WriterPlace,
    describe_changes,
    json_of,
)
from plugins.metaculus.answer import clean, is_withdrawn, item_of, read_item, standing_start
from plugins.metaculus.client import Client, address, headers_of
from plugins.metaculus.parse import Entry, Form, Unpacked, question_of, shape_of
from plugins.metaculus.raw import RawComment, RawMe, parsed
from plugins.metaculus.settings import MetaculusSettings
from plugins.metaculus.terms import TABLE, VENUE, ids_of
from plugins.metaculus.venue import objection
from plugins.metaculus.verdict import verdict_of

log = structlog.get_logger(__name__)

PATHS = {
    IntentAction.FORECAST: "questions/forecast/",
    IntentAction.WITHDRAW: "questions/withdraw/",
    IntentAction.COMMENT: "comments/create/",
}
MAX_BYTES = 4_000_000
# For so long a request is sent as it was sealed; then its question is read again.
FRESH_S = 30.0
# From waiting for its turn to the last byte of the answer.
DEADLINE_S = 45.0
# How long after that a request may still take effect there, and readings lag behind.
SETTLE_S = 45.0
# A group or conditional gets one comment a round, whichever of its questions is first.
ROUND = timedelta(hours=24)
# So many posts in a row that refuse this account are no accident.
ALARM_AFTER = 3


class MetaculusWriter:
    """Implements the port Sealer for forecasts, withdrawals and private comments; nothing is ever said in public.

    Once the account itself was refused nothing more is sealed, until it is opened again.
    """

    def __init__(self, settings: MetaculusSettings, place: WriterPlace) -> None:
        self._settings = settings
        self._clock = place.clock
        self._wire = place.wire
        self._client = Client(settings, place.http, place.clock)
        self._stopped = ""
        self._refusing: set[int] = set()
        self._author: int | None = None

    async def seal(self, batch: Batch) -> Sequence[Sealed]:
        """Return the requests of all intents that may be written now, by a reading made here and now.

        One that may not is left out; raises Rejected, with the reasons, where that holds for all, Unauthorized once the
        account was refused, and as reading does.
        """
        if self._stopped:
            raise Unauthorized(self._stopped)
        sealed: list[Sealed] = []
        reasons: list[str] = []
        posts: dict[int, Mapping[int, Entry]] = {}
        for intent in batch.intents:
            try:
                sealed.append(await self._sealed(intent, _question(intent, batch), posts))
            except Rejected as error:
                log.info("not sealed", intent=intent.id, question=str(intent.ref), why=str(error))
                reasons.append(str(error))
        if reasons and not sealed:
            raise Rejected("; ".join(dict.fromkeys(reasons)))
        return tuple(sealed)

    async def submit(self, batch: Batch) -> Sequence[Receipt]:
        """Write each request once, forecasts before comments; what an answer does not prove is unknown.

        After a write without an answer the rest is absent: it was not begun.
        """
        sealed = {one.intent: one for one in batch.sealed}
        receipts: dict[str, Receipt] = {}
        broken = ""
        for intent in sorted(batch.intents, key=lambda one: one.action is IntentAction.COMMENT):
            request = sealed.get(intent.id)
            if broken:
                receipts[intent.id] = _receipt(intent, IntentState.ABSENT, f"not begun after {broken}")
            elif request is None:
                receipts[intent.id] = _receipt(intent, IntentState.REFUSED, "it has no sealed request")
            elif why := self._too_late(intent, request, batch):
                receipts[intent.id] = _receipt(intent, IntentState.ABSENT, why)
            elif intent.action is IntentAction.COMMENT and not _leads(intent, batch, receipts):
                receipts[intent.id] = _receipt(intent, IntentState.ABSENT, "the forecast it is about comes first")
            else:
                receipts[intent.id] = await self._write(intent, request, batch)
                broken = receipts[intent.id].detail if receipts[intent.id].state is IntentState.UNKNOWN else ""
        return tuple(receipts[intent.id] for intent in batch.intents)

    async def standing(self, batch: Batch) -> Sequence[Receipt]:
        """Read back; what cannot be read is unknown. Raises Unauthorized."""
        receipts = []
        posts: dict[int, Mapping[int, Entry]] = {}
        for intent in batch.intents:
            try:
                receipts.append(await self._read_back(intent, batch, posts))
            except Unauthorized:
                raise
            except FoxcastError as error:
                receipts.append(_receipt(intent, IntentState.UNKNOWN, f"cannot be read: {error}"))
        return tuple(receipts)

    async def _sealed(self, intent: Intent, asked: Question | None, posts: dict[int, Mapping[int, Entry]]) -> Sealed:
        """Return the request by the question as it is read now, or that reading alone where it asks something else."""
        post_id, question_id = ids_of(intent.ref)
        if intent.action is IntentAction.WITHDRAW:
            return _sealed(intent, [{"question": question_id}], self._clock.now())
        if intent.action is IntentAction.ORDER:
            message = "nothing is traded here"
            raise Rejected(message)
        try:
            entry = (await self._entries(post_id, posts))[question_id]
        except (NotFound, KeyError) as error:
            message = f"question {question_id} of post {post_id} is not visible any more"
            raise Rejected(message) from error
        now, is_comment = self._clock.now(), intent.action is IntentAction.COMMENT
        # Of a question that closed the site may hide the text, so that is looked at first.
        margin = timedelta(seconds=self._settings.close_margin_s)
        if not is_comment and (why := objection(entry, now, margin)):
            message = f"{intent.ref} cannot be forecast: {why}"
            raise Rejected(message)
        reading = question_of(entry)
        if asked is not None and describe_changes(asked, reading):
            return Sealed.unwritten(intent, reading)
        body = _comment(intent, post_id, entry.form) if is_comment else [self._item(intent, entry, now)]
        return replace(_sealed(intent, body, now), question=reading)

    def _item(self, intent: Intent, entry: Entry, now: datetime) -> Mapping[str, object]:
        (prediction,) = intent.predictions.values()
        item = item_of(entry.asked.id, prediction, shape_of(entry.asked))
        if self._settings.expires_after_h is not None:
            item["end_time"] = (now + timedelta(hours=self._settings.expires_after_h)).isoformat()
        return item

    async def _entries(self, post_id: int, posts: dict[int, Mapping[int, Entry]]) -> Mapping[int, Entry]:
        """Return the questions of a post by number, read once a batch."""
        if post_id not in posts:
            unpacked = Unpacked()
            unpacked.add(await self._client.post(post_id))
            if not unpacked.entries and unpacked.complaints:
                raise ContractError(unpacked.complaints[0])
            posts[post_id] = {entry.asked.id: entry for entry in unpacked.entries}
        return posts[post_id]

    def _too_late(self, intent: Intent, sealed: Sealed, batch: Batch) -> str:
        now = self._clock.now()
        if sealed.fence is not None and now > sealed.fence - timedelta(seconds=DEADLINE_S + SETTLE_S):
            return "sealed too long ago; the question must be read again"
        question = _question(intent, batch)
        if intent.action is not IntentAction.FORECAST or question is None or question.closes_at is None:
            return ""
        margin = timedelta(seconds=self._settings.close_margin_s)
        return "closed, or about to" if now >= question.closes_at - margin else ""

    async def _write(self, intent: Intent, sealed: Sealed, batch: Batch) -> Receipt:
        post_id, _ = ids_of(intent.ref)
        if intent.action is IntentAction.COMMENT and (found := await self._there(intent, sealed, batch)) is not None:
            return found
        request = Request(
            method="POST",
            url=address(self._settings, PATHS[intent.action]),
            headers={**headers_of(self._settings), "Content-Type": "application/json"},
            body=sealed.body.encode(),
            takes_back=intent.action is IntentAction.WITHDRAW,
        )
        try:
            reply = await self._wire.send(request, max_bytes=MAX_BYTES, deadline_s=DEADLINE_S)
        except Rejected as error:
            return _receipt(intent, IntentState.ABSENT, str(error))
        except (Unavailable, ContractError) as error:
            return _receipt(intent, IntentState.UNKNOWN, str(error))
        verdict = verdict_of(reply)
        self._note(verdict, post_id, sealed)
        if verdict.state is not IntentState.ACKED:
            return _receipt(intent, verdict.state, verdict.detail)
        return await self._compared(intent, sealed, reply)

    def _note(self, verdict: Verdict, post_id: int, sealed: Sealed) -> None:
        """Tell the log, and stop where the account itself was refused."""
        detail = verdict.detail
        if verdict.who is Who.NOBODY:
            self._refusing.clear()
        elif verdict.who is Who.OPERATOR:
            log.error("somebody must look at this", venue=VENUE, detail=detail)
            if verdict.state is IntentState.REFUSED:
                self._stopped = f"the account was refused ({detail}); mend token in {TABLE}, then start again"
        elif verdict.who is Who.DEVELOPER:
            log.error("a request was at fault", tag=sealed.tag, body=sealed.body[:2000], detail=detail)
        else:
            self._refusing.add(post_id)
            told = log.error if len(self._refusing) >= ALARM_AFTER else log.warning
            told("not for this account", post=post_id, posts_in_a_row=len(self._refusing), detail=detail)

    async def _compared(self, intent: Intent, sealed: Sealed, reply: Reply) -> Receipt:
        """Read back what was taken. That it cannot be read takes nothing back; that it differs makes a doubt."""
        if intent.action is IntentAction.COMMENT:
            return _said(intent, sealed, reply)
        alone = Batch(key=intent.batch, intents=(intent,), questions=(), sealed=(sealed,))
        try:
            found = await self._read_back(intent, alone, {})
        except FoxcastError as error:
            return _receipt(intent, IntentState.ACKED, f"taken; it could not be read back: {error}")
        if found.state is IntentState.ACKED:
            return found
        return _receipt(intent, IntentState.UNKNOWN, f"taken, but what was read back differs: {found.detail}")

    async def _read_back(self, intent: Intent, batch: Batch, posts: dict[int, Mapping[int, Entry]]) -> Receipt:
        post_id, question_id = ids_of(intent.ref)
        if intent.action is IntentAction.COMMENT:
            return await self._comment_standing(intent, batch, post_id)
        entry = (await self._entries(post_id, posts)).get(question_id)
        if entry is None:
            return _receipt(intent, IntentState.UNKNOWN, f"question {question_id} is not on its post any more")
        now = self._clock.now()
        if intent.action is IntentAction.WITHDRAW:
            done = is_withdrawn(entry.asked, now)
            return _receipt(intent, IntentState.ACKED if done else IntentState.ABSENT)
        for item in _items(intent, batch, entry):
            if (since := standing_start(entry.asked, item, now)) is not None:
                return _receipt(intent, IntentState.ACKED, reference=f"{question_id} since {since:.6f}")
        return _receipt(intent, IntentState.ABSENT, "another forecast stands, or none")

    async def _comment_standing(self, intent: Intent, batch: Batch, post_id: int) -> Receipt:
        sealed = [one for one in batch.sealed if one.intent == intent.id]
        texts = {_text_of(one.body) for one in sealed} or {clean(intent.text)}
        for comment in await self._comments(post_id):
            if comment.text.strip() in texts:
                return _receipt(intent, IntentState.ACKED, reference=str(comment.id))
        return _receipt(intent, IntentState.ABSENT, "no such comment on the post")

    async def _there(self, intent: Intent, sealed: Sealed, batch: Batch) -> Receipt | None:
        """Return the comment where it is there; posts of several questions have one a round, whatever it says."""
        question = _question(intent, batch)
        single = question is not None and question.facts.get("form") == Form.SINGLE
        post_id, _ = ids_of(intent.ref)
        try:
            comments = await self._comments(post_id)
        except FoxcastError as error:
            return _receipt(intent, IntentState.ABSENT, f"its post cannot be read: {error}")
        since, text = self._clock.now() - ROUND, _text_of(sealed.body)
        for comment in comments:
            recent = comment.created_at is not None and comment.created_at >= since
            if comment.text.strip() == text or (recent and not single):
                return _receipt(intent, IntentState.ACKED, "the post has its comment", reference=str(comment.id))
        return None

    async def _comments(self, post_id: int) -> list[RawComment]:
        if self._author is None:
            self._author = parsed(RawMe, await self._client.me(), "the account").id
        found = await self._client.comments(post_id, self._author)
        comments = [parsed(RawComment, raw, f"a comment on post {post_id}") for raw in found]
        return [comment for comment in comments if not comment.is_soft_deleted]


@asynccontextmanager
async def open_writer(settings: MetaculusSettings, place: WriterPlace) -> AsyncIterator[Submitter]:
    """Open the live writer."""
    yield MetaculusWriter(settings, place)


def _sealed(intent: Intent, body: object, now: datetime) -> Sealed:
    text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    digest = sha256(f"{intent.id} {PATHS[intent.action]} {text}".encode(errors="replace")).hexdigest()[:16]
    fence = now + timedelta(seconds=FRESH_S + DEADLINE_S + SETTLE_S)
    return Sealed(intent=intent.id, tag=f"{intent.action}-{digest}-{now.timestamp():.3f}", body=text, fence=fence)


def _comment(intent: Intent, post_id: int, form: Form) -> dict[str, object]:
    text = clean(intent.text)
    if not text:
        message = f"the comment on {intent.ref} is empty"
        raise Rejected(message)
    # Posts of several questions take no forecast with a comment; the field would stay null.
    attached = {"included_forecast": True} if form is Form.SINGLE else {}
    return {"on_post": post_id, "text": text, "is_private": True, **attached}


def _text_of(body: str) -> str:
    said = json.loads(body)
    return str(said.get("text", "")) if isinstance(said, dict) else ""


def _items(intent: Intent, batch: Batch, entry: Entry) -> list[Mapping[str, object]]:
    """Return what was sent of an intent; without a sealed request, what would be."""
    sealed = [read_item(json.loads(one.body)) for one in batch.sealed if one.intent == intent.id]
    if sealed:
        return sealed
    (prediction,) = intent.predictions.values()
    return [item_of(entry.asked.id, prediction, shape_of(entry.asked))]


def _said(intent: Intent, sealed: Sealed, reply: Reply) -> Receipt:
    """Compare a comment with the one that the answer shows."""
    try:
        comment = parsed(RawComment, json_of(reply), "the comment that was made")
    except ContractError as error:
        return _receipt(intent, IntentState.ACKED, f"taken; the answer does not show it: {error}")
    if comment.text.strip() != _text_of(sealed.body) or not comment.is_private:
        log.error("a comment is not as it was sent", comment=comment.id, private=comment.is_private)
        return _receipt(intent, IntentState.ACKED, "taken, but not as it was sent", reference=str(comment.id))
    return _receipt(intent, IntentState.ACKED, reference=str(comment.id))


def _leads(intent: Intent, batch: Batch, receipts: Mapping[str, Receipt]) -> bool:
    """Say whether every forecast of the batch on the post of a comment was taken."""
    post_id, _ = ids_of(intent.ref)
    return all(
        receipts[one.id].state is IntentState.ACKED
        for one in batch.intents
        if one.action is IntentAction.FORECAST and ids_of(one.ref)[0] == post_id
    )


def _question(intent: Intent, batch: Batch) -> Question | None:
    return next((question for question in batch.questions if question.ref == intent.ref), None)


def _receipt(intent: Intent, state: IntentState, detail: str = "", *, reference: str = "") -> Receipt:
    return Receipt(intent=intent.id, state=state, reference=reference, detail=detail)
