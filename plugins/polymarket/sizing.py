"""How large an order is and where its limit lies: most growth on the book as it is, within caps, grid and least sizes.

The target is what somebody would hold who stakes with a share of the account, so that planning again with that much
held plans nothing. A level is bought only if it gains enough by itself; what is held is given up only for at least
what it is worth by the belief, so a belief has to cross spread and fees before anything turns round.
Source: venue document, sections 13.3 and 15.5.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from bot.api import Leg, OpenOrder, Position, Side, Wish
from plugins.polymarket.books import ONE, Book, Level
from plugins.polymarket.depth import facing, of_leg, take
from plugins.polymarket.fees import Fees
from plugins.polymarket.kelly import Held, Offer, Purse, outlook, scaled, shares_of_most_growth, shrunk, worth_of
from plugins.polymarket.parse import Contract
from plugins.polymarket.terms import CENT, LEAST_DOLLARS, OrderType, grain_of, on_grid, whole

_ENDLESS = Decimal(10) ** 12
# Fewer shares bring some cents at most.
LEAST_SOLD = Decimal("0.1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """One option of a question ("" where there are none) at its book of YES, and the prices of all options."""

    option: str
    contract: Contract
    book: Book
    prices: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """An order with its size: ``expected`` is what a share costs on average without the ``fee`` on all of it.

    ``mid`` is the middle of the book of its leg.
    """

    leg: Leg
    side: Side
    type: OrderType
    price: Decimal
    size: Decimal
    cost: Decimal
    expected: Decimal
    fee: Decimal
    edge: Decimal
    mid: Decimal
    cancel: tuple[str, ...] = ()


class Sizer:
    """Sizes orders for one wish; ``contracts`` are those of its question by option."""

    def __init__(self, wish: Wish, kind: OrderType, contracts: Mapping[str, Contract]) -> None:
        self._wish, self._kind = wish, kind
        names = {contract.market: option for option, contract in contracts.items()}
        self._purse = Purse(cash=max(wish.account.cash, 0.0), held=_held(wish, names))

    def sized(self, stand: Stand, beliefs: Mapping[str, float]) -> Sized | str:
        """Return the order on that option, or why there is none."""
        mid = stand.prices[stand.option]
        belief = shrunk(beliefs[stand.option], mid, self._wish.appetite.shrink)
        leg = Leg.YES if belief > mid else Leg.NO
        case = _Case(stand, leg, Decimal(repr(worth_of(leg, belief))))
        same, against = self._resting(case)
        if same:
            return f"an order of its own for {leg} rests there: {same[0]}"
        view = outlook(self._virtual(stand), scaled(beliefs, stand.option, belief), stand.option)
        case.view = view if leg is Leg.YES else view.flipped
        case.cancel = against
        held = self._purse.held.get(stand.option, Held())
        other = Decimal(repr(held.no if leg is Leg.YES else held.yes))
        if case.can_sell(other):
            return self._sale(case, other)
        return self._waiting(case) if self._kind.rests else self._purchase(case)

    def _virtual(self, stand: Stand) -> Purse:
        return self._purse.shared(self._wish.appetite.kelly, stand.prices)

    def _resting(self, case: "_Case") -> tuple[Sequence[str], tuple[str, ...]]:
        """Return the own resting orders that mean the same as this one would, and those that mean the contrary."""
        here = [order for order in self._wish.account.orders if order.contract == case.stand.contract.market]
        same = [order.id for order in here if _towards(order) is case.leg]
        return same, tuple(order.id for order in here if _towards(order) is not case.leg)

    def _purchase(self, case: "_Case") -> Sized | str:
        """Size an order that is matched at once: on each level it might end at, as much as fits; the most wins."""
        appetite, fees = self._wish.appetite, case.fees
        asks = facing(case.book, Side.BUY)
        least, (low, high) = Decimal(repr(appetite.edge)), _decimals(appetite.band)
        if why := _passed(case, asks[0], least, (low, high)):
            return why
        good = [one for one in asks if case.gain(one.price) >= least and one.price <= high]
        wanted = shares_of_most_growth(case.view, [_offer(one.price + fees.per_share(one.price), one) for one in good])
        if wanted <= 0.0:
            return f"what is held is enough for a belief that {case.leg} is worth {case.worth:.3f} at {asks[0].price}"
        budget = self._budget(fees)
        best = _best(good, Decimal(repr(wanted)), budget, fees, self._kind)
        if best is None:
            return f"{wanted:.2f} shares are wanted and {budget:.2f} may be spent, less than the least order"
        limit, size = best
        taken = take(good, fees, shares=size)
        return Sized(
            leg=case.leg,
            side=Side.BUY,
            type=self._kind,
            price=limit,
            size=size,
            cost=_cost(size, limit, fees),
            expected=taken.average,
            fee=taken.fee,
            edge=case.worth - taken.net(Side.BUY),
            mid=case.mid,
            cancel=case.cancel,
        )

    def _waiting(self, case: "_Case") -> Sized | str:
        """Size an order that waits: one step before the best, but never nearer to the belief than the edge."""
        appetite, book = self._wish.appetite, case.book
        if book.best_bid is None or book.best_ask is None:
            return "the book has one side only"
        low, high = _decimals(appetite.band)
        most = min(case.worth - Decimal(repr(appetite.edge)), book.best_bid + book.tick, book.best_ask - book.tick)
        price = on_grid(most, book.tick, Side.BUY)
        if not max(low, book.tick) <= price <= min(high, ONE - book.tick):
            return f"{case.leg} would be waited for at {price}, outside {_range(low, high)}"
        wanted = Decimal(repr(shares_of_most_growth(case.view, [Offer(float(price), float(_ENDLESS))])))
        size = whole(min(wanted, self._most() / price), CENT)
        if size < book.min_size:
            return f"{size} shares at {price}, and {book.min_size} is the least that may rest"
        return Sized(
            leg=case.leg,
            side=Side.BUY,
            type=self._kind,
            price=price,
            size=size,
            cost=price * size,
            expected=price,
            fee=Decimal(0),
            edge=case.worth - price,
            mid=case.mid,
            cancel=case.cancel,
        )

    def _sale(self, case: "_Case", held: Decimal) -> Sized | str:
        """Size a sale of the other leg, for no less than it is worth by the belief."""
        leg = Leg.NO if case.leg is Leg.YES else Leg.YES
        book, fees, worth = of_leg(case.stand.book, leg, case.token(leg)), case.fees, ONE - case.worth
        good = [one for one in facing(book, Side.SELL) if one.price - fees.per_share(one.price) >= worth]
        wanted = shares_of_most_growth(
            case.view, [_offer(ONE - one.price + fees.per_share(one.price), one) for one in good]
        )
        best = _best(good, min(Decimal(repr(wanted)), held), None, fees, OrderType.FAK)
        if best is None:
            return f"{held:.2f} {leg} are held, and would not bring enough to be given up: worth {worth:.3f}"
        limit, size = best
        taken = take(good, fees, shares=size)
        return Sized(
            leg=leg,
            side=Side.SELL,
            type=OrderType.FAK,
            price=limit,
            size=size,
            cost=Decimal(0),
            expected=taken.average,
            fee=taken.fee,
            edge=taken.net(Side.SELL) - worth,
            mid=ONE - case.mid,
            cancel=case.cancel,
        )

    def _most(self) -> Decimal:
        appetite = self._wish.appetite
        return Decimal(repr(max(0.0, min(appetite.most, self._wish.account.cash))))

    def _budget(self, fees: Fees) -> Decimal:
        """Return what shares and fees may cost, so that the cost in whole cents is no more than may be spent."""
        return max(Decimal(0), self._most() - (CENT if fees.rate else Decimal(0)))


class _Case:
    """A leg at its book; what may happen, and own orders that go first, are filled in."""

    def __init__(self, stand: Stand, leg: Leg, worth: Decimal) -> None:
        self.stand, self.leg, self.worth = stand, leg, worth
        self.book = of_leg(stand.book, leg, self.token(leg))
        self.fees = Fees.of(stand.contract.fees, stand.contract.market)
        self.view = outlook(Purse(cash=0.0), {"": 0.5}, "")
        self.cancel: tuple[str, ...] = ()

    def token(self, leg: Leg) -> str:
        """Return what stands for a leg."""
        return self.stand.contract.yes if leg is Leg.YES else self.stand.contract.no

    @property
    def mid(self) -> Decimal:
        """The middle of the book of the leg, which is only sized on where it has one."""
        return self.book.mid or Decimal(0)

    def can_sell(self, held: Decimal) -> bool:
        """Say whether so many shares of the other leg are worth a sale of their own; what is less stops nothing."""
        return held >= LEAST_SOLD

    def gain(self, price: Decimal) -> Decimal:
        """Return what a share bought at a price gains by the belief, after fees."""
        return self.worth - price - self.fees.per_share(price)


def closing_size(stand: Stand, position: Position) -> Sized | str:
    """Return the sale of a whole position at the bids, as far down as it takes, or why nothing of it can be sold."""
    leg, held = position.leg, Decimal(repr(position.shares))
    token = stand.contract.yes if leg is Leg.YES else stand.contract.no
    book, fees = of_leg(stand.book, leg, token), Fees.of(stand.contract.fees, stand.contract.market)
    bids = facing(book, Side.SELL)
    found = _best(bids, held, None, fees, OrderType.FAK)
    if found is None:
        return f"{held:.4f} {leg} are held, less than can be sold" if bids else f"nobody bids for {leg}"
    limit, size = found
    taken = take(bids, fees, shares=size)
    return Sized(
        leg=leg,
        side=Side.SELL,
        type=OrderType.FAK,
        price=limit,
        size=size,
        cost=Decimal(0),
        expected=taken.average,
        fee=taken.fee,
        edge=Decimal(0),
        mid=book.mid or limit,
    )


def _held(wish: Wish, names: Mapping[str, str]) -> dict[str, Held]:
    held: dict[str, dict[Leg, float]] = {}
    for position in wish.account.positions:
        if position.contract in names:
            legs = held.setdefault(names[position.contract], dict.fromkeys(Leg, 0.0))
            legs[position.leg] += position.shares
    return {option: Held(yes=legs[Leg.YES], no=legs[Leg.NO]) for option, legs in held.items()}


def _towards(order: OpenOrder) -> Leg:
    """Return the leg that an order bets on: selling one is betting on the other."""
    other = Leg.NO if order.leg is Leg.YES else Leg.YES
    return order.leg if order.side is Side.BUY else other


def _passed(case: _Case, best: Level, least: Decimal, band: tuple[Decimal, Decimal]) -> str | None:
    """Say why nothing is bought at all, at the best price there is."""
    low, high = band
    if not low <= best.price <= high:
        return f"{case.leg} is offered at {best.price}, outside {_range(low, high)}"
    if case.gain(best.price) < least:
        return (
            f"{case.leg} costs {best.price + case.fees.per_share(best.price):.4f} with fees and is worth "
            f"{case.worth:.4f} by the belief: a gain of less than {least.normalize():f}"
        )
    return None


def _best(
    levels: Sequence[Level], wanted: Decimal, budget: Decimal | None, fees: Fees, kind: OrderType
) -> tuple[Decimal, Decimal] | None:
    """Return limit and size: of the limits at each level, the one that takes most; None where none takes anything.

    Sizes come in steps that depend on the limit, so a further level does not always bring more.
    """
    found: tuple[Decimal, Decimal] | None = None
    there = Decimal(0)
    for price, shown in levels:
        there += shown
        most = min(wanted, there) if budget is None else min(wanted, there, budget / fees.worst(price))
        size = whole(most, grain_of(price, kind, Side.SELL if budget is None else Side.BUY))
        least = Decimal(0) if budget is None else LEAST_DOLLARS
        if size > 0 and size * price >= least and (found is None or size > found[1]):
            found = price, size
        if there >= wanted:
            break
    return found


def _cost(size: Decimal, limit: Decimal, fees: Fees) -> Decimal:
    """Return the most that a purchase may cost, in whole cents; without fees it is exact."""
    if not fees.rate:
        return size * limit
    return (size * fees.worst(limit)).quantize(CENT, ROUND_CEILING)


def _offer(cost: Decimal, level: Level) -> Offer:
    return Offer(float(cost), float(level.size))


def _decimals(band: tuple[float, float]) -> tuple[Decimal, Decimal]:
    return Decimal(repr(band[0])), Decimal(repr(band[1]))


def _range(low: Decimal, high: Decimal) -> str:
    return f"the band {low.normalize():f} to {high.normalize():f}"
