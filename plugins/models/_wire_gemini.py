"""The form of Google's generateContent: a call as a body, a reply as a completion.

A model's content goes back with all of its parts as they came. A thought signature stands on the part that it signs,
and a call without one is refused from Gemini 3 on. The results of one turn's calls go back together, in their order.
Source: Google, Gemini API reference; "Thought signatures", "Thinking", "Function calling", "Structured outputs".
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field, ValidationError

from bot.api import Completion, ConfigError, ContractError, Finish, Json, Message, Prompt, Tool, ToolCall, Usage
from plugins.models._faults import StateRefused, raise_fault
from plugins.models._profiles import SchemaForm, ThinkingStyle
from plugins.models._schemas import GEMINI_JSON, reduced
from plugins.models._turns import Turn, UserTurn, turns_of
from plugins.models._wire_call import (
    NO_SIGNATURE,
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
    next_id,
    schema_request,
    sendable,
    system_text,
    written_out,
)

FORM = "generateContent"
# Tokens of thought at each level, for the family that wants a number.
_BUDGETS = {"none": 0, "low": 2_048, "medium": 8_192, "high": 24_576}
LEAST_ANSWER = 2_000

_FINISHES = {
    "STOP": Finish.STOP,
    "MAX_TOKENS": Finish.LENGTH,
    **dict.fromkeys(
        (
            *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"),
            *("IMAGE_SAFETY", "MODEL_ARMOR"),
        ),
        Finish.REFUSED,
    ),
}
_UNSIGNED = "MISSING_THOUGHT_SIGNATURE"


def gemini_body(call: WireCall) -> dict[str, Json]:
    """Return the body of a request; raises ConfigError for an effort or a limit that the model cannot have."""
    prompt = call.prompt
    body: dict[str, Json] = {"contents": _contents(call)}
    text = system_text(prompt.messages)
    config: dict[str, Json] = {"maxOutputTokens": call.sampling.max_tokens, **_sampled(call), **_thinking(call)}
    if prompt.schema is not None:
        config["responseMimeType"] = "application/json"
        if call.profile.schema is SchemaForm.SCHEMA:
            config["responseJsonSchema"] = reduced(prompt.schema, GEMINI_JSON)
        else:
            text = "\n\n".join(filter(None, (text, schema_request(prompt.schema))))
    if text.strip():
        body["systemInstruction"] = {"parts": [{"text": sendable(text)}]}
    if prompt.tools:
        body["tools"] = [{"functionDeclarations": [_declaration(tool) for tool in prompt.tools]}]
        # It calls or speaks as it likes, and keeps to the schemas of the tools.
        mode = "VALIDATED" if _thinks(call) else "AUTO"
        body["toolConfig"] = {"functionCallingConfig": {"mode": mode}}
    return {**body, "generationConfig": config}


def read_gemini(raw: bytes, call: WireCall) -> WireReply:
    """Return what a reply says.

    Raises ContractError for another form, and an error in its place as what it is.
    """
    value = decoded(raw, call.shown)
    if "error" in value:
        raise_fault(json.dumps(value), shown=call.shown, remedy=call.remedy)
    try:
        reply = _Reply.model_validate(value)
    except ValidationError as error:
        raise broken(error, call.shown, FORM) from None
    usage = estimated(call.prompt, 0) if reply.usage is None else reply.usage.counted()
    if not reply.candidates:
        why = reply.feedback.reason if reply.feedback else None
        if why is None:
            message = f"{call.shown}: the reply has no candidate"
            raise ContractError(message)
        text = f"the provider blocked the prompt ({why})"
        return WireReply(
            completion=Completion(text=text, finish=Finish.REFUSED, usage=usage, model=reply.version or "")
        )
    if reply.candidates[0].reason == _UNSIGNED:
        message = f"{call.shown}: {_UNSIGNED}"
        raise StateRefused(message)
    completion = _completion(reply.candidates[0], value["candidates"][0], call)
    usage = usage if reply.usage else estimated(call.prompt, len(completion.text))
    return WireReply(completion=replace(completion, usage=usage, model=reply.version or ""))


class _Function(WirePart):
    name: str
    id: str | None = None
    args: dict[str, Any] | None = None


class _Part(WirePart):
    text: str | None = None
    thought: bool = False
    function: _Function | None = Field(default=None, alias="functionCall")


class _Content(WirePart):
    parts: list[_Part] = Field(default_factory=list)


class _Candidate(WirePart):
    content: _Content | None = None
    reason: str | None = Field(default=None, alias="finishReason")
    message: str | None = Field(default=None, alias="finishMessage")


class _Feedback(WirePart):
    reason: str | None = Field(default=None, alias="blockReason")


class _Usage(WirePart):
    prompt: TokenCount = Field(default=0, alias="promptTokenCount")
    cached: TokenCount = Field(default=0, alias="cachedContentTokenCount")
    answer: TokenCount = Field(default=0, alias="candidatesTokenCount")
    thoughts: TokenCount = Field(default=0, alias="thoughtsTokenCount")
    tools: TokenCount = Field(default=0, alias="toolUsePromptTokenCount")

    def counted(self) -> Usage:
        """Return the usage as it is counted here: thoughts are billed as output, and told beside it."""
        tokens_in = self.prompt + self.tools
        cached = min(self.cached, tokens_in)
        return Usage(calls=1, tokens_in=tokens_in, tokens_cached=cached, tokens_out=self.answer + self.thoughts)


class _Reply(WirePart):
    candidates: list[_Candidate] = Field(default_factory=list)
    feedback: _Feedback | None = Field(default=None, alias="promptFeedback")
    usage: _Usage | None = Field(default=None, alias="usageMetadata")
    version: str | None = Field(default=None, alias="modelVersion")


def _completion(said: _Candidate, value: Mapping[str, Any], call: WireCall) -> Completion:
    finish = _FINISHES.get(said.reason or "", Finish.OTHER)
    if finish is Finish.OTHER and said.reason:
        # A call that broke its own form, and the like: nothing of it can be used, or sent back.
        return Completion(finish=finish)
    parts = said.content.parts if said.content else []
    calls = _calls(parts, call.prompt)
    text = "".join(part.text or "" for part in parts if not part.thought)
    if finish is Finish.REFUSED and not text:
        text = said.message or f"the provider stopped the answer ({said.reason})"
    return Completion(
        text=text,
        calls=calls,
        thinking="".join(part.text or "" for part in parts if part.thought),
        finish=Finish.CALLS if calls and finish in {Finish.STOP, Finish.OTHER} else finish,
        native=call.native({"role": "model", **value["content"]}) if _answers(parts) else None,
    )


def _answers(parts: Sequence[_Part]) -> bool:
    """Say whether there is anything but thoughts, so that the content may stand in a conversation."""
    return any(not part.thought for part in parts)


def _calls(parts: Sequence[_Part], prompt: Prompt) -> tuple[ToolCall, ...]:
    functions = [part.function for part in parts if part.function is not None]
    return tuple(
        ToolCall(id=function.id or next_id(prompt, nth), name=function.name, arguments=written_out(function.args or {}))
        for nth, function in enumerate(functions, 1)
    )


def _thinks(call: WireCall) -> bool:
    return call.profile.thinking is not ThinkingStyle.NONE


def _sampled(call: WireCall) -> dict[str, Json]:
    temperature = call.sampling.temperature
    return {"temperature": temperature} if call.profile.sampling and temperature is not None else {}


def _thinking(call: WireCall) -> dict[str, Json]:
    """Return how the model is to think, with a summary of the thoughts for the record."""
    level = call.level
    if level is None or not _thinks(call):
        return {}
    if call.profile.thinking is ThinkingStyle.LEVEL:
        return {"thinkingConfig": {"thinkingLevel": level, "includeThoughts": True}}
    budget = _BUDGETS[level]
    if level != "none":
        budget = min(budget, call.sampling.max_tokens - LEAST_ANSWER)
        if budget < _BUDGETS["low"] // 2:
            limit = call.sampling.max_tokens
            message = f"{call.shown}: max_tokens = {limit} leaves no room to think; raise it in [llm.roles]"
            raise ConfigError(message)
    return {"thinkingConfig": {"thinkingBudget": budget, "includeThoughts": level != "none"}}


def _declaration(tool: Tool) -> dict[str, Json]:
    declared: dict[str, Json] = {"name": tool.name, "description": tool.description}
    # An object without properties is refused.
    if tool.parameters.get("properties"):
        declared["parametersJsonSchema"] = reduced(tool.parameters, GEMINI_JSON)
    return declared


def _contents(call: WireCall) -> list[Json]:
    return [_content(call, turn) for turn in turns_of(call.prompt.messages)]


def _content(call: WireCall, turn: Turn) -> Json:
    if not isinstance(turn, UserTurn):
        kept = call.received(turn)
        return _model(turn, call) if kept is None else kept
    ids = _ids(call, turn.asked)
    parts: list[Json] = [_response(message, turn.asked, ids) for message in turn.ordered()]
    parts += [{"text": filled(message.text)} for message in turn.texts]
    return {"role": "user", "parts": parts}


def _functions_of(kept: Json) -> list[Mapping[str, Json]]:
    """Return the calls in a content that came, in their order."""
    parts = kept.get("parts") if isinstance(kept, dict) else None
    found = [part.get("functionCall") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return [function for function in found if isinstance(function, dict)]


def _response(message: Message, asked: Message | None, ids: Sequence[Json]) -> Json:
    """Return a result, with the id that its call has, where it has one."""
    calls = asked.calls if asked else ()
    place = next((place for place, made in enumerate(calls) if made.id == message.answers), None)
    name = calls[place].name if place is not None else "unknown"
    response: dict[str, Json] = {"name": name, "response": {"content": sendable(message.text)}}
    if place is not None and place < len(ids) and ids[place]:
        response = {"id": ids[place], **response}
    return {"functionResponse": response}


def _ids(call: WireCall, asked: Message | None) -> Sequence[Json]:
    """Return the ids of the calls of a message as it went back: those it came with, else ours, where ids are taken."""
    if asked is None:
        return ()
    kept = call.received(asked)
    if kept is not None:
        return [function.get("id") for function in _functions_of(kept)]
    return [foreign_id(made.id) if _takes_ids(call) else None for made in asked.calls]


def _takes_ids(call: WireCall) -> bool:
    """Say whether a call may have an id; the models before those with levels of thinking refuse them."""
    return call.profile.thinking is ThinkingStyle.LEVEL


def _model(message: Message, call: WireCall) -> Json:
    """Return what another model said, its first call with what is taken in place of a signature."""
    parts: list[Json] = []
    if message.text.strip() or not message.calls:
        parts.append({"text": filled(message.text)})
    for nth, made in enumerate(message.calls):
        function: dict[str, Json] = {"name": made.name, "args": arguments_of(made)}
        part: dict[str, Json] = {"functionCall": function}
        if _takes_ids(call):
            part = {"functionCall": {"id": foreign_id(made.id), **function}}
        if nth == 0 and call.profile.thinking is ThinkingStyle.LEVEL:
            part["thoughtSignature"] = NO_SIGNATURE
        parts.append(part)
    return {"role": "model", "parts": parts}
