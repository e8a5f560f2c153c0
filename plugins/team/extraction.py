"""What a member chose, out of what it wrote: its text, else a letter, else what is most like it, else nothing.

Nothing is ever drawn by lot: who chooses nothing submits what it believes now. Source: the extraction chain of CoELA
(its LLM.py), whose last link is a random choice.
"""

import difflib
import re
from collections.abc import Sequence

# What is less like any option than this is no choice.
LIKENESS = 0.6
# Fewer characters than these are a letter or a word, and no beginning of an option.
LEAST_CHARS = 6
# An answer longer than any option by so much is a ramble: likeness says nothing of it.
READ_CHARS = 1000

_PRESENT = (
    # "B", "B.", "(B)", "B) read ..."; without a sign behind it "A" may be the article.
    re.compile(r"^\W{0,3}([A-Z]{1,2})(?:[.):,]|\W*$)"),
    # "option B", "the answer is (B)", "I choose B"; the last one said counts.
    re.compile(r"\b(?:option|answer|action|choice|choose|plan)\b(?:\s+is)?\W{0,3}\b([A-Z]{1,2})\b"),
    # "(B)" or "B." anywhere
    re.compile(r"(?:^|\s)\(?([A-Z]{1,2})[.)](?=\s|$)"),
)


def letter_of(place: int) -> str:
    """Return the letter of an option, counted from 0: A to Z, then AA, AB, ..."""
    return (chr(ord("A") + place // 26 - 1) if place >= 26 else "") + chr(ord("A") + place % 26)


def chosen(said: str, options: Sequence[str]) -> int | None:
    """Return the place of the option that a text chooses, None where it chooses none of them, or more than one."""
    words = said[:READ_CHARS].strip()
    places = {_plain(option): place for place, option in enumerate(options)}
    if (exact := places.get(_plain(_without_letter(words)))) is not None:
        return exact
    within = f" {_plain(words)} "
    named = [place for option, place in places.items() if f" {option} " in within]
    if len(named) == 1:
        return named[0]
    if (begun := _begun(words, list(places))) is not None:
        return begun
    if (lettered := _lettered(words, len(options))) is not None:
        return lettered
    like = difflib.get_close_matches(_plain(_without_letter(words)), list(places), n=1, cutoff=LIKENESS)
    return places[like[0]] if like else None


def _begun(words: str, options: Sequence[str]) -> int | None:
    """Return the place of the only option that begins with these words."""
    said = _plain(_without_letter(words))
    if len(said) < LEAST_CHARS:
        return None
    places = [place for place, option in enumerate(options) if f"{option} ".startswith(f"{said} ")]
    return places[0] if len(places) == 1 else None


def _lettered(words: str, count: int) -> int | None:
    letters = {letter_of(place): place for place in range(count)}
    for pattern in _PRESENT:
        found = [letters[letter] for letter in pattern.findall(words) if letter in letters]
        if found:
            return found[-1]
    return None


def _without_letter(words: str) -> str:
    return re.sub(r"^\W{0,3}[A-Z]{1,2}[.):]\s+", "", words)


def _plain(words: str) -> str:
    return " ".join(re.sub(r"[^\w\s]", " ", words.casefold()).split())
