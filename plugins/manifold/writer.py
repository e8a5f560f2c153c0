"""The writing half: limit orders that end, sales, and comments where they are switched on; nothing else is ever sent.

One write at a time. Before a bet those of our own orders are cancelled that it could be filled by. An order is sealed
on the market as it is just then: one that is closed or resolved is refused, and one that asks something else than what
was forecast gets no request. What an answer does not prove is unknown, and settled by the list of bets after the fence.
"""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from urllib.parse import quote

import structlog

from bot.api import (
    Account,
    Batch,
    ChoiceShape,
    ContractError,
    FoxcastError,
    Instead,
    Intent,
    IntentAction,
    IntentState,
    Order,
    Outcome,
    Position,
    Question,
    Receipt,
    Rejected,
    Reply,
    Request,
    Sealed,
    Side,
    Submitter,
    Unauthorized,
    Unavailable,
    Verdict,
    Who,
    WriterPlace,
    describe_changes,
    json_of,
    said_in,
)
from plugins.manifold.account import Holdings
from plugins.manifold.bets import (
    DEADLINE_S,
    DRY_RUN,
    LISTED_BACK_MS,
    LOOK_BACK_MS,
    Tag,
    fills_of,
    is_late,
    is_of,
    is_sale,
    seal_bet,
    seal_sale,
    worse_than_planned,
    would_meet,
)
from plugins.manifold.client import Client, headers_of
from plugins.manifold.comments import FEE, is_comment_of, seal_comment
from plugins.manifold.paper import share_payout
from plugins.manifold.raw import RawBet, name_of, parsed
from plugins.manifold.reading import read_state
from plugins.manifold.recheck import read_again
from plugins.manifold.sales import refused_price
from plugins.manifold.settings import ManifoldSettings
from plugins.manifold.state import parts_of
from plugins.manifold.verdict import verdict_of

log = structlog.get_logger(__name__)

MAX_BYTES = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """One intent with its order (None for a comment) and request, and whether one answer of its market wins."""

    intent: Intent
    order: Order | None
    sealed: Sealed
    linked: bool

    @property
    def market(self) -> str:
        return parts_of(self.intent.ref.key if self.order is None else self.order.contract)[0]

    @property
    def path(self) -> str:
        if self.order is None:
            return "comment"
        return "bet" if self.order.side is Side.BUY else f"market/{self.market}/sell"


