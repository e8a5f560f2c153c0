"""What a reader gets wrong most often, naive times and percents, is reported with its question and its field."""

from collections.abc import AsyncIterator, Callable, Collection
from datetime import timedelta
from typing import Any

import pytest

from bot.core.errors import MalformedDataError
from bot.core.outcomes import BinaryOutcome, Resolution
from bot.core.predictions import BinaryPrediction
from bot.core.questions import CrowdForecast, Question, QuestionRef, Target
from tests.unit.jobs.conftest import VENUE, JobsFixture, question

PERCENT: Any = "62%"


class CarelessReader:
    """Implements VenueReader: its first question is sound, and its second one is made with one mistake."""

    def __init__(self, fixture: JobsFixture, mistake: str) -> None:
        self.now, self.mistake = fixture.clock.now(), mistake

    def second(self) -> Question:
        naive, price = self.now.replace(tzinfo=None), BinaryPrediction(0.4)
        changes: dict[str, Callable[[], dict[str, Any]]] = {
            "naive target": lambda: {"targets": (Target(resolves_at=naive),)},
            "naive close": lambda: {"closes_at": naive},
            "naive price": lambda: {"crowd": CrowdForecast(prediction=price, at=naive)},
            "percent": lambda: {"price": 62},
            "percent as text": lambda: {"price": PERCENT},
            "spread in percent": lambda: {"crowd": CrowdForecast(prediction=price, at=self.now, spread=4)},
            "future": lambda: {"crowd": CrowdForecast(prediction=price, at=self.now + timedelta(hours=1))},
        }
        return question("snow", now=self.now, **changes[self.mistake]())

    async def questions(self) -> AsyncIterator[Question]:
        yield question("rain", now=self.now)
        yield self.second()

    async def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
        for ref in sorted(pending, reverse=True):
            late = self.now.replace(tzinfo=None) if self.mistake == "naive outcome" else self.now
            value = 100 if self.mistake == "outcome in percent" and ref.key == "rain" else 1
            yield Resolution(ref=ref, target="outcome", outcome=BinaryOutcome(value), resolved_at=late)


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("naive target", f"{VENUE}:snow: resolves_at of target 'outcome' 2026-.* has no time zone"),
        ("naive close", f"{VENUE}:snow: closes_at 2026-.* has no time zone"),
        ("naive price", f"{VENUE}:snow: crowd.at 2026-.* has no time zone"),
        ("percent", r"probability 62 is outside \[0, 1\]; divide a percent by 100"),
        ("percent as text", "probability '62%' is a text, and should be a number from 0 to 1"),
        ("spread in percent", f"{VENUE}:snow: crowd.spread 4 is no difference of probabilities; divide by 100"),
    ],
)
async def test_a_mistake_is_named_with_its_question_and_costs_none_before_it(
    jobs_fixture: JobsFixture, mistake: str, words: str
) -> None:
    jobs_fixture.reader = CarelessReader(jobs_fixture, mistake)
    with pytest.raises(MalformedDataError, match=f"^the reader of {VENUE} failed after {VENUE}:rain: {words}$"):
        await jobs_fixture.discover()
    assert await jobs_fixture.ledger.questions.count() == 1


async def test_a_price_of_the_future_is_left_out_and_named(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.reader = CarelessReader(jobs_fixture, "future")
    done = await jobs_fixture.discover()
    assert f"prices of the future left out: 1, such as {VENUE}:snow: crowd.at is 2026-" in done
    rain, snow = [await jobs_fixture.ledger.questions.get(QuestionRef(VENUE, key)) for key in ("rain", "snow")]
    assert (rain.crowd is None, snow.crowd is None) == (False, True)


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("naive outcome", f"at its first question: {VENUE}:snow: resolved_at 2026-.* has no time zone"),
        ("outcome in percent", rf"after {VENUE}:snow: outcome 100 is outside \[0, 1\]; divide a percent by 100"),
    ],
)
async def test_an_impossible_outcome_is_named_and_costs_none_before_it(
    jobs_fixture: JobsFixture, mistake: str, words: str
) -> None:
    jobs_fixture.venue.add_questions(*(question(key, now=jobs_fixture.clock.now()) for key in ("rain", "snow")))
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    jobs_fixture.reader = CarelessReader(jobs_fixture, mistake)
    with pytest.raises(MalformedDataError, match=f"^the reader of {VENUE} failed {words}$"):
        await jobs_fixture.resolve()
    rows = await jobs_fixture.ledger.questions.readers.run(
        lambda database: database.execute("select ref from current_resolution").fetchall()
    )
    assert rows == ([(f"{VENUE}:snow",)] if mistake == "outcome in percent" else [])
