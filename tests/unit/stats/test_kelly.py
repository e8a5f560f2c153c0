"""Kelly stakes against the formula, against a search, and against what is held."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bot.core.orders import ContractSide, Position
from bot.stats.kelly import (
    HeldShares,
    KellyBankroll,
    PayoffScenarios,
    ShareOffer,
    WealthOutcome,
    kelly_shares,
    marginal_utility,
    payoff_scenarios,
    rescale_beliefs,
    share_value,
    shrink_to_market,
    sum_held_shares,
)

probabilities = st.floats(0.02, 0.98)
books = st.lists(st.tuples(st.floats(0.02, 0.97), st.floats(0.5, 300.0)), min_size=1, max_size=6)


@given(belief=probabilities, cost=probabilities)
def test_where_one_price_offers_all_the_stake_is_that_of_the_formula(belief: float, cost: float) -> None:
    bought = kelly_shares(payoff_scenarios(KellyBankroll(cash=1000.0), {"": belief}, ""), [ShareOffer(cost, 1e12)])
    assert bought * cost == pytest.approx(1000.0 * max(0.0, (belief - cost) / (1.0 - cost)), rel=1e-9, abs=1e-9)


def test_nothing_is_staked_without_an_edge() -> None:
    view = payoff_scenarios(KellyBankroll(cash=1000.0), {"": 0.57}, "")
    assert kelly_shares(view, [ShareOffer(0.58, 100.0)]) == 0.0


def test_pm_x8_nobody_stakes_cash_that_is_not_there() -> None:
    assert kelly_shares(payoff_scenarios(KellyBankroll(cash=0.0), {"": 0.9}, ""), [ShareOffer(0.5, 100.0)]) == 0.0


@given(belief=probabilities, levels=books, cash=st.floats(10.0, 5000.0))
def test_no_other_number_of_shares_grows_more(
    belief: float, levels: Sequence[tuple[float, float]], cash: float
) -> None:
    offers = [ShareOffer(cost, size) for cost, size in sorted(levels)]
    view = payoff_scenarios(KellyBankroll(cash=cash), {"": belief}, "")
    bought = kelly_shares(view, offers)
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
    offer = ShareOffer(price, 1e12)
    first = kelly_shares(
        payoff_scenarios(KellyBankroll(cash=1000.0).scaled_to_share(share, {"": price}), {"": belief}, ""), [offer]
    )
    bankroll = KellyBankroll(cash=1000.0 - first * price, held={"": HeldShares(yes=first)})
    again = kelly_shares(payoff_scenarios(bankroll.scaled_to_share(share, {"": price}), {"": belief}, ""), [offer])
    assert again <= 1e-6 * (1.0 + first)


@given(belief=probabilities, price=st.floats(0.05, 0.9), held=st.floats(0.0, 500.0))
def test_what_is_held_reduces_what_is_bought_by_as_much(belief: float, price: float, held: float) -> None:
    """At one price, with what was held paid from the same account."""
    assume(belief > price)
    offer = ShareOffer(price, 1e12)
    bare = kelly_shares(payoff_scenarios(KellyBankroll(cash=1000.0), {"": belief}, ""), [offer])
    assume(held * price < 900.0)
    bankroll = KellyBankroll(cash=1000.0 - held * price, held={"": HeldShares(yes=held)})
    more = kelly_shares(payoff_scenarios(bankroll, {"": belief}, ""), [offer])
    assert more == pytest.approx(max(0.0, bare - held), abs=1e-4 * (1.0 + bare))


def test_what_is_held_of_another_option_counts() -> None:
    """Whoever holds the favourite gains less from insuring against it at a fair price than whoever holds nothing."""
    beliefs = {"Ann": 0.5, "Bob": 0.3, "Cid": 0.2}
    offer = [ShareOffer(0.28, 1e12)]
    bare = kelly_shares(payoff_scenarios(KellyBankroll(cash=100.0), beliefs, "Bob"), offer)
    with_ann = KellyBankroll(cash=100.0, held={"Ann": HeldShares(yes=100.0)})
    against_ann = KellyBankroll(cash=100.0, held={"Ann": HeldShares(no=100.0)})
    assert kelly_shares(payoff_scenarios(with_ann, beliefs, "Bob"), offer) > bare > 0.0
    assert kelly_shares(payoff_scenarios(against_ann, beliefs, "Bob"), offer) < bare


def test_the_outlook_of_the_other_leg_is_the_same_seen_from_behind() -> None:
    view = payoff_scenarios(KellyBankroll(cash=10.0, held={"": HeldShares(yes=3.0, no=1.0)}), {"": 0.25}, "")
    assert view == PayoffScenarios((WealthOutcome(0.25, 13.0),), (WealthOutcome(0.75, 11.0),))
    assert view.flipped == PayoffScenarios(view.lost, view.won)
    assert (share_value(ContractSide.YES, 0.25), share_value(ContractSide.NO, 0.25)) == (0.25, 0.75)


@given(belief=st.floats(0.0, 1.0), market=st.floats(0.01, 0.99), share=st.floats(0.0, 1.0))
def test_a_shrunk_belief_lies_between_belief_and_market(belief: float, market: float, share: float) -> None:
    clipped = min(max(belief, 0.001), 0.999)
    low, high = sorted((clipped, market))
    assert low - 1e-12 <= shrink_to_market(belief, market, share) <= high + 1e-12


def test_a_belief_that_is_shrunk_by_half_is_the_geometric_mean_of_the_odds() -> None:
    odds = math.sqrt((0.9 / 0.1) * (0.6 / 0.4))
    assert shrink_to_market(0.9, 0.6, 0.5) == pytest.approx(odds / (1.0 + odds))


def test_shrinking_is_even_in_log_odds() -> None:
    assert shrink_to_market(0.8, 0.5, 0.0) == 0.8
    assert shrink_to_market(0.8, 0.5, 1.0) == pytest.approx(0.5)
    assert shrink_to_market(0.8, 0.5, 0.5) == pytest.approx(2.0 / 3.0)  # odds 4 to 2
    assert 0.0 < shrink_to_market(0.0, 0.3, 0.25) < 0.3 < shrink_to_market(1.0, 0.3, 0.25) < 1.0


def test_beliefs_still_sum_to_one_when_one_of_them_is_moved() -> None:
    moved = rescale_beliefs({"Ann": 0.5, "Bob": 0.3, "Cid": 0.2}, "Ann", 0.6)
    assert math.fsum(moved.values()) == pytest.approx(1.0)
    assert moved["Bob"] / moved["Cid"] == pytest.approx(1.5)
    assert rescale_beliefs({"Ann": 1.0, "Bob": 0.0}, "Ann", 0.7) == {"Ann": 0.7, "Bob": pytest.approx(0.3)}


def test_what_is_held_is_summed_by_option_and_what_belongs_elsewhere_is_left_out() -> None:
    positions = [
        Position(contract="1", leg=ContractSide.YES, shares=2.0, paid=1.0),
        Position(contract="1", leg=ContractSide.YES, shares=3.0, paid=1.0),
        Position(contract="1", leg=ContractSide.NO, shares=1.0, paid=1.0),
        Position(contract="2", leg=ContractSide.NO, shares=4.0, paid=1.0),
        Position(contract="9", leg=ContractSide.YES, shares=7.0, paid=1.0),
    ]
    names = {"1": "Ann", "2": "Bob"}
    held = sum_held_shares(positions, lambda position: names.get(position.contract))
    assert held == {"Ann": HeldShares(yes=5.0, no=1.0), "Bob": HeldShares(no=4.0)}
    assert [held["Ann"].of_side(leg) for leg in (ContractSide.YES, ContractSide.NO)] == [5.0, 1.0]


def _growth(belief: float, cash: float, offers: Sequence[ShareOffer], shares: float) -> float:
    """The expected log of wealth after buying so many shares, the cheapest first; worked out by itself."""
    paid, left = 0.0, shares
    for offer in offers:
        paid += min(left, offer.size) * offer.cost
        left -= min(left, offer.size)
    held = shares - max(left, 0.0)
    if paid >= cash:
        return -math.inf
    return belief * math.log(cash - paid + held) + (1.0 - belief) * math.log(cash - paid)


def test_the_bankroll_of_a_share_counts_both_sides_at_the_price_of_yes() -> None:
    held = {"a": HeldShares(yes=10.0, no=4.0), "b": HeldShares(no=20.0), "gone": HeldShares(yes=7.0, no=9.0)}
    bankroll = KellyBankroll(cash=100.0, held=held).scaled_to_share(0.25, {"a": 0.3, "b": 0.6})
    # Worth 10 x .3 + 4 x .7 + 20 x .4 = 13.8, and nothing without a price: a quarter of 100 less three quarters of it.
    assert bankroll.cash == pytest.approx(0.25 * 100.0 - 0.75 * 13.8)
    assert bankroll.held == held
    assert KellyBankroll(cash=100.0, held=held).scaled_to_share(1.0, {"a": 0.3}).cash == 100.0


def test_the_scenarios_of_no_are_those_of_yes_the_other_way_round() -> None:
    yes = PayoffScenarios((WealthOutcome(0.7, 11.0),), (WealthOutcome(0.3, 5.0),))
    assert yes.for_side(ContractSide.YES) is yes
    assert yes.for_side(ContractSide.NO) == PayoffScenarios((WealthOutcome(0.3, 5.0),), (WealthOutcome(0.7, 11.0),))


def test_options_that_had_no_share_of_the_belief_get_the_rest_evenly() -> None:
    assert rescale_beliefs({"a": 1.0, "b": 0.0, "c": 0.0, "d": 0.0}, "a", 0.4) == pytest.approx(
        {"a": 0.4, "b": 0.2, "c": 0.2, "d": 0.2}
    )
    assert rescale_beliefs({"a": 0.5, "b": 0.3, "c": 0.2}, "a", 0.75) == pytest.approx({"a": 0.75, "b": 0.15, "c": 0.1})


@pytest.mark.parametrize("market", [0.0, 1.0])
def test_a_market_that_is_certain_moves_no_belief(market: float) -> None:
    assert shrink_to_market(0.3, market, 0.5) == 0.3
    assert shrink_to_market(0.3, 0.9, 0.0) == 0.3


@pytest.mark.parametrize("belief", [-1.0, 0.0, 0.0005])
def test_no_belief_is_taken_for_certain(belief: float) -> None:
    assert shrink_to_market(belief, 0.5, 0.0) == 0.001
    assert shrink_to_market(1.0 - belief, 0.5, 0.0) == 0.999


def test_without_wealth_in_one_outcome_the_price_is_one_half_or_certain() -> None:
    poor, rich = (WealthOutcome(0.5, 0.0),), (WealthOutcome(0.5, 10.0),)
    assert PayoffScenarios(poor, rich).indifference_price == 1.0
    assert PayoffScenarios(rich, poor).indifference_price == 0.0
    assert PayoffScenarios(poor, poor).indifference_price == 0.5
    # Wealth of 10 where it pays and of 30 where not: (1/10) / (1/10 + 1/30) with equal odds.
    assert PayoffScenarios(rich, (WealthOutcome(0.5, 30.0),)).indifference_price == pytest.approx(0.75)
    impossible = PayoffScenarios((WealthOutcome(0.0, 10.0),), rich)
    assert impossible.indifference_price == 0.0


@pytest.mark.parametrize("cost", [0.0, 1.0])
def test_nothing_is_bought_at_a_cost_that_is_none_or_all(cost: float) -> None:
    view = payoff_scenarios(KellyBankroll(cash=1000.0), {"": 0.99}, "")
    assert kelly_shares(view, [ShareOffer(cost, 10.0)]) == 0.0


def test_an_offer_is_taken_whole_only_where_its_last_share_still_adds_growth() -> None:
    """f* = (.6 - .5) / .5 = a fifth of 1000, which is 400 shares at .50; then the next offer is looked at."""
    view = payoff_scenarios(KellyBankroll(cash=1000.0), {"": 0.6}, "")
    assert kelly_shares(view, [ShareOffer(0.5, 399.0)]) == 399.0
    assert kelly_shares(view, [ShareOffer(0.5, 401.0)]) == pytest.approx(400.0)
    assert kelly_shares(view, [ShareOffer(0.5, 401.0), ShareOffer(0.5, 100.0)]) == pytest.approx(400.0)
    assert kelly_shares(view, [ShareOffer(0.5, 300.0), ShareOffer(0.5, 300.0)]) == pytest.approx(400.0)
    assert kelly_shares(view, [ShareOffer(0.7, 10.0), ShareOffer(0.1, 10.0)]) == 0.0


def test_an_account_of_less_than_one_stakes_the_same_share() -> None:
    view = payoff_scenarios(KellyBankroll(cash=0.5), {"": 0.6}, "")
    assert kelly_shares(view, [ShareOffer(0.5, 100.0)]) * 0.5 == pytest.approx(0.2 * 0.5)


def test_an_outcome_that_cannot_come_does_not_count() -> None:
    assert marginal_utility([WealthOutcome(0.0, 0.0), WealthOutcome(1.0, 2.0)]) == 0.5
    assert marginal_utility([WealthOutcome(0.5, 0.0), WealthOutcome(0.5, 2.0)]) == math.inf
    assert marginal_utility([WealthOutcome(1.0, 2.0)], 2.0) == 0.25
    offer = [ShareOffer(0.5, 1e6)]
    possible = PayoffScenarios((WealthOutcome(0.6, 100.0),), (WealthOutcome(0.4, 100.0),))
    with_ruin = PayoffScenarios(possible.won, (*possible.lost, WealthOutcome(0.0, 1.0)))
    assert kelly_shares(with_ruin, offer) == pytest.approx(kelly_shares(possible, offer)) == pytest.approx(40.0)


def test_a_share_against_each_other_option_pays_where_one_of_them_wins() -> None:
    bankroll = KellyBankroll(cash=10.0, held={"Ann": HeldShares(no=3.0), "Bob": HeldShares(yes=1.0, no=5.0)})
    view = payoff_scenarios(bankroll, {"Ann": 0.5, "Bob": 0.3, "Cid": 0.2}, "Ann")
    assert view.won == (WealthOutcome(0.5, 10.0 + 5.0),)
    assert view.lost == (WealthOutcome(0.3, 10.0 + 1.0 + 3.0), WealthOutcome(0.2, 10.0 + 3.0 + 5.0))
