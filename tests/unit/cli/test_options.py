"""A command's options as one value."""

from dataclasses import dataclass
from datetime import date
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from bot.cli.options import options_from_dataclass, parse_date


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is asked."""

    name: Annotated[str, typer.Argument()]
    since: Annotated[date | None, typer.Option(parser=parse_date)] = None
    loud: Annotated[bool, typer.Option("--loud")] = False


app = typer.Typer()


@app.command()
@options_from_dataclass(Options)
def say(ctx: typer.Context, options: Options) -> None:
    """Say what was asked."""
    typer.echo(f"{ctx.command_path.split()[-1]} {options!r}")


def test_each_field_becomes_a_parameter_and_all_arrive_as_one_value() -> None:
    said = CliRunner().invoke(app, ["ada", "--since", "2026-04-26", "--loud"]).output
    assert repr(Options(name="ada", since=date(2026, 4, 26), loud=True)) in said


def test_a_field_that_is_not_given_has_its_default() -> None:
    assert repr(Options(name="ada")) in CliRunner().invoke(app, ["ada"]).output


def test_the_command_keeps_its_own_help() -> None:
    assert "Say what was asked." in CliRunner().invoke(app, ["--help"]).output


def test_a_date_is_read_strictly() -> None:
    assert parse_date("2026-04-26") == date(2026, 4, 26)
    with pytest.raises(typer.BadParameter, match="is not a date such as 2026-04-26"):
        parse_date("26.4.2026")
