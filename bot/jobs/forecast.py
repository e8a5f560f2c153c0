"""Forecast what is due: too expensive forecasts are put on hold, the rest is leased, and the soonest close is first."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from functools import partial

import structlog

from bot.core.beliefs import Step
from bot.core.errors import (
    AuthenticationError,
    NotFoundError,
    QuotaExhaustedError,
    RequestRejectedError,
    strip_error_type,
)
from bot.core.forecasts import Trial
from bot.core.interfaces import QuestionReader, VenueReader
from bot.core.light_dataclass import dataclass
from bot.core.questions import Question, QuestionRef
from bot.forecasting.cost_check import CostCheck
from bot.forecasting.failures import describe_error, describe_failures, failure_reason
from bot.forecasting.forecast_run import (
    REQUESTED_REASON,
    ConfiguredForecaster,
    ForecastContext,
    ForecastRun,
    NoAnswerError,
    begin_forecast,
)
from bot.forecasting.question_admission import POLL_S, AdmittedQuestion, QuestionAdmission
from bot.forecasting.reforecast_policy import RENEWAL_REASONS
from bot.store.schedule import DueEntry, ForecastLease

failures_log = structlog.get_logger(__name__)


_CREDENTIAL_ERRORS = tuple(f"{kind.__name__}: " for kind in (AuthenticationError, QuotaExhaustedError))


@dataclass(slots=True)
class ForecastFailures:
    """The successes and failures of one pass: refused credentials, reasons of failed trials, and the warnings given."""

    _successful: set[str] = field(default_factory=set)
    _refused: dict[str, str] = field(default_factory=dict)
    _failed: list[str] = field(default_factory=list)
    _logged: set[tuple[str, str]] = field(default_factory=set)

    def record_failed_trial(self, trial: Trial) -> None:
        """Record why a trial failed."""
        self._failed.append(failure_reason(trial))

    def record_success(self, forecaster: str) -> None:
        """Record that a forecaster could work."""
        self._successful.add(forecaster)

    def record_refused_credentials(self, forecaster: str, details: Sequence[str]) -> None:
        """Record a forecaster whose credentials were refused in every trial of a question."""
        if details and all(detail.startswith(_CREDENTIAL_ERRORS) for detail in details):
            self._refused.setdefault(forecaster, strip_error_type(details[0]))

    def log_postponement(self, claim: ForecastLease, *, until: datetime, why: str, error: Exception | None) -> None:
        """Log a postponed forecast, as a warning only for the first one of its forecaster with that reason."""
        key = (claim.forecaster, why)
        known = key in self._logged or claim.forecaster in self._refused
        self._logged.add(key)
        (failures_log.debug if known else failures_log.warning)(
            "forecast postponed",
            question=str(claim.ref),
            forecaster=claim.forecaster,
            until=until.isoformat(timespec="seconds"),
            why=why,
            exc_info=error,
        )

    def summarise(self, summary: str) -> str:
        """Return in one line what the pass did, and how many trials failed and why.

        Raises AuthenticationError, with what the pass did, where a forecaster made no forecast because its credentials
        were refused. One that could work as well, with another model for instance, gets a warning.
        """
        unable = {name: why for name, why in self._refused.items() if name not in self._successful}
        for name in self._refused.keys() - unable.keys():
            failures_log.warning("credentials refused for some forecasts", forecaster=name, why=self._refused[name])
        if unable:
            message = "; ".join([summary, *(f"{name} made none: {why}" for name, why in unable.items())])
            raise AuthenticationError(message)
        failed = describe_failures(self._failed)
        return f"{summary}; {failed}" if failed else summary


log = structlog.get_logger()


# A forecaster that config no longer names, or whose plugin is broken, is tried again the next day.
UNCONFIGURED_WAIT = timedelta(days=1)


EXCLUDED_WAIT = timedelta(hours=1)


# The waits after the first failures of a forecast, then always the last of them.
RETRY_AFTER = (timedelta(minutes=5), timedelta(hours=1), timedelta(hours=6))


# A quarter as many questions as run are begun at once, or any number after this time: a claim costs a commit, an idle
# slot costs more.
REFILL_INTERVAL_S = 0.05


# While the last forecasts of a pass are under way, newly due ones are looked for this often.
RECHECK_INTERVAL_S = 1.0


# A lease outlives the longest trial by this much.
LEASE_MARGIN = timedelta(minutes=5)


class RequestedForecasts:
    """The forecasts that people asked for, who wait for them; ``added`` is set with each."""

    def __init__(self) -> None:
        """Start with none."""
        self.added = asyncio.Event()
        self.pairs: set[tuple[QuestionRef, str]] = set()

    def add(self, entries: Sequence[DueEntry]) -> None:
        """Add forecasts that were made due."""
        self.pairs.update((entry.ref, entry.forecaster) for entry in entries)
        self.added.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastJobContext:
    """What the forecast job works with; ``exclusion_reason`` returns why a question is not forecast, or None.

    What is ``requested`` is begun at once, however many questions are under way. A question that is not among the
    ``listed_questions`` of its venue is read with its reader, if that finds questions by name.
    """

    context: ForecastContext
    forecasters: Mapping[str, ConfiguredForecaster]
    cost_check: CostCheck
    owner: str
    lease: timedelta
    admission: QuestionAdmission
    pass_limit_s: float
    is_stopping: Callable[[], bool]
    exclusion_reason: Callable[[Question], str | None] = lambda _: None
    readers: Mapping[str, VenueReader] = field(default_factory=dict)
    listed_questions: Mapping[str, Collection[QuestionRef]] = field(default_factory=dict)
    requested: RequestedForecasts = field(default_factory=RequestedForecasts)


async def forecast_due_questions(job: ForecastJobContext) -> str:
    """Claim and forecast, soonest close first, until nothing is due, the time limit is reached or the daemon stops.

    A forecast that was to be renewed while its question was open is not renewed after the close, or once it resolved;
    what its venue closed early is postponed until then.

    The time limit bounds one pass, so that finished forecasts are submitted while a long queue is worked off. The line
    that is returned says how many trials failed, and why. Raises AuthenticationError at the end if a forecaster made
    no forecast because its credentials were refused.
    """
    await job.context.ledger.schedule.end_renewals(reasons=RENEWAL_REASONS, now=job.context.clock.now())
    counts = await _ForecastPass(job).run()
    missed = await _count_missed_windows(job)
    others = ((counts.postponed, "postponed"), (counts.on_hold, "held"), (missed, "question windows missed"))
    summary = ", ".join([f"{counts.done} forecasts made", *(f"{count} {what}" for count, what in others if count)])
    return counts.failures.summarise(summary)


@dataclass(slots=True)
class _PassCounts:
    done: int = 0
    postponed: int = 0
    on_hold: int = 0
    failures: ForecastFailures = field(default_factory=ForecastFailures)


@dataclass(slots=True)
class _ForecastPass:
    """One pass: a forecast is begun as soon as there is room for it, see ``QuestionAdmission``."""

    job: ForecastJobContext
    counts: _PassCounts = field(default_factory=_PassCounts)
    running: set[asyncio.Task[bool]] = field(default_factory=set)
    claimed_at: float = float("-inf")
    nothing_due: bool = False
    requested_at: float = float("-inf")

    async def run(self) -> _PassCounts:
        try:
            async with asyncio.TaskGroup() as group:
                await self._run_until(group, until=self.job.context.clock.monotonic() + self.job.pass_limit_s)
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        finally:
            # What could not be begun is due, and waits its turn.
            self.job.requested.pairs.clear()
        return self.counts

    async def _run_until(self, group: asyncio.TaskGroup, *, until: float) -> None:
        while True:
            await self._claim_requested(group)
            if self._may_claim(until):
                await self._claim_due(group)
            if not self.running:
                return
            await self._wait(until)

    def _may_claim(self, until: float) -> bool:
        now = self.job.context.clock.monotonic()
        if self.job.is_stopping() or now >= until:
            return False
        if self.nothing_due:
            return bool(self.running) and now - self.claimed_at >= RECHECK_INTERVAL_S
        free = self._room()
        return free > 0 and (4 * free >= free + len(self.running) or now - self.claimed_at >= REFILL_INTERVAL_S)

    def _room(self) -> int:
        asking = [one.trials for one in self.job.forecasters.values() if one.uses_models]
        return self.job.admission.room(trials=max(asking, default=1))

    async def _claim_due(self, group: asyncio.TaskGroup) -> None:
        if (free := self._room()) <= 0:
            return
        # What ends from now on may make forecasters due that build on it.
        self.nothing_due = True
        claims = await self._claim(limit=free)
        self.claimed_at = self.job.context.clock.monotonic()
        self.nothing_due = self.nothing_due and len(claims) < free
        self._begin(claims, group)

    async def _claim_requested(self, group: asyncio.TaskGroup) -> None:
        """Begin what people wait for, also where there is no room."""
        pairs, now = self.job.requested.pairs, self.job.context.clock.monotonic()
        if not pairs or self.job.is_stopping() or now - self.requested_at < RECHECK_INTERVAL_S:
            return
        claims = await self._claim(limit=len(pairs), among=pairs)
        self.requested_at = now
        pairs.difference_update((claim.ref, claim.forecaster) for claim in claims)
        self._begin(claims, group)

    async def _claim(
        self, *, limit: int, among: Collection[tuple[QuestionRef, str]] | None = None
    ) -> list[ForecastLease]:
        job = self.job
        held = await self._forecasters_on_hold()
        longest = max(
            (forecaster.limits.seconds + forecaster.warm_start_s for forecaster in job.forecasters.values()),
            default=0.0,
        )
        claims = await job.context.ledger.schedule.claim(
            now=job.context.clock.now(),
            owner=job.owner,
            lease=max(job.lease, timedelta(seconds=longest) + LEASE_MARGIN),
            limit=limit,
            skipped=held,
            members=self._member_pairs,
            # A forecast that runs here is not paid twice, also if the clock was set forward meanwhile.
            at_work=bool(self.running),
            among=among,
        )
        job.cost_check.record_started(claim.forecaster for claim in claims)
        return claims

    def _begin(self, claims: Sequence[ForecastLease], group: asyncio.TaskGroup) -> None:
        job = self.job
        for claim in claims:
            forecaster = job.forecasters.get(claim.forecaster)
            question = job.admission.begin(trials=forecaster.trials if forecaster and forecaster.uses_models else 0)
            task = group.create_task(_forecast_claim(job, claim, self.counts.failures, question))
            task.add_done_callback(partial(self._record_end, question))
            self.running.add(task)

    def _record_end(self, question: AdmittedQuestion, task: asyncio.Task[bool]) -> None:
        self.running.discard(task)
        self.job.admission.end(question)
        # A task that failed has cancelled the others already, and the group raises its error.
        made = not task.cancelled() and task.exception() is None and task.result()
        self.counts.done += made
        self.counts.postponed += not made
        # Forecasters that build on it may be due now; they must not wait for the next pass.
        self.nothing_due = self.nothing_due and not self._member_pairs

    @property
    def _member_pairs(self) -> list[tuple[str, str]]:
        return [(name, member) for name, forecaster in self.job.forecasters.items() for member in forecaster.members]

    async def _forecasters_on_hold(self) -> tuple[str, ...]:
        """Return which forecasters wait for a person's approval, given what is due now."""
        cost_check, context = self.job.cost_check, self.job.context
        if not cost_check.is_needed:
            return ()
        due = await context.ledger.schedule.count_due(context.clock.now())
        held = await cost_check.forecasters_on_hold(self.job.forecasters, due, now=context.clock.now())
        self.counts.on_hold = sum(due[name] for name in held)
        return held

    async def _wait(self, until: float) -> None:
        """Wait for the next forecast to end, or until it is time to look for more."""
        admission, now = self.job.admission, self.job.context.clock.monotonic()
        if self.job.is_stopping():
            await admission.wait(None)
        else:
            is_waiting = self.nothing_due or admission.is_full or now >= until
            await admission.wait(RECHECK_INTERVAL_S if is_waiting else POLL_S)


