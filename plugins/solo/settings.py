"""The settings of the single agent: [forecasters.solo.settings]. Code enforces them, not the prompt."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, Field, model_validator

from bot.api import AnswerFields, AnswerSettings, LocalPath, ProbabilityMargin, check_prompt_folder

PromptFolder = Annotated[LocalPath, AfterValidator(partial(check_prompt_folder, "plugins.solo"))]


class SoloSettings(AnswerFields):
    """The settings of one forecaster.

    Source: docs/facts/source-systems.md#agent-forecaster, its prompts, and logs that show what they failed to prevent.
    """

    renamed_keys: ClassVar[Mapping[str, str]] = {
        "extreme": "extreme_probability",
        "feedbacks": "critic_rounds",
        "repeats": "max_repeats",
        "sources": "min_sources",
        "window_days": "reuse_days",
        "words": "max_words",
    }

    prompts: PromptFolder | None = None
    """A folder of prompt files that replace those of the same name; unset: the prompts that come with the plugin."""

    steps: int = Field(default=15, ge=1, le=100)
    """Steps of one trial."""

    tokens: int | None = Field(default=None, ge=1)
    """Tokens of one trial, input and output together; unset: no limit."""

    max_repeats: int = Field(default=3, ge=2, le=20)
    """How often the same tool call is made before the trial ends."""

    crowd: bool = True
    """Show the market price or community forecast to the model, and start from it."""

    reuse_days: float = Field(default=3.0, ge=0.0)
    """Days in which its own last forecast is repeated without asking a model, unless the question or its price changed
    or a person asked."""

    stale_days: float = Field(default=7.0, gt=0.0)
    """Days after which its own last forecast is no starting point any more."""

    price_shift: float = Field(default=0.01, gt=0.0, lt=1.0)
    """The move of the market price, in probability, that makes a new forecast necessary."""

    extreme_probability: float = Field(default=0.97, gt=0.5, lt=1.0)
    """A probability this near to 1, or as near to 0, needs the criteria restated."""

    restatement_chars: int = Field(default=60, ge=1, le=1000)
    """The least characters of that restatement."""

    min_sources: int = Field(default=2, ge=0, le=10)
    """Websites that must be found and cited for more than low confidence."""

    max_words: int = Field(default=300, ge=20, le=1000)
    """Words of a rationale at most."""

    critic_rounds: int = Field(default=1, ge=0, le=5)
    """How often the critic is asked in one trial."""

    margin: ProbabilityMargin = 0.01
    """How far a yes-or-no probability stays from 0 and 1."""

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.stale_days < self.reuse_days:
            message = f"stale_days {self.stale_days:g} is less than reuse_days {self.reuse_days:g}"
            raise ValueError(message)
        return self

    @property
    def answer_settings(self) -> AnswerSettings:
        """How predictions are asked for and bounded; a tool of its own states beliefs, not every action."""
        return self.create_answer_settings(self.margin, self.margin, states_beliefs=False)
