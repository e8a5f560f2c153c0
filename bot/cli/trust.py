"""`foxcast trust`: allow the plugin files and programs of ./config.toml to run."""

import typer

from bot.cli.command_setup import configured_programs, load_command_config
from bot.cli.output.console import stdout_console
from bot.config.trust import needs_trust, plugin_files_objection, record_trust
from bot.core.clock import SystemClock
from bot.core.errors import ConfigError
from bot.plugin_system.registry import load_registry

app = typer.Typer(add_completion=False)


@app.command()
def trust(ctx: typer.Context) -> None:
    """Allow the plugin files and programs of ./config.toml to run as you; recorded once per folder."""
    config, console = load_command_config(ctx), stdout_console()
    files, sources, now = config.plugin_files, config.sources, SystemClock().now()
    # The plugin files that wait for trust are not run here, so programs of their settings are asked for later.
    programs = configured_programs(config, load_registry(config))
    if not needs_trust(files, sources, programs):
        if fault := plugin_files_objection(files, sources):
            raise ConfigError(fault)
        console.print("there is nothing to trust: no plugin file and no program waits for it")
        return
    place = record_trust(files, sources.folder, at=now, programs=programs)
    if fault := plugin_files_objection(files, sources):
        raise ConfigError(fault)
    console.print(f"trusted: {', '.join([*map(str, files), *programs])}; recorded in {place}")
