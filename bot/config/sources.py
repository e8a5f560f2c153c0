"""Where each effective value comes from: the environment, a line of config.toml, or a default."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bot.config.document import Document, Key

PREFIX = "FOXCAST_"
DELIMITER = "__"
# ``token_file`` names the file that holds the secret ``token``, ``token_keyring`` its place in the keyring.
FILE_SUFFIX, KEYRING_SUFFIX = "_file", "_keyring"
SUFFIXES = (FILE_SUFFIX, KEYRING_SUFFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """An environment variable that sets one key; its value may be a secret and stays out of the repr."""

    name: str
    value: str = field(repr=False)


def variable_name(key: Key) -> str:
    """Return the name of the environment variable that sets the key."""
    return PREFIX + DELIMITER.join(str(part) for part in key).upper()


@dataclass(frozen=True, kw_only=True)
class Sources:
    """What a configuration was read from: a file, and the environment variables by the key that each sets."""

    document: Document = field(default_factory=Document)
    variables: Mapping[Key, Variable] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The folder that relative paths are beside: that of the file, without a file the working folder."""
        return (Path() if self.document.path is None else self.document.path.parent).absolute()

    def variable(self, key: Key) -> str | None:
        """Return the name of the environment variable that sets the key or the list around it."""
        around = (key[:end] for end in range(len(key), 0, -1))
        return next((self.variables[part].name for part in around if part in self.variables), None)

    def origin(self, key: Key) -> str:
        """Say where the value of the key comes from: ``env NAME``, ``file:line`` or ``default``."""
        if name := self.variable(key):
            return f"env {name}"
        if not holds(self.document.table, key):
            return "default"
        return f"{self.document.path}:{self.document.line(key)}"

    def place(self, key: Key) -> str:
        """Say where to mend the key: its origin, else a variable inside it, else the table that lacks it, if any."""
        if (origin := self.origin(key)) != "default":
            return origin
        inside = (variable.name for part, variable in self.variables.items() if part[: len(key)] == key)
        if name := next(inside, None):
            return f"env {name}"
        line = self.document.line(key)
        return f"{self.document.path}:{line}" if line else str(self.document.path or "")


def holds(value: object, key: Key) -> bool:
    """Tell whether there is a value at the key inside nested tables and lists."""
    for part in key:
        match value, part:
            case dict(), str() if part in value:
                value = value[part]
            case list(), int() if part < len(value):
                value = value[part]
            case _:
                return False
    return True
