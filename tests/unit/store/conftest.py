"""A ledger on a real file, and the moves that most tests of its tables begin with."""

import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.core.beliefs import Belief, ModelUsage, Step, StepAction, StepObservation
from bot.core.forecasts import Forecast
from bot.core.ids import derive_id
from bot.core.language_models import CostAttribution
from bot.core.orders import ContractSide, Fill, Order, OrderSide
from bot.core.outcomes import BinaryOutcome, Resolution
from bot.core.permissions import ExposureGroups
from bot.core.predictions import BinaryPrediction, BinaryShape, Prediction
from bot.core.questions import CrowdForecast, Question, QuestionRef, Target
from bot.core.submissions import ExecutionMode, Intent, IntentAction, SendDecision
from bot.store.database import open_reader_with
from bot.store.evidence import WITH_DOCUMENTS, evidence_path
from bot.store.evidence_checks import (
    CITATIONS,
    EVIDENCE_INVARIANTS,
    find_lost_citations,
)
from bot.store.forecasts import ForecastStart, RunningForecast
from bot.store.integrity_checks import INVARIANTS
from bot.store.ledger import Ledger
from bot.store.model_calls import CallReservation, CallSettlement
from tests.blank_ledger import open_blank_ledger

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class LedgerFixture:
    """Writes the beginnings of stories into a ledger."""

    ledger: Ledger
    path: Path
    now: datetime = NOON

    def question(self, key: str = "rain", **changes: Any) -> Question:
        question = Question(
            ref=QuestionRef("lantern", key),
            title=f"Will there be {key} in June?",
            shape=BinaryShape(),
            targets=(Target(resolves_at=NOON + timedelta(days=120)),),
            background="The month was dry in most years.",
            batch="2026-03-01",
            source="almanac",
            family="market",
            closes_at=NOON + timedelta(days=30),
            crowd=CrowdForecast(prediction=BinaryPrediction(0.25), at=NOON - timedelta(hours=1)),
        )
        return replace(question, **changes)

    async def ask(self, key: str = "rain", **changes: Any) -> Question:
        question = self.question(key, **changes)
        await self.ledger.questions.record([question], seen_at=self.now)
        return question

    async def begin(self, question: Question, **changes: Any) -> RunningForecast:
        given: dict[str, Any] = {"forecaster": "plain", "cutoff": self.now, "why": "new", "now": self.now}
        return await self.ledger.forecasts.begin(ForecastStart(question=question, **(given | changes)))

    def answer(self, question: Question, running: RunningForecast, probability: float, **changes: Any) -> Forecast:
        predictions = {target.key: BinaryPrediction(probability) for target in question.targets}
        forecast = Forecast(
            id=running.id,
            ref=question.ref,
            version=running.version,
            forecaster="plain",
            revision=running.revision,
            cutoff=running.cutoff,
            made_at=self.now,
            why="new",
            raw=predictions,
            predictions=predictions,
        )
        return replace(forecast, **changes)

    async def forecast(self, question: Question, probability: float = 0.3, **changes: Any) -> Forecast:
        running = await self.begin(question, **changes)
        forecast = self.answer(
            question,
            running,
            probability,
            forecaster=changes.get("forecaster", "plain"),
            made_at=changes.get("now", NOON),
        )
        await self.ledger.forecasts.complete(forecast, next_due=None)
        return forecast

    async def resolve(self, question: Question, value: float, *, days: int = 40, target: str = "outcome") -> Resolution:
        resolution = Resolution(
            ref=question.ref, target=target, outcome=BinaryOutcome(value), resolved_at=NOON + timedelta(days=days)
        )
        await self.ledger.resolutions.record([resolution], seen_at=self.now)
        return resolution

    def send(self, forecast: Forecast) -> SendDecision:
        intent = Intent(
            id=derive_id("intent", forecast.id),
            account="us",
            ref=forecast.ref,
            forecast=forecast.id,
            action=IntentAction.FORECAST,
            predictions=forecast.predictions,
            batch="2026-03-01",
        )
        return SendDecision(intent=intent, mode=ExecutionMode.PAPER, why="paper")

    def order(self, forecast: Forecast, *, cost: float = 10.0, **changes: Any) -> SendDecision:
        """A decision to buy twenty shares of yes for at most that much."""
        bought = Order(
            contract="market 7",
            leg=ContractSide.YES,
            side=OrderSide.BUY,
            shares=20.0,
            limit=0.5,
            cost=cost,
            expected=0.5,
            currency="COIN",
            fees=0.1,
            edge=0.05,
            terms={"tick": 0.01},
        )
        send = self.send(forecast)
        given: dict[str, Any] = {"action": IntentAction.ORDER, "order": bought, "batch": send.intent.id}
        exposure = ExposureGroups(event="June", creator="someone", category="weather")
        return replace(
            send, intent=replace(send.intent, exposure=exposure, **(given | changes)), market_state='{"ask":0.5}'
        )

    def comment(self, intent: Intent) -> SendDecision:
        """A decision to say something about what the intent is about."""
        name = derive_id("intent", intent.forecast, "comment")
        said = replace(
            intent, id=name, batch=name, action=IntentAction.COMMENT, order=None, predictions={}, text="It was dry."
        )
        return SendDecision(intent=said, mode=ExecutionMode.PAPER, why="said beside it")

    def fill(self, reference: str, *, shares: float = 4.0, price: float = 0.5) -> Fill:
        return Fill(reference=reference, at=self.now, shares=shares, price=price, cash=-shares * price)

    def reservation(self, call: str = "call", **changes: Any) -> CallReservation:
        """A call of the worst case 0.05 dollars; changes of the charge are given by name beside the others."""
        charge: dict[str, Any] = {
            "scope": "forecast",
            "ref": "lantern:rain",
            "venue": "lantern",
            "forecaster": "plain",
            "trial": 1,
        }
        charge |= {name: changes.pop(name) for name in list(changes) if name in charge}
        given: dict[str, Any] = {
            "id": call,
            "at": self.now,
            "charge": CostAttribution(**charge),
            "role": "forecaster",
            "provider": "house",
            "model": "small",
            "request": f"request of {call}",
            "worst_usd": 0.05,
        }
        return CallReservation(**(given | changes))

    def settlement(self, cost_usd: float, *, answer: str | None = '{"text":"0.3"}', **changes: Any) -> CallSettlement:
        usage = ModelUsage(calls=1, tokens_in=1000, tokens_cached=600, tokens_out=50, cost_usd=cost_usd)
        given: dict[str, Any] = {"usage": usage, "attempts": 1, "latency_s": 2.0, "answer": answer}
        return CallSettlement(**(given | changes))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Read the file as anyone with plain sqlite3 would."""
        with self._plain_connection() as connection:
            return connection.execute(sql).fetchall()

    @contextmanager
    def _plain_connection(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path)) as connection:
            connection.execute("attach ? as evidence", [str(evidence_path(self.path))])
            yield connection

    def faults(self) -> Mapping[str, list[tuple[Any, ...]]]:
        rules = (*INVARIANTS, *EVIDENCE_INVARIANTS)
        # Each connection reads the schema anew, which takes far longer than the rules.
        with self._plain_connection() as connection:
            found = {rule.name: rows for rule in rules if (rows := connection.execute(rule.sql).fetchall())}
        with closing(open_reader_with(self.path, evidence_path(self.path))) as database:
            lost = [(fault,) for fault in find_lost_citations(database)]
        return found | ({CITATIONS: lost} if lost else {})

    def damage_documents(self, packed: bytes, digest: str | None = None) -> None:
        """Replace the stored content of one document, or of all."""
        chosen = f"{WITH_DOCUMENTS} select bundle from evidence_document where ? is null or digest = ?"  # noqa: S608
        with closing(sqlite3.connect(evidence_path(self.path))) as connection, connection:
            chosen_ids = [bundle for (bundle,) in connection.execute(chosen, [digest, digest]).fetchall()]
            connection.executemany("update bundle set packed = ? where id = ?", [(packed, one) for one in chosen_ids])


def step(probability: float, *, text: str = "looked", target: str = "outcome", documents: tuple[str, ...] = ()) -> Step:
    prediction: Prediction = BinaryPrediction(probability)
    return Step(
        action=StepAction(name="look", arguments={"at": "the sky"}),
        observation=StepObservation(text=text, documents=documents),
        belief=Belief(predictions={target: prediction}, reason=text),
    )


@pytest.fixture
def make_step() -> Any:
    return step


@pytest.fixture
async def ledger_fixture(tmp_path: Path) -> AsyncIterator[LedgerFixture]:
    path = tmp_path / "ledger.sqlite"
    async with open_blank_ledger(path, now=NOON) as ledger:
        ledger_fixture = LedgerFixture(ledger, path)
        yield ledger_fixture
        # Whatever a test did through the ledger, its rules hold.
        assert ledger_fixture.faults() == {}
