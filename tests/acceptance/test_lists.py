"""What all lists can do, what a full disk and odd arguments do, and what the shell is offered."""

import csv
import io
import os
import sqlite3
import subprocess
from contextlib import closing

import pytest

from tests.acceptance.command_server import COMMAND
from tests.acceptance.conftest import CommandResult, FoxcastInstallation, InProcessCommand


def refs(done: CommandResult) -> list[str]:
    return [row["ref"] for row in done.json]


def test_a_list_is_searched_sorted_and_cut_in_this_order(
    foxcast: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    everything = run_command(foxcast, "questions", "--json", "--limit", 1000).json
    titled = [row for row in everything if "WILL" in row["title"].upper() and row["crowd"] is not None]
    expected = sorted((row["crowd"] for row in titled), reverse=True)[:3]
    found = run_command(foxcast, "questions", "--search", "will", "--sort", "-crowd", "--limit", 3, "--json").json
    assert [row["crowd"] for row in found] == expected
    # Those without a price come last, in either direction.
    last = run_command(foxcast, "questions", "--sort", "crowd", "--limit", 1000, "--json").json[-1]
    assert last["crowd"] is None
    assert refs(run_command(foxcast, "questions", "--search", "no question says this", "--json")) == []


def test_csv_has_the_fields_of_json_and_no_formulas(
    foxcast: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    rows = [*csv.DictReader(io.StringIO(run_command(foxcast, "questions", "--csv", "--limit", 5).out))]
    listed = run_command(foxcast, "questions", "--json", "--limit", 5).json
    assert [row["title"] for row in rows] == [row["title"] for row in listed]
    assert [*rows[0]] == [*listed[0]]
    orders = run_command(foxcast, "orders", "--csv", "--search", rows[0]["ref"])
    assert orders.code == 0
    assert not any(cell.startswith(("=", "+", "-", "@")) for row in csv.reader(io.StringIO(orders.out)) for cell in row)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("questions", "--sort", "crowed"), 2, ("no such field", "did you mean crowd")),
        (("questions", "--venue", "nowhere"), 8, ("no such venue",)),
        (("orders", "--venue", "nowhere"), 8, ("no such venue",)),
        (("score", "--venue", "nowhere"), 8, ("no such venue",)),
        (("portfolio", "--venue", "nowhere"), 8, ("no venue nowhere",)),
        (("demo", "--svg", "x.png"), 2, ("SVG", ".svg")),
    ],
)
def test_the_same_fault_has_the_same_exit_code(
    foxcast: FoxcastInstallation,
    run_command: InProcessCommand,
    arguments: tuple[str, ...],
    code: int,
    words: tuple[str, ...],
) -> None:
    assert run_command(foxcast, *arguments).is_refusal(code, *words)


def test_locks_shows_what_waits_for_the_daemon(
    new_installation: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    assert run_command(new_installation, "run", "--once").code == 0
    name = refs(run_command(new_installation, "questions", "--json", "--limit", 1))[0]
    assert run_command(new_installation, "lock", name, "--reason", "a test").code == 0
    assert run_command(new_installation, "unlock", name).code == 0
    waiting = run_command(new_installation, "locks", "--json").json
    assert [(one["ref"], one["state"]) for one in waiting] == [(name, "lock waits"), (name, "unlock waits")]
    assert run_command(new_installation, "run", "--once").code == 0
    assert run_command(new_installation, "locks", "--json").json == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is always full")  # noqa: PTH110
@pytest.mark.parametrize("arguments", [("questions",), ("questions", "--json"), ("--help",)])
def test_an_output_that_cannot_be_written_is_one_line(foxcast: FoxcastInstallation, arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        done = subprocess.run(
            [COMMAND, *arguments],
            cwd=foxcast.folder,
            env=foxcast.environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert CommandResult(done.returncode, "", done.stderr).is_refusal(5, "the output cannot be written")


def test_an_argument_that_is_no_text_is_a_wrong_argument(foxcast: FoxcastInstallation) -> None:
    done = subprocess.run(
        [bytes(COMMAND), b"show", b"\xff\xfe"],
        cwd=foxcast.folder,
        env=foxcast.environment,
        capture_output=True,
        check=False,
    )
    assert CommandResult(done.returncode, "", done.stderr.decode()).is_refusal(2, "is not UTF-8 text")


def test_the_shell_completes_commands_and_options(foxcast: FoxcastInstallation) -> None:
    def complete(line: str) -> list[str]:
        words = {"_FOXCAST_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
        return foxcast.with_environment(**words)().out.split()

    assert complete("foxcast qu") == ["questions"]
    assert complete("foxcast questions --so") == ["--sort", "--source"]


def test_a_ledger_that_was_killed_before_a_migration_is_one_line_everywhere(
    new_installation: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    folder = new_installation.folder / "state" / "paper"
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as database, database:
        database.execute("create table _sqlite_migrations (migration_set text, name text, applied_at text)")
    for command in (("db", "check"), ("status",), ("questions",)):
        assert run_command(new_installation, *command).is_refusal(5, "older than this Foxcast", "foxcast run --once")
    assert run_command(new_installation, "run", "--once").code == 0
    assert run_command(new_installation, "db", "check").code == 0


def test_a_short_option_shows_help(foxcast: FoxcastInstallation, run_command: InProcessCommand) -> None:
    for command in ((), ("questions",), ("db", "check")):
        assert run_command(foxcast, *command, "-h").out == run_command(foxcast, *command, "--help").out
