import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.config.venue_schema import CapsSection
from bot.domain.order import Side
from bot.domain.permission import Usage
from bot.domain.submission import Hold, Mode, Send
from bot.gate.brake import Brake
from bot.gate.caps import breach, most, over_cap
from bot.gate.gate import Gate
from tests.unit.gate.cases import arm, case, lane, order, question, trade

FACTS = {"event": "weather", "creator": "bob", "category": "nature"}
GATE = Gate(brake=Brake(stop_file=Path("nowhere/STOP"), ledger=Path("nowhere/ledger.sqlite")))

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
    usage = Usage(**counted)
    limit = 10.0 if used is None else 17.0
    fits = trade(lane=lane(caps={cap: limit}), question=question(facts=FACTS), usage=usage)
    assert isinstance(GATE.decide(fits), Send)
    decision = GATE.decide(replace(fits, lane=lane(caps={cap: limit - 0.01})))
    assert isinstance(decision, Hold)
    assert f"caps.{cap} = {limit - 0.01:g}" in decision.why
    assert decision.until is not None


@pytest.mark.parametrize("cap", ["per_event", "per_creator", "per_category"])
def test_a_group_that_is_not_known_bounds_nothing(cap: str) -> None:
    assert isinstance(GATE.decide(trade(lane=lane(caps={cap: 1.0}))), Send)


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
    bound = trade(Mode.LIVE, arm=arm(**amounts), usage=Usage(**usage))
    decision = GATE.decide(bound)
    assert isinstance(decision, Hold)
    assert "the arm record's" in decision.why
    assert isinstance(GATE.decide(replace(bound, lane=lane())), Send)


def test_what_nothing_bounds_has_no_bound() -> None:
    assert most(trade()) == math.inf


def test_an_hour_takes_so_many_and_no_more() -> None:
    busy = lane(caps={"orders_per_hour": 3})
    assert isinstance(GATE.decide(case(lane=busy, usage=Usage(hour=2))), Send)
    decision = GATE.decide(case(lane=busy, usage=Usage(hour=3)))
    assert isinstance(decision, Hold)
    assert decision.why == "caps.orders_per_hour = 3: 3 in the last hour"


def test_a_sale_takes_no_room() -> None:
    sale = order(side=Side.SELL, cost=0.0, edge=0.0, expected=0.99, limit=0.985)
    full = trade(bought=sale, lane=lane(caps={"total": 5.0}), usage=Usage(total=5.0))
    assert isinstance(GATE.decide(full), Send)


def test_a_venue_that_lost_too_much_is_held_whatever_comes() -> None:
    caps = CapsSection(daily_loss=10.0, drawdown=20.0)
    assert breach(caps, 10.0, 20.0) is None
    assert "caps.daily_loss = 10" in str(breach(caps, 10.5, 0.0))
    assert "caps.drawdown = 20" in str(breach(caps, 0.0, 20.5))
    decision = GATE.decide(trade(lane=lane(caps={"daily_loss": 10.0}), usage=Usage(lost_today=11.0)))
    assert isinstance(decision, Hold)
    assert "a person must resume lantern" in decision.why


AMOUNTS = st.floats(0.0, 1e6)
USAGES = st.builds(Usage, **{one.name: AMOUNTS for one in fields(Usage) if one.type is float or one.type == "float"})


def usable(caps: dict[str, float]) -> dict[str, float]:
    """Return what config takes: no cap of a single order that a wider one makes useless."""
    return caps | {"per_order": min(caps.values())} if "per_order" in caps else caps


@given(
    caps=st.dictionaries(st.sampled_from([*CAPS]), AMOUNTS).map(usable),
    usage=USAGES,
    cost=st.floats(0.01, 1e6),
)
def test_whatever_is_sent_stays_within_every_cap(caps: dict[str, float], usage: Usage, cost: float) -> None:
    usage = replace(usage, lost_today=0.0, drawdown=0.0)
    decision = GATE.decide(
        trade(bought=order(cost=cost), lane=lane(caps=caps), question=question(facts=FACTS), usage=usage)
    )
    used = {cap: 0.0 if name is None else getattr(usage, name) for cap, name in CAPS.items()}
    fits = all(used[cap] + cost <= limit + 1e-6 for cap, limit in caps.items())
    if isinstance(decision, Send):
        assert fits
    else:
        assert any(used[cap] + cost > limit - 1e-6 for cap, limit in caps.items())


def test_an_order_cut_to_what_is_left_fits() -> None:
    tight = trade(lane=lane(caps={"per_day": 50.0}), usage=Usage(day=44.0))
    assert most(tight) == pytest.approx(6.0)
    cut = replace(tight, plan=replace(tight.plan, order=order(cost=most(tight)))) if tight.plan else tight
    assert over_cap(cut) is None
