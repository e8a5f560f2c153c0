"""The published development rounds as facts and outcomes, read without the program's own parser."""

import gzip
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from plugins.baseline.question_facts import KnownOutcome, QuestionFacts, ScoredEvent

SERIES = ("acled", "dbnomics", "fred", "wikipedia", "yfinance")
FIRST_ROUND = date(2025, 10, 26)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRounds:
    questions: tuple[QuestionFacts, ...]
    outcomes: tuple[KnownOutcome, ...]

    def development(self) -> list[QuestionFacts]:
        return [facts for facts in self.questions if facts.due >= FIRST_ROUND]

    def due(self) -> list[date]:
        return sorted({facts.due for facts in self.development()})

    def known_before(self, day: date) -> list[KnownOutcome]:
        return [known for known in self.outcomes if known.resolved_on < day]

    def scored(self, due: date) -> list[KnownOutcome]:
        return [known for known in self.outcomes if known.event.facts.due == due]


def load(folder: Path) -> PublishedRounds:
    questions = tuple(question for path in sorted(folder.glob("question_sets/*.gz")) for question in _questions(path))
    asked = {(facts.due, facts.source, facts.key): facts for facts in questions}
    paths = sorted(folder.glob("resolution_sets/*.gz"))
    return PublishedRounds(
        questions=questions, outcomes=tuple(known for path in paths for known in _outcomes(path, asked))
    )


def _questions(path: Path) -> Iterator[QuestionFacts]:
    published = json.loads(gzip.decompress(path.read_bytes()))
    due = date.fromisoformat(published["forecast_due_date"])
    for row in published["questions"]:
        if isinstance(row["id"], str):
            value = _number(row["freeze_datetime_value"])
            yield QuestionFacts(source=row["source"], key=row["id"], due=due, text=row["question"], value=value)


def _outcomes(path: Path, asked: dict[tuple[date, str, str], QuestionFacts]) -> Iterator[KnownOutcome]:
    published = json.loads(gzip.decompress(path.read_bytes()))
    due = date.fromisoformat(published["forecast_due_date"])
    rows: list[dict[str, Any]] = published["resolutions"]
    for row in rows:
        if not row["resolved"] or not isinstance(row["id"], str):
            continue
        bare = QuestionFacts(source=row["source"], key=row["id"], due=due)
        facts = asked.get((due, bare.source, bare.key), bare)
        day = date.fromisoformat(row["resolution_date"])
        event = ScoredEvent(facts, day if bare.source in SERIES else None)
        yield KnownOutcome(event=event, outcome=float(row["resolved_to"]), resolved_on=day)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
