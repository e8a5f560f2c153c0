"""A raw client of the Messages API double: what a test sends is what goes out."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from bot.simulator.providers.anthropic import AnthropicDouble
from bot.testing.model_server import ReplyScript, play_moves

QUERY: dict[str, Any] = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
ANSWER: dict[str, Any] = {"type": "object", "properties": {"p": {"type": "number"}}, "required": ["p"]}
TOOLS: list[dict[str, Any]] = [
    {"name": "search", "description": "Search the web.", "input_schema": QUERY},
    {"name": "submit", "description": "Answer.", "input_schema": ANSWER},
]
SYSTEM = "You are a forecaster. " * 400
QUESTION = {"role": "user", "content": "Will it rain in Drumholm?"}
ADAPTIVE = {"type": "adaptive"}
MANUAL = {"type": "enabled", "budget_tokens": 2048}
DISABLED = {"type": "disabled"}
EPHEMERAL = {"type": "ephemeral"}
DROP = {**ADAPTIVE, "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
SHAPES = [
    ["thinking", "tool_use"],
    ["thinking", "text", "thinking", "tool_use"],
    ["thinking", "redacted_thinking", "tool_use"],
    ["thinking", "tool_use"],
]
Messages = list[dict[str, Any]]


@dataclass
class RawMessagesClient:
    """A client of the double; ``more`` goes into every request, a value None takes a field out."""

    double: AnthropicDouble
    client: httpx.AsyncClient
    model: str
    more: Mapping[str, Any] = field(default_factory=dict)

    async def ask(self, messages: Messages, *, beta: str = "", **more: Any) -> httpx.Response:
        body = {"model": self.model, "max_tokens": 16_000, "system": SYSTEM, "tools": TOOLS, "messages": messages}
        sent = {name: value for name, value in {**body, **self.more, **more}.items() if value is not None}
        headers = {"anthropic-version": "2023-06-01", **({"anthropic-beta": beta} if beta else {})}
        return await self.client.post(f"{self.double.base_url}/v1/messages", json=sent, headers=headers)

    async def step(self, messages: Messages, **more: Any) -> Messages:
        """Ask once; return the messages with the answer and a result for each of its calls."""
        answer = await self.ask(messages, **more)
        assert answer.status_code == 200, answer.text
        return [*messages, spoken(answer), *results(answer.json()["content"])]

    async def steps(self, number: int, **more: Any) -> Messages:
        """Return a conversation of so many steps."""
        messages: Messages = [QUESTION]
        for _ in range(number):
            messages = await self.step(messages, **more)
        return messages

    def refused(
        self, answer: httpx.Response, rule: str, *, status: int = 400, kind: str = "invalid_request_error"
    ) -> str:
        """Assert that the double refused by this rule; return what it said."""
        assert (answer.status_code, self.double.refusals[-1].rule) == (status, rule), answer.text
        body = answer.json()
        assert (body["type"], body["error"]["type"]) == ("error", kind)
        assert body["request_id"].startswith("req_")
        return str(body["error"]["message"])


def spoken(answer: httpx.Response) -> dict[str, Any]:
    return {"role": "assistant", "content": answer.json()["content"]}


def results(content: Iterable[Mapping[str, Any]]) -> Messages:
    found = [
        {"type": "tool_result", "tool_use_id": one["id"], "content": "It stayed dry."}
        for one in content
        if one["type"] == "tool_use"
    ]
    return [{"role": "user", "content": found}] if found else []


def plan() -> ReplyScript:
    return play_moves(*(("search", {"query": f"rain {number}"}) for number in range(3)), then="submit")


def edited(messages: Messages, at: int, block: int, **parts: Any) -> Messages:
    """Return messages in which one block has other parts."""
    content = [*messages[at]["content"]]
    content[block] = {**content[block], **parts}
    return [*messages[:at], {**messages[at], "content": content}, *messages[at + 1 :]]


def with_content(messages: Messages, at: int, content: Any) -> Messages:
    return [*messages[:at], {**messages[at], "content": content}, *messages[at + 1 :]]


def kinds(message: Mapping[str, Any]) -> list[str]:
    return [block["type"] for block in message["content"]]


@asynccontextmanager
async def open_client(model: str, script: ReplyScript | None = None, **more: Any) -> AsyncIterator[RawMessagesClient]:
    double = AnthropicDouble(script or plan(), forced=more.pop("forced", ()))
    async with double, httpx.AsyncClient(trust_env=False) as client:
        yield RawMessagesClient(double=double, client=client, model=model, more=more)
