"""What each setting means, its type and its default, for ``foxcast config show --explain`` and docs/settings.md.

The texts are the descriptions of fields of the settings models, the types come from their JSON schemas.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from bot.config.sources import KeyPath
from bot.core.nearest_names import nearest_names

# In a key they stand for any name, as in [venues.NAME], and for any entry of a list, as in choose[N].
ANY_NAME, ANY_ENTRY = "NAME", "N"
WILDCARDS = (ANY_NAME, ANY_ENTRY, "*")
_KEY_PART = re.compile(r'"([^"]+)"|\[(\w+|\*)\]|([^.\[\]"]+)')
_MAX_DEFAULT_CHARS = 120

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDescription:
    """One setting or table: its key, what it means, and type and default in words.

    A part of the key is ``ANY_NAME`` or ``ANY_ENTRY`` where any name or entry may stand. The default is "" where a
    value must be given. ``keys`` are those of a table with keys of its own, () for a value or a table of any keys.
    """

    key: KeyPath
    description: str
    type: str
    default: str
    keys: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The key as one writes it: ``venues.NAME.choose[N].tag``."""
        return "".join(f"[{part}]" if part == ANY_ENTRY else f".{part}" for part in self.key).removeprefix(".")


def describe_settings(
    model: type[BaseModel], under: KeyPath = (), *, summary: str = ""
) -> Sequence[SettingDescription]:
    """Return every table and setting of a model that stands under a key, each table before its settings.

    With a summary, the table of the model itself comes first.
    """
    schema = model.model_json_schema()
    head = SettingDescription(
        key=under, description=summary, type="table", default="", keys=tuple(schema.get("properties", ()))
    )
    return [*([head] if summary else []), *_SchemaReader(schema.get("$defs", {})).table(schema, under)]


def find_setting(known: Sequence[SettingDescription], key: KeyPath) -> SettingDescription | None:
    """Return the setting of a key, or the table of any keys that it stands in; None where there is neither."""
    exact = next((setting for setting in known if fits_key(setting.key, key)), None)
    if exact is not None:
        return exact
    return next((one for one in known if _takes_any_key(one) and fits_key(one.key, key[: len(one.key)])), None)


def fits_key(pattern: KeyPath, key: KeyPath) -> bool:
    """Tell whether the key is the pattern with its wildcards filled in; a wildcard in the key fits any name too."""
    return len(pattern) == len(key) and all(
        part == other or part in (ANY_NAME, ANY_ENTRY) or other in WILDCARDS
        for part, other in zip(pattern, key, strict=True)
    )


def suggest_settings(known: Sequence[SettingDescription], text: str) -> tuple[str, ...]:
    """Return up to three keys that an unknown one may mean: those that end as it does, else the nearest ones."""
    last = str(parse_key(text)[-1]) if parse_key(text) else text
    same = [setting.name for setting in known if setting.key[-1] == last]
    return tuple(same[:3]) or nearest_names(text, (setting.name for setting in known))


def parse_key(text: str) -> KeyPath:
    """Read a key as one writes it: ``venues.NAME.choose[0].tag``, ``llm.models."a:b.c".free``."""
    parts = _KEY_PART.findall(text)
    return tuple(int(entry) if entry.isdecimal() else quoted or entry or plain for quoted, entry, plain in parts)


def _takes_any_key(setting: SettingDescription) -> bool:
    return not setting.keys and "table" in setting.type


