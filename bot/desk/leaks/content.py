"""Layer two: a model judges by its content whether a text tells of what came after the cutoff.

Dates lie: a page keeps the date of its first day while its body goes on. One call judges all results of a search;
what it does not name is kept. A reply that is none checks nothing, and the caller must know.
Source: BLF (arXiv 2604.18576v3), appendix B, stage 2, and J.5.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bot.desk.take import Take
from bot.desk.texts import role_text
from bot.desk.untrusted import quoted
from bot.domain.prompt import Message, Prompt, Speaker
from bot.domain.step import Json
from bot.errors import ConfigError, ContractError, Rejected, Unauthorized, Unavailable

ROLE = "filter"
_VERDICT: dict[str, Json] = {
    "type": "object",
    "properties": {
        "number": {"type": "integer"},
        "verdict": {"type": "string", "enum": ["keep", "drop"]},
        "reason": {"type": "string"},
    },
    "required": ["number", "verdict", "reason"],
    "additionalProperties": False,
}
SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {"results": {"type": "array", "items": _VERDICT}},
    "required": ["results"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The places, from 0, of what is to be dropped, and whether anybody looked."""

    dropped: frozenset[int] = field(default_factory=frozenset)
    checked: bool = False


async def judge(texts: Sequence[str], cutoff: datetime, take: Take) -> Verdict:
    """Return what of these texts is to be dropped; nothing was checked where the model does not answer."""
    if not texts:
        return Verdict(checked=True)
    system = role_text("filter", cutoff=f"{cutoff:%Y-%m-%d %H:%M}")
    await take.keep(system)
    shown = "\n\n".join(f"Result {number}:\n{quoted(text, 'result')}" for number, text in enumerate(texts, 1))
    messages = (Message(speaker=Speaker.SYSTEM, text=system), Message(speaker=Speaker.USER, text=shown))
    try:
        answer = await take.ask(ROLE, Prompt(messages=messages, schema=SCHEMA))
    except (ConfigError, ContractError, Rejected, Unauthorized, Unavailable):
        return Verdict()
    return verdict_in(answer.completion.text, len(texts))


def verdict_in(reply: str, count: int) -> Verdict:
    """Read a reply about ``count`` texts; what it does not clearly drop is kept."""
    entries = _entries(reply)
    if entries is None:
        return Verdict()
    numbers = (entry.get("number") for entry in entries if isinstance(entry, dict) and _drops(entry))
    dropped = frozenset(number - 1 for number in numbers if isinstance(number, int) and 0 < number <= count)
    return Verdict(dropped, checked=True)


def _entries(reply: str) -> list[Any] | None:
    try:
        told = json.loads(reply[reply.find("{") : reply.rfind("}") + 1])
    except (ValueError, RecursionError):
        return None
    entries = told.get("results") if isinstance(told, dict) else None
    return entries if isinstance(entries, list) else None


def _drops(entry: dict[str, Any]) -> bool:
    return str(entry.get("verdict", "")).strip().casefold() == "drop"
