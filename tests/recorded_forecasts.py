"""Puts a complete forecast into a ledger without running a forecaster."""

from collections.abc import Mapping
from datetime import datetime

from bot.core.forecasts import Forecast
from bot.core.predictions import Prediction
from bot.core.questions import Question
from bot.store.forecasts import ForecastStart
from bot.store.ledger import Ledger

FORECASTER = "plain"


async def record_forecast(
    ledger: Ledger,
    question: Question,
    predictions: Mapping[str, Prediction],
    now: datetime,
    forecaster: str = FORECASTER,
) -> Forecast:
    """Return a forecast of a question that the ledger knows, made at the moment and complete; it is not due again."""
    running = await ledger.forecasts.begin(
        ForecastStart(question=question, forecaster=forecaster, cutoff=now, why="new", now=now)
    )
    forecast = Forecast(
        id=running.id,
        ref=question.ref,
        version=running.version,
        forecaster=forecaster,
        revision=running.revision,
        cutoff=running.cutoff,
        made_at=now,
        why="new",
        raw=predictions,
        predictions=predictions,
    )
    await ledger.forecasts.complete(forecast, next_due=None)
    return forecast
