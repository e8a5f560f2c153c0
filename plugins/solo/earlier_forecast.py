"""The single agent's earlier forecast of the question: whether it is still valid, or a starting point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.api import (
    Belief,
    Prediction,
    Question,
    TrialContext,
    prediction_distance,
    read_predictions,
)
from plugins.solo.settings import SoloSettings

EARLIER_FORECASTS_TOOL = "earlier_forecasts"
# The engine's reason for a forecast that a person asked for.
ASKED_FOR = "asked for"


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierForecast:
    """The last forecast: ``since`` is when it was first made; ``crowd`` the crowd's estimate then; ``text`` all of it.

    ``same_text`` says that the question has not changed since, so that the predictions answer it.
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
        """Its name as a starting point."""
        return f"your own forecast of {self.since:%Y-%m-%d}"

    def repeat_reason(self, question: Question, now: datetime, settings: SoloSettings) -> str | None:
        """Return why the forecast is to be repeated as it is; None where it is time for another."""
        young = now - self.since < timedelta(days=settings.reuse_days)
        if not young or self.asked_for or not self.same_text or self._price_moved(question, settings):
            return None
        return (
            f"the forecast of {self.since:%Y-%m-%d} is less than {settings.reuse_days:g} days old, and neither the "
            "question nor its price has changed: it is repeated"
        )

    def is_stale(self, now: datetime, settings: SoloSettings) -> bool:
        """Say whether the forecast is too old to start from."""
        return now - self.since >= timedelta(days=settings.stale_days)

    def as_belief(self, why: str) -> Belief:
        """Return the forecast as a belief."""
        return Belief(predictions=self.predictions, anchor=self.name, reason=why)

    def _price_moved(self, question: Question, settings: SoloSettings) -> bool:
        now = question.crowd.prediction if question.crowd else None
        if now is None or self.crowd is None:
            return now is not self.crowd
        return prediction_distance({"": self.crowd}, {"": now}) >= settings.price_shift


async def load_earlier_forecast(context: TrialContext) -> EarlierForecast | None:
    """Return the last forecast on record; None if there is none that can be read."""
    if all(tool.name != EARLIER_FORECASTS_TOOL for tool in context.tools):
        return None
    result = await context.use_tool(EARLIER_FORECASTS_TOOL, {})
    data = result.data
    if result.failed or not isinstance(data, dict):
        return None
    crowd = data.get("crowd")
    return EarlierForecast(
        since=datetime.fromisoformat(str(data["since"])),
        predictions=read_predictions(data["predictions"]),
        crowd=read_predictions({"": crowd})[""] if crowd else None,
        same_text=bool(data.get("same_text")),
        asked_for=data.get("why") == ASKED_FOR,
        text=result.observation.text,
        documents=result.observation.documents,
    )
