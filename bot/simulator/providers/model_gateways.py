"""Fakes of endpoints that offer models of others: OpenRouter, and Gemini's OpenAI-compatible endpoint."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from bot.simulator.providers.chat_completions import CREATED_AT, ChatRequestFormat, stream_event
from bot.simulator.providers.chat_requests import (
    ChatRequest,
    RememberedReply,
    ReplyOverride,
    RequestRefusal,
    ServedModelProfile,
    TokenCount,
    make_id,
    message_calls,
    opaque_text,
)
from bot.simulator.providers.provider_double import EVENT_STREAM, OverrideResponse, SimpleProviderDouble
from bot.testing.loopback_server import JSON_TYPE, ScriptedResponse
from bot.testing.model_server import ScriptedReply

NO_SIGNATURE = "Function call is missing a thought_signature in functionCall parts."
BAD_SIGNATURE = "Corrupted thought signature."
# What Google accepts in place of a signature, for calls of other models.
SENTINEL = "skip_thought_signature_validator"

# By the vendor in a model's name: the provider, and its words for lost and for changed reasoning ("": unsigned).
UPSTREAMS: Mapping[str, tuple[str, str, str]] = {
    "google": ("Google", NO_SIGNATURE, BAD_SIGNATURE),
    "anthropic": (
        "Anthropic",
        "Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
        "Invalid `signature` in `thinking` block",
    ),
    "openai": (
        "OpenAI",
        "Item of type 'function_call' was provided without its required 'reasoning' item.",
        "The encrypted content for the item could not be verified.",
    ),
    "deepseek": ("DeepSeek", "", ""),
    "moonshotai": ("Moonshot AI", "", ""),
    "z-ai": ("Z.AI", "", ""),
    "qwen": ("Alibaba", "", ""),
}
# Upstreams that refuse a forced tool choice, with their words.
UNFORCED: Mapping[str, str] = {
    "deepseek": "Thinking mode does not support this tool_choice",
    "moonshotai": "tool_choice specified is incompatible with thinking enabled",
    "z-ai": "Tool choice must be auto",
    "qwen": "The tool_choice parameter does not support being set to required or object in thinking mode",
}


def routed_error(code: int, message: str, provider: str = "", raw: str = "") -> Mapping[str, Any]:
    """Return an error as OpenRouter sends it; with a provider it contains that one's error."""
    error: dict[str, Any] = {"code": code, "message": message}
    return {"error": {**error, "metadata": {"provider_name": provider, "raw": raw}} if provider else error}


_OVERLOADED_ERROR = routed_error(503, "Provider returned error", "Upstream", "The model is overloaded.")
_RATE_LIMIT_ERROR = routed_error(429, "Provider returned error", "Upstream", "rate limited")
_UPSTREAM_ERROR = routed_error(502, "Provider returned error", "Upstream", "the provider disconnected")
_CHOICE = {"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": "error", **_UPSTREAM_ERROR}


