"""A bench with nothing on it, for forecasters that use neither tools nor models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bot.domain.conduct import Conduct
from bot.domain.prompt import Answer, Dialect, Prompt, Tool
from bot.domain.research import SourcePolicy
from bot.domain.step import Json, Observation, ToolResult
from bot.errors import ConfigError
from bot.ids import digest


@dataclass(frozen=True, slots=True)
class BareBench:
    """Offers nothing and keeps nothing."""

    policy: SourcePolicy = field(default_factory=SourcePolicy)
    tools: Sequence[Tool] = ()
    all_tools: Sequence[Tool] = ()

    def is_late(self, place: str) -> bool:
        """Say no: no time is kept for a final answer of a model."""
        return False

    async def use(self, tool: str, arguments: Mapping[str, Json]) -> ToolResult:
        """Fail: there is no tool."""
        return ToolResult(observation=Observation(text=f"there is no tool {tool} here"), failed=True)

    def dialect(self, role: str) -> Dialect:
        """Raise ConfigError: there is no model."""
        raise _no_model(role)

    async def ask(self, role: str, prompt: Prompt, *, seed: int | None = None) -> Answer:
        """Raise ConfigError: there is no model."""
        raise _no_model(role)

    async def keep(self, text: str) -> str:
        """Return the digest that the text would have."""
        return digest(text.encode())

    async def grade(self, conduct: Conduct) -> None:
        """Forget it."""


def _no_model(role: str) -> ConfigError:
    return ConfigError(f"no model plays the role {role} here")
