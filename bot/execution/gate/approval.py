"""Approvals: when a person must approve a submission, and whether an approval still covers it.

One reason to ask is a forecast that is far from the market.
"""

from collections.abc import Iterator, Mapping, Sequence

from bot.core.distributions import log_odds
from bot.core.ids import derive_id
from bot.core.orders import ContractSide, Order, OrderSide
from bot.core.permissions import ApprovalState, SubmissionApproval
from bot.core.predictions import BinaryPrediction, ChoicePrediction, CurvePrediction, Prediction
from bot.core.submissions import ExecutionMode
from bot.execution.gate.caps import CAP_TOLERANCE
from bot.execution.gate.decision_context import DecisionContext
from bot.store.serialization import PREDICTIONS, format_timestamp

LOG_ODDS_CLIP = 1e-3
_QUARTILES = (0.25, 0.5, 0.75)


def market_divergence(context: DecisionContext) -> float:
    """Return the distance of the forecast from the market in log-odds; 0 without a market.

    The largest over options. For a number or a date: over the market's quartiles, of the chances that the value is at
    or below each of them. Tails do not count: there chances of a hundredth and a thousandth would be far apart.
    """
    return max(_log_odds_distances(context), default=0.0)


def order_belief(order: Order, predictions: Mapping[str, Prediction]) -> float | None:
    """Return the forecast probability that a share of the order pays; None if the forecast does not say."""
    yes: float | None = None
    if len(predictions) != 1:
        return None
    match next(iter(predictions.values()), None):
        case BinaryPrediction(probability=probability):
            yes = probability
        case ChoicePrediction(probabilities=options):
            yes = options.get(order.option)
    return yes if yes is None or order.leg is ContractSide.YES else 1.0 - yes


def forecast_edge(order: Order, predictions: Mapping[str, Prediction]) -> float | None:
    """Return the gain of a bought share after price and fees by the forecast; None for an option without a forecast.

    For a curve, and for several targets, it is the planner's own figure.
    """
    belief = order_belief(order, predictions)
    if belief is not None:
        return belief - order.expected - order.fees / order.shares
    is_choice = len(predictions) == 1 and isinstance(next(iter(predictions.values())), ChoicePrediction)
    return None if is_choice else order.edge


def _log_odds_distances(context: DecisionContext) -> Iterator[float]:
    if (order := context.order) is not None and order.side is OrderSide.BUY:
        belief = order_belief(order, context.forecast.predictions)
        # For a curve, only the planner knows the probability that the order pays: the edge is the gain per share.
        planned = order.expected + order.fees / order.shares + order.edge
        yield _log_odds_distance(planned if belief is None else belief, order.expected)
    if context.question.crowd is None or len(context.forecast.predictions) != 1:
        return
    (predicted,) = context.forecast.predictions.values()
    match predicted, context.question.crowd.prediction:
        case BinaryPrediction(probability=ours), BinaryPrediction(probability=theirs):
            yield _log_odds_distance(ours, theirs)
        case ChoicePrediction(probabilities=ours_by), ChoicePrediction(probabilities=theirs_by):
            yield from (
                _log_odds_distance(ours_by[option], theirs_by[option]) for option in ours_by.keys() & theirs_by.keys()
            )
        case CurvePrediction(cdf=ours_below), CurvePrediction(cdf=theirs_below):
            if len(ours_below) == len(theirs_below):
                yield from _quartile_distances(ours_below, theirs_below)


def _quartile_distances(ours: Sequence[float], theirs: Sequence[float]) -> Iterator[float]:
    """Yield the distance at each quartile of the market, or at the end of the grid if the quartile is beyond it."""
    import numpy as np  # noqa: PLC0415 - slow to import

    for share in np.clip(_QUARTILES, theirs[0], theirs[-1]):
        yield _log_odds_distance(float(np.interp(share, theirs, ours)), float(share))


