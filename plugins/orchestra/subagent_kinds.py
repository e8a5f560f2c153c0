"""The ready kinds of subagents: text files, each with a head that names its purpose and its tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from bot.api import join_prompt_sources, load_template

PROMPT_PACKAGE = "plugins.orchestra"
KIND_NAMES = ("scout", "researcher", "analyst", "critic", "forecaster")
# A subagent whose part only the orchestrator describes.
CUSTOM_KIND = "custom"
_HEAD_ENDS = "\n----\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentKind:
    """One kind. ``tools`` names those that it gets unless the orchestrator names others, None for all.

    ``forecasts`` says that its report has a forecast.
    """

    name: str
    summary: str
    text: str = ""
    tools: tuple[str, ...] | None = None
    forecasts: bool = False

    def granted_tools(self, available: Sequence[str]) -> tuple[str, ...]:
        """Return those of the available tools that it gets."""
        return tuple(name for name in available if self.tools is None or name in self.tools)


@cache
def load_kinds() -> Mapping[str, SubagentKind]:
    """Return all kinds by name, in the order in which they are shown."""
    own = SubagentKind(name=CUSTOM_KIND, summary="does what your instructions say, and nothing else")
    return {**{name: _load_kind(name) for name in KIND_NAMES}, CUSTOM_KIND: own}


def list_kinds_text() -> str:
    """Return the kinds as they are written in the orchestrator's prompt."""
    return "\n".join(f"- {kind.name}: {kind.summary}" for kind in load_kinds().values())


def prompt_version() -> str:
    """Return all prompts before anything is filled in: their digest is the version of the prompts."""
    own = ("orchestrator", "lessons", "member", "task", "guidance", "conclude", "critique", "candidate", "merge")
    return join_prompt_sources(PROMPT_PACKAGE, *own, *(f"kinds/{name}" for name in KIND_NAMES), compacts=True)


def _load_kind(name: str) -> SubagentKind:
    head, _, text = load_template(PROMPT_PACKAGE, f"kinds/{name}").template.partition(_HEAD_ENDS)
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    tools = {"*": None, "-": ()}.get(fields["tools"], tuple(fields["tools"].split(", ")))
    forecasts = fields.get("forecasts") == "yes"
    return SubagentKind(name=name, summary=fields["summary"], text=text, tools=tools, forecasts=forecasts)
