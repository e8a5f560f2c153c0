"""The form of Anthropic's Messages API: a call as a body, a reply as a completion.

An assistant message goes back as the list of content blocks that came, in their order: thinking and redacted blocks
are signed, an empty thinking text with a signature included. Some models bind each block to the exact system text,
tools and messages before it, so nothing of an earlier request may change.
Source: Anthropic, Messages API; "Extended thinking", "Adaptive thinking", "Prompt caching", "Structured outputs".
"""

import json
from collections.abc import Sequence
from typing import Any

import structlog
from pydantic import ValidationError

from bot.api import Completion, ConfigError, Finish, Json, Message, Speaker, Tool, ToolCall, Usage
from plugins.models._faults import raise_fault
from plugins.models._profiles import SchemaForm, ThinkingStyle
from plugins.models._schemas import CLAUDE_FORMAT, is_object, reduced
from plugins.models._turns import Turn, UserTurn, last_stable, turns_of
from plugins.models._wire_call import (
    TokenCount,
    WireCall,
    WirePart,
    WireReply,
    arguments_of,
    broken,
    decoded,
    estimated,
    filled,
    foreign_id,
    schema_request,
    sendable,
    system_text,
    written_out,
)

log = structlog.get_logger()

FORM = "Anthropic's Messages API"
# The share of max_tokens that thinking may take at each level, for models that want a number; the rest is the answer.
_SHARES = {"low": 0.15, "medium": 0.35, "high": 0.6, "xhigh": 0.75, "max": 0.85}
LEAST_BUDGET = 1024
# Marks the end of what is put into the cache, for five minutes from the last time it was read.
_MARK: dict[str, Json] = {"type": "ephemeral"}

_FINISHES = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "tool_use": Finish.CALLS,
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "refusal": Finish.REFUSED,
}


def messages_body(call: WireCall) -> dict[str, Json]:
    """Return the body of a request; raises ConfigError for an effort or a limit that the model cannot have."""
    prompt, sampling = call.prompt, call.sampling
    thinking = _thinking(call)
    body: dict[str, Json] = {
        "model": call.name,
        "max_tokens": sampling.max_tokens,
        **_system(call),
        "messages": _messages(call),
        **thinking,
        **_tools(prompt.tools),
    }
    if call.profile.sampling and sampling.temperature is not None and "thinking" not in thinking:
        body["temperature"] = min(1.0, sampling.temperature)
    if prompt.schema is not None and _takes_format(call):
        wanted: Json = {"type": "json_schema", "schema": reduced(prompt.schema, CLAUDE_FORMAT)}
        config = body.get("output_config")
        body["output_config"] = {**(config if isinstance(config, dict) else {}), "format": wanted}
    return body


def read_messages(raw: bytes, call: WireCall) -> WireReply:
    """Return what a reply says. Raises ContractError for another form, and an error in its place as what it is."""
    value = decoded(raw, call.shown)
    if value.get("type") == "error":
        raise_fault(json.dumps(value), shown=call.shown, remedy=call.remedy)
    try:
        reply = _Reply.model_validate(value)
    except ValidationError as error:
        raise broken(error, call.shown, FORM) from None
    blocks: list[Json] = value["content"]
    calls = tuple(_call(block) for block in reply.content if block.type == "tool_use")
    text = "".join(block.text or "" for block in reply.content if block.type == "text")
    finish = _FINISHES.get(reply.stop_reason or "", Finish.OTHER)
    completion = Completion(
        text=text or (_refusal(value) if finish is Finish.REFUSED else ""),
        calls=calls,
        thinking="".join(block.thinking or "" for block in reply.content if block.type == "thinking"),
        finish=Finish.CALLS if calls and finish is Finish.STOP else finish,
        usage=estimated(call.prompt, len(text)) if reply.usage is None else reply.usage.counted(),
        model=reply.model or "",
        native=call.native(blocks) if _answers(reply.content) else None,
    )
    return WireReply(completion=completion, written=reply.usage.cache_creation_input_tokens or 0 if reply.usage else 0)


class _Block(WirePart):
    type: str
    text: str | None = None
    thinking: str | None = None
    id: str = ""
    name: str = ""
    input: dict[str, Any] | None = None


