"""A server of simulated models: the chat-completions protocol with faults, and the refusals of a strict provider."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from bot.core.ids import sha256_hex
from bot.simulator.fake_service import FakeService, logged_request, read_json_body
from bot.simulator.models.behaviour import ModelBehaviour
from bot.simulator.models.simulated_model import SimulatedModel
from bot.simulator.providers.chat_requests import (
    CHARS_PER_TOKEN,
    ChatRequest,
    NativeReply,
    ProviderRequest,
    RequestRefusal,
    ServedModelProfile,
    reply_thinking,
)
from bot.simulator.providers.chat_vendors import ThinkingRequestFormat
from bot.simulator.providers.provider_double import RequestChecker
from bot.testing.model_server import CompletionRequest, ScriptedReply

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bot.core.interfaces import Clock
    from bot.simulator.faults import FaultSchedule, RequestFault
    from bot.simulator.request_log import LoggedRequest, RequestLimit

# How much of one conversation is accepted, in characters.
CONTEXT_CHARS = 2_000_000


MAX_SCHEMA_DEPTH = 20


_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})


_BOUNDS = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")


RequestProblem: TypeAlias = tuple[str, str | None]


def complete_request(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request without null fields, and with parameters for each tool: a tool without them has none."""
    fields = {name: value for name, value in body.items() if value is not None}
    none = {"type": "object", "properties": {}}
    if "tools" in fields:
        fields["tools"] = [{**tool, "function": {"parameters": none, **tool["function"]}} for tool in fields["tools"]]
    return fields


def request_problem(body: Any) -> RequestProblem | None:  # noqa: ANN401 - any JSON
    """Return the fault of a request and its field, None where there is none."""
    if not isinstance(body, dict):
        return "The body must be a JSON object.", None
    if not isinstance(body.get("model"), str) or not body["model"]:
        return "you must provide a model parameter", "model"
    if body.get("stream"):
        return "This server does not stream; leave out stream or set it to false.", "stream"
    return _problem_in_messages(body.get("messages")) or _problem_in_tools(body)


def _problem_in_messages(messages: Any) -> RequestProblem | None:  # noqa: ANN401 - any JSON
    if not isinstance(messages, list) or not messages:
        return "Invalid 'messages': expected an array with at least one message.", "messages"
    open_calls: set[str] = set()
    size = 0
    for place, message in enumerate(messages):
        if (fault := _problem_in_message(message)) is not None:
            return f"Invalid value: 'messages[{place}].{fault}'.", f"messages[{place}].{fault}"
        size += len(str(message.get("content") or ""))
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                return "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'.", (
                    f"messages[{place}].role"
                )
            open_calls.discard(message["tool_call_id"])
        elif open_calls:
            break
        else:
            open_calls = {str(one.get("id")) for one in message.get("tool_calls") or ()}
    if open_calls:
        return "An assistant message with 'tool_calls' must be followed by messages that answer each of them.", (
            "messages"
        )
    if size > CONTEXT_CHARS:
        return "This model's maximum context length is exceeded; please reduce the length of the messages.", "messages"
    return None


def _problem_in_message(message: Any) -> str | None:  # noqa: ANN401 - any JSON
    role = message.get("role") if isinstance(message, dict) else None
    if not isinstance(role, str) or role not in _ROLES:
        return "role"
    content = message.get("content")
    if isinstance(content, list):
        if not all(isinstance(part, dict) and isinstance(part.get("type"), str) for part in content):
            return "content"
    elif content is not None and not isinstance(content, str):
        return "content"
    calls = message.get("tool_calls")
    good = calls is None or (isinstance(calls, list) and all(map(_is_call, calls)))
    return None if good else "tool_calls"


def _is_call(call: Any) -> bool:  # noqa: ANN401 - any JSON
    called = call.get("function") if isinstance(call, dict) else None
    return isinstance(called, dict) and isinstance(call.get("id"), str) and isinstance(called.get("name"), str)


def is_schema(schema: Any, depth: int = 0) -> bool:  # noqa: ANN401 - any JSON
    """Return whether a value has the form of a JSON schema, as far as its keywords are known here."""
    if not isinstance(schema, dict) or depth > MAX_SCHEMA_DEPTH:
        return False
    properties, required = schema.get("properties", {}), schema.get("required", [])
    unions = [schema[name] for name in ("anyOf", "oneOf", "enum") if name in schema]
    if not (
        isinstance(properties, dict) and isinstance(required, list) and all(isinstance(one, str) for one in required)
    ):
        return False
    if not all(isinstance(union, list) and union for union in unions) or not _has_known_type(schema):
        return False
    parts = [*properties.values(), *schema.get("anyOf", ()), *schema.get("oneOf", ())]
    parts += [schema["items"]] if "items" in schema else []
    return all(is_schema(part, depth + 1) for part in parts)


def _has_known_type(schema: dict[str, Any]) -> bool:
    kind = schema.get("type", "object")
    kinds = kind if isinstance(kind, list) else [kind]
    bounds = [schema[name] for name in _BOUNDS if name in schema]
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in bounds)
    return bool(kinds) and all(isinstance(one, str) for one in kinds) and numbers


