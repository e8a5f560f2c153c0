"""The four things that a member is asked for: a message, thoughts, a choice, and notes with a belief.

Each is a tool and a reader of its arguments; nothing else reads a member's answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bot.api import AnswerFormat, ConfidenceLevel, Json, ToolDefinition, UnreadableAnswer, parsing
from plugins.team.action_options import WORDS_CHARS, ActionOption
from plugins.team.members import QUESTION_SOURCE, GoalBoard, MemberFact, MemberMemory, StatedBelief, use_key
from plugins.team.option_parsing import find_chosen_option, option_letter

# A model whose output follows a grammar fills all available room, and the belief is last.
THOUGHT_CHARS = 2000
FACT_CHARS = 250
SOURCE_CHARS = 200
REASON_CHARS = 600
MOST_FACTS = 4
NO_GOAL = "none"
_CONFIDENCES = {str(confidence): confidence for confidence in ConfidenceLevel}


@dataclass(frozen=True, slots=True)
class ChosenAction:
    """The chosen option and its arguments."""

    option: ActionOption
    arguments: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class MemberNotes:
    """Facts in the order in which they were given, the present belief, and what could not be applied."""

    facts: tuple[MemberFact, ...]
    belief: StatedBelief
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteContext:
    """What notes are checked against: the member, and what it may settle and cite."""

    who: str
    answer_format: AnswerFormat
    margin: float
    memory: MemberMemory
    board: GoalBoard


def message_tool(limit: int) -> ToolDefinition:
    """Return the tool for a message."""
    return _define_tool("draft_message", "A message to the other members, or nothing.", {"text": _text_schema(limit)})


def read_message(arguments: Mapping[str, Json], limit: int) -> str:
    """Return the message in one line, "" for none."""
    return " ".join(parsing.read_text(arguments.get("text"), limit).split())


def thought_tool() -> ToolDefinition:
    """Return the tool for thoughts."""
    return _define_tool("think_aloud", "Your thoughts, before you choose.", {"thoughts": _text_schema(THOUGHT_CHARS)})


def read_thoughts(arguments: Mapping[str, Json]) -> str:
    """Return the thoughts; raises UnreadableAnswer if there are none."""
    if thoughts := parsing.read_text(arguments.get("thoughts"), THOUGHT_CHARS):
        return thoughts
    message = "thoughts is empty"
    raise UnreadableAnswer(message)


def choice_tool(count: int) -> ToolDefinition:
    """Return the tool for a choice among this many options."""
    letters: Json = {"type": "string", "enum": [option_letter(place) for place in range(count)]}
    return _define_tool(
        "choose", "The one action that you do now.", {"option": letters, "words": _text_schema(WORDS_CHARS)}
    )


def read_choice(arguments: Mapping[str, Json], options: Sequence[ActionOption], memory: MemberMemory) -> ChosenAction:
    """Return the choice, by the extraction chain; raises UnreadableAnswer if it is no action on the list."""
    place = find_chosen_option(parsing.read_text(arguments.get("option")), [option.text for option in options])
    if place is None:
        message = f"option names none of the actions from A to {option_letter(len(options) - 1)}"
        raise UnreadableAnswer(message)
    option = options[place]
    given = option.with_words(parsing.read_text(arguments.get("words"), WORDS_CHARS))
    if option.words and not given[option.words]:
        message = f"words is empty, and the action needs them: {option.text}"
        raise UnreadableAnswer(message)
    if option.words and use_key(option.tool, given) in memory.calls_made:
        repeated = parsing.abbreviate_json(given[option.words])
        message = f"you did just that before ({repeated}); use other words, or do another action"
        raise UnreadableAnswer(message)
    return ChosenAction(option, given)


def notes_tool(noting: NoteContext) -> ToolDefinition:
    """Return the tool for notes: facts first, then reasons, then numbers."""
    settles: Json = {"type": "string", "enum": [NO_GOAL, *(goal.name for goal in noting.board.open_goals())]}
    fact = _object_schema(
        {
            "text": _text_schema(FACT_CHARS),
            "source": _text_schema(SOURCE_CHARS),
            "settles": settles,
            "speaks": {"type": "string", "enum": ["for", "against"]},
        }
    )
    return _define_tool(
        "take_notes",
        "What was found, with its sources, and what you believe now.",
        {
            "facts": {"type": "array", "items": fact, "maxItems": MOST_FACTS},
            "reasoning": _text_schema(REASON_CHARS),
            "confidence": {"type": "string", "enum": [*_CONFIDENCES]},
            **noting.answer_format.schema(noting.margin),
        },
    )


def read_notes(arguments: Mapping[str, Json], noting: NoteContext) -> MemberNotes:
    """Return the notes; raises UnreadableAnswer without a readable belief. An invalid fact is left out."""
    predictions = noting.answer_format.clamp(noting.answer_format.read(arguments), noting.margin)
    confidence = _CONFIDENCES.get(parsing.read_text(arguments.get("confidence"), 10).lower(), ConfidenceLevel.LOW)
    stated = StatedBelief(predictions, confidence, parsing.read_text(arguments.get("reasoning"), REASON_CHARS))
    facts, refused = [], []
    for fact, why in _read_facts(arguments.get("facts"), noting):
        facts += [fact] if not why else []
        refused += [f"fact left out, {why}: {fact.text[:100]}"] if why else []
    return MemberNotes(tuple(facts), stated, tuple(refused))


def _read_facts(raw: Json, noting: NoteContext) -> Iterator[tuple[MemberFact, str]]:
    known = {fact.text.casefold() for fact in noting.memory.facts}
    goals = {goal.name: goal for goal in noting.board.goals}
    for item in raw[:MOST_FACTS] if isinstance(raw, list) else ():
        if not isinstance(item, Mapping) or not (text := parsing.read_text(item.get("text"), FACT_CHARS)):
            continue
        source, settles = (
            parsing.read_text(item.get("source"), SOURCE_CHARS),
            parsing.read_text(item.get("settles"), 40),
        )
        goal = goals.get(settles)
        against = parsing.read_text(item.get("speaks"), 10).lower() == "against"
        fact = MemberFact(text=text, source=source, member=noting.who, goal=goal.name if goal else "", against=against)
        is_cited = source.casefold() == QUESTION_SOURCE and goal is not None and goal.in_question
        if text.casefold() in known:
            yield fact, "it is known already"
        elif not source:
            yield fact, "it names no source"
        elif not is_cited and not noting.memory.knows_source(source):
            yield fact, f"its source {parsing.abbreviate_json(source)} was not seen"
        else:
            known.add(text.casefold())
            yield fact, ""


def _define_tool(name: str, description: str, properties: dict[str, Json]) -> ToolDefinition:
    return ToolDefinition(name=name, description=description, parameters=_object_schema(properties))


def _object_schema(properties: dict[str, Json]) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _text_schema(limit: int) -> dict[str, Json]:
    return {"type": "string", "maxLength": limit}
