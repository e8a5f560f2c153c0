"""What a tool of the desk is: its schema, what it does, and what it leaves; and the check of what it is given."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from bot.desk.leaks.caught import Caught
from bot.desk.notebook import Note
from bot.desk.take import Take
from bot.domain.prompt import Tool
from bot.domain.step import Json
from bot.errors import ContractError, FoxcastError, NotFound, Rejected, Unauthorized


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a tool gives back: text for the model, data for code, and its note."""

    text: str
    data: Json = None
    failed: bool = False
    note: Note = field(default_factory=Note)


class Cannot(Exception):
    """A tool cannot do what it was asked; the message is for the model."""

    def __init__(self, text: str, *, caught: Caught | None = None, note: Note | None = None) -> None:
        """Keep what was caught on the way."""
        super().__init__(text)
        self.note = note or Note(caught=caught or Caught())


class Instrument(Protocol):
    """One tool."""

    @property
    def tool(self) -> Tool:
        """The tool as a model sees it."""
        ...

    async def run(self, arguments: Mapping[str, Json], take: Take) -> Outcome:
        """Do it with arguments that fit the schema; raises Cannot."""
        ...


def described(
    name: str,
    description: str,
    properties: Mapping[str, dict[str, Json]] | None = None,
    *,
    required: tuple[str, ...] = (),
) -> Tool:
    """Return a tool whose arguments are the given properties and nothing else."""
    parameters: dict[str, Json] = {
        "type": "object",
        "properties": dict(properties or {}),
        "required": list(required),
        "additionalProperties": False,
    }
    return Tool(name=name, description=description, parameters=parameters)


def text_of(description: str, limit: int) -> dict[str, Json]:
    """Return the schema of a text."""
    return {"type": "string", "description": description, "minLength": 1, "maxLength": limit}


def misfit(arguments: object, schema: Mapping[str, Any]) -> str | None:
    """Say why arguments do not fit a schema made by ``described``, in words for the model; None if they do."""
    if not isinstance(arguments, Mapping):
        return "the arguments are not a JSON object"
    properties = schema["properties"]
    if missing := [name for name in schema["required"] if name not in arguments]:
        return f"{missing[0]} is missing"
    if any(name not in properties for name in arguments):
        return f"there are arguments besides {', '.join(properties)}" if properties else "there are no arguments"
    faults = ((name, _fault(value, properties[name])) for name, value in arguments.items())
    return next((f"{name} {fault}" for name, fault in faults if fault), None)


def _fault(value: object, schema: Mapping[str, Any]) -> str | None:
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
    longest = schema.get("maxLength")
    return f"is longer than {longest} characters" if longest is not None and len(value) > longest else None


def _integer_fault(value: object, schema: Mapping[str, Any]) -> str | None:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole:
        return "is not a whole number"
    least = schema.get("minimum")
    return f"is less than {least}" if least is not None and value < least else None


def _list_fault(value: object, schema: Mapping[str, Any]) -> str | None:
    if not isinstance(value, list):
        return "is not a list"
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        return f"should have {schema.get('minItems', 0)} to {schema.get('maxItems')} entries"
    return next((f"has an entry that {fault}" for item in value if (fault := _fault(item, schema["items"]))), None)


def reason(error: FoxcastError) -> str:
    """Say in neutral words for the model what went wrong; the record has the details."""
    match error:
        case NotFound():
            return "there is no such thing there"
        case Rejected():
            return "it was refused"
        case ContractError():
            return "what came could not be read"
        case Unauthorized():
            return "there is no access"
        case _:
            return "it cannot be reached now"
