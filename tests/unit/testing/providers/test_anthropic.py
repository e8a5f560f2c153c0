"""The double of Anthropic's Messages API: three steps pass on every model, and each rule is broken on purpose."""

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from bot.testing.model_server import Reply, Script, call, cut_short, moves, refuse, say
from bot.testing.providers.anthropic import AnthropicDouble
from bot.testing.providers.anthropic_rules import BINDING_BETA, CLAUDE_MODELS
from bot.testing.providers.exchange import ReplySwitch

QUERY: dict[str, Any] = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
ANSWER: dict[str, Any] = {"type": "object", "properties": {"p": {"type": "number"}}, "required": ["p"]}
TOOLS: list[dict[str, Any]] = [
    {"name": "search", "description": "Search the web.", "input_schema": QUERY},
    {"name": "submit", "description": "Answer.", "input_schema": ANSWER},
]
SYSTEM = "You are a forecaster. " * 400
QUESTION = {"role": "user", "content": "Will it rain in Drumholm?"}
ADAPTIVE = {"type": "adaptive"}
MANUAL = {"type": "enabled", "budget_tokens": 2048}
DISABLED = {"type": "disabled"}
EPHEMERAL = {"type": "ephemeral"}
DROP = {**ADAPTIVE, "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
Messages = list[dict[str, Any]]


@dataclass
class Talk:
    """A client of the double; ``more`` goes into every request, a value None takes a field out."""

    double: AnthropicDouble
    client: httpx.AsyncClient
    model: str
    more: Mapping[str, Any] = field(default_factory=dict)

    async def ask(self, messages: Messages, *, beta: str = "", **more: Any) -> httpx.Response:
        body = {"model": self.model, "max_tokens": 16_000, "system": SYSTEM, "tools": TOOLS, "messages": messages}
        sent = {name: value for name, value in {**body, **self.more, **more}.items() if value is not None}
        headers = {"anthropic-version": "2023-06-01", **({"anthropic-beta": beta} if beta else {})}
        return await self.client.post(f"{self.double.base_url}/v1/messages", json=sent, headers=headers)

    async def step(self, messages: Messages, **more: Any) -> Messages:
        """Ask once; return the messages with the answer and a result for each of its calls."""
        answer = await self.ask(messages, **more)
        assert answer.status_code == 200, answer.text
        return [*messages, spoken(answer), *results(answer.json()["content"])]

    async def steps(self, number: int, **more: Any) -> Messages:
        """Return a conversation of so many steps."""
        messages: Messages = [QUESTION]
        for _ in range(number):
            messages = await self.step(messages, **more)
        return messages

    def refused(
        self, answer: httpx.Response, rule: str, *, status: int = 400, kind: str = "invalid_request_error"
    ) -> str:
        """Assert that the double refused by this rule; return what it said."""
        assert (answer.status_code, self.double.refusals[-1].rule) == (status, rule), answer.text
        body = answer.json()
        assert (body["type"], body["error"]["type"]) == ("error", kind)
        assert body["request_id"].startswith("req_")
        return str(body["error"]["message"])


def spoken(answer: httpx.Response) -> dict[str, Any]:
    return {"role": "assistant", "content": answer.json()["content"]}


def results(content: Iterable[Mapping[str, Any]]) -> Messages:
    found = [
        {"type": "tool_result", "tool_use_id": one["id"], "content": "It stayed dry."}
        for one in content
        if one["type"] == "tool_use"
    ]
    return [{"role": "user", "content": found}] if found else []


def plan() -> Script:
    return moves(*(("search", {"query": f"rain {number}"}) for number in range(3)), then="submit")


def edited(messages: Messages, at: int, block: int, **parts: Any) -> Messages:
    """Return messages in which one block has other parts."""
    content = [*messages[at]["content"]]
    content[block] = {**content[block], **parts}
    return [*messages[:at], {**messages[at], "content": content}, *messages[at + 1 :]]


def with_content(messages: Messages, at: int, content: Any) -> Messages:
    return [*messages[:at], {**messages[at], "content": content}, *messages[at + 1 :]]


def kinds(message: Mapping[str, Any]) -> list[str]:
    return [block["type"] for block in message["content"]]


@asynccontextmanager
async def talking(model: str, script: Script | None = None, **more: Any) -> AsyncIterator[Talk]:
    double = AnthropicDouble(script or plan(), forced=more.pop("forced", ()))
    async with double, httpx.AsyncClient(trust_env=False) as client:
        yield Talk(double=double, client=client, model=model, more=more)


@pytest.fixture
async def opus() -> AsyncIterator[Talk]:
    """Opus 5: thinks where nothing is said, and its thoughts are bound to nothing."""
    async with talking("claude-opus-5") as talk:
        yield talk


@pytest.fixture
async def bound() -> AsyncIterator[Talk]:
    """Opus 5.5: always thinks, and each thought is bound to all that came before it."""
    async with talking("claude-opus-5-5") as talk:
        yield talk


@pytest.fixture
async def haiku() -> AsyncIterator[Talk]:
    """Haiku 4.5: thinks only with a budget."""
    async with talking("claude-haiku-4-5-20251001") as talk:
        yield talk


# What passes


@pytest.mark.parametrize("model", CLAUDE_MODELS)
async def test_three_steps_and_an_answer_pass_on_every_model_in_each_of_its_modes(model: str) -> None:
    modes = {"adaptive": ADAPTIVE, "enabled": MANUAL, "disabled": DISABLED}
    for thinking in (None, *(modes[mode] for mode in CLAUDE_MODELS[model].modes)):
        async with talking(model, thinking=thinking) as talk:
            messages = await talk.steps(4)
            assert [kinds(one) for one in messages[1::2]][1:] == (
                [["thinking", "text", "thinking", "tool_use"], ["thinking", "redacted_thinking", "tool_use"]]
                + [["thinking", "tool_use"]]
                if "thinking" in kinds(messages[1])
                else [["tool_use"]] * 3
            )
            assert (talk.double.refusals, talk.double.prefix_breaks, talk.double.altered_replies) == ([], 0, 0)
            assert set(talk.double.shared_prefixes) == {1.0}


async def test_all_calls_of_a_reply_come_back_and_each_is_answered() -> None:
    both = call(("search", {"query": "rain"}), ("search", {"query": "wind"}))
    async with talking("claude-opus-5", [both, say("Dry.")]) as talk:
        messages = await talk.steps(2)
        assert kinds(messages[1]) == ["thinking", "tool_use", "tool_use"]
        single = await talk.ask([QUESTION], tool_choice={"type": "auto", "disable_parallel_tool_use": True})
        assert kinds(spoken(single)) == ["thinking", "text"]
    async with talking("claude-opus-5", both) as talk:
        single = await talk.ask([QUESTION], tool_choice={"type": "auto", "disable_parallel_tool_use": True})
        assert kinds(spoken(single)) == ["thinking", "tool_use"]


async def test_thinking_is_shown_where_it_is_asked_for_and_on_older_models() -> None:
    for model, thinking, shown in (
        ("claude-opus-5", None, False),
        ("claude-opus-5", {**ADAPTIVE, "display": "summarized"}, True),
        ("claude-sonnet-4-6", ADAPTIVE, True),
        ("claude-sonnet-4-6", {**ADAPTIVE, "display": "omitted"}, False),
    ):
        async with talking(model, say("Dry."), thinking=thinking) as talk:
            block = (await talk.ask([QUESTION])).json()["content"][0]
            assert (block["type"], bool(block["thinking"]), len(block["signature"]) > 100) == ("thinking", shown, True)


async def test_scripts_read_a_request_in_common_form(opus: Talk) -> None:
    schema = {**ANSWER, "additionalProperties": False}
    messages = await opus.steps(1)
    await opus.ask(messages, tool_choice={"type": "tool", "name": "submit"}, thinking=DISABLED)
    asked = opus.double.asked[-1]
    assert [one["role"] for one in asked.messages] == ["system", "user", "assistant", "tool"]
    assert (asked.turn, list(asked.tools), asked.heard()) == (1, ["submit"], f"{QUESTION['content']}\nIt stayed dry.")
    await opus.ask([QUESTION], tools=None, output_config={"format": {"type": "json_schema", "schema": schema}})
    assert opus.double.asked[-1].schema == schema


async def test_arguments_that_are_no_object_go_out_as_an_object() -> None:
    async with talking("claude-opus-5", Reply(calls=(("search", '{"query": "ra'),))) as talk:
        assert (await talk.ask([QUESTION])).json()["content"][-1]["input"] == {"INVALID_JSON": '{"query": "ra'}


# What a reply tells of its tokens


async def test_a_cache_is_written_at_marks_and_read_by_what_begins_alike(opus: Talk) -> None:
    system = [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    first, second, third = [
        (await opus.ask([QUESTION], system=system, tools=tools, cache_control=EPHEMERAL)).json()["usage"]
        for tools in (TOOLS, TOOLS, TOOLS[:1])
    ]
    whole = first["cache_creation_input_tokens"]
    assert whole > 2000 and (first["input_tokens"], first["cache_read_input_tokens"]) == (0, 0)
    assert (
        first["cache_creation"]["ephemeral_1h_input_tokens"] > first["cache_creation"]["ephemeral_5m_input_tokens"] > 0
    )
    assert (second["cache_creation_input_tokens"], second["cache_read_input_tokens"]) == (0, whole)
    assert (third["cache_read_input_tokens"], third["cache_creation_input_tokens"] > 2000) == (0, True)


async def test_what_is_read_grows_with_the_conversation(opus: Talk) -> None:
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


async def test_a_change_of_thinking_or_choice_keeps_only_tools_and_system_in_the_cache(opus: Talk) -> None:
    system = [{"type": "text", "text": SYSTEM, "cache_control": EPHEMERAL}]
    more: list[dict[str, Any]] = [{}, {"thinking": DISABLED}, {"tool_choice": {"type": "none"}}]
    reads = [
        (await opus.ask([QUESTION], system=system, cache_control=EPHEMERAL, **one)).json()["usage"][
            "cache_read_input_tokens"
        ]
        for one in more
    ]
    assert reads[0] == 0 < reads[1] == reads[2]


async def test_without_a_mark_or_under_the_minimum_nothing_is_cached(opus: Talk, haiku: Talk) -> None:
    for talk, mark in ((opus, None), (opus, None), (haiku, EPHEMERAL), (haiku, EPHEMERAL)):
        usage = (await talk.ask([QUESTION], cache_control=mark)).json()["usage"]
        assert (usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]) == (0, 0)
        assert usage["input_tokens"] > 2000


# The rules of all families


async def test_a_call_wants_its_result_directly_after_it(opus: Talk) -> None:
    messages = await opus.steps(2)
    late = [*messages[:2], {"role": "user", "content": "Wait."}, *messages[2:]]
    said = opus.refused(await opus.ask(with_content(late, 2, "Wait.")[:3]), "P-1")
    assert "`tool_use` ids were found without `tool_result` blocks immediately after: toolu_" in said
    opus.refused(await opus.ask(messages[:2]), "P-1")
    said = opus.refused(await opus.ask([QUESTION, *results([{"type": "tool_use", "id": "toolu_x"}])]), "P-1")
    assert "unexpected `tool_use_id` found in `tool_result` blocks" in said
    opus.refused(await opus.ask(with_content(messages, 2, messages[2]["content"] * 2)), "P-1")


async def test_calls_come_back_with_their_ids_and_names(opus: Talk) -> None:
    messages = await opus.steps(1)
    opus.refused(await opus.ask(edited(messages, 1, -1, name="submit")), "P-2")
    other = edited(edited(messages, 1, -1, id="toolu_other"), 2, 0, tool_use_id="toolu_other")
    opus.refused(await opus.ask(other), "P-2")
    odd = edited(edited(messages, 1, -1, id="fc.1"), 2, 0, tool_use_id="fc.1")
    opus.refused(await opus.ask(odd), "P-2")


async def test_names_of_tools_are_plain_few_and_different(opus: Talk) -> None:
    many = [{**TOOLS[0], "name": f"tool_{number}"} for number in range(129)]
    for tools in ([{**TOOLS[0], "name": "a b"}], many, [TOOLS[0], TOOLS[0]]):
        opus.refused(await opus.ask([QUESTION], tools=tools), "P-3")


async def test_a_tool_choice_wants_tools_and_one_of_them(opus: Talk) -> None:
    opus.refused(await opus.ask([QUESTION], tools=None, tool_choice={"type": "auto"}), "P-4")
    opus.refused(await opus.ask([QUESTION], tool_choice={"type": "tool", "name": "guess"}, thinking=DISABLED), "P-4")


async def test_unknown_fields_are_refused_at_every_level(opus: Talk) -> None:
    assert opus.refused(await opus.ask([QUESTION], seed=1), "P-5") == "seed: Extra inputs are not permitted"
    block = {"type": "text", "text": "Rain?", "reasoning": "none"}
    for more in (
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
    ):
        opus.refused(await opus.ask(**{"messages": [QUESTION], **more}), "P-5")


async def test_a_request_that_does_not_begin_with_the_one_before_it_is_counted(opus: Talk) -> None:
    messages = await opus.steps(2)
    again = await opus.ask(edited(messages, 2, 0, content="It rained."))
    assert (again.status_code, opus.double.prefix_breaks, "P-6") == (200, 1, "P-6")
    assert 0 < opus.double.shared_prefixes[-1] < 1


async def test_a_prompt_beyond_the_window_is_refused(haiku: Talk) -> None:
    said = haiku.refused(await haiku.ask([{"role": "user", "content": "rain " * 170_000}]), "P-15")
    assert "prompt is too long: " in said


# Thinking


async def test_blocks_come_back_as_they_were_given_and_in_order(opus: Talk) -> None:
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
        said = opus.refused(await opus.ask(with_content(messages, 3, content)), "P-16")
        assert "cannot be modified" in said
    for at, block, name in ((3, 0, "signature"), (5, 1, "data")):
        seal = messages[at]["content"][block][name]
        said = opus.refused(await opus.ask(edited(messages, at, block, **{name: seal[:100]})), "P-16")
        assert "Invalid `signature` in `thinking` block" in said
    foreign = {"type": "thinking", "thinking": "", "signature": "made up"}
    opus.refused(await opus.ask([QUESTION, {"role": "assistant", "content": [foreign]}, QUESTION]), "P-16")


async def test_key_order_nulls_and_marks_make_no_difference_and_all_thoughts_may_be_left_out(opus: Talk) -> None:
    messages = await opus.steps(2)
    turned = [dict(reversed([*block.items(), ("caller", None)])) for block in messages[3]["content"]]
    turned[-1]["cache_control"] = EPHEMERAL
    assert (await opus.ask(with_content(messages, 3, turned))).status_code == 200
    assert opus.double.altered_replies == 0
    bare = [block for block in messages[3]["content"] if block["type"] != "thinking"]
    assert (await opus.ask(with_content(messages, 3, bare))).status_code == 200
    assert opus.double.altered_replies == 1


async def test_in_manual_mode_the_last_message_with_calls_begins_with_its_thinking() -> None:
    async with talking("claude-sonnet-4-5", thinking=MANUAL) as talk:
        messages = await talk.steps(1)
        bare = with_content(messages, 1, messages[1]["content"][1:])
        said = talk.refused(await talk.ask(bare), "P-17")
        assert said.startswith("Expected `thinking` or `redacted_thinking`, but found `tool_use`.")
        longer = await talk.step(messages)
        talk.refused(await talk.ask(with_content(longer, 1, bare[1]["content"])), "P-16")


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
    async with talking(model, thinking=thinking) as talk:
        assert f'"thinking.type.{thinking["type"]}" is not supported' in talk.refused(
            await talk.ask([QUESTION]), "P-18"
        )


async def test_an_effort_that_the_model_lacks_is_refused(opus: Talk, haiku: Talk) -> None:
    haiku.refused(await haiku.ask([QUESTION], output_config={"effort": "high"}), "P-18")
    opus.refused(await opus.ask([QUESTION], output_config={"effort": "extreme"}), "P-18")
    opus.refused(await opus.ask([QUESTION], output_config={"effort": "max"}, thinking=DISABLED), "P-18")
    assert (await opus.ask([QUESTION], output_config={"effort": "max"})).status_code == 200


async def test_a_thinking_budget_is_1024_or_more_and_below_max_tokens(haiku: Talk) -> None:
    for budget, most in ((1023, 16_000), (4096, 4096), (4096, 2000)):
        thinking = {"type": "enabled", "budget_tokens": budget}
        haiku.refused(await haiku.ask([QUESTION], thinking=thinking, max_tokens=most), "P-19")


async def test_sampling_parameters_are_refused_on_newer_models_and_while_thinking(opus: Talk, haiku: Talk) -> None:
    samplings: list[dict[str, Any]] = [{"temperature": 0.3}, {"top_p": 0.5}, {"top_k": 5}]
    for more in (*samplings, {"temperature": 1}):
        opus.refused(await opus.ask([QUESTION], **more), "P-20")
    for more in samplings:
        haiku.refused(await haiku.ask([QUESTION], thinking=MANUAL, **more), "P-20")
        assert (await haiku.ask([QUESTION], **more)).status_code == 200
    async with talking("claude-fable-5-1") as fable:
        assert (await fable.ask([QUESTION], temperature=1)).status_code == 200
        fable.refused(await fable.ask([QUESTION], temperature=0.9), "P-20")


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "submit"}])
async def test_a_forced_choice_is_refused_where_the_model_takes_none(choice: Mapping[str, Any]) -> None:
    always = ("claude-fable-5-1", "claude-mythos-5-1", "claude-fable-5", "claude-opus-5-5")
    refusing = [(model, None) for model in always]
    refusing += [(model, MANUAL) for model in ("claude-opus-4-6", "claude-opus-4-5", "claude-haiku-4-5")]
    refusing += [(model, ADAPTIVE) for model in ("claude-opus-4-6", "claude-opus-4-7")]
    for model, thinking in refusing:
        async with talking(model, thinking=thinking) as talk:
            talk.refused(await talk.ask([QUESTION], tool_choice=choice), "P-21")
            assert (await talk.ask([QUESTION], tool_choice={"type": "auto"})).status_code == 200
    for model, thinking in (("claude-opus-5", None), ("claude-sonnet-5", ADAPTIVE), ("claude-opus-4-7", DISABLED)):
        async with talking(model, thinking=thinking) as talk:
            assert (await talk.ask([QUESTION], tool_choice=choice)).status_code == 200
    async with talking("claude-opus-4-7", forced=("claude-opus-4-7",), thinking=ADAPTIVE) as talk:
        assert (await talk.ask([QUESTION], tool_choice=choice)).status_code == 200


