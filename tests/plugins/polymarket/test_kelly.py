"""Kelly stakes against the table of the venue document, section 15.5, against a search, and against what is held."""

import math
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bot.api import Leg
from plugins.polymarket.fees import Fees
from plugins.polymarket.kelly import (
    Held,
    Offer,
    Outcome,
    Outlook,
    Purse,
    outlook,
    scaled,
    shares_of_most_growth,
    shrunk,
    worth_of,
)

TABLE = [
    (0.62, "0.57", "0.04", "0.57980", "9.57"),
    (0.62, "0.57", "0", "0.57000", "11.63"),
    (0.60, "0.57", "0.07", "0.58716", "3.11"),
    (0.97, "0.95", "0.05", "0.95238", "37.01"),
]

probabilities = st.floats(0.02, 0.98)
books = st.lists(st.tuples(st.floats(0.02, 0.97), st.floats(0.5, 300.0)), min_size=1, max_size=6)


@pytest.mark.parametrize(("belief", "ask", "rate", "cost", "percent"), TABLE)
def test_the_stakes_of_the_table(belief: float, ask: str, rate: str, cost: str, percent: str) -> None:
    price = Decimal(ask) + Fees(rate=Decimal(rate)).per_share(Decimal(ask))
    assert price.quantize(Decimal("0.00001"), ROUND_HALF_UP) == Decimal(cost)
    view = outlook(Purse(cash=1000.0), {"": belief}, "")
    bought = shares_of_most_growth(view, [Offer(float(price), 1e12)])
    assert f"{bought * float(price) / 10.0:.2f}" == percent


def test_nothing_is_staked_without_an_edge() -> None:
    view = outlook(Purse(cash=1000.0), {"": 0.57}, "")
    assert shares_of_most_growth(view, [Offer(0.58, 100.0)]) == 0.0


def test_pm_x8_nobody_stakes_cash_that_is_not_there() -> None:
    assert shares_of_most_growth(outlook(Purse(cash=0.0), {"": 0.9}, ""), [Offer(0.5, 100.0)]) == 0.0


@given(belief=probabilities, levels=books, cash=st.floats(10.0, 5000.0))
def test_no_other_number_of_shares_grows_more(
    belief: float, levels: Sequence[tuple[float, float]], cash: float
) -> None:
    offers = [Offer(cost, size) for cost, size in sorted(levels)]
    view = outlook(Purse(cash=cash), {"": belief}, "")
    bought = shares_of_most_growth(view, offers)
    most = math.fsum(offer.size for offer in offers)
    assert 0.0 <= bought <= most * (1 + 1e-12)
    best = _growth(belief, cash, offers, bought)
    for part in range(101):
        other = most * part / 100
        assert _growth(belief, cash, offers, other) <= best + 1e-9
    for near in (bought * 0.99, bought * 1.01, bought + 0.01):
        assert _growth(belief, cash, offers, near) <= best + 1e-9


@given(belief=probabilities, price=st.floats(0.05, 0.9), share=st.floats(0.05, 1.0))
def test_whoever_holds_what_the_share_allows_buys_no_more(belief: float, price: float, share: float) -> None:
    assume(belief > price + 0.01)
    offer = Offer(price, 1e12)
    first = shares_of_most_growth(outlook(Purse(cash=1000.0).shared(share, {"": price}), {"": belief}, ""), [offer])
    purse = Purse(cash=1000.0 - first * price, held={"": Held(yes=first)})
    again = shares_of_most_growth(outlook(purse.shared(share, {"": price}), {"": belief}, ""), [offer])
    assert again <= 1e-6 * (1.0 + first)


@given(belief=probabilities, price=st.floats(0.05, 0.9), held=st.floats(0.0, 500.0))
def test_what_is_held_reduces_what_is_bought_by_as_much(belief: float, price: float, held: float) -> None:
    """At one price, with what was held paid from the same account."""
    assume(belief > price)
    offer = Offer(price, 1e12)
    bare = shares_of_most_growth(outlook(Purse(cash=1000.0), {"": belief}, ""), [offer])
    assume(held * price < 900.0)
    purse = Purse(cash=1000.0 - held * price, held={"": Held(yes=held)})
    more = shares_of_most_growth(outlook(purse, {"": belief}, ""), [offer])
    assert more == pytest.approx(max(0.0, bare - held), abs=1e-4 * (1.0 + bare))


def test_what_is_held_of_another_option_counts() -> None:
    """Whoever holds the favourite gains less from insuring against it at a fair price than whoever holds nothing."""
    beliefs = {"Ann": 0.5, "Bob": 0.3, "Cid": 0.2}
    offer = [Offer(0.28, 1e12)]
    bare = shares_of_most_growth(outlook(Purse(cash=100.0), beliefs, "Bob"), offer)
    with_ann = Purse(cash=100.0, held={"Ann": Held(yes=100.0)})
    against_ann = Purse(cash=100.0, held={"Ann": Held(no=100.0)})
    assert shares_of_most_growth(outlook(with_ann, beliefs, "Bob"), offer) > bare > 0.0
    assert shares_of_most_growth(outlook(against_ann, beliefs, "Bob"), offer) < bare


def test_the_outlook_of_the_other_leg_is_the_same_seen_from_behind() -> None:
    view = outlook(Purse(cash=10.0, held={"": Held(yes=3.0, no=1.0)}), {"": 0.25}, "")
    assert view == Outlook((Outcome(0.25, 13.0),), (Outcome(0.75, 11.0),))
    assert view.flipped == Outlook(view.lost, view.won)
    assert (worth_of(Leg.YES, 0.25), worth_of(Leg.NO, 0.25)) == (0.25, 0.75)


@given(belief=st.floats(0.0, 1.0), market=st.floats(0.01, 0.99), share=st.floats(0.0, 1.0))
def test_a_shrunk_belief_lies_between_belief_and_market(belief: float, market: float, share: float) -> None:
    clipped = min(max(belief, 0.001), 0.999)
    low, high = sorted((clipped, market))
    assert low - 1e-12 <= shrunk(belief, market, share) <= high + 1e-12


def test_a_belief_that_is_shrunk_by_half_is_the_geometric_mean_of_the_odds() -> None:
    odds = math.sqrt((0.9 / 0.1) * (0.6 / 0.4))
    assert shrunk(0.9, 0.6, 0.5) == pytest.approx(odds / (1.0 + odds))


def test_beliefs_still_sum_to_one_when_one_of_them_is_moved() -> None:
    moved = scaled({"Ann": 0.5, "Bob": 0.3, "Cid": 0.2}, "Ann", 0.6)
    assert math.fsum(moved.values()) == pytest.approx(1.0)
    assert moved["Bob"] / moved["Cid"] == pytest.approx(1.5)
    assert scaled({"Ann": 1.0, "Bob": 0.0}, "Ann", 0.7) == {"Ann": 0.7, "Bob": pytest.approx(0.3)}


def _growth(belief: float, cash: float, offers: Sequence[Offer], shares: float) -> float:
    """The expected log of wealth after buying so many shares, the cheapest first; worked out by itself."""
    paid, left = 0.0, shares
    for offer in offers:
        paid += min(left, offer.size) * offer.cost
        left -= min(left, offer.size)
    held = shares - max(left, 0.0)
    if paid >= cash:
        return -math.inf
    return belief * math.log(cash - paid + held) + (1.0 - belief) * math.log(cash - paid)
