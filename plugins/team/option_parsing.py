"""The option that a member chose, from its text: the option's own text, else a letter, else the most similar option.

Nothing is left to chance: a member that chooses nothing submits its present belief. Source: the extraction chain
of docs/facts/source-systems.md#coela, whose last link is a random choice.
"""

import difflib
import re
from collections.abc import Sequence

from plugins.team.members import normalize_words

# A text less similar to any option than this is no choice.
LEAST_SIMILARITY = 0.6
# Fewer characters than these are a letter or a word, not the beginning of an option.
LEAST_CHARS = 6
# For an answer longer than any option by this factor, similarity means nothing.
READ_CHARS = 1000

_LETTER_PATTERNS = (
    # "B", "B.", "(B)", "B) read ..."; without punctuation after it "A" may be the article.
    re.compile(r"^\W{0,3}([A-Z]{1,2})(?:[.):,]|\W*$)"),
    # "option B", "the answer is (B)", "I choose B"; the last one counts.
    re.compile(r"\b(?:option|answer|action|choice|choose|plan)\b(?:\s+is)?\W{0,3}\b([A-Z]{1,2})\b"),
    # "(B)" or "B." anywhere
    re.compile(r"(?:^|\s)\(?([A-Z]{1,2})[.)](?=\s|$)"),
)


def option_letter(place: int) -> str:
    """Return the letter of an option, counted from 0: A to Z, then AA, AB, ..."""
    return (chr(ord("A") + place // 26 - 1) if place >= 26 else "") + chr(ord("A") + place % 26)


def find_chosen_option(text: str, options: Sequence[str]) -> int | None:
    """Return the index of the option that a text chooses, None if it chooses none of them, or more than one."""
    words = text[:READ_CHARS].strip()
    places = {normalize_words(option): place for place, option in enumerate(options)}
    if (exact := places.get(normalize_words(_strip_letter(words)))) is not None:
        return exact
    within = f" {normalize_words(words)} "
    named = [place for option, place in places.items() if f" {option} " in within]
    if len(named) == 1:
        return named[0]
    if (begun := _match_beginning(words, list(places))) is not None:
        return begun
    if (lettered := _match_letter(words, len(options))) is not None:
        return lettered
    like = difflib.get_close_matches(normalize_words(_strip_letter(words)), list(places), n=1, cutoff=LEAST_SIMILARITY)
    return places[like[0]] if like else None


def _match_beginning(words: str, options: Sequence[str]) -> int | None:
    """Return the index of the only option that begins with these words."""
    text = normalize_words(_strip_letter(words))
    if len(text) < LEAST_CHARS:
        return None
    places = [place for place, option in enumerate(options) if f"{option} ".startswith(f"{text} ")]
    return places[0] if len(places) == 1 else None


def _match_letter(words: str, count: int) -> int | None:
    letters = {option_letter(place): place for place in range(count)}
    for pattern in _LETTER_PATTERNS:
        found = [letters[letter] for letter in pattern.findall(words) if letter in letters]
        if found:
            return found[-1]
    return None


def _strip_letter(words: str) -> str:
    return re.sub(r"^\W{0,3}[A-Z]{1,2}[.):]\s+", "", words)
