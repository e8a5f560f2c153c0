"""Who builds on whom: the forecasters whose answers another one combines, and in which order they forecast."""

from collections.abc import Iterable

from bot.config.plugin_settings import load_plugin_settings
from bot.config.schema import Config
from bot.core.nearest_names import suggest_names
from bot.errors import ConfigError
from bot.registry import Registry


def members_of(config: Config, registry: Registry, name: str) -> tuple[str, ...]:
    """Return the forecasters that one builds on, as its settings name them; () for most.

    One whose plugin is broken is left out. Raises ConfigError for a name that nobody has, and for one that is
    clairvoyant.
    """
    spec = registry.forecasters[name]
    named = tuple(dict.fromkeys(spec.members(load_plugin_settings(spec, config)))) if spec.members else ()
    if registry.broken:
        named = tuple(member for member in named if member in registry.forecasters)
    for member in named:
        if member not in registry.forecasters:
            there = [other for other in registry.forecasters.names if other != name]
            message = (
                f"forecasters.{name}: no enabled plugin offers its member {member!r}; {suggest_names(member, there)}"
            )
            raise ConfigError(message)
        if config.forecaster_table(member).clairvoyant and not config.forecaster_table(name).clairvoyant:
            message = f"forecasters.{name}: its member {member} is clairvoyant, and what it says is never copied"
            raise ConfigError(message)
    return named


def with_members(config: Config, registry: Registry, names: Iterable[str]) -> tuple[str, ...]:
    """Return the forecasters with all that they build on, each once and behind those that it builds on.

    Raises ConfigError where they build on each other in a circle.
    """
    ordered: dict[str, None] = {}
    for name in names:
        _add(config, registry, (name,), ordered)
    return tuple(ordered)


def _add(config: Config, registry: Registry, path: tuple[str, ...], ordered: dict[str, None]) -> None:
    for member in members_of(config, registry, path[-1]):
        if member in path:
            message = f"forecasters.{path[0]} builds on itself: {' -> '.join((*path, member))}; leave one of them out"
            raise ConfigError(message)
        _add(config, registry, (*path, member), ordered)
    ordered.setdefault(path[-1])
