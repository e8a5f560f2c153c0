"""The venues of one run: their forecasters, rate limits and execution policies, and what is opened of each."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from bot.app.plugin_factory import PluginFactory
from bot.config.loader import describe_place
from bot.config.plugin_settings import load_plugin_settings
from bot.config.schema import Config
from bot.core.errors import ConfigError
from bot.core.interfaces import OrderPlanner, PriceFeed, RoundArchive, VenueReader, VenueSubmitter
from bot.core.questions import Question
from bot.core.submissions import ExecutionMode
from bot.core.venue_http import RateLimit
from bot.evaluation.question_archive import ARCHIVE_FILE, ARCHIVE_NAME, QuestionArchive
from bot.execution.gate.execution_policy import venue_policy
from bot.execution.gate.gate import ExecutionPolicy
from bot.forecasting.pair_judge import JUDGE_ROLE
from bot.plugin_system.registry import Registry, with_all_members

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
    """Open the readers first, then what builds on them.

    Raises ConfigError for settings that a plugin refuses, and for forecasters that must not lead.
    """
    policies = {name: venue_execution_policy(factory.config, factory.registry, name) for name in names}
    readers = {name: await factory.open_venue(name) for name in names}
    submitters = {name: await factory.open_submitter(policy) for name, policy in policies.items()}
    planners = {name: await factory.open_planner(name) for name in names}
    feeds = {name: await factory.open_price_feed(name) for name in names}
    return OpenVenues(
        execution_policies=policies,
        readers=readers,
        submitters={name: submitter for name, submitter in submitters.items() if submitter is not None},
        planners={name: planner for name, planner in planners.items() if planner is not None},
        price_feeds={name: feed for name, feed in feeds.items() if feed is not None},
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
