"""What an orchestra did, move by move, with the report of its run."""

from __future__ import annotations

import json
from collections.abc import Sequence

from bot.api import Step, TranscriptEntry, TrialTranscript
from plugins.orchestra.forecaster import REPORT_HEADING
from plugins.orchestra.subagent_pool import ORCHESTRATOR

LINE_CHARS = 300


def tell_orchestra(steps: Sequence[Step]) -> TrialTranscript:
    """Return who made which move, how each subagent ended, and the report of the run."""
    entries, report = [], ""
    for number, step in enumerate(steps, 1):
        text, heading, reported = step.observation.text.partition(REPORT_HEADING)
        report = heading + reported or report
        entries.append(_move_entry(number, step, text))
    return TrialTranscript(entries=tuple(entries), report=report)


def _move_entry(number: int, step: Step, text: str) -> TranscriptEntry:
    arguments = dict(step.action.arguments)
    who = str(arguments.pop("agent", ORCHESTRATOR))
    given = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
    return TranscriptEntry(
        title=_shorten_line(f"{number}. {who}: {step.action.name}({given})"),
        detail=text.strip(),
        speaker=who,
        remarks=tuple(map(_shorten_line, step.remarks)),
    )


def _shorten_line(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= LINE_CHARS else f"{flat[:LINE_CHARS]} ..."
