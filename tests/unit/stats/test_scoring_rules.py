"""Which scores an answer gets, by hand and against scikit-learn and the flat forecast."""

from dataclasses import replace
from math import inf, log

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss

from bot.core.distributions import flat_prediction
from bot.core.outcomes import (
    BRIER,
    CHOICE_BASELINE,
    CHOICE_BRIER,
    CHOICE_LOG,
    CRPS,
    CURVE_BASELINE,
    SCORING_RULES,
    BinaryOutcome,
    ChoiceOutcome,
    NumericOutcome,
    Outcome,
    VoidOutcome,
    scoring_rules_for,
)
from bot.core.predictions import (
    BinaryPrediction,
    BinaryShape,
    ChoicePrediction,
    ChoiceShape,
    CurvePrediction,
    CurveShape,
    Prediction,
    QuestionShape,
)
from bot.stats.scoring_rules import ResolvedPrediction, RuleScores, prediction_loss, score_predictions

YES_OR_NO = BinaryShape()
COLOURS = ChoiceShape(options=("red", "green", "blue"))
DEGREES = CurveShape(grid=(0.0, 10.0, 20.0, 30.0, 40.0), unit="degrees")
OPEN = replace(DEGREES, open_lower=True, open_upper=True)


def marks(prediction: Prediction, shape: QuestionShape, outcome: Outcome) -> RuleScores:
    return score_predictions([ResolvedPrediction(prediction, shape, outcome)])[0]


@pytest.mark.parametrize(("happened", "score"), [(1.0, 0.49), (0.0, 0.09), (0.25, 0.0025)])
def test_yes_or_no_has_the_brier_score_also_where_the_venue_resolves_to_a_share(happened: float, score: float) -> None:
    assert marks(BinaryPrediction(0.3), YES_OR_NO, BinaryOutcome(happened)) == pytest.approx({BRIER: score})


def test_a_choice_by_hand() -> None:
    # The squared distances of the options from what happened: 0.04, 0.25 and 0.49.
    found = marks(ChoicePrediction({"blue": 0.3, "green": 0.5, "red": 0.2}), COLOURS, ChoiceOutcome("blue"))
    assert found == pytest.approx(
        {CHOICE_BRIER: 0.78, CHOICE_LOG: -log(0.3), CHOICE_BASELINE: 100 * log(0.3 * 3) / log(3)}
    )


@given(st.lists(st.integers(1, 100), min_size=3, max_size=3), st.sampled_from(COLOURS.options))
def test_the_brier_score_of_a_choice_is_that_of_scikit_learn(weights: list[int], came: str) -> None:
    pmf = {option: weight / sum(weights) for option, weight in zip(COLOURS.options, weights, strict=True)}
    theirs = brier_score_loss(
        [came], [[pmf[option] for option in sorted(pmf)]], labels=sorted(pmf), scale_by_half=False
    )
    assert marks(ChoicePrediction(pmf), COLOURS, ChoiceOutcome(came))[CHOICE_BRIER] == pytest.approx(theirs, abs=1e-9)


def test_a_certain_error_in_a_choice_has_finite_scores() -> None:
    found = marks(ChoicePrediction({"red": 1.0, "green": 0.0, "blue": 0.0}), COLOURS, ChoiceOutcome("blue"))
    assert found == pytest.approx(
        {CHOICE_BRIER: 2.0, CHOICE_LOG: -log(0.001), CHOICE_BASELINE: 100 * (1 + log(0.001) / log(3))}
    )


def test_an_option_that_a_forecast_did_not_have_is_read_at_what_stood_for_it() -> None:
    said = ChoicePrediction({"red": 0.2, "green": 0.5, "blue": 0.3})
    came = ChoiceOutcome("yellow", otherwise=("amber", "green", "blue"))
    assert marks(said, COLOURS, came) == marks(said, COLOURS, ChoiceOutcome("green"))
    assert marks(said, COLOURS, ChoiceOutcome("red", otherwise=("blue",))) == marks(said, COLOURS, ChoiceOutcome("red"))
    assert marks(said, COLOURS, ChoiceOutcome("yellow", otherwise=("amber",))) == {}
    # What stood for it is no part of what happened.
    assert came == ChoiceOutcome("yellow")


def test_a_curve_by_hand() -> None:
    # Four even steps, the outcome at three quarters: ((3/4)^3 + (1/4)^3) / 3. The step that holds it has 1/4, as even.
    found = marks(CurvePrediction((0.0, 0.25, 0.5, 0.75, 1.0)), DEGREES, NumericOutcome(30.0))
    assert found == pytest.approx({CRPS: 28 / 64 / 3, CURVE_BASELINE: 0.0}, abs=1e-12)
    sharp = marks(CurvePrediction((0.0, 0.0, 0.0, 1.0, 1.0)), DEGREES, NumericOutcome(30.0))
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
    found = marks(CurvePrediction((0.2, 0.4, 0.6, 0.8, 0.9)), OPEN, NumericOutcome(landed))
    # The flat forecast has 0.05 beyond each open end.
    assert found == pytest.approx({CRPS: score, CURVE_BASELINE: 50 * log(baseline / 0.05)})


@pytest.mark.parametrize("landed", [-0.1, 40.1, inf, -inf])
def test_an_outcome_beyond_a_closed_bound_contradicts_the_question_and_has_no_score(landed: float) -> None:
    assert marks(CurvePrediction((0.0, 0.25, 0.5, 0.75, 1.0)), DEGREES, NumericOutcome(landed)) == {}


