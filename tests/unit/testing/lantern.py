"""An imaginary venue that keeps every contract, for the tests that break it."""

import inspect
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from bot.domain.learning import Round, Sheet
from bot.domain.prediction import BinaryShape
from bot.domain.question import Question, QuestionRef, Target
from bot.domain.resolution import Example, Happened, Resolution
from bot.errors import ContractError, NotFound
from bot.ports import Venue
from bot.specs import Can, Settings, VenueSpec, Workplace
from bot.testing.venue import MemoryVenue

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
        outcome=Happened(1.0),
        resolved_at=START + timedelta(days=number + 2),
    )
    return replace(known, **changes)


class LanternSettings(Settings):
    """Settings of the imaginary venue, with a secret."""

    over_http: bool = False
    key: SecretStr = SecretStr("")


class LanternArchive:
    """Two rounds of one question each."""

    def rounds(self) -> Sequence[str]:
        return ["0", "1"]

    def round(self, key: str) -> Round:
        if key not in self.rounds():
            message = f"no round {key}"
            raise NotFound(message)
        asked = question(int(key))
        assert asked.as_of is not None
        return Round(key=key, as_of=asked.as_of, questions=(asked,), resolutions=(outcome(int(key)),))

    def examples(self, before: datetime) -> Sequence[Example]:
        known = [Example(question=question(number), resolution=outcome(number)) for number in (0, 1)]
        return [example for example in known if example.resolution.resolved_at < before]

    def sheet(self, path: Path) -> Sheet:
        if not path.exists():
            raise NotFound(str(path))
        raise ContractError(str(path))


@asynccontextmanager
async def sound_reader(settings: LanternSettings, workplace: Workplace) -> AsyncIterator[Venue]:
    yield RemoteVenue(workplace) if settings.over_http else sound_venue()


def sound_venue() -> MemoryVenue:
    return MemoryVenue(
        [question(0), replace(question(1), opens_at=None), question(2)], [outcome(0), outcome(1), outcome(2)]
    )


class RemoteVenue:
    """Reads one page and takes it for odd."""

    def __init__(self, workplace: Workplace) -> None:
        self._http = workplace.http

    async def questions(self) -> AsyncIterator[Question]:
        page = await self._http.get("https://lantern.example/", max_bytes=100)
        if page != b"one lamp":
            raise ContractError(repr(page))
        yield question(0)

    async def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
        for ref in pending:
            yield outcome(int(ref.key))


SOUND = VenueSpec(
    name="lantern",
    summary="Lamps that burn or do not",
    abilities=frozenset({Can.ARCHIVE}),
    settings=LanternSettings,
    reader=sound_reader,
    archive=lambda *_: LanternArchive(),
)


async def run(kit: object, name: str, /, **arguments: object) -> None:
    test = getattr(kit, f"test_{name}")
    wanted = inspect.signature(test).parameters
    result = test(**{key: value for key, value in arguments.items() if key in wanted})
    if inspect.isawaitable(result):
        await result


def checks_of(kit: type) -> list[str]:
    return sorted(name.removeprefix("test_") for name in vars(kit) if name.startswith("test_"))
