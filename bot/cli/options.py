"""Options that several commands share, and a command's options as one value instead of many parameters."""

import dataclasses
import inspect
import typing
from collections.abc import Callable
from datetime import date
from typing import Any, TypeVar

import typer

ROUNDS_HELP = "A folder with question_sets/ and resolution_sets/ in the published form, plain or gzip."
VENUE_HELP = "The venue whose rounds these are, where several can read past rounds."

O = TypeVar("O")  # noqa: E741 - as in Options


def spread(options: type[O]) -> Callable[[Callable[[typer.Context, O], None]], Callable[..., None]]:
    """Give a command one parameter for each field of a dataclass, whose annotations and defaults Typer then reads.

    The command itself takes the context and one value of the dataclass.
    """

    def decorate(command: Callable[[typer.Context, O], None]) -> Callable[..., None]:
        def spread_out(ctx: typer.Context, **values: Any) -> None:  # noqa: ANN401 - as the fields say
            command(ctx, options(**values))

        hints = typing.get_type_hints(options, include_extras=True)
        parameters = [_parameter(field, hints[field.name]) for field in dataclasses.fields(options)]  # type: ignore[arg-type]  # a dataclass by contract
        context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        spread_out.__signature__ = inspect.Signature([context, *parameters])  # type: ignore[attr-defined]  # read by inspect
        spread_out.__annotations__ = {"ctx": typer.Context, **hints}
        spread_out.__name__, spread_out.__doc__ = command.__name__, command.__doc__
        return spread_out

    return decorate


def day(text: str) -> date:
    """Read a date of an option; raises a usage error that shows the form."""
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        message = f"{text!r} is not a date like 2026-04-26"
        raise typer.BadParameter(message) from error


def _parameter(field: "dataclasses.Field[Any]", annotation: object) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
