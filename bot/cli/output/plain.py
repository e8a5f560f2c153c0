"""Text of strangers made harmless to a terminal: what cannot be seen could move the cursor, or turn the line around."""

import json
import unicodedata
from collections.abc import Callable

REPLACEMENT = "\ufffd"

# Controls (ESC and the C1 set among them), format characters (bidi overrides), lone surrogates.
_UNSEEN = frozenset({"Cc", "Cf", "Cs"})
_KEPT = frozenset("\n\t")


def plain(text: str) -> str:
    """Return the text, as long as before, with U+FFFD for each control character but newline and tab."""
    return _changed(text, lambda _: REPLACEMENT)


def escaped(json_text: str) -> str:
    """Return JSON text that says the same, with an escape for each such character."""
    return _changed(json_text, lambda character: json.dumps(character)[1:-1])


def _changed(text: str, change: Callable[[str], str]) -> str:
    # Nearly every line is printable as it is.
    return "\n".join(line if line.isprintable() else _line(line, change) for line in text.split("\n"))


def _line(line: str, change: Callable[[str], str]) -> str:
    return "".join(
        change(character) if unicodedata.category(character) in _UNSEEN and character not in _KEPT else character
        for character in line
    )
