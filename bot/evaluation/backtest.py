"""Backtests. Each past round is forecast with only what had resolved before its due date, then scored."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import partial

import structlog

from bot.core.beliefs import Step
from bot.core.clock import SystemClock
from bot.core.concurrency import map_concurrently
from bot.core.errors import ServiceUnavailableError
from bot.core.forecasts import Trial
from bot.core.ids import derive_id
from bot.core.interfaces import Clock, RandomStreams, RoundArchive
from bot.core.language_models import CostAttribution
from bot.core.learning import FittedParameters, Round
from bot.core.predictions import Prediction
from bot.core.questions import Question, QuestionRef
from bot.evaluation.score_rows import ScoreRows, TargetPredictions, score_round
from bot.forecasting.aggregation import combine_trials, has_enough_trials
from bot.forecasting.failures import explain_too_few_trials
from bot.forecasting.forecast_run import ConfiguredForecaster, WarmStart
from bot.forecasting.trial import TrialSettings, run_trial
from bot.forecasting.trial_tools import GuardedTrialContext, TrialContextFactory, hide_late_crowd, question_cutoff

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestSubject:
    """The forecaster under test as configured, and how it learns what was known before a round.

    ``tool_factory`` is set for one that uses models; ``concurrency`` is how many questions are forecast concurrently;
    ``run`` names the experiment: running the same name again continues it, and repeats no request. ``clock`` bounds how
    long trials wait for the first one.
    """

    configured_forecaster: ConfiguredForecaster
    fit_parameters: Callable[[Round], FittedParameters | None]
    tool_factory: TrialContextFactory | None = None
    concurrency: int = 1
    run: str = ""
    clock: Clock = field(default_factory=SystemClock)

    def seed_name(self, ref: QuestionRef) -> str:
        """Return the name that seeds random numbers: the same in every run, since a repeated request costs nothing."""
        return derive_id("backtest", self.configured_forecaster.name, str(ref))

    def record_scope(self, ref: QuestionRef) -> str:
        """Return the name under which the backtest of a question is recorded."""
        parts = [part for part in (self.run, "clairvoyant" if self.configured_forecaster.clairvoyant else "") if part]
        return derive_id("backtest", self.configured_forecaster.name, str(ref), *parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestWindow:
    """Which rounds to test, by their day; None is open-ended."""

    first: date | None = None
    last: date | None = None

    def contains(self, a_round: Round) -> bool:
        """Return whether the round's day lies in the window, ends included."""
        day = a_round.as_of.date()
        return (self.first is None or self.first <= day) and (self.last is None or day <= self.last)


async def run_backtest(
    archive: RoundArchive,
    subject: BacktestSubject,
    window: BacktestWindow,
    *,
    random: RandomStreams,
    progress: Callable[[str], None],
) -> ScoreRows:
    """Return the scored rows of all rounds in the window that have outcomes, each question by the rules for its kind.

    Raises LeakError if what the forecaster learned reaches beyond a round's moment.
    """
    found = ScoreRows(binary=[], by_rule=[])
    for key in archive.round_keys():
        a_round = archive.read_round(key)
        if window.contains(a_round):
            answers = await forecast_round(a_round, subject, random=random)
            scored = score_round(a_round, answers)
            found.binary.extend(scored.binary)
            found.by_rule.extend(scored.by_rule)
            progress(key)
    return found


async def forecast_round(a_round: Round, subject: BacktestSubject, *, random: RandomStreams) -> TargetPredictions:
    """Return the predictions of a forecaster for all questions of a round that it can answer.

    Raises LeakError if what it learned reaches beyond the round's moment, ServiceUnavailableError for no answer at all.
    """
    return await _RoundBacktest(a_round, subject, subject.fit_parameters(a_round), random).collect_predictions()


@dataclass(frozen=True, slots=True)
class _RoundBacktest:
    """One forecaster before one round; the trial context checks that what it learned is older than the round."""

    round: Round
    subject: BacktestSubject
    fitted: FittedParameters | None
    random: RandomStreams
    unanswered: Counter[str] = field(default_factory=Counter)

    async def collect_predictions(self) -> dict[tuple[QuestionRef, str], Prediction]:
        answers: dict[tuple[QuestionRef, str], Prediction] = {}
        questions = self.round.questions
        found = await map_concurrently(self._predict, questions, places=self.subject.concurrency)
        for question, predictions in zip(questions, found, strict=True):
            answers.update({(question.ref, target): prediction for target, prediction in predictions.items()})
        self._report_unanswered(len(questions))
        return answers

    def _report_unanswered(self, asked: int) -> None:
        """Log how many questions have no forecast and why; raises ServiceUnavailableError if none has one."""
        if not self.unanswered:
            return
        count = sum(self.unanswered.values())
        why = self.unanswered.most_common(1)[0][0]
        if count == asked:
            name = self.subject.configured_forecaster.name
            message = f"{name} answered none of the {asked} questions of {self.round.key}: {why}"
            raise ServiceUnavailableError(message)
        log.warning("questions without a forecast", round=self.round.key, count=count, of=asked, mostly=why)

    async def _predict(self, question: Question) -> Mapping[str, Prediction]:
        forecaster = self.subject.configured_forecaster
        warm = WarmStart(clock=self.subject.clock, seconds=forecaster.warm_start_s if forecaster.uses_models else 0.0)
        trials = await warm.run_trials(partial(self._run_trial, question, warm), range(1, forecaster.trials + 1))
        if not has_enough_trials(trials, wanted=forecaster.trials, share=forecaster.min_trial_share):
            self.unanswered[explain_too_few_trials(trials, wanted=forecaster.trials)] += 1
            return {}
        return combine_trials(question, trials, forecaster.pool)

    async def _run_trial(self, question: Question, warm: WarmStart, number: int) -> Trial:
        forecaster = self.subject.configured_forecaster
        context = await self._open_trial(
            question,
            GuardedTrialContext(
                forecast=self.subject.seed_name(question.ref),
                cutoff=question_cutoff(question, self.round.as_of),
                trial=number,
                fitted=self.fitted,
                random=self.random,
                limits=forecaster.limits,
            ),
        )
        asked = question if forecaster.clairvoyant else hide_late_crowd(question, context.cutoff)
        run = TrialSettings(limits=forecaster.limits, log=partial(_discard_step, warm))
        return await run_trial(forecaster.implementation, asked, context, run)

    async def _open_trial(self, question: Question, start: GuardedTrialContext) -> GuardedTrialContext:
        subject = self.subject
        if subject.tool_factory is None:
            return start
        return await subject.tool_factory.open_trial(
            question,
            start,
            charge=CostAttribution(
                scope=subject.record_scope(question.ref),
                ref=str(question.ref),
                venue=question.ref.venue,
                forecaster=subject.configured_forecaster.name,
                trial=start.trial,
            ),
            guarded=not subject.configured_forecaster.clairvoyant,
        )


async def _discard_step(warm: WarmStart, _number: int, _step: Step) -> None:
    """Record nothing: a backtest can be repeated, at no cost where models and tools answer from the record."""
    warm.release()
