"""The token of whoever calls: from the environment, or from a file that only its owner can read; never an argument."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from bot.config.environment import TOKEN_VARIABLE
from bot.errors import ConfigError
from bot.redact import learn

MAX_BYTES = 4096


def read_token(file: Path | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the token in the file, else that of FOXCAST_TOKEN, else None; raises ConfigError with the remedy."""
    if file is None:
        token = environ.get(TOKEN_VARIABLE, "").strip()
        learn(token)
        return token or None
    try:
        with file.open("rb") as opened:
            status, raw = os.fstat(opened.fileno()), opened.read(MAX_BYTES)
    except OSError as error:
        message = f"the token file {file} cannot be read: {error.strerror}"
        raise ConfigError(message) from error
    if stat.S_IMODE(status.st_mode) & 0o077:
        message = f"the token file {file} can be read or written by others; run: chmod 600 {file}"
        raise ConfigError(message)
    if not raw.strip():
        message = f"the token file {file} is empty"
        raise ConfigError(message)
    token = raw.decode(errors="replace").strip()
    learn(token)
    return token
