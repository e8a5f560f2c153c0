"""The kit is mutated before it is trusted: each way to break an archive must fail the check named with it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.core.learning import ForecastFile, Round, TrainingExample
from bot.testing.venue_contracts import ArchiveContract
from tests.unit.testing.correct_venue import CORRECT_SPEC, START, Failure, LanternArchive, checks_of, outcome, run_check


class UnorderedArchive(LanternArchive):
    def round_keys(self) -> Sequence[str]:
        return ["1", "0"]


class ForeignArchive(LanternArchive):
    def read_round(self, key: str) -> Round:
        return replace(super().read_round(key), resolutions=(outcome(7),))


class MisnamedArchive(LanternArchive):
    def read_round(self, key: str) -> Round:
        return replace(super().read_round(key), key="round")


class ObligingArchive(LanternArchive):
    def read_round(self, key: str) -> Round:
        return super().read_round(key if key in self.round_keys() else "0")


class LeakingArchive(LanternArchive):
    def examples(self, before: datetime) -> Sequence[TrainingExample]:
        return super().examples(datetime.max.replace(tzinfo=UTC))


class SilentArchive(LanternArchive):
    def examples(self, before: datetime) -> Sequence[TrainingExample]:
        return []


class CredulousArchive(LanternArchive):
    def read_forecast_file(self, path: Path) -> ForecastFile:
        return ForecastFile(name=path.name, author="", round="0", probabilities={})


class RepeatingArchive(LanternArchive):
    def round_keys(self) -> Sequence[str]:
        return ["0", "0", "1"]


class SingleTargetArchive(LanternArchive):
    def round_keys(self) -> Sequence[str]:
        return ["0"]


class DoubtingArchive(LanternArchive):
    def read_round(self, key: str) -> Round:
        found = super().read_round(key)
        return replace(found, resolutions=(*found.resolutions, *found.resolutions))


class SwappingArchive(LanternArchive):
    """Gives each question the outcome of another one."""

    def examples(self, before: datetime) -> Sequence[TrainingExample]:
        found = list(super().examples(before))
        others = [example.resolution for example in reversed(found)]
        return [replace(example, resolution=other) for example, other in zip(found, others, strict=True)]


ARCHIVE_MUTANTS: list[tuple[str, type[LanternArchive]]] = [
    ("rounds_come_oldest_first_and_once", UnorderedArchive),
    ("a_round_holds_its_own_questions_and_their_outcomes", ForeignArchive),
    ("a_round_holds_its_own_questions_and_their_outcomes", MisnamedArchive),
    ("rounds_come_oldest_first_and_once", RepeatingArchive),
    ("rounds_come_oldest_first_and_once", SingleTargetArchive),
    ("a_round_holds_its_own_questions_and_their_outcomes", DoubtingArchive),
    ("examples_were_known_strictly_before_the_moment", SwappingArchive),
    ("an_unknown_round_is_not_found", ObligingArchive),
    ("examples_were_known_strictly_before_the_moment", LeakingArchive),
    ("examples_were_known_strictly_before_the_moment", SilentArchive),
    ("nothing_was_known_long_ago", LeakingArchive),
    ("a_sheet_that_is_not_there_is_not_found", CredulousArchive),
    ("a_sheet_of_another_form_is_refused", CredulousArchive),
]


class ArchiveKit(ArchiveContract):
    spec = CORRECT_SPEC
    known_before = START + timedelta(days=90)


@pytest.mark.parametrize("name", checks_of(ArchiveContract))
async def test_a_sound_archive_passes(name: str, tmp_path: Path) -> None:
    await run_check(ArchiveKit(), name, archive=LanternArchive(), tmp_path=tmp_path, content=b"{}")


@pytest.mark.parametrize(("name", "mutant"), ARCHIVE_MUTANTS)
async def test_a_broken_archive_is_found(name: str, mutant: type[LanternArchive], tmp_path: Path) -> None:
    with pytest.raises(Failure):
        await run_check(ArchiveKit(), name, archive=mutant(), tmp_path=tmp_path, content=b"{}")


def test_every_check_of_an_archive_has_a_mutant() -> None:
    assert {name for name, _ in ARCHIVE_MUTANTS} == set(checks_of(ArchiveContract))
