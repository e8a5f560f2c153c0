"""Reads secrets and API tokens from files that only their owner can read, from the environment, or from the keyring.

They are never read from an argument.
"""

import importlib
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from bot.config.key_lines import KeyPath
from bot.config.sources import KEYRING_SUFFIX, TOKEN_VARIABLE
from bot.config.validation import ConfigFaults
from bot.core.errors import ConfigError
from bot.core.redaction import register_secrets

MAX_SECRET_BYTES = 64 * 1024
KEYRING_ALTERNATIVE = "name a file that only you can read, or set the variable"


def read_secret(key: KeyPath, place: str, problems: ConfigFaults) -> str:
    """Return the secret that a key such as ``token_file`` or ``token_keyring`` names; "" after adding a problem."""
    if str(key[-1]).endswith(KEYRING_SUFFIX):
        return _read_keyring_secret(key, place, problems)
    return _read_secret_file(key, Path(place), problems)


def find_variable(names: Sequence[str], environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the first of these variables that is set and not empty, None for none."""
    return next((name for name in names if environ.get(name)), None)


def _read_secret_file(key: KeyPath, path: Path, problems: ConfigFaults) -> str:
    file = problems.sources.folder / path.expanduser()
    try:
        with file.open("rb") as opened:
            status = os.fstat(opened.fileno())
            raw = opened.read(MAX_SECRET_BYTES + 1)
    except OSError as error:
        problems.add(key, f"{file} cannot be read: {error.strerror}")
        return ""
    if not stat.S_ISREG(status.st_mode) or len(raw) > MAX_SECRET_BYTES:
        problems.add(key, f"{file} is not a regular file of at most {MAX_SECRET_BYTES} bytes")
    elif stat.S_IMODE(status.st_mode) & 0o077:
        problems.add(key, f"{file} can be read or written by others; run: chmod 600 {file}")
    elif not raw.strip():
        problems.add(key, f"{file} is empty")
    return raw.decode(errors="replace").strip()


def _read_keyring_secret(key: KeyPath, place: str, problems: ConfigFaults) -> str:
    service, slash, name = place.rpartition("/")
    if not (service and slash and name):
        problems.add(key, 'should be "SERVICE/NAME": the service and the name of the entry in the keyring')
        return ""
    library = _import_keyring()
    if library is None:
        problems.add(key, f"needs the package keyring: pip install 'foxcast[keyring]'; or {KEYRING_ALTERNATIVE}")
        return ""
    try:
        secret = library.get_password(service, name)
    except library.errors.NoKeyringError:
        problems.add(key, f"there is no keyring here, as on a server without a desktop; {KEYRING_ALTERNATIVE}")
        return ""
    except Exception as error:  # noqa: BLE001 - backends raise any kind of error
        # The message of a backend may contain anything, so only its type is shown.
        problems.add(key, f"the keyring failed ({type(error).__name__}); unlock it, or {KEYRING_ALTERNATIVE}")
        return ""
    if not secret or not secret.strip():
        problems.add(key, f"the keyring has no such entry; run: keyring set {service} {name}")
        return ""
    return str(secret).strip()


def _import_keyring() -> ModuleType | None:
    try:
        library = importlib.import_module("keyring")
        importlib.import_module("keyring.errors")
    except ImportError:
        return None
    return library


MAX_TOKEN_BYTES = 4096


def read_api_token(file: Path | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the token in the file, else the one in FOXCAST_TOKEN, else None; raises ConfigError with the remedy."""
    if file is None:
        token = environ.get(TOKEN_VARIABLE, "").strip()
        register_secrets(token)
        return token or None
    try:
        with file.open("rb") as opened:
            status, raw = os.fstat(opened.fileno()), opened.read(MAX_TOKEN_BYTES)
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
    register_secrets(token)
    return token
