"""Forecasts that were really sat through: a ledger, the gateway, a workshop, and forecasters told what to do."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bot.clock import SeededRandom
from bot.config.llm_schema import LlmSection
from bot.config.schema import ResearchSection
from bot.desk.combine import Pool
from bot.desk.workshop import Engine, Workshop
from bot.domain.forecast import Forecast, Limits
from bot.domain.prediction import Binary, BinaryShape
from bot.domain.prompt import Completion, Finish, Prompt, ToolCall
from bot.domain.question import Crowd, Question, QuestionRef, Target
from bot.domain.research import Hit
from bot.domain.step import Step, Usage
from bot.evaluation.replay import OfflineNetwork
from bot.jobs.calibrate import Calibrator, Identity
from bot.jobs.learn import School, Teacher
from bot.jobs.policy import Reforecast
from bot.jobs.sitting import Means, Seat, begin
from bot.llm.gateway import Gateway, open_gateway
from bot.ports import Desk, Forecaster
from bot.specs import Can
from bot.store.ledger import Ledger, open_ledger
from bot.testing.clock import FakeClock
from bot.testing.llm import ScriptedLlm
from bot.testing.research import MemoryFetcher, PlainReader, ScriptedEngine
from plugins.blf.forecaster import Blf
from plugins.blf.settings import BlfSettings

VENUE = "lantern"
BLF = "blf"
SCHOOL = School(learner=None, shipped=())
Script = Callable[[Question, Desk], AsyncGenerator[Step, None]]


@dataclass(frozen=True, slots=True)
class Playing:
    """Implements the port Forecaster with a function."""

    script: Script

    def steps(self, question: Question, desk: Desk) -> AsyncGenerator[Step, None]:
        return self.script(question, desk)


def question(key: str = "rain", **changes: Any) -> Question:
    clock = FakeClock()
    given: dict[str, Any] = {
        "ref": QuestionRef(VENUE, key),
        "title": f"Will there be {key}?",
        "shape": BinaryShape(),
        "targets": (Target(),),
        "family": "market",
        "source": "almanac",
        "crowd": None if "shape" in changes else Crowd(prediction=Binary(0.4), at=clock.now()),
    }
    return Question(**(given | changes))


def hits(count: int = 3) -> list[Hit]:
    return [
        Hit(url=f"https://news.example/{n}", title=f"News {n}", snippet=f"Clouds {n}.", published_at=None)
        for n in range(1, count + 1)
    ]


def move(name: str, arguments: Mapping[str, Any], belief: Mapping[str, Any]) -> Completion:
    """Return one tool call with a belief, as a model with tools writes it."""
    sent = json.dumps({**arguments, "updated_belief": belief})
    calls = (ToolCall(id=f"call-{name}", name=name, arguments=sent),)
    usage = Usage(calls=1, tokens_in=1000, tokens_cached=400, tokens_out=50)
    return Completion(calls=calls, finish=Finish.CALLS, usage=usage)


def thoughts(*percents: float) -> Callable[[Prompt], Completion]:
    """Return a model that searches and believes these in turn, whatever it is told, and submits the last one."""

    def answer(prompt: Prompt) -> Completion:
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
class Theatre:
    """A ledger in which forecasts are sat through; what was used of it stays for a replay to look at."""

    ledger: Ledger
    path: Path
    gateway: Gateway
    llm: ScriptedLlm
    clock: FakeClock
    engine: ScriptedEngine
    forecasters: dict[str, Forecaster] = field(default_factory=dict)
    calibrator: Calibrator = field(default_factory=Identity)
    pool: Pool = Pool.LOGIT_MEAN
    limits: Limits = field(default_factory=Limits)
    section: ResearchSection = field(default_factory=ResearchSection)

    def seat(self, name: str = BLF, *, trials: int = 2, **changes: Any) -> Seat:
        seat = Seat(
            name=name,
            forecaster=self.forecasters.get(name, Blf(BlfSettings())),
            trials=trials,
            pool=self.pool,
            limits=self.limits,
            asks=True,
        )
        return replace(seat, **changes)

    def workshop(self, *, sealed: bool = False) -> Workshop:
        if sealed:
            nowhere = OfflineNetwork()
            return Workshop(
                section=self.section,
                fetcher=nowhere,
                reader=nowhere,
                ledger=self.ledger,
                clock=self.clock,
                sealed=True,
            )
        return Workshop(
            section=self.section,
            fetcher=MemoryFetcher(),
            reader=PlainReader(),
            ledger=self.ledger,
            clock=self.clock,
            engines=[Engine(name="finder", engine=self.engine, abilities=frozenset({Can.SEARCH_BEFORE_DATE}))],
            models=self.gateway,
        )

    async def record(self, asked: Question) -> None:
        await self.ledger.questions.record([asked], seen_at=self.clock.now())

    async def forecast(self, asked: Question, name: str = BLF, **seat: Any) -> Forecast:
        await self.record(asked)
        means = Means(
            ledger=self.ledger,
            teacher=Teacher(ledger=self.ledger, archives=(), schools={name: SCHOOL}, clock=self.clock),
            calibrator=self.calibrator,
            policy=Reforecast(),
            clock=self.clock,
            random=SeededRandom(1),
            benches=self.workshop(),
        )
        sitting = await begin(means, self.seat(name, **seat), asked, "asked for")
        return await sitting.forecast()


def llm_section() -> LlmSection:
    return LlmSection.model_validate(
        {
            "roles": {"main": {"model": "prime:big", "max_tokens": 1000}},
            "budget": {"question_usd": None, "day_usd": None},
            "providers": {"prime": {"attempts": 1}},
        }
    )


@asynccontextmanager
async def open_theatre(folder: Path, llm: ScriptedLlm) -> AsyncIterator[Theatre]:
    """Open a new ledger in the folder, and models that say what the provider is told to."""
    clock = FakeClock()
    path = folder / "ledger.sqlite"

    async def alert(subject: str, text: str) -> None:
        await asyncio.sleep(0)

    async with (
        open_ledger(path, now=clock.now()) as ledger,
        open_gateway(
            llm_section(), {"prime": llm}, ledger=ledger, clock=clock, random=SeededRandom(1), alert=alert
        ) as gateway,
    ):
        engine = ScriptedEngine(hits())
        yield Theatre(ledger=ledger, path=path, gateway=gateway, llm=llm, clock=clock, engine=engine)


def probabilities(steps: Iterator[Step]) -> list[float]:
    found = (step.belief.predictions["outcome"] for step in steps)
    return [one.probability for one in found if isinstance(one, Binary)]
