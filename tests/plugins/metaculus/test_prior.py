"""Where nothing is known: the flat distribution that the site itself compares with (docs/facts/metaculus.md#scores)."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.api import CurvePrediction, CurveShape, IntentState, Prediction, Question
from bot.evaluation.value_text import describe_prediction
from bot.execution.gate.comment_text import _describe_prediction as said_beside
from bot.forecasting.agent.answer_schema import AnswerSettings, create_answer_format
from bot.forecasting.agent.belief_state import find_starting_point
from bot.forecasting.agent.prompt_texts import question_text, task_text
from bot.simulator.venues.metaculus_scores import account_scores
from bot.simulator.venues.metaculus_state import QuestionScaling
from bot.simulator.venues.metaculus_world import question_scaling
from bot.testing.clock import START
from plugins.baseline.forecaster import _crowd_step
from plugins.metaculus.post_parser import MetaculusParsedPosts, build_question
from plugins.society.vote_pooling import encode_predictions
from tests.plugins.metaculus.conftest import MetaculusFixture
from tests.plugins.metaculus.documented_samples import answer
from tests.plugins.metaculus.records import batch, intent
from tests.plugins.metaculus.writer_helpers import asked, ref

LOG = QuestionScaling(low=1.0, high=10_000.0, zero_point=0.0, open_lower=True, open_upper=True)
LINEAR = QuestionScaling(low=0.0, high=100.0, open_upper=True)
COUNT = question_scaling(0.0, 9.0, count=10, open_upper=True)


def recorded(shared: Path, name: str) -> Question:
    unpacked = MetaculusParsedPosts()
    unpacked.add_post(answer(shared, name))
    [entry] = unpacked.entries
    return build_question(entry)


def said_of_nothing(question: Question) -> list[Prediction]:
    """What every forecaster that starts from nothing says: those with a model, and the one without."""
    assert isinstance(question.shape, CurveShape)
    belief = _crowd_step(question, question.shape).belief
    return [find_starting_point(question).prediction, *belief.predictions.values()]


@pytest.mark.parametrize(
    ("scaling", "outcomes"),
    [
        (LOG, ("below_lower_bound", "1.01", "100", "9999", "above_upper_bound")),
        (LINEAR, ("0", "50.2", "99.9", "above_upper_bound")),
        (COUNT, ("0", "3", "9", "above_upper_bound")),
    ],
    ids=["log", "linear", "discrete"],
)
async def test_it_scores_nothing_and_loses_nothing_at_the_site_whatever_happens(
    site: MetaculusFixture, scaling: QuestionScaling, outcomes: tuple[str, ...]
) -> None:
    kind = "discrete" if scaling.count else "numeric"
    for resolution in outcomes:
        there = site.fake.world.add_question(type=kind, scaling=scaling)
        question = await asked(site, there)
        for number, prediction in enumerate(said_of_nothing(question)):
            wanted = intent(ref(there), prediction, name=f"{there.id} {number}")
            [receipt] = await site.send(batch(wanted, questions=(question,)))
            assert receipt.state is IntentState.ACKED
        there.spot = START + timedelta(hours=1)
        site.fake.world.resolve(there, resolution, known=START + timedelta(hours=2))
        found = account_scores(there, site.bot.id, site.fake.state.users)
        assert found["spot_baseline_score"] == pytest.approx(0.0, abs=1e-6)
        assert found["baseline_score"] == pytest.approx(0.0, abs=1e-6)


def test_on_a_logarithmic_scale_half_of_it_lies_below_the_middle_of_the_scale(shared: Path) -> None:
    question = recorded(shared, "post_num_open_log_full")
    assert isinstance(question.shape, CurveShape)
    for prediction in said_of_nothing(question):
        assert isinstance(prediction, CurvePrediction)
        assert (prediction.cdf[0], prediction.cdf[100], prediction.cdf[-1]) == pytest.approx((0.05, 0.5, 0.95))
    # See docs/facts/metaculus.md#scale: u = 0.5 of the scale from 1 to 10000 with its zero at 0 is 100.
    assert question.shape.grid[100] == pytest.approx(100.0)


def test_a_discrete_question_is_one_of_whole_numbers_in_every_prompt_and_table(shared: Path) -> None:
    question = recorded(shared, "post_disc_full")
    shape = question.shape
    assert isinstance(shape, CurveShape)
    assert (shape.value_range, shape.is_whole) == ((0.0, 9.0), True)
    prediction = CurvePrediction((0.0, 0.02, 0.05, 0.2, 0.6, 0.8, 0.9, 0.93, 0.95, 0.96, 0.97))
    ballot = create_answer_format(question, AnswerSettings(), percent=False)
    header = question_text(question, ballot, find_starting_point(question), cutoff=START)
    assert "range from 0 (closed) to 9 (open), a whole number. An open end may be exceeded." in header
    assert "The answer is a whole number" in task_text(question)
    schema: Any = ballot.schema(0.01)
    assert '"integer"' in str(schema).replace("'", '"')
    assert ballot.answer_schema.format(prediction) == "p5 1, p10 2, p25 3, p50 3, p75 4, p90 5, p95 7"
    assert describe_prediction(prediction, shape) == "10%: 2 goals, 50%: 3 goals, 90%: 5 goals"
    assert describe_prediction(CurvePrediction((0.0, *(0.05 * step for step in range(1, 11)))), shape).endswith(
        "90%: above 9 goals"
    )
    assert said_beside(question, prediction).startswith("Forecast 10%: 2")
    votes: Any = encode_predictions(question, {target.key: prediction for target in question.targets})
    [values] = votes.values()
    assert all(isinstance(value, int) for value in values.values())


async def test_whole_numbers_that_a_model_states_make_a_forecast_that_the_site_takes(site: MetaculusFixture) -> None:
    there = site.fake.world.add_question(type="discrete", scaling=COUNT)
    question = await asked(site, there)
    ballot = create_answer_format(question, AnswerSettings(), percent=False)
    stated: Any = dict(zip(ballot.answer_schema.schema(0.0)["properties"], (1, 2, 3, 3, 4, 5, 7), strict=True))  # type: ignore[arg-type]
    prediction = ballot.answer_schema.read("quantiles", stated)
    [receipt] = await site.send(batch(intent(ref(there), prediction), questions=(question,)))
    assert receipt.state is IntentState.ACKED
    assert isinstance(prediction, CurvePrediction)
    # Most of it on 3, the value that stands at two percentages.
    steps = [after - before for before, after in zip(prediction.cdf, prediction.cdf[1:], strict=False)]
    assert max(range(10), key=steps.__getitem__) == 3
