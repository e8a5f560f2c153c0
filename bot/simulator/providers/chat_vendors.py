"""Vendors of reasoning models behind chat completions, and what each refuses.

DeepSeek, Moonshot, Qwen, Z.AI, xAI, Mistral.
"""

import re
from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn

from bot.simulator.providers.chat_completions import ChatRequestFormat
from bot.simulator.providers.chat_requests import (
    ChatRequest,
    RequestRefusal,
    ServedModelProfile,
    TokenCount,
    make_id,
    message_calls,
)
from bot.simulator.providers.openai import OpenAiProfile, ResponsesRequestFormat
from bot.simulator.providers.provider_double import SimpleProviderDouble
from bot.testing.model_server import ScriptedReply

PENALTIES = ("stop", "presence_penalty", "frequency_penalty")


class ThinkingRequestFormat(ChatRequestFormat):
    """A dialect of models that reason by default and accept no forced tool choice while they do.

    ``forced`` and ``missing`` are the rule and the text of the refusals of a forced choice, and of an assistant message
    that has calls but no reasoning (None: not refused). ``{at}`` is replaced by the message's index.
    """

    thought_field = "reasoning_content"
    code: ClassVar[str | None] = "invalid_request_error"
    forced: ClassVar[tuple[str, str]] = ("P-37", "Thinking mode does not support this tool_choice")
    missing: ClassVar[tuple[str, str] | None] = (
        "P-36",
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
    )

    def thinks(self, chat: ChatRequest) -> bool:
        thinking = chat.body.get("thinking")
        return super().thinks(chat) and not (isinstance(thinking, dict) and thinking.get("type") == "disabled")

    def refuses_choice(self, chat: ChatRequest) -> bool:
        """Return whether a reasoning model refuses the tool choice."""
        return chat.forces_tool_call

    def check(self, chat: ChatRequest) -> None:
        if not self.thinks(chat):
            return
        if self.refuses_choice(chat):
            rule, message = self.forced
            raise RequestRefusal(rule=rule, message=message, code=self.code)
        for at, one in enumerate(chat.messages):
            if self.missing is not None and message_calls(one) and not one.get(self.thought_field or ""):
                rule, message = self.missing
                raise RequestRefusal(rule=rule, message=message.format(at=at), code=self.code)


class DeepSeekRequestFormat(ThinkingRequestFormat):
    """DeepSeek V4."""

    models = dict.fromkeys(
        ("deepseek-v4", "deepseek-v4-flash", "deepseek-v4-pro"), ServedModelProfile(window=1_000_000)
    )

    def usage(self, tokens: TokenCount) -> dict[str, Any]:
        cache = {"prompt_cache_hit_tokens": tokens.cached, "prompt_cache_miss_tokens": tokens.prompt - tokens.cached}
        return {**super().usage(tokens), **cache}


class KimiRequestFormat(ThinkingRequestFormat):
    """Moonshot's Kimi: K3 and K2.7 always reason, K2.6 and K2.5 unless it is switched off."""

    models = dict.fromkeys(
        ("kimi-k3", "kimi-k3.1", "kimi-k2.7-code", "kimi-k2.6", "kimi-k2.5"), ServedModelProfile(window=256_000)
    )
    code = None
    forced = ("P-38", "tool_choice specified is incompatible with thinking enabled")
    missing = (
        "P-38",
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index {at}",
    )

    def check(self, chat: ChatRequest) -> None:
        body = chat.body
        if "thinking" in body and "reasoning_effort" in body:
            raise RequestRefusal(rule="P-38", message="cannot specify both 'thinking' and 'reasoning_effort'")
        if not self.thinks(chat) and not chat.model.endswith(("k2.5", "k2.6")):
            raise RequestRefusal(rule="P-38", message="thinking cannot be disabled for this model")
        if body.get("temperature", 1) != 1:
            raise RequestRefusal(rule="P-38", message="invalid temperature: only 1 is allowed for this model")
        super().check(chat)

    def error(self, refusal: RequestRefusal) -> Mapping[str, Any]:
        return {"error": {"message": refusal.message, "type": refusal.kind}}

    def usage(self, tokens: TokenCount) -> dict[str, Any]:
        return {**super().usage(tokens), "cached_tokens": tokens.cached}


_QWEN_FORCED = (
    "<400> InternalError.Algo.InvalidParameter: The tool_choice parameter does not support being set to required "
    "or object in thinking mode"
)


