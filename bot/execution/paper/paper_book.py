"""A paper book: an account at a real market that is only read, used through gate and outbox like a live one.

An order is accepted and its cost reserved in one transaction; after the delay it meets the market as it is then, and
the fills are booked in another. An order that a crash interrupts between the two never met the market; it is provably
lost. When the outcome of a question is known its positions are paid out; when the outcome is corrected or withdrawn,
the payouts are reversed exactly.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from sqlite_utils import Database

from bot.core.errors import FoxcastError, RequestRejectedError, StoreError, describe_error_with_type
from bot.core.ids import derive_id
from bot.core.interfaces import Clock
from bot.core.light_dataclass import dataclass
from bot.core.orders import Account, ContractSide, Position, UnpaidOutcome
from bot.core.outcomes import Outcome, Resolution
from bot.core.plugin_specs import PaperBookContext
from bot.core.questions import SINGLE_TARGET, QuestionRef
from bot.core.submissions import Intent, IntentAction, IntentState, SealedRequest, SubmissionBatch, WriteReceipt
from bot.execution.paper import accounting, paper_orders
from bot.execution.paper.accounting import (
    LedgerMovement,
    LedgerPosting,
    MovementKind,
    PostingAccount,
    from_millionths,
    to_millionths,
)
from bot.execution.paper.book_database import PAPER_BOOK_MIGRATIONS, BookDatabase, open_book_database
from bot.execution.paper.paper_market import FillRequest, FillResult, PaperMarket, RemainderState
from bot.execution.paper.paper_orders import SEALED_PAPER_ORDER, PaperOrder, PaperOrderState, SealedPaperOrder
from bot.store.serialization import OUTCOME, format_timestamp

_SELECT_HELD = """
select contract, leg, shares, paid, option, mark,
  coalesce((select market from ticket t where t.contract = p.contract and market <> '' order by seq desc limit 1), '')
