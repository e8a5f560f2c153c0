"""Chat completions and their dialects: documented requests, messages that go back as they came, what replies mean."""

import json
from typing import Any

import pytest
from openai.types.chat import completion_create_params
from pydantic import TypeAdapter

from bot.core.beliefs import ModelUsage
from bot.core.errors import ConfigError, ContextLengthExceededError
from bot.core.language_models import FinishReason, ModelCompletion
from plugins.models._profiles import ModelProfile
from plugins.models._wire_chat import chat_body, read_chat, require_complete_prompt
from tests.plugins.models.wire_calls import (
    QUESTION,
    SCHEMA,
    SEARCH,
    SUBMIT,
    SYSTEM,
    as_sent,
    foreign,
    reply_of,
    results,
    spoken,
    tool_result,
    user,
    wire_call,
)

DEEPSEEK = "deepseek/deepseek-v4-pro"
KIMI = "moonshot/kimi-k3"
MISTRAL = "mistral/mistral-medium-3-5"
ROUTED = "openrouter/anthropic/claude-opus-5.5"
USAGE = {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105}


def called(given: str, arguments: str = '{"q":  "x"}', **more: Any) -> dict[str, Any]:
    return {"id": given, "type": "function", "function": {"name": "search", "arguments": arguments}, **more}


def reply(message: Any, finish: str = "tool_calls", **more: Any) -> bytes:
    return reply_of({"choices": [{"message": message, "finish_reason": finish}], "usage": USAGE, **more})


def read(model: str, message: Any, finish: str = "tool_calls", **more: Any) -> ModelCompletion:
    return read_chat(reply(message, finish, **more), wire_call(model, tools=(SEARCH,))).completion


def body_of(model: str, *messages: Any, **more: Any) -> dict[str, Any]:
    body: dict[str, Any] = as_sent(chat_body(wire_call(model, *messages, **more)))
    return body


def test_the_second_request_to_deepseek_is_the_documented_one() -> None:
    # Source: DeepSeek, "Thinking mode", tool calls.
    message = {"role": "assistant", "content": "", "reasoning_content": "as received", "tool_calls": [called("call_0")]}
    answer = read(DEEPSEEK, message)
    body = body_of(DEEPSEEK, QUESTION, spoken(answer), *results(answer), tools=(SEARCH,), effort="high", seed=4)
    assert body["messages"] == [
        {"role": "user", "content": "Q"},
        message,
        {"role": "tool", "tool_call_id": "call_0", "content": "..."},
    ]
    assert body["tool_choice"] == "auto"
    assert (body["thinking"], body["reasoning_effort"]) == ({"type": "enabled"}, "high")
    assert not body.keys() & {"temperature", "seed", "parallel_tool_calls"}


STATES: dict[str, dict[str, Any]] = {
    DEEPSEEK: {"reasoning_content": "Hm. é\n"},
    KIMI: {"reasoning_content": "Hm."},
    "zai/glm-5.3": {"reasoning_content": "Hm."},
    "dashscope/qwen4-max": {"reasoning_content": "", "encrypted_content": "gAAA"},
    "hosted_vllm/qwen3": {"reasoning": "Hm."},
    ROUTED: {
        "reasoning": "Hm.",
        "reasoning_details": [
            {"type": "reasoning.text", "text": "Hm.", "signature": "Er/+=", "format": "x", "index": 0, "id": None},
            {"type": "reasoning.encrypted", "data": "gAAA", "id": "rs_1", "index": 1},
        ],
    },
    "groq/openai/gpt-oss-120b": {"reasoning": "Hm."},
    "lm_studio/x": {"something": {"new": [1, None]}},
}


