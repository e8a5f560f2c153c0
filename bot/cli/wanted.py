"""What ``foxcast forecast`` is asked for: which question a name, an address or a file means, and who forecasts it."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bot.app import LEDGER_FILE, Records, folder_of, open_records
from bot.cli.at_venues import AtVenues, address
from bot.cli.question_file import ENDINGS, read_question
from bot.cli.records import question_named
from bot.config.model import Config
from bot.desk.desk import cutoff_of
from bot.domain.question import Question, QuestionRef
from bot.domain.resolution import is_taken_back
from bot.errors import ConfigError, ContractError, FoxcastError, NotFound, Rejected
from bot.ports import Clock
from bot.registry import Registry, bringer
from bot.specs import Can, ForecasterSpec
from bot.store.attempts import with_url


@dataclass(frozen=True, slots=True)
class Wanted:
    """A question as it stands; ``fresh`` says that it does not come from the ledger, which may not know it so."""

    question: Question
    fresh: bool


@dataclass(frozen=True, slots=True)
class _Known:
    """A question of the ledger; ``is_over`` says that it has closed or resolved there."""

    question: Question
    is_over: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where a question may be found."""

    config: Config
    registry: Registry
    clock: Clock

    async def find(self, name: str) -> Wanted:
        """Return the question that a name means; raises NotFound, and ContractError for a file that is none."""
        if name.startswith(("http://", "https://")):
            return await self._at(name)
        path = Path(name)
        if path.suffix.lower() in ENDINGS:
            now = self.clock.now()
            question = read_question(path, now=now)
            require_no_past(path, question, now)
            return Wanted(question, fresh=True)
        if (known := await self._recorded(name)) is not None:
            return await self._as_now(known)
        return Wanted(await self._venues.named(name.strip()), fresh=True)

    async def _as_now(self, known: _Known) -> Wanted:
        """Return a question of the ledger; one that is over there may be open again at its venue, which is asked."""
        if known.is_over:
            try:
                return Wanted(await self._venues.named(str(known.question.ref)), fresh=True)
            except FoxcastError:
                # Whatever keeps it from being read, or forecast: what the ledger says of it is told.
                return Wanted(known.question, fresh=False)
        return Wanted(known.question, fresh=False)

    async def _recorded(self, name: str) -> _Known | None:
        """Return what the ledger knows by a name; words of a title are asked of nobody else."""
        if not _has_ledger(self.config) and _may_be_a_name(name):
            return None
        async with open_records(self.config) as records:
            questions = records.ledger.questions
            if _may_be_a_name(name) and not await questions.search(name, limit=1):
                return None
            return await self._known(records, await question_named(records, name))

    async def _known(self, records: Records, ref: QuestionRef) -> _Known:
        question, ledger = await records.ledger.questions.get(ref), records.ledger
        outcomes = {one.target for one in await ledger.resolutions.current(ref) if not is_taken_back(one.outcome)}
        closed = question.closes_at is not None and question.closes_at <= self.clock.now()
        over = closed or outcomes.issuperset(target.key for target in question.targets)
        return _Known(question, is_over=over and question.as_of is None)

    async def _at(self, url: str) -> Wanted:
        if _has_ledger(self.config):
            async with open_records(self.config) as records:
                if ref := await _recorded(records, url):
                    return await self._as_now(await self._known(records, ref))
        return Wanted(await self._venues.with_address(url), fresh=True)

    @property
    def _venues(self) -> AtVenues:
        return AtVenues(config=self.config, registry=self.registry, clock=self.clock)


def require_no_past(path: Path, question: Question, now: datetime) -> None:
    """Raise ContractError, with a line each, for targets of a file that lie before what may be known."""
    cutoff = cutoff_of(question, now)
    remedy = "leave it out, or give as_of = ... to forecast what is past" if question.as_of is None else "leave it out"
    faults = [
        f"{path}: targets: {target.key}: {target.resolves_at.date().isoformat()} is not after {cutoff:%Y-%m-%d %H:%M} "
        f"UTC, up to which things are known; {remedy}"
        for target in question.targets
        if target.resolves_at is not None and target.resolves_at <= cutoff
    ]
    if faults:
        raise ContractError("\n".join(faults))


def require_future(question: Question, now: datetime) -> None:
    """Raise Rejected for a question of which every target lies before what may be known."""
    cutoff = cutoff_of(question, now)
    dates = [target.resolves_at for target in question.targets]
    if all(date is not None and date <= cutoff for date in dates):
        until = f"{cutoff:%Y-%m-%d %H:%M} UTC"
        message = f"{question.ref} is skipped: none of its dates is after {until}, so there is nothing to forecast"
        raise Rejected(message)


