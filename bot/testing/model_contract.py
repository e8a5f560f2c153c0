"""Contract kit for model providers.

Every reply and failure of a scripted chat-completions endpoint over real HTTP, and the result that a provider must
return.
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

from bot.core.beliefs import ModelUsage
from bot.core.clock import SeededRandom, SystemClock
from bot.core.errors import (
    AuthenticationError,
    ContextLengthExceededError,
    FoxcastError,
    MalformedDataError,
    QuotaExhaustedError,
    RequestRejectedError,
    ServiceUnavailableError,
)
from bot.core.interfaces import ModelProvider
from bot.core.language_models import (
    FinishReason,
    Message,
    MessageRole,
    ModelCompletion,
    Prompt,
    SamplingSettings,
    ToolCall,
    ToolDefinition,
)
from bot.core.plugin_specs import API_VERSION, ModelSpec, PluginContext, PluginSettings
from bot.core.values import Json
from bot.llm.providers import is_unreachable, may_be_billed, model_location, provider_defaults
from bot.net.client import RetryingHttpClient
from bot.testing.model_server import (
    ScriptedModelServer,
    ScriptedReply,
    cut_connection,
    drop_connection,
    never_reply,
    reply_cut_short,
    reply_error,
    reply_of_size,
    reply_refusal,
    reply_text,
    reply_tool_calls,
    reply_web_page,
    send_bytewise,
)

USAGE = ModelUsage(calls=1, tokens_in=100, tokens_out=20)


def _coded_error(status: int, code: str) -> ScriptedReply:
    """Answer with an error that has a code."""
    reply = reply_error(status)
    body = {"error": {"message": "as scripted", "type": "invalid_request_error", "param": None, "code": code}}
    return replace(reply, raw=json.dumps(body).encode())


# What is sent over the network -> what it means. Source: the API reference of chat completions. Where a server counts
# no tokens, they are estimated: a quarter of the characters of request (13) and answer, rounded up.
REPLY_CASES = {
    "text": (reply_text("42 %, perhaps"), ModelCompletion(text="42 %, perhaps", usage=USAGE)),
    "a call": (
        ScriptedReply(calls=(("search", '{"query": "rain"}'),)),
        ModelCompletion(
            calls=(ToolCall(id="call_1_1", name="search", arguments='{"query": "rain"}'),),
            finish=FinishReason.CALLS,
            usage=USAGE,
        ),
    ),
    "calls in parallel": (
        ScriptedReply(calls=(("search", "{}"), ("submit", "not even JSON"))),
        ModelCompletion(
            calls=(
                ToolCall(id="call_1_1", name="search", arguments="{}"),
                ToolCall(id="call_1_2", name="submit", arguments="not even JSON"),
            ),
            finish=FinishReason.CALLS,
            usage=USAGE,
        ),
    ),
    "thoughts": (
        ScriptedReply(text="9 %", thinking="Clouds are rare."),
        ModelCompletion(text="9 %", thinking="Clouds are rare.", usage=USAGE),
    ),
    "a refusal": (
        reply_refusal("I must not."),
        ModelCompletion(text="I must not.", finish=FinishReason.REFUSED, usage=USAGE),
    ),
    "a filter": (
        ScriptedReply(text="I", finish="content_filter"),
        ModelCompletion(text="I", finish=FinishReason.REFUSED, usage=USAGE),
    ),
    "a cut": (
        reply_cut_short('{"percent": 4'),
        ModelCompletion(text='{"percent": 4', finish=FinishReason.LENGTH, usage=USAGE),
    ),
    # No error: the gateway asks once more, with twice the tokens.
    "thoughts that left no room": (
        ScriptedReply(thinking="Clouds are", finish="length"),
        ModelCompletion(thinking="Clouds are", finish=FinishReason.LENGTH, usage=USAGE),
    ),
    "cached tokens": (
        ScriptedReply(text="x", tokens_in=1000, tokens_cached=900, tokens_out=7),
        ModelCompletion(text="x", usage=ModelUsage(calls=1, tokens_in=1000, tokens_cached=900, tokens_out=7)),
    ),
    "an escaped emoji": (
        ScriptedReply(
            raw=rb'{"choices": [{"message": {"role": "assistant", "content": "\u00e9 \ud83e\udd8a"},'
            rb' "finish_reason": "stop"}]}'
        ),
        ModelCompletion(text="é 🦊", usage=ModelUsage(calls=1, tokens_in=4, tokens_out=1)),
    ),
}


FAILURE_CASES: dict[str, tuple[ScriptedReply, type[FoxcastError]]] = {
    "400": (reply_error(400), RequestRejectedError),
    "401": (reply_error(401), AuthenticationError),
    "402": (reply_error(402), QuotaExhaustedError),
    "403": (reply_error(403), AuthenticationError),
    "404": (reply_error(404), RequestRejectedError),
    "409": (reply_error(409), ServiceUnavailableError),
    "413": (reply_error(413), RequestRejectedError),
    "422": (reply_error(422), RequestRejectedError),
    "429": (reply_error(429), ServiceUnavailableError),
    "500": (reply_error(500), ServiceUnavailableError),
    "502": (reply_error(502), ServiceUnavailableError),
    "503": (reply_error(503), ServiceUnavailableError),
    "529": (reply_error(529), ServiceUnavailableError),
    "no answer": (drop_connection(), ServiceUnavailableError),
    "half a body": (cut_connection(reply_text("a text that is long enough to be torn")), ServiceUnavailableError),
    "no quota": (_coded_error(429, "insufficient_quota"), QuotaExhaustedError),
    "too long": (_coded_error(400, "context_length_exceeded"), ContextLengthExceededError),
    "an error of status 200": (
        ScriptedReply(raw=b'{"error": {"message": "slow down", "code": 429}}'),
        ServiceUnavailableError,
    ),
    "a web page": (reply_web_page(), MalformedDataError),
    "broken JSON": (ScriptedReply(raw=b'{"choices": ['), MalformedDataError),
    "an empty object": (ScriptedReply(raw=b"{}"), MalformedDataError),
    "a list": (ScriptedReply(raw=b"[]"), MalformedDataError),
    "no choice": (ScriptedReply(raw=b'{"choices": []}'), MalformedDataError),
    "a wrong type": (
        ScriptedReply(raw=b'{"choices": [{"message": {"content": 5}, "finish_reason": "stop"}]}'),
        MalformedDataError,
    ),
    "too many bytes": (reply_of_size(3 * 2**20), MalformedDataError),
}


BROKEN_CONNECTION_CASES = {"no answer", "half a body"}


KEY = "key-that-nobody-may-see"


QUESTION = Prompt(messages=(Message(speaker=MessageRole.USER, text="Will it rain?"),))


SAMPLING = SamplingSettings(max_tokens=64)


SEARCH = ToolDefinition(
    name="search",
    description="Search the web.",
    parameters={"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
)


SUBMIT = ToolDefinition(name="submit", description="End.", parameters={"type": "object", "properties": {}})


SCHEMA: Mapping[str, Json] = {"type": "object", "properties": {"percent": {"type": "integer"}}, "required": ["percent"]}


# A lower limit returns empty answers from reasoning models.
MIN_DEFAULT_TOKENS = 4_000


SECRET_STATE = "What only this model may see again."  # noqa: S105 - no password


class ModelProviderContract:
    """What every provider must do.

    ``model`` names a model that the provider does not know, as it is named after the colon of a reference;
    ``settings_for`` makes settings that reach it at a base URL with ``KEY`` as its key.
    """

    spec: ClassVar[ModelSpec[Any]]
    model: ClassVar[str]

    def settings_for(self, base_url: str) -> PluginSettings:
        raise NotImplementedError

    @asynccontextmanager
    async def open_provider(self, base_url: str, folder: Path = Path()) -> AsyncIterator[ModelProvider]:
        """Open the provider on real HTTP."""
        clock = SystemClock()
        async with RetryingHttpClient(clock=clock, random=SeededRandom(1)) as http:
            context = PluginContext(clock=clock, http=http, folder=folder)
            opening: AbstractAsyncContextManager[ModelProvider] = self.spec.open(self.settings_for(base_url), context)
            async with opening as llm:
                yield llm

    @pytest.fixture
    async def server(self) -> AsyncIterator[ScriptedModelServer]:
        async with ScriptedModelServer(reply_text("yes")) as server:
            yield server

    @pytest.fixture
    async def llm(self, server: ScriptedModelServer, tmp_path: Path) -> AsyncIterator[ModelProvider]:
        async with self.open_provider(server.base_url, tmp_path) as llm:
            yield llm

    def test_it_is_built_for_this_version(self) -> None:
        assert self.spec.api_version == API_VERSION

    def test_unknown_settings_are_refused(self) -> None:
        with pytest.raises(ValidationError, match="no_such_setting"):
            self.spec.settings.model_validate({"no_such_setting": 1})

    def test_the_key_is_hidden(self) -> None:
        settings = self.settings_for("http://127.0.0.1:1/v1")
        assert KEY not in f"{settings!r} {settings} {settings.model_dump_json()}"

    @pytest.mark.parametrize("name", REPLY_CASES)
    async def test_a_reply_becomes_its_completion(
        self, server: ScriptedModelServer, llm: ModelProvider, name: str
    ) -> None:
        reply, expected = REPLY_CASES[name]
        server.script = reply
        got = await llm.complete(self.model, QUESTION, SAMPLING)
        for field in ("text", "calls", "thinking", "finish", "usage"):
            found, wanted = getattr(got, field), getattr(expected, field)
            assert found == wanted, f"{name}: ModelCompletion.{field} is {found!r}, expected {wanted!r}"
        assert server.count == 1, f"{name}: {server.count} requests were sent: one call is one request"

    @pytest.mark.parametrize("name", FAILURE_CASES)
    async def test_a_failure_says_who_must_act_after_one_request(
        self, server: ScriptedModelServer, llm: ModelProvider, name: str
    ) -> None:
        server.script, expected = FAILURE_CASES[name]
        with pytest.raises(FoxcastError) as caught:
            await llm.complete(self.model, QUESTION, SAMPLING)
        assert type(caught.value) is expected, (
            f"{name}: {type(caught.value).__name__} was raised, expected {expected.__name__}: the table of what "
            "complete raises is in docs/writing-a-plugin.md"
        )
        assert server.count == 1, f"{name}: {server.count} requests were sent: retries are the gateway's"

    @pytest.mark.parametrize("status", [429, 503])
    async def test_the_wait_that_is_asked_for_is_kept(
        self, server: ScriptedModelServer, llm: ModelProvider, status: int
    ) -> None:
        server.script = reply_error(status, retry_after_s=17)
        with pytest.raises(ServiceUnavailableError) as caught:
            await llm.complete(self.model, QUESTION, SAMPLING)
        assert (caught.value.retry_after_s, server.count) == (17.0, 1)

    async def test_a_full_provider_is_told_from_one_that_fails(
        self, server: ScriptedModelServer, llm: ModelProvider
    ) -> None:
        asked_s = []
        for status in (429, 500):
            server.script = reply_error(status)
            with pytest.raises(ServiceUnavailableError) as caught:
                await llm.complete(self.model, QUESTION, SAMPLING)
            asked_s.append(caught.value.retry_after_s)
        assert asked_s == [0.0, None]

    @pytest.mark.parametrize("name", FAILURE_CASES)
    async def test_what_broke_off_may_be_billed_and_what_was_refused_is_not(
        self, server: ScriptedModelServer, llm: ModelProvider, name: str
    ) -> None:
        server.script, kind = FAILURE_CASES[name]
        with pytest.raises(FoxcastError) as caught:
            await llm.complete(self.model, QUESTION, SAMPLING)
        expected = kind is MalformedDataError or name in BROKEN_CONNECTION_CASES
        assert may_be_billed(caught.value) == expected, (
            f"{name}: the error counts as {'billed' if not expected else 'not billed'}. What broke off has a "
            "ConnectionError or TimeoutError as its cause (let errors of context.http pass, or raise from them); what "
            "was refused has none (raise ... from None)"
        )

    async def test_where_nobody_listens_nothing_is_billed(self, tmp_path: Path) -> None:
        async with ScriptedModelServer(reply_text("yes")) as server:
            nowhere = server.base_url
        async with self.open_provider(nowhere, tmp_path) as llm:
            with pytest.raises(ServiceUnavailableError, match="cannot be reached") as caught:
                await llm.complete(self.model, QUESTION, SAMPLING)
        assert not may_be_billed(caught.value)
        # The gateway tries such a server for seconds, and waits for one that fails.
        assert is_unreachable(caught.value)
        assert nowhere.partition("//")[2].partition("/")[0] in str(caught.value)

    async def test_where_it_is_served_is_told_the_same_way_each_time_and_without_the_key(self, tmp_path: Path) -> None:
        locations = []
        for port in (1, 2, 1):
            async with self.open_provider(f"http://127.0.0.1:{port}/v1", tmp_path) as llm:
                locations.append(model_location(llm, f"house:{self.model}"))
        first, other, again = locations
        assert first == again
        assert KEY not in f"{first} {other}"
        # A provider without a location returns "" or None; one with a location tells one address from another.
        assert (first == other) == (first == "")

    @pytest.mark.parametrize("status", [400, 401])
    async def test_the_key_is_sent_and_shown_to_nobody(
        self, server: ScriptedModelServer, llm: ModelProvider, status: int
    ) -> None:
        server.script = reply_error(status, why=f"your key {KEY} will not do")
        with pytest.raises(FoxcastError, match="will not do") as caught:
            await llm.complete(self.model, QUESTION, SAMPLING)
        assert KEY in " ".join(server.requests[0].headers.values())
        assert KEY not in f"{caught.value} {caught.value!r}"

    async def test_cancelling_ends_the_request(self, server: ScriptedModelServer, llm: ModelProvider) -> None:
        server.script = never_reply()
        asking = asyncio.ensure_future(llm.complete(self.model, QUESTION, SAMPLING))
        await server.wire.wait_until(lambda: server.wire.in_flight == 1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await server.wire.wait_until(lambda: server.wire.hung_up == 1)

    async def test_a_dripping_answer_ends_with_the_deadline_above(
        self, server: ScriptedModelServer, llm: ModelProvider
    ) -> None:
        await llm.complete(self.model, QUESTION, SAMPLING)  # one-time work is not part of a deadline
        server.script = send_bytewise(reply_text("y" * 100_000), every_s=0.01)
        asking = asyncio.ensure_future(llm.complete(self.model, QUESTION, SAMPLING))
        await server.wire.wait_until(lambda: server.wire.in_flight == 1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await asking
        assert asking.cancelled()
        assert server.count == 2

    async def test_the_choice_of_a_tool_is_the_models_and_one_at_a_time(
        self, server: ScriptedModelServer, llm: ModelProvider
    ) -> None:
        server.script = reply_tool_calls(("search", {"query": "rain"}))
        # The allowed tools are named in words: a changed list of tools would lose the cache, or be refused.
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

    async def test_what_the_model_said_goes_back_as_it_came(
        self, server: ScriptedModelServer, llm: ModelProvider
    ) -> None:
        message: dict[str, Json] = {
            "role": "assistant",
            "content": "Let me look.",
            "reasoning_content": "Clouds. é \u201cquoted\u201d",
            "tool_calls": [_tool_call_json("a" * 300, '{"query":  "rain"}'), _tool_call_json("b", "{}")],
        }
        server.script = ScriptedReply(raw=_reply_with(message))
        got = await llm.complete(self.model, Prompt(messages=QUESTION.messages, tools=(SEARCH,)), SAMPLING)
        assert got.native is not None
        spoken = Message(speaker=MessageRole.ASSISTANT, text=got.text, calls=got.calls, native=got.native)
        results = [Message(speaker=MessageRole.TOOL, text="dry", answers=made.id) for made in got.calls]
        await llm.complete(
            self.model, Prompt(messages=(*QUESTION.messages, spoken, *results), tools=(SEARCH,)), SAMPLING
        )
        _, assistant, *answers = server.requests[1].messages
        assert assistant == message
        assert [one["tool_call_id"] for one in answers] == ["a" * 300, "b"]

    async def test_a_schema_is_asked_for(self, server: ScriptedModelServer, llm: ModelProvider) -> None:
        server.script = reply_text('{"percent": 4}')
        got = await llm.complete(self.model, Prompt(messages=QUESTION.messages, schema=SCHEMA), SAMPLING)
        assert server.requests[0].schema == SCHEMA
        assert json.loads(got.text) == {"percent": 4}

    async def test_a_conversation_arrives_whole_and_in_order(
        self, server: ScriptedModelServer, llm: ModelProvider
    ) -> None:
        made = ToolCall(id="call_7", name="search", arguments='{"query": "rain"}')
        conversation = (
            Message(speaker=MessageRole.SYSTEM, text="Forecast."),
            Message(speaker=MessageRole.USER, text="Will it rain? \ud83e"),
            Message(speaker=MessageRole.ASSISTANT, calls=(made,)),
            Message(speaker=MessageRole.TOOL, text="dry", answers="call_7"),
        )
        await llm.complete(self.model, Prompt(messages=conversation, tools=(SEARCH,), stable=2), SAMPLING)
        system, user, assistant, tool = server.requests[0].messages
        assert (system["role"], system["content"]) == ("system", "Forecast.")
        assert (user["role"], user["content"]) == ("user", "Will it rain? ?")
        assert assistant["tool_calls"][0]["id"] == "call_7"
        assert assistant["tool_calls"][0]["function"] == {"name": "search", "arguments": '{"query": "rain"}'}
        assert (tool["role"], tool["tool_call_id"], tool["content"]) == ("tool", "call_7", "dry")

    async def test_sampling_is_sent_as_far_as_it_is_named(
        self, server: ScriptedModelServer, llm: ModelProvider
    ) -> None:
        await llm.complete(self.model, QUESTION, SAMPLING)
        await llm.complete(self.model, QUESTION, SamplingSettings(max_tokens=9, temperature=0.5, seed=3))
        bare, full = (request.body for request in server.requests)
        assert bare["max_tokens"] == 64
        assert {"temperature", "seed", "reasoning_effort", "tools", "response_format"} & bare.keys() == set()
        assert (full["max_tokens"], full["temperature"], full["seed"]) == (9, 0.5, 3)

    async def test_an_unknown_price_is_none_and_never_nothing(self, llm: ModelProvider) -> None:
        assert await llm.price(self.model) is None
        assert (await llm.complete(self.model, QUESTION, SAMPLING)).cost_usd is None

    async def test_what_it_recommends_is_the_same_each_time_and_sends_nothing(
        self, server: ScriptedModelServer, llm: ModelProvider
    ) -> None:
        first, second = (provider_defaults(llm, f"house:{self.model}") for _ in range(2))
        assert first == second
        assert first.max_tokens >= MIN_DEFAULT_TOKENS
        assert server.count == 0

    async def test_state_of_a_model_is_named_after_it_and_reaches_no_other(
        self, server: ScriptedModelServer, llm: ModelProvider
    ) -> None:
        server.script = ScriptedReply(text="", thinking=SECRET_STATE, calls=(("search", "{}"), ("submit", "{}")))
        got = await llm.complete(self.model, Prompt(messages=QUESTION.messages, tools=(SEARCH, SUBMIT)), SAMPLING)
        if got.native is None:
            return  # it keeps no state
        assert got.native.model == self.model
        json.loads(got.native.text)
        answers = [Message(speaker=MessageRole.TOOL, text="dry", answers=made.id) for made in got.calls]
        for native in (replace(got.native, model="another"), replace(got.native, provider="another")):
            spoken = Message(speaker=MessageRole.ASSISTANT, text=got.text, calls=got.calls, native=native)
            conversation = Prompt(messages=(*QUESTION.messages, spoken, *answers), tools=(SEARCH, SUBMIT))
            await llm.complete(self.model, conversation, SAMPLING)
        for asked in server.requests[1:]:
            assistant, *results = asked.messages[1:]
            assert SECRET_STATE not in json.dumps(asked.body)
            # The words and all calls remain, each with its answer.
            assert [made["id"] for made in assistant["tool_calls"]] == [one["tool_call_id"] for one in results]
            assert len(results) == 2

    async def test_many_ask_at_once(self, server: ScriptedModelServer, llm: ModelProvider) -> None:
        server.script = lambda asked: reply_text(str(asked.messages[-1]["content"]))
        prompts = [Prompt(messages=(Message(speaker=MessageRole.USER, text=str(number)),)) for number in range(40)]
        got = await asyncio.gather(*(llm.complete(self.model, prompt, SAMPLING) for prompt in prompts))
        assert [answer.text for answer in got] == [str(number) for number in range(40)]
        assert server.count == 40


def _tool_call_json(given: str, arguments: str) -> dict[str, Json]:
    return {"id": given, "type": "function", "function": {"name": "search", "arguments": arguments}}


def _reply_with(message: Json) -> bytes:
    return json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).encode()
