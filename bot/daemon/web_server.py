"""Serves an application over HTTP in the daemon's own event loop, so that a loop that hangs cannot claim to be well."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import structlog

from bot.core.errors import ConfigError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

log = structlog.get_logger(__name__)

# A watcher that is slow or does not close its connection must not hold up the end of the daemon.
GRACE_S = 2
MAX_CONNECTIONS = 64


@asynccontextmanager
async def serve_app(
    app: "ASGIApp", host: str, port: int, *, before_end: Callable[[], None] = lambda: None
) -> AsyncIterator[int]:
    """Serve the application while the block runs, and yield the port; port 0 takes a free one.

    ``before_end`` is called before the server waits for open answers.

    Raises ConfigError where the address cannot be used. A server that fails later is logged and ends nothing else.
    """
    listener = _open_listener(host, port)
    server = _create_server(app)
    task = asyncio.create_task(_serve_logged(server, listener))
    try:
        yield listener.getsockname()[1]
    finally:
        before_end()
        server.should_exit = True
        await task
        listener.close()


def _open_listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only with the protocol named does asyncio switch off Nagle's algorithm, which delays each answer by 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(MAX_CONNECTIONS)
    except OSError as error:
        listener.close()
        message = f"web.listen: {host}:{port} cannot be used: {error.strerror}; stop what uses it, or name another port"
        raise ConfigError(message) from error
    listener.settimeout(0)
    return listener


def _create_server(app: "ASGIApp") -> Any:  # noqa: ANN401 - a class of the library, which is imported here only
    import uvicorn  # noqa: PLC0415 - most daemons serve nothing

    class QuietServer(uvicorn.Server):
        """Leaves signals to the daemon."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=GRACE_S,
    )
    return QuietServer(config)


async def _serve_logged(server: Any, listener: socket.socket) -> None:  # noqa: ANN401 - as above
    try:
        await server.serve(sockets=[listener])
    except Exception:
        # Whatever a request makes the library raise must not end the daemon, which works without it.
        log.exception("the server of web.listen failed")