class ManifoldWriter:
    """Implements the port Trader. Once the account itself was refused nothing more is sealed, until opened again."""

    def __init__(self, settings: ManifoldSettings, place: WriterPlace) -> None:
        self._settings = settings
        self._clock = place.clock
        self._wire = place.wire
        self._client = Client(settings, place.http, place.clock)
        self._holdings = Holdings(self._client, place.clock)
        self._turn = asyncio.Lock()
        self._last_expiry = 0
        self._stopped = ""
        self._beside: list[str] = []

    async def seal(self, batch: Batch) -> Sequence[Sealed]:
        """Return the requests of all intents that may be written now.

        One that may not is left out; raises Rejected, with the reasons, where that holds for all, Unauthorized once the
        account was refused or where no key is set, and as reading does.
        """
        headers_of(self._settings)
        if self._stopped:
            raise Unauthorized(self._stopped)
        sealed: list[Sealed] = []
        reasons: list[str] = []
        for intent in batch.intents:
            try:
                sealed.append(await self._sealed(intent, _question(intent, batch)))
            except Rejected as error:
                log.info("not sealed", intent=intent.id, question=str(intent.ref), why=str(error))
                reasons.append(str(error))
        if reasons and not sealed:
            raise Rejected("; ".join(dict.fromkeys(reasons)))
        return tuple(sealed)

    async def submit(self, batch: Batch) -> Sequence[Receipt]:
        """Write each request once, one after the other; after one without an answer the rest is not begun."""
        sealed = {one.intent: one for one in batch.sealed}
        receipts = []
        broken = ""
        for intent in batch.intents:
            request = sealed.get(intent.id)
            if request is None:
                receipt = _receipt(intent, IntentState.REFUSED, "it has no sealed request")
            elif broken:
                receipt = _receipt(intent, IntentState.ABSENT, f"not begun after {broken}")
            else:
                async with self._turn:
                    self._beside = []
                    written = await self._write(_wanted(intent, request, batch))
                    receipt = replace(written, also=tuple(self._beside))
                broken = receipt.detail if receipt.state is IntentState.UNKNOWN else ""
            receipts.append(receipt)
        return tuple(receipts)

    async def standing(self, batch: Batch) -> Sequence[Receipt]:
        """Read back; what cannot be read is unknown. Raises Unauthorized."""
        receipts = []
        for intent in batch.intents:
            try:
                receipts.append(await self._read_back(intent, [one for one in batch.sealed if one.intent == intent.id]))
            except Unauthorized:
                raise
            except FoxcastError as error:
                receipts.append(_receipt(intent, IntentState.UNKNOWN, f"cannot be read: {error}"))
        return tuple(receipts)

    async def account(self) -> Account:
        """Return what the account has now."""
        return await self._holdings.account()

    async def cancel(self, order_ids: Sequence[str] | None) -> Sequence[str]:
        """Cancel orders, all that rest for None; return those that rest no more, as the venue lists them then."""
        async with self._turn:
            wanted = [bet.id for bet in await self._holdings.orders()] if order_ids is None else list(order_ids)
            for order_id in wanted:
                await self._cancel(order_id)
            left = {bet.id for bet in await self._holdings.orders()}
        return tuple(order_id for order_id in wanted if order_id not in left)

    def pays(self, position: Position, outcome: Outcome, state: str) -> float | Instead:
        """Return what a share pays."""
        return share_payout(position, outcome, state)

    # Before the wire

    async def _sealed(self, intent: Intent, question: Question | None) -> Sealed:
        if intent.action is IntentAction.COMMENT:
            return seal_comment(intent, self._settings, made_ms=self._client.stamp_ms())
        order = intent.order
        if intent.action is not IntentAction.ORDER or order is None:
            message = f"{intent.ref}: this venue takes orders, no {intent.action}"
            raise Rejected(message)
        if question is None:
            message = f"{intent.ref}: an order without its question"
            raise Rejected(message)
        margin = timedelta(seconds=self._settings.close_margin_s)
        reading = await read_again(self._client, order, question, now=self._clock.now(), margin=margin)
        if intent.rests_on_forecast and describe_changes(question, reading):
            return Sealed.unwritten(intent, reading)
        return replace(await self._order_sealed(intent, order), question=reading)

    async def _order_sealed(self, intent: Intent, order: Order) -> Sealed:
        made_ms = self._client.stamp_ms()
        if order.side is Side.SELL:
            await self._require_price(order)
            alike = [bet.created for bet in await self._own_bets(order, made_ms - LOOK_BACK_MS) if is_sale(bet, order)]
            return seal_sale(intent, order, made_ms=made_ms, after_ms=math.ceil(max(alike, default=0)))
        lifetime_ms = round(self._settings.order_lifetime_s * 1000.0)
        self._last_expiry = max(made_ms + lifetime_ms, self._last_expiry + 1)
        return seal_bet(intent, order, made_ms=made_ms, expires_ms=self._last_expiry)

    async def _require_price(self, order: Order) -> None:
        """Raise Rejected for a sale that would bring less than its limit now: the venue itself takes none."""
        market = parts_of(order.contract)[0]
        own = {bet.id for bet in await self._holdings.orders(market)}
        state = await read_state(self._client, market, now=self._clock.now(), own_orders=own)
        if why := await asyncio.to_thread(refused_price, state, order):
            message = f"market {market}: {why}"
            raise Rejected(message)

    # On the wire

    async def _write(self, wanted: _Wanted) -> Receipt:
        intent = wanted.intent
        try:
            if (found := await self._before(wanted)) is not None:
                return found
        except FoxcastError as error:
            return _receipt(intent, IntentState.ABSENT, f"nothing was written: {error}")
        verdict, reply = await self._exchange(wanted)
        if verdict.state is not IntentState.ACKED or reply is None:
            return _receipt(intent, verdict.state, verdict.detail)
        return _taken(wanted, reply)

    async def _before(self, wanted: _Wanted) -> Receipt | None:
        """Clear the way; return what is known already, or why nothing must be written, or None."""
        intent, order = wanted.intent, wanted.order
        if order is None and intent.action is not IntentAction.COMMENT:
            return _receipt(intent, IntentState.REFUSED, "it is no order")
        if order is None:
            if (found := await self._comment_there(intent)) is not None:
                return found
        elif why := await self._obstacle(order, wanted):
            return _receipt(intent, IntentState.ABSENT, why)
        late = is_late(wanted.sealed, self._clock.now())
        return _receipt(intent, IntentState.ABSENT, "sealed too long ago") if late else None

    async def _exchange(self, wanted: _Wanted) -> tuple[Verdict, Reply | None]:
        """Send a request, once."""
        try:
            reply = await self._post(wanted.path, wanted.sealed.body)
        except Rejected as error:
            return Verdict(state=IntentState.ABSENT, detail=str(error)), None
        except (Unavailable, ContractError) as error:
            return Verdict(state=IntentState.UNKNOWN, detail=str(error)), None
        finally:
            self._holdings.forget(wanted.market)
        verdict = verdict_of(reply)
        self._note(verdict.who, verdict.detail, wanted.sealed)
        return verdict, reply

    async def _obstacle(self, order: Order, wanted: _Wanted) -> str | None:
        """Cancel own orders that a bet would meet; return why it must not be placed, or None."""
        named = order.terms.get("cancel")
        ids = {str(one) for one in named} if isinstance(named, list) else set()
        resting = await self._holdings.orders(wanted.market)
        against = {bet.id for bet in resting if would_meet(bet, order, linked=wanted.linked)}
        against |= ids & {bet.id for bet in resting}
        for order_id in sorted(against):
            await self._cancel(order_id)
        left = {bet.id for bet in await self._holdings.orders(wanted.market)} & against if against else set()
        if left:
            return f"own orders that it would meet could not be cancelled: {sorted(left)}"
        rehearses = self._settings.dry_run and order.side is Side.BUY
        return await self._rehearsed(order, wanted.sealed) if rehearses else None

    async def _rehearsed(self, order: Order, sealed: Sealed) -> str | None:
        """Ask what the bet would do, which moves nothing; return what is wrong with it."""
        reply = await self._post("bet", json.dumps({**json.loads(sealed.body), "dryRun": True}))
        self._beside.append(f"dry run: {reply.status}")
        verdict = verdict_of(reply)
        if verdict.state is not IntentState.ACKED:
            return f"dry run: {verdict.detail}"
        bet = parsed(RawBet, json_of(reply), "the dry run")
        if bet.id != DRY_RUN:
            log.error("a dry run was taken for a bet", bet=bet.id)
            return f"dry run: it was placed as {bet.id}"
        why = worse_than_planned(bet, order)
        return f"dry run: {why}" if why else None

    async def _cancel(self, order_id: str) -> None:
        """Ask to cancel an order; whether it rests is told by the list of orders afterwards."""
        reply = await self._post(f"bet/cancel/{quote(order_id, safe='')}", "{}", takes_back=True)
        verdict = verdict_of(reply)
        if verdict.who is Who.OPERATOR:
            raise Unauthorized(verdict.detail)
        self._beside.append(f"cancel {order_id}: {reply.status}")
        log.info("cancelled", order=order_id, status=reply.status, detail=verdict.detail)

    async def _post(self, path: str, body: str, *, takes_back: bool = False) -> Reply:
        request = Request(
            method="POST",
            url=f"{self._settings.place.api}/v0/{path}",
            headers={**headers_of(self._settings), "Content-Type": "application/json"},
            body=body.encode(),
            takes_back=takes_back,
        )
        return await self._wire.send(request, max_bytes=MAX_BYTES, deadline_s=DEADLINE_S)

    def _note(self, who: Who, detail: str, sealed: Sealed) -> None:
        if who is Who.OPERATOR:
            name = self._settings.key_name
            self._stopped = f"the account was refused ({detail}); see {name} in [venues.manifold.settings], start again"
            log.error("nothing more is sent until the next start", venue="manifold", detail=detail)
        elif who is Who.DEVELOPER:
            log.error("a request was at fault", tag=sealed.tag, body=sealed.body[:2000], detail=detail)

    # After the wire

    async def _read_back(self, intent: Intent, sealed: Sequence[Sealed]) -> Receipt:
        if intent.action is IntentAction.COMMENT:
            found = await self._comment_there(intent)
            return found or _receipt(intent, IntentState.ABSENT, "no such comment on the market")
        if intent.order is None:
            return _receipt(intent, IntentState.ABSENT, "it is no order")
        if not sealed:
            return _receipt(intent, IntentState.ABSENT, "nothing was sealed for it")
        since_ms = min(Tag.of(one).made_ms for one in sealed) - LISTED_BACK_MS
        bets = await self._own_bets(intent.order, since_ms)
        own = [bet for bet in bets if any(is_of(bet, intent.order, one) for one in sealed)]
        if len(own) > 1:
            ids, market = sorted(bet.id for bet in own), parts_of(intent.order.contract)[0]
            log.error("two bets are alike", market=market, intent=intent.id, bets=ids)
            return _receipt(intent, IntentState.UNKNOWN, f"{len(own)} bets may be it, look at market {market}: {ids}")
        if not own:
            return _receipt(intent, IntentState.ABSENT, "no such bet is listed")
        return _acked(intent, own[0])

    async def _own_bets(self, order: Order, since_ms: int) -> list[RawBet]:
        rows = await self._client.bets_since(await self._holdings.user(), parts_of(order.contract)[0], since_ms)
        return [parsed(RawBet, row, name_of(row, "bet")) for row in rows]

    async def _comment_there(self, intent: Intent) -> Receipt | None:
        market_id = parts_of(intent.ref.key)[0]
        for row in await self._client.comments(await self._holdings.user(), market_id):
            if is_comment_of(intent, row):
                return _receipt(intent, IntentState.ACKED, "the market has its comment", reference=str(row.get("id")))
        return None


