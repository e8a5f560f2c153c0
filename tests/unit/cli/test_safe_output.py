"""Titles of strangers, and what of them a terminal gets to see."""

import io
import json
import logging
import unicodedata

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from bot.cli.command_setup import _configure_logging
from bot.cli.main import _report_error
from bot.cli.options import CommandInvocation
from bot.cli.output.console import ColumnKind, SafeConsole, TableColumn, make_table, print_indented, to_json_text
from bot.config.schema import LogFormat, LogSection
from bot.core.errors import ConfigError
from bot.core.plain_text import replace_invisible

# A window title, a cleared screen, a colour by a C1 control, text turned around, half a character.
HOSTILE = "\x1b]0;PWNED\x07\x1b[2J\x9b31m\u202ertl\ud800"
HARMLESS = "\ufffd]0;PWNED\ufffd\ufffd[2J\ufffd31m\ufffdrtl\ufffd"


def hidden(text: str) -> list[str]:
    return [one for one in text if unicodedata.category(one) in {"Cc", "Cf", "Cs"} and one not in "\n\t"]


def test_each_character_that_cannot_be_seen_is_marked() -> None:
    assert replace_invisible(HOSTILE) == HARMLESS
    assert replace_invisible("zwei\tWörter\nund 日本 \u00a0\U0001f600") == "zwei\tWörter\nund 日本 \u00a0\U0001f600"


@given(st.text())
def test_plain_text_has_only_what_can_be_seen_and_keeps_its_length(text: str) -> None:
    assert hidden(replace_invisible(text)) == []
    assert len(replace_invisible(text)) == len(text)


@given(st.text(st.characters()))
def test_json_is_exact_and_still_harmless(text: str) -> None:
    written = to_json_text({"title": text})
    assert json.loads(written) == {"title": text}
    assert hidden(written) == []


@pytest.mark.parametrize("kind", ColumnKind)
def test_whatever_the_console_prints_is_plain(kind: ColumnKind) -> None:
    console = SafeConsole(file=io.StringIO(), width=200, markup=False)
    console.print(HOSTILE)
    print_indented(console, HOSTILE, style="dim")
    console.print(make_table([TableColumn(HOSTILE, kind)], [[HOSTILE]], title=HOSTILE))
    assert isinstance(console.file, io.StringIO)
    written = console.file.getvalue()
    assert hidden(written) == []
    assert written.count("PWNED") == 5


def test_the_console_keeps_its_own_styles() -> None:
    console = SafeConsole(file=io.StringIO(), width=200, force_terminal=True, color_system="standard", highlight=False)
    console.print("\x1b[31mred", style="bold")
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == "\x1b[1m\ufffd[31mred\x1b[0m\n"


@pytest.mark.parametrize("debug", [False, True])
def test_an_error_is_told_plainly(*, debug: bool, capsys: pytest.CaptureFixture[str]) -> None:
    assert _report_error(ConfigError(HOSTILE), CommandInvocation(debug=debug)) == 2
    told = capsys.readouterr().err
    assert hidden(told) == []
    assert told.endswith(f"foxcast: {HARMLESS}\n")


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("form", LogFormat)
def test_an_event_is_logged_plainly_and_in_a_line(
    *, debug: bool, form: LogFormat, capsys: pytest.CaptureFixture[str]
) -> None:
    before = structlog.get_config()
    try:
        _configure_logging(LogSection(format=form), CommandInvocation(debug=debug), logging.WARNING)
        log = structlog.get_logger()
        log.warning(HOSTILE, question=HOSTILE, why=[HOSTILE], detail="a\nforged line")
        log.error("failed", exc_info=ValueError(HOSTILE))
    finally:
        structlog.configure(**before)
    logged = capsys.readouterr().err
    assert hidden(logged) == []
    assert not any(line.startswith("forged") for line in logged.split("\n"))
    assert len(logged.splitlines()) == 2 or (debug and form is not LogFormat.JSON)
