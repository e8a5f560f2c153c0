"""``foxcast backtest`` of several forecasters, and of a blend with its members."""

import csv
import gzip
import json
from pathlib import Path

import pytest

from tests.acceptance.conftest import FoxcastInstallation, InProcessCommand, installed
from tests.unit.evaluation.trial_table_files import random_table, write_table

CONFIG = """
plugins = ["forecastbench", "baseline", "blend"]

[forecasters.blend.settings]
members = ["baseline", "crowd"]
"""


@pytest.fixture
def foxcast(tmp_path: Path) -> FoxcastInstallation:
    return installed(tmp_path, CONFIG)


def test_a_blend_is_tested_with_its_members_and_its_rows_are_read_again(
    foxcast: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    answer = run_command(
        foxcast,
        *("backtest", "--forecaster", "blend", "--rounds", "sample"),
        *("--json", "b.json", "--rows", "rows.csv.gz", "--plot", "b.svg"),
    )
    assert answer.code == 0, answer.err
    assert "blend on" in answer.out
    assert "Paired comparisons on identical events" in answer.out
    assert "Reliability of forecasts" in answer.out
    assert "Calibration" in (foxcast.folder / "b.svg").read_text()
    report = json.loads((foxcast.folder / "b.json").read_text())
    assert report["forecaster"] == "blend"
    (compared,) = report["comparison"]["rows"]
    assert (compared["method"], compared["reference"]) == ("blend", "baseline")
    with gzip.open(foxcast.folder / "rows.csv.gz", "rt") as file:
        rows = [*csv.DictReader(file)]
    assert {row["method"] for row in rows} == {"blend", "baseline"}
    resolved = [row for row in rows if row["method"] == "blend" and row["resolved_to"]]
    errors = [
        (float(row["forecast"]) - float(row["resolved_to"])) ** 2 for row in resolved if row["family"] == "market"
    ]
    assert len(errors) == report["market"]["n"]
    assert sum(errors) / len(errors) == pytest.approx(report["market"]["brier"])
    again = run_command(foxcast, "lab", "trials", "rows.csv.gz", "--against", "baseline", "--json", "-").json
    (same,) = again["comparison"]["rows"]
    assert same["difference"]["estimate"] == pytest.approx(compared["difference"]["estimate"])
    (scores,) = [row for row in again["scores"]["rows"] if row["method"] == "blend"]
    assert scores["market"]["estimate"] == pytest.approx(report["market"]["brier_index"])


def test_several_forecasters_have_a_report_each(foxcast: FoxcastInstallation, run_command: InProcessCommand) -> None:
    answer = run_command(foxcast, "backtest", "--forecasters", "baseline,blend", "--rounds", "sample", "--json", "-")
    assert [*answer.json["by_forecaster"]] == ["baseline", "blend"]
    alone = run_command(foxcast, "backtest", "--forecaster", "baseline", "--rounds", "sample", "--json", "-")
    assert answer.json["by_forecaster"]["baseline"]["market"] == alone.json["market"]
    assert "by_forecaster" not in alone.json


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--forecasters", "baseline,bleend"), 8, ("bleend", "did you mean blend?")),
        (("--forecasters", ","), 2, ("--forecasters names nobody",)),
        (("--forecasters", "baseline", "--rows", "nowhere/r.csv"), 2, ("--rows nowhere/r.csv cannot be written",)),
        (("--forecasters", "baseline", "--plot", "r.pdf"), 2, ("a plot is an .svg or .png file",)),
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
    answer = run_command(foxcast, "backtest", "--rounds", "sample", *arguments)
    assert answer.is_refusal(code, *words), answer


def test_weights_are_fitted_to_tables_and_used_by_the_blend(
    foxcast: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    write_table(random_table(questions=30), foxcast.folder / "trials.csv")
    named = ("--method", "baseline=table", "--trials", "trials.csv")
    answer = run_command(foxcast, "fit", "blend", *named, "--before", "2026-05-01", "--out", "w.json")
    assert answer.code == 0, answer.err
    fitted = json.loads((foxcast.folder / "w.json").read_text())
    assert fitted["payload"]["blend"]["members"] == ["baseline", "crowd"]
    assert fitted["provenance"]["command"].endswith("--trials trials.csv --method baseline=table --before 2026-05-01")
    foxcast.config.write_text(CONFIG + 'weights = "w.json"\n')
    assert run_command(foxcast, "backtest", "--forecaster", "blend", "--rounds", "sample").code == 0
    (foxcast.folder / "w.json").write_text("{}")
    refused = run_command(foxcast, "backtest", "--forecaster", "blend", "--rounds", "sample")
    assert refused.is_refusal(2, "forecasters.blend: weights", "write them with: foxcast fit blend"), refused


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("blend",), 8, ("no recorded forecast of a member", "--trials TABLE")),
        (("baseline",), 8, ("learns from past rounds", "--rounds DIR")),
        (("baseline", "--trials", "t.csv"), 2, ("does not build on other forecasters",)),
        (("blend", "--trials", "t.csv", "--method", "x=y"), 2, ("write MEMBER=METHOD", "baseline")),
        (("blend", "--trials", "t.csv"), 8, ("the tables have no method baseline", "model, table")),
    ],
)
def test_a_fit_that_is_not_possible_says_what_to_give(
    foxcast: FoxcastInstallation,
    run_command: InProcessCommand,
    *,
    arguments: tuple[str, ...],
    code: int,
    words: tuple[str, ...],
) -> None:
    write_table(random_table(), foxcast.folder / "t.csv")
    answer = run_command(foxcast, "fit", *arguments, "--before", "2026-05-01")
    assert answer.is_refusal(code, *words), answer
