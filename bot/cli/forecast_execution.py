"""One forecast that a person asked for: made in this process, or by the running daemon and followed in its ledger."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

from bot.app.app import FoxcastApp
from bot.app.forecaster_requirements import search_unavailable_reason
from bot.cli.daemon_requests import is_pending, read_refusal, sign_request
from bot.cli.forecast_progress import ForecastView
from bot.cli.forecast_result import FreeForecast
from bot.cli.question_lookup import FoundQuestion
from bot.config.schema import Config
from bot.core.errors import (
    AuthenticationError,
    BudgetExhaustedError,
    ConfigError,
    ContextLengthExceededError,
    FoxcastError,
    QuotaExhaustedError,
    RequestRejectedError,
    ServerUnreachableError,
    ServiceUnavailableError,
    StoreError,
)
from bot.core.forecasts import Forecast
from bot.core.interfaces import Clock
from bot.core.light_dataclass import dataclass
from bot.core.operator_requests import ForecastQuestion
from bot.core.questions import Question
from bot.evaluation.value_text import format_minute
from bot.forecasting.forecast_run import REQUESTED_REASON, ConfiguredForecaster, NoAnswerError, begin_forecast
from bot.forecasting.tool_factory import ToolFactory, is_backdated
from bot.forecasting.trial_tools import question_cutoff
from bot.llm.roles import configured_models, provider_name
from bot.plugin_system.registry import Registry
from bot.store.database import find_running_holder
from bot.store.forecast_queries import ForecastAttempt, read_forecast_status
from bot.store.integrity_checks import low_disk_reason
from bot.store.ledger import ReadOnlyState
from bot.store.requests import send_request, withdraw_request
from bot.store.serialization import question_version

T = TypeVar("T")

# Seconds without a step after which a person sees what a forecast waits for.
WAITING_NOTE_S = 15.0
# Well below the age at which the trial tools would treat the cutoff as being in the past.
MAX_SHARED_CUTOFF_AGE = timedelta(hours=1)

# The error that reports failed trials, by the error that ended the first of them.
FAILURE_TYPES: Mapping[str, type[FoxcastError]] = {
    kind.__name__: kind
    for kind in (
        *(ConfigError, AuthenticationError, QuotaExhaustedError, ServiceUnavailableError, ServerUnreachableError),
        *(RequestRejectedError, BudgetExhaustedError, ContextLengthExceededError),
    )
}


@dataclass(frozen=True, slots=True)
class LocalForecast:
    """Forecasts of one question in an open Foxcast; ``make_view`` makes the progress view of a forecaster.

    With ``known_until``, no later information is used. Without ``submit`` the forecast is never submitted.
    """

    app: FoxcastApp
    question: Question
    make_view: Callable[[str], ForecastView]
    known_until: datetime | None = None
    submit: bool = False

    async def make_forecast(self, name: str) -> str:
        """Forecast, after the members of the forecaster, and return the id; raises the error of failed trials.

        A current forecast of a member is used again; a member that fails is left out. Raises StoreError if too little
        of the disk is free.
        """
        if reason := low_disk_reason(self.app.folder, self.app.config.daemon.min_free_mb * 1e6):
            raise StoreError(reason)
        forecaster = self.app.forecasters[name]
        view = self.make_view(name)
        for member in forecaster.members:
            await self._forecast_member(member, view)
        _report_missing_search(self.app, forecaster, self.question, view)
        with view.live_display():
            return await self._run_trials(forecaster, view)

    async def make_free_forecast(self, name: str) -> FreeForecast:
        """Forecast with a free forecaster, unless its current forecast would be repeated; it may fail."""
        opened, forecaster, question = self.app, self.app.forecasters[name], self.question
        ledger, now = opened.ledger, opened.clock.now()
        known = await ledger.forecasts.latest(question.ref, name)
        if (
            known is not None
            and is_for_current_version(known, question)
            and known.cutoff == question_cutoff(question, now)
        ):
            return FreeForecast(name=name, forecast=known)
        run = await begin_forecast(
            opened.forecast_context, forecaster, question, REQUESTED_REASON, apart=not self.submit
        )
        forecast, why = await result_or_failure(run.run())
        if forecast is None:
            await ledger.forecasts.fail(run.running.id, why=why, at=opened.clock.now())
        return FreeForecast(name=name, forecast=forecast, why=why)

    async def _run_trials(self, forecaster: ConfiguredForecaster, view: ForecastView) -> str:
        opened = self.app
        context = dataclasses.replace(opened.forecast_context, observer=view)
        run = await begin_forecast(
            context, forecaster, self.question, REQUESTED_REASON, known_until=self.known_until, apart=not self.submit
        )
        if run.running.trials:
            view.print_status(f"forecast {run.running.id} was interrupted; it is resumed")
        view.show_recorded([record for record in run.running.trials if record.trial is not None])
        waiting = asyncio.create_task(self._report_waiting(view))
        try:
            return (await run.run()).id
        except NoAnswerError as error:
            await opened.ledger.forecasts.fail(run.running.id, why=str(error), at=opened.clock.now())
            raise _failure_cause(error) from error
        finally:
            waiting.cancel()

    async def _report_waiting(self, view: ForecastView) -> None:
        """Print what the forecast waits for while no step ends, each time after twice as long."""
        clock, roles = self.app.clock, self.app.config.llm.roles
        asked = ", ".join(
            f"{name} = {role.model} (a call: at most {role.timeout_s:g} s)" for name, role in roles.items()
        )
        began_s, seen, wait_s = clock.monotonic(), view.moves, WAITING_NOTE_S
        while True:
            await clock.sleep(wait_s)
            if view.moves != seen:
                began_s, seen, wait_s = clock.monotonic(), view.moves, WAITING_NOTE_S
                continue
            quiet_s = clock.monotonic() - began_s
            models = f"of the models {asked}, " if asked else ""
            view.print_status(f"no step for {quiet_s:.0f} s: waiting for an answer {models}or of a tool")
            wait_s = quiet_s

    async def _forecast_member(self, name: str, view: ForecastView) -> None:
        opened, question = self.app, self.question
        known = await opened.ledger.forecasts.latest(question.ref, name)
        oldest = (
            question_cutoff(question, self.known_until or opened.clock.now()) - opened.forecast_context.policy.min_gap
        )
        if known is not None and is_for_current_version(known, question) and known.cutoff >= oldest:
            return
        view.print_status(f"{name} forecasts first")
        forecast, why = await result_or_failure(self.make_forecast(name))
        if forecast is None:
            view.print_status(f"{name} is left out: {why}")


def shared_cutoff(known_until: datetime | None, now: datetime) -> datetime | None:
    """Return the cutoff that the forecasts of one command share; None, for the current time, once it is too old."""
    return known_until if known_until is not None and now - known_until <= MAX_SHARED_CUTOFF_AGE else None


async def result_or_failure(work: Awaitable[T]) -> tuple[T | None, str]:
    """Return the result of the work, or None and the reason; an error of the ledger is raised."""
    try:
        return await work, ""
    except StoreError:
        raise
    except (NoAnswerError, FoxcastError) as error:
        return None, str(error)


def asks_person(config: Config, registry: Registry) -> bool:
    """Return whether a person plays a role of a model and is asked on this terminal."""
    named = {provider_name(model) for model in configured_models(config.llm)}
    return any(spec.is_interactive for spec in registry.models if spec.name in named)


def is_for_current_version(forecast: Forecast, question: Question) -> bool:
    """Return whether a forecast was made for the current version of a question."""
    return forecast.version == question_version(question)


def _report_missing_search(
    opened: FoxcastApp, forecaster: ConfiguredForecaster, question: Question, view: ForecastView
) -> None:
    """Report that an earlier cutoff rules out searches; having no search engine at all is a warning of its own."""
    tools, now = opened.forecast_context.resources, opened.clock.now()
    if not forecaster.uses_models or forecaster.clairvoyant:
        return
    if not isinstance(tools, ToolFactory) or not tools.search_engines:
        return
    backdated = is_backdated(question, question_cutoff(question, now), now)
    if backdated and (why := search_unavailable_reason(tools, backdated=True)) is not None:
        view.print_status(why)


def _failure_cause(error: NoAnswerError) -> FoxcastError:
    """Return the error of the first trial that failed, with the reasons of all of them."""
    name = error.details[0].partition(": ")[0] if error.details else ""
    return FAILURE_TYPES.get(name, ServiceUnavailableError)(str(error))


FOLLOW_EVERY_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonForecast:
    """A forecast requested from the daemon and followed in its ledger; ``before`` is the newest earlier attempt."""

    records: ReadOnlyState
    clock: Clock
    found_question: FoundQuestion
    forecaster: str
    view: ForecastView
    before: ForecastAttempt | None
    submit: bool = False

    async def send_request(self, *, token_file: Path | None = None) -> Path:
        """Write the request and return its path; raises AuthenticationError for a caller without the role."""
        question = self.found_question.question
        request = ForecastQuestion(
            ref=question.ref,
            forecaster=self.forecaster,
            question=question if self.found_question.needs_recording else None,
            submit=self.submit,
        )
        signed = await sign_request(self.records.folder, request, token_file=token_file)
        return send_request(self.records.folder, signed, at=self.clock.now())

    async def wait_for_forecast(self, request: Path) -> str | None:
        """Show the forecast until it is complete and return its id; None if the daemon ended before that.

        A request that the daemon did not handle is withdrawn then. Raises RequestRejectedError, with the reason, for a
        refused request, and ServiceUnavailableError for a forecast without an answer.
        """
        while True:
            # Checked first: what a daemon did before it ended is in the ledger by the time that is read.
            ended = find_running_holder(self.records.folder) is None
            if is_pending(request):
                self.view.print_status("requested; the running Foxcast makes it, or this one if that ends before")
            elif reason := await read_refusal(self.records.folder, request, self.clock):
                message = f"the running daemon refused the forecast: {reason}"
                raise RequestRejectedError(message)
            elif forecast := await self._check_ledger():
                return forecast
            if ended:
                withdraw_request(request)
                return None
            await self.clock.sleep(FOLLOW_EVERY_S)

    async def _check_ledger(self) -> str | None:
        ref = self.found_question.question.ref
        status = await read_forecast_status(self.records.ledger.forecasts.readers, ref, self.forecaster)
        attempt = status.attempt
        if attempt is not None and self._is_requested_attempt(attempt):
            trace = await self.records.ledger.forecasts.trace(attempt.id)
            self.view.show_recorded(trace.trials)
            if attempt.state == "done":
                return attempt.id
            if attempt.state == "failed":
                message = f"{self.forecaster} gave no answer on {ref}: {attempt.detail}"
                raise ServiceUnavailableError(message)
            return None
        entry = status.place
        if entry is None or entry.held:
            return None
        if entry.due_at is None or entry.due_at > self.clock.now():
            message = (
                f"the daemon postponed {ref} until {format_minute(entry.due_at)} UTC for {self.forecaster}: {entry.why}"
            )
            raise ServiceUnavailableError(message)
        self.view.print_status("due now; the daemon starts it in turn, questions that close sooner first")
        return None

    def _is_requested_attempt(self, attempt: ForecastAttempt) -> bool:
        before = self.before
        if self.submit and attempt.forecast_only:
            # It ended before the daemon came to the request, which has another one made.
            return False
        return before is None or attempt.revision > before.revision or before.state == "running"


async def load_newest_attempt(records: ReadOnlyState, question: Question, forecaster: str) -> ForecastAttempt | None:
    """Return the newest attempt at a question, before another one is requested."""
    return (await read_forecast_status(records.ledger.forecasts.readers, question.ref, forecaster)).attempt
