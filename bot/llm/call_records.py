"""Records of model calls: everything that determined the answer, and the answer.

Each message of a prompt is a separate document, serialised and hashed once.
"""

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from bot.core.beliefs import ModelUsage
from bot.core.errors import NotFoundError
from bot.core.identity_cache import IdentityCache, WeakIdentityCache
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


# Messages that may come again in other conversations have about this much text; others are hashed again.
MAX_SHARED_CHARS = 2_000_000
MAX_CACHED_OPTIONS = 256
BYTES_PER_TOKEN = 4


@dataclass(slots=True, kw_only=True)
class PromptDocument:
    """A message, or the response options, as a document.

    ``text`` is set until it is recorded. ``stored`` says for whom it is recorded.
    """

    digest: str
    tokens: int
    text: str | None
    stored: StoredBy = NOT_STORED

    def mark_recorded(self, scope: str, stored_under: str) -> None:
        """Note that a forecast has recorded it, under its own name or for all."""
        self.text = None
        self.stored = self.stored.after(scope, stored_under)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptDocuments:
    """A prompt in parts; ``tokens`` is estimated at four bytes of JSON per token, including all markup."""

    prompt: Prompt
    messages: tuple[PromptDocument, ...]
    options: PromptDocument

    @property
    def tokens(self) -> int:
        """About how many tokens the prompt has."""
        return self.options.tokens + sum([part.tokens for part in self.messages])

    def unsaved(self, scope: str) -> list[tuple[PromptDocument, Message | ResponseOptions]]:
        """Return the parts that a forecast has to record, each once, and what they are made of."""
        parts: dict[str, tuple[PromptDocument, Message | ResponseOptions]] = {
            part.digest: (part, message)
            for part, message in zip(self.messages, self.prompt.messages, strict=True)
            if not part.stored.has_stored(scope)
        }
        if not self.options.stored.has_stored(scope):
            parts[self.options.digest] = self.options, _response_options(self.prompt)
        return list(parts.values())


class PromptDocumentCache:
    """The documents of the messages of all conversations under way, and of some that may come again in others."""

    def __init__(self, *, chars: int = MAX_SHARED_CHARS) -> None:
        """Start empty, with room for about ``chars`` characters that may come again."""
        self._chars_left = chars
        self._by_identity: WeakIdentityCache[Message, PromptDocument] = WeakIdentityCache()
        self._by_message: OrderedDict[Message, PromptDocument] = OrderedDict()
        self._by_digest: OrderedDict[str, PromptDocument] = OrderedDict()
        self._options: IdentityCache[PromptDocument] = IdentityCache(MAX_CACHED_OPTIONS)

    def prompt_documents(self, prompt: Prompt) -> PromptDocuments:
        """Return the parts of a prompt; raises MalformedDataError for one that cannot be written as JSON."""
        find = self._by_identity.find
        messages = [find(message, self._find_equal) for message in prompt.messages]
        return PromptDocuments(prompt=prompt, messages=tuple(messages), options=self._options_document(prompt))

    def _find_equal(self, message: Message) -> PromptDocument:
        """Return the document of an equal message, or a new one."""
        known = self._by_message
        if (part := known.get(message)) is not None:
            known.move_to_end(message)
            return part
        part = known[message] = _make_document(MESSAGE_SERIALIZER.encode(message))
        self._chars_left -= _message_size(message)
        while self._chars_left < 0 and len(known) > 1:
            self._chars_left += _message_size(known.popitem(last=False)[0])
        return part

    def _options_document(self, prompt: Prompt) -> PromptDocument:
        # Tools and schemas are the same objects in many prompts.
        return self._options.find(
            (prompt.schema, *prompt.tools), lambda: self._shared_document(prompt), key=prompt.allowed
        )

    def _shared_document(self, prompt: Prompt) -> PromptDocument:
        part = _make_document(OPTIONS_SERIALIZER.encode(_response_options(prompt)))
        known = self._by_digest.setdefault(part.digest, part)
        self._by_digest.move_to_end(part.digest)
        if len(self._by_digest) > MAX_CACHED_OPTIONS:
            self._by_digest.popitem(last=False)
        return known


async def pack_prompt_documents(
    parts: Sequence[tuple[PromptDocument, Message | ResponseOptions]],
) -> list[PackedDocument]:
    """Return the parts ready to be written."""
    return [
        await (pack_json(_encode(source)) if part.text is None else pack_written_json(part.text, part.digest))
        for part, source in parts
    ]


def _response_options(prompt: Prompt) -> ResponseOptions:
    return ResponseOptions(tools=prompt.tools, allowed=prompt.allowed, schema=prompt.schema)


def _encode(source: Message | ResponseOptions) -> str:
    return MESSAGE_SERIALIZER.encode(source) if isinstance(source, Message) else OPTIONS_SERIALIZER.encode(source)


def _make_document(text: str) -> PromptDocument:
    content = text.encode()
    tokens = math.ceil(len(content) / BYTES_PER_TOKEN)
    return PromptDocument(digest=sha256_hex(content), tokens=tokens, text=text)


def _message_size(message: Message) -> int:
    # The object and its entry have a size too.
    native = 0 if message.native is None else len(message.native.text)
    return 500 + len(message.text) + sum(len(call.arguments) for call in message.calls) + native
