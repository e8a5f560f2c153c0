"""OpenAI's Responses API: the documented request, items that go back as they came, and what a reply means."""

from typing import Any

import pytest
from openai.types.responses import Response, response_create_params
from pydantic import TypeAdapter

from bot.core.beliefs import ModelUsage
from bot.core.errors import FoxcastError, MalformedDataError, QuotaExhaustedError, ServiceUnavailableError
from bot.core.language_models import FinishReason, ModelCompletion
from plugins.models._wire_responses import read_responses, responses_body
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

SOL = "openai/gpt-6-sol"
GROK = "xai/grok-4.6"
REASONING: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": "gAAA+/= é",
    "status": None,
}
CALL: dict[str, Any] = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_a",
    "name": "search",
    "arguments": '{"q":  "x"}',
    "status": "completed",
}
SAID: dict[str, Any] = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "I look.", "annotations": [], "logprobs": []}],
}
ITEMS = [REASONING, SAID, {**REASONING, "id": "rs_2", "new": 1}, CALL, {**CALL, "id": "fc_2", "call_id": "call_b"}]
USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
    "output_tokens": 40,
    "output_tokens_details": {"reasoning_tokens": 35},
    "total_tokens": 140,
}


def reply(output: Any, **more: Any) -> bytes:
    given = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-6-sol", "status": "completed"}
    return reply_of({**given, "error": None, "output": output, "usage": USAGE, **more})


def read(output: Any, model: str = SOL, **more: Any) -> ModelCompletion:
    return read_responses(reply(output, **more), wire_call(model, tools=(SEARCH,))).completion


def test_the_second_request_is_the_documented_one() -> None:
    # Source: OpenAI, "Reasoning models", keeping reasoning items in context.
    answer = read([REASONING, CALL])
    call = wire_call(
        SOL, QUESTION, spoken(answer), *results(answer), tools=(SEARCH,), effort="high", cache_key="question 7"
    )
    assert as_sent(responses_body(call)) == {
        "model": "gpt-6-sol",
        "input": [
            {"role": "user", "content": "Q"},
            REASONING,
            CALL,
            {"type": "function_call_output", "call_id": "call_a", "output": "..."},
        ],
        "tools": [
            {
                "type": "function",
                "name": "search",
                "description": "Search the web.",
                "parameters": SEARCH.parameters,
                "strict": False,
            }
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "reasoning": {"effort": "high"},
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 32_000,
        "prompt_cache_key": "question 7",
    }


@pytest.mark.parametrize("model", [SOL, GROK])
def test_all_items_go_back_in_their_order_and_unchanged_for_three_steps(model: str) -> None:
    conversation = [SYSTEM, QUESTION]
    for _ in range(3):
        answer = read(ITEMS, model)
        conversation += [spoken(answer), *results(answer)]
    items = as_sent(responses_body(wire_call(model, *conversation, tools=(SEARCH,))))["input"]
    outputs = [{"type": "function_call_output", "call_id": f"call_{nth}", "output": "..."} for nth in "ab"]
    first = [{"role": "system", "content": "Forecast."}, {"role": "user", "content": "Q"}]
    assert items == [*first, *([*ITEMS, *outputs] * 3)]


def test_a_message_of_another_model_has_no_id_of_an_item_and_none_that_is_too_long() -> None:
    long = "x" * 200
    conversation = (
        QUESTION,
        foreign((long, "search", ""), ("c2", "submit", "{}"), text="Hm."),
        tool_result("c2"),
        tool_result(long),
    )
    items = as_sent(responses_body(wire_call(SOL, *conversation, tools=(SEARCH, SUBMIT))))["input"]
    _, message, first, second, third, fourth = items
    assert message == {"role": "assistant", "content": "Hm."}
    assert (first["type"], first["arguments"], second["call_id"]) == ("function_call", "{}", "c2")
    assert not {"id", "status"} & first.keys()
    assert len(first["call_id"]) <= 64
    assert (third["call_id"], fourth["call_id"]) == ("c2", first["call_id"])


def test_what_a_model_does_not_take_is_left_out() -> None:
    small = as_sent(
        responses_body(wire_call("openai/o4-mini", tools=(SEARCH,), effort="xhigh", temperature=0.3, seed=1))
    )
    assert "parallel_tool_calls" not in small
    assert small["reasoning"] == {"effort": "high"}
    assert not small.keys() & {"temperature", "seed"}
    plain = as_sent(responses_body(wire_call("xai/grok-4.20-0309-non-reasoning", effort="high", temperature=0.3)))
    assert not plain.keys() & {"reasoning", "include"}
    assert plain["temperature"] == 0.3


def test_no_effort_is_said_where_a_model_can_do_without_thinking() -> None:
    assert as_sent(responses_body(wire_call(SOL, effort="none")))["reasoning"] == {"effort": "none"}


def test_a_schema_is_asked_for_loosely() -> None:
    form = as_sent(responses_body(wire_call(SOL, schema=SCHEMA)))["text"]["format"]
    assert form == {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": False}


def test_a_call_is_demanded_only_where_that_is_set() -> None:
    def chosen(**more: Any) -> Any:
        return as_sent(responses_body(wire_call(SOL, tools=(SEARCH, SUBMIT), **more)))["tool_choice"]

    assert chosen(allowed=("submit",)) == "auto"
    assert chosen(tool_choice="required") == "required"
    assert chosen(tool_choice="required", allowed=("submit",)) == {"type": "function", "name": "submit"}


def test_what_it_says_thinks_and_calls() -> None:
    thought = {**REASONING, "summary": [{"type": "summary_text", "text": "Hm."}]}
    answer = read([thought, SAID, CALL])
    assert (answer.text, answer.thinking, answer.finish) == ("I look.", "Hm.", FinishReason.CALLS)
    assert (answer.calls[0].id, answer.calls[0].arguments) == ("call_a", '{"q":  "x"}')


def test_tokens_and_what_was_put_into_the_cache() -> None:
    found = read_responses(reply([SAID]), wire_call(SOL))
    assert found.completion.usage == ModelUsage(calls=1, tokens_in=100, tokens_cached=60, tokens_out=40)
    assert found.cache_written_tokens == 30


def test_reasoning_that_is_told_beside_the_output_is_added_and_a_told_cost_is_used() -> None:
    details = {**USAGE, "output_tokens": 5, "total_tokens": 140, "cost_in_usd_ticks": 37_756_000}
    found = read([SAID], GROK, usage=details)
    assert found.usage.tokens_out == 40
    assert found.cost_usd == pytest.approx(0.0037756)


@pytest.mark.parametrize(
    ("more", "output", "finish"),
    [
        ({}, [SAID], FinishReason.STOP),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, [SAID], FinishReason.LENGTH),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, [], FinishReason.REFUSED),
        ({}, [{**SAID, "content": [{"type": "refusal", "refusal": "I must not."}]}], FinishReason.REFUSED),
        ({"status": "queued"}, [], FinishReason.OTHER),
    ],
)
def test_why_it_stopped(more: Any, output: Any, finish: FinishReason) -> None:
    assert read(output, **more).finish is finish