async def _count_missed_windows(job: ForecastJobContext) -> int:
    """Alert people to windows that closed without a forecast; the ledger returns each of them once."""
    missed = await job.context.ledger.schedule.missed(job.context.clock.now())
    if missed:
        first = missed[0]
        log.warning("question windows missed", count=len(missed), first=str(first.ref), forecaster=first.forecaster)
    return len(missed)


@dataclass(frozen=True, slots=True)
class _ClaimObserver:
    """Observes the forecast of one claim (``bot.forecasting.forecast_run.ForecastObserver``)."""

    failures: ForecastFailures
    question: AdmittedQuestion

    def on_step(self, trial: int, number: int, step: Step, /) -> None:
        self.question.has_stepped = True

    def on_trial_end(self, trial: Trial, /) -> None:
        self.question.has_stepped = True
        if not trial.is_answer:
            self.failures.record_failed_trial(trial)


async def _forecast_claim(
    job: ForecastJobContext, claim: ForecastLease, failures: ForecastFailures, admitted: AdmittedQuestion
) -> bool:
    """Forecast one claim; return False if that gave no answer and the question was postponed."""
    context = replace(job.context, observer=_ClaimObserver(failures, admitted))
    forecaster = job.forecasters.get(claim.forecaster)
    if forecaster is None:
        unused = f"{claim.forecaster} is not in use"
        await context.ledger.schedule.postpone(claim, until=context.clock.now() + UNCONFIGURED_WAIT, why=unused)
        return False
    run: ForecastRun | None = None
    try:
        if why := await _refresh_unlisted_question(job, claim):
            await _postpone_unlisted(context, claim, why)
            return False
        question = await context.ledger.questions.get(claim.ref)
        if why := job.exclusion_reason(question):
            await context.ledger.schedule.postpone(claim, until=context.clock.now() + EXCLUDED_WAIT, why=why)
            return False
        run = await begin_forecast(context, forecaster, question, claim.why, apart=claim.forecast_only)
        admitted.scope = run.running.id
        await run.run()
    except NoAnswerError as nothing:
        failures.record_refused_credentials(claim.forecaster, nothing.details)
        until = await _postpone_claim(context, claim, run=run, why=str(nothing))
        failures.log_postponement(claim, until=until, why=str(nothing), error=None)
    except Exception as error:  # noqa: BLE001 - what goes wrong with one question must cost no other its forecast
        # A ledger that cannot be written any more refuses the postponement too, and that error ends the pass.
        why = describe_error(error)
        failures.log_postponement(
            claim, until=await _postpone_claim(context, claim, run=run, why=why), why=why, error=error
        )
    else:
        failures.record_success(claim.forecaster)
        return True
    return False


