"""The belief against the market: edge, band of prices, and how far apart the two are."""

import math
from collections.abc import Iterator, Mapping

from bot.domain.order import Leg, Order, Side
from bot.domain.prediction import Binary, Choice, Prediction
from bot.domain.submission import Hold
from bot.gate.caps import TOLERANCE
from bot.gate.case import PLAN_AGAIN, Case

LOG_ODDS_EPS = 1e-3


def thin(case: Case) -> Hold | None:
    """Hold a purchase that gains too little after fees. What is sold takes no new risk."""
    order, least = case.order, case.lane.trading.edge
    if order is None or order.side is Side.SELL or order.edge >= least - TOLERANCE:
        return None
    return case.later(f"the edge is {order.edge:.4f} a share after fees, below trading.edge = {least:g}", PLAN_AGAIN)


def out_of_band(case: Case) -> Hold | None:
    """Hold a purchase at a price that is left alone."""
    order, (low, high) = case.order, case.lane.trading.band
    if order is None or order.side is Side.SELL:
        return None
    if all(low <= price <= high for price in (order.expected, order.limit)):
        return None
    why = f"the price {order.expected:.3f} (limit {order.limit:.3f}) is outside trading.band = [{low:g}, {high:g}]"
    return case.later(why, PLAN_AGAIN)


def divergence(case: Case) -> float:
    """Return the distance of the forecast from the market in log-odds, the largest over options; 0 without a market."""
    return max(_distances(case), default=0.0)


def belief_of(order: Order, predictions: Mapping[str, Prediction]) -> float | None:
    """Return the probability, by the forecast, that a share of the order pays; None where it does not say."""
    yes: float | None = None
    if len(predictions) != 1:
        return None
    match next(iter(predictions.values()), None):
        case Binary(probability=probability):
            yes = probability
        case Choice(probabilities=options):
            yes = options.get(order.option)
    return yes if yes is None or order.leg is Leg.YES else 1.0 - yes


def _distances(case: Case) -> Iterator[float]:
    if (order := case.order) is not None and order.side is Side.BUY:
        belief = belief_of(order, case.forecast.predictions)
        # Of a number's curve, say, only the planner knows what it says of the order: the edge is the gain a share.
        planned = order.expected + order.fees / order.shares + order.edge
        yield _apart(planned if belief is None else belief, order.expected)
    if case.question.crowd is None or len(case.forecast.predictions) != 1:
        return
    (predicted,) = case.forecast.predictions.values()
    match predicted, case.question.crowd.prediction:
        case Binary(probability=ours), Binary(probability=theirs):
            yield _apart(ours, theirs)
        case Choice(probabilities=ours_by), Choice(probabilities=theirs_by):
            yield from (_apart(ours_by[option], theirs_by[option]) for option in ours_by.keys() & theirs_by.keys())


def _apart(first: float, second: float) -> float:
    return abs(_log_odds(first) - _log_odds(second))


def _log_odds(probability: float) -> float:
    clipped = min(max(probability, LOG_ODDS_EPS), 1.0 - LOG_ODDS_EPS)
    return math.log(clipped / (1.0 - clipped))
