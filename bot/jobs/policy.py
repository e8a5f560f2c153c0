"""When a question is forecast again: a pure rule over what is known, never over what the forecaster wishes."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.domain.prediction import Binary, Choice, Curve, Prediction
from bot.domain.question import Question
from bot.store.ledger import Ledger
from bot.store.schedule import Scheduled

LOG_ODDS_EPS = 1e-3
# Why something is due by the policy alone.
STALE, BEFORE_CLOSING = "stale", " before closing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reforecast:
    """The re-forecast policy.

    A forecast is stale after ``stale_after``; it is also renewed at each of the times ``near_close`` before closing,
    and when the crowd has moved by ``price_move`` in log-odds; never sooner than ``min_gap`` after the last one. That a
    question asks something else than before does not wait for this: it is forecast again at once.
    """

    stale_after: timedelta = timedelta(days=3)
    near_close: tuple[timedelta, ...] = (timedelta(hours=24), timedelta(hours=2))
    price_move: float = 0.5
    min_gap: timedelta = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class NextDue:
    """When to forecast again, and why."""

    at: datetime
    why: str


def next_due(question: Question, *, made_at: datetime, policy: Reforecast) -> NextDue | None:
    """Return when the question is due again after a forecast made then, or None if another could only repeat it.

    Where the venue fixes the moment of knowledge (``as_of``) and it has passed, nothing new may inform a forecast.
    """
    return due_after(made_at, closes_at=question.closes_at, as_of=question.as_of, policy=policy)


def due_after(
    made_at: datetime, *, closes_at: datetime | None, as_of: datetime | None, policy: Reforecast
) -> NextDue | None:
    """Return the same of a question that closes then, and at which nothing after ``as_of`` may inform a forecast."""
    if as_of is not None and as_of <= made_at:
        return None
    dues = [NextDue(made_at + policy.stale_after, STALE)]
    if closes_at is not None:
        before_close = ((closes_at - gap, gap) for gap in policy.near_close)
        dues += [NextDue(at, f"{gap}{BEFORE_CLOSING}") for at, gap in before_close if at > made_at]
    earliest = made_at + policy.min_gap
    due = min(dues, key=lambda candidate: candidate.at)
    due = due if due.at >= earliest else NextDue(earliest, due.why)
    return None if closes_at is not None and due.at >= closes_at else due


async def follow_policy(
    ledger: Ledger, policy: Reforecast, *, repeats: Callable[[Question, str], bool], now: datetime
) -> int:
    """Move what is scheduled already to when the policy, as it is now, has it due; return how many due times moved.

    What is due for another reason than the policy stays: a person asked for it, or it was put off. ``repeats`` says
    whether a forecaster forecasts a question again by itself.
    """
    moves: list[tuple[Scheduled, NextDue]] = []
    for one in await ledger.schedule.scheduled(reasons=(STALE, f"%{BEFORE_CLOSING}"), now=now):
        due = due_after(one.made_at, closes_at=one.closes_at, as_of=one.as_of, policy=policy)
        if due is None or due.at == one.due_at:
            continue
        if one.due_at is not None or repeats(await ledger.questions.get(one.ref), one.forecaster):
            moves.append((one, due))
    return await ledger.schedule.move(moves)


def moved(before: Prediction, after: Prediction) -> float:
    """Return the largest change in log-odds between two predictions of one question; infinity for other shapes."""
    first, second = _probabilities(before), _probabilities(after)
    if first.keys() != second.keys():
        return math.inf
    return max((abs(_log_odds(second[key]) - _log_odds(first[key])) for key in first), default=0.0)


def _probabilities(prediction: Prediction) -> Mapping[str, float]:
    match prediction:
        case Binary(probability=probability):
            return {"yes": probability}
        case Choice(probabilities=probabilities):
            return probabilities
        case Curve(cdf=cdf):
            return {str(index): value for index, value in enumerate(cdf)}


def _log_odds(probability: float) -> float:
    clipped = min(max(probability, LOG_ODDS_EPS), 1.0 - LOG_ODDS_EPS)
    return math.log(clipped / (1.0 - clipped))
