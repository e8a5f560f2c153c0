"""What a replay came to: the same, or where it first departs from the record and what that means."""

import json
from functools import partial
from typing import Any

from rich.console import Console
from rich.text import Text

from bot.cli.output.beliefs import in_order, shown
from bot.cli.output.console import indented
from bot.cli.output.figures import in_short
from bot.domain.step import Json
from bot.lab.replay import Discrepancy, Replayed, ReplayedTrial
from bot.store.codec import PREDICTIONS
from bot.store.forecasts import Trace

SHOWN = 300
BEFORE = 60
# Which version made a forecast is not on record.
OR = "changed since, or another version of Foxcast made it"
CHANGED = f"The forecaster, its settings, its prompts or the seed {OR}: the record lacks what is asked now"
PROMPTS = f"The forecaster works with other texts now: its prompts, or what the tools say, {OR}"
CODE = f"The forecaster makes something else of the same record now: it, its settings or the seed {OR}"
POOL = "The trials are as on record, so they are pooled in another way now; see aggregate in [forecasters]"


def print_replayed(console: Console, trace: Trace, again: Replayed) -> None:
    """Print it for a person."""
    each = partial(shown, shape=trace.question.shape)
    name = f"forecast {trace.id} of {trace.question.ref}"
    trials = _counted(len(again.trials), "trial")
    verdict = "identical" if again.identical else "not identical"
    console.print(Text(f"{name}: {verdict} ({trials}, {_counted(again.steps, 'step')} made again)", style="bold"))
    for trial in again.trials:
        _print_trial(console, trial)
    if again.raw is None:
        console.print("aggregate: none, because no step could be made again")
    elif again.aggregate is not None:
        console.print(f"aggregate of what was made again: {in_short(again.raw, each)}")
        _print_discrepancy(console, again.aggregate)
    else:
        console.print(f"aggregate: {in_short(again.raw, each)}, as on record")
    if (meaning := meaning_of(again)) is not None:
        console.print(f"{meaning}.")


def meaning_of(again: Replayed) -> str | None:
    """Say what the first difference tells of what changed; None where there is none."""
    first = next((trial.discrepancy for trial in again.trials if trial.discrepancy is not None), None)
    if first is None:
        return None if again.aggregate is None else POOL
    if first.missing:
        return f"{CHANGED} ({first.missing})"
    return PROMPTS if first.part.startswith("observation.documents") else CODE


def as_plain(trace: Trace, again: Replayed) -> dict[str, Any]:
    """Return it as JSON values."""
    return {
        "forecast": trace.id,
        "identical": again.identical,
        "steps": again.steps,
        "trials": [
            {
                "number": trial.number,
                "recorded_steps": trial.recorded,
                "replayed_steps": trial.replayed,
                "agreed_steps": trial.agreed,
                "difference": _plain(trial.discrepancy),
            }
            for trial in again.trials
        ],
        "raw": None if again.raw is None else in_order(PREDICTIONS.plain(again.raw), trace.question.shape),
        "aggregate_difference": _plain(again.aggregate),
        "meaning": meaning_of(again),
    }


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _print_trial(console: Console, trial: ReplayedTrial) -> None:
    if trial.discrepancy is None:
        console.print(f"trial {trial.number}: {_counted(trial.recorded, 'step')}, as on record")
        return
    console.print(
        f"trial {trial.number}: {_counted(trial.recorded, 'step')} on record, {trial.replayed} now, "
        f"the first {trial.agreed} alike; it differs"
    )
    _print_discrepancy(console, trial.discrepancy)


def _print_discrepancy(console: Console, found: Discrepancy) -> None:
    where = "at the end" if found.step is None else f"in step {found.step}"
    indented(console, f"first {where}, {found.part or 'all of it'}", by=2)
    recorded, replayed = _text(found.recorded), _text(found.replayed)
    pairs = enumerate(zip(recorded, replayed, strict=False))
    shared = next((place for place, (known, again) in pairs if known != again), min(len(recorded), len(replayed)))
    indented(console, f"on record: {_shown(recorded, shared)}", by=4, style="dim")
    indented(console, f"now:       {_shown(replayed, shared)}", by=4)


def _text(value: Json) -> str:
    if value is None:
        return "nothing"
    return " ".join((value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).split())


def _shown(text: str, shared: int) -> str:
    """Cut a text around the place where it begins to differ."""
    start = max(0, shared - BEFORE) if len(text) > SHOWN else 0
    cut = text[start : start + SHOWN]
    return f"{'... ' if start else ''}{cut}{' ...' if start + SHOWN < len(text) else ''}"


def _plain(found: Discrepancy | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "step": found.step,
        "part": found.part,
        "recorded": found.recorded,
        "replayed": found.replayed,
        "missing": found.missing or None,
    }
