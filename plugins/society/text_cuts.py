"""Cuts texts between words."""

# In place of what was cut off.
CUT_MARK = " [...]"


def cut_at_word(text: str, limit: int) -> str:
    """Return a text in at most ``limit`` characters: the whole words at its beginning, and a mark for the rest.

    A text without a space in its second half is cut inside a word: there is no other place.
    """
    if len(text) <= limit:
        return text
    kept = text[: max(0, limit - len(CUT_MARK)) + 1]
    place = max(kept.rfind(" "), kept.rfind("\n"))
    kept = kept[:place] if place > len(kept) // 2 else kept[:-1]
    return f"{kept.rstrip()}{CUT_MARK}" if kept.strip() else ""
