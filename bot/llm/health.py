"""Whether models still do their work: one that does not is replaced by its role's fallback for a while.

The figures are those by which a weak model gives itself away: it does not come to an end, writes what cannot be read,
answers exactly one half, or submits something other than it believes.

The trials of one question answer alike for a good reason: it may truly be even. So answers of one half are counted by
question, each with the share of its trials, and there is no verdict on fewer questions than trials are wanted.
"""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import structlog

from bot.config.model import HealthSection
from bot.domain.conduct import Conduct
from bot.domain.inquiry import Charge
from bot.ports import Clock
from bot.store.conducts import Conducts, Demotion

log = structlog.get_logger(__name__)

# Before every demotion.
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


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


def faults_of(recent: Sequence[Conduct], section: HealthSection) -> Iterator[str]:
    """Yield in words each figure of the last trials that is out of bounds; nothing while there are too few trials."""
    count = len(recent)
    if count < section.least:
        return
    over = f"in its last {count} trials"
    told = [conduct.submitted for conduct in recent if conduct.submitted is not None]
    if told and (rate := sum(told) / len(told)) < section.submit_rate:
        yield f"it submitted in {rate:.0%} {over}, less than {section.submit_rate:.0%}"
    asked = sum(conduct.asked for conduct in recent)
    unparsed = sum(conduct.unparsed for conduct in recent)
    if asked and (share := unparsed / asked) > section.unparsed:
        yield f"{share:.0%} of its moves {over} could not be read, more than {section.unparsed:.0%}"
    if (gap := sum(conduct.gap for conduct in recent) / count) > section.gap:
        yield f"what it submitted {over} was {gap:.3f} from what it believed on average, more than {section.gap:g}"


def evasions_of(halves: Sequence[float], section: HealthSection) -> Iterator[str]:
    """Yield in words that a model answers exactly one half too often; ``halves`` has a share for each question."""
    count = len(halves)
    if count >= section.least and (share := sum(halves) / count) > section.half:
        yield f"it answered exactly 0.5 in {share:.0%} over its last {count} questions, more than {section.half:.0%}"
