"""A demo in this process: cut short, it ends with what there is."""

import io
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from bot.cli.output.console import SafeConsole
from bot.core.clock import SystemClock
from bot.simulator.demo.__main__ import main
from bot.simulator.demo.configuration import DemoPlan
from bot.simulator.demo.demo_run import DemoRun
from bot.simulator.demo.folder import lock_demo_folder
from bot.simulator.demo.ledger_snapshot import DemoLedgerReader, DemoSnapshot
from bot.simulator.demo.screen import DemoScreen
from bot.simulator.environment import BUCKET_FOLDER, ROUNDS_FOLDER


@pytest.mark.timeout(120)
def test_a_demo_that_takes_too_long_ends_with_what_there_is(tmp_path: Path) -> None:
    clock, written = SystemClock(), io.StringIO()
    plan = DemoPlan(folder=tmp_path / "demo", seed=51, size=12, days=2, limit_s=0.0)
    screen = DemoScreen(console=SafeConsole(file=written, width=200), plan=plan, plain=True)
    with lock_demo_folder(plan.folder, keep=False, at=clock.now()):
        played = DemoRun(plan=plan, screen=screen, begun_s=clock.monotonic()).run()
    assert played.cut_short
    assert played.signal is None
    assert played.exit is not None
    assert played.exit.is_clean
    assert played.figures is not None
    assert (played.figures.compared, played.first_score_s) == ((), None)
    # All of them are shown, whether their accounts were read already or not.
    assert {one.venue: (one.mode, one.money) for one in played.figures.accounts} == {
        "manifold": ("live", True),
        "metaculus": ("live", False),
        "polymarket": ("paper", True),
        "forecastbench": ("live", False),
    }
    assert "--days lets it run to the end" in written.getvalue()


@pytest.mark.timeout(120)
def test_after_a_month_forecasts_still_leave_and_the_next_round_was_answered_in_its_day(tmp_path: Path) -> None:
    clock = SystemClock()
    plan = DemoPlan(folder=tmp_path / "demo", seed=51, size=12, days=30, limit_s=600.0)
    screen = DemoScreen(console=SafeConsole(file=io.StringIO(), width=200), plan=plan, plain=True)
    with lock_demo_folder(plan.folder, keep=False, at=clock.now()):
        played = DemoRun(plan=plan, screen=screen, begun_s=clock.monotonic()).run()
    assert not played.ended_early
    with closing(sqlite3.connect(plan.folder / "live" / "ledger.sqlite")) as ledger:
        ends = "select venue, min(until) < ?, max(until) > ? from arm group by venue order by venue"
        over = (plan.begun + timedelta(days=plan.days + 1)).isoformat()
        armed = ledger.execute(ends, (over, over)).fetchall()
    assert armed == [("forecastbench", 1, 1), ("manifold", 1, 1), ("metaculus", 1, 1)]
    rounds = [path.name[:10] for path in sorted((plan.folder / ROUNDS_FOLDER / "question_sets").iterdir())]
    assert rounds == ["2026-03-08", "2026-04-05"]
    assert [path.name[:10] for path in sorted((plan.folder / BUCKET_FOLDER).iterdir())] == rounds


def test_before_there_is_a_ledger_nothing_is_seen(tmp_path: Path) -> None:
    reader = DemoLedgerReader(tmp_path / "ledger.sqlite", ("blf", "baseline"))
    assert (reader.read_snapshot(), reader.best_example()) == (DemoSnapshot(), "")
    # One that is being made has no tables yet.
    (tmp_path / "ledger.sqlite").touch()
    assert reader.read_snapshot() == DemoSnapshot()


def test_what_is_asked_for_must_be_known(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="days"):
        main([f'{{"folder": "{tmp_path}", "days": "many"}}'])
