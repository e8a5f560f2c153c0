"""Base of all fake providers.

An HTTP server that plays a script through a provider's own request format, checks requests, and remembers its replies.
"""

import json
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from types import TracebackType
from typing import Any, ClassVar, Self, TypeAlias

from bot.core.ids import derive_id
from bot.core.interfaces import Clock
from bot.simulator.providers.chat_requests import (
    CHARS_PER_TOKEN,
    ChatRequest,
    NativeReply,
    ProviderRequest,
    RememberedReply,
    ReplyOverride,
    RequestPrefix,
    RequestRefusal,
    ServedModelProfile,
    TokenCount,
    content_text,
    message_calls,
    reply_thinking,
    token_count,
    without_nulls,
)
from bot.simulator.providers.request_checks import check_replies, check_results, check_tools
from bot.testing.loopback_server import JSON_TYPE, LoopbackServer, ReceivedRequest, ScriptedResponse
from bot.testing.model_server import CompletionRequest, ReplyScript, ScriptedReply


class ReplyMemory:
    """The last ``most`` replies, found by their calls, by their text, and by the messages that they answered."""

    def __init__(self, max_replies: int = 20_000) -> None:
        self._max_replies = max_replies
        self._given: OrderedDict[str, list[RememberedReply]] = OrderedDict()

    def keep(self, chat: ChatRequest, given: RememberedReply) -> None:
        """Remember a reply to a request."""
        for key in (_position_key(chat.messages), _first_key(chat.messages), *_reply_keys(given)):
            self._given.setdefault(key, []).append(given)
            self._given.move_to_end(key)
        while len(self._given) > self._max_replies:
            self._given.popitem(last=False)

    def at(self, chat: ChatRequest, index: int) -> Sequence[RememberedReply]:
        """Return the replies that may be the assistant message of this index.

        those given in its place, or with its ids.
        """
        found = self._given.get(_position_key(chat.messages[:index])) or ()
        return found or [one for key in _message_keys(chat.messages[index]) for one in self._given.get(key, ())]

    def before(self, chat: ChatRequest) -> RememberedReply | None:
        """Return the last reply of the conversation that a request continues.

        the one whose request it shares most with.

        Where none of the assistant's messages is known, it is the last reply to the same first user message.
        """
        spoken = [one for one in chat.messages if one.get("role") == "assistant"]
        keys = [key for one in reversed(spoken) for key in _message_keys(one)]
        keys += [_first_key(chat.messages)] if spoken else []
        same = (chat.source.path, chat.model)
        for key in keys:
            if found := [one for one in self._given.get(key, ()) if (one.path, one.model) == same]:
                return max(found, key=lambda one: (shared_prefix_share(one.prefix, chat.prefix), one.request))
        return None


class PrefixCache:
    """Counts how much of a request's beginning an earlier one had, by whole tools and messages; the last ``most``."""

    def __init__(self, max_replies: int = 200_000) -> None:
        self._max_replies = max_replies
        self._seen: OrderedDict[str, None] = OrderedDict()

    def cached_chars(self, prefix: RequestPrefix) -> int:
        """Return how many characters from the beginning were seen before."""
        return sum(chars for _, chars in takewhile(lambda part: part[0] in self._seen, prefix))

    def keep(self, prefix: RequestPrefix) -> None:
        """Remember a beginning."""
        for state, _ in prefix:
            self._seen[state] = None
            self._seen.move_to_end(state)
        while len(self._seen) > self._max_replies:
            self._seen.popitem(last=False)