# Messages


async def test_texts_and_roles_are_in_order(opus: Talk, haiku: Talk) -> None:
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
    assert "prefill" in opus.refused(await opus.ask([QUESTION, {"role": "assistant", "content": "I say"}]), "P-22")
    assert (await haiku.ask([QUESTION, {"role": "assistant", "content": "I say"}])).status_code == 200
    said = haiku.refused(await haiku.ask([QUESTION, {"role": "assistant", "content": "I say "}]), "P-22")
    assert "trailing whitespace" in said


async def test_marks_max_tokens_and_tools_are_as_the_service_wants_them(opus: Talk) -> None:
    marked = [{"type": "text", "text": f"Fact {number}.", "cache_control": EPHEMERAL} for number in range(4)]
    facts = [{"role": "user", "content": marked}]
    assert (await opus.ask(facts)).status_code == 200
    said = opus.refused(await opus.ask(facts, cache_control=EPHEMERAL), "P-23")
    assert said == "A maximum of 4 blocks with cache_control may be provided. Found 5."
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
async def test_a_thought_is_bound_to_all_that_came_before_it(bound: Talk, change: str) -> None:
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
    said = bound.refused(await bound.ask(messages, **more), "P-24")
    assert "The block is bound to a different conversation" in said
    dropped = (await bound.ask(messages, beta=BINDING_BETA, thinking=DROP, **more)).json()["input_transformations"]
    assert {(one["type"], one["reason"]) for one in dropped} == {("thinking_dropped", "prefix_binding_mismatch")}
    assert dropped[-1]["path"] == "messages.3.content.2"
    assert bound.double.dropped_blocks == len(dropped) == {"system": 3, "tools": 3}.get(change, 2)


