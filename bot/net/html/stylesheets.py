"""Style sheets of a page, those in data: URLs included, as rules; selectors as they hold for a page at rest.

In doubt a rule is read in the way that hides more.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bot.net.html.css_values import split_outside_brackets

_DATA_IMPORT = re.compile(
    r"@import\s*(?:url\(\s*)?(?:\"(data:[^\"]*)\"|'(data:[^']*)'|(data:[^\s;)\"']*))", re.IGNORECASE
)


_STYLESHEET_LINKS = 'link[rel~="stylesheet" i][href]'


_MAX_IMPORT_DEPTH = 4


_MAX_SHEETS = 50


def page_stylesheets(tree: LexborHTMLParser) -> Iterator[str]:
    """Yield the text of each sheet in the page, those in its addresses included."""
    for node in tree.css("style"):
        yield from _iter_with_imports(node.text() or "")
    for node in tree.css(_STYLESHEET_LINKS):
        if (said := decode_data_url(node.attributes.get("href") or "")) is not None:
            yield from _iter_with_imports(said)


def _iter_with_imports(sheet: str) -> Iterator[str]:
    found = [sheet]
    # Each level holds less than the one around it, so this ends; but a sheet may hold very many small ones.
    for _ in range(_MAX_IMPORT_DEPTH):
        yield from found
        found = [said for css in found for said in _iter_imports(css)][:_MAX_SHEETS]


def _iter_imports(css: str) -> Iterator[str]:
    if "@import" in css.lower():
        said = (decode_data_url(each[1] or each[2] or each[3] or "") for each in _DATA_IMPORT.finditer(css))
        yield from (each for each in said if each is not None)


def decode_data_url(address: str) -> str | None:
    """Return what an address holds itself, or None where it holds nothing."""
    head, comma, body = address.strip().partition(",")
    if not comma or head[:5].lower() != "data:":
        return None
    content = unquote_to_bytes(body)
    if head.lower().rstrip().endswith(";base64"):
        try:
            content = base64.b64decode(bytes(content.split()[0] if content.split() else b"") + b"===")
        except (binascii.Error, ValueError):
            return None
    return content.decode("utf-8", "replace")


# What selects by the page alone, and what the finder of elements knows of it.
_STATIC_PSEUDO_CLASSES = frozenset(
    {
        "root", "link", "any-link", "checked", "disabled", "enabled", "required", "optional", "read-only",
        "read-write", "empty", "first-child", "last-child", "only-child", "first-of-type", "last-of-type",
        "only-of-type", "nth-child", "nth-last-child", "nth-of-type", "nth-last-of-type",
    }
)  # fmt: skip


# What holds only while, or after, somebody does something.
_STATE_PSEUDO_CLASSES = frozenset(
    {
        "hover", "focus", "focus-visible", "focus-within", "active", "target", "target-within", "visited",
        "fullscreen", "-webkit-full-screen", "-moz-full-screen", "popover-open", "modal", "picture-in-picture",
        "playing", "seeking", "buffering", "stalled", "autofill", "-webkit-autofill", "user-valid", "user-invalid",
        "-moz-focusring", "-moz-ui-invalid", "placeholder-shown", "indeterminate", "current", "past", "future",
        "active-view-transition", "interest-source", "interest-target",
    }
)  # fmt: skip


_PSEUDO_ELEMENTS = frozenset({"before", "after", "first-line", "first-letter"})


_MATCHES_ANY = frozenset({"is", "where", "matches", "any", "-webkit-any", "-moz-any"})


_SELECTOR_PIECE = re.compile(
    r"""\[(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^\]"'])*\]|\\.|(::?)([\w-]+)(\()?|\s*[>+~]\s*|\s+|.""", re.DOTALL
)


_MAX_SELECTOR_DEPTH = 6


def resting_selectors(selector: str) -> list[str]:
    """Return the selectors of a list that may hold for a page at rest, without what a finder does not know."""
    return [*_resting_parts(selector, 0)] if ":" in selector else [selector]


def split_selectors(selectors: list[str]) -> Iterator[str]:
    """Yield each selector of the lists alone."""
    for selector in selectors:
        yield from (part.strip() for part in split_outside_brackets(selector, ",") if part.strip())


def _resting_parts(selectors: str, depth: int) -> Iterator[str]:
    for each in split_outside_brackets(selectors, ","):
        if (rest := _resting_selector(each.strip(), depth)) is not None:
            yield rest


@dataclass(slots=True)
class _SelectorBuilder:
    """A selector while it is put together; ``start`` is where its last part begins."""

    out: list[str] = field(default_factory=list)
    start: int = 0
    needs_state: bool = False

    def combine(self, combinator: str, *, leads: bool) -> None:
        if not leads:
            # What begins with a combinator, as within :has(), begins at the element itself.
            self.close()
        self.out.append(combinator)
        self.start, self.needs_state = len(self.out), False

    def close(self) -> None:
        """Let a part of which nothing is left select anything."""
        if not "".join(self.out[self.start :]).strip():
            self.out.append("*")

    def add(self, said: str | None) -> None:
        if said is None:
            self.needs_state = True
        else:
            self.out.append(said)


