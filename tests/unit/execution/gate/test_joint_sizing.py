"""Stakes of one pass: within the bounds that they share, in proportion, and the same in whatever order they come."""

from dataclasses import replace
from math import fsum
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.config.venue_schema import BankrollSection
from bot.core.orders import OrderPlan
from bot.core.permissions import CapUsage
from bot.core.submissions import HoldDecision, SendDecision
from bot.execution.gate.caps import CapHeadroom, ProposedStake, size_stakes_jointly
from tests.unit.execution.gate.decision_contexts import make_policy, order, question, trade
from tests.unit.execution.gate.test_caps import EXPOSURE, GATE


def stake(name: str, amount: float, **more: Any) -> ProposedStake:
    return ProposedStake(**{"name": name, "stake": amount, "edge": 0.1, **more})


def test_what_fits_is_left_as_it_was_proposed() -> None:
    sized = size_stakes_jointly([stake("a", 10.0), stake("b", 20.0)], cash=100.0, correlation=1.0, min_stake=1.0)
    assert sized == {"a": 10.0, "b": 20.0}


def test_stakes_that_share_a_bound_are_scaled_in_proportion() -> None:
    room = CapHeadroom("bankroll.per_pass", 15.0, 0.0, "pass")
    proposed = [stake("a", 10.0, headrooms=(room,)), stake("b", 20.0, headrooms=(room,))]
    assert size_stakes_jointly(proposed, cash=1e6, correlation=1.0, min_stake=1.0) == pytest.approx(
        {"a": 5.0, "b": 10.0}
    )
    assert size_stakes_jointly(proposed, cash=6.0, correlation=1.0, min_stake=1.0) == pytest.approx(
        {"a": 2.0, "b": 4.0}
    )


@pytest.mark.parametrize(("correlation", "each"), [(0.0, 12.0), (1.0, 4.0), (0.5, 6.0)])
def test_legs_of_one_event_count_as_correlated_bets(correlation: float, each: float) -> None:
    """Three equal bets: a single one's stake over 1 + 2 r (Thorp 2006, the inverse of the covariance matrix)."""
    legs = [stake(name, 12.0, event="vote") for name in "abc"]
    sized = size_stakes_jointly([*legs, stake("d", 12.0)], cash=1e6, correlation=correlation, min_stake=1.0)
    assert sized == pytest.approx({"a": each, "b": each, "c": each, "d": 12.0})


def test_of_stakes_too_small_to_be_made_the_smallest_edges_go_first() -> None:
    proposed = [stake("a", 10.0, edge=0.2), stake("b", 10.0, edge=0.1), stake("c", 10.0, edge=0.3)]
    sized = size_stakes_jointly(proposed, cash=2.4, correlation=0.0, min_stake=1.0)
    assert sized == pytest.approx({"a": 1.2, "b": 0.0, "c": 1.2})
    assert size_stakes_jointly(proposed, cash=0.5, correlation=0.0, min_stake=1.0) == {"a": 0.0, "b": 0.0, "c": 0.0}


def test_of_stakes_below_what_the_venue_takes_the_smallest_edge_goes_first() -> None:
    """12 for three are 4 for each, too little for two of them; 12 for two are 6 for each."""
    proposed = [stake("a", 9.0, edge=0.2, min_cost=5.0), stake("b", 9.0, edge=0.1, min_cost=5.0), stake("c", 9.0)]
    sized = size_stakes_jointly(proposed, cash=12.0, correlation=0.0, min_stake=1.0)
    assert sized == pytest.approx({"a": 6.0, "b": 0.0, "c": 6.0})


AMOUNTS = st.floats(0.0, 1e4, allow_subnormal=False)
GROUPS = st.dictionaries(st.sampled_from("xyz"), AMOUNTS, min_size=3, max_size=3)


@st.composite
def passes(draw: st.DrawFn) -> tuple[list[ProposedStake], dict[str, float]]:
    left = draw(GROUPS)
    count = draw(st.integers(1, 12))
    proposed = [
        stake(
            f"question {number}",
            draw(AMOUNTS),
            edge=draw(st.sampled_from([0.03, 0.05, 0.1])),
            event=draw(st.sampled_from(["", "vote", "cup"])),
            headrooms=tuple(CapHeadroom(name, left[name], 0.0, name) for name in draw(st.sets(st.sampled_from("xyz")))),
        )
        for number in range(count)
    ]
    return proposed, left


@given(
    given_=passes(),
    seed=st.randoms(use_true_random=False),
    cash=AMOUNTS,
    correlation=st.sampled_from([0.0, 0.5, 1.0]),
    least=st.sampled_from([0.0, 1.0, 5.0]),
)
def test_the_order_of_the_questions_makes_no_difference_and_no_bound_is_missed(
    given_: tuple[list[ProposedStake], dict[str, float]],
    seed: Random,
    cash: float,
    correlation: float,
    least: float,
) -> None:
    proposed, left = given_
    sized = size_stakes_jointly(proposed, cash=cash, correlation=correlation, min_stake=least)
    shuffled = [*proposed]
    seed.shuffle(shuffled)
    assert size_stakes_jointly(shuffled, cash=cash, correlation=correlation, min_stake=least) == sized
    assert fsum(sized.values()) <= cash + 1e-6
    for name, bound in left.items():
        sharing = [one.name for one in proposed if any(room.group == name for room in one.headrooms)]
        assert fsum(sized[one] for one in sharing) <= bound + 1e-6
    for one in proposed:
        assert sized[one.name] <= one.stake
        assert sized[one.name] == 0.0 or sized[one.name] >= least - 1e-6


BOUND = BankrollSection(per_pass=0.1, per_question=0.05, per_event=0.08, per_day=0.2, total=0.5, correlation=1)


@pytest.mark.parametrize(
    ("name", "usage", "in_pass", "leaves"),
    [
        ("per_question", CapUsage(question=45.0), 0.0, 5.0),
        ("per_event", CapUsage(event=78.0), 0.0, 2.0),
        ("per_day", CapUsage(day=197.0), 0.0, 3.0),
        ("total", CapUsage(total=496.0), 0.0, 4.0),
        ("per_pass", CapUsage(), 94.0, 6.0),
    ],
)
def test_each_share_of_the_bankroll_bounds_an_order(name: str, usage: CapUsage, in_pass: float, leaves: float) -> None:
    bound = replace(make_policy(), bankroll=BOUND)
    fits = trade(
        bought=order(cost=leaves),
        policy=bound,
        question=question(**EXPOSURE),
        cap_usage=usage,
        account_value=1000.0,
        bought_in_pass=in_pass,
    )
    assert isinstance(GATE.decide(fits), SendDecision)
    beyond = GATE.decide(replace(fits, plan=OrderPlan(why="a good price", order=order(cost=leaves + 0.01))))
    assert isinstance(beyond, HoldDecision)
    assert f"bankroll.{name} = " in beyond.why
    assert "of 1000.00" in beyond.why


def test_where_the_worth_of_the_account_is_not_known_no_share_of_it_bounds() -> None:
    assert isinstance(
        GATE.decide(trade(bought=order(cost=1e6), policy=replace(make_policy(), bankroll=BOUND))), SendDecision
    )
