from collections.abc import Sequence
from datetime import timedelta

import pytest

from bot.core.beliefs import Step
from bot.core.errors import ServiceUnavailableError
from bot.core.outcomes import Resolution, VoidOutcome
from bot.core.predictions import BinaryPrediction
from bot.core.questions import Question, QuestionRef, Target
from bot.core.submissions import ExecutionMode, HoldDecision, IntentState, SendDecision, SubmissionBatch, WriteReceipt
from bot.execution.gate.gate import DecisionContext, ExecutionPolicy, build_intent
from bot.store.scores import ScoreFilter
from bot.testing.forecaster import ScriptedForecaster, ScriptedStep, believe_yes
from bot.testing.venue import FakeSubmitter
from tests.unit.jobs.conftest import FIRST, SECOND, VENUE, JobsFixture, outcome


def only(key: str) -> ScriptedStep:
    """Return a move that knows one question and fails at all others."""

    def move(question: Question) -> Step:
        if question.ref.key != key:
            message = f"nothing is known of {question.ref}"
            raise ServiceUnavailableError(message)
        step = believe_yes(0.3)
        assert callable(step)
        return step(question)

    return move


class FakeRecordingBook(FakeSubmitter):
    """A book that remembers of each batch how many intents and questions it had, and its first question."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[tuple[int, int]] = []
        self.firsts: list[str] = []

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        self.sizes.append((len(batch.intents), len(batch.questions)))
        self.firsts += [question.ref.key for question in batch.questions[:1]]
        return await super().submit(batch)


async def forecast_all(house: JobsFixture, *keys: str, **changes: object) -> None:
    house.offer(*keys, **changes)
    await house.discover()
    await house.forecast()


async def test_a_forecast_is_decided_sent_and_acknowledged_once(house: JobsFixture) -> None:
    await forecast_all(house, "rain")
    assert await house.submit() == "1 planned, 0 held, 1 acknowledged"
    assert await house.submit() == "0 planned, 0 held, 0 acknowledged"
    assert [intent.ref.key for intent in house.book.writes] == ["rain"]


async def test_a_refused_intent_is_recorded_and_not_retried(house: JobsFixture) -> None:
    house.book.refuse_all("question closed")
    await forecast_all(house, "rain")
    await house.submit()
    await house.submit()
    [forecast] = await house.history()
    [decided] = await house.ledger.submissions.decisions(forecast.id)
    assert isinstance(decided.decision, SendDecision)
    [row] = await house.ledger.submissions.batches(states=[IntentState.REFUSED])
    assert row.counts == {IntentState.REFUSED: 1}
    assert house.book.writes == []


async def test_a_lost_reply_is_settled_by_reading_back_and_never_sent_twice(house: JobsFixture) -> None:
    house.book.lose_next_reply()
    await forecast_all(house, "rain")
    assert await house.submit() == "1 planned, 0 held, 0 acknowledged"
    assert await house.reconcile() == "1 unknown writes settled"
    assert await house.submit() == "0 planned, 0 held, 0 acknowledged"
    assert len(house.book.writes) == 1


async def test_a_lost_request_is_proved_absent_and_then_sent(house: JobsFixture) -> None:
    house.book.lose_next_request()
    await forecast_all(house, "rain")
    await house.submit()
    assert await house.reconcile() == "1 unknown writes settled"
    assert await house.submit() == "0 planned, 0 held, 1 acknowledged"
    assert len(house.book.writes) == 1


async def test_reconciling_twice_changes_nothing_more(house: JobsFixture) -> None:
    house.book.lose_next_reply()
    await forecast_all(house, "rain")
    await house.submit()
    outbox = house.outbox({})
    assert [await outbox.reconcile(), await outbox.reconcile()] == [1, 0]


async def test_what_was_on_the_wire_at_a_kill_is_unknown_until_read_back(house: JobsFixture) -> None:
    house.book.lose_next_reply()
    await forecast_all(house, "rain")
    await house.submit()
    [row] = await house.ledger.submissions.batches(states=[IntentState.UNKNOWN])
    [item] = await house.ledger.submissions.intents(VENUE, "me", row.batch)
    # The state in which a kill between the first byte and the answer leaves an intent.
    assert (item.state, await house.outbox({}).recover()) == (IntentState.UNKNOWN, 0)


async def test_an_intent_found_sending_at_the_start_becomes_unknown(house: JobsFixture) -> None:
    await forecast_all(house, "rain", batch="round 1")
    outbox = house.outbox({})
    submissions = house.ledger.submissions
    [forecast] = await house.history()
    case = DecisionContext(
        policy=ExecutionPolicy(venue=VENUE, mode=ExecutionMode.PAPER, primary_forecaster=FIRST, account="me"),
        forecast=forecast,
        question=await house.ledger.questions.get(forecast.ref),
        current_intent=None,
        lock_reason=None,
        now=house.clock.now(),
    )
    intent = build_intent(case)
    send = SendDecision(intent=intent, mode=ExecutionMode.PAPER, why="paper")
    await submissions.decide(forecast_id=forecast.id, decision=send, at=house.clock.now())
    await submissions.begin_attempt([intent.id], at=house.clock.now())
    assert [row.intent.id for row in await submissions.sending()] == [intent.id]
    assert await outbox.recover() == 1
    assert await house.reconcile() == "1 unknown writes settled"
    assert await house.submit() == "0 planned, 0 held, 1 acknowledged"


async def test_a_batch_waits_for_the_first_forecast_of_each_of_its_questions(house: JobsFixture) -> None:
    house.forecasters = {FIRST: ScriptedForecaster(only("rain"))}
    await forecast_all(house, "rain", "snow", batch="round 1")
    assert await house.submit() == "1 planned, 0 held, 0 acknowledged"
    house.forecasters = {FIRST: ScriptedForecaster(believe_yes(0.3))}
    await house.clock.advance(3601)
    await house.forecast()
    assert await house.submit() == "1 planned, 0 held, 2 acknowledged"


async def test_in_the_last_hour_a_batch_goes_with_what_there_is(house: JobsFixture) -> None:
    house.forecasters = {FIRST: ScriptedForecaster(only("rain"))}
    closes_at = house.clock.now() + timedelta(hours=2)
    await forecast_all(house, "rain", "snow", batch="round 1", closes_at=closes_at)
    await house.clock.advance(1000)
    assert (await house.forecast()).startswith("0 forecasts made, 1 postponed; 1 trial failed: ")
    assert await house.submit() == "1 planned, 0 held, 0 acknowledged"
    await house.clock.advance(2601)
    assert await house.submit() == "0 planned, 0 held, 1 acknowledged"


@pytest.mark.parametrize("hours_to_close", [0.5, -100.0])
async def test_late_batches_still_wait_for_what_is_due(house: JobsFixture, hours_to_close: float) -> None:
    house.concurrency = 4
    closes_at = house.clock.now() + timedelta(hours=hours_to_close)
    house.offer("rain", "snow", "hail", "sleet", "fog", "dew", batch="round 1", closes_at=closes_at)
    await house.discover()
    # A pass claims 4 of the 6 for its 4 places, and then the daemon is told to stop.
    answers = iter([False])
    house.stop = lambda: next(answers, True)
    assert await house.forecast() == "4 forecasts made"
    assert await house.submit() == "4 planned, 0 held, 0 acknowledged"
    house.stop = lambda: False
    await house.forecast()
    assert await house.submit() == "2 planned, 0 held, 6 acknowledged"


async def test_a_batch_seen_only_in_part_waits_for_a_whole_pass(house: JobsFixture) -> None:
    house.offer(*(f"question {number}" for number in range(5)), batch="round 1")
    house.venue.fail_with(ServiceUnavailableError("503"), after=3)
    with pytest.raises(ServiceUnavailableError):
        await house.discover()
    assert await house.forecast() == "3 forecasts made"
    assert await house.submit() == "3 planned, 0 held, 0 acknowledged"
    house.venue.recover()
    await house.discover()
    await house.forecast()
    assert await house.submit() == "2 planned, 0 held, 5 acknowledged"


async def test_a_venue_that_fails_before_it_says_anything_changes_nothing(house: JobsFixture) -> None:
    await forecast_all(house, "rain", batch="round 1")
    house.venue.fail_with(ServiceUnavailableError("503"))
    with pytest.raises(ServiceUnavailableError):
        await house.discover()
    assert await house.submit() == "1 planned, 0 held, 1 acknowledged"


async def test_questions_without_a_batch_travel_alone_soonest_close_first_and_wait_for_no_pass(
    house: JobsFixture,
) -> None:
    house.book = spy = FakeRecordingBook()
    for key, days in (("late", 9), ("soon", 1), ("middle", 5)):
        house.offer(key, closes_at=house.clock.now() + timedelta(days=days))
    await house.discover()
    await house.forecast()
    house.surveyed.clear()
    assert await house.submit() == "3 planned, 0 held, 3 acknowledged"
    assert (spy.sizes, spy.firsts) == ([(1, 1)] * 3, ["soon", "middle", "late"])


async def test_a_lock_of_the_primary_forecaster_holds_its_submission(house: JobsFixture) -> None:
    await forecast_all(house, "rain")
    ref, now = QuestionRef(VENUE, "rain"), house.clock.now()
    await house.ledger.schedule.lock(ref, forecaster=FIRST, reason="under review", until=None, now=now)
    assert await house.submit() == "0 planned, 1 held, 0 acknowledged"
    await house.ledger.schedule.unlock(ref, forecaster=FIRST)
    await house.clock.advance(600)
    assert await house.submit() == "1 planned, 0 held, 1 acknowledged"


async def test_of_two_undecided_revisions_the_newest_stands(house: JobsFixture) -> None:
    await forecast_all(house, "rain")
    await house.submit()
    for probability in (0.9, 0.3):
        house.forecasters = {FIRST: ScriptedForecaster(believe_yes(probability))}
        await house.clock.advance(4 * 86_400)
        assert await house.forecast() == "1 forecasts made"
    assert await house.submit() == "0 planned, 2 held, 0 acknowledged"
    assert [intent.predictions["outcome"] for intent in house.book.standing_intents.values()] == [BinaryPrediction(0.3)]
    second, third = (await house.history())[1:]
    [row] = await house.ledger.submissions.decisions(second.id)
    assert row.decision == HoldDecision(why="superseded by revision 3")
    [row] = await house.ledger.submissions.decisions(third.id)
    assert "already submitted" in row.decision.why


async def test_the_second_forecaster_is_recorded_only(house: JobsFixture) -> None:
    house.offer("rain")
    await house.discover([FIRST, SECOND])
    await house.forecast()
    assert await house.submit() == "1 planned, 1 held, 1 acknowledged"


async def test_an_unarmed_live_venue_writes_nothing(house: JobsFixture) -> None:
    house.mode = ExecutionMode.LIVE
    await forecast_all(house, "rain")
    assert await house.submit() == "0 planned, 1 held, 0 acknowledged"
    assert house.book.writes == []


async def test_a_halted_forecast_is_decided_again_when_the_stop_file_is_gone(house: JobsFixture) -> None:
    (house.path / "STOP").touch()
    await forecast_all(house, "rain")
    await house.submit()
    await house.clock.advance(3600)
    await house.submit()
    (house.path / "STOP").unlink()
    await house.clock.advance(3600)
    assert await house.submit() == "1 planned, 0 held, 1 acknowledged"
    [forecast] = await house.history()
    decisions = [row.decision for row in await house.ledger.submissions.decisions(forecast.id)]
    assert [type(decision) for decision in decisions] == [HoldDecision, SendDecision]


async def test_outcomes_are_scored_once_beside_the_crowd_and_again_when_corrected(house: JobsFixture) -> None:
    await forecast_all(house, "rain", price=0.4)
    house.venue.publish_outcomes(outcome("rain", 1.0, at=house.clock.now() + timedelta(days=1)))
    await house.clock.advance(2 * 86_400)
    assert await house.resolve() == f"{VENUE}: 1 new outcomes of 1 questions"
    assert await house.score() == "1 predictions scored"
    assert await house.score() == "0 predictions scored"
    table = await house.ledger.scores.read_binary_columns(ScoreFilter())
    assert (table.probability, table.crowd, table.outcome) == ((0.3,), (0.4,), (1.0,))
    house.venue.publish_outcomes(outcome("rain", 0.0, at=house.clock.now()))
    assert await house.resolve() == f"{VENUE}: 0 new outcomes of 1 questions, 1 corrected"
    assert await house.score() == "1 predictions scored"
    assert (await house.ledger.scores.read_binary_columns(ScoreFilter())).outcome == (0.0,)


async def test_an_old_outcome_is_no_longer_asked_for(house: JobsFixture) -> None:
    await forecast_all(house, "rain")
    house.venue.publish_outcomes(outcome("rain", 1.0, at=house.clock.now()))
    await house.resolve()
    await house.clock.advance(101 * 86_400)
    assert await house.resolve() == f"{VENUE}: nothing to resolve"


async def test_an_annulled_question_has_no_score(house: JobsFixture) -> None:
    await forecast_all(house, "rain")
    ref = QuestionRef(VENUE, "rain")
    now = house.clock.now()
    house.venue.publish_outcomes(
        Resolution(ref=ref, target="outcome", outcome=VoidOutcome("annulled"), resolved_at=now)
    )
    await house.resolve()
    await house.score()
    assert (await house.ledger.scores.read_binary_columns(ScoreFilter())).probability == ()


async def test_each_date_of_a_series_is_scored_as_it_resolves(house: JobsFixture) -> None:
    targets = (Target(key="near", horizon_days=7), Target(key="far", horizon_days=30))
    await forecast_all(house, "rain", targets=targets, price=None)
    now = house.clock.now()
    near = Resolution(
        ref=QuestionRef(VENUE, "rain"), target="near", outcome=outcome("x", 0, at=now).outcome, resolved_at=now
    )
    house.venue.publish_outcomes(near)
    await house.resolve()
    assert await house.score() == "1 predictions scored"
    table = await house.ledger.scores.read_binary_columns(ScoreFilter())
    assert (table.target, table.horizon_days) == (("near",), (7,))


@pytest.mark.parametrize("price", [0.0, 1.0])
async def test_a_crowd_at_the_edge_is_scored_as_it_is(house: JobsFixture, price: float) -> None:
    await forecast_all(house, "rain", price=price)
    house.venue.publish_outcomes(outcome("rain", 1.0, at=house.clock.now()))
    await house.resolve()
    await house.score()
    assert (await house.ledger.scores.read_binary_columns(ScoreFilter())).crowd == (price,)


async def test_very_many_outcomes_are_recorded_in_parts(house: JobsFixture) -> None:
    keys = [f"question {number}" for number in range(501)]
    await forecast_all(house, *keys)
    house.venue.publish_outcomes(*(outcome(key, 1.0, at=house.clock.now()) for key in keys))
    assert await house.resolve() == f"{VENUE}: 501 new outcomes of 501 questions"
