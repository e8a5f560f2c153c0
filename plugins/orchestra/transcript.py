"""What an orchestra did, step by step, with the report of its run."""

from __future__ import annotations

import json
from collections.abc import Sequence

from bot.api import Step, TranscriptEntry, TrialTranscript, parsing
from plugins.orchestra.forecaster import REPORT_HEADING
from plugins.orchestra.subagent_pool import ORCHESTRATOR
from plugins.orchestra.subagent_run import MADE_BY

LINE_CHARS = 300


def orchestra_transcript(steps: Sequence[Step]) -> TrialTranscript:
    """Return who did what, how each subagent ended, and the report of the run."""
    entries, report = [], ""
    for number, step in enumerate(steps, 1):
        text, heading, reported = step.observation.text.partition(REPORT_HEADING)
        report = heading + reported or report
        entries.append(_move_entry(number, step, text))
    return TrialTranscript(entries=tuple(entries), report=report)


def _move_entry(number: int, step: Step, text: str) -> TranscriptEntry:
    arguments = dict(step.action.arguments)
    who = str(arguments.pop(MADE_BY, ORCHESTRATOR))
    given = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
    return TranscriptEntry(
        title=parsing.cut_line(f"{number}. {who}: {step.action.name}({given})", LINE_CHARS),
        detail=text.strip(),
        speaker=who,
        remarks=tuple(parsing.cut_line(remark, LINE_CHARS) for remark in step.remarks),
    )
