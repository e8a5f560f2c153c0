"""Forecasts that stand on paper: what stood when, and that nothing is written twice or lost."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.errors import RequestRejectedError
from bot.core.interfaces import SealingSubmitter
from bot.core.predictions import BinaryPrediction, ChoicePrediction, Prediction
from bot.core.questions import Question
from bot.core.submissions import Intent, IntentAction, IntentState, SealedRequest, SubmissionBatch, WriteReceipt
from bot.execution.paper.forecast_book import (
    ForecastPeriod,
    PaperForecastBook,
    forecast_active_at,
    forecast_coverage,
    open_forecast_book,
)
from bot.testing.clock import START, FakeClock
from tests.unit.execution.paper.paper_book_fixture import question, ref

DAY = 86_400.0


def say(name: str, prediction: Prediction | None, *, action: IntentAction = IntentAction.FORECAST) -> Intent:
    return Intent(
        id=name,
        account="default",
        ref=ref(),
        forecast=f"forecast of {name}",
        action=action,
        predictions={} if prediction is None else {"outcome": prediction},
        batch=name,
        text="because" if action is IntentAction.COMMENT else "",
    )


async def write(book: PaperForecastBook, intent: Intent, asked: Question | None = None) -> WriteReceipt:
    questions = (asked or question(),)
    sealed = await book.seal_requests(SubmissionBatch(key=intent.batch, intents=(intent,), questions=questions))
    batch = SubmissionBatch(key=intent.batch, intents=(intent,), questions=questions, sealed=tuple(sealed))
    (receipt,) = await book.submit(batch)
    return receipt


async def reads(book: PaperForecastBook, intent: Intent) -> WriteReceipt:
    (receipt,) = await book.read_submissions(SubmissionBatch(key=intent.batch, intents=(intent,), questions=()))
    return receipt


async def test_a_new_forecast_ends_the_one_before_and_a_withdrawal_ends_it_without_another(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_forecast_book(tmp_path, clock) as book:
        assert isinstance(book, SealingSubmitter)
        await write(book, say("one", BinaryPrediction(0.2)))
        await clock.advance(DAY)
        await write(book, say("two", BinaryPrediction(0.6)))
        await clock.advance(DAY)
        await write(book, say("three", None, action=IntentAction.WITHDRAW))
        day = [START + timedelta(days=count) for count in range(3)]
        assert await book.forecast_history(ref(), "default") == (
            ForecastPeriod(
                intent="one", predictions={"outcome": BinaryPrediction(0.2)}, begun_at=day[0], ended_at=day[1]
            ),
            ForecastPeriod(
                intent="two", predictions={"outcome": BinaryPrediction(0.6)}, begun_at=day[1], ended_at=day[2]
            ),
        )
        assert await book.forecast_history(ref(), "another account") == ()


async def test_what_is_scored_at_spot_time_is_what_stood_then(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_forecast_book(tmp_path, clock) as book:
        await clock.advance(DAY)
        await write(book, say("one", ChoicePrediction({"a": 0.25, "b": 0.75})))
        await clock.advance(DAY)
        await write(book, say("two", ChoicePrediction({"a": 0.5, "b": 0.5})))
        for hours, expected in ((23, None), (24, "one"), (47, "one"), (48, "two"), (2000, "two")):
            stood = await book.active_forecast(ref(), "default", START + timedelta(hours=hours))
            assert (stood.intent if stood else None) == expected


async def test_writing_the_same_intent_again_changes_nothing(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_forecast_book(tmp_path, clock) as book:
        first = await write(book, say("one", BinaryPrediction(0.2)))
        await clock.advance(DAY)
        await write(book, say("two", BinaryPrediction(0.6)))
        assert await write(book, say("one", BinaryPrediction(0.2))) == first
        stood = await book.active_forecast(ref(), "default", clock.now())
        assert stood is not None
        assert stood.intent == "two"


async def test_reading_back_tells_what_is_written_down_also_after_it_was_opened_again(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_forecast_book(tmp_path, clock) as book:
        await write(book, say("one", BinaryPrediction(0.2)))
        await write(book, say("word", None, action=IntentAction.COMMENT))
    async with open_forecast_book(tmp_path, clock) as book:
        assert (await reads(book, say("one", BinaryPrediction(0.2)))).state is IntentState.ACKED
        assert (await reads(book, say("word", None))).state is IntentState.ACKED
        assert (await reads(book, say("two", BinaryPrediction(0.2)))).state is IntentState.ABSENT


async def test_reading_back_tells_of_a_forecast_only_while_it_stands(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_forecast_book(tmp_path, clock, forecast_lifetime=timedelta(days=2)) as book:
        one, two = say("one", BinaryPrediction(0.2)), say("two", BinaryPrediction(0.6))
        away = say("away", None, action=IntentAction.WITHDRAW)
        await write(book, one)
        await write(book, two)
        assert [(await reads(book, each)).state for each in (one, two)] == [IntentState.ABSENT, IntentState.ACKED]
        assert "another forecast" in (await reads(book, one)).detail
        await clock.advance(DAY)
        await write(book, away)
        assert [(await reads(book, each)).state for each in (two, away)] == [IntentState.ABSENT, IntentState.ACKED]
        three = say("three", BinaryPrediction(0.7))
        await write(book, three)
        await clock.advance(2 * DAY - 1)
        assert (await reads(book, three)).state is IntentState.ACKED
        await clock.advance(1)
        assert (await reads(book, three)).state is IntentState.ABSENT


async def test_a_closed_question_takes_no_forecast_and_still_a_withdrawal(tmp_path: Path) -> None:
    clock = FakeClock()
    asked = question(closes_at=START + timedelta(hours=1))
    async with open_forecast_book(tmp_path, clock) as book:
        late = say("late", BinaryPrediction(0.3))
        (sealed,) = await book.seal_requests(SubmissionBatch(key="late", intents=(late,), questions=(asked,)))
        await write(book, say("one", BinaryPrediction(0.2)), asked)
        await clock.advance(3600.0)
        with pytest.raises(RequestRejectedError, match="closed"):
            await write(book, say("two", BinaryPrediction(0.6)), asked)
        batch = SubmissionBatch(key="late", intents=(late,), questions=(asked,), sealed=(sealed,))
        assert [one.state for one in await book.submit(batch)] == [IntentState.REFUSED]
        await write(book, say("three", None, action=IntentAction.WITHDRAW), asked)
        assert await book.active_forecast(ref(), "default", clock.now()) is None


async def test_what_the_venue_would_refuse_is_not_sealed(tmp_path: Path) -> None:
    def objection(intent: Intent, _: Question) -> str | None:
        return "too sure" if intent.predictions["outcome"] == BinaryPrediction(1.0) else None

    async with open_forecast_book(tmp_path, FakeClock(), objection=objection) as book:
        with pytest.raises(RequestRejectedError, match="too sure"):
            await write(book, say("one", BinaryPrediction(1.0)))
        both = (say("one", BinaryPrediction(1.0)), say("two", BinaryPrediction(0.9)))
        sealed = await book.seal_requests(SubmissionBatch(key="b", intents=both, questions=(question(),)))
        assert [one.intent for one in sealed] == ["two"]
        with pytest.raises(RequestRejectedError, match="not traded"):
            await book.seal_requests(
                SubmissionBatch(key="b", intents=(say("o", None, action=IntentAction.ORDER),), questions=())
            )


async def test_forecasts_may_end_by_themselves(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_forecast_book(tmp_path, clock, forecast_lifetime=timedelta(days=2)) as book:
        await write(book, say("one", BinaryPrediction(0.2)))
        await clock.advance(DAY)
        await write(book, say("two", BinaryPrediction(0.6)))
        history = await book.forecast_history(ref(), "default")
        assert [one.ended_at for one in history] == [START + timedelta(days=1), START + timedelta(days=3)]
        await clock.advance(2 * DAY)


async def test_an_unsealed_intent_is_refused(tmp_path: Path) -> None:
    async with open_forecast_book(tmp_path, FakeClock()) as book:
        (receipt,) = await book.submit(
            SubmissionBatch(key="b", intents=(say("one", BinaryPrediction(0.1)),), questions=(question(),))
        )
        assert receipt.state is IntentState.REFUSED


def stood(begin: int, end: int | None) -> ForecastPeriod:
    def at(hours: int) -> datetime:
        return START + timedelta(hours=hours)

    return ForecastPeriod(intent="x", predictions={}, begun_at=at(begin), ended_at=None if end is None else at(end))


def test_coverage_is_the_share_of_the_time_in_which_a_forecast_stood() -> None:
    history = (stood(-5, 2), stood(2, 4), stood(6, None))
    assert forecast_coverage(history, START, START + timedelta(hours=10)) == pytest.approx(0.8)
    assert forecast_coverage((), START, START + timedelta(hours=10)) == 0.0
    with pytest.raises(ValueError, match="no time"):
        forecast_coverage(history, START, START)


@given(st.lists(st.integers(0, 50), min_size=2, max_size=8, unique=True).map(sorted))
def test_coverage_is_what_counting_the_hours_gives(hours: list[int]) -> None:
    history = [stood(begin, end) for begin, end in zip(hours[::2], hours[1::2], strict=False)]
    counted = sum(forecast_active_at(history, START + timedelta(hours=hour)) is not None for hour in range(60))
    assert forecast_coverage(history, START, START + timedelta(hours=60)) == pytest.approx(counted / 60)


async def test_sealing_again_gives_the_same_request(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_forecast_book(tmp_path, clock) as book:
        batch = SubmissionBatch(key="b", intents=(say("one", BinaryPrediction(0.25)),), questions=(question(),))
        first: list[SealedRequest] = [*await book.seal_requests(batch)]
        await clock.advance(DAY)
        assert [*await book.seal_requests(batch)] == first
