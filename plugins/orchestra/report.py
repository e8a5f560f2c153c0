"""What a subagent hands back: its report, or a question to the orchestrator; how both are asked for and read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from bot.api import Ballot, Json, Misread, Predictions, Tool, quoted, reading
from plugins.orchestra.shapes import described, one_of, text_of, wanted, words_of

REPORT = "report_results"
ASK = "request_guidance"
FINDINGS_CHARS = 2500
SHORT_CHARS = 800


class Status(StrEnum):
    """How far a task came, in the subagent's own judgement."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    FAILED = "failed"


class Urgency(StrEnum):
    """How much depends on an answer."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report; ``confidence`` is in percent, ``forecast`` there where the subagent gave one of its own."""

    status: Status
    findings: str
    recommendations: str = ""
    confidence: int = 0
    more: str = ""
    forecast: Predictions | None = None

    def shown(self, author: str, ballot: Ballot) -> str:
        """Return the report as others read it: fenced, since what it was made from is foreign."""
        parts = [self.findings]
        if self.recommendations:
            parts.append(f"Recommendations: {self.recommendations}")
        if self.more:
            parts.append(f"More: {self.more}")
        if self.forecast is not None:
            parts.append(f"Forecast of its own: {ballot.shown(self.forecast)}")
        return quoted("\n\n".join(parts), f"report of {author}, {self.status}, confidence {self.confidence} of 100")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A question to the orchestrator."""

    question: str
    context: str
    urgency: Urgency

    def shown(self, author: str) -> str:
        """Return the request as the orchestrator reads it."""
        text = "\n".join(filter(None, (self.question, self.context)))
        return quoted(text, f"{author} asks for guidance, urgency {self.urgency}")


def report_tool(ballot: Ballot, margin: float, *, forecasts: bool) -> Tool:
    """Return the tool that ends a run; with ``forecasts`` it must hold a forecast."""
    stated = ballot.schema(margin) if forecasts else {}
    properties: dict[str, Json] = {
        "task_status": words_of(Status),
        "findings": text_of(FINDINGS_CHARS),
        "recommendations": text_of(SHORT_CHARS),
        "confidence": {"type": "integer", "minimum": 0, "maximum": 100},
        "additional_data": text_of(SHORT_CHARS),
        **stated,
    }
    return described(
        REPORT,
        "Report to the orchestrator, which ends your work. findings: what you found out, with sources; confidence: how "
        "sure you are of it, in percent; additional_data: figures and the like that others may need.",
        properties,
        required=("task_status", "findings", "confidence", *stated),
    )


def ask_tool() -> Tool:
    """Return the tool that asks the orchestrator."""
    properties: dict[str, Json] = {
        "question": text_of(SHORT_CHARS),
        "context": text_of(SHORT_CHARS),
        "urgency": words_of(Urgency),
    }
    return described(
        ASK,
        "Ask the orchestrator where you cannot go on without its decision. You wait for the answer.",
        properties,
        required=("question", "urgency"),
    )


def read_report(arguments: Mapping[str, Json], ballot: Ballot, *, forecasts: bool) -> Report:
    """Return the report that was sent; raises Misread in words for the model."""
    findings = wanted(arguments, "findings", FINDINGS_CHARS)
    confidence = round(reading.number(arguments.get("confidence"), "confidence"))
    if not 0 <= confidence <= 100:
        message = f"confidence should be a whole percentage from 0 to 100, not {confidence}"
        raise Misread(message)
    return Report(
        status=one_of(Status, arguments.get("task_status"), "task_status"),
        findings=findings,
        recommendations=reading.text(arguments.get("recommendations"), SHORT_CHARS),
        confidence=confidence,
        more=_loose(arguments.get("additional_data")),
        forecast=ballot.read(arguments) if forecasts else None,
    )


def read_request(arguments: Mapping[str, Json]) -> Request:
    """Return the question that was sent; raises Misread in words for the model."""
    question = wanted(arguments, "question", SHORT_CHARS)
    context = reading.text(arguments.get("context"), SHORT_CHARS)
    return Request(question=question, context=context, urgency=one_of(Urgency, arguments.get("urgency"), "urgency"))


def _loose(raw: Json) -> str:
    # Models like to send an object here; it is read by models again.
    whole = raw if isinstance(raw, str) else "" if raw is None else json.dumps(raw, ensure_ascii=False)
    return reading.text(whole, SHORT_CHARS)
