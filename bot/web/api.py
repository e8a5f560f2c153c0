"""The JSON API below /api/v1: asked forecasts, and what is on record; described by /api/v1/openapi.json."""

import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import structlog
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bot.alerts.conditions import find_degradations
from bot.core.errors import FoxcastError, NotFoundError, describe_error
from bot.core.forecasts import Forecast
from bot.core.light_dataclass import dataclass
from bot.core.outcomes import BRIER
from bot.core.questions import QuestionRef
from bot.core.redaction import redact_foreign_message
from bot.store.questions import QuestionFilter, QuestionRow, QuestionState
from bot.store.score_totals import ScoreSums
from bot.store.scores import ScoreFilter
from bot.store.serialization import PREDICTIONS
from bot.web.api_callers import ApiCaller, ApiRefusal, CallerDirectory
from bot.web.api_schema import (
    API_PREFIX,
    BeliefRecord,
    ErrorAnswer,
    ForecastRequest,
    ForecastSummary,
    HealthAnswer,
    QuestionSummary,
    ScoreSummary,
    build_openapi,
)
from bot.web.asked_forecasts import AskedForecasts
from bot.web.watched_state import WatchedState

log = structlog.get_logger(__name__)

MAX_BODY_BYTES = 1024 * 1024
MAX_QUESTIONS = 1_000
POLL_AFTER_S = 5
_HEADERS: Mapping[str, str] = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
_STATUSES = {"running": 202, "failed": 502, "done": 200}

