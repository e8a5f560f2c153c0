"""One request of a call, and its reply: sent as our own body, read by us, in whatever form the model speaks.

Both providers of this folder send through here, over the workplace's HTTP: bounded in bytes and time, never repeated by
itself. Where a provider refuses a message that went back to it, the call is sent once more without it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

import structlog

from bot.api import Completion, FoxcastError, Http, Json, Price, Rejected, Usage
from plugins.models._chat_reply import read_chat
from plugins.models._faults import StateRefused, as_rejected, translated
from plugins.models._profiles import WireFormat
from plugins.models._wire_call import MAX_REPLY_BYTES, WireCall, WireReply, merged_body
from plugins.models._wire_chat import chat_body
from plugins.models._wire_gemini import gemini_body, read_gemini
from plugins.models._wire_messages import messages_body, read_messages
from plugins.models._wire_responses import read_responses, responses_body

log = structlog.get_logger(__name__)

Send = Callable[[WireCall], Awaitable[WireReply]]
_FORMS: Mapping[WireFormat, tuple[Callable[[WireCall], dict[str, Json]], Callable[[bytes, WireCall], WireReply]]] = {
    WireFormat.CHAT: (chat_body, read_chat),
    WireFormat.RESPONSES: (responses_body, read_responses),
    WireFormat.MESSAGES: (messages_body, read_messages),
    WireFormat.GEMINI: (gemini_body, read_gemini),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WireEndpoint:
    """Where calls go: ``body`` is what config adds to each, ``deadline_s`` how long one may take."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    deadline_s: float
    body: Mapping[str, Json] = field(default_factory=dict)

    async def send(self, call: WireCall, http: Http) -> WireReply:
        """Send a call once and return what came; raises what a provider may raise, and StateRefused."""
        form, read = _FORMS[call.profile.wire]
        body = merged_body(form(call), self.body)
        try:
            raw = await http.post(
                self.url, body, max_bytes=MAX_REPLY_BYTES, headers=self.headers, deadline_s=self.deadline_s
            )
        except FoxcastError as error:
            raise translated(error, shown=call.shown, remedy=call.remedy) from error
        return read(raw, call)


async def exchanged(call: WireCall, send: Send, *, hint: str = "") -> WireReply:
    """Return the reply to a call, which is sent once more without signed and encrypted parts where those are refused.

    What the model said before is then built anew from its words and calls, which all families take; it thinks afresh.
    ``hint`` is what else a person could do. Raises Rejected where that is refused as well.
    """
    try:
        return await send(call)
    except StateRefused as error:
        if not call.carries_state:
            raise _reported(error, hint) from error
        log.warning(
            "a message went back and was refused; asking once more without its signed parts",
            model=call.shown,
            why=str(error),
        )
    try:
        return await send(call.plain())
    except StateRefused as error:
        raise _reported(error, hint) from error


def _reported(error: StateRefused, hint: str) -> Rejected:
    return as_rejected(error, hint) if error.sure else Rejected(str(error))


def priced(reply: WireReply, price: Price | None) -> Completion:
    """Return the completion with its cost, where the provider named none and a price is known."""
    completion = reply.completion
    if completion.cost_usd is not None or price is None:
        return completion
    return replace(completion, cost_usd=cost_of(price, completion.usage, reply.written))


def cost_of(price: Price, usage: Usage, written: int) -> float:
    """Return the cost in US dollars; of the tokens that came in, ``written`` went into the provider's cache."""
    tier = price
    if price.long is not None and price.long_from is not None and usage.tokens_in > price.long_from:
        tier = price.long
    extra = 0.0 if tier.tokens_written is None else max(0.0, tier.tokens_written - tier.tokens_in)
    return price.of(usage) + written * extra / 1e6
