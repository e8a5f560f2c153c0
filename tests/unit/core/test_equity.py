"""Equity over time: a deposit, a loan and what passes are no gain."""

from datetime import UTC, datetime, timedelta
from typing import Any

from bot.core.orders import ContractSide
from bot.core.trading_profit import (
    MILLIONTHS,
    EquityReading,
    SharePayout,
    TradingBook,
    build_trading_book,
    equity_points,
)
from tests.unit.core.test_trading_profit import fill

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
EMPTY = TradingBook()


def read(minute: float, cash: float, *, lasts: float = 0.0, **more: Any) -> EquityReading:
    at = NOON + timedelta(minutes=minute)
    worth = more.pop("worth", 0.0)
    sums = {"reserved": 0.0, "loan": 0.0, **more}
    equity = cash + sums["reserved"] + worth - sums["loan"]
    return EquityReading(at=at, until=at + timedelta(minutes=lasts), cash=cash, equity=equity, **sums)


def told(
    readings: list[EquityReading], book: TradingBook = EMPTY, fees: list[tuple[datetime, int]] | None = None
) -> Any:
    points = equity_points(readings, book.entries, fees or [])
    return [(round(point.transfers, 6), round(point.gain, 6)) for point in points]


def test_a_deposit_is_no_gain_and_a_loan_is_none_either() -> None:
    readings = [read(0, 100), read(5, 600, lasts=5), read(20, 620, loan=20.0, lasts=5)]
    assert told(readings) == [(0.0, 0.0), (500.0, 0.0), (500.0, 0.0)]


def test_what_is_bought_sold_and_paid_is_explained_by_its_fills() -> None:
    book = build_trading_book(
        [fill(10, -4, minute=1), fill(-5, 3.5, minute=6)],
        [SharePayout(at=NOON + timedelta(minutes=20), contract="rain", leg=ContractSide.YES, price=1.0)],
        redeems=False,
    )
    readings = [read(0, 100), read(2, 96, worth=5.0), read(7, 99.5, worth=3.5), read(30, 104.5)]
    assert told(readings, book) == [(0.0, 0.0), (0.0, 1.0), (0.0, 3.0), (0.0, 4.5)]
    assert [round(point.realised, 6) for point in equity_points(readings, book.entries, [])] == [0.0, 0.0, 1.5, 4.5]


def test_what_is_owed_and_not_paid_out_yet_is_explained_too() -> None:
    book = build_trading_book(
        [fill(10, -4, minute=1)],
        [SharePayout(at=NOON + timedelta(minutes=20), contract="rain", leg=ContractSide.YES, price=1.0)],
        redeems=False,
    )
    readings = [read(0, 100), read(2, 96, worth=4.0), read(30, 96, worth=10.0, owed=10.0), read(40, 106)]
    assert told(readings, book) == [(0.0, 0.0), (0.0, 0.0), (0.0, 6.0), (0.0, 6.0)]


def test_a_difference_that_passes_is_no_deposit() -> None:
    # Matched and booked, and neither cash nor shares have moved yet.
    book = build_trading_book([fill(10, -4, minute=1)], [], redeems=False)
    readings = [read(0, 100), read(1.05, 100), read(2, 96, worth=4.0)]
    assert told(readings, book) == [(0.0, 0.0), (0.0, 0.0), (0.0, 0.0)]


def test_fees_of_comments_are_a_loss_and_trades_by_hand_no_gain() -> None:
    fee = [(NOON + timedelta(minutes=1), MILLIONTHS)]
    assert told([read(0, 100), read(2, 99, lasts=2)], fees=fee) == [(0.0, 0.0), (0.0, -1.0)]
    by_hand = [read(0, 100), read(2, 50, worth=48.0, elsewhere=48.0, lasts=2)]
    assert told(by_hand) == [(0.0, 0.0), (-50.0, 0.0)]


def test_an_account_that_was_never_read_has_no_history() -> None:
    assert equity_points([], [], []) == ()


def test_a_deposit_that_was_just_read_is_no_gain_either() -> None:
    assert told([read(0, 100), read(0.1, 600)]) == [(0.0, 0.0), (500.0, 0.0)]
