"""What holds a scenario together: names that exist, capabilities that suffice, placeholders that something fills."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from plugins.society.lines import Key
from plugins.society.names import instead
from plugins.society.scenario import JURY, ActionType, Agent, Kind, Move, Scenario, laid_out
from plugins.society.variables import BUILT_IN, MOST_CHARS, UNSET, cycle, placeholders, whole_length, whole_lengths

MOST_MOVES = 500

Fault = tuple[Key, str]
# What each action cannot do without.
_NEEDS = {
    ActionType.WEB_SEARCH: ("agent", "query", "store"),
    ActionType.PROCESS_ARTICLES: ("agent", "store"),
    ActionType.GENERATE_JURY: ("agent",),
    ActionType.MESSAGE: ("initiator", "receiver", "message"),
    ActionType.TALLY: (),
}
_JURORS_ONLY = frozenset({Kind.VOTE, Kind.DELIBERATION})
_ANSWERS = frozenset({Kind.VOTE, Kind.ESTIMATE, Kind.SYNTHESIS})
_TOLD = ("message", "query", "criteria")


def faults(scenario: Scenario) -> Iterator[Fault]:
    """Yield what is wrong, with the key of each."""
    yield from _agent_faults(scenario)
    for index, move in enumerate(scenario.steps):
        yield from ((("steps", index, *key), why) for key, why in _move_faults(scenario, move))
    yield from _order_faults(scenario)
    yield from _placeholder_faults(scenario)
    if found := cycle(scenario.values):
        yield ("values", found[0]), f"holds itself: {' -> '.join(found)}"
    else:
        yield from _length_faults(scenario)
    if not any(move.kind in _ANSWERS for move in scenario.steps if move.action is ActionType.MESSAGE):
        yield ("steps",), "no step asks for an answer: one of the kind vote, estimate or synthesis is needed"


def doubts(scenario: Scenario) -> Iterator[Fault]:
    """Yield, of a scenario that holds together, what is hardly meant so, with the key of each."""
    placed = laid_out(scenario)
    last = {step.index: step.place for step in placed}
    first: dict[str, int] = {}
    for step in placed:
        if step.move.store is not None:
            # In an exchange of several turns what was said in one is there in the next.
            first.setdefault(step.move.store, step.place - (step.move.max_turns > 1))
    known = BUILT_IN | set(scenario.values)
    for index, place in sorted(last.items()):
        for field in _TOLD:
            names = dict.fromkeys(placeholders(getattr(scenario.steps[index], field)))
            for name in [name for name in names if name not in known and first.get(name, place) >= place]:
                yield ("steps", index, field), f"no step before this one stores {{{name}}}, so it says {UNSET}"
    kinds = {step.move.kind for step in placed if step.move.action is ActionType.MESSAGE}
    if not kinds & {Kind.VOTE, Kind.SYNTHESIS}:
        yield ("steps",), "no step of the kind vote or synthesis is played, so an estimate becomes the forecast"


def _agent_faults(scenario: Scenario) -> Iterator[Fault]:
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


def _move_faults(scenario: Scenario, move: Move) -> Iterator[Fault]:
    for field in _NEEDS[move.action]:
        if not getattr(move, field):
            yield (field,), f"is missing; a step with the action {move.action} needs it"
    names = [agent.name for agent in scenario.agents]
    for field, valid in (("agent", names), ("initiator", names), ("receiver", [*names, JURY])):
        given = getattr(move, field)
        if given is not None and given not in valid:
            yield (field,), f"there is no agent {given}; {instead(given, valid)}"
    yield from _capability_faults(scenario, move)
    if move.action is ActionType.MESSAGE:
        yield from _message_faults(scenario, move)
    if move.loop is not None and move.loop not in scenario.loops:
        yield ("loop",), f"there is no loop {move.loop} under loops; {instead(move.loop, scenario.loops)}"


def _capability_faults(scenario: Scenario, move: Move) -> Iterator[Fault]:
    agent = _named(scenario, move.agent)
    if agent is None:
        return
    if move.action is ActionType.WEB_SEARCH and not agent.capabilities.web_retrieval:
        yield ("agent",), f"{agent.name} may not search: its capability web_retrieval is off"
    if move.action is ActionType.PROCESS_ARTICLES and not (agent.capabilities.web_retrieval and agent.capabilities.llm):
        yield ("agent",), f"{agent.name} needs the capabilities web_retrieval and llm to read and rate articles"
    if move.action is ActionType.GENERATE_JURY and not (agent.capabilities.llm and agent.jury_selection):
        yield ("agent",), f"{agent.name} needs the capability llm and a jury_selection to choose jurors"


def _message_faults(scenario: Scenario, move: Move) -> Iterator[Fault]:
    receiver, initiator = _named(scenario, move.receiver), _named(scenario, move.initiator)
    if receiver is not None and not receiver.capabilities.llm:
        yield ("receiver",), f"{receiver.name} cannot answer: its capability llm is off"
    if move.kind in _JURORS_ONLY and move.receiver != JURY:
        yield ("kind",), f"a {move.kind} is asked of the receiver {JURY}"
    if move.kind not in {*_JURORS_ONLY, Kind.TEXT} and move.receiver == JURY:
        yield ("kind",), f"jurors are asked for text, deliberation or vote, not for {move.kind}"
    if move.max_turns > 1 and (move.receiver == JURY or (initiator is not None and not initiator.capabilities.llm)):
        yield ("max_turns",), "more than one turn needs two agents with the capability llm"


def _order_faults(scenario: Scenario) -> Iterator[Fault]:
    placed = laid_out(scenario)
    if len(placed) > MOST_MOVES:
        yield ("loops",), f"{len(placed)} steps are more than {MOST_MOVES}"
    first: dict[int, int] = {}
    for step in placed:
        first.setdefault(step.index, step.place)
    juries = [index for index, move in enumerate(scenario.steps) if move.action is ActionType.GENERATE_JURY]
    for index in juries[1:]:
        yield ("steps", index, "action"), "a trial has one jury"
    named = Counter(move.name for move in scenario.steps if move.name is not None)
    for index, move in enumerate(scenario.steps):
        if move.receiver == JURY and not any(jury < index for jury in juries):
            yield ("steps", index, "receiver"), "there is no jury yet: a step generate_jury has to come before"
        if move.step is not None and move.step != first.get(index):
            stands = "is left out by its loop" if index not in first else f"is number {first[index]}"
            yield ("steps", index, "step"), f"says {move.step}, but this step {stands}, counted from 0"
        if move.name is not None and named[move.name] > 1:
            yield ("steps", index, "name"), f"{move.name} is the name of more than one step"
        if move.loop is not None and _is_torn(scenario, index, move.loop):
            yield ("steps", index, "loop"), f"the steps of the loop {move.loop} do not stand together"


def _is_torn(scenario: Scenario, index: int, loop: str) -> bool:
    before = [place for place, move in enumerate(scenario.steps[:index]) if move.loop == loop]
    return bool(before) and before[-1] != index - 1


def _placeholder_faults(scenario: Scenario) -> Iterator[Fault]:
    stored = {move.store for move in scenario.steps if move.store is not None}
    known = BUILT_IN | stored | set(scenario.values)
    for key, text in _texts(scenario):
        for name in placeholders(text):
            if name not in known:
                yield key, f"nothing fills the placeholder {{{name}}}; {instead(name, known)}"


def _length_faults(scenario: Scenario) -> Iterator[Fault]:
    lengths = whole_lengths(scenario.values)
    for key, text in _texts(scenario):
        if whole_length(text, lengths) > MOST_CHARS:
            yield key, f"is longer than {MOST_CHARS} characters once the values are filled in"


def _texts(scenario: Scenario) -> Iterator[tuple[Key, str]]:
    yield from ((("values", name), text) for name, text in scenario.values.items())
    for index, agent in enumerate(scenario.agents):
        yield ("agents", index, "system_message"), agent.system_message
        if agent.jury_selection is not None:
            yield ("agents", index, "jury_selection", "prompt_template"), agent.jury_selection.prompt_template
    for index, move in enumerate(scenario.steps):
        for field in _TOLD:
            yield ("steps", index, field), getattr(move, field)


def _named(scenario: Scenario, name: str | None) -> Agent | None:
    return next((agent for agent in scenario.agents if agent.name == name), None)
