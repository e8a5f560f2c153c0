"""Calls in a form of the library that our own client sends: the same requests, the same answers, our own errors."""

import json
from dataclasses import replace
from typing import Any, cast

import pytest
from pydantic import SecretStr

from bot.core.beliefs import ModelUsage
from bot.core.errors import (
    AuthenticationError,
    ContextLengthExceededError,
    FoxcastError,
    MalformedDataError,
    RequestRejectedError,
    ServiceUnavailableError,
)
from bot.core.language_models import FinishReason, Message, MessageRole, Prompt, SamplingSettings
from bot.testing.loopback_server import LoopbackServer, ScriptedResponse
from bot.testing.model_contract import KEY, QUESTION, SAMPLING, SCHEMA, SEARCH
from plugins.models._litellm_library import library_request, load_library, read_library_reply
from plugins.models._profiles import library_profile
from plugins.models.litellm import LitellmProvider, LitellmSettings
from tests.plugins.models.test_direct_vendors import CHAT_REPLY, CONVERSATION
from tests.plugins.models.test_litellm import FakeLibraryEndpoint, opened
from tests.plugins.models.wire_calls import wire_call

pytestmark = pytest.mark.timeout(120)

CALLED = [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"query": "rain"}'}}]
# Source: the reference of Cohere, "Chat" (v2).
COHERE_REPLY = {
    "id": "1",
    "finish_reason": "TOOL_CALL",
    "message": {"role": "assistant", "tool_plan": "I look.", "tool_calls": CALLED},
    "usage": {
        "billed_units": {"input_tokens": 9, "output_tokens": 3},
        "tokens": {"input_tokens": 9, "output_tokens": 3},
    },
}
OPENAI_REPLY = CHAT_REPLY | {"object": "chat.completion", "created": 1_770_000_000}
# Source: the reference of Amazon Bedrock, "Converse".
CONVERSE_REPLY = {
    "metrics": {"latencyMs": 1},
    "output": {
        "message": {
            "role": "assistant",
            "content": [
                {"text": "Let me look."},
                {"toolUse": {"toolUseId": "t1", "name": "search", "input": {"query": "rain"}}},
            ],
        }
    },
    "stopReason": "tool_use",
    "usage": {"inputTokens": 10, "outputTokens": 3, "totalTokens": 13},
}
# Source: the reference of Perplexity: searches are billed too.
SEARCHED_REPLY = OPENAI_REPLY | {
    "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11, "num_search_queries": 2},
    "citations": ["https://news.example/1"],
}
REPLIES = {
    "cohere": COHERE_REPLY,
    "cohere_chat": COHERE_REPLY,
    "databricks": OPENAI_REPLY,
    "perplexity": OPENAI_REPLY,
}


