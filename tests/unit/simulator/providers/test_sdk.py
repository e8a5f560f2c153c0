"""OpenAI's own client reads what the doubles answer: calls, texts, usage, streams, and errors as its own classes."""

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from bot.simulator.providers.chat_requests import ReplyOverride
from bot.simulator.providers.chat_vendors import DeepSeekDouble, GrokDouble
from bot.simulator.providers.openai import OpenAiDouble
from bot.testing.model_server import ReplyScript, reply_refusal, reply_text
from tests.unit.simulator.providers.chat_client import FLAT_TOOLS, QUESTION, TOOLS, Messages, plan
from tests.unit.simulator.providers.test_dialects import DIALECTS

CHAT_ONLY = sorted(DIALECTS.keys() - {"mistral"})  # whose content is a list while it thinks


def client_of(double: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=double.base_url, api_key="sk-one", max_retries=0)


@pytest.fixture
async def served() -> AsyncIterator[tuple[OpenAiDouble, Any]]:
    async with OpenAiDouble(plan(), key="sk-one") as double, client_of(double) as client:
        yield double, client


@pytest.mark.parametrize("name", CHAT_ONLY)
async def test_a_chat_is_read_strictly_and_goes_on_with_what_was_read(name: str) -> None:
    dialect = DIALECTS[name]
    async with dialect.make(plan()) as double, client_of(double) as client:
        asking: Any = client.chat.completions.with_raw_response
        messages: Messages = [QUESTION]
        for _ in range(3):
            extra = {"extra_body": dict(dialect.more)}
            raw = await asking.create(model=dialect.model, messages=messages, tools=TOOLS, **extra)
            ChatCompletion.model_validate_json(raw.http_response.content, strict=True)
            completion = raw.parse()
            message = completion.choices[0].message
            (called,) = message.tool_calls
            assert completion.choices[0].finish_reason == "tool_calls"
            assert completion.usage.prompt_tokens > completion.usage.prompt_tokens_details.cached_tokens
            result = {"role": "tool", "tool_call_id": called.id, "content": "dry"}
            messages += [message.model_dump(exclude_none=True), result]
    assert (double.refusals, double.altered_replies, double.prefix_breaks) == ([], 0, 0)


@pytest.mark.parametrize(("make", "model"), [(OpenAiDouble, "gpt-6-astra"), (GrokDouble, "grok-4.6")])
async def test_responses_are_read_and_go_on_with_what_was_read(make: Any, model: str) -> None:
    async with make(plan()) as double, client_of(double) as client:
        asking: Any = client.responses.with_raw_response
        items: list[Any] = [QUESTION]
        settled = {"store": False, "include": ["reasoning.encrypted_content"], "reasoning": {"effort": "high"}}
        for _ in range(3):
            raw = await asking.create(model=model, input=items, tools=FLAT_TOOLS, **settled)
            Response.model_validate_json(raw.http_response.content, strict=True)
            response = raw.parse()
            reasoning, called = response.output
            assert (reasoning.type, called.type, response.status) == ("reasoning", "function_call", "completed")
            assert response.usage.output_tokens_details.reasoning_tokens > 0
            items += [one.model_dump(exclude_none=True) for one in response.output]
            items.append({"type": "function_call_output", "call_id": called.call_id, "output": "dry"})
    assert (double.refusals, double.altered_replies, double.prefix_breaks) == ([], 0, 0)


@pytest.mark.parametrize(
    ("script", "text", "refusal"), [(reply_text("42 %"), "42 %", None), (reply_refusal("No."), None, "No.")]
)
async def test_texts_and_refusals_are_read(script: ReplyScript, text: str | None, refusal: str | None) -> None:
    asked: Any = [QUESTION]
    async with OpenAiDouble(script) as double, client_of(double) as client:
        completion = await client.chat.completions.create(model="gpt-5.5", messages=asked)
        message = completion.choices[0].message
        assert (message.content, message.refusal) == (text, refusal)
        response = await client.responses.create(model="gpt-5.5", input=asked)
        assert response.output_text == (text or "")
        reported: Any = response.output[-1]
        assert getattr(reported.content[0], "refusal", None) == refusal


async def test_a_stream_is_read() -> None:
    asked: Any = [QUESTION]
    async with DeepSeekDouble(plan()) as double, client_of(double) as client:
        creating: Any = client.chat.completions.create
        chunks = [one async for one in await creating(model="deepseek-v4", messages=asked, tools=TOOLS, stream=True)]
    (called,) = chunks[0].choices[0].delta.tool_calls
    assert (called.function.name, chunks[1].choices[0].finish_reason) == ("search", "tool_calls")
    assert chunks[0].choices[0].delta.reasoning_content
    assert chunks[-1].usage.prompt_tokens > 0


async def test_refusals_raise_the_classes_of_the_client(served: tuple[OpenAiDouble, Any]) -> None:
    double, client = served
    creating, asked = client.chat.completions.create, [QUESTION]
    with pytest.raises(openai.BadRequestError) as bad:
        await creating(model="gpt-6-astra", messages=asked, tools=TOOLS)
    assert (bad.value.param, bad.value.type) == ("reasoning_effort", "invalid_request_error")
    with pytest.raises(openai.BadRequestError) as long:
        await creating(model="o3", messages=[{"role": "user", "content": "x" * 900_000}])
    assert long.value.code == "context_length_exceeded"
    with pytest.raises(openai.NotFoundError):
        await creating(model="gpt-9", messages=asked)
    double.override_next(ReplyOverride.RATE_LIMITED, ReplyOverride.QUOTA_EXHAUSTED, ReplyOverride.OVERLOADED)
    with pytest.raises(openai.RateLimitError) as many:
        await creating(model="gpt-5.5", messages=asked)
    assert many.value.response.headers["retry-after"] == "2"
    with pytest.raises(openai.RateLimitError) as spent:
        await creating(model="gpt-5.5", messages=asked)
    assert (spent.value.type, spent.value.code) == ("insufficient_quota", "credit_balance_exhausted")
    with pytest.raises(openai.InternalServerError):
        await creating(model="gpt-5.5", messages=asked)


async def test_a_wrong_key_is_refused(served: tuple[OpenAiDouble, Any]) -> None:
    double, _ = served
    async with openai.AsyncOpenAI(base_url=double.base_url, api_key="sk-two", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError):
            await client.responses.create(model="gpt-5.5", input="Q")


async def test_models_are_listed(served: tuple[OpenAiDouble, Any]) -> None:
    _, client = served
    assert "gpt-6-astra" in [one.id async for one in client.models.list()]
