"""A fake Metaculus: questions of every type.

Forecasts, withdrawals and comments, as its document and recorded samples say.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from bot.simulator.fake_service import FakeService, Receive, Scope, Send, logged_request, read_json_body
from bot.simulator.faults import FaultSchedule, RequestFault
from bot.simulator.request_log import LoggedRequest, RequestLimit
from bot.simulator.venues import metaculus_responses as people
from bot.simulator.venues.metaculus_forecast_rules import (
    MetaculusRefusal,
    check_items,
    end_standing_forecasts,
    parse_moment,
    permission_refusal,
    require_list,
)
from bot.simulator.venues.metaculus_post_lists import PostQuery, list_posts
from bot.simulator.venues.metaculus_responses import ResponseView, leaderboard_row
from bot.simulator.venues.metaculus_state import (
    RANKS,
    FakeMetaculusComment,
    FakeMetaculusPost,
    FakeMetaculusQuestion,
    FakeMetaculusUser,
    FakeTournament,
)
from bot.simulator.venues.metaculus_world import MetaculusWorld

if TYPE_CHECKING:
    from bot.core.interfaces import Clock

PER_HOUR = RequestLimit(name="1000 an hour", count=1000, per_s=3600.0)
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

Handler: TypeAlias = Callable[[Request, FakeMetaculusUser | None], Awaitable[Response]]


class FakeMetaculus(FakeService):
    """The venue. ``world`` is the world behind it."""

    def __init__(
        self,
        clock: Clock,
        *,
        production: bool = True,
        faults: FaultSchedule | None = None,
        limits: tuple[RequestLimit, ...] = (PER_HOUR,),
    ) -> None:
        super().__init__(clock, limits=limits, faults=faults)
        self.production = production
        self.world = MetaculusWorld(self.now)
        self.state = self.world.state

    def routes(self) -> list[BaseRoute]:
        """Return the paths of the interface that Foxcast uses."""
        gets: Mapping[str, Handler] = {
            "/api/users/me/": self._serve_me,
            "/api/posts/": self._serve_posts,
            "/api/posts/{id:int}/": self._serve_post,
            "/api/questions/{id:int}/": self._serve_question,
            "/api/questions/{id:int}/post/": self._post_of,
            "/api/comments/": self._serve_comments,
            "/api/projects/tournaments/": self._serve_tournaments,
            "/api/projects/tournaments/{name}/": self._serve_tournament,
            "/api/projects/minibenches/": self._serve_minibenches,
            "/api/leaderboards/project/{id:int}/": self._serve_leaderboards,
        }
        writes: Mapping[str, Handler] = {
            "/api/questions/forecast/": self._serve_forecast,
            "/api/questions/withdraw/": self._serve_withdraw,
            "/api/comments/create/": self._serve_comment,
            "/api/comments/{id:int}/edit/": self._serve_edit,
            "/api/comments/{id:int}/delete/": self._serve_delete,
        }
        return [
            *(self._make_route(path, handler, "POST") for path, handler in writes.items()),
            *(self._make_route(path, handler, "GET") for path, handler in gets.items()),
        ]

    def _make_route(self, path: str, handler: Handler, method: str) -> Route:
        async def answer(request: Request) -> Response:
            try:
                user = self._find_user(logged_request(request))
                return await handler(request, user) if request.method == method else _serve_not_allowed(request)
            except MetaculusRefusal as refusal:
                return JSONResponse(refusal.body, refusal.status)

        return Route(path, answer, methods=["GET", "POST", "PUT", "PATCH", "DELETE"])

    async def answer_unknown_path(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Redirect to the path with a slash, whatever the method; else 404."""
        path: str = scope["path"]
        if scope["type"] == "http" and not path.endswith("/"):
            query = scope.get("query_string", b"").decode("latin-1")
            location = f"{path}/?{query}" if query else f"{path}/"
            moved = Response("", 301, {"Location": location}, media_type="text/html; charset=utf-8")
            await moved(scope, receive, send)
            return
        await JSONResponse({"detail": "Not found."}, 404)(scope, receive, send)

    def account(self, logged: LoggedRequest) -> str:
        """Return the user of a request's token."""
        user = self.state.user_with(logged.headers.get("authorization", "").rpartition(" ")[2])
        return "" if user is None else str(user.id)

    def apply_world_fault(self, fault: RequestFault, logged: LoggedRequest) -> None:
        """Let the first question of a request be edited, closed or resolved."""
        question = self._written_question(logged)
        if question is None or question.resolution is not None or not self.world.apply_fault(fault, question):
            self.faults.discount(fault)

    def _written_question(self, logged: LoggedRequest) -> FakeMetaculusQuestion | None:
        try:
            body = read_json_body(logged)
        except ValueError:
            body = None
        if isinstance(body, list) and body and isinstance(body[0], dict):
            return self.state.questions.get(_to_int(body[0].get("question")))
        kind, number = [*logged.path.split("/"), "", ""][2:4]
        named = int(number) if number.isdigit() else -1
        if kind == "questions":
            return self.state.questions.get(named)
        if kind == "comments":
            comment = self.state.comments.get(named)
            on_post = body.get("on_post") if isinstance(body, dict) else None
            named = _to_int(on_post) if comment is None else comment.post
        post = self.state.posts.get(named)
        return post.questions[0] if post is not None and post.questions else None

    # Authentication

    def _find_user(self, asking: LoggedRequest) -> FakeMetaculusUser | None:
        header = asking.headers.get("authorization")
        if not header:
            if self.production:
                raise permission_refusal(_ANONYMOUS)
            return None
        word, _, token = header.rpartition(" ")
        if word == "Bearer":
            raise MetaculusRefusal(403, _BAD_BEARER)
        user = self.state.user_with(token) if word in {"Token", ""} else None
        if user is None:
            detail = "Invalid token."
            raise permission_refusal(detail)
        return user

    def _response_view(self, user: FakeMetaculusUser | None, **more: bool) -> ResponseView:
        hides = self.production and (user is None or user.tier == "restricted")
        return ResponseView(state=self.state, user=user, now=self.now(), hides_closed=hides, **more)

    async def _serve_me(self, request: Request, user: FakeMetaculusUser | None) -> Response:
        return JSONResponse(people.user_row(_require_user(user)))

    # Reading

    async def _serve_posts(self, request: Request, user: FakeMetaculusUser | None) -> Response:
        query = PostQuery(logged_request(request).query)
        view = self._response_view(user, with_own=query.flag("with_cp", default=False), in_list=True)
        found = [view.post(post) for post in list_posts(self.state, query, user, self.now())]
        if not query.flag("include_descriptions", default=True):
            for row in found:
                row.get("question", {}).update(description="", resolution_criteria="", fine_print="")
        return JSONResponse(query.page(_request_address(request), found))

    async def _serve_post(self, request: Request, user: FakeMetaculusUser | None) -> Response:
        post = self.state.posts.get(request.path_params["id"])
        if post is None or not post.is_visible(self.now()):
            raise MetaculusRefusal(404, {"detail": "Post not found"})
        query = PostQuery(logged_request(request).query)
        return JSONResponse(self._response_view(user, with_own=query.flag("with_cp", default=True)).post(post))

    async def _serve_question(self, request: Request, user: FakeMetaculusUser | None) -> Response:
        return JSONResponse(
            self._response_view(_require_user(user)).question(self._requested_question(request), detail=True)
        )

    async def _post_of(self, request: Request, user: FakeMetaculusUser | None) -> Response:
        question = self._requested_question(request)
        post = self.state.posts[question.post]
        return JSONResponse({"question_id": question.id, "post_id": post.id, "post_slug": post.slug})

    def _requested_question(self, request: Request) -> FakeMetaculusQuestion:
        question = self.state.questions.get(request.path_params["id"])
        if question is None or not self.state.posts[question.post].is_visible(self.now()):
            raise MetaculusRefusal(404, {"detail": "No Question matches the given query."})
        return question

    async def _serve_tournaments(self, request: Request, user: FakeMetaculusUser | None) -> Response:
        return JSONResponse([self._tournament_row(each) for each in self.state.tournaments.values() if each.permission])

    async def _serve_minibenches(self, request: Request, user: FakeMetaculusUser | None) -> Response:
        found = [each for each in self.state.tournaments.values() if "minibench" in each.slug]
        return JSONResponse([self._tournament_row(each) for each in found])

    async def _serve_tournament(self, request: Request, user: FakeMetaculusUser | None) -> Response:
        tournament = self.state.tournament(request.path_params["name"])
        if tournament is None or tournament.permission is None:
            raise MetaculusRefusal(404, {"detail": "No Project matches the given query."})
        texts = {"subtitle": "", "description": "", "header_logo": None, "forecasts_flow_enabled": True}
        mine = {"followers_count": 0, "is_subscribed": False, "follow_questions": False, "has_participated": True}
        return JSONResponse({**self._tournament_row(tournament), **texts, **mine})

    async def _serve_leaderboards(self, request: Request, user: FakeMetaculusUser | None) -> Response:
        tournament = self.state.tournaments.get(request.path_params["id"])
        if tournament is None or tournament.permission is None:
            raise MetaculusRefusal(404, {"detail": "No Project matches the given query."})
        return JSONResponse([leaderboard_row(self.state, tournament, user, self.now())])

    def _tournament_row(self, tournament: FakeTournament) -> dict[str, Any]:
        return people.tournament_page(self.state, tournament, self.now())

    # Forecasting

    async def _serve_forecast(self, request: Request, user: FakeMetaculusUser | None) -> Response:
        user, now = _require_user(user), self.now()
        body = _read_body(request)
        if user.access != "enabled":
            user.access = "pending"
            raise MetaculusRefusal(403, {"detail": _NO_ACCESS, "code": "api_forecasting_not_enabled"})
        items = check_items(self.state, body, now)
        for item in items:
            self._may_forecast(item.question)
            if item.question.status(now) in {"closed", "resolved"}:
                raise MetaculusRefusal(
                    405, {"error": f"Question {item.question.id} is already closed to forecasting !"}
                )
        for item in items:
            self.world.store_forecast(item, user)
            subject = str(item.question.id)
            self.record_effect(
                logged_request(request), "forecast", subject=subject, account=str(user.id), values=tuple(item.values)
            )
        return JSONResponse({}, 201)

    async def _serve_withdraw(self, request: Request, user: FakeMetaculusUser | None) -> Response:
        user, now = _require_user(user), self.now()
        given = require_list(_read_body(request), "At least one forecast must be withdawn")
        found: list[tuple[FakeMetaculusQuestion, datetime]] = []
        for item in given:
            question = self.state.questions.get(_to_int(item.get("question"))) if isinstance(item, dict) else None
            if question is None:
                raise MetaculusRefusal(400, {"non_field_errors": ["Wrong question id None"]})
            self._may_forecast(question)
            at = parse_moment(item.get("withdraw_at"), "withdraw_at") or now
            if at < now:
                raise MetaculusRefusal(405, {"error": f"Withdrawal time {at} cannot be in the past"})
            found.append((question, at))
        for question, at in found:
            end_standing_forecasts(question, user.id, at.timestamp())
            self.record_effect(logged_request(request), "withdraw", subject=str(question.id), account=str(user.id))
        return JSONResponse({}, 201)

    def _may_forecast(self, question: FakeMetaculusQuestion) -> None:
        post = self.state.posts[question.post]
        if not post.is_visible(self.now()) or post.user_permission() not in RANKS[1:]:
            raise permission_refusal(_NO_FORECAST)

    # Comments

    async def _serve_comment(self, request: Request, user: FakeMetaculusUser | None) -> Response:
        user, given = _require_user(user), _read_object(request)
        post = self.state.posts.get(_to_int(given.get("on_post")))
        if not isinstance(given.get("text"), str) or not given["text"]:
            raise MetaculusRefusal(400, {"text": ["Comment text is required"]})
        if post is None or not post.is_visible(self.now()):
            raise MetaculusRefusal(400, {"on_post": ["Post does not exist"]})
        if post.user_permission() not in RANKS[1:]:
            detail = "You do not have permission to comment this project"
            raise permission_refusal(detail)
        if user.is_bot and given.get("is_private") is not True:
            raise permission_refusal(_PRIVATE_ONLY)
        comment = FakeMetaculusComment(
            id=len(self.state.comments) + 1,
            author=user.id,
            post=post.id,
            text=given["text"],
            created=self.now(),
            is_private=given.get("is_private") is True,
            parent=given.get("parent"),
        )
        if given.get("included_forecast") is True:
            comment.forecast = self._latest_forecast(post, user)
        self.state.comments[comment.id] = comment
        self.record_effect(
            logged_request(request), "comment", subject=str(post.id), account=str(user.id), comment=comment.id
        )
        return JSONResponse(people.comment_row(self.state, comment), 201)

    def _latest_forecast(self, post: FakeMetaculusPost, user: FakeMetaculusUser) -> Any:  # noqa: ANN401 - a pair, or nothing
        """Return the latest forecast on a post of one question."""
        if post.group is not None or post.conditional is not None or not post.questions:
            return None
        own = post.questions[0].forecasts_of(user.id)
        return (post.questions[0], own[-1]) if own else None

    async def _serve_comments(self, request: Request, user: FakeMetaculusUser | None) -> Response:
        query = PostQuery(logged_request(request).query)
        author, post = query.one("author"), query.one("post")
        private = query.flag("is_private", default=False)
        found = [
            people.comment_row(self.state, comment)
            for comment in self.state.comments_of(_parse_id(author), _parse_id(post), private=private)
            if not comment.deleted and (not private or (user is not None and comment.author == user.id))
        ]
        return JSONResponse(query.page(_request_address(request), found))

    async def _serve_edit(self, request: Request, user: FakeMetaculusUser | None) -> Response:
        comment = self._own_comment(request, _require_user(user), "edit")
        comment.text, comment.edited = str(_read_object(request).get("text", comment.text)), self.now()
        return JSONResponse(people.comment_row(self.state, comment))

    async def _serve_delete(self, request: Request, user: FakeMetaculusUser | None) -> Response:
        self._own_comment(request, _require_user(user), "delete").deleted = True
        return JSONResponse({})

    def _own_comment(self, request: Request, user: FakeMetaculusUser, action: str) -> FakeMetaculusComment:
        comment = self.state.comments.get(request.path_params["id"])
        if comment is None:
            raise MetaculusRefusal(404, {"detail": "No Comment matches the given query."})
        if comment.author != user.id:
            detail = f"You do not have permission to {action} this comment."
            raise permission_refusal(detail)
        return comment


