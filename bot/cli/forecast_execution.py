"""One forecast that a person asked for: made in this process, or by the running daemon and followed in its ledger."""

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

from bot.app.app import FoxcastApp
from bot.app.forecaster_requirements import search_unavailable_reason
from bot.cli.forecast_progress import ForecastView
from bot.cli.forecast_result import FreeForecast
from bot.cli.output.formatting import format_minute
from bot.cli.question_lookup import FoundQuestion
from bot.cli.signed_requests import sign_request
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
from bot.core.operator_requests import ForecastQuestion
from bot.core.questions import Question
from bot.forecasting.forecast_run import REQUESTED_REASON, ConfiguredForecaster, NoAnswerError, begin_forecast
from bot.forecasting.tool_factory import ToolFactory, is_backdated
from bot.forecasting.trial_tools import question_cutoff
from bot.llm.roles import configured_models, provider_name
from bot.plugin_system.registry import Registry
from bot.store.database import is_holder_running, last_holder
from bot.store.forecast_queries import ForecastAttempt, read_forecast_status
from bot.store.ledger import ReadOnlyState
from bot.store.requests import REFUSED_FOLDER, send_request, withdraw_request
from bot.store.serialization import question_version

T = TypeVar("T")

# Well before the tools of a desk would take the moment for one long past.
MAX_SHARED_CUTOFF_AGE = timedelta(hours=1)

# What the failure of trials is told as.
FAILURE_TYPES: Mapping[str, type[FoxcastError]] = {
    kind.__name__: kind
    for kind in (
        *(ConfigError, AuthenticationError, QuotaExhaustedError, ServiceUnavailableError, ServerUnreachableError),
        *(RequestRejectedError, BudgetExhaustedError, ContextLengthExceededError),
    )
}


@dataclass(frozen=True, slots=True)
class LocalForecast:
    """One question in an open Foxcast; ``view_for`` makes the view of a forecaster.

    Nothing after ``known_until`` informs a forecast, where that is given. Unless it is to ``submit`` the forecast never
    leaves.
    """

    app: FoxcastApp
    question: Question
    view_for: Callable[[str], ForecastView]
    known_until: datetime | None = None
    submit: bool = False

    async def forecast(self, name: str) -> str:
        """Forecast, after those that it builds on, and return the id; raises why too many trials failed.

        A member that is there as it would be made now is not made again; one that fails is left out.
        """
        opened, seat, question = self.app, self.app.forecasters[name], self.question
        view = self.view_for(name)
        for member in seat.members:
            await self._member(member, view)
        _report_missing_search(opened, seat, question, view)
        with view.live_display():
            return await self._forecast(seat, view)

    async def forecast_free(self, name: str) -> FreeForecast:
        """Forecast with a free forecaster, unless what it said can only be repeated; its failure is no trouble."""
        opened, seat, question = self.app, self.app.forecasters[name], self.question
        ledger, now = opened.ledger, opened.clock.now()
        known = await ledger.forecasts.latest(question.ref, name)
        if (
            known is not None
            and is_for_current_version(known, question)
            and known.cutoff == question_cutoff(question, now)
        ):
            return FreeForecast(name=name, forecast=known)
        sitting = await begin_forecast(opened.forecast_context, seat, question, REQUESTED_REASON, apart=not self.submit)
        made, why = await result_or_failure(sitting.run())
        if made is None:
            await ledger.forecasts.fail(sitting.running.id, why=why, at=opened.clock.now())
        return FreeForecast(name=name, forecast=made, why=why)

    async def _forecast(self, seat: ConfiguredForecaster, view: ForecastView) -> str:
        opened = self.app
        means = dataclasses.replace(opened.forecast_context, observer=view)
        sitting = await begin_forecast(
            means, seat, self.question, REQUESTED_REASON, known_until=self.known_until, apart=not self.submit
        )
        if sitting.running.trials:
            view.print_status(f"forecast {sitting.running.id} was cut off; it goes on")
        view.show_recorded([record for record in sitting.running.trials if record.trial is not None])
        try:
            return (await sitting.run()).id
        except NoAnswerError as nothing:
            forecasts = opened.ledger.forecasts
            await forecasts.fail(sitting.running.id, why=str(nothing), at=opened.clock.now())
            raise _failure_cause(nothing) from nothing

    async def _member(self, name: str, view: ForecastView) -> None:
        opened, question = self.app, self.question
        known = await opened.ledger.forecasts.latest(question.ref, name)
        oldest = (
            question_cutoff(question, self.known_until or opened.clock.now()) - opened.forecast_context.policy.min_gap
        )
        if known is not None and is_for_current_version(known, question) and known.cutoff >= oldest:
            return
        view.print_status(f"{name} forecasts first")
        made, why = await result_or_failure(self.forecast(name))
        if made is None:
            view.print_status(f"{name} is left out: {why}")


def shared_cutoff(known_until: datetime | None, now: datetime) -> datetime | None:
    """Return until when forecasts of one command know things; None, until now, once the world has gone on since."""
    return known_until if known_until is not None and now - known_until <= MAX_SHARED_CUTOFF_AGE else None


