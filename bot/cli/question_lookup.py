"""Find the question that a name, an address or a file refers to: first in the ledger, then at the venues."""

from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

from bot.app.plugin_factory import PluginFactory
from bot.app.venues import venue_rate_limits
from bot.cli.question_file import FILE_SUFFIXES, read_question
from bot.cli.read_only_plugins import open_read_only_plugins
from bot.config.schema import Config
from bot.core.errors import FoxcastError, MalformedDataError, NotFoundError, RequestRejectedError, StoreError
from bot.core.interfaces import Clock, QuestionReader, VenueReader
from bot.core.light_dataclass import dataclass
from bot.core.questions import Question, QuestionRef
from bot.core.submissions import ExecutionMode
from bot.evaluation.lookup import find_question
from bot.forecasting.trial_tools import question_cutoff
from bot.jobs.discovery import require_own_question
from bot.jobs.operator_requests import is_closed_or_resolved
from bot.plugin_system.registry import Registry
from bot.store.forecast_queries import find_questions_by_url
from bot.store.ledger import LEDGER_FILE, ReadOnlyState, open_read_only, state_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class VenueQuestionFinder:
    """Finds questions at the venues that are on; a venue is open only while it is searched."""

    config: Config
    registry: Registry
    clock: Clock

    async def find_by_address(self, url: str) -> Question:
        """Return the question at an address.

        The venue with that host comes first. A venue that can look up questions is asked for this one; at any other
        venue all listed questions are compared. Raises NotFoundError, RequestRejectedError for a question that cannot
        be forecast, or ServiceUnavailableError.
        """
        names = self._venue_names(normalize_address(url)[0])
        async with AsyncExitStack() as stack:
            plugins = await self._open_plugins(stack)
            for name in names:
                venue = await plugins.open_venue(name)
                if (question := await _find_at_venue(venue, url)) is not None:
                    require_own_question(name, question.ref)
                    return question
        searched = ", ".join(names) or "no venue"
        message = f"no recorded question has the address {url}, and no question open now at {searched}"
        raise NotFoundError(message)

    async def find_by_name(self, name: str) -> Question:
        """Return the question that a venue knows by this name; ``venue:key`` asks only that venue.

        Raises NotFoundError if no venue or several know it, and the error of a venue if no other venue knows it.
        """
        venue, _, key = name.partition(":")
        names, searched = ([venue], key) if venue in self._venue_names() and key else (self._venue_names(), name)
        found, errors, finders = list[Question](), list[FoxcastError](), list[str]()
        async with AsyncExitStack() as stack:
            plugins = await self._open_plugins(stack)
            readers = {one: await plugins.open_venue(one) for one in names}
            for one, reader in readers.items():
                if isinstance(reader, QuestionReader):
                    finders.append(one)
                    await _try_finder(reader, one, searched, found, errors)
        return _require_one_question(name, found, errors, finders)

    def _venue_names(self, host: str = "") -> list[str]:
        """Return the venues that are on, the one with that host first."""
        on = [name for name in self.config.venues if self.config.mode_of(name) is not ExecutionMode.OFF]
        available = [name for name in on if name in self.registry.venues]
        return sorted(available, key=lambda name: host not in self.registry.venues[name].hosts)

    async def _open_plugins(self, stack: AsyncExitStack) -> PluginFactory:
        limits = venue_rate_limits(self.config, self.registry)
        plugins, _ = await open_read_only_plugins(self.config, self.registry, limits, clock=self.clock, stack=stack)
        return plugins


