"""Whatever happens, in whatever order, and wherever the process dies: at most one effect an intent, and none unknown.

The exchange places what it is sent as often as it is sent, loses requests and replies, and lets effects come late, as
late as a request lives.
"""

import contextlib

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bot.core.errors import StoreError
from bot.core.submissions import IntentState
from bot.store.integrity_checks import INVARIANTS
from bot.store.submissions import OutcomeAdoption
from bot.testing.exchange import WriteFailure
from tests.unit.execution.outbox.outbox_simulation import AT_STAKE, CAP, KEYS, REVISIONS, OutboxSimulation

# It takes ten seconds alone, and more than the usual limit where three workers share two slow processors.
pytestmark = pytest.mark.timeout(120)
RULES = [
    one
    for one in INVARIANTS
    if one.name.startswith(
        ("intent_", "sent_", "attempt", "one_open", "decided_", "order_", "request_", "tag_", "fill_")
    )
]
# A request lives 30 s, readings are at most 15 s old, and what no reading settles is parked an hour later.
LIFE_S, CACHE_S = 30.0, 15.0
MAYBE_THERE = {IntentState.SENDING, IntentState.UNKNOWN, IntentState.ACKED, IntentState.IN_DOUBT}
# Two moments to die at belong to each commit, and two to each write at the exchange.
DEATHS = st.none() | st.none() | st.integers(min_value=0, max_value=12)


COSTS = st.sampled_from([5.0, 20.0, 45.0, 80.0])
FAILURES = st.lists(st.sampled_from([*WriteFailure, WriteFailure.LATE, WriteFailure.REQUEST_LOST]), max_size=3)


class OutboxMachine(RuleBasedStateMachine):
    """The outbox between a gate and an exchange."""

    def __init__(self) -> None:
        super().__init__()
        self.world = OutboxSimulation()
        self.known: set[str] = set()

    def teardown(self) -> None:
        world = self.world
        try:
            world.kill_switch.stop_file.unlink(missing_ok=True)
            for _ in range(3):
                world.clock.advance_without_waking(LIFE_S + CACHE_S)
                world.exchange.stale_s = 0.0
                world.run(world.outbox.reconcile())
            self.all_is_known_and_nothing_is_doubled()
            settled = {IntentState.ACKED, IntentState.REFUSED, IntentState.SUPERSEDED, IntentState.IN_DOUBT}
            assert set(world.states().values()) <= settled | {IntentState.PLANNED}
            once = world.snapshot()
            assert world.run(world.outbox.reconcile()) == 0
            assert world.snapshot() == once
        finally:
            world.close()

    @rule(costs=st.tuples(COSTS, COSTS, COSTS), failures=FAILURES, late_s=st.floats(0.0, LIFE_S), after=DEATHS)
    def decide_and_send(
        self, costs: tuple[float, float, float], failures: list[WriteFailure], late_s: float, after: int | None
    ) -> None:
        for key, cost in zip(KEYS, costs, strict=True):
            self.world.run(self.world.decide(key, cost))
        self.send(failures, late_s, after)

    @rule(key=st.sampled_from(KEYS), cost=COSTS, after=DEATHS)
    def decide(self, key: str, cost: float, after: int | None) -> None:
        self.world.survive(lambda: self.world.decide(key, cost), after)

    @rule(key=st.sampled_from(KEYS))
    def forecast_anew(self, key: str) -> None:
        self.world.revision[key] = min(self.world.revision[key] + 1, REVISIONS)

    @rule(failures=FAILURES, late_s=st.floats(0.0, LIFE_S), after=DEATHS)
    def send(self, failures: list[WriteFailure], late_s: float, after: int | None) -> None:
        self.world.exchange.next_failures, self.world.exchange.late_s = list(failures), late_s
        self.world.survive(lambda: self.world.outbox.flush(), after)  # noqa: PLW0108 - the outbox changes
        self.world.exchange.next_failures = []

    @rule(seconds=st.floats(0.0, LIFE_S), stale_s=st.floats(0.0, CACHE_S), after=DEATHS)
    def reconcile(self, seconds: float, stale_s: float, after: int | None) -> None:
        self.world.clock.advance_without_waking(seconds)
        self.world.exchange.stale_s = stale_s
        self.world.survive(lambda: self.world.outbox.reconcile(), after)  # noqa: PLW0108 - as above

    @rule(stale_s=st.floats(0.0, CACHE_S))
    def reconcile_twice(self, stale_s: float) -> None:
        self.world.exchange.stale_s = stale_s
        self.world.run(self.world.outbox.reconcile())
        once = self.world.snapshot()
        assert self.world.run(self.world.outbox.reconcile()) == 0
        assert self.world.snapshot() == once

    @rule(seconds=st.sampled_from([0.5, 10.0, 29.0, 31.0, 44.9, 46.0, 400.0, 4000.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.clock.advance_without_waking(seconds)

    @rule(portion=st.sampled_from([0.3, 1.0]), then=st.sampled_from([0.0, 0.25, 1.0]))
    def others_trade(self, portion: float, then: float) -> None:
        self.world.exchange.fill_resting(portion)
        self.world.exchange.fill_share = then

    @rule()
    def brake(self) -> None:
        stop = self.world.kill_switch.stop_file
        if stop.exists():
            stop.unlink()
        else:
            stop.touch()

    @rule()
    def a_person_looks(self) -> None:
        """Say what is so of whatever is in doubt; of what may still come the ledger does not take an absence."""
        there = {placed.intent for placed in self.world.exchange.placed_orders}
        for name, state in self.world.states().items():
            if state in {IntentState.UNKNOWN, IntentState.IN_DOUBT}:
                said = IntentState.ACKED if name in there else IntentState.ABSENT
                with contextlib.suppress(StoreError):
                    self.world.run(self.world.outbox.adopt(OutcomeAdoption(intent=name, state=said, by="ann")))

    @invariant()
    def all_is_known_and_nothing_is_doubled(self) -> None:
        world, states = self.world, self.world.states()
        assert world.exchange.doubled_intents() == []
        assert self.known <= states.keys()
        self.known = set(states)
        for placed in world.exchange.placed_orders:
            assert states[placed.intent] in MAYBE_THERE

    @invariant()
    def no_more_is_at_stake_than_the_cap_and_all_of_it_is_counted(self) -> None:
        [(counted,)] = self.world.rows(AT_STAKE)
        costs = dict(self.world.rows("select id, cost from intent"))
        names = {placed.intent for placed in self.world.exchange.placed_orders}
        exposed = {name: self.world.exchange.exposure_of(name) for name in names}
        assert counted <= CAP + 1e-6
        assert all(amount <= costs[name] + 1e-6 for name, amount in exposed.items())

    @invariant()
    def the_rules_of_the_ledger_hold(self) -> None:
        assert {one.name: rows for one in RULES if (rows := self.world.rows(one.sql))} == {}


TestOutbox = OutboxMachine.TestCase
TestOutbox.settings = settings(
    max_examples=150, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
