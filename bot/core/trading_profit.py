"""Profit and equity of one account, from its fills, payouts and account readings.

Amounts are whole millionths, so sums are exact. Shares cost their average, as at the venues and in the paper books; a
gain belongs to the forecasters whose orders bought the shares. Deposits, loans and other transfers are no gain.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import accumulate

from bot.core.orders import ContractSide
from bot.core.questions import QuestionRef

MILLIONTHS = 1_000_000


# The error of sums of floats: fewer shares are none.
MAX_DUST_SHARES = 10


class ProfitEntryKind(StrEnum):
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
    leg: ContractSide
    shares: int
    cash: int
    fee: int
    ref: QuestionRef
    option: str
    forecaster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePayout:
    """What a share of one side of a contract pays since its outcome is known, 0 to 1; None: all stakes are returned."""

    at: datetime
    contract: str
    leg: ContractSide
    price: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfitEntry:
    """One movement of cash; ``gain`` is what it brought beyond the cost of the shares sold, by forecaster."""

    at: datetime
    contract: str
    kind: ProfitEntryKind
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
    cash: Mapping[ProfitEntryKind, int]
    fees: int
    gains: Mapping[str, int]
    held: Mapping[ContractSide, int]
    cost: Mapping[ContractSide, int]
    owners: Mapping[ContractSide, Mapping[str, tuple[int, int]]]
    closed_at: datetime | None

    @property
    def realised(self) -> int:
        """The gain of all shares that were sold or paid out, beyond their cost."""
        return sum(self.gains.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class TradingBook:
    """All contracts that an account traded, and all movements of cash, oldest first."""

    contracts: tuple[ContractProfit, ...] = ()
    entries: tuple[ProfitEntry, ...] = ()


def build_trading_book(
    fills: Sequence[TradeFill], payouts: Iterable[SharePayout], *, redeems: bool, returns_losses: bool = True
) -> TradingBook:
    """Return what the fills (oldest first) and payouts come to.

    ``redeems``: a pair of both legs is paid out at once, for 1. ``returns_losses``: where stakes are returned, gains
    beyond them are taken back too.
    """
    by_contract: dict[str, list[TradeFill]] = defaultdict(list)
    paying: dict[str, list[SharePayout]] = defaultdict(list)
    for fill in fills:
        by_contract[fill.contract].append(fill)
    for payout in payouts:
        paying[payout.contract].append(payout)
    pages = []
    for contract, traded in by_contract.items():
        page = _ContractBook(contract)
        for fill in traded:
            page.add_fill(fill, redeems=redeems)
        page.add_payouts(paying[contract], last=traded[-1].at, returns_losses=returns_losses)
        pages.append((page, traded))
    return TradingBook(
        contracts=tuple(_contract_profit(page, traded) for page, traded in pages),
        entries=tuple(sorted((one for page, _ in pages for one in page.entries), key=lambda one: one.at)),
    )


class _ShareLots:
    """The shares of one leg by forecaster, and what they cost."""

    def __init__(self) -> None:
        self.by_forecaster: dict[str, list[int]] = {}

    @property
    def shares(self) -> int:
        return sum(shares for shares, _ in self.by_forecaster.values())

    @property
    def cost(self) -> int:
        return sum(paid for _, paid in self.by_forecaster.values())

    def add(self, owner: str, shares: int, paid: int) -> None:
        lot = self.by_forecaster.setdefault(owner, [0, 0])
        lot[0] += shares
        lot[1] += paid

    def take(self, shares: int, cash: int) -> dict[str, int]:
        """Take shares at their average cost for that much cash, and return the gain of each owner; sums are exact."""
        there, gains, left, rest = self.shares, dict[str, int](), shares, cash
        for nth, (owner, lot) in enumerate(self.by_forecaster.items(), start=1):
            last = nth == len(self.by_forecaster)
            part = min(left, lot[0]) if last else lot[0] * shares // there
            brought = rest if last else cash * part // shares
            cost = lot[1] if part == lot[0] else lot[1] * part // lot[0]
            lot[0] -= part
            lot[1] -= cost
            left -= part
            rest -= brought
            gains[owner] = brought - cost
        self.by_forecaster = {owner: lot for owner, lot in self.by_forecaster.items() if lot[0] > 0 or lot[1] != 0}
        return gains


class _ContractBook:
    """One contract while its history is computed."""

    def __init__(self, contract: str) -> None:
        self.contract = contract
        self.lots = {leg: _ShareLots() for leg in ContractSide}
        self.entries: list[ProfitEntry] = []

    def add_fill(self, fill: TradeFill, *, redeems: bool) -> None:
        lots = self.lots[fill.leg]
        if fill.shares > 0:
            lots.add(fill.forecaster, fill.shares, -fill.cash)
            self._enter(fill.at, ProfitEntryKind.BUY, fill.cash, {}, fee=fill.fee)
        else:
            self._sell(fill, lots)
        pairs = min(one.shares for one in self.lots.values()) if redeems else 0
        if pairs > 0:
            self._pair(fill.at, pairs)

    def add_payouts(self, payouts: Sequence[SharePayout], *, last: datetime, returns_losses: bool) -> None:
        """Pay all shares that are left; a payout that is reported as older than a trade still comes after it."""
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
                self._give(at, ProfitEntryKind.PAYOUT, {one.leg: held}, {one.leg: worth})

    def _pair(self, at: datetime, pairs: int) -> None:
        """Pay out pairs; each side brings as much of the 1 as it cost of both."""
        costs = {leg: lots.cost * pairs // lots.shares for leg, lots in self.lots.items()}
        whole = sum(costs.values())
        first = pairs * costs[ContractSide.YES] // whole if whole > 0 else pairs // 2
        self._give(
            at,
            ProfitEntryKind.PAIRS,
            dict.fromkeys(ContractSide, pairs),
            {ContractSide.YES: first, ContractSide.NO: pairs - first},
        )

    def _sell(self, fill: TradeFill, lots: _ShareLots) -> None:
        """Shares that were not bought here, such as by hand, cost nothing here."""
        sold = -fill.shares
        own = min(sold, lots.shares)
        # Amounts that a float cannot tell apart are equal.
        brought = fill.cash if own > 0 and sold - own <= MAX_DUST_SHARES else fill.cash * own // sold
        gains = lots.take(own, brought) if own > 0 else {}
        if rest := fill.cash - brought:
            gains[fill.forecaster] = gains.get(fill.forecaster, 0) + rest
        self._enter(fill.at, ProfitEntryKind.SELL, fill.cash, gains, fee=fill.fee)

    def _give(
        self, at: datetime, kind: ProfitEntryKind, shares: Mapping[ContractSide, int], worth: Mapping[ContractSide, int]
    ) -> None:
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
                for owner, (_, paid) in lots.by_forecaster.items():
                    gains[owner] -= paid
        for lots in self.lots.values():
            lots.by_forecaster.clear()
        self._enter(at, ProfitEntryKind.REFUND, cash, gains)

    def _enter(self, at: datetime, kind: ProfitEntryKind, cash: int, gains: Mapping[str, int], *, fee: int = 0) -> None:
        self.entries.append(
            ProfitEntry(at=at, contract=self.contract, kind=kind, cash=cash, fee=fee, gains=dict(gains))
        )


def _contract_profit(page: _ContractBook, traded: Sequence[TradeFill]) -> ContractProfit:
    cash: dict[ProfitEntryKind, int] = defaultdict(int)
    gains: dict[str, int] = defaultdict(int)
    for entry in page.entries:
        cash[entry.kind] += entry.cash
        for owner, gain in entry.gains.items():
            gains[owner] += gain
    for fill in traded:
        gains[fill.forecaster] += 0
    held = {leg: lots.shares for leg, lots in page.lots.items() if lots.shares > MAX_DUST_SHARES}
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
        owners={leg: {owner: (lot[0], lot[1]) for owner, lot in page.lots[leg].by_forecaster.items()} for leg in held},
        closed_at=None if held else page.entries[-1].at,
    )


# Cash and positions are not read at the same moment. So a difference counts where it lasts that long, where the reading
# before or after has it too, where readings are this far apart, and at the end, where it is not known yet.
MIN_DIFFERENCE_TIME = timedelta(minutes=1)


MIN_READING_GAP = timedelta(hours=1)


CENT_MILLIONTHS = MILLIONTHS // 100


@dataclass(frozen=True, slots=True, kw_only=True)
class EquityReading:
    """The sums of an account, the same from ``at`` to ``until``, in its currency.

    ``cash`` is free, ``reserved`` held back by open orders. ``loan`` is what the account owes. ``owed`` is the payout
    of decided positions that were not paid out yet, ``elsewhere`` the worth of positions without an order here; both
    are part of ``equity``.
    """

    at: datetime
    until: datetime
    cash: float
    equity: float
    reserved: float = 0.0
    loan: float = 0.0
    owed: float = 0.0
    elsewhere: float = 0.0

    @property
    def settled_cash(self) -> int:
        """Cash without what was lent and with what is owed, in millionths."""
        return round((self.cash + self.reserved - self.loan + self.owed) * MILLIONTHS)


@dataclass(frozen=True, slots=True, kw_only=True)
class EquityPoint:
    """An account at a moment, since the first reading, in its currency.

    ``transfers`` is cash that came or went without orders, ``gain`` what orders gained, realised or not, after fees;
    ``realised`` is the part of it that is final.
    """

    at: datetime
    equity: float
    cash: float
    reserved: float
    loan: float
    transfers: float
    gain: float
    realised: float


def equity_points(
    readings: Sequence[EquityReading], book: TradingBook, fees: Iterable[tuple[datetime, int]]
) -> tuple[EquityPoint, ...]:
    """Return a point for each reading, oldest first; ``fees`` are those that no fill has, such as of comments."""
    if not readings:
        return ()
    events = [(one.at, one.cash, one.gain) for one in book.entries]
    events += [(at, -fee, -fee) for at, fee in fees]
    sums = _event_sums(sorted(events, key=lambda event: event[0]), [one.at for one in readings])
    first, (spent, _) = readings[0], sums[0]
    differences = [
        one.settled_cash - first.settled_cash - (cash - spent) for one, (cash, _) in zip(readings, sums, strict=True)
    ]
    moved = _confirmed_differences(readings, differences)
    begun = round((first.equity - first.elsewhere) * MILLIONTHS)
    return tuple(
        EquityPoint(
            at=one.at,
            equity=one.equity,
            cash=one.cash,
            reserved=one.reserved,
            loan=one.loan,
            transfers=other / MILLIONTHS,
            gain=(round((one.equity - one.elsewhere) * MILLIONTHS) - begun - other) / MILLIONTHS,
            realised=(gain - sums[0][1]) / MILLIONTHS,
        )
        for one, other, (_, gain) in zip(readings, moved, sums, strict=True)
    )


def _event_sums(events: Sequence[tuple[datetime, int, int]], moments: Sequence[datetime]) -> list[tuple[int, int]]:
    """Return the sums of all events up to each moment; both are in order of time."""
    totals = [(0, 0), *accumulate(((cash, gain) for _, cash, gain in events), lambda a, b: (a[0] + b[0], a[1] + b[1]))]
    found, place = [], 0
    for moment in moments:
        while place < len(events) and events[place][0] <= moment:
            place += 1
        found.append(totals[place])
    return found


def _confirmed_differences(readings: Sequence[EquityReading], differences: Sequence[int]) -> list[int]:
    """Return the differences without temporary ones, such as that of a trade that settles."""
    confirmed, known = [], 0
    for nth, (one, difference) in enumerate(zip(readings, differences, strict=True)):
        beside = [other for other in (nth - 1, nth + 1) if 0 <= other < len(readings)]
        repeated = any(abs(differences[other] - difference) < CENT_MILLIONTHS for other in beside)
        apart = all(abs(readings[other].at - one.at) >= MIN_READING_GAP for other in beside)
        newest = nth + 1 == len(readings)
        if newest or repeated or apart or one.until - one.at >= MIN_DIFFERENCE_TIME:
            known = difference
        confirmed.append(known)
    return confirmed
