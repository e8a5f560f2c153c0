"""Reference vectors and scored rows of the published development rounds, for comparison only."""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SUBTYPES = (
    ("acled", "ten times", "acled_10x"),
    ("wikipedia", "vaccine", "wiki_vaccine"),
    ("wikipedia", "Elo rating", "wiki_elo"),
    ("wikipedia", "FIDE ranking", "wiki_rank"),
    ("wikipedia", "world record", "wiki_swim"),
    ("acled", "", "acled_inc"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRow:
    """One resolved event with the free forecast: crowd price on market rows, subtype prior on dataset rows."""

    due: str
    source: str
    question: str
    horizon: str
    market: bool
    probability: float
    outcome: float


def read(path: Path) -> dict[str, Any]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    content: dict[str, Any] = json.loads(text)
    return content


def scored_rows(package: Path, priors: dict[str, float]) -> list[ScoredRow]:
    rows: list[ScoredRow] = []
    for path in sorted((package / "question_sets").glob("*-llm.json.gz")):
        due = path.name[:10]
        questions = {(question["source"], question["id"]): question for question in read(path)["questions"]}
        resolutions = read(package / "resolution_sets" / f"{due}_resolution_set.json.gz")["resolutions"]
        rows += [
            _row(due, questions[row["source"], row["id"]], row, priors)
            for row in resolutions
            if row["resolved"] and isinstance(row["id"], str) and (row["source"], row["id"]) in questions
        ]
    return rows


def _row(due: str, question: dict[str, Any], resolution: dict[str, Any], priors: dict[str, float]) -> ScoredRow:
    market = question["resolution_dates"] == "N/A"
    price = question["freeze_datetime_value"]
    return ScoredRow(
        due=due,
        source=question["source"],
        question=question["id"],
        horizon="" if market else resolution["resolution_date"],
        market=market,
        probability=float(price) if market else priors[_subtype(question)],
        outcome=float(resolution["resolved_to"]),
    )


def _subtype(question: dict[str, Any]) -> str:
    for source, word, subtype in SUBTYPES:
        if question["source"] == source and word in question["question"]:
            return subtype
    return str(question["source"])
