"""A scripted language model behind a chat-completions endpoint: real HTTP on loopback, answers as a test wants them.

    async with ModelServer(say("42 %")) as server:
        ...  # ask at server.base_url, then look at server.requests

A script is one reply for every request, a sequence of them (the last one for ever), or a function of the request, so
that a whole trial can be played. It knows no model and no forecaster: it fills in whatever schema it is shown.
"""

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import TracebackType
from typing import Any, Self, TypeAlias

from bot.domain.step import Json
from bot.ports import Clock
from bot.testing.loopback import End, LoopbackServer, Received, Sent
from bot.testing.schema import fill, variant

ENDPOINT = "/v1/chat/completions"
# How the loop of an agent says which of the tools that it lists can be called now.
_CALLABLE = re.compile(
    r"(?:You can call now: |Send exactly one of: |Answer with one call of )([\w-]+(?:, [\w-]+)*)\.(?=\s|$)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request for a completion; ``number`` counts from 1, ``turn`` is how often the model spoke in it before."""

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
    def turn(self) -> int:
        return sum(message.get("role") == "assistant" for message in self.messages)

    @property
    def tools(self) -> Mapping[str, Mapping[str, Any]]:
        """The schemas of the arguments of the tools that may be called now, by name.

        These are the ones that the choice names. Without such a choice it is what the conversation said last, of all
        that are listed.
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
        """Return the tools that the model was last told it can call."""
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

    def heard(self) -> str:
        """Return all that was not said by the model or its operator: user messages and results of tools."""
        return "\n".join(_text(message) for message in self.messages if message.get("role") in {"user", "tool"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A completion, and how it is sent. ``arguments`` of a call are text as it goes out, valid or not.

    ``finish`` None is what fits: tool_calls or stop. ``raw`` replaces the body.
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
    sent: Sent = field(default_factory=Sent)

    def wire(self, asked: Asked) -> Sent:
        """Return what goes out."""
        body = self.raw if self.raw is not None else json.dumps(self._body(asked), ensure_ascii=False).encode()
        return replace(self.sent, body=body)

    def _body(self, asked: Asked) -> Json:
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


Play: TypeAlias = Callable[[Asked], Reply]
Script: TypeAlias = Reply | Sequence[Reply] | Play


class ModelServer:
    """Plays a script at ``base_url`` while it is entered; keeps every request for a completion in ``requests``.

    Requests are not kept where ``keep`` is False, so that hundreds of thousands of them cost no memory. ``wire`` tells
    of connections and of clients that left.
    """

    def __init__(self, script: Script, *, clock: Clock | None = None, keep: bool = True) -> None:
        self.script = script
        self.requests: list[Asked] = []
        self.wire = LoopbackServer(self._answer, clock=clock)
        self._keep = keep
        self._count = 0

    @property
    def base_url(self) -> str:
        """The address that a client is given, up to and with ``/v1``."""
        return f"{self.wire.address}/v1"

    @property
    def count(self) -> int:
        """How many completions were asked for."""
        return self._count

    async def __aenter__(self) -> Self:
        await self.wire.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.wire.__aexit__(kind, error, trace)

    def _answer(self, received: Received) -> Sent:
        if (received.method, received.path) != ("POST", ENDPOINT):
            return _problem(404, f"there is no {received.method} {received.path} here")
        try:
            body = json.loads(received.body)
        except ValueError:
            return _problem(400, "the body is not JSON")
        self._count += 1
        asked = Asked(number=self._count, path=received.path, headers=received.headers, body=body)
        if self._keep:
            self.requests.append(asked)
        return self._reply(asked).wire(asked)

    def _reply(self, asked: Asked) -> Reply:
        script = self.script
        if isinstance(script, Reply):
            return script
        return script(asked) if callable(script) else script[min(asked.number, len(script)) - 1]


async def serve(script: Script, announce: Callable[[str], object]) -> None:
    """Play a script until cancelled, in a process of its own: keeps no requests, tells ``announce`` the base URL."""
    async with ModelServer(script, keep=False) as server:
        announce(server.base_url)
        await asyncio.Event().wait()


# What a model says


def say(text: str) -> Reply:
    """Answer with a text."""
    return Reply(text=text)


def say_json(value: Json) -> Reply:
    """Answer with JSON as text; NaN and infinity go out as Python writes them."""
    return Reply(text=json.dumps(value, ensure_ascii=False))


def call(*moves: tuple[str, Json]) -> Reply:
    """Call tools, several at once where several are given: pairs of a name and its arguments."""
    return Reply(calls=tuple((name, json.dumps(arguments, ensure_ascii=False)) for name, arguments in moves))


def refuse(why: str) -> Reply:
    """Decline to answer, as models do on grounds of policy."""
    return Reply(refusal=why)


def cut_short(text: str) -> Reply:
    """Stop in the midst of a text because the allowed tokens are used up."""
    return Reply(text=text, finish="length")


class Flaw(StrEnum):
    """How the text of a JSON object can be wrong."""

    CUT = "cut"
    NAN = "nan"
    OUT_OF_RANGE = "out of range"
    TWO_OBJECTS = "two objects"
    THINK_BLOCK = "think block"
    NO_BELIEF = "no belief"


_NUMBER = re.compile(r"(?<=: )-?\d+(\.\d+)?")


def spoil(text: str, flaw: Flaw, *, belief: str = "updated_belief") -> str:
    """Return the text of a JSON object with a flaw; ``belief`` is the key that NO_BELIEF takes away, at any depth.

    Raises ValueError where there is nothing to spoil, so that no test believes in a flaw that is not there.
    """
    spoilt = {
        Flaw.CUT: lambda: text[: len(text) * 2 // 3],
        Flaw.NAN: lambda: _NUMBER.sub("NaN", text, count=1),
        Flaw.OUT_OF_RANGE: lambda: _NUMBER.sub("1000000", text, count=1),
        Flaw.TWO_OBJECTS: lambda: text + text,
        Flaw.THINK_BLOCK: lambda: f"<think>What would {{they}} say?</think>{text}",
        Flaw.NO_BELIEF: lambda: json.dumps(_without(json.loads(text), belief)),
    }[flaw]()
    if spoilt == text:
        message = f"there is nothing in this text to make {flaw.value}: {text}"
        raise ValueError(message)
    return spoilt


def flawed(reply: Reply, flaw: Flaw) -> Reply:
    """Return the reply with a flaw in its text, or in the arguments of its calls."""
    calls = tuple((name, spoil(arguments, flaw)) for name, arguments in reply.calls)
    return replace(reply, calls=calls, text=spoil(reply.text, flaw) if reply.text and not calls else reply.text)


# What a server does


def fail(status: int, *, retry_after_s: int | None = None, why: str = "as scripted") -> Reply:
    """Answer with an error."""
    sent = _problem(status, why)
    wait = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    return Reply(raw=sent.body, sent=replace(sent, headers={**sent.headers, **wait}))


def hang() -> Reply:
    """Take the request and never answer."""
    return Reply(sent=Sent(end=End.NEVER))


def hang_up() -> Reply:
    """Take the request and end the connection without a byte."""
    return Reply(sent=Sent(end=End.NO_ANSWER))


def torn(reply: Reply) -> Reply:
    """Send half of the body and end the connection."""
    return replace(reply, sent=replace(reply.sent, end=End.MIDWAY))


def drip(reply: Reply, every_s: float = 0.5) -> Reply:
    """Send the body byte by byte."""
    return replace(reply, sent=replace(reply.sent, drip_s=every_s))


def slowly(reply: Reply, delay_s: float) -> Reply:
    """Answer after a while."""
    return replace(reply, sent=replace(reply.sent, delay_s=delay_s))


def page(text: str = "<html><body>Sign in</body></html>") -> Reply:
    """Answer 200 with a web page, as a captive portal does."""
    return Reply(raw=text.encode(), sent=Sent(headers={"Content-Type": "text/html"}))


def huge(size: int) -> Reply:
    """Answer with a valid completion of about that many bytes."""
    return say("x" * size)


# Whole trials


def moves(*plan: tuple[str, Mapping[str, Json]], then: str = "submit") -> Play:
    """Make the n-th planned move at the n-th turn, and afterwards ``then``, in the form that is asked for.

    What the plan leaves out of the required arguments is filled in from the schema. A move that is not offered gives
    way to ``then``, or to what is offered first.
    """

    def play(asked: Asked) -> Reply:
        name, given = plan[asked.turn] if asked.turn < len(plan) else (then, {})
        return move(asked, name, given) or move(asked, then, {}) or _anything(asked)

    return play


def obedient(otherwise: Play) -> Play:
    """Do what the prompt's texts from outside demand, else play on: the worst reader of a hostile page.

    A demand is ``[[call NAME {"key": "value"}]]`` or ``[[say TEXT]]`` in a user message or in a tool's result. Each is
    followed once within a conversation, also where the tool is not offered.
    """

    def play(asked: Asked) -> Reply:
        said = "\n".join(json.dumps(message) for message in asked.messages if message.get("role") == "assistant")
        for demand in _DEMAND.finditer(asked.heard()):
            reply = _obey(asked, demand["verb"], demand["rest"])
            if not _was_said(reply, said):
                return reply
        return otherwise(asked)

    return play


def move(asked: Asked, name: str, given: Mapping[str, Json]) -> Reply | None:
    """Return a move in the form that is asked for, filled up from its schema, or None where it is not offered."""
    if asked.tools:
        schema = asked.tools.get(name)
        return None if schema is None else call((name, fill(schema, given)))
    if asked.schema is None:
        return None
    branch = variant(asked.schema, name)
    return None if branch is None else say_json(fill(branch, given))


_DEMAND = re.compile(r"\[\[(?P<verb>call|say) (?P<rest>.+?)\]\]", re.DOTALL)


def _obey(asked: Asked, verb: str, rest: str) -> Reply:
    if verb == "say":
        return say(rest)
    name, _, text = rest.partition(" ")
    given = json.loads(text or "{}")
    return move(asked, name, given) or (call((name, given)) if asked.tools else say_json({"action": name, **given}))


def _was_said(reply: Reply, said: str) -> bool:
    """Tell whether the model has said this before; its words stand in JSON within JSON there."""
    words = [json.dumps(text)[1:-1] for _, text in reply.calls] or [json.dumps(reply.text)[1:-1]]
    return all(word in said for word in words)


def _anything(asked: Asked) -> Reply:
    if asked.tools:
        name, schema = next(iter(asked.tools.items()))
        return call((name, fill(schema, {})))
    return say("Nothing comes to mind.") if asked.schema is None else say_json(fill(asked.schema, {}))


def _without(value: Json, key: str) -> Json:
    if isinstance(value, dict):
        return {name: _without(part, key) for name, part in value.items() if name != key}
    return [_without(part, key) for part in value] if isinstance(value, list) else value


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(str(part.get("text", "")) for part in content)


def _problem(status: int, why: str) -> Sent:
    return Sent(status=status, body=json.dumps({"error": {"message": why, "type": "scripted", "code": None}}).encode())