@pytest.mark.parametrize("model", STATES)
def test_a_message_goes_back_whole_for_three_steps(model: str) -> None:
    message = {
        "role": "assistant",
        "content": None,
        **STATES[model],
        "tool_calls": [
            called("a"),
            called("b", "{}", extra_content={"google": {"thought_signature": "S/+="}}, index=1),
        ],
    }
    conversation = [QUESTION]
    for _ in range(3):
        answer = read(model, {**message, "refusal": None, "function_call": None, "annotations": None})
        conversation += [spoken(answer), *results(answer)]
    messages = body_of(model, *conversation, tools=(SEARCH,))["messages"]
    kept = [one for one in messages if one["role"] == "assistant"]
    # Fields without a value stay away, which some servers refuse; all else is as it came.
    assert kept == [message] * 3
    assert [one["tool_call_id"] for one in messages if one["role"] == "tool"] == ["a", "b"] * 3


def test_a_message_with_half_a_surrogate_pair_or_deep_nesting_goes_back_as_it_came() -> None:
    deep: Any = "deep"
    for _ in range(300):
        deep = [deep]
    message = {"role": "assistant", "content": "A", "half": "\ud83d", "deep": deep, "number": -0.0, "count": 10**30}
    raw = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}], "usage": USAGE}).encode()
    answer = read_chat(raw, wire_call("lm_studio/x")).completion
    sent = body_of("lm_studio/x", QUESTION, spoken(answer), user("more"))["messages"]
    assert repr(sent[1]) == repr(message)


def test_a_call_without_an_id_goes_back_with_the_one_that_it_was_given() -> None:
    bare = {"function": {"name": "search", "arguments": "{}"}}
    answer = read("lm_studio/x", {"content": None, "tool_calls": [bare, bare]})
    messages = body_of("lm_studio/x", QUESTION, spoken(answer), *results(answer), tools=(SEARCH,))["messages"]
    made = [one["id"] for one in messages[1]["tool_calls"]]
    assert made == [one["tool_call_id"] for one in messages[2:]] == ["call_1", "call_2"]
    again = wire_call("lm_studio/x", QUESTION, spoken(answer), tools=(SEARCH,))
    later = read_chat(reply({"content": None, "tool_calls": [bare]}), again).completion
    assert later.calls[0].id == "call_3"


def test_what_a_vendor_refuses_in_its_own_messages_stays_away() -> None:
    message = {"role": "assistant", "content": "x", "reasoning_content": "Hm.", "reasoning": "Hm."}
    for model, kept in (
        (MISTRAL, {"role", "content"}),
        ("groq/moonshotai/kimi-k2", {"role", "content"}),
        ("groq/openai/gpt-oss-120b", {"role", "content", "reasoning"}),
    ):
        answer = read(model, message, "stop")
        assert body_of(model, QUESTION, spoken(answer))["messages"][1].keys() == kept


def test_mistral_gets_ids_of_nine_characters_and_no_user_after_a_tool() -> None:
    conversation = (
        QUESTION,
        foreign(("call_1", "search", "{}"), text="Hm."),
        tool_result("call_1"),
        user("Only submit counts."),
    )
    body = body_of(MISTRAL, *conversation, tools=(SEARCH,), effort="high", seed=5)
    _, message, result = body["messages"]
    (made,) = message["tool_calls"]
    assert len(made["id"]) == 9
    assert made["id"].isalnum()
    assert result == {"role": "tool", "tool_call_id": made["id"], "content": "...\n\nOnly submit counts."}
    assert (body["random_seed"], body["reasoning_effort"]) == (5, "high")
    own = read(
        MISTRAL,
        {
            "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}],
            "tool_calls": [called("a23456789")],
        },
    )
    assert own.thinking == "Hm."
    _, message, result = body_of(MISTRAL, QUESTION, spoken(own), *results(own), tools=(SEARCH,))["messages"]
    assert (message["tool_calls"][0]["id"], result["tool_call_id"]) == ("a23456789", "a23456789")


