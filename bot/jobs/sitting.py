"""One forecaster with one question: trials -> aggregate -> calibrate -> record."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Protocol

from bot.desk.bare import BareBench
from bot.desk.combine import Pool, combine, suffices
from bot.desk.desk import Bench, TrialDesk, as_known, cutoff_of
from bot.desk.failures import why_too_few
from bot.desk.trial import TrialRun, run_trial
from bot.domain.forecast import Forecast, Limits, Trial
from bot.domain.inquiry import Charge
from bot.domain.learning import Fitted
from bot.domain.question import Question
from bot.domain.setup import Setup
from bot.domain.step import Json, Step
from bot.errors import ContractError, StoreError
from bot.jobs.calibrate import Calibrator
from bot.jobs.learn import Known, Teacher
from bot.jobs.policy import NextDue, Reforecast, next_due
from bot.jobs.warm_start import WarmStart
from bot.ports import Clock, Forecaster, Random
from bot.store.forecasts import Opening, Running
from bot.store.ledger import Ledger

# Why a forecast was made that a person wanted now.
ASKED_FOR = "asked for"


class Benches(Protocol):
    """Where trials find their tools and models: ``bot.desk.workshop``."""

    async def bench(
        self, question: Question, *, charge: Charge, cutoff: datetime, limits: Limits, guarded: bool = True
    ) -> Bench:
        """Return the bench of one trial, with all that it had asked before, if it had begun."""
        ...


class Watch(Protocol):
    """Somebody who looks on while a question is forecast."""

    def step(self, trial: int, number: int, step: Step, /) -> None:
        """See a step once it is durable."""
        ...

    def ended(self, trial: Trial, /) -> None:
        """See a trial end."""
        ...


class Unwatched:
    """Nobody looks on."""

    def step(self, trial: int, number: int, step: Step, /) -> None:
        """See nothing."""

    def ended(self, trial: Trial, /) -> None:
        """See nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """One forecaster as configured: how many trials, how they are combined, and their limits.

    No forecast is made where fewer than the share ``least_trials`` of its trials count. Where it asks models, all
    trials but the first wait ``warm_start_s`` seconds at most for the first step of that one.

    ``asks``: it asks models. ``clairvoyant``: it works without guards against knowing the future. ``settings`` are what
    it was opened with, without secrets, and ``uses`` the forecaster that it is a variant of: both for the record alone.
    ``members`` are the forecasters that it builds on, which forecast before it.
    """

    name: str
    forecaster: Forecaster
    trials: int
    pool: Pool
    limits: Limits
    least_trials: float = 0.5
    warm_start_s: float = 0.0
    asks: bool = False
    clairvoyant: bool = False
    settings: Mapping[str, Json] = field(default_factory=dict)
    uses: str | None = None
    members: tuple[str, ...] = ()

    @property
    def setup(self) -> Setup:
        """All of it as the ledger keeps it."""
        return Setup(
            settings=self.settings,
            trials=self.trials,
            aggregate=self.pool.value,
            limits=self.limits,
            uses=self.uses,
            clairvoyant=self.clairvoyant,
        )


