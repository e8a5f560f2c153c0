"""Which secrets the enabled plugins take, and whether each is given; never what it is."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bot.config.document import Key
from bot.config.model import Config
from bot.config.plugin_settings import is_pointer, secret_named_by, settings_key
from bot.config.problems import dotted
from bot.config.shape import Annotation, inner, is_secret, names
from bot.config.sources import SUFFIXES, variable_name
from bot.llm.roles import name_of, provider_of
from bot.registry import Registry
from bot.specs import Configurable, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A secret of a plugin: its key, the variable that gives it, where it comes from ("" for nowhere).

    ``needed`` says that the plugin does not work without it.
    """

    key: str
    variable: str
    origin: str
    needed: bool

    @property
    def state(self) -> str:
        """Whether it is given, in words."""
        if not self.origin:
            return "not set, and needed" if self.needed else "not set"
        return "set" if self.origin == f"env {self.variable}" else f"set, by {self.origin}"


def secrets_of(config: Config, registry: Registry) -> Iterator[Secret]:
    """Yield the secrets that the enabled plugins take, plugin by plugin."""
    for kind in Table:
        for spec in registry.configurable(kind):
            yield from _Vault(config, spec).secrets(spec.settings)


@dataclass(frozen=True, slots=True)
class _Vault:
    config: Config
    spec: Configurable[Any]

    def secrets(self, annotation: Annotation, key: Key = ()) -> Iterator[Secret]:
        """Yield the secrets inside an annotation that stands under a key of the settings."""
        if is_secret(annotation):
            yield self._secret(key)
        elif annotation is not Any:
            valid = names(annotation)
            for name in sorted(self._named(key) if valid is None else valid):
                yield from self.secrets(inner(annotation, name), (*key, name))

    def _secret(self, key: Key) -> Secret:
        full = (*settings_key(self.spec), *key)
        field = self.spec.settings.model_fields[str(key[0])]
        return Secret(
            key=dotted(full),
            variable=variable_name(full),
            origin=next(filter(None, (self._origin((*full[:-1], f"{full[-1]}{end}")) for end in ("", *SUFFIXES))), ""),
            needed=len(key) == 1 and field.is_required(),
        )

    def _origin(self, full: Key) -> str:
        sources = self.config.sources
        if (variable := sources.variables.get(full)) is not None:
            return f"env {variable.name}" if variable.value.strip() else ""
        origin = sources.origin(full)
        return "" if origin == "default" else origin

    def _named(self, key: Key) -> set[str]:
        """Return the names in a table that takes any: those that config gives, and of whom a role's model is asked."""
        full = (*settings_key(self.spec), *key)
        written: object = self.config.table(self.spec.table, self.spec.name).settings
        for part in key:
            written = written.get(str(part), {}) if isinstance(written, Mapping) else {}
        given = {str(name) for name in written} if isinstance(written, Mapping) else set()
        variables = {str(k[len(full)]) for k in self.config.sources.variables if k[: len(full)] == full and k != full}
        # Its place is named in the place of its secret.
        named = {
            secret_named_by(name) if is_pointer(self.spec.settings, (*key, name)) else name
            for name in given | variables
        }
        return named | (self._asked() if self.spec.table is Table.MODELS else set())

    def _asked(self) -> set[str]:
        tables = self.config.llm.roles.values()
        models = [model for table in tables for model in (table.model, table.fallback) if model is not None]
        asked = (name_of(model).partition("/") for model in models if provider_of(model) == self.spec.name)
        return {server for server, slash, _ in asked if slash}
