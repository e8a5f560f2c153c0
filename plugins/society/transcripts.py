"""What was said in court, read from the record: as transcript, and two trials side by side.

All of it comes from the explanation of a forecast, so it holds only what is on record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from itertools import zip_longest
from typing import Any

from bot.api import (
    Belief,
    BinaryPrediction,
    ChoicePrediction,
    ForecastExplanation,
    Prediction,
    Step,
    TranscriptEntry,
    TranscriptFigure,
    TrialTranscript,
    parsing,
    replace_invisible,
)
from plugins.society.scenario import MoveAction
from plugins.society.vote_pooling import encode_predictions

MoveArguments = Mapping[str, Any]

AGGREGATES = ("mean", "median", "logit_mean", "judge")
_WIDTH = 100
# The results of these come after what was said.
_RETRIEVAL = frozenset({MoveAction.WEB_SEARCH.value, MoveAction.PROCESS_ARTICLES.value})


def tell_court(steps: Sequence[Step]) -> TrialTranscript:
    """Return what was said in a trial, then what was searched and read, and the last count of the jury."""
    # Answers of other kinds are points of a scale.
    kinds = {type(one) for step in steps[-1:] for one in step.belief.predictions.values()}
    has_chances = kinds <= {BinaryPrediction, ChoicePrediction}
    figures = (
        TranscriptFigure(name=name, value=value, is_probability=has_chances and not name.startswith("spread"))
        for name, value in tally_rows(closing_tally(steps)).items()
    )
    entries = [*transcript_entries(steps)]
    said = [entry for entry, step in zip(entries, steps, strict=True) if step.action.name not in _RETRIEVAL]
    read = [entry for entry, step in zip(entries, steps, strict=True) if step.action.name in _RETRIEVAL]
    return TrialTranscript(entries=(*said, *read), figures=tuple(figures))


def transcript_entries(steps: Sequence[Step]) -> Iterator[TranscriptEntry]:
    """Yield the moves of one trial in the order in which they were made."""
    for place, step in enumerate(steps, 1):
        arguments = step.action.arguments
        yield TranscriptEntry(
            title=_move_title(step.action.name, arguments, place),
            text="(kept out of the transcript)" if arguments.get("silent") else step.observation.text,
            speaker=str(arguments.get("to") or arguments.get("agent") or ""),
            remarks=step.remarks,
            belief=_belief_text(step.belief),
            probability=_single_probability(step.belief),
        )


def closing_tally(steps: Sequence[Step]) -> MoveArguments:
    """Return the last count of the jury in a trial, {} where there is none."""
    counts: list[Any] = [step.action.arguments["tally"] for step in steps if "tally" in step.action.arguments]
    return counts[-1] if counts else {}


def compare_forecasts(first: ForecastExplanation, second: ForecastExplanation) -> str:
    """Return two forecasts of one question side by side: what was changed, each juror's answer, each aggregate."""
    lines = [first.trace.question.title, "", f"A  {_forecast_source(first)}", f"B  {_forecast_source(second)}", ""]
    lines += [f"{name}  {line}" for name, one in (("A", first), ("B", second)) for line in _interventions(one)]
    for number in dict.fromkeys((*first.steps, *second.steps)):
        one, other = first.steps.get(number), second.steps.get(number)
        these, those = (closing_tally(steps or ()) for steps in (one, other))
        lines += ["", f"{f'trial {number}':<24}{'A':>12}{'B':>12}{'B - A':>12}"]
        for name in dict.fromkeys((*tally_rows(these), *tally_rows(those))):
            lines.append(_comparison_row(name, tally_rows(these).get(name), tally_rows(those).get(name)))
        lines += _first_difference(one, other)
    these, those = _forecast_rows(first), _forecast_rows(second)
    lines += [
        "",
        *(_comparison_row(name, these.get(name), those.get(name)) for name in dict.fromkeys((*these, *those))),
    ]
    return replace_invisible("\n".join(lines))


