"""`foxcast plugins`: all plugins found, what they offer, and which are enabled or broken; and the check of one plugin.

Only enabled plugins are imported, and the one that is checked.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from bot.cli.command_exit import ExitCode, run_until_terminated
from bot.cli.command_setup import load_config_and_plugins
from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_json, stdout_console
from bot.core.plugin_specs import (
    BaseSpec,
    CommandSpec,
    DataSpec,
    ForecasterSpec,
    JobSpec,
    ModelSpec,
    NotifierSpec,
    SearchSpec,
    VenueSpec,
)
from bot.plugin_system.discovery import PluginCandidate, choose_plugin
from bot.plugin_system.registry import Registry, build_registry

app = typer.Typer(add_completion=False, invoke_without_command=True)

KIND_TITLES: dict[type[BaseSpec], str] = {
    VenueSpec: "venue",
    ForecasterSpec: "forecaster",
    SearchSpec: "search engine",
    DataSpec: "data source",
    ModelSpec: "model provider",
    NotifierSpec: "notifier",
    CommandSpec: "command",
    JobSpec: "job",
}

COLUMNS = (
    TableColumn("plugin"),
    TableColumn("state"),
    TableColumn("offers", ColumnKind.TEXT),
    TableColumn("from", ColumnKind.TEXT),
)
CHECK_COLUMNS = (
    TableColumn("result"),
    TableColumn("part"),
    TableColumn("check"),
    TableColumn("detail", ColumnKind.TEXT),
)


@app.callback()
def plugins(
    ctx: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List plugins: what they provide, and which are enabled or broken; or check one of them."""
    if ctx.invoked_subcommand is not None:
        return
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


@app.command()
def check(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A plugin; foxcast plugins lists them.")],
    *,
    online: Annotated[
        bool, typer.Option("--online", help="Let what is opened make requests; without it nothing is connected.")
    ] = False,
) -> None:
    """Open each part of a plugin with your settings, and run the contract kits that fit it; nothing is submitted.

    Tests of the plugin's own package that inherit a kit are run. A kit that needs nothing of its author and that none
    of them inherits is run on the plugin itself; which kits were not run is listed.
    """
    from bot.cli.plugin_check import FindingKind, check_plugin

    config, registry = load_config_and_plugins(ctx)
    plugin = choose_plugin(name, registry.found)
    if name not in config.plugins:
        config = config.model_copy(update={"plugins": (*config.plugins, name)})
        registry = build_registry(config, registry.found)
    findings = run_until_terminated(check_plugin(config, registry, plugin, online=online))
    console = stdout_console()
    console.print(f"{plugin}", soft_wrap=True)
    console.print(make_table(CHECK_COLUMNS, [(one.kind, one.part, one.check, one.detail) for one in findings]))
    counts = Counter(one.kind for one in findings)
    failed = counts[FindingKind.FAILED]
    for text in (f"{one.part}: {one.check}: {line}" for one in findings for line in one.failures):
        console.print(text, soft_wrap=True)
    console.print(f"{name}: " + ", ".join(f"{counts[kind]} {kind}" for kind in FindingKind if counts[kind]))
    if failed:
        raise typer.Exit(ExitCode.FAILED)


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
    for spec in registry.specs_of_plugin(plugin):
        abilities = sorted(spec.abilities)
        yield {"kind": KIND_TITLES[type(spec)], "name": spec.name, "summary": spec.summary, "abilities": abilities}


def _plugin_cells(item: dict[str, Any]) -> tuple[str, str, str, str]:
    offers = "; ".join(
        f"{offer['kind']} {offer['name']}" + (f" ({', '.join(offer['abilities'])})" if offer["abilities"] else "")
        for offer in item["offers"]
    )
    return item["name"], item["state"], offers or "-", f"{item['kind']}, {item['where']}"
