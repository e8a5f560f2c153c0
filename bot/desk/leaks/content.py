"""Layer two: a model judges by its content whether a text tells of what came after the cutoff.

Dates lie: a page keeps the date of its first day while its body goes on. One call judges all results of a search.
What it does not name was not checked, and a reply that is none checks nothing: the caller decides what that means.
Only questions of an earlier day are filtered: for a live one nothing can leak, and a filter would drop what was
published today.
Source: BLF (arXiv 2604.18576v3), appendix B, stage 2, and J.5.
"""

import json
import re
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bot.config.schema import ResearchSection
from bot.desk.take import Take
from bot.desk.texts import role_text, unfilled
from bot.desk.untrusted import quoted
from bot.domain.prompt import Message, Prompt, Speaker
from bot.domain.step import Json
from bot.errors import ConfigError, ContractError, FoxcastError, LimitReached, Rejected, Unauthorized, Unavailable

ROLE = "filter"
# A number of a result as JSON may write it, and as models do: within a text.
_NUMBER = re.compile(r"\s*(\d{1,6})(?:\.0*)?\s*")
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
    """The places, from 0, of what is to be dropped and of what may be kept, and whether anybody looked.

    A place in neither was passed over.
    """

    dropped: frozenset[int] = field(default_factory=frozenset)
    checked: bool = False
    kept: frozenset[int] = field(default_factory=frozenset)


def lacking(section: ResearchSection, roles: Container[str]) -> str | None:
    """Say what is missed where config wants texts judged and no model plays the role, for a remark at a start."""
    if not section.filter or ROLE in roles:
        return None
    return (
        f"desk.filter is on and no model plays the role {ROLE}: questions of earlier days are worked on without pages, "
        f"with the excerpts of searches alone, which nobody checks; name a model in [llm.roles.{ROLE}]"
    )


async def judge(
    texts: Sequence[str], cutoff: datetime, take: Take, *, trouble: Callable[[FoxcastError], None]
) -> Verdict:
    """Return what of these texts is to be dropped; nothing was checked where the model does not answer.

    ``trouble`` is told why something was not checked.
    """
    if not texts:
        return Verdict(checked=True)
    system = role_text("filter", cutoff=f"{cutoff:%Y-%m-%d %H:%M}")
    await take.keep(unfilled("filter"))
    # Each text in full: whatever the forecaster may be shown of it is judged.
    fenced = (quoted(text, "result", 2 * len(text) + 100) for text in texts)
    shown = "\n\n".join(f"Result {number}:\n{text}" for number, text in enumerate(fenced, 1))
    messages = (Message(speaker=Speaker.SYSTEM, text=system), Message(speaker=Speaker.USER, text=shown))
    try:
        answer = await take.ask(ROLE, Prompt(messages=messages, schema=SCHEMA))
    except (ConfigError, ContractError, LimitReached, Rejected, Unauthorized, Unavailable) as error:
        trouble(error)
        return Verdict()
    verdict = verdict_in(answer.completion.text, len(texts))
    if passed_over := len(texts) - len(verdict.dropped | verdict.kept):
        trouble(ContractError(f"{passed_over} of {len(texts)} texts have no verdict in the reply of {answer.model}"))
    return verdict


def verdict_in(reply: str, count: int) -> Verdict:
    """Read a reply about ``count`` texts; what it both drops and keeps is dropped."""
    entries = _entries(reply)
    if entries is None:
        return Verdict()
    said = [(_place(entry.get("number"), count), _word(entry)) for entry in entries if isinstance(entry, dict)]
    dropped = frozenset(place for place, word in said if place is not None and word == "drop")
    kept = frozenset(place for place, word in said if place is not None and word == "keep")
    return Verdict(dropped, checked=True, kept=kept - dropped)


def _entries(reply: str) -> list[Any] | None:
    try:
        told = json.loads(reply[reply.find("{") : reply.rfind("}") + 1])
    except (ValueError, RecursionError):
        return None
    entries = told.get("results") if isinstance(told, dict) else None
    return entries if isinstance(entries, list) else None


def _place(number: object, count: int) -> int | None:
    """Return the place of a numbered text; 2, 2.0 and "2" are the same number, as JSON and models write it."""
    if isinstance(number, bool) or not isinstance(number, int | float | str):
        return None
    found = _NUMBER.fullmatch(number if isinstance(number, str) else repr(number))
    place = int(found.group(1)) - 1 if found else -1
    return place if 0 <= place < count else None


def _word(entry: dict[str, Any]) -> str:
    return str(entry.get("verdict", "")).strip().casefold()
