"""Replays: the trials of a forecast run again on what is on record, to see that they come to the same numbers.

Everything that a trial was told is told again from the ledger; nobody is asked, and nothing is fetched or written.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from bot.desk.bare import BareBench
from bot.desk.combine import combine, counted
from bot.desk.desk import Bench, TrialDesk
from bot.desk.trial import TrialRun, run_trial
from bot.desk.workshop import Workshop
from bot.domain.conduct import Conduct
from bot.domain.forecast import Forecast, Limits, Trial, TrialEnd
from bot.domain.inquiry import Charge
from bot.domain.learning import Fitted
from bot.domain.prediction import Prediction
from bot.domain.prompt import Answer, Dialect, Prompt, Tool
from bot.domain.research import Fetched, Page, SourcePolicy
from bot.domain.step import Json, Step, ToolResult
from bot.errors import NotFound, Rejected
from bot.jobs.sitting import Benches, Seat
from bot.jobs.together import together
from bot.lab.request import Found, Sought, first_difference, prompt_differs
from bot.ports import Random
from bot.store.codec import PREDICTIONS, STEP
from bot.store.forecasts import Trace
from bot.store.trials import TrialRecord

# A trial that came to its end must come to it again; any other one is stopped where it was stopped.
BY_ITSELF = frozenset({TrialEnd.FINISHED, TrialEnd.FAILED, TrialEnd.REPEAT_LIMIT, TrialEnd.CONTEXT_LIMIT})
# Another build of numpy may round the last digit of a mean otherwise.
ROUNDING = 1e-12
# What a step does comes before what it sees, and that before what it believes.
PARTS = ("action", "observation", "belief", "usage", "final")


@dataclass(frozen=True, slots=True, kw_only=True)
class Discrepancy:
    """Where a replay first departs from the record: the step (None for what comes after), the part of it, and both.

    ``missing`` says what had been asked by then that is not on record, if anything had.
    """

    step: int | None
    part: str
    recorded: Json
    replayed: Json
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedTrial:
    """One trial run again: how many steps are on record, how many came now, and the first difference.

    ``agreed`` is how many steps came out as on record before that.
    """

    number: int
    recorded: int
    replayed: int
    discrepancy: Discrepancy | None
    agreed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A forecast run again: its trials, the aggregate of the replay (None without one), and where that first differs.

    ``aggregate`` is the difference from what is on record before calibration.
    """

    trials: tuple[ReplayedTrial, ...]
    raw: Mapping[str, Prediction] | None
    aggregate: Discrepancy | None

    @property
    def identical(self) -> bool:
        """Whether every step and the aggregate are as on record."""
        return self.aggregate is None and all(trial.discrepancy is None for trial in self.trials)

    @property
    def steps(self) -> int:
        """How many steps were made again."""
        return sum(trial.replayed for trial in self.trials)


async def replay(trace: Trace, seat: Seat, workshop: Benches | None, random: Random, fitted: Fitted | None) -> Replayed:
    """Run all trials on record again; the workshop must be sealed, and ``fitted`` what the forecast was made with.

    Raises NotFound for a forecast that was not completed, StoreError for a damaged record.
    """
    forecast = trace.forecast
    if forecast is None:
        message = f"forecast {trace.id} is {trace.state}; only what was completed can be replayed"
        raise NotFound(message)
    theatre = _Theatre(trace, forecast, seat, workshop, random, fitted)
    # Side by side, so that the record of one is read while another thinks.
    runs = await together(theatre.run, trace.trials, places=max(1, len(trace.trials)))
    trials = [trial for _, trial in runs]
    raw = combine(trace.question, trials, seat.pool) if counted(trials) else None
    recorded = PREDICTIONS.plain(forecast.raw)
    differing = first_difference("", recorded, None if raw is None else PREDICTIONS.plain(raw), within=ROUNDING)
    return Replayed(
        trials=tuple(told for told, _ in runs),
        raw=raw,
        aggregate=None if differing is None else _discrepancy(None, differing),
    )


class Offline:
    """Stands where the network would be: the ports Http, Fetcher and PageReader, all of which refuse."""

    async def get(self, url: str, **_: object) -> bytes:
        """Refuse."""
        self._refuse(url)

    async def post(self, url: str, body: Json, **_: object) -> bytes:
        """Refuse."""
        self._refuse(url)

    async def fetch(self, url: str, **_: object) -> Fetched:
        """Refuse."""
        self._refuse(url)

    async def read(self, fetched: Fetched) -> Page:
        """Refuse."""
        self._refuse(fetched.url)

    @staticmethod
    def _refuse(url: str) -> NoReturn:
        message = f"a replay reads nothing, and {url} was to be read"
        raise Rejected(message)


