"""What a simulated mind does in the smaller roles: judge texts by their dates, sum up sources, keep notes short."""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from bot.ids import digest
from bot.testing.world.language import figures, heard
from bot.testing.world.mind_reading import WRITTEN_DATE, Message, Task, fenced, iso, opening, said, written_date
from bot.testing.world.mind_weighing import bearing, is_order

_NUMBERED = re.compile(r"^(?:Result|Text) (\d+):$", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_AHEAD = re.compile(
    r"\b(?:will|would|by|due|expected|expects|until|plan\w*|schedul\w*|deadline|before|forecast\w*|may|might|could)\b"
    # The present tense of timetables.
    r"|\bis to\b|\bare to\b|\bvotes on\b|\b(?:plays?|meets?) the\b|\?",
    re.IGNORECASE,
)
_OVER = re.compile(
    r"\b(?:it|the matter|all|everything) (?:is|has been) (?:over|closed|decided|settled|known)\b|\bafter the fact\b",
    re.IGNORECASE,
)
_NOTE = re.compile(r"^- \[(.*?)\] (.*)$")
_KEPT_NOTES = 4
_SUMMARY_SENTENCES = 12


def is_judging(schema: Mapping[str, Any] | None) -> bool:
    """Return whether numbered texts are to be judged, each with one of two words."""
    return _verdicts(schema) is not None


def judged(messages: Sequence[Message], schema: Mapping[str, Any], *, lenient: float = 0.0) -> Mapping[str, Any]:
    """Return a verdict on each numbered text: the second word of the schema for what tells of later than the cutoff.

    A judge who is ``lenient`` lets that share of the late ones pass; which ones depends on the text alone.
    """
    clean, late = _verdicts(schema) or ("keep", "drop")
    cutoff = iso("\n".join(said(one) for one in messages if one.get("role") == "system"))
    results = []
    for number, text in _numbered(opening(messages)):
        why = _telltale(text, cutoff)
        if why and not is_order(text) and _draw(text) < lenient:
            why = ""
        results.append({"number": number, "verdict": late if why else clean, "reason": why or "nothing later is told"})
    return {"results": results}


def summary(messages: Sequence[Message]) -> str | None:
    """Return what sources say, sentence by sentence with the label of each; None where nothing is to be summed up."""
    found = [*fenced(opening(messages))]
    asked = " ".join(text for label, text in found if label in {"question", "request"})
    sources = [(label, text) for label, text in found if label not in {"question", "request", "resolution criteria"}]
    if not asked or not sources:
        return None
    task = Task(title=asked)
    lines = [
        f"[{label}] {sentence}"
        for label, text in sources
        if not is_order(text) and bearing(task, text) >= 0.5
        for sentence in _SENTENCE.split(text)
        if heard(sentence) or figures(sentence)
    ]
    return "\n".join(lines[:_SUMMARY_SENTENCES]) or "The sources say nothing to the point."


def shortened(messages: Sequence[Message]) -> Mapping[str, Any]:
    """Return the newest notes of each list, where notes are to be kept short."""
    lists: dict[str, list[Any]] = {"evidence_for": [], "evidence_against": [], "key_uncertainties": []}
    names = {"evidence for:": "evidence_for", "evidence against:": "evidence_against"}
    notes = "\n".join(text for label, text in fenced(opening(messages)) if label == "notes")
    current = "key_uncertainties"
    for line in notes.split("\n"):
        current = names.get(line, "key_uncertainties" if line == "open questions:" else current)
        if found := _NOTE.match(line):
            lists[current].append({"text": found[2], "source": found[1]})
        elif line.startswith("- "):
            lists["key_uncertainties"].append(line[2:])
    return {name: items[-_KEPT_NOTES:] for name, items in lists.items()}


def _telltale(text: str, cutoff: date | None) -> str:
    """Return why a text tells of what came at or after the cutoff, "" where it does not."""
    if is_order(text):
        return "it tries to steer its reader"
    if cutoff is None:
        return ""
    # Nobody asks for a forecast of what is decided, so whoever knows the outcome wrote after the cutoff.
    if found := _OVER.search(text):
        return f"it tells an outcome: {found[0]}"
    for sentence in _SENTENCE.split(text):
        days = [day for one in WRITTEN_DATE.findall(sentence) if (day := written_date(one))]
        days += [day for one in re.findall(r"\d{4}-\d{2}-\d{2}", sentence) if (day := iso(one))]
        if any(day >= cutoff for day in days) and not _AHEAD.search(sentence):
            return f"it tells of {max(days).isoformat()} as of something past"
    return ""


def _draw(text: str) -> float:
    """Return a number in [0, 1) that belongs to the text alone."""
    return int(digest(text.encode("utf-8", "replace"))[:8], 16) / 16**8


def _verdicts(schema: Mapping[str, Any] | None) -> tuple[str, str] | None:
    entry = ((schema or {}).get("properties") or {}).get("results", {}).get("items", {})
    words = entry.get("properties", {}).get("verdict", {}).get("enum", ())
    if len(words) != 2:
        return None
    late = next((word for word in words if word in {"drop", "leak"}), words[1])
    return next(word for word in words if word != late), late


def _numbered(text: str) -> list[tuple[int, str]]:
    heads = [*_NUMBERED.finditer(text)]
    ends = [one.start() for one in heads[1:]] + [len(text)]
    return [(int(head[1]), text[head.end() : end]) for head, end in zip(heads, ends, strict=False)]
