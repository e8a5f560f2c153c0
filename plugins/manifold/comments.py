"""Comments: off unless switched on, since each costs 1 mana and is there for all to see."""

import json
import re
from collections.abc import Mapping
from hashlib import sha256

from bot.api import Intent, Json, Rejected, Sealed
from plugins.manifold.bets import sealed_briefly
from plugins.manifold.parse import cleaned
from plugins.manifold.settings import ManifoldSettings
from plugins.manifold.state import parts_of

FEE = 1.0
# The venue counts the rendered document as JSON, which is longer than the text.
MOST_RENDERED = 20_000
MOST_CHARS = 8_000
_RENDERED_PER_LINE = 60
_NAME = "foxcast"
# The mark of any comment of this program.
_MARK = re.compile(rf"{_NAME} [0-9a-f]{{12}}\b")


def seal_comment(intent: Intent, settings: ManifoldSettings, *, made_ms: int) -> Sealed:
    """Return the request of a comment; raises Rejected where there is nothing to say, or comments are off."""
    if not settings.comments:
        message = "comments are off; see comments in [venues.manifold.settings]"
        raise Rejected(message)
    text = _cut(cleaned(intent.text))
    if not text:
        message = f"the comment on {intent.ref} is empty"
        raise Rejected(message)
    market_id, answer = parts_of(intent.ref.key)
    body: dict[str, Json] = {"contractId": market_id, "markdown": f"{text}\n\n{mark_of(intent)}"}
    if answer:
        body["replyToAnswerId"] = answer
    return sealed_briefly(intent, "comment", body, made_ms=made_ms)


def mark_of(intent: Intent) -> str:
    """Return the words that find a comment again, however it is rendered."""
    return f"{_NAME} {sha256(intent.id.encode(errors='replace')).hexdigest()[:12]}"


def is_comment_of(intent: Intent, row: Mapping[str, object]) -> bool:
    """Say whether a comment of the venue is that one."""
    return mark_of(intent) in json.dumps(row.get("content"), ensure_ascii=False)


def is_ours(row: Mapping[str, object]) -> bool:
    """Say whether a comment of the venue was made by this program, whatever on."""
    return _MARK.search(json.dumps(row.get("content"), ensure_ascii=False)) is not None


def _cut(text: str) -> str:
    """Return as much of a text as stays well below the venue's bound when it is rendered."""
    kept = text[:MOST_CHARS]
    while len(json.dumps(kept)) + _RENDERED_PER_LINE * (kept.count("\n") + 1) > MOST_RENDERED - 1_000:
        kept = kept[: len(kept) * 9 // 10]
    return kept.strip()
