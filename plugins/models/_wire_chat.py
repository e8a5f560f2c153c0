"""The wire format of chat completions, as most vendors, routers and local servers use it.

A call as a request body, a reply as a completion.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field, ValidationError

from bot.api import (
    ContextLengthExceededError,
    FinishReason,
    Json,
    MalformedDataError,
    Message,
    MessageRole,
    ModelCompletion,
    ModelUsage,
    Prompt,
    ToolCall,
    ToolDefinition,
)
from plugins.models._profiles import ModelProfile, SchemaSupport, ThinkingStyle
from plugins.models._provider_errors import raise_provider_error
from plugins.models._schemas import OPENAI_STRICT, reduce_schema
from plugins.models._wire_call import (
    ANSWER_NAME,
    CHARS_PER_TOKEN,
    SIGNATURE_PLACEHOLDER,
    TokenCount,
    WireCall,
    WireModel,
    WireReply,
    decode_reply,
    malformed_reply,
    next_call_id,
    nonblank_text,
    portable_call_id,
    prompt_chars,
    replace_surrogates,
    reported_usage,
    schema_instruction,
    shared_opening_place,
    with_known_usage,
)

# Some models require reasoning in every message with a call, also where another model made it. They accept a space.
_REASONING_PLACEHOLDER = " "


# The share of max_tokens for reasoning, for models that need a number; at high effort they get none.
_THINKING_SHARES = {"low": 0.15, "medium": 0.4}


def chat_body(call: WireCall) -> dict[str, Json]:
    """Return the body of a request; raises ConfigError for an effort that the model does not accept."""
    profile = call.profile
    return {
        "model": call.name,
        "messages": chat_messages(call),
        profile.limit_field: call.sampling.max_tokens,
        **_sampling_fields(call),
        **_thinking_fields(call),
        **tool_fields(call),
        **response_format(call),
        **({"provider": {"require_parameters": True}} if profile.requires_parameters else {}),
    }


def chat_messages(call: WireCall) -> list[Json]:
    """Return the messages as they are sent."""
    profile, marked = call.profile, _cacheable_places(call)
    sent: list[dict[str, Json]] = []
    own: set[str] = set()
    for place, message in enumerate(_with_schema_instruction(call)):
        kept = None if message.native is None else call.own_message(message)
        if isinstance(kept, dict):
            own.update(made.id for made in message.calls)
            sent.append(_own_message(kept, profile))
        elif profile.short_call_ids and message.speaker is MessageRole.USER and sent and sent[-1]["role"] == "tool":
            sent[-1]["content"] = f"{sent[-1]['content']}\n\n{replace_surrogates(message.text)}"
        elif message.speaker is MessageRole.USER and sent and sent[-1]["role"] == "user":
            # Many servers refuse two messages of one speaker in a row.
            _add_text(sent[-1], message, marked=place in marked)
        else:
            sent.append(_encode_message(message, own, profile))
            if profile.cache_marks and message.speaker is not MessageRole.ASSISTANT:
                sent[-1]["content"] = [_text_part(message, marked=place in marked)]
    return [*sent]


def _add_text(sent: dict[str, Json], message: Message, *, marked: bool) -> None:
    """Add a text to a message, as a part of it where it has parts."""
    content = sent["content"]
    if isinstance(content, list):
        content.append(_text_part(message, marked=marked))
    else:
        sent["content"] = f"{content}\n\n{replace_surrogates(message.text)}"


def _cacheable_places(call: WireCall) -> Sequence[int]:
    """Return the places of messages to mark, where the vendor uses marks: of the shared opening, and the last one."""
    messages = call.prompt.messages[: call.prompt.stable] if call.profile.cache_marks else ()
    places = [
        place for place, one in enumerate(messages) if one.text.strip() and one.speaker is not MessageRole.ASSISTANT
    ]
    shared = shared_opening_place(messages)
    return [*places[-1:], *([shared] if shared in places else [])]


def _text_part(message: Message, *, marked: bool) -> Json:
    """Return a text as a part, so that a mark that moves on does not change the form of a message."""
    part: dict[str, Json] = {"type": "text", "text": nonblank_text(message.text)}
    return {**part, "cache_control": {"type": "ephemeral"}} if marked else part


def _own_message(kept: dict[str, Json], profile: ModelProfile) -> dict[str, Json]:
    """Return a message of this model unchanged, except for fields that its vendor refuses in its own messages."""
    return {name: value for name, value in kept.items() if name not in profile.refused_fields}


def _encode_message(message: Message, own: set[str], profile: ModelProfile) -> dict[str, Json]:
    """Return a message of another author; ``own`` are the ids that this model gave, all others are replaced."""
    sent: dict[str, Json] = {"role": str(message.speaker), "content": replace_surrogates(message.text)}
    if message.speaker is MessageRole.TOOL:
        given = message.answers or ""
        sent["tool_call_id"] = given if given in own else portable_call_id(given, short=profile.short_call_ids)
    if message.calls:
        # The vendor with short ids may refuse text together with calls, though it returns both.
        words = message.text and not profile.short_call_ids
        sent["content"] = replace_surrogates(message.text) if words else None
        sent["tool_calls"] = [_encode_foreign_call(made, nth, profile) for nth, made in enumerate(message.calls)]
        if profile.reasoning_placeholder == "reasoning_content":
            sent["reasoning_content"] = _REASONING_PLACEHOLDER
    return sent


def _encode_foreign_call(made: ToolCall, nth: int, profile: ModelProfile) -> Json:
    function: dict[str, Json] = {"name": made.name, "arguments": replace_surrogates(made.arguments)}
    sent: dict[str, Json] = {
        "id": portable_call_id(made.id, short=profile.short_call_ids),
        "type": "function",
        "function": function,
    }
    if nth == 0 and profile.reasoning_placeholder == "signature":
        sent["extra_content"] = {"google": {"thought_signature": SIGNATURE_PLACEHOLDER}}
    return sent


def _with_schema_instruction(call: WireCall) -> Sequence[Message]:
    """Return the messages with the schema in words, where the vendor accepts it in no other way."""
    messages, schema = call.prompt.messages, call.prompt.schema
    if schema is None or call.profile.schema is SchemaSupport.SCHEMA:
        return messages
    words = schema_instruction(schema)
    if messages and messages[0].speaker is MessageRole.SYSTEM:
        return (replace(messages[0], text=f"{messages[0].text}\n\n{words}"), *messages[1:])
    return (Message(speaker=MessageRole.SYSTEM, text=words), *messages)


def _sampling_fields(call: WireCall) -> dict[str, Json]:
    if not call.profile.takes_sampling:
        return {}
    wanted: dict[str, Json] = {"temperature": call.sampling.temperature, call.profile.seed_field: call.sampling.seed}
    return {name: value for name, value in wanted.items() if value is not None}


def _thinking_fields(call: WireCall) -> dict[str, Json]:
    """Return the reasoning setting in the vendor's form."""
    level = call.level
    if level is None:
        return {}
    on, style = level != "none", call.profile.thinking
    if style is ThinkingStyle.REASONING:
        return {"reasoning": {"effort": level}}
    if style is ThinkingStyle.FLAG:
        return _thinking_flag_fields(call, level)
    if style is ThinkingStyle.TOGGLE and not on:
        return {"reasoning": {"enabled": False}}
    switch: dict[str, Json] = {"type": "enabled" if on else "disabled"}
    if on and call.profile.keep_earlier == "clear_thinking":
        switch["clear_thinking"] = False
    if on and call.profile.keep_earlier == "keep":
        switch["keep"] = "all"
    if style is ThinkingStyle.SWITCH or (not on and style is ThinkingStyle.SWITCH_EFFORT):
        return {"thinking": switch}
    effort: dict[str, Json] = {} if style is ThinkingStyle.NONE else {"reasoning_effort": level}
    return {"thinking": switch, **effort} if style is ThinkingStyle.SWITCH_EFFORT else effort


