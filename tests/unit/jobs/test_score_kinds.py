"""From a venue in memory to scores in the ledger, for questions of every kind."""

from datetime import timedelta
from math import inf, log

import pytest

from bot.core.beliefs import Belief, Step, StepAction, StepObservation
from bot.core.outcomes import BinaryOutcome, ChoiceOutcome, NumericOutcome, Outcome, Resolution, VoidOutcome
from bot.core.predictions import (
    BinaryPrediction,
    ChoicePrediction,
    ChoiceShape,
    CurvePrediction,
    CurveShape,
    Prediction,
)
from bot.core.questions import CrowdForecast, Question
from bot.store.scores import ScoreFilter
from bot.testing.forecaster import ScriptedForecaster
from tests.row_scores import read_row_scores
from tests.unit.jobs.conftest import FIRST, JobsFixture, outcome

COLOURS = ChoiceShape(options=("red", "green", "blue"))
DEPTH = CurveShape(grid=(0.0, 10.0, 20.0, 30.0, 40.0), unit="cm", open_upper=True)
EVEN = CurvePrediction((0.0, 0.2, 0.4, 0.6, 0.8))
SAID: dict[str, Prediction] = {
    "binary": BinaryPrediction(0.3),
    "choice": ChoicePrediction({"red": 0.2, "green": 0.5, "blue": 0.3}),
    "curve": EVEN,
}


def answer(asked: Question) -> Step:
    belief = Belief(predictions={target.key: SAID[asked.shape.kind] for target in asked.targets})
    return Step(action=StepAction(name="think"), observation=StepObservation(), belief=belief)


async def forecast_all(jobs_fixture: JobsFixture) -> None:
    """Ask one question of each kind, choices with a crowd, and forecast them."""
    jobs_fixture.forecasters[FIRST] = ScriptedForecaster(answer)
    jobs_fixture.offer("rain")
    thirds = ChoicePrediction({"red": 0.4, "green": 0.2, "blue": 0.4})
    jobs_fixture.offer("colour", shape=COLOURS, crowd=CrowdForecast(prediction=thirds, at=jobs_fixture.clock.now()))
    jobs_fixture.offer("snow", shape=DEPTH, crowd=None)
    await jobs_fixture.discover()
    await jobs_fixture.forecast()


async def resolve(jobs_fixture: JobsFixture, **outcomes: Outcome) -> None:
    await jobs_fixture.clock.advance(timedelta(days=20).total_seconds())
    for key, came in outcomes.items():
        known = outcome(key, 1.0, at=jobs_fixture.clock.now())
        jobs_fixture.venue.publish_outcomes(
            Resolution(ref=known.ref, target="outcome", outcome=came, resolved_at=known.resolved_at)
        )
    await jobs_fixture.resolve()


async def stored(jobs_fixture: JobsFixture) -> dict[str, dict[str, float]]:
    rows = await read_row_scores(jobs_fixture.ledger, ScoreFilter())
    return {row.ref.key: dict(row.values) for row in rows}


async def test_every_kind_is_scored_by_its_own_rules_and_the_crowd_beside_it(jobs_fixture: JobsFixture) -> None:
    await forecast_all(jobs_fixture)
    await resolve(jobs_fixture, rain=BinaryOutcome(1.0), colour=ChoiceOutcome("blue"), snow=NumericOutcome(25.0))
    assert await jobs_fixture.score() == "3 predictions scored"
    found = await stored(jobs_fixture)
    assert found["colour"] == pytest.approx(
        {
            "choice brier": 0.78,
            "choice log": -log(0.3),
            "choice baseline": 100 * (1 + log(0.3) / log(3)),
            "crowd choice brier": 0.56,
            "crowd choice log": -log(0.4),
            "crowd choice baseline": 100 * (1 + log(0.4) / log(3)),
        }
    )
    assert found["snow"].keys() == {"crps", "curve baseline"}
    assert found["snow"]["curve baseline"] == pytest.approx(50 * log(0.2 / (0.95 / 4)))
    assert (await jobs_fixture.ledger.scores.read_binary_columns(ScoreFilter())).probability == (0.3,)
    assert await jobs_fixture.score() == "0 predictions scored"


@pytest.mark.parametrize(
    ("landed", "baseline"), [(inf, 50 * log(0.2 / 0.05)), (99.0, 50 * log(0.2 / 0.05)), (0.0, 50 * log(0.2 * 4 / 0.95))]
)
async def test_a_value_at_or_beyond_a_bound(jobs_fixture: JobsFixture, landed: float, baseline: float) -> None:
    await forecast_all(jobs_fixture)
    await resolve(jobs_fixture, snow=NumericOutcome(landed))
    await jobs_fixture.score()
    assert (await stored(jobs_fixture))["snow"]["curve baseline"] == pytest.approx(baseline)


async def test_void_ambiguous_and_impossible_outcomes_are_settled_without_a_score(jobs_fixture: JobsFixture) -> None:
    await forecast_all(jobs_fixture)
    await resolve(
        jobs_fixture, rain=VoidOutcome("annulled"), colour=VoidOutcome("ambiguous"), snow=NumericOutcome(-inf)
    )
    assert await jobs_fixture.score() == "3 predictions scored"
    assert await stored(jobs_fixture) == {}
    assert await jobs_fixture.score() == "0 predictions scored"


async def test_an_outcome_that_becomes_void_takes_its_scores_along(jobs_fixture: JobsFixture) -> None:
    await forecast_all(jobs_fixture)
    await resolve(jobs_fixture, snow=NumericOutcome(25.0))
    await jobs_fixture.score()
    await resolve(jobs_fixture, snow=VoidOutcome("the gauge was broken"))
    await jobs_fixture.score()
    assert await stored(jobs_fixture) == {}


async def test_a_share_of_yes_is_scored_as_it_is(jobs_fixture: JobsFixture) -> None:
    await forecast_all(jobs_fixture)
    await resolve(jobs_fixture, rain=BinaryOutcome(0.25))
    await jobs_fixture.score()
    table = await jobs_fixture.ledger.scores.read_binary_columns(ScoreFilter())
    assert (table.probability, table.outcome) == ((0.3,), (0.25,))
