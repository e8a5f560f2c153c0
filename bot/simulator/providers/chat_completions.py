"""The chat-completions format that many providers share: how it is parsed, written and streamed."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from bot.simulator.providers.chat_requests import (
    ChatRequest,
    NativeReply,
    ProviderRequest,
    ReplyOverride,
    RequestRefusal,
    ServedModelProfile,
    TokenCount,
    make_id,
    request_prefix,
)
from bot.simulator.providers.provider_double import OverrideResponse, RequestFormat
from bot.testing.model_server import ScriptedReply

CREATED_AT = 1_790_000_000
ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
SAMPLING_FIELDS = ("top_p", "presence_penalty", "frequency_penalty", "logprobs", "top_logprobs", "logit_bias", "stop")


def error_body(message: str, kind: str, code: str | None = None) -> Mapping[str, Any]:
    """Return an error in OpenAI's form."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


RATE_LIMIT_ERROR = error_body("Rate limit reached for requests.", "requests", "rate_limit_exceeded")
QUOTA_ERROR = error_body("You exceeded your current quota.", "insufficient_quota", "credit_balance_exhausted")


class ChatRequestFormat(RequestFormat):
    """Chat completions.

    ``thought_field`` is the field of a message with the model's reasoning, None where it is hidden.

    ``models`` are the models by name; where there is none, any name is valid.
    """

    models: Mapping[str, ServedModelProfile] = {}
    thought_field: ClassVar[str | None] = None
    faults: ClassVar[Mapping[ReplyOverride, OverrideResponse]] = {
        ReplyOverride.OVERLOADED: (503, error_body("The server is overloaded.", "server_error"), {}),
        ReplyOverride.RATE_LIMITED: (429, RATE_LIMIT_ERROR, {"Retry-After": "2"}),
        ReplyOverride.RATE_LIMITED_SILENT: (429, RATE_LIMIT_ERROR, {}),
        ReplyOverride.QUOTA_EXHAUSTED: (429, QUOTA_ERROR, {}),
    }

    def handles_path(self, path: str) -> bool:
        return path.endswith("/chat/completions")

    def read_request(self, request: ProviderRequest) -> ChatRequest:
        body = {name: value for name, value in request.body.items() if value is not None}
        if not isinstance(model := body.get("model"), str):
            raise RequestRefusal(rule="", message="you must provide a model parameter", param="model")
        messages, tools = body.get("messages"), body.get("tools") or []
        if not isinstance(messages, list) or not messages or not isinstance(tools, list):
            raise RequestRefusal(rule="", message="Invalid 'messages' or 'tools': expected arrays.", param="messages")
        if odd := next((at for at, one in enumerate(messages) if not _is_message(one)), -1) + 1:
            raise RequestRefusal(rule="", message=f"Invalid 'messages[{odd - 1}]'.", param=f"messages[{odd - 1}]")
        if not all(isinstance(one, dict) and isinstance(one.get("function"), dict) for one in tools):
            raise RequestRefusal(rule="", message="Invalid 'tools': each is a function.", param="tools")
        if tools:
            none = {"type": "object", "properties": {}}
            body["tools"] = [{**one, "function": {"parameters": none, **one["function"]}} for one in tools]
        return ChatRequest(
            source=request,
            model=model,
            body=body,
            prefix=request_prefix(tools, messages),
            natives={at: one for at, one in enumerate(messages) if one["role"] == "assistant"},
            stream=bool(body.get("stream")),
        )

    def profile(self, model: str) -> ServedModelProfile:
        if not self.models:
            return ServedModelProfile(thinks=False)
        if (found := self.models.get(model)) is None:
            message = f"The model `{model}` does not exist or you do not have access to it."
            raise RequestRefusal(rule="", status=404, message=message, param="model", code="model_not_found")
        return found

    def model_listing(self, path: str) -> Mapping[str, Any] | None:
        rows = [{"id": one, "object": "model", "created": CREATED_AT, "owned_by": "double"} for one in self.models]
        return {"object": "list", "data": rows} if path.endswith("/models") else None

    def error(self, refusal: RequestRefusal) -> Mapping[str, Any]:
        error = {"message": refusal.message, "type": refusal.kind, "param": refusal.param, "code": refusal.code}
        return {"error": error}

    def thinks(self, chat: ChatRequest) -> bool:
        return self.profile(chat.model).thinks

    def call_id(self, seed: str, number: int) -> str:
        """Return the id of a call."""
        return make_id("call_", seed, number)

    def message(self, chat: ChatRequest, reply: ScriptedReply, seed: str) -> dict[str, Any]:
        """Return the assistant message of a reply, which must be sent back."""
        message: dict[str, Any] = {"role": "assistant", "content": reply.text, "refusal": reply.refusal}
        if self.thought_field is not None and reply.thinking:
            message[self.thought_field] = reply.thinking
        if reply.calls:
            message["tool_calls"] = [
                {
                    "id": self.call_id(seed, number),
                    "type": "function",
                    "function": {"name": name, "arguments": arguments},
                }
                for number, (name, arguments) in enumerate(reply.calls)
            ]
        return message

    def usage(self, tokens: TokenCount) -> dict[str, Any]:
        """Return the tokens of an exchange; reasoning is part of the completion."""
        completion = tokens.output + tokens.thinking
        return {
            "prompt_tokens": tokens.prompt,
            "completion_tokens": completion,
            "total_tokens": tokens.prompt + completion,
            "prompt_tokens_details": {"cached_tokens": tokens.cached},
            "completion_tokens_details": {"reasoning_tokens": tokens.thinking},
        }

    def write_reply(self, chat: ChatRequest, reply: ScriptedReply, tokens: TokenCount, seed: str) -> NativeReply:
        message = self.message(chat, reply, seed)
        calls = tuple(
            (one["id"], one["function"]["name"], one["function"]["arguments"]) for one in message.get("tool_calls", ())
        )
        finish = reply.finish or ("tool_calls" if calls else "stop")
        body = {
            "id": make_id("chatcmpl-", seed),
            "object": "chat.completion",
            "created": CREATED_AT,
            "model": chat.model,
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
            "usage": self.usage(tokens),
        }
        return NativeReply(body=body, native=message, calls=calls, text=reply.text or "")

    def stream(self, written: NativeReply) -> Iterable[str]:
        body = written.body
        head = {name: body[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
        choice = body["choices"][0]
        calls = [{"index": number, **one} for number, one in enumerate(choice["message"].get("tool_calls") or ())]
        delta = {**choice["message"], **({"tool_calls": calls} if calls else {})}
        yield stream_event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        yield stream_event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
        yield stream_event({**head, "choices": [], "usage": body["usage"]})
        yield "data: [DONE]\n\n"


def stream_event(value: Mapping[str, Any]) -> str:
    """Return an event of a stream."""
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"


def _is_message(message: Any) -> bool:  # noqa: ANN401 - any JSON
    if not isinstance(message, dict) or message.get("role") not in ROLES:
        return False
    calls = message.get("tool_calls") or []
    content = message.get("content")
    return (
        (content is None or isinstance(content, str | list))
        and isinstance(calls, list)
        and all(isinstance(one, dict) and isinstance(one.get("function"), dict) for one in calls)
    )
