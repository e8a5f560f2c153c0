"""Ten steps of tools with every family of models, against doubles that refuse what the vendors refuse."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bot.core.clock import SeededRandom, SystemClock
from bot.core.interfaces import ModelProvider
from bot.core.language_models import Message, MessageRole, ModelCompletion, Prompt, SamplingSettings
from bot.core.plugin_specs import PluginContext
from bot.core.values import Json
from bot.net.client import RetryingHttpClient
from bot.simulator.providers.anthropic import AnthropicDouble
from bot.simulator.providers.chat_vendors import (
    DeepSeekDouble,
    GlmDouble,
    GrokDouble,
    KimiDouble,
    MistralDouble,
    QwenDouble,
)
from bot.simulator.providers.gemini import GeminiDouble
from bot.simulator.providers.local_servers import LlamaCppDouble, LmStudioDouble, VllmDouble
from bot.simulator.providers.model_gateways import GeminiCompatDouble, OpenRouterDouble
from bot.simulator.providers.openai import OpenAiDouble
from bot.simulator.providers.provider_double import ProviderDouble
from bot.testing.model_contract import KEY, SEARCH, SUBMIT
from bot.testing.model_server import CompletionRequest, ReplyScript, ScriptedReply, reply_text, reply_tool_calls
from plugins.models.litellm import LitellmSettings, open_litellm
from plugins.models.openai_compatible import OpenAiCompatibleSettings, open_openai_compatible

pytestmark = [
    pytest.mark.filterwarnings("ignore:Item '.*' on TypedDict class:UserWarning"),
    # The library's import takes seconds, more on a busy machine.
    pytest.mark.timeout(120),
]

STEPS = 10
Made = Callable[[ReplyScript], ProviderDouble]


@dataclass(frozen=True, kw_only=True)
class ProviderCase:
    """A model behind a double, reached through one of the two providers; ``endpoint`` are settings of the second."""

    double: Made
    model: str
    effort: str | None = "high"
    endpoint: Mapping[str, Any] | None = None
    parallel: bool = True
    more: Mapping[str, Any] = field(default_factory=dict)

    @asynccontextmanager
    async def opened(self, base_url: str) -> AsyncIterator[ModelProvider]:
        clock = SystemClock()
        async with RetryingHttpClient(clock=clock, random=SeededRandom(1)) as http:
            place = PluginContext(clock=clock, http=http, folder=Path())
            if self.endpoint is not None:
                table = {"base_url": base_url, "api_key": KEY, **self.endpoint}
                chosen = OpenAiCompatibleSettings.model_validate({"endpoints": {"there": table}})
                async with open_openai_compatible(chosen, place) as llm:
                    yield llm
                return
            vendor = self.model.partition("/")[0]
            settings = {"keys": {vendor: KEY}, "base_urls": {vendor: base_url}, **self.more}
            async with open_litellm(LitellmSettings.model_validate(settings), place) as llm:
                yield llm


def direct(double: Made, *models: str, **more: Any) -> dict[str, ProviderCase]:
    return {f"litellm {model}": ProviderCase(double=double, model=model, **more) for model in models}


def behind(double: Made, model: str, **endpoint: Any) -> dict[str, ProviderCase]:
    vendor = endpoint.get("vendor", double.__name__.removesuffix("Double").lower())
    name = f"compatible {vendor} {model}{' by responses' if endpoint.get('api') == 'responses' else ''}"
    return {name: ProviderCase(double=double, model=f"there/{model}", endpoint=endpoint)}


CLAUDES = tuple(
    f"anthropic/claude-{name}"
    for name in (
        *("opus-5-5", "fable-5-1", "mythos-5-1", "fable-5", "opus-5", "sonnet-5", "opus-4-8", "opus-4-7"),
        *("opus-4-6", "sonnet-4-6", "opus-4-5", "sonnet-4-5", "haiku-4-5"),
    )
)
SEVERAL = {"bodies": {"anthropic": {"tool_choice": {"disable_parallel_tool_use": False}}}}
CASES: dict[str, ProviderCase] = {
    **direct(OpenAiDouble, "openai/gpt-6-astra", "openai/gpt-6.1-sol", "openai/gpt-5.6-terra", "openai/gpt-5.2"),
    **direct(OpenAiDouble, "openai/gpt-5", "openai/gpt-4o"),
    **direct(OpenAiDouble, "openai/o4-mini", parallel=False),
    **direct(AnthropicDouble, *CLAUDES, parallel=False),
    # One call at a time is what is asked for; a model that makes several all the same is heard too.
    "several calls": ProviderCase(double=AnthropicDouble, model="anthropic/claude-opus-5-5", more=SEVERAL),
    **direct(GeminiDouble, "gemini/gemini-3.1-pro-preview", "gemini/gemini-3-flash-preview", "gemini/gemini-4-argon"),
    **direct(GeminiDouble, "gemini/gemini-3.8-flash", "gemini/gemini-2.5-pro", "gemini/gemini-2.5-flash"),
    **direct(GrokDouble, "xai/grok-4.6", "xai/grok-4.5", "xai/grok-4.20-0309-non-reasoning"),
    **direct(DeepSeekDouble, "deepseek/deepseek-v4-pro"),
    **direct(KimiDouble, "moonshot/kimi-k3", "moonshot/kimi-k2.7-code", "moonshot/kimi-k2.6"),
    **direct(QwenDouble, "dashscope/qwen4-max", "dashscope/qwen3.5-plus"),
    **direct(GlmDouble, "zai/glm-5.3", "zai/glm-4.7"),
    **direct(MistralDouble, "mistral/mistral-medium-3-5", "mistral/mistral-large-3"),
    **direct(OpenRouterDouble, "openrouter/anthropic/claude-opus-5.5", "openrouter/google/gemini-3.1-pro-preview"),
    **direct(OpenRouterDouble, "openrouter/openai/gpt-6-sol", "openrouter/deepseek/deepseek-v4-pro"),
    **direct(OpenRouterDouble, "openrouter/moonshotai/kimi-k3", "openrouter/z-ai/glm-5.3"),
    **direct(LmStudioDouble, "lm_studio/qwen3", effort=None),
    **direct(VllmDouble, "hosted_vllm/qwen3", effort=None),
    **behind(OpenRouterDouble, "anthropic/claude-opus-5.5", vendor="openrouter"),
    **behind(DeepSeekDouble, "deepseek-v4-pro", vendor="deepseek"),
    **behind(KimiDouble, "kimi-k3", vendor="moonshot"),
    **behind(GeminiCompatDouble, "gemini-3.1-pro-preview", vendor="gemini"),
    **behind(OpenAiDouble, "gpt-6-sol", vendor="openai"),
    **behind(GrokDouble, "grok-4.6", vendor="xai", api="chat"),
    **behind(MistralDouble, "mistral-medium-3-5", vendor="mistral"),
    **behind(VllmDouble, "qwen3"),
    **behind(LlamaCppDouble, "qwen3"),
}


def researching(*, parallel: bool) -> ReplyScript:
    """Search nine times, once several at a time, once with words, once with words alone; then submit."""

    def play(asked: CompletionRequest) -> ScriptedReply:
        found: dict[str, Json] = {"query": f"rain {asked.assistant_turns}", "deep": {"b": 1, "a": [1.5, None]}}
        if asked.assistant_turns == 3 and parallel:
            return reply_tool_calls(("search", found), ("search", {"query": "é “quoted”"}), ("submit", {}))
        if asked.assistant_turns == 4:
            return ScriptedReply(text="Let me look again.", calls=(("search", json.dumps(found)),))
        if asked.assistant_turns == 6:
            return reply_text("I would rather not call anything.")
        return reply_tool_calls(("submit" if asked.assistant_turns == STEPS - 1 else "search", found))

    return play


def answered(completion: ModelCompletion, step: int) -> list[Message]:
    """Return the message of the model as it goes back, and what is said to it next."""
    spoken = Message(
        speaker=MessageRole.ASSISTANT, text=completion.text, calls=completion.calls, native=completion.native
    )
    results = [
        Message(speaker=MessageRole.TOOL, text=f"Dry. {step} {nth}" if nth == 0 else "Not run.", answers=made.id)
        for nth, made in enumerate(completion.calls)
    ]
    if not completion.calls or step == 7:
        results.append(Message(speaker=MessageRole.USER, text="Answer with a tool call."))
    return [spoken, *results]


BEGIN = (
    Message(speaker=MessageRole.SYSTEM, text="You are a forecaster."),
    Message(speaker=MessageRole.USER, text="Will it rain in Drumholm?"),
)


async def walk(llm: ModelProvider, case: ProviderCase, messages: list[Message]) -> list[ModelCompletion]:
    completions = []
    for step in range(STEPS):
        prompt = Prompt(
            messages=tuple(messages),
            tools=(SEARCH, SUBMIT),
            stable=len(messages),
            model=f"x:{case.model}",
            cache_key="q1",
        )
        sampling = SamplingSettings(max_tokens=32_000, effort=case.effort, seed=7)
        completion = await llm.complete(case.model, prompt, sampling)
        completions.append(completion)
        messages += answered(completion, step)
    return completions


@pytest.mark.parametrize("name", CASES)
async def test_ten_steps_are_refused_nowhere_and_share_their_beginning(name: str) -> None:
    case = CASES[name]
    async with case.double(researching(parallel=case.parallel)) as double, case.opened(double.base_url) as llm:
        completions = await walk(llm, case, list(BEGIN))
    assert [str(refusal) for refusal in double.refusals] == []
    assert len(double.requests) == STEPS
    assert (double.prefix_breaks, double.altered_replies) == (0, 0)
    assert [len(one.calls) for one in completions] == [1, 1, 1, 3 if case.parallel else 1, 1, 1, 0, 1, 1, 1]
    assert completions[-1].calls[0].name == "submit"
    assert all(one.native is not None for one in completions)
