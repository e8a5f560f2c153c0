"""A small market for tests of orders: a fake account, a fake planner, and an execution policy with caps."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from bot.config.venue_schema import BankrollSection, CapsSection, TradingSection
from bot.core.orders import (
    Account,
    ContractSide,
    OpenOrder,
    Order,
    OrderPlan,
    OrderSide,
    Position,
    TradeProposal,
    UnpaidOutcome,
)
from bot.core.outcomes import BinaryOutcome, Outcome
from bot.core.permissions import ArmRecord
from bot.core.predictions import BinaryPrediction
from bot.core.submissions import ExecutionMode, SealedRequest, SubmissionBatch
from bot.execution.gate.execution_policy import ExecutionPolicy
from bot.execution.gate.gate import Gate, PreSendCheck
from bot.execution.gate.readiness import LiveReadiness
from bot.execution.outbox.outbox import Outbox
from bot.jobs.comments import CommentContext
from bot.jobs.position_closing import ClosingContext
from bot.jobs.submission import RunStart, SubmitJobContext, submit_due_forecasts
from bot.store import permissions
from bot.testing.venue import FakeSubmitter
from tests.unit.jobs.conftest import FIRST, VENUE, JobsFixture

DIGEST = "the configuration"
# No share of the bankroll bounds anything, and the legs of one event are bets of their own.
UNBOUND = BankrollSection(per_pass=1, per_question=1, per_event=1, per_day=1, total=1, correlation=0)


class FakeTradingAccount(FakeSubmitter):
    """A book that takes orders from one account."""

    def __init__(self, clock: Callable[[], datetime], cash: float = 100.0) -> None:
        super().__init__()
        self.clock = clock
        self.cash = cash
        self.resting: list[OpenOrder] = []
        self.positions: tuple[Position, ...] = ()
        self.fault: Exception | None = None
        self.reads = 0

    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        return [SealedRequest(intent=intent.id, tag=intent.id, body=f"buy {intent.id}") for intent in batch.intents]

    async def account(self) -> Account:
        self.reads += 1
        if self.fault is not None:
            raise self.fault
        return Account(
            at=self.clock(), currency="COIN", cash=self.cash, positions=self.positions, orders=tuple(self.resting)
        )

    async def cancel(self, order_ids: Sequence[str] | None) -> Sequence[str]:
        gone = [order.id for order in self.resting if order_ids is None or order.id in order_ids]
        self.resting = [order for order in self.resting if order.id not in gone]
        return gone

    def payout_per_share(self, position: Position, outcome: Outcome, state: str) -> float | UnpaidOutcome:
        return outcome.value if isinstance(outcome, BinaryOutcome) else UnpaidOutcome.REFUND

    def rest(self, name: str, *, contract: str = "c") -> None:
        self.resting.append(
            OpenOrder(
                id=name,
                contract=contract,
                leg=ContractSide.NO,
                side=OrderSide.BUY,
                limit=0.5,
                shares=1.0,
                reserves=0.5,
            )
        )


@dataclass
class FakeOrderPlanner:
    """Implements Planner: spends ``stake``, or what it may where that is less, at one half a share; or sells.

    It takes the side that the forecast prefers.
    Its venue takes purchases of ``least`` or more. A ``greedy`` one takes no notice of what it may spend; ``meanwhile``
    is what happens while it thinks.
    """

    stake: float = 10.0
    wishes: list[TradeProposal] = field(default_factory=list)
    fault: Exception | None = None
    side: OrderSide = OrderSide.BUY
    edge: float = 0.1
    least: float = 1.0
    greedy: bool = False
    currency: str = "COIN"
    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def plan_order(self, wish: TradeProposal) -> OrderPlan:
        self.wishes.append(wish)
        if self.fault is not None:
            raise self.fault
        if self.meanwhile is not None:
            await self.meanwhile()
        cost = self.stake if self.greedy else min(self.stake, wish.sizing.max_cost)
        if cost < self.least and self.side is OrderSide.BUY:
            return OrderPlan(why=f"{cost:.2f} is not worth an order")
        order = Order(
            contract=wish.question.ref.key,
            leg=_believed_side(wish),
            side=self.side,
            shares=(cost or self.stake) * 2,
            limit=0.5,
            cost=cost if self.side is OrderSide.BUY else 0.0,
            expected=0.5,
            currency=self.currency,
            edge=self.edge,
        )
        return OrderPlan(why="a good price", order=order, market_state='{"ask":0.5}', min_cost=self.least)


def _believed_side(wish: TradeProposal) -> ContractSide:
    """Return the side that the forecast prefers at one half a share."""
    [prediction] = wish.predictions.values()
    is_unlikely = isinstance(prediction, BinaryPrediction) and prediction.probability < 0.5
    return ContractSide.NO if is_unlikely else ContractSide.YES


@dataclass
class TradingFixture:
    """The house with a venue that takes orders."""

    jobs_fixture: JobsFixture
    broker: FakeTradingAccount
    wants: FakeOrderPlanner = field(default_factory=FakeOrderPlanner)
    execution_policy: ExecutionPolicy = field(
        default_factory=lambda: ExecutionPolicy(
            venue=VENUE,
            mode=ExecutionMode.PAPER,
            primary_forecaster=FIRST,
            account="me",
            config_digest=DIGEST,
            bankroll=UNBOUND,
        )
    )
    readiness: LiveReadiness = field(
        default_factory=lambda: LiveReadiness(
            credentials={VENUE: ""}, reconciliation={VENUE: ""}, own_writes={VENUE: ""}, clock="", database="", audit=""
        )
    )

    fee: float = 0.0
    by_event: bool = False
    look: Callable[[], Awaitable[None]] | None = None

    @classmethod
    def of(cls, jobs_fixture: JobsFixture) -> "TradingFixture":
        return cls(jobs_fixture, FakeTradingAccount(jobs_fixture.clock.now))

    def bound(
        self, mode: ExecutionMode = ExecutionMode.PAPER, *, trading: dict[str, Any] | None = None, **caps: Any
    ) -> None:
        self.execution_policy = replace(
            self.execution_policy, mode=mode, caps=CapsSection(**caps), trading=TradingSection(**(trading or {}))
        )

    @property
    def gate(self) -> Gate:
        return Gate(kill_switch=self.jobs_fixture.kill_switch)

    @property
    def outbox(self) -> Outbox:
        jobs_fixture, lanes = self.jobs_fixture, {VENUE: self.execution_policy}
        recheck = PreSendCheck(
            ledger=jobs_fixture.ledger,
            policies=lanes,
            kill_switch=jobs_fixture.kill_switch,
            clock=jobs_fixture.clock,
            readiness=self.readiness,
            trading_venues={VENUE},
        )
        plain = jobs_fixture.outbox(lanes)
        return replace(plain, submitters={VENUE: self.broker}, pre_send_check=recheck)

    async def submit(self, *, flush: bool = True, begin: RunStart | None = None) -> str:
        """Submit and return how many were planned, held and acknowledged."""
        return (await self.told(flush=flush, begin=begin)).partition(";")[0]

    async def told(
        self, *, flush: bool = True, begin: RunStart | None = None, closing: ClosingContext | None = None
    ) -> str:
        outbox = self.outbox if flush else replace(self.outbox, submitters={VENUE: self.broker}, is_batch_ready=_never)

        async def nothing() -> None:
            """Nothing is live."""

        return await submit_due_forecasts(
            SubmitJobContext(
                ledger=self.jobs_fixture.ledger,
                execution_policies={VENUE: self.execution_policy},
                gate=self.gate,
                outbox=outbox,
                clock=self.jobs_fixture.clock,
                planners={VENUE: self.wants},
                readiness=self.readiness,
                refresh_readiness=self.look or nothing,
                run_start=begin or RunStart(is_over=True),
                closing=closing,
                comments=CommentContext(
                    fees={VENUE: self.fee},
                    ledger=self.jobs_fixture.ledger,
                    execution_policies={VENUE: self.execution_policy},
                    clock=self.jobs_fixture.clock,
                    pre_send_check=outbox.pre_send_check,
                    one_per_event=[VENUE] if self.by_event else [],
                ),
            )
        )

    async def forecast(self, *keys: str, **changes: Any) -> None:
        self.jobs_fixture.offer(*keys, **changes)
        await self.jobs_fixture.discover()
        await self.jobs_fixture.forecast()

    async def arm(self, **changes: Any) -> ArmRecord:
        now = self.jobs_fixture.clock.now()
        given: dict[str, Any] = {
            "id": f"arm at {now}",
            "venue": VENUE,
            "account": "me",
            "config": DIGEST,
            "by": "ann",
            "armed_at": now,
            "until": now + timedelta(hours=24),
            "per_order": 20.0,
            "per_day": 50.0,
            "total": 100.0,
        }
        arm = ArmRecord(**(given | changes))
        await self.jobs_fixture.ledger.permissions.write(lambda database: permissions.add_arm_record(database, arm))
        return arm

    def bought(self) -> list[float]:
        return [intent.order.cost for intent in self.broker.writes if intent.order is not None]

    async def whys(self, key: str = "rain") -> list[str]:
        [forecast] = await self.jobs_fixture.history(key)
        return [row.decision.why for row in await self.jobs_fixture.ledger.submissions.decisions(forecast.id)]


async def _never(_row: object, _now: datetime) -> bool:
    return False
