"""The form of Google's generateContent: a call as a body, a reply as a completion.

A model's content is sent back with all of its parts unchanged. A thought signature belongs to the part that it signs,
and a call without one is refused from Gemini 3 on. The results of one turn's calls are sent back together, in their
order. Source: Google, Gemini API reference; "Thought signatures", "Thinking", "Function calling", "Structured outputs".
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field, ValidationError

from bot.api import (
    ConfigError,
    FinishReason,
    Json,
    MalformedDataError,
    Message,
    ModelCompletion,
    ModelUsage,
    Prompt,
    ToolCall,
    ToolDefinition,
)
from plugins.models._profiles import SchemaSupport, ThinkingStyle
from plugins.models._provider_errors import ModelStateRefusedError, raise_provider_error
from plugins.models._schemas import GEMINI_JSON, reduce_schema
from plugins.models._wire_call import (
    SIGNATURE_PLACEHOLDER,
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
    malformed_reply,
    next_call_id,
    nonblank_text,
    portable_call_id,
    replace_surrogates,
    schema_instruction,
    system_text,
    with_known_usage,
)

FORMAT_NAME = "generateContent"
# Tokens of reasoning at each level, for the family that needs a number.
_THINKING_TOKENS = {"none": 0, "low": 2_048, "medium": 8_192, "high": 24_576}
MIN_ANSWER_TOKENS = 2_000

_FINISH_REASONS = {
    "STOP": FinishReason.STOP,
    "MAX_TOKENS": FinishReason.LENGTH,
    **dict.fromkeys(
        (
            *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"),
            *("IMAGE_SAFETY", "MODEL_ARMOR"),
        ),
        FinishReason.REFUSED,
    ),
}
_MISSING_SIGNATURE = "MISSING_THOUGHT_SIGNATURE"


def gemini_body(call: WireCall) -> dict[str, Json]:
    """Return the body of a request; raises ConfigError for an effort or a limit that the model cannot have."""
    prompt = call.prompt
    body: dict[str, Json] = {"contents": _encode_contents(call)}
    text = system_text(prompt.messages)
    config: dict[str, Json] = {
        "maxOutputTokens": call.sampling.max_tokens,
        **_sampling_fields(call),
        **_thinking_fields(call),
    }
    if prompt.schema is not None:
        config["responseMimeType"] = "application/json"
        if call.profile.schema is SchemaSupport.SCHEMA:
            config["responseJsonSchema"] = reduce_schema(prompt.schema, GEMINI_JSON)
        else:
            text = "\n\n".join(filter(None, (text, schema_instruction(prompt.schema))))
    if text.strip():
        body["systemInstruction"] = {"parts": [{"text": replace_surrogates(text)}]}
    if prompt.tools:
        body["tools"] = [{"functionDeclarations": [_encode_tool(tool) for tool in prompt.tools]}]
        # It may call tools or answer with text, and keeps to the schemas of the tools.
        mode = "VALIDATED" if _can_think(call) else "AUTO"
        body["toolConfig"] = {"functionCallingConfig": {"mode": mode}}
    return {**body, "generationConfig": config}


def read_gemini(raw: bytes, call: WireCall) -> WireReply:
    """Return the completion in a reply.

    Raises MalformedDataError for another form, and for an error in its place the error that it means.
    """
    value = decode_reply(raw, call.display_name)
    if "error" in value:
        raise_provider_error(json.dumps(value), shown=call.display_name, remedy=call.error_remedy)
    try:
        reply = _GeminiReply.model_validate(value)
    except ValidationError as error:
        raise malformed_reply(error, call.display_name, FORMAT_NAME) from None
    usage = reply.usage.to_usage() if reply.usage else ModelUsage()
    if not reply.candidates:
        why = reply.feedback.reason if reply.feedback else None
        if why is None:
            message = f"{call.display_name}: the reply has no candidate"
            raise MalformedDataError(message)
        text = f"the provider blocked the prompt ({why})"
        blocked = ModelCompletion(text=text, finish=FinishReason.REFUSED, usage=usage, model=reply.version or "")
        return WireReply(completion=with_known_usage(blocked, call.prompt))
    if reply.candidates[0].reason == _MISSING_SIGNATURE:
        message = f"{call.display_name}: {_MISSING_SIGNATURE}"
        raise ModelStateRefusedError(message)
    completion = _parse_candidate(reply.candidates[0], value["candidates"][0], call)
    completion = replace(completion, usage=usage, model=reply.version or "")
    return WireReply(completion=with_known_usage(completion, call.prompt))


class _FunctionCall(WireModel):
    name: str
    id: str | None = None
    args: dict[str, Any] | None = None


class _ContentPart(WireModel):
    text: str | None = None
    thought: bool = False
    function: _FunctionCall | None = Field(default=None, alias="functionCall")


class _ReplyContent(WireModel):
    parts: list[_ContentPart] = Field(default_factory=list)


class _ReplyCandidate(WireModel):
    content: _ReplyContent | None = None
    reason: str | None = Field(default=None, alias="finishReason")
    message: str | None = Field(default=None, alias="finishMessage")


class _PromptFeedback(WireModel):
    reason: str | None = Field(default=None, alias="blockReason")


class _ReplyUsage(WireModel):
    prompt: TokenCount = Field(default=0, alias="promptTokenCount")
    cached: TokenCount = Field(default=0, alias="cachedContentTokenCount")
    answer: TokenCount = Field(default=0, alias="candidatesTokenCount")
    thoughts: TokenCount = Field(default=0, alias="thoughtsTokenCount")
    tools: TokenCount = Field(default=0, alias="toolUsePromptTokenCount")

    def to_usage(self) -> ModelUsage:
        """Return the usage as it is counted here: reasoning is billed as output, and reported separately."""
        tokens_in = self.prompt + self.tools
        cached = min(self.cached, tokens_in)
        return ModelUsage(calls=1, tokens_in=tokens_in, tokens_cached=cached, tokens_out=self.answer + self.thoughts)


class _GeminiReply(WireModel):
    candidates: list[_ReplyCandidate] = Field(default_factory=list)
    feedback: _PromptFeedback | None = Field(default=None, alias="promptFeedback")
    usage: _ReplyUsage | None = Field(default=None, alias="usageMetadata")
    version: str | None = Field(default=None, alias="modelVersion")


def _parse_candidate(candidate: _ReplyCandidate, value: Mapping[str, Any], call: WireCall) -> ModelCompletion:
    finish = _FINISH_REASONS.get(candidate.reason or "", FinishReason.OTHER)
    if finish is FinishReason.OTHER and candidate.reason:
        # A call that broke its own form, and the like: it cannot be used, or sent back.
        return ModelCompletion(finish=finish)
    parts = candidate.content.parts if candidate.content else []
    calls = _parse_tool_calls(parts, call.prompt)
    text = "".join(part.text or "" for part in parts if not part.thought)
    if finish is FinishReason.REFUSED and not text:
        text = candidate.message or f"the provider stopped the answer ({candidate.reason})"
    return ModelCompletion(
        text=text,
        calls=calls,
        thinking="".join(part.text or "" for part in parts if part.thought),
        finish=FinishReason.CALLS if calls and finish in {FinishReason.STOP, FinishReason.OTHER} else finish,
        native=call.native_message({"role": "model", **value["content"]}) if _has_answer(parts) else None,
    )


def _has_answer(parts: Sequence[_ContentPart]) -> bool:
    """Return whether there is anything but reasoning, so that the content may be part of a conversation."""
    return any(not part.thought for part in parts)


def _parse_tool_calls(parts: Sequence[_ContentPart], prompt: Prompt) -> tuple[ToolCall, ...]:
    functions = [part.function for part in parts if part.function is not None]
    return tuple(
        ToolCall(
            id=function.id or next_call_id(prompt, nth),
            name=function.name,
            arguments=encode_arguments(function.args or {}),
        )
        for nth, function in enumerate(functions, 1)
    )


def _can_think(call: WireCall) -> bool:
    return call.profile.thinking is not ThinkingStyle.NONE


def _sampling_fields(call: WireCall) -> dict[str, Json]:
    temperature = call.sampling.temperature
    return {"temperature": temperature} if call.profile.takes_sampling and temperature is not None else {}


def _thinking_fields(call: WireCall) -> dict[str, Json]:
    """Return the reasoning setting, with a summary of the reasoning for the record."""
    level = call.level
    if level is None or not _can_think(call):
        return {}
    if call.profile.thinking is ThinkingStyle.LEVEL:
        return {"thinkingConfig": {"thinkingLevel": level, "includeThoughts": True}}
    budget = _THINKING_TOKENS[level]
    if level != "none":
        budget = min(budget, call.sampling.max_tokens - MIN_ANSWER_TOKENS)
        if budget < _THINKING_TOKENS["low"] // 2:
            limit = call.sampling.max_tokens
            message = f"{call.display_name}: max_tokens = {limit} leaves no room to think; raise it in [llm.roles]"
            raise ConfigError(message)
    return {"thinkingConfig": {"thinkingBudget": budget, "includeThoughts": level != "none"}}


def _encode_tool(tool: ToolDefinition) -> dict[str, Json]:
    declared: dict[str, Json] = {"name": tool.name, "description": tool.description}
    # An object without properties is refused.
    if tool.parameters.get("properties"):
        declared["parametersJsonSchema"] = reduce_schema(tool.parameters, GEMINI_JSON)
    return declared


def _encode_contents(call: WireCall) -> list[Json]:
    return [_encode_turn(call, turn) for turn in conversation_turns(call.prompt.messages)]


def _encode_turn(call: WireCall, turn: ConversationTurn) -> Json:
    if not isinstance(turn, UserTurn):
        kept = call.own_message(turn)
        return _encode_foreign_message(turn, call) if kept is None else kept
    ids = _call_ids(call, turn.assistant_message)
    parts: list[Json] = [_encode_result(message, turn.assistant_message, ids) for message in turn.ordered_results()]
    parts += [{"text": nonblank_text(message.text)} for message in turn.texts]
    return {"role": "user", "parts": parts}


def _function_calls(kept: Json) -> list[Mapping[str, Json]]:
    """Return the calls in a returned content, in their order."""
    parts = kept.get("parts") if isinstance(kept, dict) else None
    found = [part.get("functionCall") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return [function for function in found if isinstance(function, dict)]


def _encode_result(message: Message, asked: Message | None, ids: Sequence[Json]) -> Json:
    """Return a result, with the id that its call has, where it has one."""
    calls = asked.calls if asked else ()
    place = next((place for place, made in enumerate(calls) if made.id == message.answers), None)
    name = calls[place].name if place is not None else "unknown"
    response: dict[str, Json] = {"name": name, "response": {"content": replace_surrogates(message.text)}}
    if place is not None and place < len(ids) and ids[place]:
        response = {"id": ids[place], **response}
    return {"functionResponse": response}


def _call_ids(call: WireCall, asked: Message | None) -> Sequence[Json]:
    """Return the ids of the calls of a message as it was sent back.

    those it came with, else ours, where ids are accepted.
    """
    if asked is None:
        return ()
    kept = call.own_message(asked)
    if kept is not None:
        return [function.get("id") for function in _function_calls(kept)]
    return [portable_call_id(made.id) if _takes_call_ids(call) else None for made in asked.calls]


def _takes_call_ids(call: WireCall) -> bool:
    """Return whether a call may have an id; models without reasoning levels refuse them."""
    return call.profile.thinking is ThinkingStyle.LEVEL


def _encode_foreign_message(message: Message, call: WireCall) -> Json:
    """Return another model's message, its first call with an accepted replacement of a signature."""
    parts: list[Json] = []
    if message.text.strip() or not message.calls:
        parts.append({"text": nonblank_text(message.text)})
    for nth, made in enumerate(message.calls):
        function: dict[str, Json] = {"name": made.name, "args": call_arguments(made)}
        part: dict[str, Json] = {"functionCall": function}
        if _takes_call_ids(call):
            part = {"functionCall": {"id": portable_call_id(made.id), **function}}
        if nth == 0 and call.profile.thinking is ThinkingStyle.LEVEL:
            part["thoughtSignature"] = SIGNATURE_PLACEHOLDER
        parts.append(part)
    return {"role": "model", "parts": parts}
