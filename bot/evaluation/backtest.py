"""Backtests: each past round forecast with only what had resolved before its due date, then scored."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import partial

import structlog

from bot.clock import SystemClock
from bot.desk.bare import BareBench
from bot.desk.combine import combine, suffices
from bot.desk.desk import Bench, TrialDesk, as_known, cutoff_of
from bot.desk.failures import why_too_few
from bot.desk.trial import TrialRun, run_trial
from bot.domain.forecast import Trial
from bot.domain.inquiry import Charge
from bot.domain.learning import Fitted, Round
from bot.domain.prediction import Prediction
from bot.domain.question import Question, QuestionRef
from bot.domain.step import Step
from bot.errors import Unavailable
from bot.evaluation.score_rows import ScoreRows, score_round
from bot.ids import derive_id
from bot.jobs.sitting import Benches, Seat
from bot.jobs.together import together
from bot.jobs.warm_start import WarmStart
from bot.ports import Archive, Clock, Random

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestSubject:
    """The forecaster under test as configured, and how it learns what it may know of a round.

    ``benches`` is there for one that asks models; ``places`` is how many questions are forecast side by side; ``run``
    names the experiment: the same one again goes on where it was, and asks nothing twice. ``clock`` bounds how long
    trials wait for the first one.
    """

    configured_forecaster: Seat
    fit_parameters: Callable[[Round], Fitted | None]
    tool_factory: Benches | None = None
    concurrency: int = 1
    run: str = ""
    clock: Clock = field(default_factory=SystemClock)

    def seed_name(self, ref: QuestionRef) -> str:
        """Return the name from which chance comes, the same in every run: what is asked again word for word is free."""
        return derive_id("backtest", self.configured_forecaster.name, str(ref))

    def record_scope(self, ref: QuestionRef) -> str:
        """Return the name under which the backtest of a question is on record."""
        parts = [part for part in (self.run, "clairvoyant" if self.configured_forecaster.clairvoyant else "") if part]
        return derive_id("backtest", self.configured_forecaster.name, str(ref), *parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestWindow:
    """Which rounds to test, by their day; None is open-ended."""

    first: date | None = None
    last: date | None = None

    def contains(self, a_round: Round) -> bool:
        """Say whether the round's day lies in the window, ends included."""
        day = a_round.as_of.date()
        return (self.first is None or self.first <= day) and (self.last is None or day <= self.last)


async def run_backtest(
    archive: Archive,
    subject: BacktestSubject,
    window: BacktestWindow,
    *,
    random: Random,
    progress: Callable[[str], None],
) -> ScoreRows:
    """Return what is scored of all rounds in the window that have outcomes, each question by the rules for its kind.

    Raises LeakError if what the forecaster learned reaches beyond a round's moment.
    """
    found = ScoreRows(binary=[], by_rule=[])
    for key in archive.rounds():
        a_round = archive.round(key)
        if window.contains(a_round):
            answers = await _RoundBacktest(
                a_round, subject, subject.fit_parameters(a_round), random
            ).collect_predictions()
            scored = score_round(a_round, answers)
            found.binary.extend(scored.binary)
            found.by_rule.extend(scored.by_rule)
            progress(key)
    return found


@dataclass(frozen=True, slots=True)
class _RoundBacktest:
    """One forecaster before one round; the desk guards that what it learned is older than the round."""

    round: Round
    subject: BacktestSubject
    fitted: Fitted | None
    random: Random
    unanswered: Counter[str] = field(default_factory=Counter)

    async def collect_predictions(self) -> dict[tuple[QuestionRef, str], Prediction]:
        answers: dict[tuple[QuestionRef, str], Prediction] = {}
        questions = self.round.questions
        found = await together(self._predictions, questions, places=self.subject.concurrency)
        for question, predictions in zip(questions, found, strict=True):
            answers.update({(question.ref, target): said for target, said in predictions.items()})
        self._report_unanswered(len(questions))
        return answers

    def _report_unanswered(self, asked: int) -> None:
        """Say how many questions have no forecast and why; raises Unavailable where there is none at all."""
        if not self.unanswered:
            return
        count = sum(self.unanswered.values())
        why = self.unanswered.most_common(1)[0][0]
        if count == asked:
            name = self.subject.configured_forecaster.name
            message = f"{name} answered none of the {asked} questions of {self.round.key}: {why}"
            raise Unavailable(message)
        log.warning("questions without a forecast", round=self.round.key, count=count, of=asked, mostly=why)

    async def _predictions(self, question: Question) -> Mapping[str, Prediction]:
        seat = self.subject.configured_forecaster
        warm = WarmStart(clock=self.subject.clock, seconds=seat.warm_start_s if seat.asks else 0.0)
        trials = await warm.run(partial(self._trial, question, warm), range(1, seat.trials + 1))
        if not suffices(trials, wanted=seat.trials, share=seat.least_trials):
            self.unanswered[why_too_few(trials, wanted=seat.trials)] += 1
            return {}
        return combine(question, trials, seat.pool)

    async def _trial(self, question: Question, warm: WarmStart, number: int) -> Trial:
        seat = self.subject.configured_forecaster
        desk = TrialDesk(
            forecast=self.subject.seed_name(question.ref),
            cutoff=cutoff_of(question, self.round.as_of),
            trial=number,
            fitted=self.fitted,
            random=self.random,
            limits=seat.limits,
            bench=await self._bench(question, number),
        )
        asked = question if seat.clairvoyant else as_known(question, desk.cutoff)
        run = TrialRun(limits=seat.limits, log=partial(_discard_step, warm))
        return await run_trial(seat.forecaster, asked, desk, run)

    async def _bench(self, question: Question, number: int) -> Bench:
        subject = self.subject
        if subject.tool_factory is None:
            return BareBench()
        return await subject.tool_factory.bench(
            question,
            charge=Charge(
                scope=subject.record_scope(question.ref),
                ref=str(question.ref),
                venue=question.ref.venue,
                forecaster=subject.configured_forecaster.name,
                trial=number,
            ),
            cutoff=cutoff_of(question, self.round.as_of),
            limits=subject.configured_forecaster.limits,
            guarded=not subject.configured_forecaster.clairvoyant,
        )


async def _discard_step(warm: WarmStart, _number: int, _step: Step) -> None:
    """Keep nothing: a backtest can be repeated, at no cost where models and tools answer from the record."""
    warm.release()
