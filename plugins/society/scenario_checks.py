"""Checks that a scenario is consistent: known names, sufficient capabilities, and placeholders with a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bot.api import KeyPath, suggest_names
from plugins.society.scenario import (
    JURY,
    CourtScenario,
    MessageKind,
    MoveAction,
    ScenarioAgent,
    ScenarioMove,
    expand_loops,
)
from plugins.society.variables import (
    BUILT_IN,
    MAX_FILLED_CHARS,
    UNSET_TEXT,
    filled_length,
    filled_lengths,
    find_cycle,
    find_placeholders,
)

MOST_MOVES = 500

ScenarioFault = tuple[KeyPath, str]
# What each action requires.
_NEEDED_FIELDS = {
    MoveAction.WEB_SEARCH: ("agent", "query", "store"),
    MoveAction.PROCESS_ARTICLES: ("agent", "store"),
    MoveAction.GENERATE_JURY: ("agent",),
    MoveAction.MESSAGE: ("initiator", "receiver", "message"),
    MoveAction.TALLY: (),
}
_JURORS_ONLY = frozenset({MessageKind.VOTE, MessageKind.DELIBERATION})
_ANSWER_KINDS = frozenset({MessageKind.VOTE, MessageKind.ESTIMATE, MessageKind.SYNTHESIS})
_TEMPLATE_FIELDS = ("message", "query", "criteria")


def find_faults(scenario: CourtScenario) -> Iterator[ScenarioFault]:
    """Yield each mistake with its key."""
    yield from _agent_faults(scenario)
    for index, move in enumerate(scenario.steps):
        yield from ((("steps", index, *key), why) for key, why in _move_faults(scenario, move))
    yield from _order_faults(scenario)
    yield from _placeholder_faults(scenario)
    if found := find_cycle(scenario.values):
        yield ("values", found[0]), f"holds itself: {' -> '.join(found)}"
    else:
        yield from _length_faults(scenario)
    if not any(move.kind in _ANSWER_KINDS for move in scenario.steps if move.action is MoveAction.MESSAGE):
        yield ("steps",), "no step asks for an answer: one of the kind vote, estimate or synthesis is needed"


def find_doubts(scenario: CourtScenario) -> Iterator[ScenarioFault]:
    """Yield, for a consistent scenario, each likely mistake with its key."""
    placed = expand_loops(scenario)
    last = {step.index: step.place for step in placed}
    first: dict[str, int] = {}
    for step in placed:
        if step.move.store is not None:
            # In an exchange of several turns the statements of one are available in the next.
            first.setdefault(step.move.store, step.place - (step.move.max_turns > 1))
    known = BUILT_IN | set(scenario.values)
    for index, place in sorted(last.items()):
        for field in _TEMPLATE_FIELDS:
            names = dict.fromkeys(find_placeholders(getattr(scenario.steps[index], field)))
            for name in [name for name in names if name not in known and first.get(name, place) >= place]:
                yield ("steps", index, field), f"no step before this one stores {{{name}}}, so it says {UNSET_TEXT}"
    kinds = {step.move.kind for step in placed if step.move.action is MoveAction.MESSAGE}
    if not kinds & {MessageKind.VOTE, MessageKind.SYNTHESIS}:
        yield ("steps",), "no step of the kind vote or synthesis is played, so an estimate becomes the forecast"


def _agent_faults(scenario: CourtScenario) -> Iterator[ScenarioFault]:
    for index, agent in enumerate(scenario.agents):
        if agent.name == JURY or agent.name.startswith("juror"):
            yield ("agents", index, "name"), "is kept for the jurors, whom the clerk chooses"
    before: set[str] = set()
    for index, agent in enumerate(scenario.agents):
        if agent.name in before:
            yield ("agents", index, "name"), "is the name of two agents"
        before.add(agent.name)
    for loop in scenario.loops:
        if loop not in {move.loop for move in scenario.steps}:
            yield ("loops", loop), "no step is part of this loop"


def _move_faults(scenario: CourtScenario, move: ScenarioMove) -> Iterator[ScenarioFault]:
    for field in _NEEDED_FIELDS[move.action]:
        if not getattr(move, field):
            yield (field,), f"is missing; a step with the action {move.action} needs it"
    names = [agent.name for agent in scenario.agents]
    for field, valid in (("agent", names), ("initiator", names), ("receiver", [*names, JURY])):
        given = getattr(move, field)
        if given is not None and given not in valid:
            yield (field,), f"there is no agent {given}; {suggest_names(given, valid)}"
    yield from _capability_faults(scenario, move)
    if move.action is MoveAction.MESSAGE:
        yield from _message_faults(scenario, move)
    if move.instruction and (move.action is not MoveAction.MESSAGE or move.receiver == JURY):
        yield ("instruction",), "only the answer of one agent to a message can bind the others"
    if move.loop is not None and move.loop not in scenario.loops:
        yield ("loop",), f"there is no loop {move.loop} under loops; {suggest_names(move.loop, scenario.loops)}"


def _capability_faults(scenario: CourtScenario, move: ScenarioMove) -> Iterator[ScenarioFault]:
    agent = _find_agent(scenario, move.agent)
    if agent is None:
        return
    if move.action is MoveAction.WEB_SEARCH and not agent.capabilities.web_retrieval:
        yield ("agent",), f"{agent.name} may not search: its capability web_retrieval is off"
    if move.action is MoveAction.PROCESS_ARTICLES and not (agent.capabilities.web_retrieval and agent.capabilities.llm):
        yield ("agent",), f"{agent.name} needs the capabilities web_retrieval and llm to read and rate articles"
    if move.action is MoveAction.GENERATE_JURY and not (agent.capabilities.llm and agent.jury_selection):
        yield ("agent",), f"{agent.name} needs the capability llm and a jury_selection to choose jurors"


def _message_faults(scenario: CourtScenario, move: ScenarioMove) -> Iterator[ScenarioFault]:
    receiver, initiator = _find_agent(scenario, move.receiver), _find_agent(scenario, move.initiator)
    if receiver is not None and not receiver.capabilities.llm:
        yield ("receiver",), f"{receiver.name} cannot answer: its capability llm is off"
    if move.kind in _JURORS_ONLY and move.receiver != JURY:
        yield ("kind",), f"a {move.kind} is asked of the receiver {JURY}"
    if move.kind not in {*_JURORS_ONLY, MessageKind.TEXT} and move.receiver == JURY:
        yield ("kind",), f"jurors are asked for text, deliberation or vote, not for {move.kind}"
    if move.max_turns > 1 and (move.receiver == JURY or (initiator is not None and not initiator.capabilities.llm)):
        yield ("max_turns",), "more than one turn needs two agents with the capability llm"


def _order_faults(scenario: CourtScenario) -> Iterator[ScenarioFault]:
    placed = expand_loops(scenario)
    if len(placed) > MOST_MOVES:
        yield ("loops",), f"{len(placed)} steps are more than {MOST_MOVES}"
    first: dict[int, int] = {}
    for step in placed:
        first.setdefault(step.index, step.place)
    juries = [index for index, move in enumerate(scenario.steps) if move.action is MoveAction.GENERATE_JURY]
    for index in juries[1:]:
        yield ("steps", index, "action"), "a trial has one jury"
    named = Counter(move.name for move in scenario.steps if move.name is not None)
    for index, move in enumerate(scenario.steps):
        if move.receiver == JURY and not any(jury < index for jury in juries):
            yield ("steps", index, "receiver"), "there is no jury yet: a step generate_jury has to come before"
        if move.step is not None and move.step != first.get(index):
            place = "is left out by its loop" if index not in first else f"is number {first[index]}"
            yield ("steps", index, "step"), f"says {move.step}, but this step {place}, counted from 0"
        if move.name is not None and named[move.name] > 1:
            yield ("steps", index, "name"), f"{move.name} is the name of more than one step"
        if move.loop is not None and _is_loop_split(scenario, index, move.loop):
            yield ("steps", index, "loop"), f"the steps of the loop {move.loop} are not adjacent"


def _is_loop_split(scenario: CourtScenario, index: int, loop: str) -> bool:
    before = [place for place, move in enumerate(scenario.steps[:index]) if move.loop == loop]
    return bool(before) and before[-1] != index - 1


def _placeholder_faults(scenario: CourtScenario) -> Iterator[ScenarioFault]:
    stored = {move.store for move in scenario.steps if move.store is not None}
    known = BUILT_IN | stored | set(scenario.values)
    for key, text in _template_texts(scenario):
        for name in find_placeholders(text):
            if name not in known:
                yield key, f"nothing fills the placeholder {{{name}}}; {suggest_names(name, known)}"


def _length_faults(scenario: CourtScenario) -> Iterator[ScenarioFault]:
    lengths = filled_lengths(scenario.values)
    for key, text in _template_texts(scenario):
        if filled_length(text, lengths) > MAX_FILLED_CHARS:
            yield key, f"is longer than {MAX_FILLED_CHARS} characters once the values are filled in"


def _template_texts(scenario: CourtScenario) -> Iterator[tuple[KeyPath, str]]:
    yield from ((("values", name), text) for name, text in scenario.values.items())
    for index, agent in enumerate(scenario.agents):
        yield ("agents", index, "system_message"), agent.system_message
        if agent.jury_selection is not None:
            yield ("agents", index, "jury_selection", "prompt_template"), agent.jury_selection.prompt_template
    for index, move in enumerate(scenario.steps):
        for field in _TEMPLATE_FIELDS:
            yield ("steps", index, field), getattr(move, field)


def _find_agent(scenario: CourtScenario, name: str | None) -> ScenarioAgent | None:
    return next((agent for agent in scenario.agents if agent.name == name), None)
