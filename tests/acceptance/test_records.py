"""Looking at what was recorded: questions, one question in full, and the care for the ledger file."""

import json
import os
import re
from pathlib import Path

import pytest

from tests.acceptance.conftest import CONFIG, FoxcastInstallation, InProcessCommand, installed

REF = "forecastbench:2026-06-21/polymarket/0xf0c5a5700001"


def test_questions_are_chosen_by_source_and_state(foxcast: FoxcastInstallation, run_command: InProcessCommand) -> None:
    found = run_command(foxcast, "questions", "--source", "polymarket", "--state", "resolved", "--json").json
    assert found
    assert {(one["source"], one["state"]) for one in found} == {("polymarket", "resolved")}
    assert all(one["resolved"] == one["targets"] for one in found)
    assert len(run_command(foxcast, "questions", "--limit", "3", "--json").json) == 3
    assert "no question fits" in run_command(foxcast, "questions", "--source", "nowhere").out


def test_a_question_shows_every_change_of_mind(foxcast: FoxcastInstallation, run_command: InProcessCommand) -> None:
    output = run_command(foxcast, "show", REF).out
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
        assert part in output


@pytest.mark.parametrize("name", [REF, "2026-06-21/polymarket/0xf0c5a5700001", "06-21/polymarket/0xf0c5a5700001"])
def test_a_question_answers_to_its_reference_its_key_and_a_part(
    foxcast: FoxcastInstallation, run_command: InProcessCommand, name: str
) -> None:
    found = run_command(foxcast, "show", name, "--json").json
    assert found["question"]["ref"] == REF
    (forecast,) = found["forecasts"]
    assert [step["action"]["name"] for step in forecast["trials"][0]["steps"]] == ["begin", "look_at_crowd"]


