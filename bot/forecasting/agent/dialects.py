"""The two ways in which a model sends an action.

As one JSON object under a schema, for small models, or as a native tool call. The belief update travels inside.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NoReturn

from bot.core.identity_cache import IdentityCache
from bot.core.language_models import (
    FinishReason,
    Message,
    MessageRole,
    ModelCompletion,
    Prompt,
    ToolCall,
    ToolDefinition,
)
from bot.core.light_dataclass import dataclass
from bot.core.values import Json
from bot.forecasting.agent.belief_state import BELIEF_FIELD
from bot.forecasting.agent.parsing import (
    EMPTY_ANSWER,
    ModelAction,
    ParseFailure,
    explain_empty_answer,
    parse_object,
    read_text,
    remove_control_characters,
)

NAME_CHARS = 100


TEXT_CHARS = 500


LIST_ITEMS = 20


# How many characters of an answer without an action stay in the conversation.
SHOWN_CHARS = 2000


# What is sent in place of tools: questions of one shape offer the same ones at every step of every trial.
_ACTION_SCHEMAS: IdentityCache[Mapping[str, Json]] = IdentityCache()
_TOOLS_WITH_BELIEF: IdentityCache[tuple[ToolDefinition, ...]] = IdentityCache()


@dataclass(frozen=True, slots=True)
class JsonDialect:
    """``belief`` is the schema of the update that each action asks for; None for a loop without beliefs."""

    belief: Mapping[str, Json] | None = None

    def build_prompt(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolDefinition],
        allowed: Sequence[ToolDefinition] = (),
        *,
        model: str = "",
        handover: tuple[Message, ...] = (),
    ) -> Prompt:
        # The server does not cache the schema, so it contains only what may be called.
        offered = allowed or tools
        schema = _ACTION_SCHEMAS.find((self.belief, *offered), lambda: MappingProxyType(self._actions_schema(offered)))
        return Prompt(messages=tuple(messages), schema=schema, stable=len(messages), model=model, handover=handover)

    def describe_tools(self, tools: Sequence[ToolDefinition]) -> str:
        lines = [
            f"- {tool.name}: {tool.description}\n  arguments: {json.dumps(_tool_properties(tool), ensure_ascii=False)}"
            for tool in tools
        ]
        fields = '"action", "arguments"' + ("" if self.belief is None else f' and "{BELIEF_FIELD}"')
        return "\n".join(["", f"Answer with one JSON object with the keys {fields}. The actions are:", *lines])

    def read_action(self, completion: ModelCompletion) -> ModelAction | ParseFailure:
        if not completion.text.strip():
            return ParseFailure(explain_empty_answer(completion))
        found = parse_object(completion.text, complete=completion.finish is not FinishReason.LENGTH)
        if isinstance(found, ParseFailure):
            return (
                ParseFailure(explain_empty_answer(completion)) if completion.finish is FinishReason.REFUSED else found
            )
        name, arguments = found.value.get("action"), found.value.get("arguments", {})
        if not isinstance(name, str) or not name or not isinstance(arguments, dict):
            return ParseFailure('the object should have a text "action" and an object "arguments"')
        belief = found.value.get(BELIEF_FIELD) if self.belief is not None else None
        return ModelAction(name=read_text(name, NAME_CHARS), arguments=arguments, belief=belief, notes=found.notes)

    def build_message(self, completion: ModelCompletion, action: ModelAction | None) -> Message:
        bare = completion.text.strip()
        if action is None:
            return Message(speaker=MessageRole.ASSISTANT, text=read_text(bare, SHOWN_CHARS) or EMPTY_ANSWER)
        if not action.notes and bare.startswith("{"):
            return Message(speaker=MessageRole.ASSISTANT, text=completion.text, native=completion.native)
        # Thoughts and repairs are left out: a small model would imitate its own mistakes.
        kept: dict[str, Json] = {"action": action.name, "arguments": dict(action.arguments)}
        if action.belief is not None:
            kept[BELIEF_FIELD] = action.belief
        return Message(speaker=MessageRole.ASSISTANT, text=json.dumps(kept, ensure_ascii=False))

    def build_replies(self, message: Message, text: str) -> list[Message]:
        return [Message(speaker=MessageRole.USER, text=text)]

    def _actions_schema(self, tools: Sequence[ToolDefinition]) -> dict[str, Json]:
        actions = [self._action_schema(tool) for tool in tools]
        return actions[0] if len(actions) == 1 else {"anyOf": [*actions]}

    def _action_schema(self, tool: ToolDefinition) -> dict[str, Json]:
        properties: dict[str, Json] = {
            "action": {"type": "string", "const": tool.name},
            "arguments": limit_schema(dict(tool.parameters)),
        }
        if self.belief is not None:
            properties[BELIEF_FIELD] = limit_schema(dict(self.belief))
        return {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }


def limit_schema(schema: Json) -> Json:
    """Return a schema in which every text and list has a maximum length and no object allows other properties."""
    if not isinstance(schema, dict):
        return schema
    limited = {
        key: value if key in {"enum", "const"} else _limit_schema_part(key, value) for key, value in schema.items()
    }
    match limited.get("type"):
        case "string" if "enum" not in limited and "const" not in limited:
            limited.setdefault("maxLength", TEXT_CHARS)
        case "array":
            limited.setdefault("maxItems", LIST_ITEMS)
        case "object":
            limited.setdefault("properties", {})
            limited.setdefault("additionalProperties", False)
        case _:
            pass
    return limited


def _limit_schema_part(key: str, value: Json) -> Json:
    match value:
        # Its keys are names of properties, which may be words of JSON Schema too.
        case dict() if key in {"properties", "$defs"}:
            return {name: limit_schema(part) for name, part in value.items()}
        case dict():
            return limit_schema(value)
        case list() if key in {"anyOf", "oneOf", "allOf"}:
            return [limit_schema(part) for part in value]
        case _:
            return value


def _tool_properties(tool: ToolDefinition) -> Json:
    return tool.parameters.get("properties", {})


# The reply to each further call in one message: a step is one action.
NOT_RUN = "Not run: one call a step."


# Replaces an answer that cannot be sent back.
UNREADABLE_CALL = "(a call that could not be read)"


DEFAULT_CALL_ID = "call"


# Providers refuse a history with a call of any other name.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class NativeDialect:
    """``belief`` is the schema of the update that each tool asks for; None for a loop without beliefs.

    Its fields are explained in the first tool only: with many tools the schema would be most of the prompt.
    """

    belief: Mapping[str, Json] | None = None

    def build_prompt(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolDefinition],
        allowed: Sequence[ToolDefinition] = (),
        *,
        model: str = "",
        handover: tuple[Message, ...] = (),
    ) -> Prompt:
        offered = self._add_belief(tools)
        named = tuple([tool.name for tool in allowed]) if len(allowed) < len(offered) else ()
        return Prompt(
            messages=tuple(messages),
            tools=offered,
            allowed=named,
            stable=len(messages),
            model=model,
            handover=handover,
        )

    def describe_tools(self, tools: Sequence[ToolDefinition]) -> str:
        """Return nothing: the provider shows the model its tools."""
        return ""

    def read_action(self, completion: ModelCompletion) -> ModelAction | ParseFailure:
        if not completion.calls:
            return ParseFailure(explain_empty_answer(completion))
        call = completion.calls[0]
        if not _NAME.fullmatch(call.name):
            return ParseFailure("the call named no tool")
        found = parse_object(call.arguments or "{}", complete=completion.finish is not FinishReason.LENGTH)
        if isinstance(found, ParseFailure):
            return found
        arguments = dict(found.value)
        belief = arguments.pop(BELIEF_FIELD, None)
        more = ("more than one call came; only the first counts",) if len(completion.calls) > 1 else ()
        return ModelAction(
            name=call.name,
            arguments=arguments,
            belief=belief if self.belief is not None else None,
            call=call.id or DEFAULT_CALL_ID,
            notes=(*more, *found.notes),
        )

    def build_message(self, completion: ModelCompletion, action: ModelAction | None) -> Message:
        calls = completion.calls
        are_different = len(calls) < 2 or len({call.id for call in calls}) == len(calls)
        if are_different and all(map(_can_return_call, calls)):
            # Some servers write nothing if there are no arguments, and accept only an object in the history.
            calls = tuple([call if call.arguments else replace(call, arguments="{}") for call in calls])
            return Message(speaker=MessageRole.ASSISTANT, text=completion.text, calls=calls, native=completion.native)
        # Many servers refuse a history with arguments that are not JSON. Those that sign a call refuse a repaired one,
        # so it is sent back in words, as it was understood.
        call_text = UNREADABLE_CALL
        if action is not None:
            arguments = {**action.arguments, **({} if action.belief is None else {BELIEF_FIELD: action.belief})}
            call_text = f"{action.name}({json.dumps(arguments, ensure_ascii=False)})"
        text = "\n".join(filter(None, (remove_control_characters(completion.text), call_text)))
        return Message(speaker=MessageRole.ASSISTANT, text=text)

    def build_replies(self, message: Message, text: str) -> list[Message]:
        if not message.calls:
            return [Message(speaker=MessageRole.USER, text=text)]
        return [
            Message(speaker=MessageRole.TOOL, text=NOT_RUN if number else text, answers=call.id)
            for number, call in enumerate(message.calls)
        ]

    def _add_belief(self, tools: Sequence[ToolDefinition]) -> tuple[ToolDefinition, ...]:
        belief = self.belief
        if belief is None or not tools:
            return tuple(tools)
        return _TOOLS_WITH_BELIEF.find((belief, *tools), lambda: _add_belief_arguments(tools, belief))


# What explains or bounds a value. Answers are bounded as they are read, too.
_EXPLANATIONS = frozenset({"description", "maxLength", "maxItems"})


def _outline_schema(schema: Mapping[str, Json]) -> dict[str, Json]:
    """Return a schema of the same shape, without explanations and lengths."""
    return {key: _outline_schema_part(key, value) for key, value in schema.items() if key not in _EXPLANATIONS}


def _outline_schema_part(key: str, value: Json) -> Json:
    match value:
        # Its keys are names of properties, which may be words of JSON Schema too.
        case dict() if key == "properties":
            return {name: _outline_schema_part("", part) for name, part in value.items()}
        case dict():
            return _outline_schema(value)
        case list() if key == "anyOf":
            return [_outline_schema_part("", part) for part in value]
        case _:
            return value


def _can_return_call(call: ToolCall) -> bool:
    if not call.id or not _NAME.fullmatch(call.name):
        return False
    try:
        return isinstance(_STRICT_DECODER.decode(call.arguments or "{}"), dict)
    except (ValueError, RecursionError):
        return False


def _refuse_constant(constant: str) -> NoReturn:
    message = f"{constant} is not JSON"
    raise ValueError(message)


_STRICT_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _add_belief_arguments(tools: Sequence[ToolDefinition], belief: Mapping[str, Json]) -> tuple[ToolDefinition, ...]:
    first, *others = tools
    outline = {**_outline_schema(belief), "description": f"As in {first.name}."}
    return (_add_belief_argument(first, belief), *(_add_belief_argument(one, outline) for one in others))


def _add_belief_argument(tool: ToolDefinition, belief: Mapping[str, Json]) -> ToolDefinition:
    schema = dict(tool.parameters)
    properties, required = schema.get("properties"), schema.get("required")
    schema["type"] = "object"
    schema["properties"] = {**(properties if isinstance(properties, dict) else {}), BELIEF_FIELD: dict(belief)}
    schema["required"] = [*(required if isinstance(required, list) else []), BELIEF_FIELD]
    return ToolDefinition(name=tool.name, description=tool.description, parameters=schema)
