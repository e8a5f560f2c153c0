"""Backtests. Each past round is forecast with only what had resolved before its due date, then scored."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import date, datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol

import structlog

from bot.core.beliefs import PriorSource, Step, ToolResult
from bot.core.clock import SystemClock
from bot.core.concurrency import map_concurrently
from bot.core.errors import ServiceUnavailableError
from bot.core.forecasts import Trial
from bot.core.ids import derive_id
from bot.core.interfaces import Clock, RandomStreams, RoundArchive
from bot.core.language_models import CostAttribution
from bot.core.learning import FittedParameters, ResolvedForecast, Round
from bot.core.light_dataclass import dataclass
from bot.core.outcomes import Resolution
from bot.core.predictions import Prediction
from bot.core.questions import Question, QuestionRef
from bot.core.values import Json
from bot.evaluation.score_rows import ScoreRows, TargetPredictions, score_round
from bot.forecasting.aggregation import (
    ELSEWHERE_MEMBER,
    PEER_FORECASTS,
    PoolingMethod,
    combine_trials,
    has_enough_trials,
)
from bot.forecasting.failures import explain_too_few_trials
from bot.forecasting.forecast_run import ConfiguredForecaster, WarmStart
from bot.forecasting.parameter_fitting import elsewhere_past
from bot.forecasting.peers import STUCK_REASON, PeerForecast, elsewhere_forecast, has_not_moved, peer_result
from bot.forecasting.question_admission import AdmittedQuestion, QuestionAdmission, map_admitted
from bot.forecasting.question_matching import match_questions, read_features
from bot.forecasting.trial import StepLogger, TrialSettings, run_trial
from bot.forecasting.trial_tools import GuardedTrialContext, TrialContextFactory, hide_late_crowd, question_cutoff
from bot.forecasting.tuned_shrinkage import shrinkage_examples, tune_shrinkage
from bot.store.question_pairs import PairedPrice, fit_prediction

if TYPE_CHECKING:
    from bot.stats.aggregation import SpreadWeight

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestSubject:
    """The forecaster under test as configured, and how it learns what was known before a round.

    ``tool_factory`` is set for one that uses models, or builds on other forecasters; ``concurrency`` is how many
    questions are forecast concurrently; ``run`` names the experiment: running the same name again continues it, and
    repeats no request. ``clock`` bounds how long trials wait for the first one.
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


@dataclass(frozen=True, slots=True)
class RoundForecasts:
    """The forecasts of one round: the predictions of each question's targets, and the trials that they come from."""

    predictions: TargetPredictions
    trials: Mapping[QuestionRef, Sequence[Trial]]


