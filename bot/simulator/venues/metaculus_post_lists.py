"""How the fake Metaculus lists posts: the filters it knows, and those it ignores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from urllib.parse import parse_qsl, urlencode

from bot.simulator.venues.metaculus_forecast_rules import MetaculusRefusal, parse_moment, permission_refusal
from bot.simulator.venues.metaculus_state import (
    FakeMetaculusPost,
    FakeMetaculusState,
    FakeMetaculusUser,
    FakeTournament,
)

STATUSES = ("upcoming", "open", "closed", "resolved", "pending_resolution")
_DEFAULT_PAGE_SIZE, _MAX_PAGE_SIZE = 20, 100
_TIMES: Mapping[str, Callable[[FakeMetaculusPost], datetime]] = {
    "open_time": lambda post: min((question.open for question in post.questions), default=post.published),
    "published_at": lambda post: post.published,
    "created_at": lambda post: post.created,
    "scheduled_close_time": lambda post: max((q.scheduled_close for q in post.questions), default=post.published),
    "scheduled_resolve_time": lambda post: max((q.scheduled_resolve for q in post.questions), default=post.published),
}
_FILTERED = ("open_time", "published_at", "scheduled_close_time", "scheduled_resolve_time")
_COMPARISONS: Mapping[str, Callable[[datetime, datetime], bool]] = {
    "gt": lambda value, bound: value > bound,
    "gte": lambda value, bound: value >= bound,
    "lt": lambda value, bound: value < bound,
    "lte": lambda value, bound: value <= bound,
}


class PostQuery:
    """The parameters of a list; a page is at most 100 long, and 0 means the default."""

    def __init__(self, text: str) -> None:
        self.pairs = parse_qsl(text, keep_blank_values=True)
        limit = self._parse_number("limit", _DEFAULT_PAGE_SIZE)
        self.limit = min(limit, _MAX_PAGE_SIZE) if limit > 0 else _DEFAULT_PAGE_SIZE
        self.offset = max(self._parse_number("offset", 0), 0)

    def all(self, name: str) -> list[str]:
        """Return every value of a parameter."""
        return [value for key, value in self.pairs if key == name]

    def one(self, name: str) -> str | None:
        """Return the last value of a parameter."""
        values = self.all(name)
        return values[-1] if values else None

    def flag(self, name: str, *, default: bool) -> bool:
        """Return whether a parameter is set."""
        value = self.one(name)
        return default if value is None else value.lower() in {"true", "1", "yes"}

    def page(self, address: str, rows: Sequence[object]) -> dict[str, object]:
        """Return a page of rows; it always claims that there is a next one."""
        return {
            "next": self._page_link(address, self.offset + self.limit),
            "previous": None if self.offset == 0 else self._page_link(address, max(self.offset - self.limit, 0)),
            "results": list(rows[self.offset : self.offset + self.limit]),
        }

    def _page_link(self, address: str, offset: int) -> str:
        kept = [pair for pair in self.pairs if pair[0] not in {"limit", "offset"}]
        pairs = [*kept, ("limit", str(self.limit)), ("offset", str(offset))]
        return f"{address}?{urlencode(sorted(pairs, key=lambda pair: pair[0]))}"

    def _parse_number(self, name: str, default: int) -> int:
        text = self.one(name)
        return int(text) if text is not None and text.lstrip("-").isdigit() else default


def list_posts(
    state: FakeMetaculusState, query: PostQuery, user: FakeMetaculusUser | None, now: datetime
) -> list[FakeMetaculusPost]:
    """Return all requested posts, in order."""
    found = [post for post in state.posts.values() if post.is_visible(now)]
    for keep in (
        *_project_filters(state, query),
        *_kind_filters(query, now),
        *_user_filters(query, user),
        *_time_filters(query),
    ):
        found = [post for post in found if keep(post)]
    return _sort_posts(found, query.one("order_by"))


def _project_filters(state: FakeMetaculusState, query: PostQuery) -> list[Callable[[FakeMetaculusPost], bool]]:
    wanted: list[FakeTournament] = []
    for name in query.all("tournaments"):
        tournament = state.tournament(name)
        if tournament is None:
            kind = "id" if name.isdigit() else "slug"
            raise MetaculusRefusal(400, {"tournaments": [f"Tournament with {kind} `{name}` does not exist"]})
        wanted.append(tournament)
    return [lambda post: any(each in post.tournaments for each in wanted)] if wanted else []


def _kind_filters(query: PostQuery, now: datetime) -> list[Callable[[FakeMetaculusPost], bool]]:
    statuses = {value for value in query.all("statuses") if value in STATUSES}
    types = {part for value in query.all("forecast_type") for part in value.split(",")}
    ids = set(query.all("ids"))
    word = (query.one("search") or "").lower()
    keeps: list[Callable[[FakeMetaculusPost], bool]] = [lambda post: word in post.title.lower()]
    if statuses:
        keeps.append(lambda post: bool(statuses & _post_statuses(post, now)))
    if types:
        keeps.append(lambda post: post.kind in types)
    if ids:
        keeps.append(lambda post: str(post.id) in ids)
    return keeps


def _post_statuses(post: FakeMetaculusPost, now: datetime) -> set[str]:
    status = post.status(now)
    waits = status == "closed" and all(question.scheduled_resolve <= now for question in post.questions)
    named = {"approved": "upcoming"}.get(status, status)
    return {named, "pending_resolution"} if waits else {named}


def _user_filters(query: PostQuery, user: FakeMetaculusUser | None) -> list[Callable[[FakeMetaculusPost], bool]]:
    keeps: list[Callable[[FakeMetaculusPost], bool]] = []
    for name in ("forecaster_id", "not_forecaster_id"):
        asked = query.one(name)
        if asked is None:
            continue
        if user is None or asked != str(user.id):
            detail = "You do not have permission to perform this action."
            raise permission_refusal(detail)
        wanted, author = name == "forecaster_id", user.id
        keeps.append(lambda post, wanted=wanted, author=author: _has_forecast_by(post, author) is wanted)  # type: ignore[misc]
    if query.flag("withdrawn", default=False) and user is not None:
        keeps.append(
            lambda post: any(each.end is not None for q in post.questions for each in q.forecasts_of(user.id)[-1:])
        )
    return keeps


def _has_forecast_by(post: FakeMetaculusPost, author: int) -> bool:
    return any(question.forecasts_of(author) for question in post.questions)


def _time_filters(query: PostQuery) -> list[Callable[[FakeMetaculusPost], bool]]:
    keeps: list[Callable[[FakeMetaculusPost], bool]] = []
    for key, text in query.pairs:
        name, mark, lookup = key.partition("__")
        if not mark or name not in _FILTERED:
            continue
        compare = _COMPARISONS.get(lookup)
        if compare is None:
            raise MetaculusRefusal(400, {key: "Not a valid field key lookup"})
        bound = parse_moment(text, key)
        if bound is not None:
            keeps.append(_time_filter(_TIMES[name], compare, bound))
    return keeps


def _time_filter(
    time: Callable[[FakeMetaculusPost], datetime], compare: Callable[[datetime, datetime], bool], bound: datetime
) -> Callable[[FakeMetaculusPost], bool]:
    return lambda post: compare(time(post), bound)


def _sort_posts(found: list[FakeMetaculusPost], order: str | None) -> list[FakeMetaculusPost]:
    """Order by a known field; with any other the newest are first."""
    name = (order or "").removeprefix("-")
    if name not in _TIMES:
        return sorted(found, key=lambda post: -post.id)
    return sorted(found, key=_TIMES[name], reverse=(order or "").startswith("-"))
