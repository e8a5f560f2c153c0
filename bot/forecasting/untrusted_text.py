"""Untrusted text as data: cleaned of invisible characters, bounded, and fenced by a mark that it cannot know.

The author of a page, a snippet or a market's text may try to give orders. This module does not detect orders; the fence
says where the foreign words begin and end, and other code decides what they may do.
"""

import re
from functools import lru_cache
from textwrap import indent

from bot.core.ids import sha256_hex
from bot.core.plain_text import strip_invisible
from bot.store.serialization import sanitize_text

LABEL_CHARS = 100
QUOTE_CHARS = 20_000

# A text may contain any number of these.
_ORDINARY_BYTES = bytes([*b"\t\n", *range(0x20, 0x7F)])
_FENCE = re.compile("[<\ufe64\uff1c](?=[\\s/\uff0f]{0,40}untrusted)", re.IGNORECASE)
_WHOLE_FENCE = re.compile(r'<untrusted-([0-9a-f]{16}) label="([^"\n]*)">\n(.*?)\n</untrusted-\1>', re.DOTALL)
_NOT_IN_LABEL = re.compile(r"[^\w .,:;()/+-]+")


def clean_text(text: str, limit: int = QUOTE_CHARS) -> str:
    """Return the text without invisible characters, cut after ``limit`` characters.

    Line breaks become newlines; tabs stay. A remark replaces the text that was cut off.
    """
    # Everything beyond is cut off later: the first pass need not look at all of a long text.
    kept = _visible_text(text[: 4 * limit + 100]).strip()
    if len(kept) <= limit and len(text) <= 4 * limit + 100:
        return kept
    return f"{kept[:limit].rstrip()} [cut after {limit} characters]"


def fence_text(text: str, label: str, limit: int = QUOTE_CHARS) -> str:
    """Fence a text of others, so that a model can distinguish it from its instructions.

    The mark in the fence derives from the text, so the same text always looks the same, and no text can hold its own
    mark; anything that looks like the fence inside is made harmless. ``label`` describes the text in a few plain words.
    """
    inside = clean_unfenced_text(text, limit)
    mark = sha256_hex(f"{label}\n{inside}".encode())[:16]
    # Most labels name a part of a question or a place in a list. Others might hold a secret that is known later.
    name = _remembered_name(label) if label.isascii() else _label_name(label)
    return f'<untrusted-{mark} label="{name}">\n{inside}\n</untrusted-{mark}>'


def clean_unfenced_text(text: str, limit: int = QUOTE_CHARS) -> str:
    """Return a clean text in which nothing looks like a fence, for words that stand outside of one."""
    inside = clean_text(text, limit)
    has_bracket = "<" in inside or (not inside.isascii() and ("\ufe64" in inside or "\uff1c" in inside))
    # Also wide and small forms of the brackets: a model may read them as the real ones.
    return _FENCE.sub("&lt;", inside) if has_bracket else inside


def _label_name(label: str) -> str:
    return _NOT_IN_LABEL.sub(" ", clean_text(label, LABEL_CHARS)).strip() or "text"


_remembered_name = lru_cache(maxsize=256)(_label_name)


def show_to_person(text: str) -> str:
    """Return a prompt as a page for a person: each fenced text under its label, every line of it marked."""
    return _WHOLE_FENCE.sub(lambda found: f"{found[2]}:\n{indent(found[3], '| ', lambda _: True)}", text)


def _visible_text(text: str) -> str:
    if text.isascii() and not text.encode().translate(None, _ORDINARY_BYTES):
        return text
    return strip_invisible(sanitize_text(text))