def test_the_bounds_themselves_belong_to_the_range() -> None:
    even = CurvePrediction((0.0, 0.25, 0.5, 0.75, 1.0))
    for landed in (0.0, 40.0, 40.0 + 1e-12):
        assert marks(even, DEGREES, NumericOutcome(landed)) == pytest.approx(
            {CRPS: 1 / 3, CURVE_BASELINE: 0.0}, abs=1e-9
        )


def test_a_curve_without_mass_where_the_outcome_is_has_a_finite_score() -> None:
    sharp = CurvePrediction((0.0, 0.0, 0.0, 1.0, 1.0))
    # As if it had the least that is accepted in a step: a hundredth of the even mass.
    assert marks(sharp, DEGREES, NumericOutcome(5.0))[CURVE_BASELINE] == pytest.approx(50 * log(0.01))


@pytest.mark.parametrize(
    ("prediction", "shape", "outcome"),
    [
        (BinaryPrediction(0.3), YES_OR_NO, VoidOutcome("annulled")),
        (ChoicePrediction({"red": 0.2, "green": 0.5, "blue": 0.3}), COLOURS, VoidOutcome("ambiguous")),
        (CurvePrediction((0.0, 0.25, 0.5, 0.75, 1.0)), DEGREES, VoidOutcome("ambiguous")),
        (ChoicePrediction({"red": 0.2, "green": 0.5, "blue": 0.3}), COLOURS, ChoiceOutcome("yellow")),
        (ChoicePrediction({"red": 0.5, "blue": 0.5}), COLOURS, ChoiceOutcome("red")),
        (CurvePrediction((0.1, 0.9)), DEGREES, NumericOutcome(3.0)),
        (BinaryPrediction(0.3), YES_OR_NO, NumericOutcome(1.0)),
        (CurvePrediction((0.0, 0.25, 0.5, 0.75, 1.0)), DEGREES, ChoiceOutcome("red")),
        (ChoicePrediction({"red": 0.2, "green": 0.5, "blue": 0.3}), COLOURS, BinaryOutcome(1.0)),
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
def test_where_no_rule_applies_there_is_no_score(
    prediction: Prediction, shape: QuestionShape, outcome: Outcome
) -> None:
    assert marks(prediction, shape, outcome) == {}


def test_answers_of_all_kinds_at_once_keep_their_places() -> None:
    answers = [
        ResolvedPrediction(CurvePrediction((0.0, 0.25, 0.5, 0.75, 1.0)), DEGREES, NumericOutcome(30.0)),
        ResolvedPrediction(BinaryPrediction(0.3), YES_OR_NO, BinaryOutcome(1.0)),
        ResolvedPrediction(BinaryPrediction(0.3), YES_OR_NO, VoidOutcome("annulled")),
        ResolvedPrediction(ChoicePrediction({"red": 0.2, "green": 0.5, "blue": 0.3}), COLOURS, ChoiceOutcome("blue")),
        ResolvedPrediction(BinaryPrediction(0.3), YES_OR_NO, BinaryOutcome(0.0)),
        ResolvedPrediction(CurvePrediction((0.0, 0.0, 0.0, 1.0, 1.0)), DEGREES, NumericOutcome(30.0)),
    ]
    together = score_predictions(answers)
    assert together == [score_predictions([answer])[0] for answer in answers]
    assert [one.get(BRIER) for one in together] == pytest.approx([None, 0.49, None, None, 0.09, None])


@pytest.mark.parametrize("shape", [COLOURS, DEGREES, OPEN], ids=["choice", "closed", "open"])
def test_the_flat_answer_has_a_baseline_score_of_zero(shape: ChoiceShape | CurveShape) -> None:
    outcomes: list[Outcome] = (
        [ChoiceOutcome("green")] if isinstance(shape, ChoiceShape) else [NumericOutcome(3.0), NumericOutcome(33.0)]
    )
    rule = CHOICE_BASELINE if isinstance(shape, ChoiceShape) else CURVE_BASELINE
    for outcome in outcomes:
        assert marks(flat_prediction(shape), shape, outcome)[rule] == pytest.approx(0.0, abs=1e-9)
    assert flat_prediction(YES_OR_NO) == BinaryPrediction(0.5)


def test_every_value_is_of_a_rule_for_its_kind() -> None:
    kinds: list[tuple[QuestionShape, Prediction, Outcome]] = [
        (YES_OR_NO, BinaryPrediction(0.3), BinaryOutcome(1.0)),
        (COLOURS, flat_prediction(COLOURS), ChoiceOutcome("red")),
        (OPEN, flat_prediction(OPEN), NumericOutcome(1.0)),
    ]
    for shape, prediction, outcome in kinds:
        assert [*marks(prediction, shape, outcome)] == [rule.name for rule in scoring_rules_for(shape.kind)]
    assert len(SCORING_RULES) == sum(len(scoring_rules_for(shape.kind)) for shape, _, _ in kinds)


def test_a_loss_is_from_nothing_to_one_whatever_the_kind() -> None:
    assert prediction_loss(BinaryPrediction(0.3), YES_OR_NO, BinaryOutcome(1.0)) == pytest.approx(0.49)
    # By hand above: 0.78 of at most 2.
    assert prediction_loss(
        ChoicePrediction({"blue": 0.3, "green": 0.5, "red": 0.2}), COLOURS, ChoiceOutcome("blue")
    ) == pytest.approx(0.39)
    # All of it in the first step, and the last value came.
    assert prediction_loss(CurvePrediction((0.0, 1.0, 1.0, 1.0, 1.0)), DEGREES, NumericOutcome(40.0)) == pytest.approx(
        (1 / 3 + 3) / 4
    )
    assert prediction_loss(BinaryPrediction(0.3), YES_OR_NO, VoidOutcome("nobody knows")) is None
