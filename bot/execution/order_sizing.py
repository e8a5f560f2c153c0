"""Size and limit of an order that is matched at once: maximum growth on the current book, within caps, tick and lot.

The target is the holding of a bettor with a share of the account, so that planning again with that much held plans
nothing. A level is bought only if it gains enough by itself. Shares of the other leg are sold first, and only for at
least their worth by the belief, so a belief must cross spread and fees before a position is reversed.

A planner of a venue gives each contract as a ``ContractMarket``, and then either lets ``OrderBookPlanner`` do all the
rest, or calls an ``OrderSizer``: ``rank_options``, then ``size_order`` for one option after the other.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from itertools import pairwise

from bot.core.errors import RequestRejectedError
from bot.core.interfaces import FeeSchedule
from bot.core.light_dataclass import dataclass
from bot.core.orders import ContractSide, Order, OrderSide, Position, TradeProposal
from bot.core.predictions import BinaryPrediction, ChoicePrediction
from bot.core.values import Json
from bot.execution.order_book import CENT, ONE, BookLevel, OrderBook, walk_levels
from bot.stats.kelly import (
    HeldShares,
    KellyBankroll,
    PayoffScenarios,
    ShareOffer,
    kelly_shares,
    payoff_scenarios,
    rescale_beliefs,
    share_value,
    shrink_to_market,
    sum_held_shares,
)

# How many options are tried if the best one may not be traded.
MAX_TRIED_OPTIONS = 3

# The step of prices at a price of YES, and that of shares at a price of the leg.
TickRule = Callable[[Decimal], Decimal]
LotRule = Callable[[Decimal, OrderSide], Decimal]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractMarket:
    """One contract as it can be traded now; ``option`` is "" for a question without options.

    ``tick`` is the step of prices of YES, ``lot`` the step of shares; a function where they depend on the price.
    ``min_purchase`` is the least money that a purchase must come to, ``min_sale`` the fewest shares worth a sale.
    ``objection`` says why the venue takes no order now, "" if it does. ``facts`` are recorded with the decision.
    """

    contract: str
    option: str = ""
    book: OrderBook
    fees: FeeSchedule
    tick: Decimal | TickRule
    lot: Decimal | LotRule
    min_purchase: Decimal = Decimal(0)
    min_sale: Decimal = Decimal(0)
    objection: str = ""
    facts: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse steps that are not positive, and a book whose levels are not sorted."""
        for name, step in (("tick", self.tick), ("lot", self.lot)):
            if isinstance(step, Decimal) and step <= 0:
                message = f"{self.contract}: {name} is {step}, but a step is above 0"
                raise ValueError(message)
        bids, asks = self.book.bids, self.book.asks
        if any(worse.price >= best.price for best, worse in pairwise(bids)) or any(
            worse.price <= best.price for best, worse in pairwise(asks)
        ):
            message = f"{self.contract}: the levels of its book are not best first, as OrderBook.from_levels sorts them"
            raise ValueError(message)

    def lot_at(self, price: Decimal, side: OrderSide) -> Decimal:
        """Return the step of shares at a price of the leg."""
        return self.lot(price, side) if callable(self.lot) else self.lot

    def is_on_grid(self, leg: ContractSide, price: Decimal) -> bool:
        """Return whether an order on that leg may have that price."""
        yes = price_of_yes(leg, price)
        return not yes % (self.tick(yes) if callable(self.tick) else self.tick)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedOrder:
    """An order with its size, in exact decimals.

    ``limit`` is the price of the leg and ``yes_price`` the same as a price of YES. ``cost`` is the most a purchase can
    come to, fees included. ``expected`` is the average price of a share without the ``fee`` on all of them; ``edge`` is
    the gain of a share by the belief, after fees.
    """

    leg: ContractSide
    side: OrderSide
    limit: Decimal
    size: Decimal
    cost: Decimal
    expected: Decimal
    fee: Decimal
    edge: Decimal

    @property
    def yes_price(self) -> Decimal:
        """The limit as a price of YES."""
        return price_of_yes(self.leg, self.limit)

    @property
    def buys_yes(self) -> bool:
        """Whether it bets on YES: buying NO and selling YES are the same for a book of YES, and bet on NO."""
        return (self.side is OrderSide.BUY) is (self.leg is ContractSide.YES)

    def to_order(
        self,
        market: ContractMarket,
        *,
        currency: str,
        terms: Mapping[str, Json] | None = None,
        cancels: tuple[str, ...] = (),
    ) -> Order:
        """Return the order on that contract."""
        return Order(
            contract=market.contract,
            leg=self.leg,
            side=self.side,
            shares=float(self.size),
            limit=float(self.limit),
            cost=float(self.cost),
            expected=float(self.expected),
            currency=currency,
            option=market.option,
            fees=float(self.fee),
            edge=float(self.edge),
            terms=terms or {},
            cancels=cancels,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LegBelief:
    """The leg of a contract that gains by the belief: what a share is ``worth``, and how wealth depends on it.

    ``held_against`` are the shares held of the other leg.
    """

    market: ContractMarket
    leg: ContractSide
    worth: Decimal
    scenarios: PayoffScenarios
    held_against: Decimal

    @property
    def other_leg(self) -> ContractSide:
        """The leg that loses."""
        return other_leg(self.leg)

    def gain(self, price: Decimal) -> Decimal:
        """Return the expected gain of a share bought at a price, after fees."""
        return self.worth - price - self.market.fees.per_share(price)


class OrderSizer:
    """Sizes orders for one proposal; ``contracts`` are those of its question by option."""

    def __init__(self, proposal: TradeProposal, contracts: Mapping[str, str]) -> None:
        self._proposal, self._contracts = proposal, contracts
        self.beliefs = option_beliefs(proposal)
        names = {contract: option for option, contract in contracts.items()}
        held = sum_held_shares(proposal.account.positions, lambda position: names.get(position.contract))
        self._bankroll = KellyBankroll(cash=max(proposal.account.cash, 0.0), held=held)

    @property
    def max_spend(self) -> Decimal:
        """What one order may cost: cap and cash."""
        return Decimal(repr(max(0.0, min(self._proposal.sizing.max_cost, self._proposal.account.cash))))

    def rank_options(self, prices: Mapping[str, float]) -> list[str]:
        """Return the options to try, first those held against the belief, then by distance from the price of YES."""
        priced = [option for option in prices if option in self.beliefs]
        against = {option for option in priced if self._is_held_against(option, prices[option])}
        ranked = sorted(priced, key=lambda one: (one not in against, -abs(self.beliefs[one] - prices[one])))
        return ranked[: MAX_TRIED_OPTIONS + len(against)]

    def choose_leg(self, market: ContractMarket, prices: Mapping[str, float]) -> LegBelief:
        """Return the leg that gains; ``prices`` are those of YES by option, with that of the market among them."""
        sizing, option = self._proposal.sizing, market.option
        belief = shrink_to_market(self.beliefs[option], prices[option], sizing.market_shrinkage)
        leg = ContractSide.YES if belief > prices[option] else ContractSide.NO
        bankroll = self._bankroll.scaled_to_share(sizing.kelly_fraction, prices)
        scenarios = payoff_scenarios(bankroll, rescale_beliefs(self.beliefs, option, belief), option)
        held = self._bankroll.held.get(option, HeldShares())
        return LegBelief(
            market=market,
            leg=leg,
            worth=Decimal(repr(share_value(leg, belief))),
            scenarios=scenarios.for_side(leg),
            held_against=Decimal(repr(held.of_side(other_leg(leg)))),
        )

    def size_order(self, market: ContractMarket, prices: Mapping[str, float]) -> SizedOrder | str:
        """Return the order on a contract, or why there is none: sells what is held against the belief, else buys."""
        if market.objection:
            return market.objection
        chosen = self.choose_leg(market, prices)
        if has_sale(chosen):
            return self.size_sale(chosen)
        return self.size_purchase(chosen)

    def size_purchase(self, chosen: LegBelief) -> SizedOrder | str:
        """Size a purchase: for each possible limit as much as fits; the largest wins."""
        sizing, market, fees = self._proposal.sizing, chosen.market, chosen.market.fees
        low, high, least = (Decimal(repr(value)) for value in (*sizing.price_band, sizing.min_edge))
        asks = market.book.levels(chosen.leg, OrderSide.BUY)
        if why := _purchase_objection(chosen, asks, least, (low, high)):
            return why
        good = [one for one in asks if chosen.gain(one.price) >= least and one.price <= high]
        offers = [ShareOffer(float(price + fees.per_share(price)), float(size)) for price, size in good]
        wanted = kelly_shares(chosen.scenarios, offers)
        if wanted <= 0.0:
            worth = f"{chosen.leg} is worth {chosen.worth:.3f}"
            return f"the held shares are enough for a belief that {worth} at {asks[0].price}"
        reserve = Decimal(0) if fees.is_free else CENT + fees.rounding * len(good)
        budget = max(Decimal(0), self.max_spend - reserve)
        best = _best_limit_and_size(market, good, Decimal(repr(wanted)), OrderSide.BUY, budget)
        if best is None:
            short = f"only {budget:.2f} may be spent, less than the minimum order"
            return f"{wanted:.2f} shares are wanted, and nothing of that can be traded now: {short}"
        return _sized_order(chosen.market, chosen.leg, OrderSide.BUY, good, best, worth=chosen.worth)

    def size_sale(self, chosen: LegBelief) -> SizedOrder | str:
        """Size a sale of shares held of the other leg, for no less than their worth by the belief."""
        market, fees, leg, worth = chosen.market, chosen.market.fees, chosen.other_leg, ONE - chosen.worth
        bids = market.book.levels(leg, OrderSide.SELL)
        good = [one for one in bids if one.price - fees.per_share(one.price) >= worth]
        offers = [ShareOffer(float(ONE - price + fees.per_share(price)), float(size)) for price, size in good]
        wanted = Decimal(repr(kelly_shares(chosen.scenarios, offers)))
        best = _best_limit_and_size(market, good, min(wanted, chosen.held_against), OrderSide.SELL)
        if best is None:
            return f"{chosen.held_against:.2f} {leg} are held, but selling brings less than their worth of {worth:.3f}"
        return _sized_order(market, leg, OrderSide.SELL, good, best, worth=worth)

    def _is_held_against(self, option: str, price: float) -> bool:
        against = ContractSide.NO if self.beliefs[option] > price else ContractSide.YES
        contract = self._contracts[option]
        return any(one.contract == contract and one.leg is against for one in self._proposal.account.positions)


def has_sale(chosen: LegBelief) -> bool:
    """Return whether as many shares of the other leg are held as are worth a sale."""
    return chosen.held_against > 0 and chosen.held_against >= chosen.market.min_sale


def size_closing_sale(market: ContractMarket, position: Position) -> SizedOrder | str:
    """Return the sale of a whole position at the bids, at any price, or why nothing can be sold."""
    if market.objection:
        return market.objection
    leg, held = position.leg, Decimal(repr(position.shares))
    bids = market.book.levels(leg, OrderSide.SELL)
    best = _best_limit_and_size(market, bids, held, OrderSide.SELL)
    if best is None:
        return f"{held:.4f} {leg} are held, less than can be sold" if bids else f"there are no bids for {leg}"
    return _sized_order(market, leg, OrderSide.SELL, bids, best, worth=None)


def option_beliefs(proposal: TradeProposal) -> Mapping[str, float]:
    """Return the belief in YES by option, "" for a question without; raises RequestRejectedError for a curve."""
    match proposal.predictions[proposal.question.targets[0].key]:
        case BinaryPrediction(probability=probability):
            return {"": probability}
        case ChoicePrediction(probabilities=probabilities):
            return probabilities
    message = f"{proposal.question.ref}: no market of this venue takes a curve"
    raise RequestRejectedError(message)


def other_leg(leg: ContractSide) -> ContractSide:
    """Return the opposite leg."""
    return ContractSide.NO if leg is ContractSide.YES else ContractSide.YES


def price_of_yes(leg: ContractSide, price: Decimal) -> Decimal:
    """Return the price of YES for a price of a leg, and the reverse."""
    return price if leg is ContractSide.YES else ONE - price


def describe_sized_order(order: Order) -> str:
    """Return an order in one line."""
    what = f"{order.side} {order.shares:g} {order.leg} of {order.option or order.contract}"
    return f"{what} at {order.expected:.4f}, limit {order.limit:g}, edge {order.edge:.4f} per share after fees"


def _purchase_objection(
    chosen: LegBelief, asks: Sequence[BookLevel], least: Decimal, band: tuple[Decimal, Decimal]
) -> str | None:
    """Return why nothing is bought even at the best price, or None."""
    low, high = band
    if not asks:
        return f"nobody offers {chosen.leg}"
    price = asks[0].price
    if not low <= price <= high:
        return f"{chosen.leg} is offered at {price}, outside the band {low.normalize():f} to {high.normalize():f}"
    if chosen.gain(price) < least:
        cost = price + chosen.market.fees.per_share(price)
        return (
            f"{chosen.leg} costs {cost:.4f} with fees and is worth {chosen.worth:.4f} by the belief: "
            f"a gain of less than {least.normalize():f}"
        )
    return None


def _best_limit_and_size(
    market: ContractMarket,
    levels: Sequence[BookLevel],
    wanted: Decimal,
    side: OrderSide,
    budget: Decimal | None = None,
) -> tuple[Decimal, Decimal] | None:
    """Return limit and size: of the limits at each level, the one with the largest size; None if there is none.

    Lots may depend on the limit, so a further level does not always allow more.
    """
    found: tuple[Decimal, Decimal] | None = None
    available = Decimal(0)
    for price, shown in levels:
        available += shown
        most = min(wanted, available)
        if budget is not None:
            most = min(most, budget / market.fees.max_cost_per_share(price))
        lot = market.lot_at(price, side)
        size = (most / lot).to_integral_value(ROUND_FLOOR) * lot
        least = market.min_purchase if side is OrderSide.BUY else Decimal(0)
        if size > 0 and size * price >= least and (found is None or size > found[1]):
            found = price, size
        if available >= wanted:
            break
    return found


def _sized_order(
    market: ContractMarket,
    leg: ContractSide,
    side: OrderSide,
    levels: Sequence[BookLevel],
    best: tuple[Decimal, Decimal],
    *,
    worth: Decimal | None,
) -> SizedOrder | str:
    """Return the order with what it is expected to cost; ``worth`` is None if it closes a position at any price."""
    limit, size = best
    if not market.is_on_grid(leg, limit):
        return f"{price_of_yes(leg, limit)} is not a price that the market takes"
    walk = walk_levels(levels, market.fees, shares=size)
    with_fee = walk.average_price_with_fee(side)
    gain = with_fee if side is OrderSide.SELL else -with_fee
    edge = Decimal(0) if worth is None else gain + (-worth if side is OrderSide.SELL else worth)
    return SizedOrder(
        leg=leg,
        side=side,
        limit=limit,
        size=size,
        cost=_max_cost(size, limit, market.fees, len(walk.fills)) if side is OrderSide.BUY else Decimal(0),
        expected=walk.average_price,
        fee=walk.fee,
        edge=edge,
    )


def _max_cost(size: Decimal, limit: Decimal, fees: FeeSchedule, fills: int) -> Decimal:
    """Return the maximum cost of a purchase, in whole cents; without fees it is exact."""
    if fees.is_free:
        return size * limit
    return (size * fees.max_cost_per_share(limit) + fees.rounding * fills).quantize(CENT, ROUND_CEILING)