def test_a_thought_that_nothing_follows_does_not_go_back() -> None:
    cut: dict[str, Any] = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    assert read([REASONING], **cut).native is None
    assert read([], **cut).native is None


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"{}", MalformedDataError),
        (b'{"output": [{"type": 1}]}', MalformedDataError),
        (b'{"output": {}}', MalformedDataError),
        (reply([], status="failed", error={"code": "server_error", "message": "Sorry"}), ServiceUnavailableError),
        (reply([], status="failed", error={"code": "rate_limit_exceeded", "message": "Slow"}), ServiceUnavailableError),
        (reply([], error={"code": "insufficient_quota", "message": "none"}), QuotaExhaustedError),
    ],
)
def test_another_form_breaks_the_contract_and_an_error_is_what_it_is(raw: bytes, kind: type[FoxcastError]) -> None:
    with pytest.raises(FoxcastError, match="litellm:openai/gpt-6-sol") as caught:
        read_responses(raw, wire_call(SOL))
    assert type(caught.value) is kind


def test_the_vendors_own_types_hold_the_request_and_the_reply() -> None:
    items = [{name: value for name, value in item.items() if value is not None} for item in ITEMS]
    answer = read(items)
    conversation = (SYSTEM, QUESTION, spoken(answer), *results(answer), user("Only submit counts."))
    body = as_sent(responses_body(wire_call(SOL, *conversation, tools=(SEARCH,), effort="high", cache_key="k")))
    checked: Any = TypeAdapter(response_create_params.ResponseCreateParamsNonStreaming).validate_python(body)
    assert checked.keys() == body.keys()
    Response.model_validate_json(reply(items, parallel_tool_calls=False, tool_choice="auto", tools=[]))