def shared_prefix_share(earlier: RequestPrefix, later: RequestPrefix) -> float:
    """Return the share of the earlier request's characters with which the later one begins, by whole parts, 0 to 1."""
    total = sum(chars for _, chars in earlier)
    pairs = zip(earlier, later, strict=False)
    same = sum(one[1] for one, other in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return same / total if total else 1.0


def _position_key(messages: Sequence[Mapping[str, Any]]) -> str:
    state = ""
    for message in messages:
        state = derive_id(
            "place", state, str(message.get("role")), content_text(message.get("content")), str(message_calls(message))
        )
    return f"place {state}"


def _first_key(messages: Sequence[Mapping[str, Any]]) -> str:
    first = next((content_text(one.get("content")) for one in messages if one.get("role") == "user"), None)
    return f"first {first}"


def _message_keys(message: Mapping[str, Any]) -> list[str]:
    calls = [f"call {call_id}" for call_id, _ in message_calls(message) if call_id]
    return calls or [f"text {content_text(message.get('content'))}"]


def _reply_keys(given: RememberedReply) -> list[str]:
    calls = [f"call {call_id}" for call_id, _ in given.call_names if call_id]
    return calls or [f"text {given.written.text}"]


# The response of a switch: status, body and headers.
OverrideResponse: TypeAlias = tuple[int, Any, Mapping[str, str]]


# The shortest beginning of a prompt that providers cache.
LEAST_CACHED_TOKENS = 1024

EVENT_STREAM = {"Content-Type": "text/event-stream"}


class RequestFormat(ABC):
    """One request form of a provider: parses, checks and writes it.

    ``fields`` are the top-level fields that a request may have (P-5), None where unknown ones are ignored. ``texts``
    replaces, by rule, the message of refusals that the base raises (P-1 to P-5). ``faults`` is the response of a
    switch: status, body and headers. ``refuses`` False: a server that accepts everything.
    """

    refuses: ClassVar[bool] = True
    fields: ClassVar[frozenset[str] | None] = None
    texts: ClassVar[Mapping[str, str]] = {}
    faults: ClassVar[Mapping[ReplyOverride, OverrideResponse]] = {}

    @abstractmethod
    def handles_path(self, path: str) -> bool:
        """Return whether a POST to this path (without its query) is a request of this form."""

    @abstractmethod
    def read_request(self, request: ProviderRequest) -> ChatRequest:
        """Return a request in common form. Raise RequestRefusal where its form is wrong."""

    @abstractmethod
    def profile(self, model: str) -> ServedModelProfile:
        """Return the properties of a model. Raise RequestRefusal, usually of status 404, where there is none."""

    def check(self, chat: ChatRequest) -> None:  # noqa: B027 - a wire format may have no rule of its own
        """Check the rules that a request alone can break. Raise RequestRefusal."""

    def check_reply(self, chat: ChatRequest, at: int, given: RememberedReply | None) -> None:  # noqa: B027 - the same
        """Check the assistant message of that index against the reply it repeats, None where it is not known."""

    def thinks(self, chat: ChatRequest) -> bool:
        """Return whether the model reasons before it replies; a reply without reasoning then gets one."""
        return False

    def check_window(self, chat: ChatRequest, tokens: int) -> None:
        """Check that the prompt fits into the model's context window (P-15)."""
        window = self.profile(chat.model).window
        if tokens > window:
            message = (
                f"This model's maximum context length is {window} tokens. However, your messages resulted in {tokens}"
            )
            raise RequestRefusal(
                rule="P-15", message=f"{message} tokens.", param="messages", code="context_length_exceeded"
            )

    def visible_prompt(self, chat: ChatRequest, tokens: TokenCount) -> tuple[Mapping[str, Any], TokenCount]:
        """Return what the model sees, in chat-completions form, and its tokens; some servers truncate prompts."""
        return chat.body, tokens

    def is_altered(self, sent: object, given: object) -> bool:
        """Return whether an assistant message differs from the original, nulls aside."""
        return bool(without_nulls(sent) != without_nulls(given))

    def model_listing(self, path: str) -> Mapping[str, Any] | None:
        """Return the response to a GET of this path, None where there is none."""
        return None

    @abstractmethod
    def write_reply(self, chat: ChatRequest, reply: ScriptedReply, tokens: TokenCount, seed: str) -> NativeReply:
        """Return a reply in native form; ids and signatures are made from the seed."""

    @abstractmethod
    def error(self, refusal: RequestRefusal) -> Mapping[str, Any]:
        """Return the body of an error."""

    def stream(self, written: NativeReply) -> Iterable[str]:
        """Return the events of a streamed reply as text, each with its empty line."""
        raise RequestRefusal(rule="", message="This double does not stream.", param="stream")

    def override_reply(
        self, switch: ReplyOverride, chat: ChatRequest, play: Callable[[], ScriptedReply]
    ) -> ScriptedReply | ScriptedResponse:
        """Return the response in place of the script's reply, which ``play`` returns.

        Raise ValueError where the provider has no such response.
        """
        if (fault := self.faults.get(switch)) is not None:
            status, body, headers = fault
            return ScriptedResponse(status=status, body=json.dumps(body).encode(), headers={**JSON_TYPE, **headers})
        match switch:
            case ReplyOverride.REFUSAL:
                return ScriptedReply(refusal="I cannot help with this.")
            case ReplyOverride.EMPTY_LENGTH:
                return ScriptedReply(finish="length", thinking="I think until nothing is left.")
            case ReplyOverride.MALFORMED_CALL:
                reply = play()
                return replace(reply, calls=tuple((name, text[: len(text) // 2]) for name, text in reply.calls))
            case _:
                message = f"{type(self).__name__} has no reply for the switch {switch.name}"
                raise ValueError(message)


class RequestChecker:
    """Checks requests against the rules and against the last ``most`` replies, and counts what no rule refuses.

    ``prefix_breaks`` counts requests that do not begin with the tools, system and messages of the one before them in
    their conversation (P-6), ``altered_replies`` the assistant messages that differ from those given, in accepted
    requests.
    """

    def __init__(self, max_replies: int = 20_000) -> None:
        self.prefix_breaks = 0
        self.altered_replies = 0
        self._memory = ReplyMemory(max_replies)
        self._cache = PrefixCache(max_replies * 10)

    def check(self, wire: RequestFormat, chat: ChatRequest) -> None:
        """Measure a request and check it. Raise RequestRefusal."""
        request = chat.source
        request.chars = sum(chars for _, chars in chat.prefix)
        request.cached_chars = self._cache.cached_chars(chat.prefix)
        if (before := self._memory.before(chat)) is not None:
            request.previous = before.request
            request.shared_prefix = shared_prefix_share(before.prefix, chat.prefix)
            self.prefix_breaks += request.shared_prefix < 1.0
        try:
            self._check_rules(wire, chat)
        except RequestRefusal as refusal:
            refusal.message = wire.texts.get(refusal.rule, refusal.message)
            if wire.refuses:
                raise

    def remember_reply(self, chat: ChatRequest, written: NativeReply) -> None:
        """Remember the reply to a request."""
        source = chat.source
        self._cache.keep(chat.prefix)
        given = RememberedReply(
            request=source.number, path=source.path, model=chat.model, prefix=chat.prefix, written=written
        )
        self._memory.keep(chat, given)

    def _check_rules(self, wire: RequestFormat, chat: ChatRequest) -> None:
        wire.profile(chat.model)
        _check_fields(chat, wire.fields)
        check_tools(chat)
        wire.check(chat)
        check_results(chat)
        altered = 0
        for at, given in check_replies(chat, lambda at: self._memory.at(chat, at)):
            wire.check_reply(chat, at, given)
            if given is not None:
                altered += wire.is_altered(chat.natives.get(at), given.written.native)
        self.altered_replies += altered


class ProviderDouble:
    """Serves a provider on loopback while it is entered. ``base_url`` is the address that a client of it is given.

    ``requests`` are all requests with their measurements, ``asked`` those that were answered, in common form,
    ``refusals`` the refused ones. ``prefix_breaks`` counts requests that do not begin with the tools, system and
    messages of the one before them in their conversation (P-6), ``altered_replies`` the assistant messages in accepted
    requests that differ from the originals, though no rule refuses that. ``chars_sent`` and ``chars_cached`` count the
    prompts that were answered. Errors have the form of the first wire format where the path is unknown. ``key`` is
    required where one is set.
    """

    root: ClassVar[str] = "/v1"

    def __init__(
        self, wires: Sequence[RequestFormat], script: ReplyScript, *, key: str | None = None, clock: Clock | None = None
    ) -> None:
        self.formats = wires
        self.script = script
        self.key = key
        self.wire = LoopbackServer(self._receive, clock=clock)
        self.requests: list[ProviderRequest] = []
        self.asked: list[CompletionRequest] = []
        self.refusals: list[RequestRefusal] = []
        self.chars_sent = 0
        self.chars_cached = 0
        self._switches: deque[ReplyOverride] = deque()
        self._checker = RequestChecker()

    @property
    def address(self) -> str:
        """Where the server listens, without a path."""
        return self.wire.address

    @property
    def base_url(self) -> str:
        """The address for a client."""
        return f"{self.address}{self.root}"

    @property
    def prefix_breaks(self) -> int:
        """How many requests do not begin with the one before them in their conversation."""
        return self._checker.prefix_breaks

    @property
    def altered_replies(self) -> int:
        """How many assistant messages of accepted requests differ from the originals."""
        return self._checker.altered_replies

    @property
    def uncached_share(self) -> float:
        """The share of all characters of answered prompts that no earlier request began with, from 0 to 1."""
        return 1.0 - self.chars_cached / self.chars_sent if self.chars_sent else 0.0

    @property
    def cacheable_share(self) -> float:
        """The share of all prompts that a provider finds in a cache of beginnings of 1,024 tokens and more, 0 to 1."""
        least = CHARS_PER_TOKEN * LEAST_CACHED_TOKENS
        cached = sum(one.cached_chars for one in self.requests if one.cached_chars >= least)
        return cached / max(1, sum(one.chars for one in self.requests))

    @property
    def shared_prefixes(self) -> Sequence[float]:
        """How much of the request before it each request shares, for those that continue a conversation."""
        return [one.shared_prefix for one in self.requests if one.shared_prefix is not None]

    def override_next(self, *switches: ReplyOverride) -> None:
        """Apply these to the next requests that pass the rules, one each, in place of the script."""
        self._switches.extend(switches)

    async def __aenter__(self) -> Self:
        await self.wire.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.wire.__aexit__(kind, error, trace)

    def _receive(self, received: ReceivedRequest) -> ScriptedResponse:
        path = received.path.partition("?")[0]
        wire = next((one for one in self.formats if one.handles_path(path)), None)
        if wire is None or received.method != "POST":
            return self._other(received, path)
        request = ProviderRequest(number=len(self.requests) + 1, path=received.path, headers=received.headers, body={})
        self.requests.append(request)
        try:
            self._authorise(received)
            request.body = _request_body(received)
            return self._answer(wire, wire.read_request(request))
        except RequestRefusal as refusal:
            request.refusal = refusal
            self.refusals.append(refusal)
            return self._refuse(wire, refusal)

    def _answer(self, wire: RequestFormat, chat: ChatRequest) -> ScriptedResponse:
        request = chat.source
        self._checker.check(wire, chat)
        tokens = TokenCount(prompt=token_count(request.chars), cached=request.cached_chars // 4)
        wire.check_window(chat, tokens.prompt)
        shown, tokens = wire.visible_prompt(chat, tokens)
        asked = CompletionRequest(number=len(self.asked) + 1, path=request.path, headers=request.headers, body=shown)
        if self._switches:
            reply = wire.override_reply(self._switches.popleft(), chat, lambda: self._play(asked))
        else:
            self.asked.append(asked)
            reply = self._play(asked)
        if isinstance(reply, ScriptedResponse):
            return reply
        if reply.raw is not None:
            return reply.to_response(asked)
        self.chars_sent += request.chars
        self.chars_cached += request.cached_chars
        return self._write(wire, chat, reply, tokens)

    def _write(
        self, wire: RequestFormat, chat: ChatRequest, reply: ScriptedReply, tokens: TokenCount
    ) -> ScriptedResponse:
        seed = derive_id("reply", type(wire).__name__, str(chat.source.number), json.dumps(chat.native))
        if wire.thinks(chat):
            reply = replace(reply, thinking=reply_thinking(reply, seed))
        spoken = (reply.text or "") + (reply.refusal or "") + "".join(name + text for name, text in reply.calls)
        counted = replace(tokens, output=token_count(len(spoken)), thinking=len(reply.thinking) // 4)
        written = wire.write_reply(chat, reply, counted, seed)
        self._checker.remember_reply(chat, written)
        if chat.stream:
            return replace(reply.response, headers=EVENT_STREAM, body="".join(wire.stream(written)).encode())
        return replace(reply.response, body=json.dumps(written.body, ensure_ascii=False).encode())

    def _play(self, asked: CompletionRequest) -> ScriptedReply:
        script = self.script
        if isinstance(script, ScriptedReply):
            return script
        return script(asked) if callable(script) else script[min(asked.number, len(script)) - 1]

    def _authorise(self, received: ReceivedRequest) -> None:
        values = (
            received.headers.get(name, "") for name in ("authorization", "x-api-key", "x-goog-api-key", "api-key")
        )
        if self.key is not None and self.key not in {one.removeprefix("Bearer ") for one in values}:
            raise RequestRefusal(
                rule="", status=401, kind="authentication_error", message="Incorrect API key.", code="invalid_api_key"
            )

    def _refuse(self, wire: RequestFormat, refusal: RequestRefusal) -> ScriptedResponse:
        if refusal.body is None:
            refusal.body = wire.error(refusal)
        return ScriptedResponse(status=refusal.status, body=json.dumps(refusal.body, ensure_ascii=False).encode())

    def _other(self, received: ReceivedRequest, path: str) -> ScriptedResponse:
        """Answer requests that are not for a completion: list the models, or report that there is nothing."""
        listed = (
            [one for wire in self.formats if (one := wire.model_listing(path)) is not None]
            if received.method == "GET"
            else ()
        )
        if listed:
            return ScriptedResponse(body=json.dumps(listed[0]).encode())
        missing = RequestRefusal(rule="", status=404, message=f"There is no {received.method} {path} here.")
        return self._refuse(self.formats[0], missing)


class SimpleProviderDouble(ProviderDouble):
    """A fake whose wire formats need nothing but their class: ``format_classes``, one for each path."""

    format_classes: ClassVar[tuple[type[RequestFormat], ...]] = ()

    def __init__(self, script: ReplyScript, *, key: str | None = None, clock: Clock | None = None) -> None:
        super().__init__(tuple(form() for form in self.format_classes), script, key=key, clock=clock)


def _request_body(received: ReceivedRequest) -> dict[str, Any]:
    try:
        body = json.loads(received.body)
    except ValueError as error:
        raise RequestRefusal(rule="", message="We could not parse the JSON body of your request.") from error
    if not isinstance(body, dict):
        raise RequestRefusal(rule="", message="The body must be a JSON object.")
    return body


def _check_fields(chat: ChatRequest, fields: frozenset[str] | None) -> None:
    odd = sorted(set(chat.native) - fields) if fields is not None else []
    if odd:
        raise RequestRefusal(rule="P-5", message=f"{odd[0]}: Extra inputs are not permitted", param=odd[0])
