"""Question files of others: no pipe is waited for, no key takes long to read, none names a file."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.cli.question_file import read_question, title_to_key
from bot.core.errors import MalformedDataError, NotFoundError
from bot.core.plain_text import replace_invisible
from bot.core.questions import Question

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
TITLE = 'title = "Will it rain?"\n'


def read(tmp_path: Path, text: str) -> Question:
    path = tmp_path / "q.toml"
    path.write_text(text)
    return read_question(path, now=NOW)


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "q.toml"
    os.mkfifo(path)
    with pytest.raises(NotFoundError, match="is not a regular file"):
        read_question(path, now=NOW)


@pytest.mark.parametrize(
    "key", ["a" + ".a" * 20_000, "a" + " . 'b.c'" * 9_000, '"x\\"y"' + '."x\\"y"' * 9_000, f"{'k' * 900}." * 20 + "k"]
)
@pytest.mark.parametrize("line", ["{} = 1", "[{}]", "facts = {{ {} = 1 }}"])
def test_a_key_of_very_many_parts_is_refused_before_it_is_parsed(tmp_path: Path, key: str, line: str) -> None:
    with pytest.raises(MalformedDataError, match=r"line 2: no key of a question has so many parts"):
        read(tmp_path, TITLE + line.format(key))


def test_texts_with_dots_are_texts(tmp_path: Path) -> None:
    text = "As www.data.weather.example says... or e.g. 1.2.3.4, i.e. never."
    assert read(tmp_path, f'{TITLE}criteria = "{text}"\n').criteria == text


@pytest.mark.parametrize(
    "key", ["../../etc/passwd", "a/b", "a\\\\b", ".hidden", "a b", "x\\u001b[2J", "a\\u202eb", "a\\u3164b", "a\\u00a0b"]
)
def test_a_key_that_could_name_a_file_or_hide_something_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(MalformedDataError, match="key: should have only printable characters"):
        read(tmp_path, f'{TITLE}key = "{key}"\n')


@pytest.mark.parametrize("key", ["rain", "rain-2026_12.24", "regen-für-köln", "雨"])
def test_ordinary_keys_are_taken(tmp_path: Path, key: str) -> None:
    assert read(tmp_path, f'{TITLE}key = "{key}"\n').ref.key == key


def test_a_slug_has_nothing_unseen() -> None:
    assert title_to_key("Ra\u3164in\u115f?") == "rain"


@pytest.mark.parametrize("character", ["\ufffe", "\U000e0041", "\u3164", "\U000e0120", "\ue000"])
def test_what_draws_nothing_is_marked_on_a_terminal(character: str) -> None:
    assert replace_invisible(f"a{character}b") == "a\ufffdb"
