"""``foxcast plugins``: everything that was found, imported only where it is enabled."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from bot.cli.output.console import Column, Kind, emit, stdout, table
from bot.cli.session import equipped
from bot.discovery import Candidate
from bot.registry import Registry, Shelf
from bot.specs import Spec

app = typer.Typer(add_completion=False)

COLUMNS = (Column("plugin"), Column("state"), Column("offers", Kind.TEXT), Column("from", Kind.TEXT))


@app.command()
def plugins(
    ctx: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List plugins: what they offer, which are enabled, and what is broken."""
    _, registry = equipped(ctx)
    listed = [_listed(registry, plugin) for plugin in registry.found]
    if as_json:
        emit(listed)
        return
    console = stdout()
    console.print(table(COLUMNS, [_row(item) for item in listed]))
    for broken in registry.broken:
        console.print(f"{broken.plugin.name} is broken: {broken.reason}")


def _listed(registry: Registry, plugin: Candidate) -> dict[str, Any]:
    reason = next((broken.reason for broken in registry.broken if broken.plugin is plugin), None)
    state = "broken" if reason else "enabled" if plugin in registry.enabled else "not enabled"
    return {
        "name": plugin.name,
        "kind": str(plugin.kind),
        "where": plugin.where,
        "state": state,
        "reason": reason,
        "offers": [*_offers(registry, plugin)],
    }


def _offers(registry: Registry, plugin: Candidate) -> Iterator[dict[str, Any]]:
    shelves: dict[str, Shelf[Any]] = {
        "venue": registry.venues,
        "forecaster": registry.forecasters,
        "search engine": registry.search_engines,
        "data source": registry.data_sources,
        "model provider": registry.models,
        "notifier": registry.notifiers,
        "command": registry.commands,
        "job": registry.jobs,
    }
    for kind, shelf in shelves.items():
        specs: list[Spec] = [spec for spec in shelf if shelf.provider(spec.name) is plugin]
        for spec in specs:
            abilities = sorted(ability.value for ability in spec.abilities)
            yield {"kind": kind, "name": spec.name, "summary": spec.summary, "abilities": abilities}


def _row(item: dict[str, Any]) -> tuple[str, str, str, str]:
    offers = "; ".join(
        f"{offer['kind']} {offer['name']}" + (f" ({', '.join(offer['abilities'])})" if offer["abilities"] else "")
        for offer in item["offers"]
    )
    return item["name"], item["state"], offers or "-", f"{item['kind']}, {item['where']}"
