"""Where a trial starts decides how near to certainty it may end."""

from typing import Any

import pytest

from bot.agent.ballot import Manner, ballot_for
from bot.agent.start import LEAST_MARGIN, Anchor, margins_for, starting_point
from bot.domain.prediction import Binary, Choice
from bot.domain.question import Crowd, Question
from tests.plugins.blf.cases import CHOICE, CUTOFF, priced, question


def margins(asked: Question, anchor: Anchor, **given: Any) -> tuple[float, float]:
    manner = margins_for(asked, anchor, Manner(**given))
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
    assert margins(asked, starting_point(asked)) == expected


def test_a_base_rate_narrows_the_margins_like_a_market() -> None:
    assert margins(question(), Anchor("prior", "two in a thousand", Binary(0.004))) == (0.002, 0.002)


def test_the_settings_are_the_widest_and_less_than_the_least_may_be_set() -> None:
    asked = priced(0.02)
    anchor = starting_point(asked)
    assert margins(asked, anchor, step_margin=0.0, submit_margin=0.004) == (0.0, 0.004)
    assert margins(asked, anchor, submit_margin=0.3) == (0.01, 0.01)


def test_even_odds_and_other_shapes_leave_the_margins_as_they_are() -> None:
    blind = priced(0.01)
    assert margins(blind, starting_point(blind, crowd=False)) == (0.02, 0.05)
    shares = Choice({"red": 0.98, "green": 0.01, "blue": 0.01})
    asked = question(CHOICE, crowd=Crowd(prediction=shares, at=CUTOFF))
    assert margins(asked, starting_point(asked)) == (0.02, 0.05)


def test_an_answer_beside_a_market_at_one_percent_is_not_moved_to_five() -> None:
    asked = priced(0.01)
    manner = margins_for(asked, starting_point(asked), Manner())
    ballot = ballot_for(asked, manner, percent=False)
    assert ballot.bounded({"outcome": Binary(0.008)}, manner.submit_margin) == {"outcome": Binary(0.008)}
    assert ballot.bounded({"outcome": Binary(0.0)}, manner.submit_margin) == {"outcome": Binary(0.005)}