def _thinking_flag_fields(call: WireCall, level: str) -> dict[str, Json]:
    if level == "none":
        return {"enable_thinking": False}
    fields: dict[str, Json] = {"enable_thinking": True, call.profile.keep_earlier: True}
    if level in _THINKING_SHARES:
        fields["thinking_budget"] = int(call.sampling.max_tokens * _THINKING_SHARES[level])
    return fields


def tool_fields(call: WireCall) -> dict[str, Json]:
    """Return the tools and the setting for their choice."""
    prompt = call.prompt
    if not prompt.tools:
        return {}
    fields: dict[str, Json] = {
        "tools": [_encode_tool(tool) for tool in prompt.tools],
        "tool_choice": _tool_choice(call),
    }
    if call.profile.single_call:
        fields["parallel_tool_calls"] = False
    return fields


def _tool_choice(call: WireCall) -> Json:
    """Return whether a tool must be called, and which; reasoning models refuse a forced choice."""
    if call.tool_choice == "auto":
        return "auto"
    named = call.prompt.allowed or tuple(tool.name for tool in call.prompt.tools)
    return "required" if len(named) > 1 else {"type": "function", "function": {"name": named[0]}}


def response_format(call: WireCall) -> dict[str, Json]:
    """Return the setting for the form of the answer."""
    schema = call.prompt.schema
    if schema is None or call.profile.schema is SchemaSupport.TEXT:
        return {}
    if call.profile.schema is SchemaSupport.OBJECT:
        return {"response_format": {"type": "json_object"}}
    wanted: dict[str, Json] = {"name": ANSWER_NAME, "schema": dict(schema)}
    if call.profile.strict:
        wanted = {"name": ANSWER_NAME, "schema": reduce_schema(schema, OPENAI_STRICT), "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": wanted}}


