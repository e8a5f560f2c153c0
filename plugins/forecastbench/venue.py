"""The reading half of the venue: questions of the chosen rounds, and outcomes of whatever was forecast."""

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import date

import structlog

from bot.api import NotFound, Question, QuestionRef, Resolution, Venue, Workplace
from plugins.forecastbench.rounds import Rounds, rounds_from
from plugins.forecastbench.settings import Chosen, ForecastBenchSettings
from plugins.forecastbench.terms import due_date_of

log = structlog.get_logger(__name__)


class ForecastBenchVenue:
    """Several rounds side by side; one of them is in memory at a time.

    Unresolved market rows are prices and are never yielded; a question without a row (nullified, or no data yet) stays
    pending. Whether an outcome is new or corrected is the ledger's business.
    """

    def __init__(self, rounds: Rounds, chosen: Chosen) -> None:
        self._rounds = rounds
        self._chosen = chosen
        self._noted: dict[tuple[str, date], tuple[int, int]] = {}

    async def questions(self) -> AsyncIterator[Question]:
        """Yield the questions of the chosen rounds, the newest round first."""
        for due in sorted(await self._due_dates(), reverse=True):
            found = await self._rounds.questions(due)
            self._note("questions left out", due, found.combinations, found.complaints)
            for question in found.questions:
                yield question

    async def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
        """Yield what has resolved among the pending questions, round by round, oldest first."""
        by_due: dict[date, set[QuestionRef]] = defaultdict(set)
        for ref in pending:
            by_due[due_date_of(ref)].add(ref)
        for due in sorted(by_due):
            try:
                found = await self._rounds.resolutions(due)
            except NotFound:
                continue  # published from about ten days after the due date on
            self._note("outcomes left out", due, found.combinations, found.complaints)
            for resolution in found.resolutions:
                if resolution.ref in by_due[due]:
                    yield resolution

    async def _due_dates(self) -> Sequence[date]:
        if self._chosen == "latest":
            return (await self._rounds.latest(),)
        if self._chosen == "all":
            return await self._rounds.due_dates()
        return self._chosen

    def _note(self, event: str, due: date, combinations: int, complaints: Sequence[str]) -> None:
        counts = (combinations, len(complaints))
        if any(counts) and self._noted.get((event, due)) != counts:
            log.warning(
                event, due_date=due.isoformat(), combinations=combinations, bad=len(complaints), first=complaints[:3]
            )
        self._noted[event, due] = counts


@asynccontextmanager
async def open_reader(settings: ForecastBenchSettings, workplace: Workplace) -> AsyncIterator[Venue]:
    """Open the reader; raises NotFound where the source names a path without rounds."""
    yield ForecastBenchVenue(rounds_from(settings, workplace.http), settings.rounds)
