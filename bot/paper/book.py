"""A paper book: an account at a real market that is only read. Through gate and outbox like a live one.

An order is taken and its cost held back in one transaction; after the delay it meets the market as it is then, and what
it would have got is booked in another. What a crash leaves in between was before no market: it is lost, and provably
so.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from sqlite_utils import Database

from bot.domain.order import Account, Instead, Position
from bot.domain.question import SINGLE_TARGET
from bot.domain.resolution import Outcome, Resolution
from bot.domain.submission import Batch, Intent, IntentAction, IntentState, Receipt, Sealed
from bot.errors import FoxcastError, Rejected, StoreError, named
from bot.ids import derive_id
from bot.paper import accounts, settlements, tickets
from bot.paper.amounts import micros, units
from bot.paper.files import BookFile, open_file
from bot.paper.market import Fate, Market, Met, Visit
from bot.paper.schema import MIGRATIONS
from bot.paper.tickets import SLIP, Slip, Ticket, TicketState
from bot.ports import Clock
from bot.specs import PaperPlace
from bot.store.codec import stamp

BOOK_FILE = "book.sqlite"
# A sealed order that never rests may be brought in so long after the delay.
GRACE = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class BookTerms:
    """How accounts at the venue work: its currency, whether a pair of YES and NO is 1 at once, and when it pays.

    Outcomes are believed ``settle_after`` the moment from which they were known.
    """

    currency: str
    redeems: bool = False
    settle_after: timedelta = timedelta()


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperBook:
    """Implements the port PaperTrader."""

    file: BookFile
    market: Market
    terms: BookTerms
    clock: Clock
    delay_s: float
    # Orders that are between the two transactions in this process.
    _under_way: set[str] = field(default_factory=set, repr=False)
    # What the account holds changes what the next order gets: one at a time is before the market.
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)

    async def seal(self, batch: Batch) -> Sequence[Sealed]:
        """Return the orders as they will be taken; raises Rejected where none of the intents is one."""
        now = self.clock.now()
        sealed = [self._sealed(intent, now) for intent in batch.intents if intent.order is not None]
        if batch.intents and not sealed:
            message = "a paper book takes orders alone"
            raise Rejected(message)
        return sealed

    async def submit(self, batch: Batch) -> Sequence[Receipt]:
        """Take each order and bring it before the market; one that is known already is told of as it stands."""
        requests = {one.intent: one for one in batch.sealed}
        return [await self._submit(intent, requests.get(intent.id)) for intent in batch.intents]

    async def standing(self, batch: Batch) -> Sequence[Receipt]:
        """Say what the book has of each intent, with all fills; absent is proof."""
        return [await self._standing(intent) for intent in batch.intents]

    async def account(self) -> Account:
        """Return what the book has; positions whose price cannot be told now keep the one they had."""
        held = await self.file.readers.run(accounts.positions)
        marks = await self.market.marks(held) if held else {}
        now = self.clock.now()

        def work(database: Database) -> Account:
            for (contract, leg), price in marks.items():
                accounts.mark(database, contract, leg, price, now)
            return replace(account_of(database, now), redeems=self.terms.redeems)

        return await self.file.writer.run(work)

    async def cancel(self, order_ids: Sequence[str] | None) -> Sequence[str]:
        """Cancel resting orders by the ids of their intents."""
        now = self.clock.now()
        return await self.file.writer.run(lambda database: tickets.cancel(database, order_ids, now))

    def pays(self, position: Position, outcome: Outcome, state: str) -> float | Instead:
        """Return what a share pays: what the market says."""
        return self.market.payout(position, outcome, state)

    async def settle(self, resolutions: Sequence[Resolution]) -> int:
        """Pay out what these outcomes say, and take back what was paid for others; return for how many positions.

        Raises what the market raised over one of them, once all others are done.
        """
        now = self.clock.now()
        settled, errors = 0, list[Exception]()
        for one in resolutions:
            if one.resolved_at + self.terms.settle_after > now:
                continue
            work = partial(settlements.settle, resolution=one, pays=self.market.payout, at=now)
            try:
                settled += await self.file.writer.run(work)
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001 - an outcome that the plugin cannot pay holds up no other
                errors.append(error)
        if errors:
            raise errors[0]
        return settled

    async def advance(self) -> int:
        """Look at what happened to resting orders since; return how many were filled, in part or whole, or ended.

        Raises what the market raised over one of them, once all others are done.
        """
        resting = await self.file.readers.run(tickets.open_tickets)
        changed, errors = 0, list[Exception]()
        for ticket in resting:
            if ticket.state is not TicketState.RESTING:
                continue
            try:
                async with self._turn:
                    changed += await self._look_again(ticket.slip.intent)
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001 - an order that the plugin cannot look at holds up no other
                errors.append(error)
        if errors:
            raise errors[0]
        return changed

    def _sealed(self, intent: Intent, now: datetime) -> Sealed:
        order = intent.order
        if order is None:
            message = f"the intent {intent.id} has no order"
            raise Rejected(message)
        until = self.market.until(order, now)
        slip = Slip(
            intent=intent.id,
            account=intent.account,
            ref=intent.ref,
            target=next(iter(intent.predictions), SINGLE_TARGET),
            event=intent.exposure.event,
            order=order,
            sealed_at=now,
            expires_at=until,
        )
        fence = until or now + timedelta(seconds=self.delay_s) + GRACE
        tag = derive_id("paper", intent.id, stamp(now))
        return Sealed(intent=intent.id, tag=tag, body=SLIP.encode(slip), fence=fence)

    async def _submit(self, intent: Intent, sealed: Sealed | None) -> Receipt:
        if sealed is None or intent.action is not IntentAction.ORDER:
            return Receipt(intent=intent.id, state=IntentState.REFUSED, detail="a paper book takes sealed orders alone")
        now = self.clock.now()
        if sealed.fence is not None and now >= sealed.fence:
            return Receipt(intent=intent.id, state=IntentState.ABSENT, detail="it was sealed too long ago")
        slip = SLIP.decode(sealed.body)
        if slip.intent in self._under_way:
            return Receipt(intent=intent.id, state=IntentState.UNKNOWN, detail="it is on its way already")
        self._under_way.add(slip.intent)
        try:
            ticket = await self.file.writer.run(partial(tickets.accept, slip=slip, tag=sealed.tag, at=now))
            if ticket.state is TicketState.SENT:
                ticket = await self._bring(ticket)
        finally:
            self._under_way.discard(slip.intent)
        return _receipt(ticket, refusal=IntentState.REFUSED)

    async def _bring(self, ticket: Ticket) -> Ticket:
        """Wait for the delay, then let the order meet the market; without a market it is lost."""
        delay = ticket.slip.sealed_at + timedelta(seconds=self.delay_s) - self.clock.now()
        await self.clock.sleep(max(delay.total_seconds(), 0.0))
        async with self._turn:
            visit, asked_at = await self._visit(ticket), self.clock.now()
            try:
                met = await self.market.arrive(visit)
            except FoxcastError as error:
                return await self._lost(ticket, named(error))
            return await self._booked(ticket, met, asked_at)

    async def _look_again(self, intent: str) -> int:
        ticket = await self.file.writer.run(partial(tickets.get, intent=intent))
        if ticket is None or ticket.state is not TicketState.RESTING:
            return 0
        asked_at = self.clock.now()
        try:
            met = await self.market.later(await self._visit(ticket))
        except FoxcastError:
            met = None
        if _expired(ticket, asked_at) and (met is None or met.fate is not Fate.NONE_LEFT):
            met = Met(fate=Fate.DROPPED, why="it expired", fills=() if met is None else met.fills)
        if met is None:
            return 0
        booked = await self._booked(ticket, met, asked_at)
        return int(bool(met.fills) or booked.state is not TicketState.RESTING)

    async def _visit(self, ticket: Ticket) -> Visit:
        held, past = await self.file.writer.run(
            lambda database: (accounts.positions(database), tickets.past_of(database, ticket))
        )
        return Visit(
            id=ticket.slip.intent,
            order=ticket.slip.order,
            sealed_at=ticket.slip.sealed_at,
            expires_at=ticket.slip.expires_at,
            looked_at=ticket.looked_at,
            fills=ticket.got,
            memory=ticket.memory,
            held=held,
            past=past,
        )

    async def _booked(self, ticket: Ticket, met: Met, at: datetime) -> Ticket:
        work = partial(tickets.meet, seq=ticket.seq, met=met, at=at, redeems=self.terms.redeems)
        return await self.file.writer.run(work)

    async def _lost(self, ticket: Ticket, why: str) -> Ticket:
        now = self.clock.now()

        def work(database: Database) -> Ticket:
            tickets.lose(database, [ticket.slip.intent], why, now)
            return tickets.by_seq(database, ticket.seq)

        return await self.file.writer.run(work)

    async def _standing(self, intent: Intent) -> Receipt:
        now, under_way = self.clock.now(), intent.id in self._under_way

        def work(database: Database) -> Ticket | None:
            if not under_way:
                tickets.lose(database, [intent.id], "it never met the market", now)
            return tickets.get(database, intent.id)

        ticket = await self.file.writer.run(work)
        if ticket is not None and ticket.state is TicketState.RESTING and _expired(ticket, now):
            # What is said of it now is final, so the last moments count.
            async with self._turn:
                await self._look_again(intent.id)
            ticket = await self.file.writer.run(work)
        if ticket is None:
            return Receipt(intent=intent.id, state=IntentState.ABSENT, detail="the book does not know it")
        return _receipt(ticket, refusal=IntentState.ABSENT)


@asynccontextmanager
async def open_book(place: PaperPlace, market: Market, terms: BookTerms) -> AsyncIterator[PaperBook]:
    """Open the paper book of one venue in its folder, new with the cash of the place.

    Orders that were on their way when the last process died are lost. Raises StoreError.
    """
    async with open_file(place.folder / BOOK_FILE, MIGRATIONS, now=place.clock.now()) as file:
        yield await begun(file, place, market, terms)


async def begun(file: BookFile, place: PaperPlace, market: Market, terms: BookTerms) -> PaperBook:
    """Return the book in an open file, begun with its cash where it is new."""
    now, cash = place.clock.now(), micros(place.cash)

    def work(database: Database) -> None:
        accounts.begin(database, terms.currency, cash, now)
        tickets.lose(database, None, "the process ended before it met the market", now)

    await file.writer.run(work)
    return PaperBook(file=file, market=market, terms=terms, clock=place.clock, delay_s=place.delay_s)


def account_of(database: Database, at: datetime) -> Account:
    """Read the account, with the marks that are on record."""
    held: tuple[Position, ...] = accounts.positions(database)
    open_ = [tickets.open_order(ticket) for ticket in tickets.open_tickets(database)]
    return Account(
        at=at,
        currency=accounts.currency_of(database),
        cash=units(accounts.free(database)),
        positions=held,
        orders=tuple(open_),
    )


def book_path(folder: Path, venue: str) -> Path:
    """Return where the paper book of a venue is, below the folder of a run."""
    return folder / venue / BOOK_FILE


def _expired(ticket: Ticket, at: datetime) -> bool:
    return ticket.slip.expires_at is not None and ticket.slip.expires_at <= at


def _receipt(ticket: Ticket, *, refusal: IntentState) -> Receipt:
    """Return what became of an order; one that the market gave nothing at once is refused, as is one not taken."""
    states = {TicketState.SENT: IntentState.UNKNOWN, TicketState.LOST: IntentState.ABSENT, TicketState.REFUSED: refusal}
    return Receipt(
        intent=ticket.slip.intent,
        state=states.get(ticket.state, IntentState.ACKED),
        reference=f"paper {ticket.seq}",
        detail=ticket.why,
        fills=ticket.fills,
    )
