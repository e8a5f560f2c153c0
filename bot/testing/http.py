"""Fake HTTP clients: pages from a dictionary.

One response for every request, and a write client that records what is sent.
"""

# ruff: noqa: S101 - pytest is made of assert
from collections.abc import Callable, Mapping

from bot.core.errors import MalformedDataError, NotFoundError
from bot.core.light_dataclass import dataclass
from bot.core.values import Json
from bot.core.venue_http import HttpRequest, HttpResponse


class FakeWriteClient:
    """Implements WriteClient; ``answer`` returns the response to a request, or raises an error of the connection.

    ``sent`` are the requests in order, including those that failed.
    """

    def __init__(self, answer: Callable[[HttpRequest], HttpResponse] = lambda _: HttpResponse(status=200)) -> None:
        self.answer = answer
        self.sent: list[HttpRequest] = []

    async def send(self, request: HttpRequest, *, max_bytes: int, deadline_s: float) -> HttpResponse:
        assert deadline_s > 0
        self.sent.append(request)
        reply = self.answer(request)
        if len(reply.body) > max_bytes:
            message = f"status {reply.status} with more than {max_bytes} bytes"
            raise MalformedDataError(message)
        return reply


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request as it was made; ``body`` is None for a GET, ``deadline_s`` where none was named."""

    url: str
    headers: Mapping[str, str]
    body: Json = None
    deadline_s: float | None = None


class FakeHttpClient:
    """Implements HttpClient: each address has a body, or an error that a request raises; GET and POST alike.

    ``requested_urls`` lists the addresses in the order of the requests, answered or not; ``requests`` all that was
    sent. The query parameter that is named in ``idle`` is ignored: pages are found without it.
    """

    def __init__(self, pages: Mapping[str, bytes | Exception], *, idle: str = "") -> None:
        self.pages = dict(pages)
        self._idle = idle
        self.requests: list[RecordedRequest] = []

    @property
    def requested_urls(self) -> list[str]:
        return [request.url for request in self.requests]

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        return self._answer(RecordedRequest(url, dict(headers or {})), max_bytes)

    async def post(
        self,
        url: str,
        body: Json,
        *,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        deadline_s: float | None = None,
    ) -> bytes:
        return self._answer(RecordedRequest(url, dict(headers or {}), body, deadline_s), max_bytes)

    def _answer(self, request: RecordedRequest, max_bytes: int) -> bytes:
        self.requests.append(request)
        url = request.url
        page = self.pages.get(self._meant(url), NotFoundError(f"404 at {url}"))
        if isinstance(page, Exception):
            raise page
        if len(page) > max_bytes:
            message = f"{url} has more than {max_bytes} bytes"
            raise MalformedDataError(message)
        return page

    def _meant(self, url: str) -> str:
        path, mark, query = url.partition("?")
        if not self._idle or not mark:
            return url
        kept = "&".join(pair for pair in query.split("&") if pair.partition("=")[0] != self._idle)
        return f"{path}?{kept}" if kept else path


class FixedResponseClient:
    """Implements HttpClient: the same response to every request; ``requests`` lists them."""

    def __init__(self, answer: bytes | Exception) -> None:
        self.answer = answer
        self.requests: list[RecordedRequest] = []

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        return self._answered(RecordedRequest(url, dict(headers or {})), max_bytes)

    async def post(
        self,
        url: str,
        body: Json,
        *,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        deadline_s: float | None = None,
    ) -> bytes:
        return self._answered(RecordedRequest(url, dict(headers or {}), body, deadline_s), max_bytes)

    def _answered(self, request: RecordedRequest, max_bytes: int) -> bytes:
        self.requests.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        if len(self.answer) > max_bytes:
            message = f"{request.url} has more than {max_bytes} bytes"
            raise MalformedDataError(message)
        return self.answer
