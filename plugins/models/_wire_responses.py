"""The form of OpenAI's Responses API, which xAI uses too: a call as a body, a reply as a completion.

Nothing is stored at the provider, so the model's reasoning is encrypted and is sent back with all other items of the
reply, in their order: a call without the reasoning before it is refused. Only this form combines tools and reasoning.
Source: OpenAI, Responses API reference, "Reasoning models"; xAI, Responses API.
"""

import json
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, ValidationError

from bot.api import (
    FinishReason,
    Json,
    Message,
    MessageRole,
    ModelCompletion,
    ModelUsage,
    Prompt,
    ToolCall,
    ToolDefinition,
)
from plugins.models._profiles import ThinkingStyle
from plugins.models._provider_errors import raise_provider_error
from plugins.models._wire_call import (
    ANSWER_NAME,
    TokenCount,
    WireCall,
    WireModel,
    WireReply,
    decode_reply,
    malformed_reply,
    portable_call_id,
    replace_surrogates,
    reported_usage,
    with_known_usage,
)

FORMAT_NAME = "the Responses API"
# A tick of the currency in which one vendor bills.
_TICKS_PER_USD = 1e10
_FAILED_STATUSES = ("failed", "cancelled")


def responses_body(call: WireCall) -> dict[str, Json]:
    """Return the body of a request; raises ConfigError for an effort that the model does not accept."""
    prompt, sampling, profile = call.prompt, call.sampling, call.profile
    body: dict[str, Json] = {
        "model": call.name,
        "input": _encode_items(call),
        "max_output_tokens": sampling.max_tokens,
        "store": False,
    }
    if profile.returns_reasoning:
        body["include"] = ["reasoning.encrypted_content"]
    if call.level is not None and profile.thinking is not ThinkingStyle.NONE:
        body["reasoning"] = {"effort": call.level}
    if profile.takes_sampling and sampling.temperature is not None:
        body["temperature"] = sampling.temperature
    if prompt.cache_key:
        body["prompt_cache_key"] = prompt.cache_key
    if prompt.tools:
        body |= _tool_fields(prompt, call)
    if prompt.schema is not None:
        schema: Json = {"type": "json_schema", "name": ANSWER_NAME, "schema": dict(prompt.schema), "strict": False}
        body["text"] = {"format": schema}
    return body


def read_responses(raw: bytes, call: WireCall) -> WireReply:
    """Return the completion in a reply.

    Raises MalformedDataError for another form, and for an error in its place the error that it means.
    """
    value = decode_reply(raw, call.display_name)
    if value.get("error") or value.get("status") in _FAILED_STATUSES:
        raise_provider_error(json.dumps(value.get("error") or value), shown=call.display_name, remedy=call.error_remedy)
    try:
        reply = _ResponsesReply.model_validate(value)
    except ValidationError as error:
        raise malformed_reply(error, call.display_name, FORMAT_NAME) from None
    parts = [part for item in reply.output if item.type == "message" for part in item.parts]
    refusals = [part.refusal for part in parts if part.refusal]
    text = "".join(refusals or [part.text or "" for part in parts if part.type == "output_text"])
    calls = tuple(_parse_tool_call(item) for item in reply.output if item.type == "function_call")
    completion = ModelCompletion(
        text=text,
        calls=calls,
        thinking="\n\n".join(
            part.text or "" for item in reply.output if item.type == "reasoning" for part in item.reasoning_parts
        ),
        finish=FinishReason.REFUSED if refusals else _finish_reason(reply, calls),
        usage=reply.usage.to_usage() if reply.usage else ModelUsage(),
        cost_usd=reply.usage.reported_cost() if reply.usage else None,
        model=reply.model or "",
        native=call.native_message(value["output"]) if _can_be_returned(reply) else None,
    )
    return WireReply(
        completion=with_known_usage(completion, call.prompt),
        cache_written_tokens=reply.usage.details.cache_write_tokens or 0 if reply.usage else 0,
    )


class _ItemPart(WireModel):
    type: str = ""
    text: str | None = None
    refusal: str | None = None


class _OutputItem(WireModel):
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
    def reasoning_parts(self) -> Sequence[_ItemPart]:
        """The readable part of one piece of reasoning."""
        return self.summary or self.parts


