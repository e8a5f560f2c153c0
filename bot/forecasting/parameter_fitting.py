"""Parameters that a forecaster learns from outcomes: fitted once for each day of cutoffs, and recorded.

Nothing that became known after the cutoff is used.
"""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime, time
from typing import NamedTuple

import structlog

from bot.core.errors import LeakError
from bot.core.ids import derive_id
from bot.core.interfaces import Clock, HistoryLearner, MergingLearner, ParameterLearner, RoundArchive
from bot.core.learning import FittedParameters, ResolvedForecast, TrainingExample
from bot.core.light_dataclass import dataclass
from bot.core.predictions import Prediction
from bot.forecasting.aggregation import ELSEWHERE_MEMBER, pool_prices
from bot.store.ledger import Ledger
from bot.store.question_pairs import PairUse
from bot.store.serialization import FITTED

log = structlog.get_logger()

# Cutoffs kept in memory: the days of a long backfill, forecast concurrently.
MAX_CACHED_CUTOFFS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecasterTraining:
    """How one forecaster learns: its learner, and the parameters that came with the package."""

    learner: ParameterLearner | None
    shipped_parameters: Sequence[FittedParameters]


def examples_known_before(archives: Sequence[RoundArchive], before: datetime) -> list[TrainingExample]:
    """Return all examples of the archives that may be learned from and were known strictly before the moment.

    Raises LeakError if an archive gives a later one.
    """
    given = [example for archive in archives for example in archive.examples(before)]
    for example in given:
        if example.resolution.resolved_at >= before:
            message = (
                f"{example.resolution.ref} resolved at {example.resolution.resolved_at.isoformat()}, "
                f"not before {before.isoformat()}"
            )
            raise LeakError(message)
    return [example for example in given if example.question.allows_training]


def fit_parameters(
    name: str,
    learner: ParameterLearner,
    archives: Sequence[RoundArchive],
    *,
    before: datetime,
    pasts: Sequence[ResolvedForecast] = (),
) -> FittedParameters:
    """Fit one forecaster on everything the archives knew before the moment; takes seconds of CPU.

    ``pasts`` are for a learner that also uses earlier forecasts; raises LeakError if one was not known before.
    """
    examples = examples_known_before(archives, before)
    rounds = sorted({example.question.batch or "" for example in examples})
    payload = learner.fit(examples, before=before)
    provenance = {"rounds": f"{len(rounds)} ({rounds[0]} to {rounds[-1]})" if rounds else "none"}
    if pasts and isinstance(learner, HistoryLearner):
        payload = {**payload, **learner.fit_history(_require_known_before(pasts, before), before=before)}
        provenance["forecasts"] = f"{len(pasts)}, by {', '.join(sorted({past.forecaster for past in pasts}))}"
    seen = len(examples) + len(pasts)
    return FittedParameters(forecaster=name, before=before, examples=seen, payload=payload, provenance=provenance)


def parse_fitted_parameters(text: str) -> FittedParameters:
    """Return the parameters in a file that ``foxcast fit`` wrote; raises MalformedDataError for another form."""
    return FITTED.decode(text)


def best_parameters(
    name: str,
    training: ForecasterTraining,
    archives: Sequence[RoundArchive],
    *,
    before: datetime,
    pasts: Sequence[ResolvedForecast] = (),
) -> FittedParameters | None:
    """Return the parameters known at the moment, shipped or fitted now: those fitted on the most examples.

    A ``MergingLearner`` takes each part from the fit that saw most of its kind of evidence.
    Parameters learned from ``pasts`` take precedence: they are a moving window in which outcomes are corrected, so the
    number of examples does not say which fit is better. None if nothing was learned strictly before the moment.
    """
    if training.learner is not None and pasts:
        return fit_parameters(name, training.learner, archives, before=before, pasts=pasts)
    found = [fitted for fitted in training.shipped_parameters if fitted.before <= before]
    if training.learner is not None and archives:
        found.append(fit_parameters(name, training.learner, archives, before=before))
    found = [fitted for fitted in found if fitted.examples]
    best = max(found, key=lambda fitted: (fitted.examples, fitted.before), default=None)
    if best is None or len(found) == 1 or not isinstance(training.learner, MergingLearner):
        return best
    return replace(best, before=max(one.before for one in found), payload=training.learner.merge(found))


def _require_known_before(pasts: Sequence[ResolvedForecast], before: datetime) -> Sequence[ResolvedForecast]:
    for past in pasts:
        if past.resolution.resolved_at >= before or past.cutoff >= before:
            message = (
                f"forecast {past.forecast} of {past.resolution.ref} (cutoff {past.cutoff.isoformat()}, resolved "
                f"{past.resolution.resolved_at.isoformat()}) was not over before {before.isoformat()}"
            )
            raise LeakError(message)
    return pasts


