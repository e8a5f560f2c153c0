"""From a belief to one order: which leg, how much, to which limit, in which amounts, and why not."""

import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.api import (
    Account,
    BinaryPrediction,
    ContractSide,
    CurvePrediction,
    Order,
    OrderPlan,
    OrderSide,
    Prediction,
    Question,
    RequestRejectedError,
    ServiceUnavailableError,
    SizingPolicy,
    TradeProposal,
)
from plugins.polymarket.fees import TakerFees
from plugins.polymarket.order_books import PolymarketOrderBook
from plugins.polymarket.order_terms import PolymarketOrderTerms, PolymarketOrderType
from plugins.polymarket.planner import PolymarketPlanner
from plugins.polymarket.settings import PolymarketSettings
from tests.plugins.polymarket.records import condition, token
from tests.plugins.polymarket.trading_inputs import (
    EAGER,
    NOW,
    SCHEDULE,
    FakePolymarketReader,
    Levels,
    a_book,
    account,
    contract,
    question,
)

FOUR = TakerFees(rate=Decimal("0.04"))


async def plan(
    venue: FakePolymarketReader,
    prediction: Prediction,
    *,
    about: Question | None = None,
    has: Account | None = None,
    sizing: SizingPolicy = EAGER,
    **settings: Any,
) -> OrderPlan:
    proposal = TradeProposal(
        question=about or question(),
        predictions={"outcome": prediction},
        account=has or account(),
        sizing=sizing,
        now=NOW,
    )
    return await PolymarketPlanner(PolymarketSettings(**settings), venue).plan_order(proposal)


async def planned(venue: FakePolymarketReader, prediction: Prediction, **more: Any) -> Order:
    found = await plan(venue, prediction, **more)
    assert found.order is not None, found.why
    return found.order


def wants(**changes: Any) -> SizingPolicy:
    return replace(EAGER, **changes)


# Size and price


async def test_the_stake_is_that_of_the_table_on_the_first_level() -> None:
    """docs/facts/polymarket.md#kelly-figures: 9.57 % of the cash at .57980 a share, here in whole shares."""
    found = await planned(FakePolymarketReader.of(a_book(asks=(("0.57", "100000"),))), BinaryPrediction(0.62))
    assert (found.leg, found.side, found.limit) == (ContractSide.YES, OrderSide.BUY, 0.57)
    # The next whole share below.
    assert 95.65 - 0.58 <= found.shares * 0.57980 <= 95.75
    assert found.expected == 0.57
    assert found.fees == float(FOUR.fee_for(Decimal("0.57"), Decimal(164)))
    assert found.edge == pytest.approx(0.62 - 0.57980, abs=1e-5)


async def test_a_book_is_walked_as_far_as_each_level_gains() -> None:
    found = await planned(FakePolymarketReader.of(a_book()), BinaryPrediction(0.70), sizing=wants(min_edge=0.05))
    assert (found.shares, found.limit) == (142.0, 0.60)
    # docs/facts/polymarket.md#fill-figures, 142 shares up to .60.
    assert found.expected == pytest.approx(0.59324, abs=5e-6)
    assert found.fees == pytest.approx(1.36997)
    assert found.edge == pytest.approx(0.70 - 0.60289, abs=5e-6)


async def test_a_level_whose_own_gain_is_less_than_the_edge_is_not_bought() -> None:
    found = await planned(FakePolymarketReader.of(a_book()), BinaryPrediction(0.70), sizing=wants(min_edge=0.10))
    assert (found.shares, found.limit) == (42.0, 0.58)


async def test_the_cost_covers_the_dollars_and_the_fee_on_all_shares_that_they_may_buy() -> None:
    found = await planned(FakePolymarketReader.of(a_book()), BinaryPrediction(0.70))
    dollars = found.shares * found.limit
    # The fee is shares x 0.04 x p x (1 - p), so of a dollar 0.04 x (1 - p): least at the limit, 0.04 at most.
    assert dollars + dollars * 0.04 * 0.99 <= found.cost <= dollars * 1.04 + 0.02


async def test_no_leg_is_bought_from_the_bids_of_yes() -> None:
    found = await planned(FakePolymarketReader.of(a_book()), BinaryPrediction(0.40), sizing=wants(min_edge=0.02))
    assert (found.leg, found.side) == (ContractSide.NO, OrderSide.BUY)
    # Selling YES at .55 and .50 is buying NO at .45 and .50.
    assert found.limit in {0.45, 0.50}
    assert found.expected >= 0.45
    assert PolymarketOrderTerms.from_order(found).token == token(1, 1)


