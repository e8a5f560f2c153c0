"""The settings of the blend: its members."""

from typing import Self

from pydantic import model_validator

from bot.api import ELSEWHERE_MEMBER, LocalPath, PluginSettings

# Members that are no forecasters: the crowd's price, where the question has one, and that of the same question at other
# venues (ELSEWHERE_MEMBER).
CROWD_MEMBER = "crowd"


class BlendSettings(PluginSettings):
    """The members of one blend."""

    members: tuple[str, ...] = ()
    """Forecasters whose forecasts are combined; "crowd" among them is the crowd's price, which "baseline" contains,
    and "elsewhere" the price of the same question at other venues (`foxcast pairs`)."""

    weights: LocalPath | None = None
    """A file of weights that "foxcast fit blend" wrote, used until forecasts of your own have taught more; unset: equal
    weights."""

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len(set(self.members)) < len(self.members):
            message = f"members {list(self.members)}: name each member once"
            raise ValueError(message)
        return self

    @property
    def forecasters(self) -> tuple[str, ...]:
        """The members that forecast."""
        return tuple(name for name in self.answering if name != ELSEWHERE_MEMBER)

    @property
    def answering(self) -> tuple[str, ...]:
        """The members whose answers the engine reads: forecasters, and prices elsewhere."""
        return tuple(name for name in self.members if name != CROWD_MEMBER)
