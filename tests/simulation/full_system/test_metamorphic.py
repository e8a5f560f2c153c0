"""A small version of ``make simulate SIMULATE_ARGS=--metamorphic``, and the bug that each relation must find."""

import pytest

from tests.simulation.full_system.metamorphic import RELATIONS
from tests.simulation.full_system.mutants import FORM_MUTANTS
from tests.simulation.full_system.simulate_command import run_simulate_command

# A planted bug for each relation that no other run of the same form shows.
PLANTED = {
    "sides": "no-sold-on-yes-book",
    "answers": "first-option-favoured",
    "zone": "days-of-here",
    "start": "quiet-nights",
    "units": "whole-mana",
    "kills": "leases-for-ever",
    "exchange": "no-worth-as-yes",
    "venues": "outcome-for-all-venues",
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "relations", [("sides", "kills"), pytest.param((), marks=pytest.mark.slow)], ids=["two of them", "all of them"]
)
def test_the_same_world_in_another_form_has_the_same_results(relations: tuple[str, ...]) -> None:
    done = run_simulate_command("--metamorphic", *relations)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[2].rstrip(":") for line in lines] == [*(relations or RELATIONS)]
    assert all(int(line[3]) > 20 and line[6:] == ["0", "differ"] for line in lines), done.stdout


def test_each_relation_has_a_planted_bug() -> None:
    assert PLANTED.keys() == RELATIONS.keys()
    assert set(FORM_MUTANTS) <= set(PLANTED.values())


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "relation", [name if name == "sides" else pytest.param(name, marks=pytest.mark.slow) for name in PLANTED]
)
def test_a_relation_finds_its_planted_bug(relation: str) -> None:
    done = run_simulate_command("--metamorphic", relation, "--seed", "1", "--mutant", PLANTED[relation])
    assert done.returncode == 1, done.stdout + done.stderr
    assert "VIOLATED" in done.stdout
