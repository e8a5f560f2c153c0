"""Shrinkage tuned forward: the weights follow planted noise, by kind and block, and no later outcome changes them."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from bot.core.beliefs import Belief, PriorSource, TrialPrior
from bot.core.errors import LeakError
from bot.core.forecasts import Trial, TrialEnd
from bot.core.learning import FittedParameters, ResolvedForecast
from bot.core.outcomes import BinaryOutcome, Resolution
from bot.core.predictions import BinaryPrediction, BinaryShape
from bot.core.questions import Question, QuestionRef, Target
from bot.forecasting.aggregation import PoolingMethod, combine_trials
from bot.forecasting.tuned_shrinkage import (
    MIN_BLOCKS,
    ShrinkageExample,
    rules_from_fit,
    rules_to_payload,
    shrinkage_examples,
    tune_shrinkage,
)
from bot.stats.aggregation import SpreadWeight
from bot.stats.arrays import FloatArray

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def squash(logits: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-logits)), dtype=np.float64)


def events(
    count: int, *, noise: float, kind: PriorSource = PriorSource.BASE_RATE, days: int = 40
) -> list[ShrinkageExample]:
    """Return events whose truth is around their starting point, with trials that scatter around it by this much."""
    rng = np.random.default_rng(3)
    center = rng.uniform(0.1, 0.9, count)
    truth = np.log(center / (1 - center)) + rng.normal(0.0, 1.0, count)
    trials = squash(truth + rng.normal(0.0, noise, (3, count)))
    outcomes = rng.random(count) < squash(truth)
    return [
        ShrinkageExample(
            trials=tuple(trials[:, place]),
            kind=kind,
            center=float(center[place]),
            outcome=float(outcomes[place]),
            block=place % days,
        )
        for place in range(count)
    ]


def test_noisy_trials_are_moved_further_than_good_ones() -> None:
    noisy = tune_shrinkage(events(1200, noise=3.0))[PriorSource.BASE_RATE]
    good = tune_shrinkage(events(1200, noise=0.2))[PriorSource.BASE_RATE]
    spread = np.array([1.5])
    assert noisy.weights(spread)[0] < 0.5
    assert good.weights(np.array([0.2]))[0] > 0.7


def test_it_is_the_pair_of_the_grid_with_the_least_loss_by_an_independent_count() -> None:
    found = tune_shrinkage(examples := events(300, noise=2.0, days=25))[PriorSource.BASE_RATE]
    trials = np.clip(np.array([one.trials for one in examples]), 0.005, 0.995)
    logits = np.log(trials / (1 - trials))
    center = np.array([one.center for one in examples])
    blocks = np.array([one.block for one in examples])
    outcomes = np.array([one.outcome for one in examples])
    losses = {}
    for floor in range(11):
        for slope in range(11):
            weight = np.maximum(floor / 10, 1 - slope / 5 * logits.std(axis=1))
            answer = squash(weight * logits.mean(axis=1) + (1 - weight) * np.log(center / (1 - center)))
            squares = (answer - outcomes) ** 2
            losses[floor / 10, slope / 5] = np.mean([squares[blocks == block].mean() for block in set(blocks)])
    assert losses[found.floor, found.slope] == pytest.approx(min(losses.values()))


def test_too_few_blocks_leave_the_default_weights() -> None:
    assert tune_shrinkage(events(500, noise=3.0, days=MIN_BLOCKS - 1)) == {}
    mixed = [*events(500, noise=3.0), *events(500, noise=3.0, kind=PriorSource.CROWD, days=5)]
    assert tune_shrinkage(mixed).keys() == {PriorSource.BASE_RATE}


def trial(number: int, probability: float) -> Trial:
    prior = TrialPrior(PriorSource.BASE_RATE, BinaryPrediction(0.2))
    belief = Belief(predictions={"outcome": BinaryPrediction(probability)}, stated=True)
    return Trial(number=number, end=TrialEnd.FINISHED, belief=belief, steps=2, prior=prior)


QUESTION = Question(
    ref=QuestionRef("lantern", "lamp"),
    title="Will the lamp be lit?",
    shape=BinaryShape(),
    targets=(Target(),),
    batch="week",
    source="almanac",
)


def past(*, day: int) -> ResolvedForecast:
    return ResolvedForecast(
        forecast="f",
        forecaster="blf",
        question=QUESTION,
        prediction=BinaryPrediction(0.5),
        resolution=Resolution(
            ref=QUESTION.ref, target="outcome", outcome=BinaryOutcome(1.0), resolved_at=START + day * DAY
        ),
        cutoff=START,
    )


def test_examples_are_of_two_or_more_trials_and_never_of_later_outcomes() -> None:
    trials = [trial(1, 0.3), trial(2, 0.6)]
    (found,) = shrinkage_examples([(past(day=2), trials), (past(day=2), trials[:1])], before=START + 3 * DAY)
    assert (found.trials, found.kind, found.center, found.outcome) == ((0.3, 0.6), PriorSource.BASE_RATE, 0.2, 1.0)
    assert found.block == ("week", (START + 2 * DAY).date(), "almanac")
    with pytest.raises(LeakError):
        [*shrinkage_examples([(past(day=3), trials)], before=START + 3 * DAY)]


def test_rules_survive_the_ledger_and_replace_the_default_weights() -> None:
    rules = {PriorSource.BASE_RATE: SpreadWeight(0.0, 2.0)}
    fitted = FittedParameters(
        forecaster="x", before=START, examples=1, payload={"rules": rules_to_payload(rules)}, provenance={}
    )
    assert rules_from_fit(fitted) == rules
    assert rules_from_fit(None) == {}
    trials = [trial(1, 0.1), trial(2, 0.9)]
    # Logits that scatter by 2.2 have the weight 0 under this rule, so the base rate is the answer.
    found = combine_trials(QUESTION, trials, PoolingMethod.SHRINK, rules=rules)["outcome"]
    assert isinstance(found, BinaryPrediction)
    assert found.probability == pytest.approx(0.2)
    assert combine_trials(QUESTION, trials, PoolingMethod.SHRINK)["outcome"] != found
