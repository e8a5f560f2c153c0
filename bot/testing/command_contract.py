"""Contract kit for commands: tests that a plugin's test module inherits."""

# ruff: noqa: S101 - pytest is made of assert
import inspect
from typing import ClassVar

import typer
from typer.main import get_command
from typer.testing import CliRunner

from bot.core.plugin_specs import API_VERSION, CommandSpec


class CommandContract:
    """What every command must do; ``run`` calls it as a person does, for tests of what it prints."""

    spec: ClassVar[CommandSpec]

    def run(self, *arguments: str) -> str:
        """Return what the command prints with these arguments; raises what it raises."""
        done = CliRunner().invoke(self._app(), arguments, prog_name=f"foxcast {self.spec.name}")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == 0, f"exit code {done.exit_code}: {done.output}"
        return done.output

    def test_it_is_built_for_this_version(self) -> None:
        found = self.spec.api_version
        assert found == API_VERSION, f"the plugin is for version {found} of the API, and this is {API_VERSION}"

    def test_help_says_what_it_does(self) -> None:
        shown = " ".join(self.run("--help").split())
        assert " ".join(self.spec.summary.split()) in shown, f"--help does not show CommandSpec.summary: {shown}"

    def test_every_parameter_is_annotated_and_explained(self) -> None:
        for name, parameter in inspect.signature(self.spec.run).parameters.items():
            assert parameter.annotation is not parameter.empty, f"the parameter {name} has no annotation"
        for one in get_command(self._app()).params:
            assert getattr(one, "help", None), (
                f"the parameter {one.name} has no help text: Annotated[..., typer.Option(help=...)]"
            )

    def test_a_function_that_waits_is_never_run(self) -> None:
        assert not inspect.iscoroutinefunction(self.spec.run), (
            "the function of a command is called, not awaited: write a plain function that calls asyncio.run"
        )

    def _app(self) -> typer.Typer:
        app = typer.Typer(add_completion=False)
        app.command(self.spec.name, help=self.spec.summary)(self.spec.run)
        return app
