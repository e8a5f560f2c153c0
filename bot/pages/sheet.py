"""Style sheets to rules: enough of CSS to tell what a page hides, read in the way that hides more where in doubt.

Nothing weighs one declaration against another: an element is hidden where any that applies to it hides it, so that no
override which browsers would not follow can make hidden text pass. Sheets in other files are not seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

# Property -> all values declared for it, in lower case.
Declared = Mapping[str, tuple[str, ...]]

_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)|<!--|-->", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|(.))", re.DOTALL)
_TOKEN = re.compile(r"""'(?:\\.|[^'\\\n])*'?|"(?:\\.|[^"\\\n])*"?|\\.|[(){};]""", re.DOTALL)
_WIDTH = re.compile(r"\(\s*(min|max)-width\s*:\s*(\d+(?:\.\d+)?)(px|em|rem)\s*\)")
# The innermost one first, so that what stands in for another is known when that one is looked at.
_VARIABLE = re.compile(r"var\(\s*(--[^\s,()]+)\s*(?:,((?:(?!var\()[^()]|\((?:[^()]|\([^()]*\))*\))*))?\)")
# Rules that are never on the screen, or hold no rules of style.
_OFF_SCREEN = (
    "@font-face",
    "@keyframes",
    "@-webkit-keyframes",
    "@-moz-keyframes",
    "@page",
    "@counter-style",
    "@property",
)
_VIEWPORT_PX = 1280.0
_MOST_RULES = 4000
_MOST_MEANINGS = 4
# Variables may name each other, also in a circle and with many meanings each.
_MOST_STEPS = 8
_MOST_VALUES = 16
_LONGEST_VALUE = 2000
# Each level of nesting repeats the selectors around it: deeper ones count as if they stood alone, which hides more.
_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Rule:
    """What applies to the elements that a selector finds."""

    selector: str
    declared: Declared


@dataclass(slots=True)
class _Block:
    selector: str
    seen: bool
    parts: list[str] = field(default_factory=list)


def rules(css: str) -> Iterator[Rule]:
    """Yield the rules of a sheet that may apply to a screen of usual width, nested ones unfolded; never raises."""
    css = _COMMENT.sub(" ", css)
    open_blocks: list[_Block] = []
    start = count = 0
    for position, mark in _marks(css):
        piece, start = css[start:position].strip(), position + 1
        if mark == "{":
            open_blocks.append(_opened(piece, open_blocks))
        elif open_blocks:
            open_blocks[-1].parts.append(piece)
        if mark == "}" and open_blocks:
            yield from _closed(open_blocks.pop())
            count += 1
        if count > _MOST_RULES:
            return
    if open_blocks:
        open_blocks[-1].parts.append(css[start:])
    # What is still open at the end of a sheet counts as closed there.
    for block in reversed(open_blocks):
        yield from _closed(block)


def declarations(style: str) -> Declared:
    """Return what the attribute ``style`` declares; never raises."""
    style = _COMMENT.sub(" ", style)
    parts, start = [], 0
    for position, mark in _marks(style):
        if mark == ";":
            parts.append(style[start:position])
            start = position + 1
    return _declared([*parts, style[start:]])


def variables(declared: Iterable[Declared]) -> dict[str, tuple[str, ...]]:
    """Return all meanings of each custom property, wherever it is declared."""
    found: dict[str, tuple[str, ...]] = {}
    for each in declared:
        for name, values in each.items():
            if name.startswith("--"):
                found[name] = (*found.get(name, ()), *values)[-_MOST_MEANINGS:]
    return found


def meant(declared: Declared, meanings: Mapping[str, tuple[str, ...]]) -> Declared:
    """Return the declarations with custom properties replaced by each of their meanings."""
    return {
        name: tuple(each for value in values for each in _expanded(value, meanings))
        for name, values in declared.items()
    }


def _expanded(value: str, meanings: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the value with its variables replaced, one value for each meaning, until none is left."""
    if "var(" not in value:
        return (value,)
    values = [value]
    for _ in range(_MOST_STEPS):
        if not any("var(" in each for each in values):
            break
        values = [replaced for each in values for replaced in _replaced(each, meanings)][:_MOST_VALUES]
    return tuple(values)


def _replaced(value: str, meanings: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    found = _VARIABLE.search(value)
    if found is None or len(value) > _LONGEST_VALUE:
        return (value,)
    known = meanings.get(found[1]) or ()
    if found[2] is None and not known:
        # A browser drops such a declaration whole.
        return ("",)
    instead = (found[2].strip(),) if found[2] is not None else ()
    return tuple(value.replace(found[0], each) for each in (*known, *instead))


def _marks(css: str) -> Iterator[tuple[int, str]]:
    """Yield where the sheet has { } and ; outside of strings and brackets."""
    depth = 0
    for token in _TOKEN.finditer(css):
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


def _opened(prelude: str, around: list[_Block]) -> _Block:
    outer = around[-1] if around else _Block("", seen=True)
    prelude = prelude.rpartition(";")[2].strip()
    if prelude.startswith("@"):
        return _Block(outer.selector, seen=outer.seen and _applies(prelude.lower()))
    if not outer.selector or len(around) > _DEEPEST:
        return _Block(prelude, seen=outer.seen)
    inner = prelude.replace("&", f":is({outer.selector})") if "&" in prelude else f":is({outer.selector}) {prelude}"
    return _Block(inner, seen=outer.seen)


def _closed(block: _Block) -> Iterator[Rule]:
    if block.seen and block.selector and (declared := _declared(block.parts)):
        yield Rule(block.selector, declared)


def _applies(prelude: str) -> bool:
    if prelude.startswith(_OFF_SCREEN):
        return False
    if not prelude.startswith("@media"):
        return True
    return any(_shows(query) for query in prelude.removeprefix("@media").split(","))


def _shows(query: str) -> bool:
    if ("print" in query or "speech" in query) != ("not " in query):
        return False
    if "prefers-color-scheme" in query and "dark" in query:
        return False
    for bound, number, unit in _WIDTH.findall(query):
        width = float(number) * (1.0 if unit == "px" else 16.0)
        if (bound == "min" and width > _VIEWPORT_PX) or (bound == "max" and width < _VIEWPORT_PX):
            return False
    return True


def _declared(parts: Iterable[str]) -> Declared:
    found: dict[str, tuple[str, ...]] = {}
    for part in parts:
        name, colon, value = _unescaped(part).partition(":")
        if colon:
            key = name.strip().lower()
            plain = re.sub(r"!\s*important\s*$", "", value.strip().lower()).strip()
            found[key] = (*found.get(key, ()), plain)
    return found


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_meaning, text) if "\\" in text else text


def _meaning(escape: re.Match[str]) -> str:
    if escape[1] is None:
        return escape[2]
    code = int(escape[1], 16)
    return chr(code) if 0 < code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF else "\ufffd"