def _serve_not_allowed(request: Request) -> Response:
    return JSONResponse({"detail": f'Method "{request.method}" not allowed.'}, 405)


def _require_user(user: FakeMetaculusUser | None) -> FakeMetaculusUser:
    if user is None:
        raise permission_refusal(_ANONYMOUS)
    return user


def _to_int(value: object) -> int:
    """Return a whole number as it was given, 0 for anything else."""
    return value if isinstance(value, int) else 0


def _parse_id(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


def _request_address(request: Request) -> str:
    return str(request.url).partition("?")[0]


def _read_body(request: Request) -> Any:  # noqa: ANN401 - JSON
    try:
        return read_json_body(logged_request(request))
    except json.JSONDecodeError as error:
        raise MetaculusRefusal(400, {"detail": f"JSON parse error - {error}"}) from None
    except ValueError as error:
        detail = f"JSON parse error - Out of range float values are not JSON compliant: {error}"
        raise MetaculusRefusal(400, {"detail": detail}) from None


def _read_object(request: Request) -> Mapping[str, Any]:
    body = _read_body(request)
    if not isinstance(body, dict):
        kind = type(body).__name__
        raise MetaculusRefusal(400, {"non_field_errors": [f"Invalid data. Expected a dictionary, but got {kind}."]})
    return body
