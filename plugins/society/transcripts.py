"""What was said in court, read from the record: as transcript, two trials side by side, and how well jurors did.

All of it starts from the explanation of a forecast, so nothing is told that is not on record.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from statistics import fmean
from typing import Any

from bot.api import (
    Belief,
    BinaryOutcome,
    BinaryPrediction,
    ChoicePrediction,
    ForecastExplanation,
    Prediction,
    Step,
    TranscriptEntry,
    TranscriptFigure,
    TrialTranscript,
    replace_invisible,
)

MoveArguments = Mapping[str, Any]

# The action of a step of earlier versions, which held several moves.
SEVERAL_MOVES = "proceedings"

AGGREGATES = ("mean", "median", "logit_mean", "judge")
_WIDTH = 100


def tell_court(steps: Sequence[Step]) -> TrialTranscript:
    """Return what was said in a trial, and the last count of the jury."""
    # Answers of other kinds are points of a scale.
    kinds = {type(one) for step in steps[-1:] for one in step.belief.predictions.values()}
    has_chances = kinds <= {BinaryPrediction, ChoicePrediction}
    figures = (
        TranscriptFigure(name=name, value=value, is_probability=has_chances and not name.startswith("spread"))
        for name, value in tally_rows(closing_tally(steps)).items()
    )
    return TrialTranscript(entries=tuple(transcript_entries(steps)), figures=tuple(figures))


def transcript_entries(steps: Sequence[Step]) -> Iterator[TranscriptEntry]:
    """Yield the moves of one trial in order, also where a step holds several."""
    for place, step in enumerate(steps, 1):
        moves = list(_step_moves(step))
        for number, (name, arguments, text) in enumerate(moves):
            is_last = number == len(moves) - 1
            yield TranscriptEntry(
                title=_move_title(name, arguments, place),
                text="(kept out of the transcript)" if arguments.get("silent") else text,
                speaker=str(arguments.get("to") or arguments.get("agent") or ""),
                remarks=step.remarks if number == 0 else (),
                belief=_belief_text(step.belief) if is_last else "",
                probability=_single_probability(step.belief) if is_last else None,
            )


def closing_tally(steps: Sequence[Step]) -> MoveArguments:
    """Return the last count of the jury in a trial, {} where there is none."""
    counts: list[MoveArguments] = [
        arguments["tally"] for step in steps for _, arguments, _ in _step_moves(step) if "tally" in arguments
    ]
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
    lines += [
        "",
        *(_comparison_row(f"forecast {key}", *pair) for key, pair in _paired_forecasts(first, second).items()),
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


def score_forecasts(forecasts: Sequence[ForecastExplanation]) -> str:
    """Return how jurors and aggregates did on yes-or-no questions that are decided, and how spread goes with error.

    Brier is (p - outcome)^2, the mean over all trials and targets; seats are by number, since jurors change.
    """
    misses: dict[str, list[tuple[float, float]]] = {}
    pairs: list[tuple[float, float]] = []
    for found in forecasts:
        outcomes = _read_outcomes(found)
        for steps in found.steps.values():
            _collect_errors(closing_tally(steps), outcomes, misses, pairs)
    if not misses:
        return "No yes-or-no question among these is decided, so nothing can be scored."
    lines = [f"{'':<16}{'n':>5}{'Brier':>9}{'mean p':>9}{'mean outcome':>14}"]
    for name, given in misses.items():
        brier = fmean((p - outcome) ** 2 for p, outcome in given)
        means = (fmean(p for p, _ in given), fmean(outcome for _, outcome in given))
        lines.append(f"{name:<16}{len(given):>5}{brier:>9.4f}{means[0]:>9.3f}{means[1]:>14.3f}")
    lines.append(f"correlation of spread with the error of the mean: {_correlation(pairs)}")
    return "\n".join(lines)


def _collect_errors(
    tally: MoveArguments, outcomes: Mapping[str, float], misses: dict[str, list[tuple[float, float]]], pairs: list[Any]
) -> None:
    named = {**tally.get("votes", {}), **{name: tally[name] for name in AGGREGATES if name in tally}}
    for name, by_target in named.items():
        for target, value in by_target.items():
            if target in outcomes and isinstance(value, int | float):
                misses.setdefault(name, []).append((float(value), outcomes[target]))
    for target, value in tally.get("mean", {}).items():
        if target in outcomes and isinstance(value, int | float):
            pairs.append((tally["spread"][target], abs(value - outcomes[target])))


def _correlation(pairs: Sequence[tuple[float, float]]) -> str:
    if len(pairs) < 3:
        return "too few trials"
    means = [fmean(values) for values in zip(*pairs, strict=True)]
    parts = [[value - mean for value in values] for values, mean in zip(zip(*pairs, strict=True), means, strict=True)]
    size = math.sqrt(math.fsum(a * a for a in parts[0]) * math.fsum(b * b for b in parts[1]))
    return f"{math.fsum(a * b for a, b in zip(*parts, strict=True)) / size:.2f}" if size > 0 else "not defined"


def _read_outcomes(found: ForecastExplanation) -> dict[str, float]:
    return {key: outcome.value for key, outcome in found.outcomes.items() if isinstance(outcome, BinaryOutcome)}


def _step_moves(step: Step) -> Iterator[tuple[str, MoveArguments, str]]:
    action: Any = step.action
    if action.name != SEVERAL_MOVES:
        yield action.name, action.arguments, step.observation.text
        return
    for move in action.arguments["moves"]:
        yield move["name"], move["arguments"], move["text"]


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
            told = [f"  {name}: {' '.join(entry.text.split())[:_WIDTH]}" for name, entry in sides if entry]
            return [f"first said otherwise: {(mine or yours).title if mine or yours else ''}", *told]
    return ["every word is the same"]


def _paired_forecasts(
    first: ForecastExplanation, second: ForecastExplanation
) -> dict[str, tuple[float | None, float | None]]:
    sides = []
    for found in (first.trace.forecast, second.trace.forecast):
        predictions = found.predictions if found else {}
        sides.append({key: one.probability for key, one in predictions.items() if isinstance(one, BinaryPrediction)})
    return {key: (sides[0].get(key), sides[1].get(key)) for key in dict.fromkeys((*sides[0], *sides[1]))}


def _comparison_row(name: str, one: float | str | None, other: float | str | None) -> str:
    gap = f"{other - one:+.4g}" if isinstance(one, int | float) and isinstance(other, int | float) else ""
    return f"{name:<24}{_figure_text(one):>12}{_figure_text(other):>12}{gap:>12}"


def _figure_text(value: float | str | None) -> str:
    """Return a number of a count as it is read."""
    return f"{value:.4g}" if isinstance(value, int | float) else value or "-"
