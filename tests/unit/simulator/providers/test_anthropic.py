"""The double of Anthropic's Messages API: what passes, what its replies tell of tokens, and its faults."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from bot.simulator.providers.anthropic import AnthropicDouble
from bot.simulator.providers.anthropic_rules import CLAUDE_MODELS
from bot.simulator.providers.chat_requests import ReplyOverride
from bot.testing.model_server import ScriptedReply, reply_cut_short, reply_refusal, reply_text, reply_tool_calls
from tests.unit.simulator.providers.messages_client import (
    ADAPTIVE,
    ANSWER,
    DISABLED,
    EPHEMERAL,
    MANUAL,
    QUESTION,
    SHAPES,
    SYSTEM,
    TOOLS,
    RawMessagesClient,
    kinds,
    open_client,
    results,
    spoken,
)


@pytest.fixture
async def opus() -> AsyncIterator[RawMessagesClient]:
    """Opus 5: thinks where nothing is said, and its thoughts are bound to nothing."""
    async with open_client("claude-opus-5") as client:
        yield client


@pytest.fixture
async def haiku() -> AsyncIterator[RawMessagesClient]:
    """Haiku 4.5: thinks only with a budget."""
    async with open_client("claude-haiku-4-5-20251001") as client:
        yield client


# What passes


@pytest.mark.parametrize("model", CLAUDE_MODELS)
async def test_three_steps_and_an_answer_pass_on_every_model_in_each_of_its_modes(model: str) -> None:
    modes = {"adaptive": ADAPTIVE, "enabled": MANUAL, "disabled": DISABLED}
    for thinking in (None, *(modes[mode] for mode in CLAUDE_MODELS[model].modes)):
        async with open_client(model, thinking=thinking) as client:
            messages = await client.steps(4)
            shapes = [kinds(one) for one in messages[1::2]]
            assert shapes == (SHAPES if "thinking" in shapes[0] else [["tool_use"]] * 4)
            assert (client.double.refusals, client.double.prefix_breaks, client.double.altered_replies) == ([], 0, 0)
            assert set(client.double.shared_prefixes) == {1.0}


async def test_all_calls_of_a_reply_come_back_and_each_is_answered() -> None:
    both = reply_tool_calls(("search", {"query": "rain"}), ("search", {"query": "wind"}))
    async with open_client("claude-opus-5", [both, reply_text("Dry.")]) as client:
        messages = await client.steps(2)
        assert kinds(messages[1]) == ["thinking", "tool_use", "tool_use"]
        single = await client.ask([QUESTION], tool_choice={"type": "auto", "disable_parallel_tool_use": True})
        assert kinds(spoken(single)) == ["thinking", "text"]
    async with open_client("claude-opus-5", both) as client:
        single = await client.ask([QUESTION], tool_choice={"type": "auto", "disable_parallel_tool_use": True})
        assert kinds(spoken(single)) == ["thinking", "tool_use"]


async def test_thinking_is_shown_where_it_is_asked_for_and_on_older_models() -> None:
    for model, thinking, shown in (
        ("claude-opus-5", None, False),
        ("claude-opus-5", {**ADAPTIVE, "display": "summarized"}, True),
        ("claude-sonnet-4-6", ADAPTIVE, True),
        ("claude-sonnet-4-6", {**ADAPTIVE, "display": "omitted"}, False),
    ):
        async with open_client(model, reply_text("Dry."), thinking=thinking) as client:
            block = (await client.ask([QUESTION])).json()["content"][0]
            assert (block["type"], bool(block["thinking"]), len(block["signature"]) > 100) == ("thinking", shown, True)


async def test_scripts_read_a_request_in_common_form(opus: RawMessagesClient) -> None:
    schema = {**ANSWER, "additionalProperties": False}
    messages = await opus.steps(1)
    await opus.ask(messages, tool_choice={"type": "tool", "name": "submit"}, thinking=DISABLED)
    asked = opus.double.asked[-1]
    assert [one["role"] for one in asked.messages] == ["system", "user", "assistant", "tool"]
    assert (asked.assistant_turns, list(asked.tools), asked.outside_text()) == (
        1,
        ["submit"],
        f"{QUESTION['content']}\nIt stayed dry.",
    )
    await opus.ask([QUESTION], tools=None, output_config={"format": {"type": "json_schema", "schema": schema}})
    assert opus.double.asked[-1].schema == schema


async def test_arguments_that_are_no_object_go_out_as_an_object() -> None:
    async with open_client("claude-opus-5", ScriptedReply(calls=(("search", '{"query": "ra'),))) as client:
        assert (await client.ask([QUESTION])).json()["content"][-1]["input"] == {"INVALID_JSON": '{"query": "ra'}


# What a reply tells of its tokens


async def test_a_cache_is_written_at_marks_and_read_by_what_begins_alike(opus: RawMessagesClient) -> None:
    system = [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    first, second, third = [
        (await opus.ask([QUESTION], system=system, tools=tools, cache_control=EPHEMERAL)).json()["usage"]
        for tools in (TOOLS, TOOLS, TOOLS[:1])
    ]
    whole = first["cache_creation_input_tokens"]
    assert whole > 2000
    assert (first["input_tokens"], first["cache_read_input_tokens"]) == (0, 0)
    assert (
        first["cache_creation"]["ephemeral_1h_input_tokens"] > first["cache_creation"]["ephemeral_5m_input_tokens"] > 0
    )
    assert (second["cache_creation_input_tokens"], second["cache_read_input_tokens"]) == (0, whole)
    assert (third["cache_read_input_tokens"], third["cache_creation_input_tokens"] > 2000) == (0, True)


async def test_what_is_read_grows_with_the_conversation(opus: RawMessagesClient) -> None:
    messages, usages = [QUESTION], []
    for _ in range(3):
        answer = await opus.ask(messages, cache_control=EPHEMERAL)
        usages.append(answer.json()["usage"])
        messages = [*messages, spoken(answer), *results(answer.json()["content"])]
    read = [one["cache_read_input_tokens"] for one in usages]
    created = [one["cache_creation_input_tokens"] for one in usages]
    assert read == [0, created[0], created[0] + created[1]]
    assert all(one["input_tokens"] == 0 < one["output_tokens"] for one in usages)
    assert all(one["output_tokens_details"]["thinking_tokens"] > 0 for one in usages)


async def test_a_change_of_thinking_or_choice_keeps_only_tools_and_system_in_the_cache(opus: RawMessagesClient) -> None:
    system = [{"type": "text", "text": SYSTEM, "cache_control": EPHEMERAL}]
    more: list[dict[str, Any]] = [{}, {"thinking": DISABLED}, {"tool_choice": {"type": "none"}}]
    reads = [
        (await opus.ask([QUESTION], system=system, cache_control=EPHEMERAL, **one)).json()["usage"][
            "cache_read_input_tokens"
        ]
        for one in more
    ]
    assert reads[0] == 0 < reads[1] == reads[2]


async def test_without_a_mark_or_under_the_minimum_nothing_is_cached(
    opus: RawMessagesClient, haiku: RawMessagesClient
) -> None:
    for client, mark in ((opus, None), (opus, None), (haiku, EPHEMERAL), (haiku, EPHEMERAL)):
        usage = (await client.ask([QUESTION], cache_control=mark)).json()["usage"]
        assert (usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]) == (0, 0)
        assert usage["input_tokens"] > 2000


# Switches, and what is wrong with the request as a whole


async def test_switches_play_the_faults_of_the_service(opus: RawMessagesClient) -> None:
    faults: list[tuple[ReplyOverride, int, str, str | None, str | None]] = [
        (ReplyOverride.OVERLOADED, 529, "overloaded_error", None, None),
        (ReplyOverride.RATE_LIMITED, 429, "rate_limit_error", "7", None),
        (ReplyOverride.RATE_LIMITED_SILENT, 429, "rate_limit_error", None, None),
        (ReplyOverride.QUOTA_EXHAUSTED, 429, "rate_limit_error", None, "enforced_spend_limit_reached"),
    ]
    opus.double.override_next(*(one[0] for one in faults))
    for _, status, kind, wait, code in faults:
        answer = await opus.ask([QUESTION])
        error = answer.json()["error"]
        assert (answer.status_code, error["type"], answer.headers.get("retry-after")) == (status, kind, wait), "P-26"
        assert (error.get("details") or {}).get("error_code") == code
    assert (await opus.ask([QUESTION])).status_code == 200


async def test_switches_play_the_odd_ends_of_a_reply(opus: RawMessagesClient) -> None:
    opus.double.override_next(ReplyOverride.REFUSAL, ReplyOverride.EMPTY_LENGTH, ReplyOverride.PAUSE)
    refusal, empty, paused = [(await opus.ask([QUESTION])).json() for _ in range(3)]
    assert (refusal["stop_reason"], refusal["content"], refusal["stop_details"]["type"]) == ("refusal", [], "refusal")
    assert (empty["stop_reason"], kinds(empty)) == ("max_tokens", ["thinking"])
    assert (paused["stop_reason"], kinds(paused)) == ("pause_turn", ["thinking", "text"])
    longer = await opus.step([QUESTION, {"role": "assistant", "content": paused["content"]}])
    assert [one["role"] for one in longer] == ["user", "assistant", "assistant", "user"]
    assert (await opus.ask(longer)).status_code == 200


async def test_scripted_ends_have_the_words_of_the_service() -> None:
    replies = [reply_refusal("No."), reply_cut_short("It will"), reply_text("Dry.")]
    async with open_client("claude-opus-5", replies) as client:
        stops = [(await client.ask([QUESTION])).json()["stop_reason"] for _ in replies]
    assert stops == ["refusal", "max_tokens", "end_turn"]


async def test_a_request_names_a_model_that_exists_a_version_and_a_key() -> None:
    async with AnthropicDouble(reply_text("Dry."), key="k") as double, httpx.AsyncClient(trust_env=False) as client:
        url, body = f"{double.base_url}/v1/messages", {"model": "claude-9", "max_tokens": 9, "messages": [QUESTION]}
        version = {"anthropic-version": "2023-06-01"}
        tried: list[tuple[dict[str, str], int, str]] = [
            (version, 401, "authentication_error"),
            ({"x-api-key": "k"}, 400, "invalid_request_error"),
            ({"x-api-key": "k", **version}, 404, "not_found_error"),
        ]
        for headers, status, kind in tried:
            answer = await client.post(url, json=body, headers=headers)
            assert (answer.status_code, answer.json()["error"]["type"]) == (status, kind)


async def test_the_same_requests_have_the_same_replies() -> None:
    async def transcript() -> str:
        async with open_client("claude-opus-5") as client:
            return json.dumps(await client.steps(3))

    assert await transcript() == await transcript()
