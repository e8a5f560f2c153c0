"""One forecast of one question: run the trials, aggregate, calibrate, record."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from bot.core.beliefs import Step
from bot.core.errors import MalformedDataError, NotFoundError, StoreError
from bot.core.forecasts import Forecast, ForecasterSetup, Trial, TrialLimits
from bot.core.interfaces import Clock, Forecaster, RandomStreams
from bot.core.language_models import CostAttribution, ModelUrgency
from bot.core.learning import FittedParameters
from bot.core.light_dataclass import dataclass
from bot.core.questions import Question
from bot.core.values import Json
from bot.forecasting.aggregation import PoolingMethod, combine_trials, has_enough_trials
from bot.forecasting.calibration import PredictionCalibrator
from bot.forecasting.failures import explain_too_few_trials
from bot.forecasting.parameter_fitting import ParameterFitter, RecordedParameters
from bot.forecasting.prompt_files import prompt_folder_in_use
from bot.forecasting.reforecast_policy import ReforecastPolicy, ReforecastTime, next_reforecast
from bot.forecasting.trial import TrialSettings, run_trial
from bot.forecasting.trial_tools import GuardedTrialContext, TrialContextFactory, hide_late_crowd, question_cutoff
from bot.forecasting.tuned_shrinkage import ShrinkageTuner
from bot.store.forecasts import ForecastStart, RunningForecast
from bot.store.ledger import Ledger

TrialFunction = Callable[[int], Coroutine[Any, Any, Trial]]


class WarmStart:
    """Holds all trials but the first back until ``release``, or for this many seconds; 0 holds none back."""

    def __init__(self, *, clock: Clock, seconds: float) -> None:
        """Begin with the others held back."""
        self._clock = clock
        self._seconds = seconds
        self._released = asyncio.Event()

    def release(self) -> None:
        """Let the other trials begin: the first one has made a step, or has ended."""
        self._released.set()

    async def run_trials(self, trial: TrialFunction, numbers: Sequence[int]) -> list[Trial]:
        """Run trials concurrently, the first number before the others, and return them in that order."""
        first, others = numbers[:1], numbers[1:]
        tasks: list[asyncio.Task[Trial]] = []
        try:
            async with asyncio.TaskGroup() as group:
                tasks += [group.create_task(trial(number)) for number in first]
                if others:
                    tasks[0].add_done_callback(lambda _: self.release())
                    await self._wait_for_release()
                tasks += [group.create_task(trial(number)) for number in others]
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _wait_for_release(self) -> None:
        if self._seconds <= 0.0:
            return
        released = asyncio.ensure_future(self._released.wait())
        over = asyncio.ensure_future(self._clock.sleep(self._seconds))
        try:
            await asyncio.wait({released, over}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            released.cancel()
            over.cancel()


# The reason of a forecast that a person asked for.
REQUESTED_REASON = "asked for"
# The requests of a question whose window closes before this go ahead of others.
CLOSING_SOON = timedelta(hours=1)


class ForecastObserver(Protocol):
    """Observes the forecast of a question."""

    def on_step(self, trial: int, number: int, step: Step, /) -> None:
        """Handle a step once it is durable."""
        ...

    def on_trial_end(self, trial: Trial, /) -> None:
        """Handle the end of a trial."""
        ...


class NullForecastObserver:
    """Observes nothing."""

    def on_step(self, trial: int, number: int, step: Step, /) -> None:
        """Do nothing."""

    def on_trial_end(self, trial: Trial, /) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredForecaster:
    """One forecaster as configured: how many trials, how they are combined, and their limits.

    No forecast is made where fewer than the share ``min_trial_share`` of its trials count. Where it asks models, all
    trials but the first wait ``warm_start_s`` seconds at most for the first step of that one.

    ``uses_models``: it asks models. ``clairvoyant``: it works without guards against knowing the future. ``settings``
    are its settings without secrets, and ``variant_of`` is the forecaster that it is a variant of: both are recorded,
    and of the settings only ``prompts``, a folder of prompt files, is used here. ``members`` are the forecasters that
    it builds on, which forecast before it; one that ``may_have_members`` reads answers of others that are no
    forecasters, too.
    """

    name: str
    implementation: Forecaster
    trials: int
    pool: PoolingMethod
    limits: TrialLimits
    min_trial_share: float = 0.5
    warm_start_s: float = 0.0
    uses_models: bool = False
    clairvoyant: bool = False
    settings: Mapping[str, Json] = field(default_factory=dict)
    variant_of: str | None = None
    members: tuple[str, ...] = ()
    may_have_members: bool = False

    @property
    def prompt_folder(self) -> Path | None:
        """The folder with prompt files that replace shipped ones, if its settings name one."""
        folder = self.settings.get("prompts")
        return Path(folder) if isinstance(folder, str) else None

    @property
    def reads_others(self) -> bool:
        """Whether its trials read the answers of others."""
        return self.may_have_members or bool(self.members)

    @property
    def setup(self) -> ForecasterSetup:
        """All of it as the ledger keeps it."""
        return ForecasterSetup(
            settings=self.settings,
            trials=self.trials,
            aggregate=self.pool.value,
            limits=self.limits,
            uses=self.variant_of,
            clairvoyant=self.clairvoyant,
        )


def _renew_always(_question: Question, _forecaster: str) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastContext:
    """What every forecast run works with; ``resources`` is None if no forecaster asks models.

    ``peer_resources`` gives forecasters that build on others the forecasts of these. ``renews`` says whether a
    forecaster forecasts a question again without being asked. ``shrinkage`` tunes the weights where
    trials are shrunk.
    """

    ledger: Ledger
    parameter_fitter: ParameterFitter
    calibrator: PredictionCalibrator
    policy: ReforecastPolicy
    clock: Clock
    random: RandomStreams
    resources: TrialContextFactory | None = None
    peer_resources: TrialContextFactory | None = None
    observer: ForecastObserver = field(default_factory=NullForecastObserver)
    renews: Callable[[Question, str], bool] = _renew_always
    shrinkage: ShrinkageTuner | None = None


class NoAnswerError(Exception):
    """Too few trials count; the text says why in one line, and ``details`` has the error of each failed trial."""

    def __init__(self, trials: Sequence[Trial], *, wanted: int) -> None:
        """Keep how many of the wanted trials count, and why the others do not."""
        super().__init__(explain_too_few_trials(trials, wanted=wanted))
        self.details = tuple(trial.detail for trial in trials if not trial.is_answer)


@dataclass(frozen=True, slots=True)
class ForecastRun:
    """A running forecast: the trials that are not on record yet run concurrently."""

    context: ForecastContext
    forecaster: ConfiguredForecaster
    running: RunningForecast
    why: str

    async def run(self) -> Forecast:
        """Complete the forecast and return it; raises NoAnswerError."""
        context, forecaster, running = self.context, self.forecaster, self.running
        known = await context.parameter_fitter.parameters_for(forecaster.name, running.cutoff)
        trials = await self._run_trials(known.parameters if known else None)
        if not has_enough_trials(trials, wanted=forecaster.trials, share=forecaster.min_trial_share):
            raise NoAnswerError(trials, wanted=forecaster.trials)
        forecast = await self._build_forecast(trials, known)
        # A person may have asked meanwhile that it be submitted, so the ledger chooses between the two.
        await context.ledger.forecasts.complete(
            forecast,
            next_due=self._next_reforecast(forecast.made_at),
            next_due_apart=self._next_reforecast(await self._earlier_made_at()) if running.forecast_only else None,
        )
        return forecast

    async def _earlier_made_at(self) -> datetime | None:
        """Return the time of the newest forecast that may be submitted: one apart does not change when it is due."""
        ref = self.running.question.ref
        basis = (await self.context.ledger.forecasts.read_bases([ref], self.forecaster.name)).get(ref)
        return None if basis is None else basis.made_at

    def _next_reforecast(self, made_at: datetime | None) -> ReforecastTime | None:
        """Return when the question is due again after a forecast made then."""
        context, question = self.context, self.running.question
        if made_at is None or not context.renews(question, self.forecaster.name):
            return None
        return next_reforecast(question, made_at=made_at, policy=context.policy)

    async def _build_forecast(self, trials: list[Trial], known: RecordedParameters | None) -> Forecast:
        context, running = self.context, self.running
        rules = None
        if self.forecaster.pool is PoolingMethod.SHRINK and context.shrinkage is not None and len(trials) > 1:
            rules = await context.shrinkage.rules_for(self.forecaster.name, running.cutoff)
        raw = combine_trials(running.question, trials, self.forecaster.pool, rules=rules)
        calibrated = await context.calibrator.calibrate(running.question, self.forecaster.name, running.cutoff, raw)
        return Forecast(
            id=running.id,
            ref=running.question.ref,
            version=running.version,
            forecaster=self.forecaster.name,
            revision=running.revision,
            cutoff=running.cutoff,
            # The clock may have been set back since the forecast began.
            made_at=max(context.clock.now(), running.cutoff),
            why=self.why,
            raw=raw,
            predictions=calibrated.predictions,
            fitted=known.digest if known else None,
            calibration=calibrated.digest,
        )

    async def _run_trials(self, fitted: FittedParameters | None) -> list[Trial]:
        ended = {record.number: record.trial for record in self.running.trials if record.trial is not None}
        missing = [number for number in range(1, self.forecaster.trials + 1) if number not in ended]
        warm = WarmStart(
            clock=self.context.clock, seconds=self.forecaster.warm_start_s if self.forecaster.uses_models else 0.0
        )
        return [*ended.values(), *await warm.run_trials(partial(self._run_trial, fitted, warm), missing)]

    async def _run_trial(self, fitted: FittedParameters | None, warm: WarmStart, number: int) -> Trial:
        context, running, forecaster = self.context, self.running, self.forecaster
        trial_context = await self._open_trial(
            GuardedTrialContext(
                forecast=running.id,
                cutoff=running.cutoff,
                trial=number,
                fitted=fitted,
                random=context.random,
                limits=forecaster.limits,
                urgency=self._urgency(),
            )
        )
        log, write_waiting = partial(self._log_step, warm, trial_context), trial_context.write_waiting
        run = TrialSettings(limits=forecaster.limits, log=log, write_waiting=write_waiting)
        asked = running.question if forecaster.clairvoyant else hide_late_crowd(running.question, running.cutoff)
        with prompt_folder_in_use(forecaster.prompt_folder):
            trial = await run_trial(forecaster.implementation, asked, trial_context, run)
        await context.ledger.forecasts.end_trial(running.id, trial, at=context.clock.now())
        context.observer.on_trial_end(trial)
        return trial

    def _urgency(self) -> ModelUrgency:
        if self.running.forecast_only or self.why == REQUESTED_REASON:
            return ModelUrgency.REQUESTED
        closes_at = self.running.question.closes_at
        is_closing = closes_at is not None and closes_at - self.context.clock.now() < CLOSING_SOON
        return ModelUrgency.CLOSING_SOON if is_closing else ModelUrgency.ORDINARY

    async def _open_trial(self, start: GuardedTrialContext) -> GuardedTrialContext:
        factory = (
            self.context.resources
            if self.forecaster.uses_models
            else self.context.peer_resources
            if self.forecaster.reads_others
            else None
        )
        if factory is None:
            return start
        question = self.running.question
        charge = CostAttribution(
            scope=self.running.id,
            ref=str(question.ref),
            venue=question.ref.venue,
            forecaster=self.forecaster.name,
            trial=start.trial,
        )
        return await factory.open_trial(question, start, charge=charge, guarded=not self.forecaster.clairvoyant)

    async def _log_step(self, warm: WarmStart, asking: GuardedTrialContext, number: int, step: Step) -> None:
        trial, record, cited = asking.trial, asking.trial_record, step.observation.documents
        if unrecorded := cited if record is None else record.find_unrecorded(cited):
            message = f"documents must be stored before they are cited: {', '.join(unrecorded)}"
            raise NotFoundError(message)
        waiting = None if record is None else await record.pack_waiting()
        forecasts, now = self.context.ledger.forecasts, self.context.clock.now()
        try:
            await forecasts.log_step(self.running.id, trial=trial, number=number, step=step, at=now, waiting=waiting)
        except MalformedDataError as contradiction:
            # The step differs from the one that the earlier run recorded, so the forecast is abandoned: if this
            # counted as a failure of the forecaster, its other trials would continue for nothing.
            raise StoreError(str(contradiction)) from contradiction
        if record is not None and waiting is not None:
            record.forget_waiting(waiting)
        warm.release()
        self.context.observer.on_step(trial, number, step)


async def begin_forecast(
    context: ForecastContext,
    forecaster: ConfiguredForecaster,
    question: Question,
    why: str,
    *,
    known_until: datetime | None = None,
    apart: bool = False,
) -> ForecastRun:
    """Begin a forecast of a recorded question, or resume an interrupted one.

    With ``known_until`` nothing later informs it, so that forecasts that are compared knew the same. One that is
    ``apart`` is never submitted, and does not change when the question is due.
    """
    now = context.clock.now()
    opening = ForecastStart(
        question=question,
        forecaster=forecaster.name,
        cutoff=question_cutoff(question, now if known_until is None else min(now, known_until)),
        why=why,
        now=now,
        setup=forecaster.setup,
        forecast_only=apart,
    )
    running = await context.ledger.forecasts.begin(opening)
    return ForecastRun(context, forecaster, running, why)
