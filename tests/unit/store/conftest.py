"""A ledger on a real file, and the moves that most tests of its tables begin with."""

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.domain.belief import Belief
from bot.domain.forecast import Forecast
from bot.domain.inquiry import Charge
from bot.domain.order import Fill, Leg, Order, Side
from bot.domain.permission import Exposure
from bot.domain.prediction import Binary, BinaryShape, Prediction
from bot.domain.question import Crowd, Question, QuestionRef, Target
from bot.domain.resolution import Happened, Resolution
from bot.domain.step import Action, Observation, Step, Usage
from bot.domain.submission import Intent, IntentAction, Mode, Send
from bot.ids import derive_id
from bot.store.calls import Reservation, Settlement
from bot.store.forecasts import Opening, Running
from bot.store.invariants import INVARIANTS
from bot.store.ledger import BALLAST_FILE, Ledger, open_ledger

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Scribe:
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
            crowd=Crowd(prediction=Binary(0.25), at=NOON - timedelta(hours=1)),
        )
        return replace(question, **changes)

    async def ask(self, key: str = "rain", **changes: Any) -> Question:
        question = self.question(key, **changes)
        await self.ledger.questions.record([question], seen_at=self.now)
        return question

    async def begin(self, question: Question, **changes: Any) -> Running:
        given: dict[str, Any] = {"forecaster": "plain", "cutoff": self.now, "why": "new", "now": self.now}
        return await self.ledger.forecasts.begin(Opening(question=question, **(given | changes)))

    def answer(self, question: Question, running: Running, probability: float, **changes: Any) -> Forecast:
        predictions = {target.key: Binary(probability) for target in question.targets}
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
            ref=question.ref, target=target, outcome=Happened(value), resolved_at=NOON + timedelta(days=days)
        )
        await self.ledger.resolutions.record([resolution], seen_at=self.now)
        return resolution

    def send(self, forecast: Forecast) -> Send:
        intent = Intent(
            id=derive_id("intent", forecast.id),
            account="us",
            ref=forecast.ref,
            forecast=forecast.id,
            action=IntentAction.FORECAST,
            predictions=forecast.predictions,
            batch="2026-03-01",
        )
        return Send(intent=intent, mode=Mode.PAPER, why="paper")

    def order(self, forecast: Forecast, *, cost: float = 10.0, **changes: Any) -> Send:
        """A decision to buy twenty shares of yes for at most that much."""
        bought = Order(
            contract="market 7",
            leg=Leg.YES,
            side=Side.BUY,
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
        exposure = Exposure(event="June", creator="someone", category="weather")
        return replace(send, intent=replace(send.intent, exposure=exposure, **(given | changes)), state='{"ask":0.5}')

    def comment(self, intent: Intent) -> Send:
        """A decision to say something about what the intent is about."""
        name = derive_id("intent", intent.forecast, "comment")
        said = replace(
            intent, id=name, batch=name, action=IntentAction.COMMENT, order=None, predictions={}, text="It was dry."
        )
        return Send(intent=said, mode=Mode.PAPER, why="said beside it")

    def fill(self, reference: str, *, shares: float = 4.0, price: float = 0.5) -> Fill:
        return Fill(reference=reference, at=self.now, shares=shares, price=price, cash=-shares * price)

    def reservation(self, call: str = "call", **changes: Any) -> Reservation:
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
            "charge": Charge(**charge),
            "role": "forecaster",
            "provider": "house",
            "model": "small",
            "request": f"request of {call}",
            "worst_usd": 0.05,
        }
        return Reservation(**(given | changes))

    def settlement(self, cost_usd: float, *, answer: str | None = '{"text":"0.3"}', **changes: Any) -> Settlement:
        usage = Usage(calls=1, tokens_in=1000, tokens_cached=600, tokens_out=50, cost_usd=cost_usd)
        given: dict[str, Any] = {"usage": usage, "attempts": 1, "latency_s": 2.0, "answer": answer}
        return Settlement(**(given | changes))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Read the file as anyone with plain sqlite3 would."""
        connection = sqlite3.connect(self.path)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def faults(self) -> Mapping[str, list[tuple[Any, ...]]]:
        return {rule.name: rows for rule in INVARIANTS if (rows := self.rows(rule.sql))}


def step(probability: float, *, text: str = "looked", target: str = "outcome", documents: tuple[str, ...] = ()) -> Step:
    prediction: Prediction = Binary(probability)
    return Step(
        action=Action(name="look", arguments={"at": "the sky"}),
        observation=Observation(text=text, documents=documents),
        belief=Belief(predictions={target: prediction}, reason=text),
    )


@pytest.fixture
def make_step() -> Any:
    return step


@pytest.fixture(scope="session")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an empty ledger, made once: making one takes longer than most tests."""
    folder = tmp_path_factory.mktemp("blank")

    async def make() -> None:
        async with open_ledger(folder / "ledger.sqlite", now=NOON):
            pass

    asyncio.run(make())
    return folder


@pytest.fixture
async def scribe(blank: Path, tmp_path: Path) -> AsyncIterator[Scribe]:
    path = tmp_path / "ledger.sqlite"
    shutil.copy(blank / path.name, path)
    (tmp_path / BALLAST_FILE).hardlink_to(blank / BALLAST_FILE)
    async with open_ledger(path, now=NOON) as ledger:
        scribe = Scribe(ledger, path)
        yield scribe
        # Whatever a test did through the ledger, its rules hold.
        assert scribe.faults() == {}
