"""What is kept of a call: everything that decided the answer, and the answer itself.

Messages are documents of their own, named by digest, so that ten growing conversations take the room of one; the digest
of a request is that of the digests it is made of.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from bot.domain.prompt import Completion, Message, Prompt, Sampling, Tool
from bot.domain.step import Json, Usage
from bot.ids import digest
from bot.store.codec import Form
from bot.store.documents import Documents


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What may come next in a conversation; see ``Prompt``."""

    tools: tuple[Tool, ...] = ()
    allowed: tuple[str, ...] = ()
    schema: Mapping[str, Json] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Everything that decides an answer; ``messages`` and ``offer`` are digests of documents.

    ``place`` is what the provider says of where the model is served, "" where it says nothing. ``again`` counts how
    often the same was asked before and came back empty. ``Prompt.stable`` and ``cache_key`` are not part of it: they
    change what a repeated beginning costs, not what is answered.
    """

    model: str
    messages: tuple[str, ...]
    offer: str
    sampling: Sampling
    nth: int = 0
    place: str = ""
    again: int = 0

    @property
    def digest(self) -> str:
        """The name under which the same request is found again."""
        return digest(ASKED.encode(self).encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One call that was answered. ``scope`` and ``trial`` tell whom it was charged to, ``usage`` what it cost."""

    asked: Asked
    role: str
    scope: str
    trial: int
    completion: Completion
    usage: Usage


MESSAGE: Form[Message] = Form("message", Message)
OFFER: Form[Offer] = Form("offer", Offer)
ASKED: Form[Asked] = Form("request to a model", Asked)
RECORD: Form[Record] = Form("answer of a model", Record)


async def prompt_of(asked: Asked, documents: Documents) -> Prompt:
    """Return what was asked, word for word, without ``stable``; raises NotFound and StoreError as documents do."""
    offer = OFFER.decode((await documents.get(asked.offer)).content.decode())
    messages = [MESSAGE.decode((await documents.get(part)).content.decode()) for part in asked.messages]
    return Prompt(messages=tuple(messages), tools=offer.tools, allowed=offer.allowed, schema=offer.schema)
