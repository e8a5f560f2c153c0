"""What became of one target: the outcome in the question's unit, and a column for each rule for its kind."""

import math
from collections.abc import Mapping

from bot.cli.output.beliefs import measured
from bot.cli.output.console import Column, Kind
from bot.cli.output.figures import number
from bot.cli.output.figures import outcome as shortly
from bot.domain.prediction import CurveShape, Shape
from bot.domain.resolution import Landed, Outcome
from bot.domain.score import rules_of


def outcome_words(outcome: Outcome | None, shape: Shape) -> str:
    """Return an outcome in a few words; a value that is only known to lie beyond a bound is told by that bound."""
    if not isinstance(outcome, Landed) or not isinstance(shape, CurveShape):
        return shortly(outcome)
    if math.isinf(outcome.value):
        above = outcome.value > 0
        return f"{'above' if above else 'below'} {measured(shape.ends[above], shape.unit)}"
    if shape.unit == "date":
        return measured(outcome.value, shape.unit)
    return f"{shortly(outcome)} {shape.unit}".strip()


def mark_columns(shape: Shape) -> tuple[Column, ...]:
    """Return a column for each rule by which such questions are scored."""
    return tuple(Column(rule.title, Kind.NUMBER) for rule in rules_of(shape.kind))


def mark_cells(marks: Mapping[str, float], shape: Shape) -> tuple[str, ...]:
    """Return the values for these columns; a rule without a value has a dash."""
    return tuple(number(marks.get(rule.name), rule.digits) for rule in rules_of(shape.kind))