def _problem_in_tools(body: dict[str, Any]) -> RequestProblem | None:
    tools = body.get("tools")
    if tools is not None and (not isinstance(tools, list) or not tools):
        return "Invalid 'tools': empty array. Expected an array with at least one tool.", "tools"
    if not all(map(_is_tool, tools or ())):
        return "Invalid 'tools': each is a function with a name, and parameters that are a JSON schema.", "tools"
    names = {tool["function"]["name"] for tool in tools or ()}
    chosen = body.get("tool_choice")
    if chosen is not None and not names:
        return "Invalid value for 'tool_choice': it is only allowed when 'tools' are specified.", "tool_choice"
    if (
        chosen is not None
        and chosen not in ("none", "auto", "required")
        and not (_is_tool(chosen) and chosen["function"]["name"] in names)
    ):
        return "Tool choice: the function is not among the tools.", "tool_choice"
    return _problem_in_response_format(body)


def _problem_in_response_format(body: dict[str, Any]) -> RequestProblem | None:
    form = body.get("response_format")
    if form is not None and not isinstance(form, dict):
        return "Invalid type for 'response_format': expected an object.", "response_format"
    wanted = (form or {}).get("json_schema")
    if wanted is None and (form or {}).get("type") != "json_schema":
        return _problem_in_limits(body)
    if not (isinstance(wanted, dict) and is_schema(wanted.get("schema"))):
        return "Missing required parameter: 'response_format.json_schema.schema'.", "response_format.json_schema"
    return _problem_in_limits(body)


def _problem_in_limits(body: dict[str, Any]) -> RequestProblem | None:
    for name in ("max_tokens", "max_completion_tokens"):
        limit = body.get(name)
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
            return f"Invalid '{name}': integer below minimum value.", name
    return None


def _is_tool(tool: Any) -> bool:  # noqa: ANN401 - any JSON
    called = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(called, dict) or not isinstance(called.get("name"), str):
        return False
    return is_schema(called.get("parameters", {}))


DEFAULT_MODEL = "simulated-forecaster"


FINGERPRINT = "simulation"


OWNER = "simulation"


# Whether the demo, the simulation and the laboratory use a strict server.
STRICT = True


# How many replies a strict server remembers. A request about an older one is checked only by itself.
MAX_REMEMBERED_REPLIES = 5_000


class SimulatedModelRequestFormat(ThinkingRequestFormat):
    """The form of a provider whose models are simulated, all of which reason."""

    def __init__(self, names: Iterable[str]) -> None:
        self.models = dict.fromkeys(names, ServedModelProfile(window=CONTEXT_CHARS))


