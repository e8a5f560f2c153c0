"""What the Gemini API refuses, each rule broken on purpose."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from bot.testing.model_server import reply_tool_calls
from tests.unit.simulator.providers.gemini_client import (
    ANSWER,
    FUNCTIONS,
    QUERY,
    QUESTION,
    TOOLS,
    RawGeminiClient,
    edited,
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


# The rules of all families


async def test_a_call_wants_its_response_directly_after_it(flash: RawGeminiClient, old: RawGeminiClient) -> None:
    for client in (flash, old):
        contents = await client.steps(1)
        client.refused(await client.ask(contents[:2]), "P-1")
        client.refused(await client.ask([*contents[:2], QUESTION]), "P-1")
        client.refused(await client.ask([QUESTION, contents[2]]), "P-1")
    contents = await old.steps(1)
    old.refused(await old.ask(edited(contents, 2, 0, "functionResponse", name="submit")), "P-1")


async def test_calls_come_back_with_their_ids_and_names(flash: RawGeminiClient, pro: RawGeminiClient) -> None:
    for client in (flash, pro):
        contents = await client.steps(1)
        other = edited(edited(contents, 1, 0, "functionCall", name="submit"), 2, 0, "functionResponse", name="submit")
        client.refused(await client.ask(other), "P-2")
    contents = await flash.steps(1)
    other = edited(edited(contents, 1, 0, "functionCall", id="fc_x"), 2, 0, "functionResponse", id="fc_x")
    flash.refused(await flash.ask(other), "P-2")
    both = reply_tool_calls(("search", {"query": "rain"}), ("search", {"query": "wind"}))
    async with open_client("gemini-3.1-pro-preview", both) as client:
        contents = await client.steps(1)
        fewer = [QUESTION, *({**one, "parts": one["parts"][:1]} for one in contents[1:])]
        client.refused(await client.ask(fewer), "P-2")


async def test_names_of_functions_are_plain_few_and_different(pro: RawGeminiClient) -> None:
    many = [{**FUNCTIONS[0], "name": f"tool_{number}"} for number in range(129)]
    for functions in ([{**FUNCTIONS[0], "name": "a b"}], [{**FUNCTIONS[0], "name": "2nd"}], many, FUNCTIONS * 2):
        pro.refused(await pro.ask([QUESTION], tools=[{"functionDeclarations": functions}]), "P-3")


async def test_a_function_calling_mode_wants_functions_and_names_offered_ones(pro: RawGeminiClient) -> None:
    for choice, tools in (
        ({"mode": "ANY"}, None),
        ({"mode": "ANY", "allowedFunctionNames": ["guess"]}, TOOLS),
        ({"mode": "AUTO", "allowedFunctionNames": ["submit"]}, TOOLS),
        ({"mode": "REQUIRED"}, TOOLS),
    ):
        answer = await pro.ask([QUESTION], tools=tools, toolConfig={"functionCallingConfig": choice})
        pro.refused(answer, "P-4")


async def test_unknown_fields_are_refused_at_every_level(pro: RawGeminiClient) -> None:
    odd: list[dict[str, Any]] = [
        {"messages": []},
        {"contents": []},
        {"contents": [{"role": "assistant", "parts": [{"text": "Dry."}]}]},
        {"contents": [{"role": "user", "parts": []}]},
        {"contents": [{"role": "user", "parts": [{"type": "text", "text": "Rain?"}]}]},
        {"contents": [{"role": "user", "parts": [{"thought": True}]}]},
        {"generationConfig": {"maxTokens": 100}},
        {"tools": [{"functionDeclarations": [{**FUNCTIONS[0], "strict": True}]}]},
        {"systemInstruction": "You are a forecaster."},
    ]
    for more in odd:
        pro.refused(await pro.ask(**{"contents": [QUESTION], **more}), "P-5")
    contents = await pro.steps(1)
    pro.refused(await pro.ask(edited(contents, 2, 0, "functionResponse", response="dry")), "P-5")


async def test_a_prompt_beyond_the_window_is_refused(pro: RawGeminiClient) -> None:
    message = pro.refused(await pro.ask([{"role": "user", "parts": [{"text": "rain " * 900_000}]}]), "P-15")
    assert "exceeds the maximum number of tokens allowed (1048576)" in message


# Signatures and ids


async def test_the_first_call_of_each_step_brings_back_its_signature(
    flash: RawGeminiClient, pro: RawGeminiClient
) -> None:
    for client in (flash, pro):
        contents = await client.steps(2)
        for at in (1, 3):
            message = client.refused(await client.ask(edited(contents, at, 0, thoughtSignature=None)), "P-27")
            assert message.startswith("Function call is missing a thought_signature in functionCall parts.")
            assert f"function call `default_api:search`, position {at + 1}." in message


async def test_steps_before_the_last_text_of_the_user_and_old_models_need_no_signature(
    pro: RawGeminiClient, old: RawGeminiClient
) -> None:
    contents = await pro.steps(1)
    history = [
        *contents,
        {"role": "model", "parts": [{"text": "Dry."}]},
        {"role": "user", "parts": [{"text": "Sure?"}]},
    ]
    assert (await pro.ask(edited(history, 1, 0, thoughtSignature=None))).status_code == 200
    contents = await old.steps(2)
    assert (await old.ask(edited(contents, 1, 0, thoughtSignature=None))).status_code == 200
    assert (await old.ask(edited(contents, 1, 0, thoughtSignature="c2VjcmV0"))).status_code == 200


async def test_a_signature_is_the_one_that_was_given(flash: RawGeminiClient, pro: RawGeminiClient) -> None:
    for client in (flash, pro):
        contents = await client.steps(2)
        given = str(signatures(contents[1])[0])
        for other in (given[:100], given[:-4], "made up", "c2VjcmV0", signatures(contents[3])[0]):
            message = client.refused(await client.ask(edited(contents, 1, 0, thoughtSignature=other)), "P-28")
            assert message == "Corrupted thought signature."
        assert client.double.altered_replies == 0
    elsewhere = await flash.client.post(
        f"{flash.double.base_url}/models/gemini-4-argon:generateContent", json={"contents": contents, "tools": TOOLS}
    )
    flash.refused(elsewhere, "P-28")


async def test_a_signature_stays_on_its_part() -> None:
    both = reply_tool_calls(("search", {"query": "rain"}), ("search", {"query": "wind"}))
    async with open_client("gemini-3-flash-preview", both) as client:
        contents = await client.steps(1)
        given = signatures(contents[1])[0]
        moved = edited(edited(contents, 1, 0, thoughtSignature=None), 1, 1, thoughtSignature=given)
        client.refused(await client.ask(moved), "P-27")
        client.refused(await client.ask(edited(contents, 1, 1, thoughtSignature=given)), "P-28")


async def test_ids_come_back_where_they_were_given_and_are_unknown_to_old_models(
    flash: RawGeminiClient, old: RawGeminiClient
) -> None:
    contents = await flash.steps(1)
    for change in (
        edited(contents, 1, 0, "functionCall", id=None),
        edited(contents, 2, 0, "functionResponse", id=None),
        edited(contents, 2, 0, "functionResponse", id="fc_x"),
    ):
        flash.refused(await flash.ask(change), "P-29")
    contents = await old.steps(1)
    message = old.refused(await old.ask(edited(contents, 1, 0, "functionCall", id="fc_x")), "P-29")
    assert 'Unknown name "id"' in message
    old.refused(await old.ask(edited(contents, 2, 0, "functionResponse", id="fc_x")), "P-29")


# Thinking, schemas, order, search


@pytest.mark.parametrize(
    ("model", "thinking"),
    [
        ("gemini-2.5-pro", {"thinkingLevel": "HIGH"}),
        ("gemini-2.5-pro", {"thinkingBudget": 0}),
        ("gemini-2.5-pro", {"thinkingBudget": 40_000}),
        ("gemini-3.1-pro-preview", {"thinkingLevel": "minimal"}),
        ("gemini-3.1-pro-preview", {"thinkingLevel": "xhigh"}),
        ("gemini-3.1-pro-preview", {"thinkingLevel": "high", "thinkingBudget": 1024}),
        ("gemini-3.7-flash", {"thinkingLevel": "minimal"}),
        ("gemini-4-argon", {"thinkingLevel": "max"}),
    ],
)
async def test_a_thinking_level_or_budget_that_the_model_lacks_is_refused(model: str, thinking: dict[str, Any]) -> None:
    async with open_client(model) as client:
        client.refused(await client.ask([QUESTION], generationConfig={"thinkingConfig": thinking}), "P-30")
        fits = {"thinkingBudget": -1} if model == "gemini-2.5-pro" else {"thinking_level": "low"}
        assert (await client.ask([QUESTION], generationConfig={"thinking_config": fits})).status_code == 200


async def test_newer_models_take_no_penalties(pro: RawGeminiClient, old: RawGeminiClient) -> None:
    config = {"presencePenalty": 0.1}
    pro.refused(await pro.ask([QUESTION], generationConfig=config), "P-30")
    assert (await old.ask([QUESTION], generationConfig=config)).status_code == 200


@pytest.mark.parametrize(
    "schema",
    [
        ANSWER,
        {"type": "object", "properties": {"p": {"const": 1}}},
        {"type": "object", "properties": {"p": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "string"}}},
        {"type": "object", "properties": {"p": {"oneOf": [{"type": "string"}]}}},
        {"type": "object", "properties": {"p": {"type": ["string", "null"]}}},
        {"type": "object", "properties": {"p": {"type": "integer", "enum": [1, 2]}}},
        {"type": "object", "properties": {"p": {"type": "string", "enum": ["", "yes"]}}},
        {"type": "object", "properties": {"p": {"type": "array"}}},
        {"type": "object", "properties": {}},
    ],
)
async def test_parameters_keep_to_the_subset_and_json_schema_is_free(
    pro: RawGeminiClient, schema: dict[str, Any]
) -> None:
    function = {"name": "submit", "description": "Answer."}
    for more in (
        {"tools": [{"functionDeclarations": [{**function, "parameters": schema}]}]},
        {"generationConfig": {"responseSchema": schema}},
    ):
        pro.refused(await pro.ask([QUESTION], **more), "P-31")
    free = [{"functionDeclarations": [{**function, "parametersJsonSchema": schema}]}]
    assert (await pro.ask([QUESTION], tools=free)).status_code == 200


async def test_only_one_of_the_two_schemas_may_be_set(pro: RawGeminiClient) -> None:
    function = {**FUNCTIONS[0], "parametersJsonSchema": QUERY}
    pro.refused(await pro.ask([QUESTION], tools=[{"functionDeclarations": [function]}]), "P-31")


async def test_as_many_responses_as_calls_come_in_one_content_after_them(pro: RawGeminiClient) -> None:
    both = reply_tool_calls(("search", {"query": "rain"}), ("search", {"query": "wind"}))
    async with open_client("gemini-3.1-pro-preview", both) as client:
        contents = await client.steps(1)
        split = [{"role": "user", "parts": [part]} for part in contents[2]["parts"]]
        message = client.refused(await client.ask([*contents[:2], *split]), "P-32")
        assert "the number of function response parts is equal to the number of function call parts" in message
        client.refused(await client.ask([*contents[:2], {**contents[2], "parts": contents[2]["parts"][:1]}]), "P-32")
    contents = await pro.steps(1)
    for history in (
        [*contents, contents[2]],
        contents[1:],
        [QUESTION, {"role": "model", "parts": [{"text": "Dry."}]}, *contents[1:]],
    ):
        pro.refused(await pro.ask(history), "P-32")


async def test_built_in_search_does_not_go_with_functions_on_old_models(
    old: RawGeminiClient, pro: RawGeminiClient
) -> None:
    both = [*TOOLS, {"googleSearch": {}}]
    allowed = {"includeServerSideToolInvocations": True}
    old.refused(await old.ask([QUESTION], tools=both, toolConfig=allowed), "P-33")
    pro.refused(await pro.ask([QUESTION], tools=both), "P-33")
    assert (await pro.ask([QUESTION], tools=both, toolConfig=allowed)).status_code == 200
