"""Which scores an answer gets, by hand and against scikit-learn and the flat forecast."""

from dataclasses import replace
from math import inf, log

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss

from bot.domain.curves import flat_prediction
from bot.domain.prediction import Binary, BinaryShape, Choice, ChoiceShape, Curve, CurveShape, Prediction, Shape
from bot.domain.resolution import Chosen, Happened, Landed, Outcome, Void
from bot.domain.score import BRIER, CHOICE_BASELINE, CHOICE_BRIER, CHOICE_LOG, CRPS, CURVE_BASELINE, RULES, rules_of
from bot.stats.scoring_rules import ResolvedPrediction, RuleScores, prediction_loss, score_predictions

YES_OR_NO = BinaryShape()
COLOURS = ChoiceShape(options=("red", "green", "blue"))
DEGREES = CurveShape(grid=(0.0, 10.0, 20.0, 30.0, 40.0), unit="degrees")
OPEN = replace(DEGREES, open_lower=True, open_upper=True)


def marks(prediction: Prediction, shape: Shape, outcome: Outcome) -> RuleScores:
    return score_predictions([ResolvedPrediction(prediction, shape, outcome)])[0]


@pytest.mark.parametrize(("happened", "score"), [(1.0, 0.49), (0.0, 0.09), (0.25, 0.0025)])
def test_yes_or_no_has_the_brier_score_also_where_the_venue_resolves_to_a_share(happened: float, score: float) -> None:
    assert marks(Binary(0.3), YES_OR_NO, Happened(happened)) == pytest.approx({BRIER: score})


def test_a_choice_by_hand() -> None:
    # The squared distances of the options from what happened: 0.04, 0.25 and 0.49.
    found = marks(Choice({"blue": 0.3, "green": 0.5, "red": 0.2}), COLOURS, Chosen("blue"))
    assert found == pytest.approx(
        {CHOICE_BRIER: 0.78, CHOICE_LOG: -log(0.3), CHOICE_BASELINE: 100 * log(0.3 * 3) / log(3)}
    )


@given(st.lists(st.integers(1, 100), min_size=3, max_size=3), st.sampled_from(COLOURS.options))
def test_the_brier_score_of_a_choice_is_that_of_scikit_learn(weights: list[int], came: str) -> None:
    pmf = {option: weight / sum(weights) for option, weight in zip(COLOURS.options, weights, strict=True)}
    theirs = brier_score_loss(
        [came], [[pmf[option] for option in sorted(pmf)]], labels=sorted(pmf), scale_by_half=False
    )
    assert marks(Choice(pmf), COLOURS, Chosen(came))[CHOICE_BRIER] == pytest.approx(theirs, abs=1e-9)


def test_a_certain_error_in_a_choice_has_finite_scores() -> None:
    found = marks(Choice({"red": 1.0, "green": 0.0, "blue": 0.0}), COLOURS, Chosen("blue"))
    assert found == pytest.approx(
        {CHOICE_BRIER: 2.0, CHOICE_LOG: -log(0.001), CHOICE_BASELINE: 100 * (1 + log(0.001) / log(3))}
    )


def test_an_option_that_a_forecast_did_not_have_is_read_at_what_stood_for_it() -> None:
    said = Choice({"red": 0.2, "green": 0.5, "blue": 0.3})
    came = Chosen("yellow", otherwise=("amber", "green", "blue"))
    assert marks(said, COLOURS, came) == marks(said, COLOURS, Chosen("green"))
    assert marks(said, COLOURS, Chosen("red", otherwise=("blue",))) == marks(said, COLOURS, Chosen("red"))
    assert marks(said, COLOURS, Chosen("yellow", otherwise=("amber",))) == {}
    # What stood for it is no part of what happened.
    assert came == Chosen("yellow")