async def test_a_share_of_kelly_stakes_that_share() -> None:
    deep = FakePolymarketReader.of(a_book(asks=(("0.57", "100000"),)))
    whole = await planned(deep, BinaryPrediction(0.62))
    quarter = await planned(deep, BinaryPrediction(0.62), sizing=wants(kelly_fraction=0.25))
    assert quarter.shares == pytest.approx(whole.shares / 4, abs=1.0)


async def test_a_belief_is_moved_towards_the_market_before_it_is_sized() -> None:
    deep = FakePolymarketReader.of(a_book(asks=(("0.57", "100000"),)))
    assert (await planned(deep, BinaryPrediction(0.70), sizing=wants(market_shrinkage=0.5))).shares < (
        await planned(deep, BinaryPrediction(0.70))
    ).shares
    assert (await plan(deep, BinaryPrediction(0.70), sizing=wants(market_shrinkage=1.0))).order is None


@pytest.mark.parametrize("most", [3.0, 10.0, 57.0])
async def test_pm_x8_an_order_costs_no_more_than_may_be_spent(most: float) -> None:
    by_cap = await planned(FakePolymarketReader.of(a_book()), BinaryPrediction(0.90), sizing=wants(max_cost=most))
    by_cash = await planned(FakePolymarketReader.of(a_book()), BinaryPrediction(0.90), has=account(most))
    assert by_cap.cost <= most
    assert by_cash.cost <= most
    assert by_cap.shares >= most / 0.65 - 2.0


# What the venue takes


PRICES = st.sampled_from(["0.1", "0.01", "0.005", "0.0025", "0.001", "0.0001"])


