"""The result of `foxcast forecast`: answer, evidence and trials, with the crowd and free forecasters for comparison.

With several forecasters, a comparison of their answers.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from rich.console import Console
from rich.text import Text

from bot.cli.explain import explanation_to_json, unanswered_call_costs
from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_heading, print_indented
from bot.cli.output.trial_text import trial_end_reasons, trial_end_text
from bot.core.beliefs import Evidence, ModelUsage
from bot.core.forecasts import Forecast, Trial
from bot.core.light_dataclass import dataclass
from bot.core.predictions import BinaryPrediction, CurveShape, Prediction
from bot.core.questions import Question
from bot.evaluation.explanation import ForecastExplanation
from bot.evaluation.value_text import (
    describe_prediction,
    describe_prediction_short,
    format_minute,
    format_predictions_short,
    format_usage,
    order_options,
)
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
    """The forecast of a free forecaster; None, with the reason in ``why``, if it failed."""

    name: str
    forecast: Forecast | None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastResult:
    """The requested forecast with its explanation, and the free forecasts for comparison."""

    explanation: ForecastExplanation
    forecast: Forecast
    free_forecasts: tuple[FreeForecast, ...] = ()

    @property
    def failure_summary(self) -> str:
        """How many of its trials failed and why, in one line; "" if none failed."""
        trials = [record.trial for record in self.explanation.trace.trials if record.trial is not None]
        return describe_failures(failure_reason(trial) for trial in trials if not trial.is_answer)


def print_forecast_result(console: Console, result: ForecastResult) -> None:
    """Print it for a person."""
    question, forecast = result.explanation.trace.question, result.forecast
    print_heading(console, f"{forecast.forecaster} on {question.ref}")
    console.print(Text(question.title, style="bold"))
    _print_evidence(console, result)
    _print_trial_table(console, result)
    print_heading(console, "Answer")
    _print_aggregation(console, result)
    _print_answer_table(console, result)
    console.print()
    console.print(
        f"forecast {forecast.id}, made {format_minute(forecast.made_at)} UTC ({forecast.why}); "
        f"{submission_status(result)}"
    )


def submission_status(result: ForecastResult) -> str:
    """Return whether it may be submitted, as recorded: the daemon may have made the forecast for reasons of its own."""
    return (
        "nothing was submitted"
        if result.explanation.trace.forecast_only
        else "the next pass decides whether to submit it"
    )


def forecast_result_to_json(result: ForecastResult) -> dict[str, Any]:
    """Return it as JSON values: those of ``foxcast explain``, with the crowd and the free forecasts."""
    crowd = result.explanation.trace.question.crowd
    values = {
        **explanation_to_json(result.explanation),
        "crowd": None if crowd is None else PREDICTIONS.plain({"crowd": crowd.prediction})["crowd"],
        "beside": {
            one.name: {"why": one.why, "forecast": None if one.forecast is None else FORECAST.plain(one.forecast)}
            for one in result.free_forecasts
        },
        "failed": result.failure_summary or None,
    }
    plain: dict[str, Any] = order_options(values, result.explanation.trace.question.shape)
    return plain


def _print_evidence(console: Console, result: ForecastResult) -> None:
    for title, sign, style in (("For", "+", "green"), ("Against", "-", "red")):
        lines = [*_evidence_lines(result, "evidence_for" if sign == "+" else "evidence_against")]
        if lines:
            print_heading(console, title)
        for line in lines:
            print_indented(console, f"{sign} {line}", by=1, style=style)


def _evidence_lines(result: ForecastResult, side: str) -> Iterator[str]:
    """Yield the evidence of the final beliefs, each piece once, with its source and its trials."""
    given: dict[str, list[int]] = {}
    for record in result.explanation.trace.trials:
        belief = record.trial.belief if record.trial else None
        for evidence in getattr(belief, side) if belief else ():
            given.setdefault(_evidence_with_source(result, record.number, evidence), []).append(record.number)
    several = len(result.explanation.trace.trials) > 1
    for line, numbers in given.items():
        yield f"{line} (trial {', '.join(map(str, numbers))})" if several else line


def _evidence_with_source(result: ForecastResult, trial: int, evidence: Evidence) -> str:
    source, found = evidence.source, result.explanation
    if remark := found.sources.remark(trial, source):
        return f"{evidence.text} [{source}]{remark}"
    place = found.chain.result_address(trial, source) or source
    return f"{evidence.text} [{place}]" if place else evidence.text


def _print_trial_table(console: Console, result: ForecastResult) -> None:
    trace = result.explanation.trace
    print_heading(console, "Trials")
    rows, total = [], ModelUsage()
    for trial in [record.trial for record in trace.trials if record.trial is not None]:
        total += trial.usage
        belief = trial.belief
        rows.append(
            (
                str(trial.number),
                trial_end_text(trial),
                "-" if belief is None else short_predictions(belief.predictions, result),
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
        console.print(f"in total {cost}")
    for line in unanswered_call_costs(result.explanation.chain):
        console.print(line)


def short_predictions(predictions: Mapping[str, Prediction], result: ForecastResult) -> str:
    """Return predictions of the question in a few words."""
    shape = result.explanation.trace.question.shape
    if isinstance(shape, CurveShape) and len(predictions) == 1:
        return describe_prediction(next(iter(predictions.values())), shape)
    return format_predictions_short(predictions, partial(describe_prediction_short, shape=shape))


def _print_aggregation(console: Console, result: ForecastResult) -> None:
    how, forecast = result.explanation.aggregation, result.forecast
    if how is not None:
        counted = ", ".join(map(str, how.counted_trials))
        pool = f"{how.method} of the trials {counted}" if how.method else f"trial {counted} unchanged"
        console.print(f"aggregate: {pool}: {short_predictions(forecast.raw, result)}")
        for number, why in how.excluded.items():
            console.print(f"left out: trial {number}, {why}")
    if forecast.raw == forecast.predictions:
        console.print("calibration: no change")
    else:
        digest = (forecast.calibration or "")[:DIGEST_CHARS_SHOWN]
        console.print(f"calibration {digest}: {short_predictions(forecast.predictions, result)}")


def _print_answer_table(console: Console, result: ForecastResult) -> None:
    question, forecast = result.explanation.trace.question, result.forecast
    answered = [one for one in result.free_forecasts if one.forecast is not None]
    names = [forecast.forecaster, *(["crowd"] if question.crowd else []), *(one.name for one in answered)]
    columns = (TableColumn("for"), *(TableColumn(name, ColumnKind.TEXT) for name in names))
    crowd: Sequence[Prediction] = [question.crowd.prediction] if question.crowd else []
    rows = []
    for key, prediction in forecast.predictions.items():
        others = [one.forecast.predictions[key] for one in answered if one.forecast is not None]
        rows.append((key, *(describe_prediction(each, question.shape) for each in (prediction, *crowd, *others))))
    console.print(make_table(columns, rows))
    if question.crowd is not None:
        console.print(f"crowd as of {format_minute(question.crowd.at)} UTC")
    for one in result.free_forecasts:
        if one.forecast is None:
            console.print(f"{one.name} gave no forecast: {one.why}")


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
    """The result of one of several forecasters, or None with the reason; ``seconds`` is the time it took."""

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
        """Usage of all trials together."""
        return sum((trial.usage for trial in self.trials), ModelUsage())

    @property
    def steps(self) -> int:
        """Number of steps of all trials."""
        return sum(trial.steps for trial in self.trials)

    @property
    def confidence(self) -> str:
        """The confidence of the trials, each level with its count."""
        return _count_words([str(trial.belief.confidence) for trial in self.trials if trial.belief is not None])

    @property
    def ends(self) -> str:
        """The ends of the trials, each with its count."""
        return _count_words([trial_end_text(trial) for trial in self.trials])

    def distance_from(self, start: Prediction) -> float:
        """Return how far the answer is from a prediction: signed for yes or no, otherwise the largest difference."""
        predictions: Mapping[str, Prediction] = {} if self.result is None else self.result.forecast.predictions
        first = next(iter(predictions.values()), None)
        if len(predictions) == 1 and isinstance(first, BinaryPrediction) and isinstance(start, BinaryPrediction):
            return first.probability - start.probability
        return prediction_distance(dict.fromkeys(predictions, start), predictions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecasterComparison:
    """The results of several forecasters, in the order in which they were named."""

    question: Question
    forecasters: Sequence[ComparedForecaster]

    @property
    def start(self) -> StartingPoint:
        """The reference of the comparison: the forecast of the crowd if there is one, otherwise even odds."""
        return find_starting_point(self.question)


def print_forecaster_comparison(console: Console, comparison: ForecasterComparison) -> None:
    """Print it for a person."""
    question, start = comparison.question, comparison.start
    print_heading(console, f"{len(comparison.forecasters)} forecasters on {question.ref}")
    console.print(Text(question.title, style="bold"))
    reference = "crowd" if start.kind == "crowd" else "even odds"
    rows = [(reference, describe_prediction(start.prediction, question.shape), *["-"] * 8)]
    rows += [
        _comparison_cells(compared, compared.result, start)
        for compared in comparison.forecasters
        if compared.result is not None
    ]
    console.print(make_table(COMPARISON_COLUMNS, rows))
    console.print(f"moved: from {start.text if start.kind == 'crowd' else 'even odds'}")
    for compared in comparison.forecasters:
        if compared.result is None:
            console.print(f"{compared.name} is left out: {compared.why}")
    for compared in comparison.forecasters:
        if compared.result is not None:
            console.print(
                f"forecast {compared.result.forecast.id} by {compared.name}; {submission_status(compared.result)}"
            )


def forecaster_comparison_to_json(comparison: ForecasterComparison) -> dict[str, Any]:
    """Return it as JSON values: for each forecaster those of ``foxcast forecast``, with a summary."""
    start = comparison.start
    values = {
        "question": QUESTION.plain(comparison.question),
        "start": {"kind": start.kind, **PREDICTIONS.plain({"prediction": start.prediction})},
        "forecasts": {
            compared.name: {**forecast_result_to_json(compared.result), "summary": _comparison_summary(compared, start)}
            for compared in comparison.forecasters
            if compared.result is not None
        },
        "left_out": {compared.name: compared.why for compared in comparison.forecasters if compared.result is None},
    }
    plain: dict[str, Any] = order_options(values, comparison.question.shape)
    return plain


def _comparison_cells(compared: ComparedForecaster, result: ForecastResult, start: StartingPoint) -> tuple[str, ...]:
    usage, moved = compared.usage, compared.distance_from(start.prediction)
    signed = isinstance(start.prediction, BinaryPrediction) and len(result.forecast.predictions) == 1
    return (
        compared.name,
        short_predictions(result.forecast.predictions, result),
        f"{moved:+.3f}" if signed else f"{moved:.3f}",
        compared.confidence,
        str(compared.steps),
        str(usage.calls),
        f"{usage.tokens_in + usage.tokens_out:,}",
        f"{usage.cost_usd:.4f}",
        f"{compared.seconds:.1f}",
        compared.ends,
    )


def _comparison_summary(compared: ComparedForecaster, start: StartingPoint) -> dict[str, Any]:
    usage = compared.usage
    return {
        "moved": compared.distance_from(start.prediction),
        "confidence": compared.confidence,
        "steps": compared.steps,
        "calls": usage.calls,
        "tokens": usage.tokens_in + usage.tokens_out,
        "cost_usd": usage.cost_usd,
        "seconds": compared.seconds,
        "end": compared.ends,
    }


def _count_words(words: Sequence[str]) -> str:
    if len(words) <= 1:
        return words[0] if words else "-"
    counts = {word: words.count(word) for word in dict.fromkeys(words)}
    return ", ".join(f"{count} {word}" for word, count in counts.items())
