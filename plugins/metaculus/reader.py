"""The reader: open questions of the chosen tournaments, one question by name, and outcomes."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import structlog

from bot.api import (
    SINGLE_TARGET,
    AuthenticationError,
    ContestStanding,
    FoxcastError,
    MalformedDataError,
    NotFoundError,
    PluginContext,
    Question,
    QuestionRef,
    ReportedOutcomes,
    RequestRejectedError,
    Resolution,
    VenueReader,
    VoidOutcome,
    load_reported_outcomes,
    save_reported_outcomes,
)
from plugins.metaculus.api_client import PAGE_SIZE, MetaculusClient
from plugins.metaculus.post_parser import (
    QUESTION_TYPES,
    MetaculusParsedPosts,
    PostQuestion,
    QuestionForm,
    build_question,
    sort_by_closing_time,
)
from plugins.metaculus.question_names import parse_question_name, question_ref, split_question_ref
from plugins.metaculus.resolutions import RESOLVED, question_resolution
from plugins.metaculus.settings import MetaculusSettings
from plugins.metaculus.tournaments import read_contest_standings, tournament_refusal_reason

log = structlog.get_logger(__name__)

OPEN_STATUS = "open"
# Viewers may only read; these may forecast.
FORECASTING_PERMISSIONS = frozenset({"forecaster", "curator", "admin", "creator"})


def question_objection(entry: PostQuestion, now: datetime, margin: timedelta) -> str | None:
    """Return why a question cannot be forecast now, even if a filter selected it; None if it can.

    The server accepts forecasts before a question opens, so that is checked here.
    """
    asked = entry.question
    if asked.type not in QUESTION_TYPES:
        return f"of the unknown type {asked.type!r}"
    if asked.status != OPEN_STATUS:
        return f"not open but {asked.status}"
    if asked.open_time is None or now < asked.open_time:
        return "not open yet"
    if asked.scheduled_close_time is None or now >= asked.scheduled_close_time - margin:
        return "closed, or closes soon"
    if entry.post.user_permission not in FORECASTING_PERMISSIONS:
        return f"this account is only {entry.post.user_permission or 'without permission'}"
    return None


class MetaculusReader:
    """Implements ``QuestionReader`` and ``ContestReader``.

    Stores only the reported outcomes, to notice that one is undone.
    """

    def __init__(self, settings: MetaculusSettings, context: PluginContext) -> None:
        self._settings = settings
        self._clock = context.clock
        self._client = MetaculusClient(settings, context.http, context.clock)
        self._folder = context.folder
        self._noted: dict[str, object] = {}
        self._refusals: dict[str | int, str] = {}

    async def questions(self) -> AsyncIterator[Question]:
        """Yield the questions that can be forecast now, the soonest to close first.

        A tournament that cannot be read does not affect others: its error is raised after the others were yielded, or
        only logged if it is unknown and others are not.
        """
        found: dict[QuestionRef, Question] = {}
        errors: list[FoxcastError] = []
        for tournament in self._settings.tournaments:
            try:
                for question in await self._open_questions(tournament):
                    found.setdefault(question.ref, question)
            except AuthenticationError:
                raise
            except RequestRejectedError as error:
                errors.append(RequestRejectedError(await self._tournament_refusal(tournament, error)))
            except FoxcastError as error:
                errors.append(error)
        for question in sort_by_closing_time(list(found.values())):
            yield question
        other_errors = [error for error in errors if not isinstance(error, RequestRejectedError)]
        if other_errors or len(errors) == len(self._settings.tournaments):
            raise (other_errors or errors)[0]

    async def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
        """Yield the outcomes of resolved questions; a reported outcome that no longer exists becomes void."""
        by_post: dict[int, set[int]] = defaultdict(set)
        for ref in pending:
            post_id, question_id = split_question_ref(ref)
            by_post[post_id].add(question_id)
        if not by_post:
            return
        reported = await asyncio.to_thread(load_reported_outcomes, self._folder)
        posts = sorted(by_post)
        for first in range(0, len(posts), PAGE_SIZE):
            entries = await self._read_questions(posts[first : first + PAGE_SIZE])
            asked = [entry for entry in entries if entry.question.id in by_post[entry.post.id]]
            found = [outcome for entry in asked if (outcome := self._outcome(entry, reported)) is not None]
            await asyncio.to_thread(save_reported_outcomes, self._folder, reported)
            for outcome in found:
                yield outcome

    async def find_question(self, name: str) -> Question:
        """Return a question by POST:QUESTION, by the number of its post, or by its address."""
        post_id, question_id = parse_question_name(name.strip(), self._settings.base_url)
        unpacked = MetaculusParsedPosts()
        unpacked.add_post(await self._client.post(post_id))
        entries = [entry for entry in unpacked.entries if question_id in {None, entry.question.id}]
        if not entries and unpacked.complaints:
            raise MalformedDataError(unpacked.complaints[0])
        if not entries:
            message = f"post {post_id} has no question" + (f" {question_id}" if question_id else " to forecast")
            raise NotFoundError(message)
        if len(entries) > 1:
            choices = ", ".join(f"{entry.post.id}:{entry.question.id} ({entry.title})" for entry in entries[:20])
            message = f"post {post_id} has {len(entries)} questions, name one of them: {choices}"
            raise RequestRejectedError(message)
        if why := question_objection(entries[0], self._clock.now(), self._margin):
            message = f"{entries[0].post.id}:{entries[0].question.id} cannot be forecast: {why}"
            raise RequestRejectedError(message)
        return build_question(entries[0])

    async def contest_standings(self) -> Sequence[ContestStanding]:
        """Return the standings of our account in the tournaments that list it on a leaderboard."""
        return await read_contest_standings(self._client, self._settings.tournaments)

    async def _tournament_refusal(self, tournament: str | int, error: RequestRejectedError) -> str:
        """Return why a tournament cannot be read, and log it once."""
        known = self._refusals.get(tournament)
        if known is None:
            known = await tournament_refusal_reason(self._client, tournament, error)
            log.error("tournament refused", tournament=tournament, why=known)
            self._refusals[tournament] = known
        return known

    @property
    def _margin(self) -> timedelta:
        return timedelta(seconds=self._settings.close_margin_s)

    async def _open_questions(self, tournament: str | int) -> list[Question]:
        unpacked = MetaculusParsedPosts()
        for post in await self._client.open_posts(tournament):
            unpacked.add_post(post)
        now = self._clock.now()
        questions: list[Question] = []
        skipped: dict[str, int] = defaultdict(int)
        for entry in unpacked.entries:
            if why := question_objection(entry, now, self._margin) or self._filter_objection(entry, now):
                skipped[why] += 1
                continue
            try:
                questions.append(build_question(entry))
            except MalformedDataError as error:
                unpacked.complaints.append(str(error))
        self._note(str(tournament), dict(skipped), unpacked.complaints)
        return questions

    def _filter_objection(self, entry: PostQuestion, now: datetime) -> str | None:
        settings, closes_at = self._settings, entry.question.scheduled_close_time
        if entry.question.type not in settings.kinds:
            return f"of the kind {entry.question.type}, which settings exclude"
        if (entry.form is QuestionForm.GROUP and not settings.groups) or (
            entry.form is QuestionForm.CONDITIONAL and not settings.conditionals
        ):
            return f"of a {entry.form}, which settings exclude"
        within = settings.closes_within_h
        if within is not None and closes_at is not None and closes_at > now + timedelta(hours=within):
            return "closes later than settings allow"
        return None

    def _note(self, tournament: str, skipped: Mapping[str, int], complaints: Sequence[str]) -> None:
        counts = (dict(skipped), len(complaints))
        if any(counts) and self._noted.get(tournament) != counts:
            log.warning(
                "questions skipped", tournament=tournament, skipped=skipped, bad=len(complaints), first=complaints[:3]
            )
        self._noted[tournament] = counts

    async def _read_questions(self, post_ids: Sequence[int]) -> list[PostQuestion]:
        unpacked = MetaculusParsedPosts()
        for post in await self._client.posts(post_ids):
            unpacked.add_post(post)
        if unpacked.complaints:
            log.warning("outcomes skipped", bad=len(unpacked.complaints), first=unpacked.complaints[:3])
        return unpacked.entries

    def _outcome(self, entry: PostQuestion, reported: ReportedOutcomes) -> Resolution | None:
        ref = question_ref(*entry.key)
        try:
            found = question_resolution(entry.question, ref)
        except MalformedDataError as error:
            log.warning("an outcome is skipped", question=str(ref), error=str(error))
            return None
        if found is not None:
            reported.record_outcome(ref.key, entry.question.resolution or "")
            return found
        # A hidden outcome still has the status resolved.
        undone_at = (
            None if entry.question.status == RESOLVED else reported.record_withdrawal(ref.key, self._clock.now())
        )
        if undone_at is None:
            return None
        return Resolution(
            ref=ref, target=SINGLE_TARGET, outcome=VoidOutcome("the resolution was undone"), resolved_at=undone_at
        )


@asynccontextmanager
async def open_reader(settings: MetaculusSettings, context: PluginContext) -> AsyncIterator[VenueReader]:
    """Open the reader; it sends no request before the first use."""
    yield MetaculusReader(settings, context)
