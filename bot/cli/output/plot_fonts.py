"""Fallback fonts for characters that the plot font lacks, and escapes for those that no installed font has."""

import textwrap
from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontEntry
    from matplotlib.text import Text

log = structlog.get_logger(__name__)

DEFAULT_FONT = "DejaVu Sans"
# It has a box for every character there is.
LAST_RESORT_FONT = "Last Resort"
REGULAR_WEIGHT = 400
LINE_WIDTH, MAX_TITLE_LINES = 88, 2


def apply_fallback_fonts(figure: "Figure", fonts: "Iterable[FontEntry] | None" = None) -> None:
    """Let every text of a figure be drawn: with fonts that have its characters, and those that none has as escapes.

    ``fonts`` are those that may be used, else all that this computer has.
    """
    from matplotlib.font_manager import fontManager
    from matplotlib.text import Text

    texts = figure.findobj(Text)
    foreign = missing_characters(DEFAULT_FONT, {character for text in texts for character in text.get_text()} - {"\n"})
    if not foreign:
        return
    families = [DEFAULT_FONT, *_fallback_families(foreign, fontManager.ttflist if fonts is None else fonts)]
    boxes = set(foreign)
    for family in families:
        boxes = missing_characters(family, boxes)
    for text in texts:
        text.set_fontfamily(families)
    if boxes:
        _escape_characters(figure, texts, boxes)
        log.warning("no font of this computer has these characters, so they are drawn as escapes", count=len(boxes))


def missing_characters(family: str, characters: Collection[str]) -> set[str]:
    """Return the characters that a font does not have."""
    from matplotlib.font_manager import findfont, get_font

    font = get_font(findfont(family))
    return {character for character in characters if not font.get_char_index(ord(character))}


def _fallback_families(characters: Collection[str], fonts: "Iterable[FontEntry]") -> Iterator[str]:
    """Yield families until all characters are covered that can be; regular ones, in alphabetical order."""
    left = set(characters)
    regular = {font.name for font in fonts if font.weight == REGULAR_WEIGHT and font.style == "normal"}
    for family in sorted(regular):
        if not left:
            return
        rest = left if LAST_RESORT_FONT in family else missing_characters(family, left)
        if rest != left:
            yield family
        left = rest


def _escape_characters(figure: "Figure", texts: "Iterable[Text]", boxes: AbstractSet[str]) -> None:
    title = figure.get_suptitle()
    for text in texts:
        shown = text.get_text()
        if boxes.isdisjoint(shown):
            continue
        escaped = "".join(_escape_character(one) if one in boxes else one for one in shown.replace("\n", " "))
        lines = MAX_TITLE_LINES if shown == title else 1
        text.set_text(textwrap.fill(escaped, LINE_WIDTH, max_lines=lines, placeholder=" ..."))


def _escape_character(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
