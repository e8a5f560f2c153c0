"""The fakes keep the contract of the real thing."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from bot.core.interfaces import VenueReader, VenueSubmitter
from bot.core.outcomes import BinaryOutcome, Resolution
from bot.core.plugin_specs import PluginContext, PluginSettings, VenueSpec
from bot.core.predictions import BinaryPrediction, BinaryShape
from bot.core.questions import Question, QuestionRef, Target
from bot.core.submissions import Intent, IntentAction, SubmissionBatch
from bot.testing.submitter_contracts import SubmitterContract
from bot.testing.venue import FakeSubmitter, FakeVenueReader
from bot.testing.venue_contracts import VenueContract

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
    return Resolution(
        ref=QuestionRef("memory", key), target="outcome", outcome=BinaryOutcome(1.0), resolved_at=resolved_at
    )


@asynccontextmanager
async def reader(settings: PluginSettings, context: PluginContext) -> AsyncIterator[VenueReader]:
    yield FakeVenueReader(map(question, "abc"), map(resolution, "ab"))


@asynccontextmanager
async def paper(settings: PluginSettings, context: PluginContext) -> AsyncIterator[VenueSubmitter]:
    yield FakeSubmitter()


class TestMemoryVenue(VenueContract):
    spec = VenueSpec(
        name="memory",
        summary="Questions that a test invents",
        settings=PluginSettings,
        reader=reader,
        paper=paper,
    )
    settings = PluginSettings()


class TestMemoryBook(SubmitterContract):
    @pytest.fixture
    def submitter(self) -> FakeSubmitter:
        return FakeSubmitter()

    @pytest.fixture
    def batch(self) -> SubmissionBatch:
        questions = tuple(map(question, "abc"))
        intents = tuple(
            Intent(
                id=f"intent {asked.ref.key}",
                account="paper",
                ref=asked.ref,
                forecast=f"forecast {asked.ref.key}",
                action=IntentAction.FORECAST,
                predictions={"outcome": BinaryPrediction(0.25)},
                batch="round",
            )
            for asked in questions
        )
        return SubmissionBatch(key="round", intents=intents, questions=questions)

    @pytest.fixture
    def refused_batch(self, submitter: FakeSubmitter, batch: SubmissionBatch) -> SubmissionBatch:
        submitter.refuse_all("question closed")
        return batch

    @pytest.fixture
    def answers(self, submitter: FakeSubmitter) -> Callable[[], int]:
        return lambda: len(submitter.standing_intents)
