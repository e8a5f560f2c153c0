"""What a server of models refuses: requests that are not as the protocol has them, each with the field at fault.

Source: the API reference of chat completions, and what servers answer to each of these.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

# What is taken of one conversation, in characters.
CONTEXT_CHARS = 2_000_000
MOST_DEPTH = 20
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_BOUNDS = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")

Problem: TypeAlias = tuple[str, str | None]


def completed(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request without fields that are null, and with parameters for each tool: without any it takes none."""
    told = {name: value for name, value in body.items() if value is not None}
    none = {"type": "object", "properties": {}}
    if "tools" in told:
        told["tools"] = [{**tool, "function": {"parameters": none, **tool["function"]}} for tool in told["tools"]]
    return told


def fault_in(body: Any) -> Problem | None:  # noqa: ANN401 - any JSON
    """Return what is wrong with a request and with which field of it, None where nothing is."""
    if not isinstance(body, dict):
        return "The body must be a JSON object.", None
    if not isinstance(body.get("model"), str) or not body["model"]:
        return "you must provide a model parameter", "model"
    if body.get("stream"):
        return "This server does not stream; leave out stream or set it to false.", "stream"
    return _fault_in_messages(body.get("messages")) or _fault_in_tools(body)


def _fault_in_messages(messages: Any) -> Problem | None:  # noqa: ANN401 - any JSON
    if not isinstance(messages, list) or not messages:
        return "Invalid 'messages': expected an array with at least one message.", "messages"
    open_calls: set[str] = set()
    size = 0
    for place, message in enumerate(messages):
        if (fault := _fault_in_message(message)) is not None:
            return f"Invalid value: 'messages[{place}].{fault}'.", f"messages[{place}].{fault}"
        size += len(str(message.get("content") or ""))
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                return "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'.", (
                    f"messages[{place}].role"
                )
            open_calls.discard(message["tool_call_id"])
        elif open_calls:
            break
        else:
            open_calls = {str(one.get("id")) for one in message.get("tool_calls") or ()}
    if open_calls:
        return "An assistant message with 'tool_calls' must be followed by messages that answer each of them.", (
            "messages"
        )
    if size > CONTEXT_CHARS:
        return "This model's maximum context length is exceeded; please reduce the length of the messages.", "messages"
    return None


def _fault_in_message(message: Any) -> str | None:  # noqa: ANN401 - any JSON
    if not isinstance(message, dict) or message.get("role") not in _ROLES:
        return "role"
    content = message.get("content")
    if isinstance(content, list):
        if not all(isinstance(part, dict) and isinstance(part.get("type"), str) for part in content):
            return "content"
    elif content is not None and not isinstance(content, str):
        return "content"
    calls = message.get("tool_calls")
    good = calls is None or (isinstance(calls, list) and all(map(_is_call, calls)))
    return None if good else "tool_calls"


def _is_call(call: Any) -> bool:  # noqa: ANN401 - any JSON
    called = call.get("function") if isinstance(call, dict) else None
    return isinstance(called, dict) and isinstance(call.get("id"), str) and isinstance(called.get("name"), str)


def is_schema(schema: Any, depth: int = 0) -> bool:  # noqa: ANN401 - any JSON
    """Return whether a value has the form of a JSON schema, as far as its keywords are known here."""
    if not isinstance(schema, dict) or depth > MOST_DEPTH:
        return False
    properties, required = schema.get("properties", {}), schema.get("required", [])
    unions = [schema[name] for name in ("anyOf", "oneOf", "enum") if name in schema]
    if not (
        isinstance(properties, dict) and isinstance(required, list) and all(isinstance(one, str) for one in required)
    ):
        return False
    if not all(isinstance(union, list) and union for union in unions) or not _is_typed(schema):
        return False
    parts = [*properties.values(), *schema.get("anyOf", ()), *schema.get("oneOf", ())]
    parts += [schema["items"]] if "items" in schema else []
    return all(is_schema(part, depth + 1) for part in parts)


def _is_typed(schema: dict[str, Any]) -> bool:
    kind = schema.get("type", "object")
    kinds = kind if isinstance(kind, list) else [kind]
    bounds = [schema[name] for name in _BOUNDS if name in schema]
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in bounds)
    return bool(kinds) and all(isinstance(one, str) for one in kinds) and numbers


def _fault_in_tools(body: dict[str, Any]) -> Problem | None:
    tools = body.get("tools")
    if tools is not None and (not isinstance(tools, list) or not tools):
        return "Invalid 'tools': empty array. Expected an array with at least one tool.", "tools"
    if not all(map(_is_tool, tools or ())):
        return "Invalid 'tools': each is a function with a name, and parameters that are a JSON schema.", "tools"
    names = {tool["function"]["name"] for tool in tools or ()}
    chosen = body.get("tool_choice")
    if chosen is not None and not names:
        return "Invalid value for 'tool_choice': it is only allowed when 'tools' are specified.", "tool_choice"
    if (
        chosen is not None
        and chosen not in ("none", "auto", "required")
        and not (_is_tool(chosen) and chosen["function"]["name"] in names)
    ):
        return "Tool choice: the function is not among the tools.", "tool_choice"
    return _fault_in_form(body)


def _fault_in_form(body: dict[str, Any]) -> Problem | None:
    form = body.get("response_format")
    if form is not None and not isinstance(form, dict):
        return "Invalid type for 'response_format': expected an object.", "response_format"
    wanted = (form or {}).get("json_schema")
    if wanted is None and (form or {}).get("type") != "json_schema":
        return _fault_in_limits(body)
    if not (isinstance(wanted, dict) and is_schema(wanted.get("schema"))):
        return "Missing required parameter: 'response_format.json_schema.schema'.", "response_format.json_schema"
    return _fault_in_limits(body)


def _fault_in_limits(body: dict[str, Any]) -> Problem | None:
    for name in ("max_tokens", "max_completion_tokens"):
        limit = body.get(name)
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
            return f"Invalid '{name}': integer below minimum value.", name
    return None


def _is_tool(tool: Any) -> bool:  # noqa: ANN401 - any JSON
    called = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(called, dict) or not isinstance(called.get("name"), str):
        return False
    return is_schema(called.get("parameters", {}))
