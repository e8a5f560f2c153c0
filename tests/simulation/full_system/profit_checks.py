"""Checks recorded profits and reservations against the venues' own books.

Closed positions to the cent, deposits and loans that are no profit, and stakes that the ledger does not hold back.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from bot.core.questions import SINGLE_TARGET
from bot.core.trading_profit import MILLIONTHS, ContractProfit, ProfitEntryKind, equity_points
from bot.store import submission_attempts
from bot.store.accounts import AccountKey, read_profit_record, read_trading_book
from bot.store.database import open_reader
from bot.store.serialization import format_timestamp, parse_timestamp
from tests.ledger_checks import read_rows
from tests.simulation.full_system import polymarket_orders
from tests.simulation.full_system.outcome_checks import SET_BACK

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from sqlite_utils import Database

    from tests.simulation.full_system.fake_venues import SimulationVenues

CENT = 0.005
# Such as are redeemed at once are those of Manifold.
REDEEMS = {"manifold": True, "polymarket": False}
_EVER = datetime(1970, 1, 1, tzinfo=UTC)
_ACCOUNTS = "select distinct account from intent where venue = ? and mode <> 'paper' and order_body is not null"
# Of these it is not known, or not known yet, what they came to.
_UNCLEAR = """
select distinct json_extract(order_body, '$.contract') from intent
where order_body is not null and state not in ('acked', 'refused', 'superseded')
"""
# Only the job that reads all accounts records payouts; other jobs read one account before they trade.
_SETTLED = "select max(started_at) from job_run where job = 'accounts' and outcome = 'ok' and detail like :all_read"
_RESERVED = """
select total(cost) from intent
where venue = ? and mode <> 'paper' and action = 'order' and state not in ('refused', 'superseded')
"""
# Outcomes that were on record before that.
_HEARD = """
select json_extract(i.order_body, '$.contract') from current_resolution r join intent i on i.ref = r.ref
where i.venue = :venue and i.account = :account and i.order_body is not null and r.seen_at < :settled
  and r.target = coalesce((select key from json_each(i.predictions) limit 1), :single)
