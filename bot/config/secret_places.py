"""Where secrets are kept: in a file that only its owner can read, or in the keyring of the desktop.

A keyring needs the extra ``keyring`` and a session that is unlocked; a server without a desktop has neither.
"""

import importlib
import os
import stat
from pathlib import Path
from types import ModuleType

from bot.config.document import Key
from bot.config.problems import Problems
from bot.config.sources import KEYRING_SUFFIX

MAX_SECRET_BYTES = 64 * 1024
INSTEAD = "name a file that only you can read, or set the variable"


def read_secret(key: Key, place: str, problems: Problems) -> str:
    """Return the secret that a key such as ``token_file`` or ``token_keyring`` names; "" where that is a problem."""
    if str(key[-1]).endswith(KEYRING_SUFFIX):
        return _in_keyring(key, place, problems)
    return _in_file(key, Path(place), problems)


def _in_file(key: Key, path: Path, problems: Problems) -> str:
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


def _in_keyring(key: Key, place: str, problems: Problems) -> str:
    service, slash, name = place.rpartition("/")
    if not (service and slash and name):
        problems.add(key, 'should be "SERVICE/NAME": the two names under which the keyring has it')
        return ""
    library = _library()
    if library is None:
        problems.add(key, f"needs the package keyring: pip install 'foxcast[keyring]'; or {INSTEAD}")
        return ""
    try:
        secret = library.get_password(service, name)
    except library.errors.NoKeyringError:
        problems.add(key, f"there is no keyring here, as on a server without a desktop; {INSTEAD}")
        return ""
    except Exception as error:  # noqa: BLE001 - backends raise what their systems do
        # What a backend says may hold anything, so its kind alone is told.
        problems.add(key, f"the keyring did not answer ({type(error).__name__}); is it unlocked? else {INSTEAD}")
        return ""
    if not secret or not secret.strip():
        problems.add(key, f"the keyring has nothing under this name; run: keyring set {service} {name}")
        return ""
    return str(secret).strip()


def _library() -> ModuleType | None:
    try:
        library = importlib.import_module("keyring")
        importlib.import_module("keyring.errors")
    except ImportError:
        return None
    return library
