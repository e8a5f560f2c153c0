"""What the demo tells at its end, where that came early."""

import io
from pathlib import Path
from signal import SIGINT

import pytest

from bot.cli.output.console import SafeConsole
from bot.testing.sandbox.__main__ import Asked, _tell
from bot.testing.sandbox.ending import Figures, Purse
from bot.testing.sandbox.plan import Plan
from bot.testing.sandbox.play import Played
from bot.testing.sandbox.screen import Screen

UNREAD = Purse(venue="north", mode="paper", money=True, begun=None, now=None, currency="", standing=0)
READ = Purse(venue="south", mode="live", money=True, begun=100.0, now=101.5, currency="USD", standing=2)
SCORED = Purse(venue="west", mode="live", money=False, begun=None, now=None, currency="", standing=7)
FIGURES = Figures(compared=(), bins=(), purses=(UNREAD, READ, SCORED))


def ending(played: Played) -> str:
    written = io.StringIO()
    console = SafeConsole(file=written, width=200)
    screen = Screen(console=console, plan=Plan(folder=Path("demo")))
    _tell(console, screen=screen, played=played, asked=Asked(folder=Path("demo")), took_s=1.0)
    return written.getvalue()


def test_an_account_that_was_not_read_yet_is_no_account_without_money() -> None:
    rows = [line.split() for line in ending(Played(figures=FIGURES)).splitlines()]
    assert ["north", "paper", "-", "-", "-", "not", "read", "yet", "0"] in rows
    assert ["south", "live", "100.00", "101.50", "+1.50", "USD", "2"] in rows
    assert ["west", "live", "-", "-", "-", "no", "money", "7"] in rows


@pytest.mark.parametrize(
    ("played", "words"),
    [
        (Played(figures=FIGURES, signal=SIGINT), "it was interrupted"),
        (Played(figures=FIGURES, cut_short=True), "--days 28 lets it go on"),
    ],
)
def test_a_demo_that_ended_early_says_so_and_not_that_it_had_too_few_days(played: Played, words: str) -> None:
    text = ending(played)
    assert words in text
    assert "so there are no scores\n" in text
    assert "give it more days" not in text


def test_a_demo_that_came_to_its_end_without_a_score_is_told_to_have_more_days() -> None:
    text = ending(Played(figures=FIGURES))
    assert "give it more days with --days" in text
    assert "interrupted" not in text
