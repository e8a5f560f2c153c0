"""A forecast as it is made: a line or two for each step, and on a terminal how each trial stands below them."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from rich.console import Console, Group
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from bot.cli.output.beliefs import moves, shown, words
from bot.cli.output.console import indented
from bot.cli.output.ends import ending
from bot.cli.output.figures import argument, in_short
from bot.cli.output.plain import plain
from bot.cli.output.steps import cost_of
from bot.desk.failures import gist
from bot.domain.forecast import Trial, TrialEnd
from bot.domain.prediction import CurveShape, Prediction
from bot.domain.question import Question
from bot.domain.step import Action, Step, Usage
from bot.errors import unnamed
from bot.store.trials import TrialRecord

ARGUMENT_SHOWN = 80
REASON_SHOWN = 300
TARGETS_SHOWN = 8
PER_SECOND = 4.0
# Below so many columns there is no room for tokens.
NARROW = 70
ENDLESS = 10_000
TITLES = ("trial", "step", "did last", "believes", "tokens", "USD")
NUMBERS = frozenset({"step", "tokens", "USD"})
SHRINKING = frozenset({"did last", "believes"})


@dataclass(slots=True)
class _Course:
    """One trial as far as it was seen."""

    number: int = 0
    doing: str = ""
    predictions: Mapping[str, Prediction] | None = None
    reason: str = ""
    usage: Usage = field(default_factory=Usage)
    end: TrialEnd | None = None
    ended: str = ""


@dataclass(slots=True)
class View:
    """Shows steps and ends of trials as they come, each once; told the same again it shows nothing.

    ``steps`` is how many a trial may have. Without ``live`` nothing is kept below the steps: a person is asked on this
    terminal. It is a ``bot.jobs.sitting.Watch``.
    """

    console: Console
    question: Question
    trials: int
    steps: int
    live: bool = True
    _courses: dict[int, _Course] = field(default_factory=dict)
    _status: str = ""
    _reasons: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """On a terminal, keep the standing of all trials below the steps while the block runs; nothing of it stays."""
        if not (self.live and self.console.is_terminal):
            yield
            return
        live = Live(
            get_renderable=self._standing,
            console=self.console,
            refresh_per_second=PER_SECOND,
            transient=True,
            # What is logged to the same terminal is printed above the table; to a file it goes as ever.
            redirect_stderr=sys.stderr.isatty(),
        )
        with live:
            yield

    def say(self, status: str) -> None:
        """Tell what is being waited for."""
        if status != self._status:
            self._status = status
            self.console.print(Text(status, style="dim"))

    def recall(self, records: Sequence[TrialRecord]) -> None:
        """Show what is on record of trials and was not shown yet."""
        for record in records:
            for logged in record.steps:
                self.step(record.number, logged.number, logged.step)
            if record.trial is not None:
                self.ended(record.trial)

    def step(self, trial: int, number: int, step: Step, /) -> None:
        """Show a step: what was done, how the belief moved and why, and what that cost so far."""
        course = self._courses.setdefault(trial, _Course())
        if number <= course.number:
            return
        self._print_step(trial, number, step, course)
        course.number = number
        course.doing = _action(step.action)
        course.predictions = step.belief.predictions
        course.reason = step.belief.reason
        course.usage += step.usage

    def ended(self, trial: Trial, /) -> None:
        """Show how a trial ended."""
        course = self._courses.setdefault(trial.number, _Course())
        if course.end is not None:
            return
        course.end, course.ended = trial.end, ending(trial)
        detail = f": {self._reason(trial)}" if trial.detail else ""
        style = "bold" if trial.counts else "red"
        self.console.print(Text(f"trial {trial.number} ended after {trial.steps} steps: {course.ended}{detail}", style))

    def _reason(self, trial: Trial) -> str:
        """Return why a trial ended, once; after that, for which trial it was told."""
        first = self._reasons.setdefault(gist(trial.detail), trial.number)
        return _cut(unnamed(trial.detail), REASON_SHOWN) if first == trial.number else f"as trial {first}"

    @property
    def usage(self) -> Usage:
        """What all trials consumed so far."""
        return sum((course.usage for course in self._courses.values()), Usage())

    def _print_step(self, trial: int, number: int, step: Step, course: _Course) -> None:
        belief = step.belief
        self.console.print(Text(f"trial {trial}, step {number} of {self.steps}: {_action(step.action)}", style="cyan"))
        lines = moves(course.predictions, belief.predictions, self.question.shape)
        hidden = len(lines) - TARGETS_SHOWN
        for line in lines[:TARGETS_SHOWN]:
            indented(self.console, line)
        if hidden > 0:
            indented(self.console, f"and {hidden} targets more")
        if belief.reason and belief.reason != course.reason:
            indented(self.console, f"why: {_cut(belief.reason, REASON_SHOWN)}")
        for remark in step.remarks:
            indented(self.console, _cut(remark, REASON_SHOWN), style="yellow")
        if cost := cost_of(step.usage):
            indented(self.console, f"{cost}; so far {_spent(self.usage + step.usage)}", style="dim")

    def _standing(self) -> Group:
        titles = [title for title in TITLES if title != "tokens" or self.console.width >= NARROW]
        grid = Table(box=None, pad_edge=False, header_style="bold")
        for title in titles:
            grid.add_column(
                title,
                justify="right" if title in NUMBERS else "left",
                no_wrap=True,
                overflow="ellipsis",
                # Where there is no room for all, these share what the narrow columns leave.
                ratio=1 if title in SHRINKING else None,
            )
        for trial in range(1, max([self.trials, *self._courses]) + 1):
            row = self._row(trial, self._courses.get(trial, _Course()))
            grid.add_row(*(Text(row[title]) for title in titles))
        endless = self.console.options.update(max_width=ENDLESS)
        grid.expand = Measurement.get(self.console, endless, grid).maximum > self.console.width
        return Group(Text(""), grid, Text(f"so far {_spent(self.usage)}"))

    def _row(self, trial: int, course: _Course) -> Mapping[str, str]:
        usage, predictions = course.usage, course.predictions
        return {
            "trial": str(trial),
            "step": f"{course.number}/{self.steps}",
            "did last": course.ended or course.doing or "begins",
            "believes": "-" if predictions is None else self._belief(predictions),
            "tokens": f"{usage.tokens_in + usage.tokens_out:,}",
            "USD": f"{usage.cost_usd:.4f}",
        }

    def _belief(self, predictions: Mapping[str, Prediction]) -> str:
        shape = self.question.shape
        if isinstance(shape, CurveShape):
            return words(next(iter(predictions.values())), shape)
        return in_short(predictions, partial(shown, shape=shape))


def _spent(usage: Usage) -> str:
    return f"{usage.cost_usd:.4f} USD, {usage.tokens_in + usage.tokens_out:,} tokens"


def _action(action: Action) -> str:
    told = (f"{name}={_cut(argument(value), ARGUMENT_SHOWN)}" for name, value in action.arguments.items() if value)
    return _cut(f"{action.name}({', '.join(told)})" if action.arguments else action.name, 3 * ARGUMENT_SHOWN)


def _cut(text: str, length: int) -> str:
    # What cannot be seen has no width, and would cost the end of a line.
    flat = plain(" ".join(text.split()))
    return flat if len(flat) <= length else f"{flat[:length].rstrip()} ..."
