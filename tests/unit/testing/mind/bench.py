"""The engine on questions of a simulated world: a simulated mind over real HTTP, the world's own press and crowd."""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from bot.config.llm_schema import LlmSection
from bot.config.schema import ResearchSection
from bot.desk.parts import Gauge
from bot.domain.prediction import Binary, BinaryShape, Choice, ChoiceShape, Curve, CurveShape
from bot.domain.question import Crowd, Question, QuestionRef, Target
from bot.domain.research import Hit, Series
from bot.specs import DataSpec, Settings
from bot.testing.research import MemoryFetcher, MemorySeries
from bot.testing.venues.kit import serve
from bot.testing.world.ask import Ask, Form
from bot.testing.world.habits import Habits
from bot.testing.world.mind_server import MODEL, STRICT, MindServer
from bot.testing.world.news import Article, Newsroom
from bot.testing.world.world import World
from tests.integration.stage import COMPATIBLE, HurriedClock, Setup, Stage, staged

START = datetime(2026, 1, 5, tzinfo=UTC)
SITE = "https://press.example/news"
_WORD = re.compile(r"[a-z0-9]+")
NAMED = f"{COMPATIBLE}:local/{MODEL}"


class PastClock(HurriedClock):
    """A clock that stands still on a day of the world."""

    def __init__(self, at: datetime) -> None:
        super().__init__()
        self.at = at

    def now(self) -> datetime:
        return self.at


class SimulatedSetup(Setup):
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
class Papers:
    """Implements the port SearchEngine over a world's press as it stands on a day; the nearest by words come first."""

    newsroom: Newsroom
    day: float = 0.0
    searched: list[str] = field(default_factory=list)

    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[Hit]:
        self.searched.append(query)
        wanted = set(_WORD.findall(query.casefold()))
        rated = []
        for article in self.newsroom.published(self.day):
            words = set(_WORD.findall(f"{article.title} {article.at(self.day).text}".casefold()))
            rated.append((len(wanted & words), article.published, article))
        best = sorted(rated, key=lambda one: one[:2], reverse=True)[:limit]
        return [self._hit(article) for share, _, article in best if share >= 2]

    def pages(self) -> dict[str, str]:
        """Return all pages as readers see them, by address."""
        found = self.newsroom.published(self.day)
        return {f"{SITE}/{one.id}": f"{one.title}\n{one.at(self.day).text}" for one in found}

    def _hit(self, article: Article) -> Hit:
        text = article.at(self.day).text
        at = self.newsroom.world.calendar.at(article.published)
        return Hit(url=f"{SITE}/{article.id}", title=article.title, snippet=text[:120], published_at=at)


def question_of(world: World, ask: Ask, day: float, *, crowd: bool = True) -> Question:
    """Return what a venue would show of an ask on the day."""
    at = world.calendar.at
    shape = _shape(world, ask)
    said = _said(world, ask, day, shape) if crowd and ask.form is not Form.DATES else None
    days = ask.horizons or (ask.until,)
    return Question(
        ref=QuestionRef("lantern", f"{ask.key}/{day:g}"),
        title=ask.title,
        background=ask.background,
        criteria=ask.criteria,
        shape=shape,
        targets=tuple(Target(resolves_at=at(one), key=f"{at(one):%Y-%m-%d}") for one in days)
        if ask.horizons
        else (Target(resolves_at=at(ask.until)),),
        closes_at=at(ask.closes),
        family="market",
        source="almanac",
        crowd=None if said is None else Crowd(prediction=said, at=at(day)),
    )


def _shape(world: World, ask: Ask) -> Any:
    if ask.form is Form.CHOICE:
        return ChoiceShape(options=tuple(ask.happening))
    if ask.scale is None:
        return BinaryShape()
    low, high = ask.scale.low, ask.scale.high
    days = [low + (high - low) * step / 100 for step in range(101)]
    dated = ask.form is Form.DATE
    grid = tuple(world.calendar.at(one).timestamp() if dated else one for one in days)
    unit = "date" if dated else ask.scale.unit
    return CurveShape(grid=grid, unit=unit, open_lower=ask.scale.open_low, open_upper=ask.scale.open_high)


def _said(world: World, ask: Ask, day: float, shape: Any) -> Any:
    if isinstance(shape, CurveShape):
        assert ask.scale is not None
        values = np.linspace(ask.scale.low, ask.scale.high, 101)
        cdf = np.maximum.accumulate(world.guess(ask, day, values))
        # What lies below a closed end is nothing, also where a crowd is in doubt.
        return Curve(tuple(cdf if ask.scale.open_low else np.append(0.0, cdf[1:])))
    price = world.price(ask, day)
    return Choice(dict(price)) if isinstance(price, Mapping) else Binary(price)


def lay_out(stage: Stage, world: World, day: float) -> None:
    """Put the world's series, as far as they are known on the day, on the desk of the stage."""
    named = {
        name: Series(
            name=name,
            unit=strip.unit,
            source="almanac",
            dates=tuple(world.calendar.at(one).date() for one in rows),
            values=tuple(rows.values()),
        )
        for name, strip in world.strips.items()
        if (rows := world.series(name, day))
    }
    gauge = Gauge(spec=DataSpec(name="almanac", summary="Series", settings=Settings), source=MemorySeries(named))
    plain = Stage.workshop
    stage.workshop = lambda **more: replace(plain(stage, **more), gauges={"almanac": gauge})  # type: ignore[method-assign]


@asynccontextmanager
async def benched(
    folder: Path, habits: Habits | None = None, dialect: str = "tools"
) -> AsyncIterator[tuple[Stage, MindServer]]:
    """Open the engine on a day of the world, with a mind of these habits."""
    server = MindServer(HurriedClock(), {MODEL: habits or Habits()}, strict=STRICT)
    setup = SimulatedSetup(dialect=dialect, desk=ResearchSection(filter=False))
    async with serve(server) as served, staged(folder, f"{served.url}/v1", setup) as stage:
        yield stage, server


def put(stage: Stage, papers: Papers, day: float) -> None:
    """Let it be that day on the stage, with the papers of the day."""
    papers.day = day
    stage.clock = PastClock(START + timedelta(days=day))
    stage.engine = papers  # type: ignore[assignment]  # another engine of the same port
    stage.fetcher = MemoryFetcher(web=papers.pages())
