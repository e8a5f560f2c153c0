"""Moves as one JSON object under a schema, the dialect that every model masters, however small.

Source: measurements with small models: whole numbers, bounds on every text and list, and no further properties.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from bot.agent.belief import FIELD
from bot.agent.dialects.move import NOTHING, Garble, Move, parsed, why_empty
from bot.agent.reading import text
from bot.domain.prompt import Completion, Finish, Message, Prompt, Speaker, Tool
from bot.domain.step import Json

NAME_CHARS = 100
TEXT_CHARS = 500
LIST_ITEMS = 20
# How much of an answer that is no move stays in the conversation.
SHOWN_CHARS = 2000


@dataclass(frozen=True, slots=True)
class JsonSpeech:
    """``belief`` is the schema of the update that each action asks for; None for a loop without beliefs."""

    belief: Mapping[str, Json] | None = None
    # Tools and the schema that they became, by their identity: a trial offers the same ones at every step.
    _schemas: dict[tuple[int, ...], tuple[tuple[Tool, ...], Mapping[str, Json]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def prompt(self, messages: Sequence[Message], tools: Sequence[Tool], allowed: Sequence[Tool] = ()) -> Prompt:
        # The schema is no part of what the server has in its cache, so it holds no more than what may be called.
        offered = allowed or tools
        identity = tuple(map(id, offered))
        if identity not in self._schemas:
            self._schemas[identity] = (tuple(offered), MappingProxyType(self._schema(offered)))
        return Prompt(messages=tuple(messages), schema=self._schemas[identity][1], stable=len(messages))

    def listing(self, tools: Sequence[Tool]) -> str:
        lines = [
            f"- {tool.name}: {tool.description}\n  arguments: {json.dumps(_properties(tool), ensure_ascii=False)}"
            for tool in tools
        ]
        fields = '"action", "arguments"' + ("" if self.belief is None else f' and "{FIELD}"')
        return "\n".join(["", f"Answer with one JSON object with the keys {fields}. The actions are:", *lines])

    def read(self, completion: Completion) -> Move | Garble:
        if not completion.text.strip():
            return Garble(why_empty(completion))
        found = parsed(completion.text, complete=completion.finish is not Finish.LENGTH)
        if isinstance(found, Garble):
            return Garble(why_empty(completion)) if completion.finish is Finish.REFUSED else found
        name, arguments = found.value.get("action"), found.value.get("arguments", {})
        if not isinstance(name, str) or not name or not isinstance(arguments, dict):
            return Garble('the object should have a text "action" and an object "arguments"')
        belief = found.value.get(FIELD) if self.belief is not None else None
        return Move(name=text(name, NAME_CHARS), arguments=arguments, belief=belief, notes=found.notes)

    def message(self, completion: Completion, move: Move | None) -> Message:
        bare = completion.text.strip()
        if move is None:
            return Message(speaker=Speaker.ASSISTANT, text=text(bare, SHOWN_CHARS) or NOTHING)
        if not move.notes and bare.startswith("{"):
            return Message(speaker=Speaker.ASSISTANT, text=completion.text, native=completion.native)
        # Thoughts and mends are left out: a small model takes its own noise for an example.
        kept: dict[str, Json] = {"action": move.name, "arguments": dict(move.arguments)}
        if move.belief is not None:
            kept[FIELD] = move.belief
        return Message(speaker=Speaker.ASSISTANT, text=json.dumps(kept, ensure_ascii=False))

    def replies(self, message: Message, text: str) -> list[Message]:
        return [Message(speaker=Speaker.USER, text=text)]

    def _schema(self, tools: Sequence[Tool]) -> dict[str, Json]:
        actions = [self._action(tool) for tool in tools]
        return actions[0] if len(actions) == 1 else {"anyOf": [*actions]}

    def _action(self, tool: Tool) -> dict[str, Json]:
        properties: dict[str, Json] = {
            "action": {"type": "string", "const": tool.name},
            "arguments": bounded(dict(tool.parameters)),
        }
        if self.belief is not None:
            properties[FIELD] = bounded(dict(self.belief))
        return {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }


def bounded(schema: Json) -> Json:
    """Return a schema in which every text and list has a greatest length and no object takes further properties."""
    if not isinstance(schema, dict):
        return schema
    limited = {key: value if key in {"enum", "const"} else _bounded_part(key, value) for key, value in schema.items()}
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


def _bounded_part(key: str, value: Json) -> Json:
    match value:
        # Its keys are names of properties, which may be words of JSON Schema as well.
        case dict() if key in {"properties", "$defs"}:
            return {name: bounded(part) for name, part in value.items()}
        case dict():
            return bounded(value)
        case list() if key in {"anyOf", "oneOf", "allOf"}:
            return [bounded(part) for part in value]
        case _:
            return value


def _properties(tool: Tool) -> Json:
    return tool.parameters.get("properties", {})
