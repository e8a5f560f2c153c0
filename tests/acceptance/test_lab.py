"""``foxcast lab``: the laboratory as people start it, in a process of its own."""

import json
import re

import pytest

from bot.simulator.laboratory.forecaster_comparison import VARIANTS
from bot.simulator.laboratory.forecaster_variants import PARTS
from tests.acceptance.conftest import FoxcastInstallation, InProcessCommand


def test_a_misspelt_part_is_refused_with_what_there_is(new_installation: FoxcastInstallation) -> None:
    answer = new_installation("lab", "sandbox", "--only", "believe")
    assert answer.code == 2
    assert "no part believe" in answer.err
    assert "belief, trials, aggregate" in answer.err


def test_too_few_questions_for_an_interval_are_refused_with_the_least(
    new_installation: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    answer = run_command(new_installation, "lab", "sandbox", "--questions", "19")
    assert answer.is_refusal(2, "--questions", "greater than or equal to 20")


def test_help_names_every_part_and_every_forecaster(
    new_installation: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    words = run_command(new_installation, "lab", "sandbox", "--help").out.replace("│", " ").split()
    reported, others = " ".join(words).rsplit("--forecasters", 1)
    assert f"Only these parts: {', '.join(PARTS)}." in reported
    assert {*VARIANTS} <= {*re.findall(r"\w+", others.partition("--")[0])}


@pytest.mark.slow
def test_what_a_part_is_worth_stands_in_a_table(new_installation: FoxcastInstallation) -> None:
    answer = new_installation("lab", "sandbox", "--questions", "20", "--only", "belief", "--jobs", "2")
    assert answer.code == 0
    assert "no belief state" in answer.out
    assert "Simulation: 20 questions of the world of seed 1" in answer.out
    assert "reference:" in answer.err


def test_a_report_that_could_not_be_written_is_refused_before_anything_runs(
    new_installation: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    answer = run_command(
        new_installation, "lab", "sandbox", "--questions", "20", "--only", "gate", "--json", "nowhere/x.json"
    )
    assert answer.is_refusal(2, "--json nowhere/x.json cannot be written")


def test_parts_and_whole_forecasters_are_not_asked_for_at_once(
    new_installation: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    answer = run_command(new_installation, "lab", "sandbox", "--only", "trials", "--forecasters", "blf,solo")
    assert answer.is_refusal(2, "--only", "--forecasters", "leave out one")
    assert run_command(new_installation, "lab", "sandbox", "--hide-crowd").is_refusal(
        2, "--hide-crowd", "--forecasters"
    )


def test_what_ends_the_laboratory_ends_the_command(new_installation: FoxcastInstallation) -> None:
    (new_installation.folder / "file").touch()
    answer = new_installation(
        "lab", "sandbox", "--questions", "20", "--jobs", "1", "--folder", str(new_installation.folder / "file")
    )
    assert answer.code == 1
    assert "the laboratory ended with exit code 1" in answer.err


def test_a_folder_that_holds_something_is_left_as_it_is(new_installation: FoxcastInstallation) -> None:
    answer = new_installation("lab", "sandbox", "--questions", "20", "--folder", str(new_installation.folder))
    assert answer.code == 2
    assert "is not empty" in answer.err


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_leaks_are_measured_and_told_as_json_and_as_a_table(new_installation: FoxcastInstallation) -> None:
    arguments = ("lab", "sandbox", "--questions", "20", "--only", "leaks", "--jobs", "2")
    answer = new_installation(*arguments, "--json", "-")
    assert answer.code == 0
    report = answer.json
    assert report["simulation"] is True
    assert {row["name"] for row in report["rows"]} >= {"reference", "clairvoyant", "true chance", "baseline"}
    assert {one["name"]: one["verdict"] for one in report["recoveries"]}["audit finds leaks"] == "recovered"
    table = new_installation(*arguments, "--json", str(new_installation.folder / "again.json"))
    assert table.code == 0
    assert "Planted and recovered effects" in table.out
    again = json.loads((new_installation.folder / "again.json").read_text(encoding="utf-8"))
    assert [row["brier"] for row in again["rows"]] == [row["brier"] for row in report["rows"]]
