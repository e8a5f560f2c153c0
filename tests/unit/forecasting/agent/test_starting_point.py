"""Where a trial starts decides how near to certainty it may end."""

from typing import Any

import pytest

from bot.core.predictions import BinaryPrediction, ChoicePrediction
from bot.core.questions import CrowdForecast, Question
from bot.forecasting.agent.answer_schema import AnswerSettings, create_answer_format
from bot.forecasting.agent.belief_state import LEAST_MARGIN, StartingPoint, find_starting_point, narrow_margins
from tests.plugins.blf.cases import CHOICE, CUTOFF, priced, question


def margins(asked: Question, anchor: StartingPoint, **given: Any) -> tuple[float, float]:
    manner = narrow_margins(asked, anchor, AnswerSettings(**given))
    return manner.step_margin, manner.submit_margin


@pytest.mark.parametrize(
    ("price", "expected"),
    [
        (0.5, (0.02, 0.05)),
        (0.1, (0.02, 0.05)),
        (0.06, (0.02, 0.03)),
        (0.01, (0.005, 0.005)),
        (0.99, (0.005, 0.005)),
        (0.0005, (LEAST_MARGIN, LEAST_MARGIN)),
        (1.0, (LEAST_MARGIN, LEAST_MARGIN)),
    ],
)
def test_a_market_leaves_half_of_its_distance_to_certainty(price: float, expected: tuple[float, float]) -> None:
    asked = priced(price)
    assert margins(asked, find_starting_point(asked)) == expected


def test_a_base_rate_narrows_the_margins_like_a_market() -> None:
    assert margins(question(), StartingPoint("prior", "two in a thousand", BinaryPrediction(0.004))) == (0.002, 0.002)


def test_the_settings_are_the_widest_and_less_than_the_least_may_be_set() -> None:
    asked = priced(0.02)
    anchor = find_starting_point(asked)
    assert margins(asked, anchor, step_margin=0.0, submit_margin=0.004) == (0.0, 0.004)
    assert margins(asked, anchor, submit_margin=0.3) == (0.01, 0.01)


def test_even_odds_and_other_shapes_leave_the_margins_as_they_are() -> None:
    blind = priced(0.01)
    assert margins(blind, find_starting_point(blind, crowd=False)) == (0.02, 0.05)
    shares = ChoicePrediction({"red": 0.98, "green": 0.01, "blue": 0.01})
    asked = question(CHOICE, crowd=CrowdForecast(prediction=shares, at=CUTOFF))
    assert margins(asked, find_starting_point(asked)) == (0.02, 0.05)


def test_an_answer_beside_a_market_at_one_percent_is_not_moved_to_five() -> None:
    asked = priced(0.01)
    manner = narrow_margins(asked, find_starting_point(asked), AnswerSettings())
    ballot = create_answer_format(asked, manner, percent=False)
    assert ballot.clamp({"outcome": BinaryPrediction(0.008)}, manner.submit_margin) == {
        "outcome": BinaryPrediction(0.008)
    }
    assert ballot.clamp({"outcome": BinaryPrediction(0.0)}, manner.submit_margin) == {
        "outcome": BinaryPrediction(0.005)
    }
