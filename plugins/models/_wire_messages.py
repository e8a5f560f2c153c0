"""The form of Anthropic's Messages API: a call as a body, a reply as a completion.

An assistant message is sent back as the returned list of content blocks, in their order: thinking and redacted blocks
are signed, an empty thinking text with a signature included. Some models bind each block to the exact system text,
tools and messages before it, so nothing of an earlier request may change. Source: Anthropic, Messages API; "Extended
thinking", "Adaptive thinking", "Prompt caching", "Structured outputs".
"""

import json
from collections.abc import Sequence
from typing import Any

import structlog
from pydantic import ValidationError

from bot.api import (
    ConfigError,
    FinishReason,
    Json,
    Message,
    MessageRole,
    ModelCompletion,
    ModelUsage,
    ToolCall,
    ToolDefinition,
)
from plugins.models._profiles import SchemaSupport, ThinkingStyle
from plugins.models._provider_errors import raise_provider_error
from plugins.models._schemas import CLAUDE_FORMAT, is_object_schema, reduce_schema
from plugins.models._wire_call import (
    ConversationTurn,
    TokenCount,
    UserTurn,
    WireCall,
    WireModel,
    WireReply,
    call_arguments,
    conversation_turns,
    decode_reply,
    encode_arguments,
    last_stable_turn,
    malformed_reply,
    nonblank_text,
    portable_call_id,
    replace_surrogates,
    schema_instruction,
    shared_opening_place,
    system_text,
    with_known_usage,
)

log = structlog.get_logger()

FORMAT_NAME = "Anthropic's Messages API"
# The share of max_tokens for reasoning at each level, for models that need a number; the rest is the answer.
_THINKING_SHARES = {"low": 0.15, "medium": 0.35, "high": 0.6, "xhigh": 0.75, "max": 0.85}
MIN_THINKING_TOKENS = 1024
# Marks the end of what is put into the cache, for five minutes from the last time it was read.
_CACHE_CONTROL: dict[str, Json] = {"type": "ephemeral"}

_FINISH_REASONS = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "tool_use": FinishReason.CALLS,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "refusal": FinishReason.REFUSED,
}


def messages_body(call: WireCall) -> dict[str, Json]:
    """Return the body of a request; raises ConfigError for an effort or a limit that the model cannot have."""
    prompt, sampling = call.prompt, call.sampling
    thinking = _thinking_fields(call)
    body: dict[str, Json] = {
        "model": call.name,
        "max_tokens": sampling.max_tokens,
        **_system_fields(call),
        "messages": _encode_messages(call),
        **thinking,
        **_tool_fields(prompt.tools),
    }
    if call.profile.takes_sampling and sampling.temperature is not None and "thinking" not in thinking:
        body["temperature"] = min(1.0, sampling.temperature)
    if prompt.schema is not None and _takes_schema(call):
        wanted: Json = {"type": "json_schema", "schema": reduce_schema(prompt.schema, CLAUDE_FORMAT)}
        config = body.get("output_config")
        body["output_config"] = {**(config if isinstance(config, dict) else {}), "format": wanted}
    return body


def read_messages(raw: bytes, call: WireCall) -> WireReply:
    """Return the completion in a reply.

    Raises MalformedDataError for another form, and for an error in its place the error that it means.
    """
    value = decode_reply(raw, call.display_name)
    if value.get("type") == "error":
        raise_provider_error(json.dumps(value), shown=call.display_name, remedy=call.error_remedy)
    try:
        reply = _MessagesReply.model_validate(value)
    except ValidationError as error:
        raise malformed_reply(error, call.display_name, FORMAT_NAME) from None
    blocks: list[Json] = value["content"]
    calls = tuple(_parse_tool_call(block) for block in reply.content if block.type == "tool_use")
    text = "".join(block.text or "" for block in reply.content if block.type == "text")
    finish = _FINISH_REASONS.get(reply.stop_reason or "", FinishReason.OTHER)
    completion = ModelCompletion(
        text=text or (_refusal_text(value) if finish is FinishReason.REFUSED else ""),
        calls=calls,
        thinking="".join(block.thinking or "" for block in reply.content if block.type == "thinking"),
        finish=FinishReason.CALLS if calls and finish is FinishReason.STOP else finish,
        usage=reply.usage.to_usage() if reply.usage else ModelUsage(),
        model=reply.model or "",
        native=call.native_message(blocks) if _has_answer(reply.content) else None,
    )
    return WireReply(
        completion=with_known_usage(completion, call.prompt),
        cache_written_tokens=reply.usage.cache_creation_input_tokens or 0 if reply.usage else 0,
    )


class _ContentBlock(WireModel):
    type: str
    text: str | None = None
    thinking: str | None = None
    id: str = ""
    name: str = ""
    input: dict[str, Any] | None = None


class _ReplyUsage(WireModel):
    input_tokens: TokenCount
    output_tokens: TokenCount = 0
    cache_creation_input_tokens: TokenCount | None = None
    cache_read_input_tokens: TokenCount | None = None

    def to_usage(self) -> ModelUsage:
        """Return the usage as it is counted here: tokens read from and written to the cache are part of the input."""
        cached = self.cache_read_input_tokens or 0
        tokens_in = self.input_tokens + cached + (self.cache_creation_input_tokens or 0)
        return ModelUsage(calls=1, tokens_in=tokens_in, tokens_cached=cached, tokens_out=self.output_tokens)


