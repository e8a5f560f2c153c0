"""A question in a list: its newest forecasts, the crowd, its outcome, and a chart of both over time."""

from collections.abc import Mapping
from typing import Any

from bot.core.predictions import (
    BinaryShape,
    ChoicePrediction,
    CurvePrediction,
    CurveShape,
    Prediction,
    QuestionShape,
)
from bot.evaluation.value_text import (
    QUANTILES,
    describe_outcome,
    describe_prediction_short,
    format_percent,
    quantile_text,
    truncate_text,
)
from bot.store.question_pages import QuestionListEntry
from bot.web.page_context import DashboardContext
from bot.web.svg_charts import ChartSeries, draw_sparkline

MAX_FORECASTERS = 4
OPTION_CHARS = 32


def question_cells(context: DashboardContext, listed: QuestionListEntry) -> Mapping[str, Any]:
    """Return the cells of a row."""
    row, now = listed.row, context.state.clock.now()
    newest = [
        (name, context.forecaster_style(name), _prediction_text(one, listed.shape))
        for name, one in listed.newest.items()
    ]
    return {
        "ref": row.ref,
        "title": row.title,
        "venue": row.ref.venue,
        "state": row.state(now).value,
        "closes_at": row.closes_at,
        "beliefs": newest[:MAX_FORECASTERS],
        "crowd": format_percent(row.crowd),
        "outcome": describe_outcome(listed.outcome, listed.shape),
        "chart": _draw_history(context, listed),
    }


def _prediction_text(prediction: Prediction, shape: QuestionShape) -> str:
    """Return a prediction in little room: of a choice the likeliest option, of a curve its median and 80 % interval."""
    match prediction, shape:
        case ChoicePrediction(probabilities=options), _:
            likeliest = max(options, key=lambda name: options[name])
            return f"{truncate_text(likeliest, OPTION_CHARS)} {format_percent(options[likeliest])}"
        case CurvePrediction(), CurveShape():
            low, middle, high = (quantile_text(prediction, shape, level) for level in QUANTILES)
            return f"{middle} ({low} to {high})"
        case _:
            return describe_prediction_short(prediction, shape)


def _draw_history(context: DashboardContext, listed: QuestionListEntry) -> object:
    crowd = ChartSeries(
        name="crowd", points=[(at.timestamp(), p) for at, p in listed.prices], style="crowd", stepped=True
    )
    own = [
        ChartSeries(
            name=name,
            points=[(at.timestamp(), p) for at, p in points],
            style=context.forecaster_style(name),
            stepped=True,
        )
        for name, points in listed.beliefs.items()
    ]
    if not isinstance(listed.shape, BinaryShape):
        return ""
    texts = [f"{one.name} {format_percent(one.points[-1][1])}" for one in (crowd, *own) if one.points]
    return draw_sparkline([crowd, *own], label=f"Probability over time: {', '.join(texts) or 'none yet'}")
