"""What a run amounts to in plain numbers, which can be handed from process to process and written down."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bot.desk.combine import Pool, combine, counted
from bot.domain.prediction import Binary
from bot.testing.lab.bench import PRICE_IN, PRICE_OUT, Run
from bot.testing.lab.questions import Case

MILLION = 1e6
LOGIT_MEAN = str(Pool.LOGIT_MEAN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What answers took: calls to models with their tokens, the price of those, steps, and real seconds."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    steps: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaks:
    """What was rewritten with the outcome after the cutoff and met by the forecaster all the same, text by text.

    ``met`` counts those that the engine brought, ``let_in`` those that the forecaster could read, ``caught`` those of
    them that the audit found, ``fakes`` what else it found: texts that only pretend to tell an outcome; ``wrongly``
    counts what it found in others.
    """

    met: int
    let_in: int
    caught: int
    fakes: int
    wrongly: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """What came out of the gate, in the order of the cases: ``adopted`` holds the places of those that a fit moved."""

    answers: Sequence[float]
    adopted: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The answers of one forecaster to all cases, in their order: by how many of its trials were pooled, and how.

    ``silent`` counts the questions that it has no answer to, which count as even odds.
    """

    name: str
    trials: int
    pooled: Mapping[tuple[int, str], Sequence[float]]
    uses: Mapping[int, Use]
    silent: int
    failures: Mapping[str, int]
    leaks: Leaks | None = None
    corrected: Corrected | None = None

    @property
    def use(self) -> Use:
        """What all trials took."""
        return self.uses[self.trials]

    def said(self, count: int, pool: str = LOGIT_MEAN) -> Sequence[float]:
        """Return the answers of the first trials."""
        return self.pooled[count, pool]


def answers_of(run: Run, cases: Sequence[Case]) -> Answers:
    """Return the plain numbers of a run."""
    numbers, failures = range(1, run.setup.trials + 1), Counter[str]()
    for trial in (trial for trials in run.trials for trial in trials):
        failures.update([trial.detail] if trial.detail else [])
    return Answers(
        name=run.setup.name,
        trials=run.setup.trials,
        pooled={(count, str(pool)): _pooled(run, cases, count, pool) for count in numbers for pool in Pool},
        uses={count: _use(run, count) for count in numbers},
        silent=sum(not counted(trials) for trials in run.trials),
        failures=dict(failures),
    )


def _pooled(run: Run, cases: Sequence[Case], count: int, pool: Pool) -> list[float]:
    found = []
    for case, trials in zip(cases, run.trials, strict=True):
        first = trials[:count]
        told = combine(case.question, first, pool) if counted(first) else {}
        said = next(iter(told.values()), Binary(0.5))
        found.append(said.probability if isinstance(said, Binary) else 0.5)
    return found


def _use(run: Run, count: int) -> Use:
    """Return what the first trials took; the seconds are the share of all that they are of the steps."""
    trials = [trial for found in run.trials for trial in found[:count]]
    steps, tokens_in = sum(trial.steps for trial in trials), sum(trial.usage.tokens_in for trial in trials)
    tokens_out = sum(trial.usage.tokens_out for trial in trials)
    return Use(
        calls=sum(trial.usage.calls for trial in trials),
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        cost_usd=(tokens_in * PRICE_IN + tokens_out * PRICE_OUT) / MILLION,
        steps=steps,
        seconds=run.seconds * steps / max(1, run.steps),
    )
