"""Answers of forecasters that nobody ran, for tests of what is made of answers."""

from collections.abc import Sequence
from typing import TypedDict, Unpack

from bot.desk.combine import Pool
from bot.testing.lab.answers import Answers, Corrected, Leaks, Use


class More(TypedDict, total=False):
    """What else there is to say of a forecaster."""

    trials: int
    leaks: Leaks | None
    corrected: Corrected | None
    silent: int


def answered(
    name: str,
    said: Sequence[float],
    **more: Unpack[More],
) -> Answers:
    """Return a forecaster that gives these answers, however many of its trials are pooled."""
    trials, silent = more.get("trials", 1), more.get("silent", 0)
    counts = range(1, trials + 1)
    return Answers(
        name=name,
        trials=trials,
        pooled={(count, str(pool)): said for count in counts for pool in Pool},
        uses={count: Use(calls=10 * count, tokens_in=1000, tokens_out=10, steps=5, seconds=2.0) for count in counts},
        silent=silent,
        failures={"Unavailable: nobody answered": silent} if silent else {},
        leaks=more.get("leaks"),
        corrected=more.get("corrected"),
    )
