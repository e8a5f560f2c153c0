from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.beliefs import Belief, PriorSource, TrialPrior
from bot.core.forecasts import LIMIT_ENDS, Trial, TrialEnd
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
from bot.core.questions import CrowdForecast, Question, QuestionRef, Target
from bot.forecasting.aggregation import (
    PoolingMethod,
    combine_trials,
    has_enough_trials,
    pool_predictions,
    select_counted_trials,
)


def question(shape: QuestionShape, *keys: str) -> Question:
    targets = tuple(Target(key=key) for key in keys or ("outcome",))
    return Question(ref=QuestionRef("lantern", "1"), title="?", shape=shape, targets=targets)


def trial(
    number: int,
    predictions: Mapping[str, Prediction] | None,
    end: TrialEnd = TrialEnd.FINISHED,
    *,
    stated: bool = True,
    prior: TrialPrior | None = None,
) -> Trial:
    belief = None if predictions is None else Belief(predictions=predictions, stated=stated)
    return Trial(number=number, end=end, belief=belief, steps=1, prior=prior)


def values(predictions: Mapping[str, Prediction]) -> dict[str, float]:
    return {
        key: prediction.probability
        for key, prediction in predictions.items()
        if isinstance(prediction, BinaryPrediction)
    }


def test_a_single_trial_is_returned_unchanged() -> None:
    only = {"outcome": BinaryPrediction(0.00001)}
    assert combine_trials(question(BinaryShape()), [trial(1, only)], PoolingMethod.LOGIT_MEAN) == only


def test_each_date_is_combined_on_its_own() -> None:
    asked = question(BinaryShape(), "near", "far")
    trials = [
        trial(1, {"near": BinaryPrediction(0.2), "far": BinaryPrediction(0.9)}),
        trial(2, {"near": BinaryPrediction(0.4), "far": BinaryPrediction(0.5)}),
    ]
    assert values(combine_trials(asked, trials, PoolingMethod.MEAN)) == pytest.approx({"near": 0.3, "far": 0.7})


def test_the_logit_mean_of_odds_4_and_1_is_odds_2() -> None:
    trials = [trial(1, {"outcome": BinaryPrediction(0.8)}), trial(2, {"outcome": BinaryPrediction(0.5)})]
    assert values(combine_trials(question(BinaryShape()), trials, PoolingMethod.LOGIT_MEAN)) == pytest.approx(
        {"outcome": 2 / 3}
    )


def test_trials_cut_short_count_only_where_nothing_better_exists() -> None:
    half = {"outcome": BinaryPrediction(0.5)}
    finished = [trial(1, half), trial(2, half)]
    short, failed = trial(3, half, TrialEnd.TIME_LIMIT), trial(4, half, TrialEnd.FAILED)
    assert select_counted_trials([*finished, short, failed]) == finished
    assert select_counted_trials([finished[0], short, failed]) == [finished[0], short]


@pytest.mark.parametrize("end", sorted(LIMIT_ENDS))
def test_a_limit_leaves_an_answer_only_after_a_belief_was_stated_on_evidence(end: TrialEnd) -> None:
    half = {"outcome": BinaryPrediction(0.5)}
    assert trial(1, half, end).is_answer
    assert not trial(1, half, end, stated=False).is_answer


@pytest.mark.parametrize("end", [TrialEnd.FAILED, TrialEnd.EMPTY])
def test_a_trial_that_failed_is_no_answer_whatever_it_believed(end: TrialEnd) -> None:
    failed = trial(1, {"outcome": BinaryPrediction(0.9)}, end)
    assert not failed.is_answer
    assert select_counted_trials([failed]) == []
    with pytest.raises(ValueError, match="no trial counts"):
        combine_trials(question(BinaryShape()), [failed], PoolingMethod.MEAN)


