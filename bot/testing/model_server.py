"""A scripted language model behind a chat-completions endpoint: real HTTP on loopback."""

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from types import TracebackType
from typing import Any, Self, TypeAlias

from bot.core.interfaces import Clock
from bot.core.light_dataclass import dataclass
from bot.core.values import Json
from bot.testing.json_schema import fill_schema, find_variant
from bot.testing.loopback_server import LoopbackServer, ReceivedRequest, ResponseEnding, ScriptedResponse

ENDPOINT = "/v1/chat/completions"
# How an agent's loop says which of the listed tools can be called now.
_CALLABLE = re.compile(
    r"(?:You can call now: |Send exactly one of: |Answer with one call of )([\w-]+(?:, [\w-]+)*)\.(?=\s|$|[\"\\])"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """A request for a completion.

    ``number`` counts from 1, ``assistant_turns`` is the number of earlier messages of the model in it.
    """

    number: int
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        return [message for message in self.body.get("messages", ()) if isinstance(message, dict)]

    @property
    def assistant_turns(self) -> int:
        return sum(message.get("role") == "assistant" for message in self.messages)

    @property
    def tools(self) -> Mapping[str, Mapping[str, Any]]:
        """The schemas of the arguments of the tools that may be called now, by name.

        These are the ones that the choice names. Without such a choice they are those that the conversation named last,
        out of all that are listed.
        """
        listed = {tool["function"]["name"]: tool["function"]["parameters"] for tool in self.body.get("tools", ())}
        choice = self.body.get("tool_choice")
        if not isinstance(choice, dict):
            named = self._named()
        else:
            among = choice["allowed_tools"]["tools"] if choice.get("type") == "allowed_tools" else [choice]
            named = [one["function"]["name"] for one in among]
        return {name: schema for name, schema in listed.items() if name in named} or listed

    def _named(self) -> list[str]:
        """Return the tools that the conversation last named as allowed."""
        for message in reversed(self.messages):
            if message.get("role") in {"user", "tool"} and (found := _CALLABLE.findall(_text(message))):
                return str(found[-1]).split(", ")
        return []

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """The schema that the answer must have, where one is asked for."""
        wanted = (self.body.get("response_format") or {}).get("json_schema") or {}
        schema: Mapping[str, Any] | None = wanted.get("schema")
        return schema

    def outside_text(self) -> str:
        """Return all texts that are not from the model or its operator: user messages and results of tools."""
        return "\n".join(_text(message) for message in self.messages if message.get("role") in {"user", "tool"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedReply:
    """A completion, and how it is sent. ``arguments`` of a call are text as sent, valid or not.

    ``finish`` None is the fitting reason: tool_calls or stop. ``raw`` replaces the body.
    """

    text: str | None = None
    calls: tuple[tuple[str, str], ...] = ()
    thinking: str = ""
    refusal: str | None = None
    finish: str | None = None
    tokens_in: int = 100
    tokens_cached: int = 0
    tokens_out: int = 20
    raw: bytes | None = None
    response: ScriptedResponse = field(default_factory=ScriptedResponse)

    def to_response(self, asked: CompletionRequest) -> ScriptedResponse:
        """Return the body to send."""
        body = self.raw if self.raw is not None else json.dumps(self._body(asked), ensure_ascii=False).encode()
        return replace(self.response, body=body)

    def _body(self, asked: CompletionRequest) -> Json:
        message: dict[str, Json] = {"role": "assistant", "content": self.text, "refusal": self.refusal}
        if self.thinking:
            message["reasoning_content"] = self.thinking
        if self.calls:
            message["tool_calls"] = [
                {"id": f"call_{asked.number}_{nth}", "type": "function", "function": {"name": name, "arguments": text}}
                for nth, (name, text) in enumerate(self.calls, 1)
            ]
        return {
            "id": f"chatcmpl-{asked.number}",
            "object": "chat.completion",
            "created": 1_770_000_000,
            "model": asked.model,
            "choices": [
                {
                    "index": 0,
                    "message": message,
                    "logprobs": None,
                    "finish_reason": self.finish or ("tool_calls" if self.calls else "stop"),
                }
            ],
            "usage": {
                "prompt_tokens": self.tokens_in,
                "completion_tokens": self.tokens_out,
                "total_tokens": self.tokens_in + self.tokens_out,
                "prompt_tokens_details": {"cached_tokens": self.tokens_cached},
            },
        }


ReplyFunction: TypeAlias = Callable[[CompletionRequest], ScriptedReply]
ReplyScript: TypeAlias = ScriptedReply | Sequence[ScriptedReply] | ReplyFunction


class ScriptedModelServer:
    """Plays a script at ``base_url`` while it is entered; keeps every request for a completion in ``requests``.

    Requests are not kept where ``keep`` is False, so that hundreds of thousands of them cost no memory. ``wire`` knows
    about connections and about clients that disconnected.
    """

    def __init__(self, script: ReplyScript, *, clock: Clock | None = None, keep: bool = True, port: int = 0) -> None:
        self.script = script
        self.requests: list[CompletionRequest] = []
        self.wire = LoopbackServer(self._answer, clock=clock, port=port)
        self._keep = keep
        self._count = 0

    @property
    def base_url(self) -> str:
        """The address for a client, up to and with ``/v1``."""
        return f"{self.wire.address}/v1"

    @property
    def count(self) -> int:
        """How many completions were requested."""
        return self._count

    async def __aenter__(self) -> Self:
        await self.wire.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.wire.__aexit__(kind, error, trace)

    def _answer(self, received: ReceivedRequest) -> ScriptedResponse:
        if (received.method, received.path) != ("POST", ENDPOINT):
            return _error_response(404, f"there is no {received.method} {received.path} here")
        try:
            body = json.loads(received.body)
        except ValueError:
            return _error_response(400, "the body is not JSON")
        self._count += 1
        asked = CompletionRequest(number=self._count, path=received.path, headers=received.headers, body=body)
        if self._keep:
            self.requests.append(asked)
        return self._reply(asked).to_response(asked)

    def _reply(self, asked: CompletionRequest) -> ScriptedReply:
        script = self.script
        if isinstance(script, ScriptedReply):
            return script
        return script(asked) if callable(script) else script[min(asked.number, len(script)) - 1]


async def serve_script(script: ReplyScript, announce: Callable[[str], object]) -> None:
    """Play a script until cancelled, in a process of its own: keep no requests, send the base URL to ``announce``."""
    async with ScriptedModelServer(script, keep=False) as server:
        announce(server.base_url)
        await asyncio.Event().wait()


# What a model says


def reply_text(text: str) -> ScriptedReply:
    """Answer with a text."""
    return ScriptedReply(text=text)


def reply_json(value: Json) -> ScriptedReply:
    """Answer with JSON as text; NaN and infinity go out as Python writes them."""
    return ScriptedReply(text=json.dumps(value, ensure_ascii=False))


def reply_tool_calls(*moves: tuple[str, Json]) -> ScriptedReply:
    """Call tools, several at once where several are given: pairs of a name and its arguments."""
    return ScriptedReply(calls=tuple((name, json.dumps(arguments, ensure_ascii=False)) for name, arguments in moves))


def reply_refusal(why: str) -> ScriptedReply:
    """Decline to answer, as models do on grounds of policy."""
    return ScriptedReply(refusal=why)


def reply_cut_short(text: str) -> ScriptedReply:
    """Stop in the middle of a text because the allowed tokens are used up."""
    return ScriptedReply(text=text, finish="length")


class JsonFlaw(StrEnum):
    """How the text of a JSON object can be wrong."""

    CUT = "cut"
    NAN = "nan"
    OUT_OF_RANGE = "out of range"
    TWO_OBJECTS = "two objects"
    THINK_BLOCK = "think block"
    NO_BELIEF = "no belief"


_NUMBER = re.compile(r"(?<=: )-?\d+(\.\d+)?")


def spoil_json(text: str, flaw: JsonFlaw, *, belief: str = "updated_belief") -> str:
    """Return the text of a JSON object with a flaw; ``belief`` is the key that NO_BELIEF removes, at any depth.

    Raises ValueError where there is nothing to spoil, so that no test relies on a missing flaw.
    """
    spoilt = {
        JsonFlaw.CUT: lambda: text[: len(text) * 2 // 3],
        JsonFlaw.NAN: lambda: _NUMBER.sub("NaN", text, count=1),
        JsonFlaw.OUT_OF_RANGE: lambda: _NUMBER.sub("1000000", text, count=1),
        JsonFlaw.TWO_OBJECTS: lambda: text + text,
        JsonFlaw.THINK_BLOCK: lambda: f"<think>What would {{they}} say?</think>{text}",
        JsonFlaw.NO_BELIEF: lambda: json.dumps(_remove_key(json.loads(text), belief)),
    }[flaw]()
    if spoilt == text:
        message = f"there is nothing in this text to make {flaw.value}: {text}"
        raise ValueError(message)
    return spoilt


def with_flaw(reply: ScriptedReply, flaw: JsonFlaw) -> ScriptedReply:
    """Return the reply with a flaw in its text, or in the arguments of its calls."""
    calls = tuple((name, spoil_json(arguments, flaw)) for name, arguments in reply.calls)
    return replace(reply, calls=calls, text=spoil_json(reply.text, flaw) if reply.text and not calls else reply.text)


# What a server does


def reply_error(status: int, *, retry_after_s: int | None = None, why: str = "as scripted") -> ScriptedReply:
    """Answer with an error."""
    sent = _error_response(status, why)
    wait = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    return ScriptedReply(raw=sent.body, response=replace(sent, headers={**sent.headers, **wait}))


def never_reply() -> ScriptedReply:
    """Take the request and never answer."""
    return ScriptedReply(response=ScriptedResponse(ending=ResponseEnding.NEVER))


def drop_connection() -> ScriptedReply:
    """Take the request and end the connection without a byte."""
    return ScriptedReply(response=ScriptedResponse(ending=ResponseEnding.NO_ANSWER))


def cut_connection(reply: ScriptedReply) -> ScriptedReply:
    """Send half of the body and end the connection."""
    return replace(reply, response=replace(reply.response, ending=ResponseEnding.MIDWAY))


def send_bytewise(reply: ScriptedReply, every_s: float = 0.5) -> ScriptedReply:
    """Send the body byte by byte."""
    return replace(reply, response=replace(reply.response, byte_interval_s=every_s))


def delay_reply(reply: ScriptedReply, delay_s: float) -> ScriptedReply:
    """Answer after a delay."""
    return replace(reply, response=replace(reply.response, delay_s=delay_s))


def reply_web_page(text: str = "<html><body>Sign in</body></html>") -> ScriptedReply:
    """Answer 200 with a web page, as a captive portal does."""
    return ScriptedReply(raw=text.encode(), response=ScriptedResponse(headers={"Content-Type": "text/html"}))


def reply_of_size(size: int) -> ScriptedReply:
    """Answer with a valid completion of about that many bytes."""
    return reply_text("x" * size)


# Whole trials


def play_moves(*plan: tuple[str, Mapping[str, Json]], then: str = "submit") -> ReplyFunction:
    """Make the n-th planned move at the n-th turn, and afterwards ``then``, in the requested form.

    Required arguments that the plan does not give are filled in from the schema. A move that is not offered gives way
    to ``then``, or to what is offered first.
    """

    def play(asked: CompletionRequest) -> ScriptedReply:
        name, given = plan[asked.assistant_turns] if asked.assistant_turns < len(plan) else (then, {})
        return make_move(asked, name, given) or make_move(asked, then, {}) or _fallback_reply(asked)

    return play


def obey_demands(otherwise: ReplyFunction) -> ReplyFunction:
    """Follow the demands in the prompt's texts from outside, else play on: the worst reader of a hostile page.

    A demand is ``[[call NAME {"key": "value"}]]`` or ``[[say TEXT]]`` in a user message or in a tool's result. Each is
    followed once within a conversation, also where the tool is not offered.
    """

    def play(asked: CompletionRequest) -> ScriptedReply:
        earlier = "\n".join(json.dumps(message) for message in asked.messages if message.get("role") == "assistant")
        for demand in _DEMAND.finditer(asked.outside_text()):
            reply = _follow_demand(asked, demand["verb"], demand["rest"])
            if not _is_repeated(reply, earlier):
                return reply
        return otherwise(asked)

    return play


def make_move(asked: CompletionRequest, name: str, given: Mapping[str, Json]) -> ScriptedReply | None:
    """Return a move in the requested form, filled in from its schema, or None where it is not offered."""
    if asked.tools:
        schema = asked.tools.get(name)
        return None if schema is None else reply_tool_calls((name, fill_schema(schema, given)))
    if asked.schema is None:
        return None
    branch = find_variant(asked.schema, name)
    return None if branch is None else reply_json(fill_schema(branch, given))


_DEMAND = re.compile(r"\[\[(?P<verb>call|say) (?P<rest>.+?)\]\]", re.DOTALL)


def _follow_demand(asked: CompletionRequest, verb: str, rest: str) -> ScriptedReply:
    if verb == "say":
        return reply_text(rest)
    name, _, text = rest.partition(" ")
    given = json.loads(text or "{}")
    return make_move(asked, name, given) or (
        reply_tool_calls((name, given)) if asked.tools else reply_json({"action": name, **given})
    )


def _is_repeated(reply: ScriptedReply, earlier: str) -> bool:
    """Return whether the model has said this before; its words are JSON within JSON there."""
    words = [json.dumps(text)[1:-1] for _, text in reply.calls] or [json.dumps(reply.text)[1:-1]]
    return all(word in earlier for word in words)


def _fallback_reply(asked: CompletionRequest) -> ScriptedReply:
    if asked.tools:
        name, schema = next(iter(asked.tools.items()))
        return reply_tool_calls((name, fill_schema(schema, {})))
    return reply_text("Nothing comes to mind.") if asked.schema is None else reply_json(fill_schema(asked.schema, {}))


def _remove_key(value: Json, key: str) -> Json:
    if isinstance(value, dict):
        return {name: _remove_key(part, key) for name, part in value.items() if name != key}
    return [_remove_key(part, key) for part in value] if isinstance(value, list) else value


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(str(part.get("text", "")) for part in content)


def _error_response(status: int, why: str) -> ScriptedResponse:
    return ScriptedResponse(
        status=status, body=json.dumps({"error": {"message": why, "type": "scripted", "code": None}}).encode()
    )