async def result_or_failure(work: Awaitable[T]) -> tuple[T | None, str]:
    """Return what comes of work, or None and why nothing did; a ledger that takes nothing any more ends everything."""
    try:
        return await work, ""
    except StoreError:
        raise
    except (NoAnswerError, FoxcastError) as error:
        return None, str(error)


def asks_person(config: Config, registry: Registry) -> bool:
    """Say whether a person plays a role, and is asked on this terminal."""
    named = {provider_name(model) for model in configured_models(config.llm)}
    return any(spec.is_interactive for spec in registry.models if spec.name in named)


def is_for_current_version(made: Forecast, question: Question) -> bool:
    """Say whether a forecast is of the question as it stands."""
    return made.version == question_version(question)


def _report_missing_search(
    opened: FoxcastApp, seat: ConfiguredForecaster, question: Question, view: ForecastView
) -> None:
    """Say it where an earlier moment stands in the way of searches; that there are none at all is a warning."""
    workshop, now = opened.forecast_context.resources, opened.clock.now()
    if not seat.uses_models or seat.clairvoyant or not isinstance(workshop, ToolFactory) or not workshop.search_engines:
        return
    backdated = is_backdated(question, question_cutoff(question, now), now)
    if backdated and (why := search_unavailable_reason(workshop, backdated=True)) is not None:
        view.print_status(why)


def _failure_cause(nothing: NoAnswerError) -> FoxcastError:
    """Return the error of the first trial that failed, with the reasons of all of them."""
    name = nothing.details[0].partition(": ")[0] if nothing.details else ""
    return FAILURE_TYPES.get(name, ServiceUnavailableError)(str(nothing))


POLL_EVERY_S = 0.5
MAX_NOTES_READ = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonForecast:
    """What is asked of a daemon, read from its ledger, and shown; ``before`` is the newest attempt until then."""

    records: ReadOnlyState
    clock: Clock
    found_question: FoundQuestion
    forecaster: str
    view: ForecastView
    before: ForecastAttempt | None
    submit: bool = False

    async def send_request(self, *, token_file: Path | None = None) -> Path:
        """Leave the request and return its place; raises Unauthorized for somebody who may not ask."""
        question = self.found_question.question
        request = ForecastQuestion(
            ref=question.ref,
            forecaster=self.forecaster,
            question=question if self.found_question.needs_recording else None,
            submit=self.submit,
        )
        mine = await sign_request(self.records.folder, request, token_file=token_file)
        return send_request(self.records.folder, mine, at=self.clock.now())

    async def wait_for_forecast(self, request: Path) -> str | None:
        """Show the forecast until it is made and return its id; None where the daemon ended before that.

        A request that the daemon did not come to is taken back then. Raises Rejected for one that it refused, with its
        reason, and Unavailable for a forecast that came to nothing.
        """
        while True:
            # Who ends after this look has left on record whatever it did.
            ended = not is_daemon_running(self.records.folder)
            if _is_pending(request):
                self.view.print_status(
                    "asked for; the Foxcast that runs takes it up, or else this one does when that ends"
                )
            elif _is_pending(request.parent / REFUSED_FOLDER / request.name):
                await self._raise_refusal(request.name)
            elif made := await self._check_ledger():
                return made
            if ended:
                withdraw_request(request)
                return None
            await self.clock.sleep(POLL_EVERY_S)

    async def _check_ledger(self) -> str | None:
        ref = self.found_question.question.ref
        standing = await read_forecast_status(self.records.ledger.forecasts.readers, ref, self.forecaster)
        attempt = standing.attempt
        if attempt is not None and self._is_requested_attempt(attempt):
            trace = await self.records.ledger.forecasts.trace(attempt.id)
            self.view.show_recorded(trace.trials)
            if attempt.state == "done":
                return attempt.id
            if attempt.state == "failed":
                message = f"{self.forecaster} came to no answer on {ref}: {attempt.detail}"
                raise ServiceUnavailableError(message)
            return None
        place = standing.place
        if place is None or place.held:
            return None
        if place.due_at is None or place.due_at > self.clock.now():
            when = f"put off until {format_minute(place.due_at)} UTC"
            message = f"the daemon has {ref} {when} for {self.forecaster}: {place.why}"
            raise ServiceUnavailableError(message)
        self.view.print_status("due now; the daemon begins it when its turn comes, what closes sooner goes first")
        return None

    def _is_requested_attempt(self, attempt: ForecastAttempt) -> bool:
        before = self.before
        return before is None or attempt.revision > before.revision or before.state == "running"

    async def _raise_refusal(self, name: str) -> None:
        for event in await self.records.ledger.events.recent(MAX_NOTES_READ, "request"):
            _, found, why = event.text.partition(f"{name}: ")
            if found:
                message = f"the daemon that runs refused the forecast: {why}"
                raise RequestRejectedError(message)


async def load_newest_attempt(records: ReadOnlyState, wanted: FoundQuestion, forecaster: str) -> ForecastAttempt | None:
    """Return the newest attempt at a question, before another one is asked for."""
    return (await read_forecast_status(records.ledger.forecasts.readers, wanted.question.ref, forecaster)).attempt


def is_daemon_running(folder: Path) -> bool:
    """Say whether who took the state folder last still runs."""
    holder = last_holder(folder)
    return holder is None or is_holder_running(holder)


def _is_pending(request: Path) -> bool:
    return request.exists()
