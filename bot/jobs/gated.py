"""Calibration behind the gate: one decision for each forecaster, family of questions and day, kept with its figures.

A decision rests on what had resolved before its day and on nothing else, whenever it is made, so it can leak nothing;
one on record for the day is used again, so that a forecast can be repeated.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import structlog

from bot.domain.learning import Fitted
from bot.domain.prediction import Binary, Prediction
from bot.domain.question import Question
from bot.jobs.calibrate import Calibrated
from bot.jobs.learn import KEPT, day_of
from bot.ports import Clock
from bot.stats.arrays import DateArray
from bot.stats.calibration import calibration_rows
from bot.stats.calibration_gate import CalibrationDecision, CalibrationHistory, CalibrationPolicy, decide_calibration
from bot.store.codec import Form
from bot.store.ledger import Ledger
from bot.store.scores import Answered

log = structlog.get_logger()

DECISION: Form[CalibrationDecision] = Form("calibration decision", CalibrationDecision)


class Decided(NamedTuple):
    """A decision in use, with its digest in the ledger."""

    digest: str
    gate: CalibrationDecision


@dataclass(slots=True, kw_only=True)
class GatedCalibrator:
    """Implements Calibrator: moves binary predictions where the gate allows it, by no more than its cap.

    The groups of the fit are the sources of the questions. Where nothing had resolved there is nothing to decide.
    """

    ledger: Ledger
    clock: Clock
    policy: CalibrationPolicy = field(default_factory=CalibrationPolicy)
    _decided: OrderedDict[tuple[str, str, datetime], Decided | None] = field(default_factory=OrderedDict)
    _deciding: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def calibrate(
        self, question: Question, forecaster: str, cutoff: datetime, raw: Mapping[str, Prediction]
    ) -> Calibrated:
        binary = {key: one.probability for key, one in raw.items() if isinstance(one, Binary)}
        decided = await self.decision(forecaster, question.family, cutoff) if binary else None
        if decided is None:
            return Calibrated(predictions=raw, digest=None)
        moved = decided.gate.apply([*binary.values()], [question.source] * len(binary))
        calibrated = dict(zip(binary, map(Binary, moved.tolist()), strict=True))
        return Calibrated(predictions={**raw, **calibrated}, digest=decided.digest)

    async def decision(self, forecaster: str, family: str, cutoff: datetime) -> Decided | None:
        """Return what holds on the day of the cutoff; None where nothing had resolved before that day."""
        place = (forecaster, family, day_of(cutoff))
        async with self._deciding:
            if place not in self._decided:
                self._decided[place] = await self._find(*place)
                while len(self._decided) > KEPT:
                    self._decided.popitem(last=False)
            return self._decided[place]

    async def _find(self, forecaster: str, family: str, before: datetime) -> Decided | None:
        name = calibration_name(forecaster, family)
        newest = await self.ledger.learning.newest(name, before)
        if newest is not None and newest[1].before == before:
            return Decided(newest[0], DECISION.value(newest[1].payload))
        answered = await self.ledger.scores.answered(forecaster, family, before=before)
        if not answered:
            return None
        gate = await asyncio.to_thread(_decide, answered, before, self.policy)
        fitted = Fitted(
            forecaster=name,
            before=before,
            examples=len(answered),
            payload=DECISION.plain(gate),
            provenance={"rows": f"forecasts of {forecaster} on the family {family}, resolved before the day"},
        )
        digest = await self.ledger.learning.record(fitted, self.clock.now())
        adopted = gate.platt is not None
        failures = [check.name for check in gate.failures]
        log.info("calibration decided", name=name, before=before.isoformat(), adopted=adopted, failures=failures)
        return Decided(digest, gate)


def calibration_name(forecaster: str, family: str) -> str:
    """Return the name under which the decisions over a forecaster and a family of questions are kept."""
    return f"calibration:{forecaster}:{family}"


def _decide(answered: Answered, before: datetime, policy: CalibrationPolicy) -> CalibrationDecision:
    history = CalibrationHistory(
        rows=calibration_rows(answered.raw, answered.outcome, answered.source),
        made_on=_days(answered.cutoff),
        resolved_on=_days(answered.resolved_at),
    )
    return decide_calibration(history, before=before.date(), policy=policy)


def _days(moments: tuple[datetime, ...]) -> DateArray:
    return np.array([moment.astimezone(UTC).date() for moment in moments], dtype="datetime64[D]")
