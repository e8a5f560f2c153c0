"""Gated calibration: predictions are calibrated only if that has been shown to help.

There is one decision for each forecaster, question family and day. It is recorded with its figures and uses only what
had resolved before that day.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import structlog

from bot.core.interfaces import Clock
from bot.core.learning import FittedParameters
from bot.core.light_dataclass import dataclass
from bot.core.predictions import BinaryPrediction, Prediction
from bot.core.questions import Question
from bot.forecasting.calibration import CalibratedPredictions
from bot.forecasting.parameter_fitting import MAX_CACHED_CUTOFFS, utc_day
from bot.stats.arrays import DateArray
from bot.stats.calibration import calibration_rows
from bot.stats.calibration_gate import CalibrationDecision, CalibrationHistory, CalibrationPolicy, decide_calibration
from bot.store.ledger import Ledger
from bot.store.scores import CalibrationColumns
from bot.store.serialization import JsonSerializer

log = structlog.get_logger()

DECISION_SERIALIZER: JsonSerializer[CalibrationDecision] = JsonSerializer("calibration decision", CalibrationDecision)


class RecordedDecision(NamedTuple):
    """A decision in use, with its digest in the ledger."""

    digest: str
    decision: CalibrationDecision


@dataclass(slots=True, kw_only=True)
class GatedCalibrator:
    """Implements PredictionCalibrator: moves binary predictions if the gate allows it, by no more than its cap.

    The groups of the fit are the sources of the questions. If nothing had resolved there is nothing to decide.
    """

    ledger: Ledger
    clock: Clock
    policy: CalibrationPolicy = field(default_factory=CalibrationPolicy)
    _decisions: OrderedDict[tuple[str, str, datetime], RecordedDecision | None] = field(default_factory=OrderedDict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def calibrate(
        self, question: Question, forecaster: str, cutoff: datetime, raw: Mapping[str, Prediction]
    ) -> CalibratedPredictions:
        binary = {key: one.probability for key, one in raw.items() if isinstance(one, BinaryPrediction)}
        decided = await self.decision_for(forecaster, question.family, cutoff) if binary else None
        if decided is None:
            return CalibratedPredictions(predictions=raw, digest=None)
        moved = decided.decision.apply([*binary.values()], [question.source] * len(binary))
        calibrated = dict(zip(binary, map(BinaryPrediction, moved.tolist()), strict=True))
        return CalibratedPredictions(predictions={**raw, **calibrated}, digest=decided.digest)

    async def decision_for(self, forecaster: str, family: str, cutoff: datetime) -> RecordedDecision | None:
        """Return the decision for the day of the cutoff; None if nothing had resolved before that day."""
        place = (forecaster, family, utc_day(cutoff))
        async with self._lock:
            if place not in self._decisions:
                self._decisions[place] = await self._find_or_decide(*place)
                while len(self._decisions) > MAX_CACHED_CUTOFFS:
                    self._decisions.popitem(last=False)
            return self._decisions[place]

    async def _find_or_decide(self, forecaster: str, family: str, before: datetime) -> RecordedDecision | None:
        name = calibration_name(forecaster, family)
        newest = await self.ledger.learning.newest(name, before)
        if newest is not None and newest[1].before == before:
            return RecordedDecision(newest[0], DECISION_SERIALIZER.value(newest[1].payload))
        answered = await self.ledger.scores.read_calibration_columns(forecaster, family, before=before)
        if not answered:
            return None
        gate = await asyncio.to_thread(_decide_calibration, answered, before, self.policy)
        fitted = FittedParameters(
            forecaster=name,
            before=before,
            examples=len(answered),
            payload=DECISION_SERIALIZER.plain(gate),
            provenance={"rows": f"forecasts of {forecaster} on the family {family}, resolved before the day"},
        )
        digest = await self.ledger.learning.record(fitted, self.clock.now())
        adopted = gate.platt is not None
        failures = [check.name for check in gate.failures]
        log.info("calibration decided", name=name, before=before.isoformat(), adopted=adopted, failures=failures)
        return RecordedDecision(digest, gate)


def calibration_name(forecaster: str, family: str) -> str:
    """Return the name under which the decisions for a forecaster and a family of questions are kept."""
    return f"calibration:{forecaster}:{family}"


def _decide_calibration(
    answered: CalibrationColumns, before: datetime, policy: CalibrationPolicy
) -> CalibrationDecision:
    history = CalibrationHistory(
        rows=calibration_rows(answered.raw, answered.outcome, answered.source),
        made_on=_utc_days(answered.cutoff),
        resolved_on=_utc_days(answered.resolved_at),
    )
    return decide_calibration(history, before=before.date(), policy=policy)


def _utc_days(moments: tuple[datetime, ...]) -> DateArray:
    return np.array([moment.astimezone(UTC).date() for moment in moments], dtype="datetime64[D]")
