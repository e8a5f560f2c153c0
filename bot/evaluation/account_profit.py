"""What one account has gained so far, per market and per forecaster, compared with the figures of its venue."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime

from bot.core.light_dataclass import dataclass
from bot.core.orders import Account, ContractSide, Position, VenueReportedGain
from bot.core.questions import QuestionRef
from bot.core.trading_profit import (
    MILLIONTHS,
    MONEY_TOLERANCE,
    ContractProfit,
    EquityPoint,
    ProfitEntryKind,
    TradingBook,
)
from bot.store.market_totals import ClosedMarket, ClosedMarketTotals
from bot.store.serialization import parse_timestamp

# Shares are rounded to a thousandth.
SHARE_TOLERANCE = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketProfit:
    """The result of one contract: ``bought`` is all that was paid, ``sold`` and ``paid_out`` all that was received.

    ``paid_out`` includes payouts of the outcome and of pairs of both sides. ``shares`` are still held, ``cost`` is
    their cost and ``values`` their present worth. ``unknown``: they are held no more, and their outcome is not known
    yet. ``venue_gain`` is the venue's own figure of a final gain, ``venue_difference`` by how much it exceeds ours.
    """

    ref: QuestionRef
    contract: str
    option: str
    bought: float
    sold: float
    paid_out: float
    fees: float
    realised: float
    shares: Mapping[ContractSide, float]
    cost: float
    values: Mapping[ContractSide, float]
    closed_at: datetime | None
    unknown: bool = False
    venue_gain: float | None = None
    venue_difference: float | None = None

    @property
    def value(self) -> float:
        """The present worth of all shares that are held."""
        return sum(self.values.values(), 0.0)

    @property
    def unrealised(self) -> float:
        """The gain of the shares that are held over their cost."""
        return self.value - self.cost

    @property
    def gain(self) -> float:
        """Realised or not."""
        return self.realised + self.unrealised


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecasterProfit:
    """The gain of the orders of one forecaster, and in how many markets."""

    forecaster: str
    markets: int
    realised: float
    unrealised: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountProfit:
    """All of it.

    ``earlier`` are closed markets that are not among the ``markets``, in millionths. ``transfers`` came or went without
    orders, None on paper. ``position_differences`` names shares that are held and were not ordered here, and the other
    way round.
    """

    markets: tuple[MarketProfit, ...] = ()
    forecasters: tuple[ForecasterProfit, ...] = ()
    comment_fees: float = 0.0
    loan: float = 0.0
    transfers: float | None = None
    begun: EquityPoint | None = None
    position_differences: tuple[str, ...] = ()
    earlier: ClosedMarketTotals = field(default_factory=lambda: ClosedMarketTotals(forecasters={}))

    @property
    def realised(self) -> float:
        """The final part, fees of fills included."""
        return sum(contract.realised for contract in self.markets) + self.earlier.realised / MILLIONTHS

    @property
    def fees(self) -> float:
        """The fees of all fills."""
        return sum(contract.fees for contract in self.markets) + self.earlier.fees / MILLIONTHS

    @property
    def unrealised(self) -> float:
        """The gain of open positions over their cost."""
        return sum(contract.unrealised for contract in self.markets)

    @property
    def gain(self) -> float:
        """What all orders gained, after all fees."""
        return self.realised + self.unrealised - self.comment_fees

    @property
    def paid_out(self) -> float:
        """Payouts of outcomes and pairs."""
        return sum(contract.paid_out for contract in self.markets) + self.earlier.paid_out / MILLIONTHS

    @property
    def disputed_markets(self) -> tuple[MarketProfit, ...]:
        """The markets for which the venue reports another figure."""
        return tuple(
            contract
            for contract in self.markets
            if contract.venue_difference is not None and abs(contract.venue_difference) >= MONEY_TOLERANCE
        )


def compute_account_profit(
    book: TradingBook,
    account: Account,
    points: Sequence[EquityPoint],
    *,
    venue_gains: Iterable[VenueReportedGain] = (),
    comment_fees: float = 0.0,
    paper: bool,
    closed: ClosedMarketTotals | None = None,
    last_closed: Sequence[ClosedMarket] = (),
) -> AccountProfit:
    """Return the profit of an account; ``points`` are its equity over time.

    ``closed`` are sums over markets that are not in the book, of which ``last_closed`` are shown.
    """
    reported = {contract.contract: contract for contract in venue_gains if contract.closed}
    held = {(contract.contract, contract.leg): contract for contract in account.positions}
    markets = [_market_profit(contract, held, reported.get(contract.contract)) for contract in book.contracts]
    closed = closed or ClosedMarketTotals(forecasters={})
    return AccountProfit(
        markets=(*markets, *map(_closed_market_profit, last_closed)),
        forecasters=_forecaster_profits(book.contracts, markets, closed),
        earlier=closed.without(last_closed),
        comment_fees=comment_fees,
        loan=account.loan,
        transfers=points[-1].transfers if points and not paper else None,
        begun=points[0] if points else None,
        position_differences=() if paper else tuple(_position_differences(book.contracts, account)),
    )


def _market_profit(
    contract: ContractProfit, held: Mapping[tuple[str, ContractSide], Position], reported: VenueReportedGain | None
) -> MarketProfit:
    shares = {leg: count / MILLIONTHS for leg, count in contract.held.items()}
    missing_legs = [leg for leg in shares if (contract.contract, leg) not in held]
    # Shares that are no longer held were sold for an amount that is not known yet: neither gain nor loss.
    values = {
        leg: contract.cost[leg] / MILLIONTHS
        if leg in missing_legs
        else count * (held[contract.contract, leg].mark or 0.0)
        for leg, count in shares.items()
    }
    cash = defaultdict(int, contract.cash)
    difference = contract.venue_difference(reported)
    return MarketProfit(
        ref=contract.ref,
        contract=contract.contract,
        option=contract.option,
        bought=-cash[ProfitEntryKind.BUY] / MILLIONTHS,
        sold=cash[ProfitEntryKind.SELL] / MILLIONTHS,
        paid_out=sum(cash[kind] for kind in (ProfitEntryKind.PAIRS, ProfitEntryKind.PAYOUT, ProfitEntryKind.REFUND))
        / MILLIONTHS,
        fees=contract.fees / MILLIONTHS,
        realised=contract.realised / MILLIONTHS,
        shares=shares,
        cost=sum(contract.cost.values()) / MILLIONTHS,
        values=values,
        closed_at=contract.closed_at,
        unknown=bool(missing_legs),
        venue_gain=None if reported is None or difference is None else reported.gain,
        venue_difference=difference,
    )


def _closed_market_profit(closed: ClosedMarket) -> MarketProfit:
    return MarketProfit(
        ref=QuestionRef.parse(closed.ref),
        contract=closed.contract,
        option=closed.option,
        bought=closed.bought / MILLIONTHS,
        sold=closed.sold / MILLIONTHS,
        paid_out=closed.paid_out / MILLIONTHS,
        fees=closed.fees / MILLIONTHS,
        realised=closed.realised / MILLIONTHS,
        shares={},
        cost=0.0,
        values={},
        closed_at=parse_timestamp(closed.closed_at),
    )


def _forecaster_profits(
    contracts: Sequence[ContractProfit], markets: Sequence[MarketProfit], closed: ClosedMarketTotals
) -> tuple[ForecasterProfit, ...]:
    """Divide the gain; that of open shares by how many of them each forecaster's orders bought, and at what cost."""
    realised, unrealised = defaultdict[str, float](float), defaultdict[str, float](float)
    count = defaultdict[str, int](int)
    for owner, (number, gain) in closed.forecasters.items():
        realised[owner] += gain / MILLIONTHS
        count[owner] += number
    for contract, market in zip(contracts, markets, strict=True):
        for owner, gain in contract.gains.items():
            realised[owner] += gain / MILLIONTHS
            count[owner] += 1
        for leg, lots in contract.owners.items():
            for owner, (shares, cost) in lots.items():
                unrealised[owner] += market.values[leg] * shares / contract.held[leg] - cost / MILLIONTHS
    return tuple(
        ForecasterProfit(forecaster=name, markets=count[name], realised=realised[name], unrealised=unrealised[name])
        for name in sorted(count)
    )


def _position_differences(contracts: Sequence[ContractProfit], account: Account) -> Iterable[str]:
    ordered = {
        (contract.contract, leg): contract.held.get(leg, 0) / MILLIONTHS
        for contract in contracts
        for leg in ContractSide
    }
    held = {(contract.contract, contract.leg): contract for contract in account.positions if not contract.decided}
    for place, position in held.items():
        difference = position.shares - ordered.get(place, 0.0)
        if abs(difference) >= SHARE_TOLERANCE:
            yield f"{difference:+.2f} shares of {place[0]} ({place[1]}) are not from orders of Foxcast"
