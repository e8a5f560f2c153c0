"""Names and figures of the venue: how a question is called, how often it may be asked."""

import re
from urllib.parse import parse_qs, urlsplit

from bot.api import NotFound, QuestionRef

VENUE = "metaculus"
SITE = "metaculus.com"
# Where its settings are in config.toml.
TABLE = "[venues.metaculus.settings]"
# At most 1,000 requests an hour was documented until 2026, and nothing since; one queue for all that is asked.
SPACING_S = 3.6
# Of the name of a page: posts, as in its address, and questions have numbers of their own.
_KEY = re.compile(r"([1-9]\d{0,17}):([1-9]\d{0,17})", re.ASCII)
_PAGE = re.compile(r"/(?:questions|c/[^/]+|notebooks)/([1-9]\d{0,17})(?:/|$)", re.ASCII)
_SUB_QUESTION = "sub-question"


def ref_of(post_id: int, question_id: int) -> QuestionRef:
    """Return the name of a question: ``metaculus:POST:QUESTION``."""
    return QuestionRef(VENUE, f"{post_id}:{question_id}")


def ids_of(ref: QuestionRef) -> tuple[int, int]:
    """Return (post, question) of a reference; raises NotFound for one that is none of this venue's."""
    found = _KEY.fullmatch(ref.key)
    if ref.venue != VENUE or found is None:
        message = f"{ref} is not a question of this venue; its names are {VENUE}:POST:QUESTION"
        raise NotFound(message)
    return int(found[1]), int(found[2])


def named(name: str, base_url: str) -> tuple[int, int | None]:
    """Return the post, and the question where the name says which, of a key or an address; raises NotFound.

    Addresses are those of the site itself and of ``base_url``.
    """
    if (found := _KEY.fullmatch(name)) is not None:
        return int(found[1]), int(found[2])
    if name.isascii() and name.isdigit():
        return int(name), None
    try:
        parts = urlsplit(name)
        host, query = parts.hostname or "", parse_qs(parts.query)
    except ValueError:
        host, parts, query = "", urlsplit(""), {}
    page = _PAGE.match(parts.path)
    if page is None or host.removeprefix("www.") not in {SITE, urlsplit(base_url).hostname}:
        message = f"{name!r} is no question here: give POST:QUESTION, or an address such as .../questions/40001/"
        raise NotFound(message)
    chosen = query.get(_SUB_QUESTION, [""])[0]
    return int(page[1]), int(chosen) if chosen.isascii() and chosen.isdigit() else None
