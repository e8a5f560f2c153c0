"""Commands of plugins: hidden by a built-in one, or not found because configuration or plugin cannot be read."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bot.cli.command_exit import ExitCode
from bot.cli.doctor import run_checks
from bot.cli.main import RENAMED_COMMANDS, app, main

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
PLUGIN = """
from bot.api import CommandSpec, hookimpl


def run() -> None:
    pass


@hookimpl
def foxcast_commands() -> list[CommandSpec]:
    return [CommandSpec(name="{name}", summary="Hello", run=run)]
"""


@pytest.mark.parametrize(("name", "is_hidden"), [("status", True), (min(RENAMED_COMMANDS), True), ("greet", False)])
def test_a_command_that_a_built_in_one_hides_is_named(tmp_path: Path, name: str, *, is_hidden: bool) -> None:
    config = tmp_path / "config.toml"
    (tmp_path / "greeter.py").write_text(PLUGIN.format(name=name))
    config.write_text('plugins = ["greeter"]\nplugin_files = ["greeter.py"]\n')
    result = CliRunner().invoke(app, ["--config", str(config), "plugins"])
    assert result.exit_code == 0, result.output
    line = f"the command {name} of greeter cannot be called: foxcast has one of that name"
    assert (line in result.output) is is_hidden
    warned = [one.found for one in run_checks(config, NOW) if one.check == "commands"]
    assert warned == ([line] if is_hidden else [])


@pytest.mark.parametrize(
    ("config", "module", "reason"),
    [
        ('plugins = ["greeter"', PLUGIN, "config.toml"),
        ('plugins = ["gretter"]\nplugin_files = ["greeter.py"]', PLUGIN, "did you mean greeter?"),
        ('plugins = ["greeter"]\nplugin_files = ["greeter.py"]', "import no_such_module", "no_such_module"),
    ],
    ids=["unreadable", "misspelt", "broken"],
)
def test_a_command_that_cannot_be_searched_is_not_called_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], config: str, module: str, reason: str
) -> None:
    (tmp_path / "greeter.py").write_text(module.format(name="greet"))
    (tmp_path / "config.toml").write_text(config)
    code = main(["--config", str(tmp_path / "config.toml"), "greet"])
    shown = capsys.readouterr().err
    assert code == ExitCode.USAGE
    assert "there is no built-in command greet" in shown
    assert "cannot be searched" in shown
    assert reason in shown
    assert shown.count("\n") == 1
