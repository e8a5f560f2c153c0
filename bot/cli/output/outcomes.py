"""The outcome of a target in the question's unit, and a column for each scoring rule of its kind."""

import math
from collections.abc import Mapping

from bot.cli.output.console import ColumnKind, TableColumn
from bot.cli.output.formatting import format_number
from bot.cli.output.formatting import format_outcome as shortly
from bot.cli.output.predictions import format_with_unit
from bot.core.outcomes import NumericOutcome, Outcome, scoring_rules_for
from bot.core.predictions import CurveShape, QuestionShape


def describe_outcome(outcome: Outcome | None, shape: QuestionShape) -> str:
    """Return an outcome in a few words; a value that is only known to lie beyond a bound is told by that bound."""
    if not isinstance(outcome, NumericOutcome) or not isinstance(shape, CurveShape):
        return shortly(outcome)
    if math.isinf(outcome.value):
        above = outcome.value > 0
        return f"{'above' if above else 'below'} {format_with_unit(shape.value_range[above], shape.unit)}"
    if shape.unit == "date":
        return format_with_unit(outcome.value, shape.unit)
    return f"{shortly(outcome)} {shape.unit}".strip()


def score_columns(shape: QuestionShape) -> tuple[TableColumn, ...]:
    """Return a column for each rule by which such questions are scored."""
    return tuple(TableColumn(rule.title, ColumnKind.NUMBER) for rule in scoring_rules_for(shape.kind))


def score_cells(marks: Mapping[str, float], shape: QuestionShape) -> tuple[str, ...]:
    """Return the values for these columns; a rule without a value has a dash."""
    return tuple(format_number(marks.get(rule.name), rule.digits) for rule in scoring_rules_for(shape.kind))
