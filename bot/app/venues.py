"""The venues of one run: their forecasters, limits, credentials and policies, and the factory that opens them."""

from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import field
from functools import partial
from pathlib import Path

import structlog

from bot.app.plugin_factory import PluginFactory
from bot.config.loader import describe_place
from bot.config.plugin_settings import load_plugin_settings
from bot.config.schema import Config
from bot.core.clock import SeededRandom
from bot.core.errors import ConfigError
from bot.core.interfaces import Clock, OrderPlanner, PriceFeed, RoundArchive, VenueReader, VenueSubmitter
from bot.core.light_dataclass import dataclass
from bot.core.questions import Question
from bot.core.submissions import ExecutionMode
from bot.core.venue_http import RateLimit
from bot.evaluation.question_archive import ARCHIVE_FILE, ARCHIVE_NAME, QuestionArchive
from bot.execution.gate.config_digest import credentials_digest
from bot.execution.gate.credential_guard import CredentialGuard
from bot.execution.gate.execution_policy import venue_policy
from bot.execution.gate.gate import ExecutionPolicy
from bot.execution.gate.kill_switch import STOP_FILE, KillSwitch
from bot.forecasting.pair_judge import JUDGE_ROLE
from bot.net.client import HttpLimits, RetryingHttpClient
from bot.net.rate_limit import RateLimiter
from bot.net.write_client import HttpWriteClient
from bot.plugin_system.registry import Registry, with_all_members
from bot.store.ledger import LEDGER_FILE, Ledger
from bot.store.rate_usage import LOCK_HOLDER_NAME, RATE_USAGE_FOLDER, SharedRateUsageFiles
from bot.store.response_shapes import SHAPES_FILE, ResponseShapes

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenVenues:
    """What is open, each by the name of its venue; not every venue has everything.

    ``submitters`` are paper books in paper mode and writers in live modes.
    """

    execution_policies: Mapping[str, ExecutionPolicy] = field(default_factory=dict)
    readers: Mapping[str, VenueReader] = field(default_factory=dict)
    submitters: Mapping[str, VenueSubmitter] = field(default_factory=dict)
    planners: Mapping[str, OrderPlanner] = field(default_factory=dict)
    price_feeds: Mapping[str, PriceFeed] = field(default_factory=dict)


async def open_venues(factory: PluginFactory, names: Sequence[str]) -> OpenVenues:
    """Open the venues; leave out each that cannot be opened whole, with an entry in the faults of the factory.

    Raises ConfigError for settings that a plugin refuses, and for forecasters that must not lead.
    """
    policies = {name: venue_execution_policy(factory.config, factory.registry, name) for name in names}
    attempts = [
        await factory.open_or_skip(factory.registry.venues[name], partial(_open_venue, policy))
        for name, policy in policies.items()
    ]
    opened = [venue for venue in attempts if venue is not None]
    return OpenVenues(
        execution_policies={name: found for venue in opened for name, found in venue.execution_policies.items()},
        readers={name: found for venue in opened for name, found in venue.readers.items()},
        submitters={name: found for venue in opened for name, found in venue.submitters.items()},
        planners={name: found for venue in opened for name, found in venue.planners.items()},
        price_feeds={name: found for venue in opened for name, found in venue.price_feeds.items()},
    )


async def _open_venue(policy: ExecutionPolicy, factory: PluginFactory) -> OpenVenues:
    """Open one venue: its reader first, then what builds on it."""
    name = policy.venue
    reader, submitter = await factory.open_venue(name), await factory.open_submitter(policy)
    planner, feed = await factory.open_planner(name), await factory.open_price_feed(name)
    return OpenVenues(
        execution_policies={name: policy},
        readers={name: reader},
        submitters={} if submitter is None else {name: submitter},
        planners={} if planner is None else {name: planner},
        price_feeds={} if feed is None else {name: feed},
    )


def usable_venues(config: Config, registry: Registry) -> Iterator[str]:
    """Yield the venues that are on, whose plugin works, and which some forecaster can forecast.

    Log why others are not.
    """
    for name in config.venues:
        if config.mode_of(name) is ExecutionMode.OFF:
            continue
        if name in registry.venues and venue_forecasters(config, registry, name):
            yield name
        elif name in registry.venues or registry.broken:
            log.warning("venue skipped: its plugin, or that of its forecasters, is broken", venue=name)
        else:
            log.warning('venue skipped: its plugin is not in use; add it to plugins, or set mode = "off"', venue=name)


def venue_forecasters(config: Config, registry: Registry, venue: str) -> tuple[str, ...]:
    """Return the forecasters of a venue whose plugins work, and those that they build on.

    The forecasts of the first one are submitted.
    """
    return _usable_forecasters(config, registry, config.venues[venue].all_forecasters)


def question_forecasters(config: Config, registry: Registry, question: Question) -> tuple[str, ...]:
    """Return those of them that forecast a question; none for one that is excluded, or of a venue without a table."""
    table = config.venues.get(question.ref.venue)
    return (
        ()
        if table is None or table.exclude.exclusion_reason(question)
        else _usable_forecasters(config, registry, table.forecasters_of(question))
    )


def _usable_forecasters(config: Config, registry: Registry, names: Sequence[str]) -> tuple[str, ...]:
    usable = [name for name in names if name in registry.forecasters]
    return tuple(dict.fromkeys((*usable, *with_all_members(config, registry, usable))))


