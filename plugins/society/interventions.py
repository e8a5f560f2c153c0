"""Interventions: one input of a scenario changed, so that the same question can be tried again and compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from bot.api import ConfigError
from plugins.society.checks import faults
from plugins.society.loading import dotted
from plugins.society.names import instead
from plugins.society.scenario import JURY, MOST_JURORS, Agent, Name, Scenario, Text, laid_out
from plugins.society.variables import BUILT_IN


class Interventions(BaseModel):
    """What is changed; everything else stays.

    ``variables`` and placeholders keep these values, whatever a step would store or a trial knows. ``jurors`` are the
    profiles of the jury: the clerk is not asked. ``without_articles`` names articles by id, or by a part of their
    address or title. ``messages`` are by the name or the number of a step, ``systems`` and ``roles`` (whose model
    speaks) by agent, or ``jury`` for jurors.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    variables: dict[Name, Text] = Field(default_factory=dict)
    jurors: tuple[dict[Name, str], ...] = Field(default=(), max_length=MOST_JURORS)
    without_articles: tuple[str, ...] = ()
    messages: dict[str, Text] = Field(default_factory=dict)
    systems: dict[Name, Text] = Field(default_factory=dict)
    roles: dict[Name, Name] = Field(default_factory=dict)

    def told(self) -> tuple[str, ...]:
        """Return every change in a line, for the record."""
        return tuple(_lines(self.model_dump(mode="json", exclude_defaults=True)))


def intervened(scenario: Scenario, changes: Interventions) -> Scenario:
    """Return the scenario with the changes made; raises ConfigError for what it does not have."""
    known = {move.store for move in scenario.steps if move.store is not None} | set(scenario.values) | BUILT_IN
    for name in changes.variables:
        _require(name, known, "variables", "no variable or placeholder is called")
    names = [agent.name for agent in scenario.agents]
    for table in ("systems", "roles"):
        for name in getattr(changes, table):
            _require(name, {*names, JURY}, table, "there is no agent")
    changed = scenario.model_copy(
        update={
            "values": {**scenario.values, **changes.variables},
            "agents": tuple(_agent(agent, changes) for agent in scenario.agents),
            "steps": _steps(scenario, changes.messages),
        }
    )
    if found := [f"{dotted(key)}: {why}" for key, why in faults(changed)]:
        message = "with these interventions the scenario does not hold together: " + "; ".join(found)
        raise ConfigError(message)
    return changed


def _agent(agent: Agent, changes: Interventions) -> Agent:
    update: dict[str, Any] = {}
    if agent.name in changes.systems:
        update["system_message"] = changes.systems[agent.name]
    if agent.name in changes.roles:
        update["role"] = changes.roles[agent.name]
    if JURY in changes.systems and agent.jury_selection is not None:
        update["jury_selection"] = agent.jury_selection.model_copy(update={"prompt_template": changes.systems[JURY]})
    return agent.model_copy(update=update)


def _steps(scenario: Scenario, messages: dict[str, str]) -> tuple[Any, ...]:
    named = {str(at.place): at.index for at in laid_out(scenario)}
    named |= {move.name: index for index, move in enumerate(scenario.steps) if move.name is not None}
    steps = list(scenario.steps)
    for name, text in messages.items():
        _require(name, named, "messages", "there is no step")
        steps[named[name]] = steps[named[name]].model_copy(update={"message": text})
    return tuple(steps)


def _require(name: str, valid: Any, table: str, why: str) -> None:  # noqa: ANN401 - any collection of names
    if name not in valid:
        message = f"interventions.{table}: {why} {name}; {instead(name, map(str, valid))}"
        raise ConfigError(message)


def _lines(changes: dict[str, Any]) -> Iterator[str]:
    for table, value in changes.items():
        for name, text in value.items() if isinstance(value, dict) else [("", str(part)) for part in value]:
            yield f"intervention: {table}{f' {name}' if name else ''} = {' '.join(str(text).split())[:200]}"
