"""Small published records to bend in tests; their form is that of docs/facts/forecastbench.md#question-set."""

from collections.abc import Collection, Sequence
from typing import Any

from bot.api import BinaryPrediction, Intent, IntentAction, Question, SubmissionBatch
from plugins.forecastbench.file_parser import parse_question_set
from plugins.forecastbench.round_files import RoundFolder, parse_content, read_bytes

Record = dict[str, Any]


def market(**changes: object) -> Record:
    """A market question of the round of 2026-03-01."""
    return {
        "id": "m1",
        "source": "manifold",
        "question": "Will it rain in Lysse?",
        "resolution_criteria": "Resolves as the market does.",
        "background": "It often does.",
        "market_info_open_datetime": "2026-01-05",
        "market_info_close_datetime": "2026-04-01T17:00:00+00:00",
        "market_info_resolution_criteria": "N/A",
        "url": "https://example.org/m1",
        "freeze_datetime": "2026-02-19T00:00:00+00:00",
        "freeze_datetime_value": "0.25",
        "freeze_datetime_value_explanation": "The price.",
        "source_intro": "A market.",
        "resolution_dates": "N/A",
    } | changes


def series(**changes: object) -> Record:
    """A dataset question of the same round, asked at two horizons."""
    return (
        market()
        | {
            "id": "CPIX",
            "source": "fred",
            "question": "Will CPIX be up on {resolution_date} from {forecast_due_date}?\n\nIf revised: no.",
            "market_info_open_datetime": "N/A",
            "market_info_close_datetime": "N/A",
            "freeze_datetime_value": "131.2",
            "resolution_dates": ["2026-03-08", "2026-03-31"],
        }
        | changes
    )


def question_file(*records: object) -> Record:
    """A question set of 2026-03-01 with the given records."""
    return {"forecast_due_date": "2026-03-01", "question_set": "2026-03-01-llm.json", "questions": list(records)}


def row(**changes: object) -> Record:
    """A resolved row of the market question m1."""
    return {
        "id": "m1",
        "source": "manifold",
        "direction": None,
        "resolution_date": "2026-03-20",
        "resolved_to": 1.0,
        "resolved": True,
    } | changes


def resolution_file(*rows: object) -> Record:
    """A resolution set of 2026-03-01 with the given rows."""
    return {"forecast_due_date": "2026-03-01", "question_set": "2026-03-01-llm.json", "resolutions": list(rows)}


def intent(question: Question, probability: float = 0.4, *, name: str = "intent") -> Intent:
    """The wish to have one probability stand for all targets of a question."""
    return Intent(
        id=f"{name} {question.ref.key}",
        account="team",
        ref=question.ref,
        forecast="f0001",
        action=IntentAction.FORECAST,
        predictions={target.key: BinaryPrediction(probability) for target in question.targets},
        batch=question.batch or "",
    )


def batch(questions: Sequence[Question], *, left_out: Collection[Question] = ()) -> SubmissionBatch:
    """A batch that answers the questions of a round, except those left out."""
    answered = tuple(intent(question) for question in questions if question not in left_out)
    return SubmissionBatch(key=questions[0].batch or "", intents=answered, questions=tuple(questions))


def complaints_of(folder: RoundFolder) -> list[str]:
    """What is odd in the question sets of a folder that are for programs."""
    paths = folder.question_files("llm").values()
    return [
        text
        for path in paths
        for text in parse_content(read_bytes(path), parse_question_set, name=path.name).complaints
    ]
