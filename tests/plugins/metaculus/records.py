"""Small records in the form of docs/facts/metaculus.md#objects, to bend in tests."""

from typing import Any

from bot.api import BinaryPrediction, Intent, IntentAction, Prediction, Question, QuestionRef, SubmissionBatch

Record = dict[str, Any]


def question(number: int = 50001, **changes: object) -> Record:
    """An open binary question, from the first of January 2026 to the eighth."""
    return {
        "id": number,
        "title": "Will it rain in Lysse?",
        "type": "binary",
        "status": "open",
        "open_time": "2026-01-01T00:00:00Z",
        "scheduled_close_time": "2026-01-08T00:00:00Z",
        "actual_close_time": "2026-01-08T00:00:00Z",
        "scheduled_resolve_time": "2026-01-15T00:00:00Z",
        "resolution": None,
        "description": "It often does.",
        "resolution_criteria": "Resolves by the gauge.",
        "fine_print": "Snow counts.",
        "label": "",
    } | changes


def post(number: int = 40001, **changes: object) -> Record:
    """A post with that question."""
    return {
        "id": number,
        "title": "Will it rain in Lysse?",
        "slug": "rain",
        "user_permission": "forecaster",
        "projects": {"default_project": {"id": 32002, "slug": "sample-aib"}, "tournament": [{"id": 32002}]},
        "question": question(number + 10_000),
    } | changes


def group(*questions: object, number: int = 40001) -> Record:
    """A post with a group."""
    texts = {"description": "Of countries.", "resolution_criteria": "By the office.", "fine_print": "To the day."}
    grouped = post(number, group_of_questions={"id": 1, **texts, "questions": list(questions)})
    del grouped["question"]
    return grouped


def numeric(number: int = 50001, **changes: object) -> Record:
    """A numeric question from 0 to 100, open above."""
    scaling = {"range_min": 0.0, "range_max": 100.0, "zero_point": None, "continuous_range": None}
    return (
        question(number, type="numeric", open_lower_bound=False, open_upper_bound=True, scaling=scaling, unit="mm")
        | changes
    )


def choice(number: int = 50001, **changes: object) -> Record:
    """A choice of three."""
    options = ["Red", "Green", "Other"]
    return question(number, type="multiple_choice", options=options, all_options_ever=options) | changes


def intent(
    ref: QuestionRef,
    prediction: Prediction | None = None,
    *,
    action: IntentAction = IntentAction.FORECAST,
    text: str = "",
    name: str = "",
) -> Intent:
    """An intent about a question: a forecast of 0.7 by default."""
    predictions: dict[str, Prediction] = {}
    if action is IntentAction.FORECAST:
        predictions = {"outcome": prediction or BinaryPrediction(0.7)}
    key = name or f"{ref.key}-{action}"
    return Intent(
        id=key, account="default", ref=ref, forecast="f", action=action, predictions=predictions, batch=key, text=text
    )


def batch(*intents: Intent, questions: tuple[Question, ...] = ()) -> SubmissionBatch:
    """A batch of those intents."""
    return SubmissionBatch(key=intents[0].batch, intents=intents, questions=questions)
