"""The form of chat completions, as most vendors, routers and servers of one's own speak it.

An assistant message goes back as the object that came, fields unknown here included: reasoning texts, signed or
encrypted details of reasoning, what stands beside a call. Only fields without a value stay away, which many refuse.
Source: OpenAI, "Create chat completion"; what DeepSeek, Moonshot, Z.AI, Alibaba Cloud, Mistral, Groq, OpenRouter,
Google's compatible endpoint, vLLM, llama.cpp and LM Studio add to it.
"""

from collections.abc import Sequence
from dataclasses import replace

from bot.api import Json, Message, Prompt, Speaker, Tool, ToolCall
from plugins.models._profiles import ModelProfile, SchemaForm, ThinkingStyle
from plugins.models._schemas import OPENAI_STRICT, reduced
from plugins.models._wire_call import ANSWER, NO_SIGNATURE, WireCall, filled, foreign_id, schema_request, sendable

# Some models want reasoning in every message with a call, also where another model made it. A space is taken.
_NO_REASONING = " "
# The share of max_tokens that thinking may take, for models that want a number; at high effort they are told none.
_SHARES = {"low": 0.15, "medium": 0.4}


def chat_body(call: WireCall) -> dict[str, Json]:
    """Return the body of a request; raises ConfigError for an effort that the model does not take."""
    profile = call.profile
    return {
        "model": call.name,
        "messages": chat_messages(call),
        profile.limit_field: call.sampling.max_tokens,
        **_sampled(call),
        **_thinking(call),
        **tools_offered(call),
        **response_format(call),
        **({"provider": {"require_parameters": True}} if profile.upstream else {}),
    }


def chat_messages(call: WireCall) -> list[Json]:
    """Return the messages as they go out."""
    profile, marked = call.profile, _marked(call)
    sent: list[dict[str, Json]] = []
    own: set[str] = set()
    for place, message in enumerate(_instructed(call)):
        kept = call.received(message)
        if isinstance(kept, dict):
            own.update(made.id for made in message.calls)
            sent.append(_own(kept, profile))
        elif profile.short_ids and message.speaker is Speaker.USER and sent and sent[-1]["role"] == "tool":
            sent[-1]["content"] = f"{sent[-1]['content']}\n\n{sendable(message.text)}"
        else:
            sent.append(_message(message, own, profile))
            if profile.marks and message.speaker is not Speaker.ASSISTANT:
                sent[-1]["content"] = [_part(message, marked=place == marked)]
    return [*sent]


def _marked(call: WireCall) -> int | None:
    """Return the place of the last message that stays as it is and may be marked, where the vendor wants marks."""
    messages = call.prompt.messages[: call.prompt.stable] if call.profile.marks else ()
    places = [place for place, one in enumerate(messages) if one.text.strip() and one.speaker is not Speaker.ASSISTANT]
    return places[-1] if places else None


def _part(message: Message, *, marked: bool) -> Json:
    """Return a text as a part, so that a mark that moves on changes nothing about the form of a message."""
    part: dict[str, Json] = {"type": "text", "text": filled(message.text)}
    return {**part, "cache_control": {"type": "ephemeral"}} if marked else part


def _own(kept: dict[str, Json], profile: ModelProfile) -> dict[str, Json]:
    """Return a message of this model as it came, without what its vendor refuses in its own messages."""
    return {name: value for name, value in kept.items() if name not in profile.unwanted}


def _message(message: Message, own: set[str], profile: ModelProfile) -> dict[str, Json]:
    """Return a message that this model did not give; ``own`` are the ids that it gave, all others are written anew."""
    sent: dict[str, Json] = {"role": message.speaker.value, "content": sendable(message.text)}
    if message.speaker is Speaker.TOOL:
        given = message.answers or ""
        sent["tool_call_id"] = given if given in own else foreign_id(given, short=profile.short_ids)
    if message.calls:
        # The vendor with short ids may refuse words beside calls, though it gives both.
        words = message.text and not profile.short_ids
        sent["content"] = sendable(message.text) if words else None
        sent["tool_calls"] = [_foreign_call(made, nth, profile) for nth, made in enumerate(message.calls)]
        if profile.stand_in == "reasoning_content":
            sent["reasoning_content"] = _NO_REASONING
    return sent


