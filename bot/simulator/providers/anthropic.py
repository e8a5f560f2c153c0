"""A fake of Anthropic's Messages API: thinking blocks that must be sent back, a prompt cache, and refusals."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import groupby
from typing import Any, ClassVar

from bot.core.ids import derive_id
from bot.core.interfaces import Clock
from bot.core.light_dataclass import dataclass
from bot.simulator.providers.anthropic_rules import (
    BINDING_BETA,
    CLAUDE_MODELS,
    FIELDS,
    THINKING_BLOCKS,
    ClaudeProfile,
    ContentBlock,
    PromptPart,
    check_request,
    has_beta,
    prompt_parts,
    refuse_request,
    thinking_mode,
)
from bot.simulator.providers.chat_requests import (
    ChatRequest,
    NativeReply,
    ProviderRequest,
    RememberedReply,
    ReplyOverride,
    RequestRefusal,
    TokenCount,
    make_id,
    opaque_text,
    parse_arguments,
    request_prefix,
)
from bot.simulator.providers.provider_double import OverrideResponse, ProviderDouble, RequestFormat
from bot.testing.loopback_server import ScriptedResponse
from bot.testing.model_server import ReplyScript, ScriptedReply

INTERMEDIATE_TEXT = "Let me look at that first."
CACHE_LOOKBACK_BLOCKS = 20
_STOP_REASONS = {"length": "max_tokens", "content_filter": "refusal", "stop": "end_turn", "tool_calls": "tool_use"}
_TOOL_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_CHANGED_THINKING = "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified."


def anthropic_error(kind: str, message: str, **more: Any) -> Mapping[str, Any]:  # noqa: ANN401 - parts of the error
    """Return an error in Anthropic's form."""
    error = {"type": kind, "message": message, **more}
    return {"type": "error", "error": error, "request_id": make_id("req_", kind + message)}


_RATE_LIMIT = anthropic_error("rate_limit_error", "This request would exceed your organization's rate limit.")
_SPENDING_LIMIT = anthropic_error(
    "rate_limit_error",
    "Your organization has reached its monthly spend limit.",
    details={"error_code": "enforced_spend_limit_reached"},
)
_OVERLOADED = anthropic_error("overloaded_error", "Overloaded")


