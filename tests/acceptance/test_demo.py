"""The demo as a process of its own: what it shows, what it leaves, and that nothing of it leaves this machine."""

import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import closing, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx
import pytest

from bot.core.child_process import child_command
from bot.simulator.demo.__main__ import main
from bot.simulator.demo.ledger_snapshot import DemoLedgerReader
from tests.acceptance.command_server import COMMAND
from tests.acceptance.conftest import CommandResult, FoxcastInstallation, InProcessCommand

# A small world in which something is over on the second day.
SEED, DAYS = 51, 2
ADDRESS = "the dashboard is at "
# The program with each connection, look-up of a name and start of a process written down before it is made.
LISTENED = """
import json, sys
heard = open(sys.argv.pop(1), "a", buffering=1)
KINDS = {"socket.connect": 1, "socket.sendto": 1, "socket.getaddrinfo": 0, "socket.gethostbyname": 0,
         "subprocess.Popen": 0, "os.system": 0, "os.exec": 0, "os.posix_spawn": 0}
def hear(kind, arguments):
    if kind in KINDS:
        heard.write(json.dumps([kind, arguments[KINDS[kind]]], default=repr) + "\\n")
sys.addaudithook(hear)
from bot.simulator.demo.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[FoxcastInstallation, CommandResult, list[Any]]:
    """A demo that was listened to, what it said, and what was heard."""
    foxcast = FoxcastInstallation(tmp_path_factory.mktemp("demo"), {"COLUMNS": "200"})
    heard = foxcast.folder / "heard.jsonl"
    asked = {"folder": "state/demo", "program": str(COMMAND), "seed": SEED, "days": DAYS, "fast": True, "web": True}
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", LISTENED, heard, json.dumps(asked)],
        cwd=foxcast.folder,
        # Keys and settings of real accounts are no business of the demo.
        env={**foxcast.environment, "FOXCAST_MODE": "off", "FOXCAST_VENUES__MANIFOLD__SETTINGS__KEY": "real-key"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    said, page = read_first_page(process)
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=60)
    return (
        foxcast,
        CommandResult(process.returncode, said + rest + page, errors),
        [*map(json.loads, heard.read_text().splitlines())],
    )


def read_first_page(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Return what a process says until it serves the dashboard, and its first page."""
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if line.startswith(ADDRESS):
            answer = httpx.get(line.removeprefix(ADDRESS).split()[0])
            return said, answer.raise_for_status().text
    return said, ""


def test_the_dashboard_shows_the_demo_as_it_was_when_it_ended(
    demo: tuple[FoxcastInstallation, CommandResult, list[Any]],
) -> None:
    _, answer, _ = demo
    page = answer.out.partition("<!doctype html>")[2]
    assert re.search(r"Stopped, last sign of life \d+ (s|min) ago", page)
    assert "What is wrong" not in page
    assert page.count('class="spark"') > 2