def tally_rows(tally: MoveArguments) -> dict[str, float | str]:
    """Return the numbers of a count by name, one per target; of options and curves each share or value by itself."""
    found: dict[str, float | str] = {}
    named = {**tally.get("votes", {}), **{name: tally[name] for name in (*AGGREGATES, "spread") if name in tally}}
    for name, by_target in named.items():
        for target, value in by_target.items():
            label = name if len(by_target) == 1 else f"{name} {target}"
            parts = value if isinstance(value, dict) else {"": value}
            found |= {f"{label} {part}".strip(): number for part, number in parts.items()}
    return found


def _prediction_texts(predictions: Mapping[str, Prediction]) -> Iterator[str]:
    """Yield the predictions that are chances in percent, each with its target's name."""
    for key, prediction in predictions.items():
        if isinstance(prediction, BinaryPrediction):
            yield f"{key} {100 * prediction.probability:.1f} %"
        elif isinstance(prediction, ChoicePrediction):
            shares = prediction.probabilities.items()
            yield f"{key} " + ", ".join(f"{option} {100 * share:.1f} %" for option, share in shares)


def _move_title(name: str, arguments: MoveArguments, step: int) -> str:
    place = f"{arguments.get('step', step)}. {str(arguments.get('name') or name).replace('_', ' ')}"
    turn = f" ({arguments['turn']} of {arguments['turns']})" if "turns" in arguments else ""
    if "to" not in arguments:
        return f"{place}{turn}, by {arguments['agent']}" if "agent" in arguments else f"{place}{turn}"
    label = " ".join(str(arguments.get("label", "")).split())
    return f"{place}{turn}: {label} ({arguments['to']}), asked by {arguments['from']}"


def _belief_text(belief: Belief) -> str:
    return "; ".join([*_prediction_texts(belief.predictions), belief.reason])


def _single_probability(belief: Belief) -> float | None:
    match [*belief.predictions.values()]:
        case [BinaryPrediction(probability=probability)]:
            return probability
        case _:
            return None


def _forecast_source(found: ForecastExplanation) -> str:
    """Return which forecast it is, by whom and of when."""
    trace, forecast = found.trace, found.trace.forecast
    by = f" by {forecast.forecaster}, {forecast.made_at.isoformat()}" if forecast else f", {trace.state}"
    return f"forecast {trace.id}{by}"


def _interventions(found: ForecastExplanation) -> list[str]:
    first = [steps[0] for steps in found.steps.values() if steps][:1]
    return [remark for step in first for remark in step.remarks if remark.startswith("intervention")]


def _first_difference(one: Sequence[Step] | None, other: Sequence[Step] | None) -> list[str]:
    if one is None or other is None:
        return ["only one of them has this trial"]
    for mine, yours in zip_longest(transcript_entries(one), transcript_entries(other)):
        if mine is None or yours is None or (mine.title, mine.text) != (yours.title, yours.text):
            sides = (("A", mine), ("B", yours))
            told = [f"  {name}: {parsing.cut_line(entry.text, _WIDTH)}" for name, entry in sides if entry]
            return [f"first said otherwise: {(mine or yours).title if mine or yours else ''}", *told]
    return ["every word is the same"]


def _forecast_rows(found: ForecastExplanation) -> dict[str, float | str]:
    """Return the numbers of a forecast by name; of options and curves each share or value by itself."""
    forecast = found.trace.forecast
    return tally_rows(
        {"votes": {"forecast": encode_predictions(found.trace.question, forecast.predictions)}} if forecast else {}
    )


def _comparison_row(name: str, one: float | str | None, other: float | str | None) -> str:
    return f"{name:<24}{_figure_text(one):>12}{_figure_text(other):>12}{_difference_text(one, other):>12}"


def _difference_text(one: float | str | None, other: float | str | None) -> str:
    """Return how far two figures are apart; of two dates in days."""
    match one, other:
        case ((int() | float()), (int() | float())):
            return f"{other - one:+.4g}"
        case str(), str():
            with suppress(ValueError):
                return f"{(date.fromisoformat(other) - date.fromisoformat(one)).days:+d} days"
    return ""


def _figure_text(value: float | str | None) -> str:
    """Return a number of a count as it is read."""
    return f"{value:.4g}" if isinstance(value, int | float) else value or "-"
