"""A venue with one bare question, through all that commands can say about it."""

import asyncio
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bot.app.app import FoxcastApp, open_app
from bot.config.loader import load_config
from bot.plugin_system.registry import load_registry
from bot.testing.clock import FakeClock
from tests.acceptance.conftest import FoxcastInstallation, InProcessCommand, installed
from tests.acceptance.published_rounds import SAMPLE

PLUGIN = Path(__file__).parents[1] / "unit" / "fake_reader_venue.py"
HARBOUR = f"""
plugins = ["fake_reader_venue"]
plugin_files = ["{PLUGIN}"]

[venues.harbour]
forecasters = ["keeper"]
"""
LEDGER = Path("state") / "paper" / "ledger.sqlite"


@pytest.fixture
def installation(tmp_path: Path) -> FoxcastInstallation:
    return installed(tmp_path, HARBOUR)


def run_jobs(foxcast: FoxcastInstallation, *names: str) -> None:
    """Run some jobs alone, as if the process had ended after them."""

    async def work() -> None:
        config = load_config(foxcast.config, {})
        async with open_app(config, load_registry(config), clock=FakeClock()) as app:
            await _run(app, names)

    asyncio.run(work())


async def _run(app: FoxcastApp, names: tuple[str, ...]) -> None:
    jobs = {job.name: job for job in app.jobs()}
    for name in names:
        await jobs[name].run()


def test_a_question_before_its_first_forecast_says_how_to_get_one(
    installation: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    run_jobs(installation, "discover harbour")
    output = run_command(installation, "show", "lamp").out
    assert "Lit?" in output
    assert "Not forecast yet" in output
    assert "No run of a job" not in run_command(installation, "status").out


def test_a_held_forecast_says_when_it_is_asked_again(tmp_path: Path, run_command: InProcessCommand) -> None:
    exchange = HARBOUR.replace("fake_reader_venue", "fake_exchange").replace("harbour", "bourse")
    installation = installed(tmp_path, exchange)
    (installation.folder / "state").mkdir()
    (installation.folder / "state" / "STOP").touch()
    run_jobs(installation, "discover bourse", "forecast", "submit")
    assert "hold: halted by STOP; decided again from" in run_command(installation, "show", "share").out


def test_a_venue_that_is_off_holds_for_good(installation: FoxcastInstallation, run_command: InProcessCommand) -> None:
    run_jobs(installation, "discover harbour", "forecast")
    installation.config.write_text(HARBOUR + 'mode = "off"\n')
    run_jobs(installation, "submit")
    assert "hold: harbour is off\n" in run_command(installation, "show", "lamp").out


def test_a_calibrated_forecast_shows_what_was_said(
    installation: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    run_jobs(installation, "discover harbour", "forecast")
    with closing(sqlite3.connect(installation.folder / LEDGER)) as connection, connection:
        connection.execute("update prediction set raw_probability = 0.25")
    assert "calibrated from 25.0% to 30.0%" in run_command(installation, "show", "lamp").out


def test_a_broken_rule_of_the_ledger_is_told_with_its_name_and_meaning(
    installation: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    run_jobs(installation, "discover harbour", "forecast")
    with closing(sqlite3.connect(installation.folder / LEDGER)) as connection, connection:
        connection.execute("update question set version = 'x'")
    answer = run_command(installation, "db", "check")
    assert answer.code == 1
    assert "failed question_has_its_version: a question whose current version is not recorded" in answer.out
    assert "needs attention" in answer.out
    found = run_command(installation, "db", "check", "--json").json
    assert [problem["check"] for problem in found["problems"]] == ["question_has_its_version"]


def test_a_backup_replaces_a_ledger_that_is_lost(
    installation: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    run_jobs(installation, "discover harbour", "forecast", "backup")
    backup = run_command(installation, "status", "--json").json["last_backup"]["path"]
    (installation.folder / LEDGER).unlink()
    answer = run_command(installation, "db", "restore", backup)
    assert "is the ledger now" in answer.out
    assert "is kept as" not in answer.out
    assert run_command(installation, "status", "--json").json["counts"]["forecasts"] == 1


def test_a_forecaster_that_learns_nothing_cannot_be_fitted(
    installation: FoxcastInstallation, run_command: InProcessCommand, tmp_path: Path
) -> None:
    answer = run_command(installation, "fit", "keeper", "--rounds", tmp_path, "--before", "2026-06-01")
    assert answer.is_refusal(2, "keeper has no parameters to fit")


def test_parameters_can_be_written_to_stdout_alone(tmp_path: Path, run_command: InProcessCommand) -> None:
    answer = run_command(
        installed(tmp_path), "fit", "steady", "--rounds", SAMPLE, "--before", "2026-11-01", "--out", "-"
    )
    fitted = json.loads(answer.out)
    assert fitted["payload"] == {"count": fitted["examples"]}
    assert fitted["provenance"]["rounds"].startswith("3 (")


def test_the_beginning_of_several_ids_lists_them(
    foxcast: FoxcastInstallation, run_command: InProcessCommand, tmp_path: Path
) -> None:
    shutil.copytree(foxcast.folder / "state", tmp_path / "state")
    copy = installed(tmp_path)
    with closing(sqlite3.connect(tmp_path / LEDGER)) as connection, connection:
        connection.execute("pragma foreign_keys = off")
        [(first,), (second,)] = connection.execute("select id from forecast order by id limit 2").fetchall()
        for old, new in ((first, "abcdef" + first[6:]), (second, "abcdef" + second[6:])):
            connection.execute("update forecast set id = ? where id = ?", (new, old))
    answer = run_command(copy, "show", "abcdef")
    assert answer.code == 8
    assert "abcdef fits several forecasts; name one of" in answer.err
    assert answer.err.count("forecastbench:") == 2
