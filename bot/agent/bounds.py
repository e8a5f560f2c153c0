"""What the settings of forecasters say alike: margins from certainty, and the percentages of a distribution."""

from typing import Annotated

from pydantic import AfterValidator, Field

# At which a number or a date is asked for, unless settings say otherwise.
QUANTILES = (5, 10, 25, 50, 75, 90, 95)
# Smaller percentages than this are asked for as texts: without the sign, 0.7 may be meant as 70 %.
LEAST_PERCENT = 1.0


def _rising(levels: tuple[int, ...]) -> tuple[int, ...]:
    if list(levels) != sorted(set(levels)):
        message = f"quantiles {list(levels)} should rise, each once"
        raise ValueError(message)
    return levels


# Below one half, so that a clamp leaves a choice.
Margin = Annotated[float, Field(ge=0.0, lt=0.5)]
Levels = Annotated[tuple[Annotated[int, Field(ge=1, le=99)], ...], Field(min_length=2), AfterValidator(_rising)]
