"""What one account has gained so far, per market and per forecaster, beside what its venue says itself."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from bot.domain.equity import EquityPoint
from bot.domain.order import Account, Leg, Position, VenueGain
from bot.domain.profit import ONE, ContractProfit, EntryKind, TradingBook
from bot.domain.question import QuestionRef

# Amounts are told to the cent, and shares to a thousandth.
CENT, SHARE = 0.005, 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketProfit:
    """What one contract has brought: ``bought`` is all that was paid, ``sold`` and ``paid_out`` all that came back.

    ``paid_out`` is what the outcome paid and what pairs of both legs did. ``shares`` are held still, ``cost`` is theirs
    and ``values`` what they would bring now. ``unknown``: they are held no more, and their outcome is not known yet.
    ``said`` is the venue's own figure of a gain that is final, ``differs`` by how much it is more than ours.
    """

    ref: QuestionRef
    contract: str
    option: str
    bought: float
    sold: float
    paid_out: float
    fees: float
    realised: float
    shares: Mapping[Leg, float]
    cost: float
    values: Mapping[Leg, float]
    closed_at: datetime | None
    unknown: bool = False
    said: float | None = None
    differs: float | None = None

    @property
    def value(self) -> float:
        """What all shares that are held would bring now."""
        return sum(self.values.values(), 0.0)

    @property
    def unrealised(self) -> float:
        """What the shares that are held would bring beyond their cost."""
        return self.value - self.cost

    @property
    def gain(self) -> float:
        """Realised or not."""
        return self.realised + self.unrealised


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecasterProfit:
    """What the orders of one forecaster gained, in how many markets."""

    forecaster: str
    markets: int
    realised: float
    unrealised: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountProfit:
    """All of it.

    ``moved`` came or went otherwise than by orders, None on paper. ``elsewhere`` says what is held that was not ordered
    here, and the other way round.
    """

    markets: tuple[MarketProfit, ...] = ()
    forecasters: tuple[ForecasterProfit, ...] = ()
    comment_fees: float = 0.0
    loan: float = 0.0
    moved: float | None = None
    begun: EquityPoint | None = None
    elsewhere: tuple[str, ...] = ()

    @property
    def realised(self) -> float:
        """What cannot change any more, fees of fills included."""
        return sum(one.realised for one in self.markets)

    @property
    def unrealised(self) -> float:
        """What open positions would bring beyond their cost."""
        return sum(one.unrealised for one in self.markets)

    @property
    def gain(self) -> float:
        """What all orders gained, after all fees."""
        return self.realised + self.unrealised - self.comment_fees

    @property
    def paid_out(self) -> float:
        """What outcomes and pairs paid."""
        return sum(one.paid_out for one in self.markets)

    @property
    def differing(self) -> tuple[MarketProfit, ...]:
        """The markets of which the venue says otherwise."""
        return tuple(one for one in self.markets if one.differs is not None and abs(one.differs) >= CENT)


def account_profit(
    book: TradingBook,
    account: Account,
    points: Sequence[EquityPoint],
    *,
    said: Iterable[VenueGain] = (),
    comment_fees: float = 0.0,
    paper: bool,
) -> AccountProfit:
    """Return what an account gained; ``points`` are its equity over time."""
    told = {one.contract: one for one in said if one.closed}
    held = {(one.contract, one.leg): one for one in account.positions}
    markets = [_market(one, held, told.get(one.contract)) for one in book.contracts]
    return AccountProfit(
        markets=tuple(markets),
        forecasters=_forecasters(book.contracts, markets),
        comment_fees=comment_fees,
        loan=account.loan,
        moved=points[-1].moved if points and not paper else None,
        begun=points[0] if points else None,
        elsewhere=() if paper else tuple(_elsewhere(book.contracts, account)),
    )


def _market(one: ContractProfit, held: Mapping[tuple[str, Leg], Position], told: VenueGain | None) -> MarketProfit:
    shares = {leg: count / ONE for leg, count in one.held.items()}
    gone = [leg for leg in shares if (one.contract, leg) not in held]
    # What is held no more brought something that is not known yet: neither gain nor loss.
    values = {
        leg: one.cost[leg] / ONE if leg in gone else count * (held[one.contract, leg].mark or 0.0)
        for leg, count in shares.items()
    }
    cash = defaultdict(int, one.cash)
    own = (one.realised + (one.fees if told is not None and told.before_fees else 0)) / ONE
    final = told is not None and not shares
    return MarketProfit(
        ref=one.ref,
        contract=one.contract,
        option=one.option,
        bought=-cash[EntryKind.BUY] / ONE,
        sold=cash[EntryKind.SELL] / ONE,
        paid_out=sum(cash[kind] for kind in (EntryKind.PAIRS, EntryKind.PAYOUT, EntryKind.REFUND)) / ONE,
        fees=one.fees / ONE,
        realised=one.realised / ONE,
        shares=shares,
        cost=sum(one.cost.values()) / ONE,
        values=values,
        closed_at=one.closed_at,
        unknown=bool(gone),
        said=told.gain if told is not None and final else None,
        differs=told.gain - own if told is not None and final else None,
    )


def _forecasters(contracts: Sequence[ContractProfit], markets: Sequence[MarketProfit]) -> tuple[ForecasterProfit, ...]:
    """Share out what was gained; of open shares by how many of them each forecaster's orders bought, and for what."""
    realised, unrealised = defaultdict[str, float](float), defaultdict[str, float](float)
    count = defaultdict[str, int](int)
    for contract, market in zip(contracts, markets, strict=True):
        for owner, gain in contract.gains.items():
            realised[owner] += gain / ONE
            count[owner] += 1
        for leg, lots in contract.owners.items():
            for owner, (shares, cost) in lots.items():
                unrealised[owner] += market.values[leg] * shares / contract.held[leg] - cost / ONE
    return tuple(
        ForecasterProfit(forecaster=name, markets=count[name], realised=realised[name], unrealised=unrealised[name])
        for name in sorted(count)
    )


def _elsewhere(contracts: Sequence[ContractProfit], account: Account) -> Iterable[str]:
    ordered = {(one.contract, leg): one.held.get(leg, 0) / ONE for one in contracts for leg in Leg}
    held = {(one.contract, one.leg): one for one in account.positions if not one.decided}
    for place, position in held.items():
        more = position.shares - ordered.get(place, 0.0)
        if abs(more) >= SHARE:
            yield f"{more:+.2f} shares of {place[0]} ({place[1]}) are not from orders of Foxcast"
