"""Find open questions, record each version of them, and plan their forecasts."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import TypeVar

from bot.core.errors import MalformedDataError
from bot.core.interfaces import Clock, VenueReader
from bot.core.light_dataclass import dataclass
from bot.core.outcomes import Resolution
from bot.core.questions import Question, QuestionRef, describe_changes
from bot.forecasting.reforecast_policy import FACTS_REASON, MOVED_REASON, ReforecastPolicy, log_odds_move
from bot.store.forecasts import ForecastBasis
from bot.store.ledger import Ledger
from bot.store.schedule import DueEntry
from bot.store.serialization import question_version

QUESTIONS_AT_ONCE = 250
# The clock of a venue may be this far ahead of ours.
MAX_CLOCK_LEAD = timedelta(minutes=30)


T = TypeVar("T", Question, Resolution)


def _forecast_all(_forecaster: str, _question: Question) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingContext:
    """What is needed to plan forecasts for one venue; ``forecasters`` are those that forecast its questions.

    ``fits`` says whether one of them forecasts a given question of the venue.
    """

    venue_name: str
    forecasters: Sequence[str]
    ledger: Ledger
    clock: Clock
    policy: ReforecastPolicy
    fits: Callable[[str, Question], bool] = _forecast_all


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryContext(SchedulingContext):
    """What discovery of one venue needs in addition.

    ``discovered_venues`` names the venues whose last pass in this run was complete; the submit job reads it.
    ``listed_questions`` holds what each venue listed in its last complete pass and since; the forecast job reads it.
    """

    venue: VenueReader
    discovered_venues: set[str]
    listed_questions: dict[str, set[QuestionRef]] = field(default_factory=dict)


async def discover_questions(job: DiscoveryContext) -> str:
    """Record what the venue asks now. Plan new questions at once and changed ones as the policy says.

    Whether a forecast is due is decided against the last forecast in the ledger, not against the last poll: a crash
    between two writes loses nothing, and many small price moves add up to one that counts. If a venue fails midway,
    what it had returned is kept.
    """
    seen = changed = planned = 0
    early: list[str] = []
    listed, known = set[QuestionRef](), job.listed_questions.setdefault(job.venue_name, set())
    async for found in _question_chunks(check_reader(job.venue_name, job.venue.questions())):
        job.discovered_venues.discard(job.venue_name)
        chunk = [*_without_early_prices(found, job.clock.now(), early)]
        recorded = await job.ledger.questions.record(chunk, seen_at=job.clock.now())
        questions = [
            await job.ledger.questions.get(question.ref) if question.ref in recorded.outdated else question
            for question in chunk
        ]
        for forecaster in job.forecasters:
            planned += await schedule_questions(job, questions, forecaster)
        listed.update(question.ref for question in chunk)
        known |= listed
        seen += len(chunk)
        changed += recorded.new + recorded.changed
    job.discovered_venues.add(job.venue_name)
    job.listed_questions[job.venue_name] = listed
    done = f"{job.venue_name}: {seen} questions seen, {changed} new or changed, {planned} planned"
    return f"{done}; prices of the future left out: {len(early)}, such as {early[0]}" if early else done


def require_own_question(venue_name: str, ref: QuestionRef) -> None:
    """Raise MalformedDataError for the name of another venue's question, which its reader alone may describe."""
    if ref.venue != venue_name:
        message = (
            f"the reader of {venue_name} names {ref}, a question of another venue: its plugin must name it "
            f'QuestionRef("{venue_name}", key)'
        )
        raise MalformedDataError(message)


def _without_early_prices(questions: Sequence[Question], now: datetime, early: list[str]) -> Iterator[Question]:
    """Yield the questions without prices of the future, which no forecast may read; describe those in ``early``."""
    for question in questions:
        crowd = question.crowd
        if crowd is None or crowd.at <= now + MAX_CLOCK_LEAD:
            yield question
            continue
        early.append(f"{question.ref}: crowd.at is {crowd.at.isoformat()}; is it in UTC?")
        yield replace(question, crowd=None)


async def schedule_questions(job: SchedulingContext, questions: Sequence[Question], forecaster: str) -> int:
    """Plan forecasts for the questions as they are now; return how many were brought forward.

    A question whose text changed after its forecast is due at once: until then no forecast of it may be submitted.
    """
    questions = [question for question in questions if job.fits(forecaster, question)]
    bases = await job.ledger.forecasts.read_bases([question.ref for question in questions], forecaster)
    now = job.clock.now()
    found = [_due_entry(question, forecaster, bases.get(question.ref), job.policy, now) for question in questions]
    return await job.ledger.schedule.plan([due for due in found if due is not None])


def _due_entry(
    question: Question, forecaster: str, basis: ForecastBasis | None, policy: ReforecastPolicy, now: datetime
) -> DueEntry | None:
    """Return when and why the question needs another forecast than that of the basis, if it does."""
    if basis is None:
        return DueEntry(
            ref=question.ref, forecaster=forecaster, due_at=now, why="new question", closes_at=question.closes_at
        )
    changes = () if basis.question is None else describe_changes(basis.question, question)
    if basis.is_reopened:
        changes = ("its outcome was withdrawn, and it is open again", *changes)
    if changes:
        why, due_at = f"the question changed: {'; '.join(changes)}", basis.change_due_at(now)
    else:
        why, due_at = _renewal_reason(question, basis, policy), max(now, basis.made_at + policy.min_gap)
    if not why:
        return None
    return DueEntry(
        ref=question.ref,
        forecaster=forecaster,
        due_at=due_at,
        why=why,
        closes_at=question.closes_at,
        answered_at=basis.made_at,
    )


def _renewal_reason(question: Question, basis: ForecastBasis, policy: ReforecastPolicy) -> str:
    if basis.question is not None and basis.version != question_version(question):
        return FACTS_REASON
    if basis.crowd is None or question.crowd is None:
        return ""
    move = log_odds_move(basis.crowd, question.crowd.prediction)
    return f"{MOVED_REASON} {move:.2f} in log-odds" if move >= policy.price_move else ""


async def check_reader(venue_name: str, found: AsyncIterator[T]) -> AsyncIterator[T]:
    """Yield what a reader yields about the questions of its venue.

    Raises MalformedDataError for another venue's question, and where the reader makes an impossible value: then with
    the place, because a prediction or an outcome does not know its question.
    """
    place = "at its first question"
    try:
        async for one in found:
            require_own_question(venue_name, one.ref)
            yield one
            place = f"after {one.ref}"
    except (TypeError, ValueError) as error:
        message = f"the reader of {venue_name} failed {place}: {error}"
        raise MalformedDataError(message) from error


async def _question_chunks(questions: AsyncIterator[Question]) -> AsyncIterator[list[Question]]:
    chunk: list[Question] = []
    try:
        async for question in questions:
            chunk.append(question)
            if len(chunk) == QUESTIONS_AT_ONCE:
                yield chunk
                chunk = []
    except Exception:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk
