"""The base of all provider doubles: an HTTP server that plays a script through a provider's own wire format.

    async with OpenAiDouble(moves(("search", {"query": "rain"}))) as double:
        ...  # ask at double.base_url, then look at double.requests, double.refusals and double.prefix_breaks

A double is a ``ProviderDouble`` with one ``WireFormat`` for each path that it serves. The wire format reads a native
request into common form (so that any script of ``bot.testing.model_server`` can play any provider), checks the
provider's rules, and writes replies and errors. The double remembers every reply, so that rules about what must come
back are checked against what it gave. Same requests in the same order, same replies: nothing is left to chance.
"""

import json
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, ClassVar, Self, TypeAlias

from bot.ids import derive_id
from bot.ports import Clock
from bot.testing.loopback import JSON_TYPE, LoopbackServer, Received, Sent
from bot.testing.model_server import Asked, Reply, Script
from bot.testing.providers.checks import check_replies, check_results, check_tools
from bot.testing.providers.exchange import (
    ChatRequest,
    GivenReply,
    ModelProfile,
    ProviderRequest,
    ReplySwitch,
    RequestRefusal,
    TokenCount,
    WrittenReply,
    thinking_of,
    token_count,
    without_nulls,
)
from bot.testing.providers.memory import PrefixCache, ReplyMemory, shared_share

# What a switch sends: status, body and headers.
SwitchFault: TypeAlias = tuple[int, Any, Mapping[str, str]]
EVENT_STREAM = {"Content-Type": "text/event-stream"}


class WireFormat(ABC):
    """One request form of a provider: reads, checks and writes it.

    ``fields`` are the top-level fields that a request may have (P-5), None where unknown ones are ignored. ``texts``
    replaces, by rule, the message of refusals that the base raises (P-1 to P-5). ``faults`` says what a switch sends:
    status, body and headers. ``refuses`` False: a server that takes whatever comes.
    """

    refuses: ClassVar[bool] = True
    fields: ClassVar[frozenset[str] | None] = None
    texts: ClassVar[Mapping[str, str]] = {}
    faults: ClassVar[Mapping[ReplySwitch, SwitchFault]] = {}

    @abstractmethod
    def takes(self, path: str) -> bool:
        """Tell whether a POST to this path (without its query) is a request of this form."""

    @abstractmethod
    def read(self, request: ProviderRequest) -> ChatRequest:
        """Return a request in common form. Raise RequestRefusal where its form is wrong."""

    @abstractmethod
    def profile(self, model: str) -> ModelProfile:
        """Return how a model behaves. Raise RequestRefusal, usually of status 404, where there is none."""

    def check(self, chat: ChatRequest) -> None:  # noqa: B027 - a wire format may have no rule of its own
        """Check the rules that a request alone can break. Raise RequestRefusal."""

    def check_reply(self, chat: ChatRequest, at: int, given: GivenReply | None) -> None:  # noqa: B027 - the same
        """Check the assistant message of that index against the reply it repeats, None where it is not known."""

    def thinks(self, chat: ChatRequest) -> bool:
        """Tell whether the model thinks before it replies; a reply without a thought is then given one."""
        return False

    def check_window(self, chat: ChatRequest, tokens: int) -> None:
        """Check that the prompt fits into the model's context window (P-15)."""
        window = self.profile(chat.model).window
        if tokens > window:
            said = (
                f"This model's maximum context length is {window} tokens. However, your messages resulted in {tokens}"
            )
            raise RequestRefusal(
                rule="P-15", message=f"{said} tokens.", param="messages", code="context_length_exceeded"
            )

    def shown(self, chat: ChatRequest, tokens: TokenCount) -> tuple[Mapping[str, Any], TokenCount]:
        """Return what the model is shown, in chat-completions form, and its tokens; some servers cut prompts."""
        return chat.body, tokens

    def altered(self, sent: object, given: object) -> bool:
        """Tell whether an assistant message differs from the one that was given, nulls aside."""
        return bool(without_nulls(sent) != without_nulls(given))

    def listing(self, path: str) -> Mapping[str, Any] | None:
        """Return what a GET of this path answers, None where there is nothing."""
        return None

    @abstractmethod
    def write(self, chat: ChatRequest, reply: Reply, tokens: TokenCount, seed: str) -> WrittenReply:
        """Return a reply in native form; ids and signatures are made from the seed."""

    @abstractmethod
    def error(self, refusal: RequestRefusal) -> Mapping[str, Any]:
        """Return the body of an error."""

    def stream(self, written: WrittenReply) -> Iterable[str]:
        """Return the events of a streamed reply as text, each with its empty line."""
        raise RequestRefusal(rule="", message="This double does not stream.", param="stream")

    def switched(self, switch: ReplySwitch, chat: ChatRequest, play: Callable[[], Reply]) -> Reply | Sent:
        """Return what goes out in place of the script's reply, which ``play`` returns.

        Raise ValueError where the provider knows no such thing.
        """
        if (fault := self.faults.get(switch)) is not None:
            status, body, headers = fault
            return Sent(status=status, body=json.dumps(body).encode(), headers={**JSON_TYPE, **headers})
        match switch:
            case ReplySwitch.REFUSAL:
                return Reply(refusal="I cannot help with this.")
            case ReplySwitch.EMPTY_LENGTH:
                return Reply(finish="length", thinking="I think until nothing is left.")
            case ReplySwitch.MALFORMED_CALL:
                reply = play()
                return replace(reply, calls=tuple((name, text[: len(text) // 2]) for name, text in reply.calls))
            case _:
                message = f"{type(self).__name__} has no reply for the switch {switch.name}"
                raise ValueError(message)


class RequestChecker:
    """Checks requests against the rules and against the last ``most`` replies, and counts what no rule refuses.

    ``prefix_breaks`` counts requests that do not begin with the tools, system and messages of the one before them in
    their conversation (P-6), ``altered_replies`` the assistant messages that differ from those given, in requests that
    are not refused.
    """

    def __init__(self, most: int = 20_000) -> None:
        self.prefix_breaks = 0
        self.altered_replies = 0
        self._memory = ReplyMemory(most)
        self._cache = PrefixCache(most * 10)

    def check(self, wire: WireFormat, chat: ChatRequest) -> None:
        """Measure a request and check it. Raise RequestRefusal."""
        request = chat.source
        request.chars = sum(chars for _, chars in chat.prefix)
        request.cached_chars = self._cache.cached_chars(chat.prefix)
        if (before := self._memory.before(chat)) is not None:
            request.previous = before.request
            request.shared_prefix = shared_share(before.prefix, chat.prefix)
            self.prefix_breaks += request.shared_prefix < 1.0
        try:
            self._check_rules(wire, chat)
        except RequestRefusal as refusal:
            refusal.message = wire.texts.get(refusal.rule, refusal.message)
            if wire.refuses:
                raise

    def keep(self, chat: ChatRequest, written: WrittenReply) -> None:
        """Remember the reply to a request."""
        source = chat.source
        self._cache.keep(chat.prefix)
        given = GivenReply(
            request=source.number, path=source.path, model=chat.model, prefix=chat.prefix, written=written
        )
        self._memory.keep(chat, given)

    def _check_rules(self, wire: WireFormat, chat: ChatRequest) -> None:
        wire.profile(chat.model)
        _check_fields(chat, wire.fields)
        check_tools(chat)
        wire.check(chat)
        check_results(chat)
        altered = 0
        for at, given in check_replies(chat, lambda at: self._memory.at(chat, at)):
            wire.check_reply(chat, at, given)
            if given is not None:
                altered += wire.altered(chat.natives.get(at), given.written.native)
        self.altered_replies += altered


class ProviderDouble:
    """Serves a provider on loopback while it is entered. ``base_url`` is the address that a client of it is given.

    ``requests`` are all requests with what was measured of them, ``asked`` those that were answered, in common form,
    ``refusals`` the refused ones. ``prefix_breaks`` counts requests that do not begin with the tools, system and
    messages of the one before them in their conversation (P-6), ``altered_replies`` the assistant messages in accepted
    requests that differ from what was given, though no rule refuses that. ``chars_sent`` and ``chars_cached`` count
    the prompts that were answered. Errors have the form of the first wire format where the path is unknown. ``key`` is
    asked for where one is set.
    """

    root: ClassVar[str] = "/v1"

    def __init__(
        self, wires: Sequence[WireFormat], script: Script, *, key: str | None = None, clock: Clock | None = None
    ) -> None:
        self.wires = wires
        self.script = script
        self.key = key
        self.wire = LoopbackServer(self._receive, clock=clock)
        self.requests: list[ProviderRequest] = []
        self.asked: list[Asked] = []
        self.refusals: list[RequestRefusal] = []
        self.chars_sent = 0
        self.chars_cached = 0
        self._switches: deque[ReplySwitch] = deque()
        self._checker = RequestChecker()

    @property
    def address(self) -> str:
        """Where the server listens, without a path."""
        return self.wire.address

    @property
    def base_url(self) -> str:
        """The address that a client is given."""
        return f"{self.address}{self.root}"

    @property
    def prefix_breaks(self) -> int:
        """How many requests do not begin with the one before them in their conversation."""
        return self._checker.prefix_breaks

    @property
    def altered_replies(self) -> int:
        """How many assistant messages of accepted requests differ from what was given."""
        return self._checker.altered_replies

    @property
    def uncached_share(self) -> float:
        """The share of all characters of answered prompts that no earlier request began with, from 0 to 1."""
        return 1.0 - self.chars_cached / self.chars_sent if self.chars_sent else 0.0

    @property
    def shared_prefixes(self) -> Sequence[float]:
        """How much of the request before it each request shares, for those that continue a conversation."""
        return [one.shared_prefix for one in self.requests if one.shared_prefix is not None]

    def switch(self, *switches: ReplySwitch) -> None:
        """Let the next requests that pass the rules meet these, one each, in place of the script."""
        self._switches.extend(switches)

    async def __aenter__(self) -> Self:
        await self.wire.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.wire.__aexit__(kind, error, trace)

    def _receive(self, received: Received) -> Sent:
        path = received.path.partition("?")[0]
        wire = next((one for one in self.wires if one.takes(path)), None)
        if wire is None or received.method != "POST":
            return self._other(received, path)
        request = ProviderRequest(number=len(self.requests) + 1, path=received.path, headers=received.headers, body={})
        self.requests.append(request)
        try:
            self._authorise(received)
            request.body = _body_of(received)
            return self._answer(wire, wire.read(request))
        except RequestRefusal as refusal:
            request.refusal = refusal
            self.refusals.append(refusal)
            return self._refuse(wire, refusal)

    def _answer(self, wire: WireFormat, chat: ChatRequest) -> Sent:
        request = chat.source
        self._checker.check(wire, chat)
        tokens = TokenCount(prompt=token_count(request.chars), cached=request.cached_chars // 4)
        wire.check_window(chat, tokens.prompt)
        shown, tokens = wire.shown(chat, tokens)
        asked = Asked(number=len(self.asked) + 1, path=request.path, headers=request.headers, body=shown)
        if self._switches:
            reply = wire.switched(self._switches.popleft(), chat, lambda: self._play(asked))
        else:
            self.asked.append(asked)
            reply = self._play(asked)
        if isinstance(reply, Sent):
            return reply
        if reply.raw is not None:
            return reply.wire(asked)
        self.chars_sent += request.chars
        self.chars_cached += request.cached_chars
        return self._write(wire, chat, reply, tokens)

    def _write(self, wire: WireFormat, chat: ChatRequest, reply: Reply, tokens: TokenCount) -> Sent:
        seed = derive_id("reply", type(wire).__name__, str(chat.source.number), json.dumps(chat.native))
        if wire.thinks(chat):
            reply = replace(reply, thinking=thinking_of(reply, seed))
        spoken = (reply.text or "") + (reply.refusal or "") + "".join(name + text for name, text in reply.calls)
        told = replace(tokens, output=token_count(len(spoken)), thinking=len(reply.thinking) // 4)
        written = wire.write(chat, reply, told, seed)
        self._checker.keep(chat, written)
        if chat.stream:
            return replace(reply.sent, headers=EVENT_STREAM, body="".join(wire.stream(written)).encode())
        return replace(reply.sent, body=json.dumps(written.body, ensure_ascii=False).encode())

    def _play(self, asked: Asked) -> Reply:
        script = self.script
        if isinstance(script, Reply):
            return script
        return script(asked) if callable(script) else script[min(asked.number, len(script)) - 1]

    def _authorise(self, received: Received) -> None:
        told = (received.headers.get(name, "") for name in ("authorization", "x-api-key", "x-goog-api-key", "api-key"))
        if self.key is not None and self.key not in {one.removeprefix("Bearer ") for one in told}:
            raise RequestRefusal(
                rule="", status=401, kind="authentication_error", message="Incorrect API key.", code="invalid_api_key"
            )

    def _refuse(self, wire: WireFormat, refusal: RequestRefusal) -> Sent:
        if refusal.body is None:
            refusal.body = wire.error(refusal)
        return Sent(status=refusal.status, body=json.dumps(refusal.body, ensure_ascii=False).encode())

    def _other(self, received: Received, path: str) -> Sent:
        """Answer what is no request for a completion: list the models, or say that there is nothing."""
        listed = (
            [one for wire in self.wires if (one := wire.listing(path)) is not None] if received.method == "GET" else ()
        )
        if listed:
            return Sent(body=json.dumps(listed[0]).encode())
        missing = RequestRefusal(rule="", status=404, message=f"There is no {received.method} {path} here.")
        return self._refuse(self.wires[0], missing)


class DialectDouble(ProviderDouble):
    """A double whose wire formats need nothing but their class: ``forms``, one for each path."""

    forms: ClassVar[tuple[type[WireFormat], ...]] = ()

    def __init__(self, script: Script, *, key: str | None = None, clock: Clock | None = None) -> None:
        super().__init__(tuple(form() for form in self.forms), script, key=key, clock=clock)


def _body_of(received: Received) -> dict[str, Any]:
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
