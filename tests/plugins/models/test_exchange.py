"""A message that is refused is sent once more without its signed parts; costs count what went into the cache."""

import json
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from bot.clock import SeededRandom, SystemClock
from bot.domain.prompt import Message, NativeMessage, Price, Prompt, Sampling, Speaker, ToolCall
from bot.domain.step import Usage
from bot.errors import ContextExceeded, QuotaExhausted, Rejected, Unauthorized, Unavailable
from bot.net.client import RetryingHttpClient
from bot.specs import Workplace
from bot.testing.loopback import LoopbackServer, Received, Sent
from bot.testing.model_contract import KEY
from bot.testing.model_server import call, say
from bot.testing.providers.anthropic import AnthropicDouble
from bot.testing.providers.core import ProviderDouble
from bot.testing.providers.dialects import DeepSeekDouble
from bot.testing.providers.exchange import ReplySwitch
from bot.testing.providers.gemini import GeminiDouble
from bot.testing.providers.openai_chat import OpenAiDouble
from plugins.models._exchange import cost_of
from plugins.models.litellm import LitellmSettings, open_litellm
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
        open_litellm(chosen, Workplace(clock=clock, http=http, folder=Path())) as llm,
    ):
        return await llm.complete(model, prompt, Sampling(max_tokens=32_000, effort=effort))


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
    async with FAMILIES[model](call(("search", {"q": "x"}))) as double:
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
    said = Message(
        speaker=Speaker.ASSISTANT,
        text="I look.",
        calls=(made,),
        native=NativeMessage(provider="litellm/messages", model="anthropic/other", text="[]"),
    )
    double: ProviderDouble
    async with FAMILIES[model](say("42")) as double:
        answer = await ask(
            double.base_url, model, QUESTION, said, Message(speaker=Speaker.TOOL, answers=made.id, text=".")
        )
    assert [str(one) for one in double.refusals] == []
    assert answer.text == "42"


async def test_a_refusal_that_nothing_mends_is_reported_as_a_fault_of_the_adapter() -> None:
    body = b'{"type": "error", "error": {"type": "x", "message": "Invalid `signature` in `thinking` block"}}'
    asked: list[Received] = []

    def refuse(received: Received) -> Sent:
        asked.append(received)
        return Sent(status=400, body=body)

    native = NativeMessage(
        provider="litellm/messages",
        model="anthropic/claude-opus-5-5",
        text='[{"type": "thinking", "thinking": "", "signature": "S"}, {"type": "text", "text": "x"}]',
    )
    said = Message(speaker=Speaker.ASSISTANT, text="x", native=native)
    async with LoopbackServer(refuse) as server:
        with pytest.raises(Rejected, match="fault of the adapter, please report it") as caught:
            await ask(server.address, "anthropic/claude-opus-5-5", QUESTION, said, QUESTION)
    assert type(caught.value) is Rejected
    assert len(asked) == 2
    assert b"signature" not in asked[1].body


SWITCHED = [
    ("anthropic/claude-opus-5-5", ReplySwitch.QUOTA_EXHAUSTED, QuotaExhausted),
    ("anthropic/claude-opus-5-5", ReplySwitch.OVERLOADED, Unavailable),
    ("anthropic/claude-opus-5-5", ReplySwitch.RATE_LIMITED, Unavailable),
    ("gemini/gemini-4-argon", ReplySwitch.RATE_LIMITED, Unavailable),
    ("gemini/gemini-4-argon", ReplySwitch.OVERLOADED, Unavailable),
    ("openai/gpt-6-sol", ReplySwitch.QUOTA_EXHAUSTED, QuotaExhausted),
    ("openai/gpt-6-sol", ReplySwitch.RATE_LIMITED, Unavailable),
]


@pytest.mark.parametrize(("model", "switch", "kind"), SWITCHED)
async def test_an_error_of_the_vendor_says_who_must_act(model: str, switch: ReplySwitch, kind: type[Exception]) -> None:
    double: ProviderDouble
    async with FAMILIES[model](say("x")) as double:
        double.switch(switch)
        with pytest.raises(kind) as caught:
            await ask(double.base_url, model, QUESTION)
    assert type(caught.value) is kind
    if switch is ReplySwitch.RATE_LIMITED and isinstance(caught.value, Unavailable):
        assert caught.value.retry_after_s


async def test_a_key_that_is_refused_and_a_prompt_that_is_too_long_are_told_apart() -> None:
    async with OpenAiDouble(say("x"), key="another") as double:
        with pytest.raises(Unauthorized, match="the key was refused"):
            await ask(double.base_url, "openai/gpt-5", QUESTION)
    async with OpenAiDouble(say("x")) as double:
        with pytest.raises(ContextExceeded):
            await ask(double.base_url, "openai/gpt-5", Message(speaker=Speaker.USER, text="word " * 400_000))


def test_the_cost_counts_what_was_put_into_the_cache() -> None:
    price = Price(tokens_in=4.0, tokens_cached=0.2, tokens_out=20.0, tokens_written=5.0)
    usage = Usage(calls=1, tokens_in=1_000, tokens_cached=600, tokens_out=100)
    # 400 fresh tokens at 4, 600 cached at 0.2, 100 answered at 20, and 300 of the fresh ones 1 dearer.
    assert cost_of(price, usage, 300) == pytest.approx((1600 + 120 + 2000 + 300) / 1e6)
    assert cost_of(Price(tokens_in=4.0, tokens_cached=0.2, tokens_out=20.0), usage, 300) == pytest.approx(3720 / 1e6)
