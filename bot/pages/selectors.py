"""Selectors as they hold for a page at rest: nobody points at it, nothing has the focus, no script has run.

Each selector of a list is judged alone, though a browser drops a whole list for one that it does not know: so that no
odd neighbour can make a rule pass unseen. What is not known here counts as true, which hides more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from bot.pages.lengths import split

# What selects by the page alone, and what the finder of elements knows of it.
_FIXED = frozenset(
    {
        "root", "link", "any-link", "checked", "disabled", "enabled", "required", "optional", "read-only",
        "read-write", "empty", "first-child", "last-child", "only-child", "first-of-type", "last-of-type",
        "only-of-type", "nth-child", "nth-last-child", "nth-of-type", "nth-last-of-type",
    }
)  # fmt: skip
# What holds only while, or after, somebody does something.
_STATES = frozenset(
    {
        "hover", "focus", "focus-visible", "focus-within", "active", "target", "target-within", "visited",
        "fullscreen", "-webkit-full-screen", "-moz-full-screen", "popover-open", "modal", "picture-in-picture",
        "playing", "seeking", "buffering", "stalled", "autofill", "-webkit-autofill", "user-valid", "user-invalid",
        "-moz-focusring", "-moz-ui-invalid", "placeholder-shown", "indeterminate", "current", "past", "future",
        "active-view-transition", "interest-source", "interest-target",
    }
)  # fmt: skip
_ELEMENTS = frozenset({"before", "after", "first-line", "first-letter"})
_EITHER = frozenset({"is", "where", "matches", "any", "-webkit-any", "-moz-any"})
_PIECE = re.compile(
    r"""\[(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^\]"'])*\]|\\.|(::?)([\w-]+)(\()?|\s*[>+~]\s*|\s+|.""", re.DOTALL
)
_DEEPEST = 6


def at_rest(selector: str) -> list[str]:
    """Return the selectors of a list that may hold for a page at rest, without what a finder does not know."""
    return [*_kept(selector, 0)] if ":" in selector else [selector]


def each_of(selectors: list[str]) -> Iterator[str]:
    """Yield each selector of the lists alone."""
    for selector in selectors:
        yield from (part.strip() for part in split(selector, ",") if part.strip())


def _kept(selectors: str, depth: int) -> Iterator[str]:
    for each in split(selectors, ","):
        if (rest := _rest(each.strip(), depth)) is not None:
            yield rest


@dataclass(slots=True)
class _Built:
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


def _rest(selector: str, depth: int) -> str | None:
    """Return one selector as it holds at rest, or None where what it selects needs a state, or is no element.

    What needs a state further up, as a page that is pointed at does, counts as true.
    """
    built, position = _Built(), 0
    while (found := _PIECE.match(selector, position)) is not None:
        position = found.end()
        inner = ""
        if found[3]:
            end = _closing(selector, position)
            inner, position = selector[position:end], end + 1
        if found[1] is not None:
            built.add(_pseudo(found, inner, depth))
        elif found[0].strip(" \t\n\f\r>+~"):
            built.add(found[0])
        else:
            built.combine(found[0], leads=found.start() == 0)
    built.close()
    return None if built.needs_state else "".join(built.out)


def _closing(selector: str, position: int) -> int:
    depth = 1
    for at in range(position, len(selector)):
        depth += {"(": 1, ")": -1}.get(selector[at], 0)
        if depth == 0:
            return at
    return len(selector)


def _pseudo(found: re.Match[str], inner: str, depth: int) -> str | None:
    """Return what stands for a pseudo-class at rest, "" where it holds anyway, None where it does not."""
    name = found[2].lower()
    if found[1] == "::" or name in _ELEMENTS or name in _STATES or depth > _DEEPEST:
        return None
    if name in _EITHER or name in {"not", "has"}:
        return _listed(name, inner, depth + 1)
    if name == "lang":
        return _language(inner)
    whole = f":{name}({inner})" if found[3] else f":{name}"
    return whole if name in _FIXED else ""


def _listed(name: str, inner: str, depth: int) -> str | None:
    kept = [each for each in _kept(inner, depth) if each]
    if name == "not":
        # Where nothing is left to be not, it holds.
        return f":not({', '.join(kept)})" if kept else ""
    if not kept:
        return None
    return f":{'has' if name == 'has' else 'is'}({', '.join(kept)})"


def _language(inner: str) -> str:
    names = (re.sub(r"[^\w-]", "", each).strip("-") for each in inner.split(","))
    tags = [f'[lang|="{name}" i]' for name in names if name]
    return f":is({', '.join(each for tag in tags for each in (tag, f'{tag} *'))})" if tags else ""
