"""A double of Anthropic's Messages API: thinking blocks that must come back, a prompt cache with marks, and refusals.

    async with AnthropicDouble(moves(("search", {"query": "rain"}))) as double:
        ...  # base_url of a client: double.base_url

Replies take three shapes in turn: thinking and calls; thinking, text, thinking and calls; thinking, redacted thinking
and calls. So a client that orders or drops blocks is found within three steps.
Source: Anthropic's API reference and its guides to thinking, tool use and prompt caching.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, ClassVar

from bot.ids import derive_id
from bot.ports import Clock
from bot.testing.loopback import Sent
from bot.testing.model_server import Reply, Script
from bot.testing.providers.anthropic_rules import (
    BINDING_BETA,
    CLAUDE_MODELS,
    FIELDS,
    THOUGHTS,
    Block,
    ClaudeProfile,
    PromptPart,
    check_request,
    deny,
    has_beta,
    parts_of,
    thinking_mode,
)
from bot.testing.providers.core import ProviderDouble, SwitchFault, WireFormat
from bot.testing.providers.exchange import (
    ChatRequest,
    GivenReply,
    ProviderRequest,
    ReplySwitch,
    RequestRefusal,
    TokenCount,
    WrittenReply,
    make_id,
    opaque_text,
    parse_arguments,
    prefix_of,
)

ASIDE = "Let me look at that first."
LOOK_BACK = 20
_STOPS = {"length": "max_tokens", "content_filter": "refusal", "stop": "end_turn", "tool_calls": "tool_use"}
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_CANNOT = "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified."


def anthropic_error(kind: str, message: str, **more: Any) -> Mapping[str, Any]:  # noqa: ANN401 - parts of the error
    """Return an error in Anthropic's form."""
    error = {"type": kind, "message": message, **more}
    return {"type": "error", "error": error, "request_id": make_id("req_", kind + message)}


_RATE_LIMIT = anthropic_error("rate_limit_error", "This request would exceed your organization's rate limit.")
_SPENT = anthropic_error(
    "rate_limit_error",
    "Your organization has reached its monthly spend limit.",
    details={"error_code": "enforced_spend_limit_reached"},
)
_OVERLOADED = anthropic_error("overloaded_error", "Overloaded")


