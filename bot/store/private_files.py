"""Files of the state folder: regular files of their owner, opened without following links and without waiting.

A symlink would lead a write to another file, and opening a FIFO waits for its other end.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from bot.core.errors import StoreError

_FILE_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
    stat.S_IFREG: "a file",
}


def create_private_file(path: Path) -> None:
    """Create the file and its folder if missing, readable only by their owner; restrict an existing file.

    SQLite gives the side files of a database its mode, so there is no need to change the umask of the process. Raises
    OSError, and StoreError for anything but a regular file of its owner.
    """
    os.close(open_private_file(path, os.O_RDWR | os.O_CREAT))


def open_private_file(path: Path, flags: int) -> int:
    """Open a regular file of its owner and return its handle; a file opened for writing gets mode 0600.

    With O_CREAT, makes a missing file and its folder. Raises OSError, and StoreError for a link, FIFO, device or folder
    in its place, and for a file of another user.
    """
    parent = _open_folder(path.parent, make=bool(flags & os.O_CREAT))
    try:
        return _open_in_folder(path, flags, parent)
    finally:
        os.close(parent)


def _open_in_folder(path: Path, flags: int, parent: int) -> int:
    try:
        handle = os.open(path.name, flags | _FILE_FLAGS, 0o600, dir_fd=parent)
    except FileNotFoundError:
        raise
    except OSError:
        # A link, a folder, and a FIFO or a socket without another end fail in different ways.
        require_private_file(path)
        raise
    try:
        _require_regular(path, os.fstat(handle), os.fstat(parent))
        if flags & (os.O_WRONLY | os.O_RDWR):
            os.fchmod(handle, 0o600)
    except BaseException:
        os.close(handle)
        raise
    return handle


def create_private_folder(folder: Path) -> None:
    """Create the folder if missing, readable only by its owner; restrict an existing one.

    Raises OSError, and StoreError for a link or a file in its place, and for a folder of another user.
    """
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "no folder")
        message = f"{folder} is {kind}, and should be a folder; remove it"
        raise StoreError(message)
    _require_own(folder, found, folder.parent.stat())
    if stat.S_IMODE(found.st_mode) & 0o077:
        folder.chmod(0o700)


def read_private_file(path: Path, max_bytes: int = -1) -> bytes:
    """Return the content of a private file, at most ``max_bytes`` of it; raises as ``open_private_file``."""
    with os.fdopen(open_private_file(path, os.O_RDONLY), "rb") as file:
        return file.read(max_bytes)


def read_private_json(path: Path, max_bytes: int = -1) -> dict[str, Any]:
    """Read an object as JSON; raises as ``read_private_file``, and ValueError, also for one nested too deeply."""
    try:
        found = json.loads(read_private_file(path, max_bytes))
    except RecursionError:
        message = "it is nested too deeply"
        raise ValueError(message) from None
    if not isinstance(found, dict):
        message = "it is no JSON object"
        raise ValueError(message)  # noqa: TRY004 - as for any other text that is not what was written
    return found


def write_private_file(path: Path, content: bytes | Iterable[bytes], *, durable: bool = True) -> None:
    """Create or replace the content of a private file, and wait for the disk if ``durable``.

    A long content comes in blocks, so that it is never in memory as a whole. Raises as ``open_private_file``.
    """
    with os.fdopen(open_private_file(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
        file.writelines([content] if isinstance(content, bytes) else content)
        file.flush()
        if durable:
            os.fsync(file.fileno())


def replace_private_file(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Replace the file in one step, so that a reader sees the old or the new content; raises as ``open_private_file``.

    If ``durable``, the new file is on the disk afterwards.
    """
    partial = path.with_name(f".{path.name}.partial")
    write_private_file(partial, content, durable=durable)
    partial.replace(path)
    if durable:
        sync_to_disk(path.parent)


def sync_to_disk(path: Path) -> None:
    """Wait until a file, or the entries of a folder, are on the disk. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def require_private_file(path: Path) -> None:
    """Raise StoreError for a link, FIFO, device or folder in the place of a file, and for a file of another user.

    A missing file is fine. Raises OSError for a folder that cannot be opened.
    """
    parent = _open_folder(path.parent)
    try:
        found = os.stat(path.name, dir_fd=parent, follow_symlinks=False)
        _require_regular(path, found, os.fstat(parent))
    except FileNotFoundError:
        return
    finally:
        os.close(parent)


def find_foreign_entries(folder: Path) -> Iterator[str]:
    """Yield one sentence for each entry below the folder that is no regular file and no folder of their owner."""
    owner = folder.stat().st_uid
    for place, folders, files in os.walk(folder, followlinks=False):
        for name in (*folders, *files):
            path = Path(place) / name
            try:
                found = path.lstat()
            except FileNotFoundError:  # a running program removed it
                continue
            kind = stat.S_IFMT(found.st_mode)
            if kind not in {stat.S_IFREG, stat.S_IFDIR}:
                yield f"{path} is {_KINDS.get(kind, 'no regular file')}; remove it"
            elif found.st_uid not in {os.geteuid(), owner}:
                yield f"{path} belongs to another user (id {found.st_uid}); remove it, or take it over with chown"


def _open_folder(folder: Path, *, make: bool = False) -> int:
    """Return a handle of a folder; the path to it may contain links."""
    try:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        if not make:
            raise
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return _open_folder(folder)


def _require_regular(path: Path, found: os.stat_result, folder: os.stat_result) -> None:
    kind = stat.S_IFMT(found.st_mode)
    if kind != stat.S_IFREG:
        message = f"{path} is {_KINDS.get(kind, 'no regular file')}, and should be a regular file; remove it"
        raise StoreError(message)
    _require_own(path, found, folder)


def _require_own(path: Path, found: os.stat_result, folder: os.stat_result) -> None:
    # Some mounted volumes show all their files as those of one other user.
    if found.st_uid not in {os.geteuid(), folder.st_uid}:
        message = f"{path} belongs to another user (id {found.st_uid}); remove it, or take it over with chown"
        raise StoreError(message)
