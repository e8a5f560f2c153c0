"""Names and limits of the venue: the names of questions, and the time between requests."""

import re
from urllib.parse import parse_qs, urlsplit

from bot.api import NotFoundError, QuestionRef

VENUE = "metaculus"
SITE = "metaculus.com"
# The table of its settings in config.toml.
SETTINGS_TABLE = "[venues.metaculus.settings]"
# At most 1,000 requests an hour was documented until 2026, and nothing since; one queue for all requests.
REQUEST_SPACING_S = 3.6
# POST:QUESTION: posts (as in addresses) and questions are numbered separately.
_QUESTION_KEY = re.compile(r"([1-9]\d{0,17}):([1-9]\d{0,17})", re.ASCII)
_POST_PATH = re.compile(r"/(?:questions|c/[^/]+|notebooks)/([1-9]\d{0,17})(?:/|$)", re.ASCII)
_SUB_QUESTION = "sub-question"


def question_ref(post_id: int, question_id: int) -> QuestionRef:
    """Return the name of a question: ``metaculus:POST:QUESTION``."""
    return QuestionRef(VENUE, f"{post_id}:{question_id}")


def split_question_ref(ref: QuestionRef) -> tuple[int, int]:
    """Return (post, question) of a reference; raises NotFoundError if it is not of this venue."""
    found = _QUESTION_KEY.fullmatch(ref.key)
    if ref.venue != VENUE or found is None:
        message = f"{ref} is not a question of this venue; its names are {VENUE}:POST:QUESTION"
        raise NotFoundError(message)
    return int(found[1]), int(found[2])


def parse_question_name(name: str, base_url: str) -> tuple[int, int | None]:
    """Return the post, and the question if named, of a key or an address; raises NotFoundError.

    Addresses are those of the site itself and of ``base_url``.
    """
    if (found := _QUESTION_KEY.fullmatch(name)) is not None:
        return int(found[1]), int(found[2])
    if name.isascii() and name.isdigit():
        return int(name), None
    try:
        parts = urlsplit(name)
        host, query = parts.hostname or "", parse_qs(parts.query)
    except ValueError:
        host, parts, query = "", urlsplit(""), {}
    page = _POST_PATH.match(parts.path)
    if page is None or host.removeprefix("www.") not in {SITE, urlsplit(base_url).hostname}:
        message = (
            f"{name!r} is not a question of this venue: give POST:QUESTION, or an address such as .../questions/40001/"
        )
        raise NotFoundError(message)
    chosen = query.get(_SUB_QUESTION, [""])[0]
    return int(page[1]), int(chosen) if chosen.isascii() and chosen.isdigit() else None