def test_a_curve_by_hand() -> None:
    # Four even steps, the outcome at three quarters: ((3/4)^3 + (1/4)^3) / 3. The step that holds it has 1/4, as even.
    found = marks(Curve((0.0, 0.25, 0.5, 0.75, 1.0)), DEGREES, Landed(30.0))
    assert found == pytest.approx({CRPS: 28 / 64 / 3, CURVE_BASELINE: 0.0}, abs=1e-12)
    sharp = marks(Curve((0.0, 0.0, 0.0, 1.0, 1.0)), DEGREES, Landed(30.0))
    # A line from 0 to 1 over the step before the outcome; four times the even mass.
    assert sharp == pytest.approx({CRPS: 1 / 12, CURVE_BASELINE: 50 * log(4)})


@pytest.mark.parametrize(
    ("landed", "score", "baseline"),
    [
        # Below the range all of (1 - F)^2 is counted: lines from 0.8 to 0.6 to 0.4 to 0.2 to 0.1.
        (-inf, (0.64 + 0.48 + 0.36 + 0.36 + 0.24 + 0.16 + 0.16 + 0.08 + 0.04 + 0.04 + 0.02 + 0.01) / 12, 0.2),
        (-7.0, (0.64 + 0.48 + 0.36 + 0.36 + 0.24 + 0.16 + 0.16 + 0.08 + 0.04 + 0.04 + 0.02 + 0.01) / 12, 0.2),
        # Above it all of F^2: lines from 0.2 to 0.4 to 0.6 to 0.8 to 0.9.
        (inf, (0.04 + 0.08 + 0.16 + 0.16 + 0.24 + 0.36 + 0.36 + 0.48 + 0.64 + 0.64 + 0.72 + 0.81) / 12, 0.1),
        (41.0, (0.04 + 0.08 + 0.16 + 0.16 + 0.24 + 0.36 + 0.36 + 0.48 + 0.64 + 0.64 + 0.72 + 0.81) / 12, 0.1),
    ],
)
def test_an_outcome_beyond_an_open_bound_is_scored_as_its_tail(landed: float, score: float, baseline: float) -> None:
    found = marks(Curve((0.2, 0.4, 0.6, 0.8, 0.9)), OPEN, Landed(landed))
    # The flat forecast has 0.05 beyond each open end.
    assert found == pytest.approx({CRPS: score, CURVE_BASELINE: 50 * log(baseline / 0.05)})


@pytest.mark.parametrize("landed", [-0.1, 40.1, inf, -inf])
def test_an_outcome_beyond_a_closed_bound_contradicts_the_question_and_has_no_score(landed: float) -> None:
    assert marks(Curve((0.0, 0.25, 0.5, 0.75, 1.0)), DEGREES, Landed(landed)) == {}


def test_the_bounds_themselves_belong_to_the_range() -> None:
    even = Curve((0.0, 0.25, 0.5, 0.75, 1.0))
    for landed in (0.0, 40.0, 40.0 + 1e-12):
        assert marks(even, DEGREES, Landed(landed)) == pytest.approx({CRPS: 1 / 3, CURVE_BASELINE: 0.0}, abs=1e-9)


def test_a_curve_without_mass_where_the_outcome_is_has_a_finite_score() -> None:
    sharp = Curve((0.0, 0.0, 0.0, 1.0, 1.0))
    # As if it had the least that is accepted in a step: a hundredth of the even mass.
    assert marks(sharp, DEGREES, Landed(5.0))[CURVE_BASELINE] == pytest.approx(50 * log(0.01))


