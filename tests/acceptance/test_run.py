"""One pass over the bundled rounds, and the daemon while others read."""

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.command_server import COMMAND
from tests.acceptance.conftest import CONFIG, CommandResult, FoxcastInstallation, InProcessCommand, installed

ROOT = Path(__file__).resolve().parents[2]
LEDGER = Path("state") / "paper" / "ledger.sqlite"


def test_one_pass_forecasts_writes_resolves_and_scores(first_pass: tuple[FoxcastInstallation, CommandResult]) -> None:
    foxcast, answer = first_pass
    assert (answer.code, answer.err) == (0, "")
    for part in ("Newest forecasts", "Brier Index", "crowd", "Files", "Try next"):
        assert part in answer.out
    assert str(foxcast.folder / LEDGER) in answer.out
    written = sorted((foxcast.folder / "state" / "paper" / "forecastbench" / "forecast_sets").glob("*.json"))
    assert len(written) == 3
    assert str(written[0].parent) in answer.out


def test_the_configuration_that_ships_forecasts_the_bundled_round(tmp_path: Path) -> None:
    foxcast = FoxcastInstallation(
        tmp_path, {"FOXCAST_CONFIG": str(ROOT / "config.toml"), "FOXCAST_STATE": str(tmp_path / "state")}
    )
    answer = foxcast("run", "--once")
    assert (answer.code, answer.err) == (0, "")
    assert "baseline: Brier Index" in answer.out
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_the_newest_real_round_becomes_a_complete_forecast_set(tmp_path: Path, shared: Path) -> None:
    rounds = shared / "data" / "forecastbench"
    config = CONFIG.replace('rounds = "all"', f'source = "{rounds}"').replace('["steady"]', '["baseline"]')
    foxcast = installed(tmp_path, config.replace('"fake_crowd_forecaster"', '"baseline"'))
    assert foxcast("run", "--once").code == 0
    (written,) = (tmp_path / "state" / "paper" / "forecastbench" / "forecast_sets").glob("*.json")
    rows = json.loads(written.read_text())["forecasts"]
    expected = json.loads((shared / "venues" / "forecastbench_expected.json").read_text())["forecast_set_rows"]
    assert written.name.startswith("2026-04-26.")
    assert len(rows) == sum(expected["2026-04-26"].values())
    assert len({(row["source"], row["id"], row["resolution_date"]) for row in rows}) == len(rows)


def test_the_commands_to_try_next_work(
    first_pass: tuple[FoxcastInstallation, CommandResult], run_command: InProcessCommand
) -> None:
    foxcast, answer = first_pass
    tried = [line.split()[1:] for line in answer.out.partition("Try next")[2].splitlines() if "foxcast" in line]
    assert len(tried) == 3
    for arguments in tried:
        assert run_command(foxcast, *arguments).code == 0


def test_a_second_pass_repeats_nothing(tmp_path: Path, run_command: InProcessCommand) -> None:
    foxcast = installed(tmp_path, CONFIG.replace('rounds = "all"', ""))
    first, second = run_command(foxcast, "run", "--once"), run_command(foxcast, "run", "--once")
    assert (first.code, second.code) == (0, 0)
    assert "  0 forecasts made" not in first.out
    assert "  0 forecasts made" in second.out


def test_a_job_that_fails_shows_in_the_exit_code_and_stops_nothing_else(
    tmp_path: Path, run_command: InProcessCommand
) -> None:
    rounds = tmp_path / "rounds" / "question_sets"
    rounds.mkdir(parents=True)
    (rounds / "2026-06-21-llm.json").write_text("{")
    foxcast = installed(tmp_path, CONFIG + 'source = "{{rounds}}"\n'.replace("{{rounds}}", str(rounds.parent)))
    answer = run_command(foxcast, "run", "--once")
    assert answer.code == 1
    assert "a job failed: discover forecastbench" in answer.err
    assert "Traceback" not in answer.err
    assert "ledger-" in answer.out


def test_without_a_venue_there_is_nothing_to_run(tmp_path: Path, run_command: InProcessCommand) -> None:
    assert run_command(installed(tmp_path, ""), "run", "--once").is_refusal(2, "no venue is configured")


