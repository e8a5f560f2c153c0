"""Loads the configuration from defaults, config.toml and the environment; checks that its tables name known plugins.

An environment variable sets one value: ``FOXCAST_VENUES__LANTERN__MODE`` sets ``mode`` in ``[venues.lantern]``.
pydantic-settings ignores a misspelt name silently, so all names with the prefix are compared with the model first.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict, SettingsError

from bot.config.key_lines import KeyPath
from bot.config.schema import Config
from bot.config.sources import (
    CONFIG_VARIABLE,
    TOKEN_VARIABLE,
    VARIABLE_DELIMITER,
    VARIABLE_PREFIX,
    ConfigSources,
    EnvironmentVariable,
    TomlDocument,
    read_toml_file,
    variable_name,
)
from bot.config.trust import require_own_config
from bot.config.validation import (
    ConfigFaults,
    annotation_at,
    current_key,
    dotted_key,
    field_names,
    is_table,
    leaf_keys,
    validate_settings,
)
from bot.core.errors import ConfigError
from bot.core.plain_text import nearest_names, suggest_names
from bot.core.plugin_specs import PluginTableName
from bot.core.redaction import register_url_passwords

# Variables with the prefix that are not settings.
NON_SETTINGS = frozenset({CONFIG_VARIABLE, TOKEN_VARIABLE})
DEFAULT_CONFIG_FILE = Path("config.toml")


def load_config(path: Path | None, environ: Mapping[str, str] = os.environ, *, built_in: Path | None = None) -> Config:
    """Return the validated configuration; ``environ`` is the environment of this process by default.

    The file is ``path``, else the one that FOXCAST_CONFIG names, else ./config.toml if it exists. Without a file the
    defaults apply, or the file ``built_in`` if FOXCAST_PLUGINS is not set. Raises ConfigError for a file that other
    users can change, and with one line for each fault: its key, its file and line or its variable, and the nearest
    valid name. The settings of a plugin are validated later, when the plugin is loaded.
    """
    variables, document = read_variables(environ), _find_document(path, environ)
    if built_in is not None and document.path is None and ("plugins",) not in variables:
        document = replace(read_toml_file(built_in), is_built_in=True)
    sources = ConfigSources(document=document, variables=variables)
    written = sources.document.table
    if faults := [
        *find_unknown_variables(Config, sources.variables),
        *find_misnamed_tables(written, sources.variables),
    ]:
        raise ConfigError("\n".join(faults))
    engine_variables = {key: variable for key, variable in sources.variables.items() if not _is_plugin_setting(key)}
    values = merge_tables(written, decode_variables(Config, engine_variables))
    config = validate_settings(Config, values, written=written, problems=ConfigFaults(Config, sources))
    register_url_passwords(config.http.proxy or "")
    return config.with_sources(sources)


def _is_plugin_setting(key: KeyPath) -> bool:
    """Return whether the key is in the settings of a plugin, which are decoded with the model of the plugin."""
    return key[2:3] == ("settings",)


def _find_document(path: Path | None, environ: Mapping[str, str]) -> TomlDocument:
    named = find_named_config(path, environ)
    if named is None and not DEFAULT_CONFIG_FILE.exists():
        return TomlDocument()
    found = named or DEFAULT_CONFIG_FILE
    require_own_config(found)
    return replace(read_toml_file(found), is_named=named is not None)


def find_named_config(path: Path | None, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the configuration file that the user named: ``path``, else that of FOXCAST_CONFIG; None for neither."""
    return path if path is not None else Path(environ[CONFIG_VARIABLE]) if environ.get(CONFIG_VARIABLE) else None


def check_plugin_names(
    config: Config, offered: Mapping[PluginTableName, Collection[str]], *, disabled: Collection[str]
) -> None:
    """Raise ConfigError with a line for each table, forecaster of a venue and search engine that no plugin offers.

    ``offered`` holds what the enabled plugins offer, ``disabled`` the names of plugins that are available and not
    enabled: their tables may stay in the file and are not read.
    """
    faults = [
        *_unknown_tables(config, offered, disabled),
        *_unknown_base_forecasters(config, offered, disabled),
        *_unknown_forecasters(config, offered, disabled),
        *_unknown_search_engines(config, offered, disabled),
    ]
    if faults:
        raise ConfigError("\n".join(faults))


