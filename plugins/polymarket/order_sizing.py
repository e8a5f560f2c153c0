"""What sizing needs to know of this venue, and the price and size of an order that rests.

Orders that are matched at once are sized by the engine. Source: docs/facts/polymarket.md#acting-on-a-forecast and
#kelly-figures.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from bot.api import (
    ContractMarket,
    LegBelief,
    OpenOrder,
    OrderSide,
    OrderSizer,
    ShareOffer,
    SizedOrder,
    TradeProposal,
    has_sale,
    kelly_shares,
    other_leg,
)
from plugins.polymarket.fees import TakerFees
from plugins.polymarket.market_parser import PolymarketContract
from plugins.polymarket.order_books import PolymarketOrderBook, book_of_side
from plugins.polymarket.order_terms import (
    CENT,
    MIN_PURCHASE_DOLLARS,
    PolymarketOrderType,
    round_to_step,
    round_to_tick,
    size_step,
)

_UNLIMITED_SHARES = Decimal(10) ** 12
# Fewer shares are worth only cents.
MIN_SALE_SHARES = Decimal("0.1")


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedOrder:
    """A sized order with its type, and our own resting orders to cancel first."""

    sized: SizedOrder
    type: PolymarketOrderType = PolymarketOrderType.FAK
    cancel: tuple[str, ...] = ()


def contract_market(option: str, contract: PolymarketContract, book: PolymarketOrderBook) -> ContractMarket:
    """Return what sizing needs of a market with its book of YES."""
    return ContractMarket(
        contract=contract.market,
        option=option,
        book=book,
        fees=TakerFees.from_schedule(contract.fees, contract.market),
        tick=book.tick,
        lot=_taker_lot,
        min_purchase=MIN_PURCHASE_DOLLARS,
        min_sale=MIN_SALE_SHARES,
    )


class TypedOrderSizer:
    """Sizes orders of one type for one proposal; ``contracts`` are those of its question by option."""

    def __init__(
        self, proposal: TradeProposal, kind: PolymarketOrderType, contracts: Mapping[str, PolymarketContract]
    ) -> None:
        self.sizer = OrderSizer(proposal, {option: contract.market for option, contract in contracts.items()})
        self._proposal, self._kind, self._contracts = proposal, kind, contracts

    def size_order(self, option: str, book: PolymarketOrderBook, prices: Mapping[str, float]) -> TypedOrder | str:
        """Return the order on that option, or why there is none."""
        market = contract_market(option, self._contracts[option], book)
        chosen = self.sizer.choose_leg(market, prices)
        own_orders = [order for order in self._proposal.account.orders if order.contract == market.contract]
        same = [order.id for order in own_orders if _bets_on(order, chosen)]
        if same:
            return f"our own order for {chosen.leg} already rests: {same[0]}"
        is_resting = self._kind.is_resting and not has_sale(chosen)
        found = self._size_resting_order(chosen, book) if is_resting else self.sizer.size_order(market, prices)
        if isinstance(found, str):
            return found
        kind = self._kind if found.side is OrderSide.BUY else PolymarketOrderType.FAK
        return TypedOrder(sized=found, type=kind, cancel=tuple(order.id for order in own_orders))

    def _size_resting_order(self, chosen: LegBelief, book_of_yes: PolymarketOrderBook) -> SizedOrder | str:
        """Size a resting order: one tick better than the best, but at least the edge away from the belief."""
        sizing, book = self._proposal.sizing, book_of_side(book_of_yes, chosen.leg, "")
        if book.best_bid is None or book.best_ask is None:
            return "the book has only one side"
        low, high, least = (Decimal(repr(value)) for value in (*sizing.price_band, sizing.min_edge))
        highest = min(chosen.worth - least, book.best_bid + book.tick, book.best_ask - book.tick)
        price = round_to_tick(highest, book.tick, OrderSide.BUY)
        # It is below the best ask, which is below one.
        if not max(low, book.tick) <= price <= high:
            return f"{chosen.leg} would rest at {price}, outside the band {low.normalize():f} to {high.normalize():f}"
        wanted = Decimal(repr(kelly_shares(chosen.scenarios, [ShareOffer(float(price), float(_UNLIMITED_SHARES))])))
        size = round_to_step(min(wanted, self.sizer.max_spend / price), CENT)
        if size < book.min_size:
            return f"{size} shares at {price}, but {book.min_size} is the minimum for a resting order"
        return SizedOrder(
            leg=chosen.leg,
            side=OrderSide.BUY,
            limit=price,
            size=size,
            cost=price * size,
            expected=price,
            fee=Decimal(0),
            edge=chosen.worth - price,
        )


def _taker_lot(price: Decimal, side: OrderSide) -> Decimal:
    return size_step(price, PolymarketOrderType.FAK, side)


def _bets_on(order: OpenOrder, chosen: LegBelief) -> bool:
    """Return whether an order bets on the chosen leg: selling one leg means betting on the other."""
    return (order.leg if order.side is OrderSide.BUY else other_leg(order.leg)) is chosen.leg
