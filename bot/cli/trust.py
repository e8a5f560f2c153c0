"""`foxcast trust`: allow the plugin files of ./config.toml to run."""

import typer

from bot.cli.command_setup import load_command_config
from bot.cli.output.console import stdout_console
from bot.config.trust import needs_trust, plugin_files_objection, record_trust
from bot.core.clock import SystemClock
from bot.core.errors import ConfigError

app = typer.Typer(add_completion=False)


@app.command()
def trust(ctx: typer.Context) -> None:
    """Allow the plugin files of ./config.toml to run as you; recorded once per folder."""
    config, console = load_command_config(ctx), stdout_console()
    if not needs_trust(config.plugin_files, config.sources):
        if fault := plugin_files_objection(config.plugin_files, config.sources):
            raise ConfigError(fault)
        console.print("there is nothing to trust: no plugin file waits for it")
        return
    place = record_trust(config.plugin_files, config.sources.folder, at=SystemClock().now())
    if fault := plugin_files_objection(config.plugin_files, config.sources):
        raise ConfigError(fault)
    console.print(f"trusted: {', '.join(map(str, config.plugin_files))}; recorded in {place}")
