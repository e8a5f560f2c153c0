"""Records of model calls: everything that determined the answer, and the answer.

Each message of a prompt is a separate document, serialised and hashed once.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from bot.core.beliefs import ModelUsage
from bot.core.errors import NotFoundError
from bot.core.identity_cache import IdentityCache
from bot.core.ids import sha256_hex
from bot.core.language_models import Message, ModelCompletion, Prompt, SamplingSettings, ToolDefinition
from bot.core.light_dataclass import dataclass
from bot.core.values import Json
from bot.store.documents import PackedDocument, pack_json, pack_written_json
from bot.store.evidence import NOT_STORED, DocumentStore, StoredBy
from bot.store.serialization import JsonSerializer


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseOptions:
    """What may come next in a conversation; see ``Prompt``."""

    tools: tuple[ToolDefinition, ...] = ()
    allowed: tuple[str, ...] = ()
    schema: Mapping[str, Json] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """Everything that determines an answer; ``messages`` and ``offer`` are digests of documents.

    ``place`` is where the model is served as the provider reports it, "" if it reports nothing. ``again`` counts
    earlier requests of the same content that returned an empty answer. ``Prompt.stable`` and ``cache_key``
    are not included: they change the cost of a repeated beginning, not the answer.
    """

    model: str
    messages: tuple[str, ...]
    offer: str
    sampling: SamplingSettings
    nth: int = 0
    place: str = ""
    again: int = 0

    @property
    def digest(self) -> str:
        """The key under which the same request is found again."""
        return sha256_hex(REQUEST_SERIALIZER.encode(self).encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """One answered call; it was charged to ``scope`` and ``trial``, and ``usage`` has its cost."""

    asked: RequestRecord
    role: str
    scope: str
    trial: int
    completion: ModelCompletion
    usage: ModelUsage


MESSAGE_SERIALIZER: JsonSerializer[Message] = JsonSerializer("message", Message)
OPTIONS_SERIALIZER: JsonSerializer[ResponseOptions] = JsonSerializer("offer", ResponseOptions)
REQUEST_SERIALIZER: JsonSerializer[RequestRecord] = JsonSerializer("request to a model", RequestRecord)
CALL_RECORD_SERIALIZER: JsonSerializer[CallRecord] = JsonSerializer("answer of a model", CallRecord)


async def load_prompt(asked: RequestRecord, documents: DocumentStore, *, scope: str) -> Prompt:
    """Return the prompt that a scope has recorded, word for word, without ``stable``.

    Raises NotFoundError and StoreError as documents do.
    """
    found = await documents.read_known((asked.offer, *asked.messages), scope=scope)
    if missing := {asked.offer, *asked.messages} - found.keys():
        message = f"the prompt is not on record any more: {', '.join(sorted(missing))}"
        raise NotFoundError(message)
    offer = OPTIONS_SERIALIZER.decode(found[asked.offer].content.decode())
    messages = [MESSAGE_SERIALIZER.decode(found[part].content.decode()) for part in asked.messages]
    return Prompt(messages=tuple(messages), tools=offer.tools, allowed=offer.allowed, schema=offer.schema)


# The cached messages have about this much text; others are hashed again.
MAX_CACHED_CHARS = 16_000_000
MAX_CACHED_OPTIONS = 256
BYTES_PER_TOKEN = 4


@dataclass(slots=True, kw_only=True)
class PromptDocument:
    """A message, or the response options, as a document.

    ``text`` is set until it is recorded, ``encode`` makes it again. ``stored`` says for whom it is recorded.
    """

    digest: str
    tokens: int
    encode: Callable[[], str]
    text: str | None
    stored: StoredBy = NOT_STORED

    def mark_recorded(self, scope: str, stored_under: str) -> None:
        """Note that a forecast has recorded it, under its own name or for all."""
        self.text = None
        self.stored = self.stored.after(scope, stored_under)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptDocuments:
    """A prompt in parts; ``tokens`` is estimated at four bytes of JSON per token, including all markup."""

    messages: tuple[PromptDocument, ...]
    options: PromptDocument

    @property
    def tokens(self) -> int:
        """About how many tokens the prompt has."""
        return self.options.tokens + sum([part.tokens for part in self.messages])

    def unsaved(self, scope: str) -> list[PromptDocument]:
        """Return the parts that a forecast has to record, each once."""
        parts = {part.digest: part for part in (*self.messages, self.options) if not part.stored.has_stored(scope)}
        return list(parts.values())


class PromptDocumentCache:
    """The documents of recent messages."""

    def __init__(self, *, chars: int = MAX_CACHED_CHARS) -> None:
        """Start empty, with room for about ``chars`` characters."""
        self._chars_left = chars
        # By identity, which a message that is kept cannot lose, and by value.
        self._by_message_id: dict[int, tuple[Message, PromptDocument]] = {}
        self._by_message: dict[Message, PromptDocument] = {}
        self._by_digest: OrderedDict[str, PromptDocument] = OrderedDict()
        self._by_identity: IdentityCache[PromptDocument] = IdentityCache(MAX_CACHED_OPTIONS)

    def prompt_documents(self, prompt: Prompt) -> PromptDocuments:
        """Return the parts of a prompt; raises MalformedDataError for one that cannot be written as JSON."""
        documents = self._by_message_id
        messages = [
            known[1] if (known := documents.get(id(message))) is not None else self._add_message(message)
            for message in prompt.messages
        ]
        return PromptDocuments(messages=tuple(messages), options=self._options_document(prompt))

    def _add_message(self, message: Message) -> PromptDocument:
        part = self._by_message.get(message)
        if part is None:
            part = self._by_message[message] = _make_document(partial(MESSAGE_SERIALIZER.encode, message))
        self._by_message_id[id(message)] = (message, part)
        self._chars_left -= _message_size(message)
        while self._chars_left < 0 and len(self._by_message_id) > 1:
            self._forget_oldest()
        return part

    def _forget_oldest(self) -> None:
        message, part = self._by_message_id.pop(next(iter(self._by_message_id)))
        self._chars_left += _message_size(message)
        # An equal message that is still known keeps its document; the next one gets another.
        if self._by_message.get(message) is part:
            del self._by_message[message]

    def _options_document(self, prompt: Prompt) -> PromptDocument:
        # Tools and schemas are the same objects in many prompts.
        return self._by_identity.find(
            (prompt.schema, *prompt.tools), lambda: self._shared_document(prompt), key=prompt.allowed
        )

    def _shared_document(self, prompt: Prompt) -> PromptDocument:
        offer = ResponseOptions(tools=prompt.tools, allowed=prompt.allowed, schema=prompt.schema)
        part = _make_document(partial(OPTIONS_SERIALIZER.encode, offer))
        known = self._by_digest.setdefault(part.digest, part)
        self._by_digest.move_to_end(part.digest)
        if len(self._by_digest) > MAX_CACHED_OPTIONS:
            self._by_digest.popitem(last=False)
        return known


async def pack_prompt_documents(parts: Sequence[PromptDocument]) -> list[PackedDocument]:
    """Return the parts ready to be written."""
    return [
        await (pack_json(part.encode()) if part.text is None else pack_written_json(part.text, part.digest))
        for part in parts
    ]


def _make_document(encode: Callable[[], str]) -> PromptDocument:
    text = encode()
    content = text.encode()
    tokens = math.ceil(len(content) / BYTES_PER_TOKEN)
    return PromptDocument(digest=sha256_hex(content), tokens=tokens, encode=encode, text=text)


def _message_size(message: Message) -> int:
    # The object and its entry have a size too.
    native = 0 if message.native is None else len(message.native.text)
    return 500 + len(message.text) + sum(len(call.arguments) for call in message.calls) + native
