"""`foxcast notify`: list the notifiers with what waits for them, and send a test message."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Annotated, Any

import typer

from bot.alerts.alert_job import deliver_message
from bot.cli.command_exit import ExitCode, exit_code
from bot.cli.command_setup import load_config_and_plugins
from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_json, stdout_console
from bot.cli.read_only_plugins import open_read_only_plugins
from bot.config.schema import Config
from bot.core.alerts import AlertLevel, NotificationMessage
from bot.core.clock import SystemClock
from bot.core.errors import ConfigError, FoxcastError, NotFoundError, describe_error
from bot.core.ids import derive_id
from bot.core.plain_text import replace_invisible, suggest_names
from bot.evaluation.lookup import query_ledger
from bot.evaluation.value_text import NO_VALUE, format_age
from bot.plugin_system.registry import Registry
from bot.store.alerts import ChannelStatus
from bot.store.ledger import ReadOnlyState
from bot.store.serialization import format_timestamp

app = typer.Typer(add_completion=False, help="List notifiers and test them.")

COLUMNS = (
    TableColumn("notifier"),
    TableColumn("level"),
    TableColumn("waiting", ColumnKind.NUMBER),
    TableColumn("last delivery"),
    TableColumn("last failure", ColumnKind.TEXT),
)
NO_NOTIFIER = (
    'no notifier is configured; for example plugins = [..., "webhook"] and a table [notifiers.webhook] in config.toml, '
    "see docs/alerts.md"
)


@app.command("list")
def list_notifiers(
    ctx: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List notifiers, the messages that wait for them, and why the last one failed."""
    config, registry = load_config_and_plugins(ctx)
    statuses = _load_statuses(config)
    if as_json:
        print_json([_status_to_json(config, registry, name, statuses) for name in config.notifiers])
    elif config.notifiers:
        now = SystemClock().now()
        rows = []
        for name, table in config.notifiers.items():
            found = statuses.get(name, ChannelStatus())
            delivered = NO_VALUE if found.delivered_at is None else format_age(now - found.delivered_at)
            rows.append((name, table.level.value, str(found.waiting), delivered, _failure(registry, name, found)))
        stdout_console().print(make_table(COLUMNS, rows))
    else:
        stdout_console().print(NO_NOTIFIER)


@app.command("test")
def send_test_messages(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One notifier; default: all.")] = None,
) -> None:
    """Send a test message now, through one notifier or all of them."""
    config, registry = load_config_and_plugins(ctx)
    if not config.notifiers:
        raise ConfigError(NO_NOTIFIER)
    if name is not None and name not in config.notifiers:
        message = f"no notifier {name} is configured; {suggest_names(name, config.notifiers)}"
        raise NotFoundError(message)
    names = [*config.notifiers] if name is None else [name]
    if missing := [one for one in names if one not in registry.notifiers]:
        message = f"no enabled plugin offers {', '.join(missing)}: add it to plugins in config.toml"
        raise ConfigError(message)
    failures = asyncio.run(_send_tests(config, registry, names))
    for one in names:
        error = failures.get(one)
        text = "delivered" if error is None else f"not delivered: {describe_error(error)}"
        typer.echo(replace_invisible(f"{one}: {text}"))
    if failures:
        raise typer.Exit(max(map(exit_code, failures.values()), default=ExitCode.FAILED))


async def _send_tests(config: Config, registry: Registry, names: list[str]) -> dict[str, FoxcastError]:
    clock, failures = SystemClock(), dict[str, FoxcastError]()
    async with AsyncExitStack() as stack:
        factory, _ = await open_read_only_plugins(config, registry, (), clock=clock, stack=stack)
        channels = await factory.open_notifiers(names)
        for name, channel in channels.items():
            now = clock.now()
            message = NotificationMessage(
                id=derive_id("notification", name, "test", now.isoformat()),
                subject="Foxcast: test message",
                text=f"This is a test of the notifier {name}. Alerts of Foxcast arrive here.",
                level=AlertLevel.INFO,
                at=now,
            )
            try:
                await deliver_message(channel, message)
            except FoxcastError as error:
                failures[name] = error
    return failures


def _load_statuses(config: Config) -> Mapping[str, ChannelStatus]:
    async def read(records: ReadOnlyState) -> Mapping[str, ChannelStatus]:
        return await records.ledger.alerts.channels()

    try:
        return query_ledger(config, read)
    except NotFoundError:
        return {}  # nothing ran yet


def _failure(registry: Registry, name: str, found: ChannelStatus) -> str:
    if name not in registry.notifiers:
        return "its plugin is not in use, or broken: foxcast plugins"
    if found.detail:
        return f"{found.detail} ({found.attempts} attempts)"
    return f"{found.dropped} messages were dropped after seven days" if found.dropped else NO_VALUE


def _status_to_json(
    config: Config, registry: Registry, name: str, statuses: Mapping[str, ChannelStatus]
) -> dict[str, Any]:
    found = statuses.get(name, ChannelStatus())
    return {
        "name": name,
        "level": config.notifiers[name].level.value,
        "usable": name in registry.notifiers,
        "waiting": found.waiting,
        "attempts": found.attempts,
        "dropped": found.dropped,
        "delivered_at": format_timestamp(found.delivered_at),
        "failure": found.detail or None,
    }
