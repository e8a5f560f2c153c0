"""Whatever happens to a paper book: no share and no coin appears or vanishes, and nothing is spent twice."""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bot.core.orders import ContractSide, OrderSide
from bot.core.outcomes import VoidOutcome
from bot.core.submissions import IntentState
from bot.testing.paper_market import WITHDRAWN_REASON, FakePaperMarket
from tests.unit.execution.paper.paper_book_fixture import (
    PaperBookFixture,
    moved,
    open_paper_book_fixture,
    order,
    outcome,
)

T = TypeVar("T")

KEYS = ("rain", "snow")
PRICES = st.integers(5, 95).map(lambda cents: cents / 100)
OUTCOMES = st.one_of(
    st.sampled_from([0.0, 1.0]), PRICES, st.sampled_from([VoidOutcome("off"), VoidOutcome(WITHDRAWN_REASON)])
)


class Trading(RuleBasedStateMachine):
    """Beside the book it keeps the one figure that any account could keep: cash by what the receipts say."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.stack = AsyncExitStack()
        self.folder = TemporaryDirectory()
        self.market = FakePaperMarket(
            prices=dict.fromkeys(KEYS, 0.5), size=7.0, resting_time=timedelta(minutes=30), fee=0.013
        )
        self.number = 0
        self.settled = False
        self.sent: dict[str, tuple[str, ContractSide, OrderSide]] = {}

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    @initialize(redeems=st.booleans(), pays=st.booleans())
    def begin(self, redeems: bool, pays: bool) -> None:  # noqa: FBT001 - drawn by name
        self.redeems, self.pays = redeems, pays
        self.open()

    def open(self) -> None:
        opening = open_paper_book_fixture(Path(self.folder.name), self.market, redeems=self.redeems)
        self.paper: PaperBookFixture = self.run(self.stack.enter_async_context(opening))

    @rule(
        key=st.sampled_from(KEYS),
        leg=st.sampled_from(ContractSide),
        side=st.sampled_from(OrderSide),
        shares=st.floats(0.01, 60.0),
        limit=PRICES,
    )
    def send(self, key: str, leg: ContractSide, side: OrderSide, shares: float, limit: float) -> None:
        self.number += 1
        cost = {} if side is OrderSide.SELL else {"cost": shares * (limit + 0.013)}
        wanted = order(shares, limit, contract=key, leg=leg, side=side, **cost)
        before = self.run(self.paper.cash())
        receipt = self.run(self.paper.send(f"order {self.number}", wanted, key))
        self.sent[f"order {self.number}"] = (key, leg, side)
        if side is OrderSide.BUY:
            assert -moved(receipt.fills) <= cost["cost"] + 1e-6
        if receipt.state is not IntentState.ACKED:
            assert self.run(self.paper.cash()) == before

    @rule(key=st.sampled_from(KEYS), price=PRICES)
    def move(self, key: str, price: float) -> None:
        self.market.prices[key] = price

    @rule(seconds=st.integers(1, 1200))
    def wait(self, seconds: int) -> None:
        self.run(self.paper.clock.advance(seconds))

    @rule()
    def advance(self) -> None:
        self.run(self.paper.book.advance())

    @rule()
    def cancel(self) -> None:
        self.run(self.paper.book.cancel(None))

    @precondition(lambda self: self.pays)
    @rule(key=st.sampled_from(KEYS), what=OUTCOMES)
    def settle(self, key: str, what: float | VoidOutcome) -> None:
        self.settled = True
        self.run(self.paper.book.settle([outcome(what, key)]))
        again = self.run(self.paper.book.account())
        assert self.run(self.paper.book.settle([outcome(what, key)])) == 0
        assert self.run(self.paper.book.account()) == again

    @precondition(lambda self: self.number > 0)
    @rule()
    def reopen(self) -> None:
        before = self.run(self.paper.book.account())
        now = self.paper.clock.now()
        self.run(self.stack.aclose())
        self.open()
        self.paper.clock.set_wall_clock((now - self.paper.clock.now()).total_seconds())
        assert self.run(self.paper.book.account()) == before

    @invariant()
    def agrees(self) -> None:
        if self.number == 0:
            return
        assert self.run(self.paper.faults()) == []
        account = self.run(self.paper.book.account())
        assert all(position.shares > 0 for position in account.positions)
        if not self.settled:
            assert account.cash >= 0.0

    def conserves(self) -> None:
        """By the receipts of all orders: what is not held any more of one side went out in pairs, at 1 a pair."""
        bought: Counter[tuple[str, ContractSide]] = Counter()
        cash = 100.0
        self.run(self.paper.book.cancel(None))
        for name, (key, leg, side) in self.sent.items():
            for fill in self.run(self.paper.stands(name, key)).fills:
                bought[key, leg] += round(fill.shares * 1e6) * (1 if side is OrderSide.BUY else -1)
                cash += fill.cash
        account = self.run(self.paper.book.account())
        held = {(one.contract, one.leg): round(one.shares * 1e6) for one in account.positions}
        for key in KEYS:
            gone = {bought[key, leg] - held.get((key, leg), 0) for leg in ContractSide}
            assert len(gone) == 1
            assert self.redeems or gone == {0}
            cash += gone.pop() / 1e6
        assert abs(account.cash - cash) < 1e-7

    def teardown(self) -> None:
        if self.number and not self.settled:
            self.conserves()
        self.run(self.stack.aclose())
        self.loop.close()
        self.folder.cleanup()


Trading.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    # Each step is real writes: to shrink what failed would take longer than to read it.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
TestTrading = Trading.TestCase