class _Usage(WirePart):
    input_tokens: TokenCount
    output_tokens: TokenCount = 0
    cache_creation_input_tokens: TokenCount | None = None
    cache_read_input_tokens: TokenCount | None = None

    def counted(self) -> Usage:
        """Return the usage as it is counted here: what the cache gave, and took, is part of what came in."""
        cached = self.cache_read_input_tokens or 0
        tokens_in = self.input_tokens + cached + (self.cache_creation_input_tokens or 0)
        return Usage(calls=1, tokens_in=tokens_in, tokens_cached=cached, tokens_out=self.output_tokens)


class _Reply(WirePart):
    content: list[_Block]
    model: str | None = None
    stop_reason: str | None = None
    usage: _Usage | None = None


def _answers(blocks: Sequence[_Block]) -> bool:
    """Say whether there is anything but thoughts, so that the message may stand in a conversation."""
    return any(block.type not in {"thinking", "redacted_thinking"} for block in blocks)


def _call(block: _Block) -> ToolCall:
    return ToolCall(id=block.id, name=block.name, arguments=written_out(block.input or {}))


def _refusal(value: dict[str, Any]) -> str:
    details = value.get("stop_details") or {}
    said = details.get("explanation") or details.get("category") if isinstance(details, dict) else None
    return str(said or "the model refused to answer")


def _takes_format(call: WireCall) -> bool:
    schema = call.prompt.schema
    return call.profile.schema is SchemaForm.SCHEMA and schema is not None and is_object(schema)


def _system(call: WireCall) -> dict[str, Json]:
    text = system_text(call.prompt.messages)
    if call.prompt.schema is not None and not _takes_format(call):
        text = "\n\n".join(filter(None, (text, schema_request(call.prompt.schema))))
    if not text.strip():
        return {}
    block: dict[str, Json] = {"type": "text", "text": sendable(text)}
    if call.prompt.stable:
        block["cache_control"] = dict(_MARK)
    return {"system": [block]}


def _thinking(call: WireCall) -> dict[str, Json]:
    """Return how the model is to think.

    Adaptive models are told a level. A summary of the thoughts is asked for, which costs nothing and is for the record.
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
    if _lacks_thoughts(call):
        # These models want each message with a call to begin with a thinking block of their own.
        log.warning("thinking is off for this request: its conversation holds calls of another model", model=call.shown)
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": _budget(call, level)}}


def _budget(call: WireCall, level: str) -> int:
    limit = call.sampling.max_tokens
    if limit <= 2 * LEAST_BUDGET:
        message = (
            f"{call.shown}: max_tokens = {limit} leaves no room to think; set it above {2 * LEAST_BUDGET} in "
            '[llm.roles], or effort = "none"'
        )
        raise ConfigError(message)
    return max(LEAST_BUDGET, int(limit * _SHARES[level]))


def _lacks_thoughts(call: WireCall) -> bool:
    return any(
        message.speaker is Speaker.ASSISTANT and message.calls and call.received(message) is None
        for message in call.prompt.messages
    )


def _tools(tools: Sequence[Tool]) -> dict[str, Json]:
    if not tools:
        return {}
    return {
        "tools": [
            {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}
            for tool in tools
        ],
        # A forced call is refused by models that think.
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    }


def _messages(call: WireCall) -> list[Json]:
    turns = list(turns_of(call.prompt.messages))
    marked = last_stable(turns, call.prompt.stable)
    return [_turn(call, turn, marked=place == marked) for place, turn in enumerate(turns)]


def _turn(call: WireCall, turn: Turn, *, marked: bool) -> dict[str, Json]:
    if not isinstance(turn, UserTurn):
        kept = call.received(turn)
        return {"role": "assistant", "content": _assistant(turn) if kept is None else kept}
    exact = turn.asked is not None and call.received(turn.asked) is not None
    blocks = [_result(message, exact=exact) for message in turn.ordered()]
    blocks += [{"type": "text", "text": filled(message.text)} for message in turn.texts]
    if marked:
        blocks[-1]["cache_control"] = dict(_MARK)
    return {"role": "user", "content": [*blocks]}


def _result(message: Message, *, exact: bool) -> dict[str, Json]:
    given = message.answers or ""
    answered = given if exact else foreign_id(given)
    return {"type": "tool_result", "tool_use_id": answered, "content": filled(message.text)}


def _assistant(message: Message) -> list[Json]:
    """Return what another model said, without thoughts."""
    blocks: list[Json] = []
    if message.text.strip() or not message.calls:
        blocks.append({"type": "text", "text": filled(message.text).rstrip()})
    for made in message.calls:
        given: dict[str, Json] = {"name": made.name, "input": arguments_of(made)}
        blocks.append({"type": "tool_use", "id": foreign_id(made.id), **given})
    return blocks
