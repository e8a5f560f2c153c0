"""The four things that a member is asked for: a message, thoughts, a choice, and notes with a belief.

Each is a tool that stands alone, and a reader of its arguments; nothing else reads what a member says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bot.api import Ballot, Confidence, Json, Misread, Tool, reading
from plugins.team.extraction import chosen, letter_of
from plugins.team.member import Stated
from plugins.team.memory import QUESTION, Board, Fact, Memory, use_key
from plugins.team.options import WORDS_CHARS, Option

# A model that is held by a grammar fills what room there is, and the belief comes last.
THOUGHT_CHARS = 2000
FACT_CHARS = 250
SOURCE_CHARS = 200
REASON_CHARS = 600
MOST_FACTS = 4
NO_GOAL = "none"
_CONFIDENCES = {str(confidence): confidence for confidence in Confidence}


@dataclass(frozen=True, slots=True)
class Choice:
    """The option that was chosen, and the arguments that it is done with."""

    option: Option
    arguments: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Notes:
    """Facts in the order in which they were given, what is believed now, and what could not be taken over."""

    facts: tuple[Fact, ...]
    stated: Stated
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Noting:
    """What notes are read against: who takes them, and what it may settle and cite."""

    who: str
    ballot: Ballot
    margin: float
    memory: Memory
    board: Board


def message_tool(limit: int) -> Tool:
    """Return the form of a message."""
    return _form("draft_message", "A message to the other members, or nothing.", {"text": _string(limit)})


def read_message(arguments: Mapping[str, Json], limit: int) -> str:
    """Return the message in one line, "" for none."""
    return " ".join(reading.text(arguments.get("text"), limit).split())


def thought_tool() -> Tool:
    """Return the form of thoughts."""
    return _form("think_aloud", "Your thoughts, before you choose.", {"thoughts": _string(THOUGHT_CHARS)})


def read_thoughts(arguments: Mapping[str, Json]) -> str:
    """Return the thoughts; raises Misread where there are none."""
    if thoughts := reading.text(arguments.get("thoughts"), THOUGHT_CHARS):
        return thoughts
    message = "thoughts is empty"
    raise Misread(message)


def choice_tool(count: int) -> Tool:
    """Return the form of a choice among so many options."""
    letters: Json = {"type": "string", "enum": [letter_of(place) for place in range(count)]}
    return _form("choose", "The one action that you do now.", {"option": letters, "words": _string(WORDS_CHARS)})


def read_choice(arguments: Mapping[str, Json], options: Sequence[Option], memory: Memory) -> Choice:
    """Return what was chosen, by the extraction chain; raises Misread where that is no action on the list."""
    place = chosen(reading.text(arguments.get("option")), [option.text for option in options])
    if place is None:
        message = f"option names none of the actions from A to {letter_of(len(options) - 1)}"
        raise Misread(message)
    option = options[place]
    given = option.with_words(reading.text(arguments.get("words"), WORDS_CHARS))
    if option.words and not given[option.words]:
        message = f"words is empty, and the action needs them: {option.text}"
        raise Misread(message)
    if option.words and use_key(option.tool, given) in memory.done:
        message = (
            f"you did just that before ({reading.short(given[option.words])}); use other words, or do another action"
        )
        raise Misread(message)
    return Choice(option, given)


def notes_tool(noting: Noting) -> Tool:
    """Return the form of notes: facts first, then reasons, then numbers."""
    settles: Json = {"type": "string", "enum": [NO_GOAL, *(goal.name for goal in noting.board.open())]}
    fact = _record(
        {
            "text": _string(FACT_CHARS),
            "source": _string(SOURCE_CHARS),
            "settles": settles,
            "speaks": {"type": "string", "enum": ["for", "against"]},
        }
    )
    return _form(
        "take_notes",
        "What was found, with its sources, and what you believe now.",
        {
            "facts": {"type": "array", "items": fact, "maxItems": MOST_FACTS},
            "reasoning": _string(REASON_CHARS),
            "confidence": {"type": "string", "enum": [*_CONFIDENCES]},
            **noting.ballot.schema(noting.margin),
        },
    )


def read_notes(arguments: Mapping[str, Json], noting: Noting) -> Notes:
    """Return the notes; raises Misread without a belief that can be read. A fact that cannot stand is left out."""
    predictions = noting.ballot.bounded(noting.ballot.read(arguments), noting.margin)
    confidence = _CONFIDENCES.get(reading.text(arguments.get("confidence"), 10).lower(), Confidence.LOW)
    stated = Stated(predictions, confidence, reading.text(arguments.get("reasoning"), REASON_CHARS))
    facts, refused = [], []
    for fact, why in _facts(arguments.get("facts"), noting):
        facts += [fact] if not why else []
        refused += [f"fact left out, {why}: {fact.text[:100]}"] if why else []
    return Notes(tuple(facts), stated, tuple(refused))


def _facts(raw: Json, noting: Noting) -> Iterator[tuple[Fact, str]]:
    known = {fact.text.casefold() for fact in noting.memory.facts}
    goals = {goal.name: goal for goal in noting.board.goals}
    for item in raw[:MOST_FACTS] if isinstance(raw, list) else ():
        if not isinstance(item, Mapping) or not (text := reading.text(item.get("text"), FACT_CHARS)):
            continue
        source, settles = reading.text(item.get("source"), SOURCE_CHARS), reading.text(item.get("settles"), 40)
        goal = goals.get(settles)
        against = reading.text(item.get("speaks"), 10).lower() == "against"
        fact = Fact(text=text, source=source, who=noting.who, goal=goal.name if goal else "", against=against)
        is_cited = source.casefold() == QUESTION and goal is not None and goal.in_question
        if text.casefold() in known:
            yield fact, "it is known already"
        elif not source:
            yield fact, "it names no source"
        elif not is_cited and not noting.memory.knows_source(source):
            yield fact, f"its source {reading.short(source)} was not seen"
        else:
            known.add(text.casefold())
            yield fact, ""


def _form(name: str, description: str, properties: dict[str, Json]) -> Tool:
    return Tool(name=name, description=description, parameters=_record(properties))


def _record(properties: dict[str, Json]) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _string(limit: int) -> dict[str, Json]:
    return {"type": "string", "maxLength": limit}