class MarkedCache:
    """The prompt cache: an entry ends at each cache mark, and is found up to 20 blocks before a later mark.

    Entries do not expire. They belong to a model; those of messages also to the thinking and the tool choice.
    """

    def __init__(self) -> None:
        self._entries: set[str] = set()

    def use(self, chat: ChatRequest, minimum: int) -> tuple[int, Mapping[str, int]]:
        """Return the tokens that a request reads, and those that it writes by time to live; keep what it writes."""
        parts, total, ends = parts_of(chat.native), 0, []
        for _, chars in chat.prefix:
            total += chars
            ends.append(total // 4)
        keys = [self._key(chat, one, state) for one, (state, _) in zip(parts, chat.prefix, strict=True)]
        marks = {at: one.ttl for at, one in enumerate(parts) if one.ttl}
        if top := chat.native.get("cache_control"):
            marks[len(parts) - 1] = top.get("ttl", "5m")
        found = [at for mark in marks for at in range(max(0, mark - LOOK_BACK), mark + 1) if keys[at] in self._entries]
        read = place = ends[max(found)] if found else 0
        written = {"5m": 0, "1h": 0}
        for at in sorted(marks):
            if ends[at] >= max(minimum, place):
                written[str(marks[at])] += ends[at] - place
                place = ends[at]
                self._entries.add(keys[at])
        return read, written

    def _key(self, chat: ChatRequest, part: PromptPart, state: str) -> str:
        how = [chat.native.get("thinking"), chat.native.get("tool_choice")] if part.message >= 0 else []
        return derive_id("cache", chat.model, state, json.dumps(how, sort_keys=True))


@dataclass(kw_only=True)
class MessagesForm(WireFormat):
    """The Messages API. ``forced`` names models that take a forced tool choice beside adaptive thinking.

    ``dropped`` lists the thinking blocks that were left out of requests, with place and reason.
    """

    fields: ClassVar[frozenset[str] | None] = FIELDS
    faults: ClassVar[Mapping[ReplySwitch, SwitchFault]] = {
        ReplySwitch.OVERLOADED: (529, _OVERLOADED, {}),
        ReplySwitch.RATE_LIMITED: (
            429,
            _RATE_LIMIT,
            {
                "retry-after": "7",
                "anthropic-ratelimit-requests-limit": "50",
                "anthropic-ratelimit-requests-remaining": "0",
            },
        ),
        ReplySwitch.RATE_LIMITED_SILENT: (429, _RATE_LIMIT, {}),
        ReplySwitch.QUOTA_EXHAUSTED: (429, _SPENT, {}),
    }
    forced: Collection[str] = ()
    dropped: list[Mapping[str, str]] = field(default_factory=list)
    _cache: MarkedCache = field(default_factory=MarkedCache)
    _new: int = 0

    def takes(self, path: str) -> bool:
        return path.endswith("/v1/messages")

    def read(self, request: ProviderRequest) -> ChatRequest:
        body = request.body
        if "anthropic-version" not in request.headers:
            deny("", "anthropic-version: header is required")
        if not isinstance(body.get("model"), str) or not isinstance(body.get("messages"), list):
            deny("P-23", "model, messages: Field required")
        for name in ("thinking", "output_config", "tool_choice", "cache_control"):
            if not isinstance(body.get(name), dict | None):
                deny("P-5", f"{name}: Input should be an object")
        parts = parts_of(body)
        messages, natives = _messages(parts)
        return ChatRequest(
            source=request,
            model=body["model"],
            body={"model": body["model"], "messages": messages, **_common(body)},
            prefix=prefix_of([[one.region, one.content] for one in parts]),
            natives=natives,
            stream=body.get("stream") is True,
        )

    def profile(self, model: str) -> ClaudeProfile:
        name = model[:-9] if model[-9:-8] == "-" and model[-8:].isdigit() else model
        if (found := CLAUDE_MODELS.get(name)) is None:
            raise RequestRefusal(rule="", status=404, kind="not_found_error", message=f"model: {model}")
        return replace(found, unforced=found.unforced - {"adaptive"}) if name in self.forced else found

    def thinks(self, chat: ChatRequest) -> bool:
        return thinking_mode(chat.native, self.profile(chat.model)) != "disabled"

    def check(self, chat: ChatRequest) -> None:
        self._new = len(self.dropped)
        check_request(chat, self.profile(chat.model))

    def check_reply(self, chat: ChatRequest, at: int, given: GivenReply | None) -> None:
        sent, profile = chat.natives[at], self.profile(chat.model)
        if at == len(chat.messages) - 1 and not profile.prefill and not _is_paused(given):
            deny("P-22", "This model does not support assistant message prefill.")
        thoughts = [one for one in sent if one["type"] in THOUGHTS]
        if given is not None and given.model != chat.model:
            self._drop(chat, at, "model_binding_mismatch")
            return
        expected = given.written.native if given is not None else []
        if any(_seal(one) not in map(_seal, expected) for one in thoughts):
            deny("P-16", f"{_place(chat, at)}.0: Invalid `signature` in `thinking` block")
        if sent != expected and (thoughts or _calls(expected)):
            left_out = not thoughts and thinking_mode(chat.native, profile) != "enabled"
            if not left_out or sent != [one for one in expected if one["type"] not in THOUGHTS]:
                deny("P-16", f"{_place(chat, at)}: {_CANNOT} They must remain as they were in the original response.")
        if given is not None and thoughts and profile.bound and chat.prefix[: len(given.prefix)] != given.prefix:
            thinking = chat.native.get("thinking") or {}
            if (thinking.get("block_binding") or {}).get("prefix_mismatch_behavior") != "drop_block":
                deny("P-24", f"{_place(chat, at)}.0: The block is bound to a different conversation")
            self._drop(chat, at, "prefix_binding_mismatch")

    def check_window(self, chat: ChatRequest, tokens: int) -> None:
        if tokens > (window := self.profile(chat.model).window):
            deny("P-15", f"prompt is too long: {tokens} tokens > {window} maximum")

    def write(self, chat: ChatRequest, reply: Reply, tokens: TokenCount, seed: str) -> WrittenReply:
        blocks = [] if reply.refusal else self._blocks(chat, reply, seed)
        calls = _calls(blocks)
        stop = "refusal" if reply.refusal else _STOPS.get(reply.finish or "", reply.finish)
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
            "usage": self._usage(chat, tokens),
        }
        if has_beta(chat, BINDING_BETA):
            body["input_transformations"] = self.dropped[self._new :]
        native = (
            [one.content for one in parts_of({"messages": [{"role": "assistant", "content": blocks}]})]
            if blocks
            else []
        )
        text = "".join(one["text"] for one in blocks if one["type"] == "text")
        return WrittenReply(body=body, native=native, calls=calls, text=text)

    def error(self, refusal: RequestRefusal) -> Mapping[str, Any]:
        return anthropic_error("not_found_error" if refusal.status == 404 else refusal.kind, refusal.message)

    def switched(self, switch: ReplySwitch, chat: ChatRequest, play: Callable[[], Reply]) -> Reply | Sent:
        if switch is ReplySwitch.PAUSE:
            return Reply(text="I am still reading.", finish="pause_turn")
        return super().switched(switch, chat, play)

    def _drop(self, chat: ChatRequest, at: int, reason: str) -> None:
        self.dropped += [
            {"type": "thinking_dropped", "path": f"{_place(chat, at)}.{number}", "reason": reason}
            for number, one in enumerate(chat.natives[at])
            if one["type"] in THOUGHTS
        ]

    def _blocks(self, chat: ChatRequest, reply: Reply, seed: str) -> list[dict[str, Any]]:
        thinking, profile = chat.native.get("thinking") or {}, self.profile(chat.model)
        shown = thinking.get("display", "summarized" if profile.displays else "omitted") == "summarized"
        thoughts = [
            {"type": "thinking", "thinking": reply.thinking if shown else "", "signature": _signature(seed, number)}
            for number in range(2 if reply.thinking else 0)
        ]
        shape = sum(one.get("role") == "assistant" for one in chat.messages) % 3 if thoughts and reply.calls else 0
        text = reply.text or (ASIDE if shape == 1 else "")
        texts = [{"type": "text", "text": text}] if text else []
        hidden = [{"type": "redacted_thinking", "data": _signature(seed, 2)}] if shape == 2 else []
        single = (chat.native.get("tool_choice") or {}).get("disable_parallel_tool_use")
        calls = [
            {
                "type": "tool_use",
                "id": make_id("toolu_", seed, number),
                "name": name,
                "input": _input(text),
                "caller": {"type": "direct"},
            }
            for number, (name, text) in enumerate(reply.calls[:1] if single else reply.calls)
        ]
        return [*thoughts[:1], *hidden, *texts, *(thoughts[1:] if shape == 1 else ()), *calls]

    def _usage(self, chat: ChatRequest, tokens: TokenCount) -> Mapping[str, Any]:
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
    """Serves POST /v1/messages. ``forced`` names models that take a forced tool choice beside adaptive thinking.

    Vendor and users contradict each other there: the double refuses the others. ``base_url`` has no path, as
    Anthropic's own client wants it.
    """

    root: ClassVar[str] = ""

    def __init__(
        self, script: Script, *, key: str | None = None, clock: Clock | None = None, forced: Collection[str] = ()
    ) -> None:
        self.form = MessagesForm(forced=forced)
        super().__init__((self.form,), script, key=key, clock=clock)

    @property
    def dropped_blocks(self) -> int:
        """How many thinking blocks were left out because they belong to another conversation or model."""
        return len(self.form.dropped)


