import asyncio
from contextlib import aclosing
from datetime import UTC, datetime
from typing import cast

import pytest

from bot.core.beliefs import belief_mismatch
from bot.core.errors import MalformedDataError, NotFoundError, ServiceUnavailableError
from bot.core.interfaces import TrialContext
from bot.core.outcomes import BinaryOutcome, Resolution
from bot.core.predictions import BinaryPrediction, BinaryShape
from bot.core.questions import Question, QuestionRef, Target
from bot.core.submissions import Intent, IntentAction, IntentState, SubmissionBatch
from bot.testing.forecaster import HangingStep, ScriptedForecaster, believe_unknown_target, believe_yes
from bot.testing.http import FakeHttpClient
from bot.testing.venue import FakeSubmitter, FakeVenueReader

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
# The scripted forecaster asks its context for nothing.
NO_DESK = cast("TrialContext", None)


def question(key: str, title: str = "Will it rain?") -> Question:
    return Question(ref=QuestionRef("here", key), title=title, shape=BinaryShape(), targets=(Target(),))


def resolution(key: str, value: float) -> Resolution:
    return Resolution(ref=QuestionRef("here", key), target="outcome", outcome=BinaryOutcome(value), resolved_at=MOMENT)


def batch(*probabilities: float) -> SubmissionBatch:
    intents = [
        Intent(
            id=f"intent {number} {probability}",
            account="paper",
            ref=QuestionRef("here", str(number)),
            forecast="f",
            action=IntentAction.FORECAST,
            predictions={"outcome": BinaryPrediction(probability)},
            batch="b",
        )
        for number, probability in enumerate(probabilities)
    ]
    return SubmissionBatch(key="b", intents=tuple(intents), questions=())


async def test_a_memory_venue_lists_each_question_once_in_its_present_state() -> None:
    venue = FakeVenueReader([question("1"), question("2")])
    venue.add_questions(question("1", "Will it snow?"), question("3"))
    venue.remove_questions(QuestionRef("here", "2"))
    listed = [(item.ref.key, item.title) async for item in venue.questions()]
    assert listed == [("1", "Will it snow?"), ("3", "Will it rain?")]


async def test_a_memory_venue_yields_the_latest_outcome_of_what_is_pending() -> None:
    venue = FakeVenueReader(resolutions=[resolution("1", 0.0), resolution("2", 1.0)])
    venue.publish_outcomes(resolution("1", 1.0))
    found = [item async for item in venue.resolutions({QuestionRef("here", "1"), QuestionRef("here", "9")})]
    assert found == [resolution("1", 1.0)]


@pytest.mark.parametrize(("after", "read"), [(0, 0), (1, 1), (2, 2), (5, 2)])
async def test_a_memory_venue_fails_after_as_many_items_as_told(after: int, read: int) -> None:
    venue, keys = FakeVenueReader([question("1"), question("2")]), []

    async def read_all() -> None:
        async for item in venue.questions():
            keys.append(item.ref.key)  # noqa: PERF401 - a comprehension would lose what came before the error

    venue.fail_with(ServiceUnavailableError("503"), after=after)
    if after <= 2:
        with pytest.raises(ServiceUnavailableError):
            await read_all()
    else:
        await read_all()
    assert len(keys) == read
    venue.recover()
    await read_all()
    assert len(keys) == read + 2


async def test_a_write_is_acked_and_stands_and_the_last_one_wins() -> None:
    book, first, second = FakeSubmitter(), batch(0.2, 0.3), batch(0.2, 0.9)
    assert [receipt.state for receipt in await book.submit(first)] == [IntentState.ACKED] * 2
    await book.submit(second)
    assert [receipt.state for receipt in await book.read_submissions(second)] == [IntentState.ACKED] * 2
    assert [receipt.state for receipt in await book.read_submissions(first)] == [IntentState.ACKED, IntentState.ABSENT]
    assert len(book.writes) == 4


async def test_a_refusal_is_a_receipt_with_its_reason_and_no_effect() -> None:
    book = FakeSubmitter()
    book.refuse_all("question closed")
    (receipt,) = await book.submit(batch(0.4))
    assert (receipt.state, receipt.detail) == (IntentState.REFUSED, "question closed")
    book.accept_all()
    assert [receipt.state for receipt in await book.read_submissions(batch(0.4))] == [IntentState.ABSENT]
    assert [receipt.state for receipt in await book.submit(batch(0.4))] == [IntentState.ACKED]


async def test_a_lost_request_and_a_lost_reply_look_the_same_until_read_back() -> None:
    book = FakeSubmitter()
    book.lose_next_request()
    book.lose_next_reply()
    assert [receipt.state for receipt in await book.submit(batch(0.4))] == [IntentState.UNKNOWN]
    assert [receipt.state for receipt in await book.read_submissions(batch(0.4))] == [IntentState.ABSENT]
    assert [receipt.state for receipt in await book.submit(batch(0.4))] == [IntentState.UNKNOWN]
    assert [receipt.state for receipt in await book.read_submissions(batch(0.4))] == [IntentState.ACKED]
    assert [receipt.state for receipt in await book.submit(batch(0.4))] == [IntentState.ACKED]


async def test_a_scripted_forecaster_makes_its_moves_for_every_question_anew() -> None:
    forecaster = ScriptedForecaster(believe_yes(0.3), believe_unknown_target(), believe_yes(0.7))
    for key in ("1", "2"):
        steps = [step async for step in forecaster.steps(question(key), NO_DESK)]
        assert [belief_mismatch(step.belief, question(key)) is None for step in steps] == [True, False, True]
        assert steps[-1].belief.predictions == {"outcome": BinaryPrediction(0.7)}
    assert forecaster.started == forecaster.closed == [QuestionRef("here", "1"), QuestionRef("here", "2")]


async def test_a_scripted_forecaster_raises_where_told_and_is_closed_then() -> None:
    forecaster = ScriptedForecaster(believe_yes(0.3), MalformedDataError("not JSON"), believe_yes(0.7))
    steps = forecaster.steps(question("1"), NO_DESK)
    assert (await anext(steps)).belief.predictions == {"outcome": BinaryPrediction(0.3)}
    with pytest.raises(MalformedDataError):
        await anext(steps)
    assert len(forecaster.closed) == 1


async def test_a_scripted_forecaster_hangs_until_it_is_stopped() -> None:
    forecaster = ScriptedForecaster(believe_yes(0.3), HangingStep(), believe_yes(0.7))
    async with aclosing(forecaster.steps(question("1"), NO_DESK)) as steps:
        await anext(steps)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await anext(steps)
    assert len(forecaster.closed) == 1


async def test_a_dictionary_answers_as_a_bounded_reader_does() -> None:
    http = FakeHttpClient({"https://a.example/x": b"12345", "https://a.example/down": ServiceUnavailableError("503")})
    assert await http.get("https://a.example/x", max_bytes=5) == b"12345"
    with pytest.raises(MalformedDataError):
        await http.get("https://a.example/x", max_bytes=4)
    with pytest.raises(ServiceUnavailableError):
        await http.get("https://a.example/down", max_bytes=5)
    with pytest.raises(NotFoundError):
        await http.get("https://a.example/y", max_bytes=5)
    assert [address[-1] for address in http.requested_urls] == ["x", "x", "n", "y"]
