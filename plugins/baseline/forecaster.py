"""The baseline as a forecaster: first what was believed before any outcome, then what earlier outcomes taught.

Questions that are no yes-or-no question get the crowd's own prediction, or an even spread where there is no crowd.
"""

import math
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime

from bot.api import (
    Action,
    Belief,
    Binary,
    BinaryShape,
    ChoiceShape,
    Confidence,
    CurveShape,
    Desk,
    Evidence,
    Fitted,
    Observation,
    Question,
    Settings,
    Step,
    Target,
    Workplace,
    flat_prediction,
)
from plugins.baseline.facts import Event, Facts
from plugins.baseline.model import form_of, predict
from plugins.baseline.parameters import Parameters, from_json

# Sets of parameters kept in memory: those of the rounds of a backfill that are forecast side by side.
KEPT = 64


class BaselineSettings(Settings):
    """The baseline has nothing to set: what it knows comes from outcomes."""


@asynccontextmanager
async def open_baseline(_settings: BaselineSettings, _place: Workplace) -> AsyncIterator["Baseline"]:
    """Open the baseline; it holds no connection."""
    yield Baseline()


class Baseline:
    """Forecasts by crowd price, season and history; the same question and parameters give the same answer."""

    def __init__(self) -> None:
        self._read: dict[datetime, tuple[Fitted, Parameters]] = {}

    async def steps(self, question: Question, desk: Desk) -> AsyncGenerator[Step, None]:
        """Yield the prior, then the learned belief where something was learned before the cutoff."""
        if not isinstance(question.shape, BinaryShape):
            yield _follow_the_crowd(question, question.shape)
            return
        facts = facts_of(question, desk.cutoff)
        events = {target.key: event_of(facts, target) for target in question.targets}
        prior = Estimates("prior", "what such questions are like", Parameters(before=_day(desk.cutoff)), events)
        yield prior.step(None, why="what was believed before any outcome")
        if desk.fitted is not None:
            fitted = desk.fitted
            learned = Estimates("learned", "outcomes of earlier rounds", self._parameters(fitted), events)
            why = f"learned from {fitted.examples} outcomes known before {fitted.before:%Y-%m-%d}"
            yield learned.step(prior, why=why)

    def _parameters(self, fitted: Fitted) -> Parameters:
        """Read each set of parameters once, as long as it is among the last KEPT; a backfill has one for each round."""
        kept = self._read.get(fitted.before)
        if kept is None or kept[0] is not fitted:
            kept = self._read[fitted.before] = (fitted, from_json(fitted.payload))
            if len(self._read) > KEPT:
                del self._read[next(iter(self._read))]
        return kept[1]


def facts_of(question: Question, asked_at: datetime) -> Facts:
    """Return what the models may know of a question that was asked at a moment; source and id as its venue has them."""
    return Facts(
        source=question.source,
        key=question.facts.get("id", question.ref.key),
        due=_day(question.as_of or asked_at),
        text=question.title,
        value=_value(question),
    )


def event_of(facts: Facts, target: Target) -> Event:
    """Return the event of one target: a dated one for a target of a series, else the question's single outcome."""
    if target.horizon_days is None or target.resolves_at is None:
        return Event(facts)
    return Event(facts, _day(target.resolves_at))


def _value(question: Question) -> float | None:
    if question.crowd is not None and isinstance(question.crowd.prediction, Binary):
        return question.crowd.prediction.probability
    try:
        value = float(question.facts.get("freeze_value", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _day(moment: datetime) -> date:
    return moment.astimezone(UTC).date()


class Estimates:
    """What one set of parameters says of all targets of a question; ``source`` names where its evidence comes from."""

    def __init__(self, name: str, source: str, parameters: Parameters, events: Mapping[str, Event]) -> None:
        self.name = name
        self.source = source
        self.learned = bool(parameters.rows)
        self.forms = sorted({form_of(event).name for event in events.values()})
        self.by_target = {key: predict(parameters, event) for key, event in events.items()}

    def step(self, earlier: "Estimates | None", *, why: str) -> Step:
        """Return the step that this belief is, with what moved it, also from an earlier step's beginning."""
        told = [evidence for key in self.by_target for evidence in self._told(key, earlier)]
        belief = Belief(
            predictions={key: Binary(estimate.probability) for key, estimate in self.by_target.items()},
            confidence=Confidence.MEDIUM if self.learned else Confidence.LOW,
            anchor=str(next(iter(self.by_target.values())).reasons[0]),
            evidence_for=tuple(evidence for evidence in told if (evidence.log_odds or 0.0) > 0.0),
            evidence_against=tuple(evidence for evidence in told if (evidence.log_odds or 0.0) < 0.0),
            reason=why,
        )
        action = Action(name=self.name, arguments={"form": ", ".join(self.forms)})
        reasons = [(key, reason) for key, estimate in self.by_target.items() for reason in estimate.reasons]
        text = "\n".join(f"{key}: {reason}" for key, reason in reasons)
        return Step(action=action, observation=Observation(text=text), belief=belief)

    def _told(self, key: str, earlier: "Estimates | None") -> Iterator[Evidence]:
        where = "" if len(self.by_target) == 1 else f"{key}: "
        first, *others = self.by_target[key].reasons
        if earlier is not None:
            shift = _log_odds(first.after) - _log_odds(earlier.by_target[key].reasons[0].after)
            yield Evidence(text=f"{where}where it begins, as learned: {first.why}", source=self.source, log_odds=shift)
        for reason in others:
            shift = _log_odds(reason.after) - _log_odds(reason.after if reason.before is None else reason.before)
            yield Evidence(text=f"{where}{reason.why}", source=self.source, log_odds=shift)


def _log_odds(probability: float) -> float:
    return math.log(probability / (1.0 - probability))


def _follow_the_crowd(question: Question, shape: ChoiceShape | CurveShape) -> Step:
    if question.crowd is not None:
        prediction, why = question.crowd.prediction, "the crowd's own prediction"
    else:
        prediction, why = flat_prediction(shape), "nothing is known, so every possibility counts alike"
    belief = Belief(predictions={target.key: prediction for target in question.targets}, anchor=why, reason=why)
    return Step(action=Action(name="crowd"), observation=Observation(text=why), belief=belief)