@dataclass(slots=True)
class BacktestHistory:
    """What the forecasters of a backtest said so far, round by round, for those that build on others."""

    rounds: list[Round] = field(default_factory=list)
    forecasts: dict[tuple[str, str], RoundForecasts] = field(default_factory=dict)
    _pairs: dict[str, Mapping[QuestionRef, Sequence[Question]]] = field(default_factory=dict)

    def record(self, a_round: Round, forecaster: str, made: RoundForecasts) -> None:
        """Keep the forecasts of a round."""
        if not self.rounds or self.rounds[-1].key != a_round.key:
            self.rounds.append(a_round)
        self.forecasts[forecaster, a_round.key] = made

    def find_forecast(self, forecaster: str, question: Question) -> PeerForecast | str:
        """Return what a forecaster said of a question in the newest round, or why it is not used."""
        a_round = self.rounds[-1]
        if forecaster == ELSEWHERE_MEMBER:
            cutoff = question_cutoff(question, a_round.as_of)
            return elsewhere_forecast(question, self._paired_prices(a_round, question), cutoff=cutoff)
        made = self.forecasts.get((forecaster, a_round.key))
        keys = [(question.ref, target.key) for target in question.targets]
        if made is None or not all(key in made.predictions for key in keys):
            return "it has no forecast of this question"
        if has_not_moved(made.trials.get(question.ref, ())):
            return STUCK_REASON
        return PeerForecast(
            predictions={target: made.predictions[ref, target] for ref, target in keys},
            forecast=derive_id("backtest", forecaster, str(question.ref)),
            made_at=a_round.as_of,
            cutoff=a_round.as_of,
        )

    def resolved_forecasts(self, forecasters: Collection[str], before: datetime) -> list[ResolvedForecast]:
        """Return the forecasts by these forecasters of targets whose outcome was known before the moment.

        With ``elsewhere`` among them, also what prices of the same questions in the same round said.
        """
        found = self._forecasts_by(forecasters, before)
        if ELSEWHERE_MEMBER not in forecasters:
            return found
        rounds = {question.ref: one for one in self.rounds for question in one.questions}
        last = {(past.resolution.ref, past.resolution.target): past for past in found}
        prices = ((past, self._paired_prices(rounds[past.question.ref], past.question)) for past in last.values())
        return [*found, *(elsewhere_past(past, [one.prediction for one in known]) for past, known in prices if known)]

    def resolved_trials(self, forecaster: str, before: datetime) -> list[tuple[ResolvedForecast, Sequence[Trial]]]:
        """Return the same for one forecaster, each with the trials of the question."""
        trials = {
            ref: those
            for (name, _), made in self.forecasts.items()
            if name == forecaster
            for ref, those in made.trials.items()
        }
        return [(past, trials.get(past.question.ref, ())) for past in self._forecasts_by([forecaster], before)]

    def _paired_prices(self, a_round: Round, question: Question) -> list[PairedPrice]:
        """Return the prices of questions of the same round that ask the same, of before the cutoff.

        Nobody judged these pairs, so only those count that are the same by all checks.
        """
        if a_round.key not in self._pairs:
            self._pairs[a_round.key] = pair_round(a_round)
        cutoff = question_cutoff(question, a_round.as_of)
        return [
            PairedPrice(ref=other.ref, title=other.title, prediction=prediction, at=other.crowd.at)
            for other in self._pairs[a_round.key].get(question.ref, ())
            if other.crowd is not None
            and other.crowd.at <= cutoff
            and (prediction := fit_prediction(other.crowd.prediction, question)) is not None
        ]

    def _forecasts_by(self, forecasters: Collection[str], before: datetime) -> list[ResolvedForecast]:
        return [
            ResolvedForecast(
                forecast=derive_id("backtest", forecaster, str(question.ref)),
                forecaster=forecaster,
                question=question,
                prediction=made.predictions[resolution.ref, resolution.target],
                resolution=resolution,
                cutoff=question_cutoff(question, a_round.as_of),
            )
            for a_round in self.rounds
            if a_round.as_of < before
            for forecaster in forecasters
            if (made := self.forecasts.get((forecaster, a_round.key))) is not None
            for question, resolution in _known_resolutions(a_round, before)
            if (resolution.ref, resolution.target) in made.predictions and question.allows_training
        ]


def pair_round(a_round: Round) -> Mapping[QuestionRef, Sequence[Question]]:
    """Return for each question of a round those that are the same by all checks, but of another source."""
    questions = {question.ref: question for question in a_round.questions if question.crowd is not None}
    today, found = a_round.as_of.date(), defaultdict[QuestionRef, list[Question]](list)
    for match in match_questions([read_features(question, today=today) for question in questions.values()]):
        if match.is_exact:
            found[match.first].append(questions[match.second])
            found[match.second].append(questions[match.first])
    return found


def _known_resolutions(a_round: Round, before: datetime) -> Iterator[tuple[Question, Resolution]]:
    questions = {question.ref: question for question in a_round.questions}
    for resolution in a_round.resolutions:
        if resolution.ref in questions and resolution.resolved_at < before:
            yield questions[resolution.ref], resolution


@dataclass(frozen=True, slots=True)
class RoundPeerFactory:
    """The forecasts of other forecasters of the same round, for those of a backtest that build on them."""

    history: BacktestHistory

    async def open_trial(
        self, question: Question, start: GuardedTrialContext, *, charge: CostAttribution, guarded: bool = True
    ) -> "RoundPeerContext":
        """Return the context of one trial; a question without guards reads the same forecasts."""
        return RoundPeerContext(**vars(start), history=self.history, question=question)


