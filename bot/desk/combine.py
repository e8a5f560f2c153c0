"""From the trials of one question to one prediction per target."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from statistics import median

from bot.domain.belief import PriorSource, TrialPrior
from bot.domain.forecast import Trial, TrialEnd
from bot.domain.prediction import Binary, BinaryShape, Choice, Curve, Prediction
from bot.domain.question import Question


class Pool(StrEnum):
    """How several trials become one answer; the formulas are in ``bot.stats``.

    Shrinkage draws trials that disagree towards what they started from: the crowd's estimate or a base rate. Options
    are pooled by the mean of their shares, the median of them, or (logit mean and shrinkage) the log pool; a curve
    point by point, by the median or (all others) the mean of the CDFs.
    """

    LOGIT_MEAN = "logit-mean"
    MEAN = "mean"
    MEDIAN = "median"
    SHRINK = "shrink"


def counted(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials that enter the aggregate: of those that count, only finished ones if there are two of them.

    Source: BLF, its code: a trial that was cut short is an answer only where nothing better exists.
    """
    counting = [trial for trial in trials if trial.counts]
    finished = [trial for trial in counting if trial.end is TrialEnd.FINISHED]
    return finished if len(finished) > 1 else counting


def suffices(trials: Sequence[Trial], *, wanted: int, share: float) -> bool:
    """Say whether so many of the trials count that they make a forecast: this share of those wanted, and one."""
    return sum(trial.counts for trial in trials) >= max(1.0, share * wanted)


def combine(question: Question, trials: Sequence[Trial], pool: Pool) -> Mapping[str, Prediction]:
    """Return one prediction per target; a single trial is returned unchanged, several dates are combined per date.

    Raises ValueError if no trial counts.
    """
    entering = counted(trials)
    if not entering:
        message = f"{question.ref}: no trial counts as an answer"
        raise ValueError(message)
    prior = next((trial.prior for trial in entering if trial.prior is not None), None)
    return pooled(question, [trial.belief.predictions for trial in entering if trial.belief], pool, prior=prior)


def pooled(
    question: Question, opinions: Sequence[Mapping[str, Prediction]], pool: Pool, *, prior: TrialPrior | None = None
) -> Mapping[str, Prediction]:
    """Return one prediction per target from opinions that each have one for every target; a single one unchanged.

    ``prior`` is what the opinions started from; without it that is the crowd's estimate, else nothing. Raises
    ValueError for no opinion.
    """
    if not opinions:
        message = f"{question.ref}: there is no opinion to pool"
        raise ValueError(message)
    if len(opinions) == 1:
        return opinions[0]
    keys = [target.key for target in question.targets]
    if isinstance(question.shape, BinaryShape):
        return dict(zip(keys, _binary(opinions, keys, pool, prior or _crowd(question)), strict=True))
    return {key: _distribution([opinion[key] for opinion in opinions], pool) for key in keys}


def mixed(
    question: Question, opinions: Sequence[Mapping[str, Prediction]], weights: Sequence[float]
) -> Mapping[str, Prediction]:
    """Return one prediction per target from opinions of different weight: of yes or no the mean of the log-odds.

    Of options and of curves it is the mean of their probabilities. A single opinion is returned unchanged. Raises
    ValueError for no opinion, and for weights that are negative, all 0, or not as many.
    """
    if len(opinions) != len(weights) or not opinions or min(weights) < 0.0 or sum(weights) <= 0.0:
        message = f"{question.ref}: {len(opinions)} opinions and the weights {list(weights)} make no mixture"
        raise ValueError(message)
    if len(opinions) == 1:
        return opinions[0]
    keys = [target.key for target in question.targets]
    return {key: _mixture([opinion[key] for opinion in opinions], weights) for key in keys}


def _mixture(predictions: Sequence[Prediction], weights: Sequence[float]) -> Prediction:
    from bot.stats.aggregation import linear_pool  # noqa: PLC0415 - as above
    from bot.stats.logit import logit, sigmoid  # noqa: PLC0415 - numpy, which a single opinion does not need

    match predictions[0]:
        case Choice(probabilities=first):
            masses = [[p.probabilities[option] for option in first] for p in predictions if isinstance(p, Choice)]
            return Choice(dict(zip(first, linear_pool(masses, weights).tolist(), strict=True)))
        case Curve():
            return Curve(tuple(linear_pool([p.cdf for p in predictions if isinstance(p, Curve)], weights).tolist()))
        case _:
            logits = logit([p.probability for p in predictions if isinstance(p, Binary)])
            shares = [weight / sum(weights) for weight in weights]
            return Binary(float(sigmoid(sum(share * value for share, value in zip(shares, logits, strict=True)))))


def _crowd(question: Question) -> TrialPrior | None:
    return None if question.crowd is None else TrialPrior(PriorSource.CROWD, question.crowd.prediction)


def _binary(
    opinions: Sequence[Mapping[str, Prediction]], keys: Sequence[str], pool: Pool, prior: TrialPrior | None
) -> list[Binary]:
    from bot.stats import aggregation  # noqa: PLC0415 - numpy, which a single trial does not need

    rows = [[opinion[key] for key in keys] for opinion in opinions]
    trials = [[p.probability for p in row if isinstance(p, Binary)] for row in rows]
    match pool:
        case Pool.MEAN:
            whole = aggregation.mean_probability(trials)
        case Pool.MEDIAN:
            whole = aggregation.median_probability(trials)
        case Pool.LOGIT_MEAN:
            whole = aggregation.logit_mean_probability(trials)
        case Pool.SHRINK:
            kind = prior.source if prior is not None else PriorSource.EVEN
            towards = prior.prediction if prior is not None else None
            center = towards.probability if isinstance(towards, Binary) else 0.5
            whole = aggregation.shrink_to_prior(
                aggregation.logit_moments(trials), aggregation.DEFAULT_WEIGHTS[kind], center
            )
    return [Binary(probability) for probability in whole.tolist()]


def _distribution(predictions: Sequence[Prediction], pool: Pool) -> Prediction:
    from bot.stats.aggregation import linear_pool, logarithmic_pool  # noqa: PLC0415 - as above

    if isinstance(predictions[0], Choice):
        options = tuple(predictions[0].probabilities)
        masses = [[p.probabilities[option] for option in options] for p in predictions if isinstance(p, Choice)]
        if pool is Pool.MEDIAN:
            return Choice(_middle_shares(options, masses))
        shares = linear_pool(masses) if pool is Pool.MEAN else logarithmic_pool(masses)
        return Choice(dict(zip(options, shares.tolist(), strict=True)))
    cdfs = [p.cdf for p in predictions if isinstance(p, Curve)]
    if pool is Pool.MEDIAN:
        # The median of each point rises where each curve does.
        return Curve(tuple(median(values) for values in zip(*cdfs, strict=True)))
    return Curve(tuple(linear_pool(cdfs).tolist()))


def _middle_shares(options: Sequence[str], masses: Sequence[Sequence[float]]) -> dict[str, float]:
    middles = [median(values) for values in zip(*masses, strict=True)]
    total = sum(middles)
    # All medians are 0 where each trial is sure of another option.
    shares = [middle / total for middle in middles] if total > 0.0 else [1.0 / len(options)] * len(options)
    return dict(zip(options, shares, strict=True))