def _messages(parts: Sequence[PromptPart]) -> tuple[list[Mapping[str, Any]], Mapping[int, Sequence[Block]]]:
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
                for call_id, name, text in _calls(blocks)
            ]
            made.append({"role": role, "content": "".join(texts), **({"tool_calls": calls} if calls else {})})
            continue
        made += [_result(one) for one in blocks if one["type"] == "tool_result"]
        made += [{"role": role, "content": "\n".join(texts)}] if texts else []
    return made, natives


def _result(block: Block) -> Mapping[str, Any]:
    text = "\n".join(str(one.get("text", "")) for one in block.get("content") or ())
    return {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": text}


def _common(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return tools (without those that run at the provider), choice and form of the answer in chat-completions form."""
    functions = [_function(one) for one in body.get("tools") or () if one.get("type") in {"custom", None}]
    made: dict[str, Any] = {"tools": functions} if functions else {}
    if (choice := body.get("tool_choice")) and (functions or not body.get("tools")):
        kind = choice.get("type")
        if kind not in {*_CHOICES, "tool"}:
            deny("P-5", f"tool_choice: Input tag '{kind}' does not match any of the expected tags")
        named = {"type": "function", "function": {"name": choice.get("name")}}
        made["tool_choice"] = named if kind == "tool" else _CHOICES[kind]
    if wanted := (body.get("output_config") or {}).get("format") or body.get("output_format"):
        form = {"name": "answer", "schema": wanted.get("schema") or {}}
        made["response_format"] = {"type": "json_schema", "json_schema": form}
    return made


def _function(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(tool.get("input_schema"), dict):
        deny("P-5", "tools.input_schema: Field required")
    function = {"name": tool.get("name"), "description": tool.get("description"), "parameters": tool["input_schema"]}
    return {"type": "function", "function": function}


def _calls(blocks: Iterable[Block]) -> tuple[tuple[str, str, str], ...]:
    return tuple(
        (str(one.get("id")), str(one.get("name")), json.dumps(one.get("input")))
        for one in blocks
        if one["type"] == "tool_use"
    )


def _input(arguments: str) -> Mapping[str, Any]:
    """Return the input of a call: always an object, so what is none goes out under a name of its own."""
    value = parse_arguments(arguments)
    return {"INVALID_JSON": arguments} if value is None else value


def _signature(seed: str, number: int) -> str:
    return "ErUB" + "".join(opaque_text("signature", seed, number * 10 + part) for part in range(6))


def _seal(block: Block) -> Any:  # noqa: ANN401 - any JSON
    return block.get("signature", block.get("data"))


def _place(chat: ChatRequest, at: int) -> str:
    """Return the path of the assistant's content that has this index in chat-completions form."""
    indices = [number for number, one in enumerate(chat.native["messages"]) if one["role"] == "assistant"]
    return f"messages.{indices[sorted(chat.natives).index(at)]}.content"


def _is_paused(given: GivenReply | None) -> bool:
    return given is not None and given.written.body["stop_reason"] == "pause_turn"
