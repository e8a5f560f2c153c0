"""Outcomes that a venue reported, saved in a file, so that a withdrawn outcome is noticed even after a restart."""

import json
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from pathlib import Path

from bot.core.errors import StoreError
from bot.core.light_dataclass import dataclass
from bot.store.private_files import read_private_json, replace_private_file

FILE_NAME = "reported_outcomes.json"


@dataclass(slots=True)
class ReportedOutcomes:
    """Current outcomes as text, and the times of withdrawals, by the key of their question.

    ``seen`` has the first time at which an item without its own time was seen. ``has_changes``: something is not saved
    yet.
    """

    texts: dict[str, str] = field(default_factory=dict)
    withdrawn: dict[str, str] = field(default_factory=dict)
    seen: dict[str, str] = field(default_factory=dict)
    has_changes: bool = False

    def record_outcome(self, key: str, text: str) -> None:
        """Record the current outcome of a question."""
        self.has_changes = self.has_changes or self.texts.get(key) != text or key in self.withdrawn
        self.texts[key] = text
        self.withdrawn.pop(key, None)

    def first_seen(self, key: str, now: datetime) -> datetime:
        """Return when the item was first seen; ``now`` if it is new."""
        self.has_changes = self.has_changes or key not in self.seen
        return datetime.fromisoformat(self.seen.setdefault(key, now.isoformat()))

    def record_withdrawal(self, key: str, now: datetime) -> datetime | None:
        """Record that a question has no outcome now; return since when, None if it never had one."""
        if self.texts.pop(key, None) is not None:
            self.withdrawn[key] = now.isoformat()
            self.has_changes = True
        since = self.withdrawn.get(key)
        return None if since is None else datetime.fromisoformat(since)


def load_reported_outcomes(folder: Path) -> ReportedOutcomes:
    """Load the saved outcomes; a missing or invalid file gives an empty record."""
    try:
        saved = read_private_json(folder / FILE_NAME)
        seen = _read_times(saved["seen"])
        return ReportedOutcomes(texts=_read_texts(saved["texts"]), withdrawn=_read_times(saved["withdrawn"]), seen=seen)
    except (OSError, StoreError, ValueError, TypeError, LookupError, AttributeError):
        return ReportedOutcomes()


def save_reported_outcomes(folder: Path, outcomes: ReportedOutcomes) -> None:
    """Save the outcomes, replacing the file."""
    content = {"texts": outcomes.texts, "withdrawn": outcomes.withdrawn, "seen": outcomes.seen}
    replace_private_file(folder / FILE_NAME, json.dumps(content, sort_keys=True).encode(), durable=False)
    outcomes.has_changes = False


def _read_texts(saved: Mapping[str, object]) -> dict[str, str]:
    return {str(key): str(text) for key, text in saved.items()}


def _read_times(saved: Mapping[str, object]) -> dict[str, str]:
    return {key: datetime.fromisoformat(text).isoformat() for key, text in _read_texts(saved).items()}
