"""The fees of an order by the venue's own schedule, from its average price and its limit.

The levels that an order takes are not known here, only their average price. A usual schedule, such as
rate x p x (1 - p), is concave: the fees of several levels are at most those of as many shares at the average price
(Jensen's inequality), and at least those on the line between the schedule at the two ends of the allowed prices.
"""

from decimal import Decimal
from typing import NamedTuple

from bot.core.errors import describe_error_with_type
from bot.core.orders import Order, OrderSide
from bot.core.questions import Question
from bot.execution.gate.execution_policy import ExecutionPolicy

# Venues round the fee of each fill, and amounts of orders are floats.
FEE_TOLERANCE = 0.001


class VenueFees(NamedTuple):
    """What a venue takes for a whole order: at least, and with all shares at the average price."""

    least: float
    usual: float


def venue_fees(policy: ExecutionPolicy, *, question: Question, order: Order) -> VenueFees | str:
    """Return the fees of an order, or why they cannot be computed; none at a venue that declares none."""
    if policy.fees is None:
        return VenueFees(0.0, 0.0)
    expected, limit = _exact(order.expected), _exact(order.limit)
    buys = order.side is OrderSide.BUY
    low, high = (Decimal(0), max(limit, expected)) if buys else (min(limit, expected), Decimal(1))
    try:
        fees = policy.fees(question, order)
        at_low, usual, at_high = (fees.per_share(price) for price in (low, expected, high))
        on_line = at_low + (at_high - at_low) * (expected - low) / (high - low)
        return VenueFees(*(float(fee) * order.shares for fee in (min(on_line, usual), usual)))
    except Exception as error:  # noqa: BLE001 - code of a plugin; what cannot be checked counts as an objection
        return f"the fees of {policy.venue} cannot be computed: {describe_error_with_type(error)}"


def _exact(price: float) -> Decimal:
    return Decimal(repr(float(price)))
