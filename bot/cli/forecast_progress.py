"""A forecast while it is made.

A line or two for each step, a live table of the trials on a terminal, and how each trial ended.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from rich.console import Console, Group
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from bot.cli.output.console import print_indented
from bot.cli.output.formatting import (
    describe_changes,
    describe_prediction,
    describe_prediction_short,
    format_argument,
    format_predictions_short,
    format_usage,
)
from bot.core.beliefs import ModelUsage, Step, StepAction
from bot.core.errors import strip_error_type
from bot.core.forecasts import Trial, TrialEnd
from bot.core.plain_text import replace_invisible
from bot.core.predictions import CurveShape, Prediction
from bot.core.questions import Question
from bot.forecasting.failures import failure_pattern, is_budget_failure
from bot.store.trials import TrialRecord


def trial_end_text(trial: Trial) -> str:
    """Return in a word how a trial ended."""
    return "budget" if is_budget_failure(trial.detail) else str(trial.end)


def trial_end_reasons(trials: Iterable[Trial]) -> list[str]:
    """Return a line for each distinct reason, with the trials that it ended."""
    alike: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.detail:
            alike.setdefault(failure_pattern(trial.detail), []).append(trial)
    return [f"{_trial_numbers(those)}: {strip_error_type(those[0].detail)}" for those in alike.values()]


def _trial_numbers(trials: Sequence[Trial]) -> str:
    return f"{'trial' if len(trials) == 1 else 'trials'} {', '.join(str(one.number) for one in trials)}"


ARGUMENT_CHARS_SHOWN = 80


REASON_CHARS_SHOWN = 300


MAX_TARGETS_SHOWN = 8


REFRESHES_PER_SECOND = 4.0


# Below so many columns there is no room for tokens.
MIN_WIDTH_FOR_TOKENS = 70


UNLIMITED_WIDTH = 10_000


PROGRESS_COLUMNS = ("trial", "step", "did last", "believes", "tokens", "USD")


NUMBER_COLUMNS = frozenset({"step", "tokens", "USD"})


FLEXIBLE_COLUMNS = frozenset({"did last", "believes"})


@dataclass(slots=True)
class _TrialProgress:
    """One trial as far as it was seen."""

    number: int = 0
    doing: str = ""
    predictions: Mapping[str, Prediction] | None = None
    reason: str = ""
    usage: ModelUsage = field(default_factory=ModelUsage)
    end: TrialEnd | None = None
    end_text: str = ""


@dataclass(slots=True)
class ForecastView:
    """Shows steps and ends of trials as they come, each once; told the same again it shows nothing.

    ``steps`` is how many a trial may have. Without ``live`` nothing is kept below the steps: a person is asked on this
    terminal. It is a ``bot.forecasting.forecast_run.ForecastObserver``.
    """

    console: Console
    question: Question
    trials: int
    steps: int
    live: bool = True
    _courses: dict[int, _TrialProgress] = field(default_factory=dict)
    _status: str = ""
    _reasons: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def live_display(self) -> Iterator[None]:
        """On a terminal, keep the standing of all trials below the steps while the block runs; nothing of it stays."""
        if not (self.live and self.console.is_terminal):
            yield
            return
        live = Live(
            get_renderable=self._standing,
            console=self.console,
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
            # What is logged to the same terminal is printed above the table; to a file it goes as ever.
            redirect_stderr=sys.stderr.isatty(),
        )
        with live:
            yield

    def print_status(self, status: str) -> None:
        """Tell what is being waited for."""
        if status != self._status:
            self._status = status
            self.console.print(Text(status, style="dim"))

    def show_recorded(self, records: Sequence[TrialRecord]) -> None:
        """Show what is on record of trials and was not shown yet."""
        for record in records:
            for logged in record.steps:
                self.on_step(record.number, logged.number, logged.step)
            if record.trial is not None:
                self.on_trial_end(record.trial)

    def on_step(self, trial: int, number: int, step: Step, /) -> None:
        """Show a step: what was done, how the belief moved and why, and what that cost so far."""
        course = self._courses.setdefault(trial, _TrialProgress())
        if number <= course.number:
            return
        self._print_step(trial, number, step, course)
        course.number = number
        course.doing = _action_text(step.action)
        course.predictions = step.belief.predictions
        course.reason = step.belief.reason
        course.usage += step.usage

    def on_trial_end(self, trial: Trial, /) -> None:
        """Show how a trial ended."""
        course = self._courses.setdefault(trial.number, _TrialProgress())
        if course.end is not None:
            return
        course.end, course.end_text = trial.end, trial_end_text(trial)
        detail = f": {self._reason(trial)}" if trial.detail else ""
        style = "bold" if trial.is_answer else "red"
        self.console.print(
            Text(f"trial {trial.number} ended after {trial.steps} steps: {course.end_text}{detail}", style)
        )

    def _reason(self, trial: Trial) -> str:
        """Return why a trial ended, once; after that, for which trial it was told."""
        first = self._reasons.setdefault(failure_pattern(trial.detail), trial.number)
        return (
            _truncate(strip_error_type(trial.detail), REASON_CHARS_SHOWN)
            if first == trial.number
            else f"as trial {first}"
        )

    @property
    def usage(self) -> ModelUsage:
        """What all trials consumed so far."""
        return sum((course.usage for course in self._courses.values()), ModelUsage())

    def _print_step(self, trial: int, number: int, step: Step, course: _TrialProgress) -> None:
        belief = step.belief
        self.console.print(
            Text(f"trial {trial}, step {number} of {self.steps}: {_action_text(step.action)}", style="cyan")
        )
        lines = describe_changes(course.predictions, belief.predictions, self.question.shape)
        hidden = len(lines) - MAX_TARGETS_SHOWN
        for line in lines[:MAX_TARGETS_SHOWN]:
            print_indented(self.console, line)
        if hidden > 0:
            print_indented(self.console, f"and {hidden} targets more")
        if belief.reason and belief.reason != course.reason:
            print_indented(self.console, f"why: {_truncate(belief.reason, REASON_CHARS_SHOWN)}")
        for remark in step.remarks:
            print_indented(self.console, _truncate(remark, REASON_CHARS_SHOWN), style="yellow")
        if cost := format_usage(step.usage):
            print_indented(self.console, f"{cost}; so far {_usage_text(self.usage + step.usage)}", style="dim")

    def _standing(self) -> Group:
        titles = [
            title for title in PROGRESS_COLUMNS if title != "tokens" or self.console.width >= MIN_WIDTH_FOR_TOKENS
        ]
        grid = Table(box=None, pad_edge=False, header_style="bold")
        for title in titles:
            grid.add_column(
                title,
                justify="right" if title in NUMBER_COLUMNS else "left",
                no_wrap=True,
                overflow="ellipsis",
                # Where there is no room for all, these share what the narrow columns leave.
                ratio=1 if title in FLEXIBLE_COLUMNS else None,
            )
        for trial in range(1, max([self.trials, *self._courses]) + 1):
            row = self._row(trial, self._courses.get(trial, _TrialProgress()))
            grid.add_row(*(Text(row[title]) for title in titles))
        endless = self.console.options.update(max_width=UNLIMITED_WIDTH)
        grid.expand = Measurement.get(self.console, endless, grid).maximum > self.console.width
        return Group(Text(""), grid, Text(f"so far {_usage_text(self.usage)}"))

    def _row(self, trial: int, course: _TrialProgress) -> Mapping[str, str]:
        usage, predictions = course.usage, course.predictions
        return {
            "trial": str(trial),
            "step": f"{course.number}/{self.steps}",
            "did last": course.end_text or course.doing or "begins",
            "believes": "-" if predictions is None else self._belief(predictions),
            "tokens": f"{usage.tokens_in + usage.tokens_out:,}",
            "USD": f"{usage.cost_usd:.4f}",
        }

    def _belief(self, predictions: Mapping[str, Prediction]) -> str:
        shape = self.question.shape
        if isinstance(shape, CurveShape):
            return describe_prediction(next(iter(predictions.values())), shape)
        return format_predictions_short(predictions, partial(describe_prediction_short, shape=shape))


def _usage_text(usage: ModelUsage) -> str:
    return f"{usage.cost_usd:.4f} USD, {usage.tokens_in + usage.tokens_out:,} tokens"


def _action_text(action: StepAction) -> str:
    told = (
        f"{name}={_truncate(format_argument(value), ARGUMENT_CHARS_SHOWN)}"
        for name, value in action.arguments.items()
        if value
    )
    return _truncate(f"{action.name}({', '.join(told)})" if action.arguments else action.name, 3 * ARGUMENT_CHARS_SHOWN)


def _truncate(text: str, length: int) -> str:
    # What cannot be seen has no width, and would cost the end of a line.
    flat = replace_invisible(" ".join(text.split()))
    return flat if len(flat) <= length else f"{flat[:length].rstrip()} ..."
