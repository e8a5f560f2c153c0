"""A folder of a stranger: its ./config.toml names a plugin file, which leaves a trace wherever it is executed."""

import os
import pty
from pathlib import Path

import pytest

from tests.acceptance.command_server import run_foxcast
from tests.acceptance.conftest import CommandResult, FoxcastInstallation

PLUGIN = """
from pathlib import Path
from bot.api import CommandSpec, hookimpl

with Path("TRACE").open("a") as trace:
    trace.write("executed\\n")


def trap() -> None:
    print("the trap ran")


@hookimpl
def foxcast_commands() -> list[CommandSpec]:
    return [CommandSpec(name="trap", summary="A trap", run=trap)]
"""
CONFIG = 'plugins = ["trap", "baseline"]\nplugin_files = ["trap.py"]\n'
SIGNER = """
[venues.polymarket]
forecasters = ["baseline"]
[venues.polymarket.settings]
signer_python = "./trap"
"""
READ_ONLY = (
    ["--version"],
    ["--help"],
    ["config", "show"],
    ["config", "upgrade", "config.toml"],
    ["doctor"],
    ["status"],
    ["plugins"],
    ["db", "list"],
    ["unknown"],
    ["trap"],
)


class StrangersFolder(FoxcastInstallation):
    """An installation whose configuration is not named, but found in the working directory."""

    @property
    def environment(self) -> dict[str, str]:
        named = super().environment
        named.pop("FOXCAST_CONFIG", None)
        return {**named, "HOME": str(self.folder.parent / "home"), **self.extra}

    @property
    def executions(self) -> int:
        trace = self.folder / "TRACE"
        return len(trace.read_text().splitlines()) if trace.exists() else 0

    def answer(self, reply: str, *arguments: str) -> CommandResult:
        """Run a command at a terminal, where a person types the reply."""
        person, terminal = pty.openpty()
        os.write(person, f"{reply}\n".encode())
        done = run_foxcast(arguments, folder=self.folder, environment=self.environment, stdin=terminal)
        os.close(person)
        os.close(terminal)
        return CommandResult(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def folder(tmp_path: Path) -> StrangersFolder:
    stranger = StrangersFolder(tmp_path / "stranger")
    stranger.folder.mkdir()
    (tmp_path / "home").mkdir()
    stranger.config.write_text(CONFIG)
    (stranger.folder / "trap.py").write_text(PLUGIN)
    return stranger


@pytest.mark.timeout(240)
def test_nothing_of_a_strangers_folder_is_executed_before_a_person_trusts_it(folder: StrangersFolder) -> None:
    for command in READ_ONLY:
        folder(*command)
        assert folder.executions == 0, command
    assert "are not trusted yet" in folder("plugins").out.replace("\n", " ")
    refused = folder("run", "--once")
    assert refused.is_refusal(2, str(folder.folder / "trap.py"), "foxcast trust", "--config")
    assert folder.executions == 0


@pytest.mark.timeout(240)
def test_a_person_is_asked_once_per_folder_and_a_new_file_is_asked_again(folder: StrangersFolder) -> None:
    refused = folder.answer("n", "run", "--once")
    assert "Trust them?" in refused.err
    assert (refused.code, folder.executions) == (2, 0)
    folder.answer("y", "run", "--once")
    assert folder.executions == 1
    assert folder("trap").out == "the trap ran\n"
    assert "nothing to trust" in folder("trust").out
    record = folder.folder.parent / "home" / ".local" / "state" / "foxcast" / "trusted_plugin_files.json"
    assert record.stat().st_mode & 0o777 == 0o600
    # The trust is for these files of this folder.
    (folder.folder / "other.py").write_text(PLUGIN)
    folder.config.write_text(CONFIG.replace('["trap.py"]', '["trap.py", "other.py"]'))
    assert folder("run", "--once").is_refusal(2, "other.py", "foxcast trust")
    before = folder.executions
    assert folder("trust").code == 0
    assert folder.executions == before
    assert "not trusted" not in folder("plugins").out


@pytest.mark.parametrize(
    ("config", "program"),
    [
        ('plugins = ["command"]\n[notifiers.command.settings]\nrun = ["./trap", "--now"]\n', "./trap --now"),
        (f'plugins = ["polymarket", "baseline"]\n{SIGNER}', "./trap"),
    ],
    ids=["notifier", "signer"],
)
def test_a_program_that_a_strangers_settings_name_runs_only_once_it_is_trusted(
    folder: StrangersFolder, config: str, program: str
) -> None:
    trap = folder.folder / "trap"
    trap.write_text("#!/bin/sh\necho executed >>TRACE\n")
    trap.chmod(0o755)
    folder.config.write_text(config)
    for command in (["run", "--once"], ["notify", "test"]):
        assert folder(*command).is_refusal(2, f"the programs of {folder.folder} are not trusted yet ({program})")
    assert folder.executions == 0
    assert f"trusted: {program};" in " ".join(folder("trust").out.split())
    assert "not trusted" not in folder("notify", "test").err
    assert "nothing to trust" in folder("trust").out
    # The trust is for this program with these arguments.
    folder.config.write_text(config.replace("./trap", "./trap2"))
    assert folder("notify", "test").is_refusal(2, f"({program.replace('trap', 'trap2')})")


def test_a_configuration_that_the_user_names_needs_no_trust(folder: StrangersFolder) -> None:
    assert folder("--config", "config.toml", "trap").out == "the trap ran\n"
    assert folder.with_environment(FOXCAST_CONFIG="config.toml")("trap").out == "the trap ran\n"


@pytest.mark.parametrize(
    ("name", "mode"), [("config.toml", 0o666), ("trap.py", 0o622), (".", 0o777)], ids=["config", "plugin", "folder"]
)
def test_what_others_can_write_is_refused_even_if_it_is_named(folder: StrangersFolder, name: str, mode: int) -> None:
    place = folder.folder / name
    place.chmod(mode)
    refused = folder("--config", "config.toml", "run", "--once")
    assert refused.is_refusal(2, "other users can write to", "run: chmod go-w")
    assert folder.executions == 0
    assert folder("--config", "config.toml", "doctor").code == 1
    assert folder.executions == 0
