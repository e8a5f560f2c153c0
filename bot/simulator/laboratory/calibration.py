"""Records forecasts and outcomes of the laboratory in a ledger and runs the gated calibrator on them, day by day."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bot.core.forecasts import Forecast
from bot.core.light_dataclass import dataclass
from bot.core.outcomes import BinaryOutcome, Resolution
from bot.core.predictions import BinaryPrediction
from bot.forecasting.gated_calibration import GatedCalibrator
from bot.simulator.laboratory.answers import CalibratedAnswers
from bot.simulator.laboratory.questions import LaboratoryQuestion
from bot.simulator.laboratory.score_table import IntervalEstimate
from bot.simulator.laboratory.trial_runner import FORECASTER_NAME
from bot.store.forecasts import ForecastStart
from bot.store.ledger import Ledger, open_ledger

if TYPE_CHECKING:
    import numpy as np

    from bot.core.interfaces import Clock
    from bot.simulator.world.calendar import WorldCalendar

TARGET_KEY = "outcome"


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationLedger:
    """The ledger of the calibration, apart from all others."""

    path: Path
    clock: "Clock"
    calendar: "WorldCalendar"


async def calibrate_answers(
    record: CalibrationLedger, cases: Sequence[LaboratoryQuestion], raw: Sequence[float]
) -> CalibratedAnswers:
    """Return the answers after the gated calibrator, each from what had resolved before its day."""
    async with open_ledger(record.path, now=record.clock.now()) as ledger:
        await _record_answers(ledger, record, cases, raw)
        calibrator = GatedCalibrator(ledger=ledger, clock=record.clock)
        answers: list[float] = []
        moved: list[int] = []
        for place, (case, answer) in enumerate(zip(cases, raw, strict=True)):
            cutoff = record.calendar.moment_of(case.day)
            calibrated = await calibrator.calibrate(
                case.question, FORECASTER_NAME, cutoff, {TARGET_KEY: BinaryPrediction(answer)}
            )
            after = calibrated.predictions[TARGET_KEY]
            assert isinstance(after, BinaryPrediction)  # noqa: S101 - as it went in
            answers.append(after.probability)
            decided = await calibrator.decision_for(FORECASTER_NAME, case.question.family, cutoff)
            moved += [place] if decided is not None and decided.decision.platt is not None else []
    return CalibratedAnswers(answers=answers, adopted=moved)


async def _record_answers(
    ledger: Ledger, record: CalibrationLedger, cases: Sequence[LaboratoryQuestion], raw: Sequence[float]
) -> None:
    at = record.calendar.moment_of
    await ledger.questions.record([case.question for case in cases], seen_at=at(cases[0].day))
    for case, answer in zip(cases, raw, strict=True):
        cutoff, question = at(case.day), case.question
        opening = ForecastStart(question=question, forecaster=FORECASTER_NAME, cutoff=cutoff, why="due", now=cutoff)
        running = await ledger.forecasts.begin(opening)
        forecast = Forecast(
            id=running.id,
            ref=question.ref,
            version=running.version,
            forecaster=FORECASTER_NAME,
            revision=running.revision,
            cutoff=cutoff,
            made_at=cutoff,
            why="due",
            raw={TARGET_KEY: BinaryPrediction(answer)},
            predictions={TARGET_KEY: BinaryPrediction(answer)},
        )
        await ledger.forecasts.complete(forecast, next_due=None)
    known = [
        Resolution(
            ref=case.question.ref,
            target=TARGET_KEY,
            outcome=BinaryOutcome(float(case.outcome)),
            # Venues report it a little later than it is known.
            resolved_at=at(case.known_day + 0.5),
        )
        for case in cases
    ]
    await ledger.resolutions.record(known, seen_at=record.clock.now())


def calibration_slope(answers: Sequence[float], outcomes: Sequence[float]) -> float:
    """Return the factor for log-odds, by a fit over all."""
    from bot.stats.calibration import calibration_rows, fit_platt  # noqa: PLC0415 - numpy

    return fit_platt(calibration_rows(answers, outcomes)).slope


def bootstrap_interval(
    figure: Callable[[Sequence[int]], float], clusters: "np.ndarray", rng: "np.random.Generator", *, resamples: int
) -> IntervalEstimate:
    """Return a figure over all places with its interval, resampling whole clusters of places so many times.

    ``clusters`` numbers the cluster of each place from 0, shape (n,).
    """
    import numpy as np  # noqa: PLC0415 - numpy

    members = [np.flatnonzero(clusters == number) for number in range(int(clusters.max()) + 1)]
    drawn = [
        figure(np.concatenate([members[one] for one in rng.integers(len(members), size=len(members))]).tolist())
        for _ in range(resamples)
    ]
    low, high = np.quantile(drawn, [0.025, 0.975]).tolist()
    return IntervalEstimate(estimate=figure(range(clusters.size)), low=low, high=high)
