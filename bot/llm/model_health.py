"""Health of models: one that does badly in its latest trials is replaced by the fallback of its role for a while."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import structlog

from bot.config.schema import HealthSection
from bot.core.interfaces import Clock
from bot.core.language_models import CostAttribution, ModelPerformance
from bot.core.light_dataclass import dataclass
from bot.store.model_calls import ModelDemotion, ModelPerformanceStore, RecentModelPerformance

log = structlog.get_logger(__name__)
# A moment before every demotion.
BEFORE_ALL_DEMOTIONS = datetime(1970, 1, 1, tzinfo=UTC)
# A report only informs, so it needs fewer trials than a demotion.
MIN_REPORT_TRIALS = 3
MAX_REPORT_AGE = timedelta(days=7)


class ModelHealth:
    """Records the performance of models and demotes those that do badly."""

    def __init__(self, section: HealthSection, store: ModelPerformanceStore, *, clock: Clock) -> None:
        """Start with no model demoted; see ``load_demotions``."""
        self._section = section
        self._performance = store
        self._clock = clock
        # By model and role.
        self._demoted_until: dict[tuple[str, str], datetime] = {}
        self._lock = asyncio.Lock()

    async def load_demotions(self) -> None:
        """Load the recorded demotions, also those that ended: trials before them do not count again."""
        for demotion in await self._performance.demotions(now=BEFORE_ALL_DEMOTIONS):
            self._demoted_until[demotion.model, demotion.role] = demotion.until

    def is_demoted(self, model: str, role: str) -> bool:
        """Return whether a model is not to be used now in a role."""
        until = self._demotion_end(model, role) if self._demoted_until else None
        return until is not None and self._clock.now() < until

    async def record_performance(self, performance: ModelPerformance, charge: CostAttribution) -> ModelDemotion | None:
        """Record how a model did in a trial; return its demotion if this trial caused one."""
        model, role = performance.model, performance.role
        # Not in the lock: a thousand trials would wait for one commit after the other.
        await self._performance.add(performance, scope=charge.scope, trial=charge.trial, at=self._clock.now())
        if not await self._find_faults(performance):
            return None
        # One at a time, so that concurrent trials do not demote twice: after a demotion these trials do not count.
        async with self._lock:
            if not (faults := await self._find_faults(performance)):
                return None
            now = self._clock.now()
            until = now + timedelta(hours=self._section.hours)
            demotion = ModelDemotion(model=model, role=role, at=now, until=until, why="; ".join(faults))
            await self._performance.demote(demotion)
            self._demoted_until[model, role] = until
            log.warning("model demoted", model=model, role=role, until=until.isoformat(), why=demotion.why)
            return demotion

    async def _find_faults(self, performance: ModelPerformance) -> Sequence[str]:
        """Return in words for what the model of a trial is to be demoted in its role."""
        model, role, window = performance.model, performance.role, self._section.window
        # While a model is demoted nothing counts, because the demotion has not ended yet.
        after = self._demotion_end(model, role)
        # Roles are judged separately, because a role without forecasts would dilute the figures of another.
        recent = await self._performance.recent(model, role=role, limit=window, after=after)
        halves: Sequence[float] = ()
        # Only another answer of one half can make the share too large.
        if performance.ended_at_half:
            halves = await self._performance.shares_ended_at_half(model, role=role, limit=window, after=after)
        return [*demotion_reasons(recent, self._section), *even_answer_reasons(halves, self._section)]

    def _demotion_end(self, model: str, role: str) -> datetime | None:
        """Return when the last demotion ends; a recorded one without a role was for all of them."""
        ends = [self._demoted_until[key] for key in ((model, role), (model, "")) if key in self._demoted_until]
        return max(ends, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelHealthReport:
    """How a model did in a role in its latest trials of one forecaster: shares from 0 to 1, None if none was asked.

    ``submitted`` is the share of trials that ended by submitting, ``unparsed`` of moves and ``unread_beliefs`` of
    belief updates that could not be parsed, ``errors`` of trials in which a request failed finally. ``problems`` are
    the violated limits in words.
    """

    forecaster: str
    role: str
    model: str
    trials: int
    submitted: float | None
    unparsed: float | None
    unread_beliefs: float | None
    errors: float
    problems: tuple[str, ...] = ()


async def report_model_health(
    store: ModelPerformanceStore, section: HealthSection, *, now: datetime
) -> Sequence[ModelHealthReport]:
    """Return how each model did in each role in its last trials of each forecaster, at most a week old."""
    latest = await store.latest(limit=section.window, after=now - MAX_REPORT_AGE)
    return [_model_report(one, section) for one in latest]


def _model_report(latest: RecentModelPerformance, section: HealthSection) -> ModelHealthReport:
    recent = latest.trials
    return ModelHealthReport(
        forecaster=latest.forecaster,
        role=latest.role,
        model=latest.model,
        trials=len(recent),
        submitted=_submitted_share(recent),
        unparsed=_unparsed_share(recent),
        unread_beliefs=_unread_belief_share(recent),
        errors=_error_share(recent),
        problems=tuple(_report_problems(recent, section)),
    )


def _report_problems(recent: Sequence[ModelPerformance], section: HealthSection) -> Iterator[str]:
    count = len(recent)
    if count < MIN_REPORT_TRIALS:
        return
    submitted = _submitted_share(recent)
    if submitted is not None and submitted < section.submit_rate:
        # Trials that ended because a request failed are reported as that.
        ended = sum(one.submitted is False and not one.errors for one in recent)
        if ended:
            yield f"{ended} of the last {count} trials ended at a limit without submitting"
    yield from _limit_violations(recent, section)


def demotion_reasons(recent: Sequence[ModelPerformance], section: HealthSection) -> Iterator[str]:
    """Yield each violated limit of the latest trials in words; nothing while there are too few trials."""
    count = len(recent)
    if count < section.min_trials:
        return
    rate = _submitted_share(recent)
    if rate is not None and rate < section.submit_rate:
        yield f"it submitted in {rate:.0%} in its last {count} trials, less than {section.submit_rate:.0%}"
    yield from _limit_violations(recent, section)


def _limit_violations(recent: Sequence[ModelPerformance], section: HealthSection) -> Iterator[str]:
    """Yield each violated limit in words, except that of submitting."""
    over = f"in its last {len(recent)} trials"
    if (share := _unparsed_share(recent)) is not None and share > section.unparsed:
        yield f"{share:.0%} of its moves {over} could not be parsed, more than {section.unparsed:.0%}"
    if (share := _unread_belief_share(recent)) is not None and share > section.unparsed_beliefs:
        yield f"{share:.0%} of its belief updates {over} could not be parsed, more than {section.unparsed_beliefs:.0%}"
    if (share := _error_share(recent)) > section.errors:
        yield f"requests to it failed in {share:.0%} of its last {len(recent)} trials, more than {section.errors:.0%}"
    if (gap := sum([one.submission_gap for one in recent]) / len(recent)) > section.belief_gap:
        limit = f"{section.belief_gap:g}"
        yield f"what it submitted {over} was {gap:.3f} from what it believed on average, more than {limit}"


def _submitted_share(recent: Sequence[ModelPerformance]) -> float | None:
    submitted = [one.submitted for one in recent if one.submitted is not None]
    return sum(submitted) / len(submitted) if submitted else None


def _unparsed_share(recent: Sequence[ModelPerformance]) -> float | None:
    asked = sum([one.asked for one in recent])
    return sum([one.unparsed for one in recent]) / asked if asked else None


def _unread_belief_share(recent: Sequence[ModelPerformance]) -> float | None:
    asked = sum([one.beliefs for one in recent])
    return sum([one.unread_beliefs for one in recent]) / asked if asked else None


def _error_share(recent: Sequence[ModelPerformance]) -> float:
    return sum([one.errors > 0 for one in recent]) / len(recent)


def even_answer_reasons(halves: Sequence[float], section: HealthSection) -> Iterator[str]:
    """Yield in words that a model answers exactly one half too often; ``halves`` has a share for each question."""
    count = len(halves)
    if count >= section.min_trials and (share := sum(halves) / count) > section.even_answers:
        limit = f"{section.even_answers:.0%}"
        yield f"it answered exactly 0.5 in {share:.0%} over its last {count} questions, more than {limit}"
