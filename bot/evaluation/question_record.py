"""The record of one question: its forecasts with the decisions on them, and its outcomes."""

from collections.abc import Mapping

from bot.core.clock import SystemClock
from bot.core.forecasts import Forecast
from bot.core.light_dataclass import dataclass
from bot.core.outcomes import BRIER, CHOICE_BRIER, Resolution, is_withdrawn_outcome
from bot.core.questions import Question, QuestionRef, describe_changes
from bot.core.submissions import SendDecision
from bot.stats.scoring_rules import ResolvedPrediction, RuleScores, score_predictions
from bot.store.forecasts import ForecastTrace
from bot.store.ledger import ReadOnlyState
from bot.store.questions import QuestionState
from bot.store.submissions import DecisionRow, IntentRow


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedForecast:
    """One forecast with its trace, the decisions on it, and the intents that followed."""

    forecast: Forecast
    trace: ForecastTrace
    decisions: tuple[DecisionRow, ...]
    intents: tuple[IntentRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionRecord:
    """One question as it is now, its forecasts (all of them, oldest first), and its outcomes by target.

    ``state`` is the last one that its venue reported. ``recorded_forecasts`` are the forecasts with full details: the
    requested one, or the newest of each forecaster. ``versions`` are the questions that the forecasts were made for, by
    digest: each forecast is shown on its own grid, and with its own options. ``excluded`` says why config excludes the
    question, "" where it does not.
    """

    question: Question
    state: QuestionState
    versions: Mapping[str, Question]
    history: tuple[Forecast, ...]
    recorded_forecasts: tuple[RecordedForecast, ...]
    outcomes: Mapping[str, Resolution]
    excluded: str = ""

    def question_changes(self, version: str) -> tuple[str, ...]:
        """Return the changes of the question since that version of it."""
        return describe_changes(self.versions[version], self.question)

    def target_scores(self, recorded_forecast: RecordedForecast, target: str) -> RuleScores:
        """Return the scores of one target by rule; none while it has no outcome or where no rule applies."""
        resolution = self.outcomes.get(target)
        if resolution is None:
            return {}
        answer = ResolvedPrediction(
            recorded_forecast.forecast.predictions[target], recorded_forecast.trace.question.shape, resolution.outcome
        )
        return score_predictions([answer])[0]

    def brier_scores(self, recorded_forecast: RecordedForecast) -> dict[str, float | None]:
        """Return the Brier score of each target, None where it has none."""
        scores = {
            target: self.target_scores(recorded_forecast, target) for target in recorded_forecast.forecast.predictions
        }
        return {target: rule_scores.get(BRIER, rule_scores.get(CHOICE_BRIER)) for target, rule_scores in scores.items()}


async def load_question_record(
    records: ReadOnlyState, ref: QuestionRef, forecast: Forecast | None = None
) -> QuestionRecord:
    """Gather all about a question, with the details of one forecast, or of the newest of each forecaster."""
    ledger = records.ledger
    history = await ledger.forecasts.history(ref)
    shown_forecasts = [forecast] if forecast else [*{past.forecaster: past for past in history}.values()]
    question, venue = await ledger.questions.get(ref), records.config.venues.get(ref.venue)
    outcomes = {resolution.target: resolution for resolution in await ledger.resolutions.current(ref)}
    return QuestionRecord(
        question=question,
        excluded=(venue and venue.exclude.exclusion_reason(question)) or "",
        state=_question_state(question, outcomes),
        versions=await ledger.forecasts.questions_of(history),
        history=tuple(history),
        recorded_forecasts=tuple([await _load_recorded_forecast(records, one) for one in shown_forecasts]),
        outcomes=outcomes,
    )


def _question_state(question: Question, outcomes: Mapping[str, Resolution]) -> QuestionState:
    known = {key for key, found in outcomes.items() if not is_withdrawn_outcome(found.outcome)}
    if known.issuperset(target.key for target in question.targets):
        return QuestionState.RESOLVED
    is_open = question.closes_at is None or question.closes_at > SystemClock().now()
    return QuestionState.OPEN if is_open else QuestionState.CLOSED


async def _load_recorded_forecast(records: ReadOnlyState, forecast: Forecast) -> RecordedForecast:
    ledger = records.ledger
    decisions = await ledger.submissions.decisions(forecast.id)
    planned = [row.decision.intent.id for row in decisions if isinstance(row.decision, SendDecision)]
    return RecordedForecast(
        forecast=forecast,
        trace=await ledger.forecasts.trace(forecast.id),
        decisions=tuple(decisions),
        intents=tuple([await ledger.submissions.get(intent_id) for intent_id in planned]),
    )