def test_a_forecast_answers_to_its_id_and_its_beginning(
    foxcast: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    forecast = run_command(foxcast, "show", REF, "--json").json["forecasts"][0]["id"]
    assert f"forecast {forecast}" in run_command(foxcast, "show", forecast).out
    assert f"forecast {forecast}" in run_command(foxcast, "show", forecast[:12]).out


def test_an_ambiguous_name_lists_the_candidates(foxcast: FoxcastInstallation, run_command: InProcessCommand) -> None:
    answer = run_command(foxcast, "show", "polymarket/0xf0c5a5700001")
    assert answer.code == 8
    first, *candidates = answer.err.splitlines()
    assert "is not one question" in first
    assert [line.split()[0] for line in candidates] == [
        f"forecastbench:2026-{day}/polymarket/0xf0c5a5700001" for day in ("05-24", "06-07", "06-21")
    ]


def test_a_question_that_was_forecast_twice_shows_both(tmp_path: Path, run_command: InProcessCommand) -> None:
    config = CONFIG.replace('"fake_crowd_forecaster"', '"fake_crowd_forecaster", "baseline"')
    foxcast = installed(tmp_path, config.replace('forecasters = ["steady"]', 'forecasters = ["steady", "baseline"]'))
    assert run_command(foxcast, "run", "--once").code == 0
    output = run_command(foxcast, "show", REF).out
    assert "steady, forecast" in output
    assert "baseline, forecast" in output
    assert "hold: recorded only: steady forecasts for forecastbench" in output
    history = run_command(foxcast, "show", REF, "--json").json["history"]
    (steady,) = (one["id"] for one in history if one["forecaster"] == "steady")
    assert "All forecasts" in run_command(foxcast, "show", steady).out
    scored = run_command(foxcast, "score", "--json", "-").json
    assert scored["by_forecaster"].keys() == {"baseline", "steady"}
    assert scored["forecaster"] == "steady"


def test_an_unknown_name_says_how_to_find_one(foxcast: FoxcastInstallation, run_command: InProcessCommand) -> None:
    assert run_command(foxcast, "show", "xyzzy").is_refusal(8, "xyzzy", "foxcast questions")


def test_tables_for_a_pipe_have_a_row_a_line_and_no_colours(
    foxcast: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    answer = run_command(foxcast, "questions", "--limit", "7")
    assert len(answer.out.splitlines()) == 1 + 7 + 1
    assert answer.out.isprintable() or "\x1b" not in answer.out


def test_a_narrow_window_still_shows_whole_probabilities(foxcast: FoxcastInstallation) -> None:
    output = foxcast.with_environment(COLUMNS="50")("show", REF).out
    assert max(map(len, output.splitlines())) <= 50
    assert "93.0%" in output


def test_a_terminal_gets_no_colours_where_none_are_wanted(foxcast: FoxcastInstallation) -> None:
    coloured = foxcast.with_environment(FORCE_COLOR="1")("show", REF).out
    plain = foxcast.with_environment(FORCE_COLOR="1", NO_COLOR="1")("show", REF).out
    assert re.search(r"\x1b\[[0-9;]*3[0-9]m", coloured)
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", plain)


def test_a_backup_restores_what_was_there(new_installation: FoxcastInstallation, run_command: InProcessCommand) -> None:
    assert run_command(new_installation, "run", "--once").code == 0
    made = run_command(new_installation, "db", "backup", "--json").json
    ledger = new_installation.folder / "state" / "paper" / "ledger.sqlite"
    ledger.write_bytes(b"this is no database any more, and it is longer than a header of one hundred bytes" * 9)
    assert run_command(new_installation, "db", "check").code == 5
    assert run_command(new_installation, "doctor").code == 1
    answer = run_command(new_installation, "db", "restore", made["path"])
    assert answer.code == 0
    assert "is the ledger now" in answer.out
    assert run_command(new_installation, "db", "check", "--json").json["sound"]
    assert "restored" in run_command(new_installation, "doctor").out


def test_an_export_has_a_line_for_each_forecast(
    foxcast: FoxcastInstallation, run_command: InProcessCommand, tmp_path: Path
) -> None:
    folder = tmp_path / "export"
    assert run_command(foxcast, "db", "export", folder).code == 0
    forecasts = [json.loads(line) for line in (folder / "forecast.jsonl").read_text().splitlines()]
    assert len(forecasts) == run_command(foxcast, "status", "--json").json["counts"]["forecasts"]
    assert run_command(foxcast, "db", "export", folder).is_refusal(5, "exists already")


def test_restoring_what_is_not_there_says_where_backups_are(
    foxcast: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    assert run_command(foxcast, "db", "restore", "nothing.db").is_refusal(8, "nothing.db", "backups")


def test_the_ledger_is_for_its_owner_alone(foxcast: FoxcastInstallation) -> None:
    state = foxcast.folder / "state" / "paper"
    assert (state.stat().st_mode & 0o077, (state / "ledger.sqlite").stat().st_mode & 0o077) == (0, 0)
    assert (state / "ledger.sqlite").stat().st_uid == os.getuid()


def test_what_is_not_forecast_yet_says_so(tmp_path: Path, run_command: InProcessCommand) -> None:
    foxcast = installed(tmp_path, CONFIG.replace('["steady"]\n\n', '["steady"]\nmode = "off"\n\n', 1))
    assert run_command(foxcast, "run", "--once").code == 0
    assert "no question fits" in run_command(foxcast, "questions").out
    assert "nothing selected has resolved yet" in run_command(foxcast, "score").out
    assert run_command(foxcast, "score", "--json", "-").json["forecaster"] is None


def test_a_backup_and_an_export_answer_in_json(
    foxcast: FoxcastInstallation, run_command: InProcessCommand, tmp_path: Path
) -> None:
    backup = run_command(foxcast, "db", "backup", "--json").json
    assert Path(backup["path"]).stat().st_size == backup["size_bytes"]
    files = run_command(foxcast, "db", "export", tmp_path / "export", "--json").json["files"]
    assert files["forecast"] == files["decision"] > 0
    assert "is sound" in run_command(foxcast, "db", "check").out


def test_a_locked_question_is_left_alone_until_it_is_unlocked(tmp_path: Path) -> None:
    foxcast = installed(tmp_path)
    foxcast("run", "--once")
    asked = foxcast("lock", REF, "--reason", "the rules are disputed", "--until", "2999-01-01")
    assert (asked.code, "lock of forecastbench:" in asked.out) == (0, True)
    assert "lock waits" in foxcast("locks").out
    foxcast("run", "--once")
    [lock] = foxcast("locks", "--json").json
    assert (lock["ref"], lock["reason"], lock["until"][:10]) == (REF, "the rules are disputed", "2999-01-01")
    foxcast("unlock", REF)
    foxcast("run", "--once")
    assert foxcast("locks", "--json").json == []


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("lock", REF), 2, "--reason"),
        (("lock", REF, "--reason", " "), 2, "give a reason in a few words"),
        (("lock", REF, "--reason", "x", "--until", "soon"), 2, "is not a time"),
        (("lock", REF, "--reason", "x", "--until", "2001-01-01"), 2, "in the past"),
        (("lock", "no such question", "--reason", "x"), 8, "foxcast questions"),
        (("unlock", "no such question"), 8, "foxcast questions"),
    ],
)
def test_a_lock_that_makes_no_sense_is_refused(
    foxcast: FoxcastInstallation, run_command: InProcessCommand, arguments: tuple[str, ...], code: int, word: str
) -> None:
    assert run_command(foxcast, *arguments).is_refusal(code, word)
