"""Tables, JSON and files as the commands write them, and the check of a file before the work."""

import io
import json
import os
import sys
from pathlib import Path

import pytest
from rich.console import Console

from bot.cli.output.console import ColumnKind, TableColumn, make_table, to_json_text
from bot.cli.output.files import STDOUT, require_writable, write_json
from bot.core.errors import ConfigError


class Terminal(io.StringIO):
    """Says that it is one."""

    def isatty(self) -> bool:
        return True


def printed(width: int, title: str, text: str) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    columns = (
        TableColumn("title", ColumnKind.TITLE),
        TableColumn("n", ColumnKind.NUMBER),
        TableColumn("text", ColumnKind.TEXT),
    )
    console.print(make_table(columns, [(title, "12345", text)]))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_without_a_terminal_a_row_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(1000, "word " * 100, "text " * 100)
    assert len(lines) == 2
    assert "text text" in lines[1]


def test_on_a_terminal_titles_are_cut_text_is_folded_and_numbers_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    lines = printed(40, "a title of very many words " * 3, "text-without-a-gap" * 3)
    assert max(map(len, lines)) <= 40
    assert "12345" in "".join(lines)
    assert "…" in "".join(lines)
    assert "".join(line[-16:].strip() for line in lines).count("text-without-a-gap") >= 1


WIDE = (
    TableColumn("name"),
    *(TableColumn(f"count of {number}", ColumnKind.NUMBER) for number in range(6)),
    TableColumn("why", ColumnKind.TEXT),
)
LONG = ("a-name-without-a-gap-in-it", *(f"{number}00,000" for number in range(1, 7)), "because of all of it")


@pytest.mark.parametrize("width", [24, 40, 60, 80, 100, 200])
@pytest.mark.parametrize("piped", [True, False])
def test_however_narrow_it_is_every_cell_and_its_title_is_told(
    monkeypatch: pytest.MonkeyPatch, width: int, *, piped: bool
) -> None:
    if not piped:
        monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", str(width))
    console = Console(file=io.StringIO(), width=width)
    console.print(make_table(WIDE, [LONG, LONG]))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    told = "".join("".join(lines).split())
    assert [cell for cell in LONG[:-1] if told.count(cell) != 2] == []
    assert [column.title for column in WIDE[1:] if column.title.replace(" ", "") not in told] == []
    assert "…" not in told


def test_where_there_is_no_room_for_columns_a_row_is_a_block_of_what_it_has() -> None:
    console = Console(file=io.StringIO(), width=30)
    columns = (
        TableColumn("name"),
        TableColumn("a long title"),
        TableColumn("number", ColumnKind.NUMBER),
        TableColumn("what", ColumnKind.TEXT),
    )
    console.print(make_table(columns, [("first", "1" * 12, "2", "three"), ("second", "", "5", "")]))
    assert isinstance(console.file, io.StringIO)
    assert [line.rstrip() for line in console.file.getvalue().splitlines()] == [
        "first",
        "  a long title: 111111111111,",
        "  number: 2",
        "  what: three",
        "second",
        "  number: 5",
    ]


def test_markup_in_a_title_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert "[red]x[/red]" in "".join(printed(200, "[red]x[/red]", ""))


def test_json_refuses_numbers_that_it_does_not_have() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        to_json_text({"score": float("nan")})


def test_a_report_is_replaced_as_a_whole_and_readable_as_other_files_are(tmp_path: Path) -> None:
    place = tmp_path / "report.json"
    place.write_text("old")
    write_json({"ü": 1}, place)
    assert json.loads(place.read_text(encoding="utf-8")) == {"ü": 1}
    assert [*tmp_path.iterdir()] == [place]
    (tmp_path / "plain").touch()
    assert place.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_report_that_cannot_be_written_names_the_place(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        write_json({}, tmp_path / "nowhere" / "report.json")


def test_a_dash_is_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    write_json({"n": 1}, STDOUT)
    assert json.loads(capsys.readouterr().out) == {"n": 1}
    assert not os.path.lexists("-")


@pytest.mark.parametrize("name", ["nowhere/x.json", "file/x.json", ".", "long" * 100])
def test_what_cannot_be_written_is_refused_before_and_when_it_is_written(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError, match=r"^--json .* cannot be written: "):
        require_writable(tmp_path / name, "--json")
    with pytest.raises(ConfigError, match=" cannot be written: "):
        write_json({}, tmp_path / name)


def test_asking_makes_no_file_and_leaves_that_which_is_there(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text("mine")
    for place in (tmp_path / "old.json", tmp_path / "new.json", STDOUT, None):
        require_writable(place, "--json")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"old.json": "mine"}
