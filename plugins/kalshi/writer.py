"""Writes orders that are matched at once or dropped, one at a time; nothing else but cancellations is ever sent.

Each order has an id of ours, which the venue accepts once for ever, so that one without an answer can be found in the
list of orders. Positions come from fills, never from a response alone. Source: docs/facts/kalshi.md#orders.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from urllib.parse import quote, urlencode
from uuid import UUID

import structlog

from bot.api import (
    Account,
    AccountRefusal,
    AuthenticationError,
    ContractSide,
    FoxcastError,
    HttpRequest,
    HttpResponse,
    Intent,
    IntentAction,
    IntentState,
    Json,
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
    detail_suffix,
    read_in_turn,
    refusal_verdict,
    report_changed_question,
    response_fields,
    seal_in_turn,
    send_once,
    verdict_by_status,
    write_in_turn,
    write_receipt,
)
from plugins.kalshi.account import SHARD, KalshiAccountReader, parse_moment_text, require_limits
from plugins.kalshi.api_client import KalshiClient, build_url
from plugins.kalshi.market_parser import ACTIVE, ONE, JsonRecord, parse_decimal, parse_market
from plugins.kalshi.order_books import is_on_grid
from plugins.kalshi.paper_market import share_payout
from plugins.kalshi.questions import contract_tickers
from plugins.kalshi.reader import KalshiReader
from plugins.kalshi.settings import KalshiSettings
from plugins.kalshi.signing import KalshiSigner

log = structlog.get_logger(__name__)

ORDERS_PATH = "portfolio/events/orders"
MAX_RESPONSE_BYTES = 1_000_000
WRITE_DEADLINE_S = 30.0
# How long after it was made an order may be sent, and after that until every list shows it.
MAX_SEND_AGE_S = 30.0
SETTLEMENT_DELAY_S = 60.0
# Lists lag behind writes. An order that should be listed is looked for this often before it counts as absent, and a
# cancelled one before it counts as open: docs/facts/kalshi.md#account.
LIST_READS, LIST_WAIT_S = 5, 2.5
# Less than any step of prices or counts; limits are floats.
TERMS_TOLERANCE = Decimal("0.000001")
_DEVELOPER_CODES = ("invalid_", "bad_request", "deprecated_")
_PAUSE_CODES = ("trading_is_paused", "exchange_is_paused")


class KalshiWriter:
    """Implements ``TradingSubmitter``. Once the account was refused nothing is sealed until the writer is reopened."""

    def __init__(self, settings: KalshiSettings, context: VenueWriterContext) -> None:
        self._settings, self._clock, self._wire = settings, context.clock, context.wire
        self._signer = KalshiSigner(settings, context.clock)
        self._client = KalshiClient(settings, context.http, context.clock)
        self._reader = KalshiReader(settings, context)
        self._account = KalshiAccountReader(settings, context, self._signer)
        self._write_lock, self._knows_limits = asyncio.Lock(), False
        remedy = "correct key_id and key_file in [venues.kalshi.settings], then start again"
        self._refusal = AccountRefusal(venue="kalshi", remedy=remedy)

    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        """Return the requests of all intents that may be written now; see ``SealingSubmitter``."""
        self._signer.headers("GET", self._settings.base_url)
        self._refusal.require_accepted()
        if not self._knows_limits:
            require_limits(await self._account.usage_limits())
            self._knows_limits = True
        return await seal_in_turn(batch, self._seal_intent)

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        """Write each order once, one after the other; after one without an answer the rest is not begun."""

        async def write(intent: Intent, sealed: SealedRequest) -> WriteReceipt:
            async with self._write_lock:
                return await self._write(intent, sealed)

        return await write_in_turn(batch, write)

    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        """Read back; what cannot be read is unknown. Raises AuthenticationError."""
        return await read_in_turn(batch, self._read_back)

    async def account(self) -> Account:
        """Return the account as it is now."""
        return await self._account.read_account()

    async def list_writes(self, since: datetime) -> Sequence[ListedWrite]:
        """Return the orders of the account since a moment."""
        rows = [row async for row in self._account.rows("orders", {}, since=since - timedelta(seconds=1))]
        return [listed for row in rows if (listed := _listed_order(row)).at >= since]

    async def cancel(self, order_ids: Sequence[str] | None) -> Sequence[str]:
        """Cancel open orders (None: all); return those that the venue no longer lists as resting."""
        async with self._write_lock:
            resting = {one.id: one.contract for one in (await self.account()).orders}
            targets = list(resting) if order_ids is None else list(order_ids)
            listed = [name for name in targets if name in resting]
            confirmed = await cancel_in_turn(listed, lambda name: self._cancel(name, resting[name]))
            left = await self._listed_after_cancelling(confirmed) if targets else set()
        return tuple(name for name in targets if name not in left)

    async def _listed_after_cancelling(self, confirmed: Collection[str]) -> set[str]:
        """Return the orders that still rest, read again while one is listed whose cancellation was confirmed."""
        left = {one.id for one in (await self.account()).orders}
        for _ in range(LIST_READS - 1):
            if not left & set(confirmed):
                break
            await self._clock.sleep(LIST_WAIT_S)
            left = {one.id for one in (await self.account()).orders}
        return left

    def payout_per_share(self, position: Position, outcome: Outcome, state: str) -> float | UnpaidOutcome:
        """Return what a contract pays."""
        return share_payout(position, outcome)

    async def _seal_intent(self, intent: Intent, question: Question | None) -> SealedRequest:
        order = intent.order
        if intent.action is not IntentAction.ORDER or order is None or question is None:
            message = f"{intent.ref}: this venue accepts orders on known questions, not {intent.action}"
            raise RequestRejectedError(message)
        require_matching_terms(order)
        if contract_tickers(question).get(order.option) != order.contract:
            what = f"option {order.option!r} of {question.ref}" if order.option else str(question.ref)
            message = f"{order.contract} is not the market of {what}"
            raise RequestRejectedError(message)
        try:
            reading = await self._reader.find_question(question.ref.key)
            market = parse_market(await self._client.market(order.contract))
        except NotFoundError as error:
            message = f"{question.ref} no longer exists: {error}"
            raise RequestRejectedError(message) from error
        if reading.ref != question.ref or market.status != ACTIVE or market.closes_at <= self._clock.now():
            message = f"{question.ref} is no longer open"
            raise RequestRejectedError(message)
        if market.exchange_index != SHARD:
            message = f"{market.ticker} is on shard {market.exchange_index}, and only cash on shard {SHARD} is used"
            raise RequestRejectedError(message)
        if (changed := report_changed_question(intent, question, reading)) is not None:
            return changed
        if not is_on_grid(Decimal(str(order.terms["price"])), market.price_ranges):
            message = f"{market.ticker}: {order.terms['price']} is not a price that the market takes"
            raise RequestRejectedError(message)
        return replace(seal_order(intent, order, self._clock.now()), question=reading)

    async def _write(self, intent: Intent, sealed: SealedRequest) -> WriteReceipt:
        if self._clock.now() >= _made_at(sealed) + timedelta(seconds=MAX_SEND_AGE_S):
            return write_receipt(intent, IntentState.ABSENT, "sealed too long ago")
        url = build_url(self._settings, ORDERS_PATH)
        headers = {**self._signer.headers("POST", url), "Content-Type": "application/json"}
        request = HttpRequest(method="POST", url=url, headers=headers, body=sealed.body.encode())
        verdict, reply = await send_once(
            self._wire, request, write_verdict, max_bytes=MAX_RESPONSE_BYTES, deadline_s=WRITE_DEADLINE_S
        )
        self._refusal.note_verdict(verdict, sealed)
        if verdict.state is not IntentState.ACKED or reply is None or intent.order is None:
            return write_receipt(intent, verdict.state, verdict.detail)
        try:
            fields = response_fields(reply)
            if fields.get("client_order_id") != _client_id(sealed):
                return write_receipt(intent, IntentState.UNKNOWN, "the response is about another order")
            count = parse_decimal(fields, "fill_count", "the response")
            return await self._receipt(intent, intent.order, str(fields.get("order_id", "")), count)
        except FoxcastError as error:
            return write_receipt(intent, IntentState.UNKNOWN, f"accepted, but: {error}")

    async def _read_back(self, intent: Intent, sealed: Sequence[SealedRequest]) -> WriteReceipt:
        order, ids = intent.order, {_client_id(one): one for one in sealed}
        if order is None or not ids:
            return write_receipt(intent, IntentState.ABSENT, "nothing was sealed for it")
        found = await self._find_orders(order.contract, ids)
        if not found:
            return write_receipt(intent, IntentState.ABSENT, "no such order is listed")
        if len(found) > 1:
            return write_receipt(intent, IntentState.UNKNOWN, f"{len(found)} orders match it: check {order.contract}")
        name = str(found[0].get("order_id", ""))
        return await self._receipt(intent, order, name, parse_decimal(found[0], "fill_count_fp", name))

    async def _find_orders(self, ticker: str, ids: Mapping[str, SealedRequest]) -> list[JsonRecord]:
        """Return the listed orders with these ids.

        Past the fence, where an absence is final, one empty list is not enough: it is read five times over 10 s.
        """
        since = min(_made_at(one) for one in ids.values()) - timedelta(seconds=MAX_SEND_AGE_S)
        is_final = all(one.fence is not None and self._clock.now() >= one.fence for one in ids.values())
        found: list[JsonRecord] = []
        for number in range(LIST_READS if is_final else 1):
            if number:
                await self._clock.sleep(LIST_WAIT_S)
            rows = [row async for row in self._account.rows("orders", {"ticker": ticker}, since=since)]
            found = [row for row in rows if row.get("client_order_id") in ids]
            if found:
                break
        return found

    async def _receipt(self, intent: Intent, order: Order, name: str, count: Decimal) -> WriteReceipt:
        """Return the receipt of an order that the venue has, with its fills; unknown until all are listed."""
        fills = await self._account.fills(order.contract, name, order.leg, order.side) if count else ()
        if round(sum(fill.shares for fill in fills), 2) != float(count):
            return write_receipt(intent, IntentState.UNKNOWN, "its fills are not listed yet", reference=name)
        detail = f"{count:f} of {order.shares:g} contracts were traded"
        return WriteReceipt(intent=intent.id, state=IntentState.ACKED, reference=name, detail=detail, fills=fills)

    async def _cancel(self, name: str, ticker: str) -> bool:
        """Send a cancellation; return whether the response confirms it for this order and not for another.

        Only the list of orders shows whether an order still rests: 404 also means that it was filled.
        """
        url = build_url(self._settings, f"{ORDERS_PATH}/{quote(name, safe='')}")
        request = HttpRequest(
            method="DELETE",
            url=f"{url}?{urlencode({'market_ticker': ticker})}",
            headers=self._signer.headers("DELETE", url),
            is_cancellation=True,
        )
        reply = await self._wire.send(request, max_bytes=MAX_RESPONSE_BYTES, deadline_s=WRITE_DEADLINE_S)
        if reply.status in {401, 403}:
            raise AuthenticationError(write_verdict(reply).detail)
        named = response_fields(reply).get("order_id") if reply.status == 200 else None
        if reply.status == 200 and named != name:
            log.error("the response to a cancellation is about another order", order=name, named=str(named))
        else:
            log.info("cancellation sent", order=name, status=reply.status)
        return named == name


def require_matching_terms(order: Order) -> None:
    """Raise RequestRejectedError if what is sent is not what the gate checked: count, price of YES, side, and cost."""
    buys_yes = (order.side is OrderSide.BUY) is (order.leg is ContractSide.YES)
    limit, shares = Decimal(repr(order.limit)), Decimal(repr(order.shares))
    yes_price = limit if order.leg is ContractSide.YES else ONE - limit
    try:
        count, price = (parse_decimal(order.terms, name, order.contract) for name in ("count", "price"))
    except MalformedDataError as error:
        message = f"the request does not agree with the order: {error}"
        raise RequestRejectedError(message) from error
    differences = {
        f"count {count} for {shares} contracts": abs(count - shares) > TERMS_TOLERANCE,
        f"price {price} of YES for a limit of {limit}": abs(price - yes_price) > TERMS_TOLERANCE,
        f"{order.terms.get('book_side')} to {order.side} {order.leg}": order.terms.get("book_side")
        != ("bid" if buys_yes else "ask"),
        f"a cost of {order.cost} for {count} at {limit}": order.side is OrderSide.BUY
        and count * limit > Decimal(repr(order.cost)) + TERMS_TOLERANCE,
    }
    if found := [text for text, is_different in differences.items() if is_different]:
        message = f"{order.contract}: the request does not agree with the order: {'; '.join(found)}"
        raise RequestRejectedError(message)


def seal_order(intent: Intent, order: Order, now: datetime) -> SealedRequest:
    """Return the request of an order; a sale never opens a position on the other side."""
    made_ms = int(now.timestamp() * 1000)
    # In the form of a random UUID, which the venue asks for.
    client_id = str(UUID(bytes=sha256(f"{intent.id} {made_ms}".encode()).digest()[:16], version=4))
    body: dict[str, Json] = {
        "ticker": order.contract,
        "side": order.terms["book_side"],
        "count": order.terms["count"],
        "price": order.terms["price"],
        "time_in_force": "immediate_or_cancel",
        "self_trade_prevention_type": "taker_at_cross",
        "client_order_id": client_id,
    }
    if order.side is OrderSide.SELL:
        body["reduce_only"] = True
    fence = now + timedelta(seconds=MAX_SEND_AGE_S + WRITE_DEADLINE_S + SETTLEMENT_DELAY_S)
    return SealedRequest(intent=intent.id, tag=f"{made_ms}.{client_id}", body=json.dumps(body), fence=fence)


def write_verdict(reply: HttpResponse) -> WriteVerdict:
    """Judge the response to an order by its code: one status has several meanings."""
    verdict = verdict_by_status(reply, taken=201)
    if verdict is not None:
        return verdict
    fields = response_fields(reply)
    error = fields.get("error")
    code = str((error if isinstance(error, dict) else fields).get("code", ""))
    detail = f"status {reply.status}{detail_suffix(json.dumps(error or dict(fields)))}"
    if reply.status in {401, 403}:
        return refusal_verdict(detail, ResponsibleParty.OPERATOR)
    if code.startswith(_PAUSE_CODES):
        return WriteVerdict(state=IntentState.ABSENT, detail=detail)
    if code.startswith("insufficient_balance"):
        return refusal_verdict(detail, ResponsibleParty.OPERATOR_IF_ALL)
    if reply.status in {400, 410} and code.startswith(_DEVELOPER_CODES):
        return refusal_verdict(detail, ResponsibleParty.DEVELOPER)
    # Also an id that was used before: the first order must be looked for.
    return WriteVerdict(state=IntentState.UNKNOWN, detail=detail)


def _client_id(sealed: SealedRequest) -> str:
    return sealed.tag.partition(".")[2]


def _made_at(sealed: SealedRequest) -> datetime:
    return datetime.fromtimestamp(int(sealed.tag.partition(".")[0]) / 1000, UTC)


def _listed_order(row: JsonRecord) -> ListedWrite:
    name = row.get("order_id")
    if not isinstance(name, str) or not name:
        message = "an order of the account has no order_id"
        raise MalformedDataError(message)
    return ListedWrite(
        reference=name,
        contract=str(row.get("ticker", "")),
        at=parse_moment_text(str(row.get("created_time", "")), name),
        text=f"a {row.get('book_side')} for {row.get('initial_count_fp')} at {row.get('yes_price_dollars')}",
    )


@asynccontextmanager
async def open_writer(settings: KalshiSettings, context: VenueWriterContext) -> AsyncIterator[VenueSubmitter]:
    """Open the live writer."""
    yield KalshiWriter(settings, context)
