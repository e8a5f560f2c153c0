"""A fake venue that keeps every contract, for the tests that break it."""

import inspect
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from bot.core.errors import MalformedDataError, NotFoundError
from bot.core.interfaces import VenueReader
from bot.core.learning import ForecastFile, Round, TrainingExample
from bot.core.outcomes import BinaryOutcome, Resolution
from bot.core.plugin_specs import PluginContext, PluginSettings, VenueSpec
from bot.core.predictions import BinaryShape
from bot.core.questions import Question, QuestionRef, Target
from bot.testing.spec_contract import PluginSpecContract
from bot.testing.venue import FakeVenueReader

START = datetime(2026, 1, 1, tzinfo=UTC)
Failure = (AssertionError, pytest.fail.Exception, KeyError, AttributeError)


def question(number: int, *, venue: str = "lantern") -> Question:
    opens_at = START + timedelta(days=number)
    return Question(
        ref=QuestionRef(venue, str(number)),
        title=f"Does lamp {number} burn?",
        shape=BinaryShape(),
        targets=(Target(),),
        batch="lamps",
        opens_at=opens_at,
        closes_at=opens_at + timedelta(days=1),
        as_of=opens_at,
    )


def outcome(number: int, **changes: Any) -> Resolution:
    known = Resolution(
        ref=QuestionRef("lantern", str(number)),
        target="outcome",
        outcome=BinaryOutcome(1.0),
        resolved_at=START + timedelta(days=number + 2),
    )
    return replace(known, **changes)


class LanternSettings(PluginSettings):
    """Settings of the imaginary venue, with a secret."""

    over_http: bool = False
    key: SecretStr = SecretStr("")


class LanternArchive:
    """Two rounds of one question each."""

    def round_keys(self) -> Sequence[str]:
        return ["0", "1"]

    def read_round(self, key: str) -> Round:
        if key not in self.round_keys():
            message = f"no round {key}"
            raise NotFoundError(message)
        asked = question(int(key))
        assert asked.as_of is not None
        return Round(key=key, as_of=asked.as_of, questions=(asked,), resolutions=(outcome(int(key)),))

    def examples(self, before: datetime) -> Sequence[TrainingExample]:
        known = [TrainingExample(question=question(number), resolution=outcome(number)) for number in (0, 1)]
        return [example for example in known if example.resolution.resolved_at < before]

    def read_forecast_file(self, path: Path) -> ForecastFile:
        if not path.exists():
            raise NotFoundError(str(path))
        raise MalformedDataError(str(path))


@asynccontextmanager
async def open_correct_reader(settings: LanternSettings, context: PluginContext) -> AsyncIterator[VenueReader]:
    yield RemoteVenue(context) if settings.over_http else correct_venue()


def correct_venue() -> FakeVenueReader:
    return FakeVenueReader(
        [question(0), replace(question(1), opens_at=None), question(2)], [outcome(0), outcome(1), outcome(2)]
    )


class RemoteVenue:
    """Reads one page and takes it for odd."""

    def __init__(self, context: PluginContext) -> None:
        self._http = context.http

    async def questions(self) -> AsyncIterator[Question]:
        page = await self._http.get("https://lantern.example/", max_bytes=100)
        if page != b"one lamp":
            raise MalformedDataError(repr(page))
        yield question(0)

    async def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
        for ref in pending:
            yield outcome(int(ref.key))


CORRECT_SPEC = VenueSpec(
    name="lantern",
    summary="Lamps that burn or do not",
    settings=LanternSettings,
    reader=open_correct_reader,
    archive=lambda *_: LanternArchive(),
)


async def run_check(kit: object, name: str, /, **arguments: object) -> None:
    test = getattr(kit, f"test_{name}")
    wanted = inspect.signature(test).parameters
    result = test(**{key: value for key, value in arguments.items() if key in wanted})
    if inspect.isawaitable(result):
        await result


def checks_of(kit: type) -> list[str]:
    """Return the checks of a kit, with those that it shares with other kits of specs."""
    shared = [base for base in kit.__bases__ if base is PluginSpecContract]
    return sorted(
        name.removeprefix("test_") for one in (kit, *shared) for name in vars(one) if name.startswith("test_")
    )
