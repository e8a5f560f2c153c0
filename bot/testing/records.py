"""Records of a ledger as they would stand after a forecast, without a forecaster that makes it."""

from collections.abc import Mapping
from datetime import datetime

from bot.domain.forecast import Forecast
from bot.domain.prediction import Prediction
from bot.domain.question import Question
from bot.store.forecasts import Opening
from bot.store.ledger import Ledger

FORECASTER = "plain"


async def forecast_on_record(
    ledger: Ledger,
    question: Question,
    predictions: Mapping[str, Prediction],
    now: datetime,
    forecaster: str = FORECASTER,
) -> Forecast:
    """Return a forecast of a question that the ledger knows, made at the moment and complete; it is not due again."""
    running = await ledger.forecasts.begin(
        Opening(question=question, forecaster=forecaster, cutoff=now, why="new", now=now)
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
