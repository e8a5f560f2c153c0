"""What an account gained, per market and per forecaster, beside what its venue says."""

from dataclasses import replace
from typing import Any

import pytest

from bot.core.orders import Account, ContractSide, Position, VenueReportedGain
from bot.core.trading_profit import build_trading_book
from bot.evaluation.account_profit import AccountProfit, compute_account_profit
from tests.unit.core.test_trading_profit import NOON, fill, pays

TRADED = [fill(30, -12), fill(10, -8, by="bob"), fill(-20, 16)]


def of(
    *positions: Position, payouts: Any = (), said: tuple[VenueReportedGain, ...] = (), fee: float = 0.0
) -> AccountProfit:
    account = Account(at=NOON, currency="COIN", cash=50.0, positions=positions)
    traded = [replace(one, fee=round(fee * 1e6)) for one in TRADED]
    return compute_account_profit(
        build_trading_book(traded, payouts, redeems=False), account, [], venue_gains=said, paper=False
    )


def held(shares: float, mark: float | None, contract: str = "rain") -> Position:
    return Position(contract=contract, leg=ContractSide.YES, shares=shares, paid=1.0, mark=mark)


def test_what_is_held_is_worth_its_mark_and_shared_out_by_who_bought_it() -> None:
    found = of(held(20, 0.7))
    (rain,) = found.markets
    # 15 of ada's for 6 and 5 of bob's for 4 are left of 40; the others were sold for 16.
    assert (rain.cost, rain.realised) == (10.0, 6.0)
    assert rain.value == pytest.approx(14.0)
    assert {one.forecaster: (one.realised, round(one.unrealised, 9)) for one in found.forecasters} == {
        "ada": (6.0, 4.5),
        "bob": (0.0, -0.5),
    }
    assert found.gain == pytest.approx(10.0)
    assert found.position_differences == ()


def test_what_is_gone_before_its_outcome_is_known_is_neither_gain_nor_loss() -> None:
    (rain,) = of().markets
    assert (rain.unknown, rain.unrealised, rain.realised) == (True, 0.0, 6.0)


def test_what_the_venue_says_is_compared_where_it_is_final() -> None:
    paid = [pays(1.0)]
    says = VenueReportedGain(contract="rain", gain=16.0, closed=True)
    assert of(payouts=paid, said=(says,)).markets[0].venue_difference == pytest.approx(0.0)
    assert of(payouts=paid, said=(replace(says, gain=15.99),)).disputed_markets != ()
    assert of(payouts=paid, said=(replace(says, closed=False),)).markets[0].venue_gain is None
    # A venue that leaves out fees says that much more: three fills with 0.10 each.
    before = replace(says, gain=16.3, before_fees=True)
    assert of(payouts=paid, said=(before,), fee=0.1).disputed_markets == ()
    assert of(payouts=paid, said=(replace(before, before_fees=False),), fee=0.1).disputed_markets != ()


def test_what_was_not_ordered_here_is_named_and_no_gain() -> None:
    found = of(held(25, 0.7), held(8, 0.5, "hail"))
    assert found.gain == pytest.approx(10.0)
    assert found.position_differences == (
        "+5.00 shares of rain (yes) are not from orders of Foxcast",
        "+8.00 shares of hail (yes) are not from orders of Foxcast",
    )
