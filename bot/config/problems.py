"""From pydantic's errors to lines that name key, place and remedy, and never show a secret."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from bot.config.document import Key
from bot.config.nearest import instead, nearest
from bot.config.shape import at, is_secret, known, names
from bot.config.sources import FILE_SUFFIX, Sources, variable_name
from bot.errors import ConfigError

KINDS: Mapping[type, str] = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list"}
# Where pydantic speaks of Python rather than of what stands in a file.
TEXTS: Mapping[str, str] = {
    "model_type": "should be a table",
    "dict_type": "should be a table",
    "mapping_type": "should be a table",
    "tuple_type": "should be a list",
    "list_type": "should be a list",
    "path_type": "should be text",
    "string_type": "should be text",
    "too_short": "has too few entries",
}


class Problems:
    """Collects what is wrong with the values of one model that stands under a key; the first fault of a key counts."""

    def __init__(self, model: type[BaseModel], sources: Sources, under: Key = ()) -> None:
        """Begin with no fault."""
        self.model = model
        self.sources = sources
        self.under = under
        self._found: dict[Key, list[str]] = {}

    def add(self, key: Key, text: str) -> None:
        """Note a fault of a key of the model."""
        self._found.setdefault(key, []).append(text)

    def take(self, faults: Iterable[ErrorDetails]) -> None:
        """Note the faults that pydantic found in keys without one so far."""
        before = set(self._found)
        for fault in faults:
            # A fault of a name itself ends in this mark.
            loc = fault["loc"][:-1] if fault["loc"][-1:] == ("[key]",) else fault["loc"]
            key = known(self.model, loc)
            if key not in before and (text := self._text(key, fault)) not in self._found.get(key, ()):
                self.add(key, text)

    def remedy(self, key: Key) -> str:
        """Say where a value of the key belongs."""
        variable = variable_name((*self.under, *key))
        if is_secret(at(self.model, key)):
            return f"set {variable}, or {key[-1]}{FILE_SUFFIX} to a file that only you can read"
        return f"write it into config.toml or set {variable}"

    def __bool__(self) -> bool:
        return bool(self._found)

    def error(self, hidden: Collection[str] = ()) -> ConfigError:
        """Return the error to raise, one line per key; hidden texts are masked wherever a validator repeats them."""
        return ConfigError("\n".join(self._lines(hidden)))

    def _lines(self, hidden: Collection[str]) -> Iterator[str]:
        for key, texts in self._found.items():
            full = (*self.under, *key)
            line = ": ".join(filter(None, (self.sources.place(full), dotted(full), " or ".join(texts))))
            for secret in filter(None, hidden):
                line = line.replace(secret, "***")
            yield line

    def _text(self, key: Key, fault: ErrorDetails) -> str:
        kind, plain = fault["type"], _plain(fault["msg"])
        if kind == "extra_forbidden":
            return f"there is no such key; {instead(str(key[-1]), names(at(self.model, key[:-1])) or ())}"
        if kind == "missing":
            return f"is missing; {self.remedy(key)}"
        if kind in ("enum", "literal_error"):
            close = nearest(str(fault["input"]), re.findall(r"'([^']*)'", str(fault["ctx"]["expected"])))
            return plain + (f"; did you mean {close[0]}?" if close else "")
        if kind.endswith(("_type", "_parsing", "_from_float")):
            return f"{TEXTS.get(kind, plain)} (found {KINDS.get(type(fault['input']), 'a table')})"
        return TEXTS.get(kind, plain)


def dotted(key: Key) -> str:
    """Return the key as one writes it: ``venues.lantern.forecasters[0]``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key).removeprefix(".")


def _plain(message: str) -> str:
    """Return pydantic's text without its own subject and its account of how it tried."""
    subject, should, rest = message.partition(" should ")
    # Before a colon stands no subject but the place in another file, which whoever mends it needs.
    if should and ": " not in f"{subject} ":
        return f"should {rest}".partition(", unable")[0]
    return message.removeprefix("Value error, ")
