"""A question in a list: its newest forecasts, the crowd, its outcome, and a chart of both over time."""

from collections.abc import Mapping
from typing import Any

from bot.core.predictions import BinaryShape
from bot.evaluation.value_text import describe_outcome, describe_prediction_short, format_percent
from bot.store.question_pages import QuestionListEntry
from bot.web.page_context import DashboardContext
from bot.web.svg_charts import ChartSeries, draw_sparkline

MAX_FORECASTERS = 4


def question_cells(context: DashboardContext, listed: QuestionListEntry) -> Mapping[str, Any]:
    """Return the cells of a row."""
    row, now = listed.row, context.state.clock.now()
    newest = [
        (name, context.forecaster_style(name), describe_prediction_short(one, listed.shape))
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