async def test_choice_and_marks_may_change_and_other_models_are_not_bound(bound: Talk, opus: Talk) -> None:
    for talk in (bound, opus):
        messages = await talk.steps(2)
        mark = edited(messages, 4, 0, cache_control=EPHEMERAL)
        assert (await talk.ask(mark, tool_choice={"type": "none"})).status_code == 200
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
async def test_strict_schemas_keep_to_the_subset(opus: Talk, schema: Mapping[str, Any]) -> None:
    tool = {**TOOLS[1], "input_schema": schema}
    opus.refused(await opus.ask([QUESTION], tools=[{**tool, "strict": True}]), "P-25")
    opus.refused(
        await opus.ask([QUESTION], output_config={"format": {"type": "json_schema", "schema": schema}}), "P-25"
    )
    assert (await opus.ask([QUESTION], tools=[tool])).status_code == 200


# Switches, and what is wrong with the request as a whole


async def test_switches_play_the_faults_of_the_service(opus: Talk) -> None:
    faults: list[tuple[ReplySwitch, int, str, str | None, str | None]] = [
        (ReplySwitch.OVERLOADED, 529, "overloaded_error", None, None),
        (ReplySwitch.RATE_LIMITED, 429, "rate_limit_error", "7", None),
        (ReplySwitch.RATE_LIMITED_SILENT, 429, "rate_limit_error", None, None),
        (ReplySwitch.QUOTA_EXHAUSTED, 429, "rate_limit_error", None, "enforced_spend_limit_reached"),
    ]
    opus.double.switch(*(one[0] for one in faults))
    for _, status, kind, wait, code in faults:
        answer = await opus.ask([QUESTION])
        error = answer.json()["error"]
        assert (answer.status_code, error["type"], answer.headers.get("retry-after")) == (status, kind, wait), "P-26"
        assert (error.get("details") or {}).get("error_code") == code
    assert (await opus.ask([QUESTION])).status_code == 200