def _encode_tool(tool: ToolDefinition) -> Json:
    described: dict[str, Json] = {"name": tool.name, "description": tool.description}
    return {"type": "function", "function": {**described, "parameters": dict(tool.parameters)}}


def answer_tool(prompt: Prompt) -> ToolDefinition:
    """Return the schema of a prompt as a tool, for servers that accept no schemas."""
    return ToolDefinition(name=ANSWER_NAME, description="Give the answer.", parameters=prompt.schema or {})


FORMAT_NAME = "a chat-completions endpoint"


# For a shorter prompt the count of tokens does not show whether all of it was read.
MIN_JUDGED_TOKENS = 1_000


# No server has such a short context: a server that counts fewer tokens for a long prompt has not counted.
MIN_COUNTED_TOKENS = 256


_TICKS_PER_USD = 1e10


_FINISH_REASONS = {
    "stop": FinishReason.STOP,
    "tool_calls": FinishReason.CALLS,
    "function_call": FinishReason.CALLS,
    "length": FinishReason.LENGTH,
    "content_filter": FinishReason.REFUSED,
}


def read_chat(raw: bytes, call: WireCall) -> WireReply:
    """Return the completion in a reply.

    Raises MalformedDataError for another form, and for an error in its place the error that it means.
    """
    return parse_chat_reply(decode_reply(raw, call.display_name), call)


def parse_chat_reply(value: Mapping[str, Any], call: WireCall) -> WireReply:
    """Return the completion in a reply that is JSON already; errors as ``read_chat`` raises them."""
    if value.get("error"):
        raise_provider_error(json.dumps(value["error"]), shown=call.display_name, remedy=call.error_remedy)
    try:
        reply = _ChatReply.model_validate(value)
    except ValidationError as error:
        raise malformed_reply(error, call.display_name, FORMAT_NAME) from None
    if not reply.choices:
        message = f"{call.display_name}: the reply has no choice"
        raise MalformedDataError(message)
    chosen = reply.choices[0]
    if chosen.error:
        raise_provider_error(json.dumps(chosen.error), shown=call.display_name, remedy=call.error_remedy)
    written = chosen.message
    ids, text = [], written.text
    calls: tuple[ToolCall, ...] = ()
    for nth, one in enumerate(written.tool_calls or (), 1):
        ids.append(one.id or next_call_id(call.prompt, nth))
        calls += (ToolCall(id=ids[-1], name=one.function.name, arguments=one.function.arguments),)
    completion = ModelCompletion(
        text=written.refusal or text,
        calls=calls,
        thinking=written.reasoning_text,
        finish=_finish_reason(chosen, calls),
        usage=reply.usage.to_usage() if reply.usage else ModelUsage(),
        cost_usd=reply.usage.reported_cost() if reply.usage else None,
        model=reply.model or "",
        native=call.native_message(_message_to_return(value["choices"][0]["message"], ids)) if text or calls else None,
    )
    return WireReply(
        completion=with_known_usage(completion, call.prompt),
        cache_written_tokens=reply.usage.cache_written_tokens if reply.usage else 0,
    )


def require_complete_prompt(call: WireCall, usage: ModelUsage, *, where: str) -> None:
    """Raise ContextLengthExceededError where a server plainly read less than it was sent, which some do silently.

    Only texts are counted, four characters a token: markup, tools and earlier reasoning would make it more.
    """
    sent = prompt_chars(call.prompt) // CHARS_PER_TOKEN
    if sent >= MIN_JUDGED_TOKENS and MIN_COUNTED_TOKENS <= usage.tokens_in < sent / 2:
        message = (
            f"{call.display_name}: the server read {usage.tokens_in} tokens of a prompt of at least {sent}: it cut off "
            f"the beginning, and with it the question. {where}"
        )
        raise ContextLengthExceededError(message)


