"""What the fake Polymarket stores: markets with one book each, events, accounts, orders and trades."""

from __future__ import annotations

from dataclasses import field
from decimal import Decimal

from bot.core.light_dataclass import dataclass

ONE_DOLLAR = Decimal(1)
# The oracle's number for a price that is not set.
UNSET_PRICE = Decimal(69)
_MIN_FEE = Decimal("0.00001")


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeFeeSchedule:
    """Takers pay shares times rate times (p(1-p)) to the exponent."""

    rate: Decimal
    exponent: Decimal = ONE_DOLLAR
    rebate: Decimal = Decimal("0.25")
    kind: str = "general_fees"

    def fee_of(self, price: Decimal, size: Decimal) -> Decimal:
        """Return the fee of one fill in dollars, to five places; an amount below the minimum is zero."""
        raw = size * self.rate * (price * (ONE_DOLLAR - price)) ** self.exponent
        return Decimal(0) if raw < _MIN_FEE else raw.quantize(_MIN_FEE, rounding="ROUND_HALF_UP")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicTrade:
    """The public part of a trade; ``level`` in terms of the first outcome, ``is_bid`` where the taker bought it."""

    at_ms: int
    level: Decimal
    size: Decimal
    is_bid: bool
    wallet: str


@dataclass(slots=True, kw_only=True)
class FakePolymarketEvent:
    """A page of the site; ``neg_risk`` where exactly one of its markets ends with YES."""

    id: str
    slug: str
    title: str
    description: str = ""
    neg_risk: bool = False
    augmented: bool = False
    tags: tuple[str, ...] = ()
    end: int = 0
    markets: list[str] = field(default_factory=list)

    @property
    def group(self) -> str:
        """The key of the group on chain, "" where there is none."""
        return f"0x{int(self.id):062x}00" if self.neg_risk else ""


@dataclass(slots=True, kw_only=True)
class FakePolymarketMarket:
    """Two outcomes; moments are seconds since 1970.

    ``bids`` and ``asks`` are the crowd's orders, size by price of the first outcome; users' own orders are added.
    ``is_minted`` is False for a market so new that the exchange does not know it.
    """

    id: str
    condition: str
    tokens: tuple[str, str]
    question: str
    slug: str
    created: int
    end: int
    description: str = "This market resolves to Yes if it happens."
    outcomes: tuple[str, str] = ("Yes", "No")
    version: str = "v1"
    event: str = ""
    item: str = ""
    is_other: bool = False
    neg_risk: bool = False
    active: bool = True
    closed: bool = False
    closed_at: int | None = None
    archived: bool = False
    accepting: bool = True
    has_book: bool = True
    is_minted: bool = True
    tick: Decimal = Decimal("0.01")
    min_size: Decimal = Decimal(5)
    fees: FakeFeeSchedule | None = None
    delay_s: Decimal = Decimal(0)
    is_delayed: bool = False
    volume: Decimal = Decimal(50_000)
    volume_day: Decimal = Decimal(1_000)
    liquidity: Decimal = Decimal(5_000)
    bids: dict[Decimal, Decimal] = field(default_factory=dict)
    asks: dict[Decimal, Decimal] = field(default_factory=dict)
    last: Decimal | None = None
    last_side: str = "BUY"
    moved_ms: int = 0
    history: list[tuple[int, Decimal]] = field(default_factory=list)
    public_trades: list[PublicTrade] = field(default_factory=list)
    oracle: str = "initialized"
    uma: str | None = None
    proposed: Decimal | None = None
    reproposed: Decimal | None = None
    settled: Decimal | None = None
    payouts: tuple[Decimal, Decimal] | None = None
    was_disputed: bool = False
    new_version: bool = False
    resolved_at: int | None = None
    updated: int = 0

    @property
    def has_ended(self) -> bool:
        """Whether it pays out."""
        return self.payouts is not None

    @property
    def trades_now(self) -> bool:
        """Whether the exchange accepts orders and shows a book; a proposed outcome ends both."""
        return self.has_book and self.is_minted and not self.closed and self.uma is None

    def mirrored(self, token: str, price: Decimal) -> Decimal:
        """Convert a price of the first outcome into one of the token, and back."""
        return price if token == self.tokens[0] else ONE_DOLLAR - price


@dataclass(slots=True, kw_only=True)
class FakePolymarketUser:
    """An account: ``address`` signs, ``wallet`` has the money. ``kind`` is the type of the wallet, as orders say it."""

    address: str
    wallet: str
    kind: int = 3
    cash: Decimal = Decimal(1_000)
    allowance: Decimal = Decimal(10**12)
    shares: dict[str, Decimal] = field(default_factory=dict)
    spent: dict[str, Decimal] = field(default_factory=dict)
    fees: dict[str, Decimal] = field(default_factory=dict)
    # The gain of sold shares over their average cost, by token; without fees, as the venue reports it.
    realised: dict[str, Decimal] = field(default_factory=dict)
    key: str = ""
    secret: str = field(default="", repr=False)
    passphrase: str = field(default="", repr=False)
    closed_only: bool = False
    beat: str = ""
    beat_s: float | None = None

    def realise(self, token: str, gain: Decimal) -> None:
        """Add to the gain of a token's shares over their cost."""
        self.realised[token] = self.realised.get(token, Decimal(0)) + gain


