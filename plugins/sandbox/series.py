"""The statistical office of the simulated world as a data source: series as they were at any moment.

Questions of the sandbox name their series in their text (``SIM-PRIC-F012``), and those of its benchmark as their id.
"""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime
from itertools import pairwise
from typing import Literal, Self
from urllib.parse import quote

from pydantic import BaseModel, FiniteFloat, model_validator

from bot.api import DataSource, NotFoundError, PluginContext, Question, TimeSeries
from plugins.sandbox.settings import SandboxSettings, parse_reply

SOURCE = "sandbox_series"
# The sources of questions, as the venues of the sandbox name them.
QUESTION_SOURCES = frozenset({"manifold", "metaculus", "polymarket", "dbnomics", "fred", "yfinance"})
MAX_BYTES = 1_000_000
# A letter for the venue, and a number of three digits or more.
_SERIES_NAME = re.compile(r"\bSIM-[A-Z]{4}-[A-Z][0-9]{3,}\b")


class _Reply(BaseModel):
    # An answer without this field is not from the sandbox.
    simulation: Literal[True]
    name: str
    title: str
    unit: str
    points: list[tuple[date, FiniteFloat]]

    @model_validator(mode="after")
    def _require_ordered_days(self) -> Self:
        if any(one >= other for (one, _), (other, _) in pairwise(self.points)):
            message = "the days are not in order"
            raise ValueError(message)
        return self


class SandboxSeries:
    """Implements DataSource."""

    def __init__(self, settings: SandboxSettings, context: PluginContext) -> None:
        self._settings = settings
        self._http = context.http

    def series_names(self, question: Question) -> Sequence[str]:
        texts = (question.source_id, question.title, question.background, question.criteria)
        return tuple(dict.fromkeys(_SERIES_NAME.findall("\n".join(texts))))

    async def series(self, name: str, *, before: datetime) -> TimeSeries:
        """Return the values of the days that were over; raises NotFoundError where there are none."""
        moment = before.astimezone(UTC)
        url = self._settings.request_url(f"series/{quote(name, safe='')}", {"as_of": moment.isoformat()})
        found = parse_reply(_Reply, await self._http.get(url, max_bytes=MAX_BYTES), SOURCE)
        points = [(day, value) for day, value in found.points if day < moment.date()]
        if not points:
            message = f"{SOURCE}: {name} has nothing before {moment:%Y-%m-%d}"
            raise NotFoundError(message)
        return TimeSeries(
            name=name,
            unit=f"{found.unit} ({found.title}; simulation)",
            source=SOURCE,
            dates=tuple(day for day, _ in points),
            values=tuple(value for _, value in points),
        )


@asynccontextmanager
async def open_series(settings: SandboxSettings, context: PluginContext) -> AsyncIterator[DataSource]:
    """Yield the source; there is nothing to close."""
    yield SandboxSeries(settings, context)
