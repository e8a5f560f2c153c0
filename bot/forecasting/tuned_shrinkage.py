"""How far trials that disagree are moved to their starting point, tuned on what had resolved before the forecast.

There is one rule for each kind of starting point (crowd, base rate, even odds), tuned for each forecaster and day on
trials of its own resolved forecasts. Outcomes of one round, day and source move together and count as one. A kind with
too few of those keeps the default weights. Source: BLF (arXiv 2604.18576v3), equations 7 and 8 and appendix C.9, which
tunes on all other questions; here only earlier outcomes count, since those of other questions are not known in time.
"""

import asyncio
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

import structlog

from bot.core.beliefs import PriorSource
from bot.core.errors import LeakError
from bot.core.forecasts import Trial
from bot.core.interfaces import Clock
from bot.core.learning import FittedParameters, ResolvedForecast
from bot.core.light_dataclass import dataclass
from bot.core.outcomes import BinaryOutcome
from bot.core.predictions import BinaryPrediction
from bot.core.values import Json
from bot.forecasting.aggregation import select_counted_trials, shrinkage_target, starting_point
from bot.forecasting.parameter_fitting import MAX_CACHED_CUTOFFS, utc_day
from bot.store.ledger import Ledger

if TYPE_CHECKING:
    from bot.stats.aggregation import SpreadWeight

log = structlog.get_logger()

RULES_KEY = "rules"
# Fewer blocks say too little: the grid has 121 pairs to choose from.
MIN_BLOCKS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrinkageExample:
    """The trials of a resolved event, probabilities in [0, 1], and where they began; ``outcome`` is in [0, 1]."""

    trials: tuple[float, ...]
    kind: PriorSource
    center: float
    outcome: float
    block: Hashable


def shrinkage_examples(
    pasts: Iterable[tuple[ResolvedForecast, Sequence[Trial]]], *, before: datetime
) -> Iterator[ShrinkageExample]:
    """Yield the yes-or-no events with two or more trials that count; raises LeakError for a later outcome."""
    for past, trials in pasts:
        if past.resolution.resolved_at >= before:
            message = f"{past.resolution.ref} was not resolved before {before.isoformat()}"
            raise LeakError(message)
        counted = [trial for trial in select_counted_trials(trials) if trial.belief is not None]
        said = [trial.belief.predictions.get(past.resolution.target) for trial in counted if trial.belief is not None]
        answers = tuple(one.probability for one in said if isinstance(one, BinaryPrediction))
        if len(answers) < 2 or len(answers) < len(counted) or not isinstance(past.outcome, BinaryOutcome):
            continue
        kind, center = shrinkage_target(starting_point(past.question, counted))
        day = past.resolution.resolved_at.astimezone(UTC).date()
        yield ShrinkageExample(
            trials=answers,
            kind=kind,
            center=center,
            outcome=past.outcome.value,
            block=(past.question.batch or "", day, past.question.source or past.question.ref.venue),
        )


def tune_shrinkage(examples: Sequence[ShrinkageExample]) -> "dict[PriorSource, SpreadWeight]":
    """Return the rule with the least mean Brier score for each kind with enough blocks, each block with one weight."""
    by_kind: defaultdict[PriorSource, list[ShrinkageExample]] = defaultdict(list)
    for example in examples:
        by_kind[example.kind].append(example)
    return {
        kind: _tune_kind(found)
        for kind, found in by_kind.items()
        if len({example.block for example in found}) >= MIN_BLOCKS
    }


def _tune_kind(examples: Sequence[ShrinkageExample]) -> "SpreadWeight":
    from bot.stats.aggregation import SPREAD_GRID, logit_moments, trial_matrix, tune_weight_rule  # noqa: PLC0415 - numpy

    most = max(len(example.trials) for example in examples)
    padded = [(*example.trials, *[None] * (most - len(example.trials))) for example in examples]
    matrix = trial_matrix([*map(list, zip(*padded, strict=True))], len(examples))
    sizes = Counter(example.block for example in examples)
    best = tune_weight_rule(
        logit_moments(matrix),
        [example.outcome for example in examples],
        rules=SPREAD_GRID,
        prior=[example.center for example in examples],
        item_weights=[1.0 / sizes[example.block] for example in examples],
    )
    return cast("SpreadWeight", best)  # one of the grid