@dataclass(slots=True, kw_only=True)
class FakePolymarketOrder:
    """An order under its hash. ``ahead`` is the crowd's size at its price before it came."""

    id: str
    user: FakePolymarketUser
    market: FakePolymarketMarket
    token: str
    side: str
    price: Decimal
    size: Decimal
    spend: Decimal
    kind: str
    created_ms: int
    expires: int = 0
    post_only: bool = False
    matched: Decimal = Decimal(0)
    paid: Decimal = Decimal(0)
    status: str = "LIVE"
    due_ms: int | None = None
    ahead: Decimal = Decimal(0)
    trades: list[str] = field(default_factory=list)

    @property
    def is_bid(self) -> bool:
        """Whether it buys the first outcome; selling the second is the same."""
        return (self.side == "BUY") == (self.token == self.market.tokens[0])

    @property
    def level(self) -> Decimal:
        """Its price in terms of the first outcome."""
        return self.market.mirrored(self.token, self.price)

    @property
    def left(self) -> Decimal:
        """The shares that are not matched."""
        return max(self.size - self.matched, Decimal(0))

    @property
    def is_resting(self) -> bool:
        """Whether it is in the book."""
        return self.status == "LIVE"

    @property
    def reserved(self) -> Decimal:
        """What it reserves while it is open or waits: dollars for a BUY, shares for a SELL."""
        if self.status not in {"LIVE", "DELAYED"}:
            return Decimal(0)
        return self.left * self.price if self.side == "BUY" else self.left


@dataclass(frozen=True, slots=True, kw_only=True)
class RestingSide:
    """The maker of a match: a user's order, or None for the crowd."""

    order: FakePolymarketOrder | None
    size: Decimal


@dataclass(slots=True, kw_only=True)
class FakePolymarketTrade:
    """One match of a taker at one price; ``level`` in terms of the first outcome, ``taker`` None for the crowd."""

    id: str
    market: FakePolymarketMarket
    taker: FakePolymarketOrder | None
    is_bid: bool
    level: Decimal
    size: Decimal
    fee: Decimal
    makers: tuple[RestingSide, ...]
    matched_ms: int
    updated_ms: int
    fate: str
    status: str = "MATCHED"
    hash: str = ""

    @property
    def token(self) -> str:
        """The token that the taker traded."""
        return self.market.tokens[0] if self.taker is None else self.taker.token

    @property
    def side(self) -> str:
        """Whether the taker bought or sold."""
        return ("BUY" if self.is_bid else "SELL") if self.taker is None else self.taker.side

    @property
    def price(self) -> Decimal:
        """The taker's price of a share."""
        return self.market.mirrored(self.token, self.level)

    @property
    def is_over(self) -> bool:
        """Whether it is final."""
        return self.status in {"CONFIRMED", "FAILED"}


@dataclass(slots=True)
class FakePolymarketState:
    """All data, by id; ``listed_from`` has the moments, in milliseconds, from which on late trades are listed."""

    markets: dict[str, FakePolymarketMarket] = field(default_factory=dict)
    events: dict[str, FakePolymarketEvent] = field(default_factory=dict)
    tokens: dict[str, FakePolymarketMarket] = field(default_factory=dict)
    users: dict[str, FakePolymarketUser] = field(default_factory=dict)
    orders: dict[str, FakePolymarketOrder] = field(default_factory=dict)
    trades: dict[str, FakePolymarketTrade] = field(default_factory=dict)
    listed_from: dict[str, int] = field(default_factory=dict)
    count: int = 0

    def new_id(self) -> int:
        """Return a number that was never returned before."""
        self.count += 1
        return self.count

    def resting(self, market: FakePolymarketMarket, *, bids: bool) -> list[FakePolymarketOrder]:
        """Return the orders on one side of a book, oldest first."""
        return [
            order
            for order in self.orders.values()
            if order.is_resting and order.market is market and order.is_bid is bids and order.left > 0
        ]

    def orders_of(self, user: FakePolymarketUser) -> list[FakePolymarketOrder]:
        """Return all orders of an account, oldest first."""
        return [order for order in self.orders.values() if order.user is user]

    def by_key(self, key: str) -> FakePolymarketUser | None:
        """Return the account of an API key."""
        return next((user for user in self.users.values() if user.key == key), None) if key else None

    def tied_up(self, user: FakePolymarketUser, token: str | None) -> Decimal:
        """Return what open orders and unsettled trades of an account reserve: dollars, or shares of a token."""
        total = Decimal(0)
        for order in self.orders_of(user):
            if order.side == ("BUY" if token is None else "SELL") and token in {None, order.token}:
                total += order.reserved
        return total + sum((self._unsettled(trade, user, token) for trade in self.trades.values()), Decimal(0))

    def _unsettled(self, trade: FakePolymarketTrade, user: FakePolymarketUser, token: str | None) -> Decimal:
        if trade.is_over:
            return Decimal(0)
        total = Decimal(0)
        sides = [
            (trade.taker, trade.size, trade.fee),
            *((maker.order, maker.size, Decimal(0)) for maker in trade.makers),
        ]
        for order, size, fee in sides:
            if order is None or order.user is not user or order.side != ("BUY" if token is None else "SELL"):
                continue
            if token is None:
                total += size * trade.market.mirrored(order.token, trade.level) + fee
            elif order.token == token:
                total += size
        return total


def decimal_text(value: Decimal) -> str:
    """Return a number as the venue writes it: no exponent, no zeros at the end."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
