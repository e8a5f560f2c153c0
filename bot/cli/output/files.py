"""Files that commands write atomically, such as `--json FILE`; `-` is stdout."""

import errno
import os
import tempfile
from pathlib import Path

from bot.cli.output.console import print_json, to_json_text
from bot.core.errors import ConfigError
from bot.core.redaction import redact_known_secrets

STDOUT = Path("-")


def write_json(value: object, path: Path) -> None:
    """Write a value as JSON to the file, atomically, or to stdout for ``-``; raises ConfigError."""
    if path == STDOUT:
        print_json(value)
    else:
        write_text_atomically(path, redact_known_secrets(f"{to_json_text(value)}\n"))


def require_writable(path: Path | None, option: str) -> None:
    """Check before the work that the file of an option can be written; raises ConfigError.

    None and ``-`` always pass. The check leaves no file behind and does not change an existing one.
    """
    if path is None or path == STDOUT:
        return
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        tempfile.NamedTemporaryFile(dir=path.parent, prefix=".").close()
    except OSError as error:
        message = f"{option} {path} cannot be written: {error.strerror}"
        raise ConfigError(message) from error


def write_text_atomically(path: Path, text: str, *, mode: int | None = None) -> None:
    """Replace the file with the text in one step; raises ConfigError if that is not possible.

    ``mode`` is its permissions; None means those of any new file.
    """
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".", delete=False, encoding="utf-8") as file:
            file.write(text)
        written = Path(file.name)
        # Temporary files are private to their owner.
        written.chmod(0o666 & ~_current_umask() if mode is None else mode)
        written.replace(path)
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror}"
        raise ConfigError(message) from error


def _current_umask() -> int:
    # The umask can only be read by setting it.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
