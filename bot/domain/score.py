"""How good it was: one value per forecast, target and scoring rule."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The value of one scoring rule for one target of one forecast."""

    forecast: str
    target: str
    rule: str
    value: float
