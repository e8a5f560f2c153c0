"""The writing half: limit orders, signed by another process, stored, and posted once; nothing else is ever sent.

Before an order is signed the owner must have attested and the region be open, the market take orders under the terms
that it was forecast under, and the book of that moment take price and size. The secure client of the venue is never
made: it would make keys, deploy wallets and set allowances by itself. What an answer does not prove is unknown: the
order is cancelled by its hash, its market takes no other of ours, and open orders and trades tell what became of it.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

import structlog

from bot.api import (
    Account,
    Batch,
    ContractError,
    FoxcastError,
    Instead,
    Intent,
    IntentAction,
    IntentState,
    Json,
    NotFound,
    Outcome,
    Position,
    Question,
    Receipt,
    Rejected,
    Reply,
    Sealed,
    Side,
    Submitter,
    Unauthorized,
    Unavailable,
    Verdict,
    Who,
    WriterPlace,
    after_colon,
    describe_changes,
    json_of,
    said_in,
)
from plugins.polymarket.account import Holdings
from plugins.polymarket.account_keys import MAX_BYTES, Maker, Session
from plugins.polymarket.check import require_permitted
from plugins.polymarket.client import Client
from plugins.polymarket.orders import (
    CONFIRMED,
    DEADLINE_S,
    FAILED,
    Part,
    fills_of,
    is_late,
    made_at,
    posted,
    sealed_of,
    unsigned_of,
)
from plugins.polymarket.paper_market import share_payout
from plugins.polymarket.parse import contracts_of
from plugins.polymarket.raw import list_of, text_of
from plugins.polymarket.settings import PolymarketSettings
from plugins.polymarket.signer_process import Signer, signer_of
from plugins.polymarket.terms import Terms
from plugins.polymarket.venue import PolymarketVenue
from plugins.polymarket.writer_taken import Taken
from plugins.polymarket.writer_verdict import verdict_of

log = structlog.get_logger(__name__)

# The region is asked for again after so long.
REGION_S = 300.0
# Trades are listed from so long before a request was made: the clock that made it may have been far ahead.
LOOK_BACK = timedelta(days=1)
_CLOSE = 0.01
_MOST_CANCELS = 3_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """One intent whose order is one of this venue."""

    intent: Intent
    terms: Terms
    sealed: Sealed


class PolymarketWriter:
    """Implements the port Trader. Once the account itself was refused nothing more is sealed, until opened again."""

    def __init__(self, settings: PolymarketSettings, place: WriterPlace, signer: Signer) -> None:
        self._settings = settings
        self._clock = place.clock
        self._http = place.http
        self._wire = place.wire
        self._client = Client(settings, place.http)
        self._reader = PolymarketVenue(settings, place)
        maker = Maker(wire=place.wire, permit=self._permitted)
        self._session = Session(settings, place.clock, http=place.http, signer=signer, maker=maker)
        self._holdings = Holdings(settings, place.clock, self._client, self._session)
        self._signer = signer
        # Where the wire says that it sends nothing, nothing is signed either: a signature counts, and lasts for ever.
        self._is_look = getattr(place.wire, "sends", True) is False
        self._folder = place.folder
        self._taken = Taken(place.folder)
        self._turn = asyncio.Lock()
        self._permitted_s: float | None = None
        self._stopped = ""
        # Markets with orders in doubt, by their hashes.
        self._uncertain: dict[str, set[str]] = {}

    async def seal(self, batch: Batch) -> Sequence[Sealed]:
        """Return the signed requests of all intents that may be written now.

        One that may not is left out; raises Rejected, with the reasons, where that holds for all, Unauthorized once the
        account was refused or where it may not trade, and as reading and the signer do.
        """
        if self._stopped:
            raise Unauthorized(self._stopped)
        if batch.intents:
            await self._permitted()
        sealed: list[Sealed] = []
        reasons: list[str] = []
        for intent in batch.intents:
            try:
                sealed.append(await self._sealed(intent, batch))
            except Rejected as error:
                log.info("not sealed", intent=intent.id, question=str(intent.ref), why=str(error))
                reasons.append(str(error))
        if reasons and not sealed:
            raise Rejected("; ".join(dict.fromkeys(reasons)))
        return tuple(sealed)

    async def submit(self, batch: Batch) -> Sequence[Receipt]:
        """Post each request once, one after the other; after one without an answer the rest is not begun."""
        sealed = {one.intent: one for one in batch.sealed}
        receipts = []
        broken = ""
        for intent in batch.intents:
            if intent.id not in sealed or intent.order is None:
                receipt = _receipt(intent, IntentState.REFUSED, "it has no order, or no sealed request")
            elif broken:
                receipt = _receipt(intent, IntentState.ABSENT, f"not begun after {broken}")
            else:
                async with self._turn:
                    wanted = _Wanted(intent=intent, terms=Terms.of(intent.order), sealed=sealed[intent.id])
                    receipt = await self._write(wanted)
                broken = receipt.detail if receipt.state is IntentState.UNKNOWN else ""
            receipts.append(receipt)
        return tuple(receipts)

    async def standing(self, batch: Batch) -> Sequence[Receipt]:
        """Read back; what cannot be read is unknown. Raises Unauthorized."""
        receipts = []
        for intent in batch.intents:
            sealed = [one for one in batch.sealed if one.intent == intent.id]
            try:
                receipts.append(await self._read_back(intent, sealed))
            except Unauthorized:
                raise
            except FoxcastError as error:
                receipts.append(_receipt(intent, IntentState.UNKNOWN, f"cannot be read: {error}"))
        return tuple(receipts)

    def pays(self, position: Position, outcome: Outcome, state: str) -> float | Instead:
        """Return what a share pays."""
        return share_payout(position, outcome, self._folder)

    async def account(self) -> Account:
        """Return what the account has now."""
        return await self._holdings.account()

    async def cancel(self, order_ids: Sequence[str] | None) -> Sequence[str]:
        """Cancel orders, all that rest for None, whatever else is stopped; return those that rest no more."""
        async with self._turn:
            if order_ids is None:
                ended = await self._cancelled("cancel-all", None)
            else:
                parts = [list(order_ids[at : at + _MOST_CANCELS]) for at in range(0, len(order_ids), _MOST_CANCELS)]
                for part in parts:
                    await self._cancelled("orders", [*part])
                ended = list(order_ids)
            left = {text_of(row.get("id")) for row in await self._holdings.open_orders()} if ended else set()
        return tuple(name for name in dict.fromkeys(ended) if name not in left)

    # Before the wire

    async def _permitted(self) -> None:
        now_s = self._clock.monotonic()
        if self._permitted_s is None or now_s - self._permitted_s >= REGION_S:
            await require_permitted(self._settings, self._http)
            self._permitted_s = now_s

    async def _sealed(self, intent: Intent, batch: Batch) -> Sealed:
        order = intent.order
        question = next((one for one in batch.questions if one.ref == intent.ref), None)
        if intent.action is not IntentAction.ORDER or order is None or question is None:
            message = f"{intent.ref}: this venue takes orders on questions that are known, no {intent.action}"
            raise Rejected(message)
        terms = Terms.of(order)
        if self._uncertain.get(terms.contract.market):
            message = f"{intent.ref}: an earlier order on its market is uncertain; it waits until that is known"
            raise Unavailable(message)
        if terms.side is Side.BUY and float(terms.price * terms.size) > order.cost + _CLOSE:
            message = f"{intent.ref}: {terms.size} shares at {terms.price} may cost more than {order.cost:g} dollars"
            raise Rejected(message)
        reading = await self._read_again(terms, question, option=order.option)
        if intent.rests_on_forecast and describe_changes(question, reading):
            return Sealed.unwritten(intent, reading)
        if contracts_of(reading).get(order.option) != terms.contract:
            message = f"{intent.ref}: tokens, fees or delay of its market have changed since it was forecast"
            raise Rejected(message)
        await self._require_book(terms)
        asked = unsigned_of(intent, terms, now=self._clock.now())
        signed = await self._signer.order(asked, is_look=self._is_look)
        self._holdings.know(terms.contract)
        return replace(sealed_of(intent, asked, signed, wallet=self._settings.wallet), question=reading)

    async def _read_again(self, terms: Terms, question: Question, *, option: str) -> Question:
        """Return the question as it is now; raises Rejected for a market that takes no orders."""
        if contracts_of(question).get(option) != terms.contract:
            message = f"{question.ref}: the order is on another contract than its question"
            raise Rejected(message)
        try:
            return await self._reader.find(question.ref.key)
        except NotFound as error:
            message = f"{question.ref}: its market is not there any more"
            raise Rejected(message) from error

    async def _require_book(self, terms: Terms) -> None:
        book = await self._client.book(terms.token)
        if book is None:
            message = f"market {terms.contract.market} has no book now"
            raise Rejected(message)
        if why := terms.refusal(tick=book.tick, min_size=book.min_size):
            message = f"market {terms.contract.market}: {why}"
            raise Rejected(message)

    # On the wire

    async def _write(self, wanted: _Wanted) -> Receipt:
        intent, sealed = wanted.intent, wanted.sealed
        try:
            if wanted.terms.cancel:
                await self._cancelled("orders", [*wanted.terms.cancel])
            owner = (await self._session.credentials()).key
            request = await self._session.request("POST", "order", posted(sealed, owner))
        except FoxcastError as error:
            return _receipt(intent, IntentState.ABSENT, f"nothing was written: {error}")
        if is_late(sealed, self._clock.now()):
            return _receipt(intent, IntentState.ABSENT, "sealed too long ago")
        try:
            reply = await self._wire.send(request, max_bytes=MAX_BYTES, deadline_s=DEADLINE_S)
        except Rejected as error:
            return _receipt(intent, IntentState.ABSENT, str(error))
        except (Unavailable, ContractError) as error:
            return await self._doubted(wanted, str(error))
        return await self._judged(wanted, reply)

    async def _judged(self, wanted: _Wanted, reply: Reply) -> Receipt:
        intent, sealed = wanted.intent, wanted.sealed
        verdict = verdict_of(reply)
        self._note(verdict, sealed)
        if verdict.state is IntentState.UNKNOWN:
            return await self._doubted(wanted, verdict.detail)
        if verdict.state is not IntentState.ACKED:
            return _receipt(intent, verdict.state, verdict.detail)
        named = text_of(said_in(reply).get("orderID"))
        if named.lower() != sealed.tag.lower():
            return await self._doubted(wanted, f"taken as {named}, which is not what was sent")
        return await self._read_at_once(intent, sealed, verdict.detail)

    async def _read_at_once(self, intent: Intent, sealed: Sealed, status: str) -> Receipt:
        """Return that an order was taken, with what is known of its fills by now."""
        await self._taken.add(sealed.tag)
        taken = _receipt(intent, IntentState.ACKED, status, reference=sealed.tag)
        if status in {"live", "delayed"}:
            return taken
        try:
            found = await self._read_back(intent, [sealed])
        except FoxcastError as error:
            log.warning("fills are not read yet", intent=intent.id, error=str(error))
            return taken
        return replace(found, detail=f"{status}: {found.detail}") if found.state is IntentState.ACKED else taken

    async def _doubted(self, wanted: _Wanted, why: str) -> Receipt:
        """Cancel what may be there by its hash, and let nothing else go to its market before it is known."""
        intent, sealed = wanted.intent, wanted.sealed
        self._uncertain.setdefault(wanted.terms.contract.market, set()).add(sealed.tag)
        log.warning("an order is in doubt", intent=intent.id, order=sealed.tag, why=why)
        try:
            ended = await self._cancelled("order", {"orderID": sealed.tag})
            if sealed.tag in ended:
                # What was cancelled was there; of what was matched before, the trades tell.
                self._known(wanted.terms.contract.market, [sealed.tag])
                return await self._read_at_once(intent, sealed, f"cancelled, as no answer came ({why})")
        except FoxcastError as error:
            log.warning("it cannot be cancelled either", order=sealed.tag, error=str(error))
        return _receipt(intent, IntentState.UNKNOWN, why)

    async def _cancelled(self, path: str, body: Json) -> list[str]:
        """Ask to cancel; return the orders that the venue says it did. Raises as the wire, and for refusals."""
        text = None if body is None else json.dumps(body, separators=(",", ":"))
        request = replace(await self._session.request("DELETE", path, text), takes_back=True)
        reply = await self._wire.send(request, max_bytes=MAX_BYTES, deadline_s=DEADLINE_S)
        if reply.status == 200:
            said = said_in(reply)
            ended = [str(name) for name in list_of(said.get("canceled")) or ()]
            log.info("cancelled", venue="polymarket", orders=ended, left=said.get("not_canceled"))
            return ended
        message = f"cancelling: {reply.status}{after_colon(said_in(reply).get('error') or json_of(reply))}"
        raise (Unauthorized if reply.status in {401, 403} else Unavailable)(message)

    def _note(self, verdict: Verdict, sealed: Sealed) -> None:
        if verdict.who is Who.OPERATOR:
            self._stopped = f"the account was refused ({verdict.detail}); mend that, then start again"
            log.error("nothing more is sent until the next start", venue="polymarket", detail=verdict.detail)
        elif verdict.who is Who.DEVELOPER:
            log.error("a request was at fault", order=sealed.tag, body=sealed.body[:2000], detail=verdict.detail)

    # After the wire

    async def _read_back(self, intent: Intent, sealed: Sequence[Sealed]) -> Receipt:
        if intent.order is None or not sealed:
            return _receipt(intent, IntentState.ABSENT, "nothing was sealed for it")
        market = intent.order.contract
        tags = {one.tag.lower() for one in sealed}
        asked_at = self._clock.now()
        # Orders first: what is matched between the two readings is then in the second.
        resting = [row for row in await self._holdings.open_orders(market) if text_of(row.get("id")).lower() in tags]
        since = min(made_at(one) for one in sealed) - LOOK_BACK
        listed = await self._holdings.parts({"market": market, "after": int(since.timestamp())})
        parts = [part for part in listed if part.order in tags]
        fence = max((one.fence for one in sealed if one.fence is not None), default=asked_at)
        if not resting and not parts:
            if asked_at >= fence:
                self._known(market, tags)
            if (ended := await self._taken.any_of(tags)) is not None:
                return _receipt(intent, IntentState.ACKED, "it rests no more, without a trade", reference=ended)
            return _receipt(intent, IntentState.ABSENT, "no such order or trade is listed")
        if asked_at >= fence and (open_parts := [part for part in parts if not part.is_over]):
            return _receipt(intent, IntentState.UNKNOWN, f"{len(open_parts)} trades are not settled yet")
        self._known(market, tags)
        names = [*(text_of(row.get("id")) for row in resting), *(part.order for part in parts)]
        for name in dict.fromkeys(names):
            await self._taken.add(name)
        fills = fills_of(parts, await self._holdings.fees(market))
        detail = _told(parts, rests=bool(resting))
        return Receipt(intent=intent.id, state=IntentState.ACKED, reference=names[0], detail=detail, fills=fills)

    def _known(self, market: str, tags: Iterable[str]) -> None:
        left = {tag for tag in self._uncertain.get(market, set()) if tag.lower() not in set(tags)}
        self._uncertain[market] = left


@asynccontextmanager
async def open_writer(settings: PolymarketSettings, place: WriterPlace) -> AsyncIterator[Submitter]:
    """Open the live writer; its signer is started when it is first needed, and ends with it."""
    signer = signer_of(settings, place.folder)
    try:
        yield PolymarketWriter(settings, place, signer)
    finally:
        await signer.aclose()


def _told(parts: Sequence[Part], *, rests: bool) -> str:
    """Say how an order stands: what is confirmed, what settles, what failed on chain."""
    confirmed = [part for part in parts if part.status == CONFIRMED]
    failed = sum(part.status == FAILED for part in parts)
    settling = len(parts) - len(confirmed) - failed
    said = [f"{sum(part.shares for part in confirmed):f} shares" if confirmed else "no shares yet"]
    said += [f"{settling} trades settle"] if settling else []
    said += [f"{failed} trades failed on chain"] if failed else []
    return ", ".join([*said, "it rests"] if rests else said)


def _receipt(intent: Intent, state: IntentState, detail: str = "", *, reference: str = "") -> Receipt:
    return Receipt(intent=intent.id, state=state, reference=reference, detail=detail)
