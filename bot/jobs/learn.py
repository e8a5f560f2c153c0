"""What a forecaster may know from outcomes at a cutoff: fitted once per day of cutoffs, strictly forward in time."""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time
from typing import NamedTuple

import structlog

from bot.domain.learning import Fitted, Hindsight
from bot.domain.question import Question
from bot.domain.resolution import Example
from bot.errors import LeakError
from bot.ports import Archive, Clock, Historian, Learner
from bot.store.ledger import Ledger

log = structlog.get_logger()

# Questions with this fact set to this come under terms that forbid to learn from them; see may_teach.
TRAINING, FORBIDDEN = "training", "no"
# Cutoffs kept in memory: the days of a long backfill, forecast side by side.
KEPT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class School:
    """How one forecaster learns: its learner, and the parameters that came with the package."""

    learner: Learner | None
    shipped: Sequence[Fitted]


def known_before(archives: Sequence[Archive], before: datetime) -> list[Example]:
    """Return all examples of the archives that may be learned from and were known strictly before the moment.

    Raises LeakError if an archive gives one that was not.
    """
    given = [example for archive in archives for example in archive.examples(before)]
    for example in given:
        if example.resolution.resolved_at >= before:
            message = (
                f"{example.resolution.ref} resolved at {example.resolution.resolved_at.isoformat()}, "
                f"not before {before.isoformat()}"
            )
            raise LeakError(message)
    return [example for example in given if may_teach(example.question)]


def may_teach(question: Question) -> bool:
    """Say whether the terms of a question's venue allow to fit anything on it (its fact ``training`` is not "no")."""
    return question.facts.get(TRAINING) != FORBIDDEN


def fit(
    name: str, learner: Learner, archives: Sequence[Archive], *, before: datetime, pasts: Sequence[Hindsight] = ()
) -> Fitted:
    """Fit one forecaster on everything the archives knew before the moment; takes seconds of CPU.

    ``pasts`` are for a learner that also looks at what was forecast; raises LeakError for one not known before.
    """
    examples = known_before(archives, before)
    rounds = sorted({example.question.batch or "" for example in examples})
    payload = learner.fit(examples, before=before)
    provenance = {"rounds": f"{len(rounds)} ({rounds[0]} to {rounds[-1]})" if rounds else "none"}
    if pasts and isinstance(learner, Historian):
        payload = {**payload, **learner.recall(_long_known(pasts, before), before=before)}
        provenance["forecasts"] = f"{len(pasts)}, by {', '.join(sorted({past.forecaster for past in pasts}))}"
    seen = len(examples) + len(pasts)
    return Fitted(forecaster=name, before=before, examples=seen, payload=payload, provenance=provenance)


def best_known(
    name: str, school: School, archives: Sequence[Archive], *, before: datetime, pasts: Sequence[Hindsight] = ()
) -> Fitted | None:
    """Return what a forecaster may know at the moment, shipped or fitted now: whatever saw the most examples.

    What was learned from ``pasts`` goes first: they are a window that moves on, in which outcomes are corrected, so how
    many there are says nothing of which fit is better. None where nothing was learned strictly before the moment.
    """
    if school.learner is not None and pasts:
        return fit(name, school.learner, archives, before=before, pasts=pasts)
    found = [fitted for fitted in school.shipped if fitted.before <= before]
    if school.learner is not None and archives:
        found.append(fit(name, school.learner, archives, before=before))
    best = max(found, key=lambda fitted: (fitted.examples, fitted.before), default=None)
    return None if best is None or best.examples == 0 else best


def _long_known(pasts: Sequence[Hindsight], before: datetime) -> Sequence[Hindsight]:
    for past in pasts:
        if past.resolution.resolved_at >= before or past.cutoff >= before:
            message = (
                f"forecast {past.forecast} of {past.resolution.ref} (cutoff {past.cutoff.isoformat()}, resolved "
                f"{past.resolution.resolved_at.isoformat()}) was not over before {before.isoformat()}"
            )
            raise LeakError(message)
    return pasts


def day_of(cutoff: datetime) -> datetime:
    """Return the beginning of the cutoff's day in UTC: what was known by then serves all cutoffs of the day."""
    return datetime.combine(cutoff.astimezone(UTC).date(), time(), UTC)


class Known(NamedTuple):
    """Parameters in use, with their digest in the ledger."""

    digest: str
    fitted: Fitted


@dataclass(slots=True, kw_only=True)
class Teacher:
    """Finds, or fits, what each forecaster may know at a cutoff; every fit is recorded in the ledger.

    A fit on record for the day of a cutoff is used again, so a forecast can be repeated. Otherwise, of all parameters
    learned strictly before that day - on record, shipped with the package, or allowed by the archives - those that saw
    the most examples are used; of a Historian's, which also learns from what was forecast, the newest.
    """

    ledger: Ledger
    archives: Sequence[Archive]
    schools: Mapping[str, School]
    clock: Clock
    _known: OrderedDict[tuple[str, datetime], Known | None] = field(default_factory=OrderedDict)
    _fitting: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    async def known(self, forecaster: str, cutoff: datetime) -> Known | None:
        """Return the parameters for the cutoff, or None if the forecaster has learned nothing by then."""
        school = self.schools[forecaster]
        if school.learner is None and not school.shipped:
            return None
        day = day_of(cutoff)
        async with self._fitting[forecaster]:
            if (forecaster, day) not in self._known:
                self._known[forecaster, day] = await self._find(forecaster, school, day)
                while len(self._known) > KEPT:
                    self._known.popitem(last=False)
            return self._known[forecaster, day]

    async def _find(self, forecaster: str, school: School, before: datetime) -> Known | None:
        newest = await self.ledger.learning.newest(forecaster, before)
        recorded = Known(*newest) if newest else None
        if recorded and recorded.fitted.before == before:
            return recorded
        pasts = await self._pasts(forecaster, school, before)
        best = await asyncio.to_thread(best_known, forecaster, school, self.archives, before=before, pasts=pasts)
        if best is None or (not pasts and recorded and recorded.fitted.examples >= best.examples):
            return recorded
        digest = await self.ledger.learning.record(best, self.clock.now())
        log.info("learned", forecaster=forecaster, before=best.before.isoformat(), examples=best.examples)
        return Known(digest, best)

    async def _pasts(self, forecaster: str, school: School, before: datetime) -> Sequence[Hindsight]:
        if not isinstance(school.learner, Historian):
            return ()
        return await self.ledger.learning.pasts({forecaster, *school.learner.others}, before)