@asynccontextmanager
async def open_writer(settings: ManifoldSettings, place: WriterPlace) -> AsyncIterator[Submitter]:
    """Open the live writer."""
    yield ManifoldWriter(settings, place)


def _taken(wanted: _Wanted, reply: Reply) -> Receipt:
    """Compare what the answer shows with what was sent; nothing newer can be read than this answer."""
    intent, order = wanted.intent, wanted.order
    if order is None:
        said = said_in(reply).get("id")
        if not isinstance(said, str):
            return _receipt(intent, IntentState.UNKNOWN, "the answer shows no comment")
        return _receipt(intent, IntentState.ACKED, f"a fee of {FEE:g} mana", reference=said)
    try:
        bet = parsed(RawBet, json_of(reply), "the answer to a bet")
    except ContractError as error:
        return _receipt(intent, IntentState.UNKNOWN, f"status 200, but {error}")
    if bet.id == DRY_RUN:
        return _receipt(intent, IntentState.UNKNOWN, "the answer is that of a dry run")
    if not bet.id or not is_of(bet, order, wanted.sealed):
        return _receipt(intent, IntentState.UNKNOWN, f"taken as {bet.id or 'nothing'}, which is not what was sent")
    return _acked(intent, bet)


def _acked(intent: Intent, bet: RawBet) -> Receipt:
    left = "" if bet.filled or bet.whole is None else f", of {bet.whole:g} wanted"
    now = "" if bet.after is None else f", P(YES) {bet.after:.4f} after it"
    detail = f"{bet.amount:g} mana for {bet.shares:g} {bet.outcome}{left}{now}"
    return Receipt(intent=intent.id, state=IntentState.ACKED, reference=bet.id, detail=detail, fills=fills_of(bet))


def _wanted(intent: Intent, sealed: Sealed, batch: Batch) -> _Wanted:
    question = _question(intent, batch)
    linked = question is not None and isinstance(question.shape, ChoiceShape)
    order = intent.order if intent.action is IntentAction.ORDER else None
    return _Wanted(intent=intent, order=order, sealed=sealed, linked=linked)


def _question(intent: Intent, batch: Batch) -> Question | None:
    return next((question for question in batch.questions if question.ref == intent.ref), None)


def _receipt(intent: Intent, state: IntentState, detail: str = "", *, reference: str = "") -> Receipt:
    return Receipt(intent=intent.id, state=state, reference=reference, detail=detail)