@pytest.mark.parametrize("shape", ["tools", "schema"])
@pytest.mark.parametrize("model", ["cohere/command-a-03-2025", "cohere_chat/x", "databricks/x", "perplexity/sonar"])
async def test_our_client_sends_and_reads_what_the_library_would(
    model: str, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    vendor, _, name = model.partition("/")
    more: dict[str, Any] = {"tools": (SEARCH,)} if shape == "tools" else {"schema": SCHEMA}
    messages = CONVERSATION if shape == "tools" else CONVERSATION[:2]
    call = wire_call(model, *messages, profile=library_profile(name), max_tokens=9, temperature=0.5, seed=4, **more)
    recording = FakeLibraryEndpoint(ScriptedResponse(body=json.dumps(REPLIES[vendor]).encode()))
    async with LoopbackServer(recording) as server:
        base = f"{server.address}/v1"
        chosen = LitellmSettings(keys={vendor: SecretStr(KEY)}, base_urls={vendor: base}, drop_params=True)
        async with opened(chosen) as llm:
            ours = await llm.complete(model, call.prompt, call.sampling)
            library = await cast("LitellmProvider", llm).load_library()
            # As it is published: it copies what it is given.
            monkeypatch.setattr(library, "safe_memory_mode", False)
            reply = await library.acompletion(
                **library_request(call, library), api_key=KEY, api_base=base, drop_params=True
            )
    cost = reply._hidden_params.get("response_cost")  # noqa: SLF001 - where the library documents it
    theirs = read_library_reply(reply, call, cost=cost).completion
    # It puts the vendor before the name that one of them gave.
    assert replace(ours, model="") == replace(theirs, model="")
    assert ours.model.removeprefix(f"{vendor}/") == theirs.model.removeprefix(f"{vendor}/")
    sent, expected = recording.asked
    assert (sent.path, sent.headers["authorization"]) == (expected.path, expected.headers["authorization"])
    assert json.loads(sent.body) == json.loads(expected.body)


async def test_the_searches_of_a_vendor_are_part_of_the_cost() -> None:
    recording = FakeLibraryEndpoint(ScriptedResponse(body=json.dumps(SEARCHED_REPLY).encode()))
    async with LoopbackServer(recording) as server:
        chosen = LitellmSettings(keys={"perplexity": SecretStr(KEY)}, base_urls={"perplexity": server.address})
        async with opened(chosen) as llm:
            answer = await llm.complete("perplexity/sonar", QUESTION, SamplingSettings(max_tokens=9))
    # The published prices of Sonar: a dollar a million tokens, five for a thousand searches.
    assert answer.cost_usd == pytest.approx(11e-6 + 2 * 0.005)


async def ask_bedrock(sent: ScriptedResponse, **settings: Any) -> tuple[Any, FakeLibraryEndpoint]:
    """Ask a model of Bedrock with a key; return the completion or the error, and what was received."""
    recording = FakeLibraryEndpoint(sent)
    system = Message(speaker=MessageRole.SYSTEM, text="Forecast.")
    prompt = Prompt(messages=(system, *QUESTION.messages), tools=(SEARCH,), stable=1)
    async with LoopbackServer(recording) as server:
        chosen = LitellmSettings(
            keys={"bedrock": SecretStr(KEY)},
            base_urls={"bedrock": server.address},
            bodies={"bedrock": {"aws_region_name": "eu-west-1"}},
            **settings,
        )
        async with opened(chosen) as llm:
            try:
                answer: Any = await llm.complete(
                    "bedrock/eu.anthropic.claude-sonnet-4-5-20250929-v1:0", prompt, SamplingSettings(max_tokens=9)
                )
            except FoxcastError as error:
                answer = error
    return answer, recording


async def test_bedrock_is_asked_with_a_key_in_the_form_of_converse() -> None:
    answer, recording = await ask_bedrock(ScriptedResponse(body=json.dumps(CONVERSE_REPLY).encode()))
    (received,) = recording.asked
    assert received.path == "/model/eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse"
    assert received.headers["authorization"] == f"Bearer {KEY}"
    body = json.loads(received.body)
    # The beginning that stays is marked for caching.
    assert body["system"] == [{"text": "Forecast."}, {"cachePoint": {"type": "default"}}]
    assert body["inferenceConfig"]["maxTokens"] == 9
    assert body["toolConfig"]["tools"][0]["toolSpec"]["name"] == "search"
    assert body["messages"][0]["role"] == "user"
    assert "aws_region_name" not in received.body.decode()
    assert (answer.text, answer.finish) == ("Let me look.", FinishReason.CALLS)
    assert [(made.name, json.loads(made.arguments)) for made in answer.calls] == [("search", {"query": "rain"})]
    assert answer.usage == ModelUsage(calls=1, tokens_in=10, tokens_out=3)
    # The published price in European regions: 3.3 and 16.5 dollars a million.
    assert answer.cost_usd == pytest.approx(10 * 3.3e-6 + 3 * 16.5e-6)


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        (ScriptedResponse(status=401, body=b'{"message": "invalid api token"}'), AuthenticationError),
        (ScriptedResponse(status=403, body=b'{"message": "The security token is invalid."}'), AuthenticationError),
        (
            ScriptedResponse(status=400, body=b'{"message": "Input is too long: prompt is too long"}'),
            ContextLengthExceededError,
        ),
        (ScriptedResponse(status=400, body=b'{"message": "Malformed input request"}'), RequestRejectedError),
        (ScriptedResponse(status=500, body=b"{}"), ServiceUnavailableError),
        (ScriptedResponse(status=503, body=b'{"message": "Bedrock is unable to process"}'), ServiceUnavailableError),
        (ScriptedResponse(body=b"<html>"), MalformedDataError),
        (ScriptedResponse(body=b"{}"), MalformedDataError),
        (ScriptedResponse(body=b'{"error": {"message": "overloaded", "code": 529}}'), ServiceUnavailableError),
    ],
    ids=[
        "401",
        "403",
        "context length",
        "400",
        "500",
        "503",
        "a web page",
        "an empty object",
        "an error of status 200",
    ],
)
async def test_a_failure_means_the_same_as_from_any_vendor(sent: ScriptedResponse, kind: type[FoxcastError]) -> None:
    error, recording = await ask_bedrock(sent)
    assert type(error) is kind
    assert len(recording.asked) == 1
    assert KEY not in str(error)


async def test_a_wait_in_the_headers_is_kept() -> None:
    error, _ = await ask_bedrock(
        ScriptedResponse(status=429, headers={"Retry-After": "9"}, body=b'{"message": "Too many tokens"}')
    )
    assert isinstance(error, ServiceUnavailableError)
    assert error.retry_after_s == 9.0


async def test_a_role_of_the_machine_is_left_to_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    recording = FakeLibraryEndpoint(ScriptedResponse(body=json.dumps(CONVERSE_REPLY).encode()))
    load_library()
    async with LoopbackServer(recording) as server:
        chosen = LitellmSettings(base_urls={"bedrock": server.address})
        async with opened(chosen) as llm:
            with pytest.raises(FoxcastError, match="boto"):
                await llm.complete("bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0", QUESTION, SAMPLING)
    assert not recording.asked
