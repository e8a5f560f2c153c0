"""Which outcomes were told, kept in a file: the only way to notice, after a restart too, that one was undone."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

FILE = "told.json"


@dataclass(slots=True)
class Told:
    """By the key of their question: the texts of outcomes in force, and since when others are undone."""

    texts: dict[str, str] = field(default_factory=dict)
    undone: dict[str, str] = field(default_factory=dict)

    def tell(self, key: str, text: str) -> None:
        """Note an outcome in force."""
        self.texts[key] = text
        self.undone.pop(key, None)

    def undo(self, key: str, now: datetime) -> datetime | None:
        """Note that a question has no outcome now; return since when, None where none was ever told."""
        if self.texts.pop(key, None) is not None:
            self.undone[key] = now.isoformat()
        since = self.undone.get(key)
        return None if since is None else datetime.fromisoformat(since)


def load_told(folder: Path) -> Told:
    """Read what was kept; a file that is missing or broken is an empty memory."""
    try:
        kept = json.loads((folder / FILE).read_text())
        return Told(texts=_texts(kept["texts"]), undone=_moments(kept["undone"]))
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return Told()


def store_told(folder: Path, told: Told) -> None:
    """Replace the file."""
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / f".{FILE}.tmp"
    written.write_text(json.dumps({"texts": told.texts, "undone": told.undone}, sort_keys=True))
    written.replace(folder / FILE)


def _texts(kept: Mapping[str, object]) -> dict[str, str]:
    return {str(key): str(text) for key, text in kept.items()}


def _moments(kept: Mapping[str, object]) -> dict[str, str]:
    return {key: datetime.fromisoformat(text).isoformat() for key, text in _texts(kept).items()}