def normalize_address(url: str) -> tuple[str, str, str]:
    """Return the parts that identify a page: host without www, path without a slash at its end, and query.

    A text that is no address, such as one with an open bracket, has no host.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return "", url, ""
    return (parts.hostname or "").removeprefix("www."), parts.path.rstrip("/"), parts.query


async def _find_at_venue(venue: VenueReader, url: str) -> Question | None:
    if isinstance(venue, QuestionReader):
        try:
            return await venue.find_question(url)
        except NotFoundError:
            return None
    async for question in venue.questions():
        if question.url is not None and normalize_address(question.url) == normalize_address(url):
            return question
    return None


async def _try_finder(
    reader: QuestionReader, venue_name: str, name: str, found: list[Question], errors: list[FoxcastError]
) -> None:
    try:
        question = await reader.find_question(name)
        require_own_question(venue_name, question.ref)
        found.append(question)
    except StoreError:
        raise
    except NotFoundError:
        return
    except FoxcastError as error:
        errors.append(error)


def _require_one_question(name: str, found: list[Question], errors: list[FoxcastError], finders: list[str]) -> Question:
    match found:
        case [question]:
            return question
        case []:
            if errors:
                raise errors[0]
            others = f", nor at {', '.join(finders)}" if finders else ""
            message = f"no question fits {name} in the ledger{others}; list questions with: foxcast questions"
            raise NotFoundError(message)
        case several:
            listed = "\n".join(f"  {question.ref}  {question.title}" for question in several)
            message = f"{name} fits several questions; name one of\n{listed}"
            raise NotFoundError(message)


@dataclass(frozen=True, slots=True)
class FoundQuestion:
    """The current version of a question.

    ``needs_recording`` says that it does not come from the ledger, which may lack this version.
    """

    question: Question
    needs_recording: bool


@dataclass(frozen=True, slots=True)
class _RecordedQuestion:
    """A question of the ledger; ``is_over`` says that it has closed or resolved according to the ledger."""

    question: Question
    is_over: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionFinder:
    """Finds a question in the ledger, at a venue or in a file."""

    config: Config
    registry: Registry
    clock: Clock

    async def find_question(self, name: str) -> FoundQuestion:
        """Return the question that a name refers to; raises NotFoundError, and MalformedDataError for a wrong file."""
        if name.startswith(("http://", "https://")):
            return await self._find_by_address(name)
        path = Path(name)
        if path.suffix.lower() in FILE_SUFFIXES:
            now = self.clock.now()
            question = read_question(path, now=now)
            require_future_targets(path, question, now)
            return FoundQuestion(question, needs_recording=True)
        if (known := await self._find_recorded(name)) is not None:
            return await self._refresh_if_over(known)
        return FoundQuestion(await self._venues.find_by_name(name.strip()), needs_recording=True)

    async def _refresh_if_over(self, known: _RecordedQuestion) -> FoundQuestion:
        """Return a question of the ledger; one that is over may be open again at its venue, so the venue is asked."""
        if known.is_over:
            try:
                return FoundQuestion(await self._venues.find_by_name(str(known.question.ref)), needs_recording=True)
            except FoxcastError:
                # The venue does not answer, or cannot forecast it: the recorded question gives the better error.
                return FoundQuestion(known.question, needs_recording=False)
        return FoundQuestion(known.question, needs_recording=False)

    async def _find_recorded(self, name: str) -> _RecordedQuestion | None:
        """Return the question that the ledger finds by a name; words of a title are searched in the ledger only."""
        if not _ledger_exists(self.config) and _is_single_word(name):
            return None
        async with open_read_only(self.config) as records:
            questions = records.ledger.questions
            if _is_single_word(name) and not await questions.search(name, limit=1):
                return None
            return await self._load_recorded(records, await find_question(records, name))

    async def _load_recorded(self, records: ReadOnlyState, ref: QuestionRef) -> _RecordedQuestion:
        question = await records.ledger.questions.get(ref)
        # A question with a date is forecast with what was known at that date, even after it is over.
        is_over = question.as_of is None and await is_closed_or_resolved(records.ledger, question, now=self.clock.now())
        return _RecordedQuestion(question, is_over=is_over)

    async def _find_by_address(self, url: str) -> FoundQuestion:
        if _ledger_exists(self.config):
            async with open_read_only(self.config) as records:
                if ref := await _find_recorded_address(records, url):
                    return await self._refresh_if_over(await self._load_recorded(records, ref))
        return FoundQuestion(await self._venues.find_by_address(url), needs_recording=True)

    @property
    def _venues(self) -> VenueQuestionFinder:
        return VenueQuestionFinder(config=self.config, registry=self.registry, clock=self.clock)


def require_future_targets(path: Path, question: Question, now: datetime) -> None:
    """Raise MalformedDataError, with a line each, for targets of a file that are not after the cutoff."""
    cutoff = question_cutoff(question, now)
    remedy = "leave it out, or set as_of to forecast a past date" if question.as_of is None else "leave it out"
    faults = [
        f"{path}: targets: {target.key}: {target.resolves_at.date().isoformat()} is not after {cutoff:%Y-%m-%d %H:%M} "
        f"UTC, the cutoff of the forecast; {remedy}"
        for target in question.targets
        if target.resolves_at is not None and target.resolves_at <= cutoff
    ]
    if faults:
        raise MalformedDataError("\n".join(faults))


def require_any_future_target(question: Question, now: datetime) -> None:
    """Raise RequestRejectedError for a question without a target after the cutoff."""
    cutoff = question_cutoff(question, now)
    dates = [target.resolves_at for target in question.targets]
    if all(date is not None and date <= cutoff for date in dates):
        until = f"{cutoff:%Y-%m-%d %H:%M} UTC"
        message = f"{question.ref} is skipped: none of its dates is after {until}, so there is nothing to forecast"
        raise RequestRejectedError(message)


def _ledger_exists(config: Config) -> bool:
    return (state_folder(config) / LEDGER_FILE).exists()


async def _find_recorded_address(records: ReadOnlyState, url: str) -> QuestionRef | None:
    host, path, _ = normalize_address(url)
    found = await find_questions_by_url(records.ledger.questions.readers, f"{host}{path}")
    match [ref for ref, known in found if normalize_address(known) == normalize_address(url)]:
        case []:
            return None
        case [ref]:
            return ref
        case several:
            listed = "\n".join(f"  {ref}" for ref in several)
            message = f"{url} is the address of several questions; name one of\n{listed}"
            raise NotFoundError(message)


def _is_single_word(text: str) -> bool:
    return len(text.split()) == 1
