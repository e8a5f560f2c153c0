"""The settings of one plugin: its table of config.toml, the environment, and secrets from either or from a file.

A secret comes from the environment, or from a file that only its owner can read, named by ``<key>_file`` beside the
key, however deep that stands. One that stands in config.toml is refused: that file is shared, copied and committed.
"""

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from bot.config.document import Key
from bot.config.environment import decode, misspelt, overlay
from bot.config.model import Config
from bot.config.origins import LOGIN
from bot.config.problems import Problems, dotted
from bot.config.shape import at, is_secret, may_hold_secrets, names, secrets
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
    pointers = {key: str(value) for key, value in _values(written) if is_pointer(model, key)}
    written = _without(written, pointers)
    for key, _ in secrets(model, written):
        problems.add(key, f"a secret must not stand in this file; {problems.remedy(key)}")
    if problems:
        raise problems.error()

    variables = _inside(config.sources, under)
    pointers |= {key: variable.value for key, variable in variables.items() if is_pointer(model, key)}
    variables = {key: variable for key, variable in variables.items() if key not in pointers}
    read = {}
    for pointer, path in pointers.items():
        if (key := _pointed(pointer)) in variables:
            problems.add(key, f"is set twice, also by {pointer[-1]}; keep one of them")
        read[key] = _read_secret(Path(path), problems, pointer)
    if problems:
        raise problems.error()

    if faults := list(misspelt(model, variables, under)):
        raise ConfigError("\n".join(faults))
    values: Any = overlay(written, decode(model, variables))
    for key, secret in read.items():
        values = _with(values, key, secret)
    hidden = [value for _, value in secrets(model, values) if isinstance(value, str)]
    return validate(model, values, written=written, problems=problems, hidden=hidden)


def recorded(settings: BaseModel) -> dict[str, Any]:
    """Return settings as JSON values for the record: all of them, but for secrets."""
    plain: dict[str, Any] = settings.model_dump(mode="json", fallback=str)
    plain = _without(plain, [key for key, _ in secrets(type(settings), plain)])
    return {name: _veiled(value) for name, value in plain.items()}


def settings_as_recorded(spec: Configurable[S], config: Config, plain: Mapping[str, Any]) -> S:
    """Return the settings that stood then, with the secrets of now, since no record holds those.

    Raises ConfigError for what this version of the plugin does not know, and where a secret is needed and missing.
    """
    model, values = spec.settings, dict(plain)
    if may_hold_secrets(model):
        for key, secret in secrets(model, settings_of(spec, config).model_dump()):
            values = _with(values, key, secret)
    try:
        return model.model_validate(values, context={"folder": config.sources.folder})
    except ValidationError as error:
        faults = "; ".join(f"{dotted(fault['loc'])}: {fault['msg']}" for fault in error.errors(include_url=False))
        message = f"the settings of {spec.name} on record do not fit the plugin that is installed: {faults}"
        raise ConfigError(message) from None


def settings_key(spec: Configurable[S]) -> Key:
    """Return the key of the settings of what a plugin offers."""
    return (spec.table, spec.name, "settings")


def _inside(sources: Sources, under: Key) -> Mapping[Key, Variable]:
    depth = len(under)
    return {key[depth:]: variable for key, variable in sources.variables.items() if key[:depth] == under}


def is_pointer(model: type[BaseModel], key: Key) -> bool:
    """Tell whether the key names the file of a secret; a field of that very name is the plugin's own."""
    last = key[-1]
    if not isinstance(last, str) or not last.removesuffix(FILE_SUFFIX) or not last.endswith(FILE_SUFFIX):
        return False
    return last not in (names(at(model, key[:-1])) or ()) and is_secret(at(model, _pointed(key)))


def _pointed(pointer: Key) -> Key:
    """Return the key of the secret whose file the pointer names."""
    return (*pointer[:-1], str(pointer[-1]).removesuffix(FILE_SUFFIX))


def _values(value: object, key: Key = ()) -> Iterator[tuple[Key, object]]:
    """Yield the plain values inside tables and lists with their keys."""
    if isinstance(value, Mapping):
        parts: Iterable[tuple[str | int, object]] = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    else:
        yield key, value
        return
    for part, inside in parts:
        yield from _values(inside, (*key, part))


def _without(value: Any, keys: Collection[Key], under: Key = ()) -> Any:  # noqa: ANN401 - any value of a table
    """Return the value without what stands at the keys."""
    if isinstance(value, Mapping):
        kept = {name: part for name, part in value.items() if (*under, name) not in keys}
        return {name: _without(part, keys, (*under, name)) for name, part in kept.items()}
    if isinstance(value, list):
        return [_without(part, keys, (*under, index)) for index, part in enumerate(value)]
    return value


def _with(value: Any, key: Key, secret: object) -> Any:  # noqa: ANN401 - any value of a table
    """Return the value with the secret at the key; tables that are not there are made."""
    if not key:
        return secret
    first, rest = key[0], key[1:]
    if isinstance(value, list) and isinstance(first, int):
        return [_with(part, rest, secret) if index == first else part for index, part in enumerate(value)]
    table = value if isinstance(value, Mapping) else {}
    return {**table, first: _with(table.get(first), rest, secret)}


def _veiled(value: Any) -> Any:  # noqa: ANN401 - any value of a table
    """Return the value without the passwords that stand in addresses."""
    if isinstance(value, Mapping):
        return {name: _veiled(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_veiled(part) for part in value]
    return LOGIN.sub("***@", value) if isinstance(value, str) else value


def _read_secret(path: Path, problems: Problems, key: Key) -> str:
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
