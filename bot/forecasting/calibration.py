"""The interface of calibrators, and the simple ones; ``gated_calibration`` has the gated calibrator."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from bot.core.light_dataclass import dataclass
from bot.core.predictions import Prediction
from bot.core.questions import Question


@dataclass(frozen=True, slots=True)
class CalibratedPredictions:
    """Predictions after calibration, and the digest of the calibrator; None for identity."""

    predictions: Mapping[str, Prediction]
    digest: str | None


class PredictionCalibrator(Protocol):
    """Moves raw predictions according to earlier outcomes, or does not change them."""

    async def calibrate(
        self, question: Question, forecaster: str, cutoff: datetime, raw: Mapping[str, Prediction]
    ) -> CalibratedPredictions:
        """Return the predictions to record."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PerForecasterCalibrator:
    """The own calibrator of a forecaster if it has one, the common one for the others."""

    default: PredictionCalibrator
    overrides: Mapping[str, PredictionCalibrator]

    async def calibrate(
        self, question: Question, forecaster: str, cutoff: datetime, raw: Mapping[str, Prediction]
    ) -> CalibratedPredictions:
        return await self.overrides.get(forecaster, self.default).calibrate(question, forecaster, cutoff, raw)


class IdentityCalibrator:
    """Changes no prediction: no calibration of prices has been shown to help, and some has hurt."""

    async def calibrate(
        self, question: Question, forecaster: str, cutoff: datetime, raw: Mapping[str, Prediction]
    ) -> CalibratedPredictions:
        return CalibratedPredictions(predictions=raw, digest=None)
