"""What all fake venues are made of: the door every request passes, and a server on the loopback interface.

A venue is a ``FakeVenue`` with ``routes()``: an ASGI application, to be served by ``serve`` or called in process. At
its door each request is heard, judged by the venue's limits, met by what ``faults`` holds for it, and answered, by an
edge cache where the answer allows that. A handler finds the request in ``heard(request)`` and writes what it changed
with ``venue.did(...)``.
"""

from __future__ import annotations

import asyncio
import json
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, MutableMapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Router

from bot.testing.venues.edge import Answer, Edge, capture, spoil
from bot.testing.venues.faults import WORLD, Fault, Faults, Trouble
from bot.testing.venues.hub import Hub
from bot.testing.venues.record import Effect, Heard, Judge, Ledger, Limit

if TYPE_CHECKING:
    from bot.ports import Clock

LOOPBACK = "127.0.0.1"
# What is being answered when the server closes is left alone for that long, in real seconds.
_PATIENCE_S = 1.0

_BEFORE = frozenset({Fault.TOO_MANY, Fault.ERROR_BEFORE, Fault.PAGE_BEFORE})

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Dropped(ConnectionError):
    """The connection ends here; seen by callers in process only, others find their connection closed."""


class Refused(Dropped):
    """No connection is made: nothing has arrived."""


def heard(request: HTTPConnection) -> Heard:
    """Return what the door noted of the request that is being handled."""
    found: Heard = request.scope["heard"]
    return found


