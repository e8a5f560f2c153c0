"""The ready kinds of subagents: text files, each with a head that says what it is for and which tools it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from bot.api import template, unfilled

HERE = "plugins.orchestra"
NAMES = ("scout", "researcher", "analyst", "critic", "forecaster")
# A subagent that is told its part by the orchestrator alone.
CUSTOM = "custom"
_HEAD_ENDS = "\n----\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind. ``tools`` names those it is given unless the orchestrator names others, None for all that there are.

    ``forecasts`` says that its report has a forecast.
    """

    name: str
    summary: str
    text: str = ""
    tools: tuple[str, ...] | None = None
    forecasts: bool = False

    def given(self, there: Sequence[str]) -> tuple[str, ...]:
        """Return which of the tools that there are it is given."""
        return tuple(name for name in there if self.tools is None or name in self.tools)


@cache
def kinds() -> Mapping[str, Kind]:
    """Return all kinds by name, in the order in which they are shown."""
    own = Kind(name=CUSTOM, summary="does what your instructions say, and nothing else")
    return {**{name: _kind(name) for name in NAMES}, CUSTOM: own}


def listed() -> str:
    """Return the kinds as they stand in the orchestrator's prompt."""
    return "\n".join(f"- {kind.name}: {kind.summary}" for kind in kinds().values())


def texts() -> str:
    """Return all prompts as they are before anything is filled in: their digest is the version of the prompts."""
    own = ("orchestrator", "lessons", "member", "task", "guidance", "conclude", "critique", "candidate", "merge")
    return unfilled(HERE, *own, *(f"kinds/{name}" for name in NAMES), compacts=True)


def _kind(name: str) -> Kind:
    head, _, text = template(HERE, f"kinds/{name}").template.partition(_HEAD_ENDS)
    said = dict(line.split(": ", 1) for line in head.splitlines())
    tools = {"*": None, "-": ()}.get(said["tools"], tuple(said["tools"].split(", ")))
    forecasts = said.get("forecasts") == "yes"
    return Kind(name=name, summary=said["summary"], text=text, tools=tools, forecasts=forecasts)
