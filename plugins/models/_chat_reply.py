"""Replies of chat completions: what they say, what they cost, and the message as it is to go back.

Sources as in ``_wire_chat``.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, ValidationError

from bot.api import Completion, ContextExceeded, ContractError, Finish, Json, ToolCall, Usage
from plugins.models._faults import raise_fault
from plugins.models._wire_call import (
    ANSWER,
    CHARS_PER_TOKEN,
    TokenCount,
    WireCall,
    WirePart,
    WireReply,
    broken,
    counted_usage,
    decoded,
    estimated,
    next_id,
    prompt_chars,
)

FORM = "a chat-completions endpoint"
# A prompt shorter than this is too short to tell by its count of tokens whether all of it was read.
LEAST_JUDGED_TOKENS = 1_000
# No server has a context so short: whoever counts fewer tokens than this for a long prompt has not counted.
LEAST_COUNTED_TOKENS = 256
_TICKS = 1e10

_FINISHES = {
    "stop": Finish.STOP,
    "tool_calls": Finish.CALLS,
    "function_call": Finish.CALLS,
    "length": Finish.LENGTH,
    "content_filter": Finish.REFUSED,
}


def read_chat(raw: bytes, call: WireCall) -> WireReply:
    """Return what a reply says. Raises ContractError for another form, and an error in its place as what it is."""
    return chat_reply(decoded(raw, call.shown), call)


def chat_reply(value: Mapping[str, Any], call: WireCall) -> WireReply:
    """Return what a reply says that is JSON already; errors as ``read_chat`` raises them."""
    if value.get("error"):
        raise_fault(json.dumps(value["error"]), shown=call.shown, remedy=call.remedy)
    try:
        reply = _Reply.model_validate(value)
    except ValidationError as error:
        raise broken(error, call.shown, FORM) from None
    if not reply.choices:
        message = f"{call.shown}: the reply has no choice"
        raise ContractError(message)
    chosen = reply.choices[0]
    if chosen.error:
        raise_fault(json.dumps(chosen.error), shown=call.shown, remedy=call.remedy)
    said = chosen.message
    ids = [one.id or next_id(call.prompt, nth) for nth, one in enumerate(said.tool_calls or (), 1)]
    calls = tuple(
        ToolCall(id=made, name=one.function.name, arguments=one.function.arguments)
        for made, one in zip(ids, said.tool_calls or (), strict=True)
    )
    answered = len(said.text) + sum(len(made.arguments) for made in calls)
    completion = Completion(
        text=said.refusal or said.text,
        calls=calls,
        thinking=said.thoughts,
        finish=_finish(chosen, calls),
        usage=reply.usage.counted() if reply.usage else estimated(call.prompt, answered),
        cost_usd=reply.usage.told_cost() if reply.usage else None,
        model=reply.model or "",
        native=call.native(_kept(value["choices"][0]["message"], ids)) if said.text or calls else None,
    )
    return WireReply(completion=completion, written=reply.usage.written if reply.usage else 0)


def require_uncut(call: WireCall, usage: Usage, *, where: str) -> None:
    """Raise ContextExceeded where a server plainly read less than it was sent, which some do without a word.

    Only texts are counted, four characters a token: markup, tools and earlier reasoning would make it more.
    """
    sent = prompt_chars(call.prompt) // CHARS_PER_TOKEN
    if sent >= LEAST_JUDGED_TOKENS and LEAST_COUNTED_TOKENS <= usage.tokens_in < sent / 2:
        message = (
            f"{call.shown}: the server read {usage.tokens_in} tokens of a prompt of at least {sent}: it cut off the "
            f"beginning, and with it the question. {where}"
        )
        raise ContextExceeded(message)


def unwrapped(reply: WireReply) -> WireReply:
    """Return the answer of a model that was given the schema as its only tool, as if it had written JSON."""
    answer = reply.completion
    text = next((made.arguments for made in answer.calls if made.name == ANSWER), answer.text)
    plain = Completion(
        text=text,
        thinking=answer.thinking,
        finish=Finish.STOP if answer.finish is Finish.CALLS else answer.finish,
        usage=answer.usage,
        cost_usd=answer.cost_usd,
        model=answer.model,
    )
    return WireReply(completion=plain, written=reply.written)


class _Function(WirePart):
    name: str
    arguments: str = ""


class _Call(WirePart):
    id: str | None = None
    function: _Function


class _Chunk(WirePart):
    type: str
    text: str | None = None
    thinking: Any = None


class _Said(WirePart):
    content: str | list[_Chunk] | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_Call] | None = None

    @property
    def text(self) -> str:
        """The words of the answer."""
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        return "".join(chunk.text or "" for chunk in self.content if chunk.type == "text")

    @property
    def thoughts(self) -> str:
        """What can be read of the thoughts."""
        chunks = self.content if isinstance(self.content, list) else []
        parts = [part for chunk in chunks if isinstance(chunk.thinking, list) for part in chunk.thinking]
        inside = "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))
        return self.reasoning_content or self.reasoning or inside


class _Choice(WirePart):
    message: _Said = Field(default_factory=_Said)
    finish_reason: str | None = None
    error: dict[str, Any] | str | None = None


class _Details(WirePart):
    cached_tokens: TokenCount | None = None
    cache_write_tokens: TokenCount | None = None
    reasoning_tokens: TokenCount | None = None


class _Usage(WirePart):
    prompt_tokens: TokenCount
    completion_tokens: TokenCount = 0
    total_tokens: TokenCount | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: TokenCount | None = None
    cached_tokens: TokenCount | None = None
    cost: Annotated[float, Field(ge=0)] | None = None
    cost_in_usd_ticks: Annotated[float, Field(ge=0)] | None = None

    @property
    def written(self) -> int:
        """How many tokens were put into the cache."""
        return (self.prompt_tokens_details or _Details()).cache_write_tokens or 0

    def counted(self) -> Usage:
        """Return the usage as it is counted here."""
        reasoning = (self.completion_tokens_details or _Details()).reasoning_tokens or 0
        told = (self.prompt_tokens_details or _Details()).cached_tokens
        cached = told or self.prompt_cache_hit_tokens or self.cached_tokens or 0
        return counted_usage(
            self.prompt_tokens, self.completion_tokens, cached=cached, reasoning=reasoning, total=self.total_tokens
        )

    def told_cost(self) -> float | None:
        """Return the cost in US dollars, where it is told."""
        return self.cost_in_usd_ticks / _TICKS if self.cost is None and self.cost_in_usd_ticks else self.cost


class _Reply(WirePart):
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: _Usage | None = None


def _finish(chosen: _Choice, calls: Sequence[ToolCall]) -> Finish:
    if chosen.message.refusal:
        return Finish.REFUSED
    finish = _FINISHES.get(chosen.finish_reason or "", Finish.OTHER)
    # Some servers say "stop", or nothing, after a call.
    return Finish.CALLS if calls and finish in {Finish.STOP, Finish.OTHER} else finish


def _kept(message: Mapping[str, Any], ids: Sequence[str]) -> Json:
    """Return a message as it is to go back: whole, without fields that have no value, each call with an id."""
    kept = {name: value for name, value in message.items() if value is not None or name == "content"}
    made = kept.pop("tool_calls", None)
    if made:
        kept["tool_calls"] = [{"type": "function", **one, "id": given} for one, given in zip(made, ids, strict=True)]
    return {"role": "assistant", **kept}
