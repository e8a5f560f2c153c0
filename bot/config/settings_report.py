"""For ``foxcast config show``: every effective value with its origin, and what each setting means.

Secrets are masked. Descriptions are the strings below the fields of the settings models, types come from their JSON
schemas; docs/settings.md prints the same texts.
"""

import ast
import inspect
import itertools
import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from bot.config.base_schema import PluginTable
from bot.config.key_lines import KeyPath
from bot.config.schema import Config
from bot.config.sources import SECRET_SUFFIXES, URL_LOGIN, ConfigSources
from bot.config.validation import dotted_key
from bot.core.light_dataclass import dataclass
from bot.core.plain_text import nearest_names
from bot.core.plugin_specs import PluginTableName

SETTINGS_FIELD = "settings"
MASKED_VALUE = "**********"
# Placeholders in a key: for any name, as in [venues.NAME], and for any entry of a list, as in choose[N].
ANY_NAME, ANY_ENTRY = "NAME", "N"
WILDCARDS = (ANY_NAME, ANY_ENTRY, "*")
_KEY_PART = re.compile(r'"([^"]+)"|\[(\w+|\*)\]|([^.\[\]"]+)')
_MAX_DEFAULT_CHARS = 120
Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueOrigin:
    """One effective value as text, and its source: ``default``, ``config.toml:12`` or ``env FOXCAST_...``."""

    key: str
    value: str
    source: str


def list_origins(config: Config, settings: Mapping[KeyPath, BaseModel] | None = None) -> Sequence[ValueOrigin]:
    """Return every value in the order of the model.

    ``settings`` holds the validated settings of plugins by their key (``bot.config.plugin_settings.settings_key``). All
    values of a plugin that is not enabled are masked, because without its model it is not known which are secret.
    """
    listing = _OriginListing(config.sources, settings or {})
    return [*listing.rows(config, ()), *listing.rows_without_table(config)]


def find_values(config: Config, settings: Mapping[KeyPath, BaseModel], pattern: KeyPath) -> Iterator[ValueOrigin]:
    """Yield the values of all keys that match a pattern, whose wildcards match any name or list entry.

    A table itself has no value. ``settings`` are as for ``list_origins``; the settings of other plugins are left out.
    """
    tree = config.model_dump(mode="json", fallback=str)
    for kind in PluginTableName:
        for table in tree[kind].values():
            table[SETTINGS_FIELD] = {}
    for key, model in settings.items():
        tree[str(key[0])].setdefault(key[1], {})[SETTINGS_FIELD] = model.model_dump(mode="json", fallback=str)
    listing = _OriginListing(config.sources, settings)
    for key, value in _matching_leaves(tree, pattern):
        yield listing.row(key, _display_text(value))


def _matching_leaves(value: Any, pattern: KeyPath, key: KeyPath = ()) -> Iterator[tuple[KeyPath, object]]:  # noqa: ANN401
    if not pattern:
        if not isinstance(value, Mapping):
            yield key, value
        return
    first, rest = pattern[0], pattern[1:]
    parts = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, Mapping) else ()
    for part, inside in parts:
        if first in (part, *WILDCARDS):
            yield from _matching_leaves(inside, rest, (*key, part))


