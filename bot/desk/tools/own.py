"""What this forecaster said of the question before."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from bot.desk.take import Take
from bot.desk.tools.scene import Scene
from bot.desk.tools.tool import Outcome, described
from bot.domain.forecast import Forecast
from bot.domain.inquiry import Charge
from bot.domain.prediction import Binary, Choice, CurveShape, Prediction
from bot.domain.prompt import Tool
from bot.domain.question import Question
from bot.domain.step import Json
from bot.store.forecasts import Forecasts

NAME = "earlier_forecasts"
_NEWEST = 20
_TARGETS = 12
_QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True, slots=True)
class EarlierForecasts:
    """Lists the forecaster's own forecasts."""

    scene: Scene
    forecasts: Forecasts
    charge: Charge

    @property
    def tool(self) -> Tool:
        return described(NAME, "Your own earlier forecasts of this question.")

    async def run(self, arguments: Mapping[str, Json], take: Take) -> Outcome:
        made = await earlier(self.scene.question, self.forecasts, self.charge, self.scene.bound)
        lines = [_line(forecast, self.scene.question) for forecast in made[-_NEWEST:]]
        text = self.scene.quoted("\n".join(lines), "your earlier forecasts", self.scene.section.passage_chars)
        return Outcome(text=text if lines else "There are none.", data=len(lines))


async def earlier(question: Question, forecasts: Forecasts, charge: Charge, before: datetime) -> Sequence[Forecast]:
    """Return what the forecaster said of the question before the moment, oldest first."""
    return [
        forecast
        for forecast in await forecasts.history(question.ref)
        if forecast.forecaster == charge.forecaster and forecast.made_at < before and forecast.id != charge.scope
    ]


def _line(forecast: Forecast, question: Question) -> str:
    told = [f"{key}: {_said(value, question)}" for key, value in list(forecast.predictions.items())[:_TARGETS]]
    return f"{forecast.made_at.date().isoformat()}: {'; '.join(told)}"


def _said(prediction: Prediction, question: Question) -> str:
    match prediction:
        case Binary(probability=probability):
            return f"{probability:.3f}"
        case Choice(probabilities=probabilities):
            return ", ".join(f"{option} {probability:.3f}" for option, probability in probabilities.items())
        case _:
            return _quantiles(prediction.cdf, question)


def _quantiles(cdf: Sequence[float], question: Question) -> str:
    if not isinstance(question.shape, CurveShape) or len(question.shape.grid) != len(cdf):
        return "a distribution on another grid"
    grid = question.shape.grid
    places = [(level, min(bisect_left(cdf, level), len(grid) - 1)) for level in _QUANTILES]
    return ", ".join(f"{level:.0%} below {grid[place]:g}" for level, place in places)
