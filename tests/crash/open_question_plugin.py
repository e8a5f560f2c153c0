"""A plugin for the campaign against paid answers.

A fake venue whose questions stay open, and a search engine that logs each search.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bot.api import (
    BinaryPrediction,
    BinaryShape,
    ChoiceShape,
    CrowdForecast,
    CurveShape,
    LocalPath,
    PluginContext,
    PluginSettings,
    Question,
    QuestionRef,
    QuestionShape,
    Resolution,
    SearchEngine,
    SearchResult,
    SearchSpec,
    Target,
    VenueReader,
    VenueSpec,
    hookimpl,
)

ASKED_AT = datetime(2026, 1, 1, tzinfo=UTC)
SHAPES: tuple[QuestionShape, ...] = (
    BinaryShape(),
    ChoiceShape(options=("low", "middle", "high")),
    CurveShape(grid=tuple(map(float, range(11)))),
)


class OpenQuestionVenueSettings(PluginSettings):
    """How many questions there are."""

    questions: int = 6


class LoggingSearchSettings(PluginSettings):
    """Where searches are noted."""

    notes: LocalPath = Path("searches.txt")


class OpenQuestionVenue:
    """A venue whose questions never close and never resolve."""

    def __init__(self, size: int) -> None:
        self.size = size

    async def questions(self) -> AsyncIterator[Question]:
        for number in range(self.size):
            shape = SHAPES[number % len(SHAPES)]
            crowd = (
                CrowdForecast(prediction=BinaryPrediction(0.3), at=ASKED_AT) if isinstance(shape, BinaryShape) else None
            )
            yield Question(
                ref=QuestionRef("reef", f"fish {number}"),
                title=f"How will fish {number} fare?",
                shape=shape,
                targets=(Target(resolves_at=ASKED_AT + timedelta(days=3650)),),
                crowd=crowd,
            )

    async def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
        nothing: tuple[Resolution, ...] = ()
        for resolution in nothing:
            yield resolution


class LoggingSearchEngine:
    """A search engine that writes down what it was asked before it answers."""

    def __init__(self, notes: Path) -> None:
        self.notes = notes

    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[SearchResult]:
        with self.notes.open("a", encoding="utf-8") as file:
            file.write(f"{query}\n")
        snippet = f"All that is known of {query}."
        return [SearchResult(url="https://reef.example/fish", title=query, snippet=snippet, published_at=ASKED_AT)][
            :limit
        ]


@asynccontextmanager
async def open_reef(settings: OpenQuestionVenueSettings, context: PluginContext) -> AsyncIterator[VenueReader]:
    yield OpenQuestionVenue(settings.questions)


@asynccontextmanager
async def open_spot(settings: LoggingSearchSettings, context: PluginContext) -> AsyncIterator[SearchEngine]:
    yield LoggingSearchEngine(settings.notes)


@hookimpl
def foxcast_venues() -> list[VenueSpec[OpenQuestionVenueSettings]]:
    return [VenueSpec(name="reef", summary="A reef", settings=OpenQuestionVenueSettings, reader=open_reef)]


@hookimpl
def foxcast_search_engines() -> list[SearchSpec[LoggingSearchSettings]]:
    return [SearchSpec(name="spot", summary="Notes", settings=LoggingSearchSettings, open=open_spot, bounds_dates=True)]
