"""SIGUSR1 halts: whoever may signal the daemon may stop everything that leaves, without a command or a token."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from bot.errors import StoreError
from bot.gate.brake import pull

log = structlog.get_logger(__name__)


@contextmanager
def halt_on_signal(stop_file: Path) -> Iterator[None]:
    """While entered, make the stop file at each SIGUSR1. Enter it in the main thread, inside the running loop."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, _halt, stop_file)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGUSR1)


def _halt(stop_file: Path) -> None:
    try:
        pull(stop_file, "SIGUSR1")
    except StoreError as error:
        log.error("cannot halt", file=str(stop_file), error=str(error))  # noqa: TRY400 - a line says it all
        return
    log.warning("halted by a signal", file=str(stop_file), resume="foxcast resume")
