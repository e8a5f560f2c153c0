"""The four things that a member is asked for: a message, thoughts, a choice, and notes with a belief.

Each is a tool and a reader of its arguments; nothing else reads a member's answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bot.api import (
    AnswerFormat,
    ChoiceShape,
    ConfidenceLevel,
    CurveShape,
    Json,
    Question,
    ToolDefinition,
    UnreadableAnswer,
    answer_tool,
    object_schema,
    parsing,
    require_text,
    text_field,
    word_field,
)
from plugins.team.action_options import MAX_OPTIONS, WORDS_CHARS, ActionOption
from plugins.team.members import (
    AGAINST,
    EARLIER,
    FOR,
    HIGHER,
    LATER,
    LOWER,
    QUESTION_SOURCE,
    GoalBoard,
    MemberFact,
    MemberMemory,
    MemberTools,
    StatedBelief,
    use_key,
)
from plugins.team.option_parsing import find_chosen_option, option_letter
from plugins.team.settings import SubGoal, TeamSettings

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
    question: Question
    answer_format: AnswerFormat
    margin: float
    memory: MemberMemory
    board: GoalBoard


def member_tools(question: Question, answer_format: AnswerFormat, settings: TeamSettings) -> MemberTools:
    """Return the tools of a member, which stay the same in all joint steps."""
    return MemberTools(
        message=answer_tool(
            "draft_message",
            "A message to the other members, or nothing.",
            {"text": text_field(settings.message_chars, "The message; empty for none.")},
        ),
        thoughts=answer_tool(
            "think_aloud", "Your thoughts, before you choose.", {"thoughts": text_field(THOUGHT_CHARS)}
        ),
        choice=choice_tool(MAX_OPTIONS),
        notes=notes_tool(question, answer_format, settings.step_margin, settings.goals),
    )


def evidence_sides(question: Question) -> tuple[str, ...]:
    """Return the words for the sides that a fact may speak for: of yes or no, of a number or date, or the options."""
    match question.shape:
        case ChoiceShape(options=options):
            return options
        case CurveShape(unit="date"):
            return (LATER, EARLIER)
        case CurveShape():
            return (HIGHER, LOWER)
        case _:
            return (FOR, AGAINST)


def read_message(arguments: Mapping[str, Json], limit: int) -> str:
    """Return the message in one line, "" for none."""
    return " ".join(parsing.read_text(arguments.get("text"), limit).split())


def read_thoughts(arguments: Mapping[str, Json]) -> str:
    """Return the thoughts; raises UnreadableAnswer if there are none."""
    return require_text(arguments, "thoughts", THOUGHT_CHARS)


def choice_tool(count: int) -> ToolDefinition:
    """Return the tool for a choice among this many options."""
    return answer_tool(
        "choose",
        "The one action that you do now.",
        {
            "option": word_field([option_letter(place) for place in range(count)], "The letter of the action."),
            "words": text_field(WORDS_CHARS, "Your own words, where the action asks for them; else empty."),
        },
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


def notes_tool(
    question: Question, answer_format: AnswerFormat, margin: float, goals: Sequence[SubGoal]
) -> ToolDefinition:
    """Return the tool for notes: facts first, then reasons, then numbers; ``goals`` are those that may be settled."""
    fact = object_schema(
        {
            "text": text_field(FACT_CHARS, "The fact, with its date and figures."),
            "source": text_field(SOURCE_CHARS),
            "settles": word_field([NO_GOAL, *(goal.name for goal in goals)], "The sub-goal that it settles."),
            "speaks": word_field(evidence_sides(question), "The side that it speaks for."),
        }
    )
    return answer_tool(
        "take_notes",
        "What was found, with its sources, and what you believe now.",
        {
            "facts": {"type": "array", "items": fact, "maxItems": MOST_FACTS},
            "reasoning": text_field(REASON_CHARS, "Why you believe it."),
            "confidence": word_field([*_CONFIDENCES]),
            **answer_format.schema(margin),
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
        refused += [f"fact left out, {why}: {parsing.cut_text(fact.text, 100)}"] if why else []
    return MemberNotes(tuple(facts), stated, tuple(refused))


def _read_facts(raw: Json, noting: NoteContext) -> Iterator[tuple[MemberFact, str]]:
    known = {fact.text.casefold() for fact in noting.memory.facts}
    goals = {goal.name: goal for goal in noting.board.goals}
    sides = {side.casefold(): side for side in evidence_sides(noting.question)}
    for item in raw[:MOST_FACTS] if isinstance(raw, list) else ():
        if not isinstance(item, Mapping) or not (text := parsing.read_text(item.get("text"), FACT_CHARS)):
            continue
        source, settles = (
            parsing.read_text(item.get("source"), SOURCE_CHARS),
            parsing.read_text(item.get("settles"), 40),
        )
        goal = goals.get(settles)
        speaks = sides.get(parsing.read_text(item.get("speaks"), WORDS_CHARS).casefold(), "")
        fact = MemberFact(text=text, source=source, member=noting.who, goal=goal.name if goal else "", speaks=speaks)
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
