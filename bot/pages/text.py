"""Text without what the eye does not see: composed, no invisible characters, blanks collapsed, of bounded length."""

import re
import unicodedata

# Formats (zero-width, direction, tags), controls, private use, surrogates and what is not assigned.
_DROPPED = frozenset({"Cf", "Cc", "Co", "Cs", "Cn"})
# Invisible too, though Unicode calls them letters, marks or symbols: joiners, fillers, variation selectors (which can
# carry any bytes), an empty Braille cell. Source: Default_Ignorable_Code_Point of Unicode 15.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_BLANKS = re.compile(r"[^\S\n]+")
_LINES = re.compile(r" ?\n ?")
_GAPS = re.compile(r"\n{3,}")
_BREAKS = str.maketrans(
    {"\r": "\n", "\x0b": "\n", "\x0c": "\n", "\x85": "\n", "\u2028": "\n", "\u2029": "\n", "\t": " "}
)


def clean(text: str, *, longest: int) -> str:
    """Return the text in form NFKC as a person would see it, at most ``longest`` characters, cut at the end."""
    composed = text if text.isascii() else unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))
    broken = composed.replace("\r\n", "\n").translate(_BREAKS)
    # Once more after composing, which makes fillers and blanks of other characters.
    seen = _INVISIBLE.sub("", broken.translate(_unseen(broken)))
    lines = _GAPS.sub("\n\n", _LINES.sub("\n", _BLANKS.sub(" ", seen)))
    return lines.strip()[:longest].rstrip()


def _unseen(text: str) -> dict[int, None]:
    """Return the characters to drop, of those that occur: asking once per character is far cheaper than per place."""
    return {ord(each): None for each in set(text) if each != "\n" and unicodedata.category(each) in _DROPPED}
