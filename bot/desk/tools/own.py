"""What this forecaster said of the question before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from bot.desk.take import Take
from bot.desk.tools.scene import Scene
from bot.desk.tools.tool import Outcome, described
from bot.domain.curves import quantiles_of
from bot.domain.forecast import Forecast
from bot.domain.inquiry import Charge
from bot.domain.prediction import Binary, Choice, Curve, CurveShape, Prediction
from bot.domain.prompt import Tool
from bot.domain.question import Question, QuestionRef
from bot.domain.question_changes import describe_changes
from bot.domain.step import Json
from bot.store.codec import PREDICTION, PREDICTIONS, version_of
from bot.store.forecasts import Forecasts
from bot.store.related import Related

NAME = "earlier_forecasts"
_NEWEST = 20
_TARGETS = 12
_QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True, slots=True)
class Own:
    """What the forecaster of a trial said before, but for what it said while it might see the future."""

    forecasts: Forecasts
    related: Related
    charge: Charge

    async def of(self, ref: QuestionRef, *, before: datetime) -> Sequence[Forecast]:
        """Return its forecasts of a question from before the moment, oldest first."""
        made = [
            forecast
            for forecast in await self.forecasts.history(ref)
            if forecast.forecaster == self.charge.forecaster
            and forecast.made_at < before
            and forecast.id != self.charge.scope
        ]
        foreseen = await self.related.foreseen(ref) if made else frozenset()
        return [forecast for forecast in made if forecast.id not in foreseen]


@dataclass(frozen=True, slots=True)
class EarlierForecasts:
    """Lists the forecaster's own forecasts."""

    scene: Scene
    forecasts: Forecasts
    related: Related
    charge: Charge

    @property
    def tool(self) -> Tool:
        return described(NAME, "Your own earlier forecasts of this question.")

    async def run(self, arguments: Mapping[str, Json], take: Take) -> Outcome:
        past = Own(self.forecasts, self.related, self.charge)
        made = await past.of(self.scene.question.ref, before=self.scene.bound)
        newest = made[-_NEWEST:]
        asked = await self.forecasts.questions_of(newest)
        lines = [_line(forecast, asked[forecast.version], self.scene.question) for forecast in newest]
        text = self.scene.quoted("\n".join(lines), "your earlier forecasts", self.scene.section.passage_chars)
        return Outcome(text=text if lines else "There are none.", data=await self._last(made) if made else None)

    async def _last(self, made: Sequence[Forecast]) -> dict[str, Json]:
        """Return for code the last one as the forecaster said it, and what has become of the question since.

        ``since`` is when it was said first, if it was repeated, and ``crowd`` what the crowd said then; ``same_text``
        whether the question still says what it said. ``why`` is why the forecast under way was begun.
        """
        last, first = made[-1], _first_said(made)
        crowd = await self.related.crowd_of(first.id)
        return {
            "count": len(made),
            "made_at": last.made_at.isoformat(),
            "since": first.made_at.isoformat(),
            "predictions": PREDICTIONS.plain(last.raw),
            "crowd": PREDICTION.plain(crowd) if crowd else None,
            "same_text": first.version == version_of(self.scene.question),
            "why": await self.related.why(self.charge.scope),
        }


def _first_said(made: Sequence[Forecast]) -> Forecast:
    first = made[-1]
    for forecast in reversed(made):
        if forecast.raw != first.raw:
            break
        first = forecast
    return first


def _line(forecast: Forecast, asked: Question, now: Question) -> str:
    """Tell a forecast on the grid for which it was made, and what is asked otherwise now."""
    told = [f"{key}: {_said(value, asked)}" for key, value in list(forecast.predictions.items())[:_TARGETS]]
    changes = describe_changes(asked, now)
    since = f" (since then {'; '.join(changes)})" if changes else ""
    return f"{forecast.made_at.date().isoformat()}: {'; '.join(told)}{since}"


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
    values = quantiles_of(Curve(tuple(cdf)), question.shape, _QUANTILES)
    return ", ".join(f"{level:.0%} below {value:g}" for level, value in values.items())
