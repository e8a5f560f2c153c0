"""Values of one exchange with a fake provider: the request, its common form, the reply, and the refusal."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any, TypeAlias

from bot.core.ids import derive_id
from bot.core.light_dataclass import dataclass
from bot.testing.model_server import ScriptedReply

CHARS_PER_TOKEN = 4
# Marks that tell a provider where to cache. They may move between requests and are not part of the prefix.
CACHE_MARKS = frozenset({"cache_control", "prompt_cache_breakpoint"})

# Each tool, the system prompt and each message: a digest of everything up to its end, and its own characters.
RequestPrefix: TypeAlias = tuple[tuple[str, int], ...]


@dataclass(kw_only=True, eq=False)
class RequestRefusal(Exception):
    """A request that the provider refuses: the rule it breaks ("P-7", "" for none of the list) and the error's parts.

    ``kind`` is the error's type. ``body`` is the error as sent; where it is None, the fake makes it from the other
    parts, in the provider's form.
    """

    rule: str
    message: str
    status: int = 400
    kind: str = "invalid_request_error"
    param: str | None = None
    code: str | None = None
    body: Any = None

    def __str__(self) -> str:
        return f"{self.rule or 'refused'}: {self.status} {self.message}"


class ReplyOverride(StrEnum):
    """The next reply in place of the script's. Each fake provider says which of these it knows."""

    OVERLOADED = "overloaded"
    RATE_LIMITED = "rate limited, with the time to wait"
    RATE_LIMITED_SILENT = "rate limited, without the time to wait"
    QUOTA_EXHAUSTED = "quota exhausted"
    REFUSAL = "refusal"
    EMPTY_LENGTH = "thinking used up all tokens"
    MALFORMED_CALL = "malformed call"
    PAUSE = "pause"
    BLOCKED_PROMPT = "blocked prompt"
    SAFETY = "stopped by a safety filter"
    ERROR_IN_BODY = "status 200 with an error as body"
    ERROR_IN_CHOICE = "status 200 with an error in the choice"
    ERROR_IN_STREAM = "an error in the midst of a stream"