def discovery_interval_s(config: Config, registry: Registry, venue: str) -> float:
    """Return the interval in seconds at which a venue is read for questions.

    It is the value of its own table, else the common value, or less where the plugin says that its questions cannot
    wait that long.
    """
    usable, common = config.venues[venue].discover_every_s, config.daemon.discover_every_s
    wanted = registry.venues[venue].discover_every
    if usable is not None:
        return usable
    return common if wanted is None else min(common, wanted.total_seconds())


def matches_pairs(config: Config, venues: Collection[str]) -> bool:
    """Return whether questions of these venues are matched: there are several, and config allows it."""
    return config.pairs.enabled and len(venues) > 1


def judges_pairs(config: Config, venues: Collection[str]) -> bool:
    """Return whether a model judges pairs of questions of these venues."""
    return matches_pairs(config, venues) and JUDGE_ROLE in config.llm.roles


def venue_execution_policy(config: Config, registry: Registry, name: str) -> ExecutionPolicy:
    """Return how forecasts of a venue are submitted; raises ConfigError for a clairvoyant first forecaster."""
    table = config.venues[name]
    submitting_forecasters: list[tuple[tuple[str | int, ...], str]] = [(("forecasters", 0), table.forecasters[0])]
    submitting_forecasters += [
        (("choose", nth, "forecasters", 0), chosen.forecasters[0]) for nth, chosen in enumerate(table.choose)
    ]
    for key, forecaster in submitting_forecasters:
        if config.forecaster_table(forecaster).clairvoyant:
            place = describe_place(config, "venues", name, *key)
            message = f"{place}{forecaster} is clairvoyant, so its forecasts are never submitted; put another one first"
            raise ConfigError(message)
    return venue_policy(config, name, registry.specs_of_table)


def venue_rate_limits(config: Config, registry: Registry) -> Iterator[RateLimit]:
    """Yield the rate limits of all enabled venues that are on; reader, feed, writer and commands share them."""
    for spec in registry.venues:
        if spec.name in config.venues and config.mode_of(spec.name) is not ExecutionMode.OFF:
            yield from spec.rates(load_plugin_settings(spec, config))


def find_archive(config: Config, registry: Registry, venue: str | None, folder: Path) -> tuple[str, RoundArchive]:
    """Return the archive of past rounds in a folder, in the form of the given venue or of the only one that has one.

    Imported questions need no venue. Raises ConfigError where no venue has archives, or several have and none is named.
    """
    if (folder / ARCHIVE_FILE).is_file():
        return ARCHIVE_NAME, QuestionArchive(folder)
    archive_specs = [spec for spec in registry.venues if spec.archive and venue in {None, spec.name}]
    if len(archive_specs) != 1 or archive_specs[0].archive is None:
        found = ", ".join(sorted(spec.name for spec in archive_specs)) or "none"
        message = f"of the enabled venues, {found} can read past rounds; name one with --venue"
        raise ConfigError(message)
    return archive_specs[0].name, archive_specs[0].archive(load_plugin_settings(archive_specs[0], config), folder)


def configured_archive(config: Config, registry: Registry, name: str) -> RoundArchive | None:
    """Return the archive that a venue's own settings name, if they do."""
    spec = registry.venues[name]
    settings = load_plugin_settings(spec, config)
    folder = spec.archive_folder(settings)
    return spec.archive(settings, folder) if spec.archive and folder else None


@asynccontextmanager
async def open_plugin_factory(
    config: Config, registry: Registry, clock: Clock, *, folder: Path, ledger: Ledger | None = None
) -> AsyncIterator[PluginFactory]:
    """Open the plugin factory; with a ledger, requests to venues keep their rate limits.

    The write clients check the kill switch once more when their turn has come.
    """
    random = SeededRandom(config.seed)
    rate_limits, rate_store = ((), None) if ledger is None else (venue_rate_limits(config, registry), ledger.rates)
    shared = None if ledger is None else SharedRateUsageFiles(folder=folder / RATE_USAGE_FOLDER, name=LOCK_HOLDER_NAME)
    rates = RateLimiter(rate_limits, clock=clock, random=random, store=rate_store, shared=shared)
    limits = HttpLimits(connections=config.http.connections)
    client = RetryingHttpClient(clock=clock, random=random, limits=limits, rates=rates, proxies=config.http.proxies)
    async with client as http, AsyncExitStack() as stack:
        credentials = {} if ledger is None else _venue_credentials(config, registry, clock, ledger)
        for one in credentials.values():
            await one.load_refusal()
        shapes = None if ledger is None else ResponseShapes(path=folder / SHAPES_FILE, clock=clock)
        if shapes is not None:
            stack.callback(shapes.save)
        yield PluginFactory(
            config=config,
            registry=registry,
            clock=clock,
            random=random,
            http=http,
            folder=folder,
            stack=stack,
            rates=rates,
            open_write_client=partial(
                HttpWriteClient, halt_check=build_kill_switch(config, folder).halt_reason, proxies=config.http.proxies
            ),
            credentials=credentials,
            shapes=shapes,
        )


def _venue_credentials(config: Config, registry: Registry, clock: Clock, ledger: Ledger) -> dict[str, CredentialGuard]:
    return {
        spec.name: CredentialGuard(
            venue=spec.name,
            is_refusal=spec.is_credential_refusal,
            final_refusals=spec.final_refusals,
            compute_digest=partial(credentials_digest, config, spec),
            ledger=ledger,
            clock=clock,
        )
        for spec in registry.venues
        if spec.name in config.venues
    }


def build_kill_switch(config: Config, folder: Path) -> KillSwitch:
    """Return the kill switch of a state folder: its file and the halts of its ledger."""
    return KillSwitch(stop_file=config.state / STOP_FILE, ledger_file=folder / LEDGER_FILE)
