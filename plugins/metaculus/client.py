"""Reading over HTTP: the addresses of this venue, its headers, and pages of a list that never says it is done.

What must be true now is asked under an address that was never asked before, so that no cache on the way has an old
answer to it: the server ignores a parameter that it does not know. Source: venue document, section 4.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import structlog

from bot.api import CacheBuster, Clock, ContractError, Http, Json, Unauthorized
from plugins.metaculus.settings import MetaculusSettings
from plugins.metaculus.terms import TABLE

log = structlog.get_logger(__name__)

MAX_BYTES = 40_000_000
# More is cut to this by the server.
PAGE = 100
MOST_PAGES = 200

Parameters = Mapping[str, str | int | Sequence[str | int]]
Record = Mapping[str, Any]


def headers_of(settings: MetaculusSettings) -> dict[str, str]:
    """Return what goes with every request; texts are translated unless a language is fixed."""
    return {
        "Authorization": f"Token {settings.token.get_secret_value()}",
        "Accept-Language": "en",
        "Accept": "application/json",
    }


def address(settings: MetaculusSettings, path: str, parameters: Parameters | None = None) -> str:
    """Return an address below ``/api/``; several values of one parameter are repeated, never a comma list.

    Raises ValueError for a path that does not end in a slash: the server would redirect, and a body would be lost.
    """
    if not path.endswith("/") or path.startswith("/"):
        message = f"{path!r} should end, and not begin, with a slash"
        raise ValueError(message)
    query = f"?{urlencode(parameters, doseq=True)}" if parameters else ""
    return f"{settings.base_url.rstrip('/')}/api/{path}{query}"


class Client:
    """What can be asked. All raise as ``Http.get`` does; Unauthorized names the setting that must be mended."""

    def __init__(self, settings: MetaculusSettings, http: Http, clock: Clock) -> None:
        self._settings = settings
        self._http = http
        self._stamps = CacheBuster(clock)
        self._headers = headers_of(settings)

    async def get(self, path: str, parameters: Parameters | None = None) -> Json:
        """Return the decoded answer; raises ContractError for one that is not JSON."""
        url = address(self._settings, path, parameters)
        try:
            body = await self._http.get(url, max_bytes=MAX_BYTES, headers=self._headers)
        except Unauthorized as error:
            message = (
                f"{error}; check token in {TABLE}, that its account is active, and that the site"
                " does not block this address"
            )
            raise Unauthorized(message) from error
        try:
            answer: Json = json.loads(body)
        except (ValueError, RecursionError) as error:
            message = f"{path}: the answer is not JSON"
            raise ContractError(message) from error
        return answer

    async def me(self) -> Record:
        """Return the account of the token."""
        return _record(await self.get("users/me/"), "users/me/")

    async def tournament(self, name: str | int) -> Record:
        """Return a tournament; raises NotFound for an id or slug that is none."""
        path = f"projects/tournaments/{name}/"
        return _record(await self.get(path), path)

    async def tournaments(self) -> Sequence[Record]:
        """Return all tournaments that this account can see."""
        answer = await self.get("projects/tournaments/")
        return [one for one in answer if isinstance(one, Mapping)] if isinstance(answer, list) else []

    async def leaderboards(self, project: int) -> Sequence[Record]:
        """Return the leaderboards of a tournament; raises NotFound where it has none."""
        answer = await self.get(f"leaderboards/project/{project}/")
        boards = answer if isinstance(answer, list) else [answer]
        return [one for one in boards if isinstance(one, Mapping)]

    async def post(self, post_id: int) -> Record:
        """Return a post with our own forecasts, as it is now; raises NotFound for one that is not visible."""
        path = f"posts/{post_id}/"
        return _record(await self.get(path, {"fresh": self._stamps.next_ms()}), path)

    async def open_posts(self, tournament: str | int) -> list[Record]:
        """Return all posts of one tournament with something open in it; raises Rejected for an unknown tournament."""
        asked: Parameters = {"tournaments": tournament, "statuses": "open", "with_cp": "true", "limit": PAGE}
        return await self._all("posts/", asked)

    async def posts(self, post_ids: Sequence[int]) -> list[Record]:
        """Return those of the posts (at most a page) that are visible, whatever their status, as they are now.

        With our own forecasts and their scores, which lists have only beside what the community says.
        """
        wanted = frozenset(post_ids)
        asked: Parameters = {"ids": sorted(wanted), "with_cp": "true", "limit": PAGE, "fresh": self._stamps.next_ms()}
        page = _results(await self.get("posts/", asked), "posts/")
        # A filter that is not understood returns everything.
        return [post for post in page if _named(post) and post["id"] in wanted]

    async def comments(self, post_id: int, author: int) -> list[Record]:
        """Return our private comments on a post, the newest first, as they are now."""
        stamp = self._stamps.next_ms()
        asked: Parameters = {"is_private": "true", "author": author, "post": post_id, "limit": PAGE, "fresh": stamp}
        found = await self._all("comments/", asked)
        return [comment for comment in found if comment.get("on_post") == post_id]

    async def _all(self, path: str, asked: Parameters) -> list[Record]:
        """Read pages until one is short, or brings nothing new: ``next`` is never null.

        What was published since the page before moves the others down, so that some of them come again.
        """
        found: dict[Any, Record] = {}
        for number in range(MOST_PAGES):
            parameters = {**asked, "offset": number * PAGE} if number else asked
            page = _results(await self.get(path, parameters), path)
            is_new = any(item["id"] not in found for item in page if _named(item))
            for place, item in enumerate(page):
                found.setdefault(item["id"] if _named(item) else (number, place), item)
            if len(page) < PAGE:
                break
            if not is_new:
                log.warning("a list repeats itself and is left there", path=path, page=number)
                break
        return list(found.values())


def _results(answer: Json, path: str) -> list[Record]:
    results = answer.get("results") if isinstance(answer, Mapping) else None
    if not isinstance(results, list):
        message = f"{path}: the answer is not a list of results"
        raise ContractError(message)
    # An odd item is kept as a record without an id: it counts on its page, and is quarantined by whoever parses it.
    return [item if isinstance(item, Mapping) else {} for item in results]


def _named(item: Record) -> bool:
    return isinstance(item.get("id"), int | str)


def _record(answer: Json, path: str) -> Record:
    if not isinstance(answer, Mapping):
        message = f"{path}: the answer is not an object"
        raise ContractError(message)
    return answer
