"""The outcome of a target in the question's unit, and a column for each scoring rule of its kind."""

import math
from collections.abc import Mapping

from bot.cli.output.console import ColumnKind, TableColumn
from bot.cli.output.formatting import format_number
from bot.cli.output.formatting import format_outcome as shortly
from bot.cli.output.predictions import format_with_unit
from bot.domain.prediction import CurveShape, Shape
from bot.domain.resolution import Landed, Outcome
from bot.domain.score import rules_of


def describe_outcome(outcome: Outcome | None, shape: Shape) -> str:
    """Return an outcome in a few words; a value that is only known to lie beyond a bound is told by that bound."""
    if not isinstance(outcome, Landed) or not isinstance(shape, CurveShape):
        return shortly(outcome)
    if math.isinf(outcome.value):
        above = outcome.value > 0
        return f"{'above' if above else 'below'} {format_with_unit(shape.ends[above], shape.unit)}"
    if shape.unit == "date":
        return format_with_unit(outcome.value, shape.unit)
    return f"{shortly(outcome)} {shape.unit}".strip()


def score_columns(shape: Shape) -> tuple[TableColumn, ...]:
    """Return a column for each rule by which such questions are scored."""
    return tuple(TableColumn(rule.title, ColumnKind.NUMBER) for rule in rules_of(shape.kind))


def score_cells(marks: Mapping[str, float], shape: Shape) -> tuple[str, ...]:
    """Return the values for these columns; a rule without a value has a dash."""
    return tuple(format_number(marks.get(rule.name), rule.digits) for rule in rules_of(shape.kind))
