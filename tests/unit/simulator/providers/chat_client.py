"""A raw client of provider doubles: what a test sends is what goes out."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from bot.simulator.providers.provider_double import ProviderDouble
from bot.testing.model_server import ReplyFunction, play_moves

SEARCH: dict[str, Any] = {
    "type": "object",
    "properties": {"query": {"type": "string"}},
    "required": ["query"],
    "additionalProperties": False,
}
SUBMIT: dict[str, Any] = {
    "type": "object",
    "properties": {"probability": {"type": "number", "minimum": 0, "maximum": 1}},
    "required": ["probability"],
    "additionalProperties": False,
}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name, "description": "A tool.", "parameters": schema}}
    for name, schema in (("search", SEARCH), ("submit", SUBMIT))
]
FLAT_TOOLS: list[dict[str, Any]] = [{"type": "function", **tool["function"]} for tool in TOOLS]
SYSTEM: dict[str, Any] = {"role": "system", "content": "You are a forecaster. " * 20}
QUESTION: dict[str, Any] = {"role": "user", "content": "Will it rain in Drumholm?"}
FORCED: dict[str, Any] = {"type": "function", "function": {"name": "submit"}}
Messages = list[dict[str, Any]]


def plan() -> ReplyFunction:
    """Search twice, then submit."""
    return play_moves(("search", {"query": "rain"}), ("search", {"query": "wind"}))


@dataclass
class RawChatClient:
    """A client of a double. ``more`` goes into every request; a value None takes a field out of it."""

    double: ProviderDouble
    client: httpx.AsyncClient
    model: str
    more: Mapping[str, Any] = field(default_factory=dict)

    async def post(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        sent = {name: value for name, value in body.items() if value is not None}
        return await self.client.post(f"{self.double.base_url}{path}", json=sent)

    async def chat(self, messages: Messages, **more: Any) -> httpx.Response:
        body = {"model": self.model, "messages": messages, "tools": TOOLS, **self.more, **more}
        return await self.post("/chat/completions", body)

    async def step(self, messages: Messages, **more: Any) -> Messages:
        """Ask once; return the messages with the answer and a result for each of its calls."""
        answer = await self.chat(messages, **more)
        assert answer.status_code == 200, answer.text
        message = answer.json()["choices"][0]["message"]
        return [*messages, message, *results(message)]

    async def begin(self, **more: Any) -> Messages:
        """Return a conversation with one call and its result."""
        return await self.step([SYSTEM, QUESTION], **more)

    async def items(self, items: list[Any], **more: Any) -> httpx.Response:
        """Ask through Responses, without storage and with encrypted reasoning."""
        body = {"model": self.model, "input": items, "tools": FLAT_TOOLS, "store": False}
        return await self.post("/responses", {**body, "include": ["reasoning.encrypted_content"], **self.more, **more})

    async def begin_items(self, **more: Any) -> list[Any]:
        """Return the items of a conversation with one call and its output."""
        answer = await self.items([QUESTION], **more)
        assert answer.status_code == 200, answer.text
        output = answer.json()["output"]
        outputs = [
            {"type": "function_call_output", "call_id": one["call_id"], "output": "dry"}
            for one in output
            if one["type"] == "function_call"
        ]
        return [QUESTION, *output, *outputs]


def results(message: Mapping[str, Any]) -> Messages:
    """Return a result for each call of a message."""
    return [
        {"role": "tool", "tool_call_id": one["id"], "content": "It stayed dry. " * 10}
        for one in message.get("tool_calls") or ()
    ]


@asynccontextmanager
async def open_client(double: ProviderDouble, model: str, **more: Any) -> AsyncIterator[RawChatClient]:
    """Serve a double and talk to it."""
    async with double, httpx.AsyncClient(trust_env=False) as client:
        yield RawChatClient(double=double, client=client, model=model, more=more)


def refused(client: RawChatClient, answer: httpx.Response, rule: str, **parts: Any) -> Any:
    """Assert that the double refused by this rule, with these parts of the error; return the error's body.

    ``status`` is 400 unless given; the other parts are compared with the error object, wherever it is.
    """
    status = parts.pop("status", 400)
    assert (answer.status_code, client.double.refusals[-1].rule) == (status, rule), answer.text
    body = answer.json()
    error = body["error"] if isinstance(body.get("error"), dict) else body
    assert {name: error.get(name) for name in parts} == parts
    assert json.dumps(body) == json.dumps(client.double.refusals[-1].body)
    return body


def changed(messages: Messages, at: int, **parts: Any) -> Messages:
    """Return messages of which one has other parts; None takes a part out."""
    at %= len(messages)
    message = {name: value for name, value in {**messages[at], **parts}.items() if value is not None}
    return [*messages[:at], message, *messages[at + 1 :]]


@dataclass(frozen=True, kw_only=True)
class DialectCase:
    """A double to talk to: how it is made, a model of it, and what its requests hold."""

    make: Callable[[Any], ProviderDouble]
    model: str
    more: Mapping[str, Any] = field(default_factory=dict)
