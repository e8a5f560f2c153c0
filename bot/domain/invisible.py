"""The characters that a reader does not see: they carry orders to a model past the person who checks its text.

Two kinds. Unicode categories without a shape: formats (zero-width, direction, tags), controls, private use,
surrogates, unassigned. And what Unicode calls a letter, mark or symbol though nothing is drawn: joiners, fillers,
variation selectors (which can carry any bytes), an empty Braille cell. Source: Default_Ignorable_Code_Point of
Unicode 15, and U+2800, which is blank by its design.
"""

import re
import unicodedata

_SHAPELESS = frozenset({"Cf", "Cc", "Co", "Cs", "Cn"})
_KEPT = frozenset("\n\t")
_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)
_BREAKS = str.maketrans({"\r": "\n", "\x0b": "\n", "\x0c": "\n", "\x85": "\n", "\u2028": "\n", "\u2029": "\n"})


def visible(text: str) -> str:
    """Return the text without the characters that draw nothing; each kind of line break becomes a newline.

    Blanks, tabs and newlines stay. Takes time linear in the length, and can be applied again without effect.
    """
    broken = text.replace("\r\n", "\n").translate(_BREAKS)
    if broken.isascii() and broken.isprintable():
        return broken
    shown = broken if broken.isascii() else _IGNORABLE.sub("", broken)
    # Asking for the category once per character that occurs is far cheaper than once per place.
    shapeless = {ord(each): None for each in set(shown) - _KEPT if unicodedata.category(each) in _SHAPELESS}
    return shown.translate(shapeless) if shapeless else shown
