"""Code that every wire format uses.

A call to be put into a request body, a parsed reply, a conversation as turns, and helpers for them.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from typing import Annotated, Any, NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from bot.api import (
    Json,
    MalformedDataError,
    Message,
    MessageRole,
    ModelCompletion,
    ModelUsage,
    NativeMessage,
    Prompt,
    SamplingSettings,
    ToolCall,
)
from plugins.models._profiles import ModelProfile
from plugins.models._provider_errors import ErrorRemedy

# The name of the schema, and of the tool that replaces it where a server accepts no schemas.
ANSWER_NAME = "answer"


# What Google accepts in place of a signature on a call of another model.
SIGNATURE_PLACEHOLDER = "skip_thought_signature_validator"


MAX_REPLY_BYTES = 2 * 2**20


# Where a server counts no tokens, the call costs the same estimate as its reservation: this many characters a token.
CHARS_PER_TOKEN = 4


# Most providers refuse an empty text; this replaces it.
EMPTY_TEXT = "(empty)"


# What every family accepts as the id of a call that it did not make itself.
_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")


_SHORT_ID = re.compile(r"[A-Za-z0-9]{9}")


@dataclass(frozen=True, kw_only=True)
class WireCall:
    """One call as a wire format needs it.

    ``model`` is the name at our provider, ``name`` that at the vendor, ``display_name`` that in messages. ``adapter``
    marks the messages that are sent back unchanged, only those of this model. ``tool_choice`` is "auto" or "required".
    """

    model: str
    name: str
    display_name: str
    adapter: str
    prompt: Prompt
    sampling: SamplingSettings
    profile: ModelProfile
    tool_choice: str = "auto"
    error_remedy: ErrorRemedy = field(default_factory=ErrorRemedy)

    @cached_property
    def level(self) -> str | None:
        """The effort in the words of the model; raises ConfigError as ``ModelProfile.level`` does."""
        return self.profile.effort_level(self.sampling.effort, self.display_name)

    def own_message(self, message: Message) -> Json:
        """Return this model's message as it was returned, or None for a message of another author."""
        native = message.native
        if native is None or (native.provider, native.model) != (self.adapter, self.model):
            return None
        return _load_json(native.text)

    def native_message(self, value: Json) -> NativeMessage:
        """Return a message of this model, to be kept whole."""
        return NativeMessage(provider=self.adapter, model=self.model, text=_dump_json(value))

    def without_native_messages(self) -> "WireCall":
        """Return the call without any part that a provider signed or encrypted."""
        messages = tuple(replace(message, native=None) for message in self.prompt.messages)
        return replace(self, prompt=replace(self.prompt, messages=messages))

    @property
    def has_native_messages(self) -> bool:
        """Whether any message is sent back unchanged."""
        return any(self.own_message(message) is not None for message in self.prompt.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class WireReply:
    """A parsed reply.

    ``cache_written_tokens`` is how many tokens were put into the provider's cache, part of those in.
    """

    completion: ModelCompletion
    cache_written_tokens: int = 0


class WireModel(BaseModel):
    """Data from outside is parsed strictly; unknown fields are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", hide_input_in_errors=True, allow_inf_nan=False)


TokenCount = Annotated[int, Field(ge=0, le=10**9)]


def decode_reply(raw: bytes, shown: str) -> dict[str, Any]:
    """Return a reply as JSON; raises MalformedDataError for other text, or for a number that cannot be sent back."""
    try:
        value = _REPLY_DECODER.decode(raw.decode(json.detect_encoding(raw), "surrogatepass"))
    except (ValueError, RecursionError):
        message = f"{shown}: the reply is not JSON; check that this is the address of a model endpoint"
        raise MalformedDataError(message) from None
    if not isinstance(value, dict):
        message = f"{shown}: the reply is not a JSON object; check that this is the address of a model endpoint"
        raise MalformedDataError(message)
    return value


def malformed_reply(error: ValidationError, shown: str, form: str) -> MalformedDataError:
    """Return the error for a reply that does not have its documented form."""
    first = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(map(str, first["loc"])) or "the body"
    return MalformedDataError(f"{shown}: {place}: {first['msg']}; this is not a reply of {form}")


def replace_surrogates(text: str) -> str:
    """Return the text with a question mark for each half of a surrogate pair.

    a model may write it, UTF-8 has no such code.
    """
    return text if text.isascii() else text.encode(errors="replace").decode()


def nonblank_text(text: str) -> str:
    """Return a text that can be sent and has a character other than white space."""
    return replace_surrogates(text) if text.strip() else EMPTY_TEXT


def portable_call_id(given: str, *, short: bool = False) -> str:
    """Return an id that every family accepts for one that this model did not give; always the same for the same id."""
    if (_SHORT_ID if short else _PLAIN_ID).fullmatch(given):
        return given
    digest = hashlib.sha256(given.encode(errors="replace")).hexdigest()
    return digest[:9] if short else f"call_{digest[:24]}"


def next_call_id(prompt: Prompt, nth: int) -> str:
    """Return an id for the n-th call of a reply, counted from 1, whose provider gave none: new in this conversation."""
    return f"call_{nth + sum(len(message.calls) for message in prompt.messages)}"


def call_arguments(call: ToolCall) -> dict[str, Json]:
    """Return the arguments of a call as an object, whatever the model wrote."""
    try:
        value = json.loads(call.arguments or "{}", parse_float=_parse_finite, parse_constant=_refuse_number)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"arguments": replace_surrogates(call.arguments)}


def encode_arguments(value: Json) -> str:
    """Return arguments that were given as an object in the text form that all calls have."""
    return json.dumps(value, ensure_ascii=False)


def with_known_usage(completion: ModelCompletion, prompt: Prompt) -> ModelCompletion:
    """Return a completion whose usage is estimated by its texts where the server counted no token at all."""
    if completion.usage.tokens_in or completion.usage.tokens_out:
        return completion
    answered = len(completion.text) + len(completion.thinking) + sum(len(made.arguments) for made in completion.calls)
    tokens_in, tokens_out = _estimate_tokens(prompt_chars(prompt)), _estimate_tokens(answered)
    return replace(completion, usage=ModelUsage(calls=1, tokens_in=tokens_in, tokens_out=tokens_out))


def reported_usage(tokens_in: int, tokens_out: int, *, cached: int, reasoning: int, total: int | None) -> ModelUsage:
    """Return the usage that a server reported.

    Where the total shows separate reasoning tokens, they are added to the output.
    """
    beside = total == tokens_in + tokens_out + reasoning
    tokens_out += reasoning if beside else 0
    return ModelUsage(calls=1, tokens_in=tokens_in, tokens_cached=min(tokens_in, cached), tokens_out=tokens_out)


def prompt_chars(prompt: Prompt) -> int:
    """Return the number of characters of all messages, without markup, tools and reasoning."""
    chars = 0
    for message in prompt.messages:
        chars += len(message.text)
        for call in message.calls:
            chars += len(call.arguments)
    return chars


def system_text(messages: Sequence[Message]) -> str:
    """Return the operator's instructions."""
    return "\n\n".join(message.text for message in messages if message.speaker is MessageRole.SYSTEM)


def schema_instruction(schema: Mapping[str, Json]) -> str:
    """Return in words what form the answer must have."""
    return (
        "Answer with one JSON object and nothing else: no text around it, no code fence. It must be valid under this "
        f"JSON schema:\n{json.dumps(dict(schema), ensure_ascii=False)}"
    )


def merge_body(body: dict[str, Json], added: Mapping[str, Json]) -> dict[str, Json]:
    """Return a body with the additions of config; tables are merged, and config wins."""
    result = dict(body)
    for name, value in added.items():
        before = result.get(name)
        result[name] = merge_body(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return result


def _estimate_tokens(chars: int) -> int:
    return -(-chars // CHARS_PER_TOKEN)


def _dump_json(value: Json) -> str:
    text = _MESSAGE_ENCODER.encode(value)
    try:
        text.encode()
    except UnicodeEncodeError:  # Half a surrogate pair, which only an escape can contain.
        return json.dumps(value)
    return text


def _load_json(text: str) -> Json:
    """Return what ``_dump_json`` wrote, in a third of the time of the standard library."""
    try:
        value: Json = from_json(text)
    except ValueError:  # half a surrogate pair, or nested too deeply
        value = json.loads(text)
    return value


def _parse_finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse_number(text)


def _refuse_number(text: str) -> NoReturn:
    message = f"{text[:40]} is not a number that can be sent back"
    raise ValueError(message)


# Made once: the library would make them anew for each reply.
_REPLY_DECODER = json.JSONDecoder(parse_float=_parse_finite, parse_constant=_refuse_number)
_MESSAGE_ENCODER = json.JSONEncoder(ensure_ascii=False)


@dataclass(slots=True, kw_only=True)
class UserTurn:
    """What is sent to the model at once: first the results of its calls, then texts.

    ``end`` is how many messages of the prompt end with it; ``assistant_message`` is the model's message that the
    results answer.
    """

    results: list[Message] = field(default_factory=list)
    texts: list[Message] = field(default_factory=list)
    assistant_message: Message | None = None
    end: int = 0

    def ordered_results(self) -> list[Message]:
        """Return the results in the order of the calls; those that answer none of them come last."""
        order = {
            call.id: place for place, call in enumerate(self.assistant_message.calls if self.assistant_message else ())
        }
        return sorted(self.results, key=lambda result: order.get(result.answers or "", len(order)))


ConversationTurn = UserTurn | Message


def conversation_turns(messages: Sequence[Message]) -> Iterator[ConversationTurn]:
    """Yield the turns in order, an assistant's as its message; the operator's instructions belong to none."""
    open_turn: UserTurn | None = None
    assistant_message: Message | None = None
    for place, message in enumerate(messages, 1):
        if message.speaker is MessageRole.SYSTEM:
            continue
        if message.speaker is MessageRole.ASSISTANT:
            if open_turn is not None:
                yield open_turn
            open_turn, assistant_message = None, message
            yield message
            continue
        open_turn = open_turn or UserTurn(assistant_message=assistant_message)
        (open_turn.results if message.speaker is MessageRole.TOOL else open_turn.texts).append(message)
        open_turn.end = place
    if open_turn is not None:
        yield open_turn


def shared_opening_place(messages: Sequence[Message]) -> int | None:
    """Return the place of the last text that other conversations may begin with too; None where there is none.

    That is the one before the last text of an opening that has several.
    """
    first = next((place for place, one in enumerate(messages) if one.speaker is not MessageRole.SYSTEM), 0)
    opening = [*takewhile(lambda one: one.speaker is MessageRole.USER, messages[first:])]
    return first + len(opening) - 2 if len(opening) > 1 else None


def last_stable_turn(turns: Sequence[ConversationTurn], stable: int) -> int | None:
    """Return the place of the last user turn that will not change, None where there is none."""
    places = [place for place, turn in enumerate(turns) if isinstance(turn, UserTurn) and turn.end <= stable]
    return places[-1] if places else None
