"""Taker fees of the venue: a schedule per market, not a table by category.

A fee is charged for each match, so that of an order is the sum over the levels it takes. The direction in which the
venue rounds is not documented: here it is half up, to five places. Makers pay nothing; rebates are ignored. Source:
docs/facts/polymarket.md#fees.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Self

from bot.api import FeeSchedule, Json, MalformedDataError, Order, Question, ShareFees
from plugins.polymarket.market_parser import parse_fee_schedule, question_contracts
from plugins.polymarket.order_books import ONE, TICK_SIZES

# The smallest fee; smaller amounts are not charged.
MIN_FEE = Decimal("0.00001")


@dataclass(frozen=True, slots=True, kw_only=True)
class TakerFees:
    """The fees of one market: shares x rate x (p x (1 - p)) ^ exponent, p being the price of either leg."""

    rate: Decimal = Decimal(0)
    exponent: Decimal = ONE

    @classmethod
    def from_schedule(cls, schedule: Mapping[str, Json] | None, what: str = "") -> Self:
        """Parse the schedule of a contract, None being free; raises MalformedDataError for an incomplete one."""
        if schedule is None:
            return cls()
        parsed = parse_fee_schedule(schedule, what)
        return cls(rate=Decimal(str(parsed["rate"])), exponent=Decimal(str(parsed["exponent"])))

    @property
    def is_free(self) -> bool:
        """Whether the market charges nothing."""
        return not self.rate

    @property
    def rounding(self) -> Decimal:
        """Nothing: half a step of the smallest fee is within the whole cents of a cost."""
        return Decimal(0)

    def per_share(self, price: Decimal) -> Decimal:
        """Return what a share costs a taker on top of its price, not rounded."""
        return self.rate * (price * (ONE - price)) ** self.exponent if self.rate else Decimal(0)

    def fee_for(self, price: Decimal, shares: Decimal) -> Decimal:
        """Return the fee for a number of shares taken at one price, in dollars."""
        whole = shares * self.per_share(price)
        return Decimal(0) if whole < MIN_FEE else whole.quantize(MIN_FEE, ROUND_HALF_UP)

    def max_cost_per_share(self, limit: Decimal) -> Decimal:
        """Return the most that a share bought within a limit may cost: its price and the highest fee on these dollars.

        A purchase at once spends dollars, which buy more shares at a better price. The fee of a dollar, rate x p ^
        (exponent - 1) x (1 - p) ^ exponent, is highest at the smallest tick, above an exponent of 1 at
        p = (exponent - 1) / (2 x exponent - 1).
        """
        peak = (self.exponent - ONE) / (2 * self.exponent - ONE) if self.exponent > ONE else Decimal(0)
        price = min(limit, max(peak, min(TICK_SIZES)))
        return limit + self.per_share(price) * limit / price


def order_fees(question: Question, order: Order) -> FeeSchedule:
    """Return the fees of an order on a question, none if it rests; raises MalformedDataError for another market."""
    contract = question_contracts(question).get(order.option)
    if contract is None or contract.market != order.contract:
        message = f"{question.ref} has no market {order.contract} for the option {order.option!r}"
        raise MalformedDataError(message)
    return (
        ShareFees() if order.terms.get("post_only") is True else TakerFees.from_schedule(contract.fees, order.contract)
    )
