"""What was said in court, read from the record: as text, two trials side by side, and how well jurors did.

All of it starts from what ``foxcast explain --json`` prints of a forecast, so nothing is told that is not on record.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from statistics import fmean
from typing import Any

from plugins.society.pacing import SEVERAL

Found = Mapping[str, Any]

AGGREGATES = ("mean", "median", "logit_mean", "judge")
_WIDTH = 100
# Besides what draws something: ends of lines, and what joins or parts two letters, or two parts of one picture.
_HARMLESS = "\n\t\u200c\u200d"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One move as it is read: who to whom, what was said, what should not be missed, what was believed after it.

    ``chance`` is that belief where it is one probability.
    """

    title: str
    text: str
    remarks: tuple[str, ...] = ()
    belief: str = ""
    chance: float | None = None
    arguments: Found = field(default_factory=dict)


def seen(text: str) -> str:
    """Return a text with a mark for each character that draws nothing but may move a cursor or turn a line."""
    return text if text.isprintable() else "".join(map(_seen, text))


def _seen(one: str) -> str:
    if one.isprintable() or one in _HARMLESS:
        return one
    # Spaces of other widths, as many models put before a percent sign.
    return " " if unicodedata.category(one) == "Zs" else "\ufffd"


def entries(trial: Found) -> Iterator[Entry]:
    """Yield the moves of one trial in order, also where a step holds several."""
    for step in trial["steps"]:
        moves = list(_moves(step))
        for number, (name, arguments, text) in enumerate(moves):
            is_last = number == len(moves) - 1
            yield Entry(
                title=_title(name, arguments, step.get("number", "?")),
                text="(kept out of the transcript)" if arguments.get("silent") else text,
                remarks=tuple(step.get("remarks", ())) if number == 0 else (),
                belief=_belief(step["belief"]) if is_last else "",
                chance=_chance(step["belief"]) if is_last else None,
                arguments=arguments,
            )


def transcript(found: Found) -> str:
    """Return all trials of a forecast as text."""
    lines = [found["question"]["title"], source(found), ""]
    for trial in found["trials"]:
        lines += [f"== Trial {trial['number']} ==", ""]
        for entry in entries(trial):
            lines += [f"-- {entry.title}", *(f"   ! {remark}" for remark in entry.remarks), entry.text]
            lines += [f"   believed: {entry.belief}"] if entry.belief else []
            lines.append("")
        lines += [*_numbers(closing(trial)), ""]
    return seen("\n".join(lines))


def closing(trial: Found) -> Found:
    """Return the last count of the jury in a trial, {} where there is none."""
    counts = [arguments["tally"] for step in trial["steps"] for _, arguments, _ in _moves(step) if "tally" in arguments]
    return counts[-1] if counts else {}


def compared(first: Found, second: Found) -> str:
    """Return two forecasts of one question side by side: what was changed, each juror's answer, each aggregate."""
    lines = [first["question"]["title"], "", f"A  {source(first)}", f"B  {source(second)}", ""]
    lines += [f"{name}  {line}" for name, one in (("A", first), ("B", second)) for line in _interventions(one)]
    for one, other in zip_longest(first["trials"], second["trials"]):
        number = (one or other)["number"]
        these, those = (closing(trial) if trial else {} for trial in (one, other))
        lines += ["", f"{f'trial {number}':<24}{'A':>12}{'B':>12}{'B - A':>12}"]
        for name in dict.fromkeys((*rows(these), *rows(those))):
            lines.append(_row(name, rows(these).get(name), rows(those).get(name)))
        lines += _first_difference(one, other)
    lines += ["", *(_row(f"forecast {key}", *pair) for key, pair in _forecasts(first, second).items())]
    return seen("\n".join(lines))


def rows(tally: Found) -> dict[str, float | str]:
    """Return the numbers of a count by name, one per target; of options and curves each share or value by itself."""
    found: dict[str, float | str] = {}
    named = {**tally.get("votes", {}), **{name: tally[name] for name in (*AGGREGATES, "spread") if name in tally}}
    for name, by_target in named.items():
        for target, value in by_target.items():
            label = name if len(by_target) == 1 else f"{name} {target}"
            parts = value if isinstance(value, dict) else {"": value}
            found |= {f"{label} {part}".strip(): number for part, number in parts.items()}
    return found


def told(predictions: Found) -> Iterator[str]:
    """Yield the predictions that are chances in percent, each with its target's name."""
    for key, prediction in predictions.items():
        if "probability" in prediction:
            yield f"{key} {100 * prediction['probability']:.1f} %"
        elif "probabilities" in prediction:
            shares = prediction["probabilities"].items()
            yield f"{key} " + ", ".join(f"{option} {100 * share:.1f} %" for option, share in shares)