@dataclass(kw_only=True, eq=False)
class ProviderRequest:
    """A request as received, with the fake's measurements of it. ``number`` counts from 1, refused ones included.

    ``chars`` is the size of tools, system and messages, ``cached_chars`` how many of them, from the beginning, an
    earlier answered request had too. ``previous`` is the number of the request before it in its conversation, and
    ``shared_prefix`` the share of that one's tools, system and messages that this one begins with (1.0: all).
    """

    number: int
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    chars: int = 0
    cached_chars: int = 0
    previous: int | None = None
    shared_prefix: float | None = None
    refusal: RequestRefusal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModelProfile:
    """The properties of a model: the size of its context window in tokens, and whether it reasons by default."""

    window: int = 400_000
    thinks: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A provider's request in common form.

    ``body`` is the same request in chat-completions form, for scripts and for the rules of all providers. ``prefix``
    measures tools, system and messages in the provider's own form (``request_prefix``). ``natives`` holds, by its index
    in ``body["messages"]``, each assistant message in the provider's own form.
    """

    source: ProviderRequest
    model: str
    body: Mapping[str, Any]
    prefix: RequestPrefix
    natives: Mapping[int, Any] = field(default_factory=dict)
    stream: bool = False

    @property
    def native(self) -> Mapping[str, Any]:
        """The request's body as received."""
        return self.source.body

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        """The messages in chat-completions form."""
        return self.body.get("messages") or ()

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """The functions that are offered: name, description, parameters."""
        return [tool["function"] for tool in self.body.get("tools") or () if tool.get("type") == "function"]

    @property
    def choice(self) -> Any:  # noqa: ANN401 - a word or an object
        """The tool choice in chat-completions form, None where there is none."""
        return self.body.get("tool_choice")

    @property
    def forces_tool_call(self) -> bool:
        """Whether a tool call is required: any one, or one of certain names."""
        choice = self.choice
        if isinstance(choice, dict):
            return bool((choice.get("allowed_tools") or {}).get("mode") != "auto")
        return choice not in (None, "auto", "none")

    def last_user(self) -> int:
        """Return the index of the last message of a user, -1 where there is none."""
        return max((at for at, one in enumerate(self.messages) if one.get("role") == "user"), default=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCount:
    """Tokens of one exchange at four characters each. ``cached`` is part of ``prompt``; ``thinking`` of no other."""

    prompt: int
    cached: int = 0
    output: int = 0
    thinking: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeReply:
    """A reply in the provider's form: the ``body`` as sent, and the assistant message that must be sent back.

    ``native`` is that message (or list of items) in the form in which a later request contains it. ``calls`` are its
    calls in order, as id, name and text of the arguments.
    """

    body: Mapping[str, Any]
    native: Any
    calls: tuple[tuple[str, str, str], ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedReply:
    """A remembered reply, with the number, path, prefix and model of its request."""

    request: int
    path: str
    model: str
    prefix: RequestPrefix
    written: NativeReply

    @property
    def call_names(self) -> tuple[tuple[str, str], ...]:
        """The ids and names of its calls, in order."""
        return tuple((call_id, name) for call_id, name, _ in self.written.calls)


def without_cache_marks(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a value without cache marks, at any depth."""
    if isinstance(value, dict):
        return {name: without_cache_marks(part) for name, part in value.items() if name not in CACHE_MARKS}
    return [without_cache_marks(part) for part in value] if isinstance(value, list) else value


def without_nulls(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a value without the keys of objects whose value is null, at any depth."""
    if isinstance(value, dict):
        return {name: without_nulls(part) for name, part in value.items() if part is not None}
    return [without_nulls(part) for part in value] if isinstance(value, list) else value


def request_prefix(*parts: Sequence[Any]) -> RequestPrefix:
    """Measure tools, system and messages (each a sequence of JSON values), in the order given, without cache marks.

    Keys keep their order: to a cache, another order is another text.
    """
    made, state = [], ""
    for one in (one for part in parts for one in part):
        text = json.dumps(without_cache_marks(one), ensure_ascii=True)
        state = derive_id("prefix", state, text)
        made.append((state, len(text)))
    return tuple(made)


def content_text(content: Any) -> str:  # noqa: ANN401 - a text or a list of parts
    """Return the text of a message's content."""
    if isinstance(content, list):
        return "\n".join(str(part["text"]) for part in content if isinstance(part, dict) and "text" in part)
    return content if isinstance(content, str) else ""


def message_calls(message: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the ids and names of the calls of an assistant message in chat-completions form."""
    return tuple((str(one.get("id")), str(one["function"].get("name"))) for one in message.get("tool_calls") or ())


def reply_thinking(reply: ScriptedReply, seed: str) -> str:
    """Return the model's reasoning: that of the script, else a sentence of its own for each reply."""
    return reply.thinking or f"I weigh what is known against what is asked ({seed[:8]})."


def parse_arguments(text: str) -> Mapping[str, Any] | None:
    """Return the arguments of a call as an object, None for other text; NaN becomes a text."""
    try:
        value = json.loads(text, parse_constant=str)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def token_count(chars: int) -> int:
    """Return the tokens of so many characters, at least one."""
    return max(1, chars // CHARS_PER_TOKEN)


def make_id(prefix: str, seed: str, number: int = 0) -> str:
    """Return an id that belongs to the seed of a reply: the prefix and 24 characters."""
    return prefix + derive_id("provider double", prefix, seed, str(number))


def opaque_text(kind: str, seed: str, number: int = 0) -> str:
    """Return 96 characters in place of a signature or of encrypted content: they mean nothing to a client."""
    return "".join(derive_id(kind, seed, str(number), str(part)) for part in range(4))