class MarkedPromptCache:
    """The prompt cache: an entry ends at each cache mark, and is found up to 20 blocks before a later mark.

    Entries do not expire. They belong to a model; those of messages also to the thinking and the tool choice.
    """

    def __init__(self) -> None:
        self._entries: set[str] = set()

    def use(self, chat: ChatRequest, minimum: int) -> tuple[int, Mapping[str, int]]:
        """Return the tokens that a request reads, and those that it writes by time to live; remember the writes."""
        parts, total, ends = prompt_parts(chat.native), 0, []
        for _, chars in chat.prefix:
            total += chars
            ends.append(total // 4)
        keys = [self._block_key(chat, one, state) for one, (state, _) in zip(parts, chat.prefix, strict=True)]
        marks = {at: one.ttl for at, one in enumerate(parts) if one.ttl}
        if top := chat.native.get("cache_control"):
            marks[len(parts) - 1] = top.get("ttl", "5m")
        found = [
            at
            for mark in marks
            for at in range(max(0, mark - CACHE_LOOKBACK_BLOCKS), mark + 1)
            if keys[at] in self._entries
        ]
        read = place = ends[max(found)] if found else 0
        written = {"5m": 0, "1h": 0}
        for at in sorted(marks):
            if ends[at] >= max(minimum, place):
                written[str(marks[at])] += ends[at] - place
                place = ends[at]
                self._entries.add(keys[at])
        return read, written

    def _block_key(self, chat: ChatRequest, part: PromptPart, state: str) -> str:
        how = [chat.native.get("thinking"), chat.native.get("tool_choice")] if part.message >= 0 else []
        return derive_id("cache", chat.model, state, json.dumps(how, sort_keys=True))


@dataclass(kw_only=True)
class MessagesRequestFormat(RequestFormat):
    """The Messages API. ``forced_choice_models`` names models that accept a forced tool choice with adaptive thinking.

    ``dropped`` lists the thinking blocks that were removed from requests, with place and reason.
    """

    fields: ClassVar[frozenset[str] | None] = FIELDS
    faults: ClassVar[Mapping[ReplyOverride, OverrideResponse]] = {
        ReplyOverride.OVERLOADED: (529, _OVERLOADED, {}),
        ReplyOverride.RATE_LIMITED: (
            429,
            _RATE_LIMIT,
            {
                "retry-after": "7",
                "anthropic-ratelimit-requests-limit": "50",
                "anthropic-ratelimit-requests-remaining": "0",
            },
        ),
        ReplyOverride.RATE_LIMITED_SILENT: (429, _RATE_LIMIT, {}),
        ReplyOverride.QUOTA_EXHAUSTED: (429, _SPENDING_LIMIT, {}),
    }
    forced_choice_models: Collection[str] = ()
    dropped: list[Mapping[str, str]] = field(default_factory=list)
    _cache: MarkedPromptCache = field(default_factory=MarkedPromptCache)
    _new: int = 0

    def handles_path(self, path: str) -> bool:
        return path.endswith("/v1/messages")

    def read_request(self, request: ProviderRequest) -> ChatRequest:
        body = request.body
        if "anthropic-version" not in request.headers:
            refuse_request("", "anthropic-version: header is required")
        if not isinstance(body.get("model"), str) or not isinstance(body.get("messages"), list):
            refuse_request("P-23", "model, messages: Field required")
        for name in ("thinking", "output_config", "tool_choice", "cache_control"):
            if not isinstance(body.get(name), dict | None):
                refuse_request("P-5", f"{name}: Input should be an object")
        parts = prompt_parts(body)
        messages, natives = _to_chat_messages(parts)
        return ChatRequest(
            source=request,
            model=body["model"],
            body={"model": body["model"], "messages": messages, **_common_fields(body)},
            prefix=request_prefix([[one.region, one.content] for one in parts]),
            natives=natives,
            stream=body.get("stream") is True,
        )

    def profile(self, model: str) -> ClaudeProfile:
        name = model[:-9] if model[-9:-8] == "-" and model[-8:].isdigit() else model
        if (found := CLAUDE_MODELS.get(name)) is None:
            raise RequestRefusal(rule="", status=404, kind="not_found_error", message=f"model: {model}")
        return (
            replace(found, unforced_modes=found.unforced_modes - {"adaptive"})
            if name in self.forced_choice_models
            else found
        )

    def thinks(self, chat: ChatRequest) -> bool:
        return thinking_mode(chat.native, self.profile(chat.model)) != "disabled"

    def check(self, chat: ChatRequest) -> None:
        self._new = len(self.dropped)
        check_request(chat, self.profile(chat.model))

    def check_reply(self, chat: ChatRequest, at: int, given: RememberedReply | None) -> None:
        sent, profile = chat.natives[at], self.profile(chat.model)
        if at == len(chat.messages) - 1 and not profile.prefill and not _is_paused(given):
            refuse_request("P-22", "This model does not support assistant message prefill.")
        thoughts = [one for one in sent if one["type"] in THINKING_BLOCKS]
        if given is not None and given.model != chat.model:
            self._drop_blocks(chat, at, "model_binding_mismatch")
            return
        expected = given.written.native if given is not None else []
        if any(_block_signature(one) not in map(_block_signature, expected) for one in thoughts):
            refuse_request("P-16", f"{_content_path(chat, at)}.0: Invalid `signature` in `thinking` block")
        if sent != expected and (thoughts or _tool_calls(expected)):
            left_out = not thoughts and thinking_mode(chat.native, profile) != "enabled"
            if not left_out or sent != [one for one in expected if one["type"] not in THINKING_BLOCKS]:
                refuse_request(
                    "P-16",
                    f"{_content_path(chat, at)}: {_CHANGED_THINKING} "
                    "They must remain as they were in the original response.",
                )
        if (
            given is not None
            and thoughts
            and profile.binds_thinking
            and chat.prefix[: len(given.prefix)] != given.prefix
        ):
            thinking = chat.native.get("thinking") or {}
            if (thinking.get("block_binding") or {}).get("prefix_mismatch_behavior") != "drop_block":
                refuse_request("P-24", f"{_content_path(chat, at)}.0: The block is bound to a different conversation")
            self._drop_blocks(chat, at, "prefix_binding_mismatch")

    def check_window(self, chat: ChatRequest, tokens: int) -> None:
        if tokens > (window := self.profile(chat.model).window):
            refuse_request("P-15", f"prompt is too long: {tokens} tokens > {window} maximum")

    def write_reply(self, chat: ChatRequest, reply: ScriptedReply, tokens: TokenCount, seed: str) -> NativeReply:
        blocks = [] if reply.refusal else self._content_blocks_of(chat, reply, seed)
        calls = _tool_calls(blocks)
        stop = "refusal" if reply.refusal else _STOP_REASONS.get(reply.finish or "", reply.finish)
        body: dict[str, Any] = {
            "id": make_id("msg_", seed),
            "type": "message",
            "role": "assistant",
            "model": chat.model,
            "content": blocks,
            "stop_reason": stop or ("tool_use" if calls else "end_turn"),
            "stop_sequence": None,
            "stop_details": {"type": "refusal", "category": None, "explanation": reply.refusal}
            if reply.refusal
            else None,
            "usage": self._usage_fields(chat, tokens),
        }
        if has_beta(chat, BINDING_BETA):
            body["input_transformations"] = self.dropped[self._new :]
        native = (
            [one.content for one in prompt_parts({"messages": [{"role": "assistant", "content": blocks}]})]
            if blocks
            else []
        )
        text = "".join(one["text"] for one in blocks if one["type"] == "text")
        return NativeReply(body=body, native=native, calls=calls, text=text)

    def error(self, refusal: RequestRefusal) -> Mapping[str, Any]:
        return anthropic_error("not_found_error" if refusal.status == 404 else refusal.kind, refusal.message)

    def override_reply(
        self, switch: ReplyOverride, chat: ChatRequest, play: Callable[[], ScriptedReply]
    ) -> ScriptedReply | ScriptedResponse:
        if switch is ReplyOverride.PAUSE:
            return ScriptedReply(text="I am still reading.", finish="pause_turn")
        return super().override_reply(switch, chat, play)

    def _drop_blocks(self, chat: ChatRequest, at: int, reason: str) -> None:
        self.dropped += [
            {"type": "thinking_dropped", "path": f"{_content_path(chat, at)}.{number}", "reason": reason}
            for number, one in enumerate(chat.natives[at])
            if one["type"] in THINKING_BLOCKS
        ]

    def _content_blocks_of(self, chat: ChatRequest, reply: ScriptedReply, seed: str) -> list[dict[str, Any]]:
        thinking, profile = chat.native.get("thinking") or {}, self.profile(chat.model)
        shown = thinking.get("display", "summarized" if profile.displays else "omitted") == "summarized"
        thoughts = [
            {"type": "thinking", "thinking": reply.thinking if shown else "", "signature": _sign_block(seed, number)}
            for number in range(2 if reply.thinking else 0)
        ]
        shape = sum(one.get("role") == "assistant" for one in chat.messages) % 3 if thoughts and reply.calls else 0
        text = reply.text or (INTERMEDIATE_TEXT if shape == 1 else "")
        texts = [{"type": "text", "text": text}] if text else []
        hidden = [{"type": "redacted_thinking", "data": _sign_block(seed, 2)}] if shape == 2 else []
        single = (chat.native.get("tool_choice") or {}).get("disable_parallel_tool_use")
        calls = [
            {
                "type": "tool_use",
                "id": make_id("toolu_", seed, number),
                "name": name,
                "input": _call_input(text),
                "caller": {"type": "direct"},
            }
            for number, (name, text) in enumerate(reply.calls[:1] if single else reply.calls)
        ]
        return [*thoughts[:1], *hidden, *texts, *(thoughts[1:] if shape == 1 else ()), *calls]

    def _usage_fields(self, chat: ChatRequest, tokens: TokenCount) -> Mapping[str, Any]:
        read, written = self._cache.use(chat, self.profile(chat.model).cache_minimum)
        created = sum(written.values())
        return {
            "input_tokens": tokens.prompt - read - created,
            "cache_creation_input_tokens": created,
            "cache_read_input_tokens": read,
            "cache_creation": {f"ephemeral_{ttl}_input_tokens": count for ttl, count in written.items()},
            "output_tokens": tokens.output + tokens.thinking,
            "output_tokens_details": {"thinking_tokens": tokens.thinking},
            "service_tier": "standard",
        }


class AnthropicDouble(ProviderDouble):
    """Serves POST /v1/messages. ``forced`` names models that accept a forced tool choice with adaptive thinking.

    Vendor and users contradict each other there: the fake refuses the others. ``base_url`` has no path, as Anthropic's
    own client requires.
    """

    root: ClassVar[str] = ""

    def __init__(
        self, script: ReplyScript, *, key: str | None = None, clock: Clock | None = None, forced: Collection[str] = ()
    ) -> None:
        self.request_format = MessagesRequestFormat(forced_choice_models=forced)
        super().__init__((self.request_format,), script, key=key, clock=clock)

    @property
    def dropped_blocks(self) -> int:
        """How many thinking blocks were removed because they belong to another conversation or model."""
        return len(self.request_format.dropped)


def _to_chat_messages(
    parts: Sequence[PromptPart],
) -> tuple[list[Mapping[str, Any]], Mapping[int, Sequence[ContentBlock]]]:
    """Return the messages in chat-completions form, and the assistant's blocks by their index there."""
    system = "\n".join(one.content.get("text", "") for one in parts if one.region == "system")
    made: list[Mapping[str, Any]] = [{"role": "system", "content": system}] if system else []
    natives = {}
    for (_, role), some in groupby((one for one in parts if one.message >= 0), lambda one: (one.message, one.region)):
        blocks = [one.content for one in some]
        texts = [str(one.get("text", "")) for one in blocks if one["type"] == "text"]
        if role == "assistant":
            natives[len(made)] = blocks
            calls = [
                {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}
                for call_id, name, text in _tool_calls(blocks)
            ]
            made.append({"role": role, "content": "".join(texts), **({"tool_calls": calls} if calls else {})})
            continue
        made += [_tool_result(one) for one in blocks if one["type"] == "tool_result"]
        made += [{"role": role, "content": "\n".join(texts)}] if texts else []
    return made, natives


def _tool_result(block: ContentBlock) -> Mapping[str, Any]:
    text = "\n".join(str(one.get("text", "")) for one in block.get("content") or ())
    return {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": text}


def _common_fields(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return tools (without those that run at the provider), choice and form of the answer in chat-completions form."""
    functions = [_tool_function(one) for one in body.get("tools") or () if one.get("type") in {"custom", None}]
    made: dict[str, Any] = {"tools": functions} if functions else {}
    if (choice := body.get("tool_choice")) and (functions or not body.get("tools")):
        kind = choice.get("type")
        if kind not in {*_TOOL_CHOICES, "tool"}:
            refuse_request("P-5", f"tool_choice: Input tag '{kind}' does not match any of the expected tags")
        named = {"type": "function", "function": {"name": choice.get("name")}}
        made["tool_choice"] = named if kind == "tool" else _TOOL_CHOICES[kind]
    if wanted := (body.get("output_config") or {}).get("format") or body.get("output_format"):
        form = {"name": "answer", "schema": wanted.get("schema") or {}}
        made["response_format"] = {"type": "json_schema", "json_schema": form}
    return made


def _tool_function(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(tool.get("input_schema"), dict):
        refuse_request("P-5", "tools.input_schema: Field required")
    function = {"name": tool.get("name"), "description": tool.get("description"), "parameters": tool["input_schema"]}
    return {"type": "function", "function": function}


def _tool_calls(blocks: Iterable[ContentBlock]) -> tuple[tuple[str, str, str], ...]:
    return tuple(
        (str(one.get("id")), str(one.get("name")), json.dumps(one.get("input")))
        for one in blocks
        if one["type"] == "tool_use"
    )


def _call_input(arguments: str) -> Mapping[str, Any]:
    """Return the input of a call: always an object; another value becomes the only field of one."""
    value = parse_arguments(arguments)
    return {"INVALID_JSON": arguments} if value is None else value


def _sign_block(seed: str, number: int) -> str:
    return "ErUB" + "".join(opaque_text("signature", seed, number * 10 + part) for part in range(6))


def _block_signature(block: ContentBlock) -> Any:  # noqa: ANN401 - any JSON
    return block.get("signature", block.get("data"))


def _content_path(chat: ChatRequest, at: int) -> str:
    """Return the path of the assistant's content that has this index in chat-completions form."""
    indices = [number for number, one in enumerate(chat.native["messages"]) if one["role"] == "assistant"]
    return f"messages.{indices[sorted(chat.natives).index(at)]}.content"


def _is_paused(given: RememberedReply | None) -> bool:
    return given is not None and given.written.body["stop_reason"] == "pause_turn"
