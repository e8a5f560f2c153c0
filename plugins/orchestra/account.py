"""The report of a run: who was made, what each did and how it ended, what was left of the budgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from plugins.orchestra.aggregation import Aggregation
from plugins.orchestra.crew import Crew
from plugins.orchestra.lessons import Lesson
from plugins.orchestra.stage import Stage

HEADING = "Run report"


def report(stage: Stage, offered: Sequence[Lesson], aggregation: Aggregation | None) -> str:
    """Return the report as text; it stands in the last step of a trial."""
    memory, critic = stage.scene.memory, stage.critic
    lines = [
        HEADING,
        _budget(stage.crew),
        *_runs(stage.crew),
        f"shared memory: {len(memory.entries)} entries, {sum(memory.uses.values())} uses",
        f"critic asked {critic.times} times; guidance asked {sum(run.requests for run in stage.crew.runs)} times",
        f"lessons offered: {', '.join(lesson.forecast for lesson in offered) or 'none'}; written down: {stage.noted}",
    ]
    if aggregation is not None and aggregation.plain is not None:
        ballot = stage.course.ballot
        answers = "; ".join(f"{one.name} {ballot.shown(one.predictions)}" for one in aggregation.rationales)
        lines.append(f"candidates: {answers}; mean of their log-odds {ballot.shown(aggregation.plain)}")
    return "\n".join(lines)


def _budget(crew: Crew) -> str:
    settings = crew.scene.settings
    turns, tokens = (sum(each) for each in zip((0, 0), *((run.turns, run.tokens) for run in crew.runs), strict=True))
    return (
        f"subagents made {crew.made} of {settings.subagents}, at once {crew.most_at_once} of {settings.concurrency}; "
        f"their moves {turns} of {settings.turns}, tokens {tokens} of {crew.most_tokens}; "
        f"forecasts reported {crew.forecasts} of {settings.forecasts}"
    )


def _runs(crew: Crew) -> Iterator[str]:
    for run in crew.runs:
        agent, why = run.agent, f" ({run.why})" if run.why else ""
        said = f"; {run.report.status}, confidence {run.report.confidence} of 100" if run.report else ""
        given = ", ".join(agent.tools) or "none"
        yield f"- {agent.name} ({agent.kind.name}; tools {given}) {run.end}{why} after {run.used}{said}"
