"""The kit is mutated before it is trusted: each way to break a venue must fail the check named with it."""

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, SecretStr

from bot.core.errors import ServiceUnavailableError
from bot.core.interfaces import VenueReader
from bot.core.outcomes import ChoiceOutcome, Resolution
from bot.core.plugin_specs import PluginContext, VenueSpec
from bot.core.questions import Question, QuestionRef
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient
from bot.testing.spec_contract import TRANSPORT_ERRORS
from bot.testing.venue import FakeSubmitter, FakeVenueReader
from bot.testing.venue_contracts import VenueContract
from tests.unit.testing.correct_venue import (
    CORRECT_SPEC,
    START,
    Failure,
    LanternSettings,
    checks_of,
    outcome,
    question,
    run_check,
)


def reading(venue: Callable[[], Any]) -> VenueSpec[LanternSettings]:
    @asynccontextmanager
    async def reader(settings: LanternSettings, context: PluginContext) -> AsyncIterator[VenueReader]:
        yield venue()

    return replace(CORRECT_SPEC, reader=reader)


@dataclass
class GivenOutcomesVenue:
    """A venue whose outcomes are whatever is given, asked or not."""

    found: Resolution

    async def questions(self) -> AsyncIterator[Question]:
        for number in (0, 1):
            yield question(number)

    async def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
        yield self.found


class TwiceVenue(FakeVenueReader):
    async def questions(self) -> AsyncIterator[Question]:
        for _ in range(2):
            yield question(0)


class WritingVenue(FakeVenueReader):
    submit = FakeSubmitter.submit


class DriftingVenue(FakeVenueReader):
    calls = 0

    async def questions(self) -> AsyncIterator[Question]:
        type(self).calls += 1
        yield question(self.calls)


class ClosingVenue(FakeVenueReader):
    async def questions(self) -> AsyncIterator[Question]:
        yield replace(question(0), closes_at=START)


class SwallowingVenue(FakeVenueReader):
    """Lists nothing, whatever the transport says."""


class LaxSettings(BaseModel):
    model_config = ConfigDict(extra="ignore")

    key: SecretStr = SecretStr("")


class TellingSettings(LanternSettings):
    def __repr_args__(self) -> Any:
        return [("key", self.key.get_secret_value())]


def kit_of(spec: VenueSpec[Any], settings: Any = None) -> VenueContract:
    remote = LanternSettings(over_http=True)
    body = {"spec": spec, "settings": settings or LanternSettings(), "remote": remote}
    kit: VenueContract = type("Kit", (VenueContract,), body)()
    return kit


@pytest.fixture
def context(tmp_path: Path) -> PluginContext:
    return PluginContext(clock=FakeClock(), http=FakeHttpClient({}), folder=tmp_path)


@pytest.mark.parametrize("name", checks_of(VenueContract))
async def test_a_sound_venue_passes(name: str, context: PluginContext) -> None:
    await run_check(kit_of(CORRECT_SPEC), name, context=context, error=TRANSPORT_ERRORS[1], body=b"{}")


VENUE_MUTANTS: list[tuple[str, Callable[[], VenueContract]]] = [
    ("it_is_built_for_this_version", lambda: kit_of(replace(CORRECT_SPEC, api_version=99))),
    ("unknown_settings_are_refused", lambda: kit_of(replace(CORRECT_SPEC, settings=LaxSettings))),  # type: ignore[arg-type]  # the fault
    ("settings_cannot_be_changed", lambda: kit_of(replace(CORRECT_SPEC, settings=LaxSettings), LaxSettings())),  # type: ignore[arg-type]  # as above
    ("secrets_are_hidden", lambda: kit_of(CORRECT_SPEC, TellingSettings())),
    ("every_question_is_listed_once_under_the_name_of_the_venue", lambda: kit_of(reading(TwiceVenue))),
    ("every_question_is_listed_once_under_the_name_of_the_venue", lambda: kit_of(reading(FakeVenueReader))),
    (
        "every_question_is_listed_once_under_the_name_of_the_venue",
        lambda: kit_of(reading(lambda: FakeVenueReader([question(0, venue="torch")]))),
    ),
    ("windows_open_before_they_close", lambda: kit_of(reading(ClosingVenue))),
    ("a_reopened_reader_reads_the_same", lambda: kit_of(reading(DriftingVenue))),
    ("a_reader_cannot_submit", lambda: kit_of(reading(WritingVenue))),
    ("nothing_pending_gives_no_outcome", lambda: kit_of(reading(lambda: GivenOutcomesVenue(outcome(0))))),
    (
        "outcomes_answer_pending_questions_in_their_own_shape",
        lambda: kit_of(reading(lambda: GivenOutcomesVenue(outcome(1)))),
    ),
    (
        "outcomes_answer_pending_questions_in_their_own_shape",
        lambda: kit_of(reading(lambda: GivenOutcomesVenue(outcome(0, target="tomorrow")))),
    ),
    (
        "outcomes_answer_pending_questions_in_their_own_shape",
        lambda: kit_of(reading(lambda: GivenOutcomesVenue(outcome(0, outcome=ChoiceOutcome("yes"))))),
    ),
    ("errors_of_the_transport_keep_their_meaning", lambda: kit_of(reading(SwallowingVenue))),
    ("an_odd_answer_is_a_contract_error", lambda: kit_of(reading(SwallowingVenue))),
]


@pytest.mark.parametrize(("name", "mutant"), VENUE_MUTANTS, ids=range(len(VENUE_MUTANTS)))
async def test_a_broken_venue_is_found(name: str, mutant: Callable[[], VenueContract], context: PluginContext) -> None:
    with pytest.raises(Failure):
        await run_check(mutant(), name, context=context, error=ServiceUnavailableError("503"), body=b"{}")


def test_every_check_of_a_venue_has_a_mutant() -> None:
    assert {name for name, _ in VENUE_MUTANTS} == set(checks_of(VenueContract))
