"""A fake of Google's Gemini API (generateContent): thought signatures, call ids, schemas, and refusals."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from bot.core.ids import derive_id
from bot.core.interfaces import Clock
from bot.simulator.providers.chat_requests import (
    ChatRequest,
    NativeReply,
    ProviderRequest,
    RememberedReply,
    ReplyOverride,
    RequestRefusal,
    TokenCount,
    make_id,
    parse_arguments,
    request_prefix,
)
from bot.simulator.providers.gemini_rules import (
    GEMINI_MODELS,
    GeminiContent,
    GeminiPart,
    GeminiProfile,
    check_request,
    content_calls,
    content_results,
    content_text,
    is_sentinel,
    refuse_request,
    sign_thought,
    to_camel_case,
)
from bot.simulator.providers.provider_double import OverrideResponse, ProviderDouble, RequestFormat
from bot.testing.loopback_server import ReceivedRequest, ScriptedResponse
from bot.testing.model_server import ReplyScript, ScriptedReply

_PATH = re.compile(r"(?:/v1(?:beta|alpha)?)?/models/(?P<model>[^/:]+):(?P<verb>generateContent|streamGenerateContent)")
_STATUS = {
    400: "INVALID_ARGUMENT",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}
_FINISH = {"length": "MAX_TOKENS", "content_filter": "SAFETY", "stop": "STOP", "tool_calls": "STOP"}
_MODES = {"AUTO": "auto", "MODE_UNSPECIFIED": "auto", "VALIDATED": "auto", "ANY": "required", "NONE": "none"}
_TYPES = "type.googleapis.com/google.rpc."


def gemini_error(status: int, message: str, *details: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an error in Google's form."""
    error = {"code": status, "message": message, "status": _STATUS.get(status, "UNKNOWN")}
    return {"error": {**error, **({"details": list(details)} if details else {})}}


def _quota_failure(quota: str) -> Mapping[str, Any]:
    violation = {"quotaMetric": "generativelanguage.googleapis.com/generate_requests", "quotaId": quota}
    return {"@type": f"{_TYPES}QuotaFailure", "violations": [violation]}


_RETRY_INFO = {"@type": f"{_TYPES}RetryInfo", "retryDelay": "34.4s"}
_EXCEEDED = "You exceeded your current quota, please check your plan and billing details."
_MINUTE, _DAY = (_quota_failure(f"GenerateRequestsPer{one}PerProjectPerModel") for one in ("Minute", "Day"))