def test_foxcast_web_serves_the_ledger_of_the_demo(demo: tuple[FoxcastInstallation, CommandResult, list[Any]]) -> None:
    foxcast, _, _ = demo
    process = subprocess.Popen(
        [COMMAND, "--config", "state/demo/config.toml", "web", "--listen", "127.0.0.1:0"],
        cwd=foxcast.folder,
        env=foxcast.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    _, page = read_first_page(process)
    process.send_signal(signal.SIGTERM)
    assert (process.communicate(timeout=60)[1], process.returncode) == ("", 0)
    assert "Last forecasts" in page


def test_everything_is_shown_from_finding_to_scores(demo: tuple[FoxcastInstallation, CommandResult, list[Any]]) -> None:
    _, answer, _ = demo
    assert (answer.code, answer.err) == (0, "")
    venues = ("manifold", "metaculus", "polymarket", "forecastbench")
    for name in venues:
        assert re.search(rf"{name}: [1-9]\d* open questions found", answer.out)
        assert re.search(rf"{name}: forecasts taken by (the sandbox venue, armed|its paper book)", answer.out)
    assert re.search(r"baseline \d+%, blf \d+% > \d+%", answer.out)
    for part in ("held back: recorded only", "held back: no order", ": over, ", "the first forecasts are scored"):
        assert part in answer.out
    for part in ("Scores: Brier", "Calibration", "Profit and loss", "Look further", "at the real venues"):
        assert part in answer.out


def test_no_socket_outside_this_machine_is_asked_for(
    demo: tuple[FoxcastInstallation, CommandResult, list[Any]],
) -> None:
    _, _, heard = demo
    reached = [address for kind, address in heard if kind in {"socket.connect", "socket.sendto"}]
    assert len(reached) > 50
    assert {ip_address(host) for host, *_ in reached} == {ip_address("127.0.0.1")}
    assert {name for kind, name in heard if kind.startswith("socket.get")} <= {"127.0.0.1"}
    assert [one for one in heard if not one[0].startswith("socket.")] == []


def test_the_commands_to_look_further_work_as_printed(
    demo: tuple[FoxcastInstallation, CommandResult, list[Any]], run_command: InProcessCommand
) -> None:
    foxcast, answer, _ = demo
    reported = [line.strip() for line in answer.out.partition("Look further")[2].splitlines()]
    ours, real = ([line for line in reported if f" --config {name}" in line] for name in ("state/demo/", "real.toml"))
    assert [shlex.split(line)[3] for line in ours] == [
        "questions",
        "show",
        "explain",
        "score",
        "portfolio",
        "audit",
        "web",
    ]
    # The last one serves until it is stopped.
    for line in ours[:-1]:
        assert run_command(foxcast, *shlex.split(line)[1:]).code == 0
    (copy,) = (line for line in reported if line.startswith("cp "))
    subprocess.run(shlex.split(copy), cwd=foxcast.folder, check=True)
    assert real
    checked = run_command(foxcast, *shlex.split(real[0])[1:])
    assert checked.code == 0
    assert "127.0.0.1" not in (foxcast.folder / "real.toml").read_text()
    venues = tomllib.loads((foxcast.folder / "real.toml").read_text())["venues"]
    assert {name for name, table in venues.items() if "per_order" in table.get("caps", {})} == {
        "manifold",
        "polymarket",
    }
    assert all(table["bankroll"]["per_pass"] == 0.1 for table in venues.values() if "bankroll" in table)


def test_the_ledger_of_the_demo_is_one_like_any_other(
    demo: tuple[FoxcastInstallation, CommandResult, list[Any]],
) -> None:
    foxcast, _, _ = demo
    with closing(sqlite3.connect(foxcast.folder / "state" / "demo" / "live" / "ledger.sqlite")) as ledger:

        def found(query: str) -> list[tuple[Any, ...]]:
            return ledger.execute(query).fetchall()

        assert found("pragma integrity_check") == [("ok",)]
        modes = dict(found("select venue, group_concat(distinct mode) from intent group by venue"))
        assert modes == {"manifold": "live", "metaculus": "live", "forecastbench": "live", "polymarket": "paper"}
        assert {row[0] for row in found("select distinct venue from arm")} == {"manifold", "metaculus", "forecastbench"}
        assert found("select count(*) from job_run where outcome = 'failed'") == [(0,)]
        quotes = dict(found("select job, detail from job_run where job like 'prices %'"))
        assert {name: bool(re.search("[1-9][0-9]* quotes", output)) for name, output in quotes.items()} == {
            "prices manifold": True,
            "prices polymarket": True,
        }
    assert [path.name for path in (foxcast.folder / "state").iterdir()] == ["demo"]


def test_the_screen_scores_as_the_command_does(
    demo: tuple[FoxcastInstallation, CommandResult, list[Any]], run_command: InProcessCommand
) -> None:
    foxcast, _, _ = demo
    seen = DemoLedgerReader(
        foxcast.folder / "state" / "demo" / "live" / "ledger.sqlite", ("blf", "baseline")
    ).read_snapshot()
    output = run_command(foxcast, "--config", "state/demo/config.toml", "score", "--json", "-").json["by_forecaster"]
    assert seen.tallies.keys() == {"blf", "baseline"}
    for name, tally in seen.tallies.items():
        (whole,) = output[name]["standings"]["venue"].values()
        assert tally.n == whole["n"]
        assert tally.brier == pytest.approx(whole["brier"])
        assert tally.with_crowd == whole["crowd"]["n"]


def test_the_secrets_of_the_accounts_are_in_their_files_alone(
    demo: tuple[FoxcastInstallation, CommandResult, list[Any]],
) -> None:
    foxcast, answer, _ = demo
    folder = foxcast.folder / "state" / "demo"
    for name in ("manifold.key", "metaculus.token"):
        secret = (folder / name).read_bytes()
        files = [path for path in folder.rglob("*") if path.is_file() and path.name != name]
        assert [path for path in files if secret in path.read_bytes()] == []
        assert secret.decode() not in answer.out


@pytest.mark.parametrize(("option", "value"), [("--days", "0"), ("--days", "301"), ("--seed", "-1")])
def test_numbers_that_make_no_world_are_refused(
    new_installation: FoxcastInstallation, run_command: InProcessCommand, option: str, value: str
) -> None:
    assert run_command(new_installation, "demo", option, value).is_refusal(2, option)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"folder": "."}, ["holds something else (notes.txt)", "--folder"]),
        ({"folder": "notes.txt"}, ["is no folder", "--folder"]),
        ({"folder": "demo", "svg": "nowhere/x.svg"}, ["--svg", "cannot be written"]),
        ({"folder": "demo", "svg": "demo/x.svg"}, ["--svg", "name a place outside demo"]),
        ({"folder": "demo", "svg": "."}, ["--svg", "cannot be written"]),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    asked: dict[str, str],
    words: list[str],
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    monkeypatch.chdir(tmp_path)
    code, output = main([json.dumps(asked)]), capsys.readouterr()
    assert CommandResult(code, output.out, output.err).is_refusal(2, *words)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_the_command_becomes_the_demo(
    new_installation: FoxcastInstallation, run_command: InProcessCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    became: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, arguments: became.append(arguments))
    assert run_command(new_installation, "demo", "--seed", "3", "--fast", "--folder", "my place").code == 0
    ((*start, asked),) = became
    assert [*start, asked] == child_command("bot.simulator.demo.__main__:main", asked)
    found = json.loads(asked)
    assert (found["seed"], found["fast"], found["folder"]) == (3, True, "my place")
    assert "days" not in found


def test_the_keyboard_stops_it_with_what_there_is(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [COMMAND, "demo", "--fast", "--seed", str(SEED)],
        cwd=tmp_path,
        env={**FoxcastInstallation(tmp_path).environment, "TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
    )
    os.close(theirs)
    shown = b""
    for part in _parts(ours):
        shown += part
        if b"open questions found" in shown and process.poll() is None and b"Look further" not in shown:
            process.send_signal(signal.SIGINT)
            break
    shown += b"".join(_parts(ours))
    os.close(ours)
    _, output = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, b"")
    assert b"Look further" in shown
    assert b"it was interrupted" in shown
    assert b"give it more days" not in shown


def _parts(terminal: int) -> Iterator[bytes]:
    """Yield what is written to a terminal until nobody writes to it any more, which Linux tells by an error."""
    with suppress(OSError):
        while part := os.read(terminal, 65_536):
            yield part
