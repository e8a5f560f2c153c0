"""How trials ended, in words: what a budget cut off is told as that, and the same reason is told once."""

from collections.abc import Iterable, Sequence

from bot.domain.forecast import Trial, TrialEnd
from bot.errors import unnamed

# What the gateway to models says of a call that a limit on spending does not allow, after the model and the question.
_REJECTED, _OF_A_BUDGET = "Rejected: ", " does not allow the call: it may cost "


def is_budget(detail: str) -> bool:
    """Say whether it was a limit on spending that ended a trial."""
    return detail.startswith(_REJECTED) and _OF_A_BUDGET in detail


def ending(trial: Trial) -> str:
    """Return in a word how a trial ended."""
    return "budget" if trial.end is TrialEnd.FAILED and is_budget(trial.detail) else str(trial.end)


def gist(detail: str) -> str:
    """Return what is the same in reasons that are the same: what a budget has left changes from call to call."""
    return detail.rpartition("; raise ")[2] if is_budget(detail) else detail


def reasons(trials: Iterable[Trial]) -> list[str]:
    """Return a line for each distinct reason, with the trials that it ended."""
    alike: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.detail:
            alike.setdefault(gist(trial.detail), []).append(trial)
    return [f"{_numbers(those)}: {unnamed(those[0].detail)}" for those in alike.values()]


def _numbers(trials: Sequence[Trial]) -> str:
    return f"{'trial' if len(trials) == 1 else 'trials'} {', '.join(str(one.number) for one in trials)}"
