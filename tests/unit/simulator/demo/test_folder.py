"""The folder of the demo is its own: made anew, put aside, or refused."""

from pathlib import Path

import pytest

from bot.core.errors import ConfigError, StateFolderLockedError
from bot.simulator.demo.folder import MARKER_FILE, lock_demo_folder, require_outside
from bot.testing.clock import START


def test_a_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "demo"
    with lock_demo_folder(folder, keep=False, at=START):
        assert (folder / MARKER_FILE).is_file()
        assert folder.stat().st_mode & 0o077 == 0


def test_what_an_earlier_demo_left_goes(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    with lock_demo_folder(folder, keep=False, at=START):
        (folder / "live").mkdir()
        (folder / "live" / "ledger.sqlite").write_text("old")
        (folder / "log.txt").write_text("old")
    with lock_demo_folder(folder, keep=False, at=START):
        assert sorted(path.name for path in folder.iterdir()) == [MARKER_FILE, "lock"]


def test_what_is_to_be_kept_stands_beside_it_under_a_number(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    for text in ("first", "second", "third"):
        with lock_demo_folder(folder, keep=True, at=START):
            (folder / "log.txt").write_text(text)
    kept = [folder.with_name("demo-1"), folder.with_name("demo-2"), folder]
    assert [(path / "log.txt").read_text() for path in kept] == ["first", "second", "third"]


@pytest.mark.parametrize("name", ["thesis.txt", "paper", MARKER_FILE])
def test_a_folder_with_anything_else_is_left_as_it_is(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("years of work")
    with pytest.raises(ConfigError, match=f"holds something else .{name}.; name an empty"):
        lock_demo_folder(tmp_path, keep=False, at=START).__enter__()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "years of work")]


def test_what_somebody_put_into_the_folder_of_a_demo_is_safe(tmp_path: Path) -> None:
    with lock_demo_folder(tmp_path, keep=False, at=START):
        pass
    (tmp_path / "notes.md").write_text("mine")
    with pytest.raises(ConfigError, match=r"notes\.md"):
        lock_demo_folder(tmp_path, keep=False, at=START).__enter__()
    assert (tmp_path / "notes.md").read_text() == "mine"


def test_what_the_real_configuration_made_in_place_is_to_be_moved_out(tmp_path: Path) -> None:
    with lock_demo_folder(tmp_path, keep=False, at=START):
        pass
    (tmp_path / "state" / "real").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"\(state\), made by real\.toml in this folder; move both out"):
        lock_demo_folder(tmp_path, keep=False, at=START).__enter__()


@pytest.mark.parametrize("place", ["demo/shot.svg", "demo", "demo/deep/shot.svg", "other/../demo/shot.svg"])
def test_a_picture_in_the_folder_of_the_demo_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (Path("demo"), tmp_path / "demo"):
        with pytest.raises(ConfigError, match=f"--svg {place} is in the folder of the demo.*name a place outside"):
            require_outside(folder, Path(place), "--svg")
    for picture in (None, Path("shot.svg"), Path("demo-1/shot.svg"), Path("demo/../shot.svg")):
        require_outside(Path("demo"), picture, "--svg")


def test_a_file_and_a_link_are_no_folders(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("x")
    (tmp_path / "elsewhere").mkdir()
    link.symlink_to(tmp_path / "elsewhere")
    for path in (file, link):
        with pytest.raises(ConfigError, match="is no folder"):
            lock_demo_folder(path, keep=False, at=START).__enter__()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(ConfigError, match="--folder"):
        lock_demo_folder(file / "demo", keep=False, at=START).__enter__()


@pytest.mark.parametrize("keep", [False, True])
def test_two_demos_do_not_share_a_folder(tmp_path: Path, *, keep: bool) -> None:
    with lock_demo_folder(tmp_path / "demo", keep=False, at=START):
        (tmp_path / "demo" / "log.txt").write_text("of the first")
        with pytest.raises(StateFolderLockedError):
            lock_demo_folder(tmp_path / "demo", keep=keep, at=START).__enter__()
        assert (tmp_path / "demo" / "log.txt").read_text() == "of the first"
        assert [path.name for path in tmp_path.iterdir()] == ["demo"]


def test_what_is_kept_is_free_once_the_demo_ended(tmp_path: Path) -> None:
    for _ in range(2):
        with lock_demo_folder(tmp_path / "demo", keep=True, at=START):
            pass
    with lock_demo_folder(tmp_path / "demo-1", keep=True, at=START):
        assert sorted(path.name for path in tmp_path.iterdir()) == ["demo", "demo-1", "demo-1-1"]
