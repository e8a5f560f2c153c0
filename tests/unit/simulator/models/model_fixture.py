"""The engine on questions of a simulated world, with a simulated model over real HTTP."""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from bot.config.schema import LlmSection, ResearchSection
from bot.core.plugin_specs import DataSpec, PluginSettings
from bot.core.predictions import (
    BinaryPrediction,
    BinaryShape,
    ChoicePrediction,
    ChoiceShape,
    CurvePrediction,
    CurveShape,
)
from bot.core.questions import CrowdForecast, Question, QuestionRef, Target
from bot.core.research import SearchResult, TimeSeries
from bot.forecasting.services import ConfiguredDataSource
from bot.simulator.fake_service import serve_service
from bot.simulator.models.behaviour import ModelBehaviour
from bot.simulator.models.model_service import DEFAULT_MODEL, STRICT, SimulatedModelServer
from bot.simulator.world.news import NewsArticle, NewsGenerator
from bot.simulator.world.questions import AnswerKind, SimulatedQuestion
from bot.simulator.world.simulated_world import SimulatedWorld
from bot.testing.research import FakeDataSource, FakePageFetcher
from tests.integration.engine_fixture import COMPATIBLE, EngineFixture, EngineSetup, NoWaitClock, open_engine

START = datetime(2026, 1, 5, tzinfo=UTC)
SITE = "https://press.example/news"
_WORD = re.compile(r"[a-z0-9]+")
NAMED = f"{COMPATIBLE}:local/{DEFAULT_MODEL}"


class PastClock(NoWaitClock):
    """A clock that stands still on a day of the world."""

    def __init__(self, at: datetime) -> None:
        super().__init__()
        self.at = at

    def now(self) -> datetime:
        return self.at


class SimulatedSetup(EngineSetup):
    """The setup of a stage with a simulated model in the role main."""

    def llm(self) -> LlmSection:
        return LlmSection.model_validate(
            {
                "roles": {"main": {"model": NAMED, "max_tokens": 4000, "timeout_s": 60.0, **self.role}},
                "models": {NAMED: {"dialect": self.dialect, "free": True}},
                "providers": {COMPATIBLE: dict(self.provider)},
                "budget": dict(self.budget),
            }
        )


@dataclass(kw_only=True)
class FakeNewsSearchEngine:
    """Implements SearchEngine over a world's press as it stands on a day; the nearest by words come first."""

    news: NewsGenerator
    day: float = 0.0
    searched: list[str] = field(default_factory=list)

    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[SearchResult]:
        self.searched.append(query)
        wanted = set(_WORD.findall(query.casefold()))
        rated = []
        for article in self.news.published(self.day):
            words = set(_WORD.findall(f"{article.title} {article.at(self.day).text}".casefold()))
            rated.append((len(wanted & words), article.published, article))
        best = sorted(rated, key=lambda one: one[:2], reverse=True)[:limit]
        return [self._hit(article) for share, _, article in best if share >= 2]

    def pages(self) -> dict[str, str]:
        """Return all pages as readers see them, by address."""
        found = self.news.published(self.day)
        return {f"{SITE}/{one.id}": f"{one.title}\n{one.at(self.day).text}" for one in found}

    def _hit(self, article: NewsArticle) -> SearchResult:
        text = article.at(self.day).text
        at = self.news.world.calendar.moment_of(article.published)
        return SearchResult(url=f"{SITE}/{article.id}", title=article.title, snippet=text[:120], published_at=at)


