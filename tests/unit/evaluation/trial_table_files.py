"""Small tables of trials, written as files."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

ROUNDS = ("2026-01-04", "2026-01-18", "2026-02-01")
DATASET_DAYS = (7, 30)


def random_table(methods: Iterable[str] = ("model", "table"), *, seed: int = 5, questions: int = 12) -> pd.DataFrame:
    """Return a table of market questions of two sources and dated values of one, in three rounds."""
    rng, names = np.random.default_rng(seed), [*methods]
    rows: list[Mapping[str, object]] = []
    for due in ROUNDS:
        for number in range(questions):
            source = ("exchange", "tournament", "river")[number % 3]
            key = {"forecast_due_date": due, "source": source, "id": f"q{number}"}
            for ahead in DATASET_DAYS if source == "river" else (int(rng.integers(3, 40)),):
                day = (pd.Timestamp(due) + pd.Timedelta(days=ahead)).date().isoformat()
                rows += _event_rows(names, {**key, "resolution_date": day}, rng, priced=source != "river")
    return pd.DataFrame(rows)


def _event_rows(
    methods: Iterable[str], key: Mapping[str, object], rng: np.random.Generator, *, priced: bool
) -> Iterator[Mapping[str, object]]:
    truth = rng.normal()
    outcome = float(rng.random() < 1.0 / (1.0 + np.exp(-2.0 * truth)))
    price = float(1.0 / (1.0 + np.exp(-truth - rng.normal()))) if priced else None
    for method in methods:
        trials = 1.0 / (1.0 + np.exp(-truth - rng.normal() - 0.3 * rng.normal(size=3)))
        yield {
            "method": method,
            **key,
            **{f"trial_{place}": value for place, value in enumerate(trials, 1)},
            "forecast": float(np.mean(trials)),
            "resolved": None,
            "resolved_to": outcome,
            "market_value": price,
            "n_steps": 3,
            "submitted": True,
        }


def write_table(frame: pd.DataFrame, path: Path) -> Path:
    """Write a table and return its path."""
    frame.to_csv(path, index=False)
    return path
