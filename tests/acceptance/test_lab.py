"""``foxcast lab``: the laboratory as people start it, in a process of its own."""

import json

import pytest

from tests.acceptance.conftest import Foxcast


def test_a_misspelt_part_is_refused_with_what_there_is(fresh: Foxcast) -> None:
    answer = fresh("lab", "sandbox", "--only", "believe")
    assert answer.code == 2
    assert "no part believe" in answer.err
    assert "belief, trials, aggregate" in answer.err


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_leaks_are_measured_and_told_as_json_and_as_a_table(fresh: Foxcast) -> None:
    arguments = ("lab", "sandbox", "--questions", "12", "--only", "leaks", "--jobs", "2")
    answer = fresh(*arguments, "--json", "-")
    assert answer.code == 0
    report = answer.json
    assert report["simulation"] is True
    assert {row["name"] for row in report["rows"]} >= {"reference", "clairvoyant", "true chance", "baseline"}
    assert {one["name"]: one["verdict"] for one in report["recoveries"]}["audit finds leaks"] == "recovered"
    table = fresh(*arguments, "--json", str(fresh.folder / "again.json"))
    assert table.code == 0
    assert "What was planted, and what was found" in table.out
    again = json.loads((fresh.folder / "again.json").read_text(encoding="utf-8"))
    assert [row["brier"] for row in again["rows"]] == [row["brier"] for row in report["rows"]]
