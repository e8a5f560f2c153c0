"""The contract kit of model providers: what every one must do, against a scripted endpoint over real HTTP.

Subclass it as ``bot.testing.contracts`` says. The provider is to be pointed at a chat-completions endpoint.
"""
# ruff: noqa: S101 - pytest is made of assert

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import ValidationError

from bot.clock import SeededRandom, SystemClock
from bot.domain.prompt import Message, Prompt, Sampling, Speaker, Tool, ToolCall
from bot.domain.step import Json
from bot.errors import ContractError, FoxcastError, Unavailable
from bot.llm.defaults import defaults_of
from bot.llm.faults import is_unreached, may_be_billed
from bot.llm.place import place_of
from bot.net.client import RetryingHttpClient
from bot.ports import Llm
from bot.specs import API_VERSION, ModelSpec, Settings, Workplace
from bot.testing.model_replies import ANSWERS, BROKEN_OFF, FAILURES
from bot.testing.model_server import ModelServer, Reply, call, drip, fail, hang, say

KEY = "key-that-nobody-may-see"
QUESTION = Prompt(messages=(Message(speaker=Speaker.USER, text="Will it rain?"),))
SAMPLING = Sampling(max_tokens=64)
SEARCH = Tool(
    name="search",
    description="Search the web.",
    parameters={"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
)
SUBMIT = Tool(name="submit", description="End.", parameters={"type": "object", "properties": {}})
SCHEMA: Mapping[str, Json] = {"type": "object", "properties": {"percent": {"type": "integer"}}, "required": ["percent"]}
# Less comes back empty from models that think.
LEAST_TOKENS = 4_000
STATE = "What only this model may see again."


class ModelContract:
    """What every provider must do.

    ``model`` names a model that the provider knows nothing of, as it is named after the colon of a reference;
    ``settings_for`` makes settings that reach it at a base URL with ``KEY`` as its key.
    """

    spec: ClassVar[ModelSpec[Any]]
    model: ClassVar[str]

    def settings_for(self, base_url: str) -> Settings:
        raise NotImplementedError

    @asynccontextmanager
    async def opened(self, base_url: str, folder: Path = Path()) -> AsyncIterator[Llm]:
        """Open the provider on real HTTP."""
        clock = SystemClock()
        async with RetryingHttpClient(clock=clock, random=SeededRandom(1)) as http:
            workplace = Workplace(clock=clock, http=http, folder=folder)
            opening: AbstractAsyncContextManager[Llm] = self.spec.open(self.settings_for(base_url), workplace)
            async with opening as llm:
                yield llm

    @pytest.fixture
    async def server(self) -> AsyncIterator[ModelServer]:
        async with ModelServer(say("yes")) as server:
            yield server

    @pytest.fixture
    async def llm(self, server: ModelServer, tmp_path: Path) -> AsyncIterator[Llm]:
        async with self.opened(server.base_url, tmp_path) as llm:
            yield llm

    def test_it_is_built_for_this_version(self) -> None:
        assert self.spec.api_version == API_VERSION

    def test_unknown_settings_are_refused(self) -> None:
        with pytest.raises(ValidationError, match="no_such_setting"):
            self.spec.settings.model_validate({"no_such_setting": 1})

    def test_the_key_is_hidden(self) -> None:
        settings = self.settings_for("http://127.0.0.1:1/v1")
        assert KEY not in f"{settings!r} {settings} {settings.model_dump_json()}"

    @pytest.mark.parametrize("name", ANSWERS)
    async def test_a_reply_becomes_its_completion(self, server: ModelServer, llm: Llm, name: str) -> None:
        reply, expected = ANSWERS[name]
        server.script = reply
        got = await llm.complete(self.model, QUESTION, SAMPLING)
        shown = (got.text, got.calls, got.thinking, got.finish, got.usage)
        assert shown == (expected.text, expected.calls, expected.thinking, expected.finish, expected.usage)
        assert server.count == 1

    @pytest.mark.parametrize("name", FAILURES)
    async def test_a_failure_says_who_must_act_after_one_request(
        self, server: ModelServer, llm: Llm, name: str
    ) -> None:
        server.script, expected = FAILURES[name]
        with pytest.raises(FoxcastError) as caught:
            await llm.complete(self.model, QUESTION, SAMPLING)
        assert (type(caught.value), server.count) == (expected, 1)

    @pytest.mark.parametrize("status", [429, 503])
    async def test_the_wait_that_is_asked_for_is_kept(self, server: ModelServer, llm: Llm, status: int) -> None:
        server.script = fail(status, retry_after_s=17)
        with pytest.raises(Unavailable) as caught:
            await llm.complete(self.model, QUESTION, SAMPLING)
        assert (caught.value.retry_after_s, server.count) == (17.0, 1)

    async def test_a_full_provider_is_told_from_one_that_fails(self, server: ModelServer, llm: Llm) -> None:
        asked_s = []
        for status in (429, 500):
            server.script = fail(status)
            with pytest.raises(Unavailable) as caught:
                await llm.complete(self.model, QUESTION, SAMPLING)
            asked_s.append(caught.value.retry_after_s)
        assert asked_s == [0.0, None]

    @pytest.mark.parametrize("name", FAILURES)
    async def test_what_broke_off_may_be_billed_and_what_was_refused_is_not(
        self, server: ModelServer, llm: Llm, name: str
    ) -> None:
        server.script, kind = FAILURES[name]
        with pytest.raises(FoxcastError) as caught:
            await llm.complete(self.model, QUESTION, SAMPLING)
        assert may_be_billed(caught.value) == (kind is ContractError or name in BROKEN_OFF)

    async def test_where_nobody_listens_nothing_is_billed(self, tmp_path: Path) -> None:
        async with ModelServer(say("yes")) as server:
            nowhere = server.base_url
        async with self.opened(nowhere, tmp_path) as llm:
            with pytest.raises(Unavailable, match="cannot be reached") as caught:
                await llm.complete(self.model, QUESTION, SAMPLING)
        assert not may_be_billed(caught.value)
        # The gateway tries such a server for seconds, and waits for one that fails.
        assert is_unreached(caught.value)
        assert nowhere.partition("//")[2].partition("/")[0] in str(caught.value)

    async def test_where_it_is_served_is_told_the_same_way_each_time_and_without_the_key(self, tmp_path: Path) -> None:
        told = []
        for port in (1, 2, 1):
            async with self.opened(f"http://127.0.0.1:{port}/v1", tmp_path) as llm:
                told.append(place_of(llm, f"house:{self.model}"))
        first, other, again = told
        assert first == again
        assert KEY not in f"{first} {other}"
        # Who has no word for it says nothing; who has one tells one address from another.
        assert (first == other) == (first == "")

    @pytest.mark.parametrize("status", [400, 401])
    async def test_the_key_is_sent_and_shown_to_nobody(self, server: ModelServer, llm: Llm, status: int) -> None:
        server.script = fail(status, why=f"your key {KEY} will not do")
        with pytest.raises(FoxcastError, match="will not do") as caught:
            await llm.complete(self.model, QUESTION, SAMPLING)
        assert KEY in " ".join(server.requests[0].headers.values())
        assert KEY not in f"{caught.value} {caught.value!r}"

    async def test_cancelling_ends_the_request(self, server: ModelServer, llm: Llm) -> None:
        server.script = hang()
        asking = asyncio.ensure_future(llm.complete(self.model, QUESTION, SAMPLING))
        await server.wire.until(lambda: server.wire.in_flight == 1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await server.wire.until(lambda: server.wire.hung_up == 1)

    async def test_a_dripping_answer_ends_with_the_deadline_above(self, server: ModelServer, llm: Llm) -> None:
        await llm.complete(self.model, QUESTION, SAMPLING)  # what the provider does once is no part of a deadline
        server.script = drip(say("y" * 100_000), every_s=0.01)
        asking = asyncio.ensure_future(llm.complete(self.model, QUESTION, SAMPLING))
        await server.wire.until(lambda: server.wire.in_flight == 1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await asking
        assert asking.cancelled()
        assert server.count == 2

    async def test_the_choice_of_a_tool_is_the_models_and_one_at_a_time(self, server: ModelServer, llm: Llm) -> None:
        server.script = call(("search", {"query": "rain"}))
        # What may be called now is said in words: a list of tools that changes would lose the cache, or be refused.
        for allowed in ((), ("submit",)):
            prompt = Prompt(messages=QUESTION.messages, tools=(SEARCH, SUBMIT), allowed=allowed)
            await llm.complete(self.model, prompt, SAMPLING)
        first, second = (request.body for request in server.requests)
        assert first["tool_choice"] == second["tool_choice"] == "auto"
        assert first["parallel_tool_calls"] is False
        assert first["tools"] == second["tools"]
        assert {name: dict(schema) for name, schema in server.requests[0].tools.items()} == {
            "search": dict(SEARCH.parameters),
            "submit": dict(SUBMIT.parameters),
        }

    async def test_what_the_model_said_goes_back_as_it_came(self, server: ModelServer, llm: Llm) -> None:
        said: dict[str, Json] = {
            "role": "assistant",
            "content": "Let me look.",
            "reasoning_content": "Clouds. é \u201cquoted\u201d",
            "tool_calls": [_called("a" * 300, '{"query":  "rain"}'), _called("b", "{}")],
        }
        server.script = Reply(raw=_reply_with(said))
        got = await llm.complete(self.model, Prompt(messages=QUESTION.messages, tools=(SEARCH,)), SAMPLING)
        assert got.native is not None
        spoken = Message(speaker=Speaker.ASSISTANT, text=got.text, calls=got.calls, native=got.native)
        results = [Message(speaker=Speaker.TOOL, text="dry", answers=made.id) for made in got.calls]
        await llm.complete(
            self.model, Prompt(messages=(*QUESTION.messages, spoken, *results), tools=(SEARCH,)), SAMPLING
        )
        _, assistant, *answers = server.requests[1].messages
        assert assistant == said
        assert [one["tool_call_id"] for one in answers] == ["a" * 300, "b"]

    async def test_a_schema_is_asked_for(self, server: ModelServer, llm: Llm) -> None:
        server.script = say('{"percent": 4}')
        got = await llm.complete(self.model, Prompt(messages=QUESTION.messages, schema=SCHEMA), SAMPLING)
        assert server.requests[0].schema == SCHEMA
        assert json.loads(got.text) == {"percent": 4}

    async def test_a_conversation_arrives_whole_and_in_order(self, server: ModelServer, llm: Llm) -> None:
        made = ToolCall(id="call_7", name="search", arguments='{"query": "rain"}')
        conversation = (
            Message(speaker=Speaker.SYSTEM, text="Forecast."),
            Message(speaker=Speaker.USER, text="Will it rain? \ud83e"),
            Message(speaker=Speaker.ASSISTANT, calls=(made,)),
            Message(speaker=Speaker.TOOL, text="dry", answers="call_7"),
        )
        await llm.complete(self.model, Prompt(messages=conversation, tools=(SEARCH,), stable=2), SAMPLING)
        system, user, assistant, tool = server.requests[0].messages
        assert (system["role"], system["content"]) == ("system", "Forecast.")
        assert (user["role"], user["content"]) == ("user", "Will it rain? ?")
        assert assistant["tool_calls"][0]["id"] == "call_7"
        assert assistant["tool_calls"][0]["function"] == {"name": "search", "arguments": '{"query": "rain"}'}
        assert (tool["role"], tool["tool_call_id"], tool["content"]) == ("tool", "call_7", "dry")

    async def test_sampling_is_sent_as_far_as_it_is_named(self, server: ModelServer, llm: Llm) -> None:
        await llm.complete(self.model, QUESTION, SAMPLING)
        await llm.complete(self.model, QUESTION, Sampling(max_tokens=9, temperature=0.5, seed=3))
        bare, full = (request.body for request in server.requests)
        assert bare["max_tokens"] == 64
        assert {"temperature", "seed", "reasoning_effort", "tools", "response_format"} & bare.keys() == set()
        assert (full["max_tokens"], full["temperature"], full["seed"]) == (9, 0.5, 3)

    async def test_an_unknown_price_is_none_and_never_nothing(self, llm: Llm) -> None:
        assert await llm.price(self.model) is None
        assert (await llm.complete(self.model, QUESTION, SAMPLING)).cost_usd is None

    async def test_what_it_recommends_is_the_same_each_time_and_sends_nothing(
        self, server: ModelServer, llm: Llm
    ) -> None:
        first, second = (defaults_of(llm, f"house:{self.model}") for _ in range(2))
        assert first == second
        assert first.max_tokens >= LEAST_TOKENS
        assert server.count == 0

    async def test_state_of_a_model_is_named_after_it_and_reaches_no_other(self, server: ModelServer, llm: Llm) -> None:
        server.script = Reply(text="", thinking=STATE, calls=(("search", "{}"), ("submit", "{}")))
        got = await llm.complete(self.model, Prompt(messages=QUESTION.messages, tools=(SEARCH, SUBMIT)), SAMPLING)
        if got.native is None:
            return  # it keeps no state
        assert got.native.model == self.model
        json.loads(got.native.text)
        answers = [Message(speaker=Speaker.TOOL, text="dry", answers=made.id) for made in got.calls]
        for native in (replace(got.native, model="another"), replace(got.native, provider="another")):
            spoken = Message(speaker=Speaker.ASSISTANT, text=got.text, calls=got.calls, native=native)
            conversation = Prompt(messages=(*QUESTION.messages, spoken, *answers), tools=(SEARCH, SUBMIT))
            await llm.complete(self.model, conversation, SAMPLING)
        for asked in server.requests[1:]:
            assistant, *results = asked.messages[1:]
            assert STATE not in json.dumps(asked.body)
            # The words and all calls remain, each with its answer.
            assert [made["id"] for made in assistant["tool_calls"]] == [one["tool_call_id"] for one in results]
            assert len(results) == 2

    async def test_many_ask_at_once(self, server: ModelServer, llm: Llm) -> None:
        server.script = lambda asked: say(str(asked.messages[-1]["content"]))
        prompts = [Prompt(messages=(Message(speaker=Speaker.USER, text=str(number)),)) for number in range(40)]
        got = await asyncio.gather(*(llm.complete(self.model, prompt, SAMPLING) for prompt in prompts))
        assert [answer.text for answer in got] == [str(number) for number in range(40)]
        assert server.count == 40


def _called(given: str, arguments: str) -> dict[str, Json]:
    return {"id": given, "type": "function", "function": {"name": "search", "arguments": arguments}}


def _reply_with(message: Json) -> bytes:
    return json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).encode()
