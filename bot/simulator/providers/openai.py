"""A fake of OpenAI: chat completions and Responses on one server, with the models and rules of both."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NoReturn, TypeAlias

from bot.core.light_dataclass import dataclass
from bot.simulator.providers.chat_completions import CREATED_AT, SAMPLING_FIELDS, ChatRequestFormat
from bot.simulator.providers.chat_requests import (
    ChatRequest,
    NativeReply,
    ProviderRequest,
    ReplyOverride,
    RequestRefusal,
    ServedModelProfile,
    TokenCount,
    content_text,
    make_id,
    message_calls,
    opaque_text,
    request_prefix,
)
from bot.simulator.providers.provider_double import OverrideResponse, RequestFormat, SimpleProviderDouble
from bot.simulator.providers.request_checks import StrictSchemaSubset
from bot.testing.model_server import ScriptedReply

_REFUSED = (
    "minLength maxLength patternProperties unevaluatedProperties propertyNames minProperties maxProperties contains "
    "unevaluatedItems minContains maxContains uniqueItems oneOf allOf not if then else dependentRequired "
    "dependentSchemas default"
)


_FORMATS = "date-time time date duration email hostname ipv4 ipv6 uuid"


STRICT_SUBSET = StrictSchemaSubset(refused=frozenset(_REFUSED.split()), formats=frozenset(_FORMATS.split()))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAiProfile(ServedModelProfile):
    """A model of OpenAI: its efforts and the default one ("" where it never reasons).

    ``chat_tools``: whether it accepts function tools on chat completions while it reasons. ``parallel``: whether it
    accepts ``parallel_tool_calls``. ``response_efforts`` are further efforts that only Responses accepts.
    """

    effort: str = ""
    efforts: frozenset[str] = frozenset()
    chat_tools: bool = True
    parallel: bool = True
    response_efforts: frozenset[str] = frozenset()


def _reasoning_profile(effort: str, efforts: str, **more: Any) -> OpenAiProfile:  # noqa: ANN401 - fields of the profile
    return OpenAiProfile(effort=effort, efforts=frozenset(efforts.split()), **more)


def _openai_profiles() -> Iterator[tuple[str, OpenAiProfile]]:
    plain = OpenAiProfile(window=1_000_000, thinks=False)
    yield from ((name, plain) for name in ("gpt-4.1", "gpt-4.1-mini", "gpt-4o", "gpt-4o-mini"))
    o_series = _reasoning_profile("medium", "low medium high", window=200_000, parallel=False)
    yield from ((name, o_series) for name in ("o3", "o3-mini", "o4-mini"))
    first = _reasoning_profile("medium", "minimal low medium high")
    yield from ((name, first) for name in ("gpt-5", "gpt-5-mini", "gpt-5-nano"))
    second = _reasoning_profile("none", "none low medium high xhigh")
    yield from ((name, second) for name in ("gpt-5.1", "gpt-5.2", "gpt-5.3"))
    fourth = replace(second, chat_tools=False, window=1_000_000)
    yield from ((name, fourth) for name in ("gpt-5.4", "gpt-5.4-mini", "gpt-5.4-nano"))
    fifth = replace(fourth, effort="medium")
    sixth = ("gpt-6-sol", "gpt-6-luna")
    yield from ((name, fifth) for name in ("gpt-5.5", "gpt-5.6-sol", "gpt-5.6-terra", "gpt-5.6-luna", *sixth))
    always = _reasoning_profile("medium", "low medium high xhigh", chat_tools=False, window=1_000_000)
    yield from ((name, always) for name in ("gpt-5.4-pro", "gpt-5.5-pro", "o3-pro", "gpt-6-astra"))
    yield "gpt-6.1-sol", replace(always, response_efforts=frozenset({"max"}))


OPENAI_MODELS: Mapping[str, OpenAiProfile] = dict(_openai_profiles())


def refuse_value(rule: str, param: str, value: object, remedy: str = "") -> NoReturn:
    """Refuse a value that the model does not accept."""
    message = f"Unsupported value: '{param}' does not support {value!r} with this model.{remedy}"
    raise RequestRefusal(rule=rule, message=message, param=param, code="unsupported_value")


def refuse_parameter(rule: str, param: str, remedy: str = "") -> NoReturn:
    """Refuse a parameter that the model does not accept."""
    message = f"Unsupported parameter: '{param}' is not supported with this model.{remedy}"
    raise RequestRefusal(rule=rule, message=message, param=param, code="unsupported_parameter")


def refuse_length(param: str, max_length: int, length: int) -> NoReturn:
    """Refuse an id beyond the limit (P-10)."""
    message = f"Expected a string with maximum length {max_length}, but got a string with length {length} instead."
    message = f"Invalid '{param}': string too long. {message}"
    raise RequestRefusal(rule="P-10", message=message, param=param, code="string_above_max_length")


def check_effort(profile: OpenAiProfile, effort: str | None, param: str, more: frozenset[str] = frozenset()) -> str:
    """Return the effort of a request; refuse one that the model does not know (P-13)."""
    if effort is None:
        return profile.effort
    if not profile.efforts:
        refuse_parameter("P-13", param)
    if effort not in profile.efforts | more:
        known = ", ".join(sorted(profile.efforts | more))
        refuse_value("P-13", param, effort, f" Supported values are: {known}.")
    return effort


def check_sampling(body: Mapping[str, Any]) -> None:
    """Refuse sampling parameters of a request on which the model reasons (P-8)."""
    if body.get("temperature", 1) != 1:
        refuse_value("P-8", "temperature", body["temperature"], " Only the default (1) value is supported.")
    if odd := next((name for name in SAMPLING_FIELDS if name in body), None):
        refuse_parameter("P-8", odd)


def check_parallel(profile: OpenAiProfile, body: Mapping[str, Any]) -> None:
    """Refuse ``parallel_tool_calls`` where the model does not accept it (P-14)."""
    if not profile.parallel and "parallel_tool_calls" in body:
        refuse_parameter("P-14", "parallel_tool_calls")


def check_strict(name: str, schema: Mapping[str, Any], param: str, code: str) -> None:
    """Refuse a strict schema beyond the subset (P-12)."""
    if (fault := STRICT_SUBSET.fault_in(schema)) is not None:
        message = f"Invalid schema for {name}: {fault}"
        raise RequestRefusal(rule="P-12", message=message, param=param, code=code)


MAX_RESPONSES_CALL_ID = 64


ENCRYPTED_REASONING = "reasoning.encrypted_content"


_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


ResponsesItem: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningItem:
    """A reasoning item as it was given: its content, the item right after it, and whether the server keeps both."""

    encrypted: str
    follower: ResponsesItem | None
    stored: bool


class ResponsesRequestFormat(RequestFormat):
    """Responses of OpenAI. Remembers its items, so that each is compared with the original (P-11)."""

    models: Mapping[str, OpenAiProfile] = OPENAI_MODELS
    texts: ClassVar[Mapping[str, str]] = {"P-1": "No tool output found for function call, or no call for an output."}
    faults: ClassVar[Mapping[ReplyOverride, OverrideResponse]] = ChatRequestFormat.faults

    def __init__(self) -> None:
        self._reasoning: dict[str, ReasoningItem] = {}
        self._needs: dict[str, str] = {}
        self._kept: dict[str, list[ResponsesItem]] = {}

    def handles_path(self, path: str) -> bool:
        return path.endswith("/responses")

    def profile(self, model: str) -> ServedModelProfile:
        if (found := self.models.get(model)) is None:
            message = f"The model '{model}' does not exist or you do not have access to it."
            raise RequestRefusal(rule="", status=404, message=message, param="model", code="model_not_found")
        return found

    def error(self, refusal: RequestRefusal) -> Mapping[str, Any]:
        error = {"message": refusal.message, "type": refusal.kind, "param": refusal.param, "code": refusal.code}
        return {"error": error}

    def is_altered(self, sent: object, given: object) -> bool:
        return super().is_altered(_without_status(sent), _without_status(given))

    # Reading

    def read_request(self, request: ProviderRequest) -> ChatRequest:
        body = request.body
        items, tools = self._request_items(body), body.get("tools") or []
        if not isinstance(body.get("model"), str) or not isinstance(tools, list) or not items:
            raise RequestRefusal(rule="", message="Missing or invalid 'model', 'input' or 'tools'.", param="input")
        system = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
        messages, natives = _items_to_messages(system, items)
        return ChatRequest(
            source=request,
            model=body["model"],
            body={**_request_settings(body, tools), "messages": messages},
            prefix=request_prefix(tools, system, items),
            natives=natives,
            stream=bool(body.get("stream")),
        )

    def _request_items(self, body: Mapping[str, Any]) -> list[ResponsesItem]:
        """Return the items of a request, with stored ones in place of references to them."""
        items = body.get("input")
        items = [{"role": "user", "content": items}] if isinstance(items, str) else items
        if not isinstance(items, list) or not all(isinstance(one, dict) for one in items):
            raise RequestRefusal(rule="", message="Invalid 'input': expected a text or a list of items.", param="input")
        found = [] if (before := body.get("previous_response_id")) is None else self._stored_items(before, "response")
        for item in items:
            found += self._stored_items(item.get("id"), "item") if item.get("type") == "item_reference" else [item]
        return found

    def _stored_items(self, name: Any, what: str) -> list[ResponsesItem]:  # noqa: ANN401 - any JSON
        if (found := self._kept.get(str(name))) is None:
            message = f"The {what} with id '{name}' was not found. Nothing is persisted when `store` is set to false."
            raise RequestRefusal(rule="P-11", status=404, message=message, param="input")
        return [*found]

    # Rules

    def check(self, chat: ChatRequest) -> None:
        profile, body = self.models[chat.model], chat.native
        effort = (body.get("reasoning") or {}).get("effort")
        effort = check_effort(profile, effort, "reasoning.effort", profile.response_efforts)
        check_parallel(profile, body)
        if "max_tokens" in body:
            refuse_parameter("P-9", "max_tokens", " Use 'max_output_tokens' instead.")
        if effort not in ("", "none"):
            check_sampling(body)
        for at, tool in enumerate(chat.tools):
            if tool.get("strict"):
                name = f"function '{tool.get('name')}'"
                check_strict(name, tool["parameters"], f"tools[{at}].parameters", "invalid_function_parameters")
        form = (body.get("text") or {}).get("format") or {}
        if form.get("strict"):
            name = f"response_format '{form.get('name')}'"
            check_strict(name, form.get("schema") or {}, "text.format.schema", "invalid_json_schema")
        self.check_items(self._request_items(body))

    def check_items(self, items: Sequence[ResponsesItem]) -> None:
        """Check lengths of ids (P-10), and that reasoning and the items it belongs to are sent together (P-11)."""
        present = {str(item.get("id")) for item in items}
        for at, item in enumerate(items):
            for name in ("call_id", "id"):
                if len(str(item.get(name, ""))) > MAX_RESPONSES_CALL_ID:
                    refuse_length(f"input[{at}].{name}", MAX_RESPONSES_CALL_ID, len(item[name]))
            if item.get("type") == "reasoning":
                self._check_reasoning(item, items[at + 1] if at + 1 < len(items) else {})
            elif (needed := self._needs.get(str(item.get("id")))) is not None and needed not in present:
                message = f"Item '{item['id']}' of type '{item.get('type')}' was provided without its required"
                raise RequestRefusal(rule="P-11", message=f"{message} 'reasoning' item: '{needed}'.", param="input")

    def _check_reasoning(self, item: ResponsesItem, following: ResponsesItem) -> None:
        name = str(item.get("id"))
        given, sent = self._reasoning.get(name), item.get("encrypted_content")
        if given is None or (sent is not None and sent != given.encrypted):
            message = f"The encrypted content for item {name} could not be verified."
            raise RequestRefusal(rule="P-11", message=message, code="invalid_encrypted_content")
        if sent is None and not given.stored:
            message = f"Item with id '{name}' not found. Items are not persisted when `store` is set to false."
            raise RequestRefusal(rule="P-11", status=404, message=message, param="input")
        if given.follower is None or not _is_same_item(following, given.follower):
            message = f"Item '{name}' of type 'reasoning' was provided without its required following item."
            raise RequestRefusal(rule="P-11", message=message, param="input")

    # Writing

    def thinks(self, chat: ChatRequest) -> bool:
        effort = (chat.native.get("reasoning") or {}).get("effort", self.models[chat.model].effort)
        return effort not in ("", "none")

    def shows_encrypted(self, chat: ChatRequest) -> bool:
        """Return whether the reply contains the reasoning in encrypted form."""
        return ENCRYPTED_REASONING in (chat.native.get("include") or ())

    def write_reply(self, chat: ChatRequest, reply: ScriptedReply, tokens: TokenCount, seed: str) -> NativeReply:
        items = _reply_items(reply, seed)
        if reply.thinking:
            items.insert(0, self._reasoning_item(chat, reply, seed, items))
        response = make_id("resp_", seed)
        if chat.native.get("store") is not False:
            self._kept[response] = [*self._request_items(chat.native), *items]
            self._kept.update({item["id"]: [item] for item in items})
        reason = _INCOMPLETE.get(reply.finish or "")
        body = {
            "id": response,
            "object": "response",
            "created_at": CREATED_AT,
            "status": "completed" if reason is None else "incomplete",
            "incomplete_details": None if reason is None else {"reason": reason},
            "error": None,
            "instructions": chat.native.get("instructions"),
            "metadata": {},
            "model": chat.model,
            "output": items,
            "parallel_tool_calls": chat.native.get("parallel_tool_calls", True),
            "temperature": 1.0,
            "tool_choice": chat.native.get("tool_choice", "auto"),
            "tools": chat.native.get("tools") or [],
            "top_p": 1.0,
            "usage": self.usage(tokens),
        }
        calls = [item for item in items if item["type"] == "function_call"]
        call_keys = tuple((item["call_id"], item["name"], item["arguments"]) for item in calls)
        return NativeReply(body=body, native=items, calls=call_keys, text=reply.text or "")

    def usage(self, tokens: TokenCount) -> Mapping[str, Any]:
        """Return the tokens of an exchange; reasoning is part of the output."""
        output = tokens.output + tokens.thinking
        return {
            "input_tokens": tokens.prompt,
            "input_tokens_details": {"cached_tokens": tokens.cached, "cache_write_tokens": 0},
            "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": tokens.thinking},
            "total_tokens": tokens.prompt + output,
        }

    def _reasoning_item(
        self, chat: ChatRequest, reply: ScriptedReply, seed: str, items: Sequence[ResponsesItem]
    ) -> ResponsesItem:
        """Return the reasoning item that belongs before these items, and remember it."""
        name, encrypted = make_id("rs_", seed), opaque_text("encrypted", seed)
        summary = [{"type": "summary_text", "text": reply.thinking}]
        asked = (chat.native.get("reasoning") or {}).get("summary")
        self._needs.update({item["id"]: name for item in items})
        self._reasoning[name] = ReasoningItem(
            encrypted=encrypted,
            follower=items[0] if items else None,
            stored=chat.native.get("store") is not False,
        )
        item = {"type": "reasoning", "id": name, "summary": summary if asked else []}
        return {**item, "encrypted_content": encrypted} if self.shows_encrypted(chat) else item


def _request_settings(body: Mapping[str, Any], tools: Sequence[Any]) -> dict[str, Any]:
    """Return the fields of a request other than its messages, in chat-completions form."""
    functions = [
        {"type": "function", "function": {**one, "parameters": one.get("parameters") or {"type": "object"}}}
        for one in tools
        if isinstance(one, dict) and one.get("type") == "function"
    ]
    form = (body.get("text") or {}).get("format") or {}
    settings: ResponsesItem = {
        "model": body["model"],
        "tools": functions,
        "tool_choice": _tool_choice(body.get("tool_choice")),
        "response_format": {"type": "json_schema", "json_schema": form} if form.get("type") == "json_schema" else None,
        "max_completion_tokens": body.get("max_output_tokens"),
    }
    return {name: value for name, value in settings.items() if value not in (None, [])}


def _tool_choice(choice: Any) -> Any:  # noqa: ANN401 - a word or an object
    if not isinstance(choice, dict):
        return choice
    if choice.get("type") == "allowed_tools":
        among = [{"type": "function", "function": {"name": one.get("name")}} for one in choice.get("tools") or ()]
        return {"type": "allowed_tools", "allowed_tools": {"mode": choice.get("mode"), "tools": among}}
    return {"type": "function", "function": {"name": choice.get("name")}} if "name" in choice else choice


def _items_to_messages(
    system: Sequence[ResponsesItem], items: Sequence[ResponsesItem]
) -> tuple[list[ResponsesItem], dict[int, Any]]:
    """Return items as messages; the items of one reply are one assistant message."""
    messages: list[ResponsesItem] = [*system]
    natives: dict[int, Any] = {}
    for item in items:
        kind, role = item.get("type", "message"), item.get("role")
        if kind == "function_call_output":
            output = content_text(item.get("output"))
            messages.append({"role": "tool", "tool_call_id": str(item.get("call_id")), "content": output})
        elif kind == "message" and role != "assistant":
            messages.append({"role": role, "content": content_text(item.get("content"))})
        else:
            if len(messages) - 1 not in natives:
                messages.append({"role": "assistant", "content": None})
                natives[len(messages) - 1] = []
            natives[len(messages) - 1].append(item)
            _add_item(messages[-1], item, kind)
    return messages, natives


def _add_item(message: ResponsesItem, item: ResponsesItem, kind: str) -> None:
    if kind == "message":
        message["content"] = (message["content"] or "") + content_text(item.get("content"))
    elif kind == "function_call":
        call = {"name": str(item.get("name")), "arguments": item.get("arguments")}
        calls = message.setdefault("tool_calls", [])
        calls.append({"id": str(item.get("call_id")), "type": "function", "function": call})


def _reply_items(reply: ScriptedReply, seed: str) -> list[ResponsesItem]:
    """Return the items of a reply without its reasoning."""
    items: list[ResponsesItem] = []
    done = {"status": "incomplete" if reply.finish == "length" else "completed"}
    if reply.text is not None or reply.refusal is not None:
        refused: ResponsesItem = {"type": "refusal", "refusal": reply.refusal}
        text_part = {"type": "output_text", "text": reply.text}
        part: ResponsesItem = refused if reply.refusal is not None else {**text_part, "annotations": []}
        message: ResponsesItem = {
            "type": "message",
            "id": make_id("msg_", seed),
            "role": "assistant",
            "content": [part],
        }
        items.append({**message, **done})
    for number, (name, arguments) in enumerate(reply.calls):
        named = {"id": make_id("fc_", seed, number), "call_id": make_id("call_", seed, number), "name": name}
        items.append({"type": "function_call", **named, "arguments": arguments, **done})
    return items


def _is_same_item(sent: ResponsesItem, given: ResponsesItem) -> bool:
    """Return whether an item that was sent back is the original, with its id or without it."""
    if sent.get("type", "message") != given["type"] or sent.get("id", given["id"]) != given["id"]:
        return False
    return bool(sent.get("call_id") == given.get("call_id"))


def _without_status(items: Any) -> Any:  # noqa: ANN401 - any JSON
    return [{name: part for name, part in item.items() if name != "status"} for item in items or ()]


MAX_CHAT_CALL_ID = 40


class OpenAiChatRequestFormat(ChatRequestFormat):
    """Chat completions of OpenAI itself. Reasoning is hidden there."""

    models = OPENAI_MODELS

    def thinks(self, chat: ChatRequest) -> bool:
        return chat.body.get("reasoning_effort", OPENAI_MODELS[chat.model].effort) not in ("", "none")

    def check(self, chat: ChatRequest) -> None:
        profile, body = OPENAI_MODELS[chat.model], chat.body
        effort = check_effort(profile, body.get("reasoning_effort"), "reasoning_effort")
        check_parallel(profile, body)
        if profile.efforts and "max_tokens" in body:
            refuse_parameter("P-9", "max_tokens", " Use 'max_completion_tokens' instead.")
        if effort not in ("", "none"):
            self._check_reasoning(chat, profile)
        self._check_schemas(chat)
        _check_call_ids(chat)

    def _check_reasoning(self, chat: ChatRequest, profile: OpenAiProfile) -> None:
        if chat.tools and not profile.chat_tools:
            message = (
                f"Function tools with reasoning_effort are not supported for {chat.model} in /v1/chat/completions. "
                "To use function tools, use /v1/responses or set reasoning_effort to 'none'."
            )
            raise RequestRefusal(rule="P-7", message=message, param="reasoning_effort")
        check_sampling(chat.body)

    def _check_schemas(self, chat: ChatRequest) -> None:
        for at, tool in enumerate(chat.tools):
            if tool.get("strict"):
                place = f"tools[{at}].function.parameters"
                name = f"function '{tool.get('name')}'"
                check_strict(name, tool.get("parameters") or {}, place, "invalid_function_parameters")
        form = (chat.body.get("response_format") or {}).get("json_schema") or {}
        if form.get("strict"):
            name = f"response_format '{form.get('name')}'"
            check_strict(name, form.get("schema") or {}, "response_format", "invalid_json_schema")


def _check_call_ids(chat: ChatRequest) -> None:
    for at, message in enumerate(chat.messages):
        for number, (call_id, _) in enumerate(message_calls(message)):
            if len(call_id) > MAX_CHAT_CALL_ID:
                refuse_length(f"messages[{at}].tool_calls[{number}].id", MAX_CHAT_CALL_ID, len(call_id))
        if len(str(message.get("tool_call_id", ""))) > MAX_CHAT_CALL_ID:
            refuse_length(f"messages[{at}].tool_call_id", MAX_CHAT_CALL_ID, len(message["tool_call_id"]))


class OpenAiDouble(SimpleProviderDouble):
    """OpenAI: ``/v1/chat/completions`` and ``/v1/responses``, with one memory for both."""

    format_classes = (OpenAiChatRequestFormat, ResponsesRequestFormat)
