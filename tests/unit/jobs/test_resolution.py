from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from bot.core.errors import ServiceUnavailableError
from bot.core.orders import Fill
from bot.core.outcomes import BinaryOutcome, Resolution, VoidOutcome
from bot.core.questions import QuestionRef
from bot.core.submissions import SubmissionBatch, WriteReceipt
from bot.store.health_queries import find_annulled_questions
from bot.store.scores import ScoreFilter
from bot.testing.venue import FakeVenueReader
from tests.unit.jobs.conftest import VENUE, JobsFixture, outcome, question
from tests.unit.jobs.trading_fixture import FakeTradingAccount, TradingFixture


async def forecast_round(jobs_fixture: JobsFixture, *keys: str) -> None:
    jobs_fixture.offer(*keys, batch="round 1")
    await jobs_fixture.discover()
    await jobs_fixture.forecast()


async def test_an_outcome_that_its_batch_no_longer_has_is_void_and_unscored(jobs_fixture: JobsFixture) -> None:
    await forecast_round(jobs_fixture, "rain", "snow")
    now = jobs_fixture.clock.now()
    rain, snow = outcome("rain", 1.0, at=now), outcome("snow", 0.0, at=now)
    jobs_fixture.venue.publish_outcomes(rain, snow)
    await jobs_fixture.resolve()
    await jobs_fixture.score()
    await jobs_fixture.clock.advance(60)

    jobs_fixture.venue = FakeVenueReader(resolutions=[rain])
    assert await jobs_fixture.resolve() == f"{VENUE}: 0 new outcomes of 2 questions, 1 corrected"
    [gone] = await jobs_fixture.ledger.resolutions.current(QuestionRef(VENUE, "snow"))
    assert gone.outcome == VoidOutcome("withdrawn")
    await jobs_fixture.score()
    assert [ref.key for ref in (await jobs_fixture.ledger.scores.read_binary_columns(ScoreFilter())).ref] == ["rain"]

    jobs_fixture.venue = FakeVenueReader(resolutions=[rain, snow])
    assert await jobs_fixture.resolve() == f"{VENUE}: 0 new outcomes of 2 questions, 1 corrected"
    [back] = await jobs_fixture.ledger.resolutions.current(QuestionRef(VENUE, "snow"))
    assert back.outcome == BinaryOutcome(0.0)


async def test_a_batch_of_which_nothing_is_said_keeps_its_outcomes(jobs_fixture: JobsFixture) -> None:
    await forecast_round(jobs_fixture, "rain", "snow")
    jobs_fixture.venue.publish_outcomes(outcome("rain", 1.0, at=jobs_fixture.clock.now()))
    await jobs_fixture.resolve()
    jobs_fixture.venue = FakeVenueReader()
    assert await jobs_fixture.resolve() == f"{VENUE}: 0 new outcomes of 2 questions"


async def test_of_two_outcomes_for_one_target_the_first_counts_at_every_pass(jobs_fixture: JobsFixture) -> None:
    await forecast_round(jobs_fixture, "rain")
    now = jobs_fixture.clock.now()
    first, second = outcome("rain", 1.0, at=now), outcome("rain", 0.0, at=now)

    class Contradictory(FakeVenueReader):
        async def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
            for resolution in (first, second):
                yield resolution

    jobs_fixture.venue = Contradictory([question("rain", now=now)])
    assert await jobs_fixture.resolve() == f"{VENUE}: 1 new outcomes of 1 questions"
    assert await jobs_fixture.resolve() == f"{VENUE}: 0 new outcomes of 1 questions"
    assert len(await jobs_fixture.ledger.resolutions.history(QuestionRef(VENUE, "rain"))) == 1


async def test_a_reading_that_ends_early_keeps_what_it_read_and_withdraws_nothing(jobs_fixture: JobsFixture) -> None:
    await forecast_round(jobs_fixture, "rain", "snow")
    now = jobs_fixture.clock.now()
    jobs_fixture.venue.publish_outcomes(outcome("rain", 1.0, at=now), outcome("snow", 0.0, at=now))
    jobs_fixture.venue.fail_with(ServiceUnavailableError("the second page is missing"), after=1)
    with pytest.raises(ServiceUnavailableError):
        await jobs_fixture.resolve()
    found = [len(await jobs_fixture.ledger.resolutions.current(QuestionRef(VENUE, key))) for key in ("rain", "snow")]
    assert found == [1, 0]
    jobs_fixture.venue.recover()
    assert await jobs_fixture.resolve() == f"{VENUE}: 1 new outcomes of 2 questions"


class FilledAccount(FakeTradingAccount):
    """An account whose orders are filled at once, but for those on the contract ``hail``."""

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        receipts = await super().submit(batch)
        fill = Fill(reference="1", at=self.clock(), shares=1.0, price=0.5, cash=-0.5)
        orders = {intent.id: intent.order for intent in batch.intents}
        is_filled = {name: order is not None and order.contract != "hail" for name, order in orders.items()}
        return [replace(one, fills=(fill,) if is_filled[one.intent] else ()) for one in receipts]


async def test_an_annulled_question_is_reported_where_orders_on_it_were_filled(jobs_fixture: JobsFixture) -> None:
    trading_fixture = TradingFixture(jobs_fixture, FilledAccount(jobs_fixture.clock.now))
    await trading_fixture.forecast("rain", "snow", "hail")
    await trading_fixture.submit()
    now = jobs_fixture.clock.now()
    void = [
        Resolution(ref=QuestionRef(VENUE, key), target=target, outcome=VoidOutcome(reason), resolved_at=now)
        for key, reason in (("rain", "cancelled"), ("snow", "withdrawn"), ("hail", "cancelled"))
        for target in (outcome(key, 1.0, at=now).target,)
    ]
    jobs_fixture.venue = FakeVenueReader(resolutions=void)
    await jobs_fixture.resolve()

    async def annulled(since: datetime) -> list[tuple[str, str]]:
        readers = jobs_fixture.ledger.events.readers
        found = await readers.run(lambda database: find_annulled_questions(database, since))
        return [(one.ref.key, one.reason) for one in found]

    assert await annulled(now) == [("rain", "cancelled")]
    assert await annulled(now + timedelta(seconds=1)) == []
