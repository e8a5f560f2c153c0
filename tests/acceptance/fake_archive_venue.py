"""A plugin with a fake venue that has a resolved question of every kind and an archive.

And a forecaster with fixed answers.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bot.api import (
    Belief,
    BinaryOutcome,
    BinaryPrediction,
    BinaryShape,
    ChoiceOutcome,
    ChoicePrediction,
    ChoiceShape,
    CrowdForecast,
    CurvePrediction,
    CurveShape,
    Forecaster,
    ForecasterSpec,
    ForecastFile,
    NotFoundError,
    NumericOutcome,
    Outcome,
    PluginContext,
    PluginSettings,
    Prediction,
    Question,
    QuestionRef,
    QuestionShape,
    Resolution,
    Round,
    RoundArchive,
    Step,
    StepAction,
    StepObservation,
    Target,
    TrainingExample,
    TrialContext,
    VenueReader,
    VenueSpec,
    VoidOutcome,
    hookimpl,
)
from bot.testing.venue import FakeVenueReader

ASKED = datetime(2026, 1, 1, tzinfo=UTC)
KNOWN = ASKED + timedelta(days=30)
COLOURS = ChoiceShape(options=("red", "green", "blue"))
DEPTH = CurveShape(grid=(0.0, 10.0, 20.0, 30.0, 40.0), unit="cm", open_upper=True)
YES_OR_NO = BinaryShape()
ASKED_FOR: dict[str, tuple[QuestionShape, Outcome]] = {
    "rain": (YES_OR_NO, BinaryOutcome(1.0)),
    "shade": (YES_OR_NO, BinaryOutcome(0.25)),
    "frost": (YES_OR_NO, VoidOutcome("annulled")),
    "flower": (COLOURS, ChoiceOutcome("blue")),
    "butterfly": (COLOURS, VoidOutcome("ambiguous")),
    "snow": (DEPTH, NumericOutcome(25.0)),
    "grass": (DEPTH, NumericOutcome(float("inf"))),
}
ANSWERS: dict[str, Prediction] = {
    "binary": BinaryPrediction(0.3),
    "choice": ChoicePrediction({"red": 0.2, "green": 0.5, "blue": 0.3}),
    "curve": CurvePrediction((0.0, 0.2, 0.4, 0.6, 0.8)),
}


def _question(key: str, shape: QuestionShape) -> Question:
    crowd = CrowdForecast(prediction=ChoicePrediction({"red": 0.4, "green": 0.2, "blue": 0.4}), at=ASKED)
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


class FakeRoundArchive:
    """The one round of the meadow."""

    def round_keys(self) -> Sequence[str]:
        return ["2026-01-01"]

    def read_round(self, key: str) -> Round:
        return Round(key=key, as_of=ASKED, questions=tuple(QUESTIONS), resolutions=tuple(RESOLUTIONS))

    def examples(self, before: datetime) -> Iterable[TrainingExample]:
        return ()

    def read_forecast_file(self, path: Path) -> ForecastFile:
        raise NotFoundError(str(path))


class FixedAnswerForecaster:
    """One step: what is said of every question of a kind."""

    async def steps(self, question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        output = dict.fromkeys((target.key for target in question.targets), ANSWERS[question.shape.kind])
        yield Step(action=StepAction(name="look"), observation=StepObservation(), belief=Belief(predictions=output))


@asynccontextmanager
async def open_meadow(settings: PluginSettings, context: PluginContext) -> AsyncIterator[VenueReader]:
    yield FakeVenueReader(QUESTIONS, RESOLUTIONS)


@asynccontextmanager
async def open_gardener(settings: PluginSettings, context: PluginContext) -> AsyncIterator[Forecaster]:
    yield FixedAnswerForecaster()


def _archive(settings: PluginSettings, folder: Path) -> RoundArchive:
    return FakeRoundArchive()


@hookimpl
def foxcast_venues() -> list[VenueSpec[PluginSettings]]:
    return [
        VenueSpec(name="meadow", summary="A meadow", settings=PluginSettings, reader=open_meadow, archive=_archive),
    ]


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[PluginSettings]]:
    return [ForecasterSpec(name="gardener", summary="Says the same", settings=PluginSettings, open=open_gardener)]
