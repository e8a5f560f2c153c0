"""`foxcast new` refuses what cannot work in one line, and overwrites nothing."""

import shlex
from pathlib import Path

import pytest

from bot.cli.command_exit import ExitCode
from bot.cli.main import main
from bot.cli.new import MAX_NAME_LENGTH, PluginKind, name_objection


@pytest.mark.parametrize(
    ("kind", "name", "reason"),
    [
        ("forecaster", "_hidden", "begin with a letter"),
        ("forecaster", "My-Plugin", "lower-case letters"),
        ("forecaster", "two__parts", "single underscores"),
        ("forecaster", "x" * (MAX_NAME_LENGTH + 1), "at most 30"),
        ("forecaster", "class", "word of Python"),
        ("forecaster", "solo", "there is a built-in plugin solo"),
        ("command", "status", "a built-in command"),
        ("command", "court", "built-in plugin society offers a command court"),
    ],
)
def test_a_name_that_cannot_work_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    name: str,
    reason: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", kind, name]) == ExitCode.USAGE
    shown = capsys.readouterr()
    assert shown.out == ""
    assert reason in shown.err
    assert shown.err.count("\n") == 1
    assert [*tmp_path.iterdir()] == []


def test_a_name_of_a_command_is_free_for_other_kinds() -> None:
    assert name_objection(PluginKind.NOTIFIER, "status") == ""


def test_a_folder_that_exists_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "command", "kelp"]) == ExitCode.DONE
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert main(["new", "notifier", "kelp"]) == ExitCode.USAGE
    assert "foxcast-kelp exists already" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_the_two_next_commands_name_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "with space" / "kelp"
    assert main(["new", "command", "kelp", "--folder", str(folder)]) == ExitCode.DONE
    first, *commands = capsys.readouterr().out.splitlines()
    assert str(folder) in first
    assert [shlex.split(line)[2:] for line in commands] == [
        ["pip", "install", "--editable", f"{folder}[test]"],
        ["pytest", str(folder)],
    ]
    assert (folder / "pyproject.toml").is_file()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["new", "command", "kelp", "--folder", str(tmp_path / "file" / "kelp")]) == ExitCode.USAGE
    assert "cannot be written: Not a directory" in capsys.readouterr().err
