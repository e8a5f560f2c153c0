"""Writes limit orders with an expiry, sales, and comments if enabled; nothing else is ever sent.

One write at a time. Before a bet, own orders that could fill it are cancelled. An order is sealed on the market as it
is at that moment: an order on a closed or resolved market is refused, and one whose question has changed since the
forecast gets no request. Without proof in the response a write is unknown, and is settled by the list of bets after the
fence.
"""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from urllib.parse import quote

import structlog

from bot.api import (
    Account,
    AccountRefusal,
    AuthenticationError,
    ChoiceShape,
    FoxcastError,
    HttpRequest,
    HttpResponse,
    Intent,
    IntentAction,
    IntentState,
    ListedWrite,
    MalformedDataError,
    NotFoundError,
    Order,
    OrderSide,
    Outcome,
    Position,
    Question,
    RequestRejectedError,
    ResponsibleParty,
    SealedRequest,
    SubmissionBatch,
    UnpaidOutcome,
    VenueSubmitter,
    VenueWriterContext,
    WriteReceipt,
    WriteVerdict,
    cancel_in_turn,
    find_batch_question,
    read_in_turn,
    report_changed_question,
    response_fields,
    response_json,
    seal_in_turn,
    send_once,
    write_in_turn,
    write_receipt,
)
from plugins.manifold.account import ManifoldAccountReader
from plugins.manifold.api_client import ManifoldClient, auth_headers
from plugins.manifold.api_records import ManifoldBetRecord, from_milliseconds, parse_record, record_name
from plugins.manifold.market_parser import is_cash_market, market_objection, parse_market
from plugins.manifold.market_state import WHOLE_MARKET, contract_name, read_market_state, split_contract
from plugins.manifold.paper_market import share_payout
from plugins.manifold.sales import sale_price_objection
from plugins.manifold.settings import ManifoldSettings
from plugins.manifold.write_requests import (
    BET_HISTORY_MS,
    COMMENT_FEE,
    DRY_RUN,
    VENUE_CLOCK_LAG_MS,
    WRITE_DEADLINE_S,
    ManifoldRequestTag,
    bet_fills,
    dry_run_objection,
    is_comment_of_intent,
    is_matching_sale,
    is_own_comment,
    is_requested_bet,
    is_too_late,
    seal_bet,
    seal_comment,
    seal_sale,
    would_self_trade,
    write_verdict,
)

log = structlog.get_logger(__name__)

MAX_RESPONSE_BYTES = 4_000_000


async def reread_question(
    client: ManifoldClient, order: Order, question: Question, *, now: datetime, margin: timedelta
) -> Question:
    """Return the question as its market states it now; raises RequestRejectedError if it cannot be traded."""
    market_id = split_contract(order.contract)[0]
    if question.market != market_id:
        message = f"{question.ref}: the order is on market {market_id}, which the question is not about"
        raise RequestRejectedError(message)
    try:
        unpacked = parse_market(await client.market(market_id), now=now)
    except NotFoundError as error:
        message = f"market {market_id} no longer exists: {error}"
        raise RequestRejectedError(message) from error
    if why := market_objection(unpacked.market, now, margin):
        message = f"market {market_id} is {why}"
        raise RequestRejectedError(message)
    if is_cash_market(unpacked.market):
        message = f"market {market_id} is traded in another currency"
        raise RequestRejectedError(message)
    found = next((one for one in unpacked.questions if one.ref == question.ref), None)
    if found is None:
        message = f"{question.ref} is no longer open on its market"
        raise RequestRejectedError(message)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _WriteTask:
    """One intent with its order (None for a comment) and request, and whether one answer of its market wins."""

    intent: Intent
    order: Order | None
    sealed: SealedRequest
    linked: bool

    @property
    def market(self) -> str:
        return split_contract(self.intent.ref.key if self.order is None else self.order.contract)[0]

    @property
    def path(self) -> str:
        if self.order is None:
            return "comment"
        return "bet" if self.order.side is OrderSide.BUY else f"market/{self.market}/sell"


