"""Anthropic's Messages API: the documented request, blocks that go back as they came, and what a reply means."""

from typing import Any

import pytest

from bot.core.beliefs import ModelUsage
from bot.core.errors import ConfigError, FoxcastError, MalformedDataError, QuotaExhaustedError, ServiceUnavailableError
from bot.core.language_models import FinishReason, Message, MessageRole
from plugins.models._wire_messages import messages_body, read_messages
from tests.plugins.models.wire_calls import (
    QUESTION,
    SCHEMA,
    SEARCH,
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

OPUS = "anthropic/claude-opus-5-5"
THOUGHT = {"type": "thinking", "thinking": "", "signature": "ErUB+/= é"}
REDACTED = {"type": "redacted_thinking", "data": "EmwK"}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {"q": "x", "a": 1.0, "b": [None, 1e3]}}
ALL_BLOCKS = [
    THOUGHT,
    {"type": "text", "text": "I look."},
    REDACTED,
    CALL,
    {**CALL, "id": "toolu_2", "new_field": {"x": 1}},
]


def reply(content: Any, stop: str = "tool_use", **more: Any) -> bytes:
    usage = {"input_tokens": 10, "output_tokens": 3, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 70}
    return reply_of(
        {"type": "message", "role": "assistant", "content": content, "stop_reason": stop, "usage": usage, **more}
    )


def read(content: Any, stop: str = "tool_use", model: str = OPUS, **more: Any) -> Any:
    return read_messages(reply(content, stop, **more), wire_call(model, tools=(SEARCH,))).completion


def test_the_second_request_is_the_documented_one() -> None:
    # Source: Anthropic, "Adaptive thinking" with tools.
    answer = read([THOUGHT, CALL])
    call = wire_call(OPUS, QUESTION, spoken(answer), *results(answer), tools=(SEARCH,), stable=3, effort="high")
    body = as_sent(messages_body(call))
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Q"}]},
        {"role": "assistant", "content": [THOUGHT, CALL]},
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": "...",
                    "cache_control": {"type": "ephemeral"},
                }
            ],
        },
    ]
    assert body["tools"] == [{"name": "search", "description": "Search the web.", "input_schema": SEARCH.parameters}]
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert body["thinking"]["type"] == "adaptive"
    assert body["output_config"] == {"effort": "high"}
    assert body["max_tokens"] == 32_000
    assert not body.keys() & {"temperature", "top_p", "seed"}


def test_all_blocks_go_back_in_their_order_and_unchanged_for_three_steps() -> None:
    conversation = [SYSTEM, QUESTION]
    for _ in range(3):
        answer = read(ALL_BLOCKS)
        conversation += [spoken(answer), *results(answer)]
    body = as_sent(messages_body(wire_call(OPUS, *conversation, tools=(SEARCH,))))
    assert [one["content"] for one in body["messages"] if one["role"] == "assistant"] == [ALL_BLOCKS] * 3
    # Each call is answered in the very next message, which holds nothing else.
    told_ids = [[block["tool_use_id"] for block in one["content"]] for one in body["messages"][2::2]]
    assert told_ids == [["toolu_1", "toolu_2"]] * 3


def test_results_come_first_and_what_is_said_after_them_follows_in_the_same_turn() -> None:
    answer = read(ALL_BLOCKS)
    first, second = results(answer)
    call = wire_call(OPUS, QUESTION, spoken(answer), second, first, user("Only submit counts."), tools=(SEARCH,))
    turn = as_sent(messages_body(call))["messages"][-1]["content"]
    assert [block["type"] for block in turn] == ["tool_result", "tool_result", "text"]
    assert [block.get("tool_use_id") for block in turn] == ["toolu_1", "toolu_2", None]


def test_a_message_of_another_model_is_built_without_thoughts() -> None:
    long = "x" * 200
    call = wire_call(
        OPUS,
        QUESTION,
        foreign((long, "search", "{bad"), ("id:2", "search", '{"q": 1}')),
        tool_result("id:2"),
        tools=(SEARCH,),
    )
    _, message, answered = as_sent(messages_body(call))["messages"]
    first, second = message["content"]
    assert (first["type"], first["input"], second["input"]) == ("tool_use", {"arguments": "{bad"}, {"q": 1})
    assert len(first["id"]) <= 64
    assert answered["content"][0]["tool_use_id"] == second["id"]
    assert "not ours" not in str(message)


