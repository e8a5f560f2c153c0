"""Whether models still do their work: one that does not is replaced by its role's fallback for a while.

The figures are those by which a weak model gives itself away: it does not come to an end, writes what cannot be read,
answers exactly one half, or submits something other than it believes. One to which requests fail in mid-trial is
replaced too: its trials do not count, whatever it is worth when it answers.

The trials of one question answer alike for a good reason: it may truly be even. So answers of one half are counted by
question, each with the share of its trials, and there is no verdict on fewer questions than trials are wanted.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog

from bot.config.llm_schema import HealthSection
from bot.domain.conduct import Conduct
from bot.domain.inquiry import Charge
from bot.ports import Clock
from bot.store.conducts import Conducts, Demotion, LatestConducts

log = structlog.get_logger(__name__)

# Before every demotion.
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
# A report only tells, so it needs fewer trials than a demotion, and looks no further back than a person remembers.
REPORT_TRIALS = 3
REPORT_WITHIN = timedelta(days=7)


class Health:
    """The conduct of models and what follows from it."""

    def __init__(self, section: HealthSection, conducts: Conducts, *, clock: Clock) -> None:
        """Begin with no model demoted; see ``load``."""
        self._section = section
        self._conducts = conducts
        self._clock = clock
        # By model and role.
        self._until: dict[tuple[str, str], datetime] = {}
        self._grading = asyncio.Lock()

    async def load(self) -> None:
        """Take over the demotions on record, also those that are over: what came before them does not count again."""
        for demotion in await self._conducts.demotions(now=LONG_AGO):
            self._until[demotion.model, demotion.role] = demotion.until

    def is_demoted(self, model: str, role: str) -> bool:
        """Say whether a model is not to be asked now in a role."""
        until = self._ends(model, role) if self._until else None
        return until is not None and self._clock.now() < until

    async def grade(self, conduct: Conduct, charge: Charge) -> Demotion | None:
        """Keep how a model did in a trial; return its demotion where this was the last straw."""
        model, role = conduct.model, conduct.role
        # One at a time, so that trials that end together do not demote twice.
        async with self._grading:
            now = self._clock.now()
            await self._conducts.add(conduct, scope=charge.scope, trial=charge.trial, at=now)
            # While a model is demoted nothing counts, because its end is yet to come.
            after = self._ends(model, role)
            # Each role by itself: the figures of one that does no forecast would water down those of one that does.
            window = self._section.window
            recent = await self._conducts.recent(model, role=role, limit=window, after=after)
            # Nothing but another one half makes them too many.
            asked = self._conducts.halves(model, role=role, limit=window, after=after) if conduct.half else None
            halves = () if asked is None else await asked
            if not (faults := [*faults_of(recent, self._section), *evasions_of(halves, self._section)]):
                return None
            until = now + timedelta(hours=self._section.hours)
            demotion = Demotion(model=model, role=role, at=now, until=until, why="; ".join(faults))
            await self._conducts.demote(demotion)
            self._until[model, role] = until
            log.warning("model demoted", model=model, role=role, until=until.isoformat(), why=demotion.why)
            return demotion

    def _ends(self, model: str, role: str) -> datetime | None:
        """Return when the last demotion ends; one on record without a role was for all of them."""
        ends = [self._until[key] for key in ((model, role), (model, "")) if key in self._until]
        return max(ends, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReport:
    """How a model did in a role in its last trials of one forecaster: shares from 0 to 1, None where none was asked.

    ``submitted`` is the share of trials that ended by submitting, ``unparsed`` of moves and ``unread_beliefs`` of
    updates of a belief that could not be read, ``errors`` of trials in which a request failed for good. ``troubles``
    says in words what is out of bounds.
    """

    forecaster: str
    role: str
    model: str
    trials: int
    submitted: float | None
    unparsed: float | None
    unread_beliefs: float | None
    errors: float
    troubles: tuple[str, ...] = ()


async def report_models(conducts: Conducts, section: HealthSection, *, now: datetime) -> Sequence[ModelReport]:
    """Return how each model did in each role in its last trials of each forecaster, at most a week old."""
    latest = await conducts.latest(limit=section.window, after=now - REPORT_WITHIN)
    return [_reported(one, section) for one in latest]


def _reported(latest: LatestConducts, section: HealthSection) -> ModelReport:
    recent = latest.conducts
    return ModelReport(
        forecaster=latest.forecaster,
        role=latest.role,
        model=latest.model,
        trials=len(recent),
        submitted=_submitted(recent),
        unparsed=_unparsed(recent),
        unread_beliefs=_unread_beliefs(recent),
        errors=_errors(recent),
        troubles=tuple(_troubles(recent, section)),
    )


def _troubles(recent: Sequence[Conduct], section: HealthSection) -> Iterator[str]:
    count = len(recent)
    if count < REPORT_TRIALS:
        return
    submitted = _submitted(recent)
    if submitted is not None and submitted < section.submit_rate:
        # Those that ended because a request failed are told as that.
        ended = sum(one.submitted is False and not one.errors for one in recent)
        if ended:
            yield f"{ended} of the last {count} trials ended at a limit without submitting"
    yield from _strays(recent, section)


def faults_of(recent: Sequence[Conduct], section: HealthSection) -> Iterator[str]:
    """Yield in words each figure of the last trials that is out of bounds; nothing while there are too few trials."""
    count = len(recent)
    if count < section.least:
        return
    rate = _submitted(recent)
    if rate is not None and rate < section.submit_rate:
        yield f"it submitted in {rate:.0%} in its last {count} trials, less than {section.submit_rate:.0%}"
    yield from _strays(recent, section)


def _strays(recent: Sequence[Conduct], section: HealthSection) -> Iterator[str]:
    """Yield in words each figure out of bounds but that of submitting."""
    over = f"in its last {len(recent)} trials"
    if (share := _unparsed(recent)) is not None and share > section.unparsed:
        yield f"{share:.0%} of its moves {over} could not be read, more than {section.unparsed:.0%}"
    if (share := _unread_beliefs(recent)) is not None and share > section.unparsed_beliefs:
        yield f"{share:.0%} of its belief updates {over} could not be read, more than {section.unparsed_beliefs:.0%}"
    if (share := _errors(recent)) > section.errors:
        yield f"requests to it failed in {share:.0%} of its last {len(recent)} trials, more than {section.errors:.0%}"
    if (gap := sum(conduct.gap for conduct in recent) / len(recent)) > section.gap:
        yield f"what it submitted {over} was {gap:.3f} from what it believed on average, more than {section.gap:g}"


def _submitted(recent: Sequence[Conduct]) -> float | None:
    told = [conduct.submitted for conduct in recent if conduct.submitted is not None]
    return sum(told) / len(told) if told else None


def _unparsed(recent: Sequence[Conduct]) -> float | None:
    asked = sum(conduct.asked for conduct in recent)
    return sum(conduct.unparsed for conduct in recent) / asked if asked else None


def _unread_beliefs(recent: Sequence[Conduct]) -> float | None:
    asked = sum(conduct.beliefs for conduct in recent)
    return sum(conduct.unread_beliefs for conduct in recent) / asked if asked else None


def _errors(recent: Sequence[Conduct]) -> float:
    return sum(conduct.errors > 0 for conduct in recent) / len(recent)


def evasions_of(halves: Sequence[float], section: HealthSection) -> Iterator[str]:
    """Yield in words that a model answers exactly one half too often; ``halves`` has a share for each question."""
    count = len(halves)
    if count >= section.least and (share := sum(halves) / count) > section.half:
        yield f"it answered exactly 0.5 in {share:.0%} over its last {count} questions, more than {section.half:.0%}"
