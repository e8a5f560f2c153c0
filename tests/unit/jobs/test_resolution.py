from collections.abc import AsyncIterator, Collection

import pytest

from bot.core.errors import ServiceUnavailableError
from bot.core.outcomes import BinaryOutcome, Resolution, VoidOutcome
from bot.core.questions import QuestionRef
from bot.store.scores import ScoreFilter
from bot.testing.venue import FakeVenueReader
from tests.unit.jobs.conftest import VENUE, JobsFixture, outcome, question


async def forecast_round(house: JobsFixture, *keys: str) -> None:
    house.offer(*keys, batch="round 1")
    await house.discover()
    await house.forecast()


async def test_an_outcome_that_its_batch_no_longer_has_is_void_and_unscored(house: JobsFixture) -> None:
    await forecast_round(house, "rain", "snow")
    now = house.clock.now()
    rain, snow = outcome("rain", 1.0, at=now), outcome("snow", 0.0, at=now)
    house.venue.publish_outcomes(rain, snow)
    await house.resolve()
    await house.score()
    await house.clock.advance(60)

    house.venue = FakeVenueReader(resolutions=[rain])
    assert await house.resolve() == f"{VENUE}: 0 new outcomes of 2 questions, 1 corrected"
    [gone] = await house.ledger.resolutions.current(QuestionRef(VENUE, "snow"))
    assert gone.outcome == VoidOutcome("withdrawn")
    await house.score()
    assert [ref.key for ref in (await house.ledger.scores.read_binary_columns(ScoreFilter())).ref] == ["rain"]

    house.venue = FakeVenueReader(resolutions=[rain, snow])
    assert await house.resolve() == f"{VENUE}: 0 new outcomes of 2 questions, 1 corrected"
    [back] = await house.ledger.resolutions.current(QuestionRef(VENUE, "snow"))
    assert back.outcome == BinaryOutcome(0.0)


async def test_a_batch_of_which_nothing_is_said_keeps_its_outcomes(house: JobsFixture) -> None:
    await forecast_round(house, "rain", "snow")
    house.venue.publish_outcomes(outcome("rain", 1.0, at=house.clock.now()))
    await house.resolve()
    house.venue = FakeVenueReader()
    assert await house.resolve() == f"{VENUE}: 0 new outcomes of 2 questions"


async def test_of_two_outcomes_for_one_target_the_first_counts_at_every_pass(house: JobsFixture) -> None:
    await forecast_round(house, "rain")
    now = house.clock.now()
    first, second = outcome("rain", 1.0, at=now), outcome("rain", 0.0, at=now)

    class Contradictory(FakeVenueReader):
        async def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
            for resolution in (first, second):
                yield resolution

    house.venue = Contradictory([question("rain", now=now)])
    assert await house.resolve() == f"{VENUE}: 1 new outcomes of 1 questions"
    assert await house.resolve() == f"{VENUE}: 0 new outcomes of 1 questions"
    assert len(await house.ledger.resolutions.history(QuestionRef(VENUE, "rain"))) == 1


async def test_a_reading_that_ends_early_keeps_what_it_read_and_withdraws_nothing(house: JobsFixture) -> None:
    await forecast_round(house, "rain", "snow")
    now = house.clock.now()
    house.venue.publish_outcomes(outcome("rain", 1.0, at=now), outcome("snow", 0.0, at=now))
    house.venue.fail_with(ServiceUnavailableError("the second page is missing"), after=1)
    with pytest.raises(ServiceUnavailableError):
        await house.resolve()
    found = [len(await house.ledger.resolutions.current(QuestionRef(VENUE, key))) for key in ("rain", "snow")]
    assert found == [1, 0]
    house.venue.recover()
    assert await house.resolve() == f"{VENUE}: 1 new outcomes of 2 questions"
