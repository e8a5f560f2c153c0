"""Writes limit orders: signed by another process, recorded, and posted once; nothing else is ever sent.

Before an order is signed the owner must have attested, the region must be allowed, the market must accept orders under
the terms of the forecast, and the current book must allow price and size. The venue's secure client is never created:
it would create keys, deploy wallets and set allowances by itself. Without proof in the response an order is unknown: it
is cancelled by its hash, its market gets no other order of ours, and open orders and trades show its outcome.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from bot.api import (
    Account,
    AccountRefusal,
    AuthenticationError,
    FoxcastError,
    HttpResponse,
    Intent,
    IntentAction,
    IntentState,
    Json,
    ListedWrite,
    NotFoundError,
    OrderSide,
    Outcome,
    Position,
    Question,
    RequestRejectedError,
    SealedRequest,
    ServiceUnavailableError,
    SubmissionBatch,
    UnpaidOutcome,
    VenueSubmitter,
    VenueWriterContext,
    WriteReceipt,
    WriteVerdict,
    detail_suffix,
    read_in_turn,
    report_changed_question,
    response_fields,
    response_json,
    seal_in_turn,
    send_once,
    write_in_turn,
    write_receipt,
)
from plugins.polymarket.accepted_orders import AcceptedOrders
from plugins.polymarket.account import PolymarketAccountReader
from plugins.polymarket.account_check import require_trading_allowed
from plugins.polymarket.api_client import PolymarketClient
from plugins.polymarket.exchange_session import MAX_RESPONSE_BYTES, ApiKeyCreator, ExchangeSession
from plugins.polymarket.json_values import parse_list, parse_text
from plugins.polymarket.market_parser import question_contracts
from plugins.polymarket.order_terms import PolymarketOrderTerms
from plugins.polymarket.paper_market import share_payout
from plugins.polymarket.reader import PolymarketReader
from plugins.polymarket.settings import PolymarketSettings
from plugins.polymarket.signer_client import SignerClient, create_signer
from plugins.polymarket.write_requests import (
    CONFIRMED,
    FAILED,
    UNAUTHORIZED,
    WRITE_DEADLINE_S,
    OrderMatch,
    build_unsigned_order,
    confirmed_fills,
    is_too_late,
    request_body,
    request_time,
    seal_signed_order,
    write_verdict,
)

log = structlog.get_logger(__name__)

# The region is checked again after this time.
REGION_CHECK_INTERVAL_S = 300.0
# Trades are listed from this long before a request was made: the clock may have been far ahead then.
TRADE_HISTORY = timedelta(days=1)
_COST_TOLERANCE = 1e-6
_MAX_CANCELS_PER_REQUEST = 3_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _WriteTask:
    """One intent with its order terms and sealed request."""

    intent: Intent
    terms: PolymarketOrderTerms
    sealed: SealedRequest


class PolymarketWriter:
    """Implements ``TradingSubmitter``. Once the account was refused nothing is sealed until the writer is reopened."""

    def __init__(self, settings: PolymarketSettings, context: VenueWriterContext, signer: SignerClient) -> None:
        self._settings = settings
        self._clock = context.clock
        self._http = context.http
        self._write_client = context.wire
        self._client = PolymarketClient(settings, context.http)
        self._reader = PolymarketReader(settings, context)
        maker = ApiKeyCreator(write_client=context.wire, require_permitted=self._require_permitted)
        self._session = ExchangeSession(settings, context.clock, http=context.http, signer=signer, maker=maker)
        self._account_reader = PolymarketAccountReader(settings, context.clock, self._client, self._session)
        self._signer = signer
        # If the client sends nothing, nothing is signed either: a signature counts for the cap and never expires.
        self._is_dry_run = getattr(context.wire, "sends", True) is False
        self._folder = context.folder
        self._accepted_orders = AcceptedOrders(context.folder)
        self._write_lock = asyncio.Lock()
        self._permitted_at_s: float | None = None
        self._refusal = AccountRefusal(venue="polymarket", remedy="correct that, then start again")
        # Hashes of unknown orders by market.
        self._uncertain: dict[str, set[str]] = {}

    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        """Return the signed requests of all intents that may be written now.

        Others are left out. Raises RequestRejectedError, with reasons, if all are, AuthenticationError once the account
        was refused or if it may not trade, and the errors of reading and the signer.
        """
        self._refusal.require_accepted()
        if batch.intents:
            await self._require_permitted()
        return await seal_in_turn(batch, self._seal_intent)

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        """Post each request once, one after the other; after one without an answer the rest is not begun."""
        return await write_in_turn(batch, self._write_intent)

    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        """Read back; what cannot be read is unknown. Raises AuthenticationError."""
        return await read_in_turn(batch, self._read_back)

    def payout_per_share(self, position: Position, outcome: Outcome, state: str) -> float | UnpaidOutcome:
        """Return what a share pays."""
        return share_payout(position, outcome, self._folder)

    async def account(self) -> Account:
        """Return the account as it is now."""
        return await self._account_reader.read_account()

    async def list_writes(self, since: datetime) -> Sequence[ListedWrite]:
        """Return the resting and the traded orders of the wallet; the venue forgets all others."""
        return await self._account_reader.list_orders(since)

    async def cancel(self, order_ids: Sequence[str] | None) -> Sequence[str]:
        """Cancel orders (None: all resting ones), even while halted; return those that no longer rest."""
        async with self._write_lock:
            if order_ids is None:
                ended = await self._cancel_orders("cancel-all", None)
            else:
                parts = [
                    list(order_ids[at : at + _MAX_CANCELS_PER_REQUEST])
                    for at in range(0, len(order_ids), _MAX_CANCELS_PER_REQUEST)
                ]
                for part in parts:
                    await self._cancel_orders("orders", [*part])
                ended = list(order_ids)
            remaining = (
                {parse_text(row.get("id")) for row in await self._account_reader.open_orders()} if ended else set()
            )
        return tuple(name for name in dict.fromkeys(ended) if name not in remaining)

    # Before sending

    async def _require_permitted(self) -> None:
        now_s = self._clock.monotonic()
        if self._permitted_at_s is None or now_s - self._permitted_at_s >= REGION_CHECK_INTERVAL_S:
            await require_trading_allowed(self._settings, self._http)
            self._permitted_at_s = now_s

    async def _seal_intent(self, intent: Intent, question: Question | None) -> SealedRequest:
        order = intent.order
        if intent.action is not IntentAction.ORDER or order is None or question is None:
            message = f"{intent.ref}: this venue accepts orders on known questions, not {intent.action}"
            raise RequestRejectedError(message)
        terms = PolymarketOrderTerms.from_order(order)
        if self._uncertain.get(terms.contract.market):
            message = f"{intent.ref}: an earlier order on its market is unknown; it waits until that is read back"
            raise ServiceUnavailableError(message)
        if terms.side is OrderSide.BUY and float(terms.price * terms.size) > order.cost + _COST_TOLERANCE:
            message = f"{intent.ref}: {terms.size} shares at {terms.price} may cost more than {order.cost:g} dollars"
            raise RequestRejectedError(message)
        reading = await self._reread_question(terms, question, option=order.option)
        if (changed := report_changed_question(intent, question, reading)) is not None:
            return changed
        if question_contracts(reading).get(order.option) != terms.contract:
            message = f"{intent.ref}: tokens, fees or delay of its market have changed since it was forecast"
            raise RequestRejectedError(message)
        await self._require_book(terms)
        unsigned = build_unsigned_order(intent, terms, now=self._clock.now())
        signed = await self._signer.sign_order(unsigned, is_dry_run=self._is_dry_run)
        self._account_reader.remember_contract(terms.contract)
        return replace(seal_signed_order(intent, unsigned, signed, wallet=self._settings.wallet), question=reading)

    async def _reread_question(self, terms: PolymarketOrderTerms, question: Question, *, option: str) -> Question:
        """Return the question as it is now; raises RequestRejectedError if its market accepts no orders."""
        if question_contracts(question).get(option) != terms.contract:
            message = f"{question.ref}: the order is on another contract than its question"
            raise RequestRejectedError(message)
        try:
            return await self._reader.find_question(question.ref.key)
        except NotFoundError as error:
            message = f"{question.ref}: its market no longer exists"
            raise RequestRejectedError(message) from error

    async def _require_book(self, terms: PolymarketOrderTerms) -> None:
        book = await self._client.book(terms.token)
        if book is None:
            message = f"market {terms.contract.market} has no book now"
            raise RequestRejectedError(message)
        if why := terms.refusal_reason(tick=book.tick, min_size=book.min_size):
            message = f"market {terms.contract.market}: {why}"
            raise RequestRejectedError(message)

    # Sending

    async def _write_intent(self, intent: Intent, sealed: SealedRequest) -> WriteReceipt:
        if intent.order is None:
            return write_receipt(intent, IntentState.REFUSED, "it has no order")
        async with self._write_lock:
            terms = PolymarketOrderTerms.from_order(intent.order)
            return await self._write(_WriteTask(intent=intent, terms=terms, sealed=sealed))

    async def _write(self, task: _WriteTask) -> WriteReceipt:
        intent, sealed = task.intent, task.sealed
        try:
            if task.terms.cancel:
                await self._cancel_orders("orders", [*task.terms.cancel])
            owner = (await self._session.credentials()).key
            request = await self._session.signed_request("POST", "order", request_body(sealed, owner))
        except FoxcastError as error:
            return write_receipt(intent, IntentState.ABSENT, f"nothing was written: {error}")
        if is_too_late(sealed, self._clock.now()):
            return write_receipt(intent, IntentState.ABSENT, "sealed too long ago")
        verdict, reply = await send_once(
            self._write_client, request, write_verdict, max_bytes=MAX_RESPONSE_BYTES, deadline_s=WRITE_DEADLINE_S
        )
        if reply is not None and reply.status == UNAUTHORIZED:
            # The venue may have replaced the derived secrets: they are derived again. The engine's guard counts.
            self._session.forget_credentials()
        else:
            self._refusal.note_verdict(verdict, sealed)
        if verdict.state is IntentState.UNKNOWN:
            return await self._cancel_unknown(task, verdict.detail)
        if verdict.state is not IntentState.ACKED or reply is None:
            return write_receipt(intent, verdict.state, verdict.detail)
        return await self._compare_response(task, verdict, reply)

    async def _compare_response(self, task: _WriteTask, verdict: WriteVerdict, reply: HttpResponse) -> WriteReceipt:
        intent, sealed = task.intent, task.sealed
        named = parse_text(response_fields(reply).get("orderID"))
        if named.lower() != sealed.tag.lower():
            return await self._cancel_unknown(task, f"accepted as {named}, which is not what was sent")
        return await self._read_at_once(intent, sealed, verdict.detail)

    async def _read_at_once(self, intent: Intent, sealed: SealedRequest, status: str) -> WriteReceipt:
        """Return that an order was accepted, with its known fills."""
        await self._accepted_orders.add(sealed.tag)
        accepted = write_receipt(intent, IntentState.ACKED, status, reference=sealed.tag)
        if status in {"live", "delayed"}:
            return accepted
        try:
            found = await self._read_back(intent, [sealed])
        except FoxcastError as error:
            log.warning("fills are not read yet", intent=intent.id, error=str(error))
            return accepted
        return replace(found, detail=f"{status}: {found.detail}") if found.state is IntentState.ACKED else accepted

    async def _cancel_unknown(self, task: _WriteTask, why: str) -> WriteReceipt:
        """Cancel an unknown order by its hash, and block its market until its outcome is known."""
        intent, sealed = task.intent, task.sealed
        self._uncertain.setdefault(task.terms.contract.market, set()).add(sealed.tag)
        log.warning("the outcome of an order is unknown", intent=intent.id, order=sealed.tag, why=why)
        try:
            ended = await self._cancel_orders("order", {"orderID": sealed.tag})
            if sealed.tag in ended:
                # A cancelled order existed; trades show what was matched before.
                self._clear_uncertain(task.terms.contract.market, [sealed.tag])
                return await self._read_at_once(intent, sealed, f"cancelled, because there was no answer ({why})")
        except FoxcastError as error:
            log.warning("the unknown order cannot be cancelled", order=sealed.tag, error=str(error))
        return write_receipt(intent, IntentState.UNKNOWN, why)

    async def _cancel_orders(self, path: str, body: Json) -> list[str]:
        """Send a cancellation; return the orders that the venue cancelled. Raises as sending does, and for refusals."""
        text = None if body is None else json.dumps(body, separators=(",", ":"))
        request = replace(await self._session.signed_request("DELETE", path, text), is_cancellation=True)
        reply = await self._write_client.send(request, max_bytes=MAX_RESPONSE_BYTES, deadline_s=WRITE_DEADLINE_S)
        if reply.status == 200:
            fields = response_fields(reply)
            ended = [str(name) for name in parse_list(fields.get("canceled")) or ()]
            log.info("cancelled", venue="polymarket", orders=ended, remaining=fields.get("not_canceled"))
            return ended
        message = (
            f"cancelling: {reply.status}{detail_suffix(response_fields(reply).get('error') or response_json(reply))}"
        )
        raise (AuthenticationError if reply.status in {401, 403} else ServiceUnavailableError)(message)

    # After sending

    async def _read_back(self, intent: Intent, sealed: Sequence[SealedRequest]) -> WriteReceipt:
        if intent.order is None or not sealed:
            return write_receipt(intent, IntentState.ABSENT, "nothing was sealed for it")
        market = intent.order.contract
        tags = {one.tag.lower() for one in sealed}
        asked_at = self._clock.now()
        # Orders first, so that matches between the two readings are in the second.
        resting = [
            row for row in await self._account_reader.open_orders(market) if parse_text(row.get("id")).lower() in tags
        ]
        since = min(request_time(one) for one in sealed) - TRADE_HISTORY
        listed = await self._account_reader.read_matches({"market": market, "after": int(since.timestamp())})
        parts = [part for part in listed if part.order in tags]
        fence = max((one.fence for one in sealed if one.fence is not None), default=asked_at)
        if not resting and not parts:
            if asked_at >= fence:
                self._clear_uncertain(market, tags)
            if (ended := await self._accepted_orders.find_any(tags)) is not None:
                return write_receipt(
                    intent, IntentState.ACKED, "it no longer rests, and was not traded", reference=ended
                )
            return write_receipt(intent, IntentState.ABSENT, "no such order or trade is listed")
        if asked_at >= fence and (open_parts := [part for part in parts if not part.is_final]):
            return write_receipt(intent, IntentState.UNKNOWN, f"{len(open_parts)} trades are not settled yet")
        self._clear_uncertain(market, tags)
        names = [*(parse_text(row.get("id")) for row in resting), *(part.order for part in parts)]
        for name in dict.fromkeys(names):
            await self._accepted_orders.add(name)
        fills = confirmed_fills(parts, await self._account_reader.fees(market))
        detail = _describe_matches(parts, rests=bool(resting))
        return WriteReceipt(intent=intent.id, state=IntentState.ACKED, reference=names[0], detail=detail, fills=fills)

    def _clear_uncertain(self, market: str, tags: Iterable[str]) -> None:
        remaining = {tag for tag in self._uncertain.get(market, set()) if tag.lower() not in set(tags)}
        self._uncertain[market] = remaining


@asynccontextmanager
async def open_writer(settings: PolymarketSettings, context: VenueWriterContext) -> AsyncIterator[VenueSubmitter]:
    """Open the live writer; its signer is started when it is first needed, and ends with it."""
    signer = create_signer(settings, context.folder)
    try:
        yield PolymarketWriter(settings, context, signer)
    finally:
        await signer.aclose()


def _describe_matches(parts: Sequence[OrderMatch], *, rests: bool) -> str:
    """Describe the matches of an order: confirmed, settling, and failed on chain."""
    confirmed = [part for part in parts if part.status == CONFIRMED]
    failed = sum(part.status == FAILED for part in parts)
    settling = len(parts) - len(confirmed) - failed
    described = [f"{sum(part.shares for part in confirmed):f} shares" if confirmed else "no shares yet"]
    described += [f"{settling} trades settle"] if settling else []
    described += [f"{failed} trades failed on chain"] if failed else []
    return ", ".join([*described, "it rests"] if rests else described)
