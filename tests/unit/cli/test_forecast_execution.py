"""Forecasts that a person asked for: followed in the ledger of the daemon, and their shared cutoff."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.cli.forecast_execution import (
    MAX_SHARED_CUTOFF_AGE,
    DaemonForecast,
    load_newest_attempt,
    result_or_failure,
    shared_cutoff,
)
from bot.cli.forecast_progress import ForecastView
from bot.cli.output.console import stdout_console
from bot.cli.question_lookup import FoundQuestion
from bot.config.schema import Config
from bot.core.beliefs import Belief, Step, StepAction, StepObservation
from bot.core.errors import RequestRejectedError, ServiceUnavailableError, StoreError
from bot.core.forecasts import Forecast, Trial, TrialEnd
from bot.core.predictions import BinaryPrediction, BinaryShape
from bot.core.questions import Question, QuestionRef, Target
from bot.forecasting.forecast_run import NoAnswerError
from bot.forecasting.tool_factory import LIVE_CUTOFF_AGE
from bot.store.forecast_queries import ForecastAttempt
from bot.store.forecasts import ForecastStart, RunningForecast
from bot.store.ledger import ReadOnlyState
from bot.store.requests import REFUSED_FOLDER, REQUEST_FOLDER
from bot.store.schedule import DueEntry
from bot.testing.clock import FakeClock
from tests.blank_ledger import open_blank_ledger

REF = QuestionRef("lantern", "rain")
QUESTION = Question(ref=REF, title="Rain?", shape=BinaryShape(), targets=(Target(),))
BELIEF = Belief(predictions={"outcome": BinaryPrediction(0.3)}, reason="clouds")
STEP = Step(action=StepAction(name="look"), observation=StepObservation(), belief=BELIEF)
FOX = "fox"


@pytest.fixture
async def records(tmp_path: Path) -> AsyncIterator[ReadOnlyState]:
    async with open_blank_ledger(tmp_path / "ledger.sqlite", now=FakeClock().now()) as ledger:
        await ledger.questions.record([QUESTION], seen_at=FakeClock().now())
        yield ReadOnlyState(config=Config(), folder=tmp_path, ledger=ledger)


def beside(records: ReadOnlyState, before: ForecastAttempt | None = None, *, submit: bool = False) -> DaemonForecast:
    view = ForecastView(console=stdout_console(), question=QUESTION, trials=1, steps=10)
    return DaemonForecast(
        records=records,
        clock=FakeClock(),
        found_question=FoundQuestion(QUESTION, needs_recording=False),
        forecaster=FOX,
        view=view,
        before=before,
        submit=submit,
    )


async def begun(records: ReadOnlyState, *, forecast_only: bool = False) -> RunningForecast:
    now = FakeClock().now()
    running = await records.ledger.forecasts.begin(
        ForecastStart(question=QUESTION, forecaster=FOX, cutoff=now, why="x", now=now, forecast_only=forecast_only)
    )
    await records.ledger.forecasts.log_step(running.id, trial=1, number=1, step=STEP, at=now)
    return running


async def ended(records: ReadOnlyState, running: RunningForecast) -> None:
    now, forecasts = FakeClock().now(), records.ledger.forecasts
    await forecasts.end_trial(running.id, Trial(number=1, end=TrialEnd.FINISHED, belief=BELIEF, steps=1), now)
    answer = BELIEF.predictions
    forecast = Forecast(
        id=running.id,
        ref=REF,
        version=running.version,
        forecaster=FOX,
        revision=running.revision,
        cutoff=now,
        made_at=now,
        why="x",
        raw=answer,
        predictions=answer,
    )
    await forecasts.complete(forecast, next_due=None)


def taken(records: ReadOnlyState) -> Path:
    """A request that is not there any more."""
    return records.folder / REQUEST_FOLDER / "1.json"


def dead(records: ReadOnlyState) -> None:
    """Let the last holder of the folder be one of another boot."""
    holder = {"pid": 1, "boot": "another", "started_at": "2026-01-01T00:00:00+00:00"}
    (records.folder / "lock").write_text(json.dumps(holder))


async def test_the_forecast_that_was_asked_for_is_shown_and_its_id_returned(
    records: ReadOnlyState, capsys: pytest.CaptureFixture[str]
) -> None:
    running = await begun(records)
    await ended(records, running)
    assert await beside(records).wait_for_forecast(taken(records)) == running.id
    said = capsys.readouterr().out
    assert "trial 1, step 1 of 10: look" in said
    assert "trial 1 ended after 1 steps: finished" in said


async def test_one_that_was_under_way_is_taken_for_the_answer_and_one_that_was_done_is_not(
    records: ReadOnlyState,
) -> None:
    running = await begun(records)
    before = await load_newest_attempt(records, QUESTION, FOX)
    assert before is not None
    assert before.state == "running"
    await ended(records, running)
    assert await beside(records, before).wait_for_forecast(taken(records)) == running.id
    done = await load_newest_attempt(records, QUESTION, FOX)
    dead(records)
    assert await beside(records, done).wait_for_forecast(taken(records)) is None


@pytest.mark.parametrize("is_told_in_time", [True, False])
async def test_one_that_was_only_to_be_seen_is_no_answer_to_who_wants_it_submitted(
    records: ReadOnlyState, *, is_told_in_time: bool
) -> None:
    running = await begun(records, forecast_only=True)
    before = await load_newest_attempt(records, QUESTION, FOX)
    if is_told_in_time:
        # As the daemon does where the request comes before the end of the forecast.
        await records.ledger.schedule.submit_looks([DueEntry(ref=REF, forecaster=FOX, due_at=NOW, why="asked for")])
    await ended(records, running)
    dead(records)
    found = await beside(records, before, submit=True).wait_for_forecast(taken(records))
    assert found == (running.id if is_told_in_time else None)
    assert await beside(records, before).wait_for_forecast(taken(records)) == running.id


async def test_a_forecast_without_an_answer_is_told_with_its_reason(records: ReadOnlyState) -> None:
    running = await begun(records)
    await records.ledger.forecasts.fail(running.id, why="trial 1: asleep", at=FakeClock().now())
    with pytest.raises(ServiceUnavailableError, match="fox gave no answer on lantern:rain: trial 1: asleep"):
        await beside(records).wait_for_forecast(taken(records))


async def test_a_question_that_was_put_off_is_told_with_the_moment_and_the_reason(records: ReadOnlyState) -> None:
    later = FakeClock().now() + timedelta(hours=1)
    await records.ledger.schedule.plan([DueEntry(ref=REF, forecaster=FOX, due_at=later, why="no network")])
    with pytest.raises(
        ServiceUnavailableError, match=r"postponed lantern:rain until 2026-01-01 01:00 UTC for fox: no network"
    ):
        await beside(records).wait_for_forecast(taken(records))


async def test_a_refusal_is_told_with_the_reason_of_this_very_request(records: ReadOnlyState) -> None:
    refused = records.folder / REQUEST_FOLDER / REFUSED_FOLDER / "1.json"
    refused.parent.mkdir(parents=True)
    refused.touch()
    for name in ("2.json", "1.json", "3.json"):
        text = f"request refused, kept in {refused.with_name(name)}: because of {name}"
        await records.ledger.events.add_event("request", text, at=FakeClock().now())
    with pytest.raises(RequestRejectedError, match=r"refused the forecast: because of 1\.json$"):
        await beside(records).wait_for_forecast(taken(records))


async def test_a_request_that_nobody_came_to_is_taken_back_when_the_other_has_ended(records: ReadOnlyState) -> None:
    request = await beside(records).send_request()
    assert request.exists()
    dead(records)
    assert await beside(records).wait_for_forecast(request) is None
    assert not request.exists()


NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_what_one_command_knows_is_shared_until_the_world_has_gone_on() -> None:
    assert shared_cutoff(NOW, NOW + MAX_SHARED_CUTOFF_AGE) == NOW
    assert shared_cutoff(NOW, NOW + MAX_SHARED_CUTOFF_AGE + timedelta(seconds=1)) is None
    assert shared_cutoff(None, NOW) is None
    assert MAX_SHARED_CUTOFF_AGE < LIVE_CUTOFF_AGE


async def failing(error: Exception) -> str:
    raise error


async def test_a_failure_is_a_reason_unless_nothing_can_be_written_any_more() -> None:
    assert await result_or_failure(failing(ServiceUnavailableError("down"))) == (None, "down")
    failed = Trial(number=1, end=TrialEnd.FAILED, belief=None, steps=0, detail="RequestRejectedError: no money")
    nothing = NoAnswerError([failed], wanted=1)
    assert await result_or_failure(failing(nothing)) == (None, str(nothing))
    with pytest.raises(StoreError, match="the disk is full"):
        await result_or_failure(failing(StoreError("the disk is full")))
