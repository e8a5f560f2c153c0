"""How the trials of a forecast became one answer: told from the record, since it is the numbers that prove it."""

from collections.abc import Mapping
from dataclasses import dataclass

from bot.desk.combine import Pool, combine, counted
from bot.desk.failures import reason_of
from bot.domain.forecast import Trial
from bot.domain.prediction import Binary, Choice, Curve, Prediction
from bot.store.forecasts import Trace

# Another build of numpy may round the last digit of a mean otherwise.
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooled:
    """Which trials counted, why others did not (by number), and how they were pooled.

    ``pool`` is the way that gives what is on record: the configured one where that does, None where none does; with a
    single trial that counts there is nothing to pool, and it is None too.
    """

    counted: tuple[int, ...]
    left_out: Mapping[int, str]
    pool: Pool | None


def pooled(trace: Trace, configured: Pool) -> Pooled:
    """Find out how the trials on record became the raw predictions on record."""
    trials = [record.trial for record in trace.trials if record.trial is not None]
    numbers = tuple(trial.number for trial in counted(trials))
    pools = dict.fromkeys((configured, *Pool)) if len(numbers) > 1 else {}
    return Pooled(
        counted=numbers,
        left_out={trial.number: _why(trial) for trial in trials if trial.number not in numbers},
        pool=next((pool for pool in pools if _gives(trace, trials, pool)), None),
    )


def same(one: Mapping[str, Prediction], other: Mapping[str, Prediction]) -> bool:
    """Say whether two sets of predictions are the same but for the rounding of the last digits."""
    return one.keys() == other.keys() and all(_close(one[key], other[key]) for key in one)


def _gives(trace: Trace, trials: list[Trial], pool: Pool) -> bool:
    return trace.forecast is not None and same(combine(trace.question, trials, pool), trace.forecast.raw)


def _why(trial: Trial) -> str:
    if not trial.counts:
        return f"it failed: {reason_of(trial)}"
    return f"it was cut short ({trial.end}), and others came to their end"


def _close(one: Prediction, other: Prediction) -> bool:
    pairs = zip(_numbers(one), _numbers(other), strict=False)
    alike = type(one) is type(other) and len(_numbers(one)) == len(_numbers(other))
    return alike and all(abs(a - b) <= ROUNDING for a, b in pairs)


def _numbers(prediction: Prediction) -> tuple[float, ...]:
    match prediction:
        case Binary(probability=probability):
            return (probability,)
        case Choice(probabilities=options):
            return tuple(options[name] for name in sorted(options))
        case Curve(cdf=cdf):
            return cdf
