"""Planted leaks: the proof that each layer catches its own, and that nothing else would have.

Each leak is brought by the tool by which it would come, through the real guards, once with all layers on and once with
each of them switched off. What catches it is the layer without which it comes through. The filter's model is played by
a rule that knows the one text it should drop: how well a real model judges is what the audit of a ledger tells.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from bot.config.model import DeskSection
from bot.desk.bench import TrialBench
from bot.desk.leaks.blocks import Blocks, blocks_of
from bot.desk.leaks.caught import Caught
from bot.desk.leaks.content import ROLE as FILTER
from bot.desk.notebook import Notebook
from bot.desk.opening import Opening
from bot.desk.parts import Engine, Gauge, Shelf
from bot.desk.record import Record
from bot.desk.tools.scene import Guards, Scene
from bot.desk.tools.tool import Instrument
from bot.desk.tools.toolbox import Parts, toolbox
from bot.desk.voices import Voices
from bot.domain.conduct import Conduct
from bot.domain.inquiry import Charge, Inquiry
from bot.domain.prediction import BinaryShape
from bot.domain.prompt import Answer, Completion, Dialect
from bot.domain.question import Question, QuestionRef, Target
from bot.domain.research import Fetched, Hit, Page, Passage, Series
from bot.domain.step import Json, Usage
from bot.errors import ConfigError, NotFound, Rejected
from bot.lab.trail import Layer
from bot.ports import Clock
from bot.specs import Can, DataSpec, Settings
from bot.store.ledger import Ledger

LAYERS = (Layer.DATES, Layer.CONTENT, Layer.CLAMP, Layer.ADDRESSES)
CUTOFF = datetime(2026, 3, 1, tzinfo=UTC)
_DAY = timedelta(days=1)
# A guard with this cutoff lets every date through.
_NEVER = datetime.max.replace(tzinfo=UTC)
_SITE, _VENUE = "https://news.test/", "venue.test"
_LINK = "https://answers.test/lamp"
TOLD = "It was lit on 3 March"
_QUESTION = Question(
    ref=QuestionRef("planted", "lamp"),
    title="Will the lamp be lit in March?",
    shape=BinaryShape(),
    targets=(Target(resolves_at=CUTOFF + 30 * _DAY),),
    url=_LINK,
    source="gauge",
    family="market",
    as_of=CUTOFF,
)
_HITS = (
    Hit(url=f"{_SITE}early", title="The lamp", snippet="It is dark.", published_at=CUTOFF - _DAY),
    Hit(url=f"{_SITE}stale", title="The lamp, day by day", snippet="It is dark.", published_at=CUTOFF - _DAY),
    Hit(url=f"{_SITE}edited", title="The lamp, a chronicle", snippet="It is dark.", published_at=CUTOFF - _DAY),
    Hit(url=f"{_SITE}short", title="The lamp, in short", snippet="It is dark.", published_at=CUTOFF - _DAY),
    Hit(url=f"{_SITE}late", title="The lamp", snippet="secret-of-the-result", published_at=CUTOFF + _DAY),
)
_PAGES = {
    f"{_SITE}stale": ("The keeper says: secret-of-the-stale-page", CUTOFF + _DAY),
    f"{_SITE}edited": (f"{TOLD}: secret-of-the-edited-page", CUTOFF - _DAY),
    f"https://{_VENUE}/q/lamp": ("secret-of-the-venue", CUTOFF - _DAY),
    _LINK: ("secret-of-the-link", CUTOFF - _DAY),
}
_REDIRECTS = {f"{_SITE}short": f"https://{_VENUE}/q/lamp"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """A planted leak: the layer that should catch it, the use of a tool that brings it, and the words that tell it."""

    name: str
    layer: Layer
    tool: str
    arguments: Mapping[str, Json]
    tells: str


def _lookup(name: str, layer: Layer, url: str, tells: str) -> Leak:
    return Leak(name=name, layer=layer, tool="lookup_url", arguments={"url": url}, tells=tells)


LEAKS = (
    Leak(
        name="a result dated after the cutoff, though the engine was told not to",
        layer=Layer.DATES,
        tool="web_search",
        arguments={"query": "lamp"},
        tells="secret-of-the-result",
    ),
    _lookup("a stale result whose page is of a later day", Layer.DATES, f"{_SITE}stale", "secret-of-the-stale-page"),
    _lookup("a page edited after its date", Layer.CONTENT, f"{_SITE}edited", "secret-of-the-edited-page"),
    _lookup("a redirect to a venue", Layer.ADDRESSES, f"{_SITE}short", "secret-of-the-venue"),
    _lookup("the answer behind the question's own link", Layer.ADDRESSES, _LINK, "secret-of-the-link"),
    Leak(
        name="a series that goes on after the cutoff",
        layer=Layer.CLAMP,
        tool="series_history",
        arguments={"source": "gauge", "name": "LAMP"},
        tells="2026-03-04,7004",
    ),
    Leak(
        name="a passage rewritten after the cutoff",
        layer=Layer.CLAMP,
        tool="fetch_shelf_section",
        arguments={"page": "Lamp", "heading": "Now"},
        tells="secret-of-the-passage",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What came of a planted leak: what caught it with all layers on, and without which layer it came through."""

    leak: Leak
    came_through: bool
    caught: Caught
    passes_without: tuple[Layer, ...]

    @property
    def count(self) -> int:
        """How often its own layer counted it."""
        counts = {
            Layer.DATES: self.caught.dates,
            Layer.CONTENT: self.caught.content,
            Layer.CLAMP: self.caught.clamped,
            Layer.ADDRESSES: self.caught.blocked,
        }
        return counts[self.leak.layer]

    @property
    def holds(self) -> bool:
        """Whether its layer caught it, and that layer alone."""
        return not self.came_through and self.count > 0 and self.passes_without == (self.leak.layer,)


