"""The recorded answers of the real backend, with the arrays that were cut in them filled up again."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

Json = Any


def records(shared: Path, name: str) -> list[Json]:
    """All records of a sample file, as recorded."""
    read = json.loads((shared / "venues/metaculus_samples" / f"{name}.json").read_bytes())
    return read if isinstance(read, list) else [read]


def answer(shared: Path, file: str, name: str | None = None) -> Json:
    """The JSON of one answer; its cut arrays run straight from their head to their tail."""
    found = [record for record in records(shared, file) if name in {None, record["name"]}]
    return whole(found[0]["response"]["json"])


def whole(value: Json) -> Json:
    if isinstance(value, list):
        return [whole(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "_trimmed_list_len" not in value:
        return {key: whole(item) for key, item in value.items()}
    head, tail = value["head"], value["tail"]
    missing = value["_trimmed_list_len"] - len(head) - len(tail)
    return [*head, *(_between(head[-1], tail[0], (n + 1) / (missing + 1)) for n in range(missing)), *tail]


def _between(first: Json, last: Json, share: float) -> Json:
    if isinstance(first, str):
        start, end = datetime.fromisoformat(first), datetime.fromisoformat(last)
        moment = start + timedelta(seconds=(end - start).total_seconds() * share)
        return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return first + (last - first) * share