@pytest.mark.parametrize(
    ("counting", "wanted", "share", "enough"),
    [
        (2, 5, 0.5, False),
        (3, 5, 0.5, True),
        (0, 1, 0.0, False),
        (1, 5, 0.0, True),
        (4, 5, 1.0, False),
        (5, 5, 1.0, True),
    ],
)
def test_a_forecast_needs_a_share_of_the_trials_and_always_one(
    counting: int, wanted: int, share: float, *, enough: bool
) -> None:
    half = {"outcome": BinaryPrediction(0.5)}
    trials = [trial(n, half, TrialEnd.FINISHED if n <= counting else TrialEnd.FAILED) for n in range(1, wanted + 1)]
    assert has_enough_trials(trials, wanted=wanted, share=share) is enough


def test_without_any_belief_there_is_no_answer() -> None:
    with pytest.raises(ValueError, match="no trial counts"):
        combine_trials(question(BinaryShape()), [trial(1, None, TrialEnd.FAILED)], PoolingMethod.MEAN)


def test_options_and_curves_are_pooled_whole() -> None:
    options = question(ChoiceShape(options=("a", "b")))
    choices = [trial(n, {"outcome": ChoicePrediction({"a": p, "b": 1 - p})}) for n, p in enumerate((0.2, 0.4), 1)]
    pooled = combine_trials(options, choices, PoolingMethod.MEAN)["outcome"]
    assert isinstance(pooled, ChoicePrediction)
    assert dict(pooled.probabilities) == pytest.approx({"a": 0.3, "b": 0.7})
    number = question(CurveShape(grid=(0.0, 1.0, 2.0)))
    curves = [trial(n, {"outcome": CurvePrediction((0.0, p, 1.0))}) for n, p in enumerate((0.2, 0.4), 1)]
    curve = combine_trials(number, curves, PoolingMethod.MEAN)["outcome"]
    assert isinstance(curve, CurvePrediction)
    assert curve.cdf == pytest.approx((0.0, 0.3, 1.0))


@given(
    st.lists(st.floats(0.001, 0.999), min_size=2, max_size=7),
    st.sampled_from([PoolingMethod.MEAN, PoolingMethod.MEDIAN, PoolingMethod.LOGIT_MEAN]),
)
def test_a_pool_lies_between_its_trials(probabilities: list[float], pool: PoolingMethod) -> None:
    trials = [trial(n, {"outcome": BinaryPrediction(p)}) for n, p in enumerate(probabilities, 1)]
    pooled = combine_trials(question(BinaryShape()), trials, pool)["outcome"]
    assert isinstance(pooled, BinaryPrediction)
    assert min(probabilities) - 1e-9 <= pooled.probability <= max(probabilities) + 1e-9


@pytest.mark.parametrize(
    ("pool", "expected"),
    # Odds 1, 4 and 16: the median, and 0.3 to 0.7 of the way to the mean of the logs, which is odds 4.
    [(PoolingMethod.MEDIAN, 0.8), (PoolingMethod.LOGIT_MEAN, 0.8)],
)
def test_the_middle_of_three_odds(pool: PoolingMethod, expected: float) -> None:
    trials = [trial(n, {"outcome": BinaryPrediction(p)}) for n, p in enumerate((1 / 2, 4 / 5, 16 / 17), 1)]
    assert values(combine_trials(question(BinaryShape()), trials, pool)) == pytest.approx({"outcome": expected})


# Of the paper's own kind: most trials near 0, one that doubts. Its logit mean, by hand: (-3.891820 - 3.891820 -
# 2.197225 - 2.944439 - 0.847298) / 5 = -2.754520, which is 0.059832.
LOW = (0.02, 0.02, 0.10, 0.05, 0.30)


def shrunk(asked: Question, prior: TrialPrior | None = None) -> float:
    trials = [trial(n, {"outcome": BinaryPrediction(p)}, prior=prior) for n, p in enumerate(LOW, 1)]
    return values(combine_trials(asked, trials, PoolingMethod.SHRINK))["outcome"]