@pytest.mark.parametrize(
    ("prediction", "shape", "outcome"),
    [
        (Binary(0.3), YES_OR_NO, Void("annulled")),
        (Choice({"red": 0.2, "green": 0.5, "blue": 0.3}), COLOURS, Void("ambiguous")),
        (Curve((0.0, 0.25, 0.5, 0.75, 1.0)), DEGREES, Void("ambiguous")),
        (Choice({"red": 0.2, "green": 0.5, "blue": 0.3}), COLOURS, Chosen("yellow")),
        (Choice({"red": 0.5, "blue": 0.5}), COLOURS, Chosen("red")),
        (Curve((0.1, 0.9)), DEGREES, Landed(3.0)),
        (Binary(0.3), YES_OR_NO, Landed(1.0)),
        (Curve((0.0, 0.25, 0.5, 0.75, 1.0)), DEGREES, Chosen("red")),
        (Choice({"red": 0.2, "green": 0.5, "blue": 0.3}), COLOURS, Happened(1.0)),
    ],
    ids=[
        "void",
        "void choice",
        "void curve",
        "an option nobody had",
        "other options",
        "another grid",
        "a number for yes or no",
        "an option for a curve",
        "yes for a choice",
    ],
)
def test_where_no_rule_applies_there_is_no_score(prediction: Prediction, shape: Shape, outcome: Outcome) -> None:
    assert marks(prediction, shape, outcome) == {}


def test_answers_of_all_kinds_at_once_keep_their_places() -> None:
    answers = [
        ResolvedPrediction(Curve((0.0, 0.25, 0.5, 0.75, 1.0)), DEGREES, Landed(30.0)),
        ResolvedPrediction(Binary(0.3), YES_OR_NO, Happened(1.0)),
        ResolvedPrediction(Binary(0.3), YES_OR_NO, Void("annulled")),
        ResolvedPrediction(Choice({"red": 0.2, "green": 0.5, "blue": 0.3}), COLOURS, Chosen("blue")),
        ResolvedPrediction(Binary(0.3), YES_OR_NO, Happened(0.0)),
        ResolvedPrediction(Curve((0.0, 0.0, 0.0, 1.0, 1.0)), DEGREES, Landed(30.0)),
    ]
    together = score_predictions(answers)
    assert together == [score_predictions([answer])[0] for answer in answers]
    assert [one.get(BRIER) for one in together] == pytest.approx([None, 0.49, None, None, 0.09, None])


@pytest.mark.parametrize("shape", [COLOURS, DEGREES, OPEN], ids=["choice", "closed", "open"])
def test_the_flat_answer_has_a_baseline_score_of_zero(shape: ChoiceShape | CurveShape) -> None:
    outcomes: list[Outcome] = [Chosen("green")] if isinstance(shape, ChoiceShape) else [Landed(3.0), Landed(33.0)]
    rule = CHOICE_BASELINE if isinstance(shape, ChoiceShape) else CURVE_BASELINE
    for outcome in outcomes:
        assert marks(flat_prediction(shape), shape, outcome)[rule] == pytest.approx(0.0, abs=1e-9)
    assert flat_prediction(YES_OR_NO) == Binary(0.5)


def test_every_value_is_of_a_rule_for_its_kind() -> None:
    kinds: list[tuple[Shape, Prediction, Outcome]] = [
        (YES_OR_NO, Binary(0.3), Happened(1.0)),
        (COLOURS, flat_prediction(COLOURS), Chosen("red")),
        (OPEN, flat_prediction(OPEN), Landed(1.0)),
    ]
    for shape, prediction, outcome in kinds:
        assert [*marks(prediction, shape, outcome)] == [rule.name for rule in rules_of(shape.kind)]
    assert len(RULES) == sum(len(rules_of(shape.kind)) for shape, _, _ in kinds)


def test_a_loss_is_from_nothing_to_one_whatever_the_kind() -> None:
    assert prediction_loss(Binary(0.3), YES_OR_NO, Happened(1.0)) == pytest.approx(0.49)
    # By hand above: 0.78 of at most 2.
    assert prediction_loss(Choice({"blue": 0.3, "green": 0.5, "red": 0.2}), COLOURS, Chosen("blue")) == pytest.approx(
        0.39
    )
    # All of it in the first step, and the last value came.
    assert prediction_loss(Curve((0.0, 1.0, 1.0, 1.0, 1.0)), DEGREES, Landed(40.0)) == pytest.approx((1 / 3 + 3) / 4)
    assert prediction_loss(Binary(0.3), YES_OR_NO, Void("nobody knows")) is None
