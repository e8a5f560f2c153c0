"""How the fake Metaculus lists posts: with every filter it knows, and blind to those it does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from urllib.parse import parse_qsl, urlencode

from bot.testing.venues.metaculus_rules import Refusal, denied, moment
from bot.testing.venues.metaculus_state import Post, State, Tournament, User

STATUSES = ("upcoming", "open", "closed", "resolved", "pending_resolution")
_PAGE, _MOST = 20, 100
_TIMES: Mapping[str, Callable[[Post], datetime]] = {
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


class Query:
    """The parameters of a list; a page is at most 100 long, and 0 means as many as usual."""

    def __init__(self, text: str) -> None:
        self.pairs = parse_qsl(text, keep_blank_values=True)
        limit = self._number("limit", _PAGE)
        self.limit = min(limit, _MOST) if limit > 0 else _PAGE
        self.offset = max(self._number("offset", 0), 0)

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
        """Return a page of rows; it always says that there is a next one."""
        return {
            "next": self._link(address, self.offset + self.limit),
            "previous": None if self.offset == 0 else self._link(address, max(self.offset - self.limit, 0)),
            "results": list(rows[self.offset : self.offset + self.limit]),
        }

    def _link(self, address: str, offset: int) -> str:
        kept = [pair for pair in self.pairs if pair[0] not in {"limit", "offset"}]
        pairs = [*kept, ("limit", str(self.limit)), ("offset", str(offset))]
        return f"{address}?{urlencode(sorted(pairs, key=lambda pair: pair[0]))}"

    def _number(self, name: str, default: int) -> int:
        text = self.one(name)
        return int(text) if text is not None and text.lstrip("-").isdigit() else default


def posts(state: State, query: Query, user: User | None, now: datetime) -> list[Post]:
    """Return all posts that were asked for, in order."""
    found = [post for post in state.posts.values() if post.is_visible(now)]
    for keep in (*_of_project(state, query), *_of_kind(query, now), *_of_user(query, user), *_of_time(query)):
        found = [post for post in found if keep(post)]
    return _ordered(found, query.one("order_by"))


def _of_project(state: State, query: Query) -> list[Callable[[Post], bool]]:
    wanted: list[Tournament] = []
    for name in query.all("tournaments"):
        tournament = state.tournament(name)
        if tournament is None:
            kind = "id" if name.isdigit() else "slug"
            raise Refusal(400, {"tournaments": [f"Tournament with {kind} `{name}` does not exist"]})
        wanted.append(tournament)
    return [lambda post: any(each in post.tournaments for each in wanted)] if wanted else []


def _of_kind(query: Query, now: datetime) -> list[Callable[[Post], bool]]:
    statuses = {value for value in query.all("statuses") if value in STATUSES}
    types = {part for value in query.all("forecast_type") for part in value.split(",")}
    ids = set(query.all("ids"))
    word = (query.one("search") or "").lower()
    keeps: list[Callable[[Post], bool]] = [lambda post: word in post.title.lower()]
    if statuses:
        keeps.append(lambda post: bool(statuses & _states(post, now)))
    if types:
        keeps.append(lambda post: post.kind in types)
    if ids:
        keeps.append(lambda post: str(post.id) in ids)
    return keeps


def _states(post: Post, now: datetime) -> set[str]:
    status = post.status(now)
    waits = status == "closed" and all(question.scheduled_resolve <= now for question in post.questions)
    named = {"approved": "upcoming"}.get(status, status)
    return {named, "pending_resolution"} if waits else {named}


def _of_user(query: Query, user: User | None) -> list[Callable[[Post], bool]]:
    keeps: list[Callable[[Post], bool]] = []
    for name in ("forecaster_id", "not_forecaster_id"):
        asked = query.one(name)
        if asked is None:
            continue
        if user is None or asked != str(user.id):
            detail = "You do not have permission to perform this action."
            raise denied(detail)
        wanted, author = name == "forecaster_id", user.id
        keeps.append(lambda post, wanted=wanted, author=author: _forecast_by(post, author) is wanted)  # type: ignore[misc]
    if query.flag("withdrawn", default=False) and user is not None:
        keeps.append(lambda post: any(each.end is not None for q in post.questions for each in q.of(user.id)[-1:]))
    return keeps


def _forecast_by(post: Post, author: int) -> bool:
    return any(question.of(author) for question in post.questions)


def _of_time(query: Query) -> list[Callable[[Post], bool]]:
    keeps: list[Callable[[Post], bool]] = []
    for key, text in query.pairs:
        name, mark, lookup = key.partition("__")
        if not mark or name not in _FILTERED:
            continue
        compare = _COMPARISONS.get(lookup)
        if compare is None:
            raise Refusal(400, {key: "Not a valid field key lookup"})
        bound = moment(text, key)
        if bound is not None:
            keeps.append(_compared(_TIMES[name], compare, bound))
    return keeps


def _compared(
    time: Callable[[Post], datetime], compare: Callable[[datetime, datetime], bool], bound: datetime
) -> Callable[[Post], bool]:
    return lambda post: compare(time(post), bound)


def _ordered(found: list[Post], order: str | None) -> list[Post]:
    """Order by a known field; by any other the newest come first."""
    name = (order or "").removeprefix("-")
    if name not in _TIMES:
        return sorted(found, key=lambda post: -post.id)
    return sorted(found, key=_TIMES[name], reverse=(order or "").startswith("-"))