@dataclass(frozen=True, slots=True)
class _OriginListing:
    sources: ConfigSources
    plugin_settings: Mapping[KeyPath, BaseModel]

    def rows(self, model: BaseModel, key: KeyPath) -> Iterator[ValueOrigin]:
        texts = model.model_dump(mode="json", fallback=str)
        for name in sorted(type(model).model_fields, key=SETTINGS_FIELD.__eq__):
            value, inner = getattr(model, name), (*key, name)
            if isinstance(model, PluginTable) and name == SETTINGS_FIELD:
                yield from self._settings(value, inner)
            elif isinstance(value, BaseModel):
                yield from self.rows(value, inner)
            elif isinstance(model, Config) and isinstance(value, Mapping):
                for plugin, table in value.items():
                    yield from self.rows(table, (*inner, plugin))
            else:
                yield self.row(inner, _display_text(texts[name]))

    def rows_without_table(self, config: Config) -> Iterator[ValueOrigin]:
        tables: Mapping[str, object] = dict(config)
        for key, model in self.plugin_settings.items():
            table = tables[str(key[0])]
            if isinstance(table, Mapping) and key[1] not in table:
                yield from self.rows(model, key)

    def _settings(self, raw: Mapping[str, object], key: KeyPath) -> Iterator[ValueOrigin]:
        if key in self.plugin_settings:
            yield from self.rows(self.plugin_settings[key], key)
            return
        inside = {(*key, name) for name in raw} | {
            other for other in self.sources.variables if other[: len(key)] == key
        }
        yield from (self.row(each, MASKED_VALUE) for each in sorted(inside, key=str))

    def row(self, key: KeyPath, text: str) -> ValueOrigin:
        source = self.sources.origin(key)
        for suffix in SECRET_SUFFIXES if source == "default" else ():
            if (origin := self.sources.origin((*key[:-1], f"{key[-1]}{suffix}"))) != "default":
                source = origin
        return ValueOrigin(key=dotted_key(key), value=text, source=source)