def _resting_selector(selector: str, depth: int) -> str | None:
    """Return one selector as it holds at rest, or None where what it selects needs a state, or is no element.

    What needs a state further up, as a page that is pointed at does, counts as true.
    """
    built, position = _SelectorBuilder(), 0
    while (found := _SELECTOR_PIECE.match(selector, position)) is not None:
        position = found.end()
        inner = ""
        if found[3]:
            end = _closing_bracket(selector, position)
            inner, position = selector[position:end], end + 1
        if found[1] is not None:
            built.add(_resting_pseudo_class(found, inner, depth))
        elif found[0].strip(" \t\n\f\r>+~"):
            built.add(found[0])
        else:
            built.combine(found[0], leads=found.start() == 0)
    built.close()
    return None if built.needs_state else "".join(built.out)


def _closing_bracket(selector: str, position: int) -> int:
    depth = 1
    for at in range(position, len(selector)):
        depth += {"(": 1, ")": -1}.get(selector[at], 0)
        if depth == 0:
            return at
    return len(selector)


def _resting_pseudo_class(found: re.Match[str], inner: str, depth: int) -> str | None:
    """Return what stands for a pseudo-class at rest, "" where it holds anyway, None where it does not."""
    name = found[2].lower()
    if found[1] == "::" or name in _PSEUDO_ELEMENTS or name in _STATE_PSEUDO_CLASSES or depth > _MAX_SELECTOR_DEPTH:
        return None
    if name in _MATCHES_ANY or name in {"not", "has"}:
        return _resting_list(name, inner, depth + 1)
    if name == "lang":
        return _language_selector(inner)
    whole = f":{name}({inner})" if found[3] else f":{name}"
    return whole if name in _STATIC_PSEUDO_CLASSES else ""


def _resting_list(name: str, inner: str, depth: int) -> str | None:
    kept = [each for each in _resting_parts(inner, depth) if each]
    if name == "not":
        # Where nothing is left to be not, it holds.
        return f":not({', '.join(kept)})" if kept else ""
    if not kept:
        return None
    return f":{'has' if name == 'has' else 'is'}({', '.join(kept)})"


def _language_selector(inner: str) -> str:
    names = (re.sub(r"[^\w-]", "", each).strip("-") for each in inner.split(","))
    tags = [f'[lang|="{name}" i]' for name in names if name]
    return f":is({', '.join(each for tag in tags for each in (tag, f'{tag} *'))})" if tags else ""


# Property -> all values declared for it, in lower case.
Declarations = Mapping[str, tuple[str, ...]]


_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)|<!--|-->", re.DOTALL)


_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|(.))", re.DOTALL)


_CSS_TOKEN = re.compile(r"""'(?:\\.|[^'\\\n])*'?|"(?:\\.|[^"\\\n])*"?|\\.|[(){};]""", re.DOTALL)


_WIDTH = re.compile(r"\(\s*(min|max)-width\s*:\s*(\d+(?:\.\d+)?)(px|em|rem)\s*\)")


# The innermost one first, so that what stands in for another is known when that one is looked at.
_VARIABLE = re.compile(r"var\(\s*(--[^\s,()]+)\s*(?:,((?:(?!var\()[^()]|\((?:[^()]|\([^()]*\))*\))*))?\)")


# Rules that are never on the screen, or hold no rules of style.
_OFF_SCREEN_RULES = (
    "@font-face",
    "@keyframes",
    "@-webkit-keyframes",
    "@-moz-keyframes",
    "@page",
    "@counter-style",
    "@property",
)


_VIEWPORT_PX = 1280.0


_MAX_RULES = 4000


_MAX_VARIABLE_VALUES = 4


# Variables may name each other, also in a circle and with many meanings each.
_MAX_SUBSTITUTIONS = 8


_MAX_EXPANDED_VALUES = 16


_MAX_VALUE_CHARS = 2000


# Each level of nesting repeats the selectors around it: deeper ones count as if they stood alone, which hides more.
_MAX_NESTING = 8


@dataclass(frozen=True, slots=True)
class StyleRule:
    """What applies to the elements that a selector finds."""

    selector: str
    declared: Declarations


@dataclass(slots=True)
class _StyleBlock:
    selector: str
    seen: bool
    parts: list[str] = field(default_factory=list)


def parse_rules(css: str) -> Iterator[StyleRule]:
    """Yield the rules of a sheet that may apply to a screen of usual width, nested ones unfolded; never raises."""
    css = _COMMENT.sub(" ", css)
    open_blocks: list[_StyleBlock] = []
    start = count = 0
    for position, mark in _iter_marks(css):
        piece, start = css[start:position].strip(), position + 1
        if mark == "{":
            open_blocks.append(_open_block(piece, open_blocks))
        elif open_blocks:
            open_blocks[-1].parts.append(piece)
        if mark == "}" and open_blocks:
            yield from _close_block(open_blocks.pop())
            count += 1
        if count > _MAX_RULES:
            return
    if open_blocks:
        open_blocks[-1].parts.append(css[start:])
    # What is still open at the end of a sheet counts as closed there.
    for block in reversed(open_blocks):
        yield from _close_block(block)


