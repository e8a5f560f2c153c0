"""Failed trials in one line, and the exit code that shows them: for the commands run, status and doctor."""

from collections.abc import Iterator
from datetime import timedelta

from bot.cli.command_exit import ExitCode
from bot.core.forecasts import TrialEnd
from bot.forecasting.failures import describe_failures, failure_reason
from bot.store.forecast_queries import RecentFailures

# What status and doctor look back on.
RECENT_PERIOD = timedelta(days=1)
# Fewer trials that all ended alike may be chance.
MIN_STEP_LIMIT_TRIALS = 5


def failures_summary(found: RecentFailures) -> str:
    """Return how many trials failed and why, and what that cost, in one line; "" where nothing went wrong."""
    costs = (
        (found.postponed_questions, "question has no forecast", "questions have no forecast"),
        (found.incomplete_forecasts, "forecast was made of fewer trials", "forecasts were made of fewer trials"),
    )
    told = [describe_failures(map(failure_reason, found.trials))]
    told += [f"{count} {one if count == 1 else many}" for count, one, many in costs if count]
    return "; ".join(filter(None, told))


def failures_exit_code(found: RecentFailures) -> ExitCode:
    """Return the code that a command ends with which has nothing worse to say."""
    if found.postponed_questions:
        return ExitCode.UNAVAILABLE
    return ExitCode.TRIALS_FAILED if found.trials else ExitCode.DONE


def step_limit_warnings(found: RecentFailures) -> Iterator[str]:
    """Yield a line for each forecaster of whose trials none ended before its limit of steps."""
    for forecaster, ends in sorted(found.ends.items()):
        count = ends.get(TrialEnd.STEP_LIMIT, 0)
        if count >= MIN_STEP_LIMIT_TRIALS and count == sum(ends.values()):
            yield f"all {count} trials of {forecaster} ended at their limit of steps, none by submitting"
