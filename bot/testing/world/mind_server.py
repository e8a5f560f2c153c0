"""A server of simulated models: the chat-completions protocol over the door of the fake venues, faults included.

It answers ``/v1/chat/completions`` and ``/v1/models`` as such servers do, whole and not streamed. Each model is a mind
with habits of its own. Names of models and fingerprints say that it is a simulation. A strict server refuses what a
provider of thinking models refuses: forced tool choices, and calls that come back without what the model thought.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from bot.ids import digest
from bot.testing.model_server import Asked, Reply
from bot.testing.providers.core import RequestChecker
from bot.testing.providers.dialects import ThinkingForm
from bot.testing.providers.exchange import (
    CHARS_PER_TOKEN,
    ChatRequest,
    ModelProfile,
    ProviderRequest,
    RequestRefusal,
    WrittenReply,
    thinking_of,
)
from bot.testing.venues.kit import FakeVenue, body_json, heard
from bot.testing.world.habits import Habits
from bot.testing.world.mind import Mind
from bot.testing.world.mind_requests import CONTEXT_CHARS, completed, fault_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bot.ports import Clock
    from bot.testing.venues.faults import Fault, Faults
    from bot.testing.venues.record import Heard, Limit

MODEL = "simulated-forecaster"
FINGERPRINT = "simulation"
OWNER = "simulation"
# Whether the demo, the simulation and the lab meet a strict server.
STRICT = True
# Replies that a strict server remembers. A request about an older one is checked by itself alone.
MOST_REPLIES = 5_000


class MindForm(ThinkingForm):
    """The form of a provider whose models are minds, all of which think."""

    def __init__(self, names: Iterable[str]) -> None:
        self.models = dict.fromkeys(names, ModelProfile(window=CONTEXT_CHARS))


class MindServer(FakeVenue):
    """Serves minds by the names of their models; its ``key`` is asked for where one is set.

    ``asked`` holds the requests for completions as long as ``keep`` is True. A ``strict`` one checks each request by
    the rules of a provider of thinking models: ``refusals`` says which it refused, ``checker`` counts what no rule
    refuses.
    """

    def __init__(
        self,
        clock: Clock,
        models: Mapping[str, Habits] | None = None,
        *,
        limits: Sequence[Limit] = (),
        faults: Faults | None = None,
        strict: bool = True,
    ) -> None:
        self.models = {name: Mind(habits=habits) for name, habits in (models or {MODEL: Habits()}).items()}
        if odd := [name for name in self.models if "simulated" not in name]:
            message = f"names of simulated models say so: {', '.join(odd)}"
            raise ValueError(message)
        self.key: str | None = None
        self.strict = strict
        self.checker = RequestChecker(MOST_REPLIES)
        self.refusals: list[RequestRefusal] = []
        self._form = MindForm(self.models)
        self.keep = True
        self.asked: list[Asked] = []
        self.answered = 0
        super().__init__(clock, limits=limits, faults=faults)

    def routes(self) -> list[BaseRoute]:
        """Return the two paths of the protocol."""
        return [
            Route("/v1/chat/completions", self._complete, methods=["POST"]),
            Route("/v1/models", self._list, methods=["GET"]),
            Route("/v1/models/{name}", self._show, methods=["GET"]),
        ]

    def account(self, heard: Heard) -> str:
        """Return the key of a request."""
        return heard.headers.get("authorization", "").removeprefix("Bearer ")

    def too_many(self, retry_after: str | None) -> Response:
        """Answer as a provider that is asked too often."""
        answer = _problem(429, "Rate limit reached for requests.", "requests", code="rate_limit_exceeded")
        if retry_after is not None:
            answer.headers["Retry-After"] = retry_after
        return answer

    def broken(self, status: int) -> Response:
        """Answer as a provider in trouble."""
        said = "The server is overloaded." if status == 503 else "The server had an error while processing the request."
        return _problem(status, said, "server_error")

    def disturb(self, fault: Fault, heard: Heard) -> None:
        """Do nothing: no world moves behind a model."""

    async def _list(self, request: Request) -> Response:
        if (refusal := self._unknown_caller(request)) is not None:
            return refusal
        return JSONResponse({"object": "list", "data": [self._row(name) for name in self.models]})

    async def _show(self, request: Request) -> Response:
        name = request.path_params["name"]
        if (refusal := self._unknown_caller(request) or self._no_such(name)) is not None:
            return refusal
        return JSONResponse(self._row(name))

    async def _complete(self, request: Request) -> Response:
        if (refusal := self._unknown_caller(request)) is not None:
            return refusal
        try:
            body = body_json(heard(request))
        except ValueError:
            return _invalid("We could not parse the JSON body of your request.")
        if (fault := fault_in(body)) is not None:
            return _invalid(*fault)
        if (missing := self._no_such(body["model"])) is not None:
            return missing
        asked = Asked(
            number=self.answered + 1, path=request.url.path, headers=heard(request).headers, body=completed(body)
        )
        try:
            chat = self._checked(asked, body)
        except RequestRefusal as broken:
            self.refusals.append(broken)
            return JSONResponse(self._form.error(broken), broken.status)
        self.answered += 1
        if self.keep:
            self.asked.append(asked)
        reply = self.models[body["model"]].answer(asked)
        if reply.sent.delay_s > 0.0:
            await self.clock.sleep(reply.sent.delay_s)
        return JSONResponse(self._completion(asked, reply, chat), headers={"X-Simulation": "yes"})

    def _checked(self, asked: Asked, body: Mapping[str, Any]) -> ChatRequest | None:
        """Check a request where the server is strict; it is returned then. Raise RequestRefusal."""
        if not self.strict:
            return None
        source = ProviderRequest(number=asked.number, path=asked.path, headers=asked.headers, body=body)
        chat = self._form.read(source)
        self.checker.check(self._form, chat)
        return chat

    def _unknown_caller(self, request: Request) -> Response | None:
        if self.key is None or self.account(heard(request)) == self.key:
            return None
        return _problem(401, "Incorrect API key provided.", "invalid_request_error", code="invalid_api_key")

    def _no_such(self, name: str) -> Response | None:
        if name in self.models:
            return None
        said = f"The model `{name}` does not exist or you do not have access to it."
        return _problem(404, said, "invalid_request_error", code="model_not_found")

    def _row(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": int(self.now().timestamp()), "owned_by": OWNER}

    def _completion(self, asked: Asked, reply: Reply, chat: ChatRequest | None) -> dict[str, Any]:
        mark = digest(json.dumps(asked.body, sort_keys=True).encode())[:16]
        message: dict[str, Any] = {"role": "assistant", "content": _sendable(reply.text), "refusal": reply.refusal}
        if reply.calls:
            message["tool_calls"] = [
                {
                    "id": f"call_{mark}_{nth}",
                    "type": "function",
                    "function": {"name": name, "arguments": _sendable(text)},
                }
                for nth, (name, text) in enumerate(reply.calls, 1)
            ]
        if chat is not None:
            message["reasoning_content"] = thinking_of(reply, mark)
            reply = self._remembered(chat, reply, message)
        finish = reply.finish or ("tool_calls" if reply.calls else "stop")
        return {
            "id": f"chatcmpl-{mark}",
            "object": "chat.completion",
            "created": int(self.now().timestamp()),
            "model": asked.model,
            "system_fingerprint": FINGERPRINT,
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
            "usage": {
                "prompt_tokens": reply.tokens_in,
                "completion_tokens": reply.tokens_out,
                "total_tokens": reply.tokens_in + reply.tokens_out,
                "prompt_tokens_details": {"cached_tokens": reply.tokens_cached},
            },
        }

    def _remembered(self, chat: ChatRequest, reply: Reply, message: Mapping[str, Any]) -> Reply:
        """Remember an answer; return it with the tokens of all that was sent, tools included, and of the cache."""
        calls = tuple(
            (one["id"], one["function"]["name"], one["function"]["arguments"]) for one in message.get("tool_calls", ())
        )
        self.checker.keep(chat, WrittenReply(body={}, native=message, calls=calls, text=message["content"] or ""))
        source = chat.source
        tokens_in = max(1, source.chars // CHARS_PER_TOKEN)
        return replace(reply, tokens_in=tokens_in, tokens_cached=source.cached_chars // CHARS_PER_TOKEN)


def _sendable(text: str | None) -> str | None:
    """Return a text without halves of surrogate pairs, which no answer can hold."""
    return None if text is None else text.encode("utf-8", "replace").decode()


def _invalid(said: str, param: str | None = None) -> Response:
    return _problem(400, said, "invalid_request_error", param=param)


def _problem(status: int, said: str, kind: str, *, code: str | None = None, param: str | None = None) -> JSONResponse:
    return JSONResponse({"error": {"message": said, "type": kind, "param": param, "code": code}}, status)
