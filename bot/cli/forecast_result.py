"""The result of `foxcast forecast`.

The answer next to the crowd and free forecasters, evidence and trials; or several forecasters side by side.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rich.console import Console
from rich.text import Text

from bot.cli.explain import explanation_to_json as explanation_as_plain
from bot.cli.explain import unanswered_call_costs
from bot.cli.forecast_progress import trial_end_reasons, trial_end_text
from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_heading, print_indented
from bot.cli.output.formatting import (
    describe_prediction,
    describe_prediction_short,
    format_minute,
    format_predictions_short,
    format_usage,
    order_options,
)
from bot.core.beliefs import Evidence, ModelUsage
from bot.core.forecasts import Forecast, Trial
from bot.core.predictions import BinaryPrediction, CurveShape, Prediction
from bot.core.questions import Question
from bot.evaluation.explanation import ForecastExplanation
from bot.forecasting.agent.answer_schema import prediction_distance
from bot.forecasting.agent.belief_state import StartingPoint, find_starting_point
from bot.forecasting.failures import describe_failures, failure_reason
from bot.store.serialization import FORECAST, PREDICTIONS, QUESTION

DIGEST_CHARS_SHOWN = 12


TRIAL_COLUMNS = (
    TableColumn("trial"),
    TableColumn("end"),
    TableColumn("answer", ColumnKind.TEXT),
    TableColumn("confidence"),
    TableColumn("steps", ColumnKind.NUMBER),
    TableColumn("tokens", ColumnKind.NUMBER),
    TableColumn("USD", ColumnKind.NUMBER),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeForecast:
    """What a free forecaster says of the same question; ``forecast`` is None where it says nothing, and ``why``."""

    name: str
    forecast: Forecast | None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastResult:
    """A forecast that was asked for, explained, and what stands beside it."""

    explanation: ForecastExplanation
    forecast: Forecast
    free_forecasts: tuple[FreeForecast, ...] = ()

    @property
    def failure_summary(self) -> str:
        """How many of its trials failed and why, in one line; "" where none did."""
        trials = [record.trial for record in self.explanation.trace.trials if record.trial is not None]
        return describe_failures(failure_reason(trial) for trial in trials if not trial.is_answer)


def print_forecast_result(console: Console, made: ForecastResult) -> None:
    """Print all of it for a person."""
    question, forecast = made.explanation.trace.question, made.forecast
    print_heading(console, f"{forecast.forecaster} on {question.ref}")
    console.print(Text(question.title, style="bold"))
    _print_evidence(console, made)
    _print_trial_table(console, made)
    print_heading(console, "Answer")
    _print_aggregation(console, made)
    _print_answer_table(console, made)
    console.print()
    console.print(
        f"forecast {forecast.id}, made {format_minute(forecast.made_at)} UTC ({forecast.why}); "
        f"{submission_status(made)}"
    )


def submission_status(made: ForecastResult) -> str:
    """Say what becomes of it, as the ledger has it: the daemon may have been at a forecast of its own just then."""
    return (
        "nothing was submitted" if made.explanation.trace.forecast_only else "it comes before the gate in the next pass"
    )


def forecast_result_to_json(made: ForecastResult) -> dict[str, Any]:
    """Return all of it as JSON values: what ``foxcast explain`` says, with what stands beside it."""
    crowd = made.explanation.trace.question.crowd
    told = {
        **explanation_as_plain(made.explanation),
        "crowd": None if crowd is None else PREDICTIONS.plain({"crowd": crowd.prediction})["crowd"],
        "beside": {
            one.name: {"why": one.why, "forecast": None if one.forecast is None else FORECAST.plain(one.forecast)}
            for one in made.free_forecasts
        },
        "failed": made.failure_summary or None,
    }
    plain: dict[str, Any] = order_options(told, made.explanation.trace.question.shape)
    return plain


def _print_evidence(console: Console, made: ForecastResult) -> None:
    for title, sign, style in (("For", "+", "green"), ("Against", "-", "red")):
        lines = [*_evidence_lines(made, "evidence_for" if sign == "+" else "evidence_against")]
        if lines:
            print_heading(console, title)
        for line in lines:
            print_indented(console, f"{sign} {line}", by=1, style=style)


def _evidence_lines(made: ForecastResult, side: str) -> Iterator[str]:
    """Yield the reasons that the trials ended with, each once, with its source and the trials that gave it."""
    given: dict[str, list[int]] = {}
    for record in made.explanation.trace.trials:
        belief = record.trial.belief if record.trial else None
        for evidence in getattr(belief, side) if belief else ():
            given.setdefault(_evidence_with_source(made, record.number, evidence), []).append(record.number)
    several = len(made.explanation.trace.trials) > 1
    for line, numbers in given.items():
        yield f"{line} (trial {', '.join(map(str, numbers))})" if several else line


def _evidence_with_source(made: ForecastResult, trial: int, evidence: Evidence) -> str:
    source, found = evidence.source, made.explanation
    if remark := found.sources.remark(trial, source):
        return f"{evidence.text} [{source}]{remark}"
    place = found.chain.result_address(trial, source) or source
    return f"{evidence.text} [{place}]" if place else evidence.text


def _print_trial_table(console: Console, made: ForecastResult) -> None:
    trace = made.explanation.trace
    print_heading(console, "Trials")
    rows, total = [], ModelUsage()
    for trial in [record.trial for record in trace.trials if record.trial is not None]:
        total += trial.usage
        belief = trial.belief
        rows.append(
            (
                str(trial.number),
                trial_end_text(trial),
                "-" if belief is None else short_predictions(belief.predictions, made),
                "-" if belief is None else str(belief.confidence),
                str(trial.steps),
                f"{trial.usage.tokens_in + trial.usage.tokens_out:,}",
                f"{trial.usage.cost_usd:.4f}",
            )
        )
    console.print(make_table(TRIAL_COLUMNS, rows))
    for line in trial_end_reasons(record.trial for record in trace.trials if record.trial):
        console.print(line)
    if cost := format_usage(total):
        console.print(f"in all {cost}")
    for line in unanswered_call_costs(made.explanation.chain):
        console.print(line)


def short_predictions(predictions: Mapping[str, Prediction], made: ForecastResult) -> str:
    """Return predictions of the question in a few words."""
    shape = made.explanation.trace.question.shape
    if isinstance(shape, CurveShape) and len(predictions) == 1:
        return describe_prediction(next(iter(predictions.values())), shape)
    return format_predictions_short(predictions, partial(describe_prediction_short, shape=shape))


def _print_aggregation(console: Console, made: ForecastResult) -> None:
    how, forecast = made.explanation.aggregation, made.forecast
    if how is not None:
        counted = ", ".join(map(str, how.counted_trials))
        pool = f"{how.method} of the trials {counted}" if how.method else f"trial {counted} as it is"
        console.print(f"aggregate: {pool}: {short_predictions(forecast.raw, made)}")
        for number, why in how.excluded.items():
            console.print(f"left out: trial {number}, {why}")
    if forecast.raw == forecast.predictions:
        console.print("calibration: changes nothing")
    else:
        digest = (forecast.calibration or "")[:DIGEST_CHARS_SHOWN]
        console.print(f"calibration {digest}: {short_predictions(forecast.predictions, made)}")


def _print_answer_table(console: Console, made: ForecastResult) -> None:
    question, forecast = made.explanation.trace.question, made.forecast
    answered = [one for one in made.free_forecasts if one.forecast is not None]
    names = [forecast.forecaster, *(["crowd"] if question.crowd else []), *(one.name for one in answered)]
    columns = (TableColumn("for"), *(TableColumn(name, ColumnKind.TEXT) for name in names))
    crowd: Sequence[Prediction] = [question.crowd.prediction] if question.crowd else []
    rows = []
    for key, said in forecast.predictions.items():
        others = [one.forecast.predictions[key] for one in answered if one.forecast is not None]
        rows.append((key, *(describe_prediction(each, question.shape) for each in (said, *crowd, *others))))
    console.print(make_table(columns, rows))
    if question.crowd is not None:
        console.print(f"the crowd is that of {format_minute(question.crowd.at)} UTC")
    for one in made.free_forecasts:
        if one.forecast is None:
            console.print(f"{one.name} says nothing: {one.why}")


COMPARISON_COLUMNS = (
    TableColumn("forecaster"),
    TableColumn("answer", ColumnKind.TEXT),
    TableColumn("moved", ColumnKind.NUMBER),
    TableColumn("confidence"),
    TableColumn("steps", ColumnKind.NUMBER),
    TableColumn("calls", ColumnKind.NUMBER),
    TableColumn("tokens", ColumnKind.NUMBER),
    TableColumn("USD", ColumnKind.NUMBER),
    TableColumn("seconds", ColumnKind.NUMBER),
    TableColumn("end"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedForecaster:
    """What one of several forecasters came to: ``result``, or None with the reason.

    ``seconds`` is how long that took.
    """

    name: str
    result: ForecastResult | None
    why: str = ""
    seconds: float = 0.0

    @property
    def trials(self) -> list[Trial]:
        """The trials of the forecast."""
        records = () if self.result is None else self.result.explanation.trace.trials
        return [record.trial for record in records if record.trial is not None]

    @property
    def usage(self) -> ModelUsage:
        """What all trials took."""
        return sum((trial.usage for trial in self.trials), ModelUsage())

    @property
    def steps(self) -> int:
        """How many steps all trials took."""
        return sum(trial.steps for trial in self.trials)

    @property
    def confidence(self) -> str:
        """How sure the trials were, each word once, by how many said so."""
        return _count_words([str(trial.belief.confidence) for trial in self.trials if trial.belief is not None])

    @property
    def ends(self) -> str:
        """How the trials ended, each word once, by how many did."""
        return _count_words([trial_end_text(trial) for trial in self.trials])

    def distance_from(self, start: Prediction) -> float:
        """Return how far the answer is from where it started: of yes or no signed, else the largest difference."""
        said: Mapping[str, Prediction] = {} if self.result is None else self.result.forecast.predictions
        first = next(iter(said.values()), None)
        if len(said) == 1 and isinstance(first, BinaryPrediction) and isinstance(start, BinaryPrediction):
            return first.probability - start.probability
        return prediction_distance(dict.fromkeys(said, start), said)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecasterComparison:
    """All of them, in the order in which they were named."""

    question: Question
    forecasters: Sequence[ComparedForecaster]

    @property
    def start(self) -> StartingPoint:
        """What answers are compared with: the crowd's estimate, where there is one, else even odds."""
        return find_starting_point(self.question)


