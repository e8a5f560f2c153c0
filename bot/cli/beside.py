"""A forecast that a running daemon makes: asked for with a request, and followed in the ledger as it goes."""

from dataclasses import dataclass
from pathlib import Path

from bot.app import Records
from bot.cli.leaving import signed
from bot.cli.output.figures import moment
from bot.cli.output.live import View
from bot.cli.wanted import Wanted
from bot.domain.request import ForecastQuestion
from bot.errors import Rejected, Unavailable
from bot.ports import Clock
from bot.store.attempts import Attempt, standing_of
from bot.store.lock import is_running, last_holder
from bot.store.mailbox import REFUSED, take_back
from bot.store.requests import ask

LOOK_EVERY_S = 0.5
NOTES_READ = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What is asked of a daemon, read from its ledger, and shown; ``before`` is the newest attempt until then."""

    records: Records
    clock: Clock
    wanted: Wanted
    forecaster: str
    view: View
    before: Attempt | None
    submit: bool = False

    async def ask(self, *, token_file: Path | None = None) -> Path:
        """Leave the request and return its place; raises Unauthorized for somebody who may not ask."""
        question = self.wanted.question
        request = ForecastQuestion(
            ref=question.ref,
            forecaster=self.forecaster,
            question=question if self.wanted.fresh else None,
            submit=self.submit,
        )
        mine = await signed(self.records.folder, request, token_file=token_file)
        return ask(self.records.folder, mine, at=self.clock.now())

    async def follow(self, request: Path) -> str | None:
        """Show the forecast until it is made and return its id; None where the daemon ended before that.

        A request that the daemon did not come to is taken back then. Raises Rejected for one that it refused, with its
        reason, and Unavailable for a forecast that came to nothing.
        """
        while True:
            # Who ends after this look has left on record whatever it did.
            ended = not daemon_runs(self.records.folder)
            if _waits(request):
                self.view.say("asked for; the Foxcast that runs takes it up, or else this one does when that ends")
            elif _waits(request.parent / REFUSED / request.name):
                await self._refused(request.name)
            elif made := await self._looked():
                return made
            if ended:
                take_back(request)
                return None
            await self.clock.sleep(LOOK_EVERY_S)

    async def _looked(self) -> str | None:
        ref = self.wanted.question.ref
        standing = await standing_of(self.records.ledger.forecasts.readers, ref, self.forecaster)
        attempt = standing.attempt
        if attempt is not None and self._is_ours(attempt):
            trace = await self.records.ledger.forecasts.trace(attempt.id)
            self.view.recall(trace.trials)
            if attempt.state == "done":
                return attempt.id
            if attempt.state == "failed":
                message = f"{self.forecaster} came to no answer on {ref}: {attempt.detail}"
                raise Unavailable(message)
            return None
        place = standing.place
        if place is None or place.held:
            return None
        if place.due_at is None or place.due_at > self.clock.now():
            when = f"put off until {moment(place.due_at)} UTC"
            message = f"the daemon has {ref} {when} for {self.forecaster}: {place.why}"
            raise Unavailable(message)
        self.view.say("due now; the daemon begins it when its turn comes, what closes sooner goes first")
        return None

    def _is_ours(self, attempt: Attempt) -> bool:
        before = self.before
        return before is None or attempt.revision > before.revision or before.state == "running"

    async def _refused(self, name: str) -> None:
        for event in await self.records.ledger.journal.recent(NOTES_READ, "request"):
            _, found, why = event.text.partition(f"{name}: ")
            if found:
                message = f"the daemon that runs refused the forecast: {why}"
                raise Rejected(message)


async def newest_attempt(records: Records, wanted: Wanted, forecaster: str) -> Attempt | None:
    """Return the newest attempt at a question, before another one is asked for."""
    return (await standing_of(records.ledger.forecasts.readers, wanted.question.ref, forecaster)).attempt


def daemon_runs(folder: Path) -> bool:
    """Say whether who took the state folder last still runs."""
    holder = last_holder(folder)
    return holder is None or is_running(holder)


def _waits(request: Path) -> bool:
    return request.exists()
