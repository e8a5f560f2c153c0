"""Trials as text: actions, evidence and ends of trials, and a summary of failed trials with its exit code."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

from bot.cli.command_exit import ExitCode
from bot.core.beliefs import Evidence, StepAction
from bot.core.errors import strip_error_type
from bot.core.forecasts import Trial, TrialEnd
from bot.core.values import Json
from bot.evaluation.value_text import format_argument, truncate_text
from bot.forecasting.failures import describe_failures, failure_pattern, failure_reason, is_budget_failure
from bot.store.forecast_queries import RecentFailures

# The period that status and doctor report.
RECENT_PERIOD = timedelta(days=1)
# That fewer trials all ended in the same way may be chance.
MIN_STEP_LIMIT_TRIALS = 5


def trial_end_text(trial: Trial) -> str:
    """Return the end of a trial in one word."""
    return "budget" if is_budget_failure(trial.detail) else str(trial.end)


def trial_end_reasons(trials: Iterable[Trial]) -> list[str]:
    """Return a line for each distinct reason, with the trials that it ended."""
    by_pattern: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.detail:
            by_pattern.setdefault(failure_pattern(trial.detail), []).append(trial)
    return [f"{_trial_numbers(group)}: {strip_error_type(group[0].detail)}" for group in by_pattern.values()]


def _trial_numbers(trials: Sequence[Trial]) -> str:
    return f"{'trial' if len(trials) == 1 else 'trials'} {', '.join(str(one.number) for one in trials)}"


def format_action(action: StepAction, *, argument_chars: int | None) -> str:
    """Return an action with its arguments, each shortened to so many characters; None shortens nothing."""
    if not action.arguments:
        return action.name
    arguments = (f"{name}={_argument_text(value, argument_chars)}" for name, value in action.arguments.items())
    return f"{action.name}({', '.join(arguments)})"


def _argument_text(value: Json, chars: int | None) -> str:
    text = format_argument(value)
    return text if chars is None else truncate_text(text, chars)


def format_evidence(evidence: Evidence, *, address: str = "", remark: str = "") -> str:
    """Return a piece of evidence with its weight, its source and the address of the source, if known."""
    weight = "" if evidence.log_odds is None else f"{evidence.log_odds:+.2f} log-odds: "
    place = f"{evidence.source} {address}" if address else evidence.source
    return f"{weight}{evidence.text}{f' [{place}]' if place else ''}{remark}"


def failures_summary(found: RecentFailures) -> str:
    """Return how many trials failed, why and with what effect, in one line; "" if none failed."""
    effects = (
        (found.postponed_questions, "question has no forecast", "questions have no forecast"),
        (found.incomplete_forecasts, "forecast was made of fewer trials", "forecasts were made of fewer trials"),
    )
    parts = [describe_failures(map(failure_reason, found.trials))]
    parts += [f"{count} {one if count == 1 else many}" for count, one, many in effects if count]
    return "; ".join(filter(None, parts))


def failures_exit_code(found: RecentFailures) -> ExitCode:
    """Return the exit code of a command that has nothing worse to report."""
    if found.postponed_questions:
        return ExitCode.UNAVAILABLE
    return ExitCode.TRIALS_FAILED if found.trials else ExitCode.DONE


def step_limit_warnings(found: RecentFailures) -> Iterator[str]:
    """Yield a line for each forecaster whose trials all ended at the step limit."""
    for forecaster, ends in sorted(found.ends.items()):
        count = ends.get(TrialEnd.STEP_LIMIT, 0)
        if count >= MIN_STEP_LIMIT_TRIALS and count == sum(ends.values()):
            yield f"all {count} trials of {forecaster} ended at the step limit, none by submitting"