def print_forecaster_comparison(console: Console, several: ForecasterComparison) -> None:
    """Print all of it for a person."""
    question, start = several.question, several.start
    print_heading(console, f"{len(several.forecasters)} forecasters on {question.ref}")
    console.print(Text(question.title, style="bold"))
    beginning = "crowd" if start.kind == "crowd" else "even odds"
    rows = [(beginning, describe_prediction(start.prediction, question.shape), *["-"] * 8)]
    rows += [_comparison_cells(aside, aside.result, start) for aside in several.forecasters if aside.result is not None]
    console.print(make_table(COMPARISON_COLUMNS, rows))
    console.print(f"moved: from {start.text if start.kind == 'crowd' else 'even odds'}")
    for aside in several.forecasters:
        if aside.result is None:
            console.print(f"{aside.name} is left out: {aside.why}")
    for aside in several.forecasters:
        if aside.result is not None:
            console.print(f"forecast {aside.result.forecast.id} by {aside.name}; {submission_status(aside.result)}")


def forecaster_comparison_to_json(several: ForecasterComparison) -> dict[str, Any]:
    """Return all of it as JSON values: of each forecaster what ``foxcast forecast`` says, with a summary."""
    start = several.start
    told = {
        "question": QUESTION.plain(several.question),
        "start": {"kind": start.kind, **PREDICTIONS.plain({"prediction": start.prediction})},
        "forecasts": {
            aside.name: {**forecast_result_to_json(aside.result), "summary": _comparison_summary(aside, start)}
            for aside in several.forecasters
            if aside.result is not None
        },
        "left_out": {aside.name: aside.why for aside in several.forecasters if aside.result is None},
    }
    plain: dict[str, Any] = order_options(told, several.question.shape)
    return plain


