"""Which fields the answers of venues have: learned per address, so that new and vanished fields are noticed.

A file of the state folder holds, per venue and address, how many answers were looked at, and for each field the first
and the last of them that had it, and how many did. The first answers teach; only what changes later is reported.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import structlog

from bot.core.errors import StoreError
from bot.core.interfaces import Clock
from bot.core.light_dataclass import dataclass
from bot.store.private_files import read_private_file, replace_private_file

log = structlog.get_logger(__name__)

SHAPES_FILE = "response_shapes.json"
# Answers of one address that teach its fields; a field that nearly all of them had should stay.
LEARNING_ANSWERS = 100
STEADY_SHARE = 0.98
# So many answers in a row without such a field are no chance.
MISSING_ANSWERS = 20
# Parsing again costs time, so an address is looked at so seldom.
SAMPLE_INTERVAL_S = 60.0
SAVE_INTERVAL_S = 300.0
MAX_DEPTH, MAX_ITEMS, MAX_FIELDS, MAX_ADDRESSES = 4, 20, 500, 200
MAX_BODY_BYTES = 2 * 2**20
# An object with more keys is a map by ids.
MAX_KEYS = 80
_FIRST, _LAST, _COUNT = 0, 1, 2
# A word, or a version.
_FIXED_PART = re.compile(r"[a-zA-Z_]{0,24}|v[0-9]{1,2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeChange:
    """The fields that answers of one address have since it was learned, and those that they have lost."""

    venue: str
    address: str
    new: tuple[str, ...]
    vanished: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class ResponseShapes:
    """Looks at answers now and then, and keeps what it learned in a file."""

    path: Path
    clock: Clock
    _known: dict[str, Any] = field(default_factory=dict)
    _looked_s: dict[tuple[str, str], float] = field(default_factory=dict)
    _saved_s: float = float("-inf")

    def __post_init__(self) -> None:
        """Read the file; what cannot be read is learned again."""
        self._known = _read_file(self.path)

    def observe(self, venue: str, url: str, body: bytes) -> None:
        """Look at an answer, unless one of this address was looked at lately."""
        address, now_s = address_pattern(url), self.clock.monotonic()
        if (
            now_s - self._looked_s.get((venue, address), float("-inf")) < SAMPLE_INTERVAL_S
            or len(body) > MAX_BODY_BYTES
        ):
            return
        self._looked_s[venue, address] = now_s
        addresses = self._known.setdefault(venue, {})
        if address not in addresses and len(addresses) >= MAX_ADDRESSES:
            return
        try:
            found = {*_field_paths(json.loads(body))}
        except (ValueError, RecursionError):
            return
        entry = addresses.setdefault(address, {"answers": 0, "fields": {}})
        entry["answers"] += 1
        for name in sorted(found):
            _count_field(entry["fields"], name, entry["answers"])
        if now_s - self._saved_s >= SAVE_INTERVAL_S:
            self._saved_s = now_s
            self.save()

    def save(self) -> None:
        """Write the file if an answer was looked at; a failure is logged, since nothing depends on it."""
        if not self._looked_s:
            return
        try:
            text = json.dumps(self._known, separators=(",", ":"), sort_keys=True)
            replace_private_file(self.path, text.encode(errors="replace"), durable=False)
        except (OSError, StoreError) as error:
            log.info("the shapes of answers cannot be saved", error=str(error))


def read_shape_changes(folder: Path) -> list[ShapeChange]:
    """Return what has changed in the answers of venues, from the file of a state folder."""
    return [*_find_changes(_read_file(folder / SHAPES_FILE))]


def address_pattern(url: str) -> str:
    """Return the path of an address with a star for each part that names one thing: an id, a slug, a number."""
    parts = urlsplit(url).path.strip("/").split("/")
    return "/".join(part if _FIXED_PART.fullmatch(part) else "*" for part in parts)


def _find_changes(known: dict[str, Any]) -> Iterator[ShapeChange]:
    for venue, addresses in known.items():
        for address, entry in addresses.items():
            answers, fields = entry["answers"], entry["fields"]
            new = tuple(name for name, seen in fields.items() if seen[_FIRST] > LEARNING_ANSWERS)
            vanished = tuple(
                name
                for name, seen in fields.items()
                if seen[_LAST] >= LEARNING_ANSWERS
                and seen[_COUNT] >= STEADY_SHARE * (seen[_LAST] - seen[_FIRST] + 1)
                and seen[_FIRST] == 1
                and answers - seen[_LAST] >= MISSING_ANSWERS
            )
            if new or vanished:
                yield ShapeChange(venue=venue, address=address, new=new, vanished=vanished)


def _count_field(fields: dict[str, list[int]], name: str, number: int) -> None:
    if name in fields:
        fields[name][_LAST] = number
        fields[name][_COUNT] += 1
    elif len(fields) < MAX_FIELDS:
        fields[name] = [number, number, 1]


def _field_paths(value: Any, path: str = "", depth: int = 0) -> Iterator[str]:  # noqa: ANN401 - any JSON
    if isinstance(value, list):
        for item in value[:MAX_ITEMS]:
            yield from _field_paths(item, f"{path}[]", depth)
    elif isinstance(value, dict) and depth < MAX_DEPTH and len(value) <= MAX_KEYS:
        for key, inner in value.items():
            name = key if key.isidentifier() and len(key) <= 40 else "*"
            full = f"{path}.{name}".lstrip(".")
            yield full
            yield from _field_paths(inner, full, depth + 1)


def _read_file(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_private_file(path))
    except (OSError, StoreError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
