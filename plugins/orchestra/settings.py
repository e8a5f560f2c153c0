"""The settings of the orchestra: its size, its budgets, and what it may use. Code enforces all of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, Field, model_validator

from bot.api import LocalPath, PluginSettings, ProbabilityMargin, check_prompt_folder
from plugins.orchestra.subagent_kinds import KIND_NAMES, PROMPT_PACKAGE, parse_kind

# A part of the name of a role.
RoleWord = Annotated[str, Field(pattern=r"^[a-z0-9]+(_[a-z0-9]+)*$", max_length=30)]


def _require_prompts(folder: Path) -> Path:
    """Return the folder if its files can replace the shipped ones; a kind of subagent also needs its head."""
    check_prompt_folder(PROMPT_PACKAGE, folder)
    for name in KIND_NAMES:
        path = folder / "kinds" / f"{name}.txt"
        if path.is_file():
            parse_kind(name, path.read_text(encoding="utf-8"), where=str(path))
    return folder


PromptFolder = Annotated[LocalPath, AfterValidator(_require_prompts)]


class OrchestraSettings(PluginSettings):
    """The size and the budgets of one orchestra.

    Source of the candidates and rounds: recursive self-aggregation (arXiv 2509.26626).
    """

    renamed_keys: ClassVar[Mapping[str, str]] = {
        "forecasts": "max_forecast_reports",
        "group": "merge_group",
        "guidance": "guidance_requests",
        "hands_on": "orchestrator_tools",
        "tokens": "total_agent_tokens",
        "turns": "total_agent_steps",
    }

    prompts: PromptFolder | None = None
    """A folder of prompt files that replace those of the same name; unset: the prompts that come with the plugin."""

    steps: int = Field(default=14, ge=2, le=100)
    """Steps of the orchestrator in one trial."""

    subagents: int = Field(default=6, ge=1, le=50)
    """Subagents that there may be at one time; to delete one makes room for another."""

    concurrency: int = Field(default=3, ge=1, le=16)
    """Subagents that work at the same time."""

    agent_steps: int = Field(default=8, ge=1, le=100)
    """Steps of one run of a subagent."""

    agent_tokens: int = Field(default=60_000, ge=100)
    """Tokens of one run of a subagent, input and output together."""

    total_agent_steps: int = Field(default=40, ge=1, le=1000)
    """Steps of all runs of subagents together."""

    total_agent_tokens: int = Field(default=300_000, ge=100)
    """Tokens of all runs of subagents together, input and output."""

    guidance_requests: int = Field(default=1, ge=0, le=10)
    """How often one run of a subagent may ask the orchestrator for guidance."""

    max_forecast_reports: int = Field(default=3, ge=1, le=50)
    """Reports with a forecast of their own after which the orchestrator can only submit."""

    models: tuple[RoleWord, ...] = ()
    """Names among which the orchestrator chooses a subagent's model: `fast` is the role `subagent_fast`. Empty: the
    role of its kind, else `subagent`, else `main`."""

    tools: tuple[str, ...] | None = None
    """Tools that may be used; unset: all."""

    orchestrator_tools: bool = True
    """Let the orchestrator use the tools itself."""

    memory_entries: int = Field(default=100, ge=1, le=1000)
    """Entries of the shared memory."""

    candidates: int = Field(default=0, ge=0, le=32)
    """Rationales that are written from all findings and then merged into the answer; 0: none."""

    merge_group: int = Field(default=2, ge=2, le=8)
    """How many candidates are merged into one at a time."""

    resampling_rounds: int = Field(default=0, ge=0, le=10)
    """Rounds that each make as many new candidates as there were, each merged from a random group of the old ones; the
    answer is the mean log-odds of the last ones. 0: every candidate is merged once, as a tree."""

    lessons: bool = True
    """Offer lessons from the outcomes of earlier forecasts, and notes on questions that are still open."""

    lesson_days: float = Field(default=365.0, gt=0.0)
    """Days after which a lesson is no longer offered."""

    lessons_shown: int = Field(default=5, ge=0, le=50)
    """Lessons that are shown at the beginning."""

    crowd: bool = True
    """Show the market price or community forecast to the model, and start from it."""

    step_margin: ProbabilityMargin = 0.02
    """How far a belief on the way stays from 0 and 1; nearer only where a shown market price or base rate is."""

    submit_margin: ProbabilityMargin = 0.05
    """How far the submitted probability stays from 0 and 1; nearer only where a shown market price or base rate is."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.candidates == 1:
            message = "candidates = 1 leaves nothing to merge; use 2 or more, or 0 for none"
            raise ValueError(message)
        if self.resampling_rounds and not self.candidates:
            message = "resampling_rounds needs candidates; set candidates to 2 or more"
            raise ValueError(message)
        if self.concurrency > self.subagents:
            message = (
                f"concurrency = {self.concurrency} is more than subagents = {self.subagents}, so it cannot be used"
            )
            raise ValueError(message)
        return self

    @property
    def merges(self) -> int:
        """How many answers are made by merging others."""
        if self.resampling_rounds:
            return self.resampling_rounds * self.candidates
        merged, left = 0, self.candidates
        while left > 1:
            left = -(-left // self.merge_group)
            merged += left
        return merged

    @property
    def most_steps(self) -> int:
        """How many steps a trial has at most: those of the orchestrator and of subagents, answers and merges."""
        return self.steps + self.total_agent_steps + self.candidates + self.merges

    def within(self, limit: int) -> Self:
        """Return the settings for a trial of so many steps at most: without room for them there are no candidates."""
        fits = limit >= self.candidates + self.merges + 2
        return self if fits or not self.candidates else self.model_copy(update={"candidates": 0})
