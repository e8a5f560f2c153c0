"""``foxcast lab trials`` as people call it."""

import json
from pathlib import Path

import pytest

from tests.acceptance.conftest import FoxcastInstallation, InProcessCommand
from tests.unit.evaluation.trial_table_files import random_table, write_table


@pytest.fixture
def table(new_installation: FoxcastInstallation) -> Path:
    return write_table(random_table(), new_installation.folder / "trials.csv.gz")


def test_one_report_in_all_its_forms(
    new_installation: FoxcastInstallation, run_command: InProcessCommand, table: Path
) -> None:
    answer = run_command(
        new_installation,
        *("lab", "trials", table.name, "--blend", "model,table", "--resamples", "200"),
        *("--json", "r.json", "--markdown", "r.md", "--plot", "r.svg"),
    )
    assert answer.code == 0
    assert "Paired comparisons on identical events" in answer.out
    plain = json.loads((new_installation.folder / "r.json").read_text())
    (row,) = [one for one in plain["comparison"]["rows"] if one["reference"] == "table"]
    assert row["difference"]["low"] <= row["difference"]["estimate"] <= row["difference"]["high"]
    assert f"| blend | table | {row['market_n']} |" in (new_installation.folder / "r.md").read_text()
    assert "Calibration" in (new_installation.folder / "r.svg").read_text()


def test_the_same_seed_gives_the_same_report(
    new_installation: FoxcastInstallation, run_command: InProcessCommand, table: Path
) -> None:
    first, second = (
        run_command(new_installation, "lab", "trials", table.name, "--resamples", "200", "--json", "-")
        for _ in range(2)
    )
    assert first.json == second.json


def test_methods_are_chosen_by_pattern_and_compared_with_one(
    new_installation: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    write_table(random_table(("blf-1", "blf-2", "other")), new_installation.folder / "t.csv")
    answer = run_command(
        new_installation,
        *("lab", "trials", "t.csv", "--methods", "blf-*", "--against", "blf-2", "--resamples", "200", "--json", "-"),
    )
    assert [row["method"] for row in answer.json["scores"]["rows"]] == ["blf-1", "blf-2"]
    assert [(row["method"], row["reference"]) for row in answer.json["comparison"]["rows"]] == [("blf-1", "blf-2")]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("nowhere.csv",), 8, ("there is no table nowhere.csv",)),
        (("trials.csv.gz", "--methods", "x*"), 8, ("--methods x*", "model, table")),
        (("trials.csv.gz", "--blend", "model,nobody"), 8, ("no method nobody", "model, table")),
        (("trials.csv.gz", "--json", "nowhere/r.json"), 2, ("--json nowhere/r.json cannot be written",)),
        (("trials.csv.gz", "--plot", "r.pdf"), 2, ("a plot is an .svg or .png file",)),
        (("trials.csv.gz", "--rounds", "."), 8, ("question_sets",)),
    ],
)
def test_bad_input_is_refused_in_one_line(
    new_installation: FoxcastInstallation,
    run_command: InProcessCommand,
    table: Path,
    *,
    arguments: tuple[str, ...],
    code: int,
    words: tuple[str, ...],
) -> None:
    answer = run_command(new_installation, "lab", "trials", *arguments)
    assert answer.is_refusal(code, *words), answer
