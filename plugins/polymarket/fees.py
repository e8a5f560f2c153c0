"""What the venue charges takers: a schedule of each market, never a table by category.

A fee is charged for each match, so that of an order is the sum over the levels it takes. The direction in which the
venue rounds is not documented: here it is half up, to five places. Makers pay nothing; rebates are left out.
Source: venue document, section 9.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Self

from bot.api import Json
from plugins.polymarket.books import ONE
from plugins.polymarket.parse import schedule_of

# The least that is charged; anything smaller is nothing.
LEAST_FEE = Decimal("0.00001")
_HALF = Decimal("0.5")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fees:
    """The fees of one market: shares x rate x (p x (1 - p)) ^ exponent, p being the price of either leg."""

    rate: Decimal = Decimal(0)
    exponent: Decimal = ONE

    @classmethod
    def of(cls, schedule: Mapping[str, Json] | None, what: str = "") -> Self:
        """Read a schedule as contracts have it, None being free; raises ContractError for an incomplete one."""
        if schedule is None:
            return cls()
        read = schedule_of(schedule, what)
        return cls(rate=Decimal(str(read["rate"])), exponent=Decimal(str(read["exponent"])))

    def per_share(self, price: Decimal) -> Decimal:
        """Return what a share costs a taker on top of its price, not rounded."""
        return self.rate * (price * (ONE - price)) ** self.exponent if self.rate else Decimal(0)

    def charged(self, price: Decimal, shares: Decimal) -> Decimal:
        """Return the fee for so many shares taken at one price, in dollars."""
        whole = shares * self.per_share(price)
        return Decimal(0) if whole < LEAST_FEE else whole.quantize(LEAST_FEE, ROUND_HALF_UP)

    def worst(self, limit: Decimal) -> Decimal:
        """Return the most that price and fee of a share bought within a limit are together.

        With an exponent of 1 or more both grow together with the price. Below 1 the fee may fall faster than the price
        grows, so there the highest fee is taken.
        """
        at = limit if self.exponent >= 1 else min(limit, _HALF)
        return limit + self.per_share(at)
