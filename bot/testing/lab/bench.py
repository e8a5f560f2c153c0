"""Runs one forecaster over the questions: the real desk, gateway and ledger, with simulated models and press.

Each trial is run as a backtest runs it: with what was known before the cutoff alone, while the world has gone on to its
end. Time is virtual and connections stay inside the process, so the same seed gives the same answers.
"""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bot.app import Bay, open_bay
from bot.clock import SeededRandom, SystemClock
from bot.config.loader import load_config
from bot.config.schema import Config
from bot.desk.bare import BareBench
from bot.desk.desk import Bench, TrialDesk, as_known
from bot.desk.trial import TrialRun, run_trial
from bot.domain.forecast import Trial
from bot.domain.inquiry import Charge
from bot.domain.step import Step
from bot.errors import PluginError
from bot.evaluation.leak_audit import LeakAudit, LeakAuditRun, ModelLeakAuditor
from bot.ids import derive_id
from bot.jobs.together import together
from bot.ports import Clock
from bot.registry import Registry, load_registry
from bot.testing.lab.pages import ORIGIN, PressFetcher, PressReader
from bot.testing.lab.questions import Case
from bot.testing.lab.variants import MINDS, SOBER, Setup
from bot.testing.venues.kit import serve
from bot.testing.venues.record import Judge
from bot.testing.venues.stand import NAMED, toml
from bot.testing.world.mind_server import STRICT, MindServer
from bot.testing.world.web import Press
from bot.testing.world.world import World