class ManifoldWriter:
    """Implements ``TradingSubmitter``. Once the account was refused nothing is sealed until the writer is reopened."""

    def __init__(self, settings: ManifoldSettings, context: VenueWriterContext) -> None:
        self._settings = settings
        self._clock = context.clock
        self._write_client = context.wire
        self._client = ManifoldClient(settings, context.http, context.clock)
        self._account_reader = ManifoldAccountReader(self._client, context.clock)
        self._write_lock = asyncio.Lock()
        self._last_expiry = 0
        self._refusal = AccountRefusal(
            venue="manifold", remedy=f"correct {settings.key_name} in [venues.manifold.settings], then start again"
        )
        self._other_writes: list[str] = []

    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        """Return the requests of all intents that may be written now.

        Others are left out. Raises RequestRejectedError, with reasons, if all are, AuthenticationError once the account
        was refused or if no key is set, and the errors of reading.
        """
        auth_headers(self._settings)
        self._refusal.require_accepted()
        return await seal_in_turn(batch, self._seal_intent)

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        """Write each request once, one after the other; after one without an answer the rest is not begun."""

        async def write(intent: Intent, sealed: SealedRequest) -> WriteReceipt:
            async with self._write_lock:
                self._other_writes = []
                written = await self._write(_write_task(intent, sealed, batch))
                return replace(written, other_writes=tuple(self._other_writes))

        return await write_in_turn(batch, write)

    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        """Read back; what cannot be read is unknown. Raises AuthenticationError."""
        return await read_in_turn(batch, self._read_back)

    async def account(self) -> Account:
        """Return the account as it is now."""
        return await self._account_reader.read_account()

    async def list_writes(self, since: datetime) -> Sequence[ListedWrite]:
        """Return the bets and sales of the account; the venue's own redemptions of share pairs are not writes."""
        since_ms = math.floor(since.timestamp() * 1000.0) - 1
        rows = await self._client.bets_since(await self._account_reader.user_id(), None, since_ms)
        bets = [parse_record(ManifoldBetRecord, row, record_name(row, "bet")) for row in rows]
        return [_listed_bet(bet) for bet in bets if not bet.redemption]

    async def cancel(self, order_ids: Sequence[str] | None) -> Sequence[str]:
        """Cancel orders (None: all resting ones); return those that the venue no longer lists as resting."""
        async with self._write_lock:
            targets = (
                [bet.id for bet in await self._account_reader.open_orders()] if order_ids is None else list(order_ids)
            )
            await cancel_in_turn(targets, self._cancel)
            still_resting = {bet.id for bet in await self._account_reader.open_orders()}
        return tuple(order_id for order_id in targets if order_id not in still_resting)

    def payout_per_share(self, position: Position, outcome: Outcome, state: str) -> float | UnpaidOutcome:
        """Return what a share pays."""
        return share_payout(position, outcome, state)

    # Before sending

    async def _seal_intent(self, intent: Intent, question: Question | None) -> SealedRequest:
        if intent.action is IntentAction.COMMENT:
            return seal_comment(intent, self._settings, made_ms=self._client.stamp_ms())
        order = intent.order
        if intent.action is not IntentAction.ORDER or order is None:
            message = f"{intent.ref}: this venue accepts orders, not {intent.action}"
            raise RequestRejectedError(message)
        if question is None:
            message = f"{intent.ref}: an order without its question"
            raise RequestRejectedError(message)
        margin = timedelta(seconds=self._settings.close_margin_s)
        reading = await reread_question(self._client, order, question, now=self._clock.now(), margin=margin)
        if (changed := report_changed_question(intent, question, reading)) is not None:
            return changed
        return replace(await self._seal_order(intent, order), question=reading)

    async def _seal_order(self, intent: Intent, order: Order) -> SealedRequest:
        made_ms = self._client.stamp_ms()
        if order.side is OrderSide.SELL:
            await self._require_price(order)
            equal_sales = [
                bet.created
                for bet in await self._own_bets(order, made_ms - VENUE_CLOCK_LAG_MS)
                if is_matching_sale(bet, order)
            ]
            return seal_sale(intent, order, made_ms=made_ms, after_ms=math.ceil(max(equal_sales, default=0)))
        lifetime_ms = round(self._settings.order_lifetime_s * 1000.0)
        self._last_expiry = max(made_ms + lifetime_ms, self._last_expiry + 1)
        return seal_bet(intent, order, made_ms=made_ms, expires_ms=self._last_expiry)

    async def _require_price(self, order: Order) -> None:
        """Raise RequestRejectedError for a sale below its limit now: the venue itself has no limit for sales."""
        market = split_contract(order.contract)[0]
        own = {bet.id for bet in await self._account_reader.open_orders(market)}
        state = await read_market_state(self._client, market, now=self._clock.now(), own_orders=own)
        if why := await asyncio.to_thread(sale_price_objection, state, order):
            message = f"market {market}: {why}"
            raise RequestRejectedError(message)

    # Sending

    async def _write(self, task: _WriteTask) -> WriteReceipt:
        intent = task.intent
        try:
            if (found := await self._check_before_write(task)) is not None:
                return found
        except FoxcastError as error:
            return write_receipt(intent, IntentState.ABSENT, f"nothing was written: {error}")
        verdict, reply = await self._send_request(task)
        if verdict.state is not IntentState.ACKED or reply is None:
            return write_receipt(intent, verdict.state, verdict.detail)
        return _compare_response(task, reply)

    async def _check_before_write(self, task: _WriteTask) -> WriteReceipt | None:
        """Cancel own orders in the way; return a receipt if nothing must be written, else None."""
        intent, order = task.intent, task.order
        if order is None and intent.action is not IntentAction.COMMENT:
            return write_receipt(intent, IntentState.REFUSED, "it is not an order")
        if order is None:
            if (found := await self._find_comment(intent, alone=True)) is not None:
                return found
        elif why := await self._clear_own_orders(order, task):
            return write_receipt(intent, IntentState.ABSENT, why)
        late = is_too_late(task.sealed, self._clock.now())
        return write_receipt(intent, IntentState.ABSENT, "sealed too long ago") if late else None

    async def _send_request(self, task: _WriteTask) -> tuple[WriteVerdict, HttpResponse | None]:
        """Send a request once."""
        request = self._post_request(task.path, task.sealed.body)
        try:
            verdict, reply = await send_once(
                self._write_client, request, write_verdict, max_bytes=MAX_RESPONSE_BYTES, deadline_s=WRITE_DEADLINE_S
            )
        finally:
            self._account_reader.forget_market(task.market)
        self._refusal.note_verdict(verdict, task.sealed)
        return verdict, reply

    async def _clear_own_orders(self, order: Order, task: _WriteTask) -> str | None:
        """Cancel own orders that a bet would meet; return why it must not be placed, or None."""
        resting = await self._account_reader.open_orders(task.market)
        against = {bet.id for bet in resting if would_self_trade(bet, order, linked=task.linked)}
        against |= set(order.cancels) & {bet.id for bet in resting}
        for order_id in sorted(against):
            await self._cancel(order_id)
        still_resting = (
            {bet.id for bet in await self._account_reader.open_orders(task.market)} & against if against else set()
        )
        if still_resting:
            return f"own orders that would fill it could not be cancelled: {sorted(still_resting)}"
        needs_dry_run = self._settings.dry_run and order.side is OrderSide.BUY
        return await self._dry_run(order, task.sealed) if needs_dry_run else None

    async def _dry_run(self, order: Order, sealed: SealedRequest) -> str | None:
        """Do a dry run of the bet, which changes nothing; return the objection, or None."""
        reply = await self._post("bet", json.dumps({**json.loads(sealed.body), "dryRun": True}))
        self._other_writes.append(f"dry run: {reply.status}")
        verdict = write_verdict(reply)
        if verdict.state is not IntentState.ACKED:
            return f"dry run: {verdict.detail}"
        bet = parse_record(ManifoldBetRecord, response_json(reply), "the dry run")
        if bet.id != DRY_RUN:
            log.error("a dry run was placed as a bet", bet=bet.id)
            return f"dry run: it was placed as {bet.id}"
        why = dry_run_objection(bet, order)
        return f"dry run: {why}" if why else None

    async def _cancel(self, order_id: str) -> bool:
        """Send a cancellation; return whether the response confirms it, which only the list of orders shows."""
        reply = await self._post(f"bet/cancel/{quote(order_id, safe='')}", "{}", is_cancellation=True)
        verdict = write_verdict(reply)
        if verdict.responsible is ResponsibleParty.OPERATOR:
            raise AuthenticationError(verdict.detail)
        self._other_writes.append(f"cancel {order_id}: {reply.status}")
        log.info("cancelled", order=order_id, status=reply.status, detail=verdict.detail)
        return verdict.state is IntentState.ACKED

    async def _post(self, path: str, body: str, *, is_cancellation: bool = False) -> HttpResponse:
        request = self._post_request(path, body, is_cancellation=is_cancellation)
        return await self._write_client.send(request, max_bytes=MAX_RESPONSE_BYTES, deadline_s=WRITE_DEADLINE_S)

    def _post_request(self, path: str, body: str, *, is_cancellation: bool = False) -> HttpRequest:
        return HttpRequest(
            method="POST",
            url=f"{self._settings.addresses.api}/v0/{path}",
            headers={**auth_headers(self._settings), "Content-Type": "application/json"},
            body=body.encode(),
            is_cancellation=is_cancellation,
        )

    # After sending

    async def _read_back(self, intent: Intent, sealed: Sequence[SealedRequest]) -> WriteReceipt:
        if intent.action is IntentAction.COMMENT:
            found = await self._find_comment(intent, alone=False)
            return found or write_receipt(intent, IntentState.ABSENT, "no such comment on the market")
        if intent.order is None:
            return write_receipt(intent, IntentState.ABSENT, "it is not an order")
        if not sealed:
            return write_receipt(intent, IntentState.ABSENT, "nothing was sealed for it")
        since_ms = min(ManifoldRequestTag.from_sealed(one).made_ms for one in sealed) - BET_HISTORY_MS
        bets = await self._own_bets(intent.order, since_ms)
        own = [bet for bet in bets if any(is_requested_bet(bet, intent.order, one) for one in sealed)]
        if len(own) > 1:
            ids, market = sorted(bet.id for bet in own), split_contract(intent.order.contract)[0]
            log.error("two bets match one request", market=market, intent=intent.id, bets=ids)
            return write_receipt(intent, IntentState.UNKNOWN, f"{len(own)} bets match it, check market {market}: {ids}")
        if not own:
            return write_receipt(intent, IntentState.ABSENT, "no such bet is listed")
        return _acknowledged_receipt(intent, own[0])

    async def _own_bets(self, order: Order, since_ms: int) -> list[ManifoldBetRecord]:
        rows = await self._client.bets_since(
            await self._account_reader.user_id(), split_contract(order.contract)[0], since_ms
        )
        return [parse_record(ManifoldBetRecord, row, record_name(row, "bet")) for row in rows]

    async def _find_comment(self, intent: Intent, *, alone: bool) -> WriteReceipt | None:
        """Return the receipt of an existing comment; ``alone``: also refuse a second comment on the market."""
        market_id = split_contract(intent.ref.key)[0]
        rows = await self._client.comments(await self._account_reader.user_id(), market_id)
        for row in rows:
            if is_comment_of_intent(intent, row):
                return write_receipt(
                    intent, IntentState.ACKED, "the market already has this comment", reference=str(row.get("id"))
                )
        if alone and any(map(is_own_comment, rows)):
            return write_receipt(intent, IntentState.REFUSED, "the market already has a comment of this bot")
        return None


