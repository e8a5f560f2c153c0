"""How trials ended, in words: what a budget cut off is told as that, and the same reason is told once."""

from collections.abc import Iterable

from bot.domain.forecast import Trial, TrialEnd

# What the gateway to models says of a call that a limit on spending does not allow.
_OF_A_BUDGET = "Rejected: the budget "


def is_budget(detail: str) -> bool:
    """Say whether it was a limit on spending that ended a trial."""
    return detail.startswith(_OF_A_BUDGET)


def ending(trial: Trial) -> str:
    """Return in a word how a trial ended."""
    return "budget" if trial.end is TrialEnd.FAILED and is_budget(trial.detail) else str(trial.end)


def reasons(trials: Iterable[Trial]) -> list[str]:
    """Return a line for each distinct reason, with the trials that it ended."""
    alike: dict[str, list[str]] = {}
    for trial in trials:
        if trial.detail:
            alike.setdefault(trial.detail, []).append(str(trial.number))
    return [
        f"{'trial' if len(numbers) == 1 else 'trials'} {', '.join(numbers)}: {why}" for why, numbers in alike.items()
    ]
