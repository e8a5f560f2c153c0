"""What single vendors refuse in chat completions, each rule broken on purpose."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from bot.simulator.providers.chat_requests import ReplyOverride
from bot.simulator.providers.chat_vendors import (
    DeepSeekDouble,
    GlmDouble,
    GrokDouble,
    KimiDouble,
    MistralDouble,
    QwenDouble,
)
from bot.simulator.providers.local_servers import LlamaCppDouble, LmStudioDouble, OllamaDouble, VllmDouble
from bot.simulator.providers.model_gateways import SENTINEL, GeminiCompatDouble, OpenRouterDouble
from bot.testing.model_server import reply_text, reply_tool_calls
from tests.unit.simulator.providers.chat_client import (
    FORCED,
    QUESTION,
    SYSTEM,
    TOOLS,
    Messages,
    RawChatClient,
    changed,
    open_client,
    plan,
    refused,
)

CHOICES: list[Any] = ["required", FORCED]
ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [FORCED]}}

# DeepSeek, Kimi, Qwen, GLM


@pytest.fixture
async def deepseek() -> AsyncIterator[RawChatClient]:
    async with open_client(DeepSeekDouble(plan()), "deepseek-v4-pro") as client:
        yield client


@pytest.mark.parametrize("lost", [None, ""])
async def test_deepseek_wants_what_it_thought_with_every_call(deepseek: RawChatClient, lost: str | None) -> None:
    messages = await deepseek.begin()
    later = [*messages, {"role": "assistant", "content": "Dry."}, {"role": "user", "content": "Sure?"}]
    for history in (messages, later):
        answer = await deepseek.chat(changed(history, 2, reasoning_content=lost))
        error = refused(
            deepseek, answer, "P-36", type="invalid_request_error", code="invalid_request_error", param=None
        )
        assert error["error"]["message"].endswith("must be passed back to the API.")
    assert (await deepseek.chat(changed(messages, 2, reasoning_content=" "))).status_code == 200


@pytest.mark.parametrize("choice", [*CHOICES, ALLOWED])
async def test_deepseek_takes_no_forced_choice_while_it_thinks(deepseek: RawChatClient, choice: Any) -> None:
    answer = await deepseek.chat([QUESTION], tool_choice=choice)
    refused(deepseek, answer, "P-37", type="invalid_request_error")
    for free in ("auto", "none"):
        assert (await deepseek.chat([QUESTION], tool_choice=free)).status_code == 200
    off = await deepseek.chat([QUESTION], tool_choice=choice, thinking={"type": "disabled"})
    assert "reasoning_content" not in off.json()["choices"][0]["message"]


async def test_deepseek_tells_what_its_cache_held(deepseek: RawChatClient) -> None:
    await deepseek.chat([QUESTION])
    usage = (await deepseek.chat([QUESTION, {"role": "user", "content": "Well?"}])).json()["usage"]
    assert usage["prompt_cache_hit_tokens"] > usage["prompt_cache_miss_tokens"] > 0
    assert usage["completion_tokens_details"]["reasoning_tokens"] > 0


async def test_kimi_says_the_same_in_its_own_words() -> None:
    async with open_client(KimiDouble(plan()), "kimi-k3") as client:
        messages = await client.begin()
        body = refused(client, await client.chat(changed(messages, 2, reasoning_content=None)), "P-38")
        assert set(body["error"]) == {"message", "type"}
        assert body["error"]["message"].endswith("at index 2")
        for more in (
            {"tool_choice": "required"},
            {"temperature": 0.3},
            {"thinking": {"type": "disabled"}},
            {"thinking": {"type": "enabled"}, "reasoning_effort": "high"},
        ):
            refused(client, await client.chat([QUESTION], **more), "P-38", type="invalid_request_error")
        off: dict[str, Any] = {"thinking": {"type": "disabled"}, "tool_choice": "required"}
        assert (await client.chat([QUESTION], model="kimi-k2.6", **off)).status_code == 200


async def test_qwen_takes_no_forced_choice_while_it_thinks() -> None:
    async with open_client(QwenDouble(plan()), "qwen4-max") as client:
        for choice in CHOICES:
            answer = await client.chat([QUESTION], tool_choice=choice)
            refused(client, answer, "P-39", type="invalid_request_error", code="invalid_parameter_error", param=None)
        assert (await client.chat([QUESTION], tool_choice="required", enable_thinking=False)).status_code == 200
        messages = await client.begin()
        assert (await client.chat(changed(messages, 2, reasoning_content=None))).status_code == 200


async def test_glm_takes_no_choice_but_auto() -> None:
    async with open_client(GlmDouble(plan()), "glm-4.7") as client:
        for choice in (*CHOICES, "none"):
            refused(
                client, await client.chat([QUESTION], tool_choice=choice), "P-40", message="Tool choice must be auto"
            )
        assert (await client.chat([QUESTION], tool_choice="auto")).status_code == 200


# xAI


@pytest.mark.parametrize(
    ("model", "more"),
    [
        ("grok-4.6", {"stop": ["."]}),
        ("grok-4.6", {"presence_penalty": 0.1}),
        ("grok-4.6", {"frequency_penalty": 0.1}),
        ("grok-4.5", {"reasoning_effort": "none"}),
        ("grok-4.5", {"reasoning_effort": "xhigh"}),
        ("grok-4.20-0309-non-reasoning", {"reasoning_effort": "low"}),
    ],
)
async def test_grok_refuses_what_a_model_does_not_take(model: str, more: dict[str, Any]) -> None:
    async with open_client(GrokDouble(plan()), model) as client:
        body = refused(client, await client.chat([QUESTION], **more), "P-41")
        assert (body["code"], type(body["error"])) == ("Client specified an invalid argument", str)
        if "reasoning_effort" in more:
            answer = await client.items([QUESTION], reasoning={"effort": more["reasoning_effort"]})
            refused(client, answer, "P-41")
        assert (await client.chat([QUESTION])).status_code == 200


async def test_grok_counts_what_it_thought_apart_and_tells_the_cost() -> None:
    async with open_client(GrokDouble(plan()), "grok-4.6") as client:
        answer = (await client.chat([QUESTION])).json()
    usage = answer["usage"]
    reasoned = usage["completion_tokens_details"]["reasoning_tokens"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] + reasoned
    assert usage["cost_in_usd_ticks"] > 0
    assert "reasoning_content" not in answer["choices"][0]["message"]


# Mistral


@pytest.mark.parametrize("call_id", ["call_0001", "abc", "abcdefghij"])
async def test_mistral_takes_ids_of_nine_characters(call_id: str) -> None:
    called = {"id": call_id, "type": "function", "function": {"name": "search", "arguments": "{}"}}
    messages = [
        QUESTION,
        {"role": "assistant", "content": "", "tool_calls": [called]},
        {"role": "tool", "tool_call_id": call_id, "content": "dry"},
    ]
    async with open_client(MistralDouble(plan()), "mistral-large-3") as client:
        body = refused(
            client, await client.chat(messages), "P-42", type="invalid_function_call", code="3280", param=None
        )
        assert body["object"] == "error"


async def test_mistral_takes_no_user_after_a_tool_and_no_foreign_fields() -> None:
    async with open_client(MistralDouble(plan()), "mistral-medium-3-5", reasoning_effort="high") as client:
        messages = await client.begin()
        assert [part["type"] for part in messages[2]["content"]] == ["thinking"]
        refused(client, await client.chat([*messages, QUESTION]), "P-42", type="invalid_request_message_order")
        answer = await client.chat(changed(messages, 2, reasoning_content="dry"))
        body = refused(client, answer, "P-42", status=422)
        assert body["message"]["detail"][0]["loc"] == ["body", "messages", 2, "assistant", "reasoning_content"]
        refused(client, await client.chat([QUESTION], reasoning_effort="low"), "P-42", status=422)
        refused(client, await client.chat([QUESTION], model="mistral-large-3"), "P-42", status=422)
        empty: Messages = [{"role": "assistant", "content": ""}]
        refused(client, await client.chat([QUESTION, *empty, QUESTION]), "P-42")


# OpenRouter


@pytest.mark.parametrize("model", ["google/gemini-3.1-pro-preview", "anthropic/claude-opus-5.5", "openai/gpt-6-sol"])
async def test_openrouter_wants_its_reasoning_back_unchanged(model: str) -> None:
    async with open_client(OpenRouterDouble(plan()), model) as client:
        messages = await client.begin()
        details = messages[2]["reasoning_details"]
        altered = [{**one, **{key: "x" for key in ("signature", "data") if key in one}} for one in details]
        raws = set()
        for sent in (None, [], altered, details[:-1] or None, [*reversed(details), *details]):
            body = refused(client, await client.chat(changed(messages, 2, reasoning_details=sent)), "P-43", code=400)
            assert body["error"]["message"] == "Provider returned error"
            raws.add(json.loads(body["error"]["metadata"]["raw"])["error"]["message"])
        assert len(raws) == 2
        assert (await client.chat(messages)).status_code == 200


async def test_openrouter_lets_unsigned_reasoning_go() -> None:
    async with open_client(OpenRouterDouble(plan()), "deepseek/deepseek-v4-pro") as client:
        messages = await client.begin()
        assert (await client.chat(changed(messages, 2, reasoning_details=None))).status_code == 200


async def test_openrouter_passes_on_that_a_choice_cannot_be_forced() -> None:
    async with open_client(OpenRouterDouble(plan()), "z-ai/glm-5.3") as client:
        body = refused(client, await client.chat([QUESTION], tool_choice="required"), "P-43")
        assert "Tool choice must be auto" in body["error"]["metadata"]["raw"]
        claude = await client.chat([QUESTION], tool_choice="required", model="anthropic/claude-opus-5.5")
        assert "reasoning_details" not in claude.json()["choices"][0]["message"]
        unknown = await client.chat([QUESTION], model="gpt-6-sol")
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (400, 400)


@pytest.mark.parametrize(
    ("switch", "status", "code"),
    [
        (ReplyOverride.OVERLOADED, 503, 503),
        (ReplyOverride.RATE_LIMITED, 429, 429),
        (ReplyOverride.QUOTA_EXHAUSTED, 402, 402),
        (ReplyOverride.ERROR_IN_BODY, 200, 502),
        (ReplyOverride.ERROR_IN_STREAM, 200, 502),
    ],
)
async def test_openrouter_fails_in_many_ways(switch: ReplyOverride, status: int, code: int) -> None:
    async with open_client(OpenRouterDouble(plan()), "openai/gpt-6-sol") as client:
        client.double.override_next(switch)
        answer = await client.chat([QUESTION])
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
        assert (await client.chat([QUESTION])).json()["usage"]["cost"] > 0


async def test_openrouter_may_fail_in_a_choice_or_in_the_midst_of_a_stream() -> None:
    async with open_client(OpenRouterDouble(plan()), "openai/gpt-6-sol") as client:
        client.double.override_next(ReplyOverride.ERROR_IN_CHOICE, ReplyOverride.ERROR_IN_STREAM)
        (choice,) = (await client.chat([QUESTION])).json()["choices"]
        assert (choice["finish_reason"], choice["error"]["code"]) == ("error", 502)
        streamed = await client.chat([QUESTION], stream=True)
    events = [json.loads(line.removeprefix("data: ")) for line in streamed.text.split("\n\n")[:2]]
    assert [("error" in one, one["choices"][0]["finish_reason"]) for one in events] == [(False, None), (True, "error")]


# Gemini behind chat completions


async def test_gemini_wants_the_signature_of_each_step_back() -> None:
    async with open_client(GeminiCompatDouble(plan()), "gemini-3.1-pro-preview") as client:
        messages = await client.step(await client.begin())
        for at in (2, 4):
            (called,) = messages[at]["tool_calls"]
            bare = {name: value for name, value in called.items() if name != "extra_content"}
            body = refused(client, await client.chat(changed(messages, at, tool_calls=[bare])), "P-35", code=400)
            assert body["error"]["status"] == "INVALID_ARGUMENT"
            other = {**called, "extra_content": messages[6 - at]["tool_calls"][0]["extra_content"]}
            body = refused(client, await client.chat(changed(messages, at, tool_calls=[other])), "P-35")
            assert "Corrupted" in body["error"]["message"]
            escaped = {**called, "extra_content": {"google": {"thought_signature": SENTINEL}}}
            assert (await client.chat(changed(messages, at, tool_calls=[escaped]))).status_code == 200


async def test_gemini_looks_at_signatures_since_the_last_word_of_the_user() -> None:
    async with open_client(GeminiCompatDouble(plan()), "gemini-3.1-pro-preview") as client:
        messages = await client.begin()
        (called,) = messages[2]["tool_calls"]
        del called["extra_content"]
        earlier = [*messages, {"role": "assistant", "content": "Dry."}, QUESTION]
        assert (await client.chat(earlier)).status_code == 200
        refused(client, await client.chat(messages), "P-35")


async def test_gemini_signs_the_first_of_parallel_calls_and_older_models_sign_none() -> None:
    two = reply_tool_calls(("search", {"query": "rain"}), ("search", {"query": "wind"}))
    async with open_client(GeminiCompatDouble(two), "gemini-3.1-pro-preview") as client:
        messages = await client.begin()
        assert ["extra_content" in one for one in messages[2]["tool_calls"]] == [True, False]
        await client.step(messages)
        older = await client.begin(model="gemini-2.5-pro")
        assert "extra_content" not in older[2]["tool_calls"][0]
        await client.step(older, model="gemini-2.5-pro")


# Servers of one's own


async def test_lm_studio_takes_choices_that_are_words() -> None:
    async with open_client(LmStudioDouble(plan()), "local") as client:
        body = refused(client, await client.chat([QUESTION], tool_choice=FORCED), "P-44")
        assert body["error"].startswith("Invalid tool_choice type: 'object'")
        assert (await client.chat([QUESTION], tool_choice="required")).status_code == 200


async def test_vllm_without_a_parser_cannot_choose() -> None:
    async with open_client(VllmDouble(plan(), parser=False), "local") as client:
        for choice in ("auto", None):
            answer = await client.chat([QUESTION], tool_choice=choice)
            refused(client, answer, "P-45", type="BadRequestError", code=400)
        for free in ("required", "none", FORCED):
            assert (await client.chat([QUESTION], tool_choice=free)).status_code == 200
        assert (await client.chat([QUESTION], tools=None)).status_code == 200
    async with open_client(VllmDouble(plan()), "local") as client:
        assert (await client.chat([QUESTION], tool_choice="auto")).status_code == 200


async def test_llama_cpp_says_how_large_prompt_and_context_are() -> None:
    async with open_client(LlamaCppDouble(plan(), window=1000), "local") as client:
        answer = await client.chat([{"role": "user", "content": "x" * 8000}])
        body = refused(client, answer, "P-46", type="exceed_context_size_error", n_ctx=1000)
        assert body["error"]["n_prompt_tokens"] > 2000
        props = (await client.client.get(f"{client.double.address}/props")).json()
        assert props["default_generation_settings"]["n_ctx"] == 1000


async def test_ollama_cuts_a_long_prompt_without_a_word() -> None:
    async with open_client(OllamaDouble(plan(), window=1000), "local") as client:
        short = (await client.chat([SYSTEM, QUESTION], tool_choice=FORCED)).json()
        assert short["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "search"
        long = {"role": "user", "content": "x" * 8000}
        answer = await client.chat([SYSTEM, QUESTION, long])
        usage, message = answer.json()["usage"], answer.json()["choices"][0]["message"]
        assert (answer.status_code, usage["prompt_tokens"]) == (200, 500)
        assert message.get("tool_calls") is None
        assert [one["role"] for one in client.double.asked[-1].messages] == ["user"]
        assert len(client.double.asked[-1].messages[0]["content"]) == 2000
        # "P-47": nothing is refused, whatever it is.
        odd = [{"role": "tool", "tool_call_id": "none", "content": "dry"}]
        assert (await client.chat(odd, tools=[TOOLS[0], TOOLS[0]])).status_code == 200
    assert client.double.refusals == []


# What all of them share


async def test_switches_meet_one_request_each() -> None:
    async with open_client(DeepSeekDouble(plan()), "deepseek-v4") as client:
        switches = (
            ReplyOverride.OVERLOADED,
            ReplyOverride.RATE_LIMITED,
            ReplyOverride.RATE_LIMITED_SILENT,
            ReplyOverride.QUOTA_EXHAUSTED,
        )
        client.double.override_next(*switches)
        answers = [await client.chat([QUESTION]) for _ in range(5)]
    assert [one.status_code for one in answers] == [503, 429, 429, 429, 200]
    assert ["retry-after" in one.headers for one in answers] == [False, True, False, False, False]
    assert [one.json()["error"]["type"] for one in answers[1:4]] == ["requests", "requests", "insufficient_quota"]
    assert len(client.double.asked) == 1


async def test_switches_spoil_one_reply_each() -> None:
    async with open_client(DeepSeekDouble(plan()), "deepseek-v4") as client:
        client.double.override_next(ReplyOverride.REFUSAL, ReplyOverride.EMPTY_LENGTH, ReplyOverride.MALFORMED_CALL)
        refusal, empty, malformed = [(await client.chat([QUESTION])).json()["choices"][0] for _ in range(3)]
    assert refusal["message"]["refusal"]
    assert (empty["finish_reason"], empty["message"]["content"]) == ("length", None)
    with pytest.raises(ValueError, match="Expecting"):
        json.loads(malformed["message"]["tool_calls"][0]["function"]["arguments"])


async def test_a_switch_that_a_provider_does_not_know_is_a_fault_of_the_test() -> None:
    double = await DeepSeekDouble(reply_text("x")).__aenter__()
    double.override_next(ReplyOverride.PAUSE)
    async with httpx.AsyncClient(trust_env=False) as http:
        client = RawChatClient(double=double, client=http, model="deepseek-v4")
        with pytest.raises(httpx.RemoteProtocolError):
            await client.chat([QUESTION])
    with pytest.raises(ExceptionGroup) as caught:
        await double.__aexit__(None, None, None)
    assert "has no reply for the switch PAUSE" in str(caught.value.exceptions[0])


async def test_keys_models_and_paths_are_checked() -> None:
    async with open_client(DeepSeekDouble(plan(), key="sk-one"), "deepseek-v4") as client:
        assert (await client.chat([QUESTION])).status_code == 401
        client.client.headers["Authorization"] = "Bearer sk-one"
        assert (await client.chat([QUESTION], model="deepseek-v9")).status_code == 404
        assert (await client.post("/completions", {})).status_code == 404
        listed = (await client.client.get(f"{client.double.base_url}/models")).json()
        assert "deepseek-v4" in [one["id"] for one in listed["data"]]


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"{}",
        b'{"model": "deepseek-v4"}',
        b'{"model": "deepseek-v4", "messages": []}',
        b'{"model": "deepseek-v4", "messages": [{"role": "priest", "content": "x"}]}',
        b'{"model": "deepseek-v4", "messages": [{"role": "user", "content": 5}]}',
        b'{"model": "deepseek-v4", "messages": [{"role": "assistant", "tool_calls": ["x"]}]}',
        b'{"model": "deepseek-v4", "messages": [{"role": "user", "content": "x"}], "tools": ["x"]}',
    ],
)
async def test_what_is_no_request_is_refused_in_the_form_of_the_vendor(deepseek: RawChatClient, body: bytes) -> None:
    answer = await deepseek.client.post(f"{deepseek.double.base_url}/chat/completions", content=body)
    assert answer.status_code == 400
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
