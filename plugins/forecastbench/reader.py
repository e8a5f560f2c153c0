"""The reading half of the venue: questions of the chosen rounds, and outcomes of forecast questions."""

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import date

import structlog

from bot.api import NotFoundError, PluginContext, Question, QuestionRef, Resolution, VenueReader
from plugins.forecastbench.file_format import due_date_of
from plugins.forecastbench.round_sources import RoundSource, open_round_source
from plugins.forecastbench.settings import ForecastBenchSettings, RoundSelection

log = structlog.get_logger(__name__)


class ForecastBenchReader:
    """Reads several rounds; only one of them is in memory at a time.

    Unresolved market rows are prices and are never yielded; a question without a row (nullified, or no data yet) stays
    pending. The ledger decides whether an outcome is new or corrected.
    """

    def __init__(self, rounds: RoundSource, chosen: RoundSelection) -> None:
        self._rounds = rounds
        self._selection = chosen
        self._noted: dict[tuple[str, date], tuple[int, int]] = {}

    async def questions(self) -> AsyncIterator[Question]:
        """Yield the questions of the chosen rounds, the newest round first."""
        for due in sorted(await self._due_dates(), reverse=True):
            found = await self._rounds.questions(due)
            self._note("questions ignored", due, found.combinations, found.complaints)
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
            except NotFoundError:
                continue  # published from about ten days after the due date on
            self._note("outcomes ignored", due, found.combinations, found.complaints)
            for resolution in found.resolutions:
                if resolution.ref in by_due[due]:
                    yield resolution

    async def _due_dates(self) -> Sequence[date]:
        if self._selection == "latest":
            return (await self._rounds.latest(),)
        if self._selection == "all":
            return await self._rounds.due_dates()
        return self._selection

    def _note(self, event: str, due: date, combinations: int, complaints: Sequence[str]) -> None:
        counts = (combinations, len(complaints))
        if any(counts) and self._noted.get((event, due)) != counts:
            log.warning(
                event, due_date=due.isoformat(), combinations=combinations, bad=len(complaints), first=complaints[:3]
            )
        self._noted[event, due] = counts


@asynccontextmanager
async def open_reader(settings: ForecastBenchSettings, context: PluginContext) -> AsyncIterator[VenueReader]:
    """Open the reader; raises NotFoundError where the source names a path without rounds."""
    yield ForecastBenchReader(open_round_source(settings, context.http), settings.rounds)
