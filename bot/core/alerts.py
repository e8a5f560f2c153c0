"""Alerts: their levels, the message that a notifier delivers, and text that is safe in any channel.

Parts of a message come from venues, web pages and models. ``plain_message_text`` removes what a channel would act on:
secrets, invisible characters, mentions, tags, and links hidden behind other text.
"""

import re
from datetime import datetime
from enum import StrEnum

from bot.core.light_dataclass import dataclass
from bot.core.plain_text import strip_invisible
from bot.core.redaction import redact_foreign_message
from bot.core.values import require_timezone

MAX_SUBJECT_CHARS = 150
MAX_TEXT_CHARS = 3_500
# Characters that e-mail, Slack, Discord, Telegram or Markdown act on, with harmless ones that look alike.
_HARMLESS = str.maketrans({"<": "‹", ">": "›", "@": "＠", "`": "'", "*": "∗", "~": "∼", "|": "¦"})  # noqa: RUF001 - that is their purpose
_LINK = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*)://|\b(javascript|data|mailto|tel):(?=\S)")


class AlertLevel(StrEnum):
    """How urgent an alert is; a critical one is also delivered in quiet hours."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    def includes(self, other: "AlertLevel") -> bool:
        """Return whether a channel with this lowest level gets alerts of the other level."""
        ranks = list(AlertLevel)
        return ranks.index(other) >= ranks.index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationMessage:
    """A message to a person: a subject in one line and the text below it.

    ``id`` stays the same when the message is delivered again because the outcome of an attempt is unknown.
    """

    subject: str
    text: str
    level: AlertLevel
    id: str
    at: datetime

    def __post_init__(self) -> None:
        """Check the time zone."""
        require_timezone("message at", self.at)


def plain_message_text(text: str, *, longest: int = MAX_TEXT_CHARS) -> str:
    """Return the text without secrets and without anything that a channel would act on.

    At most ``longest`` characters, the last of them an ellipsis where something was cut off.
    """
    visible = redact_foreign_message(strip_invisible(text)).translate(_HARMLESS)
    visible = _LINK.sub(lambda found: f"{found[1]}[:]//" if found[1] else f"{found[2]}: ", visible)
    visible = visible.replace("](", "] (").replace("][", "] [")
    return visible if len(visible) <= longest else visible[: longest - 1].rstrip() + "…"


def plain_subject(text: str) -> str:
    """Return the text as a subject: one line of bounded length, safe as ``plain_message_text``."""
    return plain_message_text(" ".join(text.split()), longest=MAX_SUBJECT_CHARS)
