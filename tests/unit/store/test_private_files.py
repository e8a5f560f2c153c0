"""What stands in the place of a file of the state folder: a regular file of its owner, or a refusal at once."""

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.core.errors import StoreError
from bot.store.private_files import (
    create_private_file,
    find_foreign_entries,
    open_private_file,
    read_private_file,
    replace_private_file,
    require_private_file,
    write_private_file,
)


def make_link(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"of somebody else")
    path.symlink_to(other)


def make_dangling_link(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))


IN_THE_WAY: dict[str, Callable[[Path], object]] = {
    "a symbolic link": make_link,
    "a symbolic link, and should be": make_dangling_link,
    "a FIFO": os.mkfifo,
    "a folder": Path.mkdir,
    "a socket": make_socket,
}
USES: dict[str, Callable[[Path], object]] = {
    "create": create_private_file,
    "read": read_private_file,
    "write": lambda path: write_private_file(path, b"new"),
    "append": lambda path: open_private_file(path, os.O_WRONLY | os.O_APPEND),
    "require": require_private_file,
}


@pytest.mark.timeout(5)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", IN_THE_WAY)
def test_anything_but_a_regular_file_is_named_and_refused_at_once(
    tmp_path: Path, kind: str, use: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "file"
    IN_THE_WAY[kind](path)
    with pytest.raises(StoreError, match=f"{path} is {kind}.*remove it"):
        USES[use](path)
    assert not (tmp_path / "nowhere").exists()
    if (tmp_path / "other").exists():
        assert (tmp_path / "other").read_bytes() == b"of somebody else"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device or give a file away")
def test_a_device_and_a_file_of_another_user_are_refused(tmp_path: Path) -> None:
    device, foreign = tmp_path / "device", tmp_path / "foreign"
    foreign.touch()
    os.chown(foreign, 65534, 65534)
    with pytest.raises(StoreError, match="foreign belongs to another user"):
        read_private_file(foreign)
    try:
        os.mknod(device, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("no devices in this container")
    with pytest.raises(StoreError, match="device is a device"):
        read_private_file(device)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_mounted_volume_may_show_all_files_as_those_of_one_user(tmp_path: Path) -> None:
    path = tmp_path / "volume" / "file"
    path.parent.mkdir()
    path.write_bytes(b"text")
    for one in (path, path.parent):
        os.chown(one, 65534, 65534)
    assert read_private_file(path) == b"text"


def test_files_are_for_their_owner_alone_and_are_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "file"
    write_private_file(path, b"old")
    path.chmod(0o644)
    replace_private_file(path, b"new")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert read_private_file(path, 2) == b"ne"
    assert [*path.parent.iterdir()] == [path]


def test_a_folder_is_searched_without_following_links(tmp_path: Path) -> None:
    folder, outside = tmp_path / "state", tmp_path / "outside"
    for one in (folder / "requests", outside):
        one.mkdir(parents=True)
    os.mkfifo(outside / "pipe")
    (folder / "requests" / "fine.json").touch()
    assert [*find_foreign_entries(folder)] == []
    (folder / "books").symlink_to(outside)
    os.mkfifo(folder / "requests" / "pipe.json")
    assert sorted(find_foreign_entries(folder)) == [
        f"{folder / 'books'} is a symbolic link; remove it",
        f"{folder / 'requests' / 'pipe.json'} is a FIFO; remove it",
    ]
