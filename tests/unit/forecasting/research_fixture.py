"""Questions, results and series that most tests of trial tools need, and a tool factory for them."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.api import PluginSettings
from bot.config.schema import ResearchSection
from bot.core.clock import SeededRandom
from bot.core.language_models import CostAttribution
from bot.core.plugin_specs import DataSpec
from bot.core.predictions import BinaryPrediction, BinaryShape
from bot.core.questions import CrowdForecast, Question, QuestionRef, Target
from bot.core.research import Passage, SearchResult, TimeSeries
from bot.forecasting.tool_factory import ConfiguredDataSource, ConfiguredPageSource, ConfiguredSearchEngine, ToolFactory
from bot.forecasting.trial_tools import GuardedTrialContext, RecordedTrialContext
from bot.store.ledger import Ledger
from bot.testing.clock import FakeClock
from bot.testing.research import (
    FakeDataSource,
    FakePageFetcher,
    FakePageSource,
    PlainTextReader,
    ScriptedModelGateway,
    ScriptedSearchEngine,
)

CUTOFF = datetime(2026, 3, 1, tzinfo=UTC)
CHARGE = CostAttribution(scope="f1", ref="lantern:lamp", venue="lantern", forecaster="thinker", trial=1)


def trial_start(**changes: Any) -> GuardedTrialContext:
    """Return a trial that has neither tools nor models yet."""
    given: dict[str, Any] = {"forecast": "f1", "cutoff": CUTOFF, "trial": 1, "fitted": None, "random": SeededRandom(1)}
    return GuardedTrialContext(**(given | changes))


def market(**changes: Any) -> Question:
    """Return a live market; with ``as_of`` it is backdated."""
    question = Question(
        ref=QuestionRef("lantern", "lamp"),
        title="Will the lamp be lit in March?",
        shape=BinaryShape(),
        targets=(Target(resolves_at=CUTOFF + timedelta(days=31)),),
        background="Lit by https://keeper.example/rota in most years.",
        criteria="Resolves as https://harbour.example/lamp/status says.",
        url="https://lantern.example/q/lamp",
        source="almanac",
        family="market",
        crowd=CrowdForecast(prediction=BinaryPrediction(0.3), at=CUTOFF - timedelta(days=1)),
    )
    return dataclasses.replace(question, **changes)


def data_question(**changes: Any) -> Question:
    """Return a backdated question about a series, with three dates."""
    days = (7, 30, 365)
    given: dict[str, Any] = {
        "title": "Will the water stand higher?",
        "criteria": "As https://tides.example/series/LEVEL says.",
        "url": "https://tides.example/series/LEVEL",
        "background": "",
        "source": "tides",
        "family": "dataset",
        "crowd": None,
        "as_of": CUTOFF,
        "targets": tuple(Target(key=f"d{day}", resolves_at=CUTOFF + timedelta(days=day)) for day in days),
    }
    return market(**(given | changes))


def hit(name: str, **changes: Any) -> SearchResult:
    given: dict[str, Any] = {
        "url": f"https://news.example/{name}",
        "title": f"About {name}",
        "snippet": f"Something on {name}.",
        "published_at": CUTOFF - timedelta(days=10),
    }
    return SearchResult(**(given | changes))


def level(days: int = 400, *, beyond: int = 0, name: str = "LEVEL") -> TimeSeries:
    """Return a series of that many days up to the day before the cutoff, and some from the cutoff on."""
    first = CUTOFF.date() - timedelta(days=days)
    dates = tuple(first + timedelta(days=day) for day in range(days + beyond))
    return TimeSeries(name=name, unit="cm", source="Tides", dates=dates, values=tuple(float(d.day) for d in dates))


def passage(heading: str, text: str, revised_at: datetime = CUTOFF - timedelta(days=3)) -> Passage:
    return Passage(url="https://lexicon.example/Lamp", page="Lamp", heading=heading, text=text, revised_at=revised_at)


def spec(name: str, *serves: str, **spoken: Any) -> DataSpec[PluginSettings]:
    return DataSpec(name=name, summary=name, settings=PluginSettings, question_sources=frozenset(serves), **spoken)


@dataclass
class ResearchFixture:
    """A tool factory whose parts a test changes before it opens a trial."""

    ledger: Ledger
    clock: FakeClock
    engine: ScriptedSearchEngine = field(default_factory=ScriptedSearchEngine)
    bounds_dates: bool = True
    engines: Sequence[ConfiguredSearchEngine] | None = None
    fetcher: FakePageFetcher = field(default_factory=FakePageFetcher)
    reader: PlainTextReader = field(default_factory=PlainTextReader)
    models: ScriptedModelGateway | None = None
    data_sources: dict[str, ConfiguredDataSource] = field(default_factory=dict)
    page_sources: dict[str, ConfiguredPageSource] = field(default_factory=dict)
    section: ResearchSection = field(default_factory=ResearchSection)
    blocked: frozenset[str] = frozenset({"lantern.example"})
    opened: list[RecordedTrialContext] = field(default_factory=list)

    def add_data_source(self, source: FakeDataSource, name: str = "tides", **spoken: Any) -> None:
        self.data_sources[name] = ConfiguredDataSource(
            spec=spec(name, spoken.pop("serves", name), **spoken), source=source
        )

    def add_page_source(self, pages: FakePageSource, name: str = "lexicon", **spoken: Any) -> None:
        self.page_sources[name] = ConfiguredPageSource(
            spec=spec(name, spoken.pop("serves", name), **spoken), source=pages
        )

    def tool_factory(self, **changes: Any) -> ToolFactory:
        given: dict[str, Any] = {
            "section": self.section,
            "fetcher": self.fetcher,
            "reader": self.reader,
            "ledger": self.ledger,
            "clock": self.clock,
            "search_engines": self.engines
            or [ConfiguredSearchEngine(name="finder", engine=self.engine, bounds_dates=self.bounds_dates)],
            "data_sources": self.data_sources,
            "page_sources": self.page_sources,
            "blocked_hosts": self.blocked,
            "models": self.models,
        }
        return ToolFactory(**(given | changes))

    def charge(self, scope: str) -> CostAttribution:
        return dataclasses.replace(CHARGE, scope=scope)

    async def open_trial(self, question: Question | None = None, **changes: Any) -> RecordedTrialContext:
        given: dict[str, Any] = {"charge": CHARGE}
        start = trial_start(**{key: changes.pop(key) for key in ("cutoff", "limits") if key in changes})
        tool_factory = self.tool_factory(
            **{
                key: changes.pop(key)
                for key in ("read_only", "search_engines", "fetcher", "retry_failures", "models_by_role")
                if key in changes
            }
        )
        for trial in self.opened:
            # As a step would.
            await trial.write_waiting()
        self.opened.append(await tool_factory.open_trial(question or market(), start, **(given | changes)))
        return self.opened[-1]


def names(context: RecordedTrialContext) -> list[str]:
    return [tool.name for tool in context.tools]


def as_json(verdicts: Mapping[int, str]) -> str:
    results = ", ".join(f'{{"number": {n}, "verdict": "{v}", "reason": "r"}}' for n, v in verdicts.items())
    return f'{{"results": [{results}]}}'
