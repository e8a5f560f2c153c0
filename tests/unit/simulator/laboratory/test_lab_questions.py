"""The questions of the laboratory: what a venue would have shown at the cutoff, and nothing later."""

import math
from dataclasses import replace

from bot.core.predictions import BinaryPrediction
from bot.simulator.laboratory.questions import LaboratoryQuestion, create_world, reference_answers, select_questions
from bot.simulator.world.questions import outcome_day

WORLD = create_world(7, 60)
CASES = select_questions(WORLD, 60)


def test_the_same_seed_asks_the_same_and_another_one_something_else() -> None:
    again, other = select_questions(create_world(7, 60), 60), select_questions(create_world(8, 60), 60)
    assert [case.question for case in again] == [case.question for case in CASES]
    assert {case.question.title for case in other}.isdisjoint({case.question.title for case in CASES})


def test_all_are_asked_in_their_midst_before_anybody_could_know() -> None:
    assert len(CASES) == 60
    assert [case.day for case in CASES] == sorted(case.day for case in CASES)
    for case in CASES:
        assert (
            case.simulated_question.opens
            < case.day
            < min(case.simulated_question.closes, outcome_day(case.simulated_question))
        )
        assert case.question.as_of == WORLD.calendar.moment_of(case.day)
        assert case.question.crowd is not None
        assert case.question.crowd.at <= WORLD.calendar.moment_of(case.day)
        assert case.question.crowd.prediction == BinaryPrediction(case.crowd)
        assert 0.0 < case.true_probability < 1.0


def test_outcomes_come_true_as_often_as_their_chance_says() -> None:
    cases = [case for seed in (20, 21, 22) for case in select_questions(create_world(seed, 60), 60)]
    surplus = math.fsum(case.outcome - case.true_probability for case in cases)
    assert abs(surplus) < 4.0 * math.sqrt(
        math.fsum(case.true_probability * (1.0 - case.true_probability) for case in cases)
    )


def test_what_was_usual_is_counted_from_what_was_known_by_then() -> None:
    first, second, third = CASES[:3]

    def at(case: LaboratoryQuestion, day: float, known: float, *, outcome: bool) -> LaboratoryQuestion:
        return replace(case, day=day, known_day=known, outcome=outcome)

    cases = [
        at(first, 1.0, 5.0, outcome=True),
        at(second, 4.0, 9.0, outcome=False),
        at(third, 6.0, 20.0, outcome=True),
        at(third, 10.0, 20.0, outcome=True),
    ]
    # One yes and one no stand before all: nothing was known on days 1 and 4, one yes on day 6, one no more on day 10.
    assert reference_answers(cases).base_rate == [1 / 2, 1 / 2, 2 / 3, 2 / 4]
    assert reference_answers(cases).truth == [case.true_probability for case in cases]
