"""Trials that fail: how many may, what is said of them, and what is on record of those that were not enough."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace

import pytest

from bot.core.beliefs import Belief, Step, StepAction, StepObservation
from bot.core.errors import AuthenticationError, QuotaExhaustedError, RequestRejectedError, TrialLimitReachedError
from bot.core.interfaces import Forecaster, TrialContext
from bot.core.predictions import BinaryPrediction
from bot.core.questions import Question, QuestionRef
from bot.store.forecast_queries import read_forecast_status, read_recent_failures
from tests.unit.jobs.conftest import FIRST, VENUE, JobsFixture

RAIN = QuestionRef(VENUE, "rain")
SIGNATURE = "prime:big rejected the call: a signature is missing"


def step(probability: float, *, stated: bool = True) -> Step:
    belief = Belief(predictions={"outcome": BinaryPrediction(probability)}, stated=stated)
    return Step(action=StepAction(name="think"), observation=StepObservation(), belief=belief)


@dataclass
class FakeFailingForecaster:
    """Implements the port Forecaster: starts at 0.5, believes 0.2 on evidence, and fails in some trials.

    ``before`` says that it fails before it has seen any evidence.
    """

    error: Exception
    trials: frozenset[int]
    before: bool = False

    async def steps(self, _question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        yield step(0.5, stated=False)
        if context.trial in self.trials and self.before:
            raise self.error
        yield step(0.2)
        if context.trial in self.trials:
            raise self.error
        yield replace(step(0.2), final=True)


async def tried(jobs_fixture: JobsFixture, failing: Forecaster, *, trials: int = 5, **changes: float) -> str:
    jobs_fixture.trials, jobs_fixture.forecasters, jobs_fixture.changes = trials, {FIRST: failing}, changes
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    return await jobs_fixture.forecast()


@pytest.mark.parametrize("number", [1, 2])
async def test_some_trials_may_fail_and_none_of_them_is_combined(jobs_fixture: JobsFixture, number: int) -> None:
    failing = FakeFailingForecaster(RequestRejectedError(SIGNATURE), frozenset(range(1, number + 1)))
    said = await tried(jobs_fixture, failing)
    failed = "1 trial failed" if number == 1 else "2 trials failed"
    assert said == f"1 forecasts made; {failed}: {SIGNATURE}"
    [made] = await jobs_fixture.history()
    trace = await jobs_fixture.ledger.forecasts.trace(made.id)
    assert [record.trial is not None and record.trial.is_answer for record in trace.trials].count(False) == number
    # What a trial believed before it failed stays on record, to be looked at.
    assert [len(record.steps) for record in trace.trials][:number] == [2] * number


async def test_where_fewer_than_half_count_the_question_is_put_off_with_the_reasons(jobs_fixture: JobsFixture) -> None:
    said = await tried(jobs_fixture, FakeFailingForecaster(RequestRejectedError(SIGNATURE), frozenset({1, 2, 3})))
    assert said == f"0 forecasts made, 1 postponed; 3 trials failed: {SIGNATURE}"
    assert await jobs_fixture.history() == []
    standing = await read_forecast_status(jobs_fixture.ledger.forecasts.readers, RAIN, FIRST)
    why = f"only 2 of 5 trials count; 3 trials failed: {SIGNATURE}"
    assert standing.attempt is not None
    assert (standing.attempt.state, standing.attempt.detail) == ("failed", why)
    assert standing.place is not None
    assert standing.place.due_at is not None
    assert standing.place.due_at > jobs_fixture.clock.now()
    assert why in standing.place.why


@pytest.mark.parametrize(("share", "made"), [(0.4, 1), (0.41, 0), (1.0, 0), (0.0, 1)])
async def test_the_share_that_must_count_is_set(jobs_fixture: JobsFixture, share: float, made: int) -> None:
    said = await tried(
        jobs_fixture,
        FakeFailingForecaster(RequestRejectedError(SIGNATURE), frozenset({1, 2, 3})),
        min_trial_share=share,
    )
    assert said.startswith(f"{made} forecasts made")


async def test_a_limit_after_evidence_leaves_an_answer_and_before_it_none(jobs_fixture: JobsFixture) -> None:
    spent = TrialLimitReachedError("no step is left", limit="steps")
    assert await tried(jobs_fixture, FakeFailingForecaster(spent, frozenset({1, 2, 3}))) == "1 forecasts made"
    await jobs_fixture.clock.advance(100 * 3600)
    said = await tried(jobs_fixture, FakeFailingForecaster(spent, frozenset({1, 2, 3}), before=True))
    cut = "ended at its step limit before it stated a belief on evidence: no step is left"
    assert said == f"0 forecasts made, 1 postponed; 3 trials failed: {cut}"


async def test_reasons_that_differ_in_numbers_alone_are_one(jobs_fixture: JobsFixture) -> None:
    class Counting:
        async def steps(self, question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
            yield step(0.5, stated=False)
            refused = f"prime:big, for {question.ref}: request req_{context.trial}ab refused"
            raise RequestRejectedError(refused if context.trial < 5 else "too long")

    said = await tried(jobs_fixture, Counting())
    reasons = f"4 prime:big, for {RAIN}: request req_1ab refused; 1 too long"
    assert said == f"0 forecasts made, 1 postponed; 5 trials failed: {reasons}"


async def test_an_account_without_money_ends_the_pass_like_missing_credentials(jobs_fixture: JobsFixture) -> None:
    with pytest.raises(AuthenticationError, match="first made none: prime: the account is empty"):
        await tried(
            jobs_fixture,
            FakeFailingForecaster(QuotaExhaustedError("prime: the account is empty"), frozenset(range(1, 6))),
        )


async def test_the_ledger_tells_what_failed_of_late(jobs_fixture: JobsFixture) -> None:
    began = jobs_fixture.clock.now()
    await tried(jobs_fixture, FakeFailingForecaster(RequestRejectedError(SIGNATURE), frozenset({1, 2})))
    readers = jobs_fixture.ledger.forecasts.readers
    found = await read_recent_failures(readers, began)
    assert (len(found.trials), found.postponed_questions, found.incomplete_forecasts) == (2, 0, 1)
    assert {str(end): count for end, count in found.ends[FIRST].items()} == {"failed": 2, "finished": 3}
    await jobs_fixture.clock.advance(100 * 3600)
    later = jobs_fixture.clock.now()
    await tried(jobs_fixture, FakeFailingForecaster(RequestRejectedError(SIGNATURE), frozenset(range(1, 6))))
    found = await read_recent_failures(readers, later)
    assert (len(found.trials), found.postponed_questions, found.incomplete_forecasts) == (5, 1, 0)
    # A question that was forecast in the end is put off no more.
    await jobs_fixture.clock.advance(3600)
    await tried(jobs_fixture, FakeFailingForecaster(RequestRejectedError(SIGNATURE), frozenset()))
    found = await read_recent_failures(readers, later)
    assert (len(found.trials), found.postponed_questions) == (5, 0)
    assert (await read_recent_failures(readers, jobs_fixture.clock.now())).ends[FIRST].keys() == {"finished"}