"""


def unreserved_stakes(ledger: Path, orders: Collection[Mapping[str, Any]]) -> Iterator[str]:
    """Say where all orders together have cost, or may still cost, more than the ledger holds back for them.

    That must hold at every moment, also between a write and the record of its answer.
    """
    at_stake, count = defaultdict[str, float](float), Counter[str]()
    for order in orders:
        if order["side"] == "buy":
            at_stake[order["venue"]] += order["stakes"][-1][1]
            count[order["venue"]] += 1
    for venue, amount in at_stake.items():
        [row] = read_rows(ledger, _RESERVED, [venue])
        [reserved] = row.values()
        if amount > reserved + CENT * (1 + count[venue]):
            yield f"I3: {amount:.2f} is at stake at {venue} with {count[venue]} orders, {reserved:.2f} is held back"


def wrong_profits(
    ledger: Path, bridges: SimulationVenues, modes: Mapping[str, str], undone: Collection[str]
) -> Iterator[str]:
    """Say where the gain of a closed position is not what the venue's own book says.

    Left out are those of which the ledger may not know everything yet, such as that their market was called off after
    all was sold, or whose outcome was ever taken back. That outcomes become known in time is judged elsewhere.
    """
    books = {"manifold": _manifold_profits(bridges), "polymarket": _polymarket_profits(bridges)}
    with closing(open_reader(ledger)) as database:
        if not database["payout"].exists():
            return
        unclear = {name for (name,) in database.execute(_UNCLEAR)} | _resting(database)
        live = [venue for venue in books if modes.get(venue) == "live"]
        for venue, account in [(name, account) for name in live for account in _accounts(database, name)]:
            policy = AccountKey(venue=venue, account=account, paper=False)
            contracts = read_trading_book(database, policy, redeems=REDEEMS[venue]).contracts
            unheard = _paid_back(venue, contracts, bridges) - _settled_since_outcome(database, policy, modes)
            yield from _differing(venue, contracts, books[venue], unclear | unheard | _named(venue, undone))


def _differing(
    venue: str, contracts: Collection[ContractProfit], own: Mapping[str, float], without: Collection[str]
) -> Iterator[str]:
    """Compare by market: the venue keeps what it paid for all answers of one together."""
    by_market: dict[str, list[ContractProfit]] = defaultdict(list)
    # An order on another answer of a market has cost something of which the ledger may not know yet.
    unclear = {name.partition("/")[0] for name in without}
    for one in contracts:
        by_market[one.contract.partition("/")[0]].append(one)
    for market, found in by_market.items():
        if any(one.closed_at is None for one in found) or market in unclear:
            continue
        gain = sum(one.realised for one in found) / MILLIONTHS
        if abs(gain - own.get(market, 0.0)) >= CENT:
            yield f"profit: {venue}:{market} gained {gain:.4f} by the ledger, {own.get(market, 0.0):.4f} at the venue"


def transfers_taken_for_profit(ledger: Path, bridges: SimulationVenues, modes: Mapping[str, str]) -> Iterator[str]:
    """Say where deposits and loans are taken for gain, once all is calm and each outcome in force is on record."""
    venue = bridges.manifold
    if venue is None or modes.get("manifold") != "live":
        return
    user = venue.state.users[bridges.trader]
    with closing(open_reader(ledger)) as database:
        accounts = _accounts(database, "manifold")
        if len(accounts) != 1 or database.execute(_UNCLEAR).fetchone() or _resting(database):
            return
        policy = AccountKey(venue="manifold", account=accounts[0], paper=False)
        found = read_profit_record(database, policy, _EVER, redeems=True)
    if not found.readings or _has_late_outcome(found.book.contracts, bridges):
        return
    interest = sum(one.repaid[2] for (who, _, _), one in venue.state.holdings.items() if who == user.id)
    point = equity_points(found.readings, found.book.entries, found.fees)[-1]
    moved = user.deposits - bridges.environment.layout.balance - interest
    if abs(point.transfers - moved) >= CENT:
        yield f"profit: {point.transfers:.4f} are said to be from elsewhere, and {moved:.4f} are"


def _has_late_outcome(contracts: Collection[ContractProfit], bridges: SimulationVenues) -> bool:
    """Say whether the ledger has another outcome of a market than the venue, or none, for now."""
    venue, paid = bridges.manifold, defaultdict[str, int](int)
    assert venue is not None
    for one in contracts:
        market = one.contract.partition("/")[0]
        if venue.state.markets[market].resolved and one.held:
            return True
        paid[market] += one.cash.get(ProfitEntryKind.PAYOUT, 0) + one.cash.get(ProfitEntryKind.REFUND, 0)
    there = {market: venue.state.markets[market].paid.get(bridges.trader, 0.0) for market in paid}
    return any(abs(amount / MILLIONTHS - there[market]) >= CENT for market, amount in paid.items())


def _manifold_profits(bridges: SimulationVenues) -> dict[str, float]:
    """Return what each market brought its trader, by its bets and payouts."""
    venue, own = bridges.manifold, defaultdict[str, float](float)
    if venue is not None:
        for bet in venue.state.bets_by(bridges.trader):
            own[bet.market] -= bet.amount
        for market in venue.state.markets.values():
            own[market.id] += market.paid.get(bridges.trader, 0.0)
    return own


def _polymarket_profits(bridges: SimulationVenues) -> dict[str, float]:
    """Return what each market brought, by its trades on chain and what its shares pay, redeemed or not."""
    venue, own = bridges.polymarket, defaultdict[str, float](float)
    if venue is None:
        return own
    for order in venue.state.orders.values():
        market = order.market
        pays = Decimal(0) if market.payouts is None else market.payouts[market.tokens.index(order.token)]
        parts = [part for part in polymarket_orders.order_trades(order, venue.state) if part[0].status == "CONFIRMED"]
        worth = sum((shares * pays for _, _, shares in parts), Decimal(0))
        own[market.condition] += float(sum((cash for _, cash, _ in parts), Decimal(0)))
        own[market.condition] += float(worth if order.side == "BUY" else -worth)
    return own


def _accounts(database: Database, venue: str) -> list[str]:
    return [account for (account,) in database.execute(_ACCOUNTS, [venue])]


def _paid_back(venue: str, contracts: Collection[ContractProfit], bridges: SimulationVenues) -> set[str]:
    """Return the contracts that were sold off in markets that paid all the same: their stakes may have come back."""
    if venue != "manifold" or bridges.manifold is None:
        return set()
    paying = {market.id for market in bridges.manifold.state.markets.values() if bridges.trader in market.paid}
    sold = [one.contract for one in contracts if not {ProfitEntryKind.PAYOUT, ProfitEntryKind.REFUND} & one.cash.keys()]
    return {contract for contract in sold if contract.partition("/")[0] in paying}


def _settled_since_outcome(database: Database, policy: AccountKey, modes: Mapping[str, str]) -> set[str]:
    """Return the contracts with an outcome since which payouts were recorded: what it pays is on record by then."""
    all_read = f"%, {len(REDEEMS.keys() & modes.keys())} accounts read"
    ((settled,),) = database.execute(_SETTLED, {"all_read": all_read}).fetchall()
    if settled is None:
        return set()
    before = format_timestamp(parse_timestamp(settled) - SET_BACK)
    values = {**policy.values, "settled": before, "single": SINGLE_TARGET}
    return {contract for (contract,) in database.execute(_HEARD, values)}


def _resting(database: Database) -> set[str]:
    orders = [row.intent.order for row in submission_attempts.read_resting_orders(database)]
    return {order.contract for order in orders if order is not None}


def _named(venue: str, undone: Collection[str]) -> set[str]:
    return {name.partition(":")[2] for name in undone if name.startswith(f"{venue}:")}
