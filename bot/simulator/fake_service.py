"""Base of all fake services.

Limits, faults, edge cache and request log in front of the routes, and a server on the loopback interface.
"""

from __future__ import annotations

import asyncio
import json
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, MutableMapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Router

from bot.core.light_dataclass import dataclass
from bot.simulator.edge_cache import CapturedResponse, EdgeCache, capture_response, spoil_response
from bot.simulator.faults import WORLD_FAULTS, FaultDetails, FaultSchedule, RequestFault
from bot.simulator.request_log import EffectLog, LoggedRequest, RateLimitChecker, RequestEffect, RequestLimit
from bot.simulator.websocket_hub import WebSocketHub

if TYPE_CHECKING:
    from bot.core.interfaces import Clock

LOOPBACK = "127.0.0.1"
# Responses in progress when the server closes may finish within that time, in real seconds.
_SHUTDOWN_WAIT_S = 1.0

_FAULTS_BEFORE_EFFECT = frozenset({RequestFault.TOO_MANY, RequestFault.ERROR_BEFORE, RequestFault.PAGE_BEFORE})

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class ConnectionDropped(ConnectionError):
    """The connection ends here; only in-process callers see this, others find their connection closed."""


class ConnectionNotAccepted(ConnectionDropped):
    """No connection is made: nothing has arrived."""


def logged_request(request: HTTPConnection) -> LoggedRequest:
    """Return the log entry of the request that is being handled."""
    found: LoggedRequest = request.scope["heard"]
    return found


