"""The chat-completions form that both providers speak: a prompt as a request body, a reply as a completion.

Source: the OpenAI API reference, "Create chat completion", and what OpenRouter, vLLM, llama.cpp and DeepSeek add to it
(``reasoning``, ``reasoning_content``, ``usage.cost``, an ``error`` in an answer of status 200).
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.api import (
    Completion,
    ContractError,
    Finish,
    Json,
    Message,
    Prompt,
    Rejected,
    Sampling,
    Speaker,
    Tool,
    ToolCall,
    Unauthorized,
    Unavailable,
    Usage,
)

# The name of the schema, and of the tool that stands in for it where a server takes no schemas.
ANSWER = "answer"
MAX_REPLY_BYTES = 2 * 2**20
# A server that does not count is charged as the reservation before the call is: by this many characters a token.
CHARS_PER_TOKEN = 4
# The status of a server that has too much to do; as ``bot.http`` does, who is told no time to wait is told zero.
FULL = 429
# The status of an account without money.
BROKE = 402
_SHOWN_CHARS = 300

_FINISHES = {
    "stop": Finish.STOP,
    "tool_calls": Finish.CALLS,
    "function_call": Finish.CALLS,
    "length": Finish.LENGTH,
    "content_filter": Finish.REFUSED,
}


def messages(prompt: Prompt, *, marked: bool = False) -> list[Json]:
    """Return the messages as they go out; ``marked`` tells the provider up to where they will stay as they are."""
    sent = [_message(message) for message in prompt.messages]
    if marked and 0 < prompt.stable <= len(sent) and (text := _sendable(prompt.messages[prompt.stable - 1].text)):
        sent[prompt.stable - 1]["content"] = [
            {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}},
        ]
    return [*sent]


def choice(prompt: Prompt) -> dict[str, Json]:
    """Return what may come next: the tools, one of which must be called, or the schema of the answer, or nothing.

    Schemas are those of the prompt and no copies: whoever hands them to what changes them in place copies them first.
    """
    if prompt.tools:
        named = prompt.allowed or tuple(tool.name for tool in prompt.tools)
        only = named[0] if len(named) == 1 else None
        forced: Json = "required" if only is None else {"type": "function", "function": {"name": only}}
        return {"tools": [_tool(tool) for tool in prompt.tools], "tool_choice": forced}
    if prompt.schema is not None:
        schema: Json = {"name": ANSWER, "schema": dict(prompt.schema)}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    return {}


def sampled(sampling: Sampling) -> dict[str, Json]:
    """Return how the model samples, without what is left to the provider; the limit of tokens is not among it."""
    wanted: dict[str, Json] = {"temperature": sampling.temperature, "seed": sampling.seed}
    return {name: value for name, value in wanted.items() if value is not None}


def completion(raw: bytes | Mapping[str, Any], *, shown: str, prompt: Prompt) -> Completion:
    """Return what a reply says, without its cost unless it names it.

    Raises ContractError for a reply that is not of its documented form; an error in the place of one is raised as what
    it is. ``shown`` names the model in messages.
    """
    reply = _read(raw, shown)
    if reply.error is not None:
        _raise(reply.error, shown)
    if not reply.choices:
        message = f"{shown}: the reply has no choice"
        raise ContractError(message)
    chosen = reply.choices[0]
    if chosen.error is not None:
        _raise(chosen.error, shown)
    said = chosen.message
    calls = tuple(_call(call, nth) for nth, call in enumerate(said.tool_calls or (), 1))
    return Completion(
        text=said.refusal or _joined(said.content),
        calls=calls,
        thinking=said.reasoning_content or said.reasoning or "",
        finish=_finish(chosen, calls),
        usage=_usage(reply.usage, said, prompt),
        cost_usd=reply.usage.cost if reply.usage else None,
        model=reply.model or "",
    )


def refused(variable: str, *, broke: bool = False) -> str:
    """Say what happened to credentials and what a person is to do; ``broke``: they were taken, the account is empty."""
    if broke:
        return f"the account has no money; top it up, or set {variable} to the key of another one"
    return f"the key was refused; set {variable} to one that the provider takes for this model"


def unwrapped(answer: Completion) -> Completion:
    """Return the answer of a model that was given the schema as its only tool, as if it had written JSON."""
    text = next((call.arguments for call in answer.calls if call.name == ANSWER), answer.text)
    finish = Finish.STOP if answer.finish is Finish.CALLS else answer.finish
    return Completion(
        text=text,
        thinking=answer.thinking,
        finish=finish,
        usage=answer.usage,
        cost_usd=answer.cost_usd,
        model=answer.model,
    )


class _Part(BaseModel):
    """What comes from outside is read strictly; what is not known is passed over."""

    model_config = ConfigDict(strict=True, extra="ignore", hide_input_in_errors=True, allow_inf_nan=False)


_Count = Annotated[int, Field(ge=0, le=10**9)]


class _Function(_Part):
    name: str
    arguments: str = ""


class _Call(_Part):
    id: str | None = None
    function: _Function


class _Chunk(_Part):
    type: str
    text: str | None = None


class _Error(_Part):
    message: str = "an error without a message"
    code: int | str | None = None


class _Said(_Part):
    content: str | list[_Chunk] | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(_Part):
    message: _Said
    finish_reason: str | None = None
    error: _Error | None = None


class _Details(_Part):
    cached_tokens: _Count | None = None


class _Usage(_Part):
    prompt_tokens: _Count
    completion_tokens: _Count = 0
    prompt_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: _Count | None = None
    cost: Annotated[float, Field(ge=0)] | None = None

    @property
    def cached(self) -> int:
        told = self.prompt_tokens_details and self.prompt_tokens_details.cached_tokens
        return min(self.prompt_tokens, told or self.prompt_cache_hit_tokens or 0)


class _Reply(_Part):
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: _Error | None = None


def _read(raw: bytes | Mapping[str, Any], shown: str) -> _Reply:
    try:
        return _Reply.model_validate_json(raw) if isinstance(raw, bytes) else _Reply.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the body"
        message = f"{shown}: {place}: {first['msg']}; this is not the reply of a chat-completions endpoint"
        raise ContractError(message) from None


def _raise(error: _Error, shown: str) -> NoReturn:
    """Raise what an error within an answer of status 200 means."""
    message = f"{shown}: {' '.join(error.message.split())[:_SHOWN_CHARS]}"
    code = error.code if isinstance(error.code, int) else None
    if code in {401, 402, 403}:
        raise Unauthorized(message)
    if code is None or code in {408, 429} or code >= 500:
        raise Unavailable(message, retry_after_s=0.0 if code == FULL else None)
    raise Rejected(message)


def _finish(chosen: _Choice, calls: Sequence[ToolCall]) -> Finish:
    if chosen.message.refusal:
        return Finish.REFUSED
    finish = _FINISHES.get(chosen.finish_reason or "", Finish.OTHER)
    # Some servers say "stop" after a call.
    return Finish.CALLS if calls and finish is Finish.STOP else finish


def _usage(told: _Usage | None, said: _Said, prompt: Prompt) -> Usage:
    if told is None:
        asked = sum(len(message.text) for message in prompt.messages)
        answered = len(_joined(said.content)) + sum(len(call.function.arguments) for call in said.tool_calls or ())
        return Usage(calls=1, tokens_in=_tokens(asked), tokens_out=_tokens(answered))
    return Usage(calls=1, tokens_in=told.prompt_tokens, tokens_cached=told.cached, tokens_out=told.completion_tokens)


def _tokens(chars: int) -> int:
    return -(-chars // CHARS_PER_TOKEN)


def _joined(content: str | list[_Chunk] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(chunk.text or "" for chunk in content if chunk.type == "text")


def _call(call: _Call, nth: int) -> ToolCall:
    return ToolCall(id=call.id or f"call_{nth}", name=call.function.name, arguments=call.function.arguments)


def _tool(tool: Tool) -> Json:
    described: dict[str, Json] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": described}


def _message(message: Message) -> dict[str, Json]:
    sent: dict[str, Json] = {"role": message.speaker.value, "content": _sendable(message.text)}
    if message.speaker is Speaker.TOOL:
        sent["tool_call_id"] = message.answers
    if message.calls:
        sent["content"] = _sendable(message.text) or None
        sent["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _sendable(call.arguments)}}
            for call in message.calls
        ]
    return sent


def _sendable(text: str) -> str:
    """Return the text with a question mark for each half of a surrogate pair: a model may write it, UTF-8 lacks it."""
    return text if text.isascii() else text.encode(errors="replace").decode()
