"""Shared options: the global ones, help texts, parsing of dates, and the options of a command as one dataclass.

It imports little, so that `--help` is fast.
"""

import dataclasses
import inspect
import shlex
import shutil
import sys
import typing
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import typer

from bot.core.light_dataclass import dataclass

# The name of the script in argv for `python -m foxcast`.
LAUNCHER_FILE = "foxcast.py"


@dataclass(slots=True)
class CommandInvocation:
    """One call of ``foxcast``: its global options, and ``arguments``, the arguments as they were typed."""

    config_path: Path | None = None
    debug: bool = False
    arguments: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        """How to call the program again in a shell: by its name if the shell finds it, otherwise by its path."""
        path = Path(sys.argv[0])
        if path.name == LAUNCHER_FILE:
            return shlex.join([sys.executable, "-m", path.stem])
        if shutil.which(path.name):
            return shlex.quote(path.name)
        return shlex.quote(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))

    @property
    def absolute_program(self) -> tuple[str, ...]:
        """How to call the program again without a shell, from any folder."""
        path = Path(sys.argv[0])
        if path.name == LAUNCHER_FILE:
            return sys.executable, str(path.absolute())
        return (str(Path(shutil.which(str(path)) or path).absolute()),)

    @property
    def command_line(self) -> str:
        """The same command line again, quoted for a shell."""
        return " ".join([self.program, *map(shlex.quote, self.arguments)])

    def command_line_for(self, *arguments: str) -> str:
        """Return another command line for a shell, with the --config option of this call."""
        config = () if self.config_path is None else ("--config", str(self.config_path))
        return " ".join([self.program, *map(shlex.quote, (*config, *arguments))])


ROUNDS_HELP = "A folder with question_sets/ and resolution_sets/ in the published format, plain or gzip."


ROUNDS_VENUE_HELP = "The venue of the rounds, if several venues can read past rounds."


O = TypeVar("O")  # noqa: E741 - as in Options


def options_from_dataclass(options: type[O]) -> Callable[[Callable[[typer.Context, O], None]], Callable[..., None]]:
    """Give a command one option for each field of a dataclass; Typer reads their annotations and defaults.

    The command itself takes the context and one value of the dataclass.
    """

    def decorate(command: Callable[[typer.Context, O], None]) -> Callable[..., None]:
        def call_command(ctx: typer.Context, **values: Any) -> None:  # noqa: ANN401 - as the fields say
            command(ctx, options(**values))

        hints = typing.get_type_hints(options, include_extras=True)
        parameters = [_field_parameter(field, hints[field.name]) for field in dataclasses.fields(options)]  # type: ignore[arg-type]  # a dataclass by contract
        context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        call_command.__signature__ = inspect.Signature([context, *parameters])  # type: ignore[attr-defined]  # read by inspect
        call_command.__annotations__ = {"ctx": typer.Context, **hints}
        call_command.__name__, call_command.__doc__ = command.__name__, command.__doc__
        return call_command

    return decorate


def split_names(text: str) -> tuple[str, ...]:
    """Return the names of a list with commas, each once and in order."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def parse_date(text: str) -> date:
    """Parse the date given to an option; raises a usage error that shows the format."""
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        message = f"{text!r} is not a date such as 2026-04-26"
        raise typer.BadParameter(message) from error


def _field_parameter(field: "dataclasses.Field[Any]", annotation: object) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
