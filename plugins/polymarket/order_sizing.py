"""Size and limit of an order: maximum growth on the current book, within caps, tick grid and minimum sizes.

The target is the holding of a bettor with a share of the account, so that planning again with that much held plans
nothing. A level is bought only if it gains enough by itself; held shares are sold only for at least their worth by the
belief, so a belief must cross spread and fees before a position is reversed. Source:
docs/facts/polymarket.md#acting-on-a-forecast and #kelly-figures.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from bot.api import (
    ContractSide,
    HeldShares,
    KellyBankroll,
    OpenOrder,
    OrderSide,
    Position,
    ShareOffer,
    TradeProposal,
    kelly_shares,
    payoff_scenarios,
    rescale_beliefs,
    share_value,
    shrink_to_market,
    sum_held_shares,
)
from plugins.polymarket.book_walk import book_of_side, opposite_levels, walk_levels
from plugins.polymarket.fees import TakerFees
from plugins.polymarket.market_parser import PolymarketContract
from plugins.polymarket.order_books import ONE, BookLevel, PolymarketOrderBook
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
class OptionMarket:
    """One option of a question ("" if there are none) with its book of YES, and the prices of all options."""

    option: str
    contract: PolymarketContract
    book: PolymarketOrderBook
    prices: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedOrder:
    """An order with its size: ``expected`` is what a share costs on average without the ``fee`` on all of it.

    ``mid`` is the midpoint of the book of its leg.
    """

    leg: ContractSide
    side: OrderSide
    type: PolymarketOrderType
    price: Decimal
    size: Decimal
    cost: Decimal
    expected: Decimal
    fee: Decimal
    edge: Decimal
    mid: Decimal
    cancel: tuple[str, ...] = ()


class OrderSizer:
    """Sizes orders for one proposal; ``contracts`` are those of its question by option."""

    def __init__(
        self, proposal: TradeProposal, kind: PolymarketOrderType, contracts: Mapping[str, PolymarketContract]
    ) -> None:
        self._proposal, self._kind = proposal, kind
        names = {contract.market: option for option, contract in contracts.items()}
        held = sum_held_shares(proposal.account.positions, lambda position: names.get(position.contract))
        self._bankroll = KellyBankroll(cash=max(proposal.account.cash, 0.0), held=held)

    def size_order(self, option_market: OptionMarket, beliefs: Mapping[str, float]) -> SizedOrder | str:
        """Return the order on that option, or why there is none."""
        mid = option_market.prices[option_market.option]
        belief = shrink_to_market(beliefs[option_market.option], mid, self._proposal.sizing.market_shrinkage)
        leg = ContractSide.YES if belief > mid else ContractSide.NO
        candidate = _SideCandidate(option_market, leg, Decimal(repr(share_value(leg, belief))))
        same, against = self._own_resting_orders(candidate)
        if same:
            return f"our own order for {leg} already rests: {same[0]}"
        scenarios = payoff_scenarios(
            self._scaled_bankroll(option_market),
            rescale_beliefs(beliefs, option_market.option, belief),
            option_market.option,
        )
        candidate.scenarios = scenarios.for_side(leg)
        candidate.cancel = against
        held = self._bankroll.held.get(option_market.option, HeldShares())
        other = Decimal(repr(held.no if leg is ContractSide.YES else held.yes))
        if candidate.can_sell(other):
            return self._size_sale(candidate, other)
        return self._size_resting_order(candidate) if self._kind.is_resting else self._size_purchase(candidate)

    def _scaled_bankroll(self, option_market: OptionMarket) -> KellyBankroll:
        return self._bankroll.scaled_to_share(self._proposal.sizing.kelly_fraction, option_market.prices)

    def _own_resting_orders(self, candidate: "_SideCandidate") -> tuple[Sequence[str], tuple[str, ...]]:
        """Return our resting orders that bet the same way, and those that bet the other way."""
        own_orders = [
            order
            for order in self._proposal.account.orders
            if order.contract == candidate.option_market.contract.market
        ]
        same = [order.id for order in own_orders if _side_of_order(order) is candidate.leg]
        return same, tuple(order.id for order in own_orders if _side_of_order(order) is not candidate.leg)

    def _size_purchase(self, candidate: "_SideCandidate") -> SizedOrder | str:
        """Size an order that is matched at once: for each possible limit as much as fits; the largest wins."""
        sizing, fees = self._proposal.sizing, candidate.fees
        asks = opposite_levels(candidate.book, OrderSide.BUY)
        least, (low, high) = Decimal(repr(sizing.min_edge)), _decimal_band(sizing.price_band)
        if why := _purchase_objection(candidate, asks[0], least, (low, high)):
            return why
        good = [one for one in asks if candidate.gain(one.price) >= least and one.price <= high]
        wanted = kelly_shares(
            candidate.scenarios, [_share_offer(one.price + fees.per_share(one.price), one) for one in good]
        )
        if wanted <= 0.0:
            worth = f"{candidate.leg} is worth {candidate.worth:.3f}"
            return f"the held shares are enough for a belief that {worth} at {asks[0].price}"
        budget = self._budget(fees)
        best = _best_limit_and_size(good, Decimal(repr(wanted)), budget, fees, self._kind)
        if best is None:
            return f"{wanted:.2f} shares are wanted but only {budget:.2f} may be spent, less than the minimum order"
        limit, size = best
        walk_result = walk_levels(good, fees, shares=size)
        return SizedOrder(
            leg=candidate.leg,
            side=OrderSide.BUY,
            type=self._kind,
            price=limit,
            size=size,
            cost=_max_cost(size, limit, fees),
            expected=walk_result.average_price,
            fee=walk_result.fee,
            edge=candidate.worth - walk_result.average_price_with_fee(OrderSide.BUY),
            mid=candidate.mid,
            cancel=candidate.cancel,
        )

    def _size_resting_order(self, candidate: "_SideCandidate") -> SizedOrder | str:
        """Size a resting order: one tick better than the best, but at least the edge away from the belief."""
        sizing, book = self._proposal.sizing, candidate.book
        if book.best_bid is None or book.best_ask is None:
            return "the book has only one side"
        low, high = _decimal_band(sizing.price_band)
        max_shares = min(
            candidate.worth - Decimal(repr(sizing.min_edge)), book.best_bid + book.tick, book.best_ask - book.tick
        )
        price = round_to_tick(max_shares, book.tick, OrderSide.BUY)
        if not max(low, book.tick) <= price <= min(high, ONE - book.tick):
            return f"{candidate.leg} would rest at {price}, outside {_format_band(low, high)}"
        wanted = Decimal(repr(kelly_shares(candidate.scenarios, [ShareOffer(float(price), float(_UNLIMITED_SHARES))])))
        size = round_to_step(min(wanted, self._max_spend() / price), CENT)
        if size < book.min_size:
            return f"{size} shares at {price}, but {book.min_size} is the minimum for a resting order"
        return SizedOrder(
            leg=candidate.leg,
            side=OrderSide.BUY,
            type=self._kind,
            price=price,
            size=size,
            cost=price * size,
            expected=price,
            fee=Decimal(0),
            edge=candidate.worth - price,
            mid=candidate.mid,
            cancel=candidate.cancel,
        )

    def _size_sale(self, candidate: "_SideCandidate", held: Decimal) -> SizedOrder | str:
        """Size a sale of the other leg, for no less than its worth by the belief."""
        leg = ContractSide.NO if candidate.leg is ContractSide.YES else ContractSide.YES
        book, fees, worth = (
            book_of_side(candidate.option_market.book, leg, candidate.token(leg)),
            candidate.fees,
            ONE - candidate.worth,
        )
        good = [one for one in opposite_levels(book, OrderSide.SELL) if one.price - fees.per_share(one.price) >= worth]
        wanted = kelly_shares(
            candidate.scenarios, [_share_offer(ONE - one.price + fees.per_share(one.price), one) for one in good]
        )
        best = _best_limit_and_size(good, min(Decimal(repr(wanted)), held), None, fees, PolymarketOrderType.FAK)
        if best is None:
            return f"{held:.2f} {leg} are held, but selling brings less than their worth of {worth:.3f}"
        limit, size = best
        walk_result = walk_levels(good, fees, shares=size)
        return SizedOrder(
            leg=leg,
            side=OrderSide.SELL,
            type=PolymarketOrderType.FAK,
            price=limit,
            size=size,
            cost=Decimal(0),
            expected=walk_result.average_price,
            fee=walk_result.fee,
            edge=walk_result.average_price_with_fee(OrderSide.SELL) - worth,
            mid=ONE - candidate.mid,
            cancel=candidate.cancel,
        )

    def _max_spend(self) -> Decimal:
        sizing = self._proposal.sizing
        return Decimal(repr(max(0.0, min(sizing.max_cost, self._proposal.account.cash))))

    def _budget(self, fees: TakerFees) -> Decimal:
        """Return the budget for shares and fees, so that the cost in whole cents does not exceed it."""
        return max(Decimal(0), self._max_spend() - (CENT if fees.rate else Decimal(0)))


class _SideCandidate:
    """A leg with its book; scenarios and own orders to cancel are set later."""

    def __init__(self, option_market: OptionMarket, leg: ContractSide, worth: Decimal) -> None:
        self.option_market, self.leg, self.worth = option_market, leg, worth
        self.book = book_of_side(option_market.book, leg, self.token(leg))
        self.fees = TakerFees.from_schedule(option_market.contract.fees, option_market.contract.market)
        self.scenarios = payoff_scenarios(KellyBankroll(cash=0.0), {"": 0.5}, "")
        self.cancel: tuple[str, ...] = ()

    def token(self, leg: ContractSide) -> str:
        """Return the token of a leg."""
        return self.option_market.contract.yes if leg is ContractSide.YES else self.option_market.contract.no

    @property
    def mid(self) -> Decimal:
        """The midpoint of the book of the leg; books without one are not sized on."""
        return self.book.mid or Decimal(0)

    def can_sell(self, held: Decimal) -> bool:
        """Return whether that many shares of the other leg are worth a separate sale."""
        return held >= MIN_SALE_SHARES

    def gain(self, price: Decimal) -> Decimal:
        """Return the expected gain of a share bought at a price, after fees."""
        return self.worth - price - self.fees.per_share(price)


def size_closing_sale(option_market: OptionMarket, position: Position) -> SizedOrder | str:
    """Return the sale of a whole position at the bids, at any price, or why nothing can be sold."""
    leg, held = position.leg, Decimal(repr(position.shares))
    token = option_market.contract.yes if leg is ContractSide.YES else option_market.contract.no
    book, fees = (
        book_of_side(option_market.book, leg, token),
        TakerFees.from_schedule(option_market.contract.fees, option_market.contract.market),
    )
    bids = opposite_levels(book, OrderSide.SELL)
    found = _best_limit_and_size(bids, held, None, fees, PolymarketOrderType.FAK)
    if found is None:
        return f"{held:.4f} {leg} are held, less than can be sold" if bids else f"there are no bids for {leg}"
    limit, size = found
    walk_result = walk_levels(bids, fees, shares=size)
    return SizedOrder(
        leg=leg,
        side=OrderSide.SELL,
        type=PolymarketOrderType.FAK,
        price=limit,
        size=size,
        cost=Decimal(0),
        expected=walk_result.average_price,
        fee=walk_result.fee,
        edge=Decimal(0),
        mid=book.mid or limit,
    )


def _side_of_order(order: OpenOrder) -> ContractSide:
    """Return the leg that an order bets on: selling one means betting on the other."""
    other = ContractSide.NO if order.leg is ContractSide.YES else ContractSide.YES
    return order.leg if order.side is OrderSide.BUY else other


def _purchase_objection(
    candidate: _SideCandidate, best: BookLevel, least: Decimal, band: tuple[Decimal, Decimal]
) -> str | None:
    """Return why nothing is bought even at the best price, or None."""
    low, high = band
    if not low <= best.price <= high:
        return f"{candidate.leg} is offered at {best.price}, outside {_format_band(low, high)}"
    if candidate.gain(best.price) < least:
        return (
            f"{candidate.leg} costs {best.price + candidate.fees.per_share(best.price):.4f} with fees and is worth "
            f"{candidate.worth:.4f} by the belief: a gain of less than {least.normalize():f}"
        )
    return None


def _best_limit_and_size(
    levels: Sequence[BookLevel], wanted: Decimal, budget: Decimal | None, fees: TakerFees, kind: PolymarketOrderType
) -> tuple[Decimal, Decimal] | None:
    """Return limit and size: of the limits at each level, the one with the largest size; None if there is none.

    Size steps depend on the limit, so a further level does not always allow more.
    """
    found: tuple[Decimal, Decimal] | None = None
    available = Decimal(0)
    for price, shown in levels:
        available += shown
        max_shares = (
            min(wanted, available)
            if budget is None
            else min(wanted, available, budget / fees.max_cost_per_share(price))
        )
        size = round_to_step(max_shares, size_step(price, kind, OrderSide.SELL if budget is None else OrderSide.BUY))
        least = Decimal(0) if budget is None else MIN_PURCHASE_DOLLARS
        if size > 0 and size * price >= least and (found is None or size > found[1]):
            found = price, size
        if available >= wanted:
            break
    return found


def _max_cost(size: Decimal, limit: Decimal, fees: TakerFees) -> Decimal:
    """Return the maximum cost of a purchase, in whole cents; without fees it is exact."""
    if not fees.rate:
        return size * limit
    return (size * fees.max_cost_per_share(limit)).quantize(CENT, ROUND_CEILING)


def _share_offer(cost: Decimal, level: BookLevel) -> ShareOffer:
    return ShareOffer(float(cost), float(level.size))


def _decimal_band(band: tuple[float, float]) -> tuple[Decimal, Decimal]:
    return Decimal(repr(band[0])), Decimal(repr(band[1]))


def _format_band(low: Decimal, high: Decimal) -> str:
    return f"the band {low.normalize():f} to {high.normalize():f}"
