"""The tables of the laboratory: scores against outcomes and against the truth, and paired differences."""

from dataclasses import replace

import numpy as np
import pytest

from bot.simulator.laboratory.questions import create_world, select_questions
from bot.simulator.laboratory.score_table import AnswerLine, LaboratoryScore, score_lines

CASES = select_questions(create_world(3, 40), 40)


def table(*lines: AnswerLine) -> dict[str, LaboratoryScore]:
    return {row.name: row for row in score_lines(lines, CASES, np.random.Generator(np.random.PCG64(1)))}


def test_scores_are_those_of_the_definition() -> None:
    two = [
        replace(CASES[0], outcome=True, true_probability=0.6),
        replace(CASES[1], outcome=False, true_probability=0.1),
    ]
    (row,) = score_lines(
        [AnswerLine(name="a", part="p", answers=[0.9, 0.3])], two, np.random.Generator(np.random.PCG64(1))
    )
    assert row.brier == pytest.approx((0.1**2 + 0.3**2) / 2)
    assert row.distance_to_truth == pytest.approx((0.3**2 + 0.2**2) / 2)
    assert (row.n, row.difference, row.distance_difference) == (2, None, None)


def test_what_is_nearer_to_the_truth_comes_out_better_and_by_how_much() -> None:
    truth = [case.true_probability for case in CASES]
    timid = [0.5 + 0.3 * (chance - 0.5) for chance in truth]
    found = table(
        AnswerLine(name="timid", part="p", answers=timid),
        AnswerLine(name="truth", part="p", answers=truth, reference="timid"),
        AnswerLine(name="same", part="p", answers=timid, reference="timid"),
    )
    better, same = found["truth"].distance_difference, found["same"].difference
    assert better is not None
    assert better.estimate == pytest.approx(-found["timid"].distance_to_truth)
    assert better.low <= better.estimate <= better.high < 0.0
    assert found["truth"].distance_to_truth == 0.0
    assert same is not None
    assert (same.estimate, same.low, same.high) == (0.0, 0.0, 0.0)


def test_each_line_is_held_against_the_line_that_it_names() -> None:
    even, sure = [0.5] * len(CASES), [0.999 if case.outcome else 0.001 for case in CASES]
    found = table(
        AnswerLine(name="even", part="p", answers=even),
        AnswerLine(name="sure", part="p", answers=sure, reference="even"),
        AnswerLine(name="even again", part="p", answers=even, reference="sure"),
    )
    down, up = found["sure"].difference, found["even again"].difference
    assert down is not None
    assert up is not None
    assert down.estimate == pytest.approx(0.001**2 - 0.25)
    assert up.estimate == pytest.approx(-down.estimate)


def test_a_row_tells_how_well_it_separates_yes_from_no_and_how_far_it_agrees_with_the_crowd() -> None:
    crowd = [case.crowd for case in CASES]
    found = table(
        AnswerLine(name="crowd", part="p", answers=crowd),
        AnswerLine(name="contrary", part="p", answers=[1.0 - price for price in crowd]),
    )
    assert found["crowd"].crowd_ranking.auc == found["crowd"].crowd_ranking.precision == 1.0
    assert found["crowd"].crowd_ranking.accuracy == 1.0
    assert found["contrary"].crowd_ranking.auc == 0.0
    own, contrary = found["crowd"].ranking.auc, found["contrary"].ranking.auc
    assert own is not None
    assert contrary is not None
    assert own == pytest.approx(1.0 - contrary)
