"""What can be set on the orchestra: its size, its budgets, and what it may use. Code holds it to all of them."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from bot.api import Margin, Settings

# Below one half, so that a clamp leaves a choice.


# A part of the name of a role.
Word = Annotated[str, Field(pattern=r"^[a-z0-9]+(_[a-z0-9]+)*$", max_length=30)]


class OrchestraSettings(Settings):
    """The size and the budgets of one orchestra.

    ``steps`` is how many moves the orchestrator has. Of subagents it may make ``subagents``, of which ``concurrency``
    work at once; each run of one has at most ``agent_steps`` moves and ``agent_tokens`` tokens (in and out), all runs
    together ``turns`` moves and ``tokens`` tokens. A run may ask for ``guidance`` so many times. After ``forecasts``
    reports with a forecast of their own the orchestrator can only submit.

    ``models`` are names among which the orchestrator chooses who plays a subagent: ``fast`` is the role
    ``subagent_fast``. Without one a subagent is played by the role of its kind, else ``subagent``, else ``main``.
    ``tools`` names the tools of the desk that may be used (None: all); with ``hands_on`` the orchestrator has them as
    well. ``memory_entries`` bounds the shared memory.

    With ``candidates`` (0: none) that many rationales are written from all that was found and merged in groups of
    ``group`` until one is left, which is the answer. Source: recursive self-aggregation (arXiv 2509.26626).

    ``lessons`` offers what was learned from outcomes of earlier forecasts, at most ``lessons_shown`` of them at the
    beginning, none older than ``lesson_days``. ``crowd`` shows the crowd's estimate and starts from it.
    ``step_margin`` and ``submit_margin`` keep a probability from 0 and 1 on the way and in the end.
    """

    steps: int = Field(default=14, ge=2, le=100)
    subagents: int = Field(default=6, ge=1, le=50)
    concurrency: int = Field(default=3, ge=1, le=16)
    agent_steps: int = Field(default=8, ge=1, le=100)
    agent_tokens: int = Field(default=60_000, ge=100)
    turns: int = Field(default=40, ge=1, le=1000)
    tokens: int = Field(default=300_000, ge=100)
    guidance: int = Field(default=1, ge=0, le=10)
    forecasts: int = Field(default=3, ge=1, le=50)
    models: tuple[Word, ...] = ()
    tools: tuple[str, ...] | None = None
    hands_on: bool = True
    memory_entries: int = Field(default=100, ge=1, le=1000)
    candidates: int = Field(default=0, ge=0, le=32)
    group: int = Field(default=2, ge=2, le=8)
    lessons: bool = True
    lesson_days: float = Field(default=365.0, gt=0.0)
    lessons_shown: int = Field(default=5, ge=0, le=50)
    crowd: bool = True
    step_margin: Margin = 0.02
    submit_margin: Margin = 0.05

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.candidates == 1:
            message = "candidates = 1 leaves nothing to merge; use 2 or more, or 0 for none"
            raise ValueError(message)
        if self.concurrency > self.subagents:
            message = (
                f"concurrency = {self.concurrency} is more than subagents = {self.subagents}, so it cannot be used"
            )
            raise ValueError(message)
        return self

    @property
    def merges(self) -> int:
        """How many groups of candidates are merged until one is left."""
        merged, left = 0, self.candidates
        while left > 1:
            left = -(-left // self.group)
            merged += left
        return merged

    @property
    def most_steps(self) -> int:
        """How many steps a trial has at most: moves of the orchestrator and of subagents, answers and merges."""
        return self.steps + self.turns + self.candidates + self.merges