@asynccontextmanager
async def open_writer(settings: ManifoldSettings, context: VenueWriterContext) -> AsyncIterator[VenueSubmitter]:
    """Open the live writer."""
    yield ManifoldWriter(settings, context)


def _compare_response(task: _WriteTask, reply: HttpResponse) -> WriteReceipt:
    """Compare the response with what was sent; nothing newer than this response can be read."""
    intent, order = task.intent, task.order
    if order is None:
        comment_id = response_fields(reply).get("id")
        if not isinstance(comment_id, str):
            return write_receipt(intent, IntentState.UNKNOWN, "the response shows no comment")
        return write_receipt(intent, IntentState.ACKED, f"a fee of {COMMENT_FEE:g} mana", reference=comment_id)
    try:
        bet = parse_record(ManifoldBetRecord, response_json(reply), "the response to a bet")
    except MalformedDataError as error:
        return write_receipt(intent, IntentState.UNKNOWN, f"status 200, but {error}")
    if bet.id == DRY_RUN:
        return write_receipt(intent, IntentState.UNKNOWN, "the response is that of a dry run")
    if not bet.id or not is_requested_bet(bet, order, task.sealed):
        return write_receipt(
            intent, IntentState.UNKNOWN, f"accepted as {bet.id or 'nothing'}, which is not what was sent"
        )
    return _acknowledged_receipt(intent, bet)


