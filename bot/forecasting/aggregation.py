"""From several predictions to one per target: the trials of a forecast, or the forecasts of several forecasters."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from statistics import median
from typing import TYPE_CHECKING

from bot.core.beliefs import PriorSource, TrialPrior
from bot.core.forecasts import Trial, TrialEnd
from bot.core.predictions import BinaryPrediction, BinaryShape, ChoicePrediction, CurvePrediction, Prediction
from bot.core.questions import Question
from bot.core.values import Json
from bot.store.serialization import PREDICTIONS

if TYPE_CHECKING:
    from bot.stats.aggregation import SpreadWeight

PEER_FORECASTS = "peer_forecasts"
# Among the names that ``peer_forecasts`` is given: the price of the same question at other venues.
ELSEWHERE_MEMBER = "elsewhere"


def read_predictions(plain: Json) -> Mapping[str, Prediction]:
    """Return the predictions in the data of a tool; raises MalformedDataError for invalid data."""
    return PREDICTIONS.value(plain)


class PoolingMethod(StrEnum):
    """How several trials become one answer; the formulas are in ``bot.stats``.

    Shrinkage moves trials that disagree towards their starting point: the crowd's estimate or a base rate. Options are
    pooled by the mean of their shares, their median, or (logit mean and shrinkage) the log pool. A curve is pooled
    point by point, by the median or (all other methods) the mean of the CDFs.
    """

    LOGIT_MEAN = "logit-mean"
    MEAN = "mean"
    MEDIAN = "median"
    SHRINK = "shrink"


def select_counted_trials(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials that enter the aggregate: of those that count, only finished ones if there are at least two.

    Source: BLF, its code: a trial that was cut short is an answer only if nothing better exists.
    """
    counting = [trial for trial in trials if trial.is_answer]
    finished = [trial for trial in counting if trial.end is TrialEnd.FINISHED]
    return finished if len(finished) > 1 else counting


def has_enough_trials(trials: Sequence[Trial], *, wanted: int, share: float) -> bool:
    """Say whether enough trials count to make a forecast: this share of those wanted, and at least one."""
    return sum(trial.is_answer for trial in trials) >= max(1.0, share * wanted)


def combine_trials(
    question: Question,
    trials: Sequence[Trial],
    pool: PoolingMethod,
    *,
    rules: "Mapping[PriorSource, SpreadWeight] | None" = None,
) -> Mapping[str, Prediction]:
    """Return one prediction per target; a single trial is returned unchanged, several dates are combined per date.

    ``rules`` replace the default weights of shrinkage. Raises ValueError if no trial counts.
    """
    entering = select_counted_trials(trials)
    if not entering:
        message = f"{question.ref}: no trial counts as an answer"
        raise ValueError(message)
    opinions = [trial.belief.predictions for trial in entering if trial.belief]
    return pool_predictions(question, opinions, pool, prior=starting_point(question, entering), rules=rules)


def starting_point(question: Question, trials: Sequence[Trial]) -> TrialPrior | None:
    """Return where trials began: as the first of them states, else at the crowd's estimate, if any."""
    return next((trial.prior for trial in trials if trial.prior is not None), _crowd_prior(question))


def shrinkage_target(prior: TrialPrior | None) -> tuple[PriorSource, float]:
    """Return the kind of a starting point, and the probability to which trials are moved."""
    if prior is None:
        return PriorSource.EVEN, 0.5
    return prior.source, prior.prediction.probability if isinstance(prior.prediction, BinaryPrediction) else 0.5


def pool_predictions(
    question: Question,
    opinions: Sequence[Mapping[str, Prediction]],
    pool: PoolingMethod,
    *,
    prior: TrialPrior | None = None,
    rules: "Mapping[PriorSource, SpreadWeight] | None" = None,
) -> Mapping[str, Prediction]:
    """Return one prediction per target from opinions that each have one for every target; a single one unchanged.

    ``prior`` is the starting point of the opinions; without it the crowd's estimate, if any. Raises ValueError if there
    is no opinion.
    """
    if not opinions:
        message = f"{question.ref}: there is no opinion to pool"
        raise ValueError(message)
    if len(opinions) == 1:
        return opinions[0]
    keys = [target.key for target in question.targets]
    if isinstance(question.shape, BinaryShape):
        pooled = _pool_binary(opinions, keys, pool, prior or _crowd_prior(question), rules or {})
        return dict(zip(keys, pooled, strict=True))
    return {key: _pool_distribution([opinion[key] for opinion in opinions], pool) for key in keys}


