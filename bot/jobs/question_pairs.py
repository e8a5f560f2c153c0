"""Find questions of different venues that ask the same, have a model judge them, and make due what moved elsewhere.

One pass reads a bounded number of open questions, asks a bounded number of times, and only if a model plays the role
``matcher``; the budgets of models hold here too.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import timedelta

import structlog

from bot.core.errors import BudgetExhaustedError, NotFoundError, RequestRejectedError, ServiceUnavailableError
from bot.core.interfaces import Clock
from bot.core.light_dataclass import dataclass
from bot.core.questions import Question, QuestionRef
from bot.forecasting.pair_judge import judge_pair
from bot.forecasting.question_matching import QuestionFeatures, QuestionMatch, match_questions, read_features
from bot.forecasting.reforecast_policy import MOVED_ELSEWHERE_REASON, ReforecastPolicy, log_odds_move
from bot.forecasting.services import ModelGateway
from bot.store.ledger import Ledger
from bot.store.question_pairs import PairProposal, PairUse, QuestionPair
from bot.store.schedule import DueEntry
from bot.store.serialization import question_version

log = structlog.get_logger(__name__)

# More proposals of one pass than this are left for later passes, the likeliest first.
MAX_PROPOSALS = 500
# The prices of at most so many pairs are compared in one pass, the newest pairs first.
MAX_WATCHED_PAIRS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PairingContext:
    """What the job works with: ``forecasters`` by venue, and ``models`` where one plays the role ``matcher``.

    ``fits`` says whether a forecaster forecasts a question; ``max_questions`` bounds the questions of each venue.
    """

    ledger: Ledger
    clock: Clock
    policy: ReforecastPolicy
    forecasters: Mapping[str, Sequence[str]]
    fits: Callable[[str, Question], bool]
    use: PairUse
    max_questions: int
    judged_per_pass: int
    models: ModelGateway | None = None


@dataclass(slots=True)
class QuestionPairing:
    """Its passes remember what titles say, so that only new and changed questions are read closely."""

    job: PairingContext
    _features: dict[str, QuestionFeatures] = field(default_factory=dict)

    async def match_pairs(self) -> str:
        """Propose pairs, have them judged, and plan what moved; return how many of each."""
        proposed = await self._propose_pairs()
        judged, stopped = await self._judge_pairs()
        planned = await plan_moved_pairs(self.job)
        return f"{proposed} pairs proposed, {judged} judged, {planned} planned{stopped}"

    async def _propose_pairs(self) -> int:
        job, now = self.job, self.job.clock.now()
        questions: dict[QuestionRef, Question] = {}
        for venue in job.forecasters:
            found = await job.ledger.question_pairs.open_questions(venue, now=now, limit=job.max_questions)
            questions.update((one.ref, one) for one in found)
        matches = await asyncio.to_thread(self._match, [*questions.values()])
        proposals = [
            PairProposal(
                first=questions[one.first],
                second=questions[one.second],
                similarity=one.similarity,
                is_exact=one.is_exact,
            )
            for one in matches[:MAX_PROPOSALS]
        ]
        return await job.ledger.question_pairs.propose(proposals, at=now)

    def _match(self, questions: Sequence[Question]) -> list[QuestionMatch]:
        today = self.job.clock.now().date()
        known, self._features = self._features, {}
        for question in questions:
            version = f"{question_version(question)} {today}"
            self._features[version] = known.get(version) or read_features(question, today=today)
        return match_questions([*self._features.values()])

    async def _judge_pairs(self) -> tuple[int, str]:
        """Ask the model about the likeliest pairs; return how many, and why it stopped early, if it did."""
        job, judged = self.job, 0
        if job.models is None:
            return 0, ""
        for pair in await job.ledger.question_pairs.to_judge(job.judged_per_pass):
            try:
                questions = [await job.ledger.questions.get(ref) for ref in (pair.first, pair.second)]
                verdict = await judge_pair(job.models, pair, *questions)
            except (BudgetExhaustedError, ServiceUnavailableError) as error:
                return judged, f"; judging stopped: {error}"
            except (NotFoundError, RequestRejectedError) as error:
                log.warning("a pair could not be judged", pair=pair.id, why=str(error))
                continue
            await job.ledger.question_pairs.judge(pair, verdict, at=job.clock.now())
            judged += 1
        return judged, ""


async def plan_moved_pairs(job: PairingContext) -> int:
    """Make questions due whose price elsewhere moved since their last forecast, as the policy says of prices."""
    planned = 0
    for pair in await job.ledger.question_pairs.accepted(job.use, limit=MAX_WATCHED_PAIRS):
        for ref in (pair.first, pair.second):
            planned += await _plan_question(job, pair, ref)
    return planned


async def _plan_question(job: PairingContext, pair: QuestionPair, ref: QuestionRef) -> int:
    now = job.clock.now()
    question = await job.ledger.questions.get(ref)
    if question.closes_at is not None and question.closes_at <= now:
        return 0
    entries = [
        entry
        for forecaster in job.forecasters.get(ref.venue, ())
        if job.fits(forecaster, question) and (entry := await _moved_entry(job, pair, question, forecaster)) is not None
    ]
    return await job.ledger.schedule.plan(entries) if entries else 0


async def _moved_entry(job: PairingContext, pair: QuestionPair, question: Question, forecaster: str) -> DueEntry | None:
    now, other = job.clock.now(), pair.other(question.ref)
    basis = (await job.ledger.forecasts.read_bases([question.ref], forecaster)).get(question.ref)
    if basis is None:
        return None
    # A forecast is made for a while, so what it knew is judged by when it ended, as for the crowd's price.
    before = await job.ledger.question_pairs.price_before(other, basis.made_at)
    after = await job.ledger.question_pairs.price_before(other, now + timedelta(microseconds=1))
    if before is None or after is None:
        return None
    move = log_odds_move(before, after)
    if move < job.policy.price_move:
        return None
    return DueEntry(
        ref=question.ref,
        forecaster=forecaster,
        due_at=max(now, basis.made_at + job.policy.min_gap),
        why=f"{MOVED_ELSEWHERE_REASON} {move:.2f} in log-odds, that of {other}",
        closes_at=question.closes_at,
        answered_at=basis.made_at,
    )
