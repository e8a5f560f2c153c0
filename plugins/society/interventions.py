"""Interventions: one input of a scenario changed, so that the same question can be forecast again and compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from bot.api import ConfigError, parsing, suggest_names
from plugins.society.scenario import (
    JURY,
    MOST_JURORS,
    CourtScenario,
    ScenarioAgent,
    ScenarioName,
    ScenarioText,
    expand_loops,
)
from plugins.society.scenario_checks import find_faults
from plugins.society.scenario_files import format_key
from plugins.society.variables import BUILT_IN


class ScenarioInterventions(BaseModel):
    """What is changed in a scenario; everything else stays."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    variables: dict[ScenarioName, ScenarioText] = Field(default_factory=dict)
    """Values of variables and placeholders that nothing in the trial changes."""

    jurors: tuple[dict[ScenarioName, str], ...] = Field(default=(), max_length=MOST_JURORS)
    """Profiles of the jurors; empty: the clerk is asked for them."""

    without_articles: tuple[str, ...] = ()
    """Articles that are left out, by id or by a part of their address or title."""

    messages: dict[str, ScenarioText] = Field(default_factory=dict)
    """Texts of messages, by the name or number of their step."""

    systems: dict[ScenarioName, ScenarioText] = Field(default_factory=dict)
    """Descriptions of the part of each, by agent or `jury`."""

    roles: dict[ScenarioName, ScenarioName] = Field(default_factory=dict)
    """Roles whose models speak, by agent or `jury`."""

    def describe(self) -> tuple[str, ...]:
        """Return every change in a line, for the record."""
        return tuple(_intervention_lines(self.model_dump(mode="json", exclude_defaults=True)))


def apply_interventions(scenario: CourtScenario, changes: ScenarioInterventions) -> CourtScenario:
    """Return the changed scenario; raises ConfigError for names that it does not have."""
    known = {move.store for move in scenario.steps if move.store is not None} | set(scenario.values) | BUILT_IN
    for name in changes.variables:
        _require_known(name, known, "variables", "no variable or placeholder is called")
    names = [agent.name for agent in scenario.agents]
    for table in ("systems", "roles"):
        for name in getattr(changes, table):
            _require_known(name, {*names, JURY}, table, "there is no agent")
    changed = scenario.model_copy(
        update={
            "values": {**scenario.values, **changes.variables},
            "agents": tuple(_change_agent(agent, changes) for agent in scenario.agents),
            "steps": _change_steps(scenario, changes.messages),
        }
    )
    if found := [f"{format_key(key)}: {why}" for key, why in find_faults(changed)]:
        message = "with these interventions the scenario is inconsistent: " + "; ".join(found)
        raise ConfigError(message)
    return changed


def _change_agent(agent: ScenarioAgent, changes: ScenarioInterventions) -> ScenarioAgent:
    update: dict[str, Any] = {}
    if agent.name in changes.systems:
        update["system_message"] = changes.systems[agent.name]
    if agent.name in changes.roles:
        update["role"] = changes.roles[agent.name]
    if JURY in changes.systems and agent.jury_selection is not None:
        update["jury_selection"] = agent.jury_selection.model_copy(update={"prompt_template": changes.systems[JURY]})
    return agent.model_copy(update=update)


def _change_steps(scenario: CourtScenario, messages: dict[str, str]) -> tuple[Any, ...]:
    named = {str(at.place): at.index for at in expand_loops(scenario)}
    named |= {move.name: index for index, move in enumerate(scenario.steps) if move.name is not None}
    steps = list(scenario.steps)
    for name, text in messages.items():
        _require_known(name, named, "messages", "there is no step")
        steps[named[name]] = steps[named[name]].model_copy(update={"message": text})
    return tuple(steps)


def _require_known(name: str, valid: Any, table: str, why: str) -> None:  # noqa: ANN401 - any collection of names
    if name not in valid:
        message = f"interventions.{table}: {why} {name}; {suggest_names(name, map(str, valid))}"
        raise ConfigError(message)


def _intervention_lines(changes: dict[str, Any]) -> Iterator[str]:
    for table, value in changes.items():
        for name, text in value.items() if isinstance(value, dict) else [("", str(part)) for part in value]:
            yield f"intervention: {table}{f' {name}' if name else ''} = {parsing.cut_line(str(text), 200)}"