def rules_to_payload(rules: "Mapping[PriorSource, SpreadWeight]") -> dict[str, Json]:
    """Return rules as plain values: floor and slope by the kind of the starting point."""
    return {kind.value: [rule.floor, rule.slope] for kind, rule in sorted(rules.items())}


def rules_from_fit(fitted: FittedParameters | None) -> "Mapping[PriorSource, SpreadWeight]":
    """Return the rules of a fit; {} without one, so that the defaults hold."""
    from bot.stats.aggregation import SpreadWeight  # noqa: PLC0415 - numpy, which only some forecasts need

    stored = fitted.payload.get(RULES_KEY) if fitted is not None else None
    found: dict[PriorSource, SpreadWeight] = {}
    for kind, pair in stored.items() if isinstance(stored, Mapping) else ():
        match pair:
            case [float() | int() as floor, float() | int() as slope]:
                found[PriorSource(kind)] = SpreadWeight(float(floor), float(slope))
    return found


def shrinkage_name(forecaster: str) -> str:
    """Return the name under which the rules of a forecaster are kept."""
    return f"shrinkage:{forecaster}"


async def recorded_rules(ledger: Ledger, forecaster: str, cutoff: datetime) -> "Mapping[PriorSource, SpreadWeight]":
    """Return the rules that were recorded for the day of a cutoff; {} for a day without."""
    day = utc_day(cutoff)
    newest = await ledger.learning.newest(shrinkage_name(forecaster), day)
    return rules_from_fit(newest[1] if newest is not None and newest[1].before == day else None)


@dataclass(slots=True, kw_only=True)
class ShrinkageTuner:
    """Tunes the rules of forecasters with ``aggregate = "shrink"``: once for each day of cutoffs, on record."""

    ledger: Ledger
    clock: Clock
    _by_day: "OrderedDict[tuple[str, datetime], Mapping[PriorSource, SpreadWeight]]" = field(
        default_factory=OrderedDict
    )
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def rules_for(self, forecaster: str, cutoff: datetime) -> "Mapping[PriorSource, SpreadWeight]":
        """Return the rules for the day of a cutoff; kinds that are missing have the default weights."""
        place = (forecaster, utc_day(cutoff))
        async with self._lock:
            if place not in self._by_day:
                self._by_day[place] = await self._find_or_tune(*place)
                while len(self._by_day) > MAX_CACHED_CUTOFFS:
                    self._by_day.popitem(last=False)
            return self._by_day[place]

    async def _find_or_tune(self, forecaster: str, day: datetime) -> "Mapping[PriorSource, SpreadWeight]":
        name = shrinkage_name(forecaster)
        newest = await self.ledger.learning.newest(name, day)
        if newest is not None and newest[1].before == day:
            return rules_from_fit(newest[1])
        pasts = await self.ledger.learning.read_resolved_trials(forecaster, day)
        examples = [*shrinkage_examples(pasts, before=day)]
        rules = await asyncio.to_thread(tune_shrinkage, examples)
        fitted = FittedParameters(
            forecaster=name,
            before=day,
            examples=len(examples),
            payload={RULES_KEY: rules_to_payload(rules)},
            provenance={"rows": f"trials of {forecaster} whose questions resolved before the day"},
        )
        # Also without a rule, so that a forecast of this day is repeated with the same weights.
        await self.ledger.learning.record(fitted, self.clock.now())
        if rules:
            log.info("shrinkage tuned", forecaster=forecaster, before=day.isoformat(), rules=rules_to_payload(rules))
        return rules
