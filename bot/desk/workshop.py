"""The workshop: everything that may be used in trials, out of which each trial gets a bench of its own."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bot.config.model import DeskSection
from bot.desk.addresses import links_in
from bot.desk.bench import TrialBench
from bot.desk.leaks.blocks import Blocks, blocks_of
from bot.desk.leaks.content import ROLE as FILTER
from bot.desk.notebook import Notebook
from bot.desk.opening import OPENING, Opening
from bot.desk.parts import Engine, Gauge, Models, PageReader, Shelf
from bot.desk.policy import permitted, policy_for
from bot.desk.record import Record
from bot.desk.tools.own import NAME as EARLIER
from bot.desk.tools.own import earlier
from bot.desk.tools.scene import Guards, Scene
from bot.desk.tools.summary import ROLE as SUMMARISER
from bot.desk.tools.tool import Instrument
from bot.desk.tools.toolbox import Parts, toolbox
from bot.desk.voices import Voices
from bot.domain.forecast import Limits
from bot.domain.inquiry import Charge
from bot.domain.question import Question
from bot.ports import Clock, Fetcher
from bot.store.ledger import Ledger

__all__ = ["Engine", "Gauge", "Models", "PageReader", "Shelf", "Workshop"]

# A trial may be taken up with a cutoff up to an hour old, and still be of today.
LIVE = timedelta(hours=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What trials work with. ``gauges`` and ``shelves`` are keyed by the name of their spec.

    ``blocked`` are the hosts that give answers away, beside those in ``section``; with ``sealed`` everything comes from
    the record, and nothing is asked, fetched or written.
    """

    section: DeskSection
    fetcher: Fetcher
    reader: PageReader
    ledger: Ledger
    clock: Clock
    engines: Sequence[Engine] = ()
    gauges: Mapping[str, Gauge] = field(default_factory=dict)
    shelves: Mapping[str, Shelf] = field(default_factory=dict)
    blocked: frozenset[str] = frozenset()
    models: Models | None = None
    sealed: bool = False

    async def bench(
        self, question: Question, *, charge: Charge, cutoff: datetime, limits: Limits, guarded: bool = True
    ) -> TrialBench:
        """Return the bench of one trial, which goes on where its record ends.

        ``guarded`` False takes all guards away, to see what knowing the future would be worth.
        """
        record = Record(self.ledger.exchanges, charge.scope, charge.trial, self.clock, self.sealed)
        await record.load()
        until = self.clock.monotonic() + limits.seconds
        voices = Voices(models=self.models, record=record, charge=charge, clock=self.clock, until=until)
        opened = record.of_kind("desk")
        opening = OPENING.value(opened[0]) if opened else self._opening(question, voices, cutoff, guarded=guarded)
        notebook = Notebook()
        if not self.sealed:
            notebook.keep_clear_of(record)
        guards = Guards(
            cutoff=opening.bound if guarded else None,
            backdated=opening.backdated,
            content=opening.content,
            blocks=self._blocks(question, backdated=opening.backdated) if guarded else Blocks(),
        )
        scene = Scene(
            question=question,
            section=self.section,
            guards=guards,
            bound=opening.bound,
            notebook=notebook,
            record=record,
            fetcher=self.fetcher,
            reader=self.reader,
        )
        instruments = {} if self.sealed else toolbox(scene, self._parts(voices))
        if not opened:
            opening = await self._complete(opening, scene, instruments, charge)
        notebook.learn(opening.addresses)
        return TrialBench(
            opening=opening,
            instruments=instruments,
            notebook=notebook,
            record=record,
            voices=voices,
            documents=self.ledger.documents,
        )

    def _opening(self, question: Question, voices: Voices, cutoff: datetime, *, guarded: bool) -> Opening:
        now = self.clock.now()
        return Opening(
            policy=policy_for(question, self.section, (*self.gauges.values(), *self.shelves.values())),
            bound=cutoff if guarded else now,
            backdated=guarded and is_backdated(question, cutoff, now),
            content=guarded and self.section.filter and voices.has(FILTER),
        )

    async def _complete(
        self, opening: Opening, scene: Scene, instruments: Mapping[str, Instrument], charge: Charge
    ) -> Opening:
        names = set(instruments)
        if names and not await earlier(scene.question, self.ledger.forecasts, charge, opening.bound):
            names.discard(EARLIER)
        tools = (instrument.tool for name, instrument in instruments.items() if name in names)
        text = f"{scene.question.title}\n{scene.question.background}\n{scene.question.criteria}"
        own = (scene.question.url,) if scene.question.url else ()
        links = [url for url in (*own, *links_in(text)) if scene.guards.blocks.refusal(url) is None]
        complete = dataclasses.replace(
            opening, tools=permitted(tools, opening.policy), addresses=tuple(dict.fromkeys(links))
        )
        # As it will be read from the record, down to the order of keys, from which prompts are made.
        return OPENING.decode(OPENING.encode(complete))

    def _blocks(self, question: Question, *, backdated: bool) -> Blocks:
        return blocks_of(question, (*self.section.blocked_hosts, *self.blocked), backdated=backdated)

    def _parts(self, voices: Voices) -> Parts:
        return Parts(
            engines=self.engines,
            gauges=self.gauges,
            shelves=self.shelves,
            forecasts=self.ledger.forecasts,
            charge=voices.charge,
            summarised=voices.has(SUMMARISER),
        )


def is_backdated(question: Question, cutoff: datetime, now: datetime) -> bool:
    """Say whether the world has gone on since the cutoff: its venue dates the question, or the cutoff is long past."""
    return question.as_of is not None or now - cutoff > LIVE
