"""The limits of a forecaster's trials: what a person set for it, else what it needs, else the common defaults."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bot.config.plugin_settings import load_plugin_settings
from bot.config.schema import Config
from bot.domain.forecast import Limits
from bot.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialNeeds:
    """How many steps and seconds a trial takes at most under its settings; None where the forecaster does not say."""

    steps: int | None = None
    seconds: float | None = None


def needs_of(config: Config, registry: Registry, name: str) -> TrialNeeds:
    """Return what a forecaster says that a trial of it takes."""
    spec = registry.forecasters[name]
    if spec.steps is None and spec.seconds is None:
        return TrialNeeds()
    settings = load_plugin_settings(spec, config)
    return TrialNeeds(
        steps=None if spec.steps is None else spec.steps(settings),
        seconds=None if spec.seconds is None else spec.seconds(settings),
    )


def limits_of(config: Config, registry: Registry, name: str) -> Limits:
    """Return where trials of a forecaster are stopped.

    Its own table in config decides. Without that it has the steps that it needs, and the seconds of ``[limits]`` or
    as many more as it needs. ``[limits]`` alone bounds tokens and cost.
    """
    common, table, needs = config.limits, config.forecaster_table(name), needs_of(config, registry, name)
    return Limits(
        steps=table.steps or needs.steps or common.steps,
        seconds=table.seconds or max(common.seconds, needs.seconds or 0.0),
        tokens=common.tokens,
        cost_usd=common.cost_usd,
    )


def short_limits(config: Config, registry: Registry, names: Iterable[str]) -> Iterator[str]:
    """Yield a line for each forecaster that a person gave fewer steps or seconds than it needs."""
    for name in dict.fromkeys(names):
        table, needs = config.forecaster_table(name), needs_of(config, registry, name)
        if table.steps is not None and needs.steps is not None and table.steps < needs.steps:
            yield (
                f"[forecasters.{name}] steps = {table.steps} is less than the {needs.steps} that a trial of {name} "
                "takes at most, so trials may be cut short; raise it, or leave it out"
            )
        if table.seconds is not None and needs.seconds is not None and table.seconds < needs.seconds:
            yield (
                f"[forecasters.{name}] seconds = {table.seconds:g} is less than the {needs.seconds:g} that a trial of "
                f"{name} may take, so trials may be cut short; raise it, or leave it out"
            )
