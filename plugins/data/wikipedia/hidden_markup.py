"""The parts of a page's source text that no reader sees: comments, notes, and elements whose style hides them.

Anybody may write there, and nobody looks: a hidden instruction to a program would be there. Every step passes through
the text once, whatever its content. Sources: the preprocessor and the sanitizer of MediaWiki, for the ``>`` that ends a
tag, the extent of an open comment, and the parsing of attributes.
"""

import html
import re
from collections.abc import Iterator

# The service itself accepts no longer page.
MAX_CHARS = 2_200_000
# Shown letter by letter, markup included.
_LITERAL_TAGS = frozenset({"nowiki", "pre", "syntaxhighlight", "source"})
_INVISIBLE_TAGS = frozenset(
    {"ref", "gallery", "templatestyles", "timeline", "score", "math", "includeonly", "graph", "imagemap"}
)
# Hides the text after it even without an end.
_IGNORED_UNCLOSED_TAGS = frozenset({"includeonly"})
_NOTE_START = re.compile(rf"<!--|<({'|'.join(sorted(_LITERAL_TAGS | _INVISIBLE_TAGS))})(?=[\s/>])", re.IGNORECASE)
_COMMENT_END = re.compile("-->")
_TAG_END = re.compile(">")
_CLOSING_TAGS = {name: re.compile(rf"</{name}\s*+>", re.IGNORECASE) for name in _LITERAL_TAGS | _INVISIBLE_TAGS}
_MARKUP_ESCAPES = str.maketrans({sign: f"&#{ord(sign)};" for sign in "<>[]{}|!'=_"})

_BEHAVIOUR_SWITCH = re.compile(r"__[A-Z]{1,40}__")
_ELEMENT_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*+)([^<>]*+)>")
_QUOTED_TEXT = re.compile(r"\"[^\"]*+\"|'[^']*+'")
_HIDDEN_WORD = re.compile(r"(?:^|\s)hidden(?=$|[\s=/])", re.IGNORECASE)
_HIDDEN_STYLE = re.compile(
    r"display:none|visibility:(?:hidden|collapse)|(?<![a-z-])color:transparent|clip:rect\(|clip-path:inset\(|"
    r"(?:opacity|font-size|max-height|max-width):0*+\.?0*+[a-z%]*+(?![^;!\"'\s])|"
    r"(?:text-indent|left|top|right|bottom|margin-left|margin-top):-\d{3}"
)
_ESCAPED = re.compile(r"\\([0-9a-fA-F]{1,6})\s?")
_LONG_NUMBER = re.compile(r"&#(?:\d{8,}|[xX][0-9a-fA-F]{7,});?")
# Elements that neither a line nor a cell of a table ends.
_BLOCK_TAGS = frozenset({"div", "table", "section", "article", "center", "blockquote", "ul", "ol", "dl"})
_VOID_TAGS = frozenset({"br", "hr", "img", "wbr", "meta", "link", "col"})
_LINE_PART_END = re.compile(r"\n(?=[\n|!=*#:;])")


def visible_wikitext(text: str) -> str:
    """Return wikitext without the parts that no reader of the page sees."""
    return _BEHAVIOUR_SWITCH.sub("", _remove_hidden_elements(_remove_notes(text[:MAX_CHARS])))


def is_hidden(attributes: str) -> bool:
    """Whether an element with these attributes is not shown."""
    words = _QUOTED_TEXT.sub("", attributes)
    return bool(_HIDDEN_WORD.search(words) or _HIDDEN_STYLE.search(_normalised_style(attributes)))


def unescape_references(text: str) -> str:
    """Return text with its character references resolved; numbers without a character are dropped."""
    return html.unescape(_LONG_NUMBER.sub("", text))


def _normalised_style(attributes: str) -> str:
    """Return the attributes as a browser parses a style: no comments, no escapes, no space at colons, small letters."""
    first, *others = unescape_references(attributes).split("/*")
    plain = first + "".join(other.partition("*/")[2] for other in others)
    return ":".join(part.strip() for part in _ESCAPED.sub(_unescape_css, plain).lower().split(":"))


def _unescape_css(found: re.Match[str]) -> str:
    number = int(found[1], 16)
    return chr(number) if number <= 0x10FFFF else ""


def _remove_notes(text: str) -> str:
    """Remove comments and the elements that are not part of the text, in the order in which they begin."""
    ends = _EndFinder(text)
    kept: list[str] = []
    at = 0
    while (found := _NOTE_START.search(text, at)) is not None:
        kept.append(text[at : found.start()])
        shown, at = _read_note(text, found, ends)
        kept.append(shown)
    return "".join([*kept, text[at:]])


def _read_note(text: str, found: re.Match[str], ends: "_EndFinder") -> tuple[str, int]:
    """Return the visible part of the element that begins there, and where the text continues."""
    if found[1] is None:
        end = ends.next_after(_COMMENT_END, found.end())
        return "", len(text) if end is None else end.end()
    name = found[1].lower()
    opened = ends.next_after(_TAG_END, found.end())
    if opened is None:
        return found[0], found.end()
    if text[opened.end() - 2] == "/":
        return "", opened.end()
    closed = ends.next_after(_CLOSING_TAGS[name], opened.end())
    if closed is None:
        return ("", len(text)) if name in _IGNORED_UNCLOSED_TAGS else (text[found.start() : opened.end()], opened.end())
    inner = text[opened.end() : closed.start()]
    return inner.translate(_MARKUP_ESCAPES) if name in _LITERAL_TAGS else "", closed.end()


class _EndFinder:
    """Finds the end of something, and remembers ends that do not occur any more."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._next: dict[re.Pattern[str], re.Match[str] | None] = {}

    def next_after(self, end: re.Pattern[str], start: int) -> re.Match[str] | None:
        """Return the next one at or after that place; places are given in rising order."""
        known = self._next.get(end)
        if end not in self._next or (known is not None and known.start() < start):
            known = self._next[end] = end.search(self._text, start)
        return known


def _remove_hidden_elements(text: str) -> str:
    """Remove elements whose attributes hide them, with all their content."""
    kept: list[str] = []
    at = 0
    for start, end in _hidden_spans(text):
        if start >= at:
            kept.append(text[at:start])
        at = max(at, end)
    return "".join([*kept, text[at:]])


def _hidden_spans(text: str) -> Iterator[tuple[int, int]]:
    """Return where hidden elements begin and end, in the order in which they begin."""
    ends: dict[int, int] = {}
    hidden: list[re.Match[str]] = []
    still_open: dict[str, list[int]] = {}
    for found in _ELEMENT_TAG.finditer(text):
        name = found[2].lower()
        if found[1]:
            if still_open.get(name):
                ends[still_open[name].pop()] = found.end()
            continue
        if name not in _VOID_TAGS and not found[3].endswith("/"):
            still_open.setdefault(name, []).append(found.start())
            if is_hidden(found[3]):
                hidden.append(found)
    covered = 0
    for found in hidden:
        if found.start() >= covered:
            covered = ends.get(found.start()) or _unclosed_element_end(text, found)
            yield found.start(), covered


def _unclosed_element_end(text: str, opened: re.Match[str]) -> int:
    """Return where an unclosed element ends: a block never, another one with its line or cell."""
    found = None if opened[2].lower() in _BLOCK_TAGS else _LINE_PART_END.search(text, opened.end())
    return len(text) if found is None else found.start()
