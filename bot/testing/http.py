"""The web in a dictionary."""

from collections.abc import Mapping
from dataclasses import dataclass

from bot.domain.step import Json
from bot.errors import ContractError, NotFound


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it was made; ``body`` is None for a GET, ``deadline_s`` where none was named."""

    url: str
    headers: Mapping[str, str]
    body: Json = None
    deadline_s: float | None = None


class DictHttp:
    """Implements the port Http: an address has a body, or an error that asking it raises; GET and POST alike.

    ``asked`` lists the addresses in the order of the requests, answered or not; ``requests`` all that was sent. The
    parameter of a query that is named in ``idle`` means nothing: pages are found without it.
    """

    def __init__(self, pages: Mapping[str, bytes | Exception], *, idle: str = "") -> None:
        self.pages = dict(pages)
        self._idle = idle
        self.requests: list[Asked] = []

    @property
    def asked(self) -> list[str]:
        return [request.url for request in self.requests]

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        return self._answer(Asked(url, dict(headers or {})), max_bytes)

    async def post(
        self,
        url: str,
        body: Json,
        *,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        deadline_s: float | None = None,
    ) -> bytes:
        return self._answer(Asked(url, dict(headers or {}), body, deadline_s), max_bytes)

    def _answer(self, request: Asked, max_bytes: int) -> bytes:
        self.requests.append(request)
        url = request.url
        page = self.pages.get(self._meant(url), NotFound(f"404 at {url}"))
        if isinstance(page, Exception):
            raise page
        if len(page) > max_bytes:
            message = f"{url} has more than {max_bytes} bytes"
            raise ContractError(message)
        return page

    def _meant(self, url: str) -> str:
        path, mark, query = url.partition("?")
        if not self._idle or not mark:
            return url
        kept = "&".join(pair for pair in query.split("&") if pair.partition("=")[0] != self._idle)
        return f"{path}?{kept}" if kept else path