@dataclass(frozen=True, slots=True)
class _Theatre:
    """Where the trials of one forecast are run again."""

    trace: Trace
    forecast: Forecast
    seat: Seat
    workshop: Benches | None
    random: Random
    fitted: Fitted | None

    async def run(self, record: TrialRecord) -> tuple[ReplayedTrial, Trial]:
        recorded = record.trial or Trial(number=record.number, end=TrialEnd.EMPTY, belief=None, steps=0)
        steps = [logged.step for logged in record.steps]
        ear = _Ear(await self._bench(record.number))
        comparison = _Comparison(steps, ear)
        trial = await self._trial(recorded, comparison, ear)
        if recorded.end not in BY_ITSELF and trial.steps == len(steps):
            trial = dataclasses.replace(trial, end=recorded.end, detail=recorded.detail)
        comparison.end(recorded, trial)
        told = ReplayedTrial(
            number=record.number,
            recorded=len(steps),
            replayed=trial.steps,
            discrepancy=await self._explained(record.number, comparison),
            agreed=comparison.agreed,
        )
        return told, trial

    async def _explained(self, trial: int, comparison: "_Comparison") -> Discrepancy | None:
        """Return the first difference; where a prompt was not on record, it is the place where that one differs."""
        first, sought = comparison.first, comparison.ear.sought
        if first is None or not first.missing or sought is None or not isinstance(self.workshop, Workshop):
            return first
        found = await prompt_differs(self.workshop.ledger, self.trace, trial, sought)
        if found is None:
            return first
        # What is asked belongs to the step that would have come of it.
        return dataclasses.replace(_discrepancy(comparison.agreed + 1, found), missing=first.missing)

    async def _trial(self, recorded: Trial, comparison: "_Comparison", ear: "_Ear") -> Trial:
        # One more than is on record where the trial ended by itself, to see that it does again.
        limits = Limits(steps=recorded.steps + (recorded.end in BY_ITSELF), seconds=self.seat.limits.seconds)
        if not limits.steps:
            return recorded
        desk = TrialDesk(
            forecast=self.forecast.id,
            cutoff=self.forecast.cutoff,
            trial=recorded.number,
            fitted=self.fitted,
            random=self.random,
            # What the forecaster sees; it may plan by it.
            limits=self.seat.limits,
            bench=ear,
        )
        return await run_trial(self.seat.forecaster, self.trace.question, desk, TrialRun(limits=limits, log=comparison))

    async def _bench(self, number: int) -> Bench:
        if not (self.seat.asks or self.seat.members) or self.workshop is None:
            return BareBench()
        charge = Charge(
            scope=self.forecast.id,
            ref=str(self.forecast.ref),
            venue=self.forecast.ref.venue,
            forecaster=self.forecast.forecaster,
            trial=number,
        )
        return await self.workshop.bench(
            self.trace.question,
            charge=charge,
            cutoff=self.forecast.cutoff,
            limits=self.seat.limits,
            # Nothing is read that was not let through then, and guards for a long text take longer than the trial.
            guarded=False,
        )


@dataclass(slots=True)
class _Comparison:
    """Holds each step against the record, and keeps the first difference."""

    recorded: Sequence[Step]
    ear: "_Ear"
    first: Discrepancy | None = None
    agreed: int = 0

    async def __call__(self, number: int, step: Step, /) -> None:
        if self.first is not None:
            return
        if number > len(self.recorded):
            self._note(number, ("action", None, step.action.name))
        elif step != (known := self.recorded[number - 1]) and (found := _first_of_steps(known, step)):
            self._note(number, found)
        else:
            self.agreed = number

    def end(self, recorded: Trial, replayed: Trial) -> None:
        """Hold the end of the trial against the record."""
        if self.first is None and (found := first_difference("", _ending(recorded), _ending(replayed))):
            self._note(None, found)

    def _note(self, step: int | None, found: "Found") -> None:
        self.first = dataclasses.replace(_discrepancy(step, found), missing=self.ear.missing)


@dataclass(slots=True)
class _Ear:
    """Passes everything on to a bench, and listens for what is not on record."""

    bench: Bench
    missing: str = ""
    sought: Sought | None = None
    _heard: set[str] = field(default_factory=set)

    @property
    def policy(self) -> SourcePolicy:
        return self.bench.policy

    @property
    def tools(self) -> Sequence[Tool]:
        return self.bench.tools

    @property
    def all_tools(self) -> Sequence[Tool]:
        return self.bench.all_tools

    async def use(self, tool: str, arguments: Mapping[str, Json]) -> ToolResult:
        try:
            return await self.bench.use(tool, arguments)
        except NotFound as error:
            self._hear(error)
            raise

    def is_late(self, place: str) -> bool:
        return self.bench.is_late(place)

    def dialect(self, role: str) -> Dialect:
        try:
            return self.bench.dialect(role)
        except NotFound as error:
            self._hear(error)
            raise

    async def ask(self, role: str, prompt: Prompt, *, seed: int | None = None) -> Answer:
        try:
            answer = await self.bench.ask(role, prompt, seed=seed)
        except NotFound as error:
            if not self.missing:
                self.sought = Sought(role=role, prompt=prompt, seed=seed, heard=frozenset(self._heard))
            self._hear(error)
            raise
        self._heard.add(answer.document)
        return answer

    async def keep(self, text: str) -> str:
        return await self.bench.keep(text)

    async def grade(self, conduct: Conduct) -> None:
        await self.bench.grade(conduct)

    def _hear(self, error: NotFound) -> None:
        self.missing = self.missing or str(error)


def _discrepancy(step: int | None, found: Found) -> Discrepancy:
    part, recorded, replayed = found
    return Discrepancy(step=step, part=part, recorded=recorded, replayed=replayed)


def _ending(trial: Trial) -> dict[str, Json]:
    return {"steps": trial.steps, "end": trial.end.value, "detail": trial.detail}


def _first_of_steps(recorded: Step, replayed: Step) -> Found | None:
    """Compare two steps as the ledger would have them, in the order in which one thing follows from the other."""
    before, after = (json.loads(STEP.encode(step)) for step in (recorded, replayed))
    differing = (first_difference(part, before.get(part), after.get(part)) for part in PARTS)
    return next((found for found in differing if found is not None), None)
