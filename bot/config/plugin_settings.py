"""The settings of one plugin: its table of config.toml, the environment, and secrets from either or from a file.

A secret comes from the environment, or from a file that only its owner can read, named by ``<key>_file``. One that
stands in config.toml is refused: that file is shared, copied and committed.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from bot.config.document import Key
from bot.config.environment import decode, misspelt, overlay
from bot.config.model import Config
from bot.config.problems import Problems
from bot.config.shape import is_secret, secrets
from bot.config.sources import FILE_SUFFIX, Sources, Variable
from bot.config.validate import validate
from bot.errors import ConfigError
from bot.specs import Configurable, S

MAX_SECRET_BYTES = 64 * 1024


def settings_of(spec: Configurable[S], config: Config) -> S:
    """Return the checked settings of what a plugin offers; raises ConfigError with a line for each fault."""
    model, under = spec.settings, settings_key(spec)
    problems = Problems(model, config.sources, under)
    written = config.table(spec.table, spec.name).settings
    for key, _ in secrets(model, written):
        problems.add(key, f"a secret must not stand in this file; {problems.remedy(key)}")
    if problems:
        raise problems.error()

    variables = _inside(config.sources, under)
    read = {}
    for name, pointer in _pointers(model, written, variables).items():
        if (name,) in variables:
            problems.add((name,), f"is set twice, also by {name}{FILE_SUFFIX}; keep one of them")
        read[name] = _read_secret(Path(pointer), problems, name)
        written = {key: value for key, value in written.items() if key != name + FILE_SUFFIX}
        variables = {key: variable for key, variable in variables.items() if key != (name + FILE_SUFFIX,)}
    if problems:
        raise problems.error()

    if faults := list(misspelt(model, variables, under)):
        raise ConfigError("\n".join(faults))
    values = overlay(overlay(written, decode(model, variables)), read)
    hidden = [value for _, value in secrets(model, values) if isinstance(value, str)]
    return validate(model, values, written=written, problems=problems, hidden=hidden)


def settings_key(spec: Configurable[S]) -> Key:
    """Return the key of the settings of what a plugin offers."""
    return (spec.table, spec.name, "settings")


def _inside(sources: Sources, under: Key) -> Mapping[Key, Variable]:
    depth = len(under)
    return {key[depth:]: variable for key, variable in sources.variables.items() if key[:depth] == under}


def _pointers(model: type[BaseModel], written: Mapping[str, Any], variables: Mapping[Key, Variable]) -> dict[str, str]:
    """Return the file named for each secret that comes from one; a field of that very name stays the plugin's own."""
    found = {}
    for name, field in model.model_fields.items():
        pointer = name + FILE_SUFFIX
        if not is_secret(field.annotation) or pointer in model.model_fields:
            continue
        if (pointer,) in variables:
            found[name] = variables[(pointer,)].value
        elif pointer in written:
            found[name] = str(written[pointer])
    return found


def _read_secret(path: Path, problems: Problems, name: str) -> str:
    file = problems.sources.folder / path.expanduser()
    key = (name + FILE_SUFFIX,)
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