def test_a_message_of_another_model_has_what_stands_for_its_reasoning() -> None:
    conversation = (QUESTION, foreign(("x" * 200, "search", "{}")), tool_result("x" * 200))
    for model, field in ((DEEPSEEK, " "), (KIMI, " "), ("dashscope/qwen4-max", None), ("openai/gpt-4o", None)):
        _, message, result = body_of(model, *conversation, tools=(SEARCH,))["messages"]
        assert message.get("reasoning_content") == field
        assert message["tool_calls"][0]["id"] == result["tool_call_id"]
        assert len(result["tool_call_id"]) <= 40


@pytest.mark.parametrize(
    ("model", "effort", "message"),
    [
        (DEEPSEEK, "max", {"thinking": {"type": "enabled"}, "reasoning_effort": "max"}),
        (DEEPSEEK, "none", {"thinking": {"type": "disabled"}}),
        (DEEPSEEK, None, {}),
        (KIMI, "high", {"reasoning_effort": "high"}),
        (KIMI, "xhigh", {"reasoning_effort": "high"}),
        (KIMI, "minimal", {"reasoning_effort": "low"}),
        ("moonshot/kimi-k2.6", "high", {"thinking": {"type": "enabled", "keep": "all"}}),
        ("moonshot/kimi-k2.6", "none", {"thinking": {"type": "disabled"}}),
        ("moonshot/kimi-k2.7-code", "high", {}),
        ("zai/glm-5.3", "high", {"thinking": {"type": "enabled", "clear_thinking": False}, "reasoning_effort": "high"}),
        ("zai/glm-4.7", "high", {"thinking": {"type": "enabled", "clear_thinking": False}}),
        ("dashscope/qwen4-max", "high", {"enable_thinking": True, "preserve_thinking": True}),
        ("dashscope/qwen4-max", "none", {"enable_thinking": False}),
        (MISTRAL, "max", {"reasoning_effort": "high"}),
        (MISTRAL, "none", {"reasoning_effort": "none"}),
        ("mistral/mistral-large-3", "high", {}),
        (ROUTED, "max", {"reasoning": {"effort": "xhigh"}}),
        ("openrouter/meta-llama/llama-4", "high", {"reasoning": {"effort": "high"}}),
        ("groq/openai/gpt-oss-120b", "xhigh", {"reasoning_effort": "high"}),
        ("lm_studio/x", "medium", {"reasoning_effort": "medium"}),
        ("openai/gpt-4o", "high", {}),
    ],
)
def test_effort_is_said_in_the_words_of_the_vendor(model: str, effort: str | None, message: dict[str, Any]) -> None:
    body = body_of(model, effort=effort)
    fields = {"thinking", "reasoning_effort", "reasoning", "enable_thinking", "preserve_thinking"}
    assert {name: body[name] for name in fields & body.keys()} == message


def test_less_thinking_is_a_budget_where_a_vendor_wants_one() -> None:
    assert 0 < body_of("dashscope/qwen4-max", effort="low")["thinking_budget"] < 32_000


def test_a_model_that_cannot_but_think_says_so() -> None:
    for model in (KIMI, "zai/glm-5.3", "moonshot/kimi-k2.7-code", ROUTED):
        with pytest.raises(ConfigError, match="reasoning cannot be switched off"):
            body_of(model, effort="none")


def test_a_router_is_told_to_leave_nothing_out_and_where_the_beginning_ends() -> None:
    body = body_of(ROUTED, SYSTEM, QUESTION, tools=(SEARCH,), stable=2, effort="high")
    assert body["provider"] == {"require_parameters": True}
    first, second = (one["content"][0] for one in body["messages"])
    assert (first.get("cache_control"), second.get("cache_control")) == (None, {"type": "ephemeral"})
    assert "parallel_tool_calls" not in body


