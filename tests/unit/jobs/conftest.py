"""All jobs over a real ledger, with a venue, a book, forecasters and a clock that do what the test says."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.clock import SeededRandom
from bot.config.venue_schema import ChooseTable
from bot.desk.combine import Pool
from bot.desk.peers import PeerBenches
from bot.domain.forecast import Forecast, Limits
from bot.domain.prediction import Binary, BinaryShape
from bot.domain.question import Crowd, Question, QuestionRef, Target
from bot.domain.resolution import Happened, Resolution
from bot.domain.submission import Mode
from bot.gate.brake import Brake
from bot.gate.gate import Gate, Lane
from bot.jobs.calibrate import Calibrator, Identity
from bot.jobs.discover import Discovery, discover
from bot.jobs.forecast import Forecasting, forecast_due
from bot.jobs.learn import School, Teacher
from bot.jobs.policy import Reforecast
from bot.jobs.reconcile import reconcile
from bot.jobs.resolve import Resolving, resolve
from bot.jobs.score import Scoring, score
from bot.jobs.sitting import Means, Seat
from bot.jobs.spending import Spending
from bot.jobs.submit import BatchWait, Submitting, submit_due
from bot.outbox.outbox import Outbox
from bot.ports import Forecaster
from bot.store.ledger import Ledger, open_ledger
from bot.testing.book import MemoryBook
from bot.testing.clock import FakeClock
from bot.testing.forecaster import ScriptedForecaster, say
from bot.testing.venue import MemoryVenue

VENUE = "lantern"
FIRST, SECOND = "first", "second"


def question(key: str = "rain", *, now: datetime, price: float | None = 0.4, **changes: Any) -> Question:
    given: dict[str, Any] = {
        "ref": QuestionRef(VENUE, key),
        "title": f"Will there be {key}?",
        "shape": BinaryShape(),
        "targets": (Target(),),
        "closes_at": now + timedelta(days=10),
        "family": "market",
        "source": "almanac",
        "crowd": None if price is None else Crowd(prediction=Binary(price), at=now),
    }
    return Question(**(given | changes))


def outcome(key: str, value: float, *, at: datetime) -> Resolution:
    return Resolution(ref=QuestionRef(VENUE, key), target="outcome", outcome=Happened(value), resolved_at=at)


@dataclass
class House:
    ledger: Ledger
    path: Path
    clock: FakeClock = field(default_factory=FakeClock)
    venue: MemoryVenue = field(default_factory=MemoryVenue)
    book: MemoryBook = field(default_factory=MemoryBook)
    forecasters: dict[str, Forecaster] = field(
        default_factory=lambda: {FIRST: ScriptedForecaster(say(0.3)), SECOND: ScriptedForecaster(say(0.6))}
    )
    members: dict[str, tuple[str, ...]] = field(default_factory=dict)
    fits: Callable[[str, Question], bool] = lambda _name, _question: True
    choose: tuple[ChooseTable, ...] = ()
    asks: bool = False
    spending: Spending = field(default_factory=Spending)
    trials: int = 1
    changes: Mapping[str, Any] = field(default_factory=dict)
    concurrency: int = 4
    mode: Mode = Mode.PAPER
    policy: Reforecast = field(default_factory=Reforecast)
    calibrator: Calibrator = field(default_factory=Identity)
    stop: Callable[[], bool] = lambda: False
    owner: str = "run 1"
    surveyed: set[str] = field(default_factory=set)

    async def discover(self, forecasters: Sequence[str] = (FIRST,)) -> str:
        return await discover(
            Discovery(
                name=VENUE,
                venue=self.venue,
                forecasters=forecasters,
                ledger=self.ledger,
                clock=self.clock,
                policy=self.policy,
                fits=self.fits,
                surveyed=self.surveyed,
            )
        )

    @property
    def seats(self) -> dict[str, Seat]:
        return {
            name: Seat(
                name=name,
                forecaster=one,
                trials=self.trials,
                pool=Pool.MEAN,
                limits=Limits(),
                asks=self.asks,
                members=self.members.get(name, ()),
                **self.changes,
            )
            for name, one in self.forecasters.items()
        }

    async def forecast(self) -> str:
        seats = self.seats
        schools: Mapping[str, School] = {name: School(learner=None, shipped=()) for name in seats}
        return await forecast_due(
            Forecasting(
                means=Means(
                    ledger=self.ledger,
                    teacher=Teacher(ledger=self.ledger, archives=(), schools=schools, clock=self.clock),
                    calibrator=self.calibrator,
                    policy=self.policy,
                    clock=self.clock,
                    random=SeededRandom(1),
                    peers=PeerBenches(self.ledger, self.clock),
                ),
                seats=seats,
                spending=self.spending,
                owner=self.owner,
                lease=timedelta(minutes=15),
                concurrency=self.concurrency,
                patience_s=60.0,
                stopping=self.stop,
            )
        )

    async def submit(self) -> str:
        lanes = {VENUE: Lane(venue=VENUE, mode=self.mode, primary=FIRST, account="me", choose=self.choose)}
        gate = Gate(brake=self.brake)
        done = await submit_due(
            Submitting(ledger=self.ledger, lanes=lanes, gate=gate, outbox=self.outbox(lanes), clock=self.clock)
        )
        # What waits, and why, is told behind it.
        return done.partition(";")[0]

    def outbox(self, lanes: Mapping[str, Lane]) -> Outbox:
        ready = BatchWait(ledger=self.ledger, lanes=lanes, surveyed=self.surveyed)
        return Outbox(
            ledger=self.ledger, submitters={VENUE: self.book}, clock=self.clock, brake=self.brake, ready=ready
        )

    @property
    def brake(self) -> Brake:
        return Brake(stop_file=self.path / "STOP", ledger=self.path / "ledger.sqlite")

    async def reconcile(self) -> str:
        return await reconcile(self.outbox({}))

    async def resolve(self) -> str:
        return await resolve(Resolving(name=VENUE, venue=self.venue, ledger=self.ledger, clock=self.clock))

    async def score(self) -> str:
        return await score(Scoring(ledger=self.ledger, clock=self.clock))

    async def history(self, key: str = "rain") -> list[Forecast]:
        return await self.ledger.forecasts.history(QuestionRef(VENUE, key))

    def offer(self, *keys: str, **changes: Any) -> None:
        self.venue.offer(*(question(key, now=self.clock.now(), **changes) for key in keys))


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    clock = FakeClock()
    async with open_ledger(tmp_path / "ledger.sqlite", now=clock.now()) as ledger:
        yield House(ledger=ledger, path=tmp_path, clock=clock)
