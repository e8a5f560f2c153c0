"""Profit of one account, from its fills and from what its markets paid. Amounts are whole millionths: sums are exact.

Shares that are held of one side of a contract cost their average: a sale takes from them their part of all that was
paid. So do the venues (``calculateTotalSpentAndShares`` in the public source ``common/src/calculate.ts`` of one, and
``avg_price`` in the Data interface of another) and the paper books. A gain belongs to the forecasters whose orders
bought the shares, by how many each bought.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from bot.domain.order import Leg
from bot.domain.question import QuestionRef

ONE = 1_000_000
# What sums of floats leave over: fewer shares are none.
DUST = 10


class EntryKind(StrEnum):
    """Why cash moved."""

    BUY = "buy"
    SELL = "sell"
    PAIRS = "pairs"
    PAYOUT = "payout"
    REFUND = "refund"


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeFill:
    """Shares that were bought (above 0) or sold, and what that moved on the account, fees included."""

    at: datetime
    contract: str
    leg: Leg
    shares: int
    cash: int
    fee: int
    ref: QuestionRef
    option: str
    forecaster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePayout:
    """What a share of one side of a contract pays since its outcome is known, 0 to 1; None: all stakes come back."""

    at: datetime
    contract: str
    leg: Leg
    price: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfitEntry:
    """One movement of cash; ``gain`` is what it brought beyond the cost of the shares that went, by forecaster."""

    at: datetime
    contract: str
    kind: EntryKind
    cash: int
    fee: int = 0
    gains: Mapping[str, int] = field(default_factory=dict)

    @property
    def gain(self) -> int:
        """What it brought beyond cost, for all forecasters."""
        return sum(self.gains.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractProfit:
    """What one contract has brought so far: cash by kind (what was paid is below 0), and the shares that are left.

    ``held`` and ``cost`` go by leg, ``owners`` by leg and forecaster. ``closed_at`` is when the last share went, None
    while some are held.
    """

    ref: QuestionRef
    contract: str
    option: str
    cash: Mapping[EntryKind, int]
    fees: int
    gains: Mapping[str, int]
    held: Mapping[Leg, int]
    cost: Mapping[Leg, int]
    owners: Mapping[Leg, Mapping[str, tuple[int, int]]]
    closed_at: datetime | None

    @property
    def realised(self) -> int:
        """What all shares that went brought beyond their cost."""
        return sum(self.gains.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class TradingBook:
    """All contracts that an account traded, and all movements of cash, oldest first."""

    contracts: tuple[ContractProfit, ...] = ()
    entries: tuple[ProfitEntry, ...] = ()


def keep_book(
    fills: Sequence[TradeFill], payouts: Iterable[SharePayout], *, redeems: bool, returns_losses: bool = True
) -> TradingBook:
    """Return what the fills (oldest first) and payouts come to.

    ``redeems``: a pair of both legs is paid out at once, for 1. ``returns_losses``: where stakes come back, more than
    they were is taken back too.
    """
    by_contract: dict[str, list[TradeFill]] = defaultdict(list)
    paying: dict[str, list[SharePayout]] = defaultdict(list)
    for fill in fills:
        by_contract[fill.contract].append(fill)
    for payout in payouts:
        paying[payout.contract].append(payout)
    pages = []
    for contract, traded in by_contract.items():
        page = _Page(contract)
        for fill in traded:
            page.trade(fill, redeems=redeems)
        page.end(paying[contract], last=traded[-1].at, returns_losses=returns_losses)
        pages.append((page, traded))
    return TradingBook(
        contracts=tuple(_contract(page, traded) for page, traded in pages),
        entries=tuple(sorted((one for page, _ in pages for one in page.entries), key=lambda one: one.at)),
    )


class _Lots:
    """The shares of one leg by forecaster, and what they cost."""

    def __init__(self) -> None:
        self.of: dict[str, list[int]] = {}

    @property
    def shares(self) -> int:
        return sum(shares for shares, _ in self.of.values())

    @property
    def cost(self) -> int:
        return sum(paid for _, paid in self.of.values())

    def add(self, owner: str, shares: int, paid: int) -> None:
        lot = self.of.setdefault(owner, [0, 0])
        lot[0] += shares
        lot[1] += paid

    def take(self, shares: int, cash: int) -> dict[str, int]:
        """Take shares at their average cost for that much cash, and return the gain of each owner; sums are exact."""
        there, gains, left, rest = self.shares, dict[str, int](), shares, cash
        for nth, (owner, lot) in enumerate(self.of.items(), start=1):
            last = nth == len(self.of)
            part = min(left, lot[0]) if last else lot[0] * shares // there
            brought = rest if last else cash * part // shares
            cost = lot[1] if part == lot[0] else lot[1] * part // lot[0]
            lot[0] -= part
            lot[1] -= cost
            left -= part
            rest -= brought
            gains[owner] = brought - cost
        self.of = {owner: lot for owner, lot in self.of.items() if lot[0] > 0 or lot[1] != 0}
        return gains


class _Page:
    """One contract while its story is told."""

    def __init__(self, contract: str) -> None:
        self.contract = contract
        self.lots = {leg: _Lots() for leg in Leg}
        self.entries: list[ProfitEntry] = []

    def trade(self, fill: TradeFill, *, redeems: bool) -> None:
        lots = self.lots[fill.leg]
        if fill.shares > 0:
            lots.add(fill.forecaster, fill.shares, -fill.cash)
            self._enter(fill.at, EntryKind.BUY, fill.cash, {}, fee=fill.fee)
        else:
            self._sell(fill, lots)
        pairs = min(one.shares for one in self.lots.values()) if redeems else 0
        if pairs > 0:
            self._pair(fill.at, pairs)

    def end(self, payouts: Sequence[SharePayout], *, last: datetime, returns_losses: bool) -> None:
        """Pay all shares that are left; a payout that is told to be older than a trade comes after it all the same."""
        if not payouts:
            return
        at = max(last, *(one.at for one in payouts))
        if any(one.price is None for one in payouts):
            self._refund(at, returns_losses=returns_losses)
            return
        for one in payouts:
            held = self.lots[one.leg].shares
            if held > 0 and one.price is not None:
                worth = round(held * one.price)
                self._give(at, EntryKind.PAYOUT, {one.leg: held}, {one.leg: worth})

    def _pair(self, at: datetime, pairs: int) -> None:
        """Pay out pairs; each side brings as much of the 1 as it cost of both."""
        costs = {leg: lots.cost * pairs // lots.shares for leg, lots in self.lots.items()}
        whole = sum(costs.values())
        first = pairs * costs[Leg.YES] // whole if whole > 0 else pairs // 2
        self._give(at, EntryKind.PAIRS, dict.fromkeys(Leg, pairs), {Leg.YES: first, Leg.NO: pairs - first})

    def _sell(self, fill: TradeFill, lots: _Lots) -> None:
        """Shares that were not bought here, such as by hand, cost nothing here."""
        sold = -fill.shares
        own = min(sold, lots.shares)
        # What a float cannot tell apart is all.
        brought = fill.cash if own > 0 and sold - own <= DUST else fill.cash * own // sold
        gains = lots.take(own, brought) if own > 0 else {}
        if rest := fill.cash - brought:
            gains[fill.forecaster] = gains.get(fill.forecaster, 0) + rest
        self._enter(fill.at, EntryKind.SELL, fill.cash, gains, fee=fill.fee)

    def _give(self, at: datetime, kind: EntryKind, shares: Mapping[Leg, int], worth: Mapping[Leg, int]) -> None:
        gains: dict[str, int] = defaultdict(int)
        for leg, count in shares.items():
            for owner, gain in self.lots[leg].take(count, worth[leg]).items():
                gains[owner] += gain
        self._enter(at, kind, sum(worth.values()), gains)

    def _refund(self, at: datetime, *, returns_losses: bool) -> None:
        net = -sum(one.cash for one in self.entries)
        cash = net if returns_losses else max(net, 0)
        gains: dict[str, int] = defaultdict(int)
        for one in self.entries:
            for owner, gain in one.gains.items():
                gains[owner] -= gain
        if cash != net:
            gains = defaultdict(int)
            for lots in self.lots.values():
                for owner, (_, paid) in lots.of.items():
                    gains[owner] -= paid
        for lots in self.lots.values():
            lots.of.clear()
        self._enter(at, EntryKind.REFUND, cash, gains)

    def _enter(self, at: datetime, kind: EntryKind, cash: int, gains: Mapping[str, int], *, fee: int = 0) -> None:
        self.entries.append(
            ProfitEntry(at=at, contract=self.contract, kind=kind, cash=cash, fee=fee, gains=dict(gains))
        )


def _contract(page: _Page, traded: Sequence[TradeFill]) -> ContractProfit:
    cash: dict[EntryKind, int] = defaultdict(int)
    gains: dict[str, int] = defaultdict(int)
    for entry in page.entries:
        cash[entry.kind] += entry.cash
        for owner, gain in entry.gains.items():
            gains[owner] += gain
    for fill in traded:
        gains[fill.forecaster] += 0
    held = {leg: lots.shares for leg, lots in page.lots.items() if lots.shares > DUST}
    newest = traded[-1]
    return ContractProfit(
        ref=newest.ref,
        contract=page.contract,
        option=newest.option,
        cash=dict(cash),
        fees=sum(entry.fee for entry in page.entries),
        gains=dict(gains),
        held=held,
        cost={leg: page.lots[leg].cost for leg in held},
        owners={leg: {owner: (lot[0], lot[1]) for owner, lot in page.lots[leg].of.items()} for leg in held},
        closed_at=None if held else page.entries[-1].at,
    )
