"""The answers of a forecaster in plain numbers, which can be passed between processes and stored."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from bot.core.beliefs import ModelUsage
from bot.core.forecasts import Trial
from bot.core.light_dataclass import dataclass
from bot.core.predictions import BinaryPrediction
from bot.forecasting.aggregation import PoolingMethod, combine_trials, select_counted_trials
from bot.simulator.laboratory.questions import LaboratoryQuestion
from bot.simulator.laboratory.trial_runner import PRICE_IN, PRICE_OUT, LaboratoryRun

TOKENS_PER_PRICE = 1e6
LOGIT_MEAN = str(PoolingMethod.LOGIT_MEAN)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCosts:
    """The cost of answers: calls to models with their tokens, the price of those, steps, and real seconds."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    steps: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakCounts:
    """Articles that were rewritten with the outcome after the cutoff and that the forecaster met, counted by text.

    ``found_by_search`` counts those that the engine returned, ``let_in`` those that the forecaster could read,
    ``caught`` those of them that the audit found, ``fakes`` its other findings: texts that only pretend to reveal an
    outcome; ``false_alarms`` counts its findings in other texts.
    """

    found_by_search: int
    let_in: int
    caught: int
    fakes: int
    false_alarms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedAnswers:
    """The answers after the gate, in the order of the cases: ``adopted`` holds the places of those that a fit moved."""

    answers: Sequence[float]
    adopted: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecasterAnswers:
    """The answers of one forecaster to all cases, in their order: by the number of its trials that were pooled.

    ``unanswered`` counts the questions without an answer, which count as even odds; ``sub_goal_rate`` is the share of
    sub-goals that a team settled.
    """

    name: str
    trials: int
    pooled: Mapping[tuple[int, str], Sequence[float]]
    uses: Mapping[int, TrialCosts]
    unanswered: int
    failures: Mapping[str, int]
    sub_goal_rate: float | None = None
    leaks: LeakCounts | None = None
    corrected: CalibratedAnswers | None = None

    @property
    def use(self) -> TrialCosts:
        """The cost of all trials."""
        return self.uses[self.trials]

    @property
    def progress(self) -> str:
        """What it took, in a line."""
        use, silent = self.use, f", {self.unanswered} without an answer" if self.unanswered else ""
        return f"{use.calls} calls, {use.steps} steps, {use.seconds:.0f} s{silent}"

    def pooled_answers(self, count: int, pool: str = LOGIT_MEAN) -> Sequence[float]:
        """Return the answers of the first trials."""
        return self.pooled[count, pool]


def collect_answers(run: LaboratoryRun, cases: Sequence[LaboratoryQuestion]) -> ForecasterAnswers:
    """Return the plain numbers of a run."""
    numbers, failures = range(1, run.setup.trials + 1), Counter[str]()
    for trial in (trial for trials in run.trials for trial in trials):
        failures.update([trial.detail] if trial.detail else [])
    return ForecasterAnswers(
        name=run.setup.name,
        trials=run.setup.trials,
        pooled={
            (count, str(pool)): _pooled_answers(run, cases, count, pool) for count in numbers for pool in PoolingMethod
        },
        uses={count: _costs_of_trials(run, count) for count in numbers},
        unanswered=sum(not select_counted_trials(trials) for trials in run.trials),
        failures=dict(failures),
        sub_goal_rate=run.sub_goal_rate,
    )


def _pooled_answers(
    run: LaboratoryRun, cases: Sequence[LaboratoryQuestion], count: int, pool: PoolingMethod
) -> list[float]:
    found = []
    for case, trials in zip(cases, run.trials, strict=True):
        first = trials[:count]
        combined = combine_trials(case.question, first, pool) if select_counted_trials(first) else {}
        prediction = next(iter(combined.values()), BinaryPrediction(0.5))
        found.append(prediction.probability if isinstance(prediction, BinaryPrediction) else 0.5)
    return found


def _costs_of_trials(run: LaboratoryRun, count: int) -> TrialCosts:
    """Return the cost of the first trials; the seconds are shared out by steps."""
    trials = [trial for found in run.trials for trial in found[:count]]
    return costs_of_trials(trials, seconds_per_step=run.seconds / max(1, run.steps))


def costs_of_trials(trials: Iterable[Trial], *, seconds_per_step: float) -> TrialCosts:
    """Return the cost of trials at the stated prices."""
    counted = [*trials]
    usage = sum((trial.usage for trial in counted), ModelUsage())
    steps = sum(trial.steps for trial in counted)
    return TrialCosts(
        calls=usage.calls,
        tokens_in=usage.tokens_in,
        tokens_out=usage.tokens_out,
        cost_usd=(usage.tokens_in * PRICE_IN + usage.tokens_out * PRICE_OUT) / TOKENS_PER_PRICE,
        steps=steps,
        seconds=steps * seconds_per_step,
    )