def unwrap_answer_tool(reply: WireReply) -> WireReply:
    """Return the answer of a model that got the schema as its only tool, as if it had written JSON."""
    answer = reply.completion
    text = next((made.arguments for made in answer.calls if made.name == ANSWER_NAME), answer.text)
    plain = ModelCompletion(
        text=text,
        thinking=answer.thinking,
        finish=FinishReason.STOP if answer.finish is FinishReason.CALLS else answer.finish,
        usage=answer.usage,
        cost_usd=answer.cost_usd,
        model=answer.model,
    )
    return WireReply(completion=plain, cache_written_tokens=reply.cache_written_tokens)


class _CalledFunction(WireModel):
    name: str
    arguments: str = ""


class _ReplyToolCall(WireModel):
    id: str | None = None
    function: _CalledFunction


class _ContentChunk(WireModel):
    type: str
    text: str | None = None
    thinking: Any = None


class _ReplyMessage(WireModel):
    content: str | list[_ContentChunk] | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_ReplyToolCall] | None = None

    @property
    def text(self) -> str:
        """The text of the answer."""
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        return "".join(chunk.text or "" for chunk in self.content if chunk.type == "text")

    @property
    def reasoning_text(self) -> str:
        """The readable part of the reasoning."""
        beside = self.reasoning_content or self.reasoning
        if beside or not isinstance(self.content, list):
            return beside or ""
        parts = [part for chunk in self.content if isinstance(chunk.thinking, list) for part in chunk.thinking]
        return "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


class _ReplyChoice(WireModel):
    message: _ReplyMessage = Field(default_factory=_ReplyMessage)
    finish_reason: str | None = None
    error: dict[str, Any] | str | None = None


class _TokenDetails(WireModel):
    cached_tokens: TokenCount | None = None
    cache_write_tokens: TokenCount | None = None
    reasoning_tokens: TokenCount | None = None


_NO_DETAILS = _TokenDetails()


class _ReplyUsage(WireModel):
    prompt_tokens: TokenCount
    completion_tokens: TokenCount = 0
    total_tokens: TokenCount | None = None
    prompt_tokens_details: _TokenDetails | None = None
    completion_tokens_details: _TokenDetails | None = None
    prompt_cache_hit_tokens: TokenCount | None = None
    cached_tokens: TokenCount | None = None
    cost: Annotated[float, Field(ge=0)] | None = None
    cost_in_usd_ticks: Annotated[float, Field(ge=0)] | None = None

    @property
    def cache_written_tokens(self) -> int:
        """How many tokens were put into the cache."""
        return (self.prompt_tokens_details or _NO_DETAILS).cache_write_tokens or 0

    def to_usage(self) -> ModelUsage:
        """Return the usage as it is counted here."""
        reasoning = (self.completion_tokens_details or _NO_DETAILS).reasoning_tokens or 0
        counted = (self.prompt_tokens_details or _NO_DETAILS).cached_tokens
        cached = counted or self.prompt_cache_hit_tokens or self.cached_tokens or 0
        return reported_usage(
            self.prompt_tokens, self.completion_tokens, cached=cached, reasoning=reasoning, total=self.total_tokens
        )

    def reported_cost(self) -> float | None:
        """Return the cost in US dollars, where it is reported."""
        return self.cost_in_usd_ticks / _TICKS_PER_USD if self.cost is None and self.cost_in_usd_ticks else self.cost


class _ChatReply(WireModel):
    model: str | None = None
    choices: list[_ReplyChoice] | None = None
    usage: _ReplyUsage | None = None


def _finish_reason(chosen: _ReplyChoice, calls: Sequence[ToolCall]) -> FinishReason:
    if chosen.message.refusal:
        return FinishReason.REFUSED
    finish = _FINISH_REASONS.get(chosen.finish_reason or "", FinishReason.OTHER)
    # Some servers say "stop", or nothing, after a call.
    return FinishReason.CALLS if calls and finish in {FinishReason.STOP, FinishReason.OTHER} else finish


def _message_to_return(message: Mapping[str, Any], ids: Sequence[str]) -> Json:
    """Return a message as it is to be sent back: whole, without fields that have no value, each call with an id."""
    kept = {name: value for name, value in message.items() if value is not None or name == "content"}
    made = kept.pop("tool_calls", None)
    if made:
        kept["tool_calls"] = [{"type": "function", **one, "id": given} for one, given in zip(made, ids, strict=True)]
    return {"role": "assistant", **kept}