@dataclass(frozen=True, slots=True)
class Planting:
    """Where leaks are planted: an empty ledger and a clock."""

    ledger: Ledger
    clock: Clock

    async def prove(self, leaks: Sequence[Leak] = LEAKS) -> list[Proof]:
        """Plant each leak with all layers on, and with each of them off."""
        return [await self._proof(number, leak) for number, leak in enumerate(leaks, 1)]

    async def _proof(self, number: int, leak: Leak) -> Proof:
        came_through, caught = await self._planted(f"{number} guarded", leak, None)
        without = [layer for layer in LAYERS if (await self._planted(f"{number} without {layer}", leak, layer))[0]]
        return Proof(leak=leak, came_through=came_through, caught=caught, passes_without=tuple(without))

    async def _planted(self, scope: str, leak: Leak, off: Layer | None) -> tuple[bool, Caught]:
        """Return whether the leak came through, and what was caught on its way."""
        bench = self._bench(scope, off)
        texts = []
        if leak.tool == "lookup_url":
            # Addresses are read that were come across.
            texts.append((await bench.use("web_search", {"query": "lamp"})).observation.text)
        before = bench.caught if texts else Caught()
        texts.append((await bench.use(leak.tool, leak.arguments)).observation.text)
        return any(leak.tells in text for text in texts), _since(before, bench.caught)

    def _bench(self, scope: str, off: Layer | None) -> TrialBench:
        charge = Charge(scope=scope, ref=str(_QUESTION.ref), venue="planted", forecaster="planted", trial=1)
        record = Record(self.ledger.exchanges, charge.scope, charge.trial, self.clock, sealed=False)
        filtering = _Filter(lets_all_pass=off is Layer.CONTENT)
        voices = Voices(
            models=filtering, record=record, charge=charge, clock=self.clock, until=self.clock.monotonic() + 600.0
        )
        scene = Scene(
            question=_QUESTION,
            section=DeskSection(),
            guards=_guards(off),
            bound=CUTOFF,
            notebook=Notebook(),
            record=record,
            fetcher=_Web(),
            reader=_Reader(),
        )
        parts = Parts(
            engines=[Engine(name="planted", engine=_Engine(), abilities=frozenset({Can.SEARCH_BEFORE_DATE}))],
            gauges={"gauge": Gauge(spec=_spec("gauge"), source=_Gauge())},
            shelves={"shelf": Shelf(spec=_spec("shelf"), source=_Shelf())},
            forecasts=self.ledger.forecasts,
            related=self.ledger.related,
            charge=charge,
            summarised=False,
        )
        instruments = _instruments(scene, parts, off)
        if scene.guards.blocks.refusal(_LINK) is None:
            scene.notebook.learn((_LINK,))
        tools = tuple(instrument.tool for instrument in instruments.values())
        return TrialBench(
            opening=Opening(tools=tools, bound=CUTOFF, backdated=True, content=True),
            instruments=instruments,
            notebook=scene.notebook,
            record=record,
            voices=voices,
            documents=self.ledger.documents,
        )


