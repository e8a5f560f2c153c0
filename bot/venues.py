"""The venues of one run: which of them are used, how often they may be asked, and what of each is opened."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from bot.config.loader import describe_place
from bot.config.plugin_settings import load_plugin_settings
from bot.config.schema import Config
from bot.domain.question import Question
from bot.domain.submission import Mode
from bot.domain.wire import Rate
from bot.errors import ConfigError
from bot.gate.gate import Lane
from bot.gate.lanes import lane_in
from bot.members import with_members
from bot.outfit import Outfitter
from bot.ports import Archive, Planner, PriceFeed, Submitter, Venue
from bot.registry import Registry

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Venues:
    """What is open, each by the name of its venue; not every venue has everything.

    ``submitters`` are paper books in paper mode and writers in live modes.
    """

    lanes: Mapping[str, Lane] = field(default_factory=dict)
    readers: Mapping[str, Venue] = field(default_factory=dict)
    submitters: Mapping[str, Submitter] = field(default_factory=dict)
    planners: Mapping[str, Planner] = field(default_factory=dict)
    feeds: Mapping[str, PriceFeed] = field(default_factory=dict)


async def open_venues(outfitter: Outfitter, names: Sequence[str]) -> Venues:
    """Open the readers first, then what builds on them.

    Raises ConfigError for settings that a plugin refuses, and for forecasters that must not lead.
    """
    lanes = {name: lane_of(outfitter.config, outfitter.registry, name) for name in names}
    readers = {name: await outfitter.venue(name) for name in names}
    submitters = {name: await outfitter.submitter(lane) for name, lane in lanes.items()}
    planners = {name: await outfitter.planner(name) for name in names}
    feeds = {name: await outfitter.prices(name) for name in names}
    return Venues(
        lanes=lanes,
        readers=readers,
        submitters={name: submitter for name, submitter in submitters.items() if submitter is not None},
        planners={name: planner for name, planner in planners.items() if planner is not None},
        feeds={name: feed for name, feed in feeds.items() if feed is not None},
    )


def usable(config: Config, registry: Registry) -> Iterator[str]:
    """Yield the venues that are on, whose plugin works, and which somebody can forecast; say why others are not."""
    for name in config.venues:
        if config.mode_of(name) is Mode.OFF:
            continue
        if name in registry.venues and forecasters_of(config, registry, name):
            yield name
        elif name in registry.venues or registry.broken:
            log.warning("venue left out: its plugin, or that of its forecasters, is broken", venue=name)
        else:
            log.warning('venue left out: its plugin is not in use; add it to plugins, or say mode = "off"', venue=name)


def forecasters_of(config: Config, registry: Registry, venue: str) -> tuple[str, ...]:
    """Return the forecasters of a venue whose plugins work, and those that they build on.

    The one whose forecasts leave is the first.
    """
    return _usable(config, registry, config.venues[venue].all_forecasters)


def forecasters_for(config: Config, registry: Registry, question: Question) -> tuple[str, ...]:
    """Return those of them who forecast a question; nobody for one that is excluded, or of a venue without a table."""
    table = config.venues.get(question.ref.venue)
    return (
        ()
        if table is None or table.exclude.exclusion_reason(question)
        else _usable(config, registry, table.forecasters_of(question))
    )


def _usable(config: Config, registry: Registry, names: Sequence[str]) -> tuple[str, ...]:
    own = [name for name in names if name in registry.forecasters]
    return tuple(dict.fromkeys((*own, *with_members(config, registry, own))))


def discovered_every(config: Config, registry: Registry, venue: str) -> float:
    """Return after how many seconds a venue is read for questions again.

    Its own table says it, else the common value, or less where the plugin says that its questions do not wait so long.
    """
    own, common = config.venues[venue].discover_every_s, config.daemon.discover_every_s
    wanted = registry.venues[venue].discover_every
    if own is not None:
        return own
    return common if wanted is None else min(common, wanted.total_seconds())


def lane_of(config: Config, registry: Registry, name: str) -> Lane:
    """Return how forecasts of a venue leave; raises ConfigError for a clairvoyant one that would."""
    table = config.venues[name]
    firsts: list[tuple[tuple[str | int, ...], str]] = [(("forecasters", 0), table.forecasters[0])]
    firsts += [(("choose", nth, "forecasters", 0), chosen.forecasters[0]) for nth, chosen in enumerate(table.choose)]
    for key, first in firsts:
        if config.forecaster_table(first).clairvoyant:
            place = describe_place(config, "venues", name, *key)
            message = f"{place}{first} is clairvoyant, so its forecasts never leave; put another one first"
            raise ConfigError(message)
    return lane_in(config, name, registry.configurable)


def rates_of(config: Config, registry: Registry) -> Iterator[Rate]:
    """Yield the rates of all enabled venues that are on, whoever asks them: reader, feed, writer, or a person."""
    for spec in registry.venues:
        if spec.name in config.venues and config.mode_of(spec.name) is not Mode.OFF:
            yield from spec.rates(load_plugin_settings(spec, config))


def archive_of(config: Config, registry: Registry, venue: str | None, folder: Path) -> tuple[str, Archive]:
    """Return the archive of past rounds in a folder, in the form of the given venue or of the only one that has one.

    Raises ConfigError where no venue has archives, or several have and none is named.
    """
    able = [spec for spec in registry.venues if spec.archive and venue in {None, spec.name}]
    if len(able) != 1 or able[0].archive is None:
        found = ", ".join(sorted(spec.name for spec in able)) or "none"
        message = f"of the enabled venues, {found} can read past rounds; name one with --venue"
        raise ConfigError(message)
    return able[0].name, able[0].archive(load_plugin_settings(able[0], config), folder)


def own_archive(config: Config, registry: Registry, name: str) -> Archive | None:
    """Return the archive that a venue's own settings name, if they do."""
    spec = registry.venues[name]
    settings = load_plugin_settings(spec, config)
    folder = spec.archive_folder(settings)
    return spec.archive(settings, folder) if spec.archive and folder else None
