"""Makes values that fit a JSON schema, so that a scripted model can answer any request."""

from collections.abc import Mapping
from typing import Any

JsonSchema = Mapping[str, Any]


def fill_schema(schema: JsonSchema, given: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    """Return the smallest value that fits the schema; given keys replace those at the top level of an object.

    Given keys that the schema does not have are kept: a script decides itself how wrong it is.
    """
    made = _make_value(schema, schema)
    return {**made, **given} if isinstance(made, dict) else made


def find_variant(schema: JsonSchema, name: str) -> JsonSchema | None:
    """Return the branch of a union that names itself by a constant, or the schema itself if it does; else None."""
    for branch in schema.get("anyOf") or schema.get("oneOf") or (schema,):
        found = _resolve_reference(branch, schema)
        parts = [_resolve_reference(part, schema) for part in found.get("properties", {}).values()]
        if any(name in {part.get("const"), *_single_choice(part)} for part in parts):
            return {**found, "$defs": schema.get("$defs", {})}
    return None


def _single_choice(part: JsonSchema) -> tuple[Any, ...]:
    choices = part.get("enum", ())
    return tuple(choices) if len(choices) == 1 else ()


def _make_value(schema: JsonSchema, root: JsonSchema) -> Any:  # noqa: ANN401 - any JSON
    schema = _resolve_reference(schema, root)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return _make_value(schema[union][0], root)
    kind = schema.get("type", "object" if "properties" in schema else "null")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        parts = schema.get("properties", {})
        return {name: _make_value(parts.get(name, {}), root) for name in schema.get("required", ())}
    if kind == "array":
        return [_make_value(schema.get("items", {}), root) for _ in range(schema.get("minItems", 0))]
    return _make_scalar(kind, schema)


def _make_scalar(kind: str, schema: JsonSchema) -> Any:  # noqa: ANN401 - any JSON
    if kind == "string":
        return "made up" if schema.get("maxLength", 7) >= 7 >= schema.get("minLength", 0) else _make_text(schema)
    if kind in {"integer", "number"}:
        low = schema.get("minimum", min(0, schema.get("maximum", 0)))
        high = schema.get("maximum", low)
        return (low + high) // 2 if kind == "integer" else (low + high) / 2
    return False if kind == "boolean" else None


def _make_text(schema: JsonSchema) -> str:
    return "x" * int(schema.get("minLength", 0) or min(1, schema.get("maxLength", 1)))


def _resolve_reference(schema: JsonSchema, root: JsonSchema) -> JsonSchema:
    pointer = schema.get("$ref")
    if pointer is None:
        return schema
    found: Any = root
    for part in str(pointer).removeprefix("#/").split("/"):
        found = found[part]
    return _resolve_reference(found, root)
