"""Trial limits, model roles, tools and budgets that forecasters need, and warnings where config gives less."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from math import ceil
from typing import Any

from bot.config.loader import describe_place
from bot.config.plugin_settings import load_plugin_settings
from bot.config.schema import Config
from bot.core.forecasts import TrialLimits
from bot.core.light_dataclass import dataclass
from bot.core.plain_text import suggest_names
from bot.core.plugin_specs import ForecasterSpec
from bot.forecasting.leak_guard.content_filter import FILTER_ROLE as FILTER
from bot.forecasting.pair_judge import JUDGE_ROLE
from bot.forecasting.tool_factory import ToolFactory
from bot.forecasting.tool_factory import list_tool_names as names_of_tools
from bot.forecasting.tools.result_summaries import SUMMARISER_ROLE as SUMMARISER
from bot.forecasting.tools.web_search import select_engines
from bot.forecasting.trial_memory import WEB_SEARCH
from bot.plugin_system.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRequirements:
    """The maximum number of steps and seconds of a trial under its settings; None where the forecaster does not say."""

    steps: int | None = None
    seconds: float | None = None


def trial_requirements(config: Config, registry: Registry, name: str) -> TrialRequirements:
    """Return the requirements that a forecaster states for its trials."""
    spec = registry.forecasters[name]
    if spec.steps is None and spec.seconds is None:
        return TrialRequirements()
    settings = load_plugin_settings(spec, config)
    return TrialRequirements(
        steps=None if spec.steps is None else spec.steps(settings),
        seconds=None if spec.seconds is None else spec.seconds(settings),
    )


def trial_limits(config: Config, registry: Registry, name: str) -> TrialLimits:
    """Return the limits of a forecaster's trials.

    Its own table in config decides. Without that it has the steps that it needs, and the seconds of ``[limits]`` or
    more where it needs more. ``[limits]`` alone bounds tokens and cost.
    """
    common, table, needs = config.limits, config.forecaster_table(name), trial_requirements(config, registry, name)
    return TrialLimits(
        steps=table.steps or needs.steps or common.steps,
        seconds=table.seconds or max(common.seconds, needs.seconds or 0.0),
        tokens=common.tokens,
        cost_usd=common.cost_usd,
    )


def limit_warnings(config: Config, registry: Registry, names: Iterable[str]) -> Iterator[str]:
    """Yield a line for each forecaster that config gives fewer steps or seconds than it needs."""
    for name in dict.fromkeys(names):
        table, needs = config.forecaster_table(name), trial_requirements(config, registry, name)
        if table.steps is not None and needs.steps is not None and table.steps < needs.steps:
            yield (
                f"[forecasters.{name}] steps = {table.steps} is less than the {needs.steps} that a trial of {name} "
                "takes at most, so trials may be cut short; raise or remove it"
            )
        if table.seconds is not None and needs.seconds is not None and table.seconds < needs.seconds:
            yield (
                f"[forecasters.{name}] seconds = {table.seconds:g} is less than the {needs.seconds:g} that a trial of "
                f"{name} may take, so trials may be cut short; raise or remove it"
            )


async def budget_warnings(
    config: Config, registry: Registry, forecasters: Iterable[str], worst_usd: Callable[[str], Awaitable[float | None]]
) -> Sequence[str]:
    """Return a line where the budget of a question is too small for a forecaster's trials to make calls concurrently.

    ``worst_usd`` returns the maximum cost of a call in a role, None where that is not known. It counts the roles that
    the forecasters cannot do without. Reading a price may load a library.
    """
    limit_usd = config.llm.budget.question_usd
    if limit_usd is None:
        return ()
    warnings = []
    for name in dict.fromkeys(forecasters):
        spec = registry.forecasters[name]
        trials = config.forecaster_table(name).trials or spec.trials
        for role in spec.roles:
            call_usd = await worst_usd(role) if role in config.llm.roles else None
            if call_usd and call_usd * trials > limit_usd:
                warnings.append(
                    f"{name}: a call as {role} reserves its maximum cost, up to {call_usd:.3f} US dollars, so "
                    f"[llm.budget] question_usd = {limit_usd:g} lets {int(limit_usd / call_usd)} of {trials} trials "
                    f"ask at once; raise it to {ceil(100 * trials * call_usd) / 100:.2f}, or lower max_tokens of "
                    f"[llm.roles.{role}]"
                )
    return warnings


def unused_role_warnings(config: Config, registry: Registry) -> Iterator[str]:
    """Yield a line for each role that config gives a model and that no forecaster is known to use: usually a typo."""
    needed = {role for spec in registry.forecasters for role in (*spec.roles, *spec.optional_roles)}
    for role in config.llm.roles:
        if not any(fnmatchcase(role, asked) for asked in needed | BUILT_IN_ROLES):
            suggestion = suggest_names(role, needed | BUILT_IN_ROLES)
            yield f"[llm.roles.{role}] has a model, but no enabled forecaster uses this role; {suggestion}"


def missing_roles(config: Config, spec: ForecasterSpec[Any]) -> str | None:
    """Return what to add to config.toml where no model plays a role that the forecaster cannot do without."""
    missing = [role for role in spec.roles if role not in config.llm.roles]
    if not missing:
        return None
    tables = ", ".join(f'[llm.roles.{role}] model = "PROVIDER:NAME"' for role in missing)
    return f"{spec.name} needs a model in the role {', '.join(missing)}; add to config.toml: {tables}"


def unknown_tools(config: Config, registry: Registry) -> Iterator[str]:
    """Yield a line for each tool that a table of [research.sources] names and that no trial could be offered."""
    valid = names_of_tools(spec.name for spec in registry.data_sources if spec.pages is not None)
    for source, table in config.research.sources.items():
        named = [(("tools", index), tool) for index, tool in enumerate(table.tools or ())]
        first: list[tuple[tuple[str | int, ...], str]] = [] if table.first is None else [(("first",), table.first)]
        for key, tool in (*named, *first):
            if tool not in valid:
                place = describe_place(config, "research", "sources", source, *key)
                yield f"{place}there is no tool {tool}; {suggest_names(tool, valid)}"


def search_unavailable_reason(tool_factory: ToolFactory, *, backdated: bool) -> str | None:
    """Return why trials cannot search the web, if they cannot; ``backdated`` ones need an engine that bounds dates."""
    if not tool_factory.search_engines:
        return (
            f"no search engine is enabled, so {WEB_SEARCH} is not offered; add a plugin that has one to plugins in "
            "config.toml (foxcast plugins lists them)"
        )
    if select_engines(tool_factory.search_engines, tool_factory.section.search, backdated=backdated):
        return None
    names = ", ".join(engine.name for engine in tool_factory.search_engines)
    return (
        f"none of the enabled search engines ({names}) can restrict results to pages from before a date, so "
        f"{WEB_SEARCH} is not "
        "offered; enable one that can (foxcast plugins lists them)"
    )


# The roles of the engine; forecasters name the others.
BUILT_IN_ROLES = frozenset({"main", "critic", "auditor", FILTER, SUMMARISER, JUDGE_ROLE})