class GeminiRequestFormat(RequestFormat):
    """The form of generateContent. It knows streamGenerateContent too, but does not stream."""

    faults: ClassVar[Mapping[ReplyOverride, OverrideResponse]] = {
        ReplyOverride.OVERLOADED: (503, gemini_error(503, "The model is overloaded. Please try again later."), {}),
        ReplyOverride.RATE_LIMITED: (429, gemini_error(429, _EXCEEDED, _MINUTE, _RETRY_INFO), {}),
        ReplyOverride.RATE_LIMITED_SILENT: (429, gemini_error(429, "Resource has been exhausted."), {}),
        # The time to wait is given here too, though waiting does not help.
        ReplyOverride.QUOTA_EXHAUSTED: (429, gemini_error(429, _EXCEEDED, _DAY, _RETRY_INFO), {}),
    }
    finishes: ClassVar[Mapping[ReplyOverride, str]] = {
        ReplyOverride.MALFORMED_CALL: "MALFORMED_FUNCTION_CALL",
        ReplyOverride.SAFETY: "SAFETY",
        ReplyOverride.REFUSAL: "PROHIBITED_CONTENT",
        ReplyOverride.BLOCKED_PROMPT: "BLOCKED_PROMPT",
        ReplyOverride.EMPTY_LENGTH: "MAX_TOKENS",
    }

    def __init__(self) -> None:
        self._last: tuple[ProviderRequest | None, Mapping[str, Any]] = (None, {})

    def handles_path(self, path: str) -> bool:
        return _PATH.fullmatch(path) is not None

    def read_request(self, request: ProviderRequest) -> ChatRequest:
        if (found := _PATH.fullmatch(request.path.partition("?")[0])) is None:
            refuse_request("", f"Invalid path {request.path}")
        body, profile = self._camel_case_body(request), self.profile(found["model"])
        contents, tools = body.get("contents"), body.get("tools") or []
        if not _is_object_list(contents) or not contents or not _is_object_list(tools):
            refuse_request("P-5", "* GenerateContentRequest.contents: contents is not specified")
        if not all(_is_object_list(one.get("parts")) for one in contents):
            refuse_request("P-5", "* GenerateContentRequest.contents.parts: contents.parts must not be empty.")
        system = body.get("systemInstruction") or {}
        if not isinstance(system, dict):
            refuse_request("P-5", "Invalid value at 'system_instruction'")
        messages, natives = _to_chat_messages(contents, profile)
        if text := content_text(system.get("parts") or ()):
            messages = [{"role": "system", "content": text}, *messages]
            natives = {at + 1: parts for at, parts in natives.items()}
        return ChatRequest(
            source=request,
            model=found["model"],
            body={"model": found["model"], "messages": messages, **_common_fields(body, tools)},
            prefix=request_prefix(tools, [system] if system else [], contents),
            natives=natives,
            stream=found["verb"] == "streamGenerateContent",
        )

    def profile(self, model: str) -> GeminiProfile:
        if (found := GEMINI_MODELS.get(model)) is None:
            message = f"models/{model} is not found for API version v1beta, or is not supported for generateContent."
            raise RequestRefusal(rule="", status=404, message=message)
        return found

    def thinks(self, chat: ChatRequest) -> bool:
        thinking = (self._camel_case_body(chat.source).get("generationConfig") or {}).get("thinkingConfig") or {}
        return thinking.get("thinkingBudget") != 0

    def check(self, chat: ChatRequest) -> None:
        check_request(chat, self._camel_case_body(chat.source), self.profile(chat.model))

    def check_reply(self, chat: ChatRequest, at: int, given: RememberedReply | None) -> None:
        sent = [one.get("thoughtSignature") for one in chat.natives[at] if "functionCall" in one]
        if given is None or not sent or given.model != chat.model or not self.profile(chat.model).requires_signatures:
            return
        expected = [one.get("thoughtSignature") for one in given.written.native if "functionCall" in one]
        if sent != expected and any(sent) and not is_sentinel(sent[0]):
            refuse_request("P-28", "Corrupted thought signature.")

    def check_window(self, chat: ChatRequest, tokens: int) -> None:
        if tokens > (window := self.profile(chat.model).window):
            limit = f"exceeds the maximum number of tokens allowed ({window})."
            refuse_request("P-15", f"The input token count ({tokens}) {limit}")

    def model_listing(self, path: str) -> Mapping[str, Any] | None:
        return {"models": [{"name": f"models/{one}"} for one in GEMINI_MODELS]} if path.endswith("/models") else None

    def write_reply(self, chat: ChatRequest, reply: ScriptedReply, tokens: TokenCount, seed: str) -> NativeReply:
        finish = _FINISH.get(reply.finish or "stop", reply.finish)
        calls = [(name, parse_arguments(text)) for name, text in reply.calls]
        if any(arguments is None for _, arguments in calls):
            finish, calls = "MALFORMED_FUNCTION_CALL", []
        parts = self._reply_parts(chat, reply, calls, seed) if finish in {"STOP", "MAX_TOKENS"} else []
        profile, body = self.profile(chat.model), self._camel_case_body(chat.source)
        candidate: dict[str, Any] = {
            "content": {"role": "model", **({"parts": parts} if parts else {})},
            "finishReason": "PROHIBITED_CONTENT" if reply.refusal else finish,
            "index": 0,
        }
        blocked = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}
        written = {
            **(blocked if finish == "BLOCKED_PROMPT" else {"candidates": [candidate]}),
            "usageMetadata": _usage_fields(tokens, profile),
            "modelVersion": chat.model,
            "responseId": make_id("", seed),
        }
        content = {"role": "model", "parts": parts}
        return NativeReply(
            body=written,
            native=parts,
            calls=_ids_and_calls(content, reduce(_next_state, body["contents"], ""), profile),
            text=content_text(parts),
        )

    def error(self, refusal: RequestRefusal) -> Mapping[str, Any]:
        info = {"@type": f"{_TYPES}ErrorInfo", "reason": refusal.code, "domain": "googleapis.com"}
        return gemini_error(refusal.status, refusal.message, *([info] if refusal.code else []))

    def override_reply(
        self, switch: ReplyOverride, chat: ChatRequest, play: Callable[[], ScriptedReply]
    ) -> ScriptedReply | ScriptedResponse:
        finish = self.finishes.get(switch)
        return super().override_reply(switch, chat, play) if finish is None else ScriptedReply(finish=finish)

    def _camel_case_body(self, request: ProviderRequest) -> Mapping[str, Any]:
        """Return the body of a request in camel case."""
        if self._last[0] is not request:
            self._last = (request, to_camel_case(request.body))
        return self._last[1]

    def _reply_parts(
        self, chat: ChatRequest, reply: ScriptedReply, calls: Sequence[tuple[str, Any]], seed: str
    ) -> list[dict[str, Any]]:
        thinking = (self._camel_case_body(chat.source).get("generationConfig") or {}).get("thinkingConfig") or {}
        signature = {"thoughtSignature": sign_thought(chat.model, seed)}
        parts: list[dict[str, Any]] = []
        if reply.thinking and thinking.get("includeThoughts") and (reply.text or calls):
            parts.append({"text": reply.thinking, "thought": True})
        if reply.text:
            replies = sum(one.get("role") == "assistant" for one in chat.messages)
            parts.append({"text": reply.text, **(signature if replies % 2 and not calls else {})})
        for number, (name, arguments) in enumerate(calls):
            called = {"name": name, "args": arguments}
            if self.profile(chat.model).has_call_ids:
                called["id"] = make_id("fc", seed, number)
            parts.append({"functionCall": called, **(signature if number == 0 else {})})
        return parts