def _comparison_cells(aside: ComparedForecaster, made: ForecastResult, start: StartingPoint) -> tuple[str, ...]:
    usage, moved = aside.usage, aside.distance_from(start.prediction)
    signed = isinstance(start.prediction, BinaryPrediction) and len(made.forecast.predictions) == 1
    return (
        aside.name,
        short_predictions(made.forecast.predictions, made),
        f"{moved:+.3f}" if signed else f"{moved:.3f}",
        aside.confidence,
        str(aside.steps),
        str(usage.calls),
        f"{usage.tokens_in + usage.tokens_out:,}",
        f"{usage.cost_usd:.4f}",
        f"{aside.seconds:.1f}",
        aside.ends,
    )


def _comparison_summary(aside: ComparedForecaster, start: StartingPoint) -> dict[str, Any]:
    usage = aside.usage
    return {
        "moved": aside.distance_from(start.prediction),
        "confidence": aside.confidence,
        "steps": aside.steps,
        "calls": usage.calls,
        "tokens": usage.tokens_in + usage.tokens_out,
        "cost_usd": usage.cost_usd,
        "seconds": aside.seconds,
        "end": aside.ends,
    }


def _count_words(said: Sequence[str]) -> str:
    if len(said) <= 1:
        return said[0] if said else "-"
    counts = {word: said.count(word) for word in dict.fromkeys(said)}
    return ", ".join(f"{count} {word}" for word, count in counts.items())
