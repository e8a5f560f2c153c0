"""Questions of a simulated world at dated cutoffs, as a venue would have asked them, with what became of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from bot.domain.prediction import Binary, BinaryShape
from bot.domain.question import Crowd, Question, QuestionRef, Target
from bot.testing.world.ask import Ask, Fate, Form
from bot.testing.world.life import known_on
from bot.testing.world.world import World

START = datetime(2025, 1, 6, tzinfo=UTC)
# So many questions of all kinds make one that is asked here: yes or no, resolved, open in its midst.
PER_CASE = 3.2
# Where in the life of a question it is asked, as a share of it.
EARLIEST, LATEST = 0.25, 0.75
# By then all has happened that is asked about.
END_DAY = 500.0
VENUE = "sandbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A question at its cutoff, with what is true of it: the chance on that day, and what became of it.

    ``crowd`` is the price that day, ``known_day`` the day on which the outcome was there for all to see.
    """

    ask: Ask
    day: float
    question: Question
    chance: float
    crowd: float
    outcome: bool
    known_day: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What other answers to the cases would be, in their order; ``usual`` is the share of yes so far."""

    truth: Sequence[float]
    crowd: Sequence[float]
    usual: Sequence[float]
    even: Sequence[float]


def world_of(seed: int, count: int) -> World:
    """Return a world in which so many questions can be asked."""
    return World(seed=seed, start=START, size=max(60, round(PER_CASE * count)))


def cases_of(world: World, count: int) -> list[Case]:
    """Return so many cases, or as many as there are, in the order of their cutoffs."""
    found = [case for ask in world.asks if (case := _case(world, ask)) is not None]
    # Which ones are taken must not depend on when they close.
    order = world.chance.stream("lab", "cases").permutation(len(found))
    taken = sorted(order[:count].tolist())
    return sorted((found[place] for place in taken), key=lambda case: (case.day, case.ask.key))


def bounds_of(cases: Sequence[Case]) -> Bounds:
    """Return what needs no forecaster; what was usual is counted from outcomes known before each cutoff alone."""
    return Bounds(
        truth=[case.chance for case in cases],
        crowd=[case.crowd for case in cases],
        usual=[_usual(case, cases) for case in cases],
        even=[0.5] * len(cases),
    )


def _usual(case: Case, cases: Sequence[Case]) -> float:
    known = [one.outcome for one in cases if one.known_day < case.day]
    # As if one yes and one no had come before.
    return (sum(known) + 1.0) / (len(known) + 2.0)


def _case(world: World, ask: Ask) -> Case | None:
    if ask.form is not Form.BINARY or ask.fate is Fate.ANNULLED:
        return None
    share = float(world.chance.stream("lab", "cutoff", ask.key).uniform(EARLIEST, LATEST))
    # Whole days with some hours: what is dated on the day is not of its first moment.
    day = round((ask.opens + share * (ask.closes - ask.opens)) * 4.0) / 4.0 + 0.1
    if not ask.is_open(day) or known_on(ask) <= day + 0.5:
        return None
    chance, price = world.chance_of(ask, day), world.price(ask, day)
    assert isinstance(chance, float)  # noqa: S101 - of yes or no there is one probability
    assert isinstance(price, float)  # noqa: S101 - as above
    return Case(
        ask=ask,
        day=day,
        question=_question(world, ask, day, price),
        chance=chance,
        crowd=price,
        outcome=world.truth(ask) is True,
        known_day=known_on(ask),
    )


def _question(world: World, ask: Ask, day: float, price: float) -> Question:
    at = world.calendar.at
    return Question(
        ref=QuestionRef(VENUE, ask.key),
        title=ask.title,
        background=ask.background,
        criteria=ask.criteria,
        shape=BinaryShape(),
        targets=(Target(resolves_at=at(ask.until)),),
        family="market",
        source=ask.stall,
        series=ask.key,
        opens_at=at(ask.opens),
        closes_at=at(ask.closes),
        as_of=at(day),
        crowd=Crowd(prediction=Binary(price), at=at(day)),
    )
