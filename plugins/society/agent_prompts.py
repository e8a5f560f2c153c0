"""The instructions of agents and the answers asked of them, by the kind of message, and how those are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bot.api import (
    AnswerFormat,
    ChoiceShape,
    ConfidenceLevel,
    CurveShape,
    Evidence,
    Json,
    Question,
    TargetPredictions,
    ToolDefinition,
    UnreadableAnswer,
    answer_tool,
    fill_prompt,
    join_prompt_sources,
    judging_name,
    judging_text,
    load_template,
    object_schema,
    parsing,
    require_text,
    task_text,
    text_field,
    word_field,
)
from plugins.society.scenario import CourtScenario, JurySelection, MessageKind

PROMPT_PACKAGE = "plugins.society"


def system_prompt(question: Question) -> str:
    """Return the instructions for everybody; they are the same in each request of a trial."""
    return fill_prompt(
        PROMPT_PACKAGE,
        "rules",
        task=task_text(question),
        sides=sides_definition(question),
        judging=judging_text(question),
    )


def sides_definition(question: Question) -> str:
    """Return what speaks for and what against the outcome in a question of this kind."""
    match question.shape:
        case ChoiceShape():
            high, low = "the option that leads by the first estimate", "any other option"
        case CurveShape(unit="date"):
            high, low = "a later date than the median of the first estimate", "an earlier one"
        case CurveShape():
            high, low = "a higher value than the median of the first estimate", "a lower one"
        case _:
            high, low = "yes", "no"
    return f'The prosecution, and points "for", speak for {high}; the defence, and points "against", for {low}.'


def juror_prompt(selection: JurySelection) -> str:
    """Return the instructions of a juror, with the placeholder {profile} for its profile."""
    return selection.prompt_template or load_template(PROMPT_PACKAGE, "juror").template


def prompt_version(question: Question, scenario: CourtScenario) -> str:
    """Return all texts that prompts are made from: their digest is the version of the prompts."""
    texts = join_prompt_sources(PROMPT_PACKAGE, "rules", "juror", "rate", shared=(judging_name(question),))
    return f"{texts}\n\n==== scenario\n{scenario.model_dump_json(exclude_defaults=True)}"


STATEMENT_CHARS = 3000
POINT_CHARS = 400
SOURCE_CHARS = 200
QUERY_CHARS = 400
MOST_POINTS = 6
MOST_QUERIES = 5
UNSTATED_SOURCE = "source not stated"


_TOOL_TEXTS = {
    MessageKind.TEXT: ("say", "Say what you have to say"),
    MessageKind.QUERIES: ("search_for", "Name the searches that would bring most, each in a few words"),
    MessageKind.ARGUMENT: ("argue", "Make your case, then its points, each with the source that it rests on"),
    MessageKind.ESTIMATE: ("estimate", "Say what you have to say, then give a first answer"),
    MessageKind.DELIBERATION: ("deliberate", "Say to the other jurors what convinces you, what does not, and why"),
    MessageKind.VOTE: ("vote", "Give your reasons, then your answer"),
    MessageKind.SYNTHESIS: ("conclude", "Sum up, then give the answer that you yourself would give"),
}


_ANSWER_KINDS = frozenset({MessageKind.ESTIMATE, MessageKind.VOTE, MessageKind.SYNTHESIS})


_CONFIDENCES = {str(confidence): confidence for confidence in ConfidenceLevel}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStatement:
    """An agent's statement: words and, if asked for, points, searches, and an answer to the question."""

    statement: str = ""
    points: tuple[Evidence, ...] = ()
    queries: tuple[str, ...] = ()
    predictions: TargetPredictions | None = None
    confidence: ConfidenceLevel = ConfidenceLevel.LOW

    @property
    def words(self) -> str:
        """All of it as text, except the answer."""
        points = [f"- {point.text} [{point.source}]" for point in self.points]
        return "\n".join(filter(None, (self.statement, *points, *self.queries)))


def answer_tool_name(kind: MessageKind) -> str:
    """Return the name of the call with which an agent answers a message of this kind."""
    return _TOOL_TEXTS[kind][0]


def create_answer_tool(kind: MessageKind, answer_format: AnswerFormat, margin: float) -> ToolDefinition:
    """Return the one call with which an agent can answer a message of this kind."""
    properties: dict[str, Json] = {"statement": text_field(STATEMENT_CHARS)}
    if kind is MessageKind.QUERIES:
        properties = {"queries": _list_schema(text_field(QUERY_CHARS), MOST_QUERIES)}
    if kind is MessageKind.ARGUMENT:
        point = object_schema({"text": text_field(POINT_CHARS), "source": text_field(SOURCE_CHARS)})
        properties["points"] = _list_schema(point, MOST_POINTS)
    if kind in _ANSWER_KINDS:
        properties["confidence"] = word_field(ConfidenceLevel)
        properties |= answer_format.schema(margin)
    return answer_tool(*_TOOL_TEXTS[kind], properties)


def create_answer_reader(
    kind: MessageKind, answer_format: AnswerFormat, margin: float
) -> Callable[[Mapping[str, Json]], AgentStatement]:
    """Return the reader of that call's arguments; it raises UnreadableAnswer."""

    def read(arguments: Mapping[str, Json]) -> AgentStatement:
        if kind is MessageKind.QUERIES:
            return AgentStatement(queries=_read_queries(arguments.get("queries")))
        if kind in _ANSWER_KINDS:
            return AgentStatement(
                statement=parsing.read_text(arguments.get("statement"), STATEMENT_CHARS),
                predictions=answer_format.clamp(answer_format.read(arguments), margin),
                confidence=_CONFIDENCES.get(
                    parsing.read_text(arguments.get("confidence"), 10).lower(), ConfidenceLevel.LOW
                ),
            )
        statement = require_text(arguments, "statement", STATEMENT_CHARS)
        return AgentStatement(statement=statement, points=_read_points(arguments.get("points")))

    return read


def _list_schema(item: Json, most: int) -> Json:
    return {"type": "array", "items": item, "maxItems": most}


def _read_queries(raw: Json) -> tuple[str, ...]:
    found = [parsing.read_text(item, QUERY_CHARS) for item in raw] if isinstance(raw, list) else []
    queries = tuple(dict.fromkeys(filter(None, found)))[:MOST_QUERIES]
    if not queries:
        message = "queries should hold at least one search"
        raise UnreadableAnswer(message)
    return queries


def _read_points(raw: Json) -> tuple[Evidence, ...]:
    points = []
    for item in raw[:MOST_POINTS] if isinstance(raw, list) else ():
        given: Mapping[str, Json] = item if isinstance(item, dict) else {"text": item}
        if words := parsing.read_text(given.get("text"), POINT_CHARS):
            source = parsing.read_text(given.get("source"), SOURCE_CHARS)
            points.append(Evidence(text=words, source=source or UNSTATED_SOURCE))
    return tuple(points)
