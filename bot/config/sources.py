"""config.toml with the line of each key, and the source of each effective value: environment, file or default."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any

from bot.config.key_lines import KeyPath, find_line, map_toml_lines
from bot.core.errors import ConfigError
from bot.core.light_dataclass import dataclass
from bot.core.values import MAX_NESTING, is_nested_too_deeply

# Finding lines parses each statement again, so the size is limited.
MAX_FILE_BYTES = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class TomlDocument:
    """A parsed file; an empty one means that there is no file, a built-in one is part of the program.

    ``is_named``: the user named it, so it was not only found in the working directory.
    """

    path: Path | None = None
    is_built_in: bool = False
    is_named: bool = False
    text: str = ""
    table: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def key_lines(self) -> Mapping[KeyPath, int]:
        """The line (from 1) of each key and table."""
        return map_toml_lines(self.text)

    def line_of(self, key: KeyPath) -> int | None:
        """Return the line of the key, or of the nearest table around it that has one."""
        return find_line(key, self.key_lines)


def read_toml_file(path: Path) -> TomlDocument:
    """Read and parse a TOML file; raises ConfigError naming file and line where that fails."""
    text = read_text_file(path)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = f"{path}: is not valid TOML: {error}"
        raise ConfigError(message) from error
    except RecursionError as error:
        raise ConfigError(_too_deep(path)) from error
    if is_nested_too_deeply(table):
        raise ConfigError(_too_deep(path))
    return TomlDocument(path=path, text=text, table=table)


def _too_deep(path: Path) -> str:
    return f"{path}: is nested too deeply: no setting has more than {MAX_NESTING} levels; look for a key of many parts"


def read_text_file(path: Path, what: str = "a configuration") -> str:
    """Return the text of a file of limited size; raises ConfigError naming file and line where that fails."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        message = f"{path}: cannot be read: {error.strerror}"
        raise ConfigError(message) from error
    if len(raw) > MAX_FILE_BYTES:
        message = f"{path}: is larger than {MAX_FILE_BYTES} bytes, which is too large for {what}"
        raise ConfigError(message)
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        message = f"{path}:{line}: is not UTF-8 text"
        raise ConfigError(message) from error


VARIABLE_PREFIX = "FOXCAST_"
VARIABLE_DELIMITER = "__"
# ``token_file`` names the file that holds the secret ``token``, ``token_keyring`` its entry in the keyring.
FILE_SUFFIX, KEYRING_SUFFIX = "_file", "_keyring"
SECRET_SUFFIXES = (FILE_SUFFIX, KEYRING_SUFFIX)
# A login in an address, https://name:password@host/, which may hold a password.
URL_LOGIN = re.compile(r"(?<=//)[^/\s@]+@")
# The path of config.toml, and the API token of the caller: the variables that are not settings.
CONFIG_VARIABLE = "FOXCAST_CONFIG"
TOKEN_VARIABLE = "FOXCAST_TOKEN"  # noqa: S105 - a name


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentVariable:
    """An environment variable that sets one key; its value may be a secret and is left out of the repr."""

    name: str
    value: str = field(repr=False)


def variable_name(key: KeyPath) -> str:
    """Return the name of the environment variable that sets the key."""
    return VARIABLE_PREFIX + VARIABLE_DELIMITER.join(str(part) for part in key).upper()


@dataclass(frozen=True, kw_only=True)
class ConfigSources:
    """The sources of a configuration: a file, and the environment variables by the key that each sets."""

    document: TomlDocument = field(default_factory=TomlDocument)
    variables: Mapping[KeyPath, EnvironmentVariable] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The folder for relative paths: that of the operator's file, else the working directory."""
        path = None if self.document.is_built_in else self.document.path
        return (Path() if path is None else path.parent).absolute()

    def variable_of(self, key: KeyPath) -> str | None:
        """Return the name of the environment variable that sets the key or the list around it."""
        prefixes = (key[:end] for end in range(len(key), 0, -1))
        return next((self.variables[prefix].name for prefix in prefixes if prefix in self.variables), None)

    def origin(self, key: KeyPath) -> str:
        """Return the source of the value of a key: ``env NAME``, ``file:line`` or ``default``."""
        if name := self.variable_of(key):
            return f"env {name}"
        if not contains_key(self.document.table, key):
            return "default"
        return f"{self.document.path}:{self.document.line_of(key)}"

    def fault_place(self, key: KeyPath) -> str:
        """Return where to correct a key: its origin, else a variable inside it, else the table that lacks it."""
        if (origin := self.origin(key)) != "default":
            return origin
        inside = (variable.name for part, variable in self.variables.items() if part[: len(key)] == key)
        if name := next(inside, None):
            return f"env {name}"
        line = self.document.line_of(key)
        return f"{self.document.path}:{line}" if line else str(self.document.path or "")


def contains_key(value: object, key: KeyPath) -> bool:
    """Return whether there is a value at the key inside nested tables and lists."""
    for part in key:
        match value, part:
            case dict(), str() if part in value:
                value = value[part]
            case list(), int() if part < len(value):
                value = value[part]
            case _:
                return False
    return True
