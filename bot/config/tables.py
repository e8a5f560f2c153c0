"""Do the tables of config.toml name what there is? Asked once the enabled plugins have said what they offer."""

from collections.abc import Collection, Iterator, Mapping

from bot.config.model import Config
from bot.config.nearest import instead
from bot.config.problems import dotted
from bot.errors import ConfigError
from bot.specs import Table


def check_tables(config: Config, offered: Mapping[Table, Collection[str]], *, dormant: Collection[str]) -> None:
    """Raise ConfigError with a line for each table, forecaster of a venue and search engine that nothing answers to.

    offered holds what the enabled plugins offer; dormant the names of plugins that are there and not enabled: their
    tables may stay in the file, unread.
    """
    faults = [
        *_unknown_tables(config, offered, dormant),
        *_unknown_origins(config, offered, dormant),
        *_unknown_forecasters(config, offered, dormant),
        *_unknown_engines(config, offered, dormant),
    ]
    if faults:
        raise ConfigError("\n".join(faults))


def place_of(config: Config, *key: str | int) -> str:
    """Return where a key stands and what it is called, as the beginning of a line."""
    return f"{config.sources.place(key)}: {dotted(key)}: ".removeprefix(": ")


def _unknown_tables(
    config: Config, offered: Mapping[Table, Collection[str]], dormant: Collection[str]
) -> Iterator[str]:
    for table in Table:
        valid = {*offered[table], *dormant}
        written = {str(key[1]) for key in config.sources.variables if key[0] == table and len(key) > 2}
        for name in sorted(written.union(config.tables(table)) - valid - _variants(config, table)):
            place = place_of(config, table.value, name)
            if table is Table.FORECASTERS:
                variant = '(a variant of another forecaster needs uses = "NAME")'
                yield f"{place}no plugin offers it; {instead(name, offered[table])} {variant}"
            else:
                yield f"{place}no plugin offers it; {instead(name, valid)}"


def _unknown_engines(
    config: Config, offered: Mapping[Table, Collection[str]], dormant: Collection[str]
) -> Iterator[str]:
    engines = offered[Table.SEARCH]
    for index, name in enumerate(config.desk.search):
        place = place_of(config, "desk", "search", index)
        if name in engines:
            continue
        if name in dormant:
            yield f"{place}the plugin {name} is not enabled; add it to plugins"
        else:
            yield f"{place}no enabled plugin offers this search engine; {instead(name, engines)}"


def _variants(config: Config, table: Table) -> set[str]:
    """Return the forecasters that config makes of others; whether those exist is said of them."""
    made = config.forecasters.items() if table is Table.FORECASTERS else ()
    return {name for name, written in made if written.uses is not None}


def _unknown_origins(
    config: Config, offered: Mapping[Table, Collection[str]], dormant: Collection[str]
) -> Iterator[str]:
    valid = {*offered[Table.FORECASTERS], *dormant} - _variants(config, Table.FORECASTERS)
    for name, table in config.forecasters.items():
        if table.uses is not None and table.uses not in valid:
            place = place_of(config, Table.FORECASTERS.value, name, "uses")
            yield f"{place}no enabled plugin offers this forecaster; {instead(table.uses, valid)}"


def _unknown_forecasters(
    config: Config, offered: Mapping[Table, Collection[str]], dormant: Collection[str]
) -> Iterator[str]:
    forecasters = offered[Table.FORECASTERS]
    for venue in sorted(set(config.venues).intersection(offered[Table.VENUES])):
        for key, name in _named(config, venue):
            place = place_of(config, "venues", venue, *key)
            if name in forecasters:
                continue
            if name in dormant:
                yield f"{place}the plugin {name} is not enabled; add it to plugins"
            else:
                yield f"{place}no enabled plugin offers this forecaster; {instead(name, forecasters)}"


def _named(config: Config, venue: str) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the forecasters that the table of a venue names, each with its key."""
    table = config.venues[venue]
    for index, name in enumerate(table.forecasters):
        yield ("forecasters", index), name
    for nth, chosen in enumerate(table.choose):
        for index, name in enumerate(chosen.forecasters):
            yield ("choose", nth, "forecasters", index), name