def scored(forecasts: Sequence[Found]) -> str:
    """Return how jurors and aggregates did on yes-or-no questions that are decided, and how spread goes with error.

    Brier is (p - outcome)^2, the mean over all trials and targets; seats are by number, since jurors change.
    """
    misses: dict[str, list[tuple[float, float]]] = {}
    pairs: list[tuple[float, float]] = []
    for found in forecasts:
        outcomes = _outcomes(found)
        for trial in found["trials"]:
            _score(closing(trial), outcomes, misses, pairs)
    if not misses:
        return "No yes-or-no question among these is decided, so nothing can be scored."
    lines = [f"{'':<16}{'n':>5}{'Brier':>9}{'mean p':>9}{'mean outcome':>14}"]
    for name, given in misses.items():
        brier = fmean((p - outcome) ** 2 for p, outcome in given)
        means = (fmean(p for p, _ in given), fmean(outcome for _, outcome in given))
        lines.append(f"{name:<16}{len(given):>5}{brier:>9.4f}{means[0]:>9.3f}{means[1]:>14.3f}")
    lines.append(f"correlation of spread with the error of the mean: {_correlation(pairs)}")
    return "\n".join(lines)


def _score(
    tally: Found, outcomes: Mapping[str, float], misses: dict[str, list[tuple[float, float]]], pairs: list[Any]
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


def _outcomes(found: Found) -> dict[str, float]:
    told = {key: row.get("outcome") or {} for key, row in (found.get("outcomes") or {}).items()}
    return {key: float(outcome["value"]) for key, outcome in told.items() if outcome.get("kind") == "happened"}


def _moves(step: Found) -> Iterator[tuple[str, Found, str]]:
    action = step["action"]
    # What stands at its default is left out of the record.
    if action["name"] != SEVERAL:
        yield action["name"], action.get("arguments", {}), step.get("observation", {}).get("text", "")
        return
    for move in action["arguments"]["moves"]:
        yield move["name"], move["arguments"], move["text"]


def _title(name: str, arguments: Found, step: int | str) -> str:
    place = f"{arguments.get('step', step)}. {str(arguments.get('name') or name).replace('_', ' ')}"
    turn = f" ({arguments['turn']} of {arguments['turns']})" if "turns" in arguments else ""
    if "to" not in arguments:
        return f"{place}{turn}, by {arguments['agent']}" if "agent" in arguments else f"{place}{turn}"
    label = " ".join(str(arguments.get("label", "")).split())
    return f"{place}{turn}: {label} ({arguments['to']}), asked by {arguments['from']}"


def _belief(belief: Found) -> str:
    return "; ".join([*told(belief["predictions"]), belief.get("reason", "")])


def _chance(belief: Found) -> float | None:
    told = [one.get("probability") for one in belief["predictions"].values()]
    return told[0] if len(told) == 1 else None


def source(found: Found) -> str:
    """Return which forecast it is, by whom and of when."""
    forecast = found.get("forecast") or {}
    by = f" by {forecast['forecaster']}, {forecast['made_at']}" if forecast else f", {found['state']}"
    return f"forecast {found['id']}{by}"


def _numbers(tally: Found) -> list[str]:
    return [f"{name:<24}{figure(value):>12}" for name, value in rows(tally).items()]


def _interventions(found: Found) -> list[str]:
    steps = [trial["steps"][0] for trial in found["trials"] if trial["steps"]][:1]
    return [remark for step in steps for remark in step.get("remarks", ()) if remark.startswith("intervention")]


def _first_difference(one: Found | None, other: Found | None) -> list[str]:
    if one is None or other is None:
        return ["only one of them has this trial"]
    for mine, yours in zip_longest(entries(one), entries(other)):
        if mine is None or yours is None or (mine.title, mine.text) != (yours.title, yours.text):
            sides = (("A", mine), ("B", yours))
            told = [f"  {name}: {' '.join(entry.text.split())[:_WIDTH]}" for name, entry in sides if entry]
            return [f"first said otherwise: {(mine or yours).title if mine or yours else ''}", *told]
    return ["every word is the same"]


def _forecasts(first: Found, second: Found) -> dict[str, tuple[float | None, float | None]]:
    sides = []
    for found in (first, second):
        predictions = (found.get("forecast") or {}).get("predictions", {})
        sides.append({key: one["probability"] for key, one in predictions.items() if "probability" in one})
    return {key: (sides[0].get(key), sides[1].get(key)) for key in dict.fromkeys((*sides[0], *sides[1]))}


def _row(name: str, one: float | str | None, other: float | str | None) -> str:
    gap = f"{other - one:+.4g}" if isinstance(one, int | float) and isinstance(other, int | float) else ""
    return f"{name:<24}{figure(one):>12}{figure(other):>12}{gap:>12}"


def figure(value: float | str | None) -> str:
    """Return a number of a count as it is read."""
    return f"{value:.4g}" if isinstance(value, int | float) else value or "-"