class FakeVenue(ABC):
    """An ASGI application with a clock, limits, a ledger and faults.

    ``requests`` keeps what was heard, ``crashes`` what went wrong in the venue itself; ``hub`` holds the open sockets.
    A request beyond a limit is a violation in ``judge`` and is answered by ``too_many`` without effect. ``READINGS``
    are paths that are read by POST.
    """

    READINGS: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, clock: Clock, *, limits: Sequence[Limit] = (), faults: Faults | None = None) -> None:
        self.clock = clock
        self.faults = faults or Faults()
        self.ledger = Ledger()
        self.judge = Judge(limits, clock)
        self.hub = Hub(clock, self.faults)
        self.requests: list[Heard] = []
        self.crashes: list[Exception] = []
        self._edge = Edge(clock)
        self._late: set[asyncio.Task[None]] = set()
        self._router = Router(routes=self.routes(), default=self.unknown, redirect_slashes=False)

    @abstractmethod
    def routes(self) -> list[BaseRoute]:
        """Return what this venue answers."""

    @abstractmethod
    def account(self, heard: Heard) -> str:
        """Return whose request this is, "" where it says nothing of that."""

    async def unknown(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what no route does."""
        await JSONResponse({"message": "Not found"}, status_code=404)(scope, receive, send)

    def too_many(self, retry_after: str | None) -> Response:
        """Return the answer to a request beyond the limit."""
        headers = {} if retry_after is None else {"Retry-After": retry_after}
        return Response("Too many requests", status_code=429, headers=headers)

    def broken(self, status: int) -> Response:
        """Return what an edge server says in place of a venue that fails."""
        page = f"<html><head><title>{status}</title></head><body>Error {status}</body></html>"
        return Response(page, status_code=status, media_type="text/html")

    @abstractmethod
    def disturb(self, fault: Fault, heard: Heard) -> None:
        """Let the world do what the fault says to what this request is about; a venue knows what that is.

        Where that is nothing, it says so by ``faults.met_nothing``.
        """

    def now(self) -> datetime:
        """Return the venue's wall time, which may be skewed."""
        return self.clock.now() + timedelta(seconds=self.faults.skew_s)

    def now_ms(self) -> int:
        """Return the venue's wall time in whole milliseconds."""
        return round(self.now().timestamp() * 1000)

    def did(self, by: Heard, kind: str, *, subject: str, account: str | None = None, **detail: object) -> None:
        """Enter an effect of a request in the ledger."""
        who = self.account(by) if account is None else account
        self.ledger.add(
            Effect(request=by.number, at=self.now(), kind=kind, account=who, subject=subject, detail=detail)
        )

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something about this venue is so; looked at whenever it hears or says something."""
        while not condition():
            await self.hub.stirred()

    def forget_cached(self) -> None:
        """Let the next reads be fresh."""
        self._edge.clear()

    async def aclose(self) -> None:
        """Forget effects that have not come yet, and cut sockets."""
        self.hub.cut()
        late = tuple(self._late)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one connection or request, as ASGI has it."""
        transport = getattr(getattr(receive, "__self__", None), "transport", None)
        if scope["type"] == "lifespan":
            return
        if scope["type"] == "websocket":
            scope["cut"] = None if transport is None else transport.abort
            await self._talk(scope, receive, send)
            return
        try:
            await self._http(scope, receive, send)
        except Dropped:
            if transport is None:
                raise
            transport.close() if scope.get("begun") else transport.abort()
            await _until_gone(receive)

    async def _talk(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._router(scope, receive, send)
        except Exception as error:
            self.crashes.append(error)
            raise

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.faults.refusing:
            raise Refused
        request = self._hear(scope, await _body(receive))
        early = self.judge.hear(request)
        # Who is sent away at the door meets nothing behind it.
        trouble = self.faults.pick(request.method, request.path) if early is None else None
        if early is not None:
            answer = await capture(self.too_many(str(max(1, math.ceil(early.wait_s)))), scope, b"")
        else:
            visit = _Talk(request=request, scope=scope, gone=lambda: _until_gone(receive))
            with self.judge.under_way(request, self.account(request)):
                answer = await (self._run(visit) if trouble is None else self._meet(trouble, visit))
        scope["begun"] = answer.cut
        await answer.deliver(send, date=format_datetime(self.now(), usegmt=True))
        if answer.cut:
            raise Dropped

    def _hear(self, scope: Scope, body: bytes) -> Heard:
        request = Heard(
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
        self.hub.stir()
        return request

    async def _run(self, talk: _Talk) -> Answer:
        """Answer as a venue in order does."""
        request = talk.request
        if request.method == "GET":
            return await self._edge.get(request.target, lambda: self._handle(talk))
        answer = await self._handle(talk)
        if request.path in self.READINGS:
            self._edge.note(_reading(request), answer)
        return answer

    async def _handle(self, talk: _Talk) -> Answer:
        try:
            return await capture(self._router, talk.scope, talk.request.body)
        except Exception as error:
            self.crashes.append(error)
            raise

    async def _meet(self, trouble: Trouble, talk: _Talk) -> Answer:
        match trouble.fault:
            case Fault.DROPPED_BEFORE:
                raise Dropped
            case Fault.DROPPED_AFTER:
                await self._run(talk)
                raise Dropped
            case Fault.LATE:
                self._start(self._later(trouble.wait_s, talk))
                raise Dropped
            case Fault.HANGING | Fault.HANGING_AFTER:
                return await self._hang(trouble, talk)
            case Fault.STALE:
                if (old := self._edge.old(_reading(talk.request))) is not None:
                    return old
                # Nobody has asked that before.
                self.faults.met_nothing(Fault.STALE)
                return await self._run(talk)
            case fault if fault in WORLD:
                (trouble.meanwhile or (lambda: self.disturb(fault, talk.request)))()
                return await self._run(talk)
            case _:
                return await self._answer_badly(trouble, talk)

    async def _answer_badly(self, trouble: Trouble, talk: _Talk) -> Answer:
        fault = trouble.fault
        if fault is Fault.SLOW:
            await self.clock.sleep(trouble.wait_s)
        if fault not in _BEFORE:
            answer = await self._run(talk)
        if fault is Fault.TOO_MANY:
            return await capture(self.too_many(trouble.retry_after), talk.scope, b"")
        if fault in {Fault.ERROR_BEFORE, Fault.ERROR_AFTER}:
            return await capture(self.broken(trouble.status), talk.scope, b"")
        if fault in {Fault.PAGE_BEFORE, Fault.PAGE_AFTER}:
            return replace(await capture(self.broken(503), talk.scope, b""), status=200)
        if fault is Fault.SLOW:
            return answer
        spoilt = spoil(answer, trouble)
        if spoilt is answer:
            self.faults.met_nothing(fault)
        return spoilt

    async def _hang(self, trouble: Trouble, talk: _Talk) -> Answer:
        if trouble.fault is Fault.HANGING_AFTER:
            await self._run(talk)
        await talk.gone()
        raise Dropped

    async def _later(self, wait_s: float, talk: _Talk) -> None:
        await self.clock.sleep(wait_s)
        await self._run(talk)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._late.add(task)
        task.add_done_callback(self._late.discard)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Talk:
    """A request at the door: what was heard, its scope, and a wait for the client's leaving."""

    request: Heard
    scope: Scope
    gone: Callable[[], Coroutine[Any, Any, None]]


def _reading(request: Heard) -> str:
    """Return what was asked, as answers are remembered by it: what is no GET is asked by its body too."""
    return request.target if request.method == "GET" else f"{request.method} {request.target} {request.body!r}"


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Dropped
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class Served:
    """A venue that listens: ``url`` and ``ws_url`` are where, without a slash at the end."""

    def __init__(self, port: int, listener: _Listener) -> None:
        self.url = f"http://{LOOPBACK}:{port}"
        self.ws_url = f"ws://{LOOPBACK}:{port}"
        self._port = port
        self._listener = listener

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        """While entered, refuse connections as an address does where nobody listens; those that are open end."""
        self._listener.close()
        yield
        await self._listener.listen(self._port)


class _Listener:
    """Uvicorn's protocols on a listening socket of ours: no signal handlers, no ticking, and it can be closed."""

    def __init__(self, app: FakeVenue) -> None:
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
            await asyncio.wait(tasks, timeout=_PATIENCE_S)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def serve(app: FakeVenue) -> AsyncIterator[Served]:
    """Serve a venue on a free port of 127.0.0.1 while this is entered."""
    listener = _Listener(app)
    served = Served(await listener.listen(0), listener)
    try:
        yield served
    finally:
        await app.aclose()
        await listener.aclose()
    if app.crashes:
        message = "the fake venue itself failed; its clients saw a status 500"
        raise ExceptionGroup(message, app.crashes)


def body_json(request: Heard) -> Any:  # noqa: ANN401 - JSON of whoever asks
    """Return the JSON of a request's body; raises ValueError, also for NaN and infinity."""

    def refuse(name: str) -> object:
        message = f"{name} is not JSON"
        raise ValueError(message)

    return json.loads(request.body, parse_constant=refuse)