def _foreign_call(made: ToolCall, nth: int, profile: ModelProfile) -> Json:
    function: dict[str, Json] = {"name": made.name, "arguments": sendable(made.arguments)}
    sent: dict[str, Json] = {
        "id": foreign_id(made.id, short=profile.short_ids),
        "type": "function",
        "function": function,
    }
    if nth == 0 and profile.stand_in == "signature":
        sent["extra_content"] = {"google": {"thought_signature": NO_SIGNATURE}}
    return sent


def _instructed(call: WireCall) -> Sequence[Message]:
    """Return the messages with the schema in words, where the vendor cannot be given it otherwise."""
    messages, schema = call.prompt.messages, call.prompt.schema
    if schema is None or call.profile.schema is SchemaForm.SCHEMA:
        return messages
    words = schema_request(schema)
    if messages and messages[0].speaker is Speaker.SYSTEM:
        return (replace(messages[0], text=f"{messages[0].text}\n\n{words}"), *messages[1:])
    return (Message(speaker=Speaker.SYSTEM, text=words), *messages)


def _sampled(call: WireCall) -> dict[str, Json]:
    if not call.profile.sampling:
        return {}
    wanted: dict[str, Json] = {"temperature": call.sampling.temperature, call.profile.seed_field: call.sampling.seed}
    return {name: value for name, value in wanted.items() if value is not None}


def _thinking(call: WireCall) -> dict[str, Json]:
    """Return how the model is to think, in the words of its vendor."""
    level = call.level
    if level is None:
        return {}
    on, style = level != "none", call.profile.thinking
    if style is ThinkingStyle.REASONING:
        return {"reasoning": {"effort": level}}
    if style is ThinkingStyle.FLAG:
        return _flagged(call, level)
    switch: dict[str, Json] = {"type": "enabled" if on else "disabled"}
    if on and call.profile.keep_earlier == "clear_thinking":
        switch["clear_thinking"] = False
    if on and call.profile.keep_earlier == "keep":
        switch["keep"] = "all"
    if style is ThinkingStyle.SWITCH or (not on and style is ThinkingStyle.SWITCH_EFFORT):
        return {"thinking": switch}
    if style is ThinkingStyle.SWITCH_EFFORT:
        return {"thinking": switch, "reasoning_effort": level}
    return {} if style is ThinkingStyle.NONE else {"reasoning_effort": level}


def _flagged(call: WireCall, level: str) -> dict[str, Json]:
    if level == "none":
        return {"enable_thinking": False}
    said: dict[str, Json] = {"enable_thinking": True, call.profile.keep_earlier: True}
    if level in _SHARES:
        said["thinking_budget"] = int(call.sampling.max_tokens * _SHARES[level])
    return said


def tools_offered(call: WireCall) -> dict[str, Json]:
    """Return the tools and what is said of their choice."""
    prompt = call.prompt
    if not prompt.tools:
        return {}
    said: dict[str, Json] = {"tools": [_tool(tool) for tool in prompt.tools], "tool_choice": _choice(call)}
    if call.profile.one_call:
        said["parallel_tool_calls"] = False
    return said


def _choice(call: WireCall) -> Json:
    """Return whether a tool must be called, and which; a model that thinks is refused unless it may choose."""
    if call.tool_choice == "auto":
        return "auto"
    named = call.prompt.allowed or tuple(tool.name for tool in call.prompt.tools)
    return "required" if len(named) > 1 else {"type": "function", "function": {"name": named[0]}}


def response_format(call: WireCall) -> dict[str, Json]:
    """Return in what form the answer is asked for."""
    schema = call.prompt.schema
    if schema is None or call.profile.schema is SchemaForm.TEXT:
        return {}
    if call.profile.schema is SchemaForm.OBJECT:
        return {"response_format": {"type": "json_object"}}
    wanted: dict[str, Json] = {"name": ANSWER, "schema": dict(schema)}
    if call.profile.strict:
        wanted = {"name": ANSWER, "schema": reduced(schema, OPENAI_STRICT), "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": wanted}}


def _tool(tool: Tool) -> Json:
    described: dict[str, Json] = {"name": tool.name, "description": tool.description}
    return {"type": "function", "function": {**described, "parameters": dict(tool.parameters)}}


def answer_tool(prompt: Prompt) -> Tool:
    """Return the schema of a prompt as a tool, for servers that take no schemas."""
    return Tool(name=ANSWER, description="Give the answer.", parameters=prompt.schema or {})
