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
from bot.ids import derive_id
from bot.jobs.sitting import Benches, Seat
from bot.jobs.together import together
from bot.jobs.warm_start import WarmStart
from bot.lab.rows import Scored, scored_of
from bot.ports import Archive, Clock, Random

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The forecaster under test as configured, and how it learns what it may know of a round.

    ``benches`` is there for one that asks models; ``places`` is how many questions are forecast side by side; ``run``
    names the experiment: the same one again goes on where it was, and asks nothing twice. ``clock`` bounds how long
    trials wait for the first one.
    """

    seat: Seat
    learn: Callable[[Round], Fitted | None]
    benches: Benches | None = None
    places: int = 1
    run: str = ""
    clock: Clock = field(default_factory=SystemClock)

    def name(self, ref: QuestionRef) -> str:
        """Return the name from which chance comes, the same in every run: what is asked again word for word is free."""
        return derive_id("backtest", self.seat.name, str(ref))

    def scope(self, ref: QuestionRef) -> str:
        """Return the name under which the backtest of a question is on record."""
        parts = [part for part in (self.run, "clairvoyant" if self.seat.clairvoyant else "") if part]
        return derive_id("backtest", self.seat.name, str(ref), *parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Which rounds to test, by their day; None is open-ended."""

    first: date | None = None
    last: date | None = None

    def holds(self, a_round: Round) -> bool:
        """Say whether the round's day lies in the window, ends included."""
        day = a_round.as_of.date()
        return (self.first is None or self.first <= day) and (self.last is None or day <= self.last)


async def backtest(
    archive: Archive, subject: Subject, window: Window, *, random: Random, progress: Callable[[str], None]
) -> Scored:
    """Return what is scored of all rounds in the window that have outcomes, each question by the rules for its kind.

    Raises LeakError if what the forecaster learned reaches beyond a round's moment.
    """
    found = Scored(rows=[], graded=[])
    for key in archive.rounds():
        a_round = archive.round(key)
        if window.holds(a_round):
            answers = await _Examination(a_round, subject, subject.learn(a_round), random).answers()
            scored = scored_of(a_round, answers)
            found.rows.extend(scored.rows)
            found.graded.extend(scored.graded)
            progress(key)
    return found


@dataclass(frozen=True, slots=True)
class _Examination:
    """One forecaster before one round; the desk guards that what it learned is older than the round."""

    round: Round
    subject: Subject
    fitted: Fitted | None
    random: Random
    silent: Counter[str] = field(default_factory=Counter)

    async def answers(self) -> dict[tuple[QuestionRef, str], Prediction]:
        answers: dict[tuple[QuestionRef, str], Prediction] = {}
        questions = self.round.questions
        found = await together(self._predictions, questions, places=self.subject.places)
        for question, predictions in zip(questions, found, strict=True):
            answers.update({(question.ref, target): said for target, said in predictions.items()})
        self._tell_silence(len(questions))
        return answers

    def _tell_silence(self, asked: int) -> None:
        """Say how many questions have no forecast and why; raises Unavailable where there is none at all."""
        if not self.silent:
            return
        count = sum(self.silent.values())
        why = self.silent.most_common(1)[0][0]
        if count == asked:
            message = f"{self.subject.seat.name} answered none of the {asked} questions of {self.round.key}: {why}"
            raise Unavailable(message)
        log.warning("questions without a forecast", round=self.round.key, count=count, of=asked, mostly=why)

    async def _predictions(self, question: Question) -> Mapping[str, Prediction]:
        seat = self.subject.seat
        warm = WarmStart(clock=self.subject.clock, seconds=seat.warm_start_s if seat.asks else 0.0)
        trials = await warm.run(partial(self._trial, question, warm), range(1, seat.trials + 1))
        if not suffices(trials, wanted=seat.trials, share=seat.least_trials):
            self.silent[why_too_few(trials, wanted=seat.trials)] += 1
            return {}
        return combine(question, trials, seat.pool)

    async def _trial(self, question: Question, warm: WarmStart, number: int) -> Trial:
        seat = self.subject.seat
        desk = TrialDesk(
            forecast=self.subject.name(question.ref),
            cutoff=cutoff_of(question, self.round.as_of),
            trial=number,
            fitted=self.fitted,
            random=self.random,
            limits=seat.limits,
            bench=await self._bench(question, number),
        )
        asked = question if seat.clairvoyant else as_known(question, desk.cutoff)
        run = TrialRun(limits=seat.limits, log=partial(_unlogged, warm))
        return await run_trial(seat.forecaster, asked, desk, run)

    async def _bench(self, question: Question, number: int) -> Bench:
        subject = self.subject
        if subject.benches is None:
            return BareBench()
        return await subject.benches.bench(
            question,
            charge=Charge(
                scope=subject.scope(question.ref),
                ref=str(question.ref),
                venue=question.ref.venue,
                forecaster=subject.seat.name,
                trial=number,
            ),
            cutoff=cutoff_of(question, self.round.as_of),
            limits=subject.seat.limits,
            guarded=not subject.seat.clairvoyant,
        )


async def _unlogged(warm: WarmStart, _number: int, _step: Step) -> None:
    """Keep nothing: a backtest can be repeated, at no cost where models and tools answer from the record."""
    warm.release()
