"""Makes up values that fit a JSON schema, so that a scripted model can answer whatever it is asked for.

It knows the part of JSON Schema that prompts use: type, enum, const, anyOf, oneOf, $ref, bounds, lengths, required.
"""

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]


def fill(schema: Schema, given: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    """Return the smallest value that fits the schema, laid over with what is given, at its top level, of an object.

    Given keys that the schema does not know are kept: a script decides itself how wrong it is.
    """
    made = _made(schema, schema)
    return {**made, **given} if isinstance(made, dict) else made


def variant(schema: Schema, name: str) -> Schema | None:
    """Return the branch of a union that names itself by a constant, or the schema itself if it does; else None."""
    for branch in schema.get("anyOf") or schema.get("oneOf") or (schema,):
        found = _resolved(branch, schema)
        parts = [_resolved(part, schema) for part in found.get("properties", {}).values()]
        if any(name in {part.get("const"), *_only(part)} for part in parts):
            return {**found, "$defs": schema.get("$defs", {})}
    return None


def _only(part: Schema) -> tuple[Any, ...]:
    choices = part.get("enum", ())
    return tuple(choices) if len(choices) == 1 else ()


def _made(schema: Schema, root: Schema) -> Any:  # noqa: ANN401 - any JSON
    schema = _resolved(schema, root)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return _made(schema[union][0], root)
    kind = schema.get("type", "object" if "properties" in schema else "null")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        parts = schema.get("properties", {})
        return {name: _made(parts.get(name, {}), root) for name in schema.get("required", ())}
    if kind == "array":
        return [_made(schema.get("items", {}), root) for _ in range(schema.get("minItems", 0))]
    return _plain(kind, schema)


def _plain(kind: str, schema: Schema) -> Any:  # noqa: ANN401 - any JSON
    if kind == "string":
        return "made up" if schema.get("maxLength", 7) >= 7 >= schema.get("minLength", 0) else _sized(schema)
    if kind in {"integer", "number"}:
        low = schema.get("minimum", min(0, schema.get("maximum", 0)))
        high = schema.get("maximum", low)
        return (low + high) // 2 if kind == "integer" else (low + high) / 2
    return False if kind == "boolean" else None


def _sized(schema: Schema) -> str:
    return "x" * int(schema.get("minLength", 0) or min(1, schema.get("maxLength", 1)))


def _resolved(schema: Schema, root: Schema) -> Schema:
    pointer = schema.get("$ref")
    if pointer is None:
        return schema
    found: Any = root
    for part in str(pointer).removeprefix("#/").split("/"):
        found = found[part]
    return _resolved(found, root)
