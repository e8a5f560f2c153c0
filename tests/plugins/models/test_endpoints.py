"""Endpoints that are set by their address: the habits of vendors, other forms, and servers that cut prompts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from bot.core.clock import SeededRandom, SystemClock
from bot.core.errors import ConfigError, ContextLengthExceededError, RequestRejectedError
from bot.core.language_models import Message, MessageRole, ModelCompletion, ModelDefaults, Prompt, SamplingSettings
from bot.core.plugin_specs import PluginContext
from bot.net.client import RetryingHttpClient
from bot.simulator.providers.chat_vendors import MistralDouble
from bot.simulator.providers.local_servers import LlamaCppDouble, OllamaDouble, VllmDouble
from bot.simulator.providers.openai import OpenAiDouble
from bot.testing.model_contract import QUESTION, SAMPLING, SCHEMA, SEARCH
from bot.testing.model_server import ScriptedModelServer, ScriptedReply, reply_text, reply_tool_calls
from plugins.models._profiles import ThinkingStyle, WireFormat
from plugins.models.openai_compatible import (
    EndpointSettings,
    OpenAiCompatibleProvider,
    OpenAiCompatibleSettings,
    open_openai_compatible,
)

LONG = Prompt(messages=(Message(speaker=MessageRole.USER, text="word " * 8_000),))


@asynccontextmanager
async def opened(base_url: str, **habits: Any) -> AsyncIterator[OpenAiCompatibleProvider]:
    chosen = OpenAiCompatibleSettings.model_validate({"endpoints": {"there": {"base_url": base_url, **habits}}})
    clock = SystemClock()
    async with RetryingHttpClient(clock=clock, random=SeededRandom(1)) as http:
        place = PluginContext(clock=clock, http=http, folder=Path())
        async with open_openai_compatible(chosen, place) as llm:
            assert isinstance(llm, OpenAiCompatibleProvider)
            yield llm


async def ask(double: Any, model: str, prompt: Prompt = QUESTION, **habits: Any) -> ModelCompletion:
    sampling = SamplingSettings(max_tokens=8_000, effort=habits.pop("asked", None))
    async with opened(double.base_url, **habits) as llm:
        return await llm.complete(f"there/{model}", prompt, sampling)


def endpoint(base_url: str = "http://127.0.0.1:1/v1", **habits: Any) -> EndpointSettings:
    return EndpointSettings.model_validate({"base_url": base_url, **habits})


def test_a_vendor_is_known_by_its_host_or_by_name() -> None:
    there = endpoint("https://openrouter.ai/api/v1").profile("anthropic/claude-opus-5.5")
    assert (there.thinking, there.effort, there.requires_parameters) == (ThinkingStyle.REASONING, "high", True)
    assert endpoint(vendor="deepseek").profile("deepseek-v4-pro").thinking is ThinkingStyle.SWITCH_EFFORT
    own = endpoint().profile("deepseek-v4-pro")
    assert (own.thinking, own.effort, own.takes_sampling) == (ThinkingStyle.EFFORT, None, True)
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
    assert (local.wire, local.thinking, local.returns_reasoning) == (
        WireFormat.RESPONSES,
        ThinkingStyle.REASONING,
        False,
    )
    google = endpoint("https://generativelanguage.googleapis.com/v1beta/openai").profile("gemini-3.1-pro-preview")
    assert (google.wire, google.thinking, google.reasoning_placeholder) == (
        WireFormat.CHAT,
        ThinkingStyle.EFFORT,
        "signature",
    )


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
    async with OpenAiDouble(reply_tool_calls(("search", {"query": "x"}))) as double:
        prompt = Prompt(messages=QUESTION.messages, tools=(SEARCH,))
        answer = await ask(double, "gpt-6-sol", prompt, api="responses")
    assert double.requests[0].path == "/v1/responses"
    assert answer.native is not None
    assert answer.native.provider == "openai_compatible/responses"


async def test_what_the_model_said_can_be_sent_as_words_and_calls_alone() -> None:
    message = b'{"choices": [{"message": {"content": "x", "odd": 1}, "finish_reason": "stop"}]}'
    for echo, fields in (("all", {"role", "content", "odd"}), ("plain", {"role", "content"})):
        async with ScriptedModelServer(ScriptedReply(raw=message)) as server, opened(server.base_url, echo=echo) as llm:
            answer = await llm.complete("there/small", QUESTION, SAMPLING)
            spoken = Message(speaker=MessageRole.ASSISTANT, text=answer.text, native=answer.native)
            await llm.complete(
                "there/small", Prompt(messages=(*QUESTION.messages, spoken, *QUESTION.messages)), SAMPLING
            )
        assert server.requests[1].messages[1].keys() == fields


async def test_a_server_that_refuses_fields_it_does_not_know_is_asked_once_more_without_them() -> None:
    # The strict server gets what a lenient one of the same name gave.
    message = b'{"choices": [{"message": {"content": "x", "odd": 1}, "finish_reason": "stop"}]}'
    async with ScriptedModelServer(ScriptedReply(raw=message)) as lenient:
        answer = await ask(lenient, "mistral-large-3")
    spoken = Message(speaker=MessageRole.ASSISTANT, text=answer.text, native=answer.native)
    prompt = Prompt(messages=(*QUESTION.messages, spoken, *QUESTION.messages))
    async with MistralDouble(reply_text("yes")) as double:
        assert (await ask(double, "mistral-large-3", prompt)).text == "yes"
    assert [refusal.status for refusal in double.refusals] == [422]


async def test_a_prompt_that_ollama_cut_is_told_with_the_setting() -> None:
    async with OllamaDouble(reply_text("Whatever."), window=4_096) as double:
        with pytest.raises(ContextLengthExceededError, match="OLLAMA_CONTEXT_LENGTH"):
            await ask(double, "qwen3", LONG)
        assert (await ask(double, "qwen3", LONG, detect_cut_prompts=False)).text == "Whatever."
        assert (await ask(double, "qwen3")).text == "Whatever."


async def test_servers_that_count_and_refuse_are_told_too() -> None:
    async with LlamaCppDouble(reply_text("x"), window=4_096) as double:
        with pytest.raises(ContextLengthExceededError):
            await ask(double, "qwen3", LONG)
    async with LlamaCppDouble(reply_text("x"), window=64_000) as double:
        assert (await ask(double, "qwen3", LONG)).text == "x"


async def test_a_server_that_cannot_leave_the_choice_says_which_setting_helps() -> None:
    prompt = Prompt(messages=QUESTION.messages, tools=(SEARCH,))

    def vllm() -> VllmDouble:
        return VllmDouble(reply_tool_calls(("search", {"query": "x"})), parser=False)

    async with vllm() as double:
        with pytest.raises(RequestRejectedError, match=r'endpoints\.there\] tool_choice = "required"'):
            await ask(double, "qwen3", prompt)
    async with vllm() as double:
        assert (await ask(double, "qwen3", prompt, tool_choice="required")).calls[0].name == "search"


async def test_a_dressed_schema_is_answered_in_words_or_by_a_call() -> None:
    prompt = Prompt(messages=QUESTION.messages, schema=SCHEMA)
    for reply in (reply_text('{"percent": 4}'), reply_tool_calls(("answer", {"percent": 4}))):
        async with ScriptedModelServer(reply) as server:
            assert (await ask(server, "small", prompt, schemas="tool")).text == '{"percent": 4}'
        assert server.requests[0].body["tool_choice"] == "auto"
