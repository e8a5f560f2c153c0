"""What all tools share: their definition for a model, the check of arguments, the context of a trial and its guards."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from bot.config.schema import ResearchSection
from bot.core.errors import AuthenticationError, FoxcastError, MalformedDataError, NotFoundError, RequestRejectedError
from bot.core.interfaces import PageFetcher
from bot.core.language_models import ToolDefinition
from bot.core.light_dataclass import dataclass
from bot.core.questions import Question
from bot.core.values import Json
from bot.forecasting.failures import DailyWarnings
from bot.forecasting.leak_guard.blocked_addresses import BlockedAddresses
from bot.forecasting.recording import TrialRecording
from bot.forecasting.services import PageTextReader
from bot.forecasting.trial_memory import TrialMemory
from bot.forecasting.untrusted_text import clean_text, fence_text


def define_tool(
    name: str,
    description: str,
    properties: Mapping[str, dict[str, Json]] | None = None,
    *,
    required: tuple[str, ...] = (),
) -> ToolDefinition:
    """Return a tool whose arguments are the given properties and nothing else."""
    parameters: dict[str, Json] = {
        "type": "object",
        "properties": dict(properties or {}),
        "required": list(required),
        "additionalProperties": False,
    }
    return ToolDefinition(name=name, description=description, parameters=parameters)


def text_schema(description: str, limit: int) -> dict[str, Json]:
    """Return the schema of a text."""
    return {"type": "string", "description": description, "minLength": 1, "maxLength": limit}


def find_argument_fault(arguments: object, schema: Mapping[str, Any]) -> str | None:
    """Say why arguments do not fit a schema made by ``define_tool``, in words for the model; None if they do."""
    if not isinstance(arguments, Mapping):
        return "the arguments are not a JSON object"
    properties = schema["properties"]
    for name in schema["required"]:
        if name not in arguments:
            return f"{name} is missing"
    for name in arguments:
        if name not in properties:
            return f"there are arguments besides {', '.join(properties)}" if properties else "there are no arguments"
    for name, value in arguments.items():
        if fault := _value_fault(value, properties[name]):
            return f"{name} {fault}"
    return None


def _value_fault(value: object, schema: Mapping[str, Any]) -> str | None:
    match schema["type"]:
        case "string":
            return _text_fault(value, schema)
        case "integer":
            return _integer_fault(value, schema)
        case _:
            return _list_fault(value, schema)


def _text_fault(value: object, schema: Mapping[str, Any]) -> str | None:
    if not isinstance(value, str):
        return "is not a text"
    if "enum" in schema and value not in schema["enum"]:
        return f"is none of {', '.join(schema['enum'])}"
    if len(value) < schema.get("minLength", 0):
        return "is empty"
    max_length = schema.get("maxLength")
    return f"is longer than {max_length} characters" if max_length is not None and len(value) > max_length else None


def _integer_fault(value: object, schema: Mapping[str, Any]) -> str | None:
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not is_whole:
        return "is not a whole number"
    minimum = schema.get("minimum")
    return f"is less than {minimum}" if minimum is not None and value < minimum else None


def _list_fault(value: object, schema: Mapping[str, Any]) -> str | None:
    if not isinstance(value, list):
        return "is not a list"
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        return f"should have {schema.get('minItems', 0)} to {schema.get('maxItems')} entries"
    return next(
        (f"has an entry that {fault}" for item in value if (fault := _value_fault(item, schema["items"]))), None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakGuards:
    """The guards of a trial.

    ``cutoff`` is None if nothing is guarded; ``backdated`` says that the cutoff is in the past; ``judges_content``
    that a model judges texts by their content.
    """

    cutoff: datetime | None
    backdated: bool
    judges_content: bool
    blocks: BlockedAddresses

    @property
    def allows_current_pages(self) -> bool:
        """Whether pages may be used as they are now."""
        return self.judges_content or not self.backdated


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What all tools of a trial share; data is asked for as known before ``data_before``."""

    question: Question
    section: ResearchSection
    guards: LeakGuards
    data_before: datetime
    memory: TrialMemory
    record: TrialRecording
    fetcher: PageFetcher
    reader: PageTextReader
    warnings: DailyWarnings = field(default_factory=DailyWarnings)

    def warn(self, event: str, who: str, why: FoxcastError) -> None:
        """Log a failure of a service that the tools use, once a day."""
        self.warnings.warn_once(event, who=who, why=why, now=self.record.clock.now())

    def clean(self, text: str, limit: int) -> str:
        """Return foreign text cleaned, cut and without blocked addresses, as it may be shown."""
        return self.guards.blocks.redact(clean_text(text, limit))

    def fence(self, text: str, label: str, limit: int) -> str:
        """Return the same in its fence."""
        # The remark that a text was cut comes on top of the limit.
        return fence_text(self.clean(text, limit), label, 2 * limit + 100)


def describe_failure(error: FoxcastError) -> str:
    """Say in neutral words for the model what failed; the record has the details."""
    match error:
        case NotFoundError():
            return "there is no such thing there"
        case RequestRejectedError():
            return "it was refused"
        case MalformedDataError():
            return "the reply could not be read"
        case AuthenticationError():
            return "there is no access"
        case _:
            return "it cannot be reached now"
