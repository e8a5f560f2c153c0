"""The first thing people do: ask for help, mistype, and pipe."""

import subprocess
from pathlib import Path

import pytest

from bot.cli.command_exit import EXIT_CODE_MEANINGS
from bot.cli.main import COMMANDS
from tests.acceptance.command_server import COMMAND
from tests.acceptance.conftest import FoxcastInstallation, InProcessCommand, installed

# Each takes longer to import than help takes to be read.
HEAVY = {"ddgs", "httpx", "litellm", "matplotlib", "numpy", "scipy", "selectolax", "sqlite3", "trafilatura"}


def test_help_waits_for_nothing_heavy(new_installation: FoxcastInstallation) -> None:
    answer = new_installation.with_environment(PYTHONPROFILEIMPORTTIME="1")("--help")
    assert answer.code == 0
    imported = {line.rpartition("|")[2].strip() for line in answer.err.splitlines() if line.startswith("import time:")}
    assert "bot.cli.main" in imported
    # Where the tests are measured, the tool that measures is imported too.
    measuring = {"sqlite3"} if "coverage" in imported else set()
    assert imported & HEAVY == measuring


def test_help_lists_every_command_and_every_exit_code(new_installation: FoxcastInstallation) -> None:
    output = " ".join(new_installation.with_environment(COLUMNS="300")("--help").out.split())
    for name, entry in COMMANDS.items():
        assert name in output
        assert entry.summary in output
    for code, meaning in EXIT_CODE_MEANINGS.items():
        assert f"{code.value} {meaning}" in output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_as_the_overview_does(
    new_installation: FoxcastInstallation, name: str, run_command: InProcessCommand
) -> None:
    answer = run_command(new_installation.with_environment(COLUMNS="300"), name, "--help")
    assert answer.code == 0
    assert COMMANDS[name].summary in answer.out


def test_without_a_command_there_is_help(new_installation: FoxcastInstallation) -> None:
    answer = new_installation()
    assert (answer.code, answer.err) == (0, "")
    assert "Usage: foxcast" in answer.out


def test_the_version_is_one_line(new_installation: FoxcastInstallation) -> None:
    assert new_installation("--version").out.startswith("foxcast 0.")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["staus"], ["there is no command staus", "did you mean status"]),
        (["court", "scenarios"], ['the command court is in the plugin society: add "society" to plugins']),
        (["status", "--jsn"], ["no such option: --jsn", "see foxcast status --help"]),
        (["status", "--config", "x"], ["it goes before the command", "foxcast --config"]),
        (["show"], ["missing argument 'ID'"]),
        (["db"], ["missing command"]),
        (["questions", "--state", "asleep"], ["--state", "asleep"]),
        (["questions", "--limit", "many"], ["--limit", "integer"]),
        (["backtest", "--forecaster", "steady"], ["missing option '--rounds'"]),
    ],
    ids=str,
)
def test_wrong_usage_is_one_line_that_says_what_is_right(
    new_installation: FoxcastInstallation, run_command: InProcessCommand, arguments: list[str], words: list[str]
) -> None:
    assert run_command(new_installation, *arguments).is_refusal(2, *words)


def test_a_reader_that_goes_away_is_no_error(foxcast: FoxcastInstallation) -> None:
    with subprocess.Popen(
        [COMMAND, "questions", "--limit", "1000", "--json"],
        cwd=foxcast.folder,
        env=foxcast.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=20) == 141


def test_a_plugin_adds_a_command(foxcast: FoxcastInstallation) -> None:
    answer = foxcast("greet", "--name", "ada")
    assert (answer.code, answer.out, answer.err) == (0, "hello ada\n", "")


def test_an_unexpected_error_is_one_line_too(foxcast: FoxcastInstallation, run_command: InProcessCommand) -> None:
    assert run_command(foxcast, "greet").is_refusal(1, "unexpected LookupError: nobody", "foxcast --debug")


def test_help_of_a_plugins_command_is_its_summary(foxcast: FoxcastInstallation, run_command: InProcessCommand) -> None:
    assert "Greet somebody" in run_command(foxcast, "greet", "--help").out


def test_a_faulty_configuration_does_not_hide_a_mistyped_command(tmp_path: Path, run_command: InProcessCommand) -> None:
    assert run_command(installed(tmp_path, "colour = 1\n"), "staus").is_refusal(2, "did you mean status")