def test_no_text_is_empty() -> None:
    call = wire_call(
        OPUS, user(" "), foreign(("a", "search", "{}"), text=" \n"), tool_result("a", ""), user(""), tools=(SEARCH,)
    )
    texts = [
        block.get("text", block.get("content"))
        for one in as_sent(messages_body(call))["messages"]
        for block in one["content"]
        if block["type"] != "tool_use"
    ]
    assert texts == ["(empty)"] * 3


def test_only_what_stays_is_marked() -> None:
    answer = read([THOUGHT, CALL])
    conversation = (SYSTEM, QUESTION, spoken(answer), *results(answer))
    marks = {}
    for stable in (0, 2, 4):
        body = as_sent(messages_body(wire_call(OPUS, *conversation, tools=(SEARCH,), stable=stable)))
        marks[stable] = [
            place
            for place, block in enumerate(
                [*body["system"], *(block for one in body["messages"] for block in one["content"])]
            )
            if "cache_control" in block
        ]
    # The system text, then the question, then the result; never a block of the model's own.
    assert marks == {0: [], 2: [0, 1], 4: [0, 4]}


@pytest.mark.parametrize(
    ("model", "effort", "thinking", "level"),
    [
        ("claude-opus-5-5", "xhigh", "adaptive", "xhigh"),
        ("claude-opus-5-5", "max", "adaptive", "max"),
        ("claude-opus-5-5", "minimal", "adaptive", "low"),
        ("claude-opus-4-6", "xhigh", "adaptive", "high"),
        ("claude-opus-5", "none", "disabled", None),
        ("claude-sonnet-4-5", "high", "enabled", None),
        ("claude-sonnet-4-5", "none", None, None),
        ("claude-opus-5-5", None, None, None),
        ("claude-3-5-haiku-latest", "high", None, None),
        # A model that is newer than this table is taken for one that adapts.
        ("claude-opus-7", "high", "adaptive", "high"),
    ],
)
def test_effort_is_said_in_the_words_of_the_model(
    model: str, effort: str | None, thinking: str | None, level: str | None
) -> None:
    body = as_sent(messages_body(wire_call(f"anthropic/{model}", effort=effort)))
    assert body.get("thinking", {}).get("type") == thinking
    assert body.get("output_config", {}).get("effort") == level
    if thinking == "enabled":
        assert 1024 <= body["thinking"]["budget_tokens"] < body["max_tokens"]


def test_an_effort_that_a_model_cannot_have_is_said_before_anything_is_sent() -> None:
    with pytest.raises(ConfigError, match="reasoning cannot be switched off"):
        messages_body(wire_call(OPUS, effort="none"))
    with pytest.raises(ConfigError, match="none of its levels"):
        messages_body(wire_call(OPUS, effort="hard"))
    with pytest.raises(ConfigError, match="leaves no room to think"):
        messages_body(wire_call("anthropic/claude-sonnet-4-5", effort="high", max_tokens=2_000))


def test_a_model_with_a_budget_does_not_think_on_in_a_conversation_of_another() -> None:
    conversation = (QUESTION, foreign(("a", "search", "{}")), tool_result("a"))
    body = as_sent(
        messages_body(wire_call("anthropic/claude-sonnet-4-5", *conversation, tools=(SEARCH,), effort="high"))
    )
    assert "thinking" not in body


def test_temperature_is_sent_where_a_model_does_not_think_and_takes_it() -> None:
    def sent(model: str, **more: Any) -> Any:
        return messages_body(wire_call(f"anthropic/{model}", temperature=0.3, **more)).get("temperature")

    assert sent("claude-sonnet-4-5") == 0.3
    assert sent("claude-sonnet-4-5", effort="high") is None
    assert sent("claude-opus-5-5") is None


