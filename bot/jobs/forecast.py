"""Forecast what is due: question -> trials -> aggregate -> calibrate -> record."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import structlog

from bot.desk.combine import Pool, combine
from bot.desk.desk import TrialDesk, cutoff_of
from bot.desk.trial import TrialRun, run_trial
from bot.domain.forecast import Forecast, Limits, Trial
from bot.domain.learning import Fitted
from bot.domain.question import Question
from bot.domain.step import Step
from bot.errors import ContractError, StoreError
from bot.jobs.calibrate import Calibrator
from bot.jobs.learn import Teacher
from bot.jobs.policy import Reforecast, next_due
from bot.jobs.together import together
from bot.ports import Clock, Forecaster, Random
from bot.store.forecasts import Running
from bot.store.ledger import Ledger
from bot.store.schedule import Claim

log = structlog.get_logger()

# A forecaster that config names no longer, or whose plugin is broken, is asked again the next day.
UNUSED_WAIT = timedelta(days=1)
RETRY_AFTER = (timedelta(minutes=5), timedelta(hours=1), timedelta(hours=6))


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """One forecaster as configured: how many trials, how they are combined, and their limits."""

    name: str
    forecaster: Forecaster
    trials: int
    pool: Pool
    limits: Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecasting:
    """What the forecast job works with."""

    ledger: Ledger
    seats: Mapping[str, Seat]
    teacher: Teacher
    calibrator: Calibrator
    policy: Reforecast
    clock: Clock
    random: Random
    owner: str
    lease: timedelta
    concurrency: int
    patience_s: float
    stopping: Callable[[], bool]


async def forecast_due(parts: Forecasting) -> str:
    """Claim and forecast, soonest close first, until nothing is due, patience ends or the daemon stops.

    Patience bounds one pass, so that what is ready is submitted while a long queue is worked off.
    """
    done = failed = 0
    until = parts.clock.monotonic() + parts.patience_s
    while not parts.stopping() and parts.clock.monotonic() < until:
        claims = await parts.ledger.schedule.claim(
            now=parts.clock.now(), owner=parts.owner, lease=parts.lease, limit=4 * parts.concurrency
        )
        if not claims:
            break
        outcomes = await together(lambda claim: _attempt(parts, claim), claims, places=parts.concurrency)
        done += sum(outcomes)
        failed += len(outcomes) - sum(outcomes)
    missed = await _missed(parts)
    told = ((failed, "postponed"), (missed, "windows missed"))
    return ", ".join([f"{done} forecasts made", *(f"{count} {what}" for count, what in told if count)])


async def _missed(parts: Forecasting) -> int:
    """Raise the alarm over windows that closed without a forecast; the ledger tells each of them once."""
    missed = await parts.ledger.schedule.missed(parts.clock.now())
    if missed:
        log.warning("windows missed", count=len(missed), first=str(missed[0].ref), forecaster=missed[0].forecaster)
    return len(missed)


async def _attempt(parts: Forecasting, claim: Claim) -> bool:
    """Forecast one claim; False if that gave no answer, and the question was put off."""
    seat = parts.seats.get(claim.forecaster)
    if seat is None:
        unused = f"{claim.forecaster} is not in use"
        await parts.ledger.schedule.postpone(claim, until=parts.clock.now() + UNUSED_WAIT, why=unused)
        return False
    running: Running | None = None
    trouble: Exception | None = None
    try:
        question = await parts.ledger.questions.get(claim.ref)
        now = parts.clock.now()
        running = await parts.ledger.forecasts.begin(
            question=question, forecaster=seat.name, cutoff=cutoff_of(question, now), why=claim.why, now=now
        )
        why = await _answer(_Sitting(parts, claim, seat, question, running))
    except Exception as error:  # noqa: BLE001 - what goes wrong with one question must cost no other its forecast
        # A ledger that takes nothing any more refuses the postponement too, and that error ends the pass.
        why, trouble = f"{type(error).__name__}: {error}", error
    if why is not None:
        await _put_off(parts, claim, running=running, why=why, trouble=trouble)
    return why is None


async def _answer(sitting: "_Sitting") -> str | None:
    """Complete the forecast and return None, or return why there is no answer."""
    parts, seat, question, running = sitting.parts, sitting.seat, sitting.question, sitting.running
    known = await parts.teacher.known(seat.name, running.cutoff)
    trials = await sitting.trials(known.fitted if known else None)
    if not any(trial.belief for trial in trials):
        return "; ".join(f"trial {trial.number}: {trial.end} {trial.detail}".strip() for trial in trials)
    raw = combine(question, trials, seat.pool)
    calibrated = await parts.calibrator.calibrate(question, seat.name, running.cutoff, raw)
    # The clock may have been set back since the forecast began.
    made_at = max(parts.clock.now(), running.cutoff)
    forecast = Forecast(
        id=running.id,
        ref=question.ref,
        version=running.version,
        forecaster=seat.name,
        revision=running.revision,
        cutoff=running.cutoff,
        made_at=made_at,
        why=sitting.claim.why,
        raw=raw,
        predictions=calibrated.predictions,
        fitted=known.digest if known else None,
        calibration=calibrated.digest,
    )
    following = next_due(question, made_at=made_at, policy=parts.policy)
    await parts.ledger.forecasts.complete(forecast, next_due=following)
    return None


@dataclass(frozen=True, slots=True)
class _Sitting:
    """One forecaster with one question: the trials that are not on record yet run side by side."""

    parts: Forecasting
    claim: Claim
    seat: Seat
    question: Question
    running: Running

    async def trials(self, fitted: Fitted | None) -> list[Trial]:
        ended = {record.number: record.trial for record in self.running.trials if record.trial is not None}
        missing = [number for number in range(1, self.seat.trials + 1) if number not in ended]
        return [*ended.values(), *await together(partial(self._trial, fitted), missing, places=self.seat.trials)]

    async def _trial(self, fitted: Fitted | None, number: int) -> Trial:
        forecasts, clock, forecast = self.parts.ledger.forecasts, self.parts.clock, self.running.id

        async def log_step(step_number: int, step: Step) -> None:
            try:
                await forecasts.log_step(forecast, trial=number, number=step_number, step=step, at=clock.now())
            except ContractError as contradiction:
                # The step differs from what the run before wrote down, and the forecast is abandoned with that: were
                # it taken for the forecaster's own failure, its other trials would go on for nothing.
                raise StoreError(str(contradiction)) from contradiction

        desk = TrialDesk(
            forecast=forecast,
            cutoff=self.running.cutoff,
            trial=number,
            fitted=fitted,
            random=self.parts.random,
        )
        run = TrialRun(limits=self.seat.limits, log=log_step)
        trial = await run_trial(self.seat.forecaster, self.question, desk, run)
        await forecasts.end_trial(forecast, trial, at=clock.now())
        return trial


async def _put_off(
    parts: Forecasting, claim: Claim, *, running: Running | None, why: str, trouble: Exception | None
) -> None:
    wait = RETRY_AFTER[min(claim.attempt, len(RETRY_AFTER)) - 1]
    until = parts.clock.now() + wait
    if running is not None:
        await parts.ledger.forecasts.fail(running.id, why=why, at=parts.clock.now())
    await parts.ledger.schedule.postpone(claim, until=until, why=why)
    log.warning(
        "forecast postponed",
        question=str(claim.ref),
        forecaster=claim.forecaster,
        until=until,
        why=why,
        exc_info=trouble,
    )
