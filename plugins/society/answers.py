"""What agents are asked to fill in, kind by kind, and what is read from it. Numbers go through the ballot alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bot.api import Ballot, Confidence, Evidence, Json, Misread, Predictions, Tool, reading
from plugins.society.scenario import Kind

STATEMENT_CHARS = 3000
POINT_CHARS = 400
SOURCE_CHARS = 200
QUERY_CHARS = 400
MOST_POINTS = 6
MOST_QUERIES = 5
UNSTATED = "source not stated"

_NAMES = {
    Kind.TEXT: ("say", "Say what you have to say"),
    Kind.QUERIES: ("search_for", "Name the searches that would bring most, each in a few words"),
    Kind.ARGUMENT: ("argue", "Make your case, then its points, each with the source that it rests on"),
    Kind.ESTIMATE: ("estimate", "Say what you have to say, then give a first answer"),
    Kind.DELIBERATION: ("deliberate", "Say to the other jurors what convinces you, what does not, and why"),
    Kind.VOTE: ("vote", "Give your reasons, then your answer"),
    Kind.SYNTHESIS: ("conclude", "Sum up, then give the answer that you yourself would give"),
}
_ANSWERING = frozenset({Kind.ESTIMATE, Kind.VOTE, Kind.SYNTHESIS})
_CONFIDENCES = {str(confidence): confidence for confidence in Confidence}


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What an agent said: words, and where they were asked for points, searches, and an answer to the question."""

    statement: str = ""
    points: tuple[Evidence, ...] = ()
    queries: tuple[str, ...] = ()
    predictions: Predictions | None = None
    confidence: Confidence = Confidence.LOW

    @property
    def words(self) -> str:
        """All of it as text, but for the answer."""
        points = [f"- {point.text} [{point.source}]" for point in self.points]
        return "\n".join(filter(None, (self.statement, *points, *self.queries)))


def tool_for(kind: Kind, ballot: Ballot, margin: float) -> Tool:
    """Return the one call that an agent can answer a message of this kind with."""
    statement: Json = {"type": "string", "maxLength": STATEMENT_CHARS}
    properties: dict[str, Json] = {"statement": statement}
    if kind is Kind.QUERIES:
        properties = {"queries": _list({"type": "string", "maxLength": QUERY_CHARS}, MOST_QUERIES)}
    if kind is Kind.ARGUMENT:
        point: dict[str, Json] = {
            "text": {"type": "string", "maxLength": POINT_CHARS},
            "source": {"type": "string", "maxLength": SOURCE_CHARS},
        }
        properties["points"] = _list(record(point), MOST_POINTS)
    if kind in _ANSWERING:
        properties["confidence"] = {"type": "string", "enum": [*_CONFIDENCES]}
        properties |= ballot.schema(margin)
    name, description = _NAMES[kind]
    return Tool(name=name, description=description, parameters=record(properties))


def reader_for(kind: Kind, ballot: Ballot, margin: float) -> Callable[[Mapping[str, Json]], Said]:
    """Return what reads the arguments of that call; it raises Misread."""

    def read(arguments: Mapping[str, Json]) -> Said:
        statement = reading.text(arguments.get("statement"), STATEMENT_CHARS)
        if kind is Kind.QUERIES:
            return Said(queries=_queries(arguments.get("queries")))
        if kind in _ANSWERING:
            return Said(
                statement=statement,
                predictions=ballot.bounded(ballot.read(arguments), margin),
                confidence=_CONFIDENCES.get(reading.text(arguments.get("confidence"), 10).lower(), Confidence.LOW),
            )
        if not statement:
            message = "statement should hold what you have to say"
            raise Misread(message)
        return Said(statement=statement, points=_points(arguments.get("points")))

    return read


def record(properties: Mapping[str, Json]) -> dict[str, Json]:
    """Return the schema of an object with these properties, all required, and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(item: Json, most: int) -> Json:
    return {"type": "array", "items": item, "maxItems": most}


def _queries(raw: Json) -> tuple[str, ...]:
    found = [reading.text(item, QUERY_CHARS) for item in raw] if isinstance(raw, list) else []
    queries = tuple(dict.fromkeys(filter(None, found)))[:MOST_QUERIES]
    if not queries:
        message = "queries should hold at least one search"
        raise Misread(message)
    return queries


def _points(raw: Json) -> tuple[Evidence, ...]:
    points = []
    for item in raw[:MOST_POINTS] if isinstance(raw, list) else ():
        given: Mapping[str, Json] = item if isinstance(item, dict) else {"text": item}
        if words := reading.text(given.get("text"), POINT_CHARS):
            source = reading.text(given.get("source"), SOURCE_CHARS)
            points.append(Evidence(text=words, source=source or UNSTATED))
    return tuple(points)
