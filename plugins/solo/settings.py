"""The settings of the lone agent: [forecasters.solo.settings]. What they say is kept by code, not by the prompt."""

from typing import Self

from pydantic import Field, model_validator

from bot.api import QUANTILES, Levels, Manner, Margin, Settings


class SoloSettings(Settings):
    """The bounds of one forecaster.

    Its own forecast that is younger than ``window_days`` is repeated without asking a model, unless the question was
    stated anew, the crowd has moved by ``price_shift`` in probability, or a person asked; one from ``stale_days`` on is
    no starting point. A probability of ``extreme`` or more, or as near to 0, needs the criteria restated in
    ``restatement_chars`` characters. Fewer than ``sources`` sites that were found and cited make confidence low. A
    rationale has ``words`` at most. ``feedbacks`` is how often the critic is asked, ``repeats`` how often the same call
    ends the trial. ``margin`` keeps a yes-or-no probability from 0 and 1, ``option_floor`` is the least probability of
    an option; ``quantiles`` and ``curve_step_mass`` are for numbers and dates. ``crowd`` shows the crowd's estimate.
    Source: the prompt rules of agent-forecaster, and its logs, which show what they failed to prevent.
    """

    steps: int = Field(default=15, ge=1, le=100)
    tokens: int | None = Field(default=None, ge=1)
    repeats: int = Field(default=3, ge=2, le=20)
    crowd: bool = True
    window_days: float = Field(default=3.0, ge=0.0)
    stale_days: float = Field(default=7.0, gt=0.0)
    price_shift: float = Field(default=0.01, gt=0.0, lt=1.0)
    extreme: float = Field(default=0.97, gt=0.5, lt=1.0)
    restatement_chars: int = Field(default=60, ge=1, le=1000)
    sources: int = Field(default=2, ge=0, le=10)
    words: int = Field(default=300, ge=20, le=1000)
    feedbacks: int = Field(default=1, ge=0, le=5)
    margin: Margin = 0.01
    option_floor: Margin = 0.01
    quantiles: Levels = QUANTILES
    curve_step_mass: float = Field(default=5e-5, ge=0.0, lt=0.01)

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.stale_days < self.window_days:
            message = f"stale_days {self.stale_days:g} is less than window_days {self.window_days:g}"
            raise ValueError(message)
        return self

    @property
    def manner(self) -> Manner:
        """How predictions are asked for and bounded; beliefs come by a tool of their own, not with every move."""
        return Manner(
            option_floor=self.option_floor,
            quantiles=self.quantiles,
            curve_step_mass=self.curve_step_mass,
            step_margin=self.margin,
            submit_margin=self.margin,
            believes=False,
        )
