"""The record of a trial: told once, told the same again, in any order, and nothing beyond it once it is sealed."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
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
from bot.core.ids import sha256_hex
from bot.core.language_models import (
    Message,
    MessageRole,
    ModelAnswer,
    ModelCompletion,
    ModelRequest,
    Prompt,
    ToolCall,
)
from bot.core.research import SearchResult
from bot.forecasting.recording import RecordedReply, TrialRecording, request_digest
from bot.store.ledger import Ledger
from bot.store.serialization import JsonSerializer
from bot.store.trials import RecordingKey
from bot.testing.research import ScriptedModelGateway, ScriptedSearchEngine
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
        if exchange.recorded is None:
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
    assert (await research.ledger.documents.get(told.digest, scope="f1")).content == kept.body.encode()


COMPLETION = ModelCompletion(text="It may.", calls=(ToolCall(id="1", name="look", arguments='{"b":1,"a":2}'),))
COMPLETION_SERIALIZER: JsonSerializer[ModelCompletion] = JsonSerializer("completion", ModelCompletion)
PROMPT = Prompt(messages=(Message(speaker=MessageRole.USER, text="Will it rain?"),))


class RecordingModelGateway(ScriptedModelGateway):
    """Records its calls, as the gateway of the engine does."""

    ledger: Ledger
    has_answered_before = False

    async def ask(self, inquiry: ModelRequest, *, deadline_s: float) -> ModelAnswer:
        answer = await ScriptedModelGateway.ask(self, inquiry, deadline_s=deadline_s)
        completion = COMPLETION_SERIALIZER.encode(answer.completion)
        call = f'{{"completion":{completion}}}'.encode()
        document = await self.ledger.documents.put(call, "application/json", scope=inquiry.charge.scope)
        return dataclasses.replace(answer, document=document, stored=self.has_answered_before)


def recording_models(research: ResearchFixture) -> RecordingModelGateway:
    research.models = models = RecordingModelGateway(roles={"main": lambda _: COMPLETION})
    models.ledger = research.ledger
    return models


async def test_an_answer_whose_call_is_on_record_is_recorded_with_the_next_reply_as_its_name(
    research: ResearchFixture,
) -> None:
    recording_models(research)
    trial = await research.open_trial()
    answer = await trial.ask_model("main", PROMPT)
    (key,) = [key for key in trial.record.exchanges_by_key if key.kind == "model"]
    assert key not in await research.ledger.recordings.read_trial(trial.record.scope, trial.trial)
    await run(trial.record, "search", A, saying(1))
    known = (await research.ledger.recordings.read_trial(trial.record.scope, trial.trial))[key]
    stored = (await research.ledger.documents.get(known.digest, scope=trial.record.scope)).content
    assert (b"It may." in stored, answer.document.encode() in stored) == (False, True)
    research.models = None
    resumed = await research.open_trial()
    assert await resumed.ask_model("main", PROMPT) == answer == dataclasses.replace(answer, completion=COMPLETION)


async def test_what_waits_at_the_end_of_a_trial_is_written(research: ResearchFixture) -> None:
    recording_models(research)
    trial = await research.open_trial()
    answer = await trial.ask_model("main", PROMPT)
    await trial.write_waiting()
    research.models = None
    assert await (await research.open_trial()).ask_model("main", PROMPT) == answer


async def test_an_answer_of_an_earlier_call_is_whole_in_the_record_of_the_trial(research: ResearchFixture) -> None:
    recording_models(research).has_answered_before = True
    trial = await research.open_trial()
    await trial.ask_model("main", PROMPT)
    (known,) = (
        response
        for key, response in (await research.ledger.recordings.read_trial(trial.record.scope, trial.trial)).items()
        if key.kind == "model"
    )
    assert "It may." in known.body
    assert known.digest == sha256_hex(known.body.encode())


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


async def test_what_waits_is_written_with_a_step_and_then_no_more(research: ResearchFixture) -> None:
    here = await record(research)
    assert await here.pack_waiting() is None
    await here.replay_or_run("search", A, lambda: say(1), with_next=True)
    batch = await here.pack_waiting()
    assert batch is not None
    # The step failed: it still waits.
    assert await here.pack_waiting() == batch
    assert await _kinds_on_record(research) == []
    await research.ledger.recordings.writer.run(batch.write)
    here.forget_waiting(batch)
    assert await here.pack_waiting() is None
    assert await _kinds_on_record(research) == ["search"]


async def test_what_comes_while_a_step_is_written_waits_for_the_next(research: ResearchFixture) -> None:
    here = await record(research)
    await here.replay_or_run("search", A, lambda: say(1), with_next=True)
    first = await here.pack_waiting()
    assert first is not None
    here.replay_or_compute("time", B, lambda: True)
    here.forget_waiting(first)
    second = await here.pack_waiting()
    assert second is not None
    assert [[key.kind for key in batch.answers] for batch in (first, second)] == [["search"], ["time"]]


async def test_the_reply_of_a_tool_is_on_record_before_anybody_is_asked(research: ResearchFixture) -> None:
    trial = await research.open_trial()
    await trial.use_tool("web_search", {"query": "lamp"})
    assert "tool" not in await _kinds_on_record(research)
    told = await run(trial.record, "model", B, lambda _: _kinds_on_record(research))
    assert {"opening", "search", "tool"} <= set(told.value)


class HeldModelGateway(ScriptedModelGateway):
    """Answers once it is let go."""

    leave = asyncio.Event()

    async def ask(self, inquiry: ModelRequest, *, deadline_s: float) -> ModelAnswer:
        await self.leave.wait()
        return await ScriptedModelGateway.ask(self, inquiry, deadline_s=deadline_s)


class HeldSearchEngine(ScriptedSearchEngine):
    """Finds nothing at once, and what is asked for as ``held`` once it is let go."""

    leave = asyncio.Event()

    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[SearchResult]:
        if query == "held":
            await self.leave.wait()
        return await ScriptedSearchEngine.search(self, query, before=before, limit=limit)


@pytest.mark.parametrize("is_model", [False, True])
async def test_the_reply_of_a_tool_waits_for_no_step_while_others_are_asked(
    research: ResearchFixture, *, is_model: bool
) -> None:
    HeldModelGateway.leave, HeldSearchEngine.leave = asyncio.Event(), asyncio.Event()
    research.engine = HeldSearchEngine()
    research.models = HeldModelGateway(roles={"main": lambda _: COMPLETION})
    trial = await research.open_trial()
    asking = trial.ask_model("main", PROMPT) if is_model else trial.use_tool("web_search", {"query": "held"})
    held: asyncio.Task[object] = asyncio.create_task(asking)
    await asyncio.sleep(0)
    await trial.use_tool("web_search", {"query": "lamp"})
    assert (await _kinds_on_record(research)).count("tool") == 1
    HeldModelGateway.leave.set()
    HeldSearchEngine.leave.set()
    await held
    await trial.use_tool("web_search", {"query": "dark"})
    assert (await _kinds_on_record(research)).count("tool") == (1 if is_model else 2)
    await trial.write_waiting()
    assert (await _kinds_on_record(research)).count("tool") == (2 if is_model else 3)


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


async def test_what_could_not_begin_was_not_asked(research: ResearchFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    here = await record(research)
    await here.replay_or_run("search", B, lambda: say(1), with_next=True)
    with monkeypatch.context() as full_disk:
        full_disk.setattr(
            type(research.ledger.recordings), "add_all", lambda *_, **__: say(StoreError("the disk is full"))
        )
        with pytest.raises(StoreError, match="the disk is full"):
            await run(here, "model", A, never)
    assert (await run(here, "model", A, say)).value == 0


async def test_an_error_of_a_reference_is_whole_in_the_record(research: ResearchFixture) -> None:
    here = await record(research)

    async def ask() -> None:
        async with here.exchange("model", A) as exchange:
            exchange.is_reference = True
            await say(ServiceUnavailableError("later"))

    with pytest.raises(ServiceUnavailableError, match="later"):
        await ask()
    assert await _kinds_on_record(research) == ["model"]


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
