"""A fake Metaculus: questions of every kind, forecasts, withdrawals and comments, as its document and samples say.

``FakeMetaculus(clock)`` is an ASGI application. Its world is moved by ``bot.testing.venues.metaculus_world``: add users
and questions, forecast as somebody else, edit, change options, close, resolve, undo. With ``production`` it also does
what the documents say of the real site and not of its open code: no answer without a token, and for accounts of the
tier restricted no community forecasts, and neither text nor outcome of what was closed without a forecast of theirs.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from bot.testing.venues import metaculus_people as people
from bot.testing.venues.faults import Fault, Faults
from bot.testing.venues.kit import FakeVenue, Receive, Scope, Send, body_json, heard
from bot.testing.venues.metaculus_leaderboard import leaderboard
from bot.testing.venues.metaculus_lists import Query, posts
from bot.testing.venues.metaculus_rows import View
from bot.testing.venues.metaculus_rules import Refusal, as_list, check_items, denied, end_standing, moment
from bot.testing.venues.metaculus_state import RANKS, Comment, Post, Question, Tournament, User
from bot.testing.venues.metaculus_world import World
from bot.testing.venues.record import Heard, Limit

if TYPE_CHECKING:
    from bot.ports import Clock

PER_HOUR = Limit(name="1000 an hour", count=1000, per_s=3600.0)
_ANONYMOUS = "Authentication credentials were not provided."
_NO_FORECAST = "You do not have permission to make a forecast"
_NO_ACCESS = (
    "API forecasting is not enabled for this account. To enable it, confirm how this account is used at "
    "https://www.metaculus.com/accounts/settings/account/#api-forecasting-access. If these forecasts are produced by a "
    "bot or automated system, use a dedicated bot account instead."
)
_PRIVATE_ONLY = "This account is not allowed to post public comments. Use is_private=true to post a private comment."
_BAD_BEARER = {
    "detail": "Given token not valid for any token type",
    "code": "token_not_valid",
    "messages": [{"token_class": "SessionAccessToken", "token_type": "access", "message": "Token is invalid"}],
}

Handler: TypeAlias = Callable[[Request, User | None], Awaitable[Response]]


class FakeMetaculus(FakeVenue):
    """The venue. ``world`` is what stands behind it."""

    def __init__(
        self,
        clock: Clock,
        *,
        production: bool = True,
        faults: Faults | None = None,
        limits: tuple[Limit, ...] = (PER_HOUR,),
    ) -> None:
        super().__init__(clock, limits=limits, faults=faults)
        self.production = production
        self.world = World(self.now)
        self.state = self.world.state

    def routes(self) -> list[BaseRoute]:
        """Return the paths of the interface that Foxcast knows of."""
        gets: Mapping[str, Handler] = {
            "/api/users/me/": self._me,
            "/api/posts/": self._posts,
            "/api/posts/{id:int}/": self._post,
            "/api/questions/{id:int}/": self._question,
            "/api/questions/{id:int}/post/": self._post_of,
            "/api/comments/": self._comments,
            "/api/projects/tournaments/": self._tournaments,
            "/api/projects/tournaments/{name}/": self._tournament,
            "/api/projects/minibenches/": self._minibenches,
            "/api/leaderboards/project/{id:int}/": self._leaderboards,
        }
        writes: Mapping[str, Handler] = {
            "/api/questions/forecast/": self._forecast,
            "/api/questions/withdraw/": self._withdraw,
            "/api/comments/create/": self._comment,
            "/api/comments/{id:int}/edit/": self._edit,
            "/api/comments/{id:int}/delete/": self._delete,
        }
        return [
            *(self._route(path, handler, "POST") for path, handler in writes.items()),
            *(self._route(path, handler, "GET") for path, handler in gets.items()),
        ]

    def _route(self, path: str, handler: Handler, method: str) -> Route:
        async def answer(request: Request) -> Response:
            try:
                user = self._user(heard(request))
                return await handler(request, user) if request.method == method else _not_allowed(request)
            except Refusal as refusal:
                return JSONResponse(refusal.body, refusal.status)

        return Route(path, answer, methods=["GET", "POST", "PUT", "PATCH", "DELETE"])

    async def unknown(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Redirect to the path with a slash, whatever the method; else 404."""
        path: str = scope["path"]
        if scope["type"] == "http" and not path.endswith("/"):
            query = scope.get("query_string", b"").decode("latin-1")
            location = f"{path}/?{query}" if query else f"{path}/"
            moved = Response("", 301, {"Location": location}, media_type="text/html; charset=utf-8")
            await moved(scope, receive, send)
            return
        await JSONResponse({"detail": "Not found."}, 404)(scope, receive, send)

    def account(self, heard: Heard) -> str:
        """Return the user of a request's token."""
        user = self.state.user_with(heard.headers.get("authorization", "").rpartition(" ")[2])
        return "" if user is None else str(user.id)

    def disturb(self, fault: Fault, heard: Heard) -> None:
        """Let the first question that a request is about be edited, closed or resolved."""
        question = self._about(heard)
        if question is None or question.resolution is not None or not self.world.disturb(fault, question):
            self.faults.met_nothing(fault)

    def _about(self, heard: Heard) -> Question | None:
        try:
            body = body_json(heard)
        except ValueError:
            body = None
        if isinstance(body, list) and body and isinstance(body[0], dict):
            return self.state.questions.get(_whole(body[0].get("question")))
        kind, number = [*heard.path.split("/"), "", ""][2:4]
        named = int(number) if number.isdigit() else -1
        if kind == "questions":
            return self.state.questions.get(named)
        if kind == "comments":
            comment = self.state.comments.get(named)
            on_post = body.get("on_post") if isinstance(body, dict) else None
            named = _whole(on_post) if comment is None else comment.post
        post = self.state.posts.get(named)
        return post.questions[0] if post is not None and post.questions else None

    # Who asks

    def _user(self, asking: Heard) -> User | None:
        said = asking.headers.get("authorization")
        if not said:
            if self.production:
                raise denied(_ANONYMOUS)
            return None
        word, _, token = said.rpartition(" ")
        if word == "Bearer":
            raise Refusal(403, _BAD_BEARER)
        user = self.state.user_with(token) if word in {"Token", ""} else None
        if user is None:
            detail = "Invalid token."
            raise denied(detail)
        return user

    def _view(self, user: User | None, **more: bool) -> View:
        hides = self.production and (user is None or user.tier == "restricted")
        return View(state=self.state, user=user, now=self.now(), hides=hides, **more)

    async def _me(self, request: Request, user: User | None) -> Response:
        return JSONResponse(people.user_row(_known(user)))

    # Reading

    async def _posts(self, request: Request, user: User | None) -> Response:
        query = Query(heard(request).query)
        view = self._view(user, with_own=query.flag("with_cp", default=False), in_list=True)
        found = [view.post(post) for post in posts(self.state, query, user, self.now())]
        if not query.flag("include_descriptions", default=True):
            for row in found:
                row.get("question", {}).update(description="", resolution_criteria="", fine_print="")
        return JSONResponse(query.page(_address(request), found))

    async def _post(self, request: Request, user: User | None) -> Response:
        post = self.state.posts.get(request.path_params["id"])
        if post is None or not post.is_visible(self.now()):
            raise Refusal(404, {"detail": "Post not found"})
        query = Query(heard(request).query)
        return JSONResponse(self._view(user, with_own=query.flag("with_cp", default=True)).post(post))

    async def _question(self, request: Request, user: User | None) -> Response:
        return JSONResponse(self._view(_known(user)).question(self._asked(request), detail=True))

    async def _post_of(self, request: Request, user: User | None) -> Response:
        question = self._asked(request)
        post = self.state.posts[question.post]
        return JSONResponse({"question_id": question.id, "post_id": post.id, "post_slug": post.slug})

    def _asked(self, request: Request) -> Question:
        question = self.state.questions.get(request.path_params["id"])
        if question is None or not self.state.posts[question.post].is_visible(self.now()):
            raise Refusal(404, {"detail": "No Question matches the given query."})
        return question

    async def _tournaments(self, request: Request, user: User | None) -> Response:
        return JSONResponse([self._page(each) for each in self.state.tournaments.values() if each.permission])

    async def _minibenches(self, request: Request, user: User | None) -> Response:
        found = [each for each in self.state.tournaments.values() if "minibench" in each.slug]
        return JSONResponse([self._page(each) for each in found])

    async def _tournament(self, request: Request, user: User | None) -> Response:
        tournament = self.state.tournament(request.path_params["name"])
        if tournament is None or tournament.permission is None:
            raise Refusal(404, {"detail": "No Project matches the given query."})
        texts = {"subtitle": "", "description": "", "header_logo": None, "forecasts_flow_enabled": True}
        mine = {"followers_count": 0, "is_subscribed": False, "follow_questions": False, "has_participated": True}
        return JSONResponse({**self._page(tournament), **texts, **mine})

    async def _leaderboards(self, request: Request, user: User | None) -> Response:
        tournament = self.state.tournaments.get(request.path_params["id"])
        if tournament is None or tournament.permission is None:
            raise Refusal(404, {"detail": "No Project matches the given query."})
        return JSONResponse([leaderboard(self.state, tournament, user, self.now())])

    def _page(self, tournament: Tournament) -> dict[str, Any]:
        return people.tournament_page(self.state, tournament, self.now())

    # Forecasting

    async def _forecast(self, request: Request, user: User | None) -> Response:
        user, now = _known(user), self.now()
        body = _body(request)
        if user.access != "enabled":
            user.access = "pending"
            raise Refusal(403, {"detail": _NO_ACCESS, "code": "api_forecasting_not_enabled"})
        items = check_items(self.state, body, now)
        for item in items:
            self._may_forecast(item.question)
            if item.question.status(now) in {"closed", "resolved"}:
                raise Refusal(405, {"error": f"Question {item.question.id} is already closed to forecasting !"})
        for item in items:
            self.world.store(item, user)
            subject = str(item.question.id)
            self.did(heard(request), "forecast", subject=subject, account=str(user.id), values=tuple(item.values))
        return JSONResponse({}, 201)

    async def _withdraw(self, request: Request, user: User | None) -> Response:
        user, now = _known(user), self.now()
        given = as_list(_body(request), "At least one forecast must be withdawn")
        found: list[tuple[Question, datetime]] = []
        for item in given:
            question = self.state.questions.get(_whole(item.get("question"))) if isinstance(item, dict) else None
            if question is None:
                raise Refusal(400, {"non_field_errors": ["Wrong question id None"]})
            self._may_forecast(question)
            at = moment(item.get("withdraw_at"), "withdraw_at") or now
            if at < now:
                raise Refusal(405, {"error": f"Withdrawal time {at} cannot be in the past"})
            found.append((question, at))
        for question, at in found:
            end_standing(question, user.id, at.timestamp())
            self.did(heard(request), "withdraw", subject=str(question.id), account=str(user.id))
        return JSONResponse({}, 201)

    def _may_forecast(self, question: Question) -> None:
        post = self.state.posts[question.post]
        if not post.is_visible(self.now()) or post.user_permission() not in RANKS[1:]:
            raise denied(_NO_FORECAST)

    # Comments

    async def _comment(self, request: Request, user: User | None) -> Response:
        user, given = _known(user), _object(request)
        post = self.state.posts.get(_whole(given.get("on_post")))
        if not isinstance(given.get("text"), str) or not given["text"]:
            raise Refusal(400, {"text": ["Comment text is required"]})
        if post is None or not post.is_visible(self.now()):
            raise Refusal(400, {"on_post": ["Post does not exist"]})
        if post.user_permission() not in RANKS[1:]:
            detail = "You do not have permission to comment this project"
            raise denied(detail)
        if user.is_bot and given.get("is_private") is not True:
            raise denied(_PRIVATE_ONLY)
        comment = Comment(
            id=len(self.state.comments) + 1,
            author=user.id,
            post=post.id,
            text=given["text"],
            created=self.now(),
            is_private=given.get("is_private") is True,
            parent=given.get("parent"),
        )
        if given.get("included_forecast") is True:
            comment.forecast = self._latest(post, user)
        self.state.comments[comment.id] = comment
        self.did(heard(request), "comment", subject=str(post.id), account=str(user.id), comment=comment.id)
        return JSONResponse(people.comment_row(self.state, comment), 201)

    def _latest(self, post: Post, user: User) -> Any:  # noqa: ANN401 - a pair, or nothing
        """Return the latest forecast on a post of one question."""
        if post.group is not None or post.conditional is not None or not post.questions:
            return None
        own = post.questions[0].of(user.id)
        return (post.questions[0], own[-1]) if own else None

    async def _comments(self, request: Request, user: User | None) -> Response:
        query = Query(heard(request).query)
        author, post = query.one("author"), query.one("post")
        private = query.flag("is_private", default=False)
        found = [
            people.comment_row(self.state, comment)
            for comment in self.state.comments_of(_id(author), _id(post), private=private)
            if not comment.deleted and (not private or (user is not None and comment.author == user.id))
        ]
        return JSONResponse(query.page(_address(request), found))

    async def _edit(self, request: Request, user: User | None) -> Response:
        comment = self._own_comment(request, _known(user), "edit")
        comment.text, comment.edited = str(_object(request).get("text", comment.text)), self.now()
        return JSONResponse(people.comment_row(self.state, comment))

    async def _delete(self, request: Request, user: User | None) -> Response:
        self._own_comment(request, _known(user), "delete").deleted = True
        return JSONResponse({})

    def _own_comment(self, request: Request, user: User, deed: str) -> Comment:
        comment = self.state.comments.get(request.path_params["id"])
        if comment is None:
            raise Refusal(404, {"detail": "No Comment matches the given query."})
        if comment.author != user.id:
            detail = f"You do not have permission to {deed} this comment."
            raise denied(detail)
        return comment


def _not_allowed(request: Request) -> Response:
    return JSONResponse({"detail": f'Method "{request.method}" not allowed.'}, 405)


def _known(user: User | None) -> User:
    if user is None:
        raise denied(_ANONYMOUS)
    return user


def _whole(value: object) -> int:
    """Return a whole number as it was given, 0 for anything else."""
    return value if isinstance(value, int) else 0


def _id(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


def _address(request: Request) -> str:
    return str(request.url).partition("?")[0]


def _body(request: Request) -> Any:  # noqa: ANN401 - JSON
    try:
        return body_json(heard(request))
    except json.JSONDecodeError as error:
        raise Refusal(400, {"detail": f"JSON parse error - {error}"}) from None
    except ValueError as error:
        detail = f"JSON parse error - Out of range float values are not JSON compliant: {error}"
        raise Refusal(400, {"detail": detail}) from None


def _object(request: Request) -> Mapping[str, Any]:
    body = _body(request)
    if not isinstance(body, dict):
        kind = type(body).__name__
        raise Refusal(400, {"non_field_errors": [f"Invalid data. Expected a dictionary, but got {kind}."]})
    return body