def _log_odds_distance(first: float, second: float) -> float:
    return abs(log_odds(first, LOG_ODDS_CLIP) - log_odds(second, LOG_ODDS_CLIP))


# A price may move so far against an order that was approved before a person is asked again.
APPROVED_PRICE_SLACK = 0.01


def approval_reason(context: DecisionContext) -> str | None:
    """Return why a person must approve the forecast before it is submitted, or None."""
    if not context.policy.is_live:
        return None
    if context.policy.mode is ExecutionMode.APPROVE:
        return f"{context.policy.venue} is in mode approve"
    return divergence_objection(context)


def divergence_objection(context: DecisionContext) -> str | None:
    """Return an objection if the forecast is further from the market than config allows without a person."""
    limit, distance = context.policy.trading.divergence, market_divergence(context)
    if limit is None or distance <= limit:
        return None
    return f"{distance:.2f} from the market in log-odds, more than trading.divergence = {limit:g}"


def missing_approval_reason(context: DecisionContext) -> str | None:
    """Return why the approval does not cover what would be submitted now; None if it does, or none is needed."""
    reason, approval = approval_reason(context), context.approval
    if reason is None:
        return None
    if approval is None or approval.state is not ApprovalState.APPROVED or context.now >= approval.expires_at:
        return reason
    changed = _approval_mismatch(context, approval)
    return None if changed is None else f"{reason}; {changed}"


def build_approval_request(context: DecisionContext, reason: str) -> SubmissionApproval:
    """Return the approval request that a person must answer."""
    order = context.order
    return SubmissionApproval(
        id=derive_id("approval", context.forecast.id, format_timestamp(context.now))[:12],
        forecast=context.forecast.id,
        venue=context.policy.venue,
        cost=0.0 if order is None else order.cost,
        state=ApprovalState.ASKED,
        asked_at=context.now,
        expires_at=context.now + context.policy.approval_lifetime,
        shown={"why": reason, **_shown_fields(context)},
    )


def _approval_mismatch(context: DecisionContext, approval: SubmissionApproval) -> str | None:
    """Return how the submission differs from what was approved; None if it is as good or better."""
    order, shown = context.order, approval.shown
    if order is None:
        return "what was approved was an order" if "order" in shown else None
    if shown.get("order") != _order_summary(context):
        return f"what was approved was {shown.get('order', 'no order')}"
    if order.cost > approval.cost + CAP_TOLERANCE:
        return f"the order costs {order.cost:.2f} now, and {approval.cost:.2f} was approved"
    if _price_deterioration(order, shown) > APPROVED_PRICE_SLACK + CAP_TOLERANCE:
        return f"the price moved to {order.limit:.3f} from the approved {shown.get('limit', '?')}"
    return None


def _shown_fields(context: DecisionContext) -> dict[str, str]:
    shown = {
        "question": str(context.forecast.ref),
        "title": context.question.title,
        "forecast": PREDICTIONS.encode(context.forecast.predictions),
    }
    if context.question.crowd is not None:
        shown["market"] = f"{market_divergence(context):.2f} away in log-odds"
    if (order := context.order) is None:
        return shown
    return shown | {
        "order": _order_summary(context),
        "shares": f"{order.shares:.2f}",
        "limit": f"{order.limit:.4f}",
        "expected": f"{order.expected:.4f}",
        "cost": f"{order.cost:.2f} {order.currency}",
        "fees": f"{order.fees:.2f} {order.currency}",
        "edge": f"{order.edge:.4f}",
    }


def _order_summary(context: DecisionContext) -> str:
    order = context.order
    return "" if order is None else f"{order.side} {order.leg} {order.contract}"


def _price_deterioration(order: Order, shown: Mapping[str, str]) -> float:
    """Return by how much the limit is worse than what was shown."""
    try:
        approved = float(shown["limit"])
    except (KeyError, ValueError):
        return 1.0
    return order.limit - approved if order.side is OrderSide.BUY else approved - order.limit