@dataclass(frozen=True, kw_only=True)
class RoundPeerContext(GuardedTrialContext):
    """One trial of a backtest whose only tool is ``peer_forecasts``, as in ``bot.forecasting.peers``."""

    history: BacktestHistory
    question: Question

    async def use_tool(self, tool: str, arguments: Mapping[str, Json]) -> ToolResult:
        """Read the forecasts of the named forecasters; no other tool can be used."""
        names = arguments.get("forecasters")
        if tool != PEER_FORECASTS or not isinstance(names, list):
            return await GuardedTrialContext.use_tool(self, tool, arguments)
        return peer_result({str(name): self.history.find_forecast(str(name), self.question) for name in names})


async def run_backtest(
    archive: RoundArchive,
    subject: BacktestSubject,
    window: BacktestWindow,
    *,
    random: RandomStreams,
    progress: Callable[[str], None],
) -> ScoreRows:
    """Return the scored rows of one forecaster; as ``run_backtests``."""
    name = subject.configured_forecaster.name
    found = await run_backtests(archive, [subject], window, random=random, progress=progress, history=BacktestHistory())
    return found[name]


async def run_backtests(
    archive: RoundArchive,
    subjects: Sequence[BacktestSubject],
    window: BacktestWindow,
    *,
    random: RandomStreams,
    progress: Callable[[str], None],
    history: BacktestHistory,
    executor: "QuestionExecutor | None" = None,
) -> dict[str, ScoreRows]:
    """Return the scored rows of all rounds in the window that have outcomes, each question by the rules for its kind.

    Members come before the forecasters that build on them; what each of them says goes into the history. Without an
    executor everything runs in this process. Raises LeakError if what a forecaster learned reaches beyond a round's
    moment.
    """
    found = {one.configured_forecaster.name: ScoreRows(binary=[], by_rule=[]) for one in subjects}
    for key in archive.round_keys():
        a_round = archive.read_round(key)
        if not window.contains(a_round):
            continue
        for subject in subjects:
            name = subject.configured_forecaster.name
            made = await forecast_round(a_round, subject, random=random, executor=executor, history=history)
            history.record(a_round, name, made)
            scored = score_round(a_round, made.predictions)
            found[name].binary.extend(scored.binary)
            found[name].by_rule.extend(scored.by_rule)
        progress(key)
    return found


