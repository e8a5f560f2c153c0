"""Which outcomes were told, kept in a file: the only way to notice, after a restart too, that one was undone."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

FILE = "told.json"


@dataclass(slots=True)
class Told:
    """By the key of their question: the texts of outcomes in force, and since when others are undone.

    ``seen`` is since when something was there of which the venue tells no time. ``is_new`` says whether there is
    anything that was not kept yet.
    """

    texts: dict[str, str] = field(default_factory=dict)
    undone: dict[str, str] = field(default_factory=dict)
    seen: dict[str, str] = field(default_factory=dict)
    is_new: bool = False

    def tell(self, key: str, text: str) -> None:
        """Note an outcome in force."""
        self.is_new = self.is_new or self.texts.get(key) != text or key in self.undone
        self.texts[key] = text
        self.undone.pop(key, None)

    def since(self, what: str, now: datetime) -> datetime:
        """Return since when that was there, as far as it was ever looked at."""
        self.is_new = self.is_new or what not in self.seen
        return datetime.fromisoformat(self.seen.setdefault(what, now.isoformat()))

    def undo(self, key: str, now: datetime) -> datetime | None:
        """Note that a question has no outcome now; return since when, None where none was ever told."""
        if self.texts.pop(key, None) is not None:
            self.undone[key] = now.isoformat()
            self.is_new = True
        since = self.undone.get(key)
        return None if since is None else datetime.fromisoformat(since)


def load_told(folder: Path) -> Told:
    """Read what was kept; a file that is missing or broken is an empty memory."""
    try:
        kept = json.loads((folder / FILE).read_text())
        seen = _moments(kept.get("seen", {}))
        return Told(texts=_texts(kept["texts"]), undone=_moments(kept["undone"]), seen=seen)
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return Told()


def store_told(folder: Path, told: Told) -> None:
    """Replace the file."""
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / f".{FILE}.tmp"
    kept = {"texts": told.texts, "undone": told.undone, "seen": told.seen}
    written.write_text(json.dumps(kept, sort_keys=True))
    written.replace(folder / FILE)
    told.is_new = False


def _texts(kept: Mapping[str, object]) -> dict[str, str]:
    return {str(key): str(text) for key, text in kept.items()}


def _moments(kept: Mapping[str, object]) -> dict[str, str]:
    return {key: datetime.fromisoformat(text).isoformat() for key, text in _texts(kept).items()}
