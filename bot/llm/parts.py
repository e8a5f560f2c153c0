"""The parts of a prompt as documents: each message is written out and hashed once, however often it is sent again.

A step of a trial sends the whole conversation so far; what it costs here depends on the messages that are new.
"""

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from bot.domain.prompt import Message, Prompt
from bot.ids import digest
from bot.llm.record import MESSAGE, OFFER, Offer
from bot.store.documents import Documents
from bot.store.packing import packed

# The messages remembered hold about this much text; a forgotten one is hashed again.
REMEMBERED_CHARS = 16_000_000
REMEMBERED_OFFERS = 256
BYTES_PER_TOKEN = 4


@dataclass(slots=True, kw_only=True)
class Part:
    """A message, or the offer, as a document; ``text`` is there until it is on record."""

    digest: str
    tokens: int
    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A prompt, part by part; ``tokens`` is estimated at four bytes of JSON each, which includes all markup."""

    messages: tuple[Part, ...]
    offer: Part

    @property
    def tokens(self) -> int:
        """About how many tokens the prompt has."""
        return self.offer.tokens + sum(part.tokens for part in self.messages)

    @property
    def unkept(self) -> list[Part]:
        """The parts that are not known to be on record, each once."""
        return list({part.digest: part for part in (*self.messages, self.offer) if part.text is not None}.values())


class Memory:
    """The parts of messages seen lately."""

    def __init__(self, *, chars: int = REMEMBERED_CHARS) -> None:
        """Begin with nothing, to remember about so many characters."""
        self._room = chars
        self._parts: OrderedDict[Message, Part] = OrderedDict()
        self._offers: OrderedDict[str, Part] = OrderedDict()
        self._seen: OrderedDict[tuple[object, ...], tuple[Offer, Part]] = OrderedDict()

    def parts(self, prompt: Prompt) -> Parts:
        """Return the parts of a prompt; raises ContractError for one that JSON cannot say."""
        messages = tuple(self._message(message) for message in prompt.messages)
        return Parts(messages=messages, offer=self._offer(prompt))

    def _message(self, message: Message) -> Part:
        part = self._parts.get(message)
        if part is None:
            part = self._parts[message] = _part(MESSAGE.encode(message))
            self._room -= _chars(message)
            while self._room < 0 and len(self._parts) > 1:
                forgotten, _ = self._parts.popitem(last=False)
                self._room += _chars(forgotten)
        else:
            self._parts.move_to_end(message)
        return part

    def _offer(self, prompt: Prompt) -> Part:
        # Tools and schemas are made once and offered again and again: the same objects, and none of them changes. They
        # stay with their part, so that no others can come to have their identity.
        identity = (prompt.allowed, id(prompt.schema), *map(id, prompt.tools))
        if identity not in self._seen:
            offer = Offer(tools=prompt.tools, allowed=prompt.allowed, schema=prompt.schema)
            self._seen[identity] = (offer, self._written(offer))
            if len(self._seen) > REMEMBERED_OFFERS:
                self._seen.popitem(last=False)
        return self._seen[identity][1]

    def _written(self, offer: Offer) -> Part:
        part = _part(OFFER.encode(offer))
        known = self._offers.setdefault(part.digest, part)
        self._offers.move_to_end(part.digest)
        if len(self._offers) > REMEMBERED_OFFERS:
            self._offers.popitem(last=False)
        return known


async def keep(parts: Sequence[Part], documents: Documents) -> None:
    """Put parts on record, all in one write."""
    found = [await packed(part.text) for part in parts if part.text is not None]
    if found:
        await documents.put_packed(found)
    for part in parts:
        part.text = None


def _part(text: str) -> Part:
    content = text.encode()
    return Part(digest=digest(content), tokens=math.ceil(len(content) / BYTES_PER_TOKEN), text=text)


def _chars(message: Message) -> int:
    # The object itself and its entry weigh something too.
    native = 0 if message.native is None else len(message.native.text)
    return 500 + len(message.text) + sum(len(call.arguments) for call in message.calls) + native
