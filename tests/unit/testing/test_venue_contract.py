"""The kit is mutated before it is trusted: each way to break a venue must fail the check named beside it."""

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, SecretStr

from bot.domain.question import Question, QuestionRef
from bot.domain.resolution import Chosen, Resolution
from bot.errors import Unavailable
from bot.ports import Venue
from bot.specs import VenueSpec, Workplace
from bot.testing.book import MemoryBook
from bot.testing.clock import FakeClock
from bot.testing.contracts import TRANSPORT_ERRORS, VenueContract
from bot.testing.http import DictHttp
from bot.testing.venue import MemoryVenue
from tests.unit.testing.lantern import SOUND, START, Failure, LanternSettings, checks_of, outcome, question, run


def reading(venue: Callable[[], Any]) -> VenueSpec[LanternSettings]:
    @asynccontextmanager
    async def reader(settings: LanternSettings, workplace: Workplace) -> AsyncIterator[Venue]:
        yield venue()

    return replace(SOUND, reader=reader)


@dataclass
class Outcomes:
    """A venue whose outcomes are whatever is given, asked or not."""

    found: Resolution

    async def questions(self) -> AsyncIterator[Question]:
        for number in (0, 1):
            yield question(number)

    async def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
        yield self.found


class Twice(MemoryVenue):
    async def questions(self) -> AsyncIterator[Question]:
        for _ in range(2):
            yield question(0)


class Writing(MemoryVenue):
    submit = MemoryBook.submit


class Drifting(MemoryVenue):
    calls = 0

    async def questions(self) -> AsyncIterator[Question]:
        type(self).calls += 1
        yield question(self.calls)


class Closing(MemoryVenue):
    async def questions(self) -> AsyncIterator[Question]:
        yield replace(question(0), closes_at=START)


class Swallowing(MemoryVenue):
    """Lists nothing, whatever the transport says."""


class Lax(BaseModel):
    model_config = ConfigDict(extra="ignore")

    key: SecretStr = SecretStr("")


class Telling(LanternSettings):
    def __repr_args__(self) -> Any:
        return [("key", self.key.get_secret_value())]


def kit_of(spec: VenueSpec[Any], settings: Any = None) -> VenueContract:
    remote = LanternSettings(over_http=True)
    body = {"spec": spec, "settings": settings or LanternSettings(), "remote": remote}
    kit: VenueContract = type("Kit", (VenueContract,), body)()
    return kit


@pytest.fixture
def workplace(tmp_path: Path) -> Workplace:
    return Workplace(clock=FakeClock(), http=DictHttp({}), folder=tmp_path)


@pytest.mark.parametrize("name", checks_of(VenueContract))
async def test_a_sound_venue_passes(name: str, workplace: Workplace) -> None:
    await run(kit_of(SOUND), name, workplace=workplace, error=TRANSPORT_ERRORS[1], body=b"{}")


VENUE_MUTANTS: list[tuple[str, Callable[[], VenueContract]]] = [
    ("it_is_built_for_this_version", lambda: kit_of(replace(SOUND, api_version=99))),
    ("abilities_equal_what_is_offered", lambda: kit_of(replace(SOUND, abilities=frozenset()))),
    ("abilities_equal_what_is_offered", lambda: kit_of(replace(SOUND, archive=None))),
    ("unknown_settings_are_refused", lambda: kit_of(replace(SOUND, settings=Lax))),  # type: ignore[arg-type]  # the fault
    ("settings_cannot_be_changed", lambda: kit_of(replace(SOUND, settings=Lax), Lax())),  # type: ignore[arg-type]  # as above
    ("secrets_are_hidden", lambda: kit_of(SOUND, Telling())),
    ("every_question_is_listed_once_under_the_name_of_the_venue", lambda: kit_of(reading(Twice))),
    ("every_question_is_listed_once_under_the_name_of_the_venue", lambda: kit_of(reading(MemoryVenue))),
    (
        "every_question_is_listed_once_under_the_name_of_the_venue",
        lambda: kit_of(reading(lambda: MemoryVenue([question(0, venue="torch")]))),
    ),
    ("windows_open_before_they_close", lambda: kit_of(reading(Closing))),
    ("a_reopened_reader_reads_the_same", lambda: kit_of(reading(Drifting))),
    ("a_reader_cannot_submit", lambda: kit_of(reading(Writing))),
    ("nothing_pending_gives_no_outcome", lambda: kit_of(reading(lambda: Outcomes(outcome(0))))),
    (
        "outcomes_answer_pending_questions_in_their_own_shape",
        lambda: kit_of(reading(lambda: Outcomes(outcome(1)))),
    ),
    (
        "outcomes_answer_pending_questions_in_their_own_shape",
        lambda: kit_of(reading(lambda: Outcomes(outcome(0, target="tomorrow")))),
    ),
    (
        "outcomes_answer_pending_questions_in_their_own_shape",
        lambda: kit_of(reading(lambda: Outcomes(outcome(0, outcome=Chosen("yes"))))),
    ),
    ("errors_of_the_transport_keep_their_meaning", lambda: kit_of(reading(Swallowing))),
    ("an_odd_answer_is_a_contract_error", lambda: kit_of(reading(Swallowing))),
]


@pytest.mark.parametrize(("name", "mutant"), VENUE_MUTANTS, ids=range(len(VENUE_MUTANTS)))
async def test_a_broken_venue_is_found(name: str, mutant: Callable[[], VenueContract], workplace: Workplace) -> None:
    with pytest.raises(Failure):
        await run(mutant(), name, workplace=workplace, error=Unavailable("503"), body=b"{}")


def test_every_check_of_a_venue_has_a_mutant() -> None:
    assert {name for name, _ in VENUE_MUTANTS} == set(checks_of(VenueContract))
