"""Every chat dialect: a conversation that is kept as it was given passes, and the rules of all providers hold."""

import json
from typing import Any

import pytest

from bot.simulator.models.simulated_model import SimulatedModel
from bot.simulator.providers.chat_vendors import (
    DeepSeekDouble,
    GlmDouble,
    GrokDouble,
    KimiDouble,
    MistralDouble,
    QwenDouble,
)
from bot.simulator.providers.local_servers import LlamaCppDouble, LmStudioDouble, OllamaDouble, VllmDouble
from bot.simulator.providers.model_gateways import GeminiCompatDouble, OpenRouterDouble
from bot.simulator.providers.openai import OpenAiDouble
from bot.testing.model_server import reply_text, reply_tool_calls
from tests.unit.simulator.providers.chat_client import (
    QUESTION,
    SYSTEM,
    TOOLS,
    DialectCase,
    Messages,
    changed,
    open_client,
    plan,
    refused,
    results,
)

DIALECTS = {
    "gpt-4.1": DialectCase(make=OpenAiDouble, model="gpt-4.1"),
    "gpt-5": DialectCase(make=OpenAiDouble, model="gpt-5"),
    "gpt-5.4": DialectCase(make=OpenAiDouble, model="gpt-5.4"),
    "deepseek": DialectCase(make=DeepSeekDouble, model="deepseek-v4-pro"),
    "kimi": DialectCase(make=KimiDouble, model="kimi-k3"),
    "qwen": DialectCase(make=QwenDouble, model="qwen4-max"),
    "glm": DialectCase(make=GlmDouble, model="glm-5.3"),
    "grok": DialectCase(make=GrokDouble, model="grok-4.6"),
    "mistral": DialectCase(make=MistralDouble, model="mistral-medium-3-5", more={"reasoning_effort": "high"}),
    "mistral-plain": DialectCase(make=MistralDouble, model="mistral-large-3"),
    "openrouter-google": DialectCase(make=OpenRouterDouble, model="google/gemini-3.1-pro-preview"),
    "openrouter-anthropic": DialectCase(make=OpenRouterDouble, model="anthropic/claude-opus-5.5"),
    "openrouter-openai": DialectCase(make=OpenRouterDouble, model="openai/gpt-6-sol"),
    "openrouter-z-ai": DialectCase(make=OpenRouterDouble, model="z-ai/glm-5.3"),
    "gemini-compat": DialectCase(make=GeminiCompatDouble, model="gemini-3.1-pro-preview"),
    "gemini-compat-2.5": DialectCase(make=GeminiCompatDouble, model="gemini-2.5-pro"),
    "lm-studio": DialectCase(make=LmStudioDouble, model="local"),
    "vllm": DialectCase(make=VllmDouble, model="local"),
    "vllm-no-parser": DialectCase(
        make=lambda script: VllmDouble(script, parser=False), model="local", more={"tool_choice": "required"}
    ),
    "llama-cpp": DialectCase(make=LlamaCppDouble, model="local"),
    "ollama": DialectCase(make=OllamaDouble, model="local"),
}
STRICT = sorted(DIALECTS.keys() - {"ollama"})


@pytest.mark.parametrize("name", DIALECTS)
async def test_a_conversation_of_three_steps_passes(name: str) -> None:
    dialect = DIALECTS[name]
    async with open_client(dialect.make(plan()), dialect.model, **dialect.more) as client:
        messages: Messages = [SYSTEM, QUESTION]
        for _ in range(3):
            messages = await client.step(messages)
    double = client.double
    called = [message["tool_calls"][0]["function"]["name"] for message in messages if message.get("tool_calls")]
    assert called == ["search", "search", "submit"]
    assert (double.refusals, double.prefix_breaks, double.altered_replies) == ([], 0, 0)
    assert double.shared_prefixes == [1.0, 1.0]
    assert 0.0 < double.uncached_share < 0.6


