"""Progress of a running forecast: lines for each step and each end of a trial, and a live table on a terminal."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial

from rich.console import Console, Group
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from bot.cli.output.console import print_indented
from bot.cli.output.trial_text import format_action, trial_end_text
from bot.core.beliefs import ModelUsage, Step, StepAction
from bot.core.errors import strip_error_type
from bot.core.forecasts import Trial, TrialEnd
from bot.core.light_dataclass import dataclass
from bot.core.predictions import CurveShape, Prediction
from bot.core.questions import Question
from bot.evaluation.value_text import (
    describe_changes,
    describe_prediction,
    describe_prediction_short,
    format_predictions_short,
    format_usage,
    truncate_text,
)
from bot.forecasting.failures import failure_pattern
from bot.store.trials import TrialRecord

ARGUMENT_CHARS_SHOWN = 80


REASON_CHARS_SHOWN = 300


MAX_TARGETS_SHOWN = 8


REFRESHES_PER_SECOND = 4.0


# A narrower terminal has no room for tokens.
MIN_WIDTH_FOR_TOKENS = 70


UNLIMITED_WIDTH = 10_000


PROGRESS_COLUMNS = ("trial", "step", "action", "belief", "tokens", "USD")


NUMBER_COLUMNS = frozenset({"step", "tokens", "USD"})


FLEXIBLE_COLUMNS = frozenset({"action", "belief"})


@dataclass(slots=True)
class _TrialProgress:
    """The progress of one trial."""

    number: int = 0
    action: str = ""
    predictions: Mapping[str, Prediction] | None = None
    reason: str = ""
    usage: ModelUsage = field(default_factory=ModelUsage)
    end: TrialEnd | None = None
    end_text: str = ""


@dataclass(slots=True)
class ForecastView:
    """Shows steps and ends of trials as they happen, each once; repeated calls show nothing.

    ``steps`` is the step limit of a trial. Without ``live`` there is no table below the steps, because a person is
    asked on this terminal. It is a ``bot.forecasting.forecast_run.ForecastObserver``.
    """

    console: Console
    question: Question
    trials: int
    steps: int
    live: bool = True
    _progress: dict[int, _TrialProgress] = field(default_factory=dict)
    _status: str = ""
    _reasons: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def live_display(self) -> Iterator[None]:
        """On a terminal, show a table of all trials below the steps while the block runs; it is removed at the end."""
        if not (self.live and self.console.is_terminal):
            yield
            return
        live = Live(
            get_renderable=self._render_table,
            console=self.console,
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
            # Log lines on the same terminal are printed above the table; a redirected stderr is left alone.
            redirect_stderr=sys.stderr.isatty(),
        )
        with live:
            yield

    @property
    def moves(self) -> int:
        """How many steps and ends of trials were shown."""
        return sum(progress.number + (progress.end is not None) for progress in self._progress.values())

    def print_status(self, status: str) -> None:
        """Print what the forecast is waiting for."""
        if status != self._status:
            self._status = status
            self.console.print(Text(status, style="dim"))

    def show_recorded(self, records: Sequence[TrialRecord]) -> None:
        """Show recorded steps and ends of trials that were not shown yet."""
        for record in records:
            for logged in record.steps:
                self.on_step(record.number, logged.number, logged.step)
            if record.trial is not None:
                self.on_trial_end(record.trial)

    def on_step(self, trial: int, number: int, step: Step, /) -> None:
        """Show a step: the action, how the belief moved and why, and the cost so far."""
        progress = self._progress.setdefault(trial, _TrialProgress())
        if number <= progress.number:
            return
        self._print_step(trial, number, step, progress)
        progress.number = number
        progress.action = _action_text(step.action)
        progress.predictions = step.belief.predictions
        progress.reason = step.belief.reason
        progress.usage += step.usage

    def on_trial_end(self, trial: Trial, /) -> None:
        """Show how a trial ended."""
        progress = self._progress.setdefault(trial.number, _TrialProgress())
        if progress.end is not None:
            return
        progress.end, progress.end_text = trial.end, trial_end_text(trial)
        detail = f": {self._describe_reason(trial)}" if trial.detail else ""
        style = "bold" if trial.is_answer else "red"
        self.console.print(
            Text(f"trial {trial.number} ended after {trial.steps} steps: {progress.end_text}{detail}", style)
        )

    def _describe_reason(self, trial: Trial) -> str:
        """Return why a trial ended, once for each reason; after that, the trial that gave the same reason."""
        first = self._reasons.setdefault(failure_pattern(trial.detail), trial.number)
        return (
            truncate_text(strip_error_type(trial.detail), REASON_CHARS_SHOWN)
            if first == trial.number
            else f"same as trial {first}"
        )

    @property
    def usage(self) -> ModelUsage:
        """Usage of all trials so far."""
        return sum((progress.usage for progress in self._progress.values()), ModelUsage())

    def _print_step(self, trial: int, number: int, step: Step, progress: _TrialProgress) -> None:
        belief = step.belief
        self.console.print(
            Text(f"trial {trial}, step {number} of {self.steps}: {_action_text(step.action)}", style="cyan")
        )
        lines = describe_changes(progress.predictions, belief.predictions, self.question.shape)
        hidden = len(lines) - MAX_TARGETS_SHOWN
        for line in lines[:MAX_TARGETS_SHOWN]:
            print_indented(self.console, line)
        if hidden > 0:
            print_indented(self.console, f"and {hidden} more targets")
        if belief.reason and belief.reason != progress.reason:
            print_indented(self.console, f"why: {truncate_text(belief.reason, REASON_CHARS_SHOWN)}")
        for remark in step.remarks:
            print_indented(self.console, truncate_text(remark, REASON_CHARS_SHOWN), style="yellow")
        if cost := format_usage(step.usage):
            print_indented(self.console, f"{cost}; so far {_usage_text(self.usage + step.usage)}", style="dim")

    def _render_table(self) -> Group:
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
                # On a narrow terminal these columns share the remaining width.
                ratio=1 if title in FLEXIBLE_COLUMNS else None,
            )
        for trial in range(1, max([self.trials, *self._progress]) + 1):
            row = self._make_row(trial, self._progress.get(trial, _TrialProgress()))
            grid.add_row(*(Text(row[title]) for title in titles))
        unlimited = self.console.options.update(max_width=UNLIMITED_WIDTH)
        grid.expand = Measurement.get(self.console, unlimited, grid).maximum > self.console.width
        return Group(Text(""), grid, Text(f"so far {_usage_text(self.usage)}"))

    def _make_row(self, trial: int, progress: _TrialProgress) -> Mapping[str, str]:
        usage, predictions = progress.usage, progress.predictions
        return {
            "trial": str(trial),
            "step": f"{progress.number}/{self.steps}",
            "action": progress.end_text or progress.action or "starting",
            "belief": "-" if predictions is None else self._describe_belief(predictions),
            "tokens": f"{usage.tokens_in + usage.tokens_out:,}",
            "USD": f"{usage.cost_usd:.4f}",
        }

    def _describe_belief(self, predictions: Mapping[str, Prediction]) -> str:
        shape = self.question.shape
        if isinstance(shape, CurveShape):
            return describe_prediction(next(iter(predictions.values())), shape)
        return format_predictions_short(predictions, partial(describe_prediction_short, shape=shape))


def _usage_text(usage: ModelUsage) -> str:
    return f"{usage.cost_usd:.4f} USD, {usage.tokens_in + usage.tokens_out:,} tokens"


def _action_text(action: StepAction) -> str:
    set_arguments = {name: value for name, value in action.arguments.items() if value}
    text = format_action(replace(action, arguments=set_arguments), argument_chars=ARGUMENT_CHARS_SHOWN)
    return truncate_text(text, 3 * ARGUMENT_CHARS_SHOWN)
