"""OpenAI's Responses: a reply is a list of items, and reasoning items come back with the items they belong to.

Source: OpenAI's API reference of Responses and its guide to reasoning.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from bot.testing.model_server import Reply
from bot.testing.providers.chat_form import CREATED, ChatForm
from bot.testing.providers.core import SwitchFault, WireFormat
from bot.testing.providers.exchange import (
    ChatRequest,
    ModelProfile,
    ProviderRequest,
    ReplySwitch,
    RequestRefusal,
    TokenCount,
    WrittenReply,
    make_id,
    opaque_text,
    prefix_of,
    text_of,
)
from bot.testing.providers.openai_rules import (
    OPENAI_MODELS,
    OpenAiProfile,
    check_effort,
    check_parallel,
    check_sampling,
    check_strict,
    refuse_length,
    refuse_parameter,
)

MOST_CALL_ID = 64
ENCRYPTED = "reasoning.encrypted_content"
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}

Item: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningItem:
    """A reasoning item as it was given: its content, the item right after it, and whether the server keeps both."""

    encrypted: str
    follower: Item | None
    stored: bool


class ResponsesForm(WireFormat):
    """Responses of OpenAI. Remembers its items, so that each is checked against what was given (P-11)."""

    models: Mapping[str, OpenAiProfile] = OPENAI_MODELS
    texts: ClassVar[Mapping[str, str]] = {"P-1": "No tool output found for function call, or no call for an output."}
    faults: ClassVar[Mapping[ReplySwitch, SwitchFault]] = ChatForm.faults

    def __init__(self) -> None:
        self._reasoning: dict[str, ReasoningItem] = {}
        self._needs: dict[str, str] = {}
        self._kept: dict[str, list[Item]] = {}

    def takes(self, path: str) -> bool:
        return path.endswith("/responses")

    def profile(self, model: str) -> ModelProfile:
        if (found := self.models.get(model)) is None:
            message = f"The model '{model}' does not exist or you do not have access to it."
            raise RequestRefusal(rule="", status=404, message=message, param="model", code="model_not_found")
        return found

    def error(self, refusal: RequestRefusal) -> Mapping[str, Any]:
        told = {"message": refusal.message, "type": refusal.kind, "param": refusal.param, "code": refusal.code}
        return {"error": told}

    def altered(self, sent: object, given: object) -> bool:
        return super().altered(_without_status(sent), _without_status(given))

    # Reading

    def read(self, request: ProviderRequest) -> ChatRequest:
        body = request.body
        items, tools = self._items(body), body.get("tools") or []
        if not isinstance(body.get("model"), str) or not isinstance(tools, list) or not items:
            raise RequestRefusal(rule="", message="Missing or invalid 'model', 'input' or 'tools'.", param="input")
        system = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
        messages, natives = _messages(system, items)
        return ChatRequest(
            source=request,
            model=body["model"],
            body={**_settings(body, tools), "messages": messages},
            prefix=prefix_of(tools, system, items),
            natives=natives,
            stream=bool(body.get("stream")),
        )

    def _items(self, body: Mapping[str, Any]) -> list[Item]:
        """Return the items of a request, those that the server keeps in place of what names them."""
        told = body.get("input")
        items = [{"role": "user", "content": told}] if isinstance(told, str) else told
        if not isinstance(items, list) or not all(isinstance(one, dict) for one in items):
            raise RequestRefusal(rule="", message="Invalid 'input': expected a text or a list of items.", param="input")
        found = [] if (before := body.get("previous_response_id")) is None else self._stored(before, "response")
        for item in items:
            found += self._stored(item.get("id"), "item") if item.get("type") == "item_reference" else [item]
        return found

    def _stored(self, name: Any, what: str) -> list[Item]:  # noqa: ANN401 - any JSON
        if (found := self._kept.get(str(name))) is None:
            message = f"The {what} with id '{name}' was not found. Nothing is persisted when `store` is set to false."
            raise RequestRefusal(rule="P-11", status=404, message=message, param="input")
        return [*found]

    # Rules

    def check(self, chat: ChatRequest) -> None:
        profile, body = self.models[chat.model], chat.native
        told = (body.get("reasoning") or {}).get("effort")
        effort = check_effort(profile, told, "reasoning.effort", profile.response_efforts)
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
        self.check_items(self._items(body))

    def check_items(self, items: Sequence[Item]) -> None:
        """Check lengths of ids (P-10), and that reasoning and the items it belongs to come together (P-11)."""
        present = {str(item.get("id")) for item in items}
        for at, item in enumerate(items):
            for name in ("call_id", "id"):
                if len(str(item.get(name, ""))) > MOST_CALL_ID:
                    refuse_length(f"input[{at}].{name}", MOST_CALL_ID, len(item[name]))
            if item.get("type") == "reasoning":
                self._check_reasoning(item, items[at + 1] if at + 1 < len(items) else {})
            elif (needed := self._needs.get(str(item.get("id")))) is not None and needed not in present:
                told = f"Item '{item['id']}' of type '{item.get('type')}' was provided without its required"
                raise RequestRefusal(rule="P-11", message=f"{told} 'reasoning' item: '{needed}'.", param="input")

    def _check_reasoning(self, item: Item, following: Item) -> None:
        name = str(item.get("id"))
        given, sent = self._reasoning.get(name), item.get("encrypted_content")
        if given is None or (sent is not None and sent != given.encrypted):
            message = f"The encrypted content for item {name} could not be verified."
            raise RequestRefusal(rule="P-11", message=message, code="invalid_encrypted_content")
        if sent is None and not given.stored:
            message = f"Item with id '{name}' not found. Items are not persisted when `store` is set to false."
            raise RequestRefusal(rule="P-11", status=404, message=message, param="input")
        if given.follower is None or not _is_same(following, given.follower):
            told = f"Item '{name}' of type 'reasoning' was provided without its required following item."
            raise RequestRefusal(rule="P-11", message=told, param="input")

    # Writing

    def thinks(self, chat: ChatRequest) -> bool:
        effort = (chat.native.get("reasoning") or {}).get("effort", self.models[chat.model].effort)
        return effort not in ("", "none")

    def shows_encrypted(self, chat: ChatRequest) -> bool:
        """Tell whether the reply holds the reasoning in encrypted form."""
        return ENCRYPTED in (chat.native.get("include") or ())

    def write(self, chat: ChatRequest, reply: Reply, tokens: TokenCount, seed: str) -> WrittenReply:
        items = _output(reply, seed)
        if reply.thinking:
            items.insert(0, self._think(chat, reply, seed, items))
        response = make_id("resp_", seed)
        if chat.native.get("store") is not False:
            self._kept[response] = [*self._items(chat.native), *items]
            self._kept.update({item["id"]: [item] for item in items})
        reason = _INCOMPLETE.get(reply.finish or "")
        body = {
            "id": response,
            "object": "response",
            "created_at": CREATED,
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
        told = tuple((item["call_id"], item["name"], item["arguments"]) for item in calls)
        return WrittenReply(body=body, native=items, calls=told, text=reply.text or "")

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

    def _think(self, chat: ChatRequest, reply: Reply, seed: str, items: Sequence[Item]) -> Item:
        """Return the reasoning item that belongs before these items, and remember that it does."""
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


def _settings(body: Mapping[str, Any], tools: Sequence[Any]) -> dict[str, Any]:
    """Return what a request says beyond its messages, in chat-completions form."""
    functions = [
        {"type": "function", "function": {**one, "parameters": one.get("parameters") or {"type": "object"}}}
        for one in tools
        if isinstance(one, dict) and one.get("type") == "function"
    ]
    form = (body.get("text") or {}).get("format") or {}
    told: Item = {
        "model": body["model"],
        "tools": functions,
        "tool_choice": _choice(body.get("tool_choice")),
        "response_format": {"type": "json_schema", "json_schema": form} if form.get("type") == "json_schema" else None,
        "max_completion_tokens": body.get("max_output_tokens"),
    }
    return {name: value for name, value in told.items() if value not in (None, [])}


def _choice(choice: Any) -> Any:  # noqa: ANN401 - a word or an object
    if not isinstance(choice, dict):
        return choice
    if choice.get("type") == "allowed_tools":
        among = [{"type": "function", "function": {"name": one.get("name")}} for one in choice.get("tools") or ()]
        return {"type": "allowed_tools", "allowed_tools": {"mode": choice.get("mode"), "tools": among}}
    return {"type": "function", "function": {"name": choice.get("name")}} if "name" in choice else choice


def _messages(system: Sequence[Item], items: Sequence[Item]) -> tuple[list[Item], dict[int, Any]]:
    """Return items as messages; what the model gave in one reply is one assistant message."""
    messages: list[Item] = [*system]
    natives: dict[int, Any] = {}
    for item in items:
        kind, role = item.get("type", "message"), item.get("role")
        if kind == "function_call_output":
            told = text_of(item.get("output"))
            messages.append({"role": "tool", "tool_call_id": str(item.get("call_id")), "content": told})
        elif kind == "message" and role != "assistant":
            messages.append({"role": role, "content": text_of(item.get("content"))})
        else:
            if len(messages) - 1 not in natives:
                messages.append({"role": "assistant", "content": None})
                natives[len(messages) - 1] = []
            natives[len(messages) - 1].append(item)
            _add(messages[-1], item, kind)
    return messages, natives


def _add(message: Item, item: Item, kind: str) -> None:
    if kind == "message":
        message["content"] = (message["content"] or "") + text_of(item.get("content"))
    elif kind == "function_call":
        call = {"name": str(item.get("name")), "arguments": item.get("arguments")}
        calls = message.setdefault("tool_calls", [])
        calls.append({"id": str(item.get("call_id")), "type": "function", "function": call})


def _output(reply: Reply, seed: str) -> list[Item]:
    """Return the items of a reply without its reasoning."""
    items: list[Item] = []
    done = {"status": "incomplete" if reply.finish == "length" else "completed"}
    if reply.text is not None or reply.refusal is not None:
        refused: Item = {"type": "refusal", "refusal": reply.refusal}
        said = {"type": "output_text", "text": reply.text}
        part: Item = refused if reply.refusal is not None else {**said, "annotations": []}
        message: Item = {"type": "message", "id": make_id("msg_", seed), "role": "assistant", "content": [part]}
        items.append({**message, **done})
    for number, (name, arguments) in enumerate(reply.calls):
        named = {"id": make_id("fc_", seed, number), "call_id": make_id("call_", seed, number), "name": name}
        items.append({"type": "function_call", **named, "arguments": arguments, **done})
    return items


def _is_same(sent: Item, given: Item) -> bool:
    """Tell whether an item that came back is the one given, with its id or without it."""
    if sent.get("type", "message") != given["type"] or sent.get("id", given["id"]) != given["id"]:
        return False
    return bool(sent.get("call_id") == given.get("call_id"))


def _without_status(items: Any) -> Any:  # noqa: ANN401 - any JSON
    return [{name: part for name, part in item.items() if name != "status"} for item in items or ()]
