"""What stands in the source text of a page and no reader sees: comments, notes, and elements whose style hides them.

Anybody may write there, and nobody looks: it is where an order to a program that reads the page would stand. Every
step goes through the text once, whatever is in it. Sources: the preprocessor and the sanitizer of MediaWiki, for which
``>`` ends a tag, what an open comment hides, and how an attribute is read.
"""

import html
import re
from collections.abc import Iterator

# The service itself takes no longer page.
MAX_CHARS = 2_200_000
# Shown letter by letter, markup and all.
_LITERAL = frozenset({"nowiki", "pre", "syntaxhighlight", "source"})
_NOT_SHOWN = frozenset(
    {"ref", "gallery", "templatestyles", "timeline", "score", "math", "includeonly", "graph", "imagemap"}
)
# Hides what follows it also where nothing ends it.
_WITHOUT_END = frozenset({"includeonly"})
_START = re.compile(rf"<!--|<({'|'.join(sorted(_LITERAL | _NOT_SHOWN))})(?=[\s/>])", re.IGNORECASE)
_COMMENT_ENDS = re.compile("-->")
_TAG_ENDS = re.compile(">")
_CLOSED_BY = {name: re.compile(rf"</{name}\s*+>", re.IGNORECASE) for name in _LITERAL | _NOT_SHOWN}
_MARKUP = str.maketrans({sign: f"&#{ord(sign)};" for sign in "<>[]{}|!'=_"})

_SWITCH = re.compile(r"__[A-Z]{1,40}__")
_ELEMENT = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*+)([^<>]*+)>")
_QUOTED = re.compile(r"\"[^\"]*+\"|'[^']*+'")
_HIDDEN_WORD = re.compile(r"(?:^|\s)hidden(?=$|[\s=/])", re.IGNORECASE)
_HIDDEN_STYLE = re.compile(
    r"display:none|visibility:(?:hidden|collapse)|(?<![a-z-])color:transparent|clip:rect\(|clip-path:inset\(|"
    r"(?:opacity|font-size|max-height|max-width):0*+\.?0*+[a-z%]*+(?![^;!\"'\s])|"
    r"(?:text-indent|left|top|right|bottom|margin-left|margin-top):-\d{3}"
)
_ESCAPED = re.compile(r"\\([0-9a-fA-F]{1,6})\s?")
_LONG_NUMBER = re.compile(r"&#(?:\d{8,}|[xX][0-9a-fA-F]{7,});?")
# Elements that no line and no cell of a table ends.
_BLOCKS = frozenset({"div", "table", "section", "article", "center", "blockquote", "ul", "ol", "dl"})
_EMPTY = frozenset({"br", "hr", "img", "wbr", "meta", "link", "col"})
_PART_ENDS = re.compile(r"\n(?=[\n|!=*#:;])")


def visible(text: str) -> str:
    """Return wikitext without what no reader of the page sees; nothing is hidden in what comes back."""
    return _SWITCH.sub("", _without_elements(_without_notes(text[:MAX_CHARS])))


def is_hidden(attributes: str) -> bool:
    """Whether an element with these attributes is not shown."""
    words = _QUOTED.sub("", attributes)
    return bool(_HIDDEN_WORD.search(words) or _HIDDEN_STYLE.search(_style(attributes)))


def unescaped(text: str) -> str:
    """Return text with its character references resolved; numbers that no character has are left out."""
    return html.unescape(_LONG_NUMBER.sub("", text))


def _style(attributes: str) -> str:
    """Return the attributes as a browser reads a style: no comments, no escapes, no space at colons, small letters."""
    first, *others = unescaped(attributes).split("/*")
    plain = first + "".join(other.partition("*/")[2] for other in others)
    return ":".join(part.strip() for part in _ESCAPED.sub(_escaped, plain).lower().split(":"))


def _escaped(found: re.Match[str]) -> str:
    number = int(found[1], 16)
    return chr(number) if number <= 0x10FFFF else ""


def _without_notes(text: str) -> str:
    """Leave out comments and the elements that are no part of the text, in the order in which they begin."""
    ends = _Ends(text)
    kept: list[str] = []
    at = 0
    while (found := _START.search(text, at)) is not None:
        kept.append(text[at : found.start()])
        shown, at = _note(text, found, ends)
        kept.append(shown)
    return "".join([*kept, text[at:]])


def _note(text: str, found: re.Match[str], ends: "_Ends") -> tuple[str, int]:
    """Return what is shown of what begins there, and where the text goes on."""
    if found[1] is None:
        end = ends.after(_COMMENT_ENDS, found.end())
        return "", len(text) if end is None else end.end()
    name = found[1].lower()
    opened = ends.after(_TAG_ENDS, found.end())
    if opened is None:
        return found[0], found.end()
    if text[opened.end() - 2] == "/":
        return "", opened.end()
    closed = ends.after(_CLOSED_BY[name], opened.end())
    if closed is None:
        return ("", len(text)) if name in _WITHOUT_END else (text[found.start() : opened.end()], opened.end())
    inner = text[opened.end() : closed.start()]
    return inner.translate(_MARKUP) if name in _LITERAL else "", closed.end()


class _Ends:
    """Finds what ends something, and remembers what does not come any more."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._next: dict[re.Pattern[str], re.Match[str] | None] = {}

    def after(self, end: re.Pattern[str], start: int) -> re.Match[str] | None:
        """Return the next one at or after that place; places are asked for in rising order."""
        known = self._next.get(end)
        if end not in self._next or (known is not None and known.start() < start):
            known = self._next[end] = end.search(self._text, start)
        return known


def _without_elements(text: str) -> str:
    """Leave out elements whose attributes hide them, with all that is in them."""
    kept: list[str] = []
    at = 0
    for start, end in _hidden(text):
        if start >= at:
            kept.append(text[at:start])
        at = max(at, end)
    return "".join([*kept, text[at:]])


def _hidden(text: str) -> Iterator[tuple[int, int]]:
    """Return where hidden elements begin and end, in the order in which they begin."""
    ends: dict[int, int] = {}
    hidden: list[re.Match[str]] = []
    still_open: dict[str, list[int]] = {}
    for found in _ELEMENT.finditer(text):
        name = found[2].lower()
        if found[1]:
            if still_open.get(name):
                ends[still_open[name].pop()] = found.end()
            continue
        if name not in _EMPTY and not found[3].endswith("/"):
            still_open.setdefault(name, []).append(found.start())
            if is_hidden(found[3]):
                hidden.append(found)
    covered = 0
    for found in hidden:
        if found.start() >= covered:
            covered = ends.get(found.start()) or _end_of_part(text, found)
            yield found.start(), covered


def _end_of_part(text: str, opened: re.Match[str]) -> int:
    """Return where an element ends that nothing closes: a block never, another one with its line or cell."""
    found = None if opened[2].lower() in _BLOCKS else _PART_ENDS.search(text, opened.end())
    return len(text) if found is None else found.start()
