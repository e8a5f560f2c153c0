"""Loads the configuration from defaults.

Config.toml and the environment, and checks that its tables name plugins that exist.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from bot.config.environment import (
    CONFIG_VARIABLE,
    decode_variables,
    find_misnamed_tables,
    find_unknown_variables,
    merge_tables,
    read_variables,
)
from bot.config.schema import Config
from bot.config.sources import ConfigSources, KeyPath, TomlDocument, read_toml_file
from bot.config.validation import ConfigFaults, dotted_key, validate_settings
from bot.core.errors import ConfigError
from bot.core.nearest_names import suggest_names
from bot.core.plugin_specs import PluginTableName
from bot.core.redaction import register_url_passwords

DEFAULT_CONFIG_FILE = Path("config.toml")


def load_config(path: Path | None, environ: Mapping[str, str] = os.environ, *, built_in: Path | None = None) -> Config:
    """Return the checked configuration; the environment is that of this process, unless another is handed in.

    The file is the given one, else the one that FOXCAST_CONFIG names, else ./config.toml where it exists; otherwise
    the defaults hold, or ``built_in`` where FOXCAST_PLUGINS is not set either. Raises ConfigError with one line for
    each fault, naming its key, its file and line or variable, and the nearest valid name. What a plugin's own
    settings may hold is checked later, when the plugin is loaded.
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
    ours = {key: variable for key, variable in sources.variables.items() if not _is_plugin_setting(key)}
    values = merge_tables(written, decode_variables(Config, ours))
    config = validate_settings(Config, values, written=written, problems=ConfigFaults(Config, sources))
    register_url_passwords(config.http.proxy or "")
    return config.with_sources(sources)


def _is_plugin_setting(key: KeyPath) -> bool:
    """Tell whether the key stands in a plugin's own settings: these are decoded with the plugin's own model."""
    return key[2:3] == ("settings",)


def _find_document(path: Path | None, environ: Mapping[str, str]) -> TomlDocument:
    if path is not None:
        return read_toml_file(path)
    if environ.get(CONFIG_VARIABLE):
        return read_toml_file(Path(environ[CONFIG_VARIABLE]))
    return read_toml_file(DEFAULT_CONFIG_FILE) if DEFAULT_CONFIG_FILE.exists() else TomlDocument()


def check_plugin_names(
    config: Config, offered: Mapping[PluginTableName, Collection[str]], *, dormant: Collection[str]
) -> None:
    """Raise ConfigError with a line for each table, forecaster of a venue and search engine that nothing answers to.

    offered holds what the enabled plugins offer; dormant the names of plugins that are there and not enabled: their
    tables may stay in the file, unread.
    """
    faults = [
        *_unknown_tables(config, offered, dormant),
        *_unknown_base_forecasters(config, offered, dormant),
        *_unknown_forecasters(config, offered, dormant),
        *_unknown_search_engines(config, offered, dormant),
    ]
    if faults:
        raise ConfigError("\n".join(faults))


def describe_place(config: Config, *key: str | int) -> str:
    """Return where a key stands and what it is called, as the beginning of a line."""
    return f"{config.sources.fault_place(key)}: {dotted_key(key)}: ".removeprefix(": ")


def _unknown_tables(
    config: Config, offered: Mapping[PluginTableName, Collection[str]], dormant: Collection[str]
) -> Iterator[str]:
    for table in PluginTableName:
        valid = {*offered[table], *dormant}
        written = {str(key[1]) for key in config.sources.variables if key[0] == table and len(key) > 2}
        for name in sorted(written.union(config.plugin_tables(table)) - valid - _forecaster_variants(config, table)):
            place = describe_place(config, table.value, name)
            if table is PluginTableName.FORECASTERS:
                variant = '(a variant of another forecaster needs uses = "NAME")'
                yield f"{place}no plugin offers it; {suggest_names(name, offered[table])} {variant}"
            else:
                yield f"{place}no plugin offers it; {suggest_names(name, valid)}"


def _unknown_search_engines(
    config: Config, offered: Mapping[PluginTableName, Collection[str]], dormant: Collection[str]
) -> Iterator[str]:
    engines = offered[PluginTableName.SEARCH]
    for index, name in enumerate(config.research.search):
        place = describe_place(config, "research", "search", index)
        if name in engines:
            continue
        if name in dormant:
            yield f"{place}the plugin {name} is not enabled; add it to plugins"
        else:
            yield f"{place}no enabled plugin offers this search engine; {suggest_names(name, engines)}"


def _forecaster_variants(config: Config, table: PluginTableName) -> set[str]:
    """Return the forecasters that config makes of others; whether those exist is said of them."""
    made = config.forecasters.items() if table is PluginTableName.FORECASTERS else ()
    return {name for name, written in made if written.uses is not None}


def _unknown_base_forecasters(
    config: Config, offered: Mapping[PluginTableName, Collection[str]], dormant: Collection[str]
) -> Iterator[str]:
    valid = {*offered[PluginTableName.FORECASTERS], *dormant} - _forecaster_variants(
        config, PluginTableName.FORECASTERS
    )
    for name, table in config.forecasters.items():
        if table.uses is not None and table.uses not in valid:
            place = describe_place(config, PluginTableName.FORECASTERS.value, name, "uses")
            yield f"{place}no enabled plugin offers this forecaster; {suggest_names(table.uses, valid)}"


def _unknown_forecasters(
    config: Config, offered: Mapping[PluginTableName, Collection[str]], dormant: Collection[str]
) -> Iterator[str]:
    forecasters = offered[PluginTableName.FORECASTERS]
    for venue in sorted(set(config.venues).intersection(offered[PluginTableName.VENUES])):
        for key, name in _venue_forecasters(config, venue):
            place = describe_place(config, "venues", venue, *key)
            if name in forecasters:
                continue
            if name in dormant:
                yield f"{place}the plugin {name} is not enabled; add it to plugins"
            else:
                yield f"{place}no enabled plugin offers this forecaster; {suggest_names(name, forecasters)}"


def _venue_forecasters(config: Config, venue: str) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the forecasters that the table of a venue names, each with its key."""
    table = config.venues[venue]
    for index, name in enumerate(table.forecasters):
        yield ("forecasters", index), name
    for nth, chosen in enumerate(table.choose):
        for index, name in enumerate(chosen.forecasters):
            yield ("choose", nth, "forecasters", index), name
