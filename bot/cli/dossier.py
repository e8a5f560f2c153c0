"""What the ledger knows of one question, gathered from its table families."""

from collections.abc import Mapping
from dataclasses import dataclass

from bot.app import Records
from bot.clock import SystemClock
from bot.domain.forecast import Forecast
from bot.domain.question import Question, QuestionRef
from bot.domain.question_changes import describe_changes
from bot.domain.resolution import Resolution, is_taken_back
from bot.judging import Answer, Marks, marks_of
from bot.store.forecasts import Trace
from bot.store.questions import QuestionState
from bot.store.submissions import DecisionRow, IntentRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One forecast with its trace, what was decided over it, and the intents that came of that."""

    forecast: Forecast
    trace: Trace
    decisions: tuple[DecisionRow, ...]
    intents: tuple[IntentRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dossier:
    """One question as it stands, its forecasts (all of them, oldest first), and its outcomes by target.

    ``state`` is what its venue said last. ``cases`` are the forecasts told in full: the one asked for, or the newest of
    each forecaster. ``versions`` are the questions that the forecasts were made for, by digest: each forecast is shown
    on the grid, and with the options, of its own.
    ``excluded`` says why config leaves the question out, "" where it does not.
    """

    question: Question
    state: QuestionState
    versions: Mapping[str, Question]
    history: tuple[Forecast, ...]
    cases: tuple[Case, ...]
    outcomes: Mapping[str, Resolution]
    excluded: str = ""

    def changes(self, version: str) -> tuple[str, ...]:
        """Return what the question asks otherwise now than in that version of it."""
        return describe_changes(self.versions[version], self.question)

    def marks(self, case: Case, target: str) -> Marks:
        """Return the scores of one target by rule; none while it has no outcome or where no rule applies."""
        resolution = self.outcomes.get(target)
        if resolution is None:
            return {}
        answer = Answer(case.forecast.predictions[target], case.trace.question.shape, resolution.outcome)
        return marks_of([answer])[0]


async def dossier_of(records: Records, ref: QuestionRef, forecast: Forecast | None = None) -> Dossier:
    """Gather all about a question, with one forecast in full, or with the newest of each forecaster."""
    ledger = records.ledger
    history = await ledger.forecasts.history(ref)
    told = [forecast] if forecast else [*{past.forecaster: past for past in history}.values()]
    question, venue = await ledger.questions.get(ref), records.config.venues.get(ref.venue)
    outcomes = {resolution.target: resolution for resolution in await ledger.resolutions.current(ref)}
    return Dossier(
        question=question,
        excluded=(venue and venue.exclude.why(question)) or "",
        state=_state(question, outcomes),
        versions=await ledger.forecasts.questions_of(history),
        history=tuple(history),
        cases=tuple([await _case(records, one) for one in told]),
        outcomes=outcomes,
    )


def _state(question: Question, outcomes: Mapping[str, Resolution]) -> QuestionState:
    known = {key for key, found in outcomes.items() if not is_taken_back(found.outcome)}
    if known.issuperset(target.key for target in question.targets):
        return QuestionState.RESOLVED
    is_open = question.closes_at is None or question.closes_at > SystemClock().now()
    return QuestionState.OPEN if is_open else QuestionState.CLOSED


async def _case(records: Records, forecast: Forecast) -> Case:
    ledger, ref = records.ledger, forecast.ref
    trace = await ledger.forecasts.trace(forecast.id)
    venue = records.config.venues.get(ref.venue)
    account, batch = venue.account if venue else "default", trace.question.batch
    rows = await ledger.submissions.intents(ref.venue, account, batch) if batch else []
    return Case(
        forecast=forecast,
        trace=trace,
        decisions=tuple(await ledger.submissions.decisions(forecast.id)),
        intents=tuple(row for row in rows if row.intent.forecast == forecast.id),
    )
