"""Calls as the wire formats get them, and a conversation that continues with each reply."""

import json
from collections.abc import Callable
from typing import Any

from bot.core.language_models import (
    Message,
    MessageRole,
    ModelCompletion,
    NativeMessage,
    Prompt,
    SamplingSettings,
    ToolCall,
    ToolDefinition,
)
from plugins.models._profiles import ModelProfile, model_profile
from plugins.models._wire_call import WireCall, WireReply

SEARCH = ToolDefinition(
    name="search",
    description="Search the web.",
    parameters={"type": "object", "properties": {"q": {"type": "string", "maxLength": 50}}, "required": ["q"]},
)
SUBMIT = ToolDefinition(name="submit", description="End.", parameters={"type": "object", "properties": {}})
SYSTEM = Message(speaker=MessageRole.SYSTEM, text="Forecast.")
QUESTION = Message(speaker=MessageRole.USER, text="Q")
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"p": {"type": "number", "minimum": 0, "maximum": 1}, "why": {"type": "string", "maxLength": 9}},
    "required": ["p"],
}
Body = dict[str, Any]


def wire_call(model: str, *messages: Message, profile: ModelProfile | None = None, **more: Any) -> WireCall:
    """Return a call of a model ``vendor/name``; the rest is for prompt, sampling and call, by their names."""
    vendor, _, name = model.partition("/")
    known = profile or model_profile(vendor, name)
    sampling = SamplingSettings(
        max_tokens=more.pop("max_tokens", 32_000),
        **{key: more.pop(key) for key in ("temperature", "effort", "seed") if key in more},
    )
    choice = more.pop("tool_choice", "auto")
    return WireCall(
        model=model,
        name=name,
        display_name=f"litellm:{model}",
        adapter=f"litellm/{known.wire}",
        prompt=Prompt(messages=messages or (QUESTION,), **more),
        sampling=sampling,
        profile=known,
        tool_choice=choice,
    )


def spoken(completion: ModelCompletion) -> Message:
    """Return a reply as it stands in a conversation."""
    return Message(
        speaker=MessageRole.ASSISTANT, text=completion.text, calls=completion.calls, native=completion.native
    )


def results(completion: ModelCompletion, text: str = "...") -> list[Message]:
    """Return a result for each call of a reply."""
    return [Message(speaker=MessageRole.TOOL, text=text, answers=made.id) for made in completion.calls]


def user(text: str) -> Message:
    return Message(speaker=MessageRole.USER, text=text)


def foreign(*calls: tuple[str, str, str], text: str = "") -> Message:
    """Return what another model said: calls as id, name and text of the arguments."""
    made = tuple(ToolCall(id=given, name=name, arguments=arguments) for given, name, arguments in calls)
    native = NativeMessage(provider="another", model="other", text='{"signature": "not ours"}')
    return Message(speaker=MessageRole.ASSISTANT, text=text, calls=made, native=native)


def tool_result(answers: str, text: str = "...") -> Message:
    return Message(speaker=MessageRole.TOOL, text=text, answers=answers)


def reply_of(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def as_sent(body: Any) -> Any:
    """Return a body as the other side reads it."""
    return json.loads(json.dumps(body, allow_nan=False))


Read = Callable[[bytes, WireCall], WireReply]
