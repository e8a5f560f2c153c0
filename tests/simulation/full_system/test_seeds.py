"""A small version of ``make simulate``: some of its first seeds, a quarter of a day each and then the calm."""

import re

import pytest

from tests.simulation.full_system.__main__ import main
from tests.simulation.full_system.simulate_command import run_simulate_command

# Without seed 1, which takes as long as three of the others.
FIRST, SEEDS, DAYS = 2, 7, "0.25"
_SEED = re.compile(r"seed (\d+) \(.*\): [\d.]+ days, (\d+) lives, .* (\d+) effects, (\d+) faults")


@pytest.mark.timeout(300)
def test_in_a_quarter_of_a_day_of_faults_kills_and_people_no_invariant_breaks(worker_id: str) -> None:
    # Each worker of the tests keeps to a processor of its own.
    place = worker_id.removeprefix("gw").replace("master", "0")
    options = ("--first", str(FIRST), "--seeds", str(SEEDS), "--days", DAYS, "--place", place)
    done = run_simulate_command(*options)
    assert done.returncode == 0, done.stdout + done.stderr
    reported = {
        int(seed): (int(lives), int(effects), int(faults)) for seed, lives, effects, faults in _parse_lines(done.stdout)
    }
    assert [*reported] == [*range(FIRST, FIRST + SEEDS)]
    assert all(lives > 1 and faults for lives, _, faults in reported.values())
    assert sum(effects for _, effects, _ in reported.values()) > SEEDS
    assert " 0 violated" in done.stdout
    moves = re.search(r"coverage: outbox: (\d+) of (\d+) came up", done.stdout)
    assert moves is not None
    assert int(moves[1]) > int(moves[2]) / 2


@pytest.mark.parametrize("options", [("--seeds", "0"), ("--days", "0"), ("--days", "nan"), ("--jobs", "0")])
def test_nothing_at_all_is_no_simulation(
    options: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["simulate", *options])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "1 at least" in capsys.readouterr().err


def _parse_lines(text: str) -> list[list[str]]:
    return [[*match.groups()] for line in text.splitlines() if (match := _SEED.match(line))]
