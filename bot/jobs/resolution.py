"""Read the outcomes of everything that was forecast, and score each forecast against each outcome once."""

from collections.abc import Collection, Sequence
from datetime import timedelta

import structlog

from bot.core.errors import FoxcastError
from bot.core.interfaces import Clock, ContestReader, VenueReader
from bot.core.light_dataclass import dataclass
from bot.core.outcomes import CROWD_RULE_PREFIX, Resolution, Score, VoidOutcome
from bot.core.questions import QuestionRef
from bot.jobs.discovery import check_reader
from bot.stats.scoring_rules import ResolvedPrediction, score_predictions
from bot.store.ledger import Ledger
from bot.store.scores import ScorablePrediction

log = structlog.get_logger(__name__)


OUTCOMES_AT_ONCE = 500


# Published outcomes are revised for about three months (25 of 8,990 in one benchmark).
CORRECTION_PERIOD = timedelta(days=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolutionContext:
    """What is needed to resolve one venue's questions; ``account`` is the one whose scores the venue reports."""

    venue_name: str
    venue: VenueReader
    ledger: Ledger
    clock: Clock
    account: str = "default"


@dataclass(slots=True)
class _OutcomeCounts:
    """Outcomes that are new, and those that replace others."""

    new: int = 0
    changed: int = 0


async def resolve_questions(job: ResolutionContext) -> str:
    """Record the outcomes that are known now; a corrected one is kept together with the one it replaces.

    Of two outcomes for one target the first counts. An outcome that its batch no longer has was withdrawn: it becomes
    void, and its score is removed.
    """
    pending = await job.ledger.questions.awaiting_outcome(job.venue_name, since=job.clock.now() - CORRECTION_PERIOD)
    if not pending:
        return f"{job.venue_name}: nothing to resolve"
    found = await _read_outcomes(job, pending)
    return f"{found}{await _record_standings(job)}"


async def _read_outcomes(job: ResolutionContext, pending: Collection[QuestionRef]) -> str:
    reported: set[tuple[QuestionRef, str]] = set()
    chunk: list[Resolution] = []
    count = _OutcomeCounts()
    try:
        async for resolution in check_reader(job.venue_name, job.venue.resolutions(pending)):
            if (resolution.ref, resolution.target) in reported:
                log.warning("a second outcome is ignored", question=str(resolution.ref), target=resolution.target)
                continue
            reported.add((resolution.ref, resolution.target))
            chunk.append(resolution)
            if len(chunk) == OUTCOMES_AT_ONCE:
                await _record_outcomes(job, chunk, count)
    except FoxcastError:
        # A question that cannot be read does not withdraw an outcome. What is missing now proves nothing.
        await _record_outcomes(job, chunk, count)
        raise
    chunk += await _withdrawn_outcomes(job, reported, set(pending))
    await _record_outcomes(job, chunk, count)
    corrections = f", {count.changed} corrected" if count.changed else ""
    return f"{job.venue_name}: {count.new} new outcomes of {len(pending)} questions{corrections}"


async def _record_standings(job: ResolutionContext) -> str:
    """Record the account's standings in the venue's contests; if they cannot be read, outcomes are not affected."""
    if not isinstance(job.venue, ContestReader):
        return ""
    try:
        standings = await job.venue.contest_standings()
    except FoxcastError as error:
        log.warning("standings cannot be read", venue=job.venue_name, error=str(error))
        return f"; its standings cannot be read: {error}"
    await job.ledger.venue_scores.keep_standings(job.venue_name, job.account, standings, at=job.clock.now())
    return ""


async def _withdrawn_outcomes(
    job: ResolutionContext, reported: set[tuple[QuestionRef, str]], pending: set[QuestionRef]
) -> list[Resolution]:
    """Return void outcomes for those that were known and are missing now, in batches that reported something.

    A batch that reported nothing may not have been read.
    """
    known = await job.ledger.resolutions.resolved_in_batches(job.venue_name, {ref for ref, _ in reported})
    now = job.clock.now()
    return [
        Resolution(ref=ref, target=target, outcome=VoidOutcome("withdrawn"), resolved_at=now)
        for ref, target in sorted(known - reported)
        if ref in pending
    ]


async def _record_outcomes(job: ResolutionContext, chunk: list[Resolution], count: _OutcomeCounts) -> None:
    """Record what was read, count it, and empty the chunk."""
    recorded = await job.ledger.resolutions.record(chunk, seen_at=job.clock.now())
    await job.ledger.venue_scores.record(chunk, account=job.account, at=job.clock.now())
    chunk.clear()
    count.new += recorded.new
    count.changed += recorded.changed


SCORES_AT_ONCE = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringContext:
    """What scoring needs."""

    ledger: Ledger
    clock: Clock


async def score_forecasts(job: ScoringContext) -> str:
    """Score what has resolved since the last pass."""
    done = 0
    while chunk := await job.ledger.scores.to_score(SCORES_AT_ONCE):
        await job.ledger.scores.record(chunk, compute_scores(chunk), at=job.clock.now())
        done += len(chunk)
    return f"{done} predictions scored"


def compute_scores(scorables: Sequence[ScorablePrediction]) -> list[Score]:
    """Return the scores of each forecast by the rules for its kind and, where there was one, of the crowd."""
    crowds = [(item, item.crowd) for item in scorables if item.crowd is not None]
    forecast_values = score_predictions(
        [ResolvedPrediction(item.prediction, item.shape, item.outcome) for item in scorables]
    )
    crowd_values = score_predictions([ResolvedPrediction(crowd, item.shape, item.outcome) for item, crowd in crowds])
    scored = [
        *((item, "", values) for item, values in zip(scorables, forecast_values, strict=True)),
        *((item, CROWD_RULE_PREFIX, values) for (item, _), values in zip(crowds, crowd_values, strict=True)),
    ]
    return [
        Score(forecast=item.forecast, target=item.target, rule=f"{whose}{rule}", value=value)
        for item, whose, values in scored
        for rule, value in values.items()
    ]
