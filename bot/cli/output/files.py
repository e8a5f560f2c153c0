"""Files that commands write, whole or not at all, such as `--json FILE`; `-` is stdout."""

import errno
import os
import tempfile
from pathlib import Path

from bot.cli.output.console import print_json, to_json_text
from bot.core.errors import ConfigError

STDOUT = Path("-")


def write_json(value: object, place: Path) -> None:
    """Write a value as JSON to the file, whole or not at all, or to stdout for ``-``; raises ConfigError."""
    if place == STDOUT:
        print_json(value)
    else:
        write_text_atomically(place, f"{to_json_text(value)}\n")


def require_writable(place: Path | None, option: str) -> None:
    """Find out before the work whether the file that this option names can be written; raises ConfigError.

    None and ``-`` always can. Nothing is left behind, and a file that is there stays as it is.
    """
    if place is None or place == STDOUT:
        return
    try:
        if place.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        tempfile.NamedTemporaryFile(dir=place.parent, prefix=".").close()
    except OSError as error:
        message = f"{option} {place} cannot be written: {error.strerror}"
        raise ConfigError(message) from error


def write_text_atomically(path: Path, text: str, *, mode: int | None = None) -> None:
    """Put the text in the place of the file at once; raises ConfigError where that is not possible.

    ``mode`` are its permissions; None: those of any new file.
    """
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".", delete=False, encoding="utf-8") as file:
            file.write(text)
        written = Path(file.name)
        # Temporary files are for their owner alone.
        written.chmod(0o666 & ~_current_umask() if mode is None else mode)
        written.replace(path)
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror}"
        raise ConfigError(message) from error


def _current_umask() -> int:
    # The system tells it only to those who set it.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
