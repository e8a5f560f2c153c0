"""Replays: the trials of a forecast run again on their record.

They show whether the trials give the same numbers, and where the first difference is. No request is sent, and nothing
is fetched or written.
"""

import dataclasses
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from itertools import zip_longest
from typing import TYPE_CHECKING, NoReturn

from bot.core.beliefs import PriorSource, Step, ToolResult
from bot.core.concurrency import gather_all
from bot.core.errors import MalformedDataError, NotFoundError, RequestRejectedError, StoreError
from bot.core.forecasts import Forecast, Trial, TrialEnd, TrialLimits
from bot.core.interfaces import RandomStreams
from bot.core.language_models import (
    CostAttribution,
    ModelAnswer,
    ModelDialect,
    Prompt,
)
from bot.core.learning import FittedParameters
from bot.core.light_dataclass import dataclass
from bot.core.predictions import Prediction
from bot.core.research import FetchedPage, PageText
from bot.core.values import Json
from bot.evaluation.explanation import RecordedModelCall, read_recorded_calls
from bot.forecasting.aggregation import combine_trials, select_counted_trials
from bot.forecasting.forecast_run import ConfiguredForecaster
from bot.forecasting.tool_factory import ToolFactory
from bot.forecasting.trial import TrialSettings, run_trial
from bot.forecasting.trial_tools import GuardedTrialContext, RecordedTrialContext, TrialContextFactory
from bot.llm.call_records import load_prompt
from bot.store.forecasts import ForecastTrace
from bot.store.ledger import Ledger
from bot.store.serialization import PREDICTIONS, STEP, JsonSerializer
from bot.store.trials import TrialRecord

if TYPE_CHECKING:
    from bot.stats.aggregation import SpreadWeight

PROMPT_SERIALIZER: JsonSerializer[Prompt] = JsonSerializer("prompt", Prompt)


# The parts of a request to a model, in the order in which a person would look for the change; ``stable`` is not one of
# them.
PROMPT_PARTS = ("messages", "tools", "only", "schema")