ApiHandler = Callable[[Request, ApiCaller], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonApi:
    """The handlers of the API; ``asked`` makes the forecasts that are asked for."""

    state: WatchedState
    callers: CallerDirectory
    asked: AskedForecasts

    def routes(self) -> Sequence[Route]:
        """Return the routes."""
        table: tuple[tuple[str, str, ApiHandler], ...] = (
            ("POST", "/forecasts", self._ask),
            ("GET", "/forecasts/{name}", self._read_forecast),
            ("GET", "/forecasts/{name}/beliefs", self._list_beliefs),
            ("GET", "/questions", self._list_questions),
            ("GET", "/questions/{ref:path}/forecasts", self._list_forecasts),
            ("GET", "/questions/{ref:path}", self._read_question),
            ("GET", "/scores", self._list_scores),
            ("GET", "/health", self._read_health),
        )
        routes = [
            Route(f"{API_PREFIX}{path}", self._guard(handler), methods=[method]) for method, path, handler in table
        ]
        return [Route(f"{API_PREFIX}/openapi.json", _show_openapi), *routes]

    def _guard(self, handler: ApiHandler) -> Callable[[Request], Awaitable[Response]]:
        """Return a handler that knows its caller and answers every error in one form."""

        async def handle(request: Request) -> Response:
            try:
                return await handler(request, self.callers.admit(request))
            except ApiRefusal as refusal:
                headers = {} if refusal.retry_after_s is None else {"retry-after": str(refusal.retry_after_s)}
                if refusal.status == 401:
                    headers["www-authenticate"] = "Bearer"
                return _error(refusal.status, str(refusal), headers)
            except NotFoundError as error:
                return _error(404, str(error))
            except FoxcastError as error:
                log.warning("the API could not answer", path=request.url.path, error=str(error))
                return _error(503, describe_error(error))

        return handle

    async def _ask(self, request: Request, caller: ApiCaller) -> Response:
        answer = await self.asked.ask(caller, _parse_request(await _read_body(request)))
        headers = {"location": answer.poll, "retry-after": str(POLL_AFTER_S)} if answer.poll else {}
        return _respond(answer, _STATUSES[answer.status], headers)

    async def _read_forecast(self, request: Request, caller: ApiCaller) -> Response:
        return _respond(await self.asked.read(caller, request.path_params["name"]))

    async def _list_beliefs(self, request: Request, caller: ApiCaller) -> Response:
        answer = await self.asked.read(caller, request.path_params["name"])
        if answer.forecast is None:
            message = f"the forecast {answer.id} is not made yet: it is {answer.status}"
            raise NotFoundError(message)
        trace = await self.state.ledger.forecasts.trace(answer.forecast)
        return _respond_all(
            BeliefRecord(
                trial=record.number,
                step=logged.number,
                action=logged.step.action.name,
                reason=logged.step.belief.reason,
                predictions=PREDICTIONS.plain(logged.step.belief.predictions),
            )
            for record in trace.trials
            for logged in record.steps
        )

    async def _list_questions(self, request: Request, caller: ApiCaller) -> Response:
        caller.require_reading()
        rows = await self.state.ledger.questions.rows(_parse_filter(request), now=self.state.clock.now())
        return _respond_all(self._question_summary(row) for row in rows)

    async def _read_question(self, request: Request, caller: ApiCaller) -> Response:
        caller.require_reading()
        ref = _parse_ref(request)
        question = await self.state.ledger.questions.get(ref)
        outcomes = await self.state.ledger.resolutions.current(ref)
        now = self.state.clock.now()
        closed = question.closes_at is not None and question.closes_at <= now
        resolved = len({one.target for one in outcomes})
        state = QuestionState.CLOSED if closed else QuestionState.OPEN
        summary = QuestionSummary(
            ref=str(ref),
            title=question.title,
            state=(QuestionState.RESOLVED if resolved >= len(question.targets) else state).value,
            source=question.source,
            closes_at=question.closes_at,
            crowd=getattr(question.crowd.prediction, "probability", None) if question.crowd else None,
            targets=len(question.targets),
            resolved=resolved,
        )
        return _respond(summary)

    async def _list_forecasts(self, request: Request, caller: ApiCaller) -> Response:
        caller.require_reading()
        ref = _parse_ref(request)
        await self.state.ledger.questions.get(ref)
        history = await self.state.ledger.forecasts.history(ref)
        return _respond_all(
            _forecast_summary(one) for one in sorted(history, key=lambda one: one.made_at, reverse=True)
        )

    async def _list_scores(self, request: Request, caller: ApiCaller) -> Response:
        caller.require_reading()
        return _respond_all(summarize_scores(await self.state.ledger.scores.read_sums(ScoreFilter())))

    async def _read_health(self, request: Request, caller: ApiCaller) -> Response:
        caller.require_reading()
        problems = [
            {"condition": one.rule.name, "subject": one.finding.subject, "text": redact_foreign_message(one.text)}
            for one in find_degradations(await self.state.health.get())
        ]
        return _respond(HealthAnswer(status="degraded" if problems else "healthy", problems=problems))

    def _question_summary(self, row: QuestionRow) -> QuestionSummary:
        return QuestionSummary(
            ref=str(row.ref),
            title=row.title,
            state=row.state(self.state.clock.now()).value,
            source=row.source,
            closes_at=row.closes_at,
            crowd=row.crowd,
            targets=row.targets,
            resolved=row.resolved,
        )


async def _show_openapi(_: Request) -> Response:
    return JSONResponse(build_openapi(), headers=_HEADERS)


async def _read_body(request: Request) -> bytes:
    """Return the body; raises ApiRefusal for another type than JSON, which no form of a web page can send, and size."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise ApiRefusal(400, "send JSON, with Content-Type: application/json")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise ApiRefusal(400, f"the request is larger than {MAX_BODY_BYTES} bytes; shorten its sources")
    return bytes(body)


def _parse_request(body: bytes) -> ForecastRequest:
    """Return the request; raises ApiRefusal with its first fault."""
    try:
        return ForecastRequest.model_validate(json.loads(body))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place = ".".join(map(str, fault["loc"]))
        text = fault["msg"].removeprefix("Value error, ")
        raise ApiRefusal(400, f"{place}: {text}" if place else text) from None
    except (ValueError, RecursionError):
        raise ApiRefusal(400, "the body is not JSON") from None


def _parse_filter(request: Request) -> QuestionFilter:
    wanted = request.query_params
    unknown = sorted({*wanted} - {"venue", "state", "limit"})
    if unknown:
        raise ApiRefusal(400, f"{unknown[0]}: there is no such parameter; valid: limit, state, venue")
    try:
        limit = int(wanted.get("limit", "100"))
        state = QuestionState(wanted["state"]) if "state" in wanted else None
    except ValueError:
        raise ApiRefusal(400, "limit should be a number, and state open, closed or resolved") from None
    if not 1 <= limit <= MAX_QUESTIONS:
        raise ApiRefusal(400, f"limit: should be from 1 to {MAX_QUESTIONS}")
    return QuestionFilter(venue=wanted.get("venue"), state=state, limit=limit)


def _parse_ref(request: Request) -> QuestionRef:
    try:
        return QuestionRef.parse(request.path_params["ref"])
    except ValueError as error:
        raise ApiRefusal(400, str(error)) from error


def _forecast_summary(one: Forecast) -> ForecastSummary:
    return ForecastSummary(
        id=one.id,
        question=str(one.ref),
        forecaster=one.forecaster,
        revision=one.revision,
        made_at=one.made_at,
        cutoff=one.cutoff,
        why=one.why,
        predictions=PREDICTIONS.plain(one.predictions),
    )


def summarize_scores(sums: ScoreSums) -> list[ScoreSummary]:
    """Return the mean Brier score of each forecaster and family of questions."""
    groups: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0.0, 0, 0.0])
    keys = zip(sums.forecaster, sums.family, sums.rule, strict=True)
    for key, row in zip(keys, zip(sums.n, sums.value, sums.crowd_n, sums.crowd, strict=True), strict=True):
        if key[2] == BRIER:
            groups[key[:2]] = [one + more for one, more in zip(groups[key[:2]], row, strict=True)]
    return [
        ScoreSummary(
            forecaster=forecaster,
            family=family,
            predictions=round(n),
            brier=value / n,
            brier_crowd=crowd / crowd_n if crowd_n else None,
        )
        for (forecaster, family), (n, value, crowd_n, crowd) in sorted(groups.items())
    ]


def _respond(answer: BaseModel, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse(answer.model_dump(mode="json"), status, {**_HEADERS, **(headers or {})})


def _respond_all(answers: Any) -> Response:  # noqa: ANN401 - any iterable of models
    return JSONResponse([one.model_dump(mode="json") for one in answers], headers=_HEADERS)


def _error(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    return _respond(ErrorAnswer(error=" ".join(text.split())), status, headers)
