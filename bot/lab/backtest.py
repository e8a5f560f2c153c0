"""Backtests: each past round forecast with only what had resolved before its due date, then scored."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date

import structlog

from bot.desk.combine import Pool, combine
from bot.desk.desk import TrialDesk, cutoff_of
from bot.desk.trial import TrialRun, run_trial
from bot.domain.forecast import Limits, Trial
from bot.domain.learning import Fitted, Round
from bot.domain.prediction import Binary, Prediction
from bot.domain.question import Question, QuestionRef
from bot.domain.step import Step
from bot.errors import ContractError
from bot.ids import derive_id
from bot.lab.rows import Row, rows_of
from bot.ports import Archive, Forecaster, Random

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The forecaster under test as configured, and how it learns what it may know of a round."""

    name: str
    forecaster: Forecaster
    trials: int
    pool: Pool
    limits: Limits
    learn: Callable[[Round], Fitted | None]


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
) -> list[Row]:
    """Return the scored rows of all rounds in the window that have outcomes.

    Raises LeakError if what the forecaster learned reaches beyond a round's moment.
    """
    rows: list[Row] = []
    for key in archive.rounds():
        a_round = archive.round(key)
        if window.holds(a_round):
            answers = await _Examination(a_round, subject, subject.learn(a_round), random).answers()
            rows += rows_of(a_round, answers)
            progress(key)
    return rows


@dataclass(frozen=True, slots=True)
class _Examination:
    """One forecaster before one round; the desk guards that what it learned is older than the round."""

    round: Round
    subject: Subject
    fitted: Fitted | None
    random: Random

    async def answers(self) -> dict[tuple[QuestionRef, str], float]:
        answers: dict[tuple[QuestionRef, str], float] = {}
        for question in self.round.questions:
            for target, prediction in (await self._predictions(question)).items():
                if not isinstance(prediction, Binary):
                    message = f"{question.ref}: a backtest scores yes-or-no questions, not {prediction.kind} ones"
                    raise ContractError(message)
                answers[question.ref, target] = prediction.probability
        return answers

    async def _predictions(self, question: Question) -> Mapping[str, Prediction]:
        trials = [await self._trial(question, number) for number in range(1, self.subject.trials + 1)]
        if not any(trial.belief for trial in trials):
            log.warning("no forecast", question=str(question.ref), why=[trial.detail for trial in trials])
            return {}
        return combine(question, trials, self.subject.pool)

    async def _trial(self, question: Question, number: int) -> Trial:
        desk = TrialDesk(
            forecast=derive_id("backtest", self.subject.name, str(question.ref)),
            cutoff=cutoff_of(question, self.round.as_of),
            trial=number,
            fitted=self.fitted,
            random=self.random,
        )
        run = TrialRun(limits=self.subject.limits, log=_unlogged)
        return await run_trial(self.subject.forecaster, question, desk, run)


async def _unlogged(number: int, step: Step) -> None:
    """Keep nothing: a backtest of code that calls no model can be repeated at no cost."""
