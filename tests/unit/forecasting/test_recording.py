"""The record of a trial: told once, told the same again, in any order, and nothing beyond it once it is sealed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bot.core.errors import (
    AuthenticationError,
    ConfigError,
    FoxcastError,
    LeakError,
    MalformedDataError,
    NotFoundError,
    PluginError,
    RequestRejectedError,
    ServiceUnavailableError,
    StoreError,
)
from bot.forecasting.recording import RecordedReply, TrialRecording, request_digest
from bot.store.trials import RecordingKey
from tests.unit.forecasting.research_fixture import ResearchFixture

A, B = request_digest("a"), request_digest("b")


async def record(research: ResearchFixture, *, sealed: bool = False) -> TrialRecording:
    made = TrialRecording(research.ledger.recordings, "f1", 1, research.clock, sealed)
    await made.load()
    return made


async def say(what: Any) -> Any:
    if isinstance(what, Exception):
        raise what
    return what


def saying(what: Any) -> Callable[[int], Awaitable[Any]]:
    return lambda _: say(what)


async def never(nth: int) -> Any:
    pytest.fail("asked again")


async def run(here: TrialRecording, kind: str, asked: str, make: Callable[[int], Awaitable[Any]]) -> RecordedReply:
    async with here.exchange(kind, asked) as exchange:
        if exchange.is_new:
            exchange.value = await make(exchange.number)
    return exchange.reply


async def test_what_is_on_record_is_told_in_any_order_and_counted_by_question(research: ResearchFixture) -> None:
    first = await record(research)
    for asked, what in ((A, 1), (B, 2), (A, 3)):
        await run(first, "search", asked, saying(what))
    again = await record(research)
    told = [(await run(again, "search", asked, never)).value for asked in (B, A, A)]
    assert told == [2, 1, 3]
    assert (await run(again, "search", A, say)).value == 2


async def test_it_is_on_record_before_it_is_told(research: ResearchFixture) -> None:
    told = await run(await record(research), "page", A, lambda _: say({"x": [1.5, "\u00e9"]}))
    kept = (await research.ledger.recordings.read_trial("f1", 1))[RecordingKey("page", A)]
    assert kept.digest == told.digest
    assert (await research.ledger.documents.get(told.digest)).content == kept.body.encode()


async def test_a_reply_that_waits_for_the_next_is_recorded_with_it(research: ResearchFixture) -> None:
    here = await record(research)
    async with here.exchange("tool", A) as tool:
        await here.replay_or_run("search", A, lambda: say(1), with_next=True)
        tool.value = await _kinds_on_record(research)
    assert tool.reply.value == []
    assert await _kinds_on_record(research) == ["search", "tool"]


async def test_a_reply_that_waits_is_on_record_before_anybody_is_asked_again(research: ResearchFixture) -> None:
    here = await record(research)
    with pytest.raises(ConfigError):
        await here.replay_or_run("search", A, lambda: say(ConfigError("no key")), with_next=True)
    assert (await run(here, "model", B, lambda _: _kinds_on_record(research))).value == ["search"]


async def _kinds_on_record(research: ResearchFixture) -> list[str]:
    return [key.kind for key in await research.ledger.recordings.read_trial("f1", 1)]


@pytest.mark.parametrize(
    "error",
    [
        ServiceUnavailableError("later", retry_after_s=3.5),
        ServiceUnavailableError("later"),
        AuthenticationError("key"),
        RequestRejectedError("no"),
        MalformedDataError("odd"),
        NotFoundError("gone"),
        LeakError("late"),
        ConfigError("table"),
    ],
)
async def test_an_error_is_told_again_as_it_was(research: ResearchFixture, error: FoxcastError) -> None:
    for make in (saying(error), never):
        with pytest.raises(type(error), match=str(error)) as caught:
            await run(await record(research), "model", A, make)
        assert getattr(caught.value, "retry_after_s", None) == getattr(error, "retry_after_s", None)


async def test_an_error_of_a_narrower_kind_is_told_as_the_kind_that_a_port_knows(research: ResearchFixture) -> None:
    with pytest.raises(ConfigError, match="plugin"):
        await run(await record(research), "model", A, lambda _: say(PluginError("plugin")))


async def test_trouble_with_the_store_is_not_told_again(research: ResearchFixture) -> None:
    with pytest.raises(StoreError):
        await run(await record(research), "model", A, lambda _: say(StoreError("full")))
    assert (await run(await record(research), "model", A, lambda _: say(1))).value == 1


async def test_what_json_cannot_say_is_a_broken_contract(research: ResearchFixture) -> None:
    with pytest.raises(MalformedDataError):
        await run(await record(research), "series", A, lambda _: say(float("nan")))


async def test_what_was_cancelled_was_not_asked(research: ResearchFixture) -> None:
    here = await record(research)
    begun = asyncio.Event()

    async def hang(nth: int) -> None:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(run(here, "model", A, hang))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await research.ledger.recordings.read_trial("f1", 1) == {}
    assert (await run(here, "model", A, say)).value == 0


async def test_the_same_question_asked_twice_at_once_is_two_exchanges(research: ResearchFixture) -> None:
    here = await record(research)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run(here, "model", A, say)) for _ in range(3)]
    assert [task.result().value for task in tasks] == [0, 1, 2]


async def test_a_sealed_record_asks_nobody_and_says_so(research: ResearchFixture) -> None:
    await run(await record(research), "model", A, lambda _: say(1))
    sealed = await record(research, sealed=True)
    assert (await run(sealed, "model", A, never)).value == 1
    for kind, asked in (("model", A), ("search", A), ("model", B)):
        with pytest.raises(NotFoundError, match="not on record"):
            await run(sealed, kind, asked, never)
    with pytest.raises(NotFoundError, match="no dialect"):
        sealed.replay_or_compute("dialect", A, lambda: 1)


async def test_a_sealed_record_reads_what_the_trial_heard_and_not_what_tools_asked_for_it(
    research: ResearchFixture,
) -> None:
    first = await record(research)
    first.replay_or_compute("opening", A, lambda: 1)
    for kind in ("search", "page", "model", "tool"):
        await run(first, kind, A, say)
    assert {key.kind for key in (await record(research)).exchanges_by_key} == {
        "opening",
        "search",
        "page",
        "model",
        "tool",
    }
    sealed = await record(research, sealed=True)
    assert {key.kind for key in sealed.exchanges_by_key} == {"opening", "model", "tool"}
    sealed.mark_replayed((f"search {A} 0", f"page {A} 0"))
    assert (await run(sealed, "tool", A, never)).value == 0


async def test_what_needs_no_waiting_is_on_record_before_what_follows(research: ResearchFixture) -> None:
    here = await record(research)
    assert here.replay_or_compute("opening", A, lambda: [1]) == [1]
    assert await research.ledger.recordings.read_trial("f1", 1) == {}

    async def look() -> list[str]:
        return [key.kind for key in await research.ledger.recordings.read_trial("f1", 1)]

    assert (await run(here, "model", B, lambda _: look())).value == ["opening"]
    assert (await record(research)).replay_or_compute("opening", A, lambda: [2]) == [1]


@pytest.mark.parametrize("asked", [{"x": object()}, {"x": {1, 2}}])
def test_a_question_that_cannot_be_written_down_is_refused(asked: object) -> None:
    with pytest.raises(MalformedDataError, match="cannot be written as JSON"):
        request_digest(asked)


def test_the_digest_of_a_question_does_not_depend_on_the_order_of_its_parts() -> None:
    assert request_digest({"a": 1, "b": [2, 3]}) == request_digest({"b": [2, 3], "a": 1})
    assert request_digest({"a": "\ud800"}) != request_digest({"a": "\ufffd"})
