"""Rules that all providers share.

Tool calls and results in pairs, names, tool choice, and the subset of JSON Schema that strict mode accepts.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bot.core.light_dataclass import dataclass
from bot.core.values import Json
from bot.simulator.providers.chat_requests import (
    ChatRequest,
    RememberedReply,
    RequestRefusal,
    message_calls,
    without_nulls,
)

_SCHEMA_MAPS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")


_SCHEMA_LISTS = ("anyOf", "allOf", "oneOf", "prefixItems")


_SINGLE_SCHEMAS = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")


_LOOK_AROUND = re.compile(r"\(\?<?[=!]")


@dataclass(frozen=True, slots=True, kw_only=True)
class StrictSchemaSubset:
    """What a provider accepts in a strict schema; ``all_required``: each property must be in ``required``."""

    refused: frozenset[str]
    formats: frozenset[str] | None = None
    all_required: bool = True
    most_depth: int = 10
    most_properties: int = 5000

    def fault_in(self, schema: Mapping[str, Any]) -> str | None:
        """Return the fault of a schema, with the place, None where there is none."""
        if schema.get("type") != "object":
            return f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{schema.get('type')}\"'."
        count = 0
        for place, one in walk_schema(schema):
            count += len(one.get("properties") or ())
            if len(place) > 2 * self.most_depth or count > self.most_properties:
                return "the schema is too deep or has too many properties."
            if (fault := self._find_fault(one)) is not None:
                return f"In context=({', '.join(map(repr, place))}), {fault}"
        return None

    def _find_fault(self, schema: Mapping[str, Any]) -> str | None:
        if odd := sorted(self.refused & schema.keys()):
            return f"'{odd[0]}' is not permitted."
        if schema.get("type") == "object":
            if schema.get("additionalProperties") is not False:
                return "'additionalProperties' is required to be supplied and to be false."
            missing = sorted(set(schema.get("properties") or ()) - set(schema.get("required") or ()))
            if self.all_required and missing:
                message = "'required' is required to be supplied and to be an array including every key in properties."
                return f"{message} Missing '{missing[0]}'."
        if schema.get("type") == "array" and not isinstance(schema.get("items"), dict):
            return "array schema missing items."
        if self.formats is not None and schema.get("format", next(iter(self.formats))) not in self.formats:
            return f"'{schema['format']}' is not a valid format."
        return "'pattern' with look-around is not permitted." if self._looks_around(schema) else None

    def _looks_around(self, schema: Mapping[str, Any]) -> bool:
        return _LOOK_AROUND.search(str(schema.get("pattern", ""))) is not None


def walk_schema(
    schema: Mapping[str, Any], place: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Yield a schema and all schemas in it, each with its place."""
    yield place, schema
    for name in _SCHEMA_MAPS:
        for key, part in (schema.get(name) or {}).items():
            yield from walk_schema(part, (*place, name, key)) if isinstance(part, dict) else ()
    for name in _SCHEMA_LISTS:
        for number, part in enumerate(schema.get(name) or ()):
            yield from walk_schema(part, (*place, name, str(number))) if isinstance(part, dict) else ()
    for name in _SINGLE_SCHEMAS:
        if isinstance(part := schema.get(name), dict):
            yield from walk_schema(part, (*place, name))


MAX_TOOLS = 128


_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


UNANSWERED_CALL = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
)


UNREQUESTED_RESULT = "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'."


def check_tools(chat: ChatRequest, pattern: re.Pattern[str] = _TOOL_NAME) -> None:
    """Check names and number of the tools (P-3), and that the choice names one of them (P-4)."""
    names = [str(tool.get("name")) for tool in chat.tools]
    if odd := next((name for name in names if not pattern.fullmatch(name)), None):
        at = names.index(odd)
        message = f"Invalid 'tools[{at}].name': string does not match pattern. Expected '^{pattern.pattern}$'."
        raise RequestRefusal(rule="P-3", message=message, param=f"tools[{at}].function.name", code="invalid_value")
    if len(names) > MAX_TOOLS:
        message = f"Invalid 'tools': array too long. Expected at most {MAX_TOOLS}, but got {len(names)} instead."
        raise RequestRefusal(rule="P-3", message=message, param="tools", code="array_above_max_length")
    if len(set(names)) < len(names):
        raise RequestRefusal(rule="P-3", message="Tool names must be unique.", param="tools", code="invalid_value")
    if chat.choice is None:
        return
    if not chat.body.get("tools"):
        message = "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
        raise RequestRefusal(rule="P-4", message=message, param="tool_choice")
    if missing := set(chosen_tool_names(chat.choice)) - set(names):
        message = f"Tool choice names {', '.join(sorted(missing))}, which is not among the tools."
        raise RequestRefusal(rule="P-4", message=message, param="tool_choice")


def chosen_tool_names(choice: Any) -> Sequence[str]:  # noqa: ANN401 - a word or an object
    """Return the tools that a tool choice in chat-completions form names."""
    if not isinstance(choice, dict):
        return ()
    among = (choice.get("allowed_tools") or {}).get("tools") or [choice]
    return [str(one["function"].get("name")) for one in among if isinstance(one.get("function"), dict)]


def check_results(chat: ChatRequest) -> None:
    """Check that each call is answered directly after it, and that each result answers a call (P-1)."""
    waiting: set[str] = set()
    for at, message in enumerate(chat.messages):
        if message.get("role") == "tool":
            if (call_id := str(message.get("tool_call_id"))) not in waiting:
                raise RequestRefusal(rule="P-1", message=UNREQUESTED_RESULT, param=f"messages[{at}].tool_call_id")
            waiting.discard(call_id)
            continue
        if waiting:
            break
        waiting = {call_id for call_id, _ in message_calls(message)}
    if waiting:
        message_text = f"{UNANSWERED_CALL} The following did not have response messages: {', '.join(sorted(waiting))}"
        raise RequestRefusal(rule="P-1", message=message_text, param="messages")


def check_replies(
    chat: ChatRequest, given_at: Callable[[int], Sequence[RememberedReply]]
) -> Iterator[tuple[int, RememberedReply | None]]:
    """Check that the calls of each assistant message are those that were given (P-2).

    A message without calls in the place of a reply with calls is another message, which is unknown. Yields the index of
    each assistant message with the reply that it repeats, None where it is unknown.
    """
    for at, message in enumerate(chat.messages):
        if message.get("role") != "assistant":
            continue
        found = given_at(at)
        same = [one for one in found if one.call_names == message_calls(message)]
        if found and not same and message_calls(message):
            expected = ", ".join(f"{name} ({call_id})" for call_id, name in found[-1].call_names) or "no calls"
            difference = f"messages[{at}]: the calls differ from those of the response, which were: {expected}."
            raise RequestRefusal(rule="P-2", message=difference, param=f"messages[{at}].tool_calls")
        yield at, _closest_reply(same, message, chat.natives.get(at))


def _closest_reply(same: Sequence[RememberedReply], message: Mapping[str, Any], native: Json) -> RememberedReply | None:
    """Return the reply that is this very message where there is one, else one of the same text, else the last."""
    whole = [one for one in same if without_nulls(one.written.native) == without_nulls(native)]
    texts = [one for one in same if one.written.text == (message.get("content") or "")]
    return next(reversed(whole or texts or same), None)