class _InputTokenDetails(WireModel):
    cached_tokens: TokenCount | None = None
    cache_write_tokens: TokenCount | None = None


class _OutputTokenDetails(WireModel):
    reasoning_tokens: TokenCount | None = None


class _ReplyUsage(WireModel):
    input_tokens: TokenCount
    output_tokens: TokenCount = 0
    total_tokens: TokenCount | None = None
    input_tokens_details: _InputTokenDetails | None = None
    output_tokens_details: _OutputTokenDetails | None = None
    cost_in_usd_ticks: Annotated[float, Field(ge=0)] | None = None

    @property
    def details(self) -> _InputTokenDetails:
        """Tokens that were read from the cache and written to it."""
        return self.input_tokens_details or _InputTokenDetails()

    def to_usage(self) -> ModelUsage:
        """Return the usage as it is counted here."""
        reasoning = (self.output_tokens_details or _OutputTokenDetails()).reasoning_tokens or 0
        cached = self.details.cached_tokens or 0
        return reported_usage(
            self.input_tokens, self.output_tokens, cached=cached, reasoning=reasoning, total=self.total_tokens
        )

    def reported_cost(self) -> float | None:
        """Return the cost in US dollars, where it is reported."""
        return None if self.cost_in_usd_ticks is None else self.cost_in_usd_ticks / _TICKS_PER_USD


class _IncompleteDetails(WireModel):
    reason: str | None = None


class _ResponsesReply(WireModel):
    output: list[_OutputItem]
    status: str | None = None
    model: str | None = None
    incomplete_details: _IncompleteDetails | None = None
    usage: _ReplyUsage | None = None


def _finish_reason(reply: _ResponsesReply, calls: Sequence[ToolCall]) -> FinishReason:
    if reply.status == "incomplete":
        why = reply.incomplete_details.reason if reply.incomplete_details else None
        return FinishReason.REFUSED if why == "content_filter" else FinishReason.LENGTH
    if reply.status not in {"completed", None}:
        return FinishReason.OTHER
    return FinishReason.CALLS if calls else FinishReason.STOP


def _can_be_returned(reply: _ResponsesReply) -> bool:
    """Return whether the items may be part of a conversation: reasoning with nothing after it is refused there."""
    return bool(reply.output) and reply.output[-1].type != "reasoning"


def _parse_tool_call(item: _OutputItem) -> ToolCall:
    return ToolCall(id=item.call_id, name=item.name, arguments=item.arguments)


def _tool_fields(prompt: Prompt, call: WireCall) -> dict[str, Json]:
    chosen: Json = call.tool_choice
    if chosen == "required" and len(prompt.allowed) == 1:
        chosen = {"type": "function", "name": prompt.allowed[0]}
    body: dict[str, Json] = {"tools": [_encode_tool(tool) for tool in prompt.tools], "tool_choice": chosen}
    if call.profile.single_call:
        body["parallel_tool_calls"] = False
    return body


def _encode_tool(tool: ToolDefinition) -> Json:
    # A schema that is not marked as loose is made strict there, and half of our keywords would be refused.
    described: dict[str, Json] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", **described, "strict": False}


def _encode_items(call: WireCall) -> list[Json]:
    items: list[Json] = []
    own: set[str] = set()
    for message in call.prompt.messages:
        kept = call.own_message(message)
        if isinstance(kept, list):
            own.update(made.id for made in message.calls)
            items += kept
        else:
            items += _encode_message(message, own)
    return items


def _encode_message(message: Message, own: set[str]) -> list[Json]:
    """Return a message as items; ``own`` are the ids that this model gave, others are replaced."""
    if message.speaker is MessageRole.TOOL:
        given = message.answers or ""
        answered = given if given in own else portable_call_id(given)
        return [{"type": "function_call_output", "call_id": answered, "output": replace_surrogates(message.text)}]
    items: list[Json] = []
    if message.text or not message.calls:
        items.append({"role": message.speaker.value, "content": replace_surrogates(message.text)})
    # Without an id of the item: it would require the reasoning that it came with.
    items += [
        {
            "type": "function_call",
            "call_id": portable_call_id(made.id),
            "name": made.name,
            "arguments": replace_surrogates(made.arguments) or "{}",
        }
        for made in message.calls
    ]
    return items
