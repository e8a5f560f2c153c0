"""Questions of a simulated world at dated cutoffs, with the true probability and the outcome of each."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from bot.core.light_dataclass import dataclass
from bot.core.predictions import BinaryPrediction, BinaryShape
from bot.core.questions import CrowdForecast, Question, QuestionRef, Target
from bot.simulator.world.questions import AnswerKind, QuestionEnding, SimulatedQuestion, outcome_day
from bot.simulator.world.simulated_world import SimulatedWorld

START = datetime(2025, 1, 6, tzinfo=UTC)
# So many questions of all kinds give one that is used here: yes or no, resolved, open in the middle of its life.
QUESTIONS_PER_CASE = 3.2
# The moment in the life of a question at which it is asked, as a share of it.
EARLIEST_CUTOFF, LATEST_CUTOFF = 0.25, 0.75
# By then all questions are over.
END_DAY = 500.0
VENUE = "sandbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaboratoryQuestion:
    """A question at its cutoff, with its true probability on that day, and its outcome.

    ``crowd`` is the price that day, ``known_day`` the day on which the outcome became public.
    """

    simulated_question: SimulatedQuestion
    day: float
    question: Question
    true_probability: float
    crowd: float
    outcome: bool
    known_day: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceAnswers:
    """The answers of simple references to the cases, in their order; ``base_rate`` is the share of yes so far."""

    truth: Sequence[float]
    crowd: Sequence[float]
    base_rate: Sequence[float]
    even: Sequence[float]


def create_world(seed: int, count: int) -> SimulatedWorld:
    """Return a world in which so many questions can be asked."""
    return SimulatedWorld(seed=seed, start=START, size=max(60, round(QUESTIONS_PER_CASE * count)))


def select_questions(world: SimulatedWorld, count: int) -> list[LaboratoryQuestion]:
    """Return so many cases, or as many as there are, in the order of their cutoffs."""
    found = [case for simulated in world.questions if (case := _question_at_cutoff(world, simulated)) is not None]
    # Which ones are taken must not depend on when they close.
    order = world.random_streams.stream("lab", "cases").permutation(len(found))
    taken = sorted(order[:count].tolist())
    return sorted((found[place] for place in taken), key=lambda case: (case.day, case.simulated_question.key))


def follow_questions(world: SimulatedWorld, count: int, days: int) -> list[LaboratoryQuestion]:
    """Return so many cases, each again on every following day on which it is still open, at most ``days`` in all.

    They are in the order of their days, as a venue would show them then: no moment is stated as of which to answer.
    """
    firsts = select_questions(world, count)
    followed = (
        _question_on_day(world, first.simulated_question, first.day + later)
        for first in firsts
        for later in range(days)
    )
    cases = [replace(case, question=replace(case.question, as_of=None)) for case in followed if case is not None]
    return sorted(cases, key=lambda case: (case.day, case.simulated_question.key))


def reference_answers(cases: Sequence[LaboratoryQuestion]) -> ReferenceAnswers:
    """Return the references, which need no forecaster; the base rate counts only outcomes known before each cutoff."""
    return ReferenceAnswers(
        truth=[case.true_probability for case in cases],
        crowd=[case.crowd for case in cases],
        base_rate=[_base_rate_at(case, cases) for case in cases],
        even=[0.5] * len(cases),
    )


def _base_rate_at(case: LaboratoryQuestion, cases: Sequence[LaboratoryQuestion]) -> float:
    known = [one.outcome for one in cases if one.known_day < case.day]
    # As if one yes and one no had come before.
    return (sum(known) + 1.0) / (len(known) + 2.0)


def _question_at_cutoff(world: SimulatedWorld, simulated: SimulatedQuestion) -> LaboratoryQuestion | None:
    if simulated.answer_kind is not AnswerKind.BINARY or simulated.ending is QuestionEnding.ANNULLED:
        return None
    share = float(world.random_streams.stream("lab", "cutoff", simulated.key).uniform(EARLIEST_CUTOFF, LATEST_CUTOFF))
    # Whole days with some hours: data dated on the day are not from its first moment.
    day = round((simulated.opens + share * (simulated.closes - simulated.opens)) * 4.0) / 4.0 + 0.1
    return _question_on_day(world, simulated, day)


def _question_on_day(world: SimulatedWorld, simulated: SimulatedQuestion, day: float) -> LaboratoryQuestion | None:
    """Return a question as it is on a day; None if it is not open then, or its outcome is known within half a day."""
    if not simulated.is_open(day) or outcome_day(simulated) <= day + 0.5:
        return None
    chance, price = world.true_probability(simulated, day), world.crowd_price(simulated, day)
    assert isinstance(chance, float)  # noqa: S101 - of yes or no there is one probability
    assert isinstance(price, float)  # noqa: S101 - as above
    return LaboratoryQuestion(
        simulated_question=simulated,
        day=day,
        question=_venue_question(world, simulated, day, price),
        true_probability=chance,
        crowd=price,
        outcome=world.outcome_of(simulated) is True,
        known_day=outcome_day(simulated),
    )


def _venue_question(world: SimulatedWorld, simulated: SimulatedQuestion, day: float, price: float) -> Question:
    at = world.calendar.moment_of
    return Question(
        ref=QuestionRef(VENUE, simulated.key),
        title=simulated.title,
        background=simulated.background,
        criteria=simulated.criteria,
        shape=BinaryShape(),
        targets=(Target(resolves_at=at(simulated.last_day)),),
        family="market",
        source=simulated.venue_kind,
        series=simulated.key,
        opens_at=at(simulated.opens),
        closes_at=at(simulated.closes),
        as_of=at(day),
        crowd=CrowdForecast(prediction=BinaryPrediction(price), at=at(day)),
    )
