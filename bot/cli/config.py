"""`foxcast config`: every setting with its value and origin, and which secrets are set (never their values)."""

import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from bot.cli.command_setup import load_config_and_plugins
from bot.cli.options import CommandInvocation
from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_heading, print_json, stdout_console
from bot.cli.output.files import write_text_atomically
from bot.config.key_lines import KeyPath
from bot.config.loader import find_named_config
from bot.config.plugin_settings import is_secret_pointer, load_plugin_settings, secret_key_name, settings_key
from bot.config.schema import Config
from bot.config.settings_report import (
    SETTINGS_FIELD,
    SettingDescription,
    ValueOrigin,
    describe_settings,
    find_setting,
    find_values,
    list_origins,
    parse_key,
    suggest_settings,
)
from bot.config.sources import SECRET_SUFFIXES, ConfigSources, TomlDocument, read_toml_file, variable_name
from bot.config.trust import plugin_files_objection
from bot.config.upgrade import upgrade_text
from bot.config.validation import Annotation, current_key, dotted_key, field_names, inner_annotation, is_secret
from bot.core.errors import ConfigError
from bot.core.light_dataclass import dataclass
from bot.core.plugin_specs import ConfigurableSpec, PluginTableName
from bot.llm.roles import bare_model_name, provider_name
from bot.plugin_system.discovery import PluginOrigin, discover_plugins
from bot.plugin_system.registry import Registry, build_registry


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSecret:
    """A secret of a plugin: its key, its environment variable, and its origin, "" if it is not set.

    ``needed`` says that the plugin does not work without it.
    """

    key: str
    variable: str
    origin: str
    needed: bool

    @property
    def state(self) -> str:
        """Whether it is set, in words."""
        if not self.origin:
            return "not set, and needed" if self.needed else "not set"
        return "set" if self.origin == f"env {self.variable}" else f"set, by {self.origin}"


def list_plugin_secrets(config: Config, registry: Registry) -> Iterator[PluginSecret]:
    """Yield the secrets of the enabled plugins, plugin by plugin."""
    for kind in PluginTableName:
        for spec in registry.specs_of_table(kind):
            yield from _SecretScanner(config, spec).find_secrets(spec.settings)


@dataclass(frozen=True, slots=True)
class _SecretScanner:
    config: Config
    spec: ConfigurableSpec[Any]

    def find_secrets(self, annotation: Annotation, key: KeyPath = ()) -> Iterator[PluginSecret]:
        """Yield the secrets inside the annotation of a key of the settings."""
        if is_secret(annotation):
            yield self._make_secret(key)
        elif annotation is not Any:
            valid = field_names(annotation)
            for name in sorted(self._free_names(key) if valid is None else valid):
                yield from self.find_secrets(inner_annotation(annotation, name), (*key, name))

    def _make_secret(self, key: KeyPath) -> PluginSecret:
        full = (*settings_key(self.spec), *key)
        field = self.spec.settings.model_fields[str(key[0])]
        return PluginSecret(
            key=dotted_key(full),
            variable=variable_name(full),
            origin=next(
                filter(None, (self._find_origin((*full[:-1], f"{full[-1]}{end}")) for end in ("", *SECRET_SUFFIXES))),
                "",
            ),
            needed=len(key) == 1 and field.is_required(),
        )

    def _find_origin(self, full: KeyPath) -> str:
        sources = self.config.sources
        if (variable := sources.variables.get(full)) is not None:
            return f"env {variable.name}" if variable.value.strip() else ""
        origin = sources.origin(full)
        return "" if origin == "default" else origin

    def _free_names(self, key: KeyPath) -> set[str]:
        """Return the names in a table with free names: the configured ones, and the servers of models in roles."""
        full = (*settings_key(self.spec), *key)
        written: object = self.config.plugin_table(self.spec.table, self.spec.name).settings
        for part in key:
            written = written.get(str(part), {}) if isinstance(written, Mapping) else {}
        given = {str(name) for name in written} if isinstance(written, Mapping) else set()
        variables = {str(k[len(full)]) for k in self.config.sources.variables if k[: len(full)] == full and k != full}
        # A key that points to a secret stands for the secret.
        named = {
            secret_key_name(name) if is_secret_pointer(self.spec.settings, (*key, name)) else name
            for name in given | variables
        }
        return named | (self._used_servers() if self.spec.table is PluginTableName.MODELS else set())

    def _used_servers(self) -> set[str]:
        tables = self.config.llm.roles.values()
        models = [model for table in tables for model in (table.model, table.fallback) if model is not None]
        servers = (bare_model_name(model).partition("/") for model in models if provider_name(model) == self.spec.name)
        return {server for server, slash, _ in servers if slash}