from position p where ref = ? and target = ? order by contract, leg
"""
_SELECT_IN_FORCE = "select id, outcome from settlement where ref = ? and target = ? and undone_at is null order by id"
_INSERT_SETTLEMENT = "insert into settlement (ref, target, outcome, at) values (?, ?, ?, ?) returning id"
_UPDATE_UNDONE = "update settlement set undone_at = ? where id = ?"
_SELECT_POSTINGS = """
select p.place, p.contract, p.leg, p.amount, p.shares from posting p join movement m on m.id = p.movement
where m.settlement = ? and m.kind <> 'undo'
"""
_SUM_INVESTED = "select coalesce(-sum(amount), 0) from posting where contract = ? and place = 'cash'"

PayoutFunction = Callable[[Position, Outcome, str], float | UnpaidOutcome]


@dataclass(frozen=True, slots=True)
class _HeldPosition:
    contract: str
    leg: str
    shares: int
    paid: int
    option: str
    mark: float | None
    state: str

    def position(self, ref: QuestionRef) -> Position:
        return Position(
            contract=self.contract,
            leg=ContractSide(self.leg),
            shares=from_millionths(self.shares),
            paid=from_millionths(self.paid),
            ref=ref,
            option=self.option,
            mark=self.mark,
        )


def settle_question(database: Database, resolution: Resolution, pays: PayoutFunction, at: datetime) -> int:
    """Settle the book by an outcome; return how many positions were settled or reversed."""
    ref, target = str(resolution.ref), resolution.target
    outcome = OUTCOME.encode(resolution.outcome)
    rows = [_HeldPosition(*row) for row in database.execute(_SELECT_HELD, [ref, target]).fetchall()]
    if not rows:
        return 0
    verdicts = [(row, pays(row.position(resolution.ref), resolution.outcome, row.state)) for row in rows]
    final: list[tuple[_HeldPosition, float | UnpaidOutcome]] = [
        one for one in verdicts if one[1] is not UnpaidOutcome.OPEN
    ]
    in_force = database.execute(_SELECT_IN_FORCE, [ref, target]).fetchall()
    changed = 0
    if any(known != outcome for _, known in in_force) or not final:
        changed = sum(_reverse_settlement(database, name, at) for name, _ in in_force)
        final = [(_reread_position(database, row, ref, target), verdict) for row, verdict in final]
    if not final:
        return changed
    paper_orders.end_question_orders(database, ref, target, at)
    return max(changed, _book_payouts(database, final, (ref, target, outcome), at))


def _reread_position(database: Database, row: _HeldPosition, ref: str, target: str) -> _HeldPosition:
    rows = (_HeldPosition(*found) for found in database.execute(_SELECT_HELD, [ref, target]).fetchall())
    return next(found for found in rows if (found.contract, found.leg) == (row.contract, row.leg))


def _book_payouts(
    database: Database,
    verdicts: Sequence[tuple[_HeldPosition, float | UnpaidOutcome]],
    key: tuple[str, str, str],
    at: datetime,
) -> int:
    movements = [
        (MovementKind.PAYOUT, _payout_postings(row, verdict))
        for row, verdict in verdicts
        if not isinstance(verdict, UnpaidOutcome)
    ]
    refunded = [row for row, verdict in verdicts if isinstance(verdict, UnpaidOutcome)]
    for contract in dict.fromkeys(row.contract for row in refunded):
        lines = _refund_postings(database, contract, [row for row in refunded if row.contract == contract])
        movements.append((MovementKind.REFUND, lines))
    due = [(kind, lines) for kind, lines in movements if lines]
    if not due:
        return 0
    (name,) = database.execute(_INSERT_SETTLEMENT, [*key, format_timestamp(at)]).fetchone()
    for kind, lines in due:
        accounting.book_movement(database, LedgerMovement(kind=kind, at=at, postings=lines, settlement=name))
    return sum(line.account is PostingAccount.STOCK for _, lines in due for line in lines)


def _payout_postings(row: _HeldPosition, price: float) -> list[LedgerPosting]:
    if row.shares == 0:
        return []
    amount = accounting.value_at_price(row.shares, price)
    return [
        LedgerPosting(account=PostingAccount.CASH, amount=amount, contract=row.contract),
        _whole_stock_posting(row),
        LedgerPosting(account=PostingAccount.GAIN, amount=row.paid - amount, contract=row.contract),
    ]


def _refund_postings(database: Database, contract: str, rows: Sequence[_HeldPosition]) -> list[LedgerPosting]:
    """Return the postings that refund a contract: cash invested less cash received, never below zero."""
    (invested,) = database.execute(_SUM_INVESTED, [contract]).fetchone()
    amount = max(int(invested), 0)
    held = [row for row in rows if row.shares > 0]
    if not held and amount == 0:
        return []
    return [
        LedgerPosting(account=PostingAccount.CASH, amount=amount, contract=contract),
        *map(_whole_stock_posting, held),
        LedgerPosting(account=PostingAccount.GAIN, amount=sum(row.paid for row in held) - amount, contract=contract),
    ]


def _whole_stock_posting(row: _HeldPosition) -> LedgerPosting:
    return LedgerPosting(
        account=PostingAccount.STOCK, amount=-row.paid, contract=row.contract, leg=row.leg, shares=-row.shares
    )


def _reverse_settlement(database: Database, name: int, at: datetime) -> int:
    """Book the reverse of a settlement; return how many positions were restored."""
    lines = [
        LedgerPosting(account=PostingAccount(place), contract=contract, leg=leg, amount=-amount, shares=-shares)
        for place, contract, leg, amount, shares in database.execute(_SELECT_POSTINGS, [name]).fetchall()
    ]
    accounting.book_movement(database, LedgerMovement(kind=MovementKind.UNDO, at=at, postings=lines, settlement=name))
    database.execute(_UPDATE_UNDONE, [format_timestamp(at), name])
    return sum(line.account is PostingAccount.STOCK for line in lines)


PAPER_BOOK_FILE = "book.sqlite"
# A sealed order that never rests may be submitted up to this long after the delay.
ARRIVAL_GRACE = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperBookTerms:
    """How accounts at the venue work: its currency, whether pairs of YES and NO are redeemed for 1, and when it pays.

    Outcomes are settled ``settle_after`` after the moment at which they were known.
    """

    currency: str
    redeems: bool = False
    settle_after: timedelta = timedelta()


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperBook:
    """Implements ``PaperTradingSubmitter``."""

    database: BookDatabase
    market: PaperMarket
    terms: PaperBookTerms
    clock: Clock
    delay_s: float
    # Orders that are between the two transactions in this process.
    _orders_under_way: set[str] = field(default_factory=set, repr=False)
    # Positions change what the next order gets: one order at a time meets the market.
    _market_lock: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)

    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        """Return the sealed orders. Raises RequestRejectedError if none of the intents is an order."""
        now = self.clock.now()
        sealed = [self._seal_order(intent, now) for intent in batch.intents if intent.order is not None]
        if batch.intents and not sealed:
            message = "a paper book accepts only orders"
            raise RequestRejectedError(message)
        return sealed

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        """Accept each order and fill it at the market; a known order is reported as it is."""
        requests = {one.intent: one for one in batch.sealed}
        return [await self._submit_order(intent, requests.get(intent.id)) for intent in batch.intents]

    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        """Return the state of each intent in the book, with all fills; absent is proof."""
        return [await self._read_submission(intent) for intent in batch.intents]

    async def account(self) -> Account:
        """Return the account; positions without a price now keep their last one."""
        held = await self.database.readers.run(accounting.read_positions)
        marks = await self.market.mark_prices(held) if held else {}
        now = self.clock.now()

        def work(database: Database) -> Account:
            for (contract, leg), price in marks.items():
                accounting.set_mark_price(database, contract, leg, price, now)
            return replace(read_account(database, now), redeems=self.terms.redeems)

        return await self.database.writer.run(work)

    async def cancel(self, order_ids: Sequence[str] | None) -> Sequence[str]:
        """Cancel resting orders by the ids of their intents."""
        now = self.clock.now()
        return await self.database.writer.run(lambda database: paper_orders.cancel_orders(database, order_ids, now))

    def payout_per_share(self, position: Position, outcome: Outcome, state: str) -> float | UnpaidOutcome:
        """Return what a share pays according to the market."""
        return self.market.payout_per_share(position, outcome, state)

    async def settle(self, resolutions: Sequence[Resolution]) -> int:
        """Pay out these outcomes, and reverse payouts for others; return for how many positions.

        Raises the first error of the market, once all outcomes were handled.
        """
        now = self.clock.now()
        settled, errors = 0, list[Exception]()
        for one in resolutions:
            if one.resolved_at + self.terms.settle_after > now:
                continue
            work = partial(settle_question, resolution=one, pays=self.market.payout_per_share, at=now)
            try:
                settled += await self.database.writer.run(work)
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001 - an outcome that the plugin cannot pay must not block others
                errors.append(error)
        if errors:
            raise errors[0]
        return settled

    async def advance(self) -> int:
        """Fill resting orders by what happened since; return how many were filled, in part or whole, or ended.

        Raises the first error of the market, once all orders were handled.
        """
        resting = await self.database.readers.run(paper_orders.read_open_orders)
        changed, errors = 0, list[Exception]()
        for paper_order in resting:
            if paper_order.state is not PaperOrderState.RESTING:
                continue
            try:
                async with self._market_lock:
                    changed += await self._check_resting_order(paper_order.sealed_order.intent)
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001 - an order that the plugin cannot check must not block others
                errors.append(error)
        if errors:
            raise errors[0]
        return changed

    def _seal_order(self, intent: Intent, now: datetime) -> SealedRequest:
        order = intent.order
        if order is None:
            message = f"the intent {intent.id} has no order"
            raise RequestRejectedError(message)
        until = self.market.order_expiry(order, now)
        sealed_order = SealedPaperOrder(
            intent=intent.id,
            account=intent.account,
            ref=intent.ref,
            target=next(iter(intent.predictions), SINGLE_TARGET),
            event=intent.exposure.event,
            order=order,
            sealed_at=now,
            expires_at=until,
        )
        fence = until or now + timedelta(seconds=self.delay_s) + ARRIVAL_GRACE
        tag = derive_id("paper", intent.id, format_timestamp(now))
        return SealedRequest(intent=intent.id, tag=tag, body=SEALED_PAPER_ORDER.encode(sealed_order), fence=fence)

    async def _submit_order(self, intent: Intent, sealed: SealedRequest | None) -> WriteReceipt:
        if sealed is None or intent.action is not IntentAction.ORDER:
            return WriteReceipt(
                intent=intent.id, state=IntentState.REFUSED, detail="a paper book accepts only sealed orders"
            )
        now = self.clock.now()
        if sealed.fence is not None and now >= sealed.fence:
            return WriteReceipt(intent=intent.id, state=IntentState.ABSENT, detail="it was sealed too long ago")
        sealed_order = SEALED_PAPER_ORDER.decode(sealed.body)
        if sealed_order.intent in self._orders_under_way:
            return WriteReceipt(intent=intent.id, state=IntentState.UNKNOWN, detail="it is being sent already")
        self._orders_under_way.add(sealed_order.intent)
        try:
            paper_order = await self.database.writer.run(
                partial(paper_orders.accept_order, sealed_order=sealed_order, tag=sealed.tag, at=now)
            )
            if paper_order.state is PaperOrderState.SENT:
                paper_order = await self._fill_new_order(paper_order)
        finally:
            self._orders_under_way.discard(sealed_order.intent)
        return _order_receipt(paper_order, refusal=IntentState.REFUSED)

    async def _fill_new_order(self, paper_order: PaperOrder) -> PaperOrder:
        """Wait for the delay, then let the order meet the market; without a market it is lost."""
        delay = paper_order.sealed_order.sealed_at + timedelta(seconds=self.delay_s) - self.clock.now()
        await self.clock.sleep(max(delay.total_seconds(), 0.0))
        async with self._market_lock:
            request, asked_at = await self._fill_request(paper_order), self.clock.now()
            try:
                result = await self.market.fill_new_order(request)
            except FoxcastError as error:
                return await self._mark_lost(paper_order, describe_error_with_type(error))
            return await self._book_result(paper_order, result, asked_at)

    async def _check_resting_order(self, intent: str) -> int:
        paper_order = await self.database.writer.run(partial(paper_orders.find_order, intent=intent))
        if paper_order is None or paper_order.state is not PaperOrderState.RESTING:
            return 0
        asked_at = self.clock.now()
        try:
            result = await self.market.fill_resting_order(await self._fill_request(paper_order))
        except FoxcastError:
            result = None
        if _is_expired(paper_order, asked_at) and (result is None or result.remainder is not RemainderState.FILLED):
            result = FillResult(
                remainder=RemainderState.DROPPED, why="it expired", fills=() if result is None else result.fills
            )
        if result is None:
            return 0
        booked = await self._book_result(paper_order, result, asked_at)
        return int(bool(result.fills) or booked.state is not PaperOrderState.RESTING)

    async def _fill_request(self, paper_order: PaperOrder) -> FillRequest:
        held, past = await self.database.writer.run(
            lambda database: (
                accounting.read_positions(database),
                paper_orders.read_earlier_orders(database, paper_order),
            )
        )
        return FillRequest(
            id=paper_order.sealed_order.intent,
            order=paper_order.sealed_order.order,
            sealed_at=paper_order.sealed_order.sealed_at,
            expires_at=paper_order.sealed_order.expires_at,
            last_checked_at=paper_order.last_checked_at,
            fills=paper_order.plugin_fills,
            plugin_state=paper_order.plugin_state,
            positions=held,
            earlier_orders=past,
        )

    async def _book_result(self, paper_order: PaperOrder, result: FillResult, asked_at: datetime) -> PaperOrder:
        """Book a result now; what happened since the market was asked is seen by the next look."""
        work = partial(
            paper_orders.book_fill_result,
            seq=paper_order.seq,
            result=result,
            at=self.clock.now(),
            checked_at=asked_at,
            redeems=self.terms.redeems,
        )
        return await self.database.writer.run(work)

    async def _mark_lost(self, paper_order: PaperOrder, why: str) -> PaperOrder:
        now = self.clock.now()

        def work(database: Database) -> PaperOrder:
            paper_orders.mark_orders_lost(database, [paper_order.sealed_order.intent], why, now)
            return paper_orders.read_order(database, paper_order.seq)

        return await self.database.writer.run(work)

    async def _read_submission(self, intent: Intent) -> WriteReceipt:
        now, under_way = self.clock.now(), intent.id in self._orders_under_way

        def work(database: Database) -> PaperOrder | None:
            if not under_way:
                paper_orders.mark_orders_lost(database, [intent.id], "it never met the market", now)
            return paper_orders.find_order(database, intent.id)

        paper_order = await self.database.writer.run(work)
        if paper_order is not None and paper_order.state is PaperOrderState.RESTING and _is_expired(paper_order, now):
            # This result is final, so the last moments count.
            async with self._market_lock:
                await self._check_resting_order(intent.id)
            paper_order = await self.database.writer.run(work)
        if paper_order is None:
            return WriteReceipt(intent=intent.id, state=IntentState.ABSENT, detail="the book does not have it")
        return _order_receipt(paper_order, refusal=IntentState.ABSENT)


@asynccontextmanager
async def open_paper_book(
    context: PaperBookContext, market: PaperMarket, terms: PaperBookTerms
) -> AsyncIterator[PaperBook]:
    """Open the paper book of one venue in its folder; a new one begins with the cash of the context.

    Orders that were on their way when the last process died are lost. Raises StoreError.
    """
    async with open_book_database(
        context.folder / PAPER_BOOK_FILE, PAPER_BOOK_MIGRATIONS, now=context.clock.now()
    ) as file:
        yield await begin_paper_book(file, context, market, terms)


async def begin_paper_book(
    file: BookDatabase, context: PaperBookContext, market: PaperMarket, terms: PaperBookTerms
) -> PaperBook:
    """Return the book in an open file; a new one begins with its cash."""
    now, cash = context.clock.now(), to_millionths(context.cash)

    def work(database: Database) -> None:
        accounting.begin_book(database, terms.currency, cash, now)
        paper_orders.mark_orders_lost(database, None, "the process ended before it met the market", now)

    await file.writer.run(work)
    return PaperBook(database=file, market=market, terms=terms, clock=context.clock, delay_s=context.delay_s)


def read_account(database: Database, at: datetime) -> Account:
    """Read the account, with the marks that are on record."""
    held: tuple[Position, ...] = accounting.read_positions(database)
    open_ = [paper_orders.to_open_order(paper_order) for paper_order in paper_orders.read_open_orders(database)]
    return Account(
        at=at,
        currency=accounting.book_currency(database),
        cash=from_millionths(accounting.free_cash(database)),
        positions=held,
        orders=tuple(open_),
    )


def paper_book_path(folder: Path, venue: str) -> Path:
    """Return where the paper book of a venue is, below the folder of a run."""
    return folder / venue / PAPER_BOOK_FILE


def _is_expired(paper_order: PaperOrder, at: datetime) -> bool:
    return paper_order.sealed_order.expires_at is not None and paper_order.sealed_order.expires_at <= at


def _order_receipt(paper_order: PaperOrder, *, refusal: IntentState) -> WriteReceipt:
    """Return the receipt of an order; one without any fill at once is refused, as is one that was not accepted."""
    states = {
        PaperOrderState.SENT: IntentState.UNKNOWN,
        PaperOrderState.LOST: IntentState.ABSENT,
        PaperOrderState.REFUSED: refusal,
    }
    return WriteReceipt(
        intent=paper_order.sealed_order.intent,
        state=states.get(paper_order.state, IntentState.ACKED),
        reference=f"paper {paper_order.seq}",
        detail=paper_order.why,
        fills=paper_order.fills,
    )
