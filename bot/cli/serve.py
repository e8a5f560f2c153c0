"""`foxcast serve`: answer callers over HTTP, without venues; the daemon serves the same at the address of `[web]`."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import structlog
import typer

from bot.app.app import FoxcastApp, open_app
from bot.cli.command_exit import TerminatedBySignal, run_until_terminated
from bot.cli.command_setup import load_config_and_plugins
from bot.config.schema import Config
from bot.config.secrets import read_api_token
from bot.config.web_schema import WebSection
from bot.core.clock import SystemClock
from bot.core.errors import ConfigError
from bot.plugin_system.registry import Registry, with_all_members

log = structlog.get_logger(__name__)

DEFAULT_ADDRESS = "127.0.0.1:8420"

app = typer.Typer(add_completion=False)


@app.command()
def serve(
    ctx: typer.Context,
    *,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The address; default: web.listen, else 127.0.0.1:8420.")
    ] = None,
    forecaster: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who answers; default: serve.forecaster, else who uses models.")
    ] = None,
) -> None:
    """Answer questions of callers over HTTP, and serve results as JSON; nothing is submitted anywhere."""
    from bot.cli.forecast import choose_forecaster

    config, registry = load_config_and_plugins(ctx, min_level=logging.INFO)
    name = choose_forecaster(config, registry, "", requested=forecaster or config.serve.forecaster)
    section = _web_section(config, listen)
    try:
        run_until_terminated(_serve(config.model_copy(update={"web": section}), registry, name))
    except (KeyboardInterrupt, TerminatedBySignal):
        typer.echo("foxcast: ended; forecasts that were running continue when they are asked for again", err=True)
        raise


def _web_section(config: Config, listen: str | None) -> WebSection:
    try:
        return WebSection.model_validate(
            {**config.web.model_dump(), "listen": listen or config.web.listen or DEFAULT_ADDRESS}
        )
    except ValueError as error:
        message = f"--listen {listen}: write HOST:PORT; another host than 127.0.0.1 needs token_file in [web]"
        raise ConfigError(message) from error


async def _serve(config: Config, registry: Registry, name: str) -> None:
    only = with_all_members(config, registry, (name,))
    async with open_app(config, registry, clock=SystemClock(), only=only) as opened, serve_web(opened, name):
        await asyncio.Event().wait()


@asynccontextmanager
async def serve_web(opened: FoxcastApp, forecaster: str | None) -> AsyncIterator[int | None]:
    """Answer others at the configured address while the block runs, and yield the port; at none without an address."""
    section = opened.config.web
    if section.address is None:
        yield None
        return
    from bot.daemon.web_server import serve_app
    from bot.web.api import JsonApi
    from bot.web.api_callers import open_caller_directory
    from bot.web.app import create_web_app
    from bot.web.asked_forecasts import AskedForecasts
    from bot.web.watched_state import WatchedState

    state = WatchedState(
        config=opened.config,
        folder=opened.folder,
        ledger=opened.ledger,
        clock=opened.clock,
        clock_skew=opened.execution.live_readiness.clock_skew,
    )
    token = None if section.token_file is None else read_api_token(section.token_file)
    asked = AskedForecasts(app=opened, forecaster=forecaster, deadline_s=opened.config.serve.deadline_s)
    callers = open_caller_directory(opened.config.serve, opened.clock, server_token=token)
    api = JsonApi(state=state, callers=callers, asked=asked)
    host, port = section.address
    try:
        web_app = create_web_app(state, token=token, hosts=section.hosts, api=api)
        async with serve_app(web_app, host, port, before_end=web_app.state.close_streams) as listening:
            log.info("dashboard, health, metrics and API", address=f"http://{host}:{listening}/", forecaster=forecaster)
            yield listening
    finally:
        await asked.aclose()
