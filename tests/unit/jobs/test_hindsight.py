"""Learning from what forecasters said themselves: strictly forward in time, and on record."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest

from bot.domain.learning import Hindsight
from bot.domain.resolution import Example, Void
from bot.domain.step import Json
from bot.errors import LeakError
from bot.jobs.learn import School, Teacher, best_known, fit
from bot.ports import Learner
from bot.testing.clock import START
from tests.unit.jobs.conftest import FIRST, SECOND, House, outcome, question
from tests.unit.testing.lantern import LanternArchive

DAY = timedelta(days=1)


@dataclass
class Remembering:
    """Learns the names of what it is shown."""

    others: Collection[str] = ()
    shown: list[str] = field(default_factory=list)

    def fit(self, examples: Sequence[Example], *, before: datetime) -> Mapping[str, Json]:
        return {"examples": len(examples)}

    def recall(self, pasts: Sequence[Hindsight], *, before: datetime) -> Mapping[str, Json]:
        return {"pasts": [f"{past.forecaster} on {past.question.ref.key}" for past in pasts]}


class Forgetting:
    """Learns from examples alone."""

    def fit(self, examples: Sequence[Example], *, before: datetime) -> Mapping[str, Json]:
        return {"examples": len(examples)}


async def told(house: House) -> None:
    """Two forecasters on two questions, one of which resolves on the second day."""
    house.venue.offer(*[question(key, now=START) for key in ("rain", "snow")])
    await house.discover((FIRST, SECOND))
    await house.forecast()
    await house.ledger.resolutions.record([outcome("rain", 1.0, at=START + DAY)], seen_at=START + DAY)


def teacher(house: House, learner: Learner, **more: LanternArchive) -> Teacher:
    school = School(learner=learner, shipped=())
    return Teacher(ledger=house.ledger, archives=[*more.values()], schools={FIRST: school}, clock=house.clock)


async def test_a_historian_sees_its_own_past_from_the_day_after_the_outcome(house: House) -> None:
    await told(house)
    asked = teacher(house, Remembering())
    assert await asked.known(FIRST, START + DAY + timedelta(hours=1)) is None
    known = await asked.known(FIRST, START + 2 * DAY)
    assert known is not None
    assert known.fitted.payload == {"examples": 0, "pasts": ["first on rain"]}
    assert known.fitted.examples == 1
    assert known.fitted.provenance["forecasts"] == "1, by first"
    assert await house.ledger.learning.get(known.digest) == known.fitted


async def test_a_historian_may_ask_for_the_past_of_others(house: House) -> None:
    await told(house)
    known = await teacher(house, Remembering(others=[SECOND]), lantern=LanternArchive()).known(FIRST, START + 9 * DAY)
    assert known is not None
    assert known.fitted.payload == {"examples": 2, "pasts": ["first on rain", "second on rain"]}
    assert known.fitted.examples == 4


async def test_who_is_no_historian_is_shown_no_past(house: House) -> None:
    await told(house)
    known = await teacher(house, Forgetting(), lantern=LanternArchive()).known(FIRST, START + 9 * DAY)
    assert known is not None
    assert (known.fitted.payload, known.fitted.examples) == ({"examples": 2}, 2)


async def test_a_past_that_was_not_over_is_a_leak(house: House) -> None:
    await told(house)
    (past,) = await house.ledger.learning.pasts([FIRST], START + 2 * DAY)
    late = replace(past, cutoff=START + 3 * DAY)
    for one, before in ((past, START + DAY), (late, START + 2 * DAY)):
        with pytest.raises(LeakError, match="was not over before"):
            fit(FIRST, Remembering(), [], before=before, pasts=[one])
    school = School(learner=Remembering(), shipped=())
    best = best_known(FIRST, school, [], before=START + 2 * DAY, pasts=[past])
    assert best is not None
    assert best.payload["pasts"] == ["first on rain"]


async def test_an_outcome_that_was_undone_is_unlearned_the_next_day_though_fewer_are_known_then(house: House) -> None:
    await told(house)
    await house.ledger.resolutions.record([outcome("snow", 0.0, at=START + DAY)], seen_at=START + DAY)
    asked = teacher(house, Remembering())
    before = await asked.known(FIRST, START + 2 * DAY)
    undone = replace(outcome("rain", 1.0, at=START + DAY), outcome=Void("undone"))
    await house.ledger.resolutions.record([undone], seen_at=START + 2 * DAY)
    after = await asked.known(FIRST, START + 3 * DAY)
    assert before is not None
    assert after is not None
    assert before.fitted.payload["pasts"] == ["first on rain", "first on snow"]
    assert (after.fitted.payload["pasts"], after.fitted.before) == (["first on snow"], START + 3 * DAY)


async def test_a_start_on_the_same_day_knows_the_same_whatever_resolved_since(house: House) -> None:
    await told(house)
    at = START + 2 * DAY + timedelta(hours=5)
    first = await teacher(house, Remembering()).known(FIRST, at)
    await house.ledger.resolutions.record([outcome("snow", 0.0, at=START + DAY)], seen_at=at)
    assert await teacher(house, Remembering()).known(FIRST, at) == first
