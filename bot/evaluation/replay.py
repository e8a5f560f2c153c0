"""Replays: the trials of a forecast run again on what is on record.

To see that they come to the same numbers, and where the first difference is. Nobody is asked, and nothing is fetched
or written.
"""

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
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
from bot.errors import ContractError, NotFound, Rejected, StoreError
from bot.evaluation.explanation import RecordedModelCall, read_recorded_calls
from bot.jobs.sitting import Benches, Seat
from bot.jobs.together import together
from bot.llm.record import prompt_of
from bot.ports import Random
from bot.store.codec import PREDICTIONS, STEP, Form
from bot.store.forecasts import Trace
from bot.store.ledger import Ledger
from bot.store.trials import TrialRecord

PROMPT_SERIALIZER: Form[Prompt] = Form("prompt", Prompt)


# What is asked of a model, in the order in which a person would look for the change; ``stable`` is no part of it.
PROMPT_PARTS = ("messages", "tools", "only", "schema")


JsonDifference = tuple[str, Json, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnrecordedRequest:
    """A request to a model that is not on record; ``heard`` are the records of the answers that came before it."""

    role: str
    prompt: Prompt
    seed: int | None
    earlier_answers: frozenset[str]


async def find_prompt_difference(
    ledger: Ledger, trace: Trace, trial: int, sought: UnrecordedRequest
) -> JsonDifference | None:
    """Return where a prompt departs from the first one on record that was not asked again yet.

    None where that cannot be recovered.
    """
    recorded = await _next_recorded_call(ledger, trace, trial, sought)
    if recorded is None or recorded.request is None:
        return None
    try:
        known = PROMPT_SERIALIZER.plain(await prompt_of(recorded.request, ledger.documents))
    except (NotFound, StoreError, ContractError):
        return None
    again = PROMPT_SERIALIZER.plain(sought.prompt)
    parts = (first_difference(f"prompt.{part}", known.get(part), again.get(part)) for part in PROMPT_PARTS)
    if (found := next((part for part in parts if part is not None), None)) is not None:
        return found
    return first_difference("seed", recorded.request.sampling.seed, sought.seed)


async def _next_recorded_call(
    ledger: Ledger, trace: Trace, trial: int, sought: UnrecordedRequest
) -> RecordedModelCall | None:
    chain = await read_recorded_calls(ledger, trace)
    calls = (call for call in chain.calls if call.trial == trial and call.role == sought.role)
    return next((call for call in calls if call.answer.document not in sought.earlier_answers), None)


def first_difference(path: str, recorded: Json, replayed: Json, *, within: float = 0.0) -> JsonDifference | None:
    """Return the first place where two JSON values differ, with both; numbers may do so by a little."""
    match recorded, replayed:
        case dict(), dict():
            keys: Iterable[str] = dict.fromkeys((*recorded, *replayed))
            parts = ((key, recorded.get(key), replayed.get(key)) for key in keys)
        case list(), list():
            pairs = enumerate(zip_longest(recorded, replayed), 1)
            parts = ((str(number), known, again) for number, (known, again) in pairs)
        case float(), float() if math.isclose(recorded, replayed, rel_tol=0.0, abs_tol=within):
            return None
        case _:
            return None if recorded == replayed else (path, recorded, replayed)
    below = (first_difference(f"{path}.{key}".lstrip("."), known, again, within=within) for key, known, again in parts)
    return next((found for found in below if found is not None), None)


# A trial that came to its end must come to it again; any other one is stopped where it was stopped.
SELF_ENDED = frozenset({TrialEnd.FINISHED, TrialEnd.FAILED, TrialEnd.REPEAT_LIMIT, TrialEnd.CONTEXT_LIMIT})


# Another build of numpy may round the last digit of a mean otherwise.
ROUNDING_TOLERANCE = 1e-12


# What a step does comes before what it sees, and that before what it believes.
STEP_PARTS = ("action", "observation", "belief", "usage", "final")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayDiscrepancy:
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
    discrepancy: ReplayDiscrepancy | None
    agreed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """A forecast run again: its trials, the aggregate of the replay (None without one), and where that first differs.

    ``aggregate`` is the difference from what is on record before calibration.
    """

    trials: tuple[ReplayedTrial, ...]
    raw: Mapping[str, Prediction] | None
    aggregate: ReplayDiscrepancy | None

    @property
    def is_identical(self) -> bool:
        """Whether every step and the aggregate are as on record."""
        return self.aggregate is None and all(trial.discrepancy is None for trial in self.trials)

    @property
    def steps(self) -> int:
        """How many steps were made again."""
        return sum(trial.replayed for trial in self.trials)


async def replay_forecast(
    trace: Trace, seat: Seat, workshop: Benches | None, random: Random, fitted: Fitted | None
) -> ReplayResult:
    """Run all trials on record again; the workshop must be sealed, and ``fitted`` what the forecast was made with.

    Raises NotFound for a forecast that was not completed, StoreError for a damaged record.
    """
    forecast = trace.forecast
    if forecast is None:
        message = f"forecast {trace.id} is {trace.state}; only what was completed can be replayed"
        raise NotFound(message)
    theatre = _ForecastReplay(trace, forecast, seat, workshop, random, fitted)
    # Side by side, so that the record of one is read while another thinks.
    runs = await together(theatre.replay_trial, trace.trials, places=max(1, len(trace.trials)))
    trials = [trial for _, trial in runs]
    raw = combine(trace.question, trials, seat.pool) if counted(trials) else None
    recorded = PREDICTIONS.plain(forecast.raw)
    differing = first_difference(
        "", recorded, None if raw is None else PREDICTIONS.plain(raw), within=ROUNDING_TOLERANCE
    )
    return ReplayResult(
        trials=tuple(told for told, _ in runs),
        raw=raw,
        aggregate=None if differing is None else _to_discrepancy(None, differing),
    )


class OfflineNetwork:
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
class _ForecastReplay:
    """Where the trials of one forecast are run again."""

    trace: Trace
    forecast: Forecast
    configured_forecaster: Seat
    tool_factory: Benches | None
    random: Random
    fitted: Fitted | None

    async def replay_trial(self, record: TrialRecord) -> tuple[ReplayedTrial, Trial]:
        recorded = record.trial or Trial(number=record.number, end=TrialEnd.EMPTY, belief=None, steps=0)
        steps = [logged.step for logged in record.steps]
        ear = _RecordWatcher(await self._trial_tools(record.number))
        comparison = _StepComparison(steps, ear)
        trial = await self._trial(recorded, comparison, ear)
        if recorded.end not in SELF_ENDED and trial.steps == len(steps):
            trial = dataclasses.replace(trial, end=recorded.end, detail=recorded.detail)
        comparison.compare_end(recorded, trial)
        told = ReplayedTrial(
            number=record.number,
            recorded=len(steps),
            replayed=trial.steps,
            discrepancy=await self._first_discrepancy(record.number, comparison),
            agreed=comparison.agreed,
        )
        return told, trial

    async def _first_discrepancy(self, trial: int, comparison: "_StepComparison") -> ReplayDiscrepancy | None:
        """Return the first difference; where a prompt was not on record, it is the place where that one differs."""
        first, sought = comparison.first, comparison.watcher.unrecorded
        if first is None or not first.missing or sought is None or not isinstance(self.tool_factory, Workshop):
            return first
        found = await find_prompt_difference(self.tool_factory.ledger, self.trace, trial, sought)
        if found is None:
            return first
        # What is asked belongs to the step that would have come of it.
        return dataclasses.replace(_to_discrepancy(comparison.agreed + 1, found), missing=first.missing)

    async def _trial(self, recorded: Trial, comparison: "_StepComparison", ear: "_RecordWatcher") -> Trial:
        # One more than is on record where the trial ended by itself, to see that it does again.
        limits = Limits(
            steps=recorded.steps + (recorded.end in SELF_ENDED), seconds=self.configured_forecaster.limits.seconds
        )
        if not limits.steps:
            return recorded
        desk = TrialDesk(
            forecast=self.forecast.id,
            cutoff=self.forecast.cutoff,
            trial=recorded.number,
            fitted=self.fitted,
            random=self.random,
            # What the forecaster sees; it may plan by it.
            limits=self.configured_forecaster.limits,
            bench=ear,
        )
        return await run_trial(
            self.configured_forecaster.forecaster, self.trace.question, desk, TrialRun(limits=limits, log=comparison)
        )

    async def _trial_tools(self, number: int) -> Bench:
        if not (self.configured_forecaster.asks or self.configured_forecaster.members) or self.tool_factory is None:
            return BareBench()
        charge = Charge(
            scope=self.forecast.id,
            ref=str(self.forecast.ref),
            venue=self.forecast.ref.venue,
            forecaster=self.forecast.forecaster,
            trial=number,
        )
        return await self.tool_factory.bench(
            self.trace.question,
            charge=charge,
            cutoff=self.forecast.cutoff,
            limits=self.configured_forecaster.limits,
            # Nothing is read that was not let through then, and guards for a long text take longer than the trial.
            guarded=False,
        )


@dataclass(slots=True)
class _StepComparison:
    """Holds each step against the record, and keeps the first difference."""

    recorded: Sequence[Step]
    watcher: "_RecordWatcher"
    first: ReplayDiscrepancy | None = None
    agreed: int = 0

    async def __call__(self, number: int, step: Step, /) -> None:
        if self.first is not None:
            return
        if number > len(self.recorded):
            self._note(number, ("action", None, step.action.name))
        elif step != (known := self.recorded[number - 1]) and (found := _first_step_difference(known, step)):
            self._note(number, found)
        else:
            self.agreed = number

    def compare_end(self, recorded: Trial, replayed: Trial) -> None:
        """Hold the end of the trial against the record."""
        if self.first is None and (found := first_difference("", _trial_ending(recorded), _trial_ending(replayed))):
            self._note(None, found)

    def _note(self, step: int | None, found: "JsonDifference") -> None:
        self.first = dataclasses.replace(_to_discrepancy(step, found), missing=self.watcher.missing)


@dataclass(slots=True)
class _RecordWatcher:
    """Passes everything on to a bench, and listens for what is not on record."""

    inner: Bench
    missing: str = ""
    unrecorded: UnrecordedRequest | None = None
    _answers: set[str] = field(default_factory=set)

    @property
    def policy(self) -> SourcePolicy:
        return self.inner.policy

    @property
    def tools(self) -> Sequence[Tool]:
        return self.inner.tools

    @property
    def all_tools(self) -> Sequence[Tool]:
        return self.inner.all_tools

    async def use(self, tool: str, arguments: Mapping[str, Json]) -> ToolResult:
        try:
            return await self.inner.use(tool, arguments)
        except NotFound as error:
            self._note_missing(error)
            raise

    def is_late(self, place: str) -> bool:
        return self.inner.is_late(place)

    def dialect(self, role: str) -> Dialect:
        try:
            return self.inner.dialect(role)
        except NotFound as error:
            self._note_missing(error)
            raise

    async def ask(self, role: str, prompt: Prompt, *, seed: int | None = None) -> Answer:
        try:
            answer = await self.inner.ask(role, prompt, seed=seed)
        except NotFound as error:
            if not self.missing:
                self.unrecorded = UnrecordedRequest(
                    role=role, prompt=prompt, seed=seed, earlier_answers=frozenset(self._answers)
                )
            self._note_missing(error)
            raise
        self._answers.add(answer.document)
        return answer

    async def keep(self, text: str) -> str:
        return await self.inner.keep(text)

    async def grade(self, conduct: Conduct) -> None:
        await self.inner.grade(conduct)

    def _note_missing(self, error: NotFound) -> None:
        self.missing = self.missing or str(error)


def _to_discrepancy(step: int | None, found: JsonDifference) -> ReplayDiscrepancy:
    part, recorded, replayed = found
    return ReplayDiscrepancy(step=step, part=part, recorded=recorded, replayed=replayed)


def _trial_ending(trial: Trial) -> dict[str, Json]:
    return {"steps": trial.steps, "end": trial.end.value, "detail": trial.detail}


def _first_step_difference(recorded: Step, replayed: Step) -> JsonDifference | None:
    """Compare two steps as the ledger would have them, in the order in which one thing follows from the other."""
    before, after = (json.loads(STEP.encode(step)) for step in (recorded, replayed))
    differing = (first_difference(part, before.get(part), after.get(part)) for part in STEP_PARTS)
    return next((found for found in differing if found is not None), None)
