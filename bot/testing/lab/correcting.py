"""Does calibration take back what was planted? Forecasts and outcomes go on record, and the gate decides each day."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bot.domain.forecast import Forecast
from bot.domain.prediction import Binary
from bot.domain.resolution import Happened, Resolution
from bot.jobs.gated import GatedCalibrator
from bot.store.forecasts import Opening
from bot.store.ledger import Ledger, open_ledger
from bot.testing.lab.answers import Corrected
from bot.testing.lab.bench import SUBJECT
from bot.testing.lab.questions import Case
from bot.testing.lab.tables import Span

if TYPE_CHECKING:
    import numpy as np

    from bot.ports import Clock
    from bot.testing.world.calendar import Calendar

TARGET = "outcome"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Where forecasts are put on record: a ledger of its own."""

    path: Path
    clock: "Clock"
    calendar: "Calendar"


async def corrected(record: Record, cases: Sequence[Case], raw: Sequence[float]) -> Corrected:
    """Return what the gated calibrator makes of answers, each from what had resolved before its day alone."""
    async with open_ledger(record.path, now=record.clock.now()) as ledger:
        await _put(ledger, record, cases, raw)
        calibrator = GatedCalibrator(ledger=ledger, clock=record.clock)
        answers: list[float] = []
        moved: list[int] = []
        for place, (case, said) in enumerate(zip(cases, raw, strict=True)):
            cutoff = record.calendar.at(case.day)
            told = await calibrator.calibrate(case.question, SUBJECT, cutoff, {TARGET: Binary(said)})
            after = told.predictions[TARGET]
            assert isinstance(after, Binary)  # noqa: S101 - as it went in
            answers.append(after.probability)
            decided = await calibrator.decision(SUBJECT, case.question.family, cutoff)
            moved += [place] if decided is not None and decided.gate.platt is not None else []
    return Corrected(answers=answers, adopted=moved)


async def _put(ledger: Ledger, record: Record, cases: Sequence[Case], raw: Sequence[float]) -> None:
    at = record.calendar.at
    await ledger.questions.record([case.question for case in cases], seen_at=at(cases[0].day))
    for case, said in zip(cases, raw, strict=True):
        cutoff, question = at(case.day), case.question
        opening = Opening(question=question, forecaster=SUBJECT, cutoff=cutoff, why="due", now=cutoff)
        running = await ledger.forecasts.begin(opening)
        forecast = Forecast(
            id=running.id,
            ref=question.ref,
            version=running.version,
            forecaster=SUBJECT,
            revision=running.revision,
            cutoff=cutoff,
            made_at=cutoff,
            why="due",
            raw={TARGET: Binary(said)},
            predictions={TARGET: Binary(said)},
        )
        await ledger.forecasts.complete(forecast, next_due=None)
    known = [
        Resolution(
            ref=case.question.ref,
            target=TARGET,
            outcome=Happened(float(case.outcome)),
            # Venues tell it a little later than it is known.
            resolved_at=at(case.known_day + 0.5),
        )
        for case in cases
    ]
    await ledger.resolutions.record(known, seen_at=record.clock.now())


def slope_of(answers: Sequence[float], outcomes: Sequence[float]) -> float:
    """Return by how much log-odds are to be multiplied, by a fit over all."""
    from bot.stats.calibration import calibration_rows, fit_platt  # noqa: PLC0415 - numpy

    return fit_platt(calibration_rows(answers, outcomes)).slope


def spread_of(
    figure: Callable[[Sequence[int]], float], clusters: "np.ndarray", rng: "np.random.Generator", *, resamples: int
) -> Span:
    """Return a figure over all places with its interval, whole clusters of places drawn again so many times.

    ``clusters`` numbers the cluster of each place from 0, shape (n,).
    """
    import numpy as np  # noqa: PLC0415 - numpy

    members = [np.flatnonzero(clusters == number) for number in range(int(clusters.max()) + 1)]
    drawn = [
        figure(np.concatenate([members[one] for one in rng.integers(len(members), size=len(members))]).tolist())
        for _ in range(resamples)
    ]
    low, high = np.quantile(drawn, [0.025, 0.975]).tolist()
    return Span(estimate=figure(range(clusters.size)), low=low, high=high)
