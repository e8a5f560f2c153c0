"""What a portfolio says of open markets, sums of closed ones and over time is what it says of all fills."""

import asyncio
import random
import sqlite3
from contextlib import closing
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlite_utils import Database

from bot.core.orders import Account
from bot.core.trading_profit import equity_points
from bot.evaluation.account_profit import AccountProfit, compute_account_profit
from bot.store.accounts import AccountKey, ProfitRecord, UnpaidShare
from bot.store.ledger import LEDGER_FILE, Ledger, open_ledger
from bot.store.market_totals import fill_open_markets
from tests.grown_ledger import ACCOUNT, NOW, grow_ledger

QUESTIONS = 300
ROUNDS = 12
SHOWN = 5


@pytest.mark.parametrize("paper", [True, False], ids=["paper", "live"])
@pytest.mark.parametrize("seed", range(4))
async def test_open_and_closed_markets_add_up_to_all_fills(tmp_path: Path, seed: int, *, paper: bool) -> None:
    path, rng = tmp_path / "paper" / LEDGER_FILE, random.Random(seed)
    path.parent.mkdir(mode=0o700)
    await asyncio.to_thread(grow_ledger, path, QUESTIONS)
    key, now = AccountKey(venue="lantern", account=ACCOUNT, paper=paper), NOW
    if paper:
        async with open_ledger(path, now=NOW) as ledger:
            await _require_equal(ledger, key)
    await asyncio.to_thread(_open_all, path, paper=paper)
    closed = 0
    async with open_ledger(path, now=NOW) as ledger:
        for _ in range(ROUNDS):
            for _ in range(rng.randrange(6)):
                await ledger.permissions.write(lambda database, at=now: _happen(database.conn, rng, at.isoformat()))  # type: ignore[misc]
            now += timedelta(days=rng.choice([0, 1, 20]))
            shares = await ledger.profits.decided(key)
            await ledger.profits.pay(key, [(share, _payout(share)) for share in shares])
            read = Account(at=now, currency="COIN", cash=float(rng.randrange(1000)))
            await ledger.readings.add("lantern", ACCOUNT, read, paper=paper)
            closed += await ledger.profits.close_markets(key, now=now, redeems=False)
            await _require_equal(ledger, key)
    assert closed > QUESTIONS / 4


async def _require_equal(ledger: Ledger, key: AccountKey) -> None:
    whole = await ledger.profits.record(key, NOW - timedelta(days=9000), redeems=False)
    points = equity_points(whole.readings, whole.book.entries, whole.fees)
    assert await ledger.profits.equity_history(key, (), redeems=False) == points
    part = await ledger.profits.open_record(key, redeems=False, last_closed=SHOWN)
    assert part.closed is not None
    assert part.closed.contracts + len(part.book.contracts) == len(whole.book.contracts)
    found, expected = _profit(part, paper=key.paper), _profit(whole, paper=key.paper)
    assert [found.realised, found.unrealised, found.paid_out, found.fees] == pytest.approx(
        [expected.realised, expected.unrealised, expected.paid_out, expected.fees], abs=1e-6
    )
    assert len(found.markets) + found.earlier.contracts == len(expected.markets)
    assert [one.forecaster for one in found.forecasters] == [one.forecaster for one in expected.forecasters]
    for one, other in zip(found.forecasters, expected.forecasters, strict=True):
        assert asdict(one) == pytest.approx(asdict(other), abs=1e-6)
    assert found.begun == expected.begun
    assert found.transfers == (None if key.paper else pytest.approx(expected.transfers))
    markets = {one.contract: one for one in expected.markets}
    # A closed market does not keep that the venue reports the same.
    assert [replace(markets[one.contract], venue_gain=None, venue_difference=None) for one in found.markets] == [
        replace(one, venue_gain=None, venue_difference=None) for one in found.markets
    ]


def _profit(record: ProfitRecord, *, paper: bool) -> AccountProfit:
    closed = (0, 0) if record.closed is None else (record.closed.cash, record.closed.realised)
    account = Account(at=NOW, currency="COIN", cash=0.0)
    return compute_account_profit(
        record.book,
        account,
        equity_points(record.readings, record.book.entries, record.fees, closed),
        venue_gains=record.venue_gains,
        paper=paper,
        closed=record.closed,
        last_closed=record.last_closed,
    )


def _open_all(path: Path, *, paper: bool) -> None:
    """Open all markets again, as a migration does, of the account on paper or of a live one."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for table in ("closed_market", "profit_total", "open_market"):
            connection.execute(f"delete from {table}")  # noqa: S608 - names of ours
        if not paper:
            for table in ("payout", "account_reading"):
                connection.execute(f"update {table} set paper = 0")  # noqa: S608 - names of ours
            connection.execute("update intent set mode = 'live'")
        fill_open_markets(Database(connection, recursive_triggers=False, execute_plugins=False))


def _happen(database: sqlite3.Connection, rng: random.Random, at: str) -> None:
    """Fill an order again, correct an outcome, or let the venue report a gain."""
    number = 1 + 3 * rng.randrange(QUESTIONS // 3 - 10)
    intent, ref = f"intent {number}", f"lantern:q{number}"
    match rng.randrange(3):
        case 0:
            database.execute(
                "insert or ignore into fill values (?, ?, ?, 2.0, 0.5, 0.01, -1.01)", [intent, f"late {at}", at]
            )
        case 1:
            kind, value, body = rng.choice(
                [
                    ("happened", 0.0, '{"value":0.0,"kind":"happened"}'),
                    ("happened", 1.0, '{"value":1.0,"kind":"happened"}'),
                    ("void", None, '{"reason":"annulled","kind":"void"}'),
                ]
            )
            database.execute(
                "insert into resolution (ref, target, kind, value, body, resolved_at, seen_at)"
                " values (?, 'outcome', ?, ?, ?, ?, ?)",
                [ref, kind, value, body, at, at],
            )
        case _:
            database.execute(
                "insert or replace into venue_gain values ('lantern', ?, ?, ?, 1, 0, ?)",
                [ACCOUNT, f"m{number}", rng.choice([-5.0, 5.0, 7.0]), at],
            )


def _payout(share: UnpaidShare) -> float:
    return getattr(share.outcome, "value", 0.5)
