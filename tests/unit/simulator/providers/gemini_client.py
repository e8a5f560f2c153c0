"""A raw client of the Gemini double: what a test sends is what goes out."""

import copy
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from bot.simulator.providers.gemini import GeminiDouble
from bot.testing.model_server import ReplyScript, play_moves

QUERY: dict[str, Any] = {"type": "OBJECT", "properties": {"query": {"type": "STRING"}}, "required": ["query"]}
ANSWER: dict[str, Any] = {
    "type": "object",
    "properties": {"p": {"type": "number", "exclusiveMinimum": 0}},
    "required": ["p"],
    "additionalProperties": False,
}
FUNCTIONS: list[dict[str, Any]] = [
    {"name": "search", "description": "Search the web.", "parameters": QUERY},
    {"name": "submit", "description": "Answer.", "parametersJsonSchema": ANSWER},
]
TOOLS: list[dict[str, Any]] = [{"functionDeclarations": FUNCTIONS}]
SYSTEM = {"parts": [{"text": "You are a forecaster. " * 900}]}
QUESTION = {"role": "user", "parts": [{"text": "Will it rain in Drumholm?"}]}
Contents = list[dict[str, Any]]


@dataclass
class RawGeminiClient:
    """A client of the double; a value None takes a field out of a request."""

    double: GeminiDouble
    client: httpx.AsyncClient
    model: str

    async def ask(self, contents: Contents, **more: Any) -> httpx.Response:
        body = {"contents": contents, "systemInstruction": SYSTEM, "tools": TOOLS, **more}
        sent = {name: value for name, value in body.items() if value is not None}
        return await self.client.post(f"{self.double.base_url}/models/{self.model}:generateContent", json=sent)

    async def step(self, contents: Contents, **more: Any) -> Contents:
        """Ask once; return the contents with the answer and a response for each of its calls."""
        answer = await self.ask(contents, **more)
        assert answer.status_code == 200, answer.text
        content = answer.json()["candidates"][0]["content"]
        return [*contents, content, *responses(content)]

    async def steps(self, number: int, **more: Any) -> Contents:
        """Return a conversation of so many steps."""
        contents: Contents = [QUESTION]
        for _ in range(number):
            contents = await self.step(contents, **more)
        return contents

    def refused(self, answer: httpx.Response, rule: str, *, status: int = 400, name: str = "INVALID_ARGUMENT") -> str:
        """Assert that the double refused by this rule; return what it said."""
        assert (answer.status_code, self.double.refusals[-1].rule) == (status, rule), answer.text
        error = answer.json()["error"]
        assert (error["code"], error["status"]) == (status, name)
        return str(error["message"])


def responses(content: Mapping[str, Any]) -> Contents:
    made = []
    for call_ in (part["functionCall"] for part in content["parts"] if "functionCall" in part):
        response = {"name": call_["name"], "response": {"content": "It stayed dry."}}
        made.append({"functionResponse": {**response, **({"id": call_["id"]} if "id" in call_ else {})}})
    return [{"role": "user", "parts": made}] if made else []


def signatures(content: Mapping[str, Any]) -> list[str | None]:
    return [part.get("thoughtSignature") for part in content["parts"]]


def edited(contents: Contents, at: int, part: int, field: str | None = None, **parts: Any) -> Contents:
    """Return contents in which a part, or a field of it, has other parts; None takes one out."""
    made = copy.deepcopy(contents)
    target = made[at]["parts"][part]
    target = target if field is None else target[field]
    target |= parts
    for name in [name for name, value in parts.items() if value is None]:
        del target[name]
    return made


def plan() -> ReplyScript:
    return play_moves(*(("search", {"query": f"rain {number}"}) for number in range(3)), then="submit")


@asynccontextmanager
async def open_client(model: str, script: ReplyScript | None = None) -> AsyncIterator[RawGeminiClient]:
    async with GeminiDouble(script or plan()) as double, httpx.AsyncClient(trust_env=False) as client:
        yield RawGeminiClient(double=double, client=client, model=model)
