"""The settings of the ensemble: its members, and when their past scores decide their weights."""

from collections.abc import Mapping
from typing import ClassVar, Self

from pydantic import Field, model_validator

from bot.api import PluginSettings


class EnsembleSettings(PluginSettings):
    """The members of one ensemble, and how their weights are learned."""

    renamed_keys: ClassVar[Mapping[str, str]] = {
        "floor": "min_weight",
        "least": "min_targets",
        "shrink": "equal_weight_targets",
    }

    members: tuple[str, ...] = ()
    """Forecasters whose forecasts are combined."""

    min_targets: int = Field(default=30, ge=1, le=100_000)
    """Resolved targets that all members must have answered before their weights differ, at a venue or else
    everywhere."""

    equal_weight_targets: float = Field(default=100.0, ge=0.0, le=1e6)
    """How strongly weights are drawn to equal ones: the number of targets at which all members count as equally
    good."""

    min_weight: float = Field(default=0.1, ge=0.0, le=1.0)
    """The least weight of a member with an answer, as a part of an equal share."""

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len(set(self.members)) < len(self.members):
            message = f"members {list(self.members)}: name each member once"
            raise ValueError(message)
        return self
