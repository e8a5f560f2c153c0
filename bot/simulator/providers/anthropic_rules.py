"""Anthropic's models, and the rules that a single request to the Messages API can break."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from itertools import groupby
from typing import Any, NoReturn, TypeAlias

from bot.core.light_dataclass import dataclass
from bot.simulator.providers.chat_requests import ChatRequest, RequestRefusal, ServedModelProfile, without_nulls
from bot.simulator.providers.request_checks import StrictSchemaSubset, walk_schema

ContentBlock: TypeAlias = Mapping[str, Any]

BINDING_BETA = "thinking-binding-controls-2026-08-01"
THINKING_BLOCKS = frozenset({"thinking", "redacted_thinking"})
MAX_CACHE_MARKS = 4
MIN_THINKING_BUDGET = 1024
_FIELDS = (
    "model messages max_tokens system metadata stop_sequences stream temperature top_p top_k thinking tools "
    "tool_choice output_config output_format cache_control container inference_geo service_tier speed"
)
FIELDS = frozenset(_FIELDS.split())
# The fields of each block whose form is checked (P-5); cache_control is one of all but thinking blocks.
_BLOCKS: Mapping[str, frozenset[str]] = {
    "text": frozenset({"type", "text", "citations", "cache_control"}),
    "thinking": frozenset({"type", "thinking", "signature"}),
    "redacted_thinking": frozenset({"type", "data"}),
    "tool_use": frozenset({"type", "id", "name", "input", "caller", "toolset_name", "cache_control"}),
    "tool_result": frozenset({"type", "tool_use_id", "content", "is_error", "toolset_name", "cache_control"}),
}
_OTHER_BLOCKS = frozenset({"image", "document", "search_result", "server_tool_use", "web_search_tool_result"})
_TOOL_FIELDS = (
    "type name description input_schema strict cache_control defer_loading eager_input_streaming input_examples "
    "allowed_callers"
)
_TOOL = frozenset(_TOOL_FIELDS.split())
_THINKING = {
    "adaptive": {"type", "display", "block_binding"},
    "enabled": {"type", "display", "block_binding", "budget_tokens"},
    "disabled": {"type"},
}
_REFUSED = (
    "maxItems uniqueItems contains prefixItems minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength "
    "maxLength minProperties maxProperties patternProperties propertyNames dependentRequired dependentSchemas "
    "unevaluatedItems unevaluatedProperties if then else not oneOf"
)
STRICT_SUBSET = StrictSchemaSubset(refused=frozenset(_REFUSED.split()), all_required=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeProfile(ServedModelProfile):
    """A model of Anthropic. ``modes`` are the thinking types that it accepts, the first by default.

    ``unforced_modes`` are the modes in which a forced tool choice is refused. ``sampling``: whether temperature, top_p
    and top_k are accepted (outside thinking). ``temperature_1``: whether the default temperature is accepted though
    sampling is not. ``binds_thinking``: whether thinking blocks are bound to all that came before them. ``prefill``:
    whether the last message may be the assistant's. ``capped``: whether efforts above high are refused while thinking
    is disabled. ``displays``: whether the text of thinking is shown by default. ``cache_minimum`` is in tokens.
    """

    modes: tuple[str, ...] = ("adaptive",)
    unforced_modes: frozenset[str] = frozenset()
    efforts: tuple[str, ...] = ("low", "medium", "high", "xhigh", "max")
    sampling: bool = False
    temperature_1: bool = False
    binds_thinking: bool = False
    prefill: bool = False
    capped: bool = False
    displays: bool = False
    cache_minimum: int = 1024


def _claude_profiles() -> Iterator[tuple[str, ClaudeProfile]]:
    always = ClaudeProfile(window=1_000_000, unforced_modes=frozenset({"adaptive"}), cache_minimum=512)
    yield "claude-fable-5-1", replace(always, temperature_1=True, binds_thinking=True)
    yield "claude-mythos-5-1", replace(always, temperature_1=True)
    yield "claude-fable-5", always
    yield "claude-opus-5-5", replace(always, binds_thinking=True, cache_minimum=1024)  # Its minimum is not published.
    either = replace(always, modes=("adaptive", "disabled"), unforced_modes=frozenset())
    yield "claude-opus-5", replace(either, capped=True)
    yield "claude-sonnet-5", replace(either, cache_minimum=1024)
    eighth = replace(either, modes=("disabled", "adaptive"), cache_minimum=1024)
    yield "claude-opus-4-8", eighth
    yield "claude-opus-4-7", replace(eighth, unforced_modes=frozenset({"adaptive"}), cache_minimum=2048)
    sixth = replace(
        eighth,
        modes=("disabled", "adaptive", "enabled"),
        unforced_modes=frozenset({"adaptive", "enabled"}),
        efforts=("low", "medium", "high", "max"),
        sampling=True,
        displays=True,
    )
    yield "claude-opus-4-6", replace(sixth, cache_minimum=4096)
    yield "claude-sonnet-4-6", sixth
    fifth = replace(sixth, window=200_000, modes=("disabled", "enabled"), efforts=(), prefill=True, cache_minimum=4096)
    yield "claude-opus-4-5", replace(fifth, efforts=("low", "medium", "high"))
    yield "claude-sonnet-4-5", replace(fifth, cache_minimum=1024)
    yield "claude-haiku-4-5", fifth


CLAUDE_MODELS: Mapping[str, ClaudeProfile] = dict(_claude_profiles())


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptPart:
    """One step of the cache: a tool, a block of the system prompt, or a block of the message with index ``message``.

    ``region`` is tools, system, user or assistant; ``content`` is without cache mark, ``ttl`` that of its mark.
    """

    region: str
    content: ContentBlock
    message: int = -1
    ttl: str | None = None


def refuse_request(rule: str, message: str) -> NoReturn:
    """Refuse a request."""
    raise RequestRefusal(rule=rule, message=message)


def prompt_parts(body: Mapping[str, Any]) -> tuple[PromptPart, ...]:
    """Return the prompt of a request in the order of the cache; parts of the same meaning have the same form.

    Raises RequestRefusal where a part has no valid form (P-5, P-22, P-23).
    """
    tools = [_prompt_part(one, f"tools.{at}", "tools") for at, one in enumerate(_require_list(body, "tools"))]
    system = [
        _prompt_part(one, f"system.{at}", "system")
        for at, one in enumerate(_content_blocks(body.get("system") or [], "system"))
    ]
    made = []
    for at, message in enumerate(_require_list(body, "messages")):
        role = message.get("role")
        if role not in {"user", "assistant"} or message.keys() - {"role", "content"}:
            refuse_request("P-5", f"messages.{at}: a message has a role, 'user' or 'assistant', and content")
        blocks = _content_blocks(message.get("content"), f"messages.{at}.content")
        if not blocks:
            refuse_request(
                "P-22", "messages: all messages must have non-empty content except for the optional final assistant one"
            )
        made += [
            replace(_prompt_part(one, f"messages.{at}.content.{number}", str(role)), message=at)
            for number, one in enumerate(blocks)
        ]
    return (*tools, *system, *made)


def prompt_turns(parts: Sequence[PromptPart]) -> list[tuple[str, list[ContentBlock]]]:
    """Return role and blocks of the turns; messages of one role in a row are one turn."""
    blocks = [one for one in parts if one.message >= 0]
    return [(role, [one.content for one in some]) for role, some in groupby(blocks, lambda one: one.region)]


def thinking_mode(body: Mapping[str, Any], profile: ClaudeProfile) -> str:
    """Return the thinking mode of a request: adaptive, enabled or disabled."""
    return str((body.get("thinking") or {}).get("type") or profile.modes[0])


def has_beta(chat: ChatRequest, name: str) -> bool:
    """Return whether a request asks for a beta feature."""
    return name in chat.source.headers.get("anthropic-beta", "")


def check_request(chat: ChatRequest, profile: ClaudeProfile) -> None:
    """Check all rules that need no memory: P-1, P-5 and P-17 to P-25, but not P-24."""
    parts, body = prompt_parts(chat.native), chat.native
    turns = prompt_turns(parts)
    _check_needs(chat, turns)
    _check_thinking(chat, profile)
    _check_effort(body, profile)
    _check_sampling(body, profile)
    mode = thinking_mode(body, profile)
    if chat.forces_tool_call and mode in profile.unforced_modes:
        always = "tool_choice forces tool use is not compatible with this model"
        beside = "Thinking may not be enabled when tool_choice forces tool use."
        refuse_request("P-21", always if len(profile.modes) == 1 else beside)
    _check_turns(turns)
    _check_results(turns)
    if mode == "enabled":
        _check_manual(turns)
    _check_schemas(body)
    _check_marks(body, parts)


def _require_list(body: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    found = body.get(name) or []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        refuse_request("P-5", f"{name}: Input should be a valid list")
    return found


def _content_blocks(content: Any, place: str) -> Sequence[ContentBlock]:  # noqa: ANN401 - a text or a list of blocks
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list) or not all(isinstance(one, dict) for one in content):
        refuse_request("P-5", f"{place}: Input should be a valid string or list")
    return content


def _prompt_part(block: ContentBlock, place: str, region: str) -> PromptPart:
    kind = str(block.get("type"))
    known = _TOOL if region == "tools" and "input_schema" in block else _BLOCKS.get(kind)
    if known is None and region != "tools" and kind not in _OTHER_BLOCKS:
        refuse_request("P-5", f"{place}: Input tag '{kind}' found using 'type' does not match any of the expected tags")
    if odd := sorted(block.keys() - (known or block.keys())):
        refuse_request(
            "P-23" if odd[0] == "cache_control" else "P-5", f"{place}.{odd[0]}: Extra inputs are not permitted"
        )
    ttl = _cache_ttl(block, place)
    plain = dict(sorted((name, part) for name, part in block.items() if name not in {"cache_control", "caller"}))
    if kind == "tool_result" and plain.get("content") is not None:
        inner = [
            _prompt_part(one, f"{place}.content", region)
            for one in _content_blocks(plain["content"], f"{place}.content")
        ]
        ttl = next((one.ttl for one in inner if one.ttl), ttl)
        plain["content"] = [one.content for one in inner]
    return PromptPart(region=region, content=without_nulls(plain), ttl=ttl)


def _cache_ttl(block: Mapping[str, Any], place: str) -> str | None:
    if (mark := block.get("cache_control")) is None:
        return None
    if not isinstance(mark, dict) or mark.get("type") != "ephemeral" or mark.get("ttl", "5m") not in {"5m", "1h"}:
        refuse_request("P-23", f"{place}.cache_control: Input should be ephemeral, with a ttl of '5m' or '1h'")
    return str(mark.get("ttl", "5m"))


def _check_needs(chat: ChatRequest, turns: Sequence[tuple[str, Sequence[ContentBlock]]]) -> None:
    body = chat.native
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        refuse_request("P-23", "max_tokens: Field required")
    if "output_format" in body and not has_beta(chat, "structured-outputs"):
        refuse_request("P-5", "output_format: Extra inputs are not permitted")
    kinds = {block.get("type") for _, blocks in turns for block in blocks}
    if not body.get("tools") and kinds & {"tool_use", "tool_result"}:
        refuse_request("P-23", "Requests which include `tool_use` or `tool_result` blocks must define tools.")


def _check_thinking(chat: ChatRequest, profile: ClaudeProfile) -> None:
    thinking = chat.native.get("thinking") or {}
    if not thinking:
        return
    kind = thinking.get("type")
    if kind not in profile.modes:
        enabled = 'Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
        refuse_request(
            "P-18", f'"thinking.type.{kind}" is not supported for this model. {enabled if kind == "enabled" else ""}'
        )
    allowed = _THINKING[kind] - (set() if has_beta(chat, BINDING_BETA) else {"block_binding"})
    if odd := sorted(thinking.keys() - allowed):
        refuse_request("P-5", f"thinking.{kind}.{odd[0]}: Extra inputs are not permitted")
    if kind == "enabled":
        budget = thinking.get("budget_tokens", 0)
        if budget < MIN_THINKING_BUDGET:
            refuse_request("P-19", "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
        if budget >= chat.native["max_tokens"]:
            refuse_request("P-19", "`max_tokens` must be greater than `thinking.budget_tokens`")


def _check_effort(body: Mapping[str, Any], profile: ClaudeProfile) -> None:
    config = body.get("output_config") or {}
    if odd := sorted(config.keys() - {"effort", "format"}):
        refuse_request("P-5", f"output_config.{odd[0]}: Extra inputs are not permitted")
    effort = config.get("effort")
    if effort is not None and effort not in profile.efforts:
        refuse_request("P-18", f"output_config.effort: this model does not support '{effort}'")
    if effort in {"xhigh", "max"} and thinking_mode(body, profile) == "disabled" and profile.capped:
        refuse_request("P-18", f"output_config.effort: '{effort}' is not supported while thinking is disabled")


def _check_sampling(body: Mapping[str, Any], profile: ClaudeProfile) -> None:
    given = {name: body[name] for name in ("temperature", "top_p", "top_k") if body.get(name) is not None}
    if profile.temperature_1 and given.get("temperature") == 1:
        given.pop("temperature")
    if given and not profile.sampling:
        refuse_request("P-20", f"`{next(iter(given))}` is deprecated for this model.")
    if thinking_mode(body, profile) == "disabled":
        return
    if given.get("temperature", 1) != 1:
        refuse_request("P-20", "`temperature` may only be set to 1 when thinking is enabled.")
    if given.get("top_p", 1) < 0.95 or "top_k" in given:
        refuse_request("P-20", "`top_p` must be 0.95 or more and `top_k` must be unset when thinking is enabled.")


def _check_turns(turns: Sequence[tuple[str, Sequence[ContentBlock]]]) -> None:
    if not turns or turns[0][0] != "user":
        refuse_request("P-22", 'messages: first message must use the "user" role')
    texts = [block.get("text", "") for _, blocks in turns for block in blocks if block.get("type") == "text"]
    if "" in texts:
        refuse_request("P-22", "messages: text content blocks must be non-empty")
    if not all(text.strip() for text in texts):
        refuse_request("P-22", "messages: text content blocks must contain non-whitespace text")
    role, blocks = turns[-1]
    last = blocks[-1].get("text", "")
    if role == "assistant" and last != last.rstrip():
        refuse_request("P-22", "messages: final assistant content cannot end with trailing whitespace")


def _check_results(turns: Sequence[tuple[str, Sequence[ContentBlock]]]) -> None:
    waiting: list[str] = []
    for at, (role, blocks) in enumerate(turns):
        results = [str(one.get("tool_use_id")) for one in blocks if one["type"] == "tool_result"]
        if any(one["type"] != "tool_result" for one in blocks[: len(results)]):
            refuse_request("P-22", f"messages.{at}: `tool_result` blocks must come first in the content of a message")
        if odd := [one for one in results if one not in waiting]:
            refuse_request("P-1", f"messages.{at}: unexpected `tool_use_id` found in `tool_result` blocks: {odd[0]}")
        if len(set(results)) < len(results):
            refuse_request("P-1", f"messages.{at}: each tool_use must have a single result")
        if missing := [one for one in waiting if one not in results]:
            _deny_unanswered(at, missing)
        waiting = [str(one.get("id")) for one in blocks if one["type"] == "tool_use" and role == "assistant"]
        if odd := [one for one in waiting if not re.fullmatch(r"[a-zA-Z0-9_-]+", one)]:
            refuse_request(
                "P-2", f"messages.{at}: tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$', not {odd[0]}"
            )
    if waiting:
        _deny_unanswered(len(turns), waiting)


def _deny_unanswered(at: int, missing: Sequence[str]) -> NoReturn:
    rule = "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    found = "`tool_use` ids were found without `tool_result` blocks immediately after"
    refuse_request("P-1", f"messages.{at}: {found}: {', '.join(missing)}. {rule}")


def _check_manual(turns: Sequence[tuple[str, Sequence[ContentBlock]]]) -> None:
    calling = [
        blocks for role, blocks in turns if role == "assistant" and any(one["type"] == "tool_use" for one in blocks)
    ]
    if calling and (first := calling[-1][0]["type"]) not in THINKING_BLOCKS:
        rule = "When `thinking` is enabled, a final `assistant` message must start with a thinking block"
        refuse_request("P-17", f"Expected `thinking` or `redacted_thinking`, but found `{first}`. {rule}")


def _check_schemas(body: Mapping[str, Any]) -> None:
    strict = [
        (f"tools.{at}", one.get("input_schema")) for at, one in enumerate(body.get("tools") or ()) if one.get("strict")
    ]
    wanted = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
    for place, schema in [*strict, ("output_config.format.schema", wanted.get("schema"))]:
        if isinstance(schema, dict) and (fault := STRICT_SUBSET.fault_in(schema) or _extra_schema_faults(schema)):
            refuse_request("P-25", f"{place}: {fault}")


def _extra_schema_faults(schema: Mapping[str, Any]) -> str | None:
    refers: dict[str, set[str]] = {}
    for place, one in walk_schema(schema):
        if one.get("minItems", 0) > 1:
            return "For 'array' type, 'minItems' values other than 0 or 1 are not supported"
        if "$ref" in one:
            refers.setdefault("/".join(("#", *place[:2])) if place[:1] == ("$defs",) else "#", set()).add(one["$ref"])
    try:
        TopologicalSorter(refers).prepare()
    except CycleError:
        return "Recursive schemas are not supported"
    return None


def _check_marks(body: Mapping[str, Any], parts: Sequence[PromptPart]) -> None:
    ttls = [one.ttl for one in parts if one.ttl]
    if (ttl := _cache_ttl(body, "request")) is not None:
        ttls.append(ttl)
    if len(ttls) > MAX_CACHE_MARKS:
        refuse_request("P-23", f"A maximum of 4 blocks with cache_control may be provided. Found {len(ttls)}.")
    if ttls != sorted(ttls):
        refuse_request("P-23", "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block")
