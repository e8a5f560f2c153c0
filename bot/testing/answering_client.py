"""HTTP client and write client in front of one answer function, without a socket.

The same function can be given to ``LoopbackServer``, so one fake service serves fast tests and whole runs.
"""

# ruff: noqa: S101 - pytest is made of assert
import json
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from bot.core.errors import (
    AuthenticationError,
    FoxcastError,
    MalformedDataError,
    NotFoundError,
    RequestRejectedError,
    ServiceUnavailableError,
)
from bot.core.values import Json
from bot.core.venue_http import HttpRequest, HttpResponse
from bot.testing.loopback_server import ReceivedRequest, ScriptedResponse
from bot.testing.venue import LostPart


class AnsweringClient:
    """Implements HttpClient and WriteClient: every request is answered at once by ``answer``, whatever its host.

    ``losses`` says of the next writes what is lost: the request, or only the reply. Errors of reading are those of the
    real client.
    """

    def __init__(self, answer: Callable[[ReceivedRequest], ScriptedResponse]) -> None:
        self.losses: list[LostPart] = []
        self._answer = answer

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        return self._read("GET", url, headers, b"", max_bytes)

    async def post(
        self,
        url: str,
        body: Json,
        *,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        deadline_s: float | None = None,
    ) -> bytes:
        return self._read("POST", url, headers, json.dumps(body).encode(), max_bytes)

    async def send(self, request: HttpRequest, *, max_bytes: int, deadline_s: float) -> HttpResponse:
        assert deadline_s > 0
        lost = self.losses.pop(0) if self.losses else None
        message = "the connection ended"
        if lost is LostPart.REQUEST:
            raise ServiceUnavailableError(message)
        response = self._respond(request.method, request.url, request.headers, request.body or b"")
        if lost is LostPart.REPLY:
            raise ServiceUnavailableError(message)
        if lost is LostPart.REPLY_OF_VENUE:
            return HttpResponse(status=502, body=b"<html>bad gateway</html>")
        _require_size(request.url, response.body, max_bytes)
        headers = {name.lower(): value for name, value in response.headers.items()}
        return HttpResponse(status=response.status, headers=headers, body=response.body)

    def _respond(self, method: str, url: str, headers: Mapping[str, str] | None, body: bytes) -> ScriptedResponse:
        parts = urlsplit(url)
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        named = {name.lower(): value for name, value in (headers or {}).items()}
        return self._answer(ReceivedRequest(method=method, path=path, headers=named, body=body))

    def _read(self, method: str, url: str, headers: Mapping[str, str] | None, body: bytes, max_bytes: int) -> bytes:
        response = self._respond(method, url, headers, body)
        if response.status != 200:
            raise _read_error(response.status, url)
        _require_size(url, response.body, max_bytes)
        return response.body


def _read_error(status: int, url: str) -> FoxcastError:
    message = f"status {status} at {url.partition('?')[0]}"
    if status in {401, 403}:
        return AuthenticationError(message)
    if status in {404, 410}:
        return NotFoundError(message)
    if status in {408, 425, 429} or status >= 500:
        return ServiceUnavailableError(message)
    return RequestRejectedError(message) if status >= 400 else MalformedDataError(message)


def _require_size(url: str, body: bytes, max_bytes: int) -> None:
    if len(body) > max_bytes:
        message = f"{url.partition('?')[0]} has more than {max_bytes} bytes"
        raise MalformedDataError(message)
