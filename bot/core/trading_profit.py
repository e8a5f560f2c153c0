"""Profit and equity of one account, from its fills, payouts and account readings.

Amounts are whole millionths, so sums are exact. Shares cost their average, as at the venues and in the paper books; a
gain belongs to the forecasters whose orders bought the shares. Deposits, loans and other transfers are not gains.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import accumulate, chain

from bot.core.light_dataclass import dataclass
from bot.core.orders import ContractSide, VenueReportedGain
from bot.core.questions import QuestionRef

MILLIONTHS = 1_000_000
# Venues round amounts to the cent.
MONEY_TOLERANCE = 0.005
# The error of sums of floats: fewer shares count as none.
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
    """Shares that were bought (above 0) or sold, and the change of cash, fees included."""

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
    """The payout of a share of one side of a resolved contract, 0 to 1; None: all stakes are returned."""

    at: datetime
    contract: str
    leg: ContractSide
    price: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfitEntry:
    """One movement of cash; ``gains`` are the proceeds minus the cost of the shares sold, by forecaster."""

    at: datetime
    contract: str
    kind: ProfitEntryKind
    cash: int
    fee: int = 0
    gains: Mapping[str, int] = field(default_factory=dict)

    @property
    def gain(self) -> int:
        """The proceeds minus the cost, for all forecasters."""
        return sum(self.gains.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractProfit:
    """The profit of one contract so far: cash by kind (purchases are below 0), and the shares that are left.

    ``held`` and ``cost`` are by leg, ``owners`` by leg and forecaster. ``closed_at`` is when the last share was sold or
    paid out, None while some are held.
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
        """The gain of all shares that were sold or paid out."""
        return sum(self.gains.values())

    def venue_difference(self, reported: VenueReportedGain | None) -> float | None:
        """Return by how much the venue's own figure of a final gain exceeds ours; None without one."""
        if reported is None or not reported.closed or self.held:
            return None
        return reported.gain - (self.realised + (self.fees if reported.before_fees else 0)) / MILLIONTHS

    def is_disputed(self, reported: VenueReportedGain | None) -> bool:
        """Return whether the venue reports another figure."""
        return abs(self.venue_difference(reported) or 0.0) >= MONEY_TOLERANCE


@dataclass(frozen=True, slots=True, kw_only=True)
class TradingBook:
    """All contracts that an account traded, and all movements of cash, oldest first."""

    contracts: tuple[ContractProfit, ...] = ()
    entries: tuple[ProfitEntry, ...] = ()


def build_trading_book(
    fills: Sequence[TradeFill], payouts: Iterable[SharePayout], *, redeems: bool, returns_losses: bool = True
) -> TradingBook:
    """Return the book of the fills (oldest first) and payouts.

    ``redeems``: a pair of both legs is paid out at once, for 1. ``returns_losses``: if stakes are returned, gains
    beyond them are taken back too.
    """
    by_contract: dict[str, list[TradeFill]] = defaultdict(list)
    payouts_by_contract: dict[str, list[SharePayout]] = defaultdict(list)
    for fill in fills:
        by_contract[fill.contract].append(fill)
    for payout in payouts:
        payouts_by_contract[payout.contract].append(payout)
    books = []
    for contract, contract_fills in by_contract.items():
        book = _ContractBook(contract)
        for fill in contract_fills:
            book.add_fill(fill, redeems=redeems)
        book.add_payouts(payouts_by_contract[contract], last=contract_fills[-1].at, returns_losses=returns_losses)
        books.append((book, contract_fills))
    return TradingBook(
        contracts=tuple(_contract_profit(book, contract_fills) for book, contract_fills in books),
        entries=tuple(sorted((entry for book, _ in books for entry in book.entries), key=lambda entry: entry.at)),
    )


