"""The reading half: open questions of the chosen tournaments, one question by name, and outcomes."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import structlog

from bot.api import (
    SINGLE_TARGET,
    ContestStanding,
    ContractError,
    FoxcastError,
    NotFound,
    Question,
    QuestionRef,
    Rejected,
    Resolution,
    Told,
    Unauthorized,
    Venue,
    Void,
    Workplace,
    load_told,
    store_told,
)
from plugins.metaculus.client import PAGE, Client
from plugins.metaculus.contests import standings_of, why_refused
from plugins.metaculus.parse import KINDS, Entry, Form, Unpacked, ordered, question_of
from plugins.metaculus.resolve import RESOLVED, resolution_of
from plugins.metaculus.settings import MetaculusSettings
from plugins.metaculus.terms import ids_of, named, ref_of

log = structlog.get_logger(__name__)

OPEN = "open"
# Viewers may read; everybody from here on may forecast.
MAY_FORECAST = frozenset({"forecaster", "curator", "admin", "creator"})


def objection(entry: Entry, now: datetime, margin: timedelta) -> str | None:
    """Say why a question cannot be forecast now, whatever a filter promised; None where it can.

    The server takes forecasts before a question opens, so that is looked at here.
    """
    asked = entry.asked
    if asked.type not in KINDS:
        return f"of the unknown type {asked.type!r}"
    if asked.status != OPEN:
        return f"not open but {asked.status}"
    if asked.open_time is None or now < asked.open_time:
        return "not open yet"
    if asked.scheduled_close_time is None or now >= asked.scheduled_close_time - margin:
        return "closed, or about to"
    if entry.post.user_permission not in MAY_FORECAST:
        return f"only for {entry.post.user_permission or 'others'} of this account"
    return None


class MetaculusVenue:
    """Implements the ports Finder and ContestReader.

    Nothing is remembered but which outcomes were told, to notice that one is undone.
    """

    def __init__(self, settings: MetaculusSettings, workplace: Workplace) -> None:
        self._settings = settings
        self._clock = workplace.clock
        self._client = Client(settings, workplace.http, workplace.clock)
        self._folder = workplace.folder
        self._noted: dict[str, object] = {}
        self._refusals: dict[str | int, str] = {}

    async def questions(self) -> AsyncIterator[Question]:
        """Yield what can be forecast now, the soonest to close first.

        A tournament that cannot be read hides no other: what it raised is raised once the others were yielded, or only
        logged where it is just unknown and others are not.
        """
        found: dict[QuestionRef, Question] = {}
        errors: list[FoxcastError] = []
        for tournament in self._settings.tournaments:
            try:
                for question in await self._open_in(tournament):
                    found.setdefault(question.ref, question)
            except Unauthorized:
                raise
            except Rejected as error:
                errors.append(Rejected(await self._refused(tournament, error)))
            except FoxcastError as error:
                errors.append(error)
        for question in ordered(list(found.values())):
            yield question
        grave = [error for error in errors if not isinstance(error, Rejected)]
        if grave or len(errors) == len(self._settings.tournaments):
            raise (grave or errors)[0]

    async def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
        """Yield the outcomes of whatever is resolved; one that was told and is not there any more becomes void."""
        by_post: dict[int, set[int]] = defaultdict(set)
        for ref in pending:
            post_id, question_id = ids_of(ref)
            by_post[post_id].add(question_id)
        if not by_post:
            return
        told = await asyncio.to_thread(load_told, self._folder)
        posts = sorted(by_post)
        for first in range(0, len(posts), PAGE):
            entries = await self._read(posts[first : first + PAGE])
            asked = [entry for entry in entries if entry.asked.id in by_post[entry.post.id]]
            found = [outcome for entry in asked if (outcome := self._outcome(entry, told)) is not None]
            await asyncio.to_thread(store_told, self._folder, told)
            for outcome in found:
                yield outcome

    async def find(self, name: str) -> Question:
        """Return a question by POST:QUESTION, by the number of its post, or by its address."""
        post_id, question_id = named(name.strip(), self._settings.base_url)
        unpacked = Unpacked()
        unpacked.add(await self._client.post(post_id))
        entries = [entry for entry in unpacked.entries if question_id in {None, entry.asked.id}]
        if not entries and unpacked.complaints:
            raise ContractError(unpacked.complaints[0])
        if not entries:
            message = f"post {post_id} has no question" + (f" {question_id}" if question_id else " to forecast")
            raise NotFound(message)
        if len(entries) > 1:
            choices = ", ".join(f"{entry.post.id}:{entry.asked.id} ({entry.title})" for entry in entries[:20])
            message = f"post {post_id} has {len(entries)} questions, name one of them: {choices}"
            raise Rejected(message)
        if why := objection(entries[0], self._clock.now(), self._margin):
            message = f"{entries[0].post.id}:{entries[0].asked.id} cannot be forecast: {why}"
            raise Rejected(message)
        return question_of(entries[0])

    async def contest_standings(self) -> Sequence[ContestStanding]:
        """Return how our account stands in the tournaments that have a leaderboard with it."""
        return await standings_of(self._client, self._settings.tournaments)

    async def _refused(self, tournament: str | int, error: Rejected) -> str:
        """Return what to say of a tournament that cannot be read, and say it once."""
        known = self._refusals.get(tournament)
        if known is None:
            known = await why_refused(self._client, tournament, error)
            log.error("tournament refused", tournament=tournament, why=known)
            self._refusals[tournament] = known
        return known

    @property
    def _margin(self) -> timedelta:
        return timedelta(seconds=self._settings.close_margin_s)

    async def _open_in(self, tournament: str | int) -> list[Question]:
        unpacked = Unpacked()
        for post in await self._client.open_posts(tournament):
            unpacked.add(post)
        now = self._clock.now()
        questions: list[Question] = []
        skipped: dict[str, int] = defaultdict(int)
        for entry in unpacked.entries:
            if why := objection(entry, now, self._margin) or self._unwanted(entry, now):
                skipped[why] += 1
                continue
            try:
                questions.append(question_of(entry))
            except ContractError as error:
                unpacked.complaints.append(str(error))
        self._note(str(tournament), dict(skipped), unpacked.complaints)
        return questions

    def _unwanted(self, entry: Entry, now: datetime) -> str | None:
        settings, closes_at = self._settings, entry.asked.scheduled_close_time
        if entry.asked.type not in settings.kinds:
            return f"of the kind {entry.asked.type}, which settings leave out"
        if (entry.form is Form.GROUP and not settings.groups) or (
            entry.form is Form.CONDITIONAL and not settings.conditionals
        ):
            return f"of a {entry.form}, which settings leave out"
        within = settings.closes_within_h
        if within is not None and closes_at is not None and closes_at > now + timedelta(hours=within):
            return "later than settings ask for"
        return None

    def _note(self, tournament: str, skipped: Mapping[str, int], complaints: Sequence[str]) -> None:
        counts = (dict(skipped), len(complaints))
        if any(counts) and self._noted.get(tournament) != counts:
            log.warning(
                "questions left out", tournament=tournament, skipped=skipped, bad=len(complaints), first=complaints[:3]
            )
        self._noted[tournament] = counts

    async def _read(self, post_ids: Sequence[int]) -> list[Entry]:
        unpacked = Unpacked()
        for post in await self._client.posts(post_ids):
            unpacked.add(post)
        if unpacked.complaints:
            log.warning("outcomes left out", bad=len(unpacked.complaints), first=unpacked.complaints[:3])
        return unpacked.entries

    def _outcome(self, entry: Entry, told: Told) -> Resolution | None:
        ref = ref_of(*entry.key)
        try:
            found = resolution_of(entry.asked, ref)
        except ContractError as error:
            log.warning("an outcome is left out", question=str(ref), error=str(error))
            return None
        if found is not None:
            told.tell(ref.key, entry.asked.resolution or "")
            return found
        # Of what is hidden the status still says that it is resolved.
        undone_at = None if entry.asked.status == RESOLVED else told.undo(ref.key, self._clock.now())
        if undone_at is None:
            return None
        return Resolution(
            ref=ref, target=SINGLE_TARGET, outcome=Void("the resolution was undone"), resolved_at=undone_at
        )


@asynccontextmanager
async def open_reader(settings: MetaculusSettings, workplace: Workplace) -> AsyncIterator[Venue]:
    """Open the reader; nothing is asked before the first question is."""
    yield MetaculusVenue(settings, workplace)