class _MessagesReply(WireModel):
    content: list[_ContentBlock]
    model: str | None = None
    stop_reason: str | None = None
    usage: _ReplyUsage | None = None


def _has_answer(blocks: Sequence[_ContentBlock]) -> bool:
    """Return whether there is anything but reasoning, so that the message may be part of a conversation."""
    return any(block.type not in {"thinking", "redacted_thinking"} for block in blocks)


def _parse_tool_call(block: _ContentBlock) -> ToolCall:
    return ToolCall(id=block.id, name=block.name, arguments=encode_arguments(block.input or {}))


def _refusal_text(value: dict[str, Any]) -> str:
    details = value.get("stop_details") or {}
    reason = details.get("explanation") or details.get("category") if isinstance(details, dict) else None
    return str(reason or "the model refused to answer")


def _takes_schema(call: WireCall) -> bool:
    schema = call.prompt.schema
    return call.profile.schema is SchemaSupport.SCHEMA and schema is not None and is_object_schema(schema)


def _system_fields(call: WireCall) -> dict[str, Json]:
    text = system_text(call.prompt.messages)
    if call.prompt.schema is not None and not _takes_schema(call):
        text = "\n\n".join(filter(None, (text, schema_instruction(call.prompt.schema))))
    if not text.strip():
        return {}
    block: dict[str, Json] = {"type": "text", "text": replace_surrogates(text)}
    if call.prompt.stable:
        block["cache_control"] = dict(_CACHE_CONTROL)
    return {"system": [block]}


def _thinking_fields(call: WireCall) -> dict[str, Json]:
    """Return the reasoning setting.

    Adaptive models get a level. A summary of the reasoning is requested, which costs nothing and is for the record.
    """
    level, style = call.level, call.profile.thinking
    if level is None or style is ThinkingStyle.NONE:
        return {}
    if style is ThinkingStyle.ADAPTIVE:
        if level == "none":
            return {"thinking": {"type": "disabled"}}
        return {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": level}}
    if level == "none":
        return {}
    if _lacks_own_thinking(call):
        # These models want each message with a call to begin with a thinking block of their own.
        log.warning(
            "thinking is off for this request: its conversation holds calls of another model", model=call.display_name
        )
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": _thinking_tokens(call, level)}}


def _thinking_tokens(call: WireCall, level: str) -> int:
    limit = call.sampling.max_tokens
    if limit <= 2 * MIN_THINKING_TOKENS:
        message = (
            f"{call.display_name}: max_tokens = {limit} leaves no room to think; "
            f'set it above {2 * MIN_THINKING_TOKENS} in [llm.roles], or effort = "none"'
        )
        raise ConfigError(message)
    return max(MIN_THINKING_TOKENS, int(limit * _THINKING_SHARES[level]))


def _lacks_own_thinking(call: WireCall) -> bool:
    return any(
        message.speaker is MessageRole.ASSISTANT and message.calls and call.own_message(message) is None
        for message in call.prompt.messages
    )


def _tool_fields(tools: Sequence[ToolDefinition]) -> dict[str, Json]:
    if not tools:
        return {}
    return {
        "tools": [
            {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}
            for tool in tools
        ],
        # Reasoning models refuse a forced call.
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    }


def _encode_messages(call: WireCall) -> list[Json]:
    turns = list(conversation_turns(call.prompt.messages))
    marked = last_stable_turn(turns, call.prompt.stable)
    shared = shared_opening_place(call.prompt.messages[: call.prompt.stable])
    opening = None if shared is None else call.prompt.messages[shared]
    return [_encode_turn(call, turn, marked=place == marked, opening=opening) for place, turn in enumerate(turns)]


def _encode_turn(call: WireCall, turn: ConversationTurn, *, marked: bool, opening: Message | None) -> dict[str, Json]:
    """Return a turn; its last block is marked for the cache if asked for, and so is the text ``opening``."""
    if not isinstance(turn, UserTurn):
        kept = call.own_message(turn)
        return {"role": "assistant", "content": _encode_foreign_message(turn) if kept is None else kept}
    exact = turn.assistant_message is not None and call.own_message(turn.assistant_message) is not None
    blocks = [_encode_result(message, exact=exact) for message in turn.ordered_results()]
    for message in turn.texts:
        mark = {"cache_control": dict(_CACHE_CONTROL)} if message is opening else {}
        blocks.append({"type": "text", "text": nonblank_text(message.text), **mark})
    if marked:
        blocks[-1]["cache_control"] = dict(_CACHE_CONTROL)
    return {"role": "user", "content": [*blocks]}


def _encode_result(message: Message, *, exact: bool) -> dict[str, Json]:
    given = message.answers or ""
    answered = given if exact else portable_call_id(given)
    return {"type": "tool_result", "tool_use_id": answered, "content": nonblank_text(message.text)}


def _encode_foreign_message(message: Message) -> list[Json]:
    """Return another model's message, without reasoning."""
    blocks: list[Json] = []
    if message.text.strip() or not message.calls:
        blocks.append({"type": "text", "text": nonblank_text(message.text).rstrip()})
    for made in message.calls:
        given: dict[str, Json] = {"name": made.name, "input": call_arguments(made)}
        blocks.append({"type": "tool_use", "id": portable_call_id(made.id), **given})
    return blocks