async def _refresh_unlisted_question(job: ForecastJobContext, claim: ForecastLease) -> str | None:
    """Record a question as it is now if its venue stopped listing it; return why it cannot be forecast, or None.

    It may have closed before its time, without an outcome, or only have left the filters of the list.
    """
    venue, ledger = claim.ref.venue, job.context.ledger
    if claim.why == REQUESTED_REASON or claim.ref in job.listed_questions.get(venue, ()):
        return None
    reader = job.readers.get(venue)
    if not isinstance(reader, QuestionReader):
        return None
    try:
        question = await reader.find_question(claim.ref.key)
    except (NotFoundError, RequestRejectedError) as error:
        return f"{venue} no longer lists it: {error}"
    if question.ref != claim.ref:
        return f"{venue} no longer lists it, and finds {question.ref} by its name"
    await ledger.questions.record([question], seen_at=job.context.clock.now())
    return None


async def _postpone_unlisted(context: ForecastContext, claim: ForecastLease, why: str) -> None:
    """Postpone a question that its venue may open again; after its scheduled close it is not due any more."""
    if claim.closes_at is not None and claim.closes_at <= context.clock.now():
        until = None
        await context.ledger.schedule.postpone(claim, until=until, why=why)
    else:
        until = await _postpone_claim(context, claim, run=None, why=why)
    log.info("not forecast", question=str(claim.ref), why=why, until=until and until.isoformat(timespec="seconds"))


async def _postpone_claim(
    context: ForecastContext, claim: ForecastLease, *, run: ForecastRun | None, why: str
) -> datetime:
    wait = RETRY_AFTER[min(claim.attempt, len(RETRY_AFTER)) - 1]
    now = context.clock.now()
    if claim.closes_at is not None and claim.closes_at > now:
        # A longer wait than half of what is left might end after the close.
        wait = min(wait, max(RETRY_AFTER[0], (claim.closes_at - now) / 2))
    until = now + wait
    if run is None:
        await context.ledger.schedule.postpone(claim, until=until, why=why)
    else:
        await context.ledger.forecasts.fail(run.running.id, why=why, at=context.clock.now(), postponed=(claim, until))
    return until
