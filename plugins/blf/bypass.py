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
    ContractError,
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
    margins_for,
)
from plugins.blf.settings import BlfSettings


def applies(question: Question, policy: SourcePolicy, tools: Sequence[Tool]) -> bool:
    """Whether the policy answers this question by its first tool, and that is at hand."""
    return policy.bypass and policy.first in {tool.name for tool in tools} and isinstance(question.shape, BinaryShape)


async def steps(question: Question, desk: Desk, settings: BlfSettings, anchor: Anchor) -> AsyncGenerator[Step, None]:
    """Yield the use of the tool, then the submission of its estimate.

    Raises ContractError behind the first step where the tool gave none: what the trial started from is no answer.
    """
    manner = margins_for(question, anchor, settings.manner)
    ballot = ballot_for(question, manner, percent=False)
    state = first_state(anchor, question, ballot, manner.step_margin)
    tool = desk.policy.first or ""
    result = await desk.use(tool, {})
    why = ""
    try:
        state = _estimated(state, result, ballot, manner.submit_margin, tool)
    except ContractError as error:
        why = str(error)
    one = not why and min(settings.steps, desk.limits.steps) == 1
    yield Step(
        action=Action(name=tool),
        observation=replace(result.observation, text="\n".join(filter(None, (result.observation.text, why)))),
        belief=state.belief,
        usage=result.usage,
        final=one,
    )
    if why:
        raise ContractError(why)
    if not one:
        submitted = Observation(text=f"submitted {ballot.shown(state.predictions)}, as {tool} has it")
        yield Step(action=Action(name=SUBMIT), observation=submitted, belief=state.belief, final=True)


def _estimated(state: State, result: ToolResult, ballot: Ballot, margin: float, tool: str) -> State:
    """Return the state with the estimate of the tool; raises ContractError where there is none."""
    given: Json = result.data.get("probabilities") if isinstance(result.data, dict) else None
    if result.failed or not isinstance(given, dict):
        message = f"{tool} gave no estimate, so the question has no answer"
        raise ContractError(message)
    try:
        predictions = ballot.bounded(ballot.read({"probabilities": given}), margin)
    except Misread as error:
        message = f"{tool} gave no usable estimate ({error}), so the question has no answer"
        raise ContractError(message) from error
    anchor, reason = f"the estimate of {tool}", f"{tool} says so"
    return replace(state, predictions=predictions, anchor=anchor, reason=reason, stated=True, informed=True)
