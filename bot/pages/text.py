"""Text without what the eye does not see: composed, no invisible characters, blanks collapsed, of bounded length."""

import re
import unicodedata

from bot.domain.invisible import visible

_BLANKS = re.compile(r"[^\S\n]+")
_LINES = re.compile(r" ?\n ?")
_GAPS = re.compile(r"\n{3,}")


def clean(text: str, *, longest: int) -> str:
    """Return the text in form NFKC as a person would see it, at most ``longest`` characters, cut at the end."""
    shown = visible(text)
    if not shown.isascii():
        # Once more after composing, which makes fillers and blanks of other characters.
        shown = visible(unicodedata.normalize("NFKC", shown))
    lines = _GAPS.sub("\n\n", _LINES.sub("\n", _BLANKS.sub(" ", shown)))
    return lines.strip()[:longest].rstrip()