class _ShareLots:
    """The shares of one leg by forecaster, and their cost."""

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

    def remove(self, shares: int, cash: int) -> dict[str, int]:
        """Remove shares at their average cost for that much cash, and return the gain of each owner; sums are exact."""
        total, gains, counted, removed, paid_out = self.shares, dict[str, int](), 0, 0, 0
        for owner, lot in self.by_forecaster.items():
            counted += lot[0]
            # Sums are rounded, not parts: so no part is larger than its lot, and nothing is left for the last one.
            part = counted * shares // total - removed
            removed += part
            proceeds = cash * removed // shares - paid_out
            paid_out += proceeds
            cost = lot[1] if part == lot[0] else lot[1] * part // lot[0]
            lot[0] -= part
            lot[1] -= cost
            gains[owner] = proceeds - cost
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
            self._add_entry(fill.at, ProfitEntryKind.BUY, fill.cash, {}, fee=fill.fee)
        else:
            self._sell(fill, lots)
        pairs = min(one.shares for one in self.lots.values()) if redeems else 0
        if pairs > 0:
            self._redeem_pairs(fill.at, pairs)

    def add_payouts(self, payouts: Sequence[SharePayout], *, last: datetime, returns_losses: bool) -> None:
        """Pay out all shares that are left; a payout that is reported as older than a trade comes after it."""
        if not payouts:
            return
        at = max(last, *(one.at for one in payouts))
        if any(one.price is None for one in payouts):
            self._refund(at, returns_losses=returns_losses)
            return
        for one in payouts:
            shares = self.lots[one.leg].shares
            if shares > 0 and one.price is not None:
                payout = round(shares * one.price)
                self._pay_out(at, ProfitEntryKind.PAYOUT, {one.leg: shares}, {one.leg: payout})

    def _redeem_pairs(self, at: datetime, pairs: int) -> None:
        """Pay out pairs; each side gets the share of the 1 that is its share of the cost."""
        costs = {leg: lots.cost * pairs // lots.shares for leg, lots in self.lots.items()}
        total_cost = sum(costs.values())
        first = pairs * costs[ContractSide.YES] // total_cost if total_cost > 0 else pairs // 2
        self._pay_out(
            at,
            ProfitEntryKind.PAIRS,
            dict.fromkeys(ContractSide, pairs),
            {ContractSide.YES: first, ContractSide.NO: pairs - first},
        )

    def _sell(self, fill: TradeFill, lots: _ShareLots) -> None:
        """Sell shares; those that were not bought by Foxcast, such as by hand, have no cost."""
        sold = -fill.shares
        own = min(sold, lots.shares)
        # Amounts that a float cannot distinguish are equal.
        proceeds = fill.cash if own > 0 and sold - own <= MAX_DUST_SHARES else fill.cash * own // sold
        gains = lots.remove(own, proceeds) if own > 0 else {}
        if rest := fill.cash - proceeds:
            gains[fill.forecaster] = gains.get(fill.forecaster, 0) + rest
        self._add_entry(fill.at, ProfitEntryKind.SELL, fill.cash, gains, fee=fill.fee)

    def _pay_out(
        self, at: datetime, kind: ProfitEntryKind, shares: Mapping[ContractSide, int], worth: Mapping[ContractSide, int]
    ) -> None:
        gains: dict[str, int] = defaultdict(int)
        for leg, count in shares.items():
            for owner, gain in self.lots[leg].remove(count, worth[leg]).items():
                gains[owner] += gain
        self._add_entry(at, kind, sum(worth.values()), gains)

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
        self._add_entry(at, ProfitEntryKind.REFUND, cash, gains)

    def _add_entry(
        self, at: datetime, kind: ProfitEntryKind, cash: int, gains: Mapping[str, int], *, fee: int = 0
    ) -> None:
        self.entries.append(
            ProfitEntry(at=at, contract=self.contract, kind=kind, cash=cash, fee=fee, gains=dict(gains))
        )


def _contract_profit(book: _ContractBook, fills: Sequence[TradeFill]) -> ContractProfit:
    cash: dict[ProfitEntryKind, int] = defaultdict(int)
    gains: dict[str, int] = defaultdict(int)
    for entry in book.entries:
        cash[entry.kind] += entry.cash
        for owner, gain in entry.gains.items():
            gains[owner] += gain
    for fill in fills:
        gains[fill.forecaster] += 0
    held = {leg: lots.shares for leg, lots in book.lots.items() if lots.shares > MAX_DUST_SHARES}
    newest = fills[-1]
    return ContractProfit(
        ref=newest.ref,
        contract=book.contract,
        option=newest.option,
        cash=dict(cash),
        fees=sum(entry.fee for entry in book.entries),
        gains=dict(gains),
        held=held,
        cost={leg: book.lots[leg].cost for leg in held},
        owners={leg: {owner: (lot[0], lot[1]) for owner, lot in book.lots[leg].by_forecaster.items()} for leg in held},
        closed_at=None if held else book.entries[-1].at,
    )


# Cash and positions are not read at the same moment. So a difference counts only if it lasts that long, if the reading
# before or after has it too, if readings are this far apart, or in the last reading.
MIN_DIFFERENCE_TIME = timedelta(minutes=1)
MIN_READING_GAP = timedelta(hours=1)
CENT_MILLIONTHS = MILLIONTHS // 100


@dataclass(frozen=True, slots=True, kw_only=True)
class EquityReading:
    """The sums of an account, the same from ``at`` to ``until``, in its currency.

    ``cash`` is free, ``reserved`` held back by open orders. ``loan`` is what the account owes. ``owed`` is the payout
    of decided positions that were not paid out yet, ``elsewhere`` the value of positions that Foxcast did not buy; both
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
        """Cash without the loan and with payouts that are owed, in millionths."""
        return round((self.cash + self.reserved - self.loan + self.owed) * MILLIONTHS)


@dataclass(frozen=True, slots=True, kw_only=True)
class EquityPoint:
    """An account at a moment, in its currency; changes are since the first reading.

    ``transfers`` is the change of cash without orders, ``gain`` the gain of orders, realised or not, after fees;
    ``realised`` is its final part.
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
    readings: Sequence[EquityReading],
    entries: Iterable[ProfitEntry],
    fees: Iterable[tuple[datetime, int]],
    closed: tuple[int, int] = (0, 0),
) -> tuple[EquityPoint, ...]:
    """Return a point for each reading, oldest first; ``entries`` in any order, of which none is kept.

    ``fees`` are fees without a fill, such as those of comments. ``closed`` are cash and gain of what has no entries,
    between the first reading and the last.
    """
    if not readings:
        return ()
    events = chain(
        ((one.at, one.cash, one.gain) for one in entries),
        ((at, -fee, -fee) for at, fee in fees),
        [(readings[-1].at, *closed)],
    )
    sums = _event_sums(events, [one.at for one in readings])
    first, (spent, _) = readings[0], sums[0]
    differences = [
        one.settled_cash - first.settled_cash - (cash - spent) for one, (cash, _) in zip(readings, sums, strict=True)
    ]
    transfers = _confirmed_differences(readings, differences)
    start_value = round((first.equity - first.elsewhere) * MILLIONTHS)
    return tuple(
        EquityPoint(
            at=one.at,
            equity=one.equity,
            cash=one.cash,
            reserved=one.reserved,
            loan=one.loan,
            transfers=transfer / MILLIONTHS,
            gain=(round((one.equity - one.elsewhere) * MILLIONTHS) - start_value - transfer) / MILLIONTHS,
            realised=(gain - sums[0][1]) / MILLIONTHS,
        )
        for one, transfer, (_, gain) in zip(readings, transfers, sums, strict=True)
    )