def describe_place(config: Config, *key: str | int) -> str:
    """Return the place and the name of a key, as the beginning of a line."""
    return f"{config.sources.fault_place(key)}: {dotted_key(key)}: ".removeprefix(": ")


def _unknown_tables(
    config: Config, offered: Mapping[PluginTableName, Collection[str]], disabled: Collection[str]
) -> Iterator[str]:
    for table in PluginTableName:
        valid = {*offered[table], *disabled}
        written = {str(key[1]) for key in config.sources.variables if key[0] == table and len(key) > 2}
        for name in sorted(written.union(config.plugin_tables(table)) - valid - _forecaster_variants(config, table)):
            place = describe_place(config, table.value, name)
            if table is PluginTableName.FORECASTERS:
                variant = '(a variant of another forecaster needs uses = "NAME")'
                yield f"{place}no plugin offers it; {suggest_names(name, offered[table])} {variant}"
            else:
                yield f"{place}no plugin offers it; {suggest_names(name, valid)}"


def _unknown_search_engines(
    config: Config, offered: Mapping[PluginTableName, Collection[str]], disabled: Collection[str]
) -> Iterator[str]:
    engines = offered[PluginTableName.SEARCH]
    for index, name in enumerate(config.research.search):
        place = describe_place(config, "research", "search", index)
        if name in engines:
            continue
        if name in disabled:
            yield f"{place}the plugin {name} is not enabled; add it to plugins"
        else:
            yield f"{place}no enabled plugin offers this search engine; {suggest_names(name, engines)}"


def _forecaster_variants(config: Config, table: PluginTableName) -> set[str]:
    """Return the forecasters that are variants of others; ``_unknown_base_forecasters`` checks that those exist."""
    tables = config.forecasters.items() if table is PluginTableName.FORECASTERS else ()
    return {name for name, table in tables if table.uses is not None}


def _unknown_base_forecasters(
    config: Config, offered: Mapping[PluginTableName, Collection[str]], disabled: Collection[str]
) -> Iterator[str]:
    valid = {*offered[PluginTableName.FORECASTERS], *disabled} - _forecaster_variants(
        config, PluginTableName.FORECASTERS
    )
    for name, table in config.forecasters.items():
        if table.uses is not None and table.uses not in valid:
            place = describe_place(config, PluginTableName.FORECASTERS.value, name, "uses")
            yield f"{place}no enabled plugin offers this forecaster; {suggest_names(table.uses, valid)}"


def _unknown_forecasters(
    config: Config, offered: Mapping[PluginTableName, Collection[str]], disabled: Collection[str]
) -> Iterator[str]:
    forecasters = offered[PluginTableName.FORECASTERS]
    for venue in sorted(set(config.venues).intersection(offered[PluginTableName.VENUES])):
        for key, name in _venue_forecasters(config, venue):
            place = describe_place(config, "venues", venue, *key)
            if name in forecasters:
                continue
            if name in disabled:
                yield f"{place}the plugin {name} is not enabled; add it to plugins"
            else:
                yield f"{place}no enabled plugin offers this forecaster; {suggest_names(name, forecasters)}"


