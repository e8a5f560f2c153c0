"""The form of OpenAI's Responses API, which xAI speaks too: a call as a body, a reply as a completion.

Nothing is stored at the provider, so what the model thought comes encrypted and goes back with all other items of the
reply, in their order: a call without the reasoning before it is refused. Tools and reasoning go together nowhere else.
Source: OpenAI, Responses API reference, "Reasoning models"; xAI, Responses API.
"""

import json
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, ValidationError

from bot.api import Completion, Finish, Json, Message, Prompt, Speaker, Tool, ToolCall, Usage
from plugins.models._faults import raise_fault
from plugins.models._profiles import ThinkingStyle
from plugins.models._wire_call import (
    ANSWER,
    TokenCount,
    WireCall,
    WirePart,
    WireReply,
    broken,
    counted_usage,
    decoded,
    estimated,
    foreign_id,
    sendable,
)

FORM = "the Responses API"
# A tick of the currency in which one vendor bills.
_TICKS = 1e10
_FAILED = frozenset({"failed", "cancelled"})


def responses_body(call: WireCall) -> dict[str, Json]:
    """Return the body of a request; raises ConfigError for an effort that the model does not take."""
    prompt, sampling, profile = call.prompt, call.sampling, call.profile
    body: dict[str, Json] = {
        "model": call.name,
        "input": _items(call),
        "max_output_tokens": sampling.max_tokens,
        "store": False,
    }
    if profile.state:
        body["include"] = ["reasoning.encrypted_content"]
    if call.level is not None and profile.thinking is not ThinkingStyle.NONE:
        body["reasoning"] = {"effort": call.level}
    if profile.sampling and sampling.temperature is not None:
        body["temperature"] = sampling.temperature
    if prompt.cache_key:
        body["prompt_cache_key"] = prompt.cache_key
    if prompt.tools:
        body |= _tools(prompt, call)
    if prompt.schema is not None:
        schema: Json = {"type": "json_schema", "name": ANSWER, "schema": dict(prompt.schema), "strict": False}
        body["text"] = {"format": schema}
    return body


def read_responses(raw: bytes, call: WireCall) -> WireReply:
    """Return what a reply says. Raises ContractError for another form, and an error in its place as what it is."""
    value = decoded(raw, call.shown)
    if value.get("error") or value.get("status") in _FAILED:
        raise_fault(json.dumps(value.get("error") or value), shown=call.shown, remedy=call.remedy)
    try:
        reply = _Reply.model_validate(value)
    except ValidationError as error:
        raise broken(error, call.shown, FORM) from None
    parts = [part for item in reply.output if item.type == "message" for part in item.parts]
    refusals = [part.refusal for part in parts if part.refusal]
    text = "".join(refusals or [part.text or "" for part in parts if part.type == "output_text"])
    calls = tuple(_call(item) for item in reply.output if item.type == "function_call")
    completion = Completion(
        text=text,
        calls=calls,
        thinking="\n\n".join(
            part.text or "" for item in reply.output if item.type == "reasoning" for part in item.said
        ),
        finish=Finish.REFUSED if refusals else _finish(reply, calls),
        usage=reply.usage.counted() if reply.usage else estimated(call.prompt, len(text)),
        cost_usd=reply.usage.cost() if reply.usage else None,
        model=reply.model or "",
        native=call.native(value["output"]) if _is_whole(reply) else None,
    )
    return WireReply(completion=completion, written=reply.usage.details.cache_write_tokens or 0 if reply.usage else 0)


class _ItemPart(WirePart):
    type: str = ""
    text: str | None = None
    refusal: str | None = None


class _Item(WirePart):
    type: str
    content: list[_ItemPart] | str | None = None
    summary: list[_ItemPart] | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""

    @property
    def parts(self) -> Sequence[_ItemPart]:
        """The content, part by part."""
        return self.content if isinstance(self.content, list) else ()

    @property
    def said(self) -> Sequence[_ItemPart]:
        """What can be read of a thought."""
        return self.summary or self.parts


