"""The source text of a page (wikitext) as plain text, without asking anybody what its templates mean.

A template is written out as what it was given: ``{{flagathlete|[[Ada]]|NOR}}`` becomes "Ada NOR", a row template with
named values "name: Ada; time: 20.91". Templates without values stand in brackets, so that a reader sees that something
is not shown. References, comments, pictures and categories are left out.
"""

import re
from collections.abc import Callable

from plugins.data.wikipedia.hidden import is_hidden, unescaped, visible
from plugins.data.wikipedia.table import ROW, with_tables

# Nested deeper than this, markup stays as it is.
MAX_DEPTH = 12
ROW_VALUES = 3

# None has two ways to read the same text, so each goes through a page once, whatever is in it.
_PARAMETER = re.compile(r"\{\{\{[^{}|]*+(?:\|([^{}]*+))?\}\}\}")
_LINK = re.compile(r"\[\[([^\[\]]*)\]\]")
_OUTWARD = re.compile(r"\[(?:https?:)?//[^\s\[\]]++\s*+([^\[\]]*+)\]")
_TEMPLATE = re.compile(r"\{\{([^{}]*)\}\}")
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_BREAK = re.compile(r"<br\b[^<>]*>", re.IGNORECASE)
_EMPHASIS = re.compile(r"'{2,5}")
_NAME = re.compile(r"[\w .-]{1,40}")
_BLANK_LINES = re.compile(r"\n{3,}")
_SPACES = re.compile(r"[ \t\u00a0]+")

_LEFT_OUT = frozenset({"file", "image", "category"})
_DROPPED = re.compile(
    r"#|cite|citation|sfn|harv|efn|refn|r$|reflist|references|notelist|note|short description|webarchive|toc|clear|"
    r"use [a-z]+ (dates|english)|commons|portal|authority control|anchor|hs$|hidden sort key|defaultsort|displaystyle|"
    r"pp(-|$)|protection|good article|featured|update|citation needed|dead link|cn$|sticky|row hover|static row|"
    r"table alignment|import style|legend|coord|italic title|-$|snd$|shy$|wbr$|void$|null$|nothing$|\^$|displaytitle|"
    # Said to screen readers only, or takes up room without being seen.
    r"screen reader-only|sronly$|invisible$|phantom$|0$|pad$"
)
# What a reader sees of these is the last value; the others say where it stands in an order.
_LAST = frozenset({"sort", "sort dash", "sorted", "abbr", "tooltip"})
# The name of these is what they say, of the former also beside a value.
_DIRECTIONS = frozenset(
    {"increase", "decrease", "steady", "up", "down", "nochange", "no change", "gain", "loss", "hold"}
)
_WORDS = frozenset({"yes", "no", "n/a", "na", "maybe", "unknown", "partial", "tba", "tbd", "won", "lost", "draw"})
_DATES = frozenset(
    {"dts", "start date", "end date", "birth date", "death date", "date table sorting", "start date and age"}
)
_STYLED = frozenset({"style", "css"})
_STYLE = frozenset(
    {"style", "class", "width", "align", "bgcolor", "color", "abbr", "nocat", "df", "mf", "size", "ref", "refs"}
    | {
        "reference",
        "sortable",
        "format",
        "sk",
        "dab",
        "nolink",
        "link",
        "url",
        "image",
        "scope",
        "lk",
        "sp",
        "eventsort",
    }
)
_SIGNS = {
    "!": "|",
    "!!": "||",
    "!-": "|-",
    "=": "=",
    "(": "(",
    ")": ")",
    "·": "·",
    "•": "•",
    "ndash": "-",
    "mdash": "-",
}


def plain(text: str) -> str:
    """Return wikitext as plain text: tables as lines of cells between bars, lists and headings as they are."""
    return _bare(with_tables(_written(text)))


def one_line(text: str) -> str:
    """Return wikitext that stands in one line, a heading say, as plain text."""
    return " ".join(_bare(_written(text)).split())


def _written(text: str) -> str:
    """Write out links and templates, so that no bar is left but those of tables."""
    text = _PARAMETER.sub(r"\1", visible(text))
    text = _repeated(_LINK, _link, text)
    text = _OUTWARD.sub(r"\1", text)
    # Again, because a template may have stood in what hides an element.
    return visible(_repeated(_TEMPLATE, _template, text))


def _bare(text: str) -> str:
    text = _EMPHASIS.sub("", _BREAK.sub(" / ", text))
    text = unescaped(_TAG.sub("", text)).replace(ROW, "- ")
    lines = (_SPACES.sub(" ", line).strip() for line in text.splitlines())
    # The end of a table that a template began.
    return _BLANK_LINES.sub("\n\n", "\n".join(line for line in lines if line != "|}")).strip()


def _repeated(pattern: re.Pattern[str], write: Callable[[re.Match[str]], str], text: str) -> str:
    """Replace the innermost first, until nothing is left or it is nested too deep."""
    for _ in range(MAX_DEPTH):
        text, count = pattern.subn(write, text)
        if not count:
            break
    return text


def _link(found: re.Match[str]) -> str:
    target, bar, label = found[1].partition("|")
    if target.partition(":")[0].strip().lower() in _LEFT_OUT:
        return ""
    return label if bar and label.strip() else target.strip().lstrip(":")


def _template(found: re.Match[str]) -> str:
    title, *values = found[1].split("|")
    name = " ".join(title.replace("_", " ").split())
    key = name.lower()
    if key in _SIGNS:
        return _SIGNS[key]
    if not name or _DROPPED.match(key):
        return ""
    pairs = [pair for pair in map(_pair, values) if pair[1]]
    if any(parameter in _STYLED and is_hidden(value) for parameter, value in pairs):
        return ""
    given = [value for parameter, value in pairs if not parameter]
    named = [(parameter, value) for parameter, value in pairs if parameter and parameter.lower() not in _STYLE]
    if key in _DIRECTIONS or (key in _WORDS and not given):
        given.insert(0, name)
    if not given and not named:
        return f"[{name}]"
    if key in _LAST:
        return given[-1]
    said = "; ".join([*_joined(key, given), *(f"{parameter}: {value}" for parameter, value in named)])
    return f"\n{ROW}{' '.join(said.split())}\n" if len(named) >= ROW_VALUES else said


def _joined(key: str, given: list[str]) -> list[str]:
    return [("-" if key in _DATES else " ").join(given)] if given else []


def _pair(value: str) -> tuple[str, str]:
    """Return name and value; a value that is only numbered has no name."""
    before, equals, after = value.partition("=")
    name = before.strip()
    if not equals or not _NAME.fullmatch(name):
        return "", value.strip()
    return "" if name.isdigit() else name, after.strip()
