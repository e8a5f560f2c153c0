"""A message that is refused is sent once more without its signed parts; costs count what went into the cache."""

import json
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from bot.core.beliefs import ModelUsage
from bot.core.clock import SeededRandom, SystemClock
from bot.core.errors import (
    AuthenticationError,
    ContextLengthExceededError,
    QuotaExhaustedError,
    RequestRejectedError,
    ServiceUnavailableError,
)
from bot.core.language_models import Message, MessageRole, NativeMessage, Prompt, SamplingSettings, TokenPrice, ToolCall
from bot.core.plugin_specs import PluginContext
from bot.net.client import RetryingHttpClient
from bot.simulator.providers.anthropic import AnthropicDouble
from bot.simulator.providers.chat_requests import ReplyOverride
from bot.simulator.providers.chat_vendors import DeepSeekDouble
from bot.simulator.providers.gemini import GeminiDouble
from bot.simulator.providers.openai import OpenAiDouble
from bot.simulator.providers.provider_double import ProviderDouble
from bot.testing.loopback_server import LoopbackServer, ReceivedRequest, ScriptedResponse
from bot.testing.model_contract import KEY
from bot.testing.model_server import reply_text, reply_tool_calls
from plugins.models.litellm import LitellmSettings, open_litellm
from plugins.models.openai_compatible import usage_cost
from tests.plugins.models.wire_calls import QUESTION, SEARCH, results, spoken

pytestmark = [
    pytest.mark.filterwarnings("ignore:Item '.*' on TypedDict class:UserWarning"),
    pytest.mark.timeout(120),
]

FAMILIES: dict[str, Any] = {
    "anthropic/claude-opus-5-5": AnthropicDouble,
    "anthropic/claude-sonnet-4-5": AnthropicDouble,
    "gemini/gemini-3.1-pro-preview": GeminiDouble,
    "gemini/gemini-4-argon": GeminiDouble,
    "openai/gpt-6-sol": OpenAiDouble,
    "deepseek/deepseek-v4-pro": DeepSeekDouble,
}


async def ask(base_url: str, model: str, *messages: Message, effort: str | None = "high") -> Any:
    vendor = model.partition("/")[0]
    chosen = LitellmSettings.model_validate({"keys": {vendor: KEY}, "base_urls": {vendor: base_url}})
    clock = SystemClock()
    prompt = Prompt(messages=messages, tools=(SEARCH,), stable=len(messages))
    async with (
        RetryingHttpClient(clock=clock, random=SeededRandom(1)) as http,
        open_litellm(chosen, PluginContext(clock=clock, http=http, folder=Path())) as llm,
    ):
        return await llm.complete(model, prompt, SamplingSettings(max_tokens=32_000, effort=effort))


def altered(message: Message) -> Message:
    """Return a message whose signed and encrypted parts are not those that were given."""
    assert message.native is not None
    value = json.loads(message.native.text)
    text = json.dumps(_altered(value))
    assert json.loads(text) != value
    return Message(
        speaker=message.speaker,
        text=message.text,
        calls=message.calls,
        native=NativeMessage(provider=message.native.provider, model=message.native.model, text=text),
    )


def _altered(value: Any) -> Any:
    if isinstance(value, list):
        return [_altered(one) for one in value]
    if not isinstance(value, dict):
        return value
    signed = {"signature", "data", "thoughtSignature", "encrypted_content"}
    return {
        name: "QUFB" if name in signed else _altered(part)
        for name, part in value.items()
        if name != "reasoning_content"
    }


@pytest.mark.parametrize("model", FAMILIES)
async def test_what_is_refused_is_sent_once_more_without_its_signed_parts(model: str) -> None:
    double: ProviderDouble
    async with FAMILIES[model](reply_tool_calls(("search", {"q": "x"}))) as double:
        first = await ask(double.base_url, model, QUESTION)
        conversation = (QUESTION, altered(spoken(first)), *results(first))
        with capture_logs() as logs:
            second = await ask(double.base_url, model, *conversation)
    assert second.calls[0].name == "search"
    assert len(double.refusals) == 1
    assert len(double.requests) == 3
    assert [entry["log_level"] for entry in logs if "refused" in entry["event"]] == ["warning"]


