"""All jobs over a real ledger, with a venue, a book, forecasters and a clock that do what the test says."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.config.venue_schema import ChooseTable
from bot.core.clock import SeededRandom
from bot.core.forecasts import Forecast, TrialLimits
from bot.core.interfaces import Forecaster, VenueReader
from bot.core.outcomes import BinaryOutcome, Resolution
from bot.core.predictions import BinaryPrediction, BinaryShape
from bot.core.questions import CrowdForecast, Question, QuestionRef, Target
from bot.core.submissions import ExecutionMode
from bot.execution.gate.gate import ExecutionPolicy, Gate
from bot.execution.gate.kill_switch import KillSwitch
from bot.execution.outbox.outbox import Outbox
from bot.forecasting.aggregation import PoolingMethod
from bot.forecasting.calibration import IdentityCalibrator, PredictionCalibrator
from bot.forecasting.cost_check import CostCheck
from bot.forecasting.forecast_run import ConfiguredForecaster, ForecastContext
from bot.forecasting.parameter_fitting import ForecasterTraining, ParameterFitter
from bot.forecasting.peers import PeerToolFactory
from bot.forecasting.question_admission import ModelLoad, QuestionAdmission
from bot.forecasting.reforecast_policy import ReforecastPolicy
from bot.jobs.discovery import DiscoveryContext, discover_questions
from bot.jobs.forecast import ForecastJobContext, RequestedForecasts, forecast_due_questions
from bot.jobs.reconciliation import reconcile_submissions
from bot.jobs.resolution import ResolutionContext, ScoringContext, resolve_questions, score_forecasts
from bot.jobs.submission import BatchWait, SubmitJobContext, submit_due_forecasts
from bot.store.ledger import Ledger
from bot.testing.clock import FakeClock
from bot.testing.forecaster import ScriptedForecaster, believe_yes
from bot.testing.venue import FakeSubmitter, FakeVenueReader
from tests.blank_ledger import open_blank_ledger

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
        "crowd": None if price is None else CrowdForecast(prediction=BinaryPrediction(price), at=now),
    }
    return Question(**(given | changes))


def outcome(key: str, value: float, *, at: datetime) -> Resolution:
    return Resolution(ref=QuestionRef(VENUE, key), target="outcome", outcome=BinaryOutcome(value), resolved_at=at)


@dataclass
class JobsFixture:
    ledger: Ledger
    path: Path
    clock: FakeClock = field(default_factory=FakeClock)
    venue: FakeVenueReader = field(default_factory=FakeVenueReader)
    reader: VenueReader | None = None
    book: FakeSubmitter = field(default_factory=FakeSubmitter)
    forecasters: dict[str, Forecaster] = field(
        default_factory=lambda: {
            FIRST: ScriptedForecaster(believe_yes(0.3)),
            SECOND: ScriptedForecaster(believe_yes(0.6)),
        }
    )
    members: dict[str, tuple[str, ...]] = field(default_factory=dict)
    fits: Callable[[str, Question], bool] = lambda _name, _question: True
    choose: tuple[ChooseTable, ...] = ()
    asks: bool = False
    spending: CostCheck = field(default_factory=CostCheck)
    trials: int = 1
    changes: Mapping[str, Any] = field(default_factory=dict)
    concurrency: int | None = 4
    load: ModelLoad | None = None
    requested: RequestedForecasts = field(default_factory=RequestedForecasts)
    mode: ExecutionMode = ExecutionMode.PAPER
    policy: ReforecastPolicy = field(default_factory=ReforecastPolicy)
    calibrator: PredictionCalibrator = field(default_factory=IdentityCalibrator)
    stop: Callable[[], bool] = lambda: False
    owner: str = "run 1"
    limits: TrialLimits = field(default_factory=TrialLimits)
    lease: timedelta = timedelta(minutes=15)
    surveyed: set[str] = field(default_factory=set)
    listed: dict[str, set[QuestionRef]] = field(default_factory=dict)

    async def discover(self, forecasters: Sequence[str] = (FIRST,)) -> str:
        return await discover_questions(
            DiscoveryContext(
                venue_name=VENUE,
                venue=self.reader or self.venue,
                forecasters=forecasters,
                ledger=self.ledger,
                clock=self.clock,
                policy=self.policy,
                fits=self.fits,
                discovered_venues=self.surveyed,
                listed_questions=self.listed,
            )
        )

    @property
    def configured_forecasters(self) -> dict[str, ConfiguredForecaster]:
        return {
            name: ConfiguredForecaster(
                name=name,
                implementation=one,
                trials=self.trials,
                pool=PoolingMethod.MEAN,
                limits=self.limits,
                uses_models=self.asks,
                members=self.members.get(name, ()),
                **self.changes,
            )
            for name, one in self.forecasters.items()
        }

    async def forecast(self) -> str:
        configured_forecasters = self.configured_forecasters
        schools: Mapping[str, ForecasterTraining] = {
            name: ForecasterTraining(learner=None, shipped_parameters=()) for name in configured_forecasters
        }
        return await forecast_due_questions(
            ForecastJobContext(
                context=ForecastContext(
                    ledger=self.ledger,
                    parameter_fitter=ParameterFitter(
                        ledger=self.ledger, archives=(), trainings=schools, clock=self.clock
                    ),
                    calibrator=self.calibrator,
                    policy=self.policy,
                    clock=self.clock,
                    random=SeededRandom(1),
                    peer_resources=PeerToolFactory(self.ledger, self.clock),
                ),
                forecasters=configured_forecasters,
                cost_check=self.spending,
                owner=self.owner,
                lease=self.lease,
                admission=QuestionAdmission(clock=self.clock, load=self.load, most=self.concurrency),
                pass_limit_s=60.0,
                is_stopping=self.stop,
                requested=self.requested,
                readers={VENUE: self.reader or self.venue},
                listed_questions=self.listed,
            )
        )

    async def submit(self) -> str:
        lanes = {
            VENUE: ExecutionPolicy(
                venue=VENUE, mode=self.mode, primary_forecaster=FIRST, account="me", choose=self.choose
            )
        }
        gate = Gate(kill_switch=self.kill_switch)
        done = await submit_due_forecasts(
            SubmitJobContext(
                ledger=self.ledger, execution_policies=lanes, gate=gate, outbox=self.outbox(lanes), clock=self.clock
            )
        )
        # What waits, and why, is told behind it.
        return done.partition(";")[0]

    def outbox(self, lanes: Mapping[str, ExecutionPolicy]) -> Outbox:
        ready = BatchWait(ledger=self.ledger, execution_policies=lanes, discovered_venues=self.surveyed)
        return Outbox(
            ledger=self.ledger,
            submitters={VENUE: self.book},
            clock=self.clock,
            kill_switch=self.kill_switch,
            is_batch_ready=ready,
        )

    @property
    def kill_switch(self) -> KillSwitch:
        return KillSwitch(stop_file=self.path / "STOP", ledger_file=self.path / "ledger.sqlite")

    async def reconcile(self) -> str:
        return await reconcile_submissions(self.outbox({}))

    async def resolve(self) -> str:
        return await resolve_questions(
            ResolutionContext(venue_name=VENUE, venue=self.reader or self.venue, ledger=self.ledger, clock=self.clock)
        )

    async def score(self) -> str:
        return await score_forecasts(ScoringContext(ledger=self.ledger, clock=self.clock))

    async def history(self, key: str = "rain") -> list[Forecast]:
        return await self.ledger.forecasts.history(QuestionRef(VENUE, key))

    def offer(self, *keys: str, **changes: Any) -> None:
        self.venue.add_questions(*(question(key, now=self.clock.now(), **changes) for key in keys))


@pytest.fixture
async def jobs_fixture(tmp_path: Path) -> AsyncIterator[JobsFixture]:
    clock = FakeClock()
    async with open_blank_ledger(tmp_path / "ledger.sqlite", now=clock.now()) as ledger:
        yield JobsFixture(ledger=ledger, path=tmp_path, clock=clock)
