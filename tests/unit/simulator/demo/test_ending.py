"""What the demo tells at its end, where that came early."""

import io
from pathlib import Path
from signal import SIGINT

import pytest

from bot.cli.output.console import SafeConsole
from bot.daemon.runner import DaemonExit, ExitReason
from bot.simulator.demo.__main__ import DemoRequest, _exit_code, _print_ending
from bot.simulator.demo.configuration import DemoPlan
from bot.simulator.demo.demo_run import DemoResult
from bot.simulator.demo.final_report import DemoAccount, DemoFigures
from bot.simulator.demo.screen import DemoScreen

UNREAD = DemoAccount(venue="north", mode="paper", money=True, begun=None, now=None, currency="", standing=0)
READ = DemoAccount(venue="south", mode="live", money=True, begun=100.0, now=101.5, currency="USD", standing=2)
SCORED = DemoAccount(venue="west", mode="live", money=False, begun=None, now=None, currency="", standing=7)
FIGURES = DemoFigures(compared=(), bins=(), accounts=(UNREAD, READ, SCORED))


def ending(played: DemoResult) -> str:
    written = io.StringIO()
    console = SafeConsole(file=written, width=200)
    screen = DemoScreen(console=console, plan=DemoPlan(folder=Path("demo")))
    _print_ending(console, screen=screen, played=played, asked=DemoRequest(folder=Path("demo")), took_s=1.0)
    return written.getvalue()


def test_an_account_that_was_not_read_yet_is_no_account_without_money() -> None:
    rows = [line.split() for line in ending(DemoResult(figures=FIGURES)).splitlines()]
    assert ["north", "paper", "-", "-", "-", "not", "read", "yet", "0"] in rows
    assert ["south", "live", "100.00", "101.50", "+1.50", "USD", "2"] in rows
    assert ["west", "live", "-", "-", "-", "no", "money", "7"] in rows


@pytest.mark.parametrize(
    ("played", "words"),
    [
        (DemoResult(figures=FIGURES, signal=SIGINT), "it was interrupted"),
        (DemoResult(figures=FIGURES, cut_short=True), "--days 28 lets it run"),
    ],
)
def test_a_demo_that_ended_early_says_so_and_not_that_it_had_too_few_days(played: DemoResult, words: str) -> None:
    text = ending(played)
    assert words in text
    assert "so there are no scores\n" in text
    assert "give it more days" not in text


def test_a_demo_that_came_to_its_end_without_a_score_is_told_to_have_more_days() -> None:
    text = ending(DemoResult(figures=FIGURES))
    assert "give it more days with --days" in text
    assert "interrupted" not in text


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (ExitReason.ASKED, 0),
        # Its own stop cut off a job, because the machine was busy.
        (ExitReason.CUT, 0),
        (ExitReason.FAILED, 1),
        (ExitReason.STORE, 5),
    ],
)
def test_the_end_of_the_demo_is_no_error_but_a_failure_is(reason: ExitReason, code: int) -> None:
    assert _exit_code(DemoResult(figures=FIGURES, exit=DaemonExit(reason=reason))) == code
