"""Questions that a statistical tool answers better than a model: its estimate is submitted as it is.

Source: BLF (arXiv 2604.18576v3), appendix C.6, table 6.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

from bot.api import (
    SUBMIT,
    Action,
    Anchor,
    Ballot,
    BinaryShape,
    Desk,
    Json,
    Misread,
    Observation,
    Question,
    SourcePolicy,
    State,
    Step,
    Tool,
    ToolResult,
    ballot_for,
    first_state,
)
from plugins.blf.settings import BlfSettings


def applies(question: Question, policy: SourcePolicy, tools: Sequence[Tool]) -> bool:
    """Whether the policy answers this question by its first tool, and that is at hand."""
    return policy.bypass and policy.first in {tool.name for tool in tools} and isinstance(question.shape, BinaryShape)


async def steps(question: Question, desk: Desk, settings: BlfSettings, anchor: Anchor) -> AsyncGenerator[Step, None]:
    """Yield the use of the tool, then the submission; without an estimate the trial submits what it started from."""
    ballot = ballot_for(question, settings.manner, percent=False)
    state = first_state(anchor, question, ballot, settings.step_margin)
    tool = desk.policy.first or ""
    result = await desk.use(tool, {})
    state, note = _estimated(state, result, ballot, tool)
    final = ballot.bounded(state.predictions, settings.submit_margin)
    state = replace(state, predictions=final)
    told = "\n".join(part for part in (result.observation.text, note) if part)
    one = min(settings.steps, desk.limits.steps) == 1
    yield Step(
        action=Action(name=tool),
        observation=Observation(text=told, documents=result.observation.documents),
        belief=state.belief,
        usage=result.usage,
        final=one,
    )
    if not one:
        submitted = Observation(text=f"submitted {ballot.shown(final)}, as {anchor.text if note else tool} has it")
        yield Step(action=Action(name=SUBMIT), observation=submitted, belief=state.belief, final=True)


def _estimated(state: State, result: ToolResult, ballot: Ballot, tool: str) -> tuple[State, str]:
    given: Json = result.data.get("probabilities") if isinstance(result.data, dict) else None
    if result.failed or not isinstance(given, dict):
        return state, f"{tool} gave no estimate, so the answer is what the trial started from"
    try:
        predictions = ballot.read({"probabilities": given})
    except Misread as error:
        return state, f"{tool} gave no usable estimate ({error}), so the answer is what the trial started from"
    estimate = replace(state, predictions=predictions, anchor=f"the estimate of {tool}", informed=True)
    return replace(estimate, reason=f"{tool} says so"), ""