class FakeService(ABC):
    """An ASGI application with a clock, limits, a ledger and faults.

    ``requests`` holds the received requests, ``crashes`` the failures of the venue itself; ``hub`` holds the open
    sockets. A request beyond a limit is a violation in ``rate_limit_checker`` and is answered by
    ``rate_limit_response`` without effect. ``READ_PATHS`` are paths that are read by POST.
    """

    READ_PATHS: ClassVar[frozenset[str]] = frozenset()

    def __init__(
        self, clock: Clock, *, limits: Sequence[RequestLimit] = (), faults: FaultSchedule | None = None
    ) -> None:
        self.clock = clock
        self.faults = faults or FaultSchedule()
        self.ledger = EffectLog()
        self.rate_limit_checker = RateLimitChecker(limits, clock)
        self.hub = WebSocketHub(clock, self.faults)
        self.requests: list[LoggedRequest] = []
        # Which request met which fault, by its number.
        self.faults_met: dict[int, RequestFault] = {}
        self.crashes: list[Exception] = []
        self._edge = EdgeCache(clock)
        self._late: set[asyncio.Task[None]] = set()
        self._router = Router(routes=self.routes(), default=self.answer_unknown_path, redirect_slashes=False)

    @abstractmethod
    def routes(self) -> list[BaseRoute]:
        """Return the response of this venue."""

    @abstractmethod
    def account(self, logged: LoggedRequest) -> str:
        """Return the account of this request, "" where it names none."""

    async def answer_unknown_path(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer requests without a route."""
        await JSONResponse({"message": "Not found"}, status_code=404)(scope, receive, send)

    def rate_limit_response(self, retry_after: str | None) -> Response:
        """Return the response to a request beyond the limit."""
        headers = {} if retry_after is None else {"Retry-After": retry_after}
        return Response("Too many requests", status_code=429, headers=headers)

    def error_response(self, status: int) -> Response:
        """Return the response of a venue that fails, by default that of an edge server in front of it."""
        return self.error_page(status)

    @staticmethod
    def error_page(status: int) -> Response:
        """Return an edge server's response in place of a venue that fails."""
        page = f"<html><head><title>{status}</title></head><body>Error {status}</body></html>"
        return Response(page, status_code=status, media_type="text/html")

    @abstractmethod
    def apply_world_fault(self, fault: RequestFault, logged: LoggedRequest) -> None:
        """Let the world do what the fault says to the subject of this request; each venue knows its subjects.

        Where there is none, it takes the fault back with ``faults.discount``.
        """

    def now(self) -> datetime:
        """Return the venue's wall time, which may be skewed."""
        return self.clock.now() + timedelta(seconds=self.faults.skew_s)

    def now_ms(self) -> int:
        """Return the venue's wall time in whole milliseconds."""
        return round(self.now().timestamp() * 1000)

    def record_effect(
        self, by: LoggedRequest, kind: str, *, subject: str, account: str | None = None, **detail: object
    ) -> None:
        """Record an effect of a request."""
        who = self.account(by) if account is None else account
        self.ledger.add(
            RequestEffect(request=by.number, at=self.now(), kind=kind, account=who, subject=subject, detail=detail)
        )

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition on this venue holds; it is checked whenever the venue receives or sends something."""
        while not condition():
            await self.hub.wait_for_activity()

    def forget_cached(self) -> None:
        """Let the next reads be fresh."""
        self._edge.clear()

    async def aclose(self) -> None:
        """Forget effects that have not happened yet, and cut sockets."""
        self.hub.cut_all()
        late = tuple(self._late)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection or request, as ASGI passes it."""
        transport = getattr(getattr(receive, "__self__", None), "transport", None)
        if scope["type"] == "lifespan":
            return
        if scope["type"] == "websocket":
            scope["cut"] = None if transport is None else transport.abort
            await self._serve_socket(scope, receive, send)
            return
        try:
            await self._serve_http(scope, receive, send)
        except ConnectionDropped:
            if transport is None:
                raise
            transport.close() if scope.get("begun") else transport.abort()
            await _wait_for_disconnect(receive)

    async def _serve_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._router(scope, receive, send)
        except Exception as error:
            self.crashes.append(error)
            raise

    async def _serve_http(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.faults.refuses_connections:
            raise ConnectionNotAccepted
        request = self._log_request(scope, await _read_body(receive))
        early = self.rate_limit_checker.check(request)
        # A request that is refused here meets no fault.
        details = self.faults.next_fault(request.method, request.path) if early is None else None
        if details is not None:
            self.faults_met[request.number] = details.fault
        if early is not None:
            answer = await capture_response(self.rate_limit_response(str(max(1, math.ceil(early.wait_s)))), scope, b"")
        else:
            visit = _ServiceRequest(request=request, scope=scope, gone=lambda: _wait_for_disconnect(receive))
            with self.rate_limit_checker.count_write(request, self.account(request)):
                answer = await (self._run(visit) if details is None else self._apply_fault(details, visit))
        scope["begun"] = answer.cut
        await answer.deliver(send, date=format_datetime(self.now(), usegmt=True))
        if answer.cut:
            raise ConnectionDropped

    def _log_request(self, scope: Scope, body: bytes) -> LoggedRequest:
        request = LoggedRequest(
            number=len(self.requests) + 1,
            method=scope["method"],
            path=scope["path"],
            query=scope.get("query_string", b"").decode("latin-1"),
            headers={name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]},
            body=body,
            at=self.now(),
            at_s=self.clock.monotonic(),
        )
        self.requests.append(request)
        scope["heard"] = request
        self.hub.notify()
        return request

    async def _run(self, exchange: _ServiceRequest) -> CapturedResponse:
        """Answer like a venue without faults."""
        request = exchange.request
        if request.method == "GET":
            return await self._edge.get(request.target, lambda: self._handle(exchange))
        answer = await self._handle(exchange)
        if request.path in self.READ_PATHS:
            self._edge.remember(_cache_key(request), answer)
        return answer

    async def _handle(self, exchange: _ServiceRequest) -> CapturedResponse:
        try:
            return await capture_response(self._router, exchange.scope, exchange.request.body)
        except Exception as error:
            self.crashes.append(error)
            raise

    async def _apply_fault(self, details: FaultDetails, exchange: _ServiceRequest) -> CapturedResponse:
        match details.fault:
            case RequestFault.DROPPED_BEFORE:
                raise ConnectionDropped
            case RequestFault.DROPPED_AFTER:
                await self._run(exchange)
                raise ConnectionDropped
            case RequestFault.LATE:
                self._start(self._run_later(details.wait_s, exchange))
                raise ConnectionDropped
            case RequestFault.HANGING | RequestFault.HANGING_AFTER:
                return await self._hang(details, exchange)
            case RequestFault.STALE:
                if (old := self._edge.get_stale(_cache_key(exchange.request))) is not None:
                    return old
                # Nobody has requested that before.
                self.faults.discount(RequestFault.STALE)
                return await self._run(exchange)
            case fault if fault in WORLD_FAULTS:
                (details.meanwhile or (lambda: self.apply_world_fault(fault, exchange.request)))()
                return await self._run(exchange)
            case _:
                return await self._answer_badly(details, exchange)

    async def _answer_badly(self, details: FaultDetails, exchange: _ServiceRequest) -> CapturedResponse:
        fault = details.fault
        if fault is RequestFault.SLOW:
            await self.clock.sleep(details.wait_s)
        if fault not in _FAULTS_BEFORE_EFFECT:
            answer = await self._run(exchange)
        if fault is RequestFault.TOO_MANY:
            return await capture_response(self.rate_limit_response(details.retry_after), exchange.scope, b"")
        if fault in {RequestFault.ERROR_BEFORE, RequestFault.ERROR_AFTER}:
            return await capture_response(self.error_response(details.status), exchange.scope, b"")
        if fault in {RequestFault.PAGE_BEFORE, RequestFault.PAGE_AFTER}:
            page = self.error_page(503)
            return replace(await capture_response(page, exchange.scope, b""), status=details.page_status)
        if fault is RequestFault.SLOW:
            return answer
        spoilt = spoil_response(answer, details)
        if spoilt is answer:
            self.faults.discount(fault)
        return spoilt

    async def _hang(self, details: FaultDetails, exchange: _ServiceRequest) -> CapturedResponse:
        if details.fault is RequestFault.HANGING_AFTER:
            await self._run(exchange)
        await exchange.gone()
        raise ConnectionDropped

    async def _run_later(self, wait_s: float, exchange: _ServiceRequest) -> None:
        await self.clock.sleep(wait_s)
        await self._run(exchange)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._late.add(task)
        task.add_done_callback(self._late.discard)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ServiceRequest:
    """A request on arrival: its log entry, its scope, and a wait for the client's disconnection."""

    request: LoggedRequest
    scope: Scope
    gone: Callable[[], Coroutine[Any, Any, None]]


def _cache_key(request: LoggedRequest) -> str:
    """Return the key under which responses are remembered: requests other than GET are identified by their body too."""
    return request.target if request.method == "GET" else f"{request.method} {request.target} {request.body!r}"


async def _read_body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionDropped
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class ServedService:
    """A venue that listens: ``url`` and ``ws_url`` are its addresses, without a slash at the end."""

    def __init__(self, port: int, listener: _UvicornListener) -> None:
        self.url = f"http://{LOOPBACK}:{port}"
        self.ws_url = f"ws://{LOOPBACK}:{port}"
        self._port = port
        self._listener = listener

    @asynccontextmanager
    async def refuse_connections(self) -> AsyncIterator[None]:
        """While entered, refuse connections like an address without a server; open ones end."""
        self._listener.close()
        yield
        await self._listener.listen(self._port)


class _UvicornListener:
    """Uvicorn's protocols on our own listening socket: no signal handlers, no ticking, and it can be closed."""

    def __init__(self, app: FakeService) -> None:
        import uvicorn  # noqa: PLC0415 - a venue called in process needs no server

        config = uvicorn.Config(
            app,
            http="h11",
            ws="websockets-sansio",
            lifespan="off",
            log_config=None,
            date_header=False,
            proxy_headers=False,
        )
        config.load()
        self._config = config
        self._server = uvicorn.Server(config)
        self._listening: asyncio.Server | None = None

    async def listen(self, port: int) -> int:
        made: Callable[..., asyncio.Protocol] = self._config.http_protocol_class
        self._listening = await asyncio.get_running_loop().create_server(
            lambda: made(config=self._config, server_state=self._server.server_state, app_state={}), LOOPBACK, port
        )
        chosen: int = self._listening.sockets[0].getsockname()[1]
        return chosen

    def close(self) -> None:
        if self._listening is not None:
            self._listening.close()
        for connection in tuple(self._server.server_state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None:
                transport.abort()

    async def aclose(self) -> None:
        self.close()
        if tasks := tuple(self._server.server_state.tasks):
            await asyncio.wait(tasks, timeout=_SHUTDOWN_WAIT_S)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def serve_service(app: FakeService) -> AsyncIterator[ServedService]:
    """Serve a venue on a free port of 127.0.0.1 while this is entered."""
    listener = _UvicornListener(app)
    served = ServedService(await listener.listen(0), listener)
    try:
        yield served
    finally:
        await app.aclose()
        await listener.aclose()
    if app.crashes:
        message = "the fake venue itself failed; its clients saw a status 500"
        raise ExceptionGroup(message, app.crashes)


def read_json_body(request: LoggedRequest) -> Any:  # noqa: ANN401 - JSON of a client
    """Return the JSON of a request's body; raises ValueError, also for NaN and infinity."""

    def refuse(name: str) -> object:
        message = f"{name} is not JSON"
        raise ValueError(message)

    return json.loads(request.body, parse_constant=refuse)