@pytest.mark.parametrize("model", FAMILIES)
async def test_a_conversation_of_another_model_is_taken(model: str) -> None:
    made = ToolCall(id="toolu_" + "x" * 100, name="search", arguments='{"q": "x"}')
    message = Message(
        speaker=MessageRole.ASSISTANT,
        text="I look.",
        calls=(made,),
        native=NativeMessage(provider="litellm/messages", model="anthropic/other", text="[]"),
    )
    double: ProviderDouble
    async with FAMILIES[model](reply_text("42")) as double:
        answer = await ask(
            double.base_url, model, QUESTION, message, Message(speaker=MessageRole.TOOL, answers=made.id, text=".")
        )
    assert [str(one) for one in double.refusals] == []
    assert answer.text == "42"


async def test_a_refusal_that_nothing_mends_is_reported_as_a_fault_of_the_adapter() -> None:
    body = b'{"type": "error", "error": {"type": "x", "message": "Invalid `signature` in `thinking` block"}}'
    asked: list[ReceivedRequest] = []

    def refuse(received: ReceivedRequest) -> ScriptedResponse:
        asked.append(received)
        return ScriptedResponse(status=400, body=body)

    native = NativeMessage(
        provider="litellm/messages",
        model="anthropic/claude-opus-5-5",
        text='[{"type": "thinking", "thinking": "", "signature": "S"}, {"type": "text", "text": "x"}]',
    )
    message = Message(speaker=MessageRole.ASSISTANT, text="x", native=native)
    async with LoopbackServer(refuse) as server:
        with pytest.raises(RequestRejectedError, match="fault of the adapter, please report it") as caught:
            await ask(server.address, "anthropic/claude-opus-5-5", QUESTION, message, QUESTION)
    assert type(caught.value) is RequestRejectedError
    assert len(asked) == 2
    assert b"signature" not in asked[1].body


SWITCHED = [
    ("anthropic/claude-opus-5-5", ReplyOverride.QUOTA_EXHAUSTED, QuotaExhaustedError),
    ("anthropic/claude-opus-5-5", ReplyOverride.OVERLOADED, ServiceUnavailableError),
    ("anthropic/claude-opus-5-5", ReplyOverride.RATE_LIMITED, ServiceUnavailableError),
    ("gemini/gemini-4-argon", ReplyOverride.RATE_LIMITED, ServiceUnavailableError),
    ("gemini/gemini-4-argon", ReplyOverride.OVERLOADED, ServiceUnavailableError),
    ("openai/gpt-6-sol", ReplyOverride.QUOTA_EXHAUSTED, QuotaExhaustedError),
    ("openai/gpt-6-sol", ReplyOverride.RATE_LIMITED, ServiceUnavailableError),
]


@pytest.mark.parametrize(("model", "switch", "kind"), SWITCHED)
async def test_an_error_of_the_vendor_says_who_must_act(
    model: str, switch: ReplyOverride, kind: type[Exception]
) -> None:
    double: ProviderDouble
    async with FAMILIES[model](reply_text("x")) as double:
        double.override_next(switch)
        with pytest.raises(kind) as caught:
            await ask(double.base_url, model, QUESTION)
    assert type(caught.value) is kind
    if switch is ReplyOverride.RATE_LIMITED and isinstance(caught.value, ServiceUnavailableError):
        assert caught.value.retry_after_s


async def test_a_key_that_is_refused_and_a_prompt_that_is_too_long_are_told_apart() -> None:
    async with OpenAiDouble(reply_text("x"), key="another") as double:
        with pytest.raises(AuthenticationError, match="the key was refused"):
            await ask(double.base_url, "openai/gpt-5", QUESTION)
    async with OpenAiDouble(reply_text("x")) as double:
        with pytest.raises(ContextLengthExceededError):
            await ask(double.base_url, "openai/gpt-5", Message(speaker=MessageRole.USER, text="word " * 400_000))


def test_the_cost_counts_what_was_put_into_the_cache() -> None:
    price = TokenPrice(tokens_in=4.0, tokens_cached=0.2, tokens_out=20.0, tokens_written=5.0)
    usage = ModelUsage(calls=1, tokens_in=1_000, tokens_cached=600, tokens_out=100)
    # 400 fresh tokens at 4, 600 cached at 0.2, 100 answered at 20, and 300 of the fresh ones 1 dearer.
    assert usage_cost(price, usage, 300) == pytest.approx((1600 + 120 + 2000 + 300) / 1e6)
    assert usage_cost(TokenPrice(tokens_in=4.0, tokens_cached=0.2, tokens_out=20.0), usage, 300) == pytest.approx(
        3720 / 1e6
    )
