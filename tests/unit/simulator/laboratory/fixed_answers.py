"""Answers of forecasters that were never run, for tests of what is computed from answers."""

from collections.abc import Sequence
from typing import TypedDict, Unpack

from bot.forecasting.aggregation import PoolingMethod
from bot.simulator.laboratory.answers import CalibratedAnswers, ForecasterAnswers, LeakCounts, TrialCosts


class AnswerDetails(TypedDict, total=False):
    """What else there is to say of a forecaster."""

    trials: int
    leaks: LeakCounts | None
    corrected: CalibratedAnswers | None
    silent: int


def fixed_answers(
    name: str,
    message: Sequence[float],
    **more: Unpack[AnswerDetails],
) -> ForecasterAnswers:
    """Return a forecaster that gives these answers, however many of its trials are pooled."""
    trials, silent = more.get("trials", 1), more.get("silent", 0)
    counts = range(1, trials + 1)
    return ForecasterAnswers(
        name=name,
        trials=trials,
        pooled={(count, str(pool)): message for count in counts for pool in PoolingMethod},
        uses={
            count: TrialCosts(calls=10 * count, tokens_in=1000, tokens_out=10, steps=5, seconds=2.0) for count in counts
        },
        unanswered=silent,
        failures={"ServiceUnavailableError: nobody answered": silent} if silent else {},
        leaks=more.get("leaks"),
        corrected=more.get("corrected"),
    )
