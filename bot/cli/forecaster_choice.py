"""Which forecaster is used for a question.

The one named, else the venue's first that asks models, else the first; and which free ones are shown next to it.
"""

from bot.config.schema import Config
from bot.core.errors import ConfigError, NotFoundError
from bot.core.plugin_specs import ForecasterSpec
from bot.core.questions import Question
from bot.plugin_system.registry import Registry, find_offering_plugin


def choose_forecaster(config: Config, registry: Registry, question: Question | str, *, asked: str | None) -> str:
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
        if asked not in there and (plugin := _disabled_plugin_of(registry, asked)):
            message = f'the forecaster {asked} comes with the plugin {plugin}: add "{plugin}" to plugins in config.toml'
            raise NotFoundError(message)
        return there[asked].name
    names = _candidate_names(config, registry, question)
    seeing = [name for name in names if not config.forecaster_table(name).clairvoyant]
    if not seeing:
        message = 'no forecaster is enabled: name a plugin that offers one in plugins, such as plugins = ["baseline"]'
        if names:
            message = f"{names[0]} is clairvoyant and forecasts only where it is named: --forecaster {names[0]}"
        raise ConfigError(message)
    return _preferred_candidate(registry, seeing)


def _disabled_plugin_of(registry: Registry, forecaster: str) -> str | None:
    return find_offering_plugin(
        [one for one in registry.found if one not in registry.enabled], ForecasterSpec, forecaster
    )


def parse_forecaster_list(config: Config, registry: Registry, question: Question, names: str) -> tuple[str, ...]:
    """Return the forecasters of a comma-separated list, each once; raises as ``choose_forecaster`` does."""
    listed = tuple(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    if not listed:
        message = f"--with names no forecaster; there are: {', '.join(registry.forecasters.names) or 'none'}"
        raise ConfigError(message)
    try:
        return tuple(choose_forecaster(config, registry, question, asked=name) for name in listed)
    except NotFoundError as error:
        there = registry.forecasters.names
        if all(name in str(error) for name in there):
            raise
        message = f"{error}; there are: {', '.join(there)}"
        raise NotFoundError(message) from error


def clairvoyance_remark(
    config: Config, registry: Registry, question: Question | str, name: str, *, asked: str | None
) -> str | None:
    """Say that who forecasts is clairvoyant, or that somebody was passed over because that one is; else None."""
    if config.forecaster_table(name).clairvoyant:
        return f"{name} is clairvoyant: nothing keeps it from what came after the cutoff, so its forecast never leaves"
    first = _preferred_candidate(registry, _candidate_names(config, registry, question))
    if asked is not None or not config.forecaster_table(first).clairvoyant:
        return None
    return f"{first} is clairvoyant, so {name} forecasts; to ask {first} all the same: --forecaster {first}"


def _candidate_names(config: Config, registry: Registry, question: Question | str) -> list[str]:
    """Return all forecasters, those of the question, or of the venue, before all others."""
    table = config.venues.get(question if isinstance(question, str) else question.ref.venue)
    own = () if table is None else table.forecasters if isinstance(question, str) else table.forecasters_of(question)
    return [name for name in dict.fromkeys((*own, *registry.forecasters.names)) if name in registry.forecasters]


def _preferred_candidate(registry: Registry, names: list[str]) -> str:
    """Return the first that asks models, else the first; there must be one."""
    return next((name for name in names if registry.forecasters[name].asks_models), names[0])


def free_forecasters(config: Config, registry: Registry, *, but: str) -> tuple[str, ...]:
    """Return the forecasters that cost nothing, to stand beside another one."""
    return tuple(
        spec.name
        for spec in registry.forecasters
        if spec.name != but
        and not spec.asks_models
        # What those cost that it builds on, it costs.
        and spec.members is None
        and not config.forecaster_table(spec.name).clairvoyant
    )
