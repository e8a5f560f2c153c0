"""The ready kinds of subagents: text files, each with a head that names its purpose and its tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bot.api import (
    CRITIC_PROMPT,
    Question,
    current_prompt_folder,
    join_prompt_sources,
    judging_name,
    load_template,
)
from plugins.orchestra.shared_memory import MemoryCategory

PROMPT_PACKAGE = "plugins.orchestra"
KIND_NAMES = ("scout", "researcher", "analyst", "critic", "forecaster")
# A subagent whose part only the orchestrator describes.
CUSTOM_KIND = "custom"
_HEAD_ENDS = "\n----\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentKind:
    """One kind. ``tools`` names those that it gets unless the orchestrator names others, None for all.

    ``forecasts`` says that its report has a forecast, ``category`` where its reports are in the shared memory.
    """

    name: str
    summary: str
    text: str = ""
    tools: tuple[str, ...] | None = None
    forecasts: bool = False
    category: MemoryCategory = MemoryCategory.RESEARCH

    def granted_tools(self, available: Sequence[str]) -> tuple[str, ...]:
        """Return those of the available tools that it gets."""
        return tuple(name for name in available if self.tools is None or name in self.tools)


def load_kinds() -> Mapping[str, SubagentKind]:
    """Return all kinds by name, in the order in which they are shown, with the prompt files in use."""
    return _load_kinds(current_prompt_folder())


@cache
def _load_kinds(folder: Path | None) -> Mapping[str, SubagentKind]:
    own = SubagentKind(name=CUSTOM_KIND, summary="does what your instructions say, and nothing else")
    texts = {name: load_template(PROMPT_PACKAGE, f"kinds/{name}", folder).template for name in KIND_NAMES}
    return {**{name: parse_kind(name, text, where=name) for name, text in texts.items()}, CUSTOM_KIND: own}


def list_kinds_text() -> str:
    """Return the kinds as they are written in the orchestrator's prompt."""
    return "\n".join(f"- {kind.name}: {kind.summary}" for kind in load_kinds().values())


def prompt_version(question: Question) -> str:
    """Return all prompts before anything is filled in: their digest is the version of the prompts."""
    own = ("orchestrator", "lessons", "subagent", "task", "guidance", "conclude", "candidate", "aggregator")
    kinds = (f"kinds/{name}" for name in KIND_NAMES)
    shared = (CRITIC_PROMPT, judging_name(question))
    return join_prompt_sources(PROMPT_PACKAGE, *own, *kinds, shared=shared, compacts=True)


def parse_kind(name: str, text: str, *, where: str) -> SubagentKind:
    """Return the kind that a file describes; raises ValueError for a file without a complete head."""
    head, _, body = text.partition(_HEAD_ENDS)
    fields = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
    if missing := [key for key in ("summary", "tools", "reports") if key not in fields]:
        message = f"{where}: the head above ---- has no line {missing[0]}: ...; copy it from the shipped file"
        raise ValueError(message)
    try:
        category = MemoryCategory(fields["reports"])
    except ValueError:
        message = f"{where}: reports: should be one of {', '.join(MemoryCategory)}"
        raise ValueError(message) from None
    return SubagentKind(
        name=name,
        summary=fields["summary"],
        text=body,
        tools={"*": None, "-": ()}.get(fields["tools"], tuple(fields["tools"].split(", "))),
        forecasts=fields.get("forecasts") == "yes",
        category=category,
    )
