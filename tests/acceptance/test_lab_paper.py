"""``foxcast lab paper``: the tables of the paper, recomputed here in a few lines, and its experiments."""

import csv
import gzip
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from tests.acceptance.conftest import FoxcastInstallation, InProcessCommand, installed
from tests.architecture.source import ROOT

SERIES = {"acled", "dbnomics", "fred", "wikipedia", "yfinance"}
PLUGIN = Path(__file__).with_name("timed_model_plugin.py")
CONFIG = f"""
plugins = ["blf", "baseline", "timed_model_plugin"]
plugin_files = ["{PLUGIN}"]
[llm.roles.main]
model = "timed:one"
[forecasters.blf]
trials = 2
"""


@pytest.fixture
def foxcast(tmp_path: Path) -> FoxcastInstallation:
    return installed(tmp_path, CONFIG)


def read(file: Path) -> dict[str, list[dict[str, str]]]:
    rows: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
    with gzip.open(file, "rt") as text:
        for row in csv.DictReader(text):
            rows[row["method"]].append(row)
    return rows


def index(errors: Any) -> float:
    return float(100 * (1 - np.sqrt(np.mean(np.square(errors)))))


def cells(report: Mapping[str, Any], table: str, row: str) -> Mapping[str, float]:
    (found,) = [one for one in report[table]["rows"] if one["row"] == row]
    return dict(found)


def test_tables_are_those_of_the_public_trials(
    foxcast: FoxcastInstallation, run_command: InProcessCommand, shared: Path
) -> None:
    folder = shared / "data" / "blf_trials"
    report = run_command(foxcast, "lab", "paper", "--trials", folder, "--json", "-").json
    tables = [f"table_{n}" for n in (1, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20)]
    assert [*report] == tables
    assert all(len(" ".join(report[table]["notes"])) > 5 for table in tables)
    rows = read(folder / "tranche_a.csv.gz")["pro-high-brave-c1-p1-t1"]
    for family, is_series in (("market", False), ("dataset", True)):
        chosen = [row for row in rows if (row["source"] in SERIES) == is_series]
        trials = np.array([[float(row[f"trial_{n}"] or "nan") for n in range(1, 6)] for row in chosen])
        outcomes = np.array([float(row["resolved_to"]) for row in chosen])
        odds = np.log(np.clip(trials, 1e-4, 1 - 1e-4) / (1 - np.clip(trials, 1e-4, 1 - 1e-4)))
        pooled = 1 / (1 + np.exp(-np.nanmean(odds, axis=1)))
        raw = cells(report, "table_1", "BLF (Pro), not calibrated")
        assert raw[f"{family} here"] == pytest.approx(index(pooled - outcomes), abs=0.01)
        counts = cells(report, "table_10", "BLF (Pro)")
        assert counts[f"{family} here"] == len(chosen) == counts[f"{family} paper"]
    # Known from the page of the data.
    assert raw["market here"] == pytest.approx(81.65, abs=0.01)
    assert raw["dataset here"] == pytest.approx(63.18, abs=0.01)
    stored = np.array([float(row["forecast"]) - float(row["resolved_to"]) for row in rows if row["source"] in SERIES])
    assert cells(report, "table_15", "BLF, crowd 1, none")["dataset here"] == pytest.approx(index(stored))
    assert cells(report, "table_13", "Grok")["dataset difference"] == pytest.approx(0.0, abs=0.05)


def test_the_tournament_is_that_of_the_paper_by_a_leave_one_out_fit_of_our_own(
    foxcast: FoxcastInstallation, run_command: InProcessCommand, shared: Path
) -> None:
    folder = shared / "data" / "blf_trials"
    report = run_command(foxcast, "lab", "paper", "table-16", "--trials", folder, "--json", "-").json
    rows = read(folder / "aibq2.csv.gz")["kimi-k2.5-high-brave-c0-t0-nobelief"]
    p = np.clip([float(row["forecast"]) for row in rows], 1e-4, 1 - 1e-4)
    outcomes, odds = np.array([float(row["resolved_to"]) for row in rows]), np.log(p / (1 - p))

    def loss(line: Any, left: Any) -> float:
        margins = line[0] * odds[left] + line[1]
        return float(np.sum(np.logaddexp(0.0, margins) - outcomes[left] * margins))

    calibrated = np.empty(len(rows))
    for place in range(len(rows)):
        left = np.arange(len(rows)) != place
        slope, shift = minimize(loss, (1.0, 0.0), args=(left,), method="BFGS").x
        calibrated[place] = 1 / (1 + np.exp(-(slope * odds[place] + shift)))
    found = cells(report, "table_16", "no belief (Kimi)")
    assert found["Brier Index here"] == pytest.approx(index(calibrated - outcomes), abs=0.02)
    for label in ("BLF (Kimi)", "no belief (Kimi)", "no belief (Pro)", "clairvoyant (Pro)"):
        one = cells(report, "table_16", label)
        differences = [value for key, value in one.items() if key.endswith("difference")]
        assert differences == pytest.approx([0.0, 0.0, 0.0], abs=0.05), label


def test_an_experiment_says_what_it_costs_and_runs_on_own_models(
    foxcast: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    (foxcast.folder / "own.csv").write_text(
        "title,asked_at,resolved_at,outcome\nWas A seen?,2026-01-01,2026-01-09,1\nWas B seen?,2026-01-01,2026-01-09,0\n"
    )
    assert run_command(foxcast, "lab", "questions", "import", "own.csv", "--out", "own").code == 0
    named = ("lab", "paper", "table-15", "--questions", "own")
    estimate = run_command(foxcast, *named, "--estimate", "--json", "-").json["estimate"]
    names = ["blf", "blf_no_crowd", "blf_zero_shot", "blf_no_crowd_zero_shot"]
    assert [(row["forecaster"], row["questions"], row["trials"]) for row in estimate["rows"]] == [
        (name, 2, 2) for name in names
    ]
    assert not (foxcast.folder / "asked.txt").exists()
    costs = [row["usd"] for row in estimate["rows"]]
    # One answer instead of up to ten.
    assert costs[0] > 5 * costs[2] > 0.0
    done = run_command(foxcast, *named, "--yes", "--json", "-")
    assert done.code == 0, done.err
    assert [*done.json["by_forecaster"]] == names


def test_experiments_name_forecasters_that_there_are() -> None:
    paper = tomllib.loads((ROOT / "plugins" / "paper_tables.toml").read_text())
    numbers = {table["number"] for table in paper["tables"]}
    assert paper["experiments"].keys() == numbers
    assert {name for names in paper["experiments"].values() for name in names} <= {*paper["variants"], "baseline"}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("table-2", "--trials", "x"), 8, ("there is no table 2", "1, 9, 10")),
        ((), 2, ("--trials DIR", "--questions DIR")),
        (("--questions", "own"), 2, ("name one table", "table-15")),
        (("table-1", "--trials", "nowhere"), 8, ("there is no table nowhere/tranche_a.csv.gz",)),
    ],
)
def test_bad_input_is_refused_in_one_line(
    foxcast: FoxcastInstallation,
    run_command: InProcessCommand,
    *,
    arguments: tuple[str, ...],
    code: int,
    words: tuple[str, ...],
) -> None:
    answer = run_command(foxcast, "lab", "paper", *arguments)
    assert answer.is_refusal(code, *words), answer
