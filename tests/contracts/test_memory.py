"""The fakes keep the contract of the real thing."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from bot.domain.prediction import Binary, BinaryShape
from bot.domain.question import Question, QuestionRef, Target
from bot.domain.resolution import Happened, Resolution
from bot.domain.submission import Batch, Intent, IntentAction
from bot.ports import Submitter, Venue
from bot.specs import Can, Settings, VenueSpec, Workplace
from bot.testing.book import MemoryBook
from bot.testing.contracts import SubmitterContract, VenueContract
from bot.testing.venue import MemoryVenue

OPENED = datetime(2026, 1, 1, tzinfo=UTC)


def question(key: str) -> Question:
    return Question(
        ref=QuestionRef("memory", key),
        title=f"Question {key}?",
        shape=BinaryShape(),
        targets=(Target(),),
        opens_at=OPENED,
        closes_at=OPENED + timedelta(days=1),
    )


def resolution(key: str) -> Resolution:
    resolved_at = OPENED + timedelta(days=2)
    return Resolution(ref=QuestionRef("memory", key), target="outcome", outcome=Happened(1.0), resolved_at=resolved_at)


@asynccontextmanager
async def reader(settings: Settings, workplace: Workplace) -> AsyncIterator[Venue]:
    yield MemoryVenue(map(question, "abc"), map(resolution, "ab"))


@asynccontextmanager
async def paper(settings: Settings, workplace: Workplace) -> AsyncIterator[Submitter]:
    yield MemoryBook()


class TestMemoryVenue(VenueContract):
    spec = VenueSpec(
        name="memory",
        summary="Questions that a test invents",
        abilities=frozenset({Can.PAPER}),
        settings=Settings,
        reader=reader,
        paper=paper,
    )
    settings = Settings()


class TestMemoryBook(SubmitterContract):
    @pytest.fixture
    def submitter(self) -> MemoryBook:
        return MemoryBook()

    @pytest.fixture
    def batch(self) -> Batch:
        questions = tuple(map(question, "abc"))
        intents = tuple(
            Intent(
                id=f"intent {asked.ref.key}",
                account="paper",
                ref=asked.ref,
                forecast=f"forecast {asked.ref.key}",
                action=IntentAction.FORECAST,
                predictions={"outcome": Binary(0.25)},
                batch="round",
            )
            for asked in questions
        )
        return Batch(key="round", intents=intents, questions=questions)

    @pytest.fixture
    def refused_batch(self, submitter: MemoryBook, batch: Batch) -> Batch:
        submitter.refuse_all("question closed")
        return batch

    @pytest.fixture
    def answers(self, submitter: MemoryBook) -> Callable[[], int]:
        return lambda: len(submitter.answers)
