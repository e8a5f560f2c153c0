"""Forecasts that callers ask for over HTTP: recorded like all others, apart from what is submitted, within budgets."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from datetime import UTC, datetime, timedelta
from datetime import time as day_time

import structlog

from bot.app.app import FoxcastApp
from bot.core.errors import FoxcastError, NotFoundError, describe_error
from bot.core.forecasts import Forecast
from bot.core.ids import derive_id
from bot.core.light_dataclass import dataclass
from bot.core.predictions import BinaryPrediction, BinaryShape, ChoicePrediction, ChoiceShape, Prediction, QuestionShape
from bot.core.questions import CrowdForecast, Question, QuestionRef, Target
from bot.core.redaction import redact_foreign_message
from bot.core.values import require_timezone
from bot.forecasting.cost_check import expected_cost
from bot.forecasting.forecast_run import REQUESTED_REASON, NoAnswerError, begin_forecast
from bot.jobs.operator_requests import record_open_question
from bot.plugin_system.registry import with_all_members
from bot.store.cost_totals import CostGrouping
from bot.store.forecasts import ForecastTrace
from bot.store.integrity_checks import low_disk_reason
from bot.store.serialization import SETUP
from bot.web.api_callers import ApiCaller, ApiRefusal
from bot.web.api_schema import API_PREFIX, ForecastAnswer, ForecastRequest

log = structlog.get_logger(__name__)

ASKED_VENUE = "asked"
YES, NO = "yes", "no"
# The same question gets the same forecast for so long.
ANSWER_AGE = timedelta(hours=1)
MAX_RATIONALE_CHARS = 8_000
# Finished and failed ones are remembered in memory; the ledger has them for good.
MAX_REMEMBERED = 1_000


@dataclass(slots=True, kw_only=True)
class _AskedForecast:
    """A forecast that runs or ended in this process; ``reserved_usd`` counts against the caller while it runs."""

    caller: str
    ref: QuestionRef
    task: asyncio.Task[str]
    reserved_usd: float = 0.0


@dataclass(slots=True, kw_only=True)
class AskedForecasts:
    """Makes asked forecasts with one forecaster of an open Foxcast; ``forecaster`` None means that none is made."""

    app: FoxcastApp
    forecaster: str | None
    deadline_s: float
    _asked: dict[str, _AskedForecast] = field(default_factory=dict)
    _beginning: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def aclose(self) -> None:
        """Cancel what runs: a later request for the same question continues it."""
        tasks = [one.task for one in self._asked.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def ask(self, caller: ApiCaller, request: ForecastRequest) -> ForecastAnswer:
        """Return the forecast, or its state at the deadline; raises ApiRefusal."""
        question = make_question(caller.name, request, now=self.app.clock.now())
        name = question.ref.key.rpartition("/")[2]
        # One at a time, so that the same question is not begun twice, and nobody exceeds its limits.
        async with self._beginning:
            running = self._asked.get(name)
            if running is None and (recent := await self._recent_forecast(question.ref)) is not None:
                return await self._recorded_answer(name, recent)
            if running is None or (running.task.done() and await self._is_outdated(running)):
                running = await self._begin(caller, question)
                self._remember(name, running)
        wait_s = self.deadline_s if request.deadline_s is None else min(request.deadline_s, self.deadline_s)
        await asyncio.wait([running.task], timeout=wait_s)
        return await self._answer(name, running)

    async def read(self, caller: ApiCaller, name: str) -> ForecastAnswer:
        """Return the state of an asked forecast, or a forecast on record; raises NotFoundError."""
        running = self._asked.get(name)
        if running is not None and (caller.reads_all or running.caller == caller.name):
            return await self._answer(name, running)
        if caller.reads_all:
            with suppress(NotFoundError):
                return await self._recorded_answer(name, await self.app.ledger.forecasts.get(name))
        ref = QuestionRef(ASKED_VENUE, f"{caller.name}/{name}")
        history = [one for one in await self.app.ledger.forecasts.history(ref) if one.forecaster == self.forecaster]
        if not history:
            message = f"there is no forecast {name}; if it was interrupted, ask for it again"
            raise NotFoundError(message)
        return await self._recorded_answer(name, max(history, key=lambda one: one.made_at))

    async def _begin(self, caller: ApiCaller, question: Question) -> _AskedForecast:
        if self.forecaster is None or self.forecaster not in self.app.forecasters:
            raise ApiRefusal(503, "no forecaster answers questions here; name it: [serve] forecaster, and in a venue")
        if reason := low_disk_reason(self.app.folder, self.app.config.daemon.min_free_mb * 1e6):
            raise ApiRefusal(503, reason)
        reserved = await self._reserve(caller)
        await record_open_question(self.app.ledger, question, now=self.app.clock.now())
        known = await self.app.ledger.questions.get(question.ref)
        task = asyncio.create_task(self._forecast(known, self.forecaster))
        return _AskedForecast(caller=caller.name, ref=question.ref, task=task, reserved_usd=reserved)

    async def _reserve(self, caller: ApiCaller) -> float:
        """Return what a forecast is expected to cost; raises ApiRefusal where that exceeds the limits of the caller."""
        if caller.limits is None:
            return 0.0
        running = [one for one in self._asked.values() if one.caller == caller.name and not one.task.done()]
        if len(running) >= caller.limits.running:
            raise ApiRefusal(429, f"{len(running)} of your forecasts run already; wait for one", retry_after_s=10)
        cost = await self._expected_usd()
        if cost == 0.0:
            return 0.0
        spent = await self._spent_usd(caller.name) + sum(one.reserved_usd for one in running)
        if cost is None or spent + cost > caller.limits.day_usd:
            expected = "an unknown amount" if cost is None else f"about {cost:.2f}"
            left, of = max(0.0, caller.limits.day_usd - spent), caller.limits.day_usd
            text = f"a forecast costs {expected} US dollars, and {left:.2f} of your {of:.2f} a day (UTC) are left"
            raise ApiRefusal(429, text)
        return cost

    async def _expected_usd(self) -> float | None:
        """Return the expected cost of the forecaster and its members, None where a price is unknown."""
        gateway, app = self.app.gateway, self.app
        names = with_all_members(app.config, app.registry, [self.forecaster or ""])
        paid = [app.forecasters[name] for name in names if app.forecasters[name].uses_models]
        if gateway is None or not paid:
            return 0.0
        costs = [await expected_cost(gateway, one, 1) for one in paid]
        return None if None in costs else sum(cost or 0.0 for cost in costs)

    async def _spent_usd(self, caller: str) -> float:
        today = datetime.combine(self.app.clock.now().astimezone(UTC).date(), day_time.min, UTC)
        rows = await self.app.ledger.calls.costs(CostGrouping.QUESTION, since=today)
        return sum(row.usage.cost_usd for row in rows if row.name.startswith(f"{ASKED_VENUE}:{caller}/"))

    async def _forecast(self, question: Question, name: str) -> str:
        """Make the forecast, after those of its members, and return its id."""
        context, forecasters = self.app.forecast_context, self.app.forecasters
        for member in with_all_members(self.app.config, self.app.registry, [name]):
            run = await begin_forecast(context, forecasters[member], question, REQUESTED_REASON, apart=True)
            try:
                forecast = await run.run()
            except NoAnswerError as error:
                await self.app.ledger.forecasts.fail(run.running.id, why=str(error), at=self.app.clock.now())
                if member == name:
                    raise
                log.warning("a member is left out", forecaster=member, question=str(question.ref), why=str(error))
        return forecast.id

    def _remember(self, name: str, running: _AskedForecast) -> None:
        self._asked.pop(name, None)
        ended = [key for key, one in self._asked.items() if one.task.done()]
        for key in ended[: max(0, len(self._asked) - MAX_REMEMBERED)]:
            del self._asked[key]
        self._asked[name] = running

    async def _is_outdated(self, ended: _AskedForecast) -> bool:
        """Return whether a forecast that ended has failed, or is too old to be repeated."""
        if ended.task.cancelled() or ended.task.exception() is not None:
            return True
        return self._is_old(await self.app.ledger.forecasts.get(ended.task.result()))

    async def _recent_forecast(self, ref: QuestionRef) -> Forecast | None:
        """Return the forecast that an earlier process made not long ago with the present setup, or None."""
        forecaster = self.app.forecasters.get(self.forecaster or "")
        if forecaster is None:
            return None
        found = await self.app.ledger.forecasts.latest(ref, forecaster.name)
        if found is None or self._is_old(found):
            return None
        setup = (await self.app.ledger.forecasts.trace(found.id)).setup
        return found if setup is not None and SETUP.encode(setup) == SETUP.encode(forecaster.setup) else None

    def _is_old(self, forecast: Forecast) -> bool:
        return self.app.clock.now() - forecast.made_at > ANSWER_AGE

    async def _answer(self, name: str, running: _AskedForecast) -> ForecastAnswer:
        if not running.task.done():
            poll = f"{API_PREFIX}/forecasts/{name}"
            return self._unfinished_answer(name, running, "running", poll=poll)
        if running.task.cancelled():
            return self._unfinished_answer(name, running, "failed", error="it was interrupted; ask for it again")
        if (error := running.task.exception()) is not None:
            if not isinstance(error, FoxcastError):
                log.error("an asked forecast failed", question=str(running.ref), error=describe_error(error))
            return self._unfinished_answer(name, running, "failed", error=redact_foreign_message(describe_error(error)))
        return await self._recorded_answer(name, await self.app.ledger.forecasts.get(running.task.result()))

    def _unfinished_answer(self, name: str, running: _AskedForecast, status: str, **fields: str) -> ForecastAnswer:
        plain = {"id": name, "status": status, "question": str(running.ref), "forecaster": self.forecaster or ""}
        return ForecastAnswer.model_validate({**plain, **fields})

    async def _recorded_answer(self, name: str, forecast: Forecast) -> ForecastAnswer:
        trace = await self.app.ledger.forecasts.trace(forecast.id)
        return ForecastAnswer(
            id=name,
            status="done",
            question=str(forecast.ref),
            forecaster=forecast.forecaster,
            probabilities=probabilities_of(forecast.predictions),
            rationale=_rationale(trace),
            forecast=forecast.id,
            made_at=forecast.made_at,
        )


def make_question(caller: str, request: ForecastRequest, *, now: datetime) -> Question:
    """Return the question; its name is made of the caller and the content. Raises ApiRefusal for a closed one."""
    try:
        require_timezone("closes_at:", request.closes_at)
    except ValueError as error:
        raise ApiRefusal(400, str(error)) from error
    if request.closes_at is not None and request.closes_at <= now:
        raise ApiRefusal(400, f"closes_at: {request.closes_at.isoformat()} is in the past")
    content = request.model_dump_json(exclude={"deadline_s", "probabilities"})
    shape: QuestionShape = ChoiceShape(options=request.options) if request.options else BinaryShape()
    try:
        crowd = _crowd_prediction(request)
        return Question(
            ref=QuestionRef(ASKED_VENUE, f"{caller}/{derive_id('asked', caller, content)}"),
            title=request.title,
            shape=shape,
            targets=(Target(resolves_at=request.closes_at),),
            criteria=request.description,
            background=_sources_text(request),
            closes_at=request.closes_at,
            family="market",
            crowd=None if crowd is None else CrowdForecast(prediction=crowd, at=now, explanation="given by the caller"),
            facts={"caller": caller},
        )
    except ValueError as error:
        raise ApiRefusal(400, f"probabilities: {error}") from error


def probabilities_of(predictions: Mapping[str, Prediction]) -> dict[str, float] | None:
    """Return the probabilities of the only target by option, or of yes and no; None for numbers and several targets."""
    if len(predictions) != 1:
        return None
    match next(iter(predictions.values())):
        case BinaryPrediction(probability=probability):
            return {YES: probability, NO: 1.0 - probability}
        case ChoicePrediction(probabilities=probabilities):
            return dict(probabilities)
        case _:
            return None


def _crowd_prediction(request: ForecastRequest) -> Prediction | None:
    if not request.probabilities:
        return None
    if request.options:
        return ChoicePrediction(request.probabilities)
    if not {YES} <= {*request.probabilities} <= {YES, NO}:
        message = 'should be {"yes": ...} for a question of yes or no'
        raise ValueError(message)
    return BinaryPrediction(request.probabilities[YES])


def _sources_text(request: ForecastRequest) -> str:
    parts = ["\n".join(filter(None, (one.title, one.url, one.text))) for one in request.sources]
    return "\n\n".join(f"Source {number}, given with the question:\n{text}" for number, text in enumerate(parts, 1))


def _rationale(trace: ForecastTrace) -> str:
    """Return the last reason of each trial that counts."""
    reasons = [
        record.steps[-1].step.belief.reason.strip()
        for record in trace.trials
        if record.steps and record.trial is not None and record.trial.is_answer
    ]
    return "\n\n".join(dict.fromkeys(filter(None, reasons)))[:MAX_RATIONALE_CHARS]
