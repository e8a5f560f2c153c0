"""A plugin for the campaign against paid answers: questions that stay open, and a search engine that notes each search.

Loaded as a single file by the daemon under test, so it imports only what a plugin may.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bot.api import (
    Binary,
    BinaryShape,
    Can,
    ChoiceShape,
    Crowd,
    CurveShape,
    Hit,
    LocalPath,
    Question,
    QuestionRef,
    Resolution,
    SearchEngine,
    SearchSpec,
    Settings,
    Shape,
    Target,
    Venue,
    VenueSpec,
    Workplace,
    hookimpl,
)

ASKED_AT = datetime(2026, 1, 1, tzinfo=UTC)
SHAPES: tuple[Shape, ...] = (
    BinaryShape(),
    ChoiceShape(options=("low", "middle", "high")),
    CurveShape(grid=tuple(map(float, range(11)))),
)


class ReefSettings(Settings):
    """How many questions there are."""

    questions: int = 6


class SpotSettings(Settings):
    """Where searches are noted."""

    notes: LocalPath = Path("searches.txt")


class Reef:
    """A venue whose questions never close and never resolve."""

    def __init__(self, size: int) -> None:
        self.size = size

    async def questions(self) -> AsyncIterator[Question]:
        for number in range(self.size):
            shape = SHAPES[number % len(SHAPES)]
            crowd = Crowd(prediction=Binary(0.3), at=ASKED_AT) if isinstance(shape, BinaryShape) else None
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


class Spot:
    """A search engine that writes down what it was asked before it answers."""

    def __init__(self, notes: Path) -> None:
        self.notes = notes

    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[Hit]:
        with self.notes.open("a", encoding="utf-8") as file:
            file.write(f"{query}\n")
        snippet = f"All that is known of {query}."
        return [Hit(url="https://reef.example/fish", title=query, snippet=snippet, published_at=ASKED_AT)][:limit]


@asynccontextmanager
async def open_reef(settings: ReefSettings, workplace: Workplace) -> AsyncIterator[Venue]:
    yield Reef(settings.questions)


@asynccontextmanager
async def open_spot(settings: SpotSettings, workplace: Workplace) -> AsyncIterator[SearchEngine]:
    yield Spot(settings.notes)


@hookimpl
def foxcast_venues() -> list[VenueSpec[ReefSettings]]:
    return [VenueSpec(name="reef", summary="A reef", settings=ReefSettings, reader=open_reef)]


@hookimpl
def foxcast_search_engines() -> list[SearchSpec[SpotSettings]]:
    bounded = frozenset({Can.SEARCH_BEFORE_DATE})
    return [SearchSpec(name="spot", summary="Notes", settings=SpotSettings, open=open_spot, abilities=bounded)]
