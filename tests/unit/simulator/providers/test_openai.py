"""OpenAI's two endpoints: what each refuses, broken on purpose."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from bot.simulator.models.simulated_model import SimulatedModel
from bot.simulator.providers.chat_requests import ReplyOverride
from bot.simulator.providers.chat_vendors import GrokDouble
from bot.simulator.providers.openai import OpenAiDouble
from bot.testing.model_server import reply_cut_short, reply_tool_calls
from tests.unit.simulator.providers.chat_client import (
    FLAT_TOOLS,
    QUESTION,
    SUBMIT,
    TOOLS,
    RawChatClient,
    changed,
    open_client,
    plan,
    refused,
    results,
)

INVALID = "invalid_request_error"


@pytest.fixture
async def chat() -> AsyncIterator[RawChatClient]:
    """Chat completions of a model that takes tools there."""
    async with open_client(OpenAiDouble(plan()), "gpt-5.1") as client:
        yield client


@pytest.fixture
async def responses() -> AsyncIterator[RawChatClient]:
    async with open_client(OpenAiDouble(plan()), "gpt-6-astra") as client:
        yield client


# Which model takes tools where


@pytest.mark.parametrize(
    ("model", "effort"),
    [
        ("gpt-5.4", "low"),
        ("gpt-5.5", None),
        ("gpt-5.6-terra", None),
        ("gpt-6-sol", "high"),
        ("gpt-6-astra", None),
        ("gpt-6.1-sol", "low"),
    ],
)
async def test_tools_and_reasoning_do_not_go_together_on_chat_completions(
    chat: RawChatClient, model: str, effort: str | None
) -> None:
    answer = await chat.chat([QUESTION], model=model, reasoning_effort=effort)
    body = refused(chat, answer, "P-7", type=INVALID, param="reasoning_effort", code=None)
    assert body["error"]["message"] == (
        f"Function tools with reasoning_effort are not supported for {model} in /v1/chat/completions. "
        "To use function tools, use /v1/responses or set reasoning_effort to 'none'."
    )
    assert (await chat.chat([QUESTION], model=model, reasoning_effort=effort, tools=None)).status_code == 200


@pytest.mark.parametrize(
    ("model", "effort"),
    [
        ("gpt-4.1", None),
        ("o3", "high"),
        ("gpt-5", None),
        ("gpt-5.1", "high"),
        ("gpt-5.4", None),
        ("gpt-5.5", "none"),
        ("gpt-6-luna", "none"),
    ],
)
async def test_elsewhere_tools_are_taken(chat: RawChatClient, model: str, effort: str | None) -> None:
    assert (await chat.chat([QUESTION], model=model, reasoning_effort=effort)).status_code == 200


# Parameters


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("temperature", 0.3, "unsupported_value"),
        ("top_p", 0.9, "unsupported_parameter"),
        ("presence_penalty", 0.1, "unsupported_parameter"),
        ("frequency_penalty", 0.1, "unsupported_parameter"),
        ("logprobs", True, "unsupported_parameter"),
        ("stop", ["."], "unsupported_parameter"),
    ],
)
async def test_sampling_is_not_for_models_that_reason(chat: RawChatClient, name: str, value: Any, code: str) -> None:
    sampled = {name: value}
    answer = await chat.chat([QUESTION], model="gpt-5", **sampled)
    refused(chat, answer, "P-8", type=INVALID, param=name, code=code)
    answer = await chat.items([QUESTION], model="gpt-6-astra", **sampled)
    refused(chat, answer, "P-8", type=INVALID, param=name, code=code)
    assert (await chat.chat([QUESTION], **sampled)).status_code == 200
    assert (await chat.chat([QUESTION], model="gpt-5", temperature=1)).status_code == 200


async def test_max_tokens_has_other_names_on_reasoning_models(chat: RawChatClient) -> None:
    parts = {"type": INVALID, "param": "max_tokens", "code": "unsupported_parameter"}
    body = refused(chat, await chat.chat([QUESTION], max_tokens=500), "P-9", **parts)
    assert "'max_completion_tokens'" in body["error"]["message"]
    body = refused(chat, await chat.items([QUESTION], max_tokens=500), "P-9", **parts)
    assert "'max_output_tokens'" in body["error"]["message"]
    assert (await chat.chat([QUESTION], max_completion_tokens=500)).status_code == 200
    assert (await chat.chat([QUESTION], max_tokens=500, model="gpt-4.1")).status_code == 200


async def test_ids_of_calls_have_a_length(chat: RawChatClient) -> None:
    def called(length: int) -> list[dict[str, Any]]:
        one = {"id": "c" * length, "type": "function", "function": {"name": "search", "arguments": "{}"}}
        message = {"role": "assistant", "content": None, "tool_calls": [one]}
        return [QUESTION, message, *results(message)]

    parts = {"type": INVALID, "code": "string_above_max_length"}
    refused(chat, await chat.chat(called(41)), "P-10", param="messages[1].tool_calls[0].id", **parts)
    assert (await chat.chat(called(40))).status_code == 200

    def item(length: int) -> list[dict[str, Any]]:
        one = {"type": "function_call", "call_id": "c" * length, "name": "search", "arguments": "{}"}
        return [QUESTION, one, {"type": "function_call_output", "call_id": "c" * length, "output": "dry"}]

    body = refused(chat, await chat.items(item(116)), "P-10", param="input[1].call_id", **parts)
    assert body["error"]["message"].endswith("maximum length 64, but got a string with length 116 instead.")
    assert (await chat.items(item(64))).status_code == 200


BAD_SCHEMAS: dict[str, dict[str, Any]] = {
    "open": {"type": "object", "properties": {}},
    "optional": {**SUBMIT, "required": []},
    "length": {**SUBMIT, "properties": {"probability": {"type": "string", "maxLength": 9}}},
    "nested": {**SUBMIT, "properties": {"probability": {"anyOf": [{"type": "object"}, {"type": "null"}]}}},
    "default": {**SUBMIT, "properties": {"probability": {"type": "number", "default": 0.5}}},
    "untyped array": {**SUBMIT, "properties": {"probability": {"type": "array"}}},
    "format": {**SUBMIT, "properties": {"probability": {"type": "string", "format": "uri"}}},
    "look-around": {**SUBMIT, "properties": {"probability": {"type": "string", "pattern": "(?!x)"}}},
    "union": {"anyOf": [SUBMIT]},
}


@pytest.mark.parametrize("name", BAD_SCHEMAS)
async def test_a_strict_schema_keeps_to_the_subset(chat: RawChatClient, name: str) -> None:
    schema = BAD_SCHEMAS[name]
    tool = {"name": "submit", "parameters": schema, "strict": True}
    answer = await chat.chat([QUESTION], tools=[{"type": "function", "function": tool}])
    parts = {"type": INVALID, "code": "invalid_function_parameters"}
    refused(chat, answer, "P-12", param="tools[0].function.parameters", **parts)
    answer = await chat.items([QUESTION], tools=[{"type": "function", **tool}])
    refused(chat, answer, "P-12", param="tools[0].parameters", **parts)
    form = {"name": "answer", "schema": schema, "strict": True}
    answer = await chat.chat([QUESTION], response_format={"type": "json_schema", "json_schema": form})
    refused(chat, answer, "P-12", param="response_format", code="invalid_json_schema")
    answer = await chat.items([QUESTION], text={"format": {"type": "json_schema", **form}})
    refused(chat, answer, "P-12", param="text.format.schema", code="invalid_json_schema")
    loose = {"type": "function", "function": {"name": "submit", "parameters": schema}}
    assert (await chat.chat([QUESTION], tools=[loose])).status_code == 200


async def test_a_strict_schema_of_the_subset_is_taken(chat: RawChatClient) -> None:
    strict = [{**one, "function": {**one["function"], "strict": True}} for one in TOOLS]
    assert (await chat.chat([QUESTION], tools=strict)).status_code == 200
    assert (await chat.items([QUESTION], tools=[{**one, "strict": True} for one in FLAT_TOOLS])).status_code == 200


@pytest.mark.parametrize(
    ("model", "effort", "code"),
    [
        ("o3", "none", "unsupported_value"),
        ("gpt-5", "xhigh", "unsupported_value"),
        ("gpt-5.6-sol", "minimal", "unsupported_value"),
        ("gpt-6-astra", "none", "unsupported_value"),
        ("gpt-6-astra", "max", "unsupported_value"),
        ("gpt-5.1", "utmost", "unsupported_value"),
        ("gpt-4.1", "high", "unsupported_parameter"),
    ],
)
async def test_each_model_has_its_efforts(chat: RawChatClient, model: str, effort: str, code: str) -> None:
    answer = await chat.chat([QUESTION], model=model, reasoning_effort=effort)
    refused(chat, answer, "P-13", type=INVALID, param="reasoning_effort", code=code)
    answer = await chat.items([QUESTION], model=model, reasoning={"effort": effort})
    refused(chat, answer, "P-13", type=INVALID, param="reasoning.effort", code=code)


async def test_one_effort_is_for_responses_only(chat: RawChatClient) -> None:
    answer = await chat.chat([QUESTION], model="gpt-6.1-sol", reasoning_effort="max", tools=None)
    refused(chat, answer, "P-13", code="unsupported_value")
    assert (await chat.items([QUESTION], model="gpt-6.1-sol", reasoning={"effort": "max"})).status_code == 200


async def test_older_models_know_nothing_of_parallel_calls(chat: RawChatClient) -> None:
    parts = {"type": INVALID, "param": "parallel_tool_calls", "code": "unsupported_parameter"}
    refused(chat, await chat.chat([QUESTION], model="o4-mini", parallel_tool_calls=False), "P-14", **parts)
    refused(chat, await chat.items([QUESTION], model="o3", parallel_tool_calls=False), "P-14", **parts)
    assert (await chat.chat([QUESTION], parallel_tool_calls=False)).status_code == 200


async def test_a_prompt_fits_into_the_window(chat: RawChatClient) -> None:
    long = {"role": "user", "content": "x" * 900_000}
    parts = {"type": INVALID, "code": "context_length_exceeded"}
    refused(chat, await chat.chat([long], model="o3"), "P-15", **parts)
    refused(chat, await chat.items([long], model="o3"), "P-15", **parts)


# Responses: items belong together


async def test_three_steps_pass_with_items_that_come_back_whole(responses: RawChatClient) -> None:
    items: list[Any] = [QUESTION]
    for _ in range(3):
        answer = (await responses.items(items)).json()
        assert [one["type"] for one in answer["output"]] == ["reasoning", "function_call"]
        called = answer["output"][1]
        items += [*answer["output"], {"type": "function_call_output", "call_id": called["call_id"], "output": "dry"}]
    double = responses.double
    assert (double.refusals, double.altered_replies, double.shared_prefixes) == ([], 0, [1.0, 1.0])
    assert [one.assistant_turns for one in double.asked] == [0, 1, 2]


async def test_a_simulated_mind_can_play_responses() -> None:
    async with open_client(OpenAiDouble(SimulatedModel().answer), "gpt-6-astra") as client:
        items = await client.begin_items()
        answer = (await client.items(items)).json()
    assert [items[2]["name"], answer["output"][-1]["type"]] == ["search", "function_call"]


async def test_a_call_needs_its_reasoning_and_reasoning_its_call(responses: RawChatClient) -> None:
    items = await responses.begin_items()
    question, reasoning, called, output = items
    parts = {"type": INVALID, "param": "input"}
    body = refused(responses, await responses.items([question, called, output]), "P-11", **parts)
    assert f"without its required 'reasoning' item: '{reasoning['id']}'" in body["error"]["message"]
    body = refused(responses, await responses.items([question, reasoning]), "P-11", **parts)
    assert "without its required following item" in body["error"]["message"]
    moved = [question, reasoning, question, called, output]
    refused(responses, await responses.items(moved), "P-11", **parts)
    bare = {name: value for name, value in called.items() if name != "id"}
    assert (await responses.items([question, bare, output])).status_code == 200
    assert (await responses.items([question, reasoning, bare, output])).status_code == 200


async def test_encrypted_reasoning_is_verified(responses: RawChatClient) -> None:
    items = await responses.begin_items()
    for other in ({"encrypted_content": "gAAA"}, {"id": "rs_of_somebody_else"}):
        answer = await responses.items(changed(items, 1, **other))
        refused(responses, answer, "P-11", type=INVALID, code="invalid_encrypted_content")
    answer = await responses.items(changed(items, 1, encrypted_content=None))
    refused(responses, answer, "P-11", status=404)


async def test_what_is_not_asked_for_is_not_encrypted(responses: RawChatClient) -> None:
    items = await responses.begin_items(include=None)
    assert "encrypted_content" not in items[1]
    refused(responses, await responses.items(items), "P-11", status=404)
    stored = await responses.begin_items(include=None, store=True)
    assert (await responses.items(stored, store=True)).status_code == 200


async def test_what_is_stored_can_be_named(responses: RawChatClient) -> None:
    first = (await responses.items([QUESTION], store=True)).json()
    output = {"type": "function_call_output", "call_id": first["output"][1]["call_id"], "output": "dry"}
    reported = await responses.items([output], previous_response_id=first["id"])
    references = [{"type": "item_reference", "id": one["id"]} for one in first["output"]]
    named = await responses.items([QUESTION, *references, output])
    assert (reported.status_code, named.status_code) == (200, 200)
    assert responses.double.shared_prefixes == [1.0, 1.0]
    lost = (await responses.items([QUESTION])).json()
    refused(responses, await responses.items([output], previous_response_id=lost["id"]), "P-11", status=404)


async def test_a_call_without_its_output_is_refused_on_responses(responses: RawChatClient) -> None:
    items = await responses.begin_items()
    refused(responses, await responses.items(items[:-1]), "P-1", type=INVALID)
    refused(responses, await responses.items([QUESTION, items[-1]]), "P-1", type=INVALID)


async def test_calls_that_differ_are_refused_on_responses(responses: RawChatClient) -> None:
    items = await responses.begin_items()
    for parts in ({"name": "submit"}, {"call_id": "call_2"}):
        altered = [
            *items[:2],
            {**items[2], **parts},
            {**items[3], **{k: v for k, v in parts.items() if k == "call_id"}},
        ]
        answer = await responses.items(altered)
        assert answer.status_code == 400
        assert responses.double.refusals[-1].rule in {"P-2", "P-11"}


async def test_some_tools_can_be_allowed_without_a_change_of_the_list(responses: RawChatClient) -> None:
    only = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "submit"}]}
    answer = (await responses.items([QUESTION], tool_choice=only)).json()
    assert [one["name"] for one in answer["output"] if one["type"] == "function_call"] == ["submit"]
    named = {"type": "function", "name": "submit"}
    answer = (await responses.items([QUESTION], tool_choice=named)).json()
    assert answer["output"][-1]["name"] == "submit"
    for choice in ({"type": "function", "name": "think"}, {**only, "tools": [{"type": "function", "name": "think"}]}):
        refused(responses, await responses.items([QUESTION], tool_choice=choice), "P-4", param="tool_choice")
    nested = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"function": {"name": "submit"}}]}}
    reported = await responses.chat([QUESTION], model="gpt-5.1", tool_choice=nested)
    assert reported.json()["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "submit"


async def test_replies_can_be_cut_refused_or_thoughts_only() -> None:
    async with open_client(
        OpenAiDouble([reply_cut_short("I be"), reply_tool_calls(("search", {}))]), "gpt-6-astra"
    ) as client:
        short = (await client.items([QUESTION])).json()
        client.double.override_next(ReplyOverride.REFUSAL, ReplyOverride.EMPTY_LENGTH)
        refusal, empty = (await client.items([QUESTION])).json(), (await client.items([QUESTION])).json()
        assert (short["status"], short["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
        assert refusal["output"][1]["content"][0]["type"] == "refusal"
        assert [one["type"] for one in empty["output"]] == ["reasoning"]
        refused(client, await client.items([QUESTION, *empty["output"]]), "P-11")


async def test_grok_keeps_the_same_rule_in_its_own_form() -> None:
    async with open_client(GrokDouble(plan()), "grok-4.6") as client:
        items = await client.begin_items()
        assert (await client.items(items)).status_code == 200
        body = refused(client, await client.items(changed(items, 1, encrypted_content="x")), "P-11")
        assert isinstance(body["error"], str)
