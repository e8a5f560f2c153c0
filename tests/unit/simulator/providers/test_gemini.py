"""The double of the Gemini API: what passes, what its replies tell of tokens, and its faults."""

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from bot.simulator.providers.chat_requests import ReplyOverride
from bot.simulator.providers.gemini import GeminiDouble
from bot.simulator.providers.gemini_rules import GEMINI_MODELS, SENTINEL
from bot.testing.model_server import (
    ScriptedReply,
    reply_cut_short,
    reply_json,
    reply_refusal,
    reply_text,
    reply_tool_calls,
)
from tests.unit.simulator.providers.gemini_client import (
    ANSWER,
    FUNCTIONS,
    QUERY,
    QUESTION,
    SYSTEM,
    RawGeminiClient,
    open_client,
    signatures,
)


@pytest.fixture
async def pro() -> AsyncIterator[RawGeminiClient]:
    """3.1 Pro: calls are signed and have no ids."""
    async with open_client("gemini-3.1-pro-preview") as client:
        yield client


@pytest.fixture
async def flash() -> AsyncIterator[RawGeminiClient]:
    """3.8 Flash: calls are signed and have ids."""
    async with open_client("gemini-3.8-flash") as client:
        yield client


@pytest.fixture
async def old() -> AsyncIterator[RawGeminiClient]:
    """2.5 Pro: signatures may be left out and ids are refused."""
    async with open_client("gemini-2.5-pro") as client:
        yield client


# What passes


@pytest.mark.parametrize("model", GEMINI_MODELS)
async def test_three_steps_and_an_answer_pass_on_every_model(model: str) -> None:
    async with open_client(model) as client:
        contents = await client.steps(4, toolConfig={"functionCallingConfig": {"mode": "VALIDATED"}})
        calls = [content["parts"][0]["functionCall"] for content in contents[1::2]]
        assert [one["name"] for one in calls] == ["search"] * 3 + ["submit"]
        assert all("id" in one for one in calls) == bool(GEMINI_MODELS[model].has_call_ids)
        given = [signature for content in contents[1::2] for signature in signatures(content)]
        assert len({*given}) == 4
        assert max(len(str(one)) for one in given) > 100
        assert (client.double.refusals, client.double.prefix_breaks, client.double.altered_replies) == ([], 0, 0)
        assert set(client.double.shared_prefixes) == {1.0}


@pytest.mark.parametrize("model", ["gemini-3.1-pro-preview", "gemini-4-argon"])
async def test_of_parallel_calls_the_first_is_signed_and_each_is_answered(model: str) -> None:
    both = reply_tool_calls(("search", {"query": "rain"}), ("search", {"query": "wind"}))
    async with open_client(model, [both, both, reply_text("Dry."), reply_text("Dry.")]) as client:
        contents = await client.steps(3)
        assert [bool(one) for one in signatures(contents[1])] == [True, False]
        assert [bool(one) for one in signatures(contents[-1])] == [False]
        final = await client.ask([*contents, {"role": "user", "parts": [{"text": "Sure?"}]}])
        assert [bool(one) for one in signatures(final.json()["candidates"][0]["content"])] == [True]


async def test_some_signatures_are_thousands_of_characters_long(flash: RawGeminiClient) -> None:
    contents = await flash.steps(4)
    sizes = [len(str(signatures(content)[0])) for content in contents[1::2]]
    assert len({*sizes}) > 1
    assert max(sizes) > 1000


async def test_both_spellings_of_fields_and_both_alphabets_of_signatures_are_taken(flash: RawGeminiClient) -> None:
    contents = await flash.steps(1)
    part = contents[1]["parts"][0]
    seal = base64.urlsafe_b64encode(base64.b64decode(part["thoughtSignature"])).decode()
    spoken = {"role": "model", "parts": [{"function_call": part["functionCall"], "thought_signature": seal}]}
    answer = {"role": "user", "parts": [{"function_response": contents[2]["parts"][0]["functionResponse"]}]}
    body: dict[str, Any] = {"tools": None, "systemInstruction": None, "system_instruction": SYSTEM}
    functions = [{"name": "search", "parameters": QUERY}, *FUNCTIONS[1:]]
    again = await flash.ask([QUESTION, spoken, answer], **{**body, "tools": [{"function_declarations": functions}]})
    assert (again.status_code, flash.double.altered_replies) == (200, 0)


async def test_foreign_calls_pass_with_the_sentinel(flash: RawGeminiClient, pro: RawGeminiClient) -> None:
    for client in (flash, pro):
        for signature in (SENTINEL, base64.b64encode(SENTINEL.encode()).decode()):
            spoken = {"functionCall": {"name": "search", "args": {"query": "x"}}, "thoughtSignature": signature}
            answer = {"functionResponse": {"name": "search", "response": {"content": "dry"}}}
            history = [QUESTION, {"role": "model", "parts": [spoken]}, {"role": "user", "parts": [answer]}]
            assert (await client.ask(history)).status_code == 200


async def test_scripts_read_a_request_in_common_form(pro: RawGeminiClient) -> None:
    contents = await pro.steps(1)
    allowed = {"mode": "ANY", "allowedFunctionNames": ["submit"]}
    await pro.ask(contents, toolConfig={"functionCallingConfig": allowed})
    asked = pro.double.asked[-1]
    assert [one["role"] for one in asked.messages] == ["system", "user", "assistant", "tool"]
    assert (asked.assistant_turns, list(asked.tools), "It stayed dry." in asked.outside_text()) == (1, ["submit"], True)
    assert asked.tools["submit"] == ANSWER
    config = {"responseMimeType": "application/json", "responseJsonSchema": ANSWER}
    await pro.ask([QUESTION], tools=None, generationConfig=config)
    assert pro.double.asked[-1].schema == ANSWER