class SimulatedModelServer(FakeService):
    """Serves simulated models by name; its ``key`` is required where one is set.

    ``asked`` holds the requests for completions while ``keep`` is True. A ``strict`` one checks each request by the
    rules of a provider of reasoning models: ``refusals`` holds the refused ones, ``checker`` counts deviations that no
    rule refuses. ``billed`` holds what a provider would charge for: when, and the ``usage`` of the answer.
    """

    def __init__(
        self,
        clock: Clock,
        models: Mapping[str, ModelBehaviour] | None = None,
        *,
        limits: Sequence[RequestLimit] = (),
        faults: FaultSchedule | None = None,
        strict: bool = True,
    ) -> None:
        self.models = {
            name: SimulatedModel(habits=habits)
            for name, habits in (models or {DEFAULT_MODEL: ModelBehaviour()}).items()
        }
        if odd := [name for name in self.models if "simulated" not in name]:
            message = f"names of simulated models say so: {', '.join(odd)}"
            raise ValueError(message)
        self.key: str | None = None
        self.strict = strict
        self.checker = RequestChecker(MAX_REMEMBERED_REPLIES)
        self.refusals: list[RequestRefusal] = []
        self._form = SimulatedModelRequestFormat(self.models)
        self.keep = True
        self.asked: list[CompletionRequest] = []
        self.answered = 0
        self.billed: list[tuple[datetime, Mapping[str, Any]]] = []
        super().__init__(clock, limits=limits, faults=faults)

    def routes(self) -> list[BaseRoute]:
        """Return the two paths of the protocol."""
        return [
            Route("/v1/chat/completions", self._serve_complete, methods=["POST"]),
            Route("/v1/models", self._serve_list, methods=["GET"]),
            Route("/v1/models/{name}", self._serve_show, methods=["GET"]),
        ]

    def account(self, logged: LoggedRequest) -> str:
        """Return the key of a request."""
        return logged.headers.get("authorization", "").removeprefix("Bearer ")

    def rate_limit_response(self, retry_after: str | None) -> Response:
        """Answer like a provider with too many requests."""
        answer = _error_response(429, "Rate limit reached for requests.", "requests", code="rate_limit_exceeded")
        if retry_after is not None:
            answer.headers["Retry-After"] = retry_after
        return answer

    def error_response(self, status: int) -> Response:
        """Answer like a failing provider."""
        message = (
            "The server is overloaded." if status == 503 else "The server had an error while processing the request."
        )
        return _error_response(status, message, "server_error")

    def apply_world_fault(self, fault: RequestFault, logged: LoggedRequest) -> None:
        """Do nothing: there is no world behind a model."""

    async def _serve_list(self, request: Request) -> Response:
        if (refusal := self._unknown_caller(request)) is not None:
            return refusal
        return JSONResponse({"object": "list", "data": [self._model_row(name) for name in self.models]})

    async def _serve_show(self, request: Request) -> Response:
        name = request.path_params["name"]
        if (refusal := self._unknown_caller(request) or self._no_such(name)) is not None:
            return refusal
        return JSONResponse(self._model_row(name))

    async def _serve_complete(self, request: Request) -> Response:
        if (refusal := self._unknown_caller(request)) is not None:
            return refusal
        try:
            body = read_json_body(logged_request(request))
        except ValueError:
            return _invalid_request("We could not parse the JSON body of your request.")
        if (fault := request_problem(body)) is not None:
            return _invalid_request(*fault)
        if (missing := self._no_such(body["model"])) is not None:
            return missing
        asked = CompletionRequest(
            number=self.answered + 1,
            path=request.url.path,
            headers=logged_request(request).headers,
            body=complete_request(body),
        )
        try:
            chat = self._check_strictly(asked, body)
        except RequestRefusal as broken:
            self.refusals.append(broken)
            return JSONResponse(self._form.error(broken), broken.status)
        self.answered += 1
        if self.keep:
            self.asked.append(asked)
        reply = self.models[body["model"]].answer(asked)
        if reply.response.delay_s > 0.0:
            await self.clock.sleep(reply.response.delay_s)
        completion = self._completion_body(asked, reply, chat)
        self.billed.append((self.now(), completion["usage"]))
        return JSONResponse(completion, headers={"X-Simulation": "yes"})

    def _check_strictly(self, asked: CompletionRequest, body: Mapping[str, Any]) -> ChatRequest | None:
        """Check a request where the server is strict, and return it. Raise RequestRefusal."""
        if not self.strict:
            return None
        source = ProviderRequest(number=asked.number, path=asked.path, headers=asked.headers, body=body)
        chat = self._form.read_request(source)
        self.checker.check(self._form, chat)
        return chat

    def _unknown_caller(self, request: Request) -> Response | None:
        if self.key is None or self.account(logged_request(request)) == self.key:
            return None
        return _error_response(401, "Incorrect API key provided.", "invalid_request_error", code="invalid_api_key")

    def _no_such(self, name: str) -> Response | None:
        if name in self.models:
            return None
        message = f"The model `{name}` does not exist or you do not have access to it."
        return _error_response(404, message, "invalid_request_error", code="model_not_found")

    def _model_row(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": int(self.now().timestamp()), "owned_by": OWNER}

    def _completion_body(
        self, asked: CompletionRequest, reply: ScriptedReply, chat: ChatRequest | None
    ) -> dict[str, Any]:
        mark = sha256_hex(json.dumps(asked.body, sort_keys=True).encode())[:16]
        message: dict[str, Any] = {
            "role": "assistant",
            "content": _without_surrogates(reply.text),
            "refusal": reply.refusal,
        }
        if reply.calls:
            message["tool_calls"] = [
                {
                    "id": f"call_{mark}_{nth}",
                    "type": "function",
                    "function": {"name": name, "arguments": _without_surrogates(text)},
                }
                for nth, (name, text) in enumerate(reply.calls, 1)
            ]
        if chat is not None:
            message["reasoning_content"] = reply_thinking(reply, mark)
            reply = self._remember_reply(chat, reply, message)
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

    def _remember_reply(self, chat: ChatRequest, reply: ScriptedReply, message: Mapping[str, Any]) -> ScriptedReply:
        """Remember an answer; return it with the tokens of the whole request, tools included, and of the cache."""
        calls = tuple(
            (one["id"], one["function"]["name"], one["function"]["arguments"]) for one in message.get("tool_calls", ())
        )
        self.checker.remember_reply(
            chat, NativeReply(body={}, native=message, calls=calls, text=message["content"] or "")
        )
        source = chat.source
        tokens_in = max(1, source.chars // CHARS_PER_TOKEN)
        return replace(reply, tokens_in=tokens_in, tokens_cached=source.cached_chars // CHARS_PER_TOKEN)


def _without_surrogates(text: str | None) -> str | None:
    """Return a text without halves of surrogate pairs, which no answer can contain."""
    return None if text is None else text.encode("utf-8", "replace").decode()


def _invalid_request(message: str, param: str | None = None) -> Response:
    return _error_response(400, message, "invalid_request_error", param=param)


def _error_response(
    status: int, message: str, kind: str, *, code: str | None = None, param: str | None = None
) -> JSONResponse:
    return JSONResponse({"error": {"message": message, "type": kind, "param": param, "code": code}}, status)