def parse_declarations(style: str) -> Declarations:
    """Return what the attribute ``style`` declares; never raises."""
    style = _COMMENT.sub(" ", style)
    parts, start = [], 0
    for position, mark in _iter_marks(style):
        if mark == ";":
            parts.append(style[start:position])
            start = position + 1
    return _parse_parts([*parts, style[start:]])


def collect_variables(declared: Iterable[Declarations]) -> dict[str, tuple[str, ...]]:
    """Return all meanings of each custom property, wherever it is declared."""
    found: dict[str, tuple[str, ...]] = {}
    for each in declared:
        for name, values in each.items():
            if name.startswith("--"):
                found[name] = (*found.get(name, ()), *values)[-_MAX_VARIABLE_VALUES:]
    return found


def substitute_variables(declared: Declarations, meanings: Mapping[str, tuple[str, ...]]) -> Declarations:
    """Return the declarations with custom properties replaced by each of their meanings."""
    return {
        name: tuple(each for value in values for each in _expand_value(value, meanings))
        for name, values in declared.items()
    }


def _expand_value(value: str, meanings: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the value with its variables replaced, one value for each meaning, until none is left."""
    if "var(" not in value:
        return (value,)
    values = [value]
    for _ in range(_MAX_SUBSTITUTIONS):
        if not any("var(" in each for each in values):
            break
        values = [replaced for each in values for replaced in _replace_variable(each, meanings)][:_MAX_EXPANDED_VALUES]
    return tuple(values)


def _replace_variable(value: str, meanings: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    found = _VARIABLE.search(value)
    if found is None or len(value) > _MAX_VALUE_CHARS:
        return (value,)
    known = meanings.get(found[1]) or ()
    if found[2] is None and not known:
        # A browser drops such a declaration whole.
        return ("",)
    instead = (found[2].strip(),) if found[2] is not None else ()
    return tuple(value.replace(found[0], each) for each in (*known, *instead))


def _iter_marks(css: str) -> Iterator[tuple[int, str]]:
    """Yield where the sheet has { } and ; outside of strings and brackets."""
    depth = 0
    for token in _CSS_TOKEN.finditer(css):
        mark = token[0]
        if mark == "(":
            depth += 1
        elif mark == ")":
            depth = max(0, depth - 1)
        elif mark in "{}":
            # A bracket left open must not swallow the rest of a sheet.
            depth = 0
            yield token.start(), mark
        elif mark == ";" and depth == 0:
            yield token.start(), mark


def _open_block(prelude: str, around: list[_StyleBlock]) -> _StyleBlock:
    outer = around[-1] if around else _StyleBlock("", seen=True)
    prelude = prelude.rpartition(";")[2].strip()
    if prelude.startswith("@"):
        return _StyleBlock(outer.selector, seen=outer.seen and _applies_on_screen(prelude.lower()))
    if not outer.selector or len(around) > _MAX_NESTING:
        return _StyleBlock(prelude, seen=outer.seen)
    inner = prelude.replace("&", f":is({outer.selector})") if "&" in prelude else f":is({outer.selector}) {prelude}"
    return _StyleBlock(inner, seen=outer.seen)


def _close_block(block: _StyleBlock) -> Iterator[StyleRule]:
    if block.seen and block.selector and (declared := _parse_parts(block.parts)):
        yield StyleRule(block.selector, declared)


def _applies_on_screen(prelude: str) -> bool:
    if prelude.startswith(_OFF_SCREEN_RULES):
        return False
    if not prelude.startswith("@media"):
        return True
    return any(_matches_screen(query) for query in prelude.removeprefix("@media").split(","))


def _matches_screen(query: str) -> bool:
    if ("print" in query or "speech" in query) != ("not " in query):
        return False
    if "prefers-color-scheme" in query and "dark" in query:
        return False
    for bound, number, unit in _WIDTH.findall(query):
        width = float(number) * (1.0 if unit == "px" else 16.0)
        if (bound == "min" and width > _VIEWPORT_PX) or (bound == "max" and width < _VIEWPORT_PX):
            return False
    return True


def _parse_parts(parts: Iterable[str]) -> Declarations:
    found: dict[str, tuple[str, ...]] = {}
    for part in parts:
        name, colon, value = _unescape(part).partition(":")
        if colon:
            key = name.strip().lower()
            plain = re.sub(r"!\s*important\s*$", "", value.strip().lower()).strip()
            found[key] = (*found.get(key, ()), plain)
    return found


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_escaped_character, text) if "\\" in text else text


def _escaped_character(escape: re.Match[str]) -> str:
    if escape[1] is None:
        return escape[2]
    code = int(escape[1], 16)
    return chr(code) if 0 < code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF else "\ufffd"
