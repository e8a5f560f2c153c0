"""Which template a question was made from, read from its source, id and text.

Source of the rules: docs/facts/forecastbench.md#dataset-questions (templates)
and #question-set (ids of armed-conflict questions).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from plugins.baseline.question_facts import QuestionFacts

_WIKIPEDIA = {
    "vaccine": "wiki_vaccine",
    "Elo rating": "wiki_elo",
    "FIDE ranking": "wiki_rank",
    "world record": "wiki_swim",
}
_ACLED_KEYS = {
    "acled_inc": "last30Days.gt.30DayAvgOverPast360Days",
    "acled_10x": "last30DaysTimes10.gt.30DayAvgOverPast360DaysPlus1",
}
_ACLED_TEXT = re.compile(r"(more than ten times as many|more) (?:'(.+?)'|(fatalities)) in (.+?) for the 30 days")
_STATION = re.compile(r"celsius\.(\d{5})\.")


@dataclass(frozen=True, slots=True)
class ConflictQuestion:
    """What an armed-conflict question counts: events of one type in one country, under one of two templates."""

    country: str
    event: str
    subtype: str

    @property
    def key(self) -> str:
        """The published id: SHA-256 of the sorted-key JSON of country, event type and template key."""
        parts = {"country": self.country, "event_type": self.event, "key": _ACLED_KEYS[self.subtype]}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @property
    def text(self) -> str:
        """The opening of the question, in the words of its template."""
        many = "more than ten times as many" if self.subtype == "acled_10x" else "more"
        event = self.event if self.event == "fatalities" else f"'{self.event}'"
        return f"Will there be {many} {event} in {self.country} for the 30 days before {{resolution_date}}"


def template_name(facts: QuestionFacts) -> str:
    """Return the template: ``acled_10x``, ``wiki_rank``, ... or the source's own name where there is only one.

    Where the text is missing or of no known template, the answer is the source's name too.
    """
    if facts.source == "acled" and facts.text:
        return "acled_10x" if "ten times" in facts.text else "acled_inc"
    if facts.source == "wikipedia":
        return next((name for words, name in _WIKIPEDIA.items() if words in facts.text), facts.source)
    return facts.source


def parse_conflict(facts: QuestionFacts) -> ConflictQuestion | None:
    """Read country, event type and template from an armed-conflict question; None where the text is of another form."""
    match = _ACLED_TEXT.search(facts.text) if facts.source == "acled" else None
    if match is None:
        return None
    many, quoted, plain, country = match.groups()
    return ConflictQuestion(country, quoted or plain, "acled_inc" if many == "more" else "acled_10x")


def parse_station(facts: QuestionFacts) -> str | None:
    """Return the five-digit number of the weather station, or None where the id names none."""
    match = _STATION.search(facts.key)
    return match.group(1) if match else None


def reveal_texts(questions: Collection[QuestionFacts]) -> Mapping[tuple[str, str], str]:
    """Return the text behind each (source, id) that the given questions reveal.

    Ids are hashes, so a bare outcome says nothing by itself; but each country and event type that some question names
    gives the ids of all their combinations.
    """
    found = {(facts.source, facts.key): facts.text for facts in questions if facts.text}
    conflicts = {asked for facts in questions if (asked := parse_conflict(facts)) is not None}
    for country in {asked.country for asked in conflicts}:
        for event in {asked.event for asked in conflicts}:
            for template in _ACLED_KEYS:
                candidate = ConflictQuestion(country, event, template)
                found.setdefault(("acled", candidate.key), candidate.text)
    return MappingProxyType(found)


def add_text(facts: QuestionFacts, texts: Mapping[tuple[str, str], str]) -> QuestionFacts:
    """Return the question with the text of its id, unchanged where it has a text or none is known."""
    text = texts.get((facts.source, facts.key), "")
    return replace(facts, text=text) if text and not facts.text else facts
