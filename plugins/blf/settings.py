"""What can be set on BLF: the ablations of its paper as switches, and the bounds of what it may say.

How many trials there are, how they become one answer, calibration and clairvoyance are the engine's (config.toml).
"""

import difflib
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from bot.api import QUANTILES, SEARCH, SUBMIT, Levels, LocalPath, Manner, Margin, Settings, Tool, checked_prompts

# Where the prompt files of this forecaster are.
HERE = "plugins.blf"
# The tools of the desk, but for those of each source of pages, which are looked for once a trial knows its desk.
TOOLS = (
    "web_search",
    "summarize_results",
    "lookup_url",
    "market_history",
    "series_history",
    "series_model",
    "series_combo",
    "earlier_forecasts",
)
PAGES = "fetch_"
# Those that came after the paper are for who names them, so that what was measured without them stays comparable.
NAMED_ONLY = ("calculate", "question_history", "related_questions")
# Reading search results makes no sense without searches.
SEARCHES = (SEARCH, "summarize_results")


def _require_tool(name: str) -> str:
    if name in TOOLS + NAMED_ONLY or (name.startswith(PAGES) and name.endswith(("_toc", "_section"))):
        return name
    near = difflib.get_close_matches(name.casefold(), TOOLS + NAMED_ONLY, n=1)
    valid = ", ".join((*TOOLS, *NAMED_ONLY, f"{PAGES}SOURCE_toc", f"{PAGES}SOURCE_section"))
    remedy = f"did you mean {near[0]}?" if near else f"valid: {valid}"
    message = f"there is no tool {name!r}; {remedy}"
    raise ValueError(message)


ToolName = Annotated[str, AfterValidator(_require_tool)]


def _require_prompts(folder: Path) -> Path:
    return checked_prompts(HERE, folder)


PromptFolder = Annotated[LocalPath, AfterValidator(_require_prompts)]


class Mode(StrEnum):
    """How the model works: one action after the other, or all searches at once and then one answer."""

    SEQUENTIAL = "sequential"
    BATCH = "batch"


class ZeroShot(StrEnum):
    """Whether the model answers at once: not, with the prompt of the loop, or with a short one."""

    OFF = "off"
    STANDARD = "standard"
    SHORT = "short"


class EarlyStop(StrEnum):
    """What happens when searches no longer move the probability: nothing, the prompt says it, or code ends it."""

    OFF = "off"
    TOLD = "told"
    FORCED = "forced"


class BlfSettings(Settings):
    """The switches and bounds of one forecaster.

    ``belief`` false is the loop without belief states; ``tools`` names the tools of the desk to use (None: all but
    those that only who names them gets). ``search`` false leaves out web searches. ``crowd`` and ``prior`` show the
    crowd's price and a base rate and start from them; ``prior_table`` false takes base rates only from outcomes known
    before the cutoff, for strict backtests: the published table saw them all.

    ``step_margin`` and ``submit_margin`` keep a yes-or-no probability from 0 and 1 within the loop and in the end; both
    are narrower on a question whose crowd price or base rate, where it is shown, is nearer to certainty
    (``bot.api.margins_for``). ``option_floor`` is the least probability of an option.
    ``quantiles`` are the percentages at which a number or a date is asked for, ``curve_step_mass`` the least
    probability of one step of its grid. ``compaction_chars`` is the length of evidence and open questions from which
    the role summariser shortens them (0: never). ``early_stop`` looks at the last ``early_stop_after`` actions.
    ``prompts`` is a folder of prompt files that replace the shipped ones of the same name, placeholders included; they
    are checked at the start, and their texts are on record with each forecast.
    Source: BLF (arXiv 2604.18576v3), section 3 and appendix C.
    """

    belief: bool = True
    mode: Mode = Mode.SEQUENTIAL
    search: bool = True
    tools: tuple[ToolName, ...] | None = None
    crowd: bool = True
    prior: bool = True
    prior_table: bool = True
    zero_shot: ZeroShot = ZeroShot.OFF
    steps: int = Field(default=10, ge=1, le=100)
    queries: int = Field(default=5, ge=1, le=20)
    step_margin: Margin = 0.02
    submit_margin: Margin = 0.05
    option_floor: Margin = 0.01
    quantiles: Levels = QUANTILES
    curve_step_mass: float = Field(default=5e-5, ge=0.0, lt=0.01)
    compaction_chars: int = Field(default=2000, ge=0)
    early_stop: EarlyStop = EarlyStop.TOLD
    early_stop_shift: float = Field(default=0.03, gt=0.0, lt=1.0)
    early_stop_after: int = Field(default=3, ge=1, le=20)
    prompts: PromptFolder | None = None

    @property
    def most_steps(self) -> int:
        """How many steps a trial has at most."""
        return self.steps if self.zero_shot is ZeroShot.OFF else 1

    @property
    def states_beliefs(self) -> bool:
        """Whether the model keeps a belief; the short zero-shot prompt has no room for one."""
        return self.belief and self.zero_shot is not ZeroShot.SHORT

    @property
    def manner(self) -> Manner:
        """How predictions are asked for and bounded under these settings."""
        return Manner(
            option_floor=self.option_floor,
            quantiles=self.quantiles,
            curve_step_mass=self.curve_step_mass,
            step_margin=self.step_margin,
            submit_margin=self.submit_margin,
            compaction_chars=self.compaction_chars,
            believes=self.states_beliefs,
        )

    def allowed(self, tools: Sequence[Tool]) -> Sequence[Tool]:
        """Return those of the desk's tools that these settings leave."""
        if self.zero_shot is not ZeroShot.OFF:
            return []
        return [
            tool
            for tool in tools
            if tool.name != SUBMIT
            and (self.search or tool.name not in SEARCHES)
            and (tool.name not in NAMED_ONLY if self.tools is None else tool.name in self.tools)
        ]
