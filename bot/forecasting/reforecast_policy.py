"""When a question is forecast again: a pure rule."""

import math
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from bot.core.distributions import log_odds
from bot.core.light_dataclass import dataclass
from bot.core.predictions import BinaryPrediction, ChoicePrediction, CurvePrediction, Prediction
from bot.core.questions import Question
from bot.store.ledger import Ledger
from bot.store.schedule import ScheduledForecast

MIN_PROBABILITY = 1e-3
# Why something is due by the policy alone.
STALE_REASON, CLOSING_REASON = "stale", " before closing"
MOVED_REASON, FACTS_REASON = "price moved by", "its facts changed"
MOVED_ELSEWHERE_REASON = "price elsewhere moved by"
# The reasons to renew a forecast of the same question, as SQL patterns: once its window has closed none of them holds.
RENEWAL_REASONS = (
    STALE_REASON,
    f"%{CLOSING_REASON}",
    f"{MOVED_REASON}%",
    f"{MOVED_ELSEWHERE_REASON}%",
    FACTS_REASON,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReforecastPolicy:
    """The re-forecast policy.

    A forecast is stale after ``stale_after``; it is also renewed at each of the times ``near_close`` before closing,
    and when the crowd has moved by ``price_move`` in log-odds; never sooner than ``min_gap`` after the last one. A
    question whose text has changed does not wait for this: it is forecast again at once.
    """

    stale_after: timedelta = timedelta(days=3)
    near_close: tuple[timedelta, ...] = (timedelta(hours=24), timedelta(hours=2))
    price_move: float = 0.5
    min_gap: timedelta = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class ReforecastTime:
    """When to forecast again, and why."""

    at: datetime
    why: str


def next_reforecast(question: Question, *, made_at: datetime, policy: ReforecastPolicy) -> ReforecastTime | None:
    """Return when the question is due again after a forecast made then, or None if another could only repeat it.

    If the venue fixes the moment of knowledge (``as_of``) and it has passed, nothing new may inform a forecast.
    """
    return reforecast_time(made_at, closes_at=question.closes_at, as_of=question.as_of, policy=policy)


def reforecast_time(
    made_at: datetime, *, closes_at: datetime | None, as_of: datetime | None, policy: ReforecastPolicy
) -> ReforecastTime | None:
    """Return the same for a question with this closing time, if nothing after ``as_of`` may inform a forecast."""
    if as_of is not None and as_of <= made_at:
        return None
    dues = [ReforecastTime(made_at + policy.stale_after, STALE_REASON)]
    if closes_at is not None:
        before_close = ((closes_at - gap, gap) for gap in policy.near_close)
        dues += [ReforecastTime(at, f"{gap}{CLOSING_REASON}") for at, gap in before_close if at > made_at]
    earliest = made_at + policy.min_gap
    due = min(dues, key=lambda candidate: candidate.at)
    due = due if due.at >= earliest else ReforecastTime(earliest, due.why)
    return None if closes_at is not None and due.at >= closes_at else due


async def reschedule_forecasts(
    ledger: Ledger, policy: ReforecastPolicy, *, repeats: Callable[[Question, str], bool], now: datetime
) -> int:
    """Move due times to those of the present policy; return how many were moved.

    Those with another reason than the policy stay: a person asked, or the forecast was postponed. ``repeats`` says
    whether a forecaster forecasts a question again without being asked.
    """
    moves: list[tuple[ScheduledForecast, ReforecastTime]] = []
    for one in await ledger.schedule.scheduled(reasons=(STALE_REASON, f"%{CLOSING_REASON}"), now=now):
        due = reforecast_time(one.made_at, closes_at=one.closes_at, as_of=one.as_of, policy=policy)
        if due is None or due.at == one.due_at:
            continue
        if one.due_at is not None or repeats(await ledger.questions.get(one.ref), one.forecaster):
            moves.append((one, due))
    return await ledger.schedule.move(moves)


def log_odds_move(before: Prediction, after: Prediction) -> float:
    """Return the largest change in log-odds between two predictions of one question; infinity for other shapes."""
    first, second = _probabilities_by_key(before), _probabilities_by_key(after)
    if first.keys() != second.keys():
        return math.inf
    return max(
        (abs(log_odds(second[key], MIN_PROBABILITY) - log_odds(first[key], MIN_PROBABILITY)) for key in first),
        default=0.0,
    )


def _probabilities_by_key(prediction: Prediction) -> Mapping[str, float]:
    match prediction:
        case BinaryPrediction(probability=probability):
            return {"yes": probability}
        case ChoicePrediction(probabilities=probabilities):
            return probabilities
        case CurvePrediction(cdf=cdf):
            return {str(index): value for index, value in enumerate(cdf)}
