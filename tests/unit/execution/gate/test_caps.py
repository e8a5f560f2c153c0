import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.config.venue_schema import CapsSection
from bot.core.orders import OrderSide
from bot.core.permissions import CapUsage
from bot.core.submissions import ExecutionMode, HoldDecision, SendDecision
from bot.execution.gate.caps import loss_limit_breach, max_order_cost
from bot.execution.gate.gate import Gate
from bot.execution.gate.kill_switch import KillSwitch
from bot.execution.gate.rules import check_caps
from tests.unit.execution.gate.decision_contexts import arm, case, make_policy, order, question, trade

EXPOSURE = {"event": "weather", "creator": "bob", "category": "nature"}
GATE = Gate(kill_switch=KillSwitch(stop_file=Path("nowhere/STOP"), ledger_file=Path("nowhere/ledger.sqlite")))

# Each cap with the usage that counts against it.
CAPS = {
    "per_order": None,
    "per_question": "question",
    "per_event": "event",
    "per_creator": "creator",
    "per_category": "category",
    "per_day": "day",
    "total": "total",
}


@pytest.mark.parametrize(("cap", "used"), CAPS.items())
def test_each_cap_bounds_what_an_order_may_cost_and_is_named(cap: str, used: str | None) -> None:
    counted: dict[str, Any] = {} if used is None else {used: 7.0}
    usage = CapUsage(**counted)
    limit = 10.0 if used is None else 17.0
    fits = trade(policy=make_policy(caps={cap: limit}), question=question(**EXPOSURE), cap_usage=usage)
    assert isinstance(GATE.decide(fits), SendDecision)
    decision = GATE.decide(replace(fits, policy=make_policy(caps={cap: limit - 0.01})))
    assert isinstance(decision, HoldDecision)
    assert f"caps.{cap} = {limit - 0.01:g}" in decision.why
    assert decision.until is not None


@pytest.mark.parametrize("cap", ["per_event", "per_creator", "per_category"])
def test_a_group_that_is_not_known_bounds_nothing(cap: str) -> None:
    assert isinstance(GATE.decide(trade(policy=make_policy(caps={cap: 1.0}))), SendDecision)


@pytest.mark.parametrize(
    ("amounts", "usage"),
    [
        ({"per_order": 9.0}, {}),
        ({"per_day": 15.0}, {"day": 6.0}),
        ({"total": 15.0}, {"armed": 6.0}),
    ],
)
def test_the_amounts_of_the_arm_record_bind_live_and_not_on_paper(
    amounts: dict[str, float], usage: dict[str, Any]
) -> None:
    bound = trade(ExecutionMode.LIVE, arm=arm(**amounts), cap_usage=CapUsage(**usage))
    decision = GATE.decide(bound)
    assert isinstance(decision, HoldDecision)
    assert "the arm record's" in decision.why
    assert isinstance(GATE.decide(replace(bound, policy=make_policy())), SendDecision)


def test_what_nothing_bounds_has_no_bound() -> None:
    assert max_order_cost(trade()) == math.inf


def test_an_hour_takes_so_many_and_no_more() -> None:
    busy = make_policy(caps={"orders_per_hour": 3})
    assert isinstance(GATE.decide(case(policy=busy, cap_usage=CapUsage(hour=2))), SendDecision)
    decision = GATE.decide(case(policy=busy, cap_usage=CapUsage(hour=3)))
    assert isinstance(decision, HoldDecision)
    assert decision.why == "caps.orders_per_hour = 3: 3 in the last hour"


def test_a_sale_takes_no_room() -> None:
    sale = order(side=OrderSide.SELL, cost=0.0, edge=0.0, expected=0.99, limit=0.985)
    full = trade(bought=sale, policy=make_policy(caps={"total": 5.0}), cap_usage=CapUsage(total=5.0))
    assert isinstance(GATE.decide(full), SendDecision)


def test_a_venue_that_lost_too_much_is_held_whatever_comes() -> None:
    caps = CapsSection(daily_loss=10.0, drawdown=20.0)
    assert loss_limit_breach(caps, 10.0, 20.0) is None
    assert "caps.daily_loss = 10" in str(loss_limit_breach(caps, 10.5, 0.0))
    assert "caps.drawdown = 20" in str(loss_limit_breach(caps, 0.0, 20.5))
    decision = GATE.decide(trade(policy=make_policy(caps={"daily_loss": 10.0}), cap_usage=CapUsage(lost_today=11.0)))
    assert isinstance(decision, HoldDecision)
    assert "a person must resume lantern" in decision.why


AMOUNTS = st.floats(0.0, 1e6)
USAGES = st.builds(
    CapUsage, **{one.name: AMOUNTS for one in fields(CapUsage) if one.type is float or one.type == "float"}
)


def usable(caps: dict[str, float]) -> dict[str, float]:
    """Return what config takes: no cap of a single order that a wider one makes useless."""
    return caps | {"per_order": min(caps.values())} if "per_order" in caps else caps


@given(
    caps=st.dictionaries(st.sampled_from([*CAPS]), AMOUNTS).map(usable),
    usage=USAGES,
    cost=st.floats(1.0, 1e6),
)
def test_whatever_is_sent_stays_within_every_cap(caps: dict[str, float], usage: CapUsage, cost: float) -> None:
    usage = replace(usage, lost_today=0.0, drawdown=0.0)
    decision = GATE.decide(
        trade(bought=order(cost=cost), policy=make_policy(caps=caps), question=question(**EXPOSURE), cap_usage=usage)
    )
    used = {cap: 0.0 if name is None else getattr(usage, name) for cap, name in CAPS.items()}
    fits = all(used[cap] + cost <= limit + 1e-6 for cap, limit in caps.items())
    if isinstance(decision, SendDecision):
        assert fits
    else:
        assert any(used[cap] + cost > limit - 1e-6 for cap, limit in caps.items())


def test_an_order_cut_to_what_is_left_fits() -> None:
    tight = trade(policy=make_policy(caps={"per_day": 50.0}), cap_usage=CapUsage(day=44.0))
    assert max_order_cost(tight) == pytest.approx(6.0)
    cut = replace(tight, plan=replace(tight.plan, order=order(cost=max_order_cost(tight)))) if tight.plan else tight
    assert check_caps(cut) is None
