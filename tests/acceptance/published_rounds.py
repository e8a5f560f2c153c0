"""Published rounds, read by the tests themselves: the independent source of expected figures."""

import gzip
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

MARKETS = frozenset({"infer", "manifold", "metaculus", "polymarket"})
SAMPLE = Path(str(files("plugins.forecastbench") / "sample"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRow:
    """A resolved row of one round with the price of its question, None where that is no price."""

    due: str
    source: str
    id: str
    date: str
    outcome: float
    price: float | None


def loaded(path: Path) -> Mapping[str, Any]:
    content = path.read_bytes()
    found: Mapping[str, Any] = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
    return found


def resolved(folder: Path) -> Iterator[ResolvedRow]:
    """Yield the resolved rows of single questions of every round that has both files."""
    for path in sorted((folder / "question_sets").glob("*-llm.json*")):
        due = path.name[:10]
        prices = {(one["source"], one["id"]): one["freeze_datetime_value"] for one in singles(path, "questions")}
        outcomes = sorted((folder / "resolution_sets").glob(f"{due}_resolution_set.json*"))
        rows = [row for outcome in outcomes for row in singles(outcome, "resolutions") if row["resolved"]]
        yield from (_row(due, row, prices) for row in rows if (row["source"], row["id"]) in prices)


def _row(due: str, row: Mapping[str, Any], prices: Mapping[tuple[str, str], str]) -> ResolvedRow:
    return ResolvedRow(
        due=due,
        source=row["source"],
        id=row["id"],
        date=row["resolution_date"],
        outcome=float(row["resolved_to"]),
        price=float(prices[row["source"], row["id"]]) if row["source"] in MARKETS else None,
    )


def singles(path: Path, key: str) -> Iterator[Mapping[str, Any]]:
    """Yield the records that are no combinations."""
    return (record for record in loaded(path)[key] if isinstance(record["id"], str))


def brier_index(errors: list[float]) -> float:
    """Return 100 * (1 - sqrt(mean squared error))."""
    return 100.0 * (1.0 - math.sqrt(math.fsum(error**2 for error in errors) / len(errors)))
