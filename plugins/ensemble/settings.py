"""What can be set on the ensemble: who its members are, and when their past tells them apart."""

from typing import Self

from pydantic import Field, model_validator

from bot.api import Settings


class EnsembleSettings(Settings):
    """The members of one ensemble, and how their weights come about.

    ``least`` is how many resolved targets all members must have answered before weights are anything but equal, at a
    venue or else everywhere. ``shrink`` draws weights towards equal ones: it counts as so many targets at which all
    were as good. ``floor`` is the least share that a member with an answer has, as a part of an equal share.
    """

    members: tuple[str, ...] = ()
    least: int = Field(default=30, ge=1, le=100_000)
    shrink: float = Field(default=100.0, ge=0.0, le=1e6)
    floor: float = Field(default=0.1, ge=0.0, le=1.0)

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len(set(self.members)) < len(self.members):
            message = f"members {list(self.members)}: name each member once"
            raise ValueError(message)
        return self