class OpenRouterRequestFormat(ChatRequestFormat):
    """Chat completions of OpenRouter: any model of a known vendor, named ``vendor/model``."""

    thought_field = "reasoning"
    faults: ClassVar[Mapping[ReplyOverride, OverrideResponse]] = {
        ReplyOverride.OVERLOADED: (503, _OVERLOADED_ERROR, {}),
        ReplyOverride.RATE_LIMITED: (429, _RATE_LIMIT_ERROR, {"Retry-After": "2"}),
        ReplyOverride.RATE_LIMITED_SILENT: (429, _RATE_LIMIT_ERROR, {}),
        ReplyOverride.QUOTA_EXHAUSTED: (402, routed_error(402, "Insufficient credits. Add more to your account."), {}),
        ReplyOverride.ERROR_IN_BODY: (200, _UPSTREAM_ERROR, {}),
        ReplyOverride.ERROR_IN_CHOICE: (
            200,
            {"id": "gen-failed", "object": "chat.completion", "created": CREATED_AT, "choices": [_CHOICE]},
            {},
        ),
    }

    def profile(self, model: str) -> ServedModelProfile:
        vendor, _, name = model.partition("/")
        if vendor not in UPSTREAMS or not name:
            raise RequestRefusal(rule="", message=f"{model} is not a valid model ID")
        return ServedModelProfile(window=1_000_000)

    def error(self, refusal: RequestRefusal) -> Mapping[str, Any]:
        return routed_error(refusal.status, refusal.message)

    def thinks(self, chat: ChatRequest) -> bool:
        """Reasoning is on unless switched off; where a Claude's choice is forced it is dropped silently."""
        reasoning = chat.body.get("reasoning") or {}
        off = reasoning.get("enabled") is False or reasoning.get("effort") == "none"
        return not off and not (chat.forces_tool_call and _model_vendor(chat) == "anthropic")

    def check(self, chat: ChatRequest) -> None:
        if chat.forces_tool_call and self.thinks(chat) and (message := UNFORCED.get(_model_vendor(chat))) is not None:
            raise self._upstream_refusal(chat, message)

    def check_reply(self, chat: ChatRequest, at: int, given: RememberedReply | None) -> None:
        _, missing, changed = UPSTREAMS[_model_vendor(chat)]
        sent = chat.messages[at].get("reasoning_details")
        details = [] if given is None else given.written.native.get("reasoning_details") or []
        signed = any("signature" in one or "data" in one for one in details)
        unsigned_call = _model_vendor(chat) == "google" and given is None and bool(message_calls(chat.messages[at]))
        if not sent and (signed or unsigned_call):
            raise self._upstream_refusal(chat, missing)
        if sent and signed and sent != details:
            raise self._upstream_refusal(chat, changed)

    def message(self, chat: ChatRequest, reply: ScriptedReply, seed: str) -> dict[str, Any]:
        message = super().message(chat, reply, seed)
        if reply.thinking:
            calls = [str(one["id"]) for one in message.get("tool_calls", ())]
            message["reasoning_details"] = _reasoning_details(_model_vendor(chat), reply.thinking, seed, calls)
        return message

    def usage(self, tokens: TokenCount) -> dict[str, Any]:
        cost = 1e-6 * (tokens.prompt - 0.9 * tokens.cached) + 5e-6 * (tokens.output + tokens.thinking)
        return {**super().usage(tokens), "cost": cost, "cost_details": {"upstream_inference_cost": cost}}

    def override_reply(
        self, switch: ReplyOverride, chat: ChatRequest, play: Callable[[], ScriptedReply]
    ) -> ScriptedReply | ScriptedResponse:
        if switch is not ReplyOverride.ERROR_IN_STREAM:
            return super().override_reply(switch, chat, play)
        if not chat.stream:
            return ScriptedResponse(body=json.dumps(_UPSTREAM_ERROR).encode(), headers=JSON_TYPE)
        begun = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "I be"}, "finish_reason": None}]}
        broken = {**_UPSTREAM_ERROR, "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]}
        return ScriptedResponse(
            body=(stream_event(begun) + stream_event(broken) + "data: [DONE]\n\n").encode(), headers=EVENT_STREAM
        )

    def _upstream_refusal(self, chat: ChatRequest, message: str) -> RequestRefusal:
        refusal = RequestRefusal(rule="P-43", message=message)
        raw = json.dumps({"error": {"code": 400, "message": message}})
        refusal.body = routed_error(400, "Provider returned error", UPSTREAMS[_model_vendor(chat)][0], raw)
        return refusal


def _model_vendor(chat: ChatRequest) -> str:
    return chat.model.partition("/")[0]


def _reasoning_details(vendor: str, thinking: str, seed: str, calls: Sequence[str]) -> list[dict[str, Any]]:
    """Return the model's reasoning as parts that must be sent back unchanged."""
    text = {"type": "reasoning.text", "text": thinking, "index": 0}
    secret = opaque_text("reasoning", seed)
    match vendor:
        case "anthropic":
            return [{**text, "signature": secret, "format": "anthropic-claude-v1"}]
        case "google":
            sealed = {"type": "reasoning.encrypted", "data": secret, "id": next(iter(calls), ""), "index": 1}
            return [{**text, "format": "google-gemini-v1"}, {**sealed, "format": "google-gemini-v1"}]
        case "openai":
            form = {"format": "openai-responses-v1"}
            summary = {"type": "reasoning.summary", "summary": thinking, "index": 0, **form}
            sealed = {"type": "reasoning.encrypted", "data": secret, "id": make_id("rs_", seed), "index": 1, **form}
            return [summary, sealed]
        case _:
            return [{**text, "format": "unknown"}]


class OpenRouterDouble(SimpleProviderDouble):
    """OpenRouter: signed reasoning must be sent back unchanged, and errors may have status 200."""

    format_classes = (OpenRouterRequestFormat,)
    root = "/api/v1"


_GEMINI = ("gemini-4-argon", "gemini-3.8-flash", "gemini-3.5-flash", "gemini-3.1-pro-preview", "gemini-3-pro-preview")


class GeminiCompatRequestFormat(ChatRequestFormat):
    """Gemini's OpenAI-compatible endpoint: the first call of each step has its signature (P-35)."""

    models = dict.fromkeys((*_GEMINI, "gemini-2.5-pro", "gemini-2.5-flash"), ServedModelProfile(window=1_000_000))

    def error(self, refusal: RequestRefusal) -> Mapping[str, Any]:
        return {"error": {"code": refusal.status, "message": refusal.message, "status": "INVALID_ARGUMENT"}}

    def check_reply(self, chat: ChatRequest, at: int, given: RememberedReply | None) -> None:
        calls = chat.messages[at].get("tool_calls") or ()
        if not calls or at < chat.last_user() or "2.5" in chat.model:
            return
        sent = _call_signature(calls[0])
        if not sent:
            raise RequestRefusal(rule="P-35", message=NO_SIGNATURE)
        known = {SENTINEL} if given is None else {SENTINEL, _call_signature(given.written.native["tool_calls"][0])}
        if sent not in known:
            raise RequestRefusal(rule="P-35", message=BAD_SIGNATURE)

    def message(self, chat: ChatRequest, reply: ScriptedReply, seed: str) -> dict[str, Any]:
        message = super().message(chat, reply, seed)
        if reply.calls and "2.5" not in chat.model:
            signed = {"google": {"thought_signature": opaque_text("signature", seed)}}
            message["tool_calls"][0]["extra_content"] = signed
        return message


def _call_signature(call: Mapping[str, Any]) -> str:
    google = (call.get("extra_content") or {}).get("google") or {}
    return str(google.get("thought_signature") or "")


class GeminiCompatDouble(SimpleProviderDouble):
    """Gemini behind chat completions."""

    format_classes = (GeminiCompatRequestFormat,)
    root = "/v1beta/openai"
