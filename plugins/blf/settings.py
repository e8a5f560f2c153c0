"""The settings of BLF: the ablations of its paper as switches, and the bounds of its answers.

How many trials there are, how they become one answer, calibration and clairvoyance are the engine's (config.toml).
"""

import difflib
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from bot.api import (
    SEARCH_TOOL,
    SUBMIT,
    AnswerFields,
    AnswerSettings,
    LocalPath,
    ProbabilityMargin,
    ToolDefinition,
    check_prompt_folder,
)

# Where the prompt files of this forecaster are.
PROMPT_PACKAGE = "plugins.blf"
# The tools of every trial; those of each source of pages are added once the trial context is known.
DEFAULT_TOOLS = (
    "web_search",
    "summarize_results",
    "lookup_url",
    "market_history",
    "series_history",
    "series_model",
    "series_combo",
    "earlier_forecasts",
)
PAGE_TOOL_PREFIX = "fetch_"
# Tools that came after the paper must be named, so that results measured without them stay comparable.
OPTIONAL_TOOLS = ("calculate", "question_history", "related_questions", "paired_prices")
# Reading search results makes no sense without searches.
SEARCH_TOOLS = (SEARCH_TOOL, "summarize_results")


def _require_tool(name: str) -> str:
    if name in DEFAULT_TOOLS + OPTIONAL_TOOLS or (
        name.startswith(PAGE_TOOL_PREFIX) and name.endswith(("_toc", "_section"))
    ):
        return name
    near = difflib.get_close_matches(name.casefold(), DEFAULT_TOOLS + OPTIONAL_TOOLS, n=1)
    valid = ", ".join(
        (*DEFAULT_TOOLS, *OPTIONAL_TOOLS, f"{PAGE_TOOL_PREFIX}SOURCE_toc", f"{PAGE_TOOL_PREFIX}SOURCE_section")
    )
    remedy = f"did you mean {near[0]}?" if near else f"valid: {valid}"
    message = f"there is no tool {name!r}; {remedy}"
    raise ValueError(message)


ToolName = Annotated[str, AfterValidator(_require_tool)]


def _require_prompts(folder: Path) -> Path:
    return check_prompt_folder(PROMPT_PACKAGE, folder)


PromptFolder = Annotated[LocalPath, AfterValidator(_require_prompts)]


class SearchMode(StrEnum):
    """How the model works: one action after the other, or all searches at once and then one answer."""

    SEQUENTIAL = "sequential"
    BATCH = "batch"


class ZeroShotMode(StrEnum):
    """Whether the model answers at once: not, with the prompt of the loop, or with a short one."""

    OFF = "off"
    STANDARD = "standard"
    SHORT = "short"


class EarlyStopMode(StrEnum):
    """What happens when searches no longer move the probability: nothing, a hint in the prompt, or the end by code."""

    OFF = "off"
    TOLD = "told"
    FORCED = "forced"


class BlfSettings(AnswerFields):
    """The switches and bounds of one forecaster.

    Prompt files of the operator are checked at the start, and their texts are on record with each forecast. Source: BLF
    (arXiv 2604.18576v3), section 3 and appendix C.
    """

    belief: bool = True
    """Keep a belief that is updated with every step; false is the loop without belief states."""

    mode: SearchMode = SearchMode.SEQUENTIAL
    """`sequential` takes one action after the other; `batch` makes all searches at once and then answers."""

    search: bool = True
    """Offer web searches."""

    tools: tuple[ToolName, ...] | None = None
    """Tools that may be used; unset: all but `calculate`, `question_history`, `related_questions` and
    `paired_prices`."""

    crowd: bool = True
    """Show the market price or community forecast to the model, and start from it."""

    prior: bool = True
    """Show a base rate to the model, and start from it."""

    prior_table: bool = True
    """Take base rates from the published table too; false uses only outcomes known before the cutoff, for strict
    backtests."""

    zero_shot: ZeroShotMode = ZeroShotMode.OFF
    """Answer at once without tools: `off`, with the `standard` prompt or with a `short` one."""

    steps: int = Field(default=10, ge=1, le=100)
    """Steps of one trial."""

    queries: int = Field(default=5, ge=1, le=20)
    """Searches that one action may make."""

    step_margin: ProbabilityMargin = 0.02
    """How far a belief on the way stays from 0 and 1; nearer only where a shown market price or base rate is."""

    submit_margin: ProbabilityMargin = 0.05
    """How far the submitted probability stays from 0 and 1; nearer only where a shown market price or base rate is."""

    compaction_chars: int = Field(default=2000, ge=0)
    """Characters of evidence and open questions beyond which the role `summariser` shortens them; 0: never."""

    early_stop: EarlyStopMode = EarlyStopMode.TOLD
    """When searches no longer move the probability: `off` does nothing, `told` tells the model, `forced` ends the
    trial."""

    early_stop_shift: float = Field(default=0.03, gt=0.0, lt=1.0)
    """The largest move of the probability that counts as none."""

    early_stop_after: int = Field(default=3, ge=1, le=20)
    """How many of the latest actions must not have moved the probability."""

    prompts: PromptFolder | None = None
    """A folder of prompt files that replace those of the same name; unset: the prompts that come with the plugin."""

    @property
    def most_steps(self) -> int:
        """How many steps a trial has at most."""
        return self.steps if self.zero_shot is ZeroShotMode.OFF else 1

    @property
    def states_beliefs(self) -> bool:
        """Whether the model keeps a belief; the short zero-shot prompt has none."""
        return self.belief and self.zero_shot is not ZeroShotMode.SHORT

    @property
    def answer_settings(self) -> AnswerSettings:
        """How predictions are requested and bounded under these settings."""
        asked = self.create_answer_settings(self.step_margin, self.submit_margin, states_beliefs=self.states_beliefs)
        return replace(asked, compaction_chars=self.compaction_chars)

    def allowed_tools(self, tools: Sequence[ToolDefinition]) -> Sequence[ToolDefinition]:
        """Return the tools that these settings allow."""
        if self.zero_shot is not ZeroShotMode.OFF:
            return []
        return [
            tool
            for tool in tools
            if tool.name != SUBMIT
            and (self.search or tool.name not in SEARCH_TOOLS)
            and (tool.name not in OPTIONAL_TOOLS if self.tools is None else tool.name in self.tools)
        ]
