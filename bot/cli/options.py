"""Options that all or several commands share.

The global ones, help texts, date parsing, and a command's options as one dataclass. Imports little, so that `--help`
is fast.
"""

import dataclasses
import inspect
import shlex
import shutil
import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import typer

# What argv begins with in `python -m foxcast`.
LAUNCHER_FILE = "foxcast.py"


@dataclass(slots=True)
class CommandInvocation:
    """One call of ``foxcast``, filled in as its options are read: where the configuration is, and how errors look.

    ``arguments`` are its arguments as they were typed.
    """

    config_path: Path | None = None
    debug: bool = False
    arguments: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        """How to call the program again, for a shell: by its name where the shell finds it, else by its place."""
        place = Path(sys.argv[0])
        if place.name == LAUNCHER_FILE:
            return shlex.join([sys.executable, "-m", place.stem])
        if shutil.which(place.name):
            return shlex.quote(place.name)
        return shlex.quote(str(place.relative_to(Path.cwd()) if place.is_relative_to(Path.cwd()) else place))

    @property
    def command_line(self) -> str:
        """The same command line once more, for a shell."""
        return " ".join([self.program, *map(shlex.quote, self.arguments)])

    def command_line_for(self, *arguments: str) -> str:
        """Return another command line for a shell, with the configuration that this call was given."""
        config = () if self.config_path is None else ("--config", str(self.config_path))
        return " ".join([self.program, *map(shlex.quote, (*config, *arguments))])


ROUNDS_HELP = "A folder with question_sets/ and resolution_sets/ in the published form, plain or gzip."


ROUNDS_VENUE_HELP = "The venue whose rounds these are, where several can read past rounds."


O = TypeVar("O")  # noqa: E741 - as in Options


def options_from_dataclass(options: type[O]) -> Callable[[Callable[[typer.Context, O], None]], Callable[..., None]]:
    """Give a command one parameter for each field of a dataclass, whose annotations and defaults Typer then reads.

    The command itself takes the context and one value of the dataclass.
    """

    def decorate(command: Callable[[typer.Context, O], None]) -> Callable[..., None]:
        def spread_out(ctx: typer.Context, **values: Any) -> None:  # noqa: ANN401 - as the fields say
            command(ctx, options(**values))

        hints = typing.get_type_hints(options, include_extras=True)
        parameters = [_field_parameter(field, hints[field.name]) for field in dataclasses.fields(options)]  # type: ignore[arg-type]  # a dataclass by contract
        context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        spread_out.__signature__ = inspect.Signature([context, *parameters])  # type: ignore[attr-defined]  # read by inspect
        spread_out.__annotations__ = {"ctx": typer.Context, **hints}
        spread_out.__name__, spread_out.__doc__ = command.__name__, command.__doc__
        return spread_out

    return decorate


def parse_date(text: str) -> date:
    """Read a date of an option; raises a usage error that shows the form."""
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        message = f"{text!r} is not a date like 2026-04-26"
        raise typer.BadParameter(message) from error


def _field_parameter(field: "dataclasses.Field[Any]", annotation: object) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
