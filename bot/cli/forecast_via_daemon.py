"""A forecast made by the running daemon: requested through its mailbox and followed in the ledger."""

from dataclasses import dataclass
from pathlib import Path

from bot.cli.forecast_progress import ForecastView
from bot.cli.output.formatting import format_minute
from bot.cli.question_lookup import FoundQuestion
from bot.cli.signed_requests import sign_request
from bot.core.errors import RequestRejectedError, ServiceUnavailableError
from bot.core.interfaces import Clock
from bot.core.operator_requests import ForecastQuestion
from bot.store.database import is_holder_running, last_holder
from bot.store.forecast_queries import ForecastAttempt, read_forecast_status
from bot.store.ledger import ReadOnlyState
from bot.store.requests import REFUSED_FOLDER, send_request, withdraw_request

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
