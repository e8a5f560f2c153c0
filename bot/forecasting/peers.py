"""The forecasts of other forecasters on the same question, for forecasters that combine them.

No model is asked; only forecasts from before the cutoff count, and each read is recorded.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from bot.core.beliefs import StepObservation, ToolResult
from bot.core.forecasts import Forecast, Trial
from bot.core.interfaces import Clock
from bot.core.language_models import CostAttribution
from bot.core.light_dataclass import dataclass
from bot.core.predictions import Prediction
from bot.core.questions import Question
from bot.core.values import Json
from bot.forecasting.aggregation import ELSEWHERE_MEMBER, PEER_FORECASTS, pool_prices, select_counted_trials
from bot.forecasting.recording import TrialRecording, request_digest
from bot.forecasting.tools.paired_prices import describe_paired_price
from bot.forecasting.trial_memory import NOTE_SERIALIZER, ToolCallNote
from bot.forecasting.trial_tools import CALL_SERIALIZER, GuardedTrialContext, ToolCallRecord
from bot.store.ledger import Ledger
from bot.store.question_pairs import PairedPrice, PairUse
from bot.store.serialization import PREDICTIONS, question_version

# A member's forecast that is older than this is not used.
MAX_FORECAST_AGE = timedelta(days=6)


STUCK_REASON = "it did not move from its starting point"
NO_PAIR_REASON = "no other venue is known to ask the same and to have a price"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerForecast:
    """A forecast of another forecaster: its predictions by target, aggregated over trials, before calibration.

    ``description`` replaces the usual words about where it comes from.
    """

    predictions: Mapping[str, Prediction]
    forecast: str
    made_at: datetime
    cutoff: datetime
    description: str = ""


def has_not_moved(trials: Sequence[Trial]) -> bool:
    """Say whether all trials that count ended exactly at the starting point that they had stated: they got stuck."""
    counted = select_counted_trials(trials)
    return bool(counted) and all(
        trial.belief is not None
        and trial.prior is not None
        and all(prediction == trial.prior.prediction for prediction in trial.belief.predictions.values())
        for trial in counted
    )


def elsewhere_forecast(question: Question, prices: Sequence[PairedPrice], *, cutoff: datetime) -> PeerForecast | str:
    """Return the mean of the prices of the same question elsewhere, in log odds, or why there is none."""
    if not prices:
        return NO_PAIR_REASON
    pooled = pool_prices([one.prediction for one in prices])
    return PeerForecast(
        predictions={question.targets[0].key: pooled},
        forecast=" ".join(str(one.ref) for one in prices),
        made_at=max(one.at for one in prices),
        cutoff=cutoff,
        description="; ".join(describe_paired_price(one, cutoff) for one in prices),
    )


def peer_result(found: Mapping[str, PeerForecast | str]) -> ToolResult:
    """Return the result of ``peer_forecasts`` for forecasts by name, or the reasons why there is none."""
    answers: list[Json] = [
        {
            "forecaster": name,
            "forecast": one.forecast,
            "made_at": one.made_at.isoformat(),
            "cutoff": one.cutoff.isoformat(),
            "predictions": PREDICTIONS.plain(one.predictions),
        }
        for name, one in found.items()
        if isinstance(one, PeerForecast)
    ]
    lines = [
        f"{name} is left out: {one}"
        if isinstance(one, str)
        else f"{name}: {one.description or f'forecast {one.forecast} of {one.made_at:%Y-%m-%d %H:%M} UTC'}"
        for name, one in found.items()
    ]
    data: Json = {
        "answers": answers,
        "absent": {name: one for name, one in found.items() if isinstance(one, str)},
    }
    return ToolResult(observation=StepObservation(text="\n".join(lines)), data=data)


@dataclass(frozen=True, slots=True)
class PeerToolFactory:
    """The forecasts of other forecasters, for those that build on them, unless older than ``max_age``.

    ``pair_use`` says which paired questions at other venues give prices.
    """

    ledger: Ledger
    clock: Clock
    max_age: timedelta = MAX_FORECAST_AGE
    pair_use: PairUse = PairUse.CONFIRMED

    async def open_trial(
        self, question: Question, start: GuardedTrialContext, *, charge: CostAttribution, guarded: bool = True
    ) -> "PeerTrialContext":
        """Return the context of one trial, with everything that it had read before, if it had begun."""
        record = TrialRecording(self.ledger.recordings, charge.scope, charge.trial, self.clock, read_only=False)
        await record.load()
        return PeerTrialContext(
            **vars(start),
            ledger=self.ledger,
            question=question,
            charge=charge,
            record=record,
            max_age=self.max_age,
            pair_use=self.pair_use,
            guarded=guarded,
        )


@dataclass(frozen=True, kw_only=True)
class PeerTrialContext(GuardedTrialContext):
    """One trial whose only tool is ``peer_forecasts``, used with the names of ``forecasters``.

    For code, in ``data``: ``answers``, each with forecaster, id, moments and ``predictions`` (aggregated over its
    trials, before calibration), in the order of the names; and ``absent``, why others have none, by name.
    """

    ledger: Ledger
    question: Question
    charge: CostAttribution
    record: TrialRecording
    max_age: timedelta = MAX_FORECAST_AGE
    pair_use: PairUse = PairUse.CONFIRMED
    guarded: bool = True

    async def use_tool(self, tool: str, arguments: Mapping[str, Json]) -> ToolResult:
        """Read the forecasts of the named forecasters; no other tool can be used."""
        names = arguments.get("forecasters")
        if tool != PEER_FORECASTS or not isinstance(names, list):
            return await GuardedTrialContext.use_tool(self, tool, arguments)
        asked = request_digest({"tool": tool, "arguments": dict(arguments)})
        reply = await self.record.replay_or_run("tool", asked, lambda: self._read_forecasts([*map(str, names)]))
        result = CALL_SERIALIZER.value(reply.value).result
        self.record.documents.update(result.observation.documents)
        documents = tuple(dict.fromkeys((*result.observation.documents, reply.digest)))
        observation = StepObservation(text=result.observation.text, documents=documents)
        return ToolResult(observation=observation, data=result.data)

    async def store_text(self, text: str) -> str:
        """Put a text on record and return its digest."""
        return await self.record.store_text(text, self.ledger.documents)

    @property
    def trial_record(self) -> TrialRecording:
        """What it has recorded."""
        return self.record

    async def _read_forecasts(self, names: Sequence[str]) -> object:
        result = peer_result({name: await self._newest_forecast(name) for name in names})
        return CALL_SERIALIZER.plain(ToolCallRecord(result=result, note=NOTE_SERIALIZER.plain(ToolCallNote())))

    async def _newest_forecast(self, name: str) -> PeerForecast | str:
        """Return its newest forecast that counts, or why there is none."""
        if name == ELSEWHERE_MEMBER:
            found = await self.ledger.question_pairs.paired_prices(self.question, use=self.pair_use, before=self.cutoff)
            return elsewhere_forecast(self.question, found, cutoff=self.cutoff)
        version, why = question_version(self.question), "it has no forecast of this question"
        for made in reversed(await self.ledger.forecasts.history(self.question.ref)):
            if made.forecaster != name or made.id == self.charge.scope:
                continue
            if made.version != version:
                why = "its forecast is of another text of this question"
            elif made.cutoff > self.cutoff:
                why = "its forecast may use information from after the cutoff"
            elif self.cutoff - made.cutoff > self.max_age:
                why = f"its last forecast, of {made.made_at:%Y-%m-%d}, is too old"
            else:
                fault = await self._find_fault(made)
                if fault is None:
                    return PeerForecast(
                        predictions=made.raw, forecast=made.id, made_at=made.made_at, cutoff=made.cutoff
                    )
                why = fault
        return why

    async def _find_fault(self, made: Forecast) -> str | None:
        """Return why a forecast of the question does not count, None if it does."""
        trace = await self.ledger.forecasts.trace(made.id)
        if self.guarded and trace.setup is not None and trace.setup.clairvoyant:
            return "it is clairvoyant"
        return STUCK_REASON if has_not_moved([one.trial for one in trace.trials if one.trial is not None]) else None