JsonDifference = tuple[str, Json, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnrecordedRequest:
    """A request to a model that is not recorded.

    ``earlier_answers`` are the records of the answers that came before it.
    """

    role: str
    prompt: Prompt
    seed: int | None
    earlier_answers: frozenset[str]


async def find_prompt_difference(
    ledger: Ledger, trace: ForecastTrace, trial: int, request: UnrecordedRequest
) -> JsonDifference | None:
    """Return where a prompt differs from the first recorded one that was not repeated yet.

    None where that cannot be recovered.
    """
    recorded = await _next_recorded_call(ledger, trace, trial, request)
    if recorded is None or recorded.request is None:
        return None
    try:
        prompt = await load_prompt(recorded.request, ledger.documents, scope=recorded.scope)
        recorded_value = PROMPT_SERIALIZER.plain(prompt)
    except (NotFoundError, StoreError, MalformedDataError):
        return None
    replayed = PROMPT_SERIALIZER.plain(request.prompt)
    parts = (first_difference(f"prompt.{part}", recorded_value.get(part), replayed.get(part)) for part in PROMPT_PARTS)
    if (found := next((part for part in parts if part is not None), None)) is not None:
        return found
    return first_difference("seed", recorded.request.sampling.seed, request.seed)


async def _next_recorded_call(
    ledger: Ledger, trace: ForecastTrace, trial: int, request: UnrecordedRequest
) -> RecordedModelCall | None:
    chain = await read_recorded_calls(ledger, trace)
    calls = (call for call in chain.calls if call.trial == trial and call.role == request.role)
    return next((call for call in calls if call.answer.document not in request.earlier_answers), None)


def first_difference(path: str, recorded: Json, replayed: Json, *, tolerance: float = 0.0) -> JsonDifference | None:
    """Return the first place where two JSON values differ, with both; numbers may differ slightly."""
    match recorded, replayed:
        case dict(), dict():
            keys: Iterable[str] = dict.fromkeys((*recorded, *replayed))
            parts = ((key, recorded.get(key), replayed.get(key)) for key in keys)
        case list(), list():
            pairs = enumerate(zip_longest(recorded, replayed), 1)
            parts = ((str(number), recorded_value, replayed) for number, (recorded_value, replayed) in pairs)
        case float(), float() if math.isclose(recorded, replayed, rel_tol=0.0, abs_tol=tolerance):
            return None
        case _:
            return None if recorded == replayed else (path, recorded, replayed)
    below = (
        first_difference(f"{path}.{key}".lstrip("."), recorded_value, replayed, tolerance=tolerance)
        for key, recorded_value, replayed in parts
    )
    return next((found for found in below if found is not None), None)


# A trial that finished must finish again; any other one is stopped where it was stopped.
SELF_ENDED = frozenset({TrialEnd.FINISHED, TrialEnd.FAILED, TrialEnd.REPEAT_LIMIT, TrialEnd.CONTEXT_LIMIT})


# Another build of numpy may round the last digit of a mean otherwise.
ROUNDING_TOLERANCE = 1e-12


# The action of a step comes before its observation, and that before its belief.
STEP_PARTS = ("action", "observation", "belief", "usage", "final")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayDiscrepancy:
    """Where a replay first differs from the record: the step (None for the end), the part of it, and both values.

    ``missing`` is the unrecorded request that was made by then, if there was one.
    """

    step: int | None
    part: str
    recorded: Json
    replayed: Json
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedTrial:
    """One trial run again: how many steps are recorded, how many came now, and the first difference.

    ``agreed`` is how many steps before that were the same as recorded.
    """

    number: int
    recorded: int
    replayed: int
    discrepancy: ReplayDiscrepancy | None
    agreed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """A forecast run again: its trials, the aggregate of the replay (None without one), and where that first differs.

    ``aggregate`` is the difference from the recorded aggregate before calibration.
    """

    trials: tuple[ReplayedTrial, ...]
    raw: Mapping[str, Prediction] | None
    aggregate: ReplayDiscrepancy | None

    @property
    def is_identical(self) -> bool:
        """Whether every step and the aggregate are as recorded."""
        return self.aggregate is None and all(trial.discrepancy is None for trial in self.trials)

    @property
    def steps(self) -> int:
        """How many steps were made again."""
        return sum(trial.replayed for trial in self.trials)


async def replay_forecast(
    trace: ForecastTrace,
    forecaster: ConfiguredForecaster,
    tool_factory: TrialContextFactory | None,
    random: RandomStreams,
    fitted: FittedParameters | None,
    *,
    rules: "Mapping[PriorSource, SpreadWeight] | None" = None,
) -> ReplayResult:
    """Run all recorded trials again; the tool factory must be sealed, and ``fitted`` what the forecast was made with.

    ``rules`` are the weights with which its trials were shrunk, where they were tuned.

    Raises NotFoundError for a forecast that was not completed, StoreError for a damaged record.
    """
    forecast = trace.forecast
    if forecast is None:
        message = f"forecast {trace.id} is {trace.state}; only completed forecasts can be replayed"
        raise NotFoundError(message)
    if trace.removal_note is not None:
        message = f"forecast {trace.id} can no longer be replayed: {trace.removal_note}"
        raise NotFoundError(message)
    replay = _ForecastReplay(trace, forecast, forecaster, tool_factory, random, fitted)
    # Side by side, so that the record of one is read while another thinks.
    runs = await gather_all(replay.replay_trial(record) for record in trace.trials)
    trials = [trial for _, trial in runs]
    counts = bool(select_counted_trials(trials))
    raw = combine_trials(trace.question, trials, forecaster.pool, rules=rules) if counts else None
    recorded = PREDICTIONS.plain(forecast.raw)
    differing = first_difference(
        "", recorded, None if raw is None else PREDICTIONS.plain(raw), tolerance=ROUNDING_TOLERANCE
    )
    return ReplayResult(
        trials=tuple(replayed_trial for replayed_trial, _ in runs),
        raw=raw,
        aggregate=None if differing is None else _to_discrepancy(None, differing),
    )


class OfflineNetwork:
    """Replaces the network: HttpClient, PageFetcher and PageTextReader, all of which refuse."""

    async def get(self, url: str, **_: object) -> bytes:
        """Refuse."""
        self._refuse(url)

    async def post(self, url: str, body: Json, **_: object) -> bytes:
        """Refuse."""
        self._refuse(url)

    async def fetch(self, url: str, **_: object) -> FetchedPage:
        """Refuse."""
        self._refuse(url)

    async def read(self, fetched: FetchedPage) -> PageText:
        """Refuse."""
        self._refuse(fetched.url)

    @staticmethod
    def _refuse(url: str) -> NoReturn:
        message = f"a replay fetches no pages, and the trial asked for {url}"
        raise RequestRejectedError(message)


@dataclass(frozen=True, slots=True)
class _ForecastReplay:
    """Where the trials of one forecast are run again."""

    trace: ForecastTrace
    forecast: Forecast
    configured_forecaster: ConfiguredForecaster
    tool_factory: TrialContextFactory | None
    random: RandomStreams
    fitted: FittedParameters | None

    async def replay_trial(self, record: TrialRecord) -> tuple[ReplayedTrial, Trial]:
        recorded = record.trial or Trial(number=record.number, end=TrialEnd.EMPTY, belief=None, steps=0)
        steps = [logged.step for logged in record.steps]
        watcher = _RecordWatcher()
        comparison = _StepComparison(steps, watcher)
        trial = await self._run_trial(recorded, comparison, watcher)
        if recorded.end not in SELF_ENDED and trial.steps == len(steps):
            trial = dataclasses.replace(trial, end=recorded.end, detail=recorded.detail)
        comparison.compare_end(recorded, trial)
        replayed_trial = ReplayedTrial(
            number=record.number,
            recorded=len(steps),
            replayed=trial.steps,
            discrepancy=await self._first_discrepancy(record.number, comparison),
            agreed=comparison.agreed,
        )
        return replayed_trial, trial

    async def _first_discrepancy(self, trial: int, comparison: "_StepComparison") -> ReplayDiscrepancy | None:
        """Return the first difference; where a prompt was not recorded, it is the place where that one differs."""
        first, request = comparison.first, comparison.watcher.unrecorded
        if first is None or not first.missing or request is None or not isinstance(self.tool_factory, ToolFactory):
            return first
        found = await find_prompt_difference(self.tool_factory.ledger, self.trace, trial, request)
        if found is None:
            return first
        # The request belongs to the step that would have followed it.
        return dataclasses.replace(_to_discrepancy(comparison.agreed + 1, found), missing=first.missing)

    async def _run_trial(self, recorded: Trial, comparison: "_StepComparison", watcher: "_RecordWatcher") -> Trial:
        # One more than recorded where the trial ended by itself, to see that it does again.
        limits = TrialLimits(
            steps=recorded.steps + (recorded.end in SELF_ENDED), seconds=self.configured_forecaster.limits.seconds
        )
        if not limits.steps:
            return recorded
        start = GuardedTrialContext(
            forecast=self.forecast.id,
            cutoff=self.forecast.cutoff,
            trial=recorded.number,
            fitted=self.fitted,
            random=self.random,
            # The limits that the forecaster sees; it may plan by them.
            limits=self.configured_forecaster.limits,
        )
        context = await self._open_trial(start, watcher)
        return await run_trial(
            self.configured_forecaster.implementation,
            self.trace.question,
            context,
            TrialSettings(limits=limits, log=comparison),
        )

    async def _open_trial(self, start: GuardedTrialContext, watcher: "_RecordWatcher") -> GuardedTrialContext:
        if (
            not (self.configured_forecaster.uses_models or self.configured_forecaster.members)
            or self.tool_factory is None
        ):
            return start
        charge = CostAttribution(
            scope=self.forecast.id,
            ref=str(self.forecast.ref),
            venue=self.forecast.ref.venue,
            forecaster=self.forecast.forecaster,
            trial=start.trial,
        )
        opened = await self.tool_factory.open_trial(
            self.trace.question,
            start,
            charge=charge,
            # Nothing is read that was not let through then, and guards for a long text take longer than the trial.
            guarded=False,
        )
        return (
            _WatchedTrialContext(**vars(opened), watcher=watcher)
            if isinstance(opened, RecordedTrialContext)
            else opened
        )


@dataclass(slots=True)
class _StepComparison:
    """Compares each step with the record, and keeps the first difference."""

    recorded: Sequence[Step]
    watcher: "_RecordWatcher"
    first: ReplayDiscrepancy | None = None
    agreed: int = 0

    async def __call__(self, number: int, step: Step, /) -> None:
        if self.first is not None:
            return
        if number > len(self.recorded):
            self._note(number, ("action", None, step.action.name))
        elif step != (recorded_value := self.recorded[number - 1]) and (
            found := _first_step_difference(recorded_value, step)
        ):
            self._note(number, found)
        else:
            self.agreed = number

    def compare_end(self, recorded: Trial, replayed: Trial) -> None:
        """Compare the end of the trial with the record."""
        if self.first is None and (found := first_difference("", _trial_ending(recorded), _trial_ending(replayed))):
            self._note(None, found)

    def _note(self, step: int | None, found: "JsonDifference") -> None:
        self.first = dataclasses.replace(_to_discrepancy(step, found), missing=self.watcher.missing)


@dataclass(slots=True)
class _RecordWatcher:
    """Keeps what a trial first asked for that is not on record."""

    missing: str = ""
    unrecorded: UnrecordedRequest | None = None
    answers: set[str] = field(default_factory=set)

    @contextmanager
    def watch(self, request: UnrecordedRequest | None = None) -> Iterator[None]:
        try:
            yield
        except NotFoundError as error:
            if not self.missing:
                self.missing, self.unrecorded = str(error), request
            raise


@dataclass(frozen=True, kw_only=True)
class _WatchedTrialContext(RecordedTrialContext):
    """The context of a trial that is run again, which notes requests that are not recorded."""

    watcher: _RecordWatcher

    async def use_tool(self, tool: str, arguments: Mapping[str, Json]) -> ToolResult:
        with self.watcher.watch():
            return await RecordedTrialContext.use_tool(self, tool, arguments)

    def dialect(self, role: str) -> ModelDialect:
        with self.watcher.watch():
            return RecordedTrialContext.dialect(self, role)

    async def ask_model(self, role: str, prompt: Prompt, *, seed: int | None = None) -> ModelAnswer:
        earlier = frozenset(self.watcher.answers)
        with self.watcher.watch(UnrecordedRequest(role=role, prompt=prompt, seed=seed, earlier_answers=earlier)):
            answer = await RecordedTrialContext.ask_model(self, role, prompt, seed=seed)
        self.watcher.answers.add(answer.document)
        return answer


def _to_discrepancy(step: int | None, found: JsonDifference) -> ReplayDiscrepancy:
    part, recorded, replayed = found
    return ReplayDiscrepancy(step=step, part=part, recorded=recorded, replayed=replayed)


def _trial_ending(trial: Trial) -> dict[str, Json]:
    return {"steps": trial.steps, "end": trial.end.value, "detail": trial.detail}


def _first_step_difference(recorded: Step, replayed: Step) -> JsonDifference | None:
    """Compare two steps as the ledger would hold them, in the order in which one part follows from the other."""
    before, after = (json.loads(STEP.encode(step)) for step in (recorded, replayed))
    differing = (first_difference(part, before.get(part), after.get(part)) for part in STEP_PARTS)
    return next((found for found in differing if found is not None), None)
