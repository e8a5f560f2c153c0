"""Forecasts that are really run: a ledger, the gateway, the tools, and scripted forecasters."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bot.config.schema import LlmSection, ResearchSection
from bot.core.beliefs import ModelUsage, Step
from bot.core.clock import SeededRandom
from bot.core.forecasts import Forecast, TrialLimits
from bot.core.interfaces import Forecaster, TrialContext
from bot.core.language_models import FinishReason, ModelCompletion, Prompt, ToolCall
from bot.core.predictions import BinaryPrediction, BinaryShape
from bot.core.questions import CrowdForecast, Question, QuestionRef, Target
from bot.core.research import SearchResult
from bot.evaluation.replay import OfflineNetwork
from bot.forecasting.aggregation import PoolingMethod
from bot.forecasting.calibration import IdentityCalibrator, PredictionCalibrator
from bot.forecasting.forecast_run import ConfiguredForecaster, ForecastContext, begin_forecast
from bot.forecasting.parameter_fitting import ForecasterTraining, ParameterFitter
from bot.forecasting.reforecast_policy import ReforecastPolicy
from bot.forecasting.tool_factory import ConfiguredSearchEngine, ToolFactory
from bot.llm.gateway import LlmGateway, open_gateway
from bot.store.ledger import Ledger
from bot.testing.clock import FakeClock
from bot.testing.models import ScriptedModelProvider
from bot.testing.research import FakePageFetcher, PlainTextReader, ScriptedSearchEngine
from plugins.blf.forecaster import BlfForecaster
from plugins.blf.settings import BlfSettings
from tests.blank_ledger import open_blank_ledger

VENUE = "lantern"
BLF = "blf"
SCHOOL = ForecasterTraining(learner=None, shipped_parameters=())
Script = Callable[[Question, TrialContext], AsyncGenerator[Step, None]]


@dataclass(frozen=True, slots=True)
class FunctionForecaster:
    """Implements Forecaster with a function."""

    script: Script

    def steps(self, question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        return self.script(question, context)


def question(key: str = "rain", **changes: Any) -> Question:
    clock = FakeClock()
    given: dict[str, Any] = {
        "ref": QuestionRef(VENUE, key),
        "title": f"Will there be {key}?",
        "shape": BinaryShape(),
        "targets": (Target(),),
        "family": "market",
        "source": "almanac",
        "crowd": None if "shape" in changes else CrowdForecast(prediction=BinaryPrediction(0.4), at=clock.now()),
    }
    return Question(**(given | changes))


def hits(count: int = 3) -> list[SearchResult]:
    return [
        SearchResult(url=f"https://news.example/{n}", title=f"News {n}", snippet=f"Clouds {n}.", published_at=None)
        for n in range(1, count + 1)
    ]


def move(name: str, arguments: Mapping[str, Any], belief: Mapping[str, Any]) -> ModelCompletion:
    """Return one tool call with a belief, as a model with tools writes it."""
    sent = json.dumps({**arguments, "updated_belief": belief})
    calls = (ToolCall(id=f"call-{name}", name=name, arguments=sent),)
    usage = ModelUsage(calls=1, tokens_in=1000, tokens_cached=400, tokens_out=50)
    return ModelCompletion(calls=calls, finish=FinishReason.CALLS, usage=usage)


def model_with_beliefs(*percents: float) -> Callable[[Prompt], ModelCompletion]:
    """Return a model that searches and believes these in turn, whatever it is asked, and submits the last one."""

    def answer(prompt: Prompt) -> ModelCompletion:
        step = sum(message.speaker == "assistant" for message in prompt.messages)
        value = percents[min(step, len(percents) - 1)]
        belief = {
            "probability": value,
            "confidence": "medium",
            "update_reasoning": f"thought {step + 1}",
            "base_rate_anchor": "it rains on two days of five",
            "evidence_for": [{"text": f"clouds, seen {step + 1} times", "source": "search_1_result_2"}],
            "key_uncertainties": [f"which wind, asked {step + 1}"],
        }
        if step + 1 >= len(percents):
            return move("submit", {"probability": value, "reasoning": "all in all"}, belief)
        return move("web_search", {"query": f"weather {step + 1}"}, belief)

    return answer


@dataclass
class ForecastRunFixture:
    """A ledger in which forecasts are sat through; what was used of it stays for a replay to look at."""

    ledger: Ledger
    path: Path
    gateway: LlmGateway
    llm: ScriptedModelProvider
    clock: FakeClock
    engine: ScriptedSearchEngine
    forecasters: dict[str, Forecaster] = field(default_factory=dict)
    calibrator: PredictionCalibrator = field(default_factory=IdentityCalibrator)
    pool: PoolingMethod = PoolingMethod.LOGIT_MEAN
    limits: TrialLimits = field(default_factory=TrialLimits)
    section: ResearchSection = field(default_factory=ResearchSection)

    def configure_forecaster(self, name: str = BLF, *, trials: int = 2, **changes: Any) -> ConfiguredForecaster:
        configured = ConfiguredForecaster(
            name=name,
            implementation=self.forecasters.get(name, BlfForecaster(BlfSettings())),
            trials=trials,
            pool=self.pool,
            limits=self.limits,
            uses_models=True,
        )
        return replace(configured, **changes)

    def make_tool_factory(self, *, sealed: bool = False) -> ToolFactory:
        if sealed:
            nowhere = OfflineNetwork()
            return ToolFactory(
                section=self.section,
                fetcher=nowhere,
                reader=nowhere,
                ledger=self.ledger,
                clock=self.clock,
                read_only=True,
            )
        return ToolFactory(
            section=self.section,
            fetcher=FakePageFetcher(),
            reader=PlainTextReader(),
            ledger=self.ledger,
            clock=self.clock,
            search_engines=[ConfiguredSearchEngine(name="finder", engine=self.engine, bounds_dates=True)],
            models=self.gateway,
        )

    async def record(self, asked: Question) -> None:
        await self.ledger.questions.record([asked], seen_at=self.clock.now())

    async def forecast(self, asked: Question, name: str = BLF, **configured: Any) -> Forecast:
        await self.record(asked)
        forecast_context = ForecastContext(
            ledger=self.ledger,
            parameter_fitter=ParameterFitter(
                ledger=self.ledger, archives=(), trainings={name: SCHOOL}, clock=self.clock
            ),
            calibrator=self.calibrator,
            policy=ReforecastPolicy(),
            clock=self.clock,
            random=SeededRandom(1),
            resources=self.make_tool_factory(),
        )
        running_forecast = await begin_forecast(
            forecast_context, self.configure_forecaster(name, **configured), asked, "asked for"
        )
        return await running_forecast.run()


def llm_section() -> LlmSection:
    return LlmSection.model_validate(
        {
            "roles": {"main": {"model": "prime:big", "max_tokens": 1000}},
            "budget": {"question_usd": None, "day_usd": None},
            "providers": {"prime": {"attempts": 1}},
        }
    )


@asynccontextmanager
async def open_forecast_runs(folder: Path, llm: ScriptedModelProvider) -> AsyncIterator[ForecastRunFixture]:
    """Open a new ledger in the folder, and models that answer as the provider is scripted."""
    clock = FakeClock()
    path = folder / "ledger.sqlite"

    async def alert(subject: str, text: str) -> None:
        await asyncio.sleep(0)

    async with (
        open_blank_ledger(path, now=clock.now()) as ledger,
        open_gateway(
            llm_section(), {"prime": llm}, ledger=ledger, clock=clock, random=SeededRandom(1), alert=alert
        ) as gateway,
    ):
        engine = ScriptedSearchEngine(hits())
        yield ForecastRunFixture(ledger=ledger, path=path, gateway=gateway, llm=llm, clock=clock, engine=engine)


def probabilities(steps: Iterator[Step]) -> list[float]:
    found = (step.belief.predictions["outcome"] for step in steps)
    return [one.probability for one in found if isinstance(one, BinaryPrediction)]
