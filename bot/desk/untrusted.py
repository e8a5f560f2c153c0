"""Text from outside as data: cleaned of what no reader sees, bounded, and fenced by a mark that it cannot know.

Whoever writes a page, a snippet or the text of a market may try to give orders. Nothing here recognises orders; the
fence says where the foreign words begin and end, and what they may do is decided elsewhere.
"""

import re

from bot.domain.invisible import visible
from bot.ids import digest
from bot.store.codec import clean

LABEL_CHARS = 100
QUOTE_CHARS = 20_000

# Of these a text may have any number as it is.
_ORDINARY = bytes([*b"\t\n", *range(0x20, 0x7F)])
# Also wide and small forms of the brackets: a model may read them as the real ones.
_BRACKETS = ("<", "\ufe64", "\uff1c")
_FENCE = re.compile("[<\ufe64\uff1c](?=[\\s/\uff0f]{0,40}untrusted)", re.IGNORECASE)
_NO_LABEL = re.compile(r"[^\w .,:;()/+-]+")


def plain(text: str, limit: int = QUOTE_CHARS) -> str:
    """Return the text without the characters that no reader sees, cut after ``limit`` characters.

    Line breaks become newlines; tabs stay. What is cut off is replaced by a remark that says so.
    """
    # Everything beyond is cut off anyway: the first pass need not look at all of a long text.
    kept = _seen(text[: 4 * limit + 100]).strip()
    if len(kept) <= limit and len(text) <= 4 * limit + 100:
        return kept
    return f"{kept[:limit].rstrip()} [cut after {limit} characters]"


def quoted(text: str, label: str, limit: int = QUOTE_CHARS) -> str:
    """Fence a text of others, so that a model can tell it from what it is told to do.

    The mark in the fence derives from the text, so the same text always looks the same, and no text can hold its own
    mark; whatever looks like the fence inside is made harmless. ``label`` says what it is, in a few plain words.
    """
    inside = plain(text, limit)
    if any(bracket in inside for bracket in _BRACKETS):
        inside = _FENCE.sub("&lt;", inside)
    mark = digest(f"{label}\n{inside}".encode())[:16]
    name = _NO_LABEL.sub(" ", plain(label, LABEL_CHARS)).strip() or "text"
    return f'<untrusted-{mark} label="{name}">\n{inside}\n</untrusted-{mark}>'


def _seen(text: str) -> str:
    if text.isascii() and not text.encode().translate(None, _ORDINARY):
        return text
    return visible(clean(text))