class GeminiDouble(ProviderDouble):
    """Serves POST /v1beta/models/{model}:generateContent; a key may be in the header or in the query."""

    root: ClassVar[str] = "/v1beta"

    def __init__(self, script: ReplyScript, *, key: str | None = None, clock: Clock | None = None) -> None:
        super().__init__((GeminiRequestFormat(),), script, key=key, clock=clock)

    def _authorise(self, received: ReceivedRequest) -> None:
        key = received.headers.get("x-goog-api-key") or parse_qs(urlsplit(received.path).query).get("key", [None])[0]
        if self.key is not None and key is None:
            message = "Method doesn't allow unregistered callers (callers without established identity)."
            raise RequestRefusal(rule="", status=403, message=message)
        if self.key not in {None, key}:
            message = "API key not valid. Please pass a valid API key."
            raise RequestRefusal(rule="", message=message, code="API_KEY_INVALID")


def _is_object_list(value: Any) -> bool:  # noqa: ANN401 - any JSON
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _next_state(state: str, content: GeminiContent) -> str:
    """Return a digest of the conversation so far, without signatures: it gives ids to calls without one."""
    parts = [{name: value for name, value in one.items() if name != "thoughtSignature"} for one in content["parts"]]
    return derive_id("content", state, str(content.get("role")), json.dumps(parts, sort_keys=True))


