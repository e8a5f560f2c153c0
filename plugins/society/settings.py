"""What can be set on the court: its scenario, the size of the jury, the rounds, the aggregate, and interventions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from bot.api import QUANTILES, FoxcastError, Levels, Manner, Margin, Settings
from plugins.society.interventions import Interventions, intervened
from plugins.society.loading import parsed, read_text, shipped
from plugins.society.scenario import JURY, MOST_JURORS, ActionType, Placed, Scenario, laid_out
from plugins.society.votes import Aggregate

_FILES = (".toml", ".json")


class CourtSettings(Settings):
    """The switches of one court.

    ``scenario`` is ``ten``, ``full``, or a .toml or .json file, relative to config.toml; ``scenario_text`` fills itself
    in with what that file held, so that a forecast can be replayed after the file has changed. ``jurors`` and
    ``rounds`` (of every loop) stand for what the scenario says. N rollouts are N trials: ``trials`` of the
    forecaster's table.

    ``chunk_tokens`` and ``chunks`` bound what is read of an article; ``margin`` keeps yes-or-no answers from 0 and 1,
    ``option_floor``, ``quantiles`` and ``curve_step_mass`` are as for other forecasters. ``crowd`` shows the crowd's
    estimate and starts from it.
    """

    scenario_text: str = ""
    interventions: Interventions = Interventions()
    scenario: str = Field(default="ten", validate_default=True)
    jurors: int | None = Field(default=None, ge=1, le=MOST_JURORS)
    rounds: int | None = Field(default=None, ge=0, le=50)
    aggregate: Aggregate = Aggregate.MEAN
    crowd: bool = True
    chunk_tokens: int = Field(default=2000, ge=100, le=20_000)
    chunks: int = Field(default=3, ge=1, le=10)
    margin: Margin = 0.02
    option_floor: Margin = 0.01
    quantiles: Levels = QUANTILES
    curve_step_mass: float = Field(default=5e-5, ge=0.0, lt=0.01)

    @field_validator("scenario")
    @classmethod
    def _hold_together(cls, name: str, info: ValidationInfo) -> str:
        text = info.data.get("scenario_text", "")
        if name.endswith(_FILES) and not text:
            name = str((info.context or {}).get("folder", Path()) / Path(name).expanduser())
        try:
            scenario = _read(name, text)
            if "interventions" in info.data:
                intervened(scenario, info.data["interventions"])
        except FoxcastError as error:
            raise ValueError(str(error)) from None
        return name

    @model_validator(mode="after")
    def _keep_the_file(self) -> Self:
        # Not before the fields are read: those would then be taken for values of Python, of which a list is no tuple.
        if self.scenario.endswith(_FILES) and not self.scenario_text:
            object.__setattr__(self, "scenario_text", read_text(Path(self.scenario)))
        return self

    @property
    def manner(self) -> Manner:
        """How answers are asked for and bounded."""
        return Manner(
            option_floor=self.option_floor,
            quantiles=self.quantiles,
            curve_step_mass=self.curve_step_mass,
            step_margin=self.margin,
            submit_margin=self.margin,
        )

    def plot(self) -> Scenario:
        """Return the scenario as it is played: with the interventions, the rounds and the jury of the settings."""
        scenario = intervened(_read(self.scenario, self.scenario_text), self.interventions)
        update: dict[str, Any] = {}
        if self.rounds is not None:
            update["loops"] = dict.fromkeys(scenario.loops, self.rounds)
        count = len(self.interventions.jurors) or self.jurors
        if count is not None:
            update["steps"] = tuple(
                move.model_copy(update={"num_jurors": count}) if move.action is ActionType.GENERATE_JURY else move
                for move in scenario.steps
            )
        return scenario.model_copy(update=update)


def moves_of(scenario: Scenario) -> int:
    """Return how many moves a trial has: each juror's word is one."""
    return sum(moves_in(scenario, at) for at in laid_out(scenario))


def moves_in(scenario: Scenario, at: Placed) -> int:
    """Return how many moves a step of the scenario has at one of its places."""
    if at.move.receiver != JURY:
        return 2 * at.move.max_turns - 1
    return next((move.num_jurors for move in scenario.steps if move.action is ActionType.GENERATE_JURY), 0)


def rounds_of(scenario: Scenario) -> int:
    """Return how many calls to models wait for the one before: jurors are asked side by side."""
    return sum(1 if at.move.receiver == JURY else 2 * at.move.max_turns - 1 for at in laid_out(scenario))


def _read(name: str, text: str) -> Scenario:
    if not name.endswith(_FILES):
        return shipped(name)
    return parsed(text or read_text(Path(name)), name)
