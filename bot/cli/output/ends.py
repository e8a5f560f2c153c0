"""How trials ended, in words: what a budget cut off is told as that, and the same reason is told once."""

from collections.abc import Iterable, Sequence

from bot.desk.failures import gist, is_budget
from bot.domain.forecast import Trial
from bot.errors import unnamed


def ending(trial: Trial) -> str:
    """Return in a word how a trial ended."""
    return "budget" if is_budget(trial.detail) else str(trial.end)


def reasons(trials: Iterable[Trial]) -> list[str]:
    """Return a line for each distinct reason, with the trials that it ended."""
    alike: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.detail:
            alike.setdefault(gist(trial.detail), []).append(trial)
    return [f"{_numbers(those)}: {unnamed(those[0].detail)}" for those in alike.values()]


def _numbers(trials: Sequence[Trial]) -> str:
    return f"{'trial' if len(trials) == 1 else 'trials'} {', '.join(str(one.number) for one in trials)}"
