"""Endpoints that are set by their address: the habits of vendors, other forms, and servers that cut prompts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from bot.clock import SeededRandom, SystemClock
from bot.domain.prompt import Completion, Message, ModelDefaults, Prompt, Sampling, Speaker
from bot.errors import ConfigError, ContextExceeded, Rejected
from bot.net.client import RetryingHttpClient
from bot.specs import Workplace
from bot.testing.model_contract import QUESTION, SAMPLING, SCHEMA, SEARCH
from bot.testing.model_server import ModelServer, Reply, call, say
from bot.testing.providers.dialects import MistralDouble
from bot.testing.providers.local import LlamaCppDouble, OllamaDouble, VllmDouble
from bot.testing.providers.openai_chat import OpenAiDouble
from plugins.models._profiles import ThinkingStyle, WireFormat
from plugins.models.openai_compatible import (
    EndpointSettings,
    OpenAiCompatible,
    OpenAiCompatibleSettings,
    open_openai_compatible,
)

LONG = Prompt(messages=(Message(speaker=Speaker.USER, text="word " * 8_000),))


@asynccontextmanager
async def opened(base_url: str, **habits: Any) -> AsyncIterator[OpenAiCompatible]:
    chosen = OpenAiCompatibleSettings.model_validate({"endpoints": {"there": {"base_url": base_url, **habits}}})
    clock = SystemClock()
    async with RetryingHttpClient(clock=clock, random=SeededRandom(1)) as http:
        place = Workplace(clock=clock, http=http, folder=Path())
        async with open_openai_compatible(chosen, place) as llm:
            assert isinstance(llm, OpenAiCompatible)
            yield llm


async def ask(double: Any, model: str, prompt: Prompt = QUESTION, **habits: Any) -> Completion:
    sampling = Sampling(max_tokens=8_000, effort=habits.pop("asked", None))
    async with opened(double.base_url, **habits) as llm:
        return await llm.complete(f"there/{model}", prompt, sampling)


def endpoint(base_url: str = "http://127.0.0.1:1/v1", **habits: Any) -> EndpointSettings:
    return EndpointSettings.model_validate({"base_url": base_url, **habits})


def test_a_vendor_is_known_by_its_host_or_by_name() -> None:
    there = endpoint("https://openrouter.ai/api/v1").profile("anthropic/claude-opus-5.5")
    assert (there.thinking, there.effort, there.upstream) == (ThinkingStyle.REASONING, "high", True)
    assert endpoint(vendor="deepseek").profile("deepseek-v4-pro").thinking is ThinkingStyle.SWITCH_EFFORT
    own = endpoint().profile("deepseek-v4-pro")
    assert (own.thinking, own.effort, own.sampling) == (ThinkingStyle.EFFORT, None, True)
    with pytest.raises(ValidationError, match="should be one of dashscope, deepseek"):
        endpoint(vendor="nobody")


def test_the_form_is_the_vendors_unless_said() -> None:
    openai = "https://api.openai.com/v1"
    assert endpoint(openai).profile("gpt-6-sol").wire is WireFormat.RESPONSES
    assert endpoint(openai).profile("gpt-4o").wire is WireFormat.CHAT
    chat = endpoint(openai, api="chat").profile("gpt-5")
    assert (chat.wire, chat.thinking, chat.limit_field) == (
        WireFormat.CHAT,
        ThinkingStyle.EFFORT,
        "max_completion_tokens",
    )
    local = endpoint(api="responses").profile("small")
    assert (local.wire, local.thinking, local.state) == (WireFormat.RESPONSES, ThinkingStyle.REASONING, False)
    google = endpoint("https://generativelanguage.googleapis.com/v1beta/openai").profile("gemini-3.1-pro-preview")
    assert (google.wire, google.thinking, google.stand_in) == (WireFormat.CHAT, ThinkingStyle.EFFORT, "signature")


async def test_it_recommends_what_is_set_or_known() -> None:
    async with opened("http://127.0.0.1:1/v1") as llm:
        assert llm.defaults("there/small") == ModelDefaults(max_tokens=8_192)
    async with opened("http://127.0.0.1:1/v1", max_tokens=2_000, effort="low") as llm:
        assert llm.defaults("there/small") == ModelDefaults(max_tokens=2_000, effort="low")
    async with opened("https://openrouter.ai/api/v1") as llm:
        assert llm.defaults("there/google/gemini-3.1-pro") == ModelDefaults(max_tokens=32_000, effort="high")
        assert llm.defaults("there/meta-llama/llama-4") == ModelDefaults(max_tokens=8_192)
        with pytest.raises(ConfigError, match="names no endpoint"):
            llm.defaults("elsewhere/x")


async def test_the_form_of_responses_can_be_spoken_to_any_endpoint() -> None:
    async with OpenAiDouble(call(("search", {"query": "x"}))) as double:
        prompt = Prompt(messages=QUESTION.messages, tools=(SEARCH,))
        answer = await ask(double, "gpt-6-sol", prompt, api="responses")
    assert double.requests[0].path == "/v1/responses"
    assert answer.native is not None
    assert answer.native.provider == "openai_compatible/responses"


async def test_what_the_model_said_can_be_sent_as_words_and_calls_alone() -> None:
    said = b'{"choices": [{"message": {"content": "x", "odd": 1}, "finish_reason": "stop"}]}'
    for echo, fields in (("all", {"role", "content", "odd"}), ("plain", {"role", "content"})):
        async with ModelServer(Reply(raw=said)) as server, opened(server.base_url, echo=echo) as llm:
            answer = await llm.complete("there/small", QUESTION, SAMPLING)
            spoken = Message(speaker=Speaker.ASSISTANT, text=answer.text, native=answer.native)
            await llm.complete(
                "there/small", Prompt(messages=(*QUESTION.messages, spoken, *QUESTION.messages)), SAMPLING
            )
        assert server.requests[1].messages[1].keys() == fields


async def test_a_server_that_refuses_fields_it_does_not_know_is_asked_once_more_without_them() -> None:
    # The strict server gets what a lenient one of the same name gave.
    said = b'{"choices": [{"message": {"content": "x", "odd": 1}, "finish_reason": "stop"}]}'
    async with ModelServer(Reply(raw=said)) as lenient:
        answer = await ask(lenient, "mistral-large-3")
    spoken = Message(speaker=Speaker.ASSISTANT, text=answer.text, native=answer.native)
    prompt = Prompt(messages=(*QUESTION.messages, spoken, *QUESTION.messages))
    async with MistralDouble(say("yes")) as double:
        assert (await ask(double, "mistral-large-3", prompt)).text == "yes"
    assert [refusal.status for refusal in double.refusals] == [422]


async def test_a_prompt_that_ollama_cut_is_told_with_the_setting() -> None:
    async with OllamaDouble(say("Whatever."), window=4_096) as double:
        with pytest.raises(ContextExceeded, match="OLLAMA_CONTEXT_LENGTH"):
            await ask(double, "qwen3", LONG)
        assert (await ask(double, "qwen3", LONG, notices_cuts=False)).text == "Whatever."
        assert (await ask(double, "qwen3")).text == "Whatever."


async def test_servers_that_count_and_refuse_are_told_too() -> None:
    async with LlamaCppDouble(say("x"), window=4_096) as double:
        with pytest.raises(ContextExceeded):
            await ask(double, "qwen3", LONG)
    async with LlamaCppDouble(say("x"), window=64_000) as double:
        assert (await ask(double, "qwen3", LONG)).text == "x"


async def test_a_server_that_cannot_leave_the_choice_says_which_setting_helps() -> None:
    prompt = Prompt(messages=QUESTION.messages, tools=(SEARCH,))

    def vllm() -> VllmDouble:
        return VllmDouble(call(("search", {"query": "x"})), parser=False)

    async with vllm() as double:
        with pytest.raises(Rejected, match=r'endpoints\.there\] tool_choice = "required"'):
            await ask(double, "qwen3", prompt)
    async with vllm() as double:
        assert (await ask(double, "qwen3", prompt, tool_choice="required")).calls[0].name == "search"


async def test_a_dressed_schema_is_answered_in_words_or_by_a_call() -> None:
    prompt = Prompt(messages=QUESTION.messages, schema=SCHEMA)
    for reply in (say('{"percent": 4}'), call(("answer", {"percent": 4}))):
        async with ModelServer(reply) as server:
            assert (await ask(server, "small", prompt, schemas="tool")).text == '{"percent": 4}'
        assert server.requests[0].body["tool_choice"] == "auto"
