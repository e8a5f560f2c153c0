"""What every wire format works with: a call to be put into a body, a reply that was read, and helpers for both."""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.api import Completion, ContractError, Json, Message, NativeMessage, Prompt, Sampling, Speaker, ToolCall, Usage
from plugins.models._faults import FaultRemedy
from plugins.models._profiles import ModelProfile

# The name of the schema, and of the tool that stands in for it where a server takes no schemas.
ANSWER = "answer"
# What Google takes in place of a signature on a call of another model.
NO_SIGNATURE = "skip_thought_signature_validator"
MAX_REPLY_BYTES = 2 * 2**20
# A server that does not count is charged as the reservation before the call is: by this many characters a token.
CHARS_PER_TOKEN = 4
# Most providers refuse a text without a character; this stands in for one.
EMPTY = "(empty)"
# What every family takes as the id of a call that it did not make itself.
_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
_SHORT_ID = re.compile(r"[A-Za-z0-9]{9}")


@dataclass(frozen=True, kw_only=True)
class WireCall:
    """One call as a wire format needs it.

    ``model`` is the name at our provider, ``name`` that at the vendor, ``shown`` that in messages. ``adapter`` marks
    the messages that go back as they came, those of this model alone. ``tool_choice`` is "auto" or "required".
    """

    model: str
    name: str
    shown: str
    adapter: str
    prompt: Prompt
    sampling: Sampling
    profile: ModelProfile
    tool_choice: str = "auto"
    remedy: FaultRemedy = field(default_factory=FaultRemedy)

    @cached_property
    def level(self) -> str | None:
        """The effort in the words of the model; raises ConfigError as ``ModelProfile.level`` does."""
        return self.profile.level(self.sampling.effort, self.shown)

    def received(self, message: Message) -> Json:
        """Return what this model said, as it came, or None for a message that this model did not give."""
        native = message.native
        if native is None or (native.provider, native.model) != (self.adapter, self.model):
            return None
        return _loaded(native.text)

    def native(self, value: Json) -> NativeMessage:
        """Return a message of this model, to be kept whole."""
        return NativeMessage(provider=self.adapter, model=self.model, text=_dumped(value))

    def plain(self) -> "WireCall":
        """Return the call without anything that a provider signed or encrypted."""
        messages = tuple(replace(message, native=None) for message in self.prompt.messages)
        return replace(self, prompt=replace(self.prompt, messages=messages))

    @property
    def carries_state(self) -> bool:
        """Whether any message goes back as it came."""
        return any(self.received(message) is not None for message in self.prompt.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class WireReply:
    """A reply as it was read; ``written`` is how many tokens were put into the provider's cache, part of those in."""

    completion: Completion
    written: int = 0


class WirePart(BaseModel):
    """What comes from outside is read strictly; what is not known is passed over."""

    model_config = ConfigDict(strict=True, extra="ignore", hide_input_in_errors=True, allow_inf_nan=False)


TokenCount = Annotated[int, Field(ge=0, le=10**9)]


def decoded(raw: bytes, shown: str) -> dict[str, Any]:
    """Return a reply as JSON; raises ContractError for what is none, or holds a number that cannot go back."""
    try:
        value = json.loads(raw, parse_float=_finite, parse_constant=_not_finite)
    except (ValueError, RecursionError):
        message = f"{shown}: the reply is not JSON; is this the address of an endpoint for models?"
        raise ContractError(message) from None
    if not isinstance(value, dict):
        message = f"{shown}: the reply is no JSON object; is this the address of an endpoint for models?"
        raise ContractError(message)
    return value


def broken(error: ValidationError, shown: str, form: str) -> ContractError:
    """Return the error for a reply that does not have its documented form."""
    first = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(map(str, first["loc"])) or "the body"
    return ContractError(f"{shown}: {place}: {first['msg']}; this is not a reply of {form}")


def sendable(text: str) -> str:
    """Return the text with a question mark for each half of a surrogate pair: a model may write it, UTF-8 lacks it."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def filled(text: str) -> str:
    """Return a text that is sendable and has a character other than white space."""
    return sendable(text) if text.strip() else EMPTY


def foreign_id(given: str, *, short: bool = False) -> str:
    """Return an id that every family takes in place of one that this model did not give; the same for the same one."""
    if (_SHORT_ID if short else _PLAIN_ID).fullmatch(given):
        return given
    digest = hashlib.sha256(given.encode(errors="replace")).hexdigest()
    return digest[:9] if short else f"call_{digest[:24]}"


def next_id(prompt: Prompt, nth: int) -> str:
    """Return an id for the n-th call of a reply, counted from 1, whose provider gave none: new in this conversation."""
    return f"call_{nth + sum(len(message.calls) for message in prompt.messages)}"


def arguments_of(call: ToolCall) -> dict[str, Json]:
    """Return the arguments of a call as an object, whatever the model wrote."""
    try:
        value = json.loads(call.arguments or "{}", parse_float=_finite, parse_constant=_not_finite)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"arguments": sendable(call.arguments)}


def written_out(value: Json) -> str:
    """Return arguments that came as an object in the form of text that all calls have."""
    return json.dumps(value, ensure_ascii=False)


def estimated(prompt: Prompt, answered: int) -> Usage:
    """Return the usage where a server counted nothing; ``answered`` is in characters."""
    return Usage(calls=1, tokens_in=_tokens(prompt_chars(prompt)), tokens_out=_tokens(answered))


def counted_usage(tokens_in: int, tokens_out: int, *, cached: int, reasoning: int, total: int | None) -> Usage:
    """Return the usage that a server told; where the total shows reasoning beside the output, it is added to it."""
    beside = total == tokens_in + tokens_out + reasoning
    tokens_out += reasoning if beside else 0
    return Usage(calls=1, tokens_in=tokens_in, tokens_cached=min(tokens_in, cached), tokens_out=tokens_out)


def prompt_chars(prompt: Prompt) -> int:
    """Return the number of characters of all that was said, without what markup, tools and reasoning add."""
    return sum(len(one.text) + sum(len(call.arguments) for call in one.calls) for one in prompt.messages)


def system_text(messages: Sequence[Message]) -> str:
    """Return what the operator says."""
    return "\n\n".join(message.text for message in messages if message.speaker is Speaker.SYSTEM)


def schema_request(schema: Mapping[str, Json]) -> str:
    """Return in words what form the answer must have."""
    return (
        "Answer with one JSON object and nothing else: no text around it, no code fence. It must be valid under this "
        f"JSON schema:\n{json.dumps(dict(schema), ensure_ascii=False)}"
    )


def merged_body(body: dict[str, Json], added: Mapping[str, Json]) -> dict[str, Json]:
    """Return a body with what config adds to it; tables are merged, and config wins."""
    result = dict(body)
    for name, value in added.items():
        before = result.get(name)
        result[name] = merged_body(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return result


def _tokens(chars: int) -> int:
    return -(-chars // CHARS_PER_TOKEN)


def _dumped(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can carry
        return json.dumps(value)
    return text


def _loaded(text: str) -> Json:
    value: Json = json.loads(text)
    return value


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _not_finite(text)


def _not_finite(text: str) -> NoReturn:
    message = f"{text[:40]} is no number that can be sent back"
    raise ValueError(message)
