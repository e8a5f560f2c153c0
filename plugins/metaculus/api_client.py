"""Reading over HTTP: the addresses of this venue, its headers, and paged lists without an end mark.

Requests that need current data use a new address each time, so that no cache has an old answer: the server ignores a
parameter that it does not know. Source: docs/facts/metaculus.md#requests.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import structlog

from bot.api import AuthenticationError, CacheBuster, Clock, HttpClient, Json, MalformedDataError
from plugins.metaculus.question_names import SETTINGS_TABLE
from plugins.metaculus.settings import MetaculusSettings

log = structlog.get_logger(__name__)

MAX_RESPONSE_BYTES = 40_000_000
# The server cuts larger pages to this.
PAGE_SIZE = 100
MAX_PAGES = 200

QueryParameters = Mapping[str, str | int | Sequence[str | int]]
JsonRecord = Mapping[str, Any]


def request_headers(settings: MetaculusSettings) -> dict[str, str]:
    """Return the headers of every request; texts are translated unless a language is fixed."""
    return {
        "Authorization": f"Token {settings.token.get_secret_value()}",
        "Accept-Language": "en",
        "Accept": "application/json",
    }


def api_url(settings: MetaculusSettings, path: str, parameters: QueryParameters | None = None) -> str:
    """Return an address below ``/api/``; several values of one parameter are repeated, never a comma list.

    Raises ValueError for a path that does not end in a slash: the server would redirect, and a body would be lost.
    """
    if not path.endswith("/") or path.startswith("/"):
        message = f"{path!r} should end, and not begin, with a slash"
        raise ValueError(message)
    query = f"?{urlencode(parameters, doseq=True)}" if parameters else ""
    return f"{settings.base_url.rstrip('/')}/api/{path}{query}"


class MetaculusClient:
    """The read requests. All raise as ``HttpClient.get`` does; AuthenticationError names the setting to correct."""

    def __init__(self, settings: MetaculusSettings, http: HttpClient, clock: Clock) -> None:
        self._settings = settings
        self._http = http
        self._stamps = CacheBuster(clock)
        self._headers = request_headers(settings)

    async def get(self, path: str, parameters: QueryParameters | None = None) -> Json:
        """Return the decoded response; raises MalformedDataError if it is not JSON."""
        url = api_url(self._settings, path, parameters)
        try:
            body = await self._http.get(url, max_bytes=MAX_RESPONSE_BYTES, headers=self._headers)
        except AuthenticationError as error:
            message = (
                f"{error}; check token in {SETTINGS_TABLE}, that its account is active, and that the site"
                " does not block this address"
            )
            raise AuthenticationError(message) from error
        try:
            answer: Json = json.loads(body)
        except (ValueError, RecursionError) as error:
            message = f"{path}: the response is not JSON"
            raise MalformedDataError(message) from error
        return answer

    async def own_account(self) -> JsonRecord:
        """Return the account of the token."""
        return _require_record(await self.get("users/me/"), "users/me/")

    async def tournament(self, name: str | int) -> JsonRecord:
        """Return a tournament; raises NotFoundError for an unknown id or slug."""
        path = f"projects/tournaments/{name}/"
        return _require_record(await self.get(path), path)

    async def tournaments(self) -> Sequence[JsonRecord]:
        """Return all tournaments that this account can see."""
        answer = await self.get("projects/tournaments/")
        return [one for one in answer if isinstance(one, Mapping)] if isinstance(answer, list) else []

    async def leaderboards(self, project: int) -> Sequence[JsonRecord]:
        """Return the leaderboards of a tournament; raises NotFoundError if it has none."""
        answer = await self.get(f"leaderboards/project/{project}/")
        boards = answer if isinstance(answer, list) else [answer]
        return [one for one in boards if isinstance(one, Mapping)]

    async def post(self, post_id: int) -> JsonRecord:
        """Return a post with our own forecasts, as it is now; raises NotFoundError if it is not visible."""
        path = f"posts/{post_id}/"
        return _require_record(await self.get(path, {"fresh": self._stamps.next_ms()}), path)

    async def open_posts(self, tournament: str | int) -> list[JsonRecord]:
        """Return all posts of a tournament with open questions; raises RequestRejectedError if it is unknown."""
        query: QueryParameters = {"tournaments": tournament, "statuses": "open", "with_cp": "true", "limit": PAGE_SIZE}
        return await self._read_all_pages("posts/", query)

    async def posts(self, post_ids: Sequence[int]) -> list[JsonRecord]:
        """Return the visible ones of the posts (at most a page), regardless of their status, as they are now.

        Includes our own forecasts and their scores, which lists have only together with the community prediction.
        """
        ids = frozenset(post_ids)
        query: QueryParameters = {
            "ids": sorted(ids),
            "with_cp": "true",
            "limit": PAGE_SIZE,
            "fresh": self._stamps.next_ms(),
        }
        page = _list_results(await self.get("posts/", query), "posts/")
        # If the server ignores the filter, it returns everything.
        return [post for post in page if _has_id(post) and post["id"] in ids]

    async def comments(self, post_id: int, author: int) -> list[JsonRecord]:
        """Return our private comments on a post, the newest first, as they are now."""
        stamp = self._stamps.next_ms()
        query: QueryParameters = {
            "is_private": "true",
            "author": author,
            "post": post_id,
            "limit": PAGE_SIZE,
            "fresh": stamp,
        }
        found = await self._read_all_pages("comments/", query)
        return [comment for comment in found if comment.get("on_post") == post_id]

    async def _read_all_pages(self, path: str, query: QueryParameters) -> list[JsonRecord]:
        """Read pages until one is short, or has nothing new: ``next`` is never null.

        New posts move the others down, so that some of them appear twice.
        """
        found: dict[Any, JsonRecord] = {}
        for number in range(MAX_PAGES):
            parameters = {**query, "offset": number * PAGE_SIZE} if number else query
            page = _list_results(await self.get(path, parameters), path)
            is_new = any(item["id"] not in found for item in page if _has_id(item))
            for position, item in enumerate(page):
                found.setdefault(item["id"] if _has_id(item) else (number, position), item)
            if len(page) < PAGE_SIZE:
                break
            if not is_new:
                log.warning("a list repeats itself, reading it stops", path=path, page=number)
                break
        return list(found.values())


def _list_results(answer: Json, path: str) -> list[JsonRecord]:
    results = answer.get("results") if isinstance(answer, Mapping) else None
    if not isinstance(results, list):
        message = f"{path}: the response is not a list of results"
        raise MalformedDataError(message)
    # An invalid item is kept as a record without an id: it counts on its page, and its parser rejects it.
    return [item if isinstance(item, Mapping) else {} for item in results]


def _has_id(item: JsonRecord) -> bool:
    return isinstance(item.get("id"), int | str)


def _require_record(answer: Json, path: str) -> JsonRecord:
    if not isinstance(answer, Mapping):
        message = f"{path}: the response is not an object"
        raise MalformedDataError(message)
    return answer