def blend_predictions(predictions: Sequence[Prediction], weights: Sequence[float]) -> Prediction:
    """Return the log-linear pool of predictions of one target: the weighted sum of their log odds.

    Weights need not sum to one: a larger sum makes the pool surer. Options, and steps of a CDF, are pooled by their
    masses in the same way. Raises ValueError for no prediction, and for weights that are negative, all 0, or too few.
    """
    from bot.stats.aggregation import logarithmic_pool, logarithmic_pool_cdf  # noqa: PLC0415 - as above
    from bot.stats.arrays import logit, sigmoid  # noqa: PLC0415 - numpy, which a single trial does not need

    if len(predictions) != len(weights) or not predictions or min(weights) < 0.0 or sum(weights) <= 0.0:
        message = f"{len(predictions)} predictions cannot be pooled with the weights {list(weights)}"
        raise ValueError(message)
    power = sum(weights)
    match predictions[0]:
        case ChoicePrediction(probabilities=first):
            masses = [
                [p.probabilities[option] for option in first] for p in predictions if isinstance(p, ChoicePrediction)
            ]
            pooled = logarithmic_pool(masses, weights, power=power).tolist()
            return ChoicePrediction(dict(zip(first, pooled, strict=True)))
        case CurvePrediction():
            cdfs = [p.cdf for p in predictions if isinstance(p, CurvePrediction)]
            return CurvePrediction(tuple(logarithmic_pool_cdf(cdfs, weights, power=power).tolist()))
        case _:
            logits = logit([p.probability for p in predictions if isinstance(p, BinaryPrediction)])
            return BinaryPrediction(
                float(sigmoid(sum(weight * value for weight, value in zip(weights, logits, strict=True))))
            )


def pool_prices(prices: Sequence[Prediction]) -> Prediction:
    """Return the mean of the prices of one target in log odds; raises ValueError for no price."""
    return blend_predictions(prices, [1.0 / len(prices)] * len(prices) if prices else [])


def summarize_prediction(prediction: Prediction) -> str:
    """Return a prediction in a few words; a distribution is only named, since its grid is not available here."""
    match prediction:
        case BinaryPrediction(probability=probability):
            return f"{probability:.3f}"
        case ChoicePrediction(probabilities=probabilities):
            likely = sorted(probabilities.items(), key=lambda item: -item[1])[:3]
            return ", ".join(f"{option} {probability:.3f}" for option, probability in likely)
        case _:
            return "a distribution"


def _crowd_prior(question: Question) -> TrialPrior | None:
    return None if question.crowd is None else TrialPrior(PriorSource.CROWD, question.crowd.prediction)


def _pool_binary(
    opinions: Sequence[Mapping[str, Prediction]],
    keys: Sequence[str],
    pool: PoolingMethod,
    prior: TrialPrior | None,
    rules: "Mapping[PriorSource, SpreadWeight]",
) -> list[BinaryPrediction]:
    from bot.stats import aggregation  # noqa: PLC0415 - numpy, which a single trial does not need

    rows = [[opinion[key] for key in keys] for opinion in opinions]
    trials = [[p.probability for p in row if isinstance(p, BinaryPrediction)] for row in rows]
    match pool:
        case PoolingMethod.MEAN:
            pooled = aggregation.mean_probability(trials)
        case PoolingMethod.MEDIAN:
            pooled = aggregation.median_probability(trials)
        case PoolingMethod.LOGIT_MEAN:
            pooled = aggregation.logit_mean_probability(trials)
        case PoolingMethod.SHRINK:
            kind, center = shrinkage_target(prior)
            rule = rules.get(kind, aggregation.DEFAULT_WEIGHTS[kind])
            pooled = aggregation.shrink_to_prior(aggregation.logit_moments(trials), rule, center)
    return [BinaryPrediction(probability) for probability in pooled.tolist()]


def _pool_distribution(predictions: Sequence[Prediction], pool: PoolingMethod) -> Prediction:
    from bot.stats.aggregation import linear_pool, logarithmic_pool  # noqa: PLC0415 - as above

    if isinstance(predictions[0], ChoicePrediction):
        options = tuple(predictions[0].probabilities)
        masses = [
            [p.probabilities[option] for option in options] for p in predictions if isinstance(p, ChoicePrediction)
        ]
        if pool is PoolingMethod.MEDIAN:
            return ChoicePrediction(_median_shares(options, masses))
        shares = linear_pool(masses) if pool is PoolingMethod.MEAN else logarithmic_pool(masses)
        return ChoicePrediction(dict(zip(options, shares.tolist(), strict=True)))
    cdfs = [p.cdf for p in predictions if isinstance(p, CurvePrediction)]
    if pool is PoolingMethod.MEDIAN:
        # The median of each point rises if each curve does.
        return CurvePrediction(tuple(median(values) for values in zip(*cdfs, strict=True)))
    return CurvePrediction(tuple(linear_pool(cdfs).tolist()))


def _median_shares(options: Sequence[str], masses: Sequence[Sequence[float]]) -> dict[str, float]:
    medians = [median(values) for values in zip(*masses, strict=True)]
    total = sum(medians)
    # All medians are 0 if each trial is sure of another option.
    shares = [value / total for value in medians] if total > 0.0 else [1.0 / len(options)] * len(options)
    return dict(zip(options, shares, strict=True))