def _has_ledger(config: Config) -> bool:
    return (folder_of(config) / LEDGER_FILE).exists()


async def _recorded(records: Records, url: str) -> QuestionRef | None:
    host, path, _ = address(url)
    found = await with_url(records.ledger.questions.readers, f"{host}{path}")
    match [ref for ref, known in found if address(known) == address(url)]:
        case []:
            return None
        case [ref]:
            return ref
        case several:
            listed = "\n".join(f"  {ref}" for ref in several)
            message = f"{url} is the address of several questions; name one of\n{listed}"
            raise NotFound(message)


def _may_be_a_name(text: str) -> bool:
    return len(text.split()) == 1


def chosen(config: Config, registry: Registry, question: Question | str, *, asked: str | None) -> str:
    """Return who forecasts a question, or any of a venue.

    It is the one asked for, else the first that asks models, else the first; those of the question come before all
    others. Raises NotFound for a name that nobody has, with the nearest ones, and
    ConfigError where there is nobody.
    """
    there = registry.forecasters
    if asked is not None:
        if asked not in there and (faults := [f"{one.plugin} is broken: {one.reason}" for one in registry.broken]):
            message = f"no enabled plugin offers a forecaster {asked}; {'; '.join(faults)}"
            raise ConfigError(message)
        if asked not in there and (plugin := _dormant(registry, asked)):
            message = f'the forecaster {asked} comes with the plugin {plugin}: add "{plugin}" to plugins in config.toml'
            raise NotFound(message)
        return there[asked].name
    names = _names(config, registry, question)
    seeing = [name for name in names if not config.forecaster(name).clairvoyant]
    if not seeing:
        message = 'no forecaster is enabled: name a plugin that offers one in plugins, such as plugins = ["baseline"]'
        if names:
            message = f"{names[0]} is clairvoyant and forecasts only where it is named: --forecaster {names[0]}"
        raise ConfigError(message)
    return _preferred(registry, seeing)


def _dormant(registry: Registry, forecaster: str) -> str | None:
    return bringer([one for one in registry.found if one not in registry.enabled], ForecasterSpec, forecaster)


def several(config: Config, registry: Registry, question: Question, names: str) -> tuple[str, ...]:
    """Return the forecasters named in a list with commas, each once; raises as ``chosen`` for one that nobody has."""
    listed = tuple(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    if not listed:
        message = f"--with names no forecaster; there are: {', '.join(registry.forecasters.names) or 'none'}"
        raise ConfigError(message)
    try:
        return tuple(chosen(config, registry, question, asked=name) for name in listed)
    except NotFound as error:
        there = registry.forecasters.names
        if all(name in str(error) for name in there):
            raise
        message = f"{error}; there are: {', '.join(there)}"
        raise NotFound(message) from error


def remark_on(
    config: Config, registry: Registry, question: Question | str, name: str, *, asked: str | None
) -> str | None:
    """Say that who forecasts is clairvoyant, or that somebody was passed over because that one is; else None."""
    if config.forecaster(name).clairvoyant:
        return f"{name} is clairvoyant: nothing keeps it from what came after the cutoff, so its forecast never leaves"
    first = _preferred(registry, _names(config, registry, question))
    if asked is not None or not config.forecaster(first).clairvoyant:
        return None
    return f"{first} is clairvoyant, so {name} forecasts; to ask {first} all the same: --forecaster {first}"


def _names(config: Config, registry: Registry, question: Question | str) -> list[str]:
    """Return all forecasters, those of the question, or of the venue, before all others."""
    table = config.venues.get(question if isinstance(question, str) else question.ref.venue)
    own = () if table is None else table.forecasters if isinstance(question, str) else table.forecasters_of(question)
    return [name for name in dict.fromkeys((*own, *registry.forecasters.names)) if name in registry.forecasters]


def _preferred(registry: Registry, names: list[str]) -> str:
    """Return the first that asks models, else the first; there must be one."""
    return next((name for name in names if Can.ASK_MODELS in registry.forecasters[name].abilities), names[0])


def free_ones(config: Config, registry: Registry, *, but: str) -> tuple[str, ...]:
    """Return the forecasters that cost nothing, to stand beside another one."""
    return tuple(
        spec.name
        for spec in registry.forecasters
        if spec.name != but
        and Can.ASK_MODELS not in spec.abilities
        # What those cost that it builds on, it costs.
        and spec.members is None
        and not config.forecaster(spec.name).clairvoyant
    )
