"""Every effective value with its origin, for ``foxcast config show``; secrets are masked."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from bot.config.document import Key
from bot.config.model import Config, PluginTable
from bot.config.problems import dotted
from bot.config.sources import SUFFIXES, Sources

SETTINGS = "settings"
MASK = "**********"
# Somebody's password may stand in an address: https://name:password@host/.
LOGIN = re.compile(r"(?<=//)[^/\s@]+@")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """One effective value as text, and where it comes from: ``default``, ``config.toml:12`` or ``env FOXCAST_...``."""

    key: str
    value: str
    source: str


def origins(config: Config, settings: Mapping[Key, BaseModel] | None = None) -> Sequence[Origin]:
    """Return every value in the order of the model.

    settings holds the checked settings of plugins by their key (``bot.config.plugin_settings.settings_key``). Without
    its model nobody knows what in a table is secret, so all values of a plugin that is not enabled are masked.
    """
    listing = _Listing(config.sources, settings or {})
    return [*listing.rows(config, ()), *listing.without_table(config)]


@dataclass(frozen=True, slots=True)
class _Listing:
    sources: Sources
    checked: Mapping[Key, BaseModel]

    def rows(self, model: BaseModel, key: Key) -> Iterator[Origin]:
        texts = model.model_dump(mode="json", fallback=str)
        for name in sorted(type(model).model_fields, key=SETTINGS.__eq__):
            value, inner = getattr(model, name), (*key, name)
            if isinstance(model, PluginTable) and name == SETTINGS:
                yield from self._settings(value, inner)
            elif isinstance(value, BaseModel):
                yield from self.rows(value, inner)
            elif isinstance(model, Config) and isinstance(value, Mapping):
                for plugin, table in value.items():
                    yield from self.rows(table, (*inner, plugin))
            else:
                yield self._row(inner, _text(texts[name]))

    def without_table(self, config: Config) -> Iterator[Origin]:
        tables: Mapping[str, object] = dict(config)
        for key, model in self.checked.items():
            table = tables[str(key[0])]
            if isinstance(table, Mapping) and key[1] not in table:
                yield from self.rows(model, key)

    def _settings(self, raw: Mapping[str, object], key: Key) -> Iterator[Origin]:
        if key in self.checked:
            yield from self.rows(self.checked[key], key)
            return
        inside = {(*key, name) for name in raw} | {
            other for other in self.sources.variables if other[: len(key)] == key
        }
        yield from (self._row(each, MASK) for each in sorted(inside, key=str))

    def _row(self, key: Key, text: str) -> Origin:
        source = self.sources.origin(key)
        for suffix in SUFFIXES if source == "default" else ():
            if (place := self.sources.origin((*key[:-1], f"{key[-1]}{suffix}"))) != "default":
                source = place
        return Origin(key=dotted(key), value=text, source=source)


def _text(value: object) -> str:
    return LOGIN.sub("***@", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
