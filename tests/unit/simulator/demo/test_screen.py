"""What the demo shows, on terminals of all sizes and without one."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len

from bot.cli.output.console import SafeConsole
from bot.simulator.demo.configuration import DemoPlan
from bot.simulator.demo.ledger_snapshot import (
    VOID,
    BeliefHistory,
    BrierTally,
    DemoSnapshot,
    EndedQuestion,
    VenueCounts,
    general_reason,
)
from bot.simulator.demo.screen import LABEL, DemoScreen, belief_sparkline, belief_steps_text, describe_changes

MODES = {"north": "live", "south": "paper"}
COURSE = BeliefHistory(
    venue="north", title="Will it rain?", what="", path=(0.1, 0.5, 0.93), other_forecast=0.3, crowd=0.25, done=True
)
NUMBER = replace(
    COURSE, title="How much?", path=(2.0, 4.0), bounds=(0.0, 8.0), is_share=False, other_forecast=None, crowd=None
)
DATE = replace(NUMBER, title="When?", path=(0.0, 86_400.0), bounds=(0.0, 864_000.0), is_date=True)
SEEN = DemoSnapshot(
    venues={
        "north": VenueCounts(questions=4, over=1, forecasts={"baseline": 4, "blf": 5}, taken=3),
        "south": VenueCounts(questions=2, forecasts={"baseline": 2}, waiting=1),
    },
    beliefs=(COURSE, NUMBER, DATE, replace(COURSE, title="Who?", what="Ada")),
    held={"no order: too small a gain after fees": 7},
    ended=(
        EndedQuestion(
            number=1,
            venue="north",
            title="Was it?",
            outcome="yes",
            day="2026-03-09",
            forecast=0.8,
            other_forecast=0.6,
            crowd=0.7,
        ),
    ),
    tallies={"blf": BrierTally(n=3, brier=0.1, with_crowd=2, brier_with_crowd=0.11, crowd=0.2)},
)


def screen(width: int, height: int, *, plain: bool = False, encoding: str = "utf-8") -> tuple[DemoScreen, io.BytesIO]:
    bytes_ = io.BytesIO()
    file = io.TextIOWrapper(bytes_, encoding=encoding, write_through=True)
    console = SafeConsole(file=file, width=width, height=height, markup=False, highlight=False, emoji=False)
    return DemoScreen(console=console, plan=DemoPlan(folder=Path("demo")), modes=MODES, plain=plain), bytes_


def drawn(width: int, height: int, encoding: str = "utf-8") -> list[str]:
    shown, written = screen(width, height, encoding=encoding)
    shown.now = shown.plan.begun
    shown.show_snapshot(SEEN)
    shown.console.print(shown.picture())
    return written.getvalue().decode(encoding).splitlines()


@pytest.mark.parametrize(("width", "height"), [(160, 50), (100, 30), (80, 24), (60, 20), (40, 12)])
def test_no_line_is_wider_than_the_terminal_and_it_says_what_it_is(width: int, height: int) -> None:
    lines = drawn(width, height)
    assert max(map(cell_len, lines)) <= width
    assert lines[0].startswith(LABEL)
    text = "\n".join(lines)
    for part in ("north", "south", "Brier so far", "Will it rain?"):
        assert part in text


def test_a_wide_screen_shows_what_is_held_back_and_what_happened() -> None:
    text = "\n".join(drawn(160, 50))
    for part in (
        "10% > 50% > 93%",
        "2 > 4",
        "01 Jan > 02 Jan",
        "Who? [Ada]",
        "held back    7",
        "crowd 0.200, blf 0.110",
    ):
        assert part in text
    assert "north: over, yes; for yes said blf 80%, baseline 60%, crowd 70%  Was it?" in text


def test_a_terminal_without_blocks_gets_letters() -> None:
    assert "▁" in "\n".join(drawn(100, 40))
    assert "\n".join(drawn(100, 40, "ascii")).isascii()


def test_a_belief_is_drawn_between_its_bounds() -> None:
    assert belief_sparkline(COURSE, "012345") == "035"
    assert belief_sparkline(NUMBER, "0123") == "12"
    assert belief_sparkline(replace(NUMBER, bounds=(3.0, 3.0)), "0123") == "03"
    assert belief_steps_text(replace(COURSE, path=(0.101, 0.099, 0.5))) == "10% > 50%"


def test_lines_tell_each_thing_once() -> None:
    shown, written = screen(200, 40, plain=True)
    with shown.live_display():
        shown.show_activity("it begins")
        shown.show_snapshot(SEEN)
        shown.show_snapshot(replace(SEEN, ended=()))
    lines = [line.partition(" s  ")[2] for line in written.getvalue().decode().splitlines()]
    assert lines[0] == "it begins"
    assert len(lines) == len(set(lines)) > 8
    assert "north: forecasts taken by the sandbox venue, armed" in lines
    assert "the first forecasts are scored" in lines


def test_a_void_question_speaks_for_nobody() -> None:
    shown, written = screen(200, 40, plain=True)
    shown.show_snapshot(DemoSnapshot(ended=(replace(SEEN.ended[0], outcome=VOID),)))
    assert "north: void, which counts for nothing  Was it?" in written.getvalue().decode()
    assert "80%" not in written.getvalue().decode()


def test_what_is_there_already_is_no_news() -> None:
    assert [*describe_changes(SEEN, replace(SEEN, beliefs=()), MODES)] == []
    assert "south: 2 open questions found" in [*describe_changes(DemoSnapshot(), SEEN, MODES)]


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        ("recorded only: a forecasts for b, c runs beside it", "recorded only: another forecaster's forecast"),
        ("no order: Ada: no costs 0.64 with fees and is worth 0.65: a gain of less than 0.03", "too small a gain"),
        ("no order: the belief 0.186 is within 0.03 of the market's 0.174", "too near to the market's price"),
        ("nothing may be bought: caps.per_day = 80 leaves 0.00, 80.00 is at stake", "the cap per_day is used up"),
        ("something new about 0.35 and -1.5", "something new about # and #"),
    ],
)
def test_reasons_are_told_without_what_differs_from_question_to_question(why: str, reason: str) -> None:
    assert reason in general_reason(why)


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        ("the same forecast is already submitted (intent 4a0ece2f31c7d9b8)", "the same forecast is already submitted"),
        ("its order was sent already (intent deadbeef)", "its order was sent already"),
        ("something (intent 0) about 0.35", "something about #"),
    ],
)
def test_a_reason_holds_no_part_of_the_name_of_an_intent(why: str, reason: str) -> None:
    assert general_reason(why) == reason
