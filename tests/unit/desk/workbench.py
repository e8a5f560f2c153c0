"""Questions, results and series as most tests of the desk need them, and a workshop to put them into."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.api import Settings
from bot.config.schema import ResearchSection
from bot.desk.bench import TrialBench
from bot.desk.workshop import Engine, Gauge, Shelf, Workshop
from bot.domain.forecast import Limits
from bot.domain.inquiry import Charge
from bot.domain.prediction import Binary, BinaryShape
from bot.domain.question import Crowd, Question, QuestionRef, Target
from bot.domain.research import Hit, Passage, Series
from bot.specs import Can, DataSpec
from bot.store.ledger import Ledger
from bot.testing.clock import FakeClock
from bot.testing.research import MemoryFetcher, MemoryPages, MemorySeries, PlainReader, ScriptedEngine, ScriptedModels

CUTOFF = datetime(2026, 3, 1, tzinfo=UTC)
CHARGE = Charge(scope="f1", ref="lantern:lamp", venue="lantern", forecaster="thinker", trial=1)
BEFORE_DATE = frozenset({Can.SEARCH_BEFORE_DATE})


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
        crowd=Crowd(prediction=Binary(0.3), at=CUTOFF - timedelta(days=1)),
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


def hit(name: str, **changes: Any) -> Hit:
    given: dict[str, Any] = {
        "url": f"https://news.example/{name}",
        "title": f"About {name}",
        "snippet": f"Something on {name}.",
        "published_at": CUTOFF - timedelta(days=10),
    }
    return Hit(**(given | changes))


def level(days: int = 400, *, beyond: int = 0, name: str = "LEVEL") -> Series:
    """Return a series of that many days up to the day before the cutoff, and some from the cutoff on."""
    first = CUTOFF.date() - timedelta(days=days)
    dates = tuple(first + timedelta(days=day) for day in range(days + beyond))
    return Series(name=name, unit="cm", source="Tides", dates=dates, values=tuple(float(d.day) for d in dates))


def passage(heading: str, text: str, revised_at: datetime = CUTOFF - timedelta(days=3)) -> Passage:
    return Passage(url="https://lexicon.example/Lamp", page="Lamp", heading=heading, text=text, revised_at=revised_at)


def spec(name: str, *serves: str, **spoken: Any) -> DataSpec[Settings]:
    return DataSpec(name=name, summary=name, settings=Settings, serves=frozenset(serves), **spoken)


@dataclass
class Desk:
    """A workshop whose parts a test changes before it asks for a bench."""

    ledger: Ledger
    clock: FakeClock
    engine: ScriptedEngine = field(default_factory=ScriptedEngine)
    abilities: frozenset[Can] = BEFORE_DATE
    engines: Sequence[Engine] | None = None
    fetcher: MemoryFetcher = field(default_factory=MemoryFetcher)
    reader: PlainReader = field(default_factory=PlainReader)
    models: ScriptedModels | None = None
    gauges: dict[str, Gauge] = field(default_factory=dict)
    shelves: dict[str, Shelf] = field(default_factory=dict)
    section: ResearchSection = field(default_factory=ResearchSection)
    blocked: frozenset[str] = frozenset({"lantern.example"})

    def gauge(self, source: MemorySeries, name: str = "tides", **spoken: Any) -> None:
        self.gauges[name] = Gauge(spec=spec(name, spoken.pop("serves", name), **spoken), source=source)

    def shelf(self, pages: MemoryPages, name: str = "lexicon", **spoken: Any) -> None:
        self.shelves[name] = Shelf(spec=spec(name, spoken.pop("serves", name), **spoken), source=pages)

    def workshop(self, **changes: Any) -> Workshop:
        given: dict[str, Any] = {
            "section": self.section,
            "fetcher": self.fetcher,
            "reader": self.reader,
            "ledger": self.ledger,
            "clock": self.clock,
            "engines": self.engines or [Engine(name="finder", engine=self.engine, abilities=self.abilities)],
            "gauges": self.gauges,
            "shelves": self.shelves,
            "blocked": self.blocked,
            "models": self.models,
        }
        return Workshop(**(given | changes))

    def charge(self, scope: str) -> Charge:
        return dataclasses.replace(CHARGE, scope=scope)

    async def bench(self, question: Question | None = None, **changes: Any) -> TrialBench:
        given: dict[str, Any] = {"charge": CHARGE, "cutoff": CUTOFF, "limits": Limits()}
        workshop = self.workshop(
            **{key: changes.pop(key) for key in ("sealed", "engines", "fetcher", "forgiving", "cast") if key in changes}
        )
        return await workshop.bench(question or market(), **(given | changes))


def names(bench: TrialBench) -> list[str]:
    return [tool.name for tool in bench.tools]


def as_json(verdicts: Mapping[int, str]) -> str:
    results = ", ".join(f'{{"number": {n}, "verdict": "{v}", "reason": "r"}}' for n, v in verdicts.items())
    return f'{{"results": [{results}]}}'