@pytest.mark.parametrize("name", DIALECTS)
async def test_usage_is_counted_from_what_was_sent(name: str) -> None:
    dialect = DIALECTS[name]
    async with open_client(dialect.make(plan()), dialect.model, **dialect.more) as client:
        first = (await client.chat([SYSTEM, QUESTION])).json()["usage"]
        again = (await client.chat([SYSTEM, QUESTION])).json()["usage"]
    size = len(json.dumps([*TOOLS, SYSTEM, QUESTION]))
    assert first["prompt_tokens"] == pytest.approx(size / 4, rel=0.05)
    assert first["prompt_tokens_details"]["cached_tokens"] == 0
    assert again["prompt_tokens_details"]["cached_tokens"] == again["prompt_tokens"]


@pytest.mark.parametrize("name", DIALECTS)
async def test_a_simulated_mind_can_play_any_of_them(name: str) -> None:
    dialect = DIALECTS[name]
    async with open_client(dialect.make(SimulatedModel().answer), dialect.model, **dialect.more) as client:
        messages: Messages = [SYSTEM, QUESTION]
        called: list[str] = []
        while "submit" not in called:
            messages = await client.step(messages)
            called += [one["function"]["name"] for one in messages[-2]["tool_calls"]]
    assert called[0] == "search"
    assert 2 <= len(called) <= 8


async def test_the_same_requests_get_the_same_replies() -> None:
    heard = []
    for _ in range(2):
        async with open_client(OpenRouterDouble(plan()), "google/gemini-3.1-pro-preview") as client:
            heard.append(await client.step(await client.begin()))
    assert heard[0] == heard[1]
    async with open_client(DeepSeekDouble(plan()), "deepseek-v4") as client:
        first, second = await client.begin(), await client.begin()
    assert first[2]["tool_calls"][0]["id"] != second[2]["tool_calls"][0]["id"]


# Rules of all providers


@pytest.mark.parametrize("name", STRICT)
async def test_a_call_without_its_result_is_refused(name: str) -> None:
    dialect = DIALECTS[name]
    async with open_client(dialect.make(plan()), dialect.model, **dialect.more) as client:
        messages = await client.begin()
        refused(client, await client.chat(messages[:-1]), "P-1")


@pytest.mark.parametrize("name", STRICT)
async def test_a_result_for_an_unknown_call_is_refused(name: str) -> None:
    dialect = DIALECTS[name]
    async with open_client(dialect.make(plan()), dialect.model, **dialect.more) as client:
        messages = await client.begin()
        refused(client, await client.chat(changed(messages, -1, tool_call_id="abcdefghi")), "P-1")


@pytest.mark.parametrize("name", STRICT)
async def test_calls_that_differ_from_those_given_are_refused(name: str) -> None:
    dialect = DIALECTS[name]
    two = reply_tool_calls(("search", {"query": "rain"}), ("search", {"query": "wind"}))
    async with open_client(dialect.make(two), dialect.model, **dialect.more) as client:
        messages = await client.begin()
        calls = messages[2]["tool_calls"]
        renamed = [{**one, "function": {**one["function"], "name": "submit"}} for one in calls]
        other = [{**calls[0], "id": calls[0]["id"][::-1]}, calls[1]]
        for altered in (renamed, other, calls[:1]):
            message = {**messages[2], "tool_calls": altered}
            refused(client, await client.chat([*messages[:2], message, *results(message)]), "P-2")
        assert (await client.chat(messages)).status_code == 200


BAD_TOOLS = {
    "a space": [{"type": "function", "function": {"name": "web search"}}],
    "too long": [{"type": "function", "function": {"name": "s" * 65}}],
    "too many": [{"type": "function", "function": {"name": f"tool_{number}"}} for number in range(129)],
    "twice": [TOOLS[0], TOOLS[0]],
}


@pytest.mark.parametrize("tools", BAD_TOOLS)
@pytest.mark.parametrize("name", STRICT)
async def test_odd_tools_are_refused(name: str, tools: str) -> None:
    dialect = DIALECTS[name]
    async with open_client(dialect.make(plan()), dialect.model, **dialect.more) as client:
        refused(client, await client.chat([QUESTION], tools=BAD_TOOLS[tools]), "P-3")