def _display_text(value: object) -> str:
    return URL_LOGIN.sub("***@", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDescription:
    """One setting or table: its key, what it means, and type and default in words.

    A part of the key is ``ANY_NAME`` or ``ANY_ENTRY`` where any name or entry is allowed. The default is "" if a value
    is required. ``keys`` are the keys of a table; () for a value and for a table that allows any key.
    """

    key: KeyPath
    description: str
    type: str
    default: str
    keys: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The key as it is written: ``venues.NAME.choose[N].tag``."""
        return "".join(f"[{part}]" if part == ANY_ENTRY else f".{part}" for part in self.key).removeprefix(".")


def describe_settings(
    model: type[BaseModel], under: KeyPath = (), *, summary: str = ""
) -> Sequence[SettingDescription]:
    """Return every table and setting of a model, each table before its settings; ``under`` is the key of the model.

    With a summary, the table of the model itself comes first.
    """
    schema = model.model_json_schema(schema_generator=_DescribedSchema)
    head = SettingDescription(
        key=under, description=summary, type="table", default="", keys=tuple(schema.get("properties", ()))
    )
    return [*([head] if summary else []), *_SchemaReader(schema.get("$defs", {})).table(schema, under)]


def find_setting(known: Sequence[SettingDescription], key: KeyPath) -> SettingDescription | None:
    """Return the setting of a key, or the table around it that allows any key; None if there is neither."""
    exact = next((setting for setting in known if fits_key(setting.key, key)), None)
    if exact is not None:
        return exact
    tables = (setting for setting in known if _allows_any_key(setting))
    return next((table for table in tables if fits_key(table.key, key[: len(table.key)])), None)


def fits_key(pattern: KeyPath, key: KeyPath) -> bool:
    """Return whether a key matches a pattern; wildcards in either of them match any name."""
    return len(pattern) == len(key) and all(
        part == other or part in (ANY_NAME, ANY_ENTRY) or other in WILDCARDS
        for part, other in zip(pattern, key, strict=True)
    )


def suggest_settings(known: Sequence[SettingDescription], text: str) -> tuple[str, ...]:
    """Return up to three keys that an unknown one may mean: keys with the same last part, else the nearest ones."""
    last = str(parse_key(text)[-1]) if parse_key(text) else text
    same = [setting.name for setting in known if setting.key[-1] == last]
    return tuple(same[:3]) or nearest_names(text, (setting.name for setting in known))


def parse_key(text: str) -> KeyPath:
    """Parse a key as it is written: ``venues.NAME.choose[0].tag``, ``llm.models."a:b.c".free``."""
    parts = _KEY_PART.findall(text)
    return tuple(int(entry) if entry.isdecimal() else quoted or entry or plain for quoted, entry, plain in parts)


def _allows_any_key(setting: SettingDescription) -> bool:
    return not setting.keys and "table" in setting.type


class _DescribedSchema(GenerateJsonSchema):
    """A JSON schema with the string below each field as its description.

    Pydantic's ``use_attribute_docstrings`` reads the sources of all models when they are imported, in each process.
    """

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        described = super().model_schema(schema)
        texts = _field_docstrings(schema["cls"])
        for name, part in described.get("properties", {}).items():
            if name in texts:
                part.setdefault("description", texts[name])
        return described


def _field_docstrings(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the string below each field that has one, also of the parents' fields; none of a class without source."""
    texts: dict[str, str] = {}
    for parent in reversed(model.__mro__[: model.__mro__.index(BaseModel)]):
        try:
            source = inspect.getsource(parent)
        except OSError:
            continue
        (definition,) = ast.parse(textwrap.dedent(source)).body
        for field, below in itertools.pairwise(getattr(definition, "body", ())):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    texts[name] = inspect.cleandoc(text)
    return texts


@dataclass(frozen=True, slots=True)
class _SchemaReader:
    definitions: Mapping[str, Schema]

    def table(self, schema: Schema, under: KeyPath) -> Iterator[SettingDescription]:
        """Yield the settings of a table."""
        required = schema.get("required", ())
        for name, part in schema.get("properties", {}).items():
            yield from self._setting(part, (*under, name), is_required=name in required)

    def _setting(self, schema: Schema, key: KeyPath, *, is_required: bool) -> Iterator[SettingDescription]:
        inside, below = self._inner_table(schema)
        yield SettingDescription(
            key=key,
            description=self._description(schema),
            type=self._type(schema),
            default="" if is_required or inside else _default_text(schema),
            keys=tuple(inside["properties"]) if inside else (),
        )
        if inside:
            yield from self.table(inside, (*key, *below))

    def _inner_table(self, schema: Schema) -> tuple[Schema | None, KeyPath]:
        """Return the schema of the table inside, and the wildcard for it: a name, a list entry or none."""
        schema = self._resolve(schema)
        inner: tuple[Schema, KeyPath] = (schema, ())
        if isinstance(named := _named_values(schema), Mapping):
            inner = (self._resolve(named), (ANY_NAME,))
        elif isinstance(schema.get("items"), Mapping):
            inner = (self._resolve(schema["items"]), (ANY_ENTRY,))
        return inner if inner[0].get("properties") else (None, ())

    def _description(self, schema: Schema) -> str:
        """Return the description of a field; pydantic leaves it out if the table inside has the same one."""
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
            return _join_alternatives(member for member in members if member != _NULL)
        if "const" in schema or "enum" in schema:
            return _join_alternatives(json.dumps(value) for value in schema.get("enum", [schema.get("const")]))
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
        plural = _SINGULAR.sub(r"\1s", kind)
        return f"list of {len(fixed)} {plural}" if fixed else f"list of {plural}"


_NULL = "null"
_SINGULAR = re.compile(r"^(number|whole number|text|path|date|table)\b")
# The name of a type or format of JSON schema.
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
    """Return the schema of the values of a table that allows any key, None for another table."""
    if isinstance(by_pattern := schema.get("patternProperties"), Mapping):
        return next(iter(by_pattern.values()))
    return schema.get("additionalProperties") or None


def _join_alternatives(texts: Iterable[str]) -> str:
    *first, last = dict.fromkeys(texts)
    return f"{', '.join(first)} or {last}" if first else last


def _bounds(schema: Schema) -> str:
    minimum, maximum = schema.get("minimum"), schema.get("maximum")
    if minimum is not None and maximum is not None:
        return f", {_format_number(minimum)} to {_format_number(maximum)}"
    texts = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
    return "".join(f", {text} {_format_number(schema[bound])}" for bound, text in texts.items() if bound in schema)


def _format_number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"


def _default_text(schema: Schema) -> str:
    default = schema.get("default", {})
    if default is None:
        return "unset"
    if default in ([], {}):
        return "empty"
    text = json.dumps(default, ensure_ascii=False)
    return text if len(text) <= _MAX_DEFAULT_CHARS else f"{text[:_MAX_DEFAULT_CHARS]}..."
