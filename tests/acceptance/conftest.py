"""The real command in a subprocess, in folders of its own, on the bundled rounds."""

import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

import pytest
import structlog

from bot.cli.main import main
from tests.acceptance.command_server import run_foxcast

PLUGIN = Path(__file__).with_name("fake_crowd_forecaster.py")
AS_INSTALLED = Path(__file__).with_name("as_installed")
CONFIG = """
plugins = ["forecastbench", "fake_crowd_forecaster"]
plugin_files = ["{plugin}"]

[venues.forecastbench]
forecasters = ["steady"]

[venues.forecastbench.settings]
rounds = "all"
"""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def is_refusal(self, code: int, *words: str) -> bool:
        """Say whether the command ended so, with one line on stderr that holds the words, and no traceback."""
        one_line = self.err.startswith("foxcast: ") and self.err.count("\n") == 1
        return self.code == code and one_line and all(word in self.err for word in words)


@dataclass(frozen=True, slots=True)
class FoxcastInstallation:
    """One installation: a folder with a configuration, in which commands are run."""

    folder: Path
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        return self.folder / "config.toml"

    @property
    def environment(self) -> dict[str, str]:
        hidden = ("FOXCAST_", "XDG_", "COLUMNS", "NO_COLOR", "FORCE_COLOR")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        # Named, so that its plugin files need no trust: tests/acceptance/test_trust.py leaves that out.
        named = {"FOXCAST_CONFIG": self.config.name} if self.config.exists() else {}
        return {**kept, **named, "HOME": str(self.folder), "PYTHONPATH": str(AS_INSTALLED), **self.extra}

    def __call__(self, *arguments: object, timeout: float = 60) -> CommandResult:
        done = run_foxcast([*map(str, arguments)], folder=self.folder, environment=self.environment, timeout=timeout)
        return CommandResult(done.returncode, done.stdout, done.stderr)

    def with_environment(self, **extra: str) -> "FoxcastInstallation":
        return FoxcastInstallation(self.folder, {**self.extra, **extra})


def installed(folder: Path, config: str = CONFIG) -> FoxcastInstallation:
    """Return an installation in the folder; nothing has run in it yet."""
    foxcast = FoxcastInstallation(folder)
    foxcast.config.write_text(config.format(plugin=PLUGIN))
    return foxcast


@pytest.fixture
def new_installation(tmp_path: Path) -> FoxcastInstallation:
    """An installation in which nothing has run."""
    return installed(tmp_path)


@pytest.fixture(scope="session")
def first_pass(tmp_path_factory: pytest.TempPathFactory) -> tuple[FoxcastInstallation, CommandResult]:
    """An installation after one pass over the bundled rounds, only to be read, and what the pass said."""
    foxcast = installed(tmp_path_factory.mktemp("foxcast"))
    return foxcast, foxcast("run", "--once")


@pytest.fixture(scope="session")
def foxcast(first_pass: tuple[FoxcastInstallation, CommandResult]) -> FoxcastInstallation:
    """An installation after one pass over the bundled rounds, only to be read."""
    return first_pass[0]


def run_in_thread(foxcast: FoxcastInstallation, *arguments: object) -> CommandResult:
    """Run a command as InProcessCommand does, for a thread, while the loop of the main thread serves what it asks.

    Commands that take signals (run, forecast) need a process of their own.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="", write_through=True) for _ in range(2))
    with (
        mock.patch.dict(os.environ, foxcast.environment, clear=True),
        chdir(foxcast.folder),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code = main([*map(str, arguments)])
    structlog.reset_defaults()
    said = [stream.detach().getvalue().decode() for stream in (out, err)]
    return CommandResult(code, *said)


class InProcessCommand(Protocol):
    """Runs a command of an installation in this process, through the same entry point."""

    def __call__(self, foxcast: FoxcastInstallation, /, *arguments: object) -> CommandResult: ...


@pytest.fixture
def run_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[InProcessCommand]:
    """Run commands in this process: where a process of its own adds nothing but its start."""

    def call(foxcast: FoxcastInstallation, /, *arguments: object) -> CommandResult:
        monkeypatch.chdir(foxcast.folder)
        for name in set(os.environ) - foxcast.environment.keys():
            monkeypatch.delenv(name)
        for name, value in foxcast.environment.items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        code = main([*map(str, arguments)])
        return CommandResult(code, *capsys.readouterr())

    yield call
    structlog.reset_defaults()
