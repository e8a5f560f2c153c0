"""Text of strangers made harmless to a terminal: what cannot be seen could move the cursor, or turn the line around."""

import json
from collections.abc import Callable

from bot.domain.invisible import visible

REPLACEMENT = "\ufffd"


def plain(text: str) -> str:
    """Return the text, as long as before, with U+FFFD for each character that draws nothing, but newline and tab."""
    return _changed(text, lambda _: REPLACEMENT)


def escaped(json_text: str) -> str:
    """Return JSON text that says the same, with an escape for each such character."""
    return _changed(json_text, lambda character: json.dumps(character)[1:-1])


def _changed(text: str, change: Callable[[str], str]) -> str:
    return "\n".join(line if _is_seen(line) else _line(line, change) for line in text.split("\n"))


def _is_seen(text: str) -> bool:
    # Nearly every line is. Beyond ASCII, what Python calls printable may still draw nothing.
    return (text.isascii() and text.isprintable()) or visible(text) == text


def _line(line: str, change: Callable[[str], str]) -> str:
    return "".join(character if visible(character) == character else change(character) for character in line)