class QwenRequestFormat(ThinkingRequestFormat):
    """Qwen on DashScope's compatible endpoint; reasoning may be sent back and need not be."""

    models = dict.fromkeys(("qwen3.5-plus", "qwen3-max", "qwen4-max"), ServedModelProfile(window=1_000_000))
    code = "invalid_parameter_error"
    missing = None
    forced = ("P-39", _QWEN_FORCED)

    def thinks(self, chat: ChatRequest) -> bool:
        return super().thinks(chat) and chat.body.get("enable_thinking") is not False


class GlmRequestFormat(ThinkingRequestFormat):
    """Z.AI's GLM: every tool choice but auto is refused, also by models without reasoning."""

    models = dict.fromkeys(("glm-4.7", "glm-5", "glm-5.3"), ServedModelProfile(window=200_000))
    code = "1210"
    missing = None
    forced = ("P-40", "Tool choice must be auto")

    def check(self, chat: ChatRequest) -> None:
        if chat.choice not in (None, "auto"):
            rule, message = self.forced
            raise RequestRefusal(rule=rule, message=message, code=self.code)


# xAI

_GROK = ("low", "medium", "high")
GROK_MODELS: Mapping[str, OpenAiProfile] = {
    "grok-4.6": OpenAiProfile(effort="high", efforts=frozenset((*_GROK, "xhigh")), window=500_000),
    "grok-4.5": OpenAiProfile(effort="high", efforts=frozenset(_GROK), window=500_000),
    "grok-4.3": OpenAiProfile(effort="high", efforts=frozenset((*_GROK, "none")), window=500_000),
    "grok-4.20-0309-non-reasoning": OpenAiProfile(window=500_000, thinks=False),
}


def check_grok(chat: ChatRequest, effort: str | None) -> None:
    """Refuse efforts that a model does not have, and penalties and stops where it reasons (P-41)."""
    profile = GROK_MODELS[chat.model]
    message = None
    if effort is not None and not profile.efforts:
        message = f"Model {chat.model} does not support parameter reasoningEffort."
    elif effort is not None and effort not in profile.efforts:
        message = f"This model does not support 'reasoning_effort' value '{effort}'"
    elif profile.thinks and (odd := next((name for name in PENALTIES if name in chat.native), None)):
        message = f"Model {chat.model} does not support parameter {odd}."
    if message is not None:
        raise RequestRefusal(rule="P-41", message=message, code="Client specified an invalid argument")


def grok_error(refusal: RequestRefusal) -> Mapping[str, Any]:
    """Return an error as xAI sends it: ``error`` is a text."""
    return {"code": refusal.code or "Client specified an invalid argument", "error": refusal.message}


class GrokChatRequestFormat(ChatRequestFormat):
    """Chat completions of xAI. The model's reasoning is hidden."""

    models = GROK_MODELS

    def check(self, chat: ChatRequest) -> None:
        check_grok(chat, chat.body.get("reasoning_effort"))

    def error(self, refusal: RequestRefusal) -> Mapping[str, Any]:
        return grok_error(refusal)

    def usage(self, tokens: TokenCount) -> dict[str, Any]:
        usage = {**super().usage(tokens), "completion_tokens": tokens.output}
        return {**usage, "cost_in_usd_ticks": 1000 * (tokens.prompt + tokens.output + tokens.thinking)}


class GrokResponsesRequestFormat(ResponsesRequestFormat):
    """Responses of xAI."""

    models = GROK_MODELS

    def check(self, chat: ChatRequest) -> None:
        check_grok(chat, (chat.native.get("reasoning") or {}).get("effort"))
        self.check_items(chat.native["input"] if isinstance(chat.native["input"], list) else ())

    def error(self, refusal: RequestRefusal) -> Mapping[str, Any]:
        return grok_error(refusal)


# Mistral

_MISTRAL_ID = re.compile(r"[a-zA-Z0-9]{9}")
_MISTRAL_FIELDS = (
    "model messages tools tool_choice temperature top_p max_tokens stream stop random_seed response_format "
    "presence_penalty frequency_penalty n prediction parallel_tool_calls prompt_mode reasoning_effort safe_prompt "
    "metadata"
)
_MESSAGE_FIELDS: Mapping[str, frozenset[str]] = {
    "system": frozenset({"role", "content"}),
    "user": frozenset({"role", "content"}),
    "assistant": frozenset({"role", "content", "tool_calls", "prefix"}),
    "tool": frozenset({"role", "content", "tool_call_id", "name"}),
}


