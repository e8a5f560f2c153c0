"""The workshop: everything that may be used in trials, out of which each trial gets a bench of its own."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bot.config.schema import ResearchSection
from bot.desk.addresses import links_in
from bot.desk.bench import TrialBench
from bot.desk.leaks.blocks import Blocks, blocks_of
from bot.desk.leaks.content import ROLE as FILTER
from bot.desk.notebook import Notebook
from bot.desk.opening import OPENING, Opening
from bot.desk.parts import Calculator, Engine, Gauge, Models, PageReader, Shelf
from bot.desk.policy import permitted, policy_for
from bot.desk.record import Record, digest_of
from bot.desk.tools.own import NAME as EARLIER
from bot.desk.tools.own import Own
from bot.desk.tools.related import HISTORY, RELATED
from bot.desk.tools.scene import Guards, Scene
from bot.desk.tools.search import usable
from bot.desk.tools.summary import ROLE as SUMMARISER
from bot.desk.tools.tool import Instrument
from bot.desk.tools.toolbox import Parts, toolbox
from bot.desk.troubles import Troubles
from bot.desk.voices import Voices
from bot.domain.forecast import Limits
from bot.domain.inquiry import Charge
from bot.domain.question import Question, QuestionRef
from bot.domain.research import SourcePolicy
from bot.errors import ConfigError
from bot.ports import Clock, Fetcher
from bot.store.ledger import Ledger

__all__ = ["Engine", "Gauge", "Models", "PageReader", "Shelf", "Workshop"]

# A trial may be taken up with a cutoff up to an hour old, and still be of today.
LIVE = timedelta(hours=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What trials work with. ``gauges`` and ``shelves`` are keyed by the name of their spec.

    ``blocked`` are hosts that give answers away; those that ``section`` blocks are never read at all. With ``sealed``
    everything comes from the record, and nothing is asked, fetched or written. With ``forgiving``, which is for the
    laboratory, a trial on record is begun anew: what went wrong and may have been mended is asked again, pages
    excepted, and so is what was told under another configuration. ``cast`` says by name who plays which role, and is
    part of that configuration.
    """

    section: ResearchSection
    fetcher: Fetcher
    reader: PageReader
    ledger: Ledger
    clock: Clock
    engines: Sequence[Engine] = ()
    gauges: Mapping[str, Gauge] = field(default_factory=dict)
    shelves: Mapping[str, Shelf] = field(default_factory=dict)
    blocked: frozenset[str] = frozenset()
    models: Models | None = None
    calculator: Calculator | None = None
    sealed: bool = False
    forgiving: bool = False
    cast: Mapping[str, str] = field(default_factory=dict)
    troubles: Troubles = field(default_factory=Troubles)

    async def bench(
        self, question: Question, *, charge: Charge, cutoff: datetime, limits: Limits, guarded: bool = True
    ) -> TrialBench:
        """Return the bench of one trial, which goes on where its record ends.

        ``guarded`` False takes all guards away, to see what knowing the future would be worth. Raises LeakError for a
        trial that began with other guards, or that may have seen what came after the cutoff.
        """
        record = Record(self.ledger.exchanges, charge.scope, charge.trial, self.clock, self.sealed)
        await record.load()
        until = self.clock.monotonic() + limits.call_seconds
        voices = Voices(models=self.models, record=record, charge=charge, clock=self.clock, until=until)
        opened = self._opened(record, question, cutoff, guarded=guarded)
        opening = opened or self._opening(question, voices, cutoff, guarded=guarded)
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
            troubles=self.troubles,
        )
        instruments = {} if self.sealed else toolbox(scene, self._parts(voices))
        if opened is None:
            opening = await self._complete(opening, scene, instruments, charge)
        notebook.learn(opening.addresses)
        return TrialBench(
            opening=opening,
            instruments=instruments,
            notebook=notebook,
            record=record,
            voices=voices,
            documents=self.ledger.documents,
            final_seconds=limits.final_seconds,
        )

    def _opened(self, record: Record, question: Question, cutoff: datetime, *, guarded: bool) -> Opening | None:
        """Return what the trial began with, None for one that is begun now."""
        openings = [OPENING.value(told) for told in record.of_kind("desk")]
        if not self.sealed:
            for opening in openings:
                whose = f"trial {record.trial} of {record.scope}"
                opening.require(guarded=guarded, cutoff=cutoff, whose=whose)
            record.under = self._configuration(question)
            if self.forgiving:
                record.begin_anew()
                openings = [opening for opening in openings if opening.configuration == record.under]
            elif openings:
                record.under = openings[-1].configuration
        return openings[-1] if openings else None

    def _opening(self, question: Question, voices: Voices, cutoff: datetime, *, guarded: bool) -> Opening:
        now = self.clock.now()
        backdated = guarded and is_backdated(question, cutoff, now)
        if backdated and self.engines and not usable(self.engines, self.section.search, backdated=True):
            why = ConfigError("none of them bounds dates; enable an engine in [search] that searches before a date")
            names = ", ".join(engine.name for engine in self.engines)
            self.troubles.tell("no search for questions of earlier days", who=names, why=why, now=now)
        return Opening(
            policy=self._policy(question),
            bound=cutoff if guarded else now,
            backdated=backdated,
            content=backdated and self.section.filter and voices.has(FILTER),
            guarded=guarded,
            configuration=voices.record.under,
        )

    def _policy(self, question: Question) -> SourcePolicy:
        return policy_for(question, self.section, (*self.gauges.values(), *self.shelves.values()))

    def _configuration(self, question: Question) -> str:
        """Return the digest of what a trial of the question finds on this desk; a moment and a record are no part."""
        return digest_of(
            {
                "section": self.section.model_dump(mode="json", exclude={"sources"}),
                "policy": dataclasses.asdict(self._policy(question)),
                "engines": [[engine.name, sorted(engine.abilities)] for engine in self.engines],
                "gauges": [[name, dataclasses.asdict(gauge.spec.model)] for name, gauge in self.gauges.items()],
                "shelves": list(self.shelves),
                "blocked": sorted(self.blocked),
                "cast": dict(self.cast),
                "roles": [role for role in (FILTER, SUMMARISER) if self._plays(role)],
            }
        )[:16]

    def _plays(self, role: str) -> bool:
        try:
            return self.models is not None and bool(self.models.dialect(role))
        except ConfigError:
            return False

    async def _complete(
        self, opening: Opening, scene: Scene, instruments: Mapping[str, Instrument], charge: Charge
    ) -> Opening:
        names = set(instruments)
        names -= await self._idle(names, scene.question.ref, charge, opening.bound)
        tools = (instrument.tool for name, instrument in instruments.items() if name in names)
        text = f"{scene.question.title}\n{scene.question.background}\n{scene.question.criteria}"
        own = (scene.question.url,) if scene.question.url else ()
        links = [url for url in (*own, *links_in(text)) if scene.guards.blocks.refusal(url) is None]
        complete = dataclasses.replace(
            opening, tools=permitted(tools, opening.policy), addresses=tuple(dict.fromkeys(links))
        )
        # As it will be read from the record, down to the order of keys, from which prompts are made.
        return OPENING.decode(OPENING.encode(complete))

    async def _idle(self, names: Collection[str], ref: QuestionRef, charge: Charge, before: datetime) -> set[str]:
        """Return the tools that could only say that there is nothing."""
        if not names:
            return set()
        related = self.ledger.related
        own = Own(self.ledger.forecasts, related, charge)
        there = {
            EARLIER: bool(await own.of(ref, before=before)),
            RELATED: not await related.alone(ref, before=before),
            HISTORY: await related.moved(ref, before=before),
        }
        return {name for name, has_something in there.items() if not has_something}

    def _blocks(self, question: Question, *, backdated: bool) -> Blocks:
        return blocks_of(question, self.blocked, backdated=backdated, never=self.section.blocked_hosts)

    def _parts(self, voices: Voices) -> Parts:
        return Parts(
            engines=self.engines,
            gauges=self.gauges,
            shelves=self.shelves,
            calculator=self.calculator,
            forecasts=self.ledger.forecasts,
            related=self.ledger.related,
            charge=voices.charge,
            summarised=voices.has(SUMMARISER),
        )


def is_backdated(question: Question, cutoff: datetime, now: datetime) -> bool:
    """Say whether the world has gone on since the cutoff: its venue dates the question, or the cutoff is long past."""
    return question.as_of is not None or now - cutoff > LIVE
