"""The source text of a page (wikitext) as plain text, without requests for the meaning of its templates.

A template is written out as its arguments: ``{{flagathlete|[[Ada]]|NOR}}`` becomes "Ada NOR", a row template with named
values "name: Ada; time: 20.91". Templates without values are shown in brackets, so that a reader sees that something is
missing. References, comments, pictures and categories are omitted.
"""

import re
from collections.abc import Callable

from plugins.data.wikipedia.hidden_markup import is_hidden, unescape_references, visible_wikitext
from plugins.data.wikipedia.tables import ROW_MARK, render_tables

# Nested deeper than this, markup stays as it is.
MAX_DEPTH = 12
MIN_ROW_VALUES = 3

# None has two ways to match the same text, so each passes through a page once, whatever its content.
_TEMPLATE_PARAMETER = re.compile(r"\{\{\{[^{}|]*+(?:\|([^{}]*+))?\}\}\}")
_LINK = re.compile(r"\[\[([^\[\]]*)\]\]")
_EXTERNAL_LINK = re.compile(r"\[(?:https?:)?//[^\s\[\]]++\s*+([^\[\]]*+)\]")
_TEMPLATE = re.compile(r"\{\{([^{}]*)\}\}")
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_LINE_BREAK = re.compile(r"<br\b[^<>]*>", re.IGNORECASE)
_EMPHASIS = re.compile(r"'{2,5}")
_VALUE_NAME = re.compile(r"[\w .-]{1,40}")
_BLANK_LINES = re.compile(r"\n{3,}")
_SPACES = re.compile(r"[ \t\u00a0]+")

_OMITTED_LINKS = frozenset({"file", "image", "category"})
_DROPPED_TEMPLATES = re.compile(
    r"#|cite|citation|sfn|harv|efn|refn|r$|reflist|references|notelist|note|short description|webarchive|toc|clear|"
    r"use [a-z]+ (dates|english)|commons|portal|authority control|anchor|hs$|hidden sort key|defaultsort|displaystyle|"
    r"pp(-|$)|protection|good article|featured|update|citation needed|dead link|cn$|sticky|row hover|static row|"
    r"table alignment|import style|legend|coord|italic title|-$|snd$|shy$|wbr$|void$|null$|nothing$|\^$|displaytitle|"
    # For screen readers only, or takes up room without being visible.
    r"screen reader-only|sronly$|invisible$|phantom$|0$|pad$"
)
# A reader sees only the last value of these; the others are sort keys.
_LAST_VALUE_TEMPLATES = frozenset({"sort", "sort dash", "sorted", "abbr", "tooltip"})
# The name of these is their text, of the former also together with a value.
_COMPASS_DIRECTIONS = frozenset(
    {"increase", "decrease", "steady", "up", "down", "nochange", "no change", "gain", "loss", "hold"}
)
_STATUS_WORDS = frozenset(
    {"yes", "no", "n/a", "na", "maybe", "unknown", "partial", "tba", "tbd", "won", "lost", "draw"}
)
_DATE_TEMPLATES = frozenset(
    {"dts", "start date", "end date", "birth date", "death date", "date table sorting", "start date and age"}
)
_STYLE_TEMPLATES = frozenset({"style", "css"})
_STYLE_NAMES = frozenset(
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
_SIGN_TEMPLATES = {
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


def wikitext_to_text(text: str) -> str:
    """Return wikitext as plain text: tables as lines of cells between bars, lists and headings as they are."""
    return _strip_markup(render_tables(_expand_links(text)))


def wikitext_to_line(text: str) -> str:
    """Return wikitext of a single line, a heading say, as plain text."""
    return " ".join(_strip_markup(_expand_links(text)).split())


def _expand_links(text: str) -> str:
    """Write out links and templates, so that only the bars of tables are left."""
    text = _TEMPLATE_PARAMETER.sub(r"\1", visible_wikitext(text))
    text = _replace_innermost(_LINK, _link_text, text)
    text = _EXTERNAL_LINK.sub(r"\1", text)
    # Again, because a template may have been inside the markup that hides an element.
    return visible_wikitext(_replace_innermost(_TEMPLATE, _template_text, text))


def _strip_markup(text: str) -> str:
    text = _EMPHASIS.sub("", _LINE_BREAK.sub(" / ", text))
    text = unescape_references(_TAG.sub("", text)).replace(ROW_MARK, "- ")
    lines = (_SPACES.sub(" ", line).strip() for line in text.splitlines())
    # The end of a table that a template began.
    return _BLANK_LINES.sub("\n\n", "\n".join(line for line in lines if line != "|}")).strip()


def _replace_innermost(pattern: re.Pattern[str], write: Callable[[re.Match[str]], str], text: str) -> str:
    """Replace the innermost first, until nothing is left or it is nested too deep."""
    for _ in range(MAX_DEPTH):
        text, count = pattern.subn(write, text)
        if not count:
            break
    return text


def _link_text(found: re.Match[str]) -> str:
    target, bar, label = found[1].partition("|")
    if target.partition(":")[0].strip().lower() in _OMITTED_LINKS:
        return ""
    return label if bar and label.strip() else target.strip().lstrip(":")


def _template_text(found: re.Match[str]) -> str:
    title, *values = found[1].split("|")
    name = " ".join(title.replace("_", " ").split())
    key = name.lower()
    if key in _SIGN_TEMPLATES:
        return _SIGN_TEMPLATES[key]
    if not name or _DROPPED_TEMPLATES.match(key):
        return ""
    pairs = [pair for pair in map(_split_value, values) if pair[1]]
    if any(parameter in _STYLE_TEMPLATES and is_hidden(value) for parameter, value in pairs):
        return ""
    given = [value for parameter, value in pairs if not parameter]
    named = [(parameter, value) for parameter, value in pairs if parameter and parameter.lower() not in _STYLE_NAMES]
    if key in _COMPASS_DIRECTIONS or (key in _STATUS_WORDS and not given):
        given.insert(0, name)
    if not given and not named:
        return f"[{name}]"
    if key in _LAST_VALUE_TEMPLATES:
        return given[-1]
    values = "; ".join([*_join_values(key, given), *(f"{parameter}: {value}" for parameter, value in named)])
    return f"\n{ROW_MARK}{' '.join(values.split())}\n" if len(named) >= MIN_ROW_VALUES else values


def _join_values(key: str, given: list[str]) -> list[str]:
    return [("-" if key in _DATE_TEMPLATES else " ").join(given)] if given else []


def _split_value(value: str) -> tuple[str, str]:
    """Return name and value; a value that is only numbered has no name."""
    before, equals, after = value.partition("=")
    name = before.strip()
    if not equals or not _VALUE_NAME.fullmatch(name):
        return "", value.strip()
    return "" if name.isdigit() else name, after.strip()
