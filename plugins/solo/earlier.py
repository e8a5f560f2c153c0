"""What the lone agent said of the question before: whether that still stands, or is a place to start from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.api import Belief, Binary, Choice, Curve, Desk, Json, Prediction, Question, distance
from plugins.solo.settings import SoloSettings

TOOL = "earlier_forecasts"
# The word of the engine for a forecast that a person wants now.
ASKED_FOR = "asked for"


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """The last forecast: ``since`` is when it was said first; ``crowd`` what the crowd said then; ``text`` all of them.

    ``same_text`` says that the question says what it said then, so that the predictions answer it.
    """

    since: datetime
    predictions: Mapping[str, Prediction]
    crowd: Prediction | None
    same_text: bool
    asked_for: bool
    text: str
    documents: tuple[str, ...]

    @property
    def name(self) -> str:
        """What it is called as a starting point."""
        return f"your own forecast of {self.since:%Y-%m-%d}"

    def why_repeat(self, question: Question, now: datetime, settings: SoloSettings) -> str | None:
        """Return why the forecast is to be repeated as it is; None where it is time for another."""
        young = now - self.since < timedelta(days=settings.window_days)
        if not young or self.asked_for or not self.same_text or self._price_moved(question, settings):
            return None
        return (
            f"the forecast of {self.since:%Y-%m-%d} is less than {settings.window_days:g} days old, and neither the "
            "question nor its price has changed: it is repeated"
        )

    def is_stale(self, now: datetime, settings: SoloSettings) -> bool:
        """Say whether the forecast is too old to start from."""
        return now - self.since >= timedelta(days=settings.stale_days)

    def repeated(self, why: str) -> Belief:
        """Return the forecast as a belief."""
        return Belief(predictions=self.predictions, anchor=self.name, reason=why)

    def _price_moved(self, question: Question, settings: SoloSettings) -> bool:
        now = question.crowd.prediction if question.crowd else None
        if now is None or self.crowd is None:
            return now is not self.crowd
        return distance({"": self.crowd}, {"": now}) >= settings.price_shift


async def earlier_of(desk: Desk) -> Earlier | None:
    """Return the last forecast, as the desk knows it; None where there is none that can be read."""
    if all(tool.name != TOOL for tool in desk.tools):
        return None
    result = await desk.use(TOOL, {})
    data = result.data
    if result.failed or not isinstance(data, dict):
        return None
    predictions = data.get("predictions")
    return Earlier(
        since=datetime.fromisoformat(str(data["since"])),
        predictions={key: _prediction(raw) for key, raw in predictions.items()}
        if isinstance(predictions, dict)
        else {},
        crowd=_prediction(data["crowd"]) if data.get("crowd") else None,
        same_text=bool(data.get("same_text")),
        asked_for=data.get("why") == ASKED_FOR,
        text=result.observation.text,
        documents=result.observation.documents,
    )


def _prediction(raw: Json) -> Prediction:
    match raw:
        case {"probability": int() | float() as probability}:
            return Binary(float(probability))
        case {"probabilities": dict() as shares}:
            return Choice({option: float(str(share)) for option, share in shares.items()})
        case {"cdf": list() as points}:
            return Curve(tuple(float(str(point)) for point in points))
        case _:
            message = f"not a prediction of the desk: {raw}"
            raise ValueError(message)