def question_of(world: SimulatedWorld, ask: SimulatedQuestion, day: float, *, crowd: bool = True) -> Question:
    """Return what a venue would show of an ask on the day."""
    at = world.calendar.moment_of
    shape = _shape(world, ask)
    message = _crowd_prediction(world, ask, day, shape) if crowd and ask.answer_kind is not AnswerKind.DATES else None
    days = ask.horizons or (ask.last_day,)
    return Question(
        ref=QuestionRef("lantern", f"{ask.key}/{day:g}"),
        title=ask.title,
        background=ask.background,
        criteria=ask.criteria,
        shape=shape,
        targets=tuple(Target(resolves_at=at(one), key=f"{at(one):%Y-%m-%d}") for one in days)
        if ask.horizons
        else (Target(resolves_at=at(ask.last_day)),),
        closes_at=at(ask.closes),
        family="market",
        source="almanac",
        crowd=None if message is None else CrowdForecast(prediction=message, at=at(day)),
    )


def _shape(world: SimulatedWorld, ask: SimulatedQuestion) -> Any:
    if ask.answer_kind is AnswerKind.CHOICE:
        return ChoiceShape(options=tuple(ask.event_phrases))
    if ask.scale is None:
        return BinaryShape()
    low, high = ask.scale.low, ask.scale.high
    days = [low + (high - low) * step / 100 for step in range(101)]
    dated = ask.answer_kind is AnswerKind.DATE
    grid = tuple(world.calendar.moment_of(one).timestamp() if dated else one for one in days)
    unit = "date" if dated else ask.scale.unit
    return CurveShape(grid=grid, unit=unit, open_lower=ask.scale.open_low, open_upper=ask.scale.open_high)


def _crowd_prediction(world: SimulatedWorld, ask: SimulatedQuestion, day: float, shape: Any) -> Any:
    if isinstance(shape, CurveShape):
        assert ask.scale is not None
        values = np.linspace(ask.scale.low, ask.scale.high, 101)
        cdf = np.maximum.accumulate(world.crowd_cdf(ask, day, values))
        # What lies below a closed end is nothing, also where a crowd is in doubt.
        return CurvePrediction(tuple(cdf if ask.scale.open_low else np.append(0.0, cdf[1:])))
    price = world.crowd_price(ask, day)
    return ChoicePrediction(dict(price)) if isinstance(price, Mapping) else BinaryPrediction(price)


def offer_series(engine: EngineFixture, world: SimulatedWorld, day: float) -> None:
    """Put the world's series, as far as they are known on the day, into the trial tools of the engine."""
    named = {
        name: TimeSeries(
            name=name,
            unit=strip.unit,
            source="almanac",
            dates=tuple(world.calendar.moment_of(one).date() for one in rows),
            values=tuple(rows.values()),
        )
        for name, strip in world.series_by_name.items()
        if (rows := world.series(name, day))
    }
    gauge = ConfiguredDataSource(
        spec=DataSpec(name="almanac", summary="TimeSeries", settings=PluginSettings), source=FakeDataSource(named)
    )
    plain = EngineFixture.make_tool_factory
    engine.make_tool_factory = lambda **more: replace(plain(engine, **more), data_sources={"almanac": gauge})  # type: ignore[method-assign]


@asynccontextmanager
async def open_model_fixture(
    folder: Path, habits: ModelBehaviour | None = None, dialect: str = "tools"
) -> AsyncIterator[tuple[EngineFixture, SimulatedModelServer]]:
    """Open the engine on a day of the world, with a mind of these habits."""
    server = SimulatedModelServer(NoWaitClock(), {DEFAULT_MODEL: habits or ModelBehaviour()}, strict=STRICT)
    setup = SimulatedSetup(dialect=dialect, research=ResearchSection(filter=False))
    async with serve_service(server) as served, open_engine(folder, f"{served.url}/v1", setup) as engine:
        yield engine, server


def set_day(engine: EngineFixture, papers: FakeNewsSearchEngine, day: float) -> None:
    """Let it be that day on the stage, with the papers of the day."""
    papers.day = day
    engine.clock = PastClock(START + timedelta(days=day))
    engine.engine = papers  # type: ignore[assignment]  # another engine of the same port
    engine.fetcher = FakePageFetcher(web=papers.pages())
