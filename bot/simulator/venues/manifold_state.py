"""What the fake Manifold stores: users, markets, answers, bets, comments and holdings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from bot.core.light_dataclass import dataclass
from bot.simulator.venues.manifold_market_maker import NumericPriceScale, ReferencePool

EXPIRY_SWEEP_MS = 60_000
DAY_MS = 86_400_000
# Interest of margin loans: ``LOAN_DAILY_INTEREST_RATE`` of the venue's public ``common/src/loans.ts``.
DAILY_MARGIN_RATE = 0.0003
TRADED_SINGLY = frozenset({"BINARY", "PSEUDO_NUMERIC", "STONK"})
TRADED_BY_ANSWER = frozenset({"MULTIPLE_CHOICE", "NUMBER", "MULTI_NUMERIC", "DATE"})


@dataclass(slots=True, kw_only=True)
class FakeManifoldUser:
    """An account. ``key`` None has no API key."""

    id: str
    username: str
    created: int
    balance: float
    # Deposits and other credits without trades, less withdrawals.
    deposits: float = 0.0
    key: str | None = None
    is_bot: bool = False
    banned: bool = False

    @property
    def avatar(self) -> str:
        """The address of its picture."""
        return f"https://example.org/{self.username}.png"


@dataclass(slots=True, kw_only=True)
class FakeManifoldAnswer:
    """One answer of a market; its pool is the market maker of it alone."""

    id: str
    index: int
    text: str
    pool: ReferencePool
    created: int
    user: str
    liquidity: float
    volume: float = 0.0
    midpoint: float | None = None
    is_other: bool = False
    resolution: str | None = None
    resolution_time: int | None = None
    resolution_prob: float | None = None
    # Payout of one YES share where the whole market was resolved, 0 to 1.
    payout: float | None = None


# Title and text, answers, and when it closes.
MarketTerms = tuple[tuple[str, str], tuple[str, ...], int | None]


@dataclass(slots=True, kw_only=True)
class FakeManifoldMarket:
    """A market of any type; ``pool`` where it is traded as a whole, ``answers`` otherwise."""

    id: str
    slug: str
    question: str
    creator: str
    type: str
    created: int
    closes: int | None
    description: str = ""
    pool: ReferencePool = field(default_factory=lambda: ReferencePool(100.0, 100.0))
    answers: list[FakeManifoldAnswer] = field(default_factory=list)
    sums_to_one: bool = False
    scale: NumericPriceScale | None = None
    token: str = "MANA"  # noqa: S105 - a currency
    groups: tuple[str, ...] = ()
    liquidity: float = 100.0
    volume: float = 0.0
    bettors: set[str] = field(default_factory=set)
    updated: int = 0
    last_bet: int | None = None
    last_comment: int | None = None
    resolution: str | None = None
    resolution_prob: float | None = None
    resolution_time: int | None = None
    resolver: str | None = None
    # The payouts of its resolution by user, to be taken back when it is undone.
    paid: dict[str, float] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)
    # Its texts before each edit, and when that was in milliseconds.
    edits: list[tuple[int, MarketTerms]] = field(default_factory=list)

    @property
    def terms(self) -> MarketTerms:
        """Its present texts."""
        return (self.question, self.description), tuple(answer.text for answer in self.answers), self.closes

    @property
    def mechanism(self) -> str:
        """How it is traded."""
        if self.type in TRADED_SINGLY:
            return "cpmm-1"
        return "cpmm-multi-1" if self.type in TRADED_BY_ANSWER else {"PERP": "perp"}.get(self.type, "none")

    @property
    def resolved(self) -> bool:
        """Whether it has an outcome."""
        return self.resolution is not None

    def answer(self, answer_id: str | None) -> FakeManifoldAnswer | None:
        """Return an answer by its id."""
        return next((answer for answer in self.answers if answer.id == answer_id), None)

    def is_open(self, now: int) -> bool:
        """Return whether it is unresolved and not closed."""
        return not self.resolved and (self.closes is None or self.closes > now)


@dataclass(slots=True, kw_only=True)
class FakeManifoldBet:
    """A bet, or the open rest of one. Sales have negative amount and shares."""

    id: str
    user: str
    market: str
    answer: str | None
    outcome: str
    amount: float
    order_amount: float
    shares: float
    prob_before: float
    prob_after: float
    created: int
    limit: float | None = None
    is_filled: bool = True
    is_cancelled: bool = False
    fills: list[dict[str, Any]] = field(default_factory=list)
    updated: int | None = None
    expires: int | None = None
    is_redemption: bool = False
    is_api: bool = True
    group: str | None = None
    reply_to: str | None = None

    def expired(self, now: int) -> bool:
        """Return whether its time is over."""
        return bool(self.expires) and (self.expires or 0) <= now

    def cancelled(self, now: int) -> bool:
        """Return whether it is shown as cancelled: an expired one is from the next sweep on, once a minute."""
        swept = bool(self.expires) and now // EXPIRY_SWEEP_MS > (self.expires or 0) // EXPIRY_SWEEP_MS
        return self.is_cancelled or (swept and not self.is_filled)

    def is_resting(self, now: int) -> bool:
        """Return whether it is listed as an open order; an expired one is until the sweep."""
        return self.limit is not None and not self.is_filled and not self.cancelled(now)


@dataclass(slots=True, kw_only=True)
class FakeManifoldComment:
    """A comment on a market."""

    id: str
    user: str
    market: str
    content: Any
    created: int
    reply_to: str | None = None
    answer: str | None = None


@dataclass(slots=True)
class FakeManifoldHolding:
    """A user's holding of one answer, or of a market without answers; ``spent`` is net of proceeds.

    ``costs`` are of the shares that are left, by side, at their average; ``bought`` and ``sold`` are the totals of all
    trades. ``loan`` is free of interest and ``margin`` is not: its interest is taken with the payout.
    """

    yes: float = 0.0
    no: float = 0.0
    spent: float = 0.0
    last: int = 0
    costs: dict[str, float] = field(default_factory=lambda: {"YES": 0.0, "NO": 0.0})
    bought: float = 0.0
    sold: float = 0.0
    loan: float = 0.0
    margin: float = 0.0
    interest: float = 0.0
    lent_at: int = 0
    # Loan, margin and interest that its payout repaid, to be owed again when the outcome is undone.
    repaid: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def buy(self, outcome: str, shares: float, amount: float) -> None:
        """Add shares of one side for so much."""
        if outcome == "YES":
            self.yes += shares
        else:
            self.no += shares
        self.costs[outcome] += amount
        self.spent += amount
        self.bought += amount

    def redeem(self, pairs: float, now: int) -> float:
        """Redeem pairs for 1 each; return the part of that that repays loans: the same share as that of the pairs."""
        self.accrue(now)
        part = pairs / max(self.yes, self.no)
        for outcome in ("YES", "NO"):
            self.costs[outcome] *= 1.0 - pairs / self.of(outcome)
        self.yes -= pairs
        self.no -= pairs
        self.spent -= pairs
        self.sold += pairs
        paid = (self.loan + self.margin) * part
        self.loan, self.margin = self.loan * (1.0 - part), self.margin * (1.0 - part)
        return paid

    def lend(self, amount: float, now: int, *, margin: bool) -> None:
        """Lend on the shares."""
        self.accrue(now)
        if margin:
            self.margin += amount
        else:
            self.loan += amount

    def accrue(self, now: int) -> None:
        """Add the interest of the margin loan since it was looked at last."""
        self.interest += self.margin * DAILY_MARGIN_RATE * (now - self.lent_at) / DAY_MS
        self.lent_at = now

    def repay(self, now: int) -> float:
        """Repay all loans from a payout; return how much that is."""
        self.accrue(now)
        self.repaid = (self.loan, self.margin, self.interest)
        self.loan = self.margin = self.interest = 0.0
        return sum(self.repaid)

    def of(self, outcome: str) -> float:
        """Return the shares of one side."""
        return self.yes if outcome == "YES" else self.no


class FakeManifoldState:
    """All data, found by id; ids are counted, so that the same calls give the same ids.

    ``bets`` and ``holdings`` are only read from outside: ``add_bet`` and ``holding`` add to them. ``listed_from`` has
    the moments, in milliseconds, from which on lists show bets that they show late.
    """

    def __init__(self) -> None:
        self.users: dict[str, FakeManifoldUser] = {}
        self.markets: dict[str, FakeManifoldMarket] = {}
        self.bets: dict[str, FakeManifoldBet] = {}
        self.comments: dict[str, FakeManifoldComment] = {}
        self.holdings: dict[tuple[str, str, str | None], FakeManifoldHolding] = {}
        self.listed_from: dict[str, int] = {}
        self._ids: dict[str, int] = {}
        # The user and market of a bet never change; a month has thousands, of hundreds of markets.
        self._bets_on: defaultdict[str, list[FakeManifoldBet]] = defaultdict(list)
        self._bets_by: defaultdict[str, list[FakeManifoldBet]] = defaultdict(list)
        self._orders_on: defaultdict[tuple[str, str | None], list[FakeManifoldBet]] = defaultdict(list)
        self._held: defaultdict[str, list[tuple[str, str | None, FakeManifoldHolding]]] = defaultdict(list)

    def new_id(self, kind: str) -> str:
        """Return an id that was not used before."""
        number = self._ids[kind] = self._ids.get(kind, 0) + 1
        return f"{kind}{number:06d}"

    def user_named(self, name: str) -> FakeManifoldUser | None:
        """Return a user by username or id."""
        return self.users.get(name) or next((user for user in self.users.values() if user.username == name), None)

    def market_at(self, slug: str) -> FakeManifoldMarket | None:
        """Return a market by its slug."""
        return next((market for market in self.markets.values() if market.slug == slug), None)

    def add_bet(self, bet: FakeManifoldBet) -> None:
        """Record a bet, once."""
        if bet.id not in self.bets:
            self.bets[bet.id] = bet
            self._bets_on[bet.market].append(bet)
            self._bets_by[bet.user].append(bet)
            if bet.limit is not None:
                self._orders_on[bet.market, bet.answer].append(bet)

    def bets_on(self, market: str) -> Sequence[FakeManifoldBet]:
        """Return the bets on a market, in the order in which they were made."""
        return self._bets_on.get(market, ())

    def bets_by(self, user: str) -> Sequence[FakeManifoldBet]:
        """Return the bets of a user, in the order in which they were made."""
        return self._bets_by.get(user, ())

    def holding(self, user: str, market: str, answer: str | None) -> FakeManifoldHolding:
        """Return a user's holding, an empty one where there is none yet."""
        key = (user, market, answer)
        if key not in self.holdings:
            self.holdings[key] = FakeManifoldHolding()
            self._held[market].append((user, answer, self.holdings[key]))
        return self.holdings[key]

    def holdings_of(self, market: str) -> Sequence[tuple[str, str | None, FakeManifoldHolding]]:
        """Return user, answer and holding of a market."""
        return self._held.get(market, ())

    def book(self, market: str, answer: str | None, now: int) -> Sequence[FakeManifoldBet]:
        """Return the orders that can be matched."""
        orders = self._orders_on.get((market, answer), ())
        return [bet for bet in orders if bet.is_resting(now) and not bet.expired(now)]