app = typer.Typer(add_completion=False)

BYTE_ORDER_MARK = "\ufeff"


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
    """Show the configuration and explain settings."""


@app.command()
def show(
    ctx: typer.Context,
    *,
    explain: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Explain one setting or table, such as daemon.lease_s or venues.NAME.caps."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print every value with its origin; secrets are masked."""
    loaded, registry = load_config_and_plugins(ctx, runs_files=False)
    checked, faults = _validate_settings(loaded, registry)
    loaded = _add_default_forecasters(loaded, registry)
    if explain is not None:
        setting = _find_setting(loaded, registry, explain)
        in_use = find_values(loaded, checked, parse_key(explain))
        _print_explanation(setting, parse_key(explain), [*in_use], as_json=as_json)
        return
    secrets = [*list_plugin_secrets(loaded, registry)]
    values = list_origins(loaded, checked)
    if as_json:
        print_json(_config_to_json(values, secrets))
    else:
        _print_config(values, secrets)
    # Faults are reported after the list, which names the variable of a missing key.
    if faults:
        raise ConfigError("\n".join(faults))


@app.command()
def upgrade(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The configuration file.")],
) -> None:
    """Rewrite a configuration file with the current names of settings; the old file is kept as FILE.bak.

    Comments and layout stay. Environment variables and commented-out settings are not changed.
    """
    named = find_named_config(ctx.ensure_object(CommandInvocation).config_path)
    is_named = named is not None and named.exists() and file.exists() and named.samefile(file)
    document, raw = replace(read_toml_file(file), is_named=is_named), _read_text(file)
    console = stdout_console()
    try:
        upgraded, changes = upgrade_text(raw.removeprefix(BYTE_ORDER_MARK), _settings_models(document))
    except ConfigError as error:
        message = f"{file}: {error}; nothing was changed"
        raise ConfigError(message) from None
    if not changes:
        console.print(f"{file}: nothing to upgrade, all names are current")
        return
    mark, mode = raw[: raw.startswith(BYTE_ORDER_MARK)], stat.S_IMODE(file.stat().st_mode)
    backup = file.with_name(f"{file.name}.bak")
    write_text_atomically(backup, raw, mode=mode)
    # A symbolic link stays a link.
    write_text_atomically(file.resolve(), mark + upgraded, mode=mode)
    for change in changes:
        console.print(f"{file}:{change.line}: {change.old} is now {change.new}")
    console.print(f"rewrote {file}; the old file is {backup}")


def _read_text(file: Path) -> str:
    # Line endings are kept.
    with file.open(encoding="utf-8", newline="") as opened:
        return opened.read()


def _settings_models(document: TomlDocument) -> dict[KeyPath, type[BaseModel]]:
    """Return the settings models of built-in and enabled plugins, and of the variants of forecasters in the file."""
    table, folder = document.table, Path() if document.path is None else document.path.parent
    files = tuple(folder / str(name) for name in _list_at(table, "plugin_files"))
    objection = plugin_files_objection(files, ConfigSources(document=document))
    found = discover_plugins(files, objection=objection)
    named = [*map(str, _list_at(table, "plugins"))]
    names = sorted({one.name for one in found if one.name in named or one.origin is PluginOrigin.BUILT_IN})
    registry = build_registry(Config(plugins=tuple(names)), found)
    models: dict[KeyPath, type[BaseModel]] = {
        settings_key(spec): spec.settings for kind in PluginTableName for spec in registry.specs_of_table(kind)
    }
    forecasters = table.get(PluginTableName.FORECASTERS.value, {})
    for name, variant in forecasters.items() if isinstance(forecasters, Mapping) else ():
        uses = variant.get("uses") if isinstance(variant, Mapping) else None
        if (base := models.get((PluginTableName.FORECASTERS.value, str(uses), SETTINGS_FIELD))) is not None:
            models[PluginTableName.FORECASTERS.value, name, SETTINGS_FIELD] = base
    return models


def _list_at(table: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = table.get(key, ())
    return value if isinstance(value, list) else ()


def _find_setting(loaded: Config, registry: Registry, text: str) -> SettingDescription:
    key = parse_key(text)
    specs = _find_specs(loaded, registry, key)
    of_engine = describe_settings(Config)
    of_plugin = [
        setting
        for spec in specs
        for setting in describe_settings(spec.settings, settings_key(spec), summary=spec.summary)
    ]
    # The engine does not know the own keys of a plugin.
    known = of_plugin if len(key) > 3 and key[2] == SETTINGS_FIELD else [*of_plugin, *of_engine]
    if (setting := find_setting(known, key)) is None:
        current = current_key(key, {settings_key(spec): spec.settings for spec in specs})
        if current != key:
            message = f"{text} is now {dotted_key(current)}"
            raise ConfigError(message)
        near = suggest_settings([*of_plugin, *of_engine], text)
        hint = f"did you mean {' or '.join(near)}?" if near else "foxcast config show lists all of them"
        message = f"there is no setting {text}; {hint}"
        raise ConfigError(message)
    return setting


def _find_specs(loaded: Config, registry: Registry, key: KeyPath) -> Sequence[ConfigurableSpec[Any]]:
    """Return the spec that a key of plugin settings names, also of a plugin that is not enabled; () for other keys."""
    if key[2:3] != (SETTINGS_FIELD,) or key[0] not in set(PluginTableName):
        return ()
    kind, name = PluginTableName(str(key[0])), str(key[1])
    specs = registry.specs_of_table(kind)
    if name not in specs:
        # A plugin that is not enabled is imported only to be explained.
        everything = loaded.model_copy(update={"plugins": tuple({plugin.name for plugin in registry.found})})
        specs = build_registry(everything, registry.found).specs_of_table(kind)
    return (specs[name],) if name in specs else ()


def _print_explanation(
    setting: SettingDescription, key: KeyPath, in_use: Sequence[ValueOrigin], *, as_json: bool
) -> None:
    values = {each.key: {"value": each.value, "origin": each.source} for each in in_use}
    if as_json:
        shown = {"key": setting.name, "description": setting.description, "type": setting.type}
        print_json(shown | {"default": setting.default or None, "keys": setting.keys, "values": values})
        return
    console = stdout_console()
    console.print(f"{setting.name}: {setting.description}")
    if setting.keys:
        console.print(f"  keys: {', '.join(setting.keys)}")
        return
    console.print(f"  type: {setting.type}")
    console.print(f"  default: {setting.default or 'none, it must be set'}")
    for each in in_use:
        console.print(f"  {each.key} = {'unset' if each.value == 'null' else each.value} ({each.source})")
    if not in_use and len(setting.key) < len(key):
        console.print(f"  Keys in this table may have any name, also {key[-1]}.")


def _add_default_forecasters(loaded: Config, registry: Registry) -> Config:
    """Return the config with a table for each available forecaster, so that its defaults are listed too."""
    tables = dict(loaded.forecasters)
    for spec in registry.forecasters:
        table = loaded.forecaster_table(spec.name)
        tables[spec.name] = table.model_copy(update={"trials": table.trials or spec.trials})
    return loaded.model_copy(update={"forecasters": tables})


def _validate_settings(loaded: Config, registry: Registry) -> tuple[dict[KeyPath, BaseModel], list[str]]:
    """Return the valid settings of plugins, and the faults of the others."""
    checked: dict[KeyPath, BaseModel] = {}
    faults = []
    for spec in (spec for kind in PluginTableName for spec in registry.specs_of_table(kind)):
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