def test_trials_that_saw_the_crowd_are_not_shrunk() -> None:
    crowd = CrowdForecast(prediction=BinaryPrediction(0.4), at=datetime(2026, 1, 1, tzinfo=UTC))
    assert shrunk(replace(question(BinaryShape()), crowd=crowd)) == pytest.approx(0.059832, abs=1e-6)
    said = TrialPrior(PriorSource.CROWD, BinaryPrediction(0.4))
    assert shrunk(question(BinaryShape()), said) == pytest.approx(0.059832, abs=1e-6)


def test_trials_are_shrunk_towards_the_base_rate_that_they_started_from() -> None:
    # Their spread of 1.150 in log-odds leaves them the floor, 0.3: 0.3 * -2.754520 + 0.7 * logit(0.05) = -2.887463.
    assert shrunk(question(BinaryShape()), TrialPrior(PriorSource.BASE_RATE, BinaryPrediction(0.05))) == pytest.approx(
        0.052777, abs=1e-6
    )
    far = TrialPrior(PriorSource.BASE_RATE, BinaryPrediction(0.4))
    assert shrunk(question(BinaryShape()), far) == pytest.approx(0.247837, abs=1e-6)


def test_trials_that_hid_the_crowd_do_not_get_it_back() -> None:
    crowd = CrowdForecast(prediction=BinaryPrediction(0.4), at=datetime(2026, 1, 1, tzinfo=UTC))
    asked = replace(question(BinaryShape()), crowd=crowd)
    hidden = TrialPrior(PriorSource.EVEN, BinaryPrediction(0.5))
    assert shrunk(asked, hidden) == shrunk(question(BinaryShape())) == pytest.approx(0.126954, abs=1e-6)


def test_shrinking_draws_towards_one_half_and_no_further() -> None:
    trials = [trial(n, {"outcome": BinaryPrediction(p)}) for n, p in enumerate((0.6, 0.9), 1)]
    [shrunk] = values(combine_trials(question(BinaryShape()), trials, PoolingMethod.SHRINK)).values()
    [mean] = values(combine_trials(question(BinaryShape()), trials, PoolingMethod.LOGIT_MEAN)).values()
    assert 0.5 < shrunk < mean


def test_the_median_of_options_is_taken_for_each_and_adds_up_to_one() -> None:
    shape = ChoiceShape(options=("a", "b"))
    trials = [
        trial(n, {"outcome": ChoicePrediction({"a": a, "b": 1.0 - a})}) for n, a in enumerate((0.1, 0.2, 0.9), start=1)
    ]
    assert combine_trials(question(shape), trials, PoolingMethod.MEDIAN) == {
        "outcome": ChoicePrediction({"a": 0.2, "b": 0.8})
    }


def test_options_of_which_each_trial_is_sure_of_another_count_alike() -> None:
    shape = ChoiceShape(options=("a", "b", "c"))
    sure = [ChoicePrediction({name: float(name == chosen) for name in "abc"}) for chosen in "abc"]
    trials = [trial(n, {"outcome": one}) for n, one in enumerate(sure, start=1)]
    assert combine_trials(question(shape), trials, PoolingMethod.MEDIAN) == {
        "outcome": ChoicePrediction(dict.fromkeys("abc", 1.0 / 3.0))
    }


def test_the_median_of_curves_is_taken_at_each_point() -> None:
    shape = CurveShape(grid=(0.0, 1.0, 2.0))
    cdfs = ((0.0, 0.1, 1.0), (0.0, 0.3, 1.0), (0.0, 0.9, 1.0))
    trials = [trial(n, {"outcome": CurvePrediction(cdf)}) for n, cdf in enumerate(cdfs, start=1)]
    assert combine_trials(question(shape), trials, PoolingMethod.MEDIAN) == {
        "outcome": CurvePrediction((0.0, 0.3, 1.0))
    }


def test_no_opinion_at_all_makes_no_pool() -> None:
    asked = Question(ref=QuestionRef("a", "b"), title="?", shape=BinaryShape(), targets=(Target(),))
    with pytest.raises(ValueError, match="no opinion to pool"):
        pool_predictions(asked, [], PoolingMethod.MEAN)
