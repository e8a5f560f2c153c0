"""The forecasts of a backtest as a table of trials: a row for each forecaster, question and target.

``foxcast lab trials`` reads the table again, so that a finished run can be pooled, scored and compared in other ways
without asking anything.
"""

import csv
import gzip
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bot.core.errors import ConfigError
from bot.core.forecasts import Trial
from bot.core.learning import Round
from bot.core.outcomes import BinaryOutcome, Resolution
from bot.core.predictions import BinaryPrediction, Prediction
from bot.core.questions import Question, QuestionRef
from bot.evaluation.backtest import BacktestHistory
from bot.evaluation.score_report import DATASET_FAMILY
from bot.evaluation.score_rows import TargetPredictions
from bot.evaluation.trial_table import KEY_COLUMNS, TRIAL_PREFIX, question_event, question_price, round_day
from bot.forecasting.aggregation import select_counted_trials
from bot.stats.blending import SourceKind, source_kind
from bot.stats.scoring_rules import ResolvedPrediction, score_predictions

COLUMNS_AFTER_TRIALS = (
    "forecast",
    "resolved",
    "resolved_to",
    "market_value",
    "submitted",
    "n_steps",
    "tokens_in",
    "tokens_out",
    "cost_usd",
    "family",
    "kind",
    "question",
    "target",
    "scores",
)


def history_records(history: BacktestHistory) -> list[Mapping[str, str]]:
    """Return the records of all forecasts of a backtest; the cells are texts, as in a file."""
    records = [
        record
        for (forecaster, key), made in history.forecasts.items()
        for a_round in history.rounds
        if a_round.key == key
        for record in _round_records(a_round, forecaster, made.predictions, made.trials)
    ]
    columns = [*KEY_COLUMNS, *_trial_columns(records), *COLUMNS_AFTER_TRIALS]
    return [{column: record.get(column, "") for column in columns} for record in records]


def write_history_rows(records: Sequence[Mapping[str, str]], path: Path) -> None:
    """Write records as CSV, compressed if the name ends in .gz; raises ConfigError if the file fails."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=[*(records[0] if records else KEY_COLUMNS)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    content = text.getvalue().encode()
    try:
        path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror}"
        raise ConfigError(message) from error


def _trial_columns(records: Sequence[Mapping[str, str]]) -> list[str]:
    names = {name for record in records for name in record if name.startswith(TRIAL_PREFIX)}
    return sorted(names, key=lambda name: int(name.removeprefix(TRIAL_PREFIX)))


def _round_records(
    a_round: Round,
    forecaster: str,
    predictions: TargetPredictions,
    trials: Mapping[QuestionRef, Sequence[Trial]],
) -> Iterator[Mapping[str, str]]:
    outcomes = {(one.ref, one.target): one for one in a_round.resolutions}
    for question in a_round.questions:
        for target in question.targets:
            prediction = predictions.get((question.ref, target.key))
            if prediction is not None:
                found = outcomes.get((question.ref, target.key))
                yield {
                    "method": forecaster,
                    **_event_cells(a_round, question, target.key, found),
                    **_answer_cells(question, prediction, found),
                    **_trial_cells(select_counted_trials(trials.get(question.ref, ())), target.key),
                }


def _event_cells(a_round: Round, question: Question, target: str, found: Resolution | None) -> dict[str, str]:
    event = question_event(round_day(a_round), question, target)
    due = question.target(target).resolves_at
    day = found.resolved_at.date().isoformat() if found else event.day or (due.date().isoformat() if due else "")
    return {
        "forecast_due_date": event.round,
        "source": event.source,
        "id": event.question,
        "resolution_date": event.day or day,
        "family": question.family or (DATASET_FAMILY if source_kind(question) is SourceKind.SERIES else ""),
        "kind": question.shape.kind,
        "question": str(question.ref),
        "target": target,
    }


def _answer_cells(question: Question, prediction: Prediction, found: Resolution | None) -> dict[str, str]:
    price = question_price(question)
    cells = {"resolved": str(found is not None), "market_value": "" if price is None else repr(price)}
    if isinstance(prediction, BinaryPrediction):
        cells["forecast"] = repr(prediction.probability)
    if found is not None:
        if isinstance(found.outcome, BinaryOutcome):
            cells["resolved_to"] = repr(found.outcome.value)
        (scores,) = score_predictions([ResolvedPrediction(prediction, question.shape, found.outcome)])
        cells["scores"] = json.dumps(scores)
    return cells


def _trial_cells(trials: Sequence[Trial], target: str) -> dict[str, str]:
    beliefs = [trial.belief.predictions[target] for trial in trials if trial.belief is not None]
    usages = [trial.usage for trial in trials]
    return {
        **{
            f"{TRIAL_PREFIX}{number}": repr(one.probability)
            for number, one in enumerate(beliefs, 1)
            if isinstance(one, BinaryPrediction)
        },
        "submitted": str(True),
        "n_steps": str(sum(trial.steps for trial in trials)),
        "tokens_in": str(sum(usage.tokens_in for usage in usages)),
        "tokens_out": str(sum(usage.tokens_out for usage in usages)),
        "cost_usd": repr(sum(usage.cost_usd for usage in usages)),
    }