@given(
    tick=PRICES,
    touch=st.tuples(st.integers(1, 9_999), st.integers(1, 30)),
    size=st.integers(1, 5_000_000),
    proposal=st.tuples(st.floats(0.01, 0.99), st.floats(1.0, 20_000.0)),
    kind=st.sampled_from(["FAK", "FOK", "GTD"]),
)
async def test_pm_s4_pm_s6_every_order_is_one_the_venue_takes(
    tick: str, touch: tuple[int, int], size: int, proposal: tuple[float, float], kind: str
) -> None:
    (best, gap), (belief, cash) = touch, proposal
    step = Decimal(tick)
    bid = (Decimal(best) / 10_000 // step) * step
    ask = bid + step * gap
    if not step <= bid < ask <= 1 - step:
        return
    # A book shows each price once: above the last one there is no second level.
    more: Levels = ((str(ask + step), "10"),) if ask + step <= 1 - step else ()
    levels: Levels = ((str(ask), str(Decimal(size) / 100)), *more)
    book = a_book(bids=((str(bid), "900.25"),), asks=levels, tick=step)
    found = await plan(
        FakePolymarketReader.of(book), BinaryPrediction(belief), has=account(cash), max_spread=0.99, order_type=kind
    )
    if found.order is None:
        assert found.why
        return
    terms, order = PolymarketOrderTerms.from_order(found.order), found.order
    assert terms.price % step == 0
    assert step <= terms.price <= 1 - step
    assert terms.size % Decimal("0.01") == 0
    assert order.cost <= cash + 1e-9
    assert order.edge >= -1e-9
    if kind == "GTD":
        assert terms.size >= 5
        assert terms.price < ask if order.leg is ContractSide.YES else terms.price < 1 - bid
    else:
        assert (terms.price * terms.size) % Decimal("0.01") == 0
        assert terms.price * terms.size >= 1


async def test_pm_s6_a_finer_grid_needs_rounder_sizes() -> None:
    """docs/facts/polymarket.md#amounts: 9.98 dollars at .985 have five decimals, an order at the cap none."""
    fine = a_book(bids=(("0.984", "50"),), asks=(("0.985", "5000"),), tick=Decimal("0.001"))
    # 9.98 dollars, 0.04 of them as the highest fee, and a cent for rounding.
    found = await planned(FakePolymarketReader.of(fine), BinaryPrediction(0.998), sizing=wants(max_cost=10.39))
    assert (found.limit, found.shares) == (0.985, 10.0)
    finest = a_book(bids=(("0.9986", "50"),), asks=(("0.9987", "5000"),), tick=Decimal("0.0001"))
    none = await plan(
        FakePolymarketReader.of(finest), BinaryPrediction(0.999), sizing=wants(max_cost=20.0, price_band=(0.0, 1.0))
    )
    assert none.order is None
    assert "less than the minimum order" in none.why


async def test_a_further_level_is_left_where_its_steps_would_bring_less() -> None:
    """At .573 shares come in tens: 37 at .50 are more than 30 of 38."""
    book = a_book(bids=(("0.48", "9"),), asks=(("0.5", "37"), ("0.573", "1")), tick=Decimal("0.001"))
    found = await planned(FakePolymarketReader.of(book), BinaryPrediction(0.9))
    assert (found.limit, found.shares) == (0.5, 37.0)


@pytest.mark.parametrize("cap", ["0.29", "0.57", "0.58"])
async def test_caps_in_cents_stay_what_they_are(cap: str) -> None:
    """The float trap of docs/facts/polymarket.md#amounts."""
    book = a_book(bids=((str(Decimal(cap) - Decimal("0.01")), "50"),), asks=((cap, "5000"),))
    found = await planned(FakePolymarketReader.of(book), BinaryPrediction(0.9), sizing=wants(max_cost=10.0))
    assert PolymarketOrderTerms.from_order(found).price == Decimal(cap)
    assert found.terms["price"] == cap


async def test_pm_s5_an_order_that_waits_says_how_long_and_never_takes() -> None:
    found = await planned(
        FakePolymarketReader.of(a_book()), BinaryPrediction(0.70), order_type="GTD", order_lifetime_s=900
    )
    terms = PolymarketOrderTerms.from_order(found)
    assert (terms.type, terms.lifetime, found.fees) == (PolymarketOrderType.GTD, timedelta(seconds=900), 0.0)
    assert found.terms["post_only"] is True
    # One step before the best bid, below the best ask.
    assert found.limit == 0.56
    assert found.cost == pytest.approx(found.shares * 0.56)
    near = await planned(
        FakePolymarketReader.of(a_book()), BinaryPrediction(0.57), order_type="GTD", sizing=wants(min_edge=0.05)
    )
    assert near.limit == 0.52
    assert [near.edge, found.edge] == pytest.approx([0.05, 0.70 - 0.56])


@pytest.mark.parametrize(("band", "inside"), [((0.56, 0.9), True), ((0.1, 0.56), True), ((0.57, 0.9), False)])
async def test_an_order_that_waits_may_be_at_either_end_of_the_band(band: tuple[float, float], *, inside: bool) -> None:
    # It would rest at 0.56, one step before the best bid.
    found = await plan(
        FakePolymarketReader.of(a_book()), BinaryPrediction(0.70), order_type="GTD", sizing=wants(price_band=band)
    )
    assert (found.order is not None) is inside
    assert inside or "would rest at 0.56, outside the band 0.57 to 0.9" in found.why


async def test_an_order_that_waits_has_the_least_size_of_the_book() -> None:
    found = await plan(
        FakePolymarketReader.of(a_book()), BinaryPrediction(0.70), order_type="GTD", sizing=wants(max_cost=2.0)
    )
    assert found.why == "3.57 shares at 0.56, but 5 is the minimum for a resting order"
    least = wants(max_cost=5 * 0.56)
    found = await plan(FakePolymarketReader.of(a_book()), BinaryPrediction(0.70), order_type="GTD", sizing=least)
    assert found.order is not None
    assert found.order.shares == 5.0
    assert found.min_cost == pytest.approx(5 * 0.56)


async def test_an_order_that_takes_is_a_dollar_at_least() -> None:
    """docs/facts/polymarket.md: a purchase that is matched at once comes to one dollar or more."""
    assert (await plan(FakePolymarketReader.of(a_book()), BinaryPrediction(0.70))).min_cost == 1.0


async def test_what_the_signer_needs_is_in_the_terms() -> None:
    traded = contract(version="v2", neg_risk=True, fees=SCHEDULE, delay_s=Decimal(1))
    found = await planned(FakePolymarketReader.of(a_book()), BinaryPrediction(0.8), about=question_of(traded))
    terms = PolymarketOrderTerms.from_order(found)
    assert terms.contract == traded
    assert (terms.token, terms.tick, terms.mid) == (token(1), Decimal("0.01"), Decimal("0.56"))
    assert terms.book["hash"] == "0xbook1"


@pytest.mark.parametrize(
    ("reported", "delay"), [({"ao": True}, "0"), ({"ao": True, "sd": 3}, "3"), ({"ao": True, "itode": True}, "0.25")]
)
async def test_the_delay_of_takers_is_what_the_exchange_says_now(reported: dict[str, object], delay: str) -> None:
    venue = FakePolymarketReader.of(a_book())
    venue.terms[condition(1)] = reported
    assert PolymarketOrderTerms.from_order(await planned(venue, BinaryPrediction(0.8))).taker_delay_s == Decimal(delay)


# Reasons for nothing


@pytest.mark.parametrize(
    ("book", "why"),
    [
        (None, "there is no book"),
        (a_book(bids=()), "the book has no bids"),
        (a_book(asks=()), "the book has no asks"),
        (a_book(bids=(("0.57", "5"),)), "the book is crossed: 0.57 is bid, 0.57 asked"),
        (a_book(bids=(("0.40", "5"),)), "the book is too wide: 0.40 is bid, 0.57 asked"),
        (a_book(at=NOW - timedelta(hours=7)), "the book is stale: it has not moved for 420 min"),
        (a_book(at=NOW + timedelta(minutes=2)), "later than now: compare the clocks"),
    ],
)
async def test_pm_x6_a_book_that_is_no_market_gives_no_order_with_a_reason(
    book: PolymarketOrderBook | None, why: str
) -> None:
    found = await plan(FakePolymarketReader.of(*([] if book is None else [book])), BinaryPrediction(0.9))
    assert found.order is None
    assert why in found.why
    # A question with one market has no option to name.
    assert not found.why.startswith(":")
    assert json.loads(found.market_state)["contract"]["market"] == condition(1)


async def test_pm_s12_a_gain_that_fees_eat_is_no_reason_to_buy() -> None:
    found = await plan(FakePolymarketReader.of(a_book()), BinaryPrediction(0.575))
    assert found.why == "yes costs 0.5798 with fees and is worth 0.5750 by the belief: a gain of less than 0"


async def test_pm_s12_a_price_outside_the_band_is_left_alone() -> None:
    found = await plan(FakePolymarketReader.of(a_book()), BinaryPrediction(0.9), sizing=wants(price_band=(0.6, 0.9)))
    assert found.why == "yes is offered at 0.57, outside the band 0.6 to 0.9"
    inside = await planned(
        FakePolymarketReader.of(a_book()), BinaryPrediction(0.995), sizing=wants(price_band=(0.1, 0.58))
    )
    assert inside.limit == 0.58


async def test_pm_s12_too_little_money_is_a_reason() -> None:
    found = await plan(FakePolymarketReader.of(a_book()), BinaryPrediction(0.9), has=account(0.9))
    assert "0.89 may be spent, less than the minimum order" in found.why


@pytest.mark.parametrize(
    ("reported", "why"),
    [({"ao": False}, "the market accepts no orders now"), (None, "the exchange does not know the market")],
)
async def test_pm_s12_a_market_that_takes_no_orders_is_a_reason(reported: dict[str, object] | None, why: str) -> None:
    venue = FakePolymarketReader.of(a_book())
    venue.terms = {} if reported is None else {condition(1): reported}
    assert (await plan(venue, BinaryPrediction(0.9))).why == why


async def test_what_cannot_be_read_is_told_as_such() -> None:
    venue = FakePolymarketReader.of(a_book())
    venue.error = ServiceUnavailableError("status 503")
    with pytest.raises(ServiceUnavailableError):
        await plan(venue, BinaryPrediction(0.9))


@pytest.mark.parametrize("facts", [{}, {"contracts": "no json"}, {"contracts": "{}"}, {"contracts": '{"": {}}'}])
async def test_a_question_without_contracts_is_not_traded(facts: dict[str, str]) -> None:
    with pytest.raises(RequestRejectedError, match="polymarket:"):
        await plan(FakePolymarketReader.of(a_book()), BinaryPrediction(0.9), about=replace(question(), facts=facts))


async def test_a_curve_is_not_traded() -> None:
    curve = CurvePrediction((0.0, 0.5, 1.0))
    with pytest.raises(RequestRejectedError, match="curve"):
        await plan(FakePolymarketReader.of(a_book()), curve)


async def test_pm_s1_the_decision_keeps_the_whole_book_and_the_fees() -> None:
    found = await plan(FakePolymarketReader.of(a_book()), BinaryPrediction(0.56))
    kept = json.loads(found.market_state)
    assert PolymarketOrderBook.from_map(kept["book"]) == a_book()
    assert kept["contract"]["fees"] == SCHEDULE
    assert kept["book"]["hash"] == "0xbook1"
    assert kept["at"] == NOW.isoformat()


async def test_pm_r3_prices_come_from_books_alone() -> None:
    venue = FakePolymarketReader.of(a_book())
    await plan(venue, BinaryPrediction(0.8))
    assert [what for what, _ in venue.asked] == ["books", "exchange_terms"]


def question_of(traded: Any) -> Question:
    plain = question()
    return replace(plain, facts={**plain.facts, "contracts": json.dumps({"": traded.to_map()})})
