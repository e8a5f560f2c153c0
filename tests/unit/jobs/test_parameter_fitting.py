"""What may be known when: fits strictly forward in time, kept, and used again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest

from bot.core.errors import LeakError
from bot.core.learning import FittedParameters, TrainingExample
from bot.core.values import Json
from bot.forecasting.parameter_fitting import (
    MAX_CACHED_CUTOFFS,
    ForecasterTraining,
    ParameterFitter,
    best_parameters,
    examples_known_before,
    fit_parameters,
    utc_day,
)
from bot.testing.clock import START
from tests.unit.jobs.conftest import FIRST, JobsFixture
from tests.unit.testing.correct_venue import LanternArchive

DAY = timedelta(days=1)


@dataclass
class FakeCountingLearner:
    """Learns how many examples there are, and remembers when it was asked."""

    asked: list[datetime] = field(default_factory=list)

    def fit(self, examples: Sequence[TrainingExample], *, before: datetime) -> Mapping[str, Json]:
        self.asked.append(before)
        return {"count": len(examples)}


class FakeLeakingArchive(LanternArchive):
    """An archive that gives everything away at any time."""

    def examples(self, before: datetime) -> Sequence[TrainingExample]:
        return super().examples(before + 99 * DAY)


def shipped(examples: int, before: datetime) -> FittedParameters:
    return FittedParameters(forecaster=FIRST, before=before, examples=examples, payload={"count": examples})


def teacher(jobs_fixture: JobsFixture, school: ForecasterTraining) -> ParameterFitter:
    return ParameterFitter(
        ledger=jobs_fixture.ledger, archives=[LanternArchive()], trainings={FIRST: school}, clock=jobs_fixture.clock
    )


def test_a_fit_says_what_it_was_made_from() -> None:
    # The lantern's two rounds resolve two days after they begin: on the second and third day.
    fitted = fit_parameters(FIRST, FakeCountingLearner(), [LanternArchive()], before=START + 9 * DAY)
    assert (fitted.examples, fitted.payload, fitted.provenance) == (2, {"count": 2}, {"rounds": "1 (lamps to lamps)"})
    assert fit_parameters(FIRST, FakeCountingLearner(), [], before=START).provenance == {"rounds": "none"}


class FakeRestrictedArchive(LanternArchive):
    """An archive of a venue whose terms forbid to learn from the first of its questions."""

    def examples(self, before: datetime) -> Sequence[TrainingExample]:
        first, *others = super().examples(before)
        return [replace(first, question=replace(first.question, allows_training=False)), *others]


def test_nothing_is_fitted_on_questions_whose_terms_forbid_it() -> None:
    assert fit_parameters(FIRST, FakeCountingLearner(), [FakeRestrictedArchive()], before=START + 9 * DAY).payload == {
        "count": 1
    }
    both = fit_parameters(
        FIRST, FakeCountingLearner(), [FakeRestrictedArchive(), LanternArchive()], before=START + 9 * DAY
    )
    assert both.payload == {"count": 3}


def test_an_archive_that_looks_ahead_is_caught() -> None:
    with pytest.raises(LeakError, match="lantern:0 resolved at 2026-01-03"):
        examples_known_before([FakeLeakingArchive()], START + DAY)


@pytest.mark.parametrize(("days", "examples"), [(2, None), (3, 1), (4, 2)])
def test_what_resolved_on_the_day_itself_is_not_known_before_it(days: int, examples: int | None) -> None:
    best = best_parameters(
        FIRST,
        ForecasterTraining(learner=FakeCountingLearner(), shipped_parameters=()),
        [LanternArchive()],
        before=START + days * DAY,
    )
    assert (best.examples if best else None) == examples


def test_of_all_that_may_be_known_the_most_experienced_is_used() -> None:
    packaged = [shipped(1, START), shipped(7, START + 5 * DAY), shipped(99, START + 9 * DAY)]
    school = ForecasterTraining(learner=FakeCountingLearner(), shipped_parameters=packaged)
    at = {days: best_parameters(FIRST, school, [LanternArchive()], before=START + days * DAY) for days in (4, 6, 10)}
    assert {days: best.examples for days, best in at.items() if best} == {4: 2, 6: 7, 10: 99}


def test_who_cannot_learn_here_uses_what_came_with_the_package() -> None:
    packaged = [shipped(7, START)]
    assert (
        best_parameters(
            FIRST, ForecasterTraining(learner=None, shipped_parameters=packaged), [LanternArchive()], before=START
        )
        == packaged[0]
    )
    assert (
        best_parameters(
            FIRST, ForecasterTraining(learner=FakeCountingLearner(), shipped_parameters=packaged), [], before=START
        )
        == packaged[0]
    )


def test_a_day_begins_at_midnight_in_utc() -> None:
    late = datetime.fromisoformat("2026-03-02T01:30:00+02:00")
    assert utc_day(late) == datetime.fromisoformat("2026-03-01T00:00:00+00:00")


async def test_who_learns_nothing_is_not_asked(jobs_fixture: JobsFixture) -> None:
    assert (
        await teacher(jobs_fixture, ForecasterTraining(learner=None, shipped_parameters=())).parameters_for(
            FIRST, START
        )
        is None
    )


async def test_a_fit_serves_all_cutoffs_of_its_day_and_is_recorded_once(jobs_fixture: JobsFixture) -> None:
    learner = FakeCountingLearner()
    asked = teacher(jobs_fixture, ForecasterTraining(learner=learner, shipped_parameters=()))
    morning, evening = START + 9 * DAY + timedelta(hours=1), START + 9 * DAY + timedelta(hours=23)
    first = await asked.parameters_for(FIRST, morning)
    assert first is not None
    assert await asked.parameters_for(FIRST, evening) is first
    assert learner.asked == [START + 9 * DAY]
    assert await jobs_fixture.ledger.learning.get(first.digest) == first.parameters


async def test_a_fit_on_record_for_the_day_is_used_again_by_the_next_process(jobs_fixture: JobsFixture) -> None:
    school = ForecasterTraining(learner=FakeCountingLearner(), shipped_parameters=())
    first = await teacher(jobs_fixture, school).parameters_for(FIRST, START + 9 * DAY)
    learner = FakeCountingLearner()
    assert (
        await teacher(jobs_fixture, ForecasterTraining(learner=learner, shipped_parameters=())).parameters_for(
            FIRST, START + 9 * DAY
        )
        == first
    )
    assert learner.asked == []


async def test_a_fit_on_record_that_saw_as_much_is_kept_in_use(jobs_fixture: JobsFixture) -> None:
    asked = teacher(jobs_fixture, ForecasterTraining(learner=FakeCountingLearner(), shipped_parameters=()))
    first = await asked.parameters_for(FIRST, START + 9 * DAY)
    assert await asked.parameters_for(FIRST, START + 10 * DAY) == first
    assert len(await jobs_fixture.ledger.learning.rows()) == 1


async def test_before_anything_resolved_nothing_is_known(jobs_fixture: JobsFixture) -> None:
    assert (
        await teacher(
            jobs_fixture, ForecasterTraining(learner=FakeCountingLearner(), shipped_parameters=())
        ).parameters_for(FIRST, START)
        is None
    )
    assert await jobs_fixture.ledger.learning.rows() == []


async def test_days_beyond_those_kept_in_memory_are_found_again(jobs_fixture: JobsFixture) -> None:
    learner = FakeCountingLearner()
    asked = teacher(jobs_fixture, ForecasterTraining(learner=learner, shipped_parameters=()))
    for day in range(MAX_CACHED_CUTOFFS + 2):
        await asked.parameters_for(FIRST, START + day * DAY)
    again = await asked.parameters_for(FIRST, START + 3 * DAY)
    assert again is not None
    assert again.parameters.examples == 1
