"""A demo in this process: cut short, it ends with what there is."""

import io
from pathlib import Path

import pytest

from bot.cli.output.console import PlainConsole
from bot.clock import SystemClock
from bot.testing.sandbox.__main__ import main
from bot.testing.sandbox.folder import own_folder
from bot.testing.sandbox.plan import Plan
from bot.testing.sandbox.play import Play
from bot.testing.sandbox.screen import Screen
from bot.testing.sandbox.seen import Reader, Seen


@pytest.mark.timeout(120)
def test_a_demo_that_takes_too_long_ends_with_what_there_is(tmp_path: Path) -> None:
    clock, written = SystemClock(), io.StringIO()
    plan = Plan(folder=tmp_path / "demo", seed=51, size=12, days=2, limit_s=0.0)
    screen = Screen(console=PlainConsole(file=written, width=200), plan=plan, plain=True)
    with own_folder(plan.folder, keep=False, at=clock.now()):
        played = Play(plan=plan, screen=screen, begun_s=clock.monotonic()).run()
    assert played.cut_short
    assert played.signal is None
    assert played.exit is not None
    assert played.exit.clean
    assert played.figures is not None
    assert (played.figures.compared, played.first_score_s) == ((), None)
    # All of them are told, whether their accounts were read already or not.
    assert {one.venue: (one.mode, one.money) for one in played.figures.purses} == {
        "manifold": ("live", True),
        "metaculus": ("live", False),
        "polymarket": ("paper", True),
        "forecastbench": ("live", False),
    }
    assert "--days lets it go on to the end" in written.getvalue()


def test_before_there_is_a_ledger_nothing_is_seen(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "ledger.sqlite", ("blf", "baseline"))
    assert (reader.seen(), reader.example()) == (Seen(), "")
    # One that is being made has no tables yet.
    (tmp_path / "ledger.sqlite").touch()
    assert reader.seen() == Seen()


def test_what_is_asked_for_must_be_known(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="days"):
        main([f'{{"folder": "{tmp_path}", "days": "many"}}'])
