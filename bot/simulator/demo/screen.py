"""The screen of the demo: a live picture on a terminal, elsewhere a line for each event."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from bot.core.light_dataclass import dataclass
from bot.simulator.demo.ledger_snapshot import VOID, BeliefHistory, DemoSnapshot, EndedQuestion

if TYPE_CHECKING:
    from rich.console import Console, OverflowMethod, RenderableType

    from bot.simulator.demo.configuration import DemoPlan

LABEL = "SIMULATION"
_BLOCKS, _LETTERS = "▁▂▃▄▅▆▇█", "_.,-=+*#"
# With fewer columns some details are left out; with fewer lines, other parts.
SCREEN_WIDTH, SCREEN_HEIGHT = 100, 30
_NEWS_LIMIT = 6
_LINE_LIMIT = 400
# Lines of the picture other than those for single forecasts.
_FRAME_LINES = 19


@dataclass(kw_only=True)
class DemoScreen:
    """Shows snapshots.

    ``plain`` makes it lines. ``show_snapshot`` takes what is new, ``show_activity`` an action of a person or program.
    """

    console: Console
    plan: DemoPlan
    modes: Mapping[str, str] = field(default_factory=dict)
    plain: bool = False
    now: datetime | None = None
    stage: str = ""
    passed_s: float = 0.0
    heard: int = 0
    seen: DemoSnapshot = field(default_factory=DemoSnapshot)
    _news: deque[str] = field(default_factory=lambda: deque(maxlen=_NEWS_LIMIT))
    _live: Live | None = None
    _shown_lines: set[str] = field(default_factory=set)

    @contextmanager
    def live_display(self) -> Iterator[None]:
        """Draw while the block runs; the last picture stays."""
        if self.plain:
            yield
            return
        with Live(self.picture(), console=self.console, auto_refresh=False, vertical_overflow="crop") as self._live:
            yield
        self._live = None

    @property
    def day(self) -> int:
        """Days since Foxcast came to the world, up to the last one."""
        begun = self.plan.begun
        return 0 if self.now is None else min(self.plan.days, max(0, (self.now - begun).days))

    @property
    def courses(self) -> int:
        """How many forecasts of each venue there is room for."""
        room = self.console.height - (_FRAME_LINES if self.console.height >= SCREEN_HEIGHT else _FRAME_LINES - 5)
        return max(1, min(3, room // max(1, len(self.modes))))

    @property
    def _speaks_unicode(self) -> bool:
        return self.console.encoding.lower().startswith("utf")

    @property
    def _cut(self) -> OverflowMethod:
        """The mark of a shortened line: small character sets have no other."""
        return "ellipsis" if self._speaks_unicode else "crop"

    def show_activity(self, words: str) -> None:
        """Show what is done next."""
        self.stage = words
        self._add_line(words)
        self.draw()

    def show_snapshot(self, seen: DemoSnapshot) -> None:
        """Take a snapshot, show its news, and draw."""
        before, self.seen = self.seen, seen
        for words in describe_changes(before, seen, self.modes):
            if words not in self._shown_lines:
                self._shown_lines.add(words)
                self._add_line(words)
        for one in seen.ended:
            if one.forecast is not None:
                self._add_line(_outcome_line(one))
        self.draw()

    def draw(self) -> None:
        """Draw the picture, where there is one."""
        if self._live is not None:
            self._live.update(self.picture(), refresh=True)

    def picture(self) -> RenderableType:
        """Return the whole picture, as high as the terminal allows."""
        high, width = self.console.height >= SCREEN_HEIGHT, self.console.width
        parts: list[RenderableType] = [self._render_head(), self._render_venues(width)]
        if self.seen.beliefs:
            parts.append(self._render_beliefs(width))
        if self.seen.tallies:
            parts.append(self._render_scores())
        if self.seen.held and high:
            parts.append(self._render_held())
        news = [*self._news][-(_NEWS_LIMIT if high else 2) :]
        parts.append(Group(*(Text(line, style="dim", no_wrap=True, overflow=self._cut) for line in news)))
        return Group(*parts)

    def _add_line(self, words: str) -> None:
        at = "" if self.now is None else f"{self.now.astimezone(UTC):%d %b}  "
        self._news.append(f"{at}{words}")
        if self.plain and len(self._shown_lines) < _LINE_LIMIT:
            self.console.print(Text(f"{self.passed_s:5.1f} s  {at}{words}"), soft_wrap=True)

    def _render_head(self) -> RenderableType:
        at = "" if self.now is None else f"{self.now.astimezone(UTC):%A %d %B %Y}, "
        clock = f"{self.passed_s:.0f} s, {self.heard} requests on this machine"
        first = Text.assemble(
            (LABEL, "bold black on yellow"), ("  foxcast demo  ", "bold"), _SIMULATION_NOTE, no_wrap=True
        )
        second = Text(f"{at}day {self.day} of {self.plan.days}   {clock}", no_wrap=True)
        for line in (first, second):
            line.overflow = self._cut
        return Group(first, second, Text(""))

    def _render_venues(self, width: int) -> RenderableType:
        grid = _make_table(
            "venue", "mode", *(("questions", "forecasts") if width >= SCREEN_WIDTH else ("asked", "fcsts"))
        )
        for title in ("taken", "waiting", "over", "void") if width >= SCREEN_WIDTH else ("taken", "over"):
            grid.add_column(title, justify="right")
        for name, mode in self.modes.items():
            one = self.seen.venues.get(name)
            made = "-" if one is None else "+".join(str(count) for _, count in sorted(one.forecasts.items())) or "0"
            cells = [name, mode, "-" if one is None else str(one.questions), made]
            if one is not None:
                more = (one.taken, one.waiting, one.over, one.void) if width >= SCREEN_WIDTH else (one.taken, one.over)
                cells += [str(count) for count in more]
            grid.add_row(*cells, style="" if mode == "live" else "cyan")
        return grid

    def _render_beliefs(self, width: int) -> RenderableType:
        marks = _BLOCKS if self._speaks_unicode else _LETTERS
        grid = Table(box=None, pad_edge=False, header_style="bold", expand=True, padding=(0, 1, 0, 0))
        grid.add_column("question", ratio=1, no_wrap=True, overflow=self._cut)
        if width >= SCREEN_WIDTH:
            grid.add_column("crowd", justify="right", no_wrap=True)
        grid.add_column("baseline" if width >= SCREEN_WIDTH else "base", justify="right", no_wrap=True)
        grid.add_column("blf, step by step" if width >= SCREEN_WIDTH else "blf", no_wrap=True)
        for one in self.seen.beliefs:
            words = f"{one.title} [{one.what}]" if one.what else one.title
            cells = [Text(words)]
            if width >= SCREEN_WIDTH:
                cells.append(Text(belief_value_text(one, one.crowd)))
            moved = belief_steps_text(one) if width >= SCREEN_WIDTH else belief_value_text(one, one.path[-1])
            path = Text.assemble((belief_sparkline(one, marks), "green" if one.done else "yellow"), f" {moved}")
            grid.add_row(*cells, Text(belief_value_text(one, one.other_forecast)), path)
        return Group(Text(""), grid)

    def _render_scores(self) -> RenderableType:
        line = Text("Brier so far (less is better): ", style="bold", no_wrap=True, overflow=self._cut)
        for name, one in self.seen.tallies.items():
            line.append(f" {name} {one.brier:.3f} (n={one.n})", style="")
        first = max(self.seen.tallies.values(), key=lambda one: one.with_crowd)
        if first.crowd is not None:
            own = ", ".join(
                f"{n} {one.brier_with_crowd:.3f}"
                for n, one in self.seen.tallies.items()
                if one.brier_with_crowd is not None
            )
            line.append(f"; where there is a crowd (n={first.with_crowd}): crowd {first.crowd:.3f}, {own}", style="")
        return Group(Text(""), line)

    def _render_held(self) -> RenderableType:
        lines = [Text("")]
        for why, count in [*self.seen.held.items()][:4]:
            lines.append(Text(f"held back {count:4d}  {why}", no_wrap=True, overflow=self._cut))
        return Group(*lines, Text(""))


_SIMULATION_NOTE = "questions, news, crowds and the model are invented; nothing is sent from this machine"


def describe_changes(before: DemoSnapshot, after: DemoSnapshot, modes: Mapping[str, str]) -> Iterator[str]:
    """Yield in words what appears for the first time."""
    for name, one in after.venues.items():
        known = before.venues.get(name)
        if known is None:
            yield f"{name}: {one.questions} open questions found"
        if one.taken and not (known and known.taken):
            where = "its paper book" if modes.get(name) != "live" else "the sandbox venue, armed"
            yield f"{name}: forecasts taken by {where}"
        if one.over and not (known and known.over):
            yield f"{name}: the first of its questions is over"
    for history in after.beliefs:
        if history.done and len(history.path) > 1:
            beside = (
                ""
                if history.other_forecast is None
                else f"baseline {belief_value_text(history, history.other_forecast)}, "
            )
            what = f" [{history.what}]" if history.what else ""
            yield f"{history.venue}: {beside}blf {belief_steps_text(history)}  {history.title}{what}"
    for why in after.held:
        if why not in before.held:
            yield f"held back: {why}"
    if after.tallies and not before.tallies:
        yield "the first forecasts are scored"


def belief_sparkline(one: BeliefHistory, marks: str) -> str:
    """Return the course of a belief as marks of different height, between its bounds."""
    low, high = one.bounds
    span = (high - low) or 1.0
    levels = [min(len(marks) - 1, max(0, int((at - low) / span * len(marks)))) for at in one.path]
    return "".join(marks[level] for level in levels)


def belief_steps_text(one: BeliefHistory) -> str:
    """Return the course of a belief in numbers, without repeated ones."""
    shown = [belief_value_text(one, at) for at in one.path]
    kept = [shown[0], *(now for before, now in pairwise(shown) if now != before)]
    return " > ".join(kept)


def belief_value_text(one: BeliefHistory, at: float | None) -> str:
    """Return one number of a course in readable form."""
    if at is None:
        return "-"
    if one.is_share:
        return f"{100.0 * at:.0f}%"
    return f"{datetime.fromtimestamp(at, UTC):%d %b}" if one.is_date else f"{at:.4g}"


def _outcome_line(one: EndedQuestion) -> str:
    if one.outcome == VOID:
        return f"{one.venue}: void, which counts for nothing  {one.title}"
    forecasts = (("blf", one.forecast), ("baseline", one.other_forecast), ("crowd", one.crowd))
    shares = ", ".join(f"{name} {100.0 * share:.0f}%" for name, share in forecasts if share is not None)
    yes = "yes" if one.outcome in {"yes", "no"} else "that"
    return f"{one.venue}: over, {one.outcome}; for {yes} said {shares}  {one.title}"


def _make_table(*titles: str) -> Table:
    grid = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for place, title in enumerate(titles):
        grid.add_column(title, justify="left" if place < 2 else "right", no_wrap=True)
    return grid
