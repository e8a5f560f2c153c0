"""Every effective value with its origin, for ``foxcast config show``; secrets are masked."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from bot.config.base_schema import PluginTable
from bot.config.schema import Config
from bot.config.setting_reference import WILDCARDS
from bot.config.sources import SECRET_SUFFIXES, ConfigSources, KeyPath
from bot.config.validation import dotted_key
from bot.core.plugin_specs import PluginTableName

SETTINGS_FIELD = "settings"
MASKED_VALUE = "**********"
# Somebody's password may stand in an address: https://name:password@host/.
URL_LOGIN = re.compile(r"(?<=//)[^/\s@]+@")


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueOrigin:
    """One effective value as text, and where it comes from: ``default``, ``config.toml:12`` or ``env FOXCAST_...``."""

    key: str
    value: str
    source: str


def list_origins(config: Config, settings: Mapping[KeyPath, BaseModel] | None = None) -> Sequence[ValueOrigin]:
    """Return every value in the order of the model.

    settings holds the checked settings of plugins by their key (``bot.config.plugin_settings.settings_key``). Without
    its model nobody knows what in a table is secret, so all values of a plugin that is not enabled are masked.
    """
    listing = _OriginListing(config.sources, settings or {})
    return [*listing.rows(config, ()), *listing.without_table(config)]


def find_values(config: Config, settings: Mapping[KeyPath, BaseModel], pattern: KeyPath) -> Iterator[ValueOrigin]:
    """Yield the values of all keys in use that fit a pattern, whose wildcards stand for any name or list entry.

    A table has no value of its own. ``settings`` are as for ``list_origins``; without them there are none of a plugin.
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
    checked: Mapping[KeyPath, BaseModel]

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

    def without_table(self, config: Config) -> Iterator[ValueOrigin]:
        tables: Mapping[str, object] = dict(config)
        for key, model in self.checked.items():
            table = tables[str(key[0])]
            if isinstance(table, Mapping) and key[1] not in table:
                yield from self.rows(model, key)

    def _settings(self, raw: Mapping[str, object], key: KeyPath) -> Iterator[ValueOrigin]:
        if key in self.checked:
            yield from self.rows(self.checked[key], key)
            return
        inside = {(*key, name) for name in raw} | {
            other for other in self.sources.variables if other[: len(key)] == key
        }
        yield from (self.row(each, MASKED_VALUE) for each in sorted(inside, key=str))

    def row(self, key: KeyPath, text: str) -> ValueOrigin:
        source = self.sources.origin(key)
        for suffix in SECRET_SUFFIXES if source == "default" else ():
            if (place := self.sources.origin((*key[:-1], f"{key[-1]}{suffix}"))) != "default":
                source = place
        return ValueOrigin(key=dotted_key(key), value=text, source=source)


def _display_text(value: object) -> str:
    return URL_LOGIN.sub("***@", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
