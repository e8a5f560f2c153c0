"""The command lines that a call names: its own once more, and the next one with its configuration."""

import os
import shlex
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.cli.options import CommandInvocation

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
