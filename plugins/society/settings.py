"""The settings of the court: its scenario, the size of the jury, the rounds, the aggregate, and interventions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from bot.api import AnswerFields, AnswerSettings, FoxcastError, LocalPath, ProbabilityMargin, check_prompt_folder
from plugins.society.interventions import ScenarioInterventions, apply_interventions
from plugins.society.scenario import JURY, MOST_JURORS, CourtScenario, MoveAction, PlacedMove, expand_loops
from plugins.society.scenario_files import load_shipped_scenario, parse_scenario, read_scenario_file
from plugins.society.vote_pooling import VoteAggregate

_FILE_SUFFIXES = (".toml", ".json")


PromptFolder = Annotated[LocalPath, AfterValidator(partial(check_prompt_folder, "plugins.society"))]


class CourtSettings(AnswerFields):
    """The scenario and the bounds of one court. N rollouts are N ``trials`` of the forecaster's table."""

    renamed_keys: ClassVar[Mapping[str, str]] = {
        "chunks": "max_chunks",
    }

    prompts: PromptFolder | None = None
    """A folder of prompt files that replace those of the same name; unset: the prompts that come with the plugin."""

    scenario_text: str = ""
    """The text of the scenario file; filled in by the program, so that a forecast can be replayed after the file
    changed."""

    interventions: ScenarioInterventions = ScenarioInterventions()
    """Changes to the scenario, to compare trials with and without them."""

    scenario: str = Field(default="ten", validate_default=True)
    """The scenario: `ten`, `full`, or a .toml or .json file."""

    jurors: int | None = Field(default=None, ge=1, le=MOST_JURORS)
    """Number of jurors; unset: as the scenario says."""

    rounds: int | None = Field(default=None, ge=0, le=50)
    """Rounds of every loop; unset: as the scenario says."""

    aggregate: VoteAggregate = VoteAggregate.MEAN
    """How the votes of the jurors become one answer."""

    crowd: bool = True
    """Start from the market price or community forecast, until an agent has given an estimate."""

    show_crowd: bool = False
    """Show the market price or community forecast to everybody in the court, if `crowd` is on."""

    rate_pages: bool = False
    """Read the page of every result and rate all its parts, as in the paper. Off: results are rated by what the search
    showed of them, and only the pages of the kept ones are read."""

    chunk_tokens: int = Field(default=2000, ge=100, le=20_000)
    """Tokens of one part of an article."""

    max_chunks: int = Field(default=3, ge=1, le=10)
    """Parts of an article that are read."""

    rating_batch: int = Field(default=20, ge=1, le=50)
    """Results, or parts of pages, that the role `rater` rates in one call."""

    excerpt_chars: int = Field(default=4000, ge=200, le=60_000)
    """Characters of each kept article that the court reads: those of its most relevant parts."""

    margin: ProbabilityMargin = 0.02
    """How far a yes-or-no probability stays from 0 and 1."""

    @field_validator("scenario")
    @classmethod
    def _hold_together(cls, name: str, info: ValidationInfo) -> str:
        text = info.data.get("scenario_text", "")
        if name.endswith(_FILE_SUFFIXES) and not text:
            name = str((info.context or {}).get("folder", Path()) / Path(name).expanduser())
        try:
            scenario = _load_scenario(name, text)
            if "interventions" in info.data:
                apply_interventions(scenario, info.data["interventions"])
        except FoxcastError as error:
            raise ValueError(str(error)) from None
        return name

    @model_validator(mode="after")
    def _keep_the_file(self) -> Self:
        # Not before the fields are read: they would be treated as Python values, in which a list is not a tuple.
        if self.scenario.endswith(_FILE_SUFFIXES) and not self.scenario_text:
            object.__setattr__(self, "scenario_text", read_scenario_file(Path(self.scenario)))
        return self

    @property
    def answer_settings(self) -> AnswerSettings:
        """How answers are asked for and bounded."""
        return self.create_answer_settings(self.margin, self.margin)

    def effective_scenario(self) -> CourtScenario:
        """Return the scenario with the interventions, the rounds and the jury of the settings."""
        scenario = apply_interventions(_load_scenario(self.scenario, self.scenario_text), self.interventions)
        update: dict[str, Any] = {}
        if self.rounds is not None:
            update["loops"] = dict.fromkeys(scenario.loops, self.rounds)
        count = len(self.interventions.jurors) or self.jurors
        if count is not None:
            update["steps"] = tuple(
                move.model_copy(update={"num_jurors": count}) if move.action is MoveAction.GENERATE_JURY else move
                for move in scenario.steps
            )
        return scenario.model_copy(update=update)


def count_moves(scenario: CourtScenario) -> int:
    """Return how many moves a trial has: each juror's statement is one."""
    return sum(count_step_moves(scenario, at) for at in expand_loops(scenario))


def count_step_moves(scenario: CourtScenario, at: PlacedMove) -> int:
    """Return how many moves a step of the scenario has at one of its places."""
    if at.move.receiver != JURY:
        return 2 * at.move.max_turns - 1
    return next((move.num_jurors for move in scenario.steps if move.action is MoveAction.GENERATE_JURY), 0)


def count_model_rounds(scenario: CourtScenario) -> int:
    """Return how many model calls wait for an earlier one: jurors are asked concurrently."""
    return sum(1 if at.move.receiver == JURY else 2 * at.move.max_turns - 1 for at in expand_loops(scenario))


def _load_scenario(name: str, text: str) -> CourtScenario:
    if not name.endswith(_FILE_SUFFIXES):
        return load_shipped_scenario(name)
    return parse_scenario(text or read_scenario_file(Path(name)), name)