def test_a_daemon_is_read_while_it_runs_keeps_others_out_and_stops_when_asked(
    new_installation: FoxcastInstallation,
) -> None:
    daemon = subprocess.Popen(
        [COMMAND, "run"],
        cwd=new_installation.folder,
        env=new_installation.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        status = _status_once_scored(new_installation)
        assert status["running"]
        assert len(new_installation("questions", "--limit", "200", "--json").json) == status["counts"]["questions"]
        assert new_installation("run", "--once").is_refusal(6, f"Foxcast process {daemon.pid}", "stop it")
        assert new_installation("db", "backup").code == 0
    finally:
        daemon.send_signal(signal.SIGTERM)
        _, output = daemon.communicate(timeout=20)
    assert daemon.returncode == 0
    assert b"Traceback" not in output
    assert not new_installation("status", "--json").json["running"]


def _status_once_scored(foxcast: FoxcastInstallation) -> dict[str, Any]:
    """Ask until the first pass is over; each question takes a process, so this does not spin."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        answer = foxcast("status", "--json")
        if answer.code == 0 and "backup" in {run["job"] for run in answer.json["runs"]}:
            found: dict[str, Any] = answer.json
            return found
    pytest.fail("the daemon did not finish its first pass in 20 s")


def test_the_keyboard_stops_a_command_with_its_own_code(new_installation: FoxcastInstallation, shared: Path) -> None:
    command: list[str | Path] = [
        COMMAND,
        "backtest",
        "--forecaster",
        "steady",
        "--rounds",
        str(shared / "data" / "forecastbench"),
    ]
    process = subprocess.Popen(
        command, cwd=new_installation.folder, env=new_installation.environment, stderr=subprocess.PIPE
    )
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=2)
    process.send_signal(signal.SIGINT)
    _, output = process.communicate(timeout=10)
    assert (process.returncode, output) == (130, b"")


def test_status_counts_what_the_ledger_holds(foxcast: FoxcastInstallation) -> None:
    status = foxcast("status", "--json").json
    assert status["modes"] == {"forecastbench": "paper"}
    assert status["counts"]["forecasts"] == status["counts"]["questions"] == status["counts"]["intents acked"]
    assert (status["counts"]["due"], status["counts"]["undecided"]) == (0, 0)
    assert all(run["ok"] for run in status["runs"])
    assert Path(status["last_backup"]["path"]).is_file()
    assert "last backup" in foxcast("status").out


def test_status_says_when_it_is_halted(new_installation: FoxcastInstallation) -> None:
    stop = new_installation.folder / "state" / "STOP"
    stop.parent.mkdir()
    stop.touch()
    answer = new_installation("status")
    assert answer.code == 0
    assert str(stop) in answer.out
    assert "foxcast run --once" in answer.out


@pytest.mark.parametrize(
    "command", [["questions"], ["show", "x"], ["score"], ["db", "check"], ["db", "backup"]], ids=" ".join
)
def test_before_the_first_pass_readers_say_how_to_begin(
    new_installation: FoxcastInstallation, run_command: InProcessCommand, command: list[str]
) -> None:
    assert run_command(new_installation, *command).is_refusal(8, "no ledger", "foxcast run --once")


def test_json_goes_to_stdout_alone(foxcast: FoxcastInstallation, run_command: InProcessCommand) -> None:
    for command in (["status"], ["questions"], ["plugins"], ["config", "show"], ["doctor"], ["db", "check"]):
        answer = run_command(foxcast, *command, "--json")
        assert (answer.code, answer.err) == (0, "")
        json.loads(answer.out)


def test_on_a_terminal_a_pass_shows_how_far_it_is(new_installation: FoxcastInstallation) -> None:
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [COMMAND, "run", "--once"],
        cwd=new_installation.folder,
        env={**new_installation.environment, "TERM": "xterm", "COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    ) as process:
        os.close(theirs)
        shown = _read_until_closed(ours)
        assert process.stdout
        assert "Try next" in process.stdout.read()
    assert process.returncode == 0
    assert b"forecasts" in shown
    assert b"/89" in shown


def _read_until_closed(terminal: int) -> bytes:
    """Read a terminal until nobody writes to it any more, which Linux tells by an error."""
    shown = b""
    with suppress(OSError):
        while part := os.read(terminal, 4096):
            shown += part
    os.close(terminal)
    return shown
