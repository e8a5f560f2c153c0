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


async def forecast_all(jobs_fixture: JobsFixture, *keys: str, **changes: object) -> None:
    jobs_fixture.offer(*keys, **changes)
    await jobs_fixture.discover()
    await jobs_fixture.forecast()


async def test_a_forecast_is_decided_sent_and_acknowledged_once(jobs_fixture: JobsFixture) -> None:
    await forecast_all(jobs_fixture, "rain")
    assert await jobs_fixture.submit() == "1 planned, 0 held, 1 acknowledged"
    assert await jobs_fixture.submit() == "0 planned, 0 held, 0 acknowledged"
    assert [intent.ref.key for intent in jobs_fixture.book.writes] == ["rain"]


async def test_a_refused_intent_is_recorded_and_not_retried(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.book.refuse_all("question closed")
    await forecast_all(jobs_fixture, "rain")
    await jobs_fixture.submit()
    await jobs_fixture.submit()
    [forecast] = await jobs_fixture.history()
    [decided] = await jobs_fixture.ledger.submissions.decisions(forecast.id)
    assert isinstance(decided.decision, SendDecision)
    [row] = await jobs_fixture.ledger.submissions.batches(states=[IntentState.REFUSED])
    assert row.counts == {IntentState.REFUSED: 1}
    assert jobs_fixture.book.writes == []


async def test_a_lost_reply_is_settled_by_reading_back_and_never_sent_twice(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.book.lose_next_reply()
    await forecast_all(jobs_fixture, "rain")
    assert await jobs_fixture.submit() == "1 planned, 0 held, 0 acknowledged"
    assert await jobs_fixture.reconcile() == "1 unknown writes settled"
    assert await jobs_fixture.submit() == "0 planned, 0 held, 0 acknowledged"
    assert len(jobs_fixture.book.writes) == 1


async def test_a_lost_request_is_proved_absent_and_then_sent(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.book.lose_next_request()
    await forecast_all(jobs_fixture, "rain")
    await jobs_fixture.submit()
    assert await jobs_fixture.reconcile() == "1 unknown writes settled"
    assert await jobs_fixture.submit() == "0 planned, 0 held, 1 acknowledged"
    assert len(jobs_fixture.book.writes) == 1


async def test_reconciling_twice_changes_nothing_more(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.book.lose_next_reply()
    await forecast_all(jobs_fixture, "rain")
    await jobs_fixture.submit()
    outbox = jobs_fixture.outbox({})
    assert [await outbox.reconcile(), await outbox.reconcile()] == [1, 0]


async def test_what_was_on_the_wire_at_a_kill_is_unknown_until_read_back(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.book.lose_next_reply()
    await forecast_all(jobs_fixture, "rain")
    await jobs_fixture.submit()
    [row] = await jobs_fixture.ledger.submissions.batches(states=[IntentState.UNKNOWN])
    [item] = await jobs_fixture.ledger.submissions.intents(VENUE, "me", row.batch)
    # The state in which a kill between the first byte and the answer leaves an intent.
    assert (item.state, await jobs_fixture.outbox({}).recover()) == (IntentState.UNKNOWN, 0)


async def test_an_intent_found_sending_at_the_start_becomes_unknown(jobs_fixture: JobsFixture) -> None:
    await forecast_all(jobs_fixture, "rain", batch="round 1")
    outbox = jobs_fixture.outbox({})
    submissions = jobs_fixture.ledger.submissions
    [forecast] = await jobs_fixture.history()
    case = DecisionContext(
        policy=ExecutionPolicy(venue=VENUE, mode=ExecutionMode.PAPER, primary_forecaster=FIRST, account="me"),
        forecast=forecast,
        question=await jobs_fixture.ledger.questions.get(forecast.ref),
        current_intent=None,
        lock_reason=None,
        now=jobs_fixture.clock.now(),
    )
    intent = build_intent(case)
    send = SendDecision(intent=intent, mode=ExecutionMode.PAPER, why="paper")
    await submissions.decide(forecast_id=forecast.id, decision=send, at=jobs_fixture.clock.now())
    await submissions.begin_attempt([intent.id], at=jobs_fixture.clock.now())
    assert [row.intent.id for row in await submissions.sending()] == [intent.id]
    assert await outbox.recover() == 1
    assert await jobs_fixture.reconcile() == "1 unknown writes settled"
    assert await jobs_fixture.submit() == "0 planned, 0 held, 1 acknowledged"


async def test_a_batch_waits_for_the_first_forecast_of_each_of_its_questions(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.forecasters = {FIRST: ScriptedForecaster(only("rain"))}
    await forecast_all(jobs_fixture, "rain", "snow", batch="round 1")
    assert await jobs_fixture.submit() == "1 planned, 0 held, 0 acknowledged"
    jobs_fixture.forecasters = {FIRST: ScriptedForecaster(believe_yes(0.3))}
    await jobs_fixture.clock.advance(3601)
    await jobs_fixture.forecast()
    assert await jobs_fixture.submit() == "1 planned, 0 held, 2 acknowledged"


async def test_in_the_last_hour_a_batch_goes_with_what_there_is(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.forecasters = {FIRST: ScriptedForecaster(only("rain"))}
    closes_at = jobs_fixture.clock.now() + timedelta(hours=2)
    await forecast_all(jobs_fixture, "rain", "snow", batch="round 1", closes_at=closes_at)
    await jobs_fixture.clock.advance(1000)
    assert (await jobs_fixture.forecast()).startswith("0 forecasts made, 1 postponed; 1 trial failed: ")
    assert await jobs_fixture.submit() == "1 planned, 0 held, 0 acknowledged"
    await jobs_fixture.clock.advance(2601)
    assert await jobs_fixture.submit() == "0 planned, 0 held, 1 acknowledged"


@pytest.mark.parametrize("hours_to_close", [0.5, -100.0])
async def test_late_batches_still_wait_for_what_is_due(jobs_fixture: JobsFixture, hours_to_close: float) -> None:
    jobs_fixture.concurrency = 4
    closes_at = jobs_fixture.clock.now() + timedelta(hours=hours_to_close)
    jobs_fixture.offer("rain", "snow", "hail", "sleet", "fog", "dew", batch="round 1", closes_at=closes_at)
    await jobs_fixture.discover()
    # A pass claims 4 of the 6 for its 4 places, and then the daemon is told to stop.
    answers = iter([False])
    jobs_fixture.stop = lambda: next(answers, True)
    assert await jobs_fixture.forecast() == "4 forecasts made"
    assert await jobs_fixture.submit() == "4 planned, 0 held, 0 acknowledged"
    jobs_fixture.stop = lambda: False
    await jobs_fixture.forecast()
    assert await jobs_fixture.submit() == "2 planned, 0 held, 6 acknowledged"


async def test_a_batch_seen_only_in_part_waits_for_a_whole_pass(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.offer(*(f"question {number}" for number in range(5)), batch="round 1")
    jobs_fixture.venue.fail_with(ServiceUnavailableError("503"), after=3)
    with pytest.raises(ServiceUnavailableError):
        await jobs_fixture.discover()
    assert await jobs_fixture.forecast() == "3 forecasts made"
    assert await jobs_fixture.submit() == "3 planned, 0 held, 0 acknowledged"
    jobs_fixture.venue.recover()
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    assert await jobs_fixture.submit() == "2 planned, 0 held, 5 acknowledged"


async def test_a_venue_that_fails_before_it_says_anything_changes_nothing(jobs_fixture: JobsFixture) -> None:
    await forecast_all(jobs_fixture, "rain", batch="round 1")
    jobs_fixture.venue.fail_with(ServiceUnavailableError("503"))
    with pytest.raises(ServiceUnavailableError):
        await jobs_fixture.discover()
    assert await jobs_fixture.submit() == "1 planned, 0 held, 1 acknowledged"


async def test_questions_without_a_batch_travel_alone_soonest_close_first_and_wait_for_no_pass(
    jobs_fixture: JobsFixture,
) -> None:
    jobs_fixture.book = spy = FakeRecordingBook()
    for key, days in (("late", 9), ("soon", 1), ("middle", 5)):
        jobs_fixture.offer(key, closes_at=jobs_fixture.clock.now() + timedelta(days=days))
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    jobs_fixture.surveyed.clear()
    assert await jobs_fixture.submit() == "3 planned, 0 held, 3 acknowledged"
    assert (spy.sizes, spy.firsts) == ([(1, 1)] * 3, ["soon", "middle", "late"])


async def test_a_lock_of_the_primary_forecaster_holds_its_submission(jobs_fixture: JobsFixture) -> None:
    await forecast_all(jobs_fixture, "rain")
    ref, now = QuestionRef(VENUE, "rain"), jobs_fixture.clock.now()
    await jobs_fixture.ledger.schedule.lock(ref, forecaster=FIRST, reason="under review", until=None, now=now)
    assert await jobs_fixture.submit() == "0 planned, 1 held, 0 acknowledged"
    await jobs_fixture.ledger.schedule.unlock(ref, forecaster=FIRST)
    await jobs_fixture.clock.advance(600)
    assert await jobs_fixture.submit() == "1 planned, 0 held, 1 acknowledged"


async def test_of_two_undecided_revisions_the_newest_stands(jobs_fixture: JobsFixture) -> None:
    await forecast_all(jobs_fixture, "rain")
    await jobs_fixture.submit()
    for probability in (0.9, 0.3):
        jobs_fixture.forecasters = {FIRST: ScriptedForecaster(believe_yes(probability))}
        await jobs_fixture.clock.advance(4 * 86_400)
        assert await jobs_fixture.forecast() == "1 forecasts made"
    assert await jobs_fixture.submit() == "0 planned, 2 held, 0 acknowledged"
    assert [intent.predictions["outcome"] for intent in jobs_fixture.book.standing_intents.values()] == [
        BinaryPrediction(0.3)
    ]
    second, third = (await jobs_fixture.history())[1:]
    [row] = await jobs_fixture.ledger.submissions.decisions(second.id)
    assert row.decision == HoldDecision(why="superseded by revision 3")
    [row] = await jobs_fixture.ledger.submissions.decisions(third.id)
    assert "already submitted" in row.decision.why


async def test_the_second_forecaster_is_recorded_only(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.offer("rain")
    await jobs_fixture.discover([FIRST, SECOND])
    await jobs_fixture.forecast()
    assert await jobs_fixture.submit() == "1 planned, 1 held, 1 acknowledged"


async def test_an_unarmed_live_venue_writes_nothing(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.mode = ExecutionMode.LIVE
    await forecast_all(jobs_fixture, "rain")
    assert await jobs_fixture.submit() == "0 planned, 1 held, 0 acknowledged"
    assert jobs_fixture.book.writes == []


async def test_a_halted_forecast_is_decided_again_when_the_stop_file_is_gone(jobs_fixture: JobsFixture) -> None:
    (jobs_fixture.path / "STOP").touch()
    await forecast_all(jobs_fixture, "rain")
    await jobs_fixture.submit()
    await jobs_fixture.clock.advance(3600)
    await jobs_fixture.submit()
    (jobs_fixture.path / "STOP").unlink()
    await jobs_fixture.clock.advance(3600)
    assert await jobs_fixture.submit() == "1 planned, 0 held, 1 acknowledged"
    [forecast] = await jobs_fixture.history()
    decisions = [row.decision for row in await jobs_fixture.ledger.submissions.decisions(forecast.id)]
    assert [type(decision) for decision in decisions] == [HoldDecision, SendDecision]


async def test_outcomes_are_scored_once_beside_the_crowd_and_again_when_corrected(jobs_fixture: JobsFixture) -> None:
    await forecast_all(jobs_fixture, "rain", price=0.4)
    jobs_fixture.venue.publish_outcomes(outcome("rain", 1.0, at=jobs_fixture.clock.now() + timedelta(days=1)))
    await jobs_fixture.clock.advance(2 * 86_400)
    assert await jobs_fixture.resolve() == f"{VENUE}: 1 new outcomes of 1 questions"
    assert await jobs_fixture.score() == "1 predictions scored"
    assert await jobs_fixture.score() == "0 predictions scored"
    table = await jobs_fixture.ledger.scores.read_binary_columns(ScoreFilter())
    assert (table.probability, table.crowd, table.outcome) == ((0.3,), (0.4,), (1.0,))
    jobs_fixture.venue.publish_outcomes(outcome("rain", 0.0, at=jobs_fixture.clock.now()))
    assert await jobs_fixture.resolve() == f"{VENUE}: 0 new outcomes of 1 questions, 1 corrected"
    assert await jobs_fixture.score() == "1 predictions scored"
    assert (await jobs_fixture.ledger.scores.read_binary_columns(ScoreFilter())).outcome == (0.0,)


async def test_an_old_outcome_is_no_longer_asked_for(jobs_fixture: JobsFixture) -> None:
    await forecast_all(jobs_fixture, "rain")
    jobs_fixture.venue.publish_outcomes(outcome("rain", 1.0, at=jobs_fixture.clock.now()))
    await jobs_fixture.resolve()
    await jobs_fixture.clock.advance(101 * 86_400)
    assert await jobs_fixture.resolve() == f"{VENUE}: nothing to resolve"


async def test_an_annulled_question_has_no_score(jobs_fixture: JobsFixture) -> None:
    await forecast_all(jobs_fixture, "rain")
    ref = QuestionRef(VENUE, "rain")
    now = jobs_fixture.clock.now()
    jobs_fixture.venue.publish_outcomes(
        Resolution(ref=ref, target="outcome", outcome=VoidOutcome("annulled"), resolved_at=now)
    )
    await jobs_fixture.resolve()
    await jobs_fixture.score()
    assert (await jobs_fixture.ledger.scores.read_binary_columns(ScoreFilter())).probability == ()


async def test_each_date_of_a_series_is_scored_as_it_resolves(jobs_fixture: JobsFixture) -> None:
    targets = (Target(key="near", horizon_days=7), Target(key="far", horizon_days=30))
    await forecast_all(jobs_fixture, "rain", targets=targets, price=None)
    now = jobs_fixture.clock.now()
    near = Resolution(
        ref=QuestionRef(VENUE, "rain"), target="near", outcome=outcome("x", 0, at=now).outcome, resolved_at=now
    )
    jobs_fixture.venue.publish_outcomes(near)
    await jobs_fixture.resolve()
    assert await jobs_fixture.score() == "1 predictions scored"
    table = await jobs_fixture.ledger.scores.read_binary_columns(ScoreFilter())
    assert (table.target, table.horizon_days) == (("near",), (7,))


@pytest.mark.parametrize("price", [0.0, 1.0])
async def test_a_crowd_at_the_edge_is_scored_as_it_is(jobs_fixture: JobsFixture, price: float) -> None:
    await forecast_all(jobs_fixture, "rain", price=price)
    jobs_fixture.venue.publish_outcomes(outcome("rain", 1.0, at=jobs_fixture.clock.now()))
    await jobs_fixture.resolve()
    await jobs_fixture.score()
    assert (await jobs_fixture.ledger.scores.read_binary_columns(ScoreFilter())).crowd == (price,)


async def test_very_many_outcomes_are_recorded_in_parts(jobs_fixture: JobsFixture) -> None:
    keys = [f"question {number}" for number in range(501)]
    await forecast_all(jobs_fixture, *keys)
    jobs_fixture.venue.publish_outcomes(*(outcome(key, 1.0, at=jobs_fixture.clock.now()) for key in keys))
    assert await jobs_fixture.resolve() == f"{VENUE}: 501 new outcomes of 501 questions"