def test_texts_in_a_row_are_one_message() -> None:
    opening = (SYSTEM, user("the question"), user("the evidence"), user("your part"))
    _, joined = body_of(DEEPSEEK, *opening, stable=4)["messages"]
    assert joined == {"role": "user", "content": "the question\n\nthe evidence\n\nyour part"}
    _, routed = body_of(ROUTED, *opening, tools=(SEARCH,), stable=4, effort="high")["messages"]
    assert [(part["text"], "cache_control" in part) for part in routed["content"]] == [
        ("the question", False), ("the evidence", True), ("your part", True)
    ]  # fmt: skip


def test_a_schema_is_asked_for_as_the_vendor_takes_it() -> None:
    given = body_of("openai/gpt-4o", schema=SCHEMA)["response_format"]
    assert given == {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}
    loose = body_of(DEEPSEEK, SYSTEM, QUESTION, schema=SCHEMA)
    assert loose["response_format"] == {"type": "json_object"}
    assert "JSON schema" in loose["messages"][0]["content"]
    words = body_of("dashscope/qwen4-max", QUESTION, schema=SCHEMA)
    assert "response_format" not in words
    assert [one["role"] for one in words["messages"]] == ["system", "user"]


def test_a_choice_is_demanded_only_where_that_is_set() -> None:
    profile = ModelProfile()
    bodies = [
        body_of("x/y", tools=(SEARCH, SUBMIT), profile=profile, tool_choice=choice, allowed=allowed)
        for choice, allowed in (("auto", ("submit",)), ("required", ()), ("required", ("submit",)))
    ]
    named = {"type": "function", "function": {"name": "submit"}}
    assert [body["tool_choice"] for body in bodies] == ["auto", "required", named]


def test_reasoning_that_is_told_beside_the_output_is_added_and_told_costs_are_used() -> None:
    details = {
        "prompt_tokens": 100,
        "completion_tokens": 5,
        "total_tokens": 145,
        "completion_tokens_details": {"reasoning_tokens": 40},
        "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 20},
        "cost_in_usd_ticks": 10_000_000_000,
    }
    found = read_chat(reply({"content": "x"}, "stop", usage=details), wire_call("x/y"))
    assert found.completion.usage == ModelUsage(calls=1, tokens_in=100, tokens_cached=60, tokens_out=45)
    assert (found.completion.cost_usd, found.cache_written_tokens) == (1.0, 20)
    assert read("x/y", {"content": "x"}, usage={**USAGE, "cost": 0.25}).cost_usd == 0.25


@pytest.mark.parametrize("finish", ["tool_calls", "stop", "", None])
def test_a_call_is_a_call_whatever_is_told_of_it(finish: Any) -> None:
    assert read("x/y", {"content": None, "tool_calls": [called("a")]}, finish).finish is FinishReason.CALLS


def test_a_prompt_that_was_plainly_cut_is_told() -> None:
    call = wire_call("local/small", SYSTEM, user("word " * 2_000))
    with pytest.raises(
        ContextLengthExceededError, match=r"read 1024 tokens of a prompt of at least 25\d\d: .*cut off.* Do this\."
    ):
        require_complete_prompt(call, ModelUsage(tokens_in=1_024), where="Do this.")
    # What was counted whole, what nobody counted, and what is too short to tell.
    require_complete_prompt(call, ModelUsage(tokens_in=1_400), where="")
    require_complete_prompt(call, ModelUsage(tokens_in=0), where="")
    require_complete_prompt(call, ModelUsage(tokens_in=100), where="")
    require_complete_prompt(wire_call("local/small", user("word " * 700)), ModelUsage(tokens_in=10), where="")


def test_the_vendors_own_types_hold_the_request() -> None:
    answer = read("openai/gpt-4o", {"role": "assistant", "content": None, "tool_calls": [called("a")]})
    conversation = (SYSTEM, QUESTION, spoken(answer), *results(answer))
    body = body_of("openai/gpt-4o", *conversation, tools=(SEARCH,), seed=3, temperature=0.3)
    checked: Any = TypeAdapter(completion_create_params.CompletionCreateParamsNonStreaming).validate_python(body)
    assert checked.keys() == body.keys()
