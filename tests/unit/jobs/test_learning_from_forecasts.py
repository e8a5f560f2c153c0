"""Learning from what forecasters said themselves: strictly forward in time, and on record."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest

from bot.core.errors import LeakError
from bot.core.interfaces import ParameterLearner
from bot.core.learning import ResolvedForecast, TrainingExample
from bot.core.outcomes import VoidOutcome
from bot.core.values import Json
from bot.forecasting.parameter_fitting import ForecasterTraining, ParameterFitter, best_parameters, fit_parameters
from bot.testing.clock import START
from tests.unit.jobs.conftest import FIRST, SECOND, JobsFixture, outcome, question
from tests.unit.testing.correct_venue import LanternArchive

DAY = timedelta(days=1)


@dataclass
class FakeHistoryLearner:
    """Learns the names of what it is shown."""

    other_forecasters: Collection[str] = ()
    shown: list[str] = field(default_factory=list)

    def fit(self, examples: Sequence[TrainingExample], *, before: datetime) -> Mapping[str, Json]:
        return {"examples": len(examples)}

    def fit_history(self, pasts: Sequence[ResolvedForecast], *, before: datetime) -> Mapping[str, Json]:
        return {"pasts": [f"{past.forecaster} on {past.question.ref.key}" for past in pasts]}


class FakeExampleLearner:
    """Learns from examples alone."""

    def fit(self, examples: Sequence[TrainingExample], *, before: datetime) -> Mapping[str, Json]:
        return {"examples": len(examples)}


async def told(jobs_fixture: JobsFixture) -> None:
    """Two forecasters on two questions, one of which resolves on the second day."""
    jobs_fixture.venue.add_questions(*[question(key, now=START) for key in ("rain", "snow")])
    await jobs_fixture.discover((FIRST, SECOND))
    await jobs_fixture.forecast()
    await jobs_fixture.ledger.resolutions.record([outcome("rain", 1.0, at=START + DAY)], seen_at=START + DAY)


def teacher(jobs_fixture: JobsFixture, learner: ParameterLearner, **more: LanternArchive) -> ParameterFitter:
    school = ForecasterTraining(learner=learner, shipped_parameters=())
    return ParameterFitter(
        ledger=jobs_fixture.ledger, archives=[*more.values()], trainings={FIRST: school}, clock=jobs_fixture.clock
    )


async def test_a_historian_sees_its_own_past_from_the_day_after_the_outcome(jobs_fixture: JobsFixture) -> None:
    await told(jobs_fixture)
    asked = teacher(jobs_fixture, FakeHistoryLearner())
    assert await asked.parameters_for(FIRST, START + DAY + timedelta(hours=1)) is None
    known = await asked.parameters_for(FIRST, START + 2 * DAY)
    assert known is not None
    assert known.parameters.payload == {"examples": 0, "pasts": ["first on rain"]}
    assert known.parameters.examples == 1
    assert known.parameters.provenance["forecasts"] == "1, by first"
    assert await jobs_fixture.ledger.learning.get(known.digest) == known.parameters


async def test_a_historian_may_ask_for_the_past_of_others(jobs_fixture: JobsFixture) -> None:
    await told(jobs_fixture)
    known = await teacher(
        jobs_fixture, FakeHistoryLearner(other_forecasters=[SECOND]), lantern=LanternArchive()
    ).parameters_for(FIRST, START + 9 * DAY)
    assert known is not None
    assert known.parameters.payload == {"examples": 2, "pasts": ["first on rain", "second on rain"]}
    assert known.parameters.examples == 4


async def test_who_is_no_historian_is_shown_no_past(jobs_fixture: JobsFixture) -> None:
    await told(jobs_fixture)
    known = await teacher(jobs_fixture, FakeExampleLearner(), lantern=LanternArchive()).parameters_for(
        FIRST, START + 9 * DAY
    )
    assert known is not None
    assert (known.parameters.payload, known.parameters.examples) == ({"examples": 2}, 2)


async def test_a_past_that_was_not_over_is_a_leak(jobs_fixture: JobsFixture) -> None:
    await told(jobs_fixture)
    (past,) = await jobs_fixture.ledger.learning.read_resolved_forecasts([FIRST], START + 2 * DAY)
    late = replace(past, cutoff=START + 3 * DAY)
    for one, before in ((past, START + DAY), (late, START + 2 * DAY)):
        with pytest.raises(LeakError, match="was not over before"):
            fit_parameters(FIRST, FakeHistoryLearner(), [], before=before, pasts=[one])
    school = ForecasterTraining(learner=FakeHistoryLearner(), shipped_parameters=())
    best = best_parameters(FIRST, school, [], before=START + 2 * DAY, pasts=[past])
    assert best is not None
    assert best.payload["pasts"] == ["first on rain"]


async def test_an_outcome_that_was_undone_is_unlearned_the_next_day_though_fewer_are_known_then(
    jobs_fixture: JobsFixture,
) -> None:
    await told(jobs_fixture)
    await jobs_fixture.ledger.resolutions.record([outcome("snow", 0.0, at=START + DAY)], seen_at=START + DAY)
    asked = teacher(jobs_fixture, FakeHistoryLearner())
    before = await asked.parameters_for(FIRST, START + 2 * DAY)
    undone = replace(outcome("rain", 1.0, at=START + DAY), outcome=VoidOutcome("undone"))
    await jobs_fixture.ledger.resolutions.record([undone], seen_at=START + 2 * DAY)
    after = await asked.parameters_for(FIRST, START + 3 * DAY)
    assert before is not None
    assert after is not None
    assert before.parameters.payload["pasts"] == ["first on rain", "first on snow"]
    assert (after.parameters.payload["pasts"], after.parameters.before) == (["first on snow"], START + 3 * DAY)


async def test_a_start_on_the_same_day_knows_the_same_whatever_resolved_since(jobs_fixture: JobsFixture) -> None:
    await told(jobs_fixture)
    at = START + 2 * DAY + timedelta(hours=5)
    first = await teacher(jobs_fixture, FakeHistoryLearner()).parameters_for(FIRST, at)
    await jobs_fixture.ledger.resolutions.record([outcome("snow", 0.0, at=START + DAY)], seen_at=at)
    assert await teacher(jobs_fixture, FakeHistoryLearner()).parameters_for(FIRST, at) == first