def _guards(off: Layer | None) -> Guards:
    return Guards(
        cutoff=_NEVER if off is Layer.DATES else CUTOFF,
        backdated=True,
        # Without the filter a page of today is not read at all, so this layer is off where the filter drops nothing.
        content=True,
        blocks=Blocks() if off is Layer.ADDRESSES else blocks_of(_QUESTION, (_VENUE,), backdated=True),
    )


def _instruments(scene: Scene, parts: Parts, off: Layer | None) -> dict[str, Instrument]:
    """Return the tools; those of data have a cutoff of their own, so that it can be taken from them alone."""
    guards = dataclasses.replace(scene.guards, cutoff=_NEVER if off is Layer.CLAMP else CUTOFF)
    web = toolbox(scene, dataclasses.replace(parts, gauges={}, shelves={}))
    data = toolbox(dataclasses.replace(scene, guards=guards), dataclasses.replace(parts, engines=()))
    return {**data, **web}


def _since(before: Caught, after: Caught) -> Caught:
    return Caught(
        dates=after.dates - before.dates,
        content=after.content - before.content,
        clamped=after.clamped - before.clamped,
        blocked=after.blocked - before.blocked,
    )


def _spec(name: str) -> DataSpec[Settings]:
    return DataSpec(name=name, summary=f"a planted {name}", settings=Settings)


@dataclass(frozen=True, slots=True)
class _Engine:
    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[Hit]:
        return _HITS


@dataclass(frozen=True, slots=True)
class _Web:
    async def fetch(self, url: str, *, refusal: Callable[[str], str | None]) -> Fetched:
        for address in (url, _REDIRECTS.get(url)):
            if address is not None and (why := refusal(address)) is not None:
                raise Rejected(why)
        return Fetched(url=_REDIRECTS.get(url, url), content=b"", media_type="text/plain")


@dataclass(frozen=True, slots=True)
class _Reader:
    async def read(self, fetched: Fetched) -> Page:
        if fetched.url not in _PAGES:
            message = f"nothing is planted at {fetched.url}"
            raise NotFound(message)
        text, published_at = _PAGES[fetched.url]
        return Page(url=fetched.url, title="The lamp", text=text, published_at=published_at)


@dataclass(frozen=True, slots=True)
class _Gauge:
    def names(self, question: Question) -> Sequence[str]:
        return ("LAMP",)

    async def series(self, name: str, *, before: datetime) -> Series:
        days = tuple((CUTOFF + day * _DAY).date() for day in range(-5, 5))
        return Series(name=name, unit="", source="gauge", dates=days, values=tuple(7000.0 + day.day for day in days))


@dataclass(frozen=True, slots=True)
class _Shelf:
    async def contents(self, page: str, *, before: datetime) -> Sequence[str]:
        return ("Now",)

    async def section(self, page: str, heading: str, *, before: datetime) -> Passage:
        text = "secret-of-the-passage"
        return Passage(url=f"{_SITE}page", page=page, heading=heading, text=text, revised_at=CUTOFF + _DAY)


@dataclass(frozen=True, slots=True)
class _Filter:
    """Plays the role of the filter: drops the text that tells, and no other, or none at all."""

    lets_all_pass: bool = False
    usage: Usage = field(default_factory=Usage)

    def dialect(self, role: str) -> Dialect:
        if role != FILTER:
            message = f"nobody plays the role {role} among planted leaks"
            raise ConfigError(message)
        return Dialect.JSON

    async def ask(self, inquiry: Inquiry, *, deadline_s: float) -> Answer:
        # Each text stands in a part of its own, after the number under which it is judged.
        shown = inquiry.prompt.messages[-1].text.split("\n\nResult ")
        leaks = [TOLD in text and not self.lets_all_pass for text in shown]
        words = {number: "drop" if leak else "keep" for number, leak in enumerate(leaks, 1)}
        entries = ", ".join(f'{{"number": {n}, "verdict": "{word}", "reason": "told"}}' for n, word in words.items())
        completion = Completion(text=f'{{"results": [{entries}]}}')
        return Answer(completion=completion, usage=self.usage, model="planted:filter", document="")

    async def grade(self, conduct: Conduct, charge: Charge) -> None:
        """Grade nobody."""
