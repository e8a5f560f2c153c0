"""Commands of plugins: hidden by a built-in one, or not found because configuration or plugin cannot be read."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bot.cli.command_exit import ExitCode
from bot.cli.main import app, main

PLUGIN = """
from bot.api import CommandSpec, hookimpl


def run() -> None:
    pass


@hookimpl
def foxcast_commands() -> list[CommandSpec]:
    return [CommandSpec(name="{name}", summary="Hello", run=run)]
"""


@pytest.mark.parametrize(("name", "is_hidden"), [("status", True), ("greet", False)])
def test_a_command_that_a_built_in_one_hides_is_named(tmp_path: Path, name: str, *, is_hidden: bool) -> None:
    (tmp_path / "greeter.py").write_text(PLUGIN.format(name=name))
    (tmp_path / "config.toml").write_text('plugins = ["greeter"]\nplugin_files = ["greeter.py"]\n')
    result = CliRunner().invoke(app, ["--config", str(tmp_path / "config.toml"), "plugins"])
    assert result.exit_code == 0, result.output
    assert (f"the command {name} of greeter cannot be called" in result.output) is is_hidden


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
