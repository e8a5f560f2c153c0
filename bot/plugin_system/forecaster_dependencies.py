"""Which forecasters combine the answers of others, and the order in which they forecast."""

from collections.abc import Iterable

from bot.config.plugin_settings import load_plugin_settings
from bot.config.schema import Config
from bot.core.errors import ConfigError
from bot.core.nearest_names import suggest_names
from bot.plugin_system.registry import Registry


def direct_members(config: Config, registry: Registry, name: str) -> tuple[str, ...]:
    """Return the forecasters that one builds on, as its settings name them; () for most.

    One whose plugin is broken is skipped. Raises ConfigError for an unknown name, and for a clairvoyant one.
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
            message = f"forecasters.{name}: its member {member} is clairvoyant, so its forecasts are never combined"
            raise ConfigError(message)
    return named


def with_all_members(config: Config, registry: Registry, names: Iterable[str]) -> tuple[str, ...]:
    """Return the forecasters with all that they build on, each once and after those that it builds on.

    Raises ConfigError where they build on each other in a circle.
    """
    ordered: dict[str, None] = {}
    for name in names:
        _add_with_members(config, registry, (name,), ordered)
    return tuple(ordered)


def _add_with_members(config: Config, registry: Registry, path: tuple[str, ...], ordered: dict[str, None]) -> None:
    for member in direct_members(config, registry, path[-1]):
        if member in path:
            message = f"forecasters.{path[0]} builds on itself: {' -> '.join((*path, member))}; remove one of them"
            raise ConfigError(message)
        _add_with_members(config, registry, (*path, member), ordered)
    ordered.setdefault(path[-1])
