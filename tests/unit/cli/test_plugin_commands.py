"""`foxcast plugins` names commands of plugins that a built-in one hides."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bot.cli.main import app

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
