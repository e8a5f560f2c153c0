"""A small version of ``make simulate``: the first of its seeds, half a day each."""

import re

import pytest

from tests.simulation.full_system.__main__ import main
from tests.simulation.full_system.simulate_command import run_simulate_command

SEEDS, AT_ONCE, DAYS = 8, 8, "0.5"
_SEED = re.compile(r"seed (\d+) \(.*\): [\d.]+ days, (\d+) lives, .* (\d+) effects, (\d+) faults")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", range(1, SEEDS + 1, AT_ONCE))
def test_in_half_a_day_of_faults_kills_and_people_no_invariant_breaks(first: int, worker_id: str) -> None:
    # Each worker of the tests keeps to a processor of its own.
    place = worker_id.removeprefix("gw").replace("master", "0")
    options = ("--first", str(first), "--seeds", str(AT_ONCE), "--days", DAYS, "--place", place)
    done = run_simulate_command(*options)
    assert done.returncode == 0, done.stdout + done.stderr
    reported = {
        int(seed): (int(lives), int(effects), int(faults)) for seed, lives, effects, faults in _parse_lines(done.stdout)
    }
    assert [*reported] == [*range(first, first + AT_ONCE)]
    assert all(lives > 1 and faults for lives, _, faults in reported.values())
    assert sum(effects for _, effects, _ in reported.values()) > AT_ONCE
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
