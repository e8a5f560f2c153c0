"""`foxcast plugins`: all plugins found, what they offer, and which are enabled or broken.

Only enabled plugins are imported.
"""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from bot.cli.command_setup import load_config_and_plugins
from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_json, stdout_console
from bot.core.plugin_specs import BaseSpec
from bot.plugin_system.discovery import PluginCandidate
from bot.plugin_system.registry import Registry, SpecCollection

app = typer.Typer(add_completion=False)

COLUMNS = (
    TableColumn("plugin"),
    TableColumn("state"),
    TableColumn("offers", ColumnKind.TEXT),
    TableColumn("from", ColumnKind.TEXT),
)


@app.command()
def plugins(
    ctx: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List plugins: what they provide, and which are enabled or broken."""
    _, registry = load_config_and_plugins(ctx, runs_files=False)
    listed = [_plugin_to_json(registry, plugin) for plugin in registry.found]
    if as_json:
        print_json(listed)
        return
    console = stdout_console()
    console.print(make_table(COLUMNS, [_plugin_cells(item) for item in listed]))
    for broken in registry.broken:
        console.print(f"{broken.plugin.name} is broken: {broken.reason}")
    for line in describe_hidden_commands(registry):
        console.print(line)


def describe_hidden_commands(registry: Registry) -> list[str]:
    """Return a line for each command of a plugin with the name, or a former name, of a built-in one, which runs."""
    from bot.cli.main import COMMANDS, RENAMED_COMMANDS

    return [
        f"the command {name} of {registry.commands.plugin_of(name).name} cannot be called: foxcast has one of that name"
        for name in registry.commands.names
        if name in COMMANDS or name in RENAMED_COMMANDS
    ]


def _plugin_to_json(registry: Registry, plugin: PluginCandidate) -> dict[str, Any]:
    reason = next((broken.reason for broken in registry.broken if broken.plugin is plugin), None)
    state = "broken" if reason else "enabled" if plugin in registry.enabled else "not enabled"
    return {
        "name": plugin.name,
        "kind": str(plugin.origin),
        "where": plugin.where,
        "state": state,
        "reason": reason,
        "offers": [*_plugin_offers(registry, plugin)],
    }


def _plugin_offers(registry: Registry, plugin: PluginCandidate) -> Iterator[dict[str, Any]]:
    collections: dict[str, SpecCollection[Any]] = {
        "venue": registry.venues,
        "forecaster": registry.forecasters,
        "search engine": registry.search_engines,
        "data source": registry.data_sources,
        "model provider": registry.models,
        "notifier": registry.notifiers,
        "command": registry.commands,
        "job": registry.jobs,
    }
    for kind, collection in collections.items():
        specs: list[BaseSpec] = [spec for spec in collection if collection.plugin_of(spec.name) is plugin]
        for spec in specs:
            abilities = sorted(spec.abilities)
            yield {"kind": kind, "name": spec.name, "summary": spec.summary, "abilities": abilities}


def _plugin_cells(item: dict[str, Any]) -> tuple[str, str, str, str]:
    offers = "; ".join(
        f"{offer['kind']} {offer['name']}" + (f" ({', '.join(offer['abilities'])})" if offer["abilities"] else "")
        for offer in item["offers"]
    )
    return item["name"], item["state"], offers or "-", f"{item['kind']}, {item['where']}"