MISTRAL_MODELS: Mapping[str, ServedModelProfile] = {
    "mistral-medium-3-5": ServedModelProfile(window=256_000),
    "mistral-large-3": ServedModelProfile(window=256_000, thinks=False),
}


class MistralRequestFormat(ChatRequestFormat):
    """Mistral's own API: ids of nine characters, only the assistant after a tool's result, no foreign fields."""

    models = MISTRAL_MODELS
    texts: ClassVar[Mapping[str, str]] = {"P-1": "Not the same number of function calls and responses"}

    def thinks(self, chat: ChatRequest) -> bool:
        return super().thinks(chat) and chat.body.get("reasoning_effort") == "high"

    def check(self, chat: ChatRequest) -> None:
        if odd := sorted(chat.native.keys() - set(_MISTRAL_FIELDS.split())):
            _refuse_field("P-5", ["body", odd[0]])
        effort = chat.body.get("reasoning_effort")
        if effort is not None and not (super().thinks(chat) and effort in ("high", "none")):
            _refuse_field("P-42", ["body", "reasoning_effort"])
        before = ""
        for at, message in enumerate(chat.messages):
            role = str(message["role"])
            if odd := sorted(message.keys() - _MESSAGE_FIELDS.get(role, frozenset())):
                _refuse_field("P-42", ["body", "messages", at, role, odd[0]])
            self._check_message(message, role, before)
            before = role

    def _check_message(self, message: Mapping[str, Any], role: str, before: str) -> None:
        if before == "tool" and role not in ("tool", "assistant"):
            _refuse_request(f"Unexpected role '{role}' after role 'tool'", "invalid_request_message_order", "3230")
        ids = [call_id for call_id, _ in message_calls(message)] + [str(message.get("tool_call_id", "a23456789"))]
        if odd := [one for one in ids if not _MISTRAL_ID.fullmatch(one)]:
            problem = f"Tool call id was {odd[0]} but must be a-z, A-Z, 0-9, with a length of 9."
            _refuse_request(problem, "invalid_function_call", "3280")
        if role == "assistant" and not (message.get("content") or message.get("tool_calls")):
            problem = "Assistant message must have either content or tool_calls, but not none."
            _refuse_request(problem, "invalid_request_assistant_message", "3240")

    def error(self, refusal: RequestRefusal) -> Mapping[str, Any]:
        error = {"type": refusal.kind, "param": refusal.param, "code": refusal.code}
        return {"object": "error", "message": refusal.message, **error}

    def call_id(self, seed: str, number: int) -> str:
        return make_id("", seed, number)[:9]

    def message(self, chat: ChatRequest, reply: ScriptedReply, seed: str) -> dict[str, Any]:
        message = super().message(chat, reply, seed)
        del message["refusal"]
        if reply.thinking:
            thought = {"type": "thinking", "thinking": [{"type": "text", "text": reply.thinking}]}
            message["content"] = [thought, *([{"type": "text", "text": reply.text}] if reply.text else [])]
        return message


def _refuse_request(message: str, kind: str, code: str) -> NoReturn:
    raise RequestRefusal(rule="P-42", message=message, kind=kind, code=code)


def _refuse_field(rule: str, place: list[Any]) -> NoReturn:
    refusal = RequestRefusal(rule=rule, status=422, message="Extra inputs are not permitted")
    detail = [{"type": "extra_forbidden", "loc": place, "msg": refusal.message}]
    refusal.body = {"object": "error", "message": {"detail": detail}, "type": refusal.kind, "param": None, "code": None}
    raise refusal


class DeepSeekDouble(SimpleProviderDouble):
    """DeepSeek: reasoning must be sent back with its calls, and no choice is forced while it reasons."""

    format_classes = (DeepSeekRequestFormat,)


class KimiDouble(SimpleProviderDouble):
    """Moonshot: like DeepSeek with its own messages, temperature 1, and one way to set the reasoning."""

    format_classes = (KimiRequestFormat,)


class QwenDouble(SimpleProviderDouble):
    """Qwen on DashScope: no choice is forced while it reasons."""

    format_classes = (QwenRequestFormat,)


class GlmDouble(SimpleProviderDouble):
    """Z.AI: the tool choice is auto."""

    format_classes = (GlmRequestFormat,)


class GrokDouble(SimpleProviderDouble):
    """xAI: chat completions and Responses."""

    format_classes = (GrokChatRequestFormat, GrokResponsesRequestFormat)


class MistralDouble(SimpleProviderDouble):
    """Mistral: strict about ids, order of roles, and fields."""

    format_classes = (MistralRequestFormat,)
