"""A rehearsal of the worst day: the ledger is gone, and a backup named by foxcast db list takes its place."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.conftest import FoxcastInstallation, InProcessCommand


def forecast_ids(ledger: Path) -> set[str]:
    with closing(sqlite3.connect(ledger)) as connection:
        return {row[0] for row in connection.execute("select id from forecast")}


@pytest.mark.timeout(120)
def test_a_lost_ledger_is_refused_and_restored_by_name(
    new_installation: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    foxcast = new_installation
    ledger = foxcast.folder / "state" / "paper" / "ledger.sqlite"
    assert run_command(foxcast, "run", "--once").code == 0
    before = forecast_ids(ledger)
    assert before

    listed = run_command(foxcast, "db", "list", "--json").json
    assert [one["kept_as"][0] for one in listed] == ["newest"]
    assert listed[0]["rows"]["forecast"] == len(before)
    table = run_command(foxcast, "db", "list").out
    assert listed[0]["name"] in table.replace("\n", "")

    for side in ledger.parent.glob("ledger.sqlite*"):
        side.unlink()
    # Neither the daemon nor a reader makes a new one in its place.
    for command in (["run", "--once"], ["status"], ["questions"], ["db", "check"], ["db", "backup"]):
        answer = run_command(foxcast, *command)
        assert answer.is_refusal(5, "is missing, but this folder had a ledger", listed[0]["name"], "foxcast db restore")
    assert not ledger.exists()
    found = {one["check"]: one for one in run_command(foxcast, "doctor", "--json").json}
    assert found["ledger"]["verdict"] == "fail"
    assert listed[0]["name"] in found["ledger"]["remedy"]
    ledger.touch()
    assert run_command(foxcast, "run", "--once").is_refusal(5, "is empty, but this folder had a ledger")

    assert run_command(foxcast, "db", "restore", "ledger-20200101T000000Z").is_refusal(8, "foxcast db list")
    assert run_command(foxcast, "db", "restore", listed[0]["name"]).code == 0
    assert forecast_ids(ledger) == before
    assert run_command(foxcast, "db", "check").code == 0
    assert run_command(foxcast, "run", "--once").code == 0
    assert forecast_ids(ledger) == before