@pytest.mark.parametrize("name", STRICT)
async def test_a_choice_needs_the_tools_that_it_names(name: str) -> None:
    dialect = DIALECTS[name]
    async with open_client(dialect.make(plan()), dialect.model) as client:
        refused(client, await client.chat([QUESTION], tools=None, tool_choice="auto"), "P-4")
        unknown = {"type": "function", "function": {"name": "think"}}
        refused(client, await client.chat([QUESTION], tool_choice=unknown), "P-4")


async def test_an_unknown_field_is_refused_where_the_vendor_does() -> None:
    async with open_client(MistralDouble(plan()), "mistral-large-3") as client:
        body = refused(client, await client.chat([QUESTION], seed=1), "P-5", status=422)
        assert body["message"]["detail"][0]["type"] == "extra_forbidden"
    async with open_client(OpenAiDouble(plan()), "gpt-4.1") as client:
        assert (await client.chat([QUESTION], shoe_size=44)).status_code == 200


# "P-6": counted, not refused


async def test_a_changed_prefix_is_counted() -> None:
    async with open_client(GlmDouble(plan()), "glm-5.3") as client:
        messages = await client.begin()
        await client.chat(messages, tools=TOOLS[1:])
        assert (client.double.prefix_breaks, client.double.shared_prefixes) == (1, [0.0])
        await client.chat(changed(messages, 0, content="You are a poet."))
        assert client.double.prefix_breaks == 2
        assert 0.0 < client.double.shared_prefixes[1] < 1.0
        assert client.double.refusals == []


async def test_a_cache_mark_may_move() -> None:
    async with open_client(OpenRouterDouble(plan()), "anthropic/claude-opus-5.5") as client:
        marked = {"type": "text", "text": "Will it rain?", "cache_control": {"type": "ephemeral"}}
        bare = {"type": "text", "text": "Will it rain?"}
        messages = await client.step([{"role": "user", "content": [marked]}])
        assert (await client.chat(changed(messages, 0, content=[bare]))).status_code == 200
        assert (client.double.prefix_breaks, client.double.shared_prefixes) == (0, [1.0])


async def test_trials_of_one_question_are_told_apart() -> None:
    async with open_client(DeepSeekDouble(plan()), "deepseek-v4") as client:
        first, second = await client.begin(), await client.begin()
        first, second = await client.step(first), await client.step(second)
        await client.step(second)
        await client.step(first)
    assert (client.double.prefix_breaks, client.double.shared_prefixes) == (0, [1.0] * 4)
    assert [one.previous for one in client.double.requests] == [None, None, 1, 2, 4, 3]


async def test_an_answer_in_words_is_followed_by_a_reminder() -> None:
    async with open_client(
        KimiDouble([reply_text("Let me think."), reply_text("Still."), reply_text("Yes.")]), "kimi-k3"
    ) as client:
        messages = await client.step([QUESTION])
        messages = await client.step([*messages, {"role": "user", "content": "Call a tool."}])
        assert client.double.shared_prefixes == [1.0]
        rewritten = changed(messages, 1, content="Let me think")
        await client.step([*rewritten, {"role": "user", "content": "Call a tool."}])
    assert (client.double.altered_replies, client.double.prefix_breaks) == (1, 1)


async def test_an_altered_reply_is_counted_where_nothing_refuses_it() -> None:
    async with open_client(GlmDouble(plan()), "glm-5.3") as client:
        messages = await client.begin()
        await client.chat(changed(messages, 2, reasoning_content="shorter"))
        assert (client.double.altered_replies, client.double.refusals) == (1, [])


@pytest.mark.parametrize("name", ["gpt-4.1", "deepseek", "vllm", "openrouter-openai"])
async def test_a_prompt_beyond_the_window_is_refused(name: str) -> None:
    dialect = DIALECTS[name]
    long: Any = {"role": "user", "content": "x" * 4_100_000}
    async with open_client(dialect.make(plan()), dialect.model) as client:
        answer = await client.chat([long])
        refused(client, answer, "P-15")
        assert "context" in answer.text
