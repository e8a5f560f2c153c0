"""Find open questions, keep each version of them, and plan when they are forecast."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from bot.domain.question import Question
from bot.domain.question_changes import describe_changes
from bot.jobs.policy import Reforecast, moved
from bot.ports import Clock, Venue
from bot.store.basis import Basis
from bot.store.codec import version_of
from bot.store.ledger import Ledger
from bot.store.schedule import Due

CHUNK = 250


def _always(_forecaster: str, _question: Question) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Planning:
    """What planning forecasts of one venue needs; ``forecasters`` are those that forecast its questions.

    ``fits`` says whether one of them forecasts a question of the venue.
    """

    name: str
    forecasters: Sequence[str]
    ledger: Ledger
    clock: Clock
    policy: Reforecast
    fits: Callable[[str, Question], bool] = _always


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery(Planning):
    """What discovery of one venue needs besides.

    ``surveyed`` names the venues that were seen whole in their last pass of this run; who submits looks at it.
    """

    venue: Venue
    surveyed: set[str]


async def discover(parts: Discovery) -> str:
    """Record what the venue asks now; plan new questions at once, changed ones as the policy says.

    What is due is decided against the last forecast in the ledger, not against the last poll: a crash between two
    writes loses nothing, and many small price moves add up to one that counts. Of a venue that fails midway what it
    had said is kept.
    """
    seen = changed = planned = 0
    async for chunk in _chunks(parts.venue.questions()):
        parts.surveyed.discard(parts.name)
        recorded = await parts.ledger.questions.record(chunk, seen_at=parts.clock.now())
        questions = [
            await parts.ledger.questions.get(question.ref) if question.ref in recorded.outdated else question
            for question in chunk
        ]
        for forecaster in parts.forecasters:
            planned += await plan(parts, questions, forecaster)
        seen += len(chunk)
        changed += recorded.new + recorded.changed
    parts.surveyed.add(parts.name)
    return f"{parts.name}: {seen} questions seen, {changed} new or changed, {planned} planned"


async def plan(parts: Planning, questions: Sequence[Question], forecaster: str) -> int:
    """Plan what needs a forecast as the questions are now; return how many were brought forward.

    One that asks something else than when it was forecast is due at once: until then nothing of it may leave.
    """
    questions = [question for question in questions if parts.fits(forecaster, question)]
    bases = await parts.ledger.forecasts.bases([question.ref for question in questions], forecaster)
    now = parts.clock.now()
    found = [_due(question, forecaster, bases.get(question.ref), parts.policy, now) for question in questions]
    return await parts.ledger.schedule.plan([due for due in found if due is not None])


def _due(question: Question, forecaster: str, basis: Basis | None, policy: Reforecast, now: datetime) -> Due | None:
    """Return when and why the question, as it is now, needs another forecast than that of the basis, if it does."""
    if basis is None:
        return Due(
            ref=question.ref, forecaster=forecaster, due_at=now, why="new question", closes_at=question.closes_at
        )
    changes = () if basis.question is None else describe_changes(basis.question, question)
    if basis.is_reopened:
        changes = ("its outcome was taken back, and it is open again", *changes)
    if changes:
        why, due_at = f"the question changed: {'; '.join(changes)}", basis.changed_due(now)
    else:
        why, due_at = _reason_to_renew(question, basis, policy), max(now, basis.made_at + policy.min_gap)
    if not why:
        return None
    return Due(
        ref=question.ref,
        forecaster=forecaster,
        due_at=due_at,
        why=why,
        closes_at=question.closes_at,
        answered_at=basis.made_at,
    )


def _reason_to_renew(question: Question, basis: Basis, policy: Reforecast) -> str:
    if basis.question is not None and basis.version != version_of(question):
        return "its facts changed"
    if basis.crowd is None or question.crowd is None:
        return ""
    move = moved(basis.crowd, question.crowd.prediction)
    return f"price moved by {move:.2f} in log-odds" if move >= policy.price_move else ""


async def _chunks(questions: AsyncIterator[Question]) -> AsyncIterator[list[Question]]:
    chunk: list[Question] = []
    try:
        async for question in questions:
            chunk.append(question)
            if len(chunk) == CHUNK:
                yield chunk
                chunk = []
    except Exception:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk
