"""Prompts, messages, tool calls, completions and prices of language models, the same for every provider."""

from collections.abc import Mapping
from dataclasses import field
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Literal

from bot.core.beliefs import ModelUsage
from bot.core.identity_cache import WeakReferable
from bot.core.light_dataclass import dataclass
from bot.core.values import Json

# Reasoning efforts in increasing order; each vendor supports some of them.
ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


def _freeze_schema(schema: Mapping[str, Json]) -> Mapping[str, Json]:
    return schema if isinstance(schema, MappingProxyType) else MappingProxyType(dict(schema))


class MessageRole(StrEnum):
    """The author of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class ModelDialect(StrEnum):
    """How a model is asked for a move: as a native tool call, or as one JSON object under a JSON schema.

    What a model supports is configuration: a server may drop tools without saying so.
    """

    TOOLS = "tools"
    JSON = "json"


class FinishReason(StrEnum):
    """Why a model stopped."""

    STOP = "stop"
    CALLS = "calls"
    LENGTH = "length"
    REFUSED = "refused"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition:
    """A tool as a model sees it; ``parameters`` is the JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Json]

    def __post_init__(self) -> None:
        """Freeze the schema's top level; a frozen one stays the same object."""
        object.__setattr__(self, "parameters", _freeze_schema(self.parameters))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool call as the model wrote it: ``arguments`` is its text, neither parsed nor checked."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeMessage:
    """An assistant message as its provider returned it, complete, so that it can be sent back unchanged.

    ``provider`` names the adapter and its wire format, ``model`` the model at that provider. ``text`` is JSON that only
    this adapter reads and only for this model: it has signatures and encrypted reasoning that are invalid elsewhere.
    """

    provider: str
    model: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(WeakReferable):
    """One message: one of an assistant may have calls, one of a tool names the call that it answers.

    ``native`` is set on a message that a provider returned; another adapter builds it from ``text`` and ``calls``.
    """

    speaker: MessageRole
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    answers: str | None = None
    native: NativeMessage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A conversation and what may come next.

    With ``tools`` the model should call one of them, and may answer with text instead; with ``schema`` it must answer
    with one JSON object of that schema. ``allowed`` names the tools that may be called now (none named: all of them);
    the messages say so too, because few providers can enforce that. Only append messages, and keep ``tools`` the same
    in every request of a conversation: providers bill a repeated prefix at a fraction, and some refuse a changed one.
    ``stable`` is how many messages at the beginning will not change, for providers that use it.

    ``model`` is the model that took part in this conversation, as in ``ModelAnswer.model``, "" if none did. Any other
    model gets ``handover`` instead of ``messages``, if there is one. ``cache_key`` is the same for all conversations
    with the same prefix, for providers with separate caches.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()
    allowed: tuple[str, ...] = ()
    schema: Mapping[str, Json] | None = None
    stable: int = 0
    model: str = ""
    handover: tuple[Message, ...] = ()
    cache_key: str = ""

    def __post_init__(self) -> None:
        """Refuse a prompt with both tools and schema, or with unknown allowed tools; freeze its schema."""
        if self.tools and self.schema is not None:
            message = "a prompt asks for a tool call or for a JSON object, not for both"
            raise ValueError(message)
        if self.allowed and (missing := set(self.allowed) - {tool.name for tool in self.tools}):
            message = f"the prompt allows {', '.join(sorted(missing))}, which is not among its tools"
            raise ValueError(message)
        if self.schema is not None:
            object.__setattr__(self, "schema", _freeze_schema(self.schema))


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingSettings:
    """Sampling settings of a model; None means the default of the provider. ``effort`` is the reasoning effort."""

    max_tokens: int
    temperature: float | None = None
    effort: str | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDefaults:
    """What a provider recommends for a model if config says nothing.

    ``max_tokens`` is enough for reasoning and the answer; ``effort`` is the one for hard problems, None if not known.
    """

    max_tokens: int
    effort: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPrice:
    """US dollars per million tokens: input, cached input, output, cache writes.

    ``tokens_written``, the price of cache writes, is None if they cost nothing extra. ``long``, if any, is the price of
    a whole call whose prompt has more than ``long_from`` tokens.
    """

    tokens_in: float
    tokens_cached: float
    tokens_out: float
    tokens_written: float | None = None
    long_from: int | None = None
    long: "TokenPrice | None" = None

    def __post_init__(self) -> None:
        """Refuse negative and NaN prices, and ``long`` without ``long_from`` or the reverse."""
        if (self.long is None) != (self.long_from is None):
            message = f"a price of long prompts needs both long and long_from: {self}"
            raise ValueError(message)
        amounts = (self.tokens_in, self.tokens_cached, self.tokens_out, self.tokens_written or 0.0)
        if not all(amount >= 0 for amount in amounts):
            message = f"a price must not be negative: {self}"
            raise ValueError(message)

    def usage_cost(self, usage: ModelUsage) -> float:
        """Return the cost of tokens in US dollars; cached tokens are a part of the input.

        Usage does not count the tokens written to a cache; they cost the input price here.
        """
        if self.long is not None and self.long_from is not None and usage.tokens_in > self.long_from:
            return self.long.usage_cost(usage)
        fresh = max(0, usage.tokens_in - usage.tokens_cached)
        dollars = fresh * self.tokens_in + usage.tokens_cached * self.tokens_cached + usage.tokens_out * self.tokens_out
        return dollars / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCompletion:
    """The answer of a provider. ``cost_usd`` is None if it is unknown, which never means free.

    ``usage`` counts one call and its tokens, without the cost; ``model`` is the name that the provider reports;
    ``native`` is the message as returned, for a provider that needs it back unchanged.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    thinking: str = ""
    finish: FinishReason = FinishReason.STOP
    usage: ModelUsage = field(default_factory=ModelUsage)
    cost_usd: float | None = None
    model: str = ""
    native: NativeMessage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """A completion as a forecaster gets it: paid for, recorded, and with its cost in ``usage``.

    ``model`` is the reference in config, ``provider:name``; ``document`` the digest of the stored record of the call;
    ``stored`` says that no request was made, because the same one had been answered before.
    """

    completion: ModelCompletion
    usage: ModelUsage
    model: str
    document: str
    stored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CostAttribution:
    """The forecast, question, venue, forecaster and trial that a call is charged to.

    ``scope`` is the id of the forecast, or of its substitute in a backtest; ``ref`` the question, ``venue:key``.
    """

    scope: str
    ref: str
    venue: str
    forecaster: str
    trial: int


class ModelUrgency(IntEnum):
    """Which requests are sent first while more wait than a model gets at the same time: the lowest.

    A person waits for the answer; or the window of the question closes soon; or neither.
    """

    REQUESTED = 0
    CLOSING_SOON = 1
    ORDINARY = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """A request to the model in a role.

    ``nth`` counts, from 0, repetitions of a request within one trial. Two requests that differ only in their charge get
    the same answer, so a trial that needs its own random draw sets a ``seed``. ``urgency`` changes no answer.
    """

    role: str
    prompt: Prompt
    charge: CostAttribution
    seed: int | None = None
    nth: int = 0
    urgency: ModelUrgency = ModelUrgency.ORDINARY


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPerformance:
    """How one model did in one role in one trial.

    ``model`` is its reference, ``provider:name``; ``asked`` counts the moves requested, ``unparsed`` those that could
    not be parsed; ``submitted`` says whether it ended by submitting, None if it was not asked to; ``ended_at_half``
    whether it ended at exactly 0.5; ``submission_gap`` is the distance in probability between its last belief and its
    submission. ``beliefs`` counts the belief updates requested, ``unread_beliefs`` those that could not be parsed, and
    ``errors`` the requests that failed after an earlier answer, which ended a turn or made another model take over.
    """

    role: str
    model: str
    asked: int
    unparsed: int
    submitted: bool | None = None
    ended_at_half: bool = False
    submission_gap: float = 0.0
    beliefs: int = 0
    unread_beliefs: int = 0
    errors: int = 0
