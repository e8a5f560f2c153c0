"""``foxcast db size``, ``db prune`` and ``db archive`` on a ledger of ten years."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
import typer

from bot.cli.database_space import parse_age
from bot.cli.main import main
from bot.store.database import instance_lock
from bot.store.ledger import LEDGER_FILE
from tests.grown_ledger import NOW, GrownLedger, grow_ledger

QUESTIONS = 300


@pytest.fixture
def grown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GrownLedger:
    """A ledger as the state of the commands."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOXCAST_STATE", str(tmp_path))
    (tmp_path / "paper").mkdir(mode=0o700)
    return grow_ledger(tmp_path / "paper" / LEDGER_FILE, QUESTIONS)


def call(*arguments: str) -> int:
    try:
        return main(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)


def test_sizes_are_listed_by_table(grown: GrownLedger, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("db", "size", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    sizes = {Path(one["path"]).name: one for one in found["databases"]}
    assert set(sizes) == {"ledger.sqlite", "ledger-evidence.sqlite", "book.sqlite"}
    assert found["forecasts"] == QUESTIONS
    for one in sizes.values():
        pages = sum(one["tables"].values()) + one["free_bytes"]
        # Page 1 and pages of the free list are in no table.
        assert 0.8 * one["bytes"] < pages <= one["bytes"]
    assert sizes["ledger-evidence.sqlite"]["tables"]["step"] > 100 * 10 * QUESTIONS


def test_old_evidence_is_archived_and_deleted_and_the_ledger_stays_sound(
    grown: GrownLedger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("db", "archive", "old.sqlite", "--older", "5y", "--json") == 0
    archived = json.loads(capsys.readouterr().out)
    # Ten years, one forecast every 12 days, and the first half is older than five years.
    assert archived["forecasts"] == pytest.approx(QUESTIONS / 2, abs=2)
    assert call("db", "archive", "old.sqlite", "--older", "5y") == 2
    assert "exists already" in capsys.readouterr().err
    assert call("db", "prune", "--older", "5y", "--json") == 0
    assert json.loads(capsys.readouterr().out)["forecasts"] == archived["forecasts"]
    assert call("db", "check") == 0
    assert call("explain", f"{1:024x}") == 0
    assert "its steps, exchanges and pages were deleted on" in capsys.readouterr().out


def test_a_running_daemon_is_named_with_the_setting_that_does_it(
    grown: GrownLedger, capsys: pytest.CaptureFixture[str]
) -> None:
    with instance_lock(grown.path.parent, started_at=NOW):
        assert call("db", "prune", "--older", "90d") == 6
    assert "set daemon.evidence_days = 90" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "days"), [("90d", 90), ("2 w", 14), ("1y", 365)])
def test_an_age_has_a_unit(text: str, days: int) -> None:
    assert parse_age(text) == timedelta(days=days)


@pytest.mark.parametrize("text", ["90", "d", "-1d", "1.5d", "90 days", ""])
def test_what_is_no_age_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not an age such as 90d"):
        parse_age(text)
