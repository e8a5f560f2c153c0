"""Looking at what was recorded: questions, one question in full, and the care for the ledger file."""

import json
import os
import re
from pathlib import Path

import pytest

from tests.acceptance.conftest import Foxcast

REF = "forecastbench:2026-06-21/polymarket/0xf0c5a5700001"


def test_questions_are_chosen_by_source_and_state(foxcast: Foxcast) -> None:
    found = foxcast("questions", "--source", "polymarket", "--state", "resolved", "--json").json
    assert found
    assert {(one["source"], one["state"]) for one in found} == {("polymarket", "resolved")}
    assert all(one["resolved"] == one["targets"] for one in found)
    assert len(foxcast("questions", "--limit", "3", "--json").json) == 3
    assert "no question fits" in foxcast("questions", "--source", "nowhere").out


def test_a_question_shows_every_change_of_mind(foxcast: Foxcast) -> None:
    said = foxcast("show", REF).out
    for part in (
        "Will the Harbour Party lead the next government of Valmora?",
        "crowd: 93.0%",
        "1. begin(family=market)",
        "anchor: ignorance",
        "2. look_at_crowd",
        "belief: 50.0% -> 93.0%",
        "+ +0.25 log-odds: others think so [crowd]",
        "- -0.12 log-odds: others err [experience]",
        "reason: others know more",
        "send in mode paper",
        "acked",
    ):
        assert part in said


@pytest.mark.parametrize("name", [REF, "2026-06-21/polymarket/0xf0c5a5700001", "06-21/polymarket/0xf0c5a5700001"])
def test_a_question_answers_to_its_reference_its_key_and_a_unique_part(foxcast: Foxcast, name: str) -> None:
    found = foxcast("show", name, "--json").json
    assert found["question"]["ref"] == REF
    (forecast,) = found["forecasts"]
    assert [step["action"]["name"] for step in forecast["trials"][0]["steps"]] == ["begin", "look_at_crowd"]


def test_a_forecast_answers_to_its_id_and_its_beginning(foxcast: Foxcast) -> None:
    forecast = foxcast("show", REF, "--json").json["forecasts"][0]["id"]
    assert f"forecast {forecast}" in foxcast("show", forecast).out
    assert f"forecast {forecast}" in foxcast("show", forecast[:12]).out


def test_an_ambiguous_name_lists_the_candidates(foxcast: Foxcast) -> None:
    answer = foxcast("show", "polymarket/0xf0c5a5700001")
    assert answer.code == 8
    first, *candidates = answer.err.splitlines()
    assert "is not one question" in first
    assert [line.split()[0] for line in candidates] == [
        f"forecastbench:2026-{day}/polymarket/0xf0c5a5700001" for day in ("05-24", "06-07", "06-21")
    ]


def test_an_unknown_name_says_how_to_find_one(foxcast: Foxcast) -> None:
    assert foxcast("show", "xyzzy").refuses(8, "xyzzy", "foxcast questions")


def test_tables_for_a_pipe_have_a_row_a_line_and_no_colours(foxcast: Foxcast) -> None:
    answer = foxcast("questions", "--limit", "7")
    assert len(answer.out.splitlines()) == 1 + 7 + 1
    assert answer.out.isprintable() or "\x1b" not in answer.out


def test_a_narrow_window_still_shows_whole_probabilities(foxcast: Foxcast) -> None:
    said = foxcast.with_environment(COLUMNS="50")("show", REF).out
    assert max(map(len, said.splitlines())) <= 50
    assert "93.0%" in said


def test_a_terminal_gets_no_colours_where_none_are_wanted(foxcast: Foxcast) -> None:
    coloured = foxcast.with_environment(FORCE_COLOR="1")("show", REF).out
    plain = foxcast.with_environment(FORCE_COLOR="1", NO_COLOR="1")("show", REF).out
    assert re.search(r"\x1b\[[0-9;]*3[0-9]m", coloured)
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", plain)


def test_a_backup_restores_what_was_there(fresh: Foxcast) -> None:
    assert fresh("run", "--once").code == 0
    made = fresh("db", "backup", "--json").json
    ledger = fresh.folder / "state" / "paper" / "ledger.sqlite"
    ledger.write_bytes(b"this is no database any more, and it is longer than a header of one hundred bytes" * 9)
    assert fresh("db", "check").code == 5
    assert fresh("doctor").code == 1
    answer = fresh("db", "restore", made["path"])
    assert answer.code == 0
    assert "is the ledger now" in answer.out
    assert fresh("db", "check", "--json").json["sound"]
    assert "restored" in fresh("doctor").out


def test_an_export_has_a_line_for_each_forecast(foxcast: Foxcast, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    assert foxcast("db", "export", folder).code == 0
    forecasts = [json.loads(line) for line in (folder / "forecast.jsonl").read_text().splitlines()]
    assert len(forecasts) == foxcast("status", "--json").json["counts"]["forecasts"]
    assert foxcast("db", "export", folder).refuses(5, "exists already")


def test_restoring_what_is_not_there_says_where_backups_are(foxcast: Foxcast) -> None:
    assert foxcast("db", "restore", "nothing.db").refuses(8, "nothing.db", "backups")


def test_the_ledger_is_for_its_owner_alone(foxcast: Foxcast) -> None:
    state = foxcast.folder / "state" / "paper"
    assert (state.stat().st_mode & 0o077, (state / "ledger.sqlite").stat().st_mode & 0o077) == (0, 0)
    assert os.stat(state / "ledger.sqlite").st_uid == os.getuid()
