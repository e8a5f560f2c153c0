"""Calibration in use: identity, or what the gate lets through (``bot.jobs.gated``), as config says."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from bot.domain.prediction import Prediction
from bot.domain.question import Question


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Predictions after calibration, and the digest of the calibrator; None for identity."""

    predictions: Mapping[str, Prediction]
    digest: str | None


class Calibrator(Protocol):
    """Moves raw predictions by what earlier outcomes taught, or leaves them alone."""

    async def calibrate(
        self, question: Question, forecaster: str, cutoff: datetime, raw: Mapping[str, Prediction]
    ) -> Calibrated:
        """Return the predictions to record."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A calibrator for each forecaster that has one of its own, the common one for the others."""

    common: Calibrator
    own: Mapping[str, Calibrator]

    async def calibrate(
        self, question: Question, forecaster: str, cutoff: datetime, raw: Mapping[str, Prediction]
    ) -> Calibrated:
        return await self.own.get(forecaster, self.common).calibrate(question, forecaster, cutoff, raw)


class Identity:
    """Leaves every prediction as it is: no calibration of prices has been shown to help, and some has hurt."""

    async def calibrate(
        self, question: Question, forecaster: str, cutoff: datetime, raw: Mapping[str, Prediction]
    ) -> Calibrated:
        return Calibrated(predictions=raw, digest=None)
