"""What Anthropic's Messages API refuses, each rule broken on purpose."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from bot.simulator.providers.anthropic_rules import BINDING_BETA
from tests.unit.simulator.providers.messages_client import (
    ADAPTIVE,
    ANSWER,
    DISABLED,
    DROP,
    EPHEMERAL,
    MANUAL,
    QUESTION,
    SYSTEM,
    TOOLS,
    RawMessagesClient,
    edited,
    kinds,
    open_client,
    results,
    with_content,
)


@pytest.fixture
async def opus() -> AsyncIterator[RawMessagesClient]:
    """Opus 5: thinks where nothing is said, and its thoughts are bound to nothing."""
    async with open_client("claude-opus-5") as client:
        yield client


@pytest.fixture
async def bound() -> AsyncIterator[RawMessagesClient]:
    """Opus 5.5: always thinks, and each thought is bound to all that came before it."""
    async with open_client("claude-opus-5-5") as client:
        yield client


@pytest.fixture
async def haiku() -> AsyncIterator[RawMessagesClient]:
    """Haiku 4.5: thinks only with a budget."""
    async with open_client("claude-haiku-4-5-20251001") as client:
        yield client


# The rules of all families


async def test_a_call_wants_its_result_directly_after_it(opus: RawMessagesClient) -> None:
    messages = await opus.steps(2)
    late = [*messages[:2], {"role": "user", "content": "Wait."}, *messages[2:]]
    message = opus.refused(await opus.ask(with_content(late, 2, "Wait.")[:3]), "P-1")
    assert "`tool_use` ids were found without `tool_result` blocks immediately after: toolu_" in message
    opus.refused(await opus.ask(messages[:2]), "P-1")
    unasked = [QUESTION, {"role": "assistant", "content": "Dry."}, *results([{"type": "tool_use", "id": "toolu_x"}])]
    message = opus.refused(await opus.ask(unasked), "P-1")
    assert "unexpected `tool_use_id` found in `tool_result` blocks" in message
    opus.refused(await opus.ask(with_content(messages, 2, messages[2]["content"] * 2)), "P-1")


async def test_calls_come_back_with_their_ids_and_names(opus: RawMessagesClient) -> None:
    messages = await opus.steps(1)
    opus.refused(await opus.ask(edited(messages, 1, -1, name="submit")), "P-2")
    other = edited(edited(messages, 1, -1, id="toolu_other"), 2, 0, tool_use_id="toolu_other")
    opus.refused(await opus.ask(other), "P-2")
    odd = edited(edited(messages, 1, -1, id="fc.1"), 2, 0, tool_use_id="fc.1")
    opus.refused(await opus.ask(odd), "P-2")


async def test_names_of_tools_are_plain_few_and_different(opus: RawMessagesClient) -> None:
    many = [{**TOOLS[0], "name": f"tool_{number}"} for number in range(129)]
    for tools in ([{**TOOLS[0], "name": "a b"}], many, [TOOLS[0], TOOLS[0]]):
        opus.refused(await opus.ask([QUESTION], tools=tools), "P-3")


async def test_a_tool_choice_wants_tools_and_one_of_them(opus: RawMessagesClient) -> None:
    opus.refused(await opus.ask([QUESTION], tools=None, tool_choice={"type": "auto"}), "P-4")
    opus.refused(await opus.ask([QUESTION], tool_choice={"type": "tool", "name": "guess"}, thinking=DISABLED), "P-4")


async def test_unknown_fields_are_refused_at_every_level(opus: RawMessagesClient) -> None:
    assert opus.refused(await opus.ask([QUESTION], seed=1), "P-5") == "seed: Extra inputs are not permitted"
    block = {"type": "text", "text": "Rain?", "reasoning": "none"}
    odd: list[dict[str, Any]] = [
        {"messages": [{**QUESTION, "name": "me"}]},
        {"messages": [{"role": "tool", "content": "dry"}]},
        {"messages": [{"role": "user", "content": [block]}]},
        {"messages": [{"role": "user", "content": [{"type": "input_text", "text": "Rain?"}]}]},
        {"tools": [{**TOOLS[0], "parameters": {}}]},
        {"thinking": {**ADAPTIVE, "budget_tokens": 2048}},
        {"thinking": DROP},
        {"output_config": {"effort": "high", "verbosity": "low"}},
        {"output_format": {"type": "json_schema", "schema": ANSWER}},
        {"tool_choice": {"type": "required"}},
        {"tool_choice": "auto"},
    ]
    for more in odd:
        opus.refused(await opus.ask(**{"messages": [QUESTION], **more}), "P-5")


async def test_a_request_that_does_not_begin_with_the_one_before_it_is_counted(opus: RawMessagesClient) -> None:
    messages = await opus.steps(2)
    again = await opus.ask(edited(messages, 2, 0, content="It rained."))
    assert (again.status_code, opus.double.prefix_breaks) == (200, 1)
    assert 0 < opus.double.shared_prefixes[-1] < 1


async def test_a_prompt_beyond_the_window_is_refused(haiku: RawMessagesClient) -> None:
    message = haiku.refused(await haiku.ask([{"role": "user", "content": "rain " * 170_000}]), "P-15")
    assert "prompt is too long: " in message


# Thinking


async def test_blocks_come_back_as_they_were_given_and_in_order(opus: RawMessagesClient) -> None:
    messages = await opus.steps(3)
    assert kinds(messages[3]) == ["thinking", "text", "thinking", "tool_use"]
    first, text, second, use = messages[3]["content"]
    for content in (
        [first, second, text, use],
        [first, text, use],
        [first, {**text, "text": "Let me see."}, second, use],
        [{**first, "thinking": "I know."}, text, second, use],
        [first, text, second, {**use, "input": {"query": "other"}}],
    ):
        message = opus.refused(await opus.ask(with_content(messages, 3, content)), "P-16")
        assert "cannot be modified" in message
    for at, block, name in ((3, 0, "signature"), (5, 1, "data")):
        seal = messages[at]["content"][block][name]
        message = opus.refused(await opus.ask(edited(messages, at, block, **{name: seal[:100]})), "P-16")
        assert "Invalid `signature` in `thinking` block" in message
    foreign = {"type": "thinking", "thinking": "", "signature": "made up"}
    other = {"role": "user", "content": "Will it snow?"}
    opus.refused(await opus.ask([other, {"role": "assistant", "content": [foreign]}, QUESTION]), "P-16")


async def test_key_order_nulls_and_marks_make_no_difference_and_all_thoughts_may_be_left_out(
    opus: RawMessagesClient,
) -> None:
    messages = await opus.steps(2)
    turned = [dict(reversed(block.items())) for block in messages[3]["content"]]
    turned[1] |= {"citations": None}
    turned[-1] = {name: part for name, part in turned[-1].items() if name != "caller"} | {"cache_control": EPHEMERAL}
    assert (await opus.ask(with_content(messages, 3, turned))).status_code == 200
    assert opus.double.altered_replies == 0
    bare = [block for block in messages[3]["content"] if block["type"] != "thinking"]
    assert (await opus.ask(with_content(messages, 3, bare))).status_code == 200
    assert opus.double.altered_replies == 1


async def test_in_manual_mode_the_last_message_with_calls_begins_with_its_thinking() -> None:
    async with open_client("claude-sonnet-4-5", thinking=MANUAL) as client:
        messages = await client.steps(1)
        bare = with_content(messages, 1, messages[1]["content"][1:])
        message = client.refused(await client.ask(bare), "P-17")
        assert message.startswith("Expected `thinking` or `redacted_thinking`, but found `tool_use`.")
        longer = await client.step(messages)
        client.refused(await client.ask(with_content(longer, 1, bare[1]["content"])), "P-16")


@pytest.mark.parametrize(
    ("model", "thinking"),
    [
        ("claude-fable-5-1", DISABLED),
        ("claude-mythos-5-1", MANUAL),
        ("claude-opus-5-5", MANUAL),
        ("claude-opus-5-5", DISABLED),
        ("claude-opus-5", MANUAL),
        ("claude-sonnet-5", MANUAL),
        ("claude-opus-4-8", MANUAL),
        ("claude-opus-4-7", MANUAL),
        ("claude-opus-4-5", ADAPTIVE),
        ("claude-haiku-4-5", ADAPTIVE),
    ],
)
async def test_a_thinking_mode_that_the_model_lacks_is_refused(model: str, thinking: Mapping[str, Any]) -> None:
    async with open_client(model, thinking=thinking) as client:
        assert f'"thinking.type.{thinking["type"]}" is not supported' in client.refused(
            await client.ask([QUESTION]), "P-18"
        )


async def test_an_effort_that_the_model_lacks_is_refused(opus: RawMessagesClient, haiku: RawMessagesClient) -> None:
    haiku.refused(await haiku.ask([QUESTION], output_config={"effort": "high"}), "P-18")
    opus.refused(await opus.ask([QUESTION], output_config={"effort": "extreme"}), "P-18")
    opus.refused(await opus.ask([QUESTION], output_config={"effort": "max"}, thinking=DISABLED), "P-18")
    assert (await opus.ask([QUESTION], output_config={"effort": "max"})).status_code == 200


async def test_a_thinking_budget_is_1024_or_more_and_below_max_tokens(haiku: RawMessagesClient) -> None:
    for budget, most in ((1023, 16_000), (4096, 4096), (4096, 2000)):
        thinking = {"type": "enabled", "budget_tokens": budget}
        haiku.refused(await haiku.ask([QUESTION], thinking=thinking, max_tokens=most), "P-19")


async def test_sampling_parameters_are_refused_on_newer_models_and_while_thinking(
    opus: RawMessagesClient, haiku: RawMessagesClient
) -> None:
    samplings: list[dict[str, Any]] = [{"temperature": 0.3}, {"top_p": 0.5}, {"top_k": 5}]
    for more in (*samplings, {"temperature": 1}):
        opus.refused(await opus.ask([QUESTION], **more), "P-20")
    for more in samplings:
        haiku.refused(await haiku.ask([QUESTION], thinking=MANUAL, **more), "P-20")
        assert (await haiku.ask([QUESTION], **more)).status_code == 200
    async with open_client("claude-fable-5-1") as fable:
        assert (await fable.ask([QUESTION], temperature=1)).status_code == 200
        fable.refused(await fable.ask([QUESTION], temperature=0.9), "P-20")


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "submit"}])
async def test_a_forced_choice_is_refused_where_the_model_takes_none(choice: Mapping[str, Any]) -> None:
    always = ("claude-fable-5-1", "claude-mythos-5-1", "claude-fable-5", "claude-opus-5-5")
    refusing: list[tuple[str, Any]] = [(model, None) for model in always]
    refusing += [(model, MANUAL) for model in ("claude-opus-4-6", "claude-opus-4-5", "claude-haiku-4-5")]
    refusing += [(model, ADAPTIVE) for model in ("claude-opus-4-6", "claude-opus-4-7")]
    for model, thinking in refusing:
        async with open_client(model, thinking=thinking) as client:
            client.refused(await client.ask([QUESTION], tool_choice=choice), "P-21")
            assert (await client.ask([QUESTION], tool_choice={"type": "auto"})).status_code == 200
    for model, thinking in (("claude-opus-5", None), ("claude-sonnet-5", ADAPTIVE), ("claude-opus-4-7", DISABLED)):
        async with open_client(model, thinking=thinking) as client:
            assert (await client.ask([QUESTION], tool_choice=choice)).status_code == 200
    async with open_client("claude-opus-4-7", forced=("claude-opus-4-7",), thinking=ADAPTIVE) as client:
        assert (await client.ask([QUESTION], tool_choice=choice)).status_code == 200


# Messages


async def test_texts_and_roles_are_in_order(opus: RawMessagesClient, haiku: RawMessagesClient) -> None:
    messages = await opus.steps(1)
    note = {"type": "text", "text": "One step left."}
    for history in (
        [{"role": "user", "content": ""}],
        [{"role": "user", "content": "  \n"}],
        [{"role": "user", "content": []}],
        [{"role": "assistant", "content": "Dry."}, QUESTION],
        with_content(messages, 2, [note, *messages[2]["content"]]),
    ):
        opus.refused(await opus.ask(history), "P-22")
    assert (await opus.ask(with_content(messages, 2, [*messages[2]["content"], note]))).status_code == 200
    begun = [{"role": "user", "content": "Will it snow?"}, {"role": "assistant", "content": "I say"}]
    assert "prefill" in opus.refused(await opus.ask(begun), "P-22")
    assert (await haiku.ask(begun)).status_code == 200
    message = haiku.refused(await haiku.ask(with_content(begun, 1, "I say ")), "P-22")
    assert "trailing whitespace" in message


async def test_marks_max_tokens_and_tools_are_as_the_service_wants_them(opus: RawMessagesClient) -> None:
    marked = [{"type": "text", "text": f"Fact {number}.", "cache_control": EPHEMERAL} for number in range(4)]
    facts = [{"role": "user", "content": marked}]
    assert (await opus.ask(facts)).status_code == 200
    message = opus.refused(await opus.ask(facts, cache_control=EPHEMERAL), "P-23")
    assert message == "A maximum of 4 blocks with cache_control may be provided. Found 5."
    longer = [{"type": "text", "text": "Later.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    messages = await opus.steps(1)
    thought = edited(messages, 1, 0, cache_control=EPHEMERAL)
    for more in (
        {"messages": [QUESTION], "max_tokens": None},
        {"messages": messages, "tools": None},
        {"messages": [{"role": "user", "content": [*marked[:1], *longer]}]},
        {"messages": [{"role": "user", "content": [{**marked[0], "cache_control": {"type": "forever"}}]}]},
        {"messages": thought},
    ):
        opus.refused(await opus.ask(**more), "P-23")


@pytest.mark.parametrize("change", ["system", "tools", "message", "left out"])
async def test_a_thought_is_bound_to_all_that_came_before_it(bound: RawMessagesClient, change: str) -> None:
    messages = await bound.steps(2)
    more: dict[str, Any] = {}
    if change == "system":
        more["system"] = SYSTEM + "Today is Monday."
    elif change == "tools":
        more["tools"] = [*TOOLS, {**TOOLS[0], "name": "extra"}]
    elif change == "message":
        messages = edited(messages, 2, 0, content="It rained.")
    else:
        messages = with_content(messages, 1, messages[1]["content"][1:])
    message = bound.refused(await bound.ask(messages, **more), "P-24")
    assert "The block is bound to a different conversation" in message
    dropped = (await bound.ask(messages, beta=BINDING_BETA, thinking=DROP, **more)).json()["input_transformations"]
    assert {(one["type"], one["reason"]) for one in dropped} == {("thinking_dropped", "prefix_binding_mismatch")}
    assert dropped[-1]["path"] == "messages.3.content.2"
    assert bound.double.dropped_blocks == len(dropped) == {"system": 3, "tools": 3}.get(change, 2)


async def test_choice_and_marks_may_change_and_other_models_are_not_bound(
    bound: RawMessagesClient, opus: RawMessagesClient
) -> None:
    for client in (bound, opus):
        messages = await client.steps(2)
        mark = edited(messages, 4, 0, cache_control=EPHEMERAL)
        assert (await client.ask(mark, tool_choice={"type": "none"})).status_code == 200
    assert (await opus.ask(messages, system="You guess.")).status_code == 200
    messages = await bound.steps(2)
    elsewhere = await bound.ask(messages, model="claude-sonnet-5", beta=BINDING_BETA)
    assert {one["reason"] for one in elsewhere.json()["input_transformations"]} == {"model_binding_mismatch"}


@pytest.mark.parametrize(
    "schema",
    [
        {**ANSWER, "additionalProperties": True},
        {**ANSWER, "additionalProperties": False, "minProperties": 1},
        {"type": "object", "additionalProperties": False, "properties": {"p": {"type": "number", "maximum": 1}}},
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {"p": {"type": "array", "items": {"type": "number"}, "minItems": 2}},
        },
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {"p": {"$ref": "#/$defs/a"}},
            "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}},
        },
    ],
)
async def test_strict_schemas_keep_to_the_subset(opus: RawMessagesClient, schema: Mapping[str, Any]) -> None:
    tool = {**TOOLS[1], "input_schema": schema}
    opus.refused(await opus.ask([QUESTION], tools=[{**tool, "strict": True}]), "P-25")
    opus.refused(
        await opus.ask([QUESTION], output_config={"format": {"type": "json_schema", "schema": schema}}), "P-25"
    )
    assert (await opus.ask([QUESTION], tools=[tool])).status_code == 200