async def forecast_round(
    a_round: Round,
    subject: BacktestSubject,
    *,
    random: RandomStreams,
    executor: "QuestionExecutor | None" = None,
    history: BacktestHistory | None = None,
) -> RoundForecasts:
    """Return the forecasts of a forecaster for all questions of a round that it can answer.

    Where its trials are shrunk, the weights are tuned on what the history knew before the round. Raises LeakError if
    what it learned reaches beyond the round's moment, ServiceUnavailableError for no answer at all.
    """
    task = QuestionTask(subject=subject, as_of=a_round.as_of, fitted=subject.fit_parameters(a_round), random=random)
    found = await (executor or LocalExecutor()).run_questions(task, a_round.questions)
    forecaster, rules = subject.configured_forecaster, None
    if forecaster.pool is PoolingMethod.SHRINK and forecaster.trials > 1 and history is not None:
        pasts = history.resolved_trials(forecaster.name, a_round.as_of)
        rules = tune_shrinkage([*shrinkage_examples(pasts, before=a_round.as_of)])
    return _combine_round(a_round, forecaster, found, rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionTask:
    """One forecaster before the questions of one round: all that their trials need, so they may run elsewhere.

    The trial context checks that ``fitted``, what the forecaster learned, is older than ``as_of``.
    """

    subject: BacktestSubject
    as_of: datetime
    fitted: FittedParameters | None
    random: RandomStreams

    async def run_trials(self, question: Question, admitted: AdmittedQuestion | None = None) -> Sequence[Trial]:
        """Return all trials of a question, also those that do not count; its first step shows at ``admitted``."""
        forecaster = self.subject.configured_forecaster
        warm = WarmStart(clock=self.subject.clock, seconds=forecaster.warm_start_s if forecaster.uses_models else 0.0)
        log = partial(_discard_step, warm, admitted or AdmittedQuestion(0))
        return await warm.run_trials(partial(self._run_trial, question, log), range(1, forecaster.trials + 1))

    async def _run_trial(self, question: Question, log: StepLogger, number: int) -> Trial:
        forecaster = self.subject.configured_forecaster
        context = await self._open_trial(
            question,
            GuardedTrialContext(
                forecast=self.subject.seed_name(question.ref),
                cutoff=question_cutoff(question, self.as_of),
                trial=number,
                fitted=self.fitted,
                random=self.random,
                limits=forecaster.limits,
            ),
        )
        asked = question if forecaster.clairvoyant else hide_late_crowd(question, context.cutoff)
        run = TrialSettings(limits=forecaster.limits, log=log, write_waiting=context.write_waiting)
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


class QuestionExecutor(Protocol):
    """Runs the trials of many questions: in this process, or on other machines."""

    async def run_questions(self, task: QuestionTask, questions: Sequence[Question]) -> Sequence[Sequence[Trial]]:
        """Return the trials of each question, in the order of the questions; the first failure cancels the rest."""
        ...


@dataclass(frozen=True, slots=True)
class LocalExecutor:
    """Runs everything in this process.

    With an ``admission``, as many questions at a time as keep the models busy; else as many as the subject says.
    """

    admission: QuestionAdmission | None = None

    async def run_questions(self, task: QuestionTask, questions: Sequence[Question]) -> Sequence[Sequence[Trial]]:
        """Return the trials of each question."""
        forecaster, admission = task.subject.configured_forecaster, self.admission
        if admission is None or not forecaster.uses_models:
            return await map_concurrently(task.run_trials, questions, places=task.subject.concurrency)

        async def run(question: Question, admitted: AdmittedQuestion) -> Sequence[Trial]:
            admitted.scope = task.subject.record_scope(question.ref)
            return await task.run_trials(question, admitted)

        return await map_admitted(run, questions, admission=admission, trials=forecaster.trials)


def _combine_round(
    a_round: Round,
    forecaster: ConfiguredForecaster,
    found: Sequence[Sequence[Trial]],
    rules: "Mapping[PriorSource, SpreadWeight] | None",
) -> RoundForecasts:
    """Return the forecasts that the trials of a round's questions make; too few trials make none.

    Logs how many questions have no forecast and why; raises ServiceUnavailableError if none has one.
    """
    trials: dict[QuestionRef, Sequence[Trial]] = {}
    predictions: dict[tuple[QuestionRef, str], Prediction] = {}
    unanswered = Counter[str]()
    for question, those in zip(a_round.questions, found, strict=True):
        if not has_enough_trials(those, wanted=forecaster.trials, share=forecaster.min_trial_share):
            unanswered[explain_too_few_trials(those, wanted=forecaster.trials)] += 1
            continue
        trials[question.ref] = those
        combined = combine_trials(question, those, forecaster.pool, rules=rules)
        predictions |= {(question.ref, target): prediction for target, prediction in combined.items()}
    if unanswered:
        asked, count, why = len(found), unanswered.total(), unanswered.most_common(1)[0][0]
        if count == asked:
            message = f"{forecaster.name} answered none of the {asked} questions of {a_round.key}: {why}"
            raise ServiceUnavailableError(message)
        log.warning("questions without a forecast", round=a_round.key, count=count, of=asked, mostly=why)
    return RoundForecasts(predictions, trials)


async def _discard_step(warm: WarmStart, admitted: AdmittedQuestion, _number: int, _step: Step) -> None:
    """Record nothing: a backtest can be repeated, at no cost where models and tools answer from the record."""
    warm.release()
    admitted.has_stepped = True
