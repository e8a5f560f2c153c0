"""Anthropic's own client reads what the double answers, and what it sends back is taken."""

import json
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import pytest
from anthropic import AsyncAnthropic
from anthropic.types import Message
from anthropic.types.beta import BetaMessage

from bot.simulator.providers.anthropic import AnthropicDouble
from bot.simulator.providers.anthropic_rules import BINDING_BETA
from bot.simulator.providers.chat_requests import ReplyOverride
from bot.testing.model_server import reply_json, reply_tool_calls
from tests.unit.simulator.providers.messages_client import (
    DROP,
    EPHEMERAL,
    MANUAL,
    QUESTION,
    SYSTEM,
    TOOLS,
    plan,
    results,
)

ASKED: dict[str, Any] = {"max_tokens": 16_000, "system": SYSTEM, "tools": TOOLS, "cache_control": EPHEMERAL}
SPENT = "enforced_spend_limit_reached"


def client_of(double: AnthropicDouble) -> AsyncAnthropic:
    return AsyncAnthropic(base_url=double.base_url, api_key="k", max_retries=0)


@pytest.fixture
async def served() -> AsyncIterator[tuple[AnthropicDouble, Any]]:
    async with AnthropicDouble(plan(), key="k") as double, client_of(double) as client:
        yield double, client


def answers(message: Message | BetaMessage) -> list[Any]:
    return results(block.model_dump() for block in message.content)


@pytest.mark.parametrize(
    ("model", "thinking"),
    [
        ("claude-opus-5-5", {"type": "adaptive"}),
        ("claude-opus-4-8", {"type": "adaptive", "display": "summarized"}),
        ("claude-haiku-4-5", {"type": "enabled", "budget_tokens": 4096}),
        ("claude-opus-5", {"type": "disabled"}),
    ],
)
@pytest.mark.parametrize("dumped", [False, True])
async def test_a_tool_loop_goes_on_with_the_message_as_the_client_gives_it(
    served: tuple[AnthropicDouble, Any], model: str, thinking: dict[str, Any], *, dumped: bool
) -> None:
    double, client = served
    messages: list[Any] = [QUESTION]
    for step in range(4):
        raw = await client.messages.with_raw_response.create(model=model, messages=messages, thinking=thinking, **ASKED)
        Message.model_validate_json(await raw.text(), strict=True)
        message = await raw.parse()
        assert (message.stop_reason, message.content[-1].type) == ("tool_use", "tool_use")
        assert bool(message.usage.cache_read_input_tokens) == (step > 0 and model != "claude-haiku-4-5")
        content = [block.model_dump() for block in message.content] if dumped else message.content
        messages += [{"role": "assistant", "content": content}, *answers(message)]
    assert (double.refusals, double.prefix_breaks, double.altered_replies) == ([], 0, 0)


async def test_parallel_calls_and_structured_answers_are_read() -> None:
    both = reply_tool_calls(("search", {"query": "rain"}), ("search", {"query": "wind"}))
    schema = {
        "type": "object",
        "properties": {"p": {"type": "number"}},
        "required": ["p"],
        "additionalProperties": False,
    }
    wanted: Any = {"format": {"type": "json_schema", "schema": schema}, "effort": "high"}
    async with AnthropicDouble([both, reply_json({"p": 0.4})]) as double, client_of(double) as client:
        asking: Any = client.messages
        first = await asking.create(model="claude-opus-5", messages=[QUESTION], **ASKED)
        messages = [QUESTION, {"role": "assistant", "content": first.content}, *answers(first)]
        second = await asking.create(model="claude-opus-5", messages=messages, output_config=wanted, **ASKED)
    assert [block.type for block in first.content] == ["thinking", "tool_use", "tool_use"]
    assert json.loads(second.content[-1].text) == {"p": 0.4}


async def test_dropped_thoughts_are_reported(served: tuple[AnthropicDouble, Any]) -> None:
    double, client = served
    model, messages = "claude-opus-5-5", [QUESTION]
    first = await client.messages.create(model=model, messages=messages, **ASKED)
    history = [*messages, {"role": "assistant", "content": first.content}, *answers(first)]
    asked = {**ASKED, "system": "You guess.", "thinking": DROP}
    dropped = await client.beta.messages.create(model=model, messages=history, betas=[BINDING_BETA], **asked)
    (one,) = dropped.input_transformations
    assert (one.type, one.path, one.reason) == ("thinking_dropped", "messages.1.content.0", "prefix_binding_mismatch")
    assert double.dropped_blocks == 1


async def test_ends_without_an_answer_are_read(served: tuple[AnthropicDouble, Any]) -> None:
    double, client = served
    double.override_next(ReplyOverride.REFUSAL, ReplyOverride.EMPTY_LENGTH, ReplyOverride.PAUSE)
    refusal, empty, paused = [
        await client.messages.create(model="claude-opus-5", messages=[QUESTION], **ASKED) for _ in range(3)
    ]
    assert (refusal.stop_reason, refusal.stop_details.explanation) == ("refusal", "I cannot help with this.")
    assert (empty.stop_reason, [block.type for block in empty.content]) == ("max_tokens", ["thinking"])
    going = [QUESTION, {"role": "assistant", "content": paused.content}]
    assert (await client.messages.create(model="claude-opus-5", messages=going, **ASKED)).stop_reason == "tool_use"


@pytest.mark.parametrize(
    ("switch", "error", "parts"),
    [
        (ReplyOverride.OVERLOADED, anthropic.OverloadedError, ("overloaded_error", None, None)),
        (ReplyOverride.RATE_LIMITED, anthropic.RateLimitError, ("rate_limit_error", None, "7")),
        (ReplyOverride.RATE_LIMITED_SILENT, anthropic.RateLimitError, ("rate_limit_error", None, None)),
        (ReplyOverride.QUOTA_EXHAUSTED, anthropic.RateLimitError, ("rate_limit_error", SPENT, None)),
    ],
)
async def test_faults_are_errors_of_the_client(
    served: tuple[AnthropicDouble, Any], switch: ReplyOverride, error: Any, parts: tuple[str | None, ...]
) -> None:
    double, client = served
    double.override_next(switch)
    with pytest.raises(error) as caught:
        await client.messages.create(model="claude-opus-5", messages=[QUESTION], **ASKED)
    fault = caught.value
    assert (fault.type, fault.error_code, fault.response.headers.get("retry-after")) == parts


async def test_refusals_are_errors_of_the_client(served: tuple[AnthropicDouble, Any]) -> None:
    double, client = served
    with pytest.raises(anthropic.BadRequestError) as caught:
        await client.messages.create(model="claude-opus-5", messages=[QUESTION], thinking=MANUAL, **ASKED)
    assert str(caught.value.api_message).startswith('"thinking.type.enabled" is not supported for this model.')
    with pytest.raises(anthropic.NotFoundError):
        await client.messages.create(model="claude-9", messages=[QUESTION], **ASKED)
    with pytest.raises(anthropic.AuthenticationError):
        await client.with_options(api_key="other").messages.create(model="claude-9", messages=[QUESTION], **ASKED)
    assert [one.status for one in double.refusals] == [400, 404, 401]