async def test_switches_play_the_odd_ends_of_a_reply(opus: Talk) -> None:
    opus.double.switch(ReplySwitch.REFUSAL, ReplySwitch.EMPTY_LENGTH, ReplySwitch.PAUSE)
    refusal, empty, paused = [(await opus.ask([QUESTION])).json() for _ in range(3)]
    assert (refusal["stop_reason"], refusal["content"], refusal["stop_details"]["type"]) == ("refusal", [], "refusal")
    assert (empty["stop_reason"], kinds(empty)) == ("max_tokens", ["thinking"])
    assert (paused["stop_reason"], kinds(paused)) == ("pause_turn", ["thinking", "text"])
    longer = await opus.step([QUESTION, {"role": "assistant", "content": paused["content"]}])
    assert [one["role"] for one in longer] == ["user", "assistant", "assistant", "user"]
    assert (await opus.ask(longer)).status_code == 200


async def test_scripted_ends_have_the_words_of_the_service() -> None:
    replies = [refuse("No."), cut_short("It will"), say("Dry.")]
    async with talking("claude-opus-5", replies) as talk:
        stops = [(await talk.ask([QUESTION])).json()["stop_reason"] for _ in replies]
    assert stops == ["refusal", "max_tokens", "end_turn"]


async def test_a_request_names_a_model_that_exists_a_version_and_a_key() -> None:
    async with AnthropicDouble(say("Dry."), key="k") as double, httpx.AsyncClient(trust_env=False) as client:
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
    async def told() -> str:
        async with talking("claude-opus-5") as talk:
            return json.dumps(await talk.steps(3))

    assert await told() == await told()