def _always(_question: Question, _forecaster: str) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What every sitting works with; ``benches`` is None where no forecaster asks models.

    ``peers`` is where those that build on others read what these said. ``repeats`` says whether a forecaster forecasts
    a question again by itself.
    """

    ledger: Ledger
    teacher: Teacher
    calibrator: Calibrator
    policy: Reforecast
    clock: Clock
    random: Random
    benches: Benches | None = None
    peers: Benches | None = None
    watch: Watch = field(default_factory=Unwatched)
    repeats: Callable[[Question, str], bool] = _always


class NoAnswer(Exception):
    """Too few trials count; the text says why in one line, and ``details`` what each trial that failed said."""

    def __init__(self, trials: Sequence[Trial], *, wanted: int) -> None:
        """Say how many of the wanted trials count, and why the others do not."""
        super().__init__(why_too_few(trials, wanted=wanted))
        self.details = tuple(trial.detail for trial in trials if not trial.counts)


@dataclass(frozen=True, slots=True)
class Sitting:
    """A forecast under way: the trials that are not on record yet run side by side."""

    means: Means
    seat: Seat
    running: Running
    why: str

    async def forecast(self) -> Forecast:
        """Complete the forecast and return it; raises NoAnswer."""
        means, seat, running = self.means, self.seat, self.running
        known = await means.teacher.known(seat.name, running.cutoff)
        trials = await self._trials(known.fitted if known else None)
        if not suffices(trials, wanted=seat.trials, share=seat.least_trials):
            raise NoAnswer(trials, wanted=seat.trials)
        forecast = await self._combined(trials, known)
        await means.ledger.forecasts.complete(forecast, next_due=await self._following(forecast))
        return forecast

    async def _following(self, forecast: Forecast) -> NextDue | None:
        """Return when the question is due again; one that was forecast apart is due when it was before."""
        means, question = self.means, self.running.question
        made_at: datetime | None = forecast.made_at
        if self.running.apart:
            bases = await means.ledger.forecasts.bases([question.ref], self.seat.name)
            made_at = bases[question.ref].made_at if question.ref in bases else None
        if made_at is None or not means.repeats(question, self.seat.name):
            return None
        return next_due(question, made_at=made_at, policy=means.policy)

    async def _combined(self, trials: list[Trial], known: Known | None) -> Forecast:
        means, running = self.means, self.running
        raw = combine(running.question, trials, self.seat.pool)
        calibrated = await means.calibrator.calibrate(running.question, self.seat.name, running.cutoff, raw)
        return Forecast(
            id=running.id,
            ref=running.question.ref,
            version=running.version,
            forecaster=self.seat.name,
            revision=running.revision,
            cutoff=running.cutoff,
            # The clock may have been set back since the forecast began.
            made_at=max(means.clock.now(), running.cutoff),
            why=self.why,
            raw=raw,
            predictions=calibrated.predictions,
            fitted=known.digest if known else None,
            calibration=calibrated.digest,
        )

    async def _trials(self, fitted: Fitted | None) -> list[Trial]:
        ended = {record.number: record.trial for record in self.running.trials if record.trial is not None}
        missing = [number for number in range(1, self.seat.trials + 1) if number not in ended]
        warm = WarmStart(clock=self.means.clock, seconds=self.seat.warm_start_s if self.seat.asks else 0.0)
        return [*ended.values(), *await warm.run(partial(self._trial, fitted, warm), missing)]

    async def _trial(self, fitted: Fitted | None, warm: WarmStart, number: int) -> Trial:
        means, running, seat = self.means, self.running, self.seat
        desk = TrialDesk(
            forecast=running.id,
            cutoff=running.cutoff,
            trial=number,
            fitted=fitted,
            random=means.random,
            limits=seat.limits,
            bench=await self._bench(number),
        )
        run = TrialRun(limits=seat.limits, log=partial(self._log_step, warm, number))
        asked = running.question if seat.clairvoyant else as_known(running.question, running.cutoff)
        trial = await run_trial(seat.forecaster, asked, desk, run)
        await means.ledger.forecasts.end_trial(running.id, trial, at=means.clock.now())
        means.watch.ended(trial)
        return trial

    async def _bench(self, number: int) -> Bench:
        benches = self.means.benches if self.seat.asks else self.means.peers if self.seat.members else None
        if benches is None:
            return BareBench()
        question = self.running.question
        charge = Charge(
            scope=self.running.id,
            ref=str(question.ref),
            venue=question.ref.venue,
            forecaster=self.seat.name,
            trial=number,
        )
        return await benches.bench(
            question,
            charge=charge,
            cutoff=self.running.cutoff,
            limits=self.seat.limits,
            guarded=not self.seat.clairvoyant,
        )

    async def _log_step(self, warm: WarmStart, trial: int, number: int, step: Step) -> None:
        forecasts, now = self.means.ledger.forecasts, self.means.clock.now()
        try:
            await forecasts.log_step(self.running.id, trial=trial, number=number, step=step, at=now)
        except ContractError as contradiction:
            # The step differs from what the run before wrote down, and the forecast is abandoned with that: were it
            # taken for the forecaster's own failure, its other trials would go on for nothing.
            raise StoreError(str(contradiction)) from contradiction
        warm.release()
        self.means.watch.step(trial, number, step)


async def begin(
    means: Means,
    seat: Seat,
    question: Question,
    why: str,
    *,
    known_until: datetime | None = None,
    apart: bool = False,
) -> Sitting:
    """Begin a forecast of a recorded question, or take up the one that was cut off.

    With ``known_until`` nothing later informs it, so that forecasts that stand side by side knew the same. One that is
    ``apart`` never leaves, and changes nothing about when the question is due.
    """
    now = means.clock.now()
    opening = Opening(
        question=question,
        forecaster=seat.name,
        cutoff=cutoff_of(question, now if known_until is None else min(now, known_until)),
        why=why,
        now=now,
        setup=seat.setup,
        apart=apart,
    )
    running = await means.ledger.forecasts.begin(opening)
    return Sitting(means, seat, running, why)
