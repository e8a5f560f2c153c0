"""Failures: errors and failed trials described without secrets, timeouts for foreign code, and daily warnings."""

import asyncio
import re
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import field
from datetime import date, datetime
from pathlib import PurePath
from typing import Any

import structlog

from bot.core.errors import (
    BudgetExhaustedError,
    FoxcastError,
    MalformedDataError,
    ServiceUnavailableError,
    strip_error_type,
)
from bot.core.forecasts import LIMIT_ENDS, Trial
from bot.core.light_dataclass import dataclass
from bot.forecasting.untrusted_text import clean_text

log = structlog.get_logger(__name__)


# Few services fail for few reasons; if there are more, they must not fill the memory.
_MOST_REMEMBERED = 1000


# The answer of a server may be part of an error.
TEXT_CHARS = 500


def describe_error(error: BaseException) -> str:
    """Return an error in a line of bounded length that may be logged: our errors with their text, others without.

    The text of a library may hold secrets, for instance a key in an address; for such an error only its type and the
    line that raised it are shown.
    """
    if not isinstance(error, FoxcastError):
        return describe_foreign_error(error)
    text = " ".join(str(error).split())
    name = type(error).__name__
    return f"{name}: {clean_text(text, TEXT_CHARS)}" if text else name


@dataclass(slots=True)
class DailyWarnings:
    """The warnings of today: the event, the service, and the kind of failure."""

    _day: date | None = None
    _logged: set[tuple[str, str, str]] = field(default_factory=set)

    def warn_once(self, event: str, *, who: str, why: FoxcastError, now: datetime) -> None:
        """Log a warning unless it was logged today; two failures are the same if their errors are of one class."""
        if self._day != now.date():
            self._day = now.date()
            self._logged.clear()
        key = (event, who, type(why).__name__)
        if key in self._logged or len(self._logged) >= _MOST_REMEMBERED:
            return
        self._logged.add(key)
        log.warning(event, who=who, why=describe_error(why))


# Further reasons are counted but not listed: all of it is one line.
REASONS_SHOWN = 5


REASON_CHARS = 400


# Parts that differ between equal reasons: the question, identifiers of requests, amounts and times.
_VARYING = re.compile(r", for \S+:|\breq_\w+|\b[0-9a-f]{8}[0-9a-f-]{8,}|\d+(?:[.,]\d+)*")


def is_budget_failure(detail: str) -> bool:
    """Say whether a limit on spending ended a trial."""
    return detail.startswith(f"{BudgetExhaustedError.__name__}: ")


def failure_pattern(detail: str) -> str:
    """Return the part that equal reasons share."""
    return _VARYING.sub("#", detail)


def failure_reason(trial: Trial) -> str:
    """Return why a trial does not count, without the class of the error."""
    why = strip_error_type(trial.detail)
    if trial.end not in LIMIT_ENDS:
        return why or str(trial.end)
    cut = f"ended at its {trial.end} before it stated a belief on evidence"
    return f"{cut}: {why}" if why else cut


def describe_failures(reasons: Iterable[str]) -> str:
    """Return one line for trials that failed for these reasons, the most frequent first; "" if there are none."""
    alike: dict[str, list[str]] = {}
    for reason in reasons:
        alike.setdefault(failure_pattern(reason), []).append(reason)
    ranked = sorted(alike.values(), key=len, reverse=True)
    total = sum(map(len, ranked))
    if not total:
        return ""
    head = "1 trial failed" if total == 1 else f"{total} trials failed"
    if len(ranked) == 1:
        return f"{head}: {_shorten_reason(ranked[0][0])}"
    parts = [f"{len(those)} {_shorten_reason(those[0])}" for those in ranked[:REASONS_SHOWN]]
    if rest := sum(map(len, ranked[REASONS_SHOWN:])):
        parts.append(f"{rest} for other reasons")
    return f"{head}: {'; '.join(parts)}"


def explain_too_few_trials(trials: Sequence[Trial], *, wanted: int) -> str:
    """Return in one line why trials make no forecast: how many of those wanted count, and why the others do not."""
    counting = sum(trial.is_answer for trial in trials)
    failed = describe_failures(failure_reason(trial) for trial in trials if not trial.is_answer) or "there is no trial"
    return f"only {counting} of {wanted} trials count; {failed}" if counting else failed


def _shorten_reason(reason: str) -> str:
    line = " ".join(reason.split())
    return line if len(line) <= REASON_CHARS else f"{line[: REASON_CHARS - 1]}…"


async def run_with_timeout(seconds: float, who: str, work: Awaitable[Any]) -> Any:  # noqa: ANN401 - the JSON edge
    """Await foreign work for at most this time; every failure is raised as an error of ``bot.core.errors``.

    Raises ServiceUnavailableError when the time is over, and MalformedDataError for an error that the interface does
    not allow. That one names only the type and where it was raised: its text may hold a key, for instance in a header,
    and these messages are recorded for good.
    """
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        message = f"{who} did not answer within {seconds:g} s"
        raise ServiceUnavailableError(message) from error
    except FoxcastError:
        raise
    except Exception as error:  # noqa: BLE001 - foreign code: all its errors become our errors
        message = f"{who} failed: {describe_foreign_error(error)}"
        # Without its cause, which a log with a traceback would show.
        raise MalformedDataError(message) from None


def describe_foreign_error(error: BaseException) -> str:
    """Return the type of a foreign error and the line that raised it, without its text."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" ({PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})"
    return f"{type(error).__name__}{where}"