def test_a_schema_is_asked_for_in_the_part_that_is_taken_and_in_words_elsewhere() -> None:
    body = as_sent(messages_body(wire_call(OPUS, QUESTION, schema=SCHEMA, effort="high")))
    assert body["output_config"]["effort"] == "high"
    wanted = body["output_config"]["format"]
    assert wanted["type"] == "json_schema"
    assert wanted["schema"] == {
        "type": "object",
        "properties": {"p": {"type": "number"}, "why": {"type": "string"}},
        "required": ["p"],
        "additionalProperties": False,
    }
    union = {"anyOf": [SCHEMA, SCHEMA]}
    for model, schema in (("anthropic/claude-3-5-haiku-latest", SCHEMA), (OPUS, union)):
        body = as_sent(messages_body(wire_call(model, SYSTEM, QUESTION, schema=schema)))
        assert "format" not in body.get("output_config", {})
        assert "JSON schema" in body["system"][0]["text"]


def test_tokens_in_hold_what_the_cache_gave_and_took() -> None:
    found = read_messages(reply([{"type": "text", "text": "x"}], "end_turn"), wire_call(OPUS))
    assert found.completion.usage == ModelUsage(calls=1, tokens_in=100, tokens_cached=70, tokens_out=3)
    assert found.cache_written_tokens == 20


@pytest.mark.parametrize(
    ("stop", "content", "finish"),
    [
        ("end_turn", [{"type": "text", "text": "42"}], FinishReason.STOP),
        ("tool_use", [CALL], FinishReason.CALLS),
        ("max_tokens", [THOUGHT], FinishReason.LENGTH),
        ("model_context_window_exceeded", [{"type": "text", "text": "4"}], FinishReason.LENGTH),
        ("refusal", [], FinishReason.REFUSED),
        ("pause_turn", [{"type": "text", "text": "x"}], FinishReason.OTHER),
    ],
)
def test_why_it_stopped(stop: str, content: Any, finish: FinishReason) -> None:
    assert read(content, stop).finish is finish


def test_a_refusal_says_what_is_told_of_it_and_does_not_go_back() -> None:
    answer = read([], "refusal", stop_details={"category": "cyber", "explanation": "It may do harm."})
    assert (answer.text, answer.native) == ("It may do harm.", None)


def test_thoughts_alone_do_not_go_back() -> None:
    answer = read([THOUGHT, REDACTED], "max_tokens")
    assert answer.native is None


def test_texts_and_thoughts_are_told_apart() -> None:
    content = [{**THOUGHT, "thinking": "Hm. "}, {"type": "text", "text": "A"}, CALL, {"type": "text", "text": "B"}]
    answer = read(content)
    assert (answer.text, answer.thinking, answer.calls[0].arguments) == (
        "AB",
        "Hm. ",
        '{"q": "x", "a": 1.0, "b": [null, 1000.0]}',
    )


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"<html>", MalformedDataError),
        (b"[]", MalformedDataError),
        (b"{}", MalformedDataError),
        (b'{"content": [{"type": "text", "text": 1}]}', MalformedDataError),
        (b'{"content": [{"type": "tool_use", "id": "a", "name": "s", "input": {"x": NaN}}]}', MalformedDataError),
        (b'{"content": [{"type": "tool_use", "id": "a", "name": "s", "input": {"x": 1e999}}]}', MalformedDataError),
        (b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}', ServiceUnavailableError),
        (
            b'{"type": "error", "error": {"type": "billing_error", "message": "no money", "code": 402}}',
            QuotaExhaustedError,
        ),
    ],
)
def test_another_form_breaks_the_contract_and_an_error_is_what_it_is(raw: bytes, kind: type[FoxcastError]) -> None:
    with pytest.raises(FoxcastError, match="litellm:anthropic/claude-opus-5-5") as caught:
        read_messages(raw, wire_call(OPUS))
    assert type(caught.value) is kind


def test_the_vendors_own_types_hold_the_request() -> None:
    types = pytest.importorskip("anthropic.types.message_create_params")
    from pydantic import TypeAdapter

    answer = read(ALL_BLOCKS)
    call = wire_call(OPUS, SYSTEM, QUESTION, spoken(answer), *results(answer), tools=(SEARCH,), stable=5, effort="high")
    body = as_sent(messages_body(call))
    checked: Any = TypeAdapter(types.MessageCreateParamsNonStreaming).validate_python(body)
    assert checked.keys() == body.keys()


def test_a_result_of_a_call_that_nobody_made_is_sent_as_it_is() -> None:
    message = Message(speaker=MessageRole.TOOL, text="x", answers=None)
    assert (
        as_sent(messages_body(wire_call(OPUS, QUESTION, message)))["messages"][0]["content"][0]["type"] == "tool_result"
    )