class _Cached(WirePart):
    cached_tokens: TokenCount | None = None
    cache_write_tokens: TokenCount | None = None


class _Thought(WirePart):
    reasoning_tokens: TokenCount | None = None


class _Usage(WirePart):
    input_tokens: TokenCount
    output_tokens: TokenCount = 0
    total_tokens: TokenCount | None = None
    input_tokens_details: _Cached | None = None
    output_tokens_details: _Thought | None = None
    cost_in_usd_ticks: Annotated[float, Field(ge=0)] | None = None

    @property
    def details(self) -> _Cached:
        """What was read from the cache and put into it."""
        return self.input_tokens_details or _Cached()

    def counted(self) -> Usage:
        """Return the usage as it is counted here."""
        reasoning = (self.output_tokens_details or _Thought()).reasoning_tokens or 0
        cached = self.details.cached_tokens or 0
        return counted_usage(
            self.input_tokens, self.output_tokens, cached=cached, reasoning=reasoning, total=self.total_tokens
        )

    def cost(self) -> float | None:
        """Return the cost in US dollars, where it is told."""
        return None if self.cost_in_usd_ticks is None else self.cost_in_usd_ticks / _TICKS


class _Incomplete(WirePart):
    reason: str | None = None


class _Reply(WirePart):
    output: list[_Item]
    status: str | None = None
    model: str | None = None
    incomplete_details: _Incomplete | None = None
    usage: _Usage | None = None


def _finish(reply: _Reply, calls: Sequence[ToolCall]) -> Finish:
    if reply.status == "incomplete":
        why = reply.incomplete_details.reason if reply.incomplete_details else None
        return Finish.REFUSED if why == "content_filter" else Finish.LENGTH
    if reply.status not in {"completed", None}:
        return Finish.OTHER
    return Finish.CALLS if calls else Finish.STOP


def _is_whole(reply: _Reply) -> bool:
    """Say whether the items may stand in a conversation: a thought that nothing follows is refused there."""
    return bool(reply.output) and reply.output[-1].type != "reasoning"


def _call(item: _Item) -> ToolCall:
    return ToolCall(id=item.call_id, name=item.name, arguments=item.arguments)


def _tools(prompt: Prompt, call: WireCall) -> dict[str, Json]:
    chosen: Json = call.tool_choice
    if chosen == "required" and len(prompt.allowed) == 1:
        chosen = {"type": "function", "name": prompt.allowed[0]}
    body: dict[str, Json] = {"tools": [_tool(tool) for tool in prompt.tools], "tool_choice": chosen}
    if call.profile.one_call:
        body["parallel_tool_calls"] = False
    return body


def _tool(tool: Tool) -> Json:
    # What is not said to be loose is made strict there, and half of our keywords would be refused.
    described: dict[str, Json] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", **described, "strict": False}


def _items(call: WireCall) -> list[Json]:
    items: list[Json] = []
    own: set[str] = set()
    for message in call.prompt.messages:
        kept = call.received(message)
        if isinstance(kept, list):
            own.update(made.id for made in message.calls)
            items += kept
        else:
            items += _said(message, own)
    return items


def _said(message: Message, own: set[str]) -> list[Json]:
    """Return a message as items; ``own`` are the ids that this model gave, others are written anew."""
    if message.speaker is Speaker.TOOL:
        given = message.answers or ""
        answered = given if given in own else foreign_id(given)
        return [{"type": "function_call_output", "call_id": answered, "output": sendable(message.text)}]
    items: list[Json] = []
    if message.text or not message.calls:
        items.append({"role": message.speaker.value, "content": sendable(message.text)})
    # Without an id of the item: it would want the reasoning that it came with.
    items += [
        {
            "type": "function_call",
            "call_id": foreign_id(made.id),
            "name": made.name,
            "arguments": sendable(made.arguments) or "{}",
        }
        for made in message.calls
    ]
    return items