def utc_day(cutoff: datetime) -> datetime:
    """Return the beginning of the cutoff's day in UTC: one fit serves all cutoffs of the day."""
    return datetime.combine(cutoff.astimezone(UTC).date(), time(), UTC)


class RecordedParameters(NamedTuple):
    """Parameters in use, with their digest in the ledger."""

    digest: str
    parameters: FittedParameters


@dataclass(slots=True, kw_only=True)
class ParameterFitter:
    """Finds, or fits, the parameters that each forecaster may know at a cutoff; every fit is recorded in the ledger.

    A recorded fit for the day of a cutoff is used again, so a forecast can be repeated. Otherwise, of all parameters
    learned strictly before that day - on record, shipped with the package, or allowed by the archives - those fitted on
    the most examples are used; for a HistoryLearner, which also learns from earlier forecasts, the newest.
    """

    ledger: Ledger
    archives: Sequence[RoundArchive]
    trainings: Mapping[str, ForecasterTraining]
    clock: Clock
    pair_use: PairUse = PairUse.CONFIRMED
    _by_day: OrderedDict[tuple[str, datetime], RecordedParameters | None] = field(default_factory=OrderedDict)
    _locks: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    async def parameters_for(self, forecaster: str, cutoff: datetime) -> RecordedParameters | None:
        """Return the parameters for the cutoff, or None if the forecaster has learned nothing by then."""
        training = self.trainings[forecaster]
        if training.learner is None and not training.shipped_parameters:
            return None
        day = utc_day(cutoff)
        async with self._locks[forecaster]:
            if (forecaster, day) not in self._by_day:
                self._by_day[forecaster, day] = await self._find_or_fit(forecaster, training, day)
                while len(self._by_day) > MAX_CACHED_CUTOFFS:
                    self._by_day.popitem(last=False)
            return self._by_day[forecaster, day]

    async def _find_or_fit(
        self, forecaster: str, training: ForecasterTraining, before: datetime
    ) -> RecordedParameters | None:
        newest = await self.ledger.learning.newest(forecaster, before)
        recorded = RecordedParameters(*newest) if newest else None
        if recorded and recorded.parameters.before == before:
            return recorded
        pasts = await self._resolved_forecasts(forecaster, training, before)
        best = await asyncio.to_thread(best_parameters, forecaster, training, self.archives, before=before, pasts=pasts)
        if best is None or (not pasts and recorded and recorded.parameters.examples >= best.examples):
            return recorded
        digest = await self.ledger.learning.record(best, self.clock.now())
        log.info("parameters fitted", forecaster=forecaster, before=best.before.isoformat(), examples=best.examples)
        return RecordedParameters(digest, best)

    async def _resolved_forecasts(
        self, forecaster: str, training: ForecasterTraining, before: datetime
    ) -> Sequence[ResolvedForecast]:
        if not isinstance(training.learner, HistoryLearner):
            return ()
        names = {forecaster, *training.learner.other_forecasters}
        return await read_history(self.ledger, names, before, pair_use=self.pair_use)


async def read_history(
    ledger: Ledger, names: Collection[str], before: datetime, *, pair_use: PairUse
) -> list[ResolvedForecast]:
    """Return the resolved forecasts of these forecasters, as known before a moment.

    With ``elsewhere`` among the names, also what the prices of paired questions said at the cutoffs of the others.
    """
    pasts = await ledger.learning.read_resolved_forecasts(names, before)
    if ELSEWHERE_MEMBER not in names:
        return pasts
    # Forecasters answer the same question at different times; the latest decides, as for each forecaster.
    last = {(past.resolution.ref, past.resolution.target): past for past in sorted(pasts, key=lambda past: past.cutoff)}
    prices = await ledger.question_pairs.resolved_prices([*last.values()], use=pair_use)
    found = zip(last.values(), prices, strict=True)
    return [*pasts, *(elsewhere_past(past, [one.prediction for one in known]) for past, known in found if known)]


def elsewhere_past(past: ResolvedForecast, prices: Sequence[Prediction]) -> ResolvedForecast:
    """Return what prices of the same question elsewhere said, as a resolved forecast with the cutoff of another."""
    return replace(
        past,
        forecast=derive_id(ELSEWHERE_MEMBER, str(past.resolution.ref), past.cutoff.isoformat()),
        forecaster=ELSEWHERE_MEMBER,
        prediction=pool_prices(prices),
        reason="",
        notes=(),
    )