def _acknowledged_receipt(intent: Intent, bet: ManifoldBetRecord) -> WriteReceipt:
    still_resting = "" if bet.filled or bet.whole is None else f", of {bet.whole:g} wanted"
    now = "" if bet.after is None else f", P(YES) {bet.after:.4f} after it"
    detail = f"{bet.amount:g} mana for {bet.shares:g} {bet.outcome}{still_resting}{now}"
    return WriteReceipt(
        intent=intent.id, state=IntentState.ACKED, reference=bet.id, detail=detail, fills=bet_fills(bet)
    )


def _listed_bet(bet: ManifoldBetRecord) -> ListedWrite:
    action = "a sale" if bet.amount < 0.0 else "a bet"
    return ListedWrite(
        reference=bet.id,
        contract=contract_name(bet.contract, bet.answer or WHOLE_MARKET),
        at=from_milliseconds(bet.created),
        text=f"{action} of {abs(bet.amount):g} mana on {bet.outcome} of market {bet.contract}",
    )


def _write_task(intent: Intent, sealed: SealedRequest, batch: SubmissionBatch) -> _WriteTask:
    question = find_batch_question(batch, intent)
    linked = question is not None and isinstance(question.shape, ChoiceShape)
    order = intent.order if intent.action is IntentAction.ORDER else None
    return _WriteTask(intent=intent, order=order, sealed=sealed, linked=linked)
