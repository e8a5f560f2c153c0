"""The engine as it is opened in production, with BLF, against a scripted model server.

Waits of the gateway pass at once.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from bot.config.schema import LlmSection, ResearchSection
from bot.core.beliefs import Step
from bot.core.clock import SeededRandom, SystemClock
from bot.core.forecasts import Trial, TrialLimits
from bot.core.interfaces import ModelProvider, PageFetcher
from bot.core.plugin_specs import PluginContext
from bot.core.predictions import BinaryPrediction, BinaryShape
from bot.core.questions import Question, QuestionRef, Target
from bot.core.research import SearchResult
from bot.core.values import Json
from bot.evaluation.replay import OfflineNetwork, ReplayResult, replay_forecast
from bot.forecasting.aggregation import PoolingMethod
from bot.forecasting.calibration import IdentityCalibrator
from bot.forecasting.forecast_run import ConfiguredForecaster, ForecastContext, NoAnswerError, begin_forecast
from bot.forecasting.parameter_fitting import ForecasterTraining, ParameterFitter
from bot.forecasting.reforecast_policy import ReforecastPolicy
from bot.forecasting.tool_factory import ConfiguredSearchEngine, ToolFactory
from bot.llm.gateway import LlmGateway, open_gateway
from bot.net.client import RetryingHttpClient
from bot.store.forecasts import ForecastTrace
from bot.store.ledger import Ledger
from bot.testing.model_server import CompletionRequest, ScriptedReply, reply_json, reply_tool_calls
from bot.testing.research import FakePageFetcher, PlainTextReader, ScriptedSearchEngine
from plugins.blf.forecaster import BlfForecaster
from plugins.blf.settings import BlfSettings
from plugins.models.litellm import LitellmSettings, open_litellm
from plugins.models.openai_compatible import OpenAiCompatibleSettings, open_openai_compatible
from tests.blank_ledger import open_blank_ledger

KEY = "sk-canary-1f9c27"
COMPATIBLE, LITELLM = "openai_compatible", "litellm"
MODELS = {COMPATIBLE: f"{COMPATIBLE}:local/small", LITELLM: f"{LITELLM}:openai/small"}
SPARE = "-spare"
BLF = "blf"
FIRST = "https://news.example/1"


class NoWaitClock(SystemClock):
    """Real time, but for waits: they pass at once and are listed in ``waits``."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSetup:
    """How a stage is set up; ``provider`` adds to the table of the provider, ``role`` to that of the role main."""

    kind: str = COMPATIBLE
    dialect: str = "tools"
    role: Mapping[str, Any] = field(default_factory=dict)
    provider: Mapping[str, Any] = field(default_factory=lambda: {"attempts": 1})
    research: ResearchSection = field(default_factory=ResearchSection)
    budget: Mapping[str, Any] = field(default_factory=lambda: {"question_usd": None, "day_usd": None})
    free: bool = True
    # Whether a second model, its name with SPARE behind it, is asked where the first one fails.
    spare: bool = False

    def llm(self) -> LlmSection:
        """Return the section of config."""
        model = MODELS[self.kind]
        priced = {"free": True} if self.free else {"price_in": 1.0, "price_cached": 0.1, "price_out": 4.0}
        names = [model, f"{model}{SPARE}"] if self.spare else [model]
        behind = {"fallback": names[-1]} if self.spare else {}
        return LlmSection.model_validate(
            {
                "roles": {"main": {"model": model, "max_tokens": 1000, "timeout_s": 60.0, **behind, **self.role}},
                "models": {name: {"dialect": self.dialect, **priced} for name in names},
                "providers": {self.kind: dict(self.provider)},
                "budget": dict(self.budget),
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """The result of a forecast: everything on record of it."""

    trace: ForecastTrace

    @property
    def trial(self) -> Trial:
        """The first trial, which has ended."""
        trial = self.trace.trials[0].trial
        assert trial is not None
        return trial

    @property
    def steps(self) -> list[Step]:
        """The steps of the first trial."""
        return [logged.step for logged in self.trace.trials[0].steps]

    @property
    def actions(self) -> list[str]:
        """What was done at each step."""
        return [step.action.name for step in self.steps]

    @property
    def probability(self) -> float:
        """What the first trial believes in the end, of a yes-or-no question."""
        assert self.trial.belief is not None
        prediction = self.trial.belief.predictions["outcome"]
        assert isinstance(prediction, BinaryPrediction)
        return prediction.probability


@dataclass(kw_only=True)
class EngineFixture:
    """The engine, opened."""

    ledger: Ledger
    path: Path
    gateway: LlmGateway
    clock: NoWaitClock
    setup: EngineSetup
    engine: ScriptedSearchEngine = field(default_factory=lambda: ScriptedSearchEngine(hits()))
    fetcher: PageFetcher = field(default_factory=lambda: FakePageFetcher(web={FIRST: "News 1\nThe lamp is dark."}))
    reader: Any = field(default_factory=PlainTextReader)
    blocked: frozenset[str] = frozenset()
    alerts: list[str] = field(default_factory=list)

    def make_tool_factory(self, *, sealed: bool = False) -> ToolFactory:
        """Return the tool factory, or one in which nothing is asked, fetched or written."""
        nowhere = OfflineNetwork()
        return ToolFactory(
            section=self.setup.research,
            fetcher=nowhere if sealed else self.fetcher,
            reader=nowhere if sealed else self.reader,
            ledger=self.ledger,
            clock=self.clock,
            search_engines=[ConfiguredSearchEngine(name="finder", engine=self.engine, bounds_dates=True)],
            blocked_hosts=self.blocked,
            models=None if sealed else self.gateway,
            read_only=sealed,
        )

    def configure_forecaster(
        self, limits: TrialLimits, settings: BlfSettings | None = None, trials: int = 1
    ) -> ConfiguredForecaster:
        """Return BLF with these limits."""
        forecaster = BlfForecaster(settings or BlfSettings())
        return ConfiguredForecaster(
            name=BLF,
            implementation=forecaster,
            trials=trials,
            pool=PoolingMethod.LOGIT_MEAN,
            limits=limits,
            uses_models=True,
        )

    async def play(self, asked: Question, limits: TrialLimits | None = None, **configured: Any) -> RecordedRun:
        """Forecast a question to its end, or to the end of all its trials where they failed."""
        await self.ledger.questions.record([asked], seen_at=self.clock.now())
        forecast_context = ForecastContext(
            ledger=self.ledger,
            parameter_fitter=ParameterFitter(
                ledger=self.ledger,
                archives=(),
                trainings={BLF: ForecasterTraining(learner=None, shipped_parameters=())},
                clock=self.clock,
            ),
            calibrator=IdentityCalibrator(),
            policy=ReforecastPolicy(),
            clock=self.clock,
            random=SeededRandom(1),
            resources=self.make_tool_factory(),
        )
        running_forecast = await begin_forecast(
            forecast_context,
            self.configure_forecaster(limits or TrialLimits(seconds=20.0), **configured),
            asked,
            "asked for",
        )
        try:
            await running_forecast.run()
        except NoAnswerError as error:
            await self.ledger.forecasts.fail(running_forecast.running.id, why=str(error), at=self.clock.now())
        return RecordedRun(trace=await self.ledger.forecasts.trace(running_forecast.running.id))

    async def again(
        self, played: RecordedRun, limits: TrialLimits | None = None, **configured: Any
    ) -> ReplayResult | None:
        """Run a forecast again on its record alone; None where there is none, for its trials failed."""
        if played.trace.forecast is None:
            assert not played.trial.is_answer
            return None
        seated = self.configure_forecaster(limits or TrialLimits(seconds=20.0), **configured)
        return await replay_forecast(played.trace, seated, self.make_tool_factory(sealed=True), SeededRandom(1), None)

    async def open_calls(self) -> int:
        """Return how many calls are neither answered nor failed."""
        statement = "select count(*) from model_call where state not in ('done', 'failed')"
        return await self.ledger.calls.readers.run(lambda database: int(database.execute(statement).fetchone()[0]))


@asynccontextmanager
async def open_engine(
    folder: Path, base_url: str, setup: EngineSetup | None = None, clock: NoWaitClock | None = None
) -> AsyncIterator[EngineFixture]:
    """Open everything on a ledger in the folder, with the models at that address."""
    chosen, clock, path = setup or EngineSetup(), clock or NoWaitClock(), folder / "ledger.sqlite"
    alerts: list[str] = []

    async def alert(subject: str, text: str) -> None:
        await asyncio.sleep(0)
        alerts.append(f"{subject}: {text}")

    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(RetryingHttpClient(clock=clock, random=SeededRandom(1)))
        place = PluginContext(clock=clock, http=http, folder=folder)
        llm = await stack.enter_async_context(_provider(chosen.kind, base_url, place))
        ledger = await stack.enter_async_context(open_blank_ledger(path, now=clock.now()))
        gateway = await stack.enter_async_context(
            open_gateway(
                chosen.llm(), {chosen.kind: llm}, ledger=ledger, clock=clock, random=SeededRandom(1), alert=alert
            )
        )
        yield EngineFixture(ledger=ledger, path=path, gateway=gateway, clock=clock, setup=chosen, alerts=alerts)


@asynccontextmanager
async def _provider(kind: str, base_url: str, place: PluginContext) -> AsyncIterator[ModelProvider]:
    if kind == LITELLM:
        settings = LitellmSettings.model_validate({"keys": {"openai": KEY}, "base_urls": {"openai": base_url}})
        async with open_litellm(settings, place) as llm:
            yield llm
        return
    endpoint = {"base_url": base_url, "api_key": KEY}
    async with open_openai_compatible(
        OpenAiCompatibleSettings.model_validate({"endpoints": {"local": endpoint}}), place
    ) as llm:
        yield llm


def question(key: str = "lamp", **changes: Any) -> Question:
    """Return a live question that is to be answered with yes or no, and soon: there will be no other attempt."""
    given: dict[str, Any] = {
        "ref": QuestionRef("lantern", key),
        "title": f"Will the {key} be lit this month?",
        "shape": BinaryShape(),
        "targets": (Target(resolves_at=SystemClock().now() + timedelta(days=30)),),
        "closes_at": SystemClock().now() + timedelta(hours=1),
        "family": "market",
        "source": "almanac",
    }
    return Question(**(given | changes))


def hits(count: int = 3, **changes: Any) -> Sequence[SearchResult]:
    """Return some results of a search."""
    given: dict[str, Any] = {"published_at": None, **changes}
    numbers = range(1, count + 1)
    return [
        SearchResult(**{"url": f"https://news.example/{n}", "title": f"News {n}", "snippet": f"Item {n}.", **given})
        for n in numbers
    ]


def believed(percent: float, asked: CompletionRequest, **more: Json) -> dict[str, Json]:
    """Return an update of the belief in the units of the dialect."""
    value: dict[str, Json] = {"percent": round(percent)} if asked.schema is not None else {"probability": percent / 100}
    return {"update_reasoning": "as read", "confidence": "medium", **value, **more}


def act(asked: CompletionRequest, name: str, arguments: Mapping[str, Json], belief: Json = None) -> ScriptedReply:
    """Make a move in the dialect in which it is asked for; without a belief where that is None."""
    if asked.schema is not None:
        fields: dict[str, Json] = {} if belief is None else {"updated_belief": belief}
        return reply_json({"action": name, "arguments": dict(arguments), **fields})
    update: dict[str, Json] = {} if belief is None else {"updated_belief": belief}
    return reply_tool_calls((name, {**arguments, **update}))


def submit(asked: CompletionRequest, percent: float) -> ScriptedReply:
    """Submit a probability of yes."""
    value: dict[str, Json] = {"percent": round(percent)} if asked.schema is not None else {"probability": percent / 100}
    return act(asked, "submit", {**value, "reasoning": "all in all"}, believed(percent, asked))


def search(asked: CompletionRequest, query: str = "lamp", percent: float = 40.0) -> ScriptedReply:
    """Search the web, believing this."""
    return act(asked, "web_search", {"query": query}, believed(percent, asked))


def look_up(asked: CompletionRequest, url: str, percent: float = 40.0) -> ScriptedReply:
    """Open an address, believing this."""
    return act(asked, "lookup_url", {"url": url}, believed(percent, asked))


def answers_to_calls(body: Mapping[str, Any]) -> list[tuple[list[str], list[str]]]:
    """Return, for each message of the model with calls, the ids of its calls and of the answers right behind it."""
    messages = body["messages"]
    found = []
    for place, message in enumerate(messages):
        if message.get("tool_calls"):
            ids = [one["id"] for one in message["tool_calls"]]
            following = messages[place + 1 : place + 1 + len(ids)]
            found.append((ids, [one.get("tool_call_id") for one in following]))
    return found


def arguments_of(reply: ScriptedReply) -> dict[str, Any]:
    """Return what a reply says as JSON, in either dialect."""
    sent: dict[str, Any] = json.loads(reply.calls[0][1] if reply.calls else reply.text or "{}")
    return sent