def _venue_forecasters(config: Config, venue: str) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the forecasters that the table of a venue names, each with its key."""
    table = config.venues[venue]
    for index, name in enumerate(table.forecasters):
        yield ("forecasters", index), name
    for number, choice in enumerate(table.choose):
        for index, name in enumerate(choice.forecasters):
            yield ("choose", number, "forecasters", index), name


def read_variables(environ: Mapping[str, str]) -> dict[KeyPath, EnvironmentVariable]:
    """Return the FOXCAST_ variables by the key that each sets.

    Raises ConfigError for an empty value, which is nearly always a mistake (as a path it would be the working folder),
    and for two names that differ only in case.
    """
    found: dict[KeyPath, EnvironmentVariable] = {}
    for name, value in sorted(environ.items()):
        if not name.upper().startswith(VARIABLE_PREFIX) or name.upper() in NON_SETTINGS:
            continue
        if not value:
            message = f"env {name}: is empty; give it a value or unset it"
            raise ConfigError(message)
        key = tuple(name[len(VARIABLE_PREFIX) :].lower().split(VARIABLE_DELIMITER))
        if key in found:
            message = f"env {found[key].name} and {name} set the same value; unset one of them"
            raise ConfigError(message)
        found[key] = EnvironmentVariable(name=name, value=value)
    return found


def find_unknown_variables(
    model: type[BaseModel], variables: Mapping[KeyPath, EnvironmentVariable], under: KeyPath = ()
) -> Iterator[str]:
    """Yield one line for each variable that sets nothing in the model; ``under`` is the key of the model."""
    for key, variable in variables.items():
        full = (*under, *key)
        if (current := current_key(full, {under: model} if under else {})) != full:
            yield f"env {variable.name}: is now {variable_name(current)}"
        elif (end := _unknown_part(model, key)) is not None:
            likely = _likely_keys(model, key, end)
            hint = likely and f"did you mean {' or '.join(variable_name((*under, *other)) for other in likely)}?"
            hint = hint or suggest_names(str(key[end]), field_names(annotation_at(model, key[:end])) or ())
            yield f"env {variable.name}: there is no such setting; {hint}"
        elif is_table(annotation_at(model, key)):
            example = variable_name((*under, *key, min(field_names(annotation_at(model, key)) or ("<key>",))))
            yield f"env {variable.name}: names a table; name one value in it, such as {example}"


def find_misnamed_tables(written: Mapping[str, Any], variables: Mapping[KeyPath, EnvironmentVariable]) -> Iterator[str]:
    """Yield one line for each variable of a table that the file does not have, if it has one of a similar name."""
    for key, variable in variables.items():
        tables = written.get(str(key[0]))
        if len(key) < 3 or not isinstance(tables, Mapping) or key[1] in tables:
            continue
        if near := nearest_names(str(key[1]), tables):
            likely = " or ".join(variable_name((key[0], other, *key[2:])) for other in near)
            yield f"env {variable.name}: the file has no [{key[0]}.{key[1]}]; did you mean {likely}?"


def decode_variables(model: type[BaseModel], variables: Mapping[KeyPath, EnvironmentVariable]) -> dict[str, Any]:
    """Return the values of the variables as a nested table; raises ConfigError for a list that is not JSON.

    Source: pydantic-settings decodes lists and tables as JSON and leaves plain values as text for validation.
    """
    table: dict[str, Any] = {}
    for key, variable in variables.items():
        try:
            table = merge_tables(table, _VariableSource(model, key, variable.value)())
        except (SettingsError, RecursionError) as error:
            message = f'env {variable.name}: should be JSON, a list such as ["one", "two"]'
            raise ConfigError(message) from error
    return table


class _VariableSource(EnvSettingsSource):
    """Decodes the given variable instead of reading the environment of the process."""

    def __init__(self, model: type[BaseModel], key: KeyPath, value: str) -> None:
        reader = type("Reader", (model, BaseSettings), {"model_config": SettingsConfigDict(extra="ignore")})
        super().__init__(reader, env_nested_delimiter=VARIABLE_DELIMITER)
        self.env_vars = {_joined_key(key): value}


def merge_tables(table: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table with the values of the other one, which take precedence, merged table by table."""
    merged = dict(table)
    for name, value in other.items():
        below = merged.get(name)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[name] = merge_tables(below, value)
        else:
            merged[name] = value
    return merged


def _unknown_part(model: type[BaseModel], key: KeyPath) -> int | None:
    """Return the index of the first part that the model does not know."""
    for end, part in enumerate(key):
        valid = field_names(annotation_at(model, key[:end]))
        if valid is not None and part not in valid:
            return end
    return None


def _likely_keys(model: type[BaseModel], key: KeyPath, end: int) -> list[KeyPath]:
    """Return likely keys: with a similar name in place of the unknown one, else keys that are similar as a whole."""
    names = nearest_names(str(key[end]), field_names(annotation_at(model, key[:end])) or ())
    if names:
        return [(*key[:end], name, *key[end + 1 :]) for name in names]
    leaves = {_joined_key(leaf): leaf for leaf in leaf_keys(model, key)}
    return [leaves[name] for name in nearest_names(_joined_key(key), leaves)]


def _joined_key(key: KeyPath) -> str:
    return VARIABLE_DELIMITER.join(map(str, key))
