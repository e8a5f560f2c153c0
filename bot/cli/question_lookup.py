"""Which question a name, an address or a file means: looked up in the ledger, then at the venues."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

from bot.app.plugin_factory import PluginFactory
from bot.app.venues import venue_rate_limits
from bot.cli.question_file import FILE_SUFFIXES, read_question
from bot.cli.shared_rates import open_shared_rates
from bot.config.schema import Config
from bot.core.clock import SeededRandom
from bot.core.errors import FoxcastError, MalformedDataError, NotFoundError, RequestRejectedError, StoreError
from bot.core.interfaces import Clock, QuestionReader, VenueReader
from bot.core.outcomes import is_withdrawn_outcome
from bot.core.questions import Question, QuestionRef
from bot.core.submissions import ExecutionMode
from bot.evaluation.lookup import find_question
from bot.forecasting.trial_tools import question_cutoff
from bot.net.client import RetryingHttpClient
from bot.plugin_system.registry import Registry
from bot.store.forecast_queries import find_questions_by_url
from bot.store.ledger import LEDGER_FILE, ReadOnlyState, open_read_only, state_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class VenueQuestionFinder:
    """The venues that are on, each opened when it is asked, for as long as that takes."""

    config: Config
    registry: Registry
    clock: Clock

    async def find_by_address(self, url: str) -> Question:
        """Return the question at an address; raises NotFound, Rejected with why it cannot be forecast, or Unavailable.

        The venue to which the host belongs is asked first; one that finds is asked for the page alone, any other one
        for all that it lists.
        """
        names = self._names(_host_name(url))
        async with AsyncExitStack() as stack:
            outfitter = await self._open_plugin_factory(stack)
            for name in names:
                venue = await outfitter.open_venue(name)
                if (question := await _find_at_venue(venue, url)) is not None:
                    return question
        asked = ", ".join(names) or "no venue"
        message = f"no question on record has the address {url}, and none that is open now at {asked}"
        raise NotFoundError(message)

    async def find_by_name(self, name: str) -> Question:
        """Return the question that a venue knows by this name (``venue:key`` asks that one alone).

        Raises NotFound where nobody knows it or several do, and what a venue raised where no other one knows it.
        """
        venue, _, key = name.partition(":")
        names, asked = ([venue], key) if venue in self._names() and key else (self._names(), name)
        found, errors, finders = list[Question](), list[FoxcastError](), list[str]()
        async with AsyncExitStack() as stack:
            outfitter = await self._open_plugin_factory(stack)
            readers = {one: await outfitter.open_venue(one) for one in names}
            for one, reader in readers.items():
                if isinstance(reader, QuestionReader):
                    finders.append(one)
                    await _try_finder(reader, asked, found, errors)
        return _require_one_question(name, found, errors, finders)

    def _names(self, host: str = "") -> list[str]:
        """Return the venues that are on, the one to whom the host belongs first."""
        on = [name for name in self.config.venues if self.config.mode_of(name) is not ExecutionMode.OFF]
        there = [name for name in on if name in self.registry.venues]
        return sorted(there, key=lambda name: host not in self.registry.venues[name].hosts)

    async def _open_plugin_factory(self, stack: AsyncExitStack) -> PluginFactory:
        random = SeededRandom(self.config.seed)
        wanted = venue_rate_limits(self.config, self.registry)
        rates = await open_shared_rates(self.config, wanted, clock=self.clock, random=random, stack=stack)
        proxies = self.config.http.proxies
        client = RetryingHttpClient(clock=self.clock, random=random, rates=rates, proxies=proxies)
        return PluginFactory(
            config=self.config,
            registry=self.registry,
            clock=self.clock,
            random=random,
            http=await stack.enter_async_context(client),
            folder=state_folder(self.config),
            stack=stack,
            rates=rates,
        )


def normalize_address(url: str) -> tuple[str, str, str]:
    """Return what tells one page from another: host without www, path without a slash at its end, and query."""
    parts = urlsplit(url)
    return _host_name(url), parts.path.rstrip("/"), parts.query


def _host_name(url: str) -> str:
    return (urlsplit(url).hostname or "").removeprefix("www.")


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


async def _try_finder(reader: QuestionReader, name: str, found: list[Question], errors: list[FoxcastError]) -> None:
    try:
        found.append(await reader.find_question(name))
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
            nor = f", nor at {', '.join(finders)}" if finders else ""
            message = f"nothing in the ledger is called {name}{nor}; list what there is with: foxcast questions"
            raise NotFoundError(message)
        case several:
            listed = "\n".join(f"  {question.ref}  {question.title}" for question in several)
            message = f"{name} is not one question; name one of\n{listed}"
            raise NotFoundError(message)


@dataclass(frozen=True, slots=True)
class FoundQuestion:
    """A question as it stands.

    ``needs_recording`` says that it does not come from the ledger, which may not know it so.
    """

    question: Question
    needs_recording: bool


@dataclass(frozen=True, slots=True)
class _RecordedQuestion:
    """A question of the ledger; ``is_over`` says that it has closed or resolved there."""

    question: Question
    is_over: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionFinder:
    """Where a question may be found."""

    config: Config
    registry: Registry
    clock: Clock

    async def find_question(self, name: str) -> FoundQuestion:
        """Return the question that a name means; raises NotFound, and ContractError for a file that is none."""
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
        """Return a question of the ledger; one that is over there may be open again at its venue, which is asked."""
        if known.is_over:
            try:
                return FoundQuestion(await self._venues.find_by_name(str(known.question.ref)), needs_recording=True)
            except FoxcastError:
                # Whatever keeps it from being read, or forecast: what the ledger says of it is told.
                return FoundQuestion(known.question, needs_recording=False)
        return FoundQuestion(known.question, needs_recording=False)

    async def _find_recorded(self, name: str) -> _RecordedQuestion | None:
        """Return what the ledger knows by a name; words of a title are asked of nobody else."""
        if not _ledger_exists(self.config) and _is_single_word(name):
            return None
        async with open_read_only(self.config) as records:
            questions = records.ledger.questions
            if _is_single_word(name) and not await questions.search(name, limit=1):
                return None
            return await self._load_recorded(records, await find_question(records, name))

    async def _load_recorded(self, records: ReadOnlyState, ref: QuestionRef) -> _RecordedQuestion:
        question, ledger = await records.ledger.questions.get(ref), records.ledger
        outcomes = {
            one.target for one in await ledger.resolutions.current(ref) if not is_withdrawn_outcome(one.outcome)
        }
        closed = question.closes_at is not None and question.closes_at <= self.clock.now()
        over = closed or outcomes.issuperset(target.key for target in question.targets)
        return _RecordedQuestion(question, is_over=over and question.as_of is None)

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
    """Raise ContractError, with a line each, for targets of a file that lie before what may be known."""
    cutoff = question_cutoff(question, now)
    remedy = "leave it out, or give as_of = ... to forecast what is past" if question.as_of is None else "leave it out"
    faults = [
        f"{path}: targets: {target.key}: {target.resolves_at.date().isoformat()} is not after {cutoff:%Y-%m-%d %H:%M} "
        f"UTC, up to which things are known; {remedy}"
        for target in question.targets
        if target.resolves_at is not None and target.resolves_at <= cutoff
    ]
    if faults:
        raise MalformedDataError("\n".join(faults))


def require_any_future_target(question: Question, now: datetime) -> None:
    """Raise Rejected for a question of which every target lies before what may be known."""
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
