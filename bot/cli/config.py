"""`foxcast config`: every setting with its value and origin.

And which secrets the enabled plugins take and whether each is set (never its value).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from bot.cli.command_setup import load_config_and_plugins
from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_heading, print_json, stdout_console
from bot.config.origins import ValueOrigin, list_origins
from bot.config.plugin_settings import is_secret_pointer, load_plugin_settings, secret_key_name, settings_key
from bot.config.schema import Config
from bot.config.sources import SECRET_SUFFIXES, KeyPath, variable_name
from bot.config.validation import Annotation, dotted_key, field_names, inner_annotation, is_secret
from bot.errors import ConfigError
from bot.llm.roles import name_of, provider_of
from bot.registry import Registry
from bot.specs import Configurable, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSecret:
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


def list_plugin_secrets(config: Config, registry: Registry) -> Iterator[PluginSecret]:
    """Yield the secrets that the enabled plugins take, plugin by plugin."""
    for kind in Table:
        for spec in registry.configurable(kind):
            yield from _SecretScanner(config, spec).secrets(spec.settings)


@dataclass(frozen=True, slots=True)
class _SecretScanner:
    config: Config
    spec: Configurable[Any]

    def secrets(self, annotation: Annotation, key: KeyPath = ()) -> Iterator[PluginSecret]:
        """Yield the secrets inside an annotation that stands under a key of the settings."""
        if is_secret(annotation):
            yield self._secret(key)
        elif annotation is not Any:
            valid = field_names(annotation)
            for name in sorted(self._named(key) if valid is None else valid):
                yield from self.secrets(inner_annotation(annotation, name), (*key, name))

    def _secret(self, key: KeyPath) -> PluginSecret:
        full = (*settings_key(self.spec), *key)
        field = self.spec.settings.model_fields[str(key[0])]
        return PluginSecret(
            key=dotted_key(full),
            variable=variable_name(full),
            origin=next(
                filter(None, (self._origin((*full[:-1], f"{full[-1]}{end}")) for end in ("", *SECRET_SUFFIXES))), ""
            ),
            needed=len(key) == 1 and field.is_required(),
        )

    def _origin(self, full: KeyPath) -> str:
        sources = self.config.sources
        if (variable := sources.variables.get(full)) is not None:
            return f"env {variable.name}" if variable.value.strip() else ""
        origin = sources.origin(full)
        return "" if origin == "default" else origin

    def _named(self, key: KeyPath) -> set[str]:
        """Return the names in a table that takes any: those that config gives, and of whom a role's model is asked."""
        full = (*settings_key(self.spec), *key)
        written: object = self.config.plugin_table(self.spec.table, self.spec.name).settings
        for part in key:
            written = written.get(str(part), {}) if isinstance(written, Mapping) else {}
        given = {str(name) for name in written} if isinstance(written, Mapping) else set()
        variables = {str(k[len(full)]) for k in self.config.sources.variables if k[: len(full)] == full and k != full}
        # Its place is named in the place of its secret.
        named = {
            secret_key_name(name) if is_secret_pointer(self.spec.settings, (*key, name)) else name
            for name in given | variables
        }
        return named | (self._asked() if self.spec.table is Table.MODELS else set())

    def _asked(self) -> set[str]:
        tables = self.config.llm.roles.values()
        models = [model for table in tables for model in (table.model, table.fallback) if model is not None]
        asked = (name_of(model).partition("/") for model in models if provider_of(model) == self.spec.name)
        return {server for server, slash, _ in asked if slash}


app = typer.Typer(add_completion=False)


SETTING_COLUMNS = (
    TableColumn("key", ColumnKind.TEXT),
    TableColumn("value", ColumnKind.TEXT),
    TableColumn("from", ColumnKind.TEXT),
)


SECRET_COLUMNS = (
    TableColumn("secret", ColumnKind.TEXT),
    TableColumn("variable", ColumnKind.TEXT),
    TableColumn("state", ColumnKind.TEXT),
)


@app.callback()
def config() -> None:
    """Look at the configuration."""


@app.command()
def show(
    ctx: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print every value with its origin; secrets are masked."""
    loaded, registry = load_config_and_plugins(ctx)
    secrets = [*list_plugin_secrets(loaded, registry)]
    checked, faults = _validate_settings(loaded, registry)
    values = list_origins(_add_default_forecasters(loaded, registry), checked)
    if as_json:
        print_json(_config_to_json(values, secrets))
    else:
        _print_config(values, secrets)
    # What is wrong is told after what there is: a key that is missing is in the list with its variable.
    if faults:
        raise ConfigError("\n".join(faults))


def _add_default_forecasters(loaded: Config, registry: Registry) -> Config:
    """Return the config with a table for each forecaster there is, so that what holds without one is listed too."""
    tables = dict(loaded.forecasters)
    for spec in registry.forecasters:
        table = loaded.forecaster_table(spec.name)
        tables[spec.name] = table.model_copy(update={"trials": table.trials or spec.trials})
    return loaded.model_copy(update={"forecasters": tables})


def _validate_settings(loaded: Config, registry: Registry) -> tuple[dict[KeyPath, BaseModel], list[str]]:
    """Return the settings of all plugins that can be used, and what is wrong with the others."""
    checked: dict[KeyPath, BaseModel] = {}
    faults = []
    for spec in (spec for kind in Table for spec in registry.configurable(kind)):
        try:
            checked[settings_key(spec)] = load_plugin_settings(spec, loaded)
        except ConfigError as error:
            faults.append(str(error))
    return checked, faults


def _print_config(values: Sequence[ValueOrigin], secrets: Sequence[PluginSecret]) -> None:
    console = stdout_console()
    console.print(make_table(SETTING_COLUMNS, [(each.key, each.value, each.source) for each in values]))
    if secrets:
        print_heading(console, "Secrets")
        console.print(make_table(SECRET_COLUMNS, [(each.key, each.variable, each.state) for each in secrets]))


def _config_to_json(values: Sequence[ValueOrigin], secrets: Sequence[PluginSecret]) -> dict[str, dict[str, Any]]:
    plain: dict[str, dict[str, Any]] = {each.key: {"value": each.value, "origin": each.source} for each in values}
    for secret in secrets:
        entry = plain.setdefault(secret.key, {"value": None, "origin": secret.origin or "default"})
        entry |= {"variable": secret.variable, "set": bool(secret.origin)}
    return plain
