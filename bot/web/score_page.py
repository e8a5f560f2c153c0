"""Forecasters next to each other: scores with intervals, calibration, gain over crowd and baseline, cost."""

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from bot.core.outcomes import scoring_rules_for
from bot.evaluation.forecaster_board import ForecasterStanding, load_forecaster_board
from bot.evaluation.group_scores import CrowdComparison
from bot.evaluation.score_report import ScoreInterval
from bot.evaluation.value_text import format_interval, format_number
from bot.web.page_context import DashboardContext
from bot.web.page_rendering import format_signed
from bot.web.question_list_page import parse_choice
from bot.web.svg_charts import draw_calibration

# A report over everything takes a second where there is much; outcomes come by the hour.
SCORES_KEPT_S = 300.0


class ScorePeriod(StrEnum):
    """The days whose forecasts count."""

    MONTH = "30"
    QUARTER = "90"
    YEAR = "365"
    ALL = "all"


PERIOD_TEXTS: Mapping[ScorePeriod, str] = {
    ScorePeriod.MONTH: "30 days",
    ScorePeriod.QUARTER: "90 days",
    ScorePeriod.YEAR: "1 year",
    ScorePeriod.ALL: "All",
}


async def show_forecasters(context: DashboardContext, request: Request) -> Response:
    """Answer with the page."""
    period = parse_choice(ScorePeriod, request.query_params.get("days")) or ScorePeriod.YEAR
    ledger, now = context.state.ledger, context.state.clock.now()
    since = None if period is ScorePeriod.ALL else now - timedelta(days=int(period))
    board = await context.keep(
        ("forecasters", period),
        lambda: load_forecaster_board(ledger, context.state.config.seed, since=since),
        kept_s=SCORES_KEPT_S,
    )
    values = {
        "period": period.value,
        "periods": [(one.value, text) for one, text in PERIOD_TEXTS.items()],
        "rows": [_row(context, one) for one in board],
        "kinds": [row for one in board for row in _kind_rows(one)],
        "plots": [
            (
                one.name,
                context.forecaster_style(one.name),
                draw_calibration(
                    one.bins,
                    label=f"Calibration of {one.name}: how often predictions came true against what they said",
                    style=context.forecaster_style(one.name),
                ),
            )
            for one in board
            if one.bins
        ],
    }
    return await context.respond(request, "forecasters.html", values)


def _row(context: DashboardContext, one: ForecasterStanding) -> Mapping[str, Any]:
    score, cost = one.score, one.cost
    return {
        "name": one.name,
        "style": context.forecaster_style(one.name),
        "n": None if score is None else score.n,
        "brier": None if score is None else format_number(score.brier, 4),
        "index": None if score is None else _interval_text(score.brier_index),
        "crowd": _gain_text(None if score is None else score.crowd),
        "baseline": _gain_text(one.baseline_gain),
        "cost": None if cost is None or not cost.forecasts else cost.usage.cost_usd / cost.forecasts,
        "total": None if cost is None else cost.usage.cost_usd,
    }


def _interval_text(found: ScoreInterval) -> str:
    return f"{found.estimate:.1f} {format_interval(found.low, found.high, 1)}"


def _gain_text(found: CrowdComparison | None) -> Mapping[str, str] | None:
    if found is None:
        return None
    gain = found.gain
    sure = gain.low is not None and gain.high is not None and (gain.low > 0 or gain.high < 0)
    level = ("good-text" if gain.estimate > 0 else "bad-text") if sure else ""
    interval = format_interval(gain.low, gain.high, 1)
    return {"text": format_signed(gain.estimate, 1), "interval": interval, "level": level, "n": f"{found.n:,}"}


def _kind_rows(one: ForecasterStanding) -> list[Mapping[str, Any]]:
    return [
        {
            "name": one.name,
            "kind": kind,
            "n": report.n,
            "scores": ", ".join(
                f"{rule.title} {format_number(found.estimate, rule.digits)} "
                f"{format_interval(found.low, found.high, rule.digits)}"
                for rule in scoring_rules_for(kind)
                if (found := report.scores.get(rule.name)) is not None
            ),
        }
        for kind, report in one.kinds.items()
    ]