def _event_sums(events: Iterable[tuple[datetime, int, int]], moments: Sequence[datetime]) -> list[tuple[int, int]]:
    """Return the sums of all events up to each moment; the moments are in order of time."""
    cash_moved, gained = [0] * len(moments), [0] * len(moments)
    for at, cash, gain in events:
        if (place := bisect_left(moments, at)) < len(moments):
            cash_moved[place] += cash
            gained[place] += gain
    return [*zip(accumulate(cash_moved), accumulate(gained), strict=True)]


def _confirmed_differences(readings: Sequence[EquityReading], differences: Sequence[int]) -> list[int]:
    """Return the differences without temporary ones, such as that of a trade that settles."""
    confirmed, last = [], 0
    for index, (reading, difference) in enumerate(zip(readings, differences, strict=True)):
        neighbours = [other for other in (index - 1, index + 1) if 0 <= other < len(readings)]
        is_repeated = any(abs(differences[other] - difference) < CENT_MILLIONTHS for other in neighbours)
        is_isolated = all(abs(readings[other].at - reading.at) >= MIN_READING_GAP for other in neighbours)
        is_newest = index + 1 == len(readings)
        if is_newest or is_repeated or is_isolated or reading.until - reading.at >= MIN_DIFFERENCE_TIME:
            last = difference
        confirmed.append(last)
    return confirmed