async def test_thoughts_are_told_where_they_are_asked_for_and_counted_apart() -> None:
    async with open_client("gemini-3.1-pro-preview", reply_json({"p": 0.4})) as client:
        for include in (True, False):
            config = {"thinkingConfig": {"thinkingLevel": "high", "includeThoughts": include}}
            body = (await client.ask([QUESTION], generationConfig=config)).json()
            parts, usage = body["candidates"][0]["content"]["parts"], body["usageMetadata"]
            assert [part.get("thought", False) for part in parts] == [*([True] if include else []), False]
            assert usage["thoughtsTokenCount"] > 0
            counts = [usage[f"{name}TokenCount"] for name in ("prompt", "candidates", "thoughts")]
            assert usage["totalTokenCount"] == sum(counts)


async def test_a_long_beginning_is_read_from_the_cache(pro: RawGeminiClient, old: RawGeminiClient) -> None:
    for client in (pro, old):
        counts = []
        for _ in range(2):
            usage = (await client.ask([QUESTION])).json()["usageMetadata"]
            counts.append(usage.get("cachedContentTokenCount", 0))
        assert counts == [0, usage["promptTokenCount"]]
    usages = [(await pro.ask([QUESTION], systemInstruction=None)).json()["usageMetadata"] for _ in range(2)]
    assert not any("cachedContentTokenCount" in usage for usage in usages)


# Switches, and what is wrong with the request as a whole


async def test_switches_play_the_faults_of_the_service(pro: RawGeminiClient) -> None:
    faults: list[tuple[ReplyOverride, int, str, str | None, str]] = [
        (ReplyOverride.OVERLOADED, 503, "UNAVAILABLE", None, ""),
        (ReplyOverride.RATE_LIMITED, 429, "RESOURCE_EXHAUSTED", "34.4s", "PerMinute"),
        (ReplyOverride.RATE_LIMITED_SILENT, 429, "RESOURCE_EXHAUSTED", None, ""),
        (ReplyOverride.QUOTA_EXHAUSTED, 429, "RESOURCE_EXHAUSTED", "34.4s", "PerDay"),
    ]
    pro.double.override_next(*(one[0] for one in faults))
    for _, status, name, wait, quota in faults:
        answer = await pro.ask([QUESTION])
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["status"]) == (status, status, name), "P-34"
        waits = [one["retryDelay"] for one in error.get("details", ()) if one["@type"].endswith("RetryInfo")]
        assert (waits, quota in json.dumps(error)) == ([wait] if wait else [], True)
        assert "retry-after" not in answer.headers
    assert (await pro.ask([QUESTION])).status_code == 200


async def test_switches_play_the_odd_ends_of_a_reply(pro: RawGeminiClient) -> None:
    ends = {
        ReplyOverride.MALFORMED_CALL: "MALFORMED_FUNCTION_CALL",
        ReplyOverride.EMPTY_LENGTH: "MAX_TOKENS",
        ReplyOverride.SAFETY: "SAFETY",
        ReplyOverride.REFUSAL: "PROHIBITED_CONTENT",
    }
    pro.double.override_next(*ends, ReplyOverride.BLOCKED_PROMPT)
    for finish in ends.values():
        candidate = (await pro.ask([QUESTION])).json()["candidates"][0]
        assert (candidate["finishReason"], candidate["content"]) == (finish, {"role": "model"})
    blocked = (await pro.ask([QUESTION])).json()
    assert (blocked["promptFeedback"]["blockReason"], "candidates" in blocked) == ("PROHIBITED_CONTENT", False)


async def test_scripted_ends_have_the_words_of_the_service() -> None:
    replies = [
        reply_refusal("No."),
        reply_cut_short("It will"),
        reply_text("Dry."),
        ScriptedReply(calls=(("search", '{"query": "ra'),)),
    ]
    async with open_client("gemini-3.1-pro-preview", replies) as client:
        ends = [(await client.ask([QUESTION])).json()["candidates"][0]["finishReason"] for _ in replies]
    assert ends == ["PROHIBITED_CONTENT", "MAX_TOKENS", "STOP", "MALFORMED_FUNCTION_CALL"]


async def test_a_request_names_a_model_that_exists_and_a_key() -> None:
    async with GeminiDouble(reply_text("Dry."), key="k") as double, httpx.AsyncClient(trust_env=False) as client:
        tried: list[tuple[str, dict[str, str], int, str]] = [
            ("gemini-3.1-pro-preview", {}, 403, "PERMISSION_DENIED"),
            ("gemini-3.1-pro-preview", {"x-goog-api-key": "wrong"}, 400, "INVALID_ARGUMENT"),
            ("gemini-9", {"x-goog-api-key": "k"}, 404, "NOT_FOUND"),
        ]
        for model, headers, status, name in tried:
            url = f"{double.base_url}/models/{model}:generateContent"
            answer = await client.post(url, json={"contents": [QUESTION]}, headers=headers)
            assert (answer.status_code, answer.json()["error"]["status"]) == (status, name)
        url = f"{double.address}/v1/models/gemini-3.1-pro-preview:generateContent"
        assert (await client.post(url, params={"key": "k"}, json={"contents": [QUESTION]})).status_code == 200


async def test_the_same_requests_have_the_same_replies() -> None:
    async def transcript() -> str:
        async with open_client("gemini-4-argon") as client:
            return json.dumps(await client.steps(3))

    assert await transcript() == await transcript()
