"""A venue in memory that asks of every kind and whose questions have resolved, and a forecaster that answers them."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bot.api import (
    Action,
    Archive,
    Belief,
    Binary,
    BinaryShape,
    Choice,
    ChoiceShape,
    Chosen,
    Crowd,
    Curve,
    CurveShape,
    Desk,
    Example,
    Forecaster,
    ForecasterSpec,
    Happened,
    Landed,
    NotFound,
    Observation,
    Outcome,
    Prediction,
    Question,
    QuestionRef,
    Resolution,
    Round,
    Settings,
    Shape,
    Sheet,
    Step,
    Target,
    Venue,
    VenueSpec,
    Void,
    Workplace,
    hookimpl,
)
from bot.testing.venue import MemoryVenue

ASKED = datetime(2026, 1, 1, tzinfo=UTC)
KNOWN = ASKED + timedelta(days=30)
COLOURS = ChoiceShape(options=("red", "green", "blue"))
DEPTH = CurveShape(grid=(0.0, 10.0, 20.0, 30.0, 40.0), unit="cm", open_upper=True)
YES_OR_NO = BinaryShape()
ASKED_FOR: dict[str, tuple[Shape, Outcome]] = {
    "rain": (YES_OR_NO, Happened(1.0)),
    "shade": (YES_OR_NO, Happened(0.25)),
    "frost": (YES_OR_NO, Void("annulled")),
    "flower": (COLOURS, Chosen("blue")),
    "butterfly": (COLOURS, Void("ambiguous")),
    "snow": (DEPTH, Landed(25.0)),
    "grass": (DEPTH, Landed(float("inf"))),
}
ANSWERS: dict[str, Prediction] = {
    "binary": Binary(0.3),
    "choice": Choice({"red": 0.2, "green": 0.5, "blue": 0.3}),
    "curve": Curve((0.0, 0.2, 0.4, 0.6, 0.8)),
}


def _question(key: str, shape: Shape) -> Question:
    crowd = Crowd(prediction=Choice({"red": 0.4, "green": 0.2, "blue": 0.4}), at=ASKED)
    return Question(
        ref=QuestionRef("meadow", key),
        title=f"What of the {key}?",
        shape=shape,
        targets=(Target(resolves_at=KNOWN),),
        source="gauge",
        family="market",
        batch="2026-01-01",
        opens_at=ASKED,
        as_of=ASKED,
        crowd=crowd if key == "flower" else None,
    )


QUESTIONS = [_question(key, shape) for key, (shape, _) in ASKED_FOR.items()]
RESOLUTIONS = [
    Resolution(ref=QuestionRef("meadow", key), target="outcome", outcome=outcome, resolved_at=KNOWN)
    for key, (_, outcome) in ASKED_FOR.items()
]


class MeadowArchive:
    """The one round of the meadow."""

    def rounds(self) -> Sequence[str]:
        return ["2026-01-01"]

    def round(self, key: str) -> Round:
        return Round(key=key, as_of=ASKED, questions=tuple(QUESTIONS), resolutions=tuple(RESOLUTIONS))

    def examples(self, before: datetime) -> Iterable[Example]:
        return ()

    def sheet(self, path: Path) -> Sheet:
        raise NotFound(str(path))


class Gardener:
    """One step: what is said of every question of a kind."""

    async def steps(self, question: Question, desk: Desk) -> AsyncGenerator[Step, None]:
        said = dict.fromkeys((target.key for target in question.targets), ANSWERS[question.shape.kind])
        yield Step(action=Action(name="look"), observation=Observation(), belief=Belief(predictions=said))


@asynccontextmanager
async def open_meadow(settings: Settings, workplace: Workplace) -> AsyncIterator[Venue]:
    yield MemoryVenue(QUESTIONS, RESOLUTIONS)


@asynccontextmanager
async def open_gardener(settings: Settings, workplace: Workplace) -> AsyncIterator[Forecaster]:
    yield Gardener()


def _archive(settings: Settings, folder: Path) -> Archive:
    return MeadowArchive()


@hookimpl
def foxcast_venues() -> list[VenueSpec[Settings]]:
    return [
        VenueSpec(name="meadow", summary="A meadow", settings=Settings, reader=open_meadow, archive=_archive),
    ]


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[Settings]]:
    return [ForecasterSpec(name="gardener", summary="Says the same", settings=Settings, open=open_gardener)]
