"""What a subagent returns: its report, or a question to the orchestrator; how both are asked for and read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from bot.api import (
    AnswerFormat,
    Json,
    TargetPredictions,
    ToolDefinition,
    UnreadableAnswer,
    answer_tool,
    fence_text,
    parsing,
    read_word,
    require_text,
    text_field,
    word_field,
)

REPORT_TOOL = "report_results"
GUIDANCE_TOOL = "request_guidance"
FINDINGS_CHARS = 2500
SHORT_CHARS = 800


class TaskStatus(StrEnum):
    """How complete a task is, in the subagent's own judgement."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    FAILED = "failed"


class RequestUrgency(StrEnum):
    """How much depends on an answer."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentReport:
    """A report; ``confidence`` is in percent, ``forecast`` is set if the subagent gave one of its own."""

    status: TaskStatus
    findings: str
    recommendations: str = ""
    confidence: int = 0
    more: str = ""
    forecast: TargetPredictions | None = None

    def text(self, answer_format: AnswerFormat) -> str:
        """Return the whole report."""
        parts = [self.findings]
        if self.recommendations:
            parts.append(f"Recommendations: {self.recommendations}")
        if self.more:
            parts.append(f"More: {self.more}")
        if self.forecast is not None:
            parts.append(f"Forecast of its own: {answer_format.format(self.forecast)}")
        return "\n\n".join(parts)

    def fenced_text(self, author: str, answer_format: AnswerFormat) -> str:
        """Return the report as others read it: fenced, since its sources are untrusted."""
        label = f"report of {author}, {self.status}, confidence {self.confidence} of 100"
        return fence_text(self.text(answer_format), label)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidanceRequest:
    """A question to the orchestrator."""

    question: str
    context: str
    urgency: RequestUrgency

    def fenced_text(self, author: str) -> str:
        """Return the request as the orchestrator reads it."""
        text = "\n".join(filter(None, (self.question, self.context)))
        return fence_text(text, f"{author} asks for guidance, urgency {self.urgency}")


def report_tool(answer_format: AnswerFormat, margin: float, *, forecasts: bool) -> ToolDefinition:
    """Return the tool that ends a run; with ``forecasts`` it must hold a forecast."""
    stated = answer_format.schema(margin) if forecasts else {}
    properties: dict[str, Json] = {
        "task_status": word_field(TaskStatus),
        "findings": text_field(FINDINGS_CHARS),
        "recommendations": text_field(SHORT_CHARS),
        "confidence": {"type": "integer", "minimum": 0, "maximum": 100},
        "additional_data": text_field(SHORT_CHARS),
        **stated,
    }
    return answer_tool(
        REPORT_TOOL,
        "Report to the orchestrator, which ends your work. The report is also stored in the shared memory. findings: "
        "what you found out, with sources; confidence: how sure you are of it, in percent; additional_data: figures "
        "and the like that others may need.",
        properties,
        required=("task_status", "findings", "confidence", *stated),
    )


def guidance_tool() -> ToolDefinition:
    """Return the tool that asks the orchestrator."""
    properties: dict[str, Json] = {
        "question": text_field(SHORT_CHARS),
        "context": text_field(SHORT_CHARS),
        "urgency": word_field(RequestUrgency),
    }
    return answer_tool(
        GUIDANCE_TOOL,
        "Ask the orchestrator where you cannot continue without its decision. You wait for the answer.",
        properties,
        required=("question", "urgency"),
    )


def read_report(arguments: Mapping[str, Json], answer_format: AnswerFormat, *, forecasts: bool) -> SubagentReport:
    """Return the report that was sent; raises UnreadableAnswer in words for the model."""
    findings = require_text(arguments, "findings", FINDINGS_CHARS)
    confidence = round(parsing.read_number(arguments.get("confidence"), "confidence"))
    if not 0 <= confidence <= 100:
        message = f"confidence should be a whole percentage from 0 to 100, not {confidence}"
        raise UnreadableAnswer(message)
    return SubagentReport(
        status=read_word(TaskStatus, arguments.get("task_status"), "task_status"),
        findings=findings,
        recommendations=parsing.read_text(arguments.get("recommendations"), SHORT_CHARS),
        confidence=confidence,
        more=_read_loosely(arguments.get("additional_data")),
        forecast=answer_format.read(arguments) if forecasts else None,
    )


def read_request(arguments: Mapping[str, Json]) -> GuidanceRequest:
    """Return the question that was sent; raises UnreadableAnswer in words for the model."""
    question = require_text(arguments, "question", SHORT_CHARS)
    context = parsing.read_text(arguments.get("context"), SHORT_CHARS)
    return GuidanceRequest(
        question=question, context=context, urgency=read_word(RequestUrgency, arguments.get("urgency"), "urgency")
    )


def _read_loosely(raw: Json) -> str:
    # Models often send an object here; only models read it again.
    whole = raw if isinstance(raw, str) else "" if raw is None else json.dumps(raw, ensure_ascii=False)
    return parsing.read_text(whole, SHORT_CHARS)