def _ids_and_calls(content: GeminiContent, state: str, profile: GeminiProfile) -> tuple[tuple[str, str, str], ...]:
    calls = [one["functionCall"] for one in content_calls(content)]
    ids = [
        (profile.has_call_ids and one.get("id")) or make_id("call_", state, number) for number, one in enumerate(calls)
    ]
    return tuple(
        (str(call_id), str(one.get("name")), json.dumps(one.get("args") or {}))
        for call_id, one in zip(ids, calls, strict=True)
    )


def _to_chat_messages(
    contents: Sequence[GeminiContent], profile: GeminiProfile
) -> tuple[list[Mapping[str, Any]], Mapping[int, Sequence[GeminiPart]]]:
    """Return the contents in chat-completions form, and the model's parts by their index there."""
    made: list[Mapping[str, Any]] = []
    natives: dict[int, Sequence[GeminiPart]] = {}
    waiting: list[tuple[str, str, str]] = []
    state = ""
    for content in contents:
        parts = content["parts"]
        text = content_text(parts)
        if content.get("role") == "model":
            natives[len(made)] = parts
            waiting = list(_ids_and_calls(content, state, profile))
            calls = [
                {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
                for call_id, name, arguments in waiting
            ]
            made.append({"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})})
        else:
            made += [_tool_result(one, waiting, profile) for one in content_results(content)]
            made += [{"role": "user", "content": text}] if text else []
        state = _next_state(state, content)
    return made, natives


def _tool_result(
    result: Mapping[str, Any], waiting: list[tuple[str, str, str]], profile: GeminiProfile
) -> Mapping[str, Any]:
    """Return a result; it answers the call of its id, else the first open one of its name."""
    wanted = result.get("id") if profile.has_call_ids else None
    open_calls = [one for one in waiting if wanted in {None, one[0]} and one[1] == result.get("name")]
    if open_calls:
        waiting.remove(open_calls[0])
    call_id = open_calls[0][0] if open_calls else "unknown"
    return {"role": "tool", "tool_call_id": call_id, "content": json.dumps(result.get("response") or {})}


def _common_fields(body: Mapping[str, Any], tools: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return functions, tool choice and the form of the answer in chat-completions form."""
    none = {"type": "object", "properties": {}}
    functions = [
        {**one, "parameters": _plain_schema(one.get("parametersJsonSchema") or one.get("parameters") or none)}
        for tool in tools
        for one in tool.get("functionDeclarations") or ()
    ]
    made: dict[str, Any] = {"tools": [{"type": "function", "function": one} for one in functions]} if functions else {}
    choice = (body.get("toolConfig") or {}).get("functionCallingConfig")
    if choice and (functions or not tools):
        mode = _MODES.get(str(choice.get("mode", "AUTO")).upper(), "auto")
        named = [{"type": "function", "function": {"name": one}} for one in choice.get("allowedFunctionNames") or ()]
        allowed = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": named}}
        made["tool_choice"] = allowed if named else mode
    config = body.get("generationConfig") or {}
    if schema := config.get("responseJsonSchema") or config.get("responseSchema"):
        form = {"name": "answer", "schema": _plain_schema(schema)}
        made["response_format"] = {"type": "json_schema", "json_schema": form}
    return made


def _plain_schema(schema: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a schema with its types in lower case."""
    if isinstance(schema, dict):
        return {
            name: part.lower() if name == "type" and isinstance(part, str) else _plain_schema(part)
            for name, part in schema.items()
        }
    return [_plain_schema(one) for one in schema] if isinstance(schema, list) else schema


def _usage_fields(tokens: TokenCount, profile: GeminiProfile) -> Mapping[str, Any]:
    cached = tokens.cached if tokens.cached >= profile.cache_minimum else 0
    return {
        "promptTokenCount": tokens.prompt,
        "candidatesTokenCount": tokens.output,
        "totalTokenCount": tokens.prompt + tokens.output + tokens.thinking,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens.prompt}],
        **({"cachedContentTokenCount": cached} if cached else {}),
        **({"thoughtsTokenCount": tokens.thinking} if tokens.thinking else {}),
    }