@dataclass(frozen=True, slots=True)
class _SchemaReader:
    definitions: Mapping[str, Schema]

    def table(self, schema: Schema, under: KeyPath) -> Iterator[SettingDescription]:
        """Yield the settings of a table."""
        required = schema.get("required", ())
        for name, part in schema.get("properties", {}).items():
            yield from self._setting(part, (*under, name), needed=name in required)

    def _setting(self, schema: Schema, key: KeyPath, *, needed: bool) -> Iterator[SettingDescription]:
        inside, below = self._inner_table(schema)
        yield SettingDescription(
            key=key,
            description=self._description(schema),
            type=self._type(schema),
            default="" if needed or inside else _default_text(schema),
            keys=tuple(inside["properties"]) if inside else (),
        )
        if inside:
            yield from self.table(inside, (*key, *below))

    def _inner_table(self, schema: Schema) -> tuple[Schema | None, KeyPath]:
        """Return the schema of the table inside, and the wildcard that leads to it: a name, a list entry or none."""
        schema = self._resolve(schema)
        inner: tuple[Schema, KeyPath] = (schema, ())
        if isinstance(named := _named_values(schema), Mapping):
            inner = (self._resolve(named), (ANY_NAME,))
        elif isinstance(schema.get("items"), Mapping):
            inner = (self._resolve(schema["items"]), (ANY_ENTRY,))
        return inner if inner[0].get("properties") else (None, ())

    def _description(self, schema: Schema) -> str:
        """Return the description of a field; pydantic leaves it out where the table inside has the same one."""
        text = schema.get("description") or self._resolve(schema).get("description", "").partition("\n\n")[0]
        return " ".join(text.split())

    def _resolve(self, schema: Schema) -> Schema:
        if "$ref" in schema:
            return self._resolve(self.definitions[schema["$ref"].rpartition("/")[2]])
        return schema

    def _type(self, schema: Schema) -> str:
        schema = self._resolve(schema)
        if "anyOf" in schema or "oneOf" in schema:
            members = [self._type(part) for part in schema.get("anyOf", schema.get("oneOf", ()))]
            return _either(member for member in members if member != _NULL)
        if "const" in schema or "enum" in schema:
            return _either(json.dumps(value) for value in schema.get("enum", [schema.get("const")]))
        kind = schema.get("type", "")
        match kind:
            case "array":
                return self._list_type(schema)
            case "integer" | "number":
                return f"{_TYPE_NAMES[kind]}{_bounds(schema)}"
            case "object" if _named_values(schema) is not None:
                return "table with entries of any name"
        return _TYPE_NAMES.get(schema.get("format", ""), _TYPE_NAMES.get(kind, "any value"))

    def _list_type(self, schema: Schema) -> str:
        fixed = schema.get("prefixItems", ())
        kind = self._type(fixed[0] if fixed else schema.get("items", {}))
        several = _SINGULAR.sub(r"\1s", kind)
        return f"list of {len(fixed)} {several}" if fixed else f"list of {several}"


_NULL = "null"
_SINGULAR = re.compile(r"^(number|whole number|text|path|date|table)\b")
# By the type or the format of a JSON schema.
_TYPE_NAMES = {
    "boolean": "true or false",
    "date": "date",
    "file-path": "path",
    "integer": "whole number",
    "null": _NULL,
    "number": "number",
    "object": "table",
    "password": "secret text",
    "path": "path",
    "string": "text",
}


def _named_values(schema: Schema) -> object:
    """Return the schema of the values of a table whose keys may have any name, None for another table."""
    if isinstance(by_pattern := schema.get("patternProperties"), Mapping):
        return next(iter(by_pattern.values()))
    return schema.get("additionalProperties") or None


def _either(texts: Iterable[str]) -> str:
    *first, last = dict.fromkeys(texts)
    return f"{', '.join(first)} or {last}" if first else last


def _bounds(schema: Schema) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        return f", {_number(least)} to {_number(most)}"
    texts = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
    return "".join(f", {text} {_number(schema[bound])}" for bound, text in texts.items() if bound in schema)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"


def _default_text(schema: Schema) -> str:
    default = schema.get("default", {})
    if default is None:
        return "unset"
    if default in ([], {}):
        return "empty"
    text = json.dumps(default, ensure_ascii=False)
    return text if len(text) <= _MAX_DEFAULT_CHARS else f"{text[:_MAX_DEFAULT_CHARS]}..."
