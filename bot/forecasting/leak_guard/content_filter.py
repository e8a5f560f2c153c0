"""Layer two: a model judges by its content whether a text reveals what happened after the cutoff.

Dates are unreliable: a page keeps its first date while its text is updated. One call judges all results of a search.
Results that it does not name were not checked, and an unreadable reply checks nothing: the caller decides what to do.
Only questions of an earlier day are filtered: for a live one nothing can leak, and a filter would drop news of
today.
Source: BLF (arXiv 2604.18576v3), appendix B, stage 2, and J.5.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any

from bot.core.errors import (
    AuthenticationError,
    ConfigError,
    FoxcastError,
    MalformedDataError,
    RequestRejectedError,
    ServiceUnavailableError,
    TrialLimitReachedError,
)
from bot.core.language_models import Message, MessageRole, Prompt
from bot.core.light_dataclass import dataclass
from bot.core.values import Json
from bot.forecasting.prompt_files import fill_role_prompt, role_prompt_source
from bot.forecasting.tools.base import ToolContext
from bot.forecasting.trial_tools import ToolCallTrace
from bot.forecasting.untrusted_text import fence_text

FILTER_ROLE = "filter"
# A number of a result as JSON may write it, and as models do: within a text.
_NUMBER = re.compile(r"\s*(\d{1,6})(?:\.0*)?\s*")
_ENTRY_SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {
        "number": {"type": "integer"},
        "verdict": {"type": "string", "enum": ["keep", "drop"]},
        "reason": {"type": "string"},
    },
    "required": ["number", "verdict", "reason"],
    "additionalProperties": False,
}
VERDICT_SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {"results": {"type": "array", "items": _ENTRY_SCHEMA}},
    "required": ["results"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class ContentVerdict:
    """The indices, from 0, of results to drop and of results that may be kept, and whether a check was made.

    An index in neither was not checked.
    """

    dropped: frozenset[int] = field(default_factory=frozenset)
    checked: bool = False
    kept: frozenset[int] = field(default_factory=frozenset)


async def judge_content(texts: Iterable[str], context: ToolContext, trace: ToolCallTrace) -> ContentVerdict:
    """Return the filter's verdict on these texts; nothing if config or the trial has no filter: then none is made."""
    guards = context.guards
    if guards.cutoff is None or not guards.judges_content:
        return ContentVerdict()
    return await judge_texts(
        list(texts), guards.cutoff, trace, trouble=lambda why: context.warn("texts are not checked", FILTER_ROLE, why)
    )


async def judge_texts(
    texts: Sequence[str], cutoff: datetime, trace: ToolCallTrace, *, trouble: Callable[[FoxcastError], None]
) -> ContentVerdict:
    """Return which of these texts to drop; nothing was checked if the model does not answer.

    ``trouble`` is called with the reason why something was not checked.
    """
    if not texts:
        return ContentVerdict(checked=True)
    system = fill_role_prompt("filter", cutoff=f"{cutoff:%Y-%m-%d %H:%M}")
    await trace.store_text(role_prompt_source("filter"))
    # Each text in full, since the forecaster may see any part of it.
    fenced = (fence_text(text, "result", 2 * len(text) + 100) for text in texts)
    shown = "\n\n".join(f"Result {number}:\n{text}" for number, text in enumerate(fenced, 1))
    messages = (Message(speaker=MessageRole.SYSTEM, text=system), Message(speaker=MessageRole.USER, text=shown))
    try:
        answer = await trace.ask(FILTER_ROLE, Prompt(messages=messages, schema=VERDICT_SCHEMA))
    except (
        ConfigError,
        MalformedDataError,
        TrialLimitReachedError,
        RequestRejectedError,
        AuthenticationError,
        ServiceUnavailableError,
    ) as error:
        trouble(error)
        return ContentVerdict()
    verdict = parse_verdict(answer.completion.text, len(texts))
    if passed_over := len(texts) - len(verdict.dropped | verdict.kept):
        trouble(
            MalformedDataError(f"{passed_over} of {len(texts)} texts have no verdict in the reply of {answer.model}")
        )
    return verdict


def parse_verdict(reply: str, count: int) -> ContentVerdict:
    """Read a reply about ``count`` texts; a text that it both drops and keeps is dropped."""
    entries = _parse_entries(reply)
    if entries is None:
        return ContentVerdict()
    verdicts = [
        (_parse_place(entry.get("number"), count), _verdict_word(entry)) for entry in entries if isinstance(entry, dict)
    ]
    dropped = frozenset(place for place, word in verdicts if place is not None and word == "drop")
    kept = frozenset(place for place, word in verdicts if place is not None and word == "keep")
    return ContentVerdict(dropped, checked=True, kept=kept - dropped)


def _parse_entries(reply: str) -> list[Any] | None:
    try:
        answer = json.loads(reply[reply.find("{") : reply.rfind("}") + 1])
    except (ValueError, RecursionError):
        return None
    entries = answer.get("results") if isinstance(answer, dict) else None
    return entries if isinstance(entries, list) else None


def _parse_place(number: object, count: int) -> int | None:
    """Return the index of a numbered text; 2, 2.0 and "2" are the same number, as JSON and models write it."""
    if isinstance(number, bool) or not isinstance(number, int | float | str):
        return None
    found = _NUMBER.fullmatch(number if isinstance(number, str) else repr(number))
    place = int(found.group(1)) - 1 if found else -1
    return place if 0 <= place < count else None


def _verdict_word(entry: dict[str, Any]) -> str:
    return str(entry.get("verdict", "")).strip().casefold()
