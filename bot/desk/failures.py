"""Failed trials in words: how many there were and why, the same reason told once."""

import re
from collections.abc import Iterable, Sequence

from bot.domain.forecast import LIMITS, Trial
from bot.errors import BudgetExhausted, unnamed

# Reasons beyond these are counted and not told: all of it is one line.
REASONS_SHOWN = 5
REASON_CHARS = 400
# What differs between reasons that are the same: the question, identifiers of requests, amounts and times.
_VARYING = re.compile(r", for \S+:|\breq_\w+|\b[0-9a-f]{8}[0-9a-f-]{8,}|\d+(?:[.,]\d+)*")


def is_budget(detail: str) -> bool:
    """Say whether it was a limit on spending that ended a trial."""
    return detail.startswith(f"{BudgetExhausted.__name__}: ")


def gist(detail: str) -> str:
    """Return what is the same in reasons that are the same."""
    return _VARYING.sub("#", detail)


def reason_of(trial: Trial) -> str:
    """Return why a trial does not count, without the class of the error."""
    why = unnamed(trial.detail)
    if trial.end not in LIMITS:
        return why or str(trial.end)
    cut = f"ended at its {trial.end} before it stated a belief on evidence"
    return f"{cut}: {why}" if why else cut


def failures_in_words(reasons: Iterable[str]) -> str:
    """Return one line for trials that failed for these reasons, the most frequent first; "" where there are none."""
    alike: dict[str, list[str]] = {}
    for reason in reasons:
        alike.setdefault(gist(reason), []).append(reason)
    ranked = sorted(alike.values(), key=len, reverse=True)
    total = sum(map(len, ranked))
    if not total:
        return ""
    head = "1 trial failed" if total == 1 else f"{total} trials failed"
    if len(ranked) == 1:
        return f"{head}: {_short(ranked[0][0])}"
    told = [f"{len(those)} {_short(those[0])}" for those in ranked[:REASONS_SHOWN]]
    if rest := sum(map(len, ranked[REASONS_SHOWN:])):
        told.append(f"{rest} for other reasons")
    return f"{head}: {'; '.join(told)}"


def why_too_few(trials: Sequence[Trial], *, wanted: int) -> str:
    """Return in one line why trials make no forecast: how many count of those wanted, and why the others do not."""
    counting = sum(trial.counts for trial in trials)
    failed = failures_in_words(reason_of(trial) for trial in trials if not trial.counts) or "there is no trial"
    return f"only {counting} of {wanted} trials count; {failed}" if counting else failed


def _short(reason: str) -> str:
    line = " ".join(reason.split())
    return line if len(line) <= REASON_CHARS else f"{line[: REASON_CHARS - 1]}…"