# So many questions are worked on at once.
PLACES = 8
# US dollars per million tokens: a stated price, so that costs can be compared.
PRICE_IN, PRICE_OUT = 1.0, 4.0
SECONDS, STEPS = 3600.0, 400
# Who asks servers of models, as real configurations name it.
_PROVIDER = NAMED.partition(":")[0]
PLUGINS = ("sandbox", _PROVIDER)
# What every forecaster is called in its own configuration.
SUBJECT = "subject"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hall:
    """What all forecasters of an experiment have in common: the world, where it is served, and where ledgers are."""

    world: World
    clock: Clock
    press: Press
    press_url: str
    minds_url: str
    folder: Path
    plugins: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a forecaster did: its trials by question, in the order of the cases, and the real seconds that it took."""

    setup: Setup
    trials: Sequence[Sequence[Trial]]
    seconds: float
    audit: LeakAudit | None = None

    @property
    def steps(self) -> int:
        """How many steps all trials took."""
        return sum(trial.steps for trials in self.trials for trial in trials)


@asynccontextmanager
async def open_hall(world: World, clock: Clock, folder: Path, plugins: Sequence[str]) -> AsyncIterator[Hall]:
    """Serve the press and the models of a world while this is entered."""
    press = Press(clock, world, origin=ORIGIN)
    # The limits of a service that many share would make virtual hours of waiting.
    press.judge = Judge((), clock)
    minds = MindServer(clock, MINDS, strict=STRICT)
    minds.keep = False
    async with serve(press) as papers, serve(minds) as models:
        yield Hall(
            world=world,
            clock=clock,
            press=press,
            press_url=papers.url,
            minds_url=f"{models.url}/v1",
            folder=folder,
            plugins=plugins,
        )


async def run(hall: Hall, setup: Setup, cases: Sequence[Case]) -> Run:
    """Let a forecaster answer all cases."""
    config = config_of(hall, setup)
    registry = whole(load_registry(config))
    watch = SystemClock()
    began = watch.monotonic()
    async with open_bay(config, registry, SUBJECT, clock=hall.clock) as bay:
        room = _Room(hall, setup, bay, SeededRandom(hall.world.seed))
        trials = await together(room.trials, cases, places=PLACES)
        seconds = watch.monotonic() - began
        return Run(setup=setup, trials=trials, seconds=seconds, audit=await _audit(bay, setup))


async def _audit(bay: Bay, setup: Setup) -> LeakAudit | None:
    """Let a model look through all that was read, as ``foxcast leaks --backtests`` does."""
    if not setup.audited or bay.workshop is None or bay.gateway is None:
        return None
    return await LeakAuditRun(ledger=bay.workshop.ledger, auditor=ModelLeakAuditor(bay.gateway)).run()


@dataclass(frozen=True, slots=True)
class _Room:
    hall: Hall
    setup: Setup
    bay: Bay
    random: SeededRandom

    async def trials(self, case: Case) -> Sequence[Trial]:
        numbers = range(1, self.setup.trials + 1)
        # One after the other: what trials have in common is asked, and paid for, by the first.
        return await together(partial(self._trial, case), numbers, places=1)

    async def _trial(self, case: Case, number: int) -> Trial:
        seat, question = self.bay.forecaster, case.question
        cutoff = self.hall.world.calendar.at(case.day)
        desk = TrialDesk(
            # The same for all forecasters: chance that they share is none of what they differ by.
            forecast=derive_id("lab", str(question.ref)),
            cutoff=cutoff,
            trial=number,
            fitted=None,
            random=self.random,
            limits=seat.limits,
            bench=await self._bench(case, number),
        )
        asked = question if seat.clairvoyant else as_known(question, cutoff)
        return await run_trial(seat.forecaster, asked, desk, TrialRun(limits=seat.limits, log=unlogged))

    async def _bench(self, case: Case, number: int) -> Bench:
        if self.bay.workshop is None:
            return BareBench()
        press, question = self.hall.press, case.question
        workshop = replace(self.bay.workshop, fetcher=PressFetcher(press), reader=PressReader(press))
        charge = Charge(
            scope=derive_id("lab", SUBJECT, str(question.ref)),
            ref=str(question.ref),
            venue=question.ref.venue,
            forecaster=SUBJECT,
            trial=number,
        )
        return await workshop.bench(
            question,
            charge=charge,
            cutoff=self.hall.world.calendar.at(case.day),
            limits=self.bay.forecaster.limits,
            guarded=not self.bay.forecaster.clairvoyant,
        )


def whole(registry: Registry) -> Registry:
    """Return the registry; raises PluginError where a plugin is broken, for nothing could be measured without it."""
    if registry.broken:
        message = "; ".join(f"{one.plugin.name} is broken: {one.reason}" for one in registry.broken)
        raise PluginError(message)
    return registry


def slug(name: str) -> str:
    """Return a name as that of a file."""
    return "-".join(re.findall(r"\w+", name))


def config_of(hall: Hall, setup: Setup) -> Config:
    """Write the configuration of one forecaster and return it as loaded; no variable of the environment counts."""
    home = hall.folder / slug(setup.name)
    home.mkdir(parents=True)
    path = home / "config.toml"
    path.write_text(toml(_tables(hall, setup)), encoding="utf-8")
    return load_config(path, {})


def _tables(hall: Hall, setup: Setup) -> Mapping[str, Any]:
    judges = {} if setup.filter is None else {"filter": setup.filter}
    roles = {**setup.cast, **judges, **({"auditor": SOBER} if setup.audited else {})}
    models = {role: f"{_PROVIDER}:lab/{model}" for role, model in roles.items()}
    place = {"settings": {"base_url": hall.press_url}}
    table = {"trials": setup.trials, "clairvoyant": setup.clairvoyant, "uses": setup.uses}
    return {
        "seed": hall.world.seed,
        "plugins": [*PLUGINS, *hall.plugins],
        "log": {"level": "error"},
        "limits": {"steps": STEPS, "seconds": SECONDS},
        "desk": {"filter": setup.filter is not None},
        "search": {"sandbox_news": place},
        "data": {"sandbox_series": place},
        "forecasters": {SUBJECT: {**table, "settings": dict(setup.settings)}},
        "models": {_PROVIDER: {"settings": {"endpoints": {"lab": {"base_url": hall.minds_url}}}}},
        "llm": {
            "roles": {role: {"model": model, "max_tokens": 4000} for role, model in models.items()},
            "models": {model: {"price_in": PRICE_IN, "price_out": PRICE_OUT} for model in sorted({*models.values()})},
            "budget": {"question_usd": 1e6, "day_usd": 1e6, "ask_above_usd": 1e6},
        },
    }


async def unlogged(number: int, step: Step) -> None:
    """Keep nothing but what is on the record of the laboratory anyway."""
