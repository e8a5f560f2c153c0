"""Profit worked out by hand: average cost, pairs, payouts, refunds, and whose gain it is."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from bot.core.orders import ContractSide
from bot.core.questions import QuestionRef
from bot.core.trading_profit import MILLIONTHS, ProfitEntryKind, SharePayout, TradeFill, TradingBook, build_trading_book

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
RAIN = QuestionRef("lantern", "rain")


def fill(
    shares: float,
    cash: float,
    *,
    leg: ContractSide = ContractSide.YES,
    by: str = "ada",
    minute: int = 0,
    fee: float = 0.0,
) -> TradeFill:
    return TradeFill(
        at=NOON + timedelta(minutes=minute),
        contract="rain",
        leg=leg,
        shares=round(shares * MILLIONTHS),
        cash=round(cash * MILLIONTHS),
        fee=round(fee * MILLIONTHS),
        ref=RAIN,
        option="",
        forecaster=by,
    )


def pays(price: float | None, leg: ContractSide = ContractSide.YES, minute: int = 60) -> SharePayout:
    return SharePayout(at=NOON + timedelta(minutes=minute), contract="rain", leg=leg, price=price)


def gains(book: TradingBook) -> dict[str, float]:
    return {name: gain / MILLIONTHS for name, gain in book.contracts[0].gains.items()}


def test_a_part_that_is_sold_goes_at_the_average_cost_and_the_rest_is_paid_out() -> None:
    # 10 for 4 and 10 for 6: 0.50 a share. 5 sold for 3.50 gain 1.00; 15 pay 15 and cost 7.50.
    book = build_trading_book([fill(10, -4), fill(10, -6), fill(-5, 3.5)], [pays(1.0)], redeems=False)
    (rain,) = book.contracts
    assert (rain.realised / MILLIONTHS, rain.held, rain.closed_at) == (8.5, {}, NOON + timedelta(hours=1))
    assert [(one.kind, one.cash / MILLIONTHS, one.gain / MILLIONTHS) for one in book.entries] == [
        (ProfitEntryKind.BUY, -4.0, 0.0),
        (ProfitEntryKind.BUY, -6.0, 0.0),
        (ProfitEntryKind.SELL, 3.5, 1.0),
        (ProfitEntryKind.PAYOUT, 15.0, 7.5),
    ]


def test_what_is_open_keeps_its_cost() -> None:
    (rain,) = build_trading_book([fill(10, -4), fill(-4, 3)], [], redeems=False).contracts
    assert (rain.held, rain.cost) == ({ContractSide.YES: 6 * MILLIONTHS}, {ContractSide.YES: 2_400_000})
    assert (rain.realised / MILLIONTHS, rain.closed_at) == (1.4, None)


def test_pairs_are_paid_out_at_once_where_the_venue_does_that() -> None:
    # 10 YES for 4, then 6 NO for 3: 6 pairs bring 6 and cost 2.40 and 3.
    traded = [fill(10, -4), fill(6, -3, leg=ContractSide.NO, by="bob", minute=1)]
    (rain,) = build_trading_book(traded, [], redeems=True).contracts
    assert (rain.held, rain.cash[ProfitEntryKind.PAIRS] / MILLIONTHS) == ({ContractSide.YES: 4 * MILLIONTHS}, 6.0)
    assert rain.realised / MILLIONTHS == pytest.approx(0.6)
    # Each side brought as much of it as it cost of both: 2.40 and 3 of 5.40.
    assert rain.gains["ada"] / MILLIONTHS == pytest.approx(0.6 * 2.4 / 5.4, abs=2e-6)
    (both,) = build_trading_book(traded, [pays(0.25), pays(0.75, ContractSide.NO)], redeems=False).contracts
    assert both.realised / MILLIONTHS == pytest.approx(10 * 0.25 + 6 * 0.75 - 7)


def test_a_gain_belongs_to_those_whose_orders_bought_the_shares() -> None:
    book = build_trading_book(
        [fill(30, -12), fill(10, -8, by="bob"), fill(-20, 16, by="bob")], [pays(0.0)], redeems=False
    )
    # 20 of 40 sold for 16: 15 of ada's, which cost 6, for 12, and 5 of bob's, which cost 4, for 4; the rest is lost.
    assert gains(book) == {"ada": pytest.approx(6.0 - 6.0), "bob": pytest.approx(0.0 - 4.0)}


def test_stakes_that_come_back_leave_no_gain_and_no_loss() -> None:
    traded = [fill(10, -4), fill(-5, 3.5), fill(4, -2, by="bob", minute=2)]
    book = build_trading_book(traded, [pays(None)], redeems=False)
    assert book.entries[-1].kind is ProfitEntryKind.REFUND
    assert (book.entries[-1].cash / MILLIONTHS, book.contracts[0].realised, gains(book)) == (
        2.5,
        0,
        {"ada": 0.0, "bob": 0.0},
    )
    won = [fill(10, -1), fill(-5, 4)]
    assert build_trading_book(won, [pays(None)], redeems=False).entries[-1].cash / MILLIONTHS == -3.0
    kept = build_trading_book(won, [pays(None)], redeems=False, returns_losses=False)
    assert (kept.entries[-1].cash, kept.contracts[0].realised / MILLIONTHS) == (0, 3.0)


def test_shares_that_were_not_bought_here_cost_nothing_here() -> None:
    book = build_trading_book([fill(2, -1), fill(-8, 4, by="bob")], [], redeems=False)
    assert gains(book) == {"ada": 0.0, "bob": 3.0}


def test_a_payout_that_is_told_to_be_older_than_a_trade_comes_after_it() -> None:
    book = build_trading_book([fill(10, -4, minute=90)], [pays(1.0)], redeems=False)
    assert [(one.kind, one.at) for one in book.entries][-1] == (ProfitEntryKind.PAYOUT, NOON + timedelta(minutes=90))


Trades = st.lists(
    st.tuples(
        st.sampled_from(["ada", "bob", "cid"]),
        st.sampled_from([*ContractSide]),
        st.integers(1, 50 * MILLIONTHS),
        st.integers(1, 999_999),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


# Three of four are sold, of which the lots of ada and bob each have less than one.
SMALL_LOTS = [
    ("ada", ContractSide.NO, 1, 1, False),
    ("bob", ContractSide.NO, 1, 1, False),
    ("cid", ContractSide.NO, 2, 1, False),
    ("ada", ContractSide.NO, 3, 1, True),
]


@given(Trades, st.sampled_from([0.0, 1.0, 0.5, 0.37, None]), st.booleans())
@example(SMALL_LOTS, 0.0, False)  # noqa: FBT003 - as drawn
def test_what_is_closed_gained_all_that_its_cash_moved(
    trades: list[tuple[str, ContractSide, int, int, bool]],
    price: float | None,
    redeems: bool,  # noqa: FBT001 - drawn
) -> None:
    """However it was bought, sold, paired and paid, no millionth is lost: this side counts cash alone, in fractions."""
    held: dict[ContractSide, int] = dict.fromkeys(ContractSide, 0)
    fills, cash = [], Fraction(0)
    for minute, (by, leg, shares, level, sells) in enumerate(trades):
        count = min(shares, held[leg]) if sells else shares
        if count == 0:
            continue
        worth = count * level // MILLIONTHS
        sign = -1 if sells else 1
        fills.append(fill(sign * count / MILLIONTHS, -sign * worth / MILLIONTHS, leg=leg, by=by, minute=minute))
        cash += Fraction(-sign * worth, MILLIONTHS)
        held[leg] += sign * count
        pairs = min(held.values()) if redeems else 0
        cash += Fraction(pairs, MILLIONTHS)
        held = {one: count - pairs for one, count in held.items()}
    assume(fills)
    book = build_trading_book(
        fills, [] if price is None else [pays(price), pays(1.0 - price, ContractSide.NO)], redeems=redeems
    )
    (rain,) = book.contracts
    assert sum(one.cash for one in book.entries if one.kind is not ProfitEntryKind.PAYOUT) == cash * MILLIONTHS
    if price is not None:
        paid = round(held[ContractSide.YES] * price) + round(held[ContractSide.NO] * (1.0 - price))
        assert rain.realised == cash * MILLIONTHS + paid
        assert not rain.held
    else:
        assert rain.realised - sum(rain.cost.values()) == pytest.approx(cash * MILLIONTHS, abs=100)
        assert {leg: count for leg, count in held.items() if count > 10} == rain.held
