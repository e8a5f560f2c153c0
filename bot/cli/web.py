"""`foxcast web`: the dashboard in its own process, next to the daemon or without one; it only reads the ledger."""

import asyncio
import webbrowser
from typing import Annotated

import typer
from pydantic import ValidationError

from bot.cli.command_setup import load_command_config
from bot.config.schema import Config
from bot.config.secrets import read_api_token
from bot.config.web_schema import WebSection
from bot.core.clock import SystemClock
from bot.core.errors import ConfigError
from bot.core.interfaces import Clock
from bot.core.plain_text import replace_invisible
from bot.store.ledger import open_read_only

app = typer.Typer(add_completion=False)

DEFAULT_LISTEN = "127.0.0.1:8420"


@app.command()
def web(
    ctx: typer.Context,
    *,
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help=f"Address; default: web.listen, else {DEFAULT_LISTEN}."),
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
) -> None:
    """Show the dashboard in a browser, with the daemon or without it; it only reads."""
    config = load_command_config(ctx)
    section = _web_section(config, listen)
    asyncio.run(serve_dashboard(config, section, SystemClock(), open_browser=open_browser))


def _web_section(config: Config, listen: str | None) -> WebSection:
    """Return the section with the address of the command; raises ConfigError for one that cannot be used."""
    address = listen or config.web.listen or DEFAULT_LISTEN
    try:
        return WebSection.model_validate({**config.web.model_dump(), "listen": address})
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        message = f"--listen {address}: {reason}"
        raise ConfigError(message) from error


async def serve_dashboard(config: Config, section: WebSection, clock: Clock, *, open_browser: bool = False) -> None:
    """Serve the dashboard of a ledger, opened for reading, until a signal; raises NotFoundError without a ledger."""
    from bot.daemon.service import handle_signals
    from bot.daemon.web_server import serve_app
    from bot.web.app import create_web_app
    from bot.web.watched_state import WatchedState

    host, port = section.address or ("", 0)
    token = None if section.token_file is None else read_api_token(section.token_file)
    stop = asyncio.Event()
    async with open_read_only(config) as records:
        state = WatchedState(
            config=config, folder=records.folder, ledger=records.ledger, clock=clock, clock_skew=lambda: None
        )
        served = create_web_app(state, token=token, hosts=section.hosts)
        async with serve_app(served, host, port, before_end=served.state.close_streams) as listening:
            name = f"[{host}]" if ":" in host else host
            address = f"http://{name}:{listening}/"
            typer.echo(replace_invisible(f"the dashboard is at {address} (Ctrl-C ends it)"))
            if open_browser:
                webbrowser.open(address)
            with handle_signals(stop, lambda _: None):
                await stop.wait()
