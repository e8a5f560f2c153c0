"""The options of a command as one value, and the command lines that a call names."""

import os
import shlex
import sys
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from bot.cli.options import CommandInvocation, options_from_dataclass, parse_date


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


# What a system passes to a program: any text without a zero.
WORDS = st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), max_size=5)


@given(words=WORDS)
def test_the_same_command_once_more_has_each_argument_as_it_was_typed(words: list[str]) -> None:
    assert shlex.split(CommandInvocation(arguments=tuple(words)).command_line)[1:] == words


@given(words=WORDS)
def test_the_next_command_has_the_configuration_that_was_given(words: list[str]) -> None:
    assert shlex.split(CommandInvocation(config_path=Path("my place/c.toml")).command_line_for(*words))[1:] == [
        "--config",
        "my place/c.toml",
        *words,
    ]
    assert shlex.split(CommandInvocation().command_line_for(*words))[1:] == words


def test_a_program_in_a_place_with_a_blank_is_still_one_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "my place" / "foxcast-of-mine"
    place.parent.mkdir()
    place.touch()
    monkeypatch.setattr(sys, "argv", [os.fspath(place)])
    monkeypatch.chdir(tmp_path)
    call = CommandInvocation(arguments=("doctor",))
    assert shlex.split(call.command_line) == ["my place/foxcast-of-mine", "doctor"]
    assert shlex.split(call.command_line_for("doctor")) == ["my place/foxcast-of-mine", "doctor"]


def test_a_call_through_the_interpreter_is_repeated_through_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/foxcast.py", "doctor"])
    call = CommandInvocation(arguments=("doctor",))
    assert shlex.split(call.command_line) == [sys.executable, "-m", "foxcast", "doctor"]
