"""Carries planned intents to the venue, or to its paper book, and finds out what became of them.

An intent is committed as ``sending`` before the first byte. What comes back is acknowledged, refused with proof, or
unknown; unknown counts as sent until reading back proves otherwise. Nothing here retries a write, and of one account
one write is under way at a time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from bot.domain.submission import Intent, IntentState, Mode
from bot.errors import FoxcastError, StoreError, named
from bot.gate.brake import Brake
from bot.gate.readiness import MOST_DOUBTS
from bot.outbox import doubts, reading, sending
from bot.outbox.door import UNSETTLED, WAITING, Alarm, ClockFault, Door, Recheck, intents_of, log, unknown
from bot.ports import Clock, Submitter
from bot.store.ledger import Ledger
from bot.store.submissions import Adoption, BatchRow

Account = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """What taking stock found: doubts settled, acknowledgements taken back, and what is still in doubt."""

    settled: int
    revoked: int
    doubtful: int


async def _no_objection(_: Intent) -> str | None:
    return None


def _no_fault() -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outbox:
    """``ready`` says whether a batch may go now or still waits for forecasts that belong to it.

    Nothing is written while the brake holds, or while too much is in doubt at the venue, whatever was decided before.
    ``recheck`` is asked of each intent just before it is written, and what it objects to goes back to the gate.
    ``modes`` are those in which the submitters were opened: what was decided for paper reaches no venue, and the other
    way round. ``accounts`` are those that they write for: what went under another name is not read back through them,
    and stays in doubt. ``clock_fault`` says what is wrong with this clock: by a wrong one no fence lies behind.
    ``alarm`` is told of what needs a person; without one it is noted in the journal. ``most_doubts`` is by venue.
    Once ``stopping`` says so what is under way ends, and nothing more is begun.
    """

    ledger: Ledger
    submitters: Mapping[str, Submitter]
    clock: Clock
    brake: Brake
    ready: Callable[[BatchRow, datetime], Awaitable[bool]]
    recheck: Recheck = _no_objection
    modes: Mapping[str, Mode] = field(default_factory=dict)
    accounts: Mapping[str, str] = field(default_factory=dict)
    alarm: Alarm | None = None
    clock_fault: ClockFault = _no_fault
    most_doubts: Mapping[str, int] = field(default_factory=dict)
    stopping: Callable[[], bool] = lambda: False
    _turns: dict[Account, asyncio.Lock] = field(default_factory=dict, repr=False)
    # Accounts that are not in use now, of whose doubts people were told.
    _strangers: set[Account] = field(default_factory=set, repr=False)

    async def recover(self) -> int:
        """At start, before anything is sent: whatever was on the wire when the process died is unknown."""
        found = await self._strays("the process ended before an answer")
        for venue in self.submitters if found else ():
            await doubts.too_many(self._door(venue), venue)
        return found

    async def flush(self) -> int:
        """Send every batch that has waiting intents and is ready; return how many intents were acknowledged.

        Accounts go side by side, the batches of one account one after the other.
        """
        rows: dict[Account, list[BatchRow]] = {}
        for row in await self.ledger.submissions.batches(states=[*WAITING]):
            if row.venue in self.submitters and (row.comments or UNSETTLED.isdisjoint(row.counts)):
                rows.setdefault((row.venue, row.account), []).append(row)
        done = await asyncio.gather(*map(self._flush, rows.values()), return_exceptions=True)
        if errors := [one for one in done if isinstance(one, BaseException)]:
            raise errors[0]
        return sum(one for one in done if isinstance(one, int))

    async def reconcile(self) -> int:
        """Read back what is unknown, and orders that may have been filled; return how many doubts that settled.

        Doing it twice changes nothing more. A venue that does not answer leaves its own intents in doubt and nobody
        else's. One that was stopped for its doubts goes on once they have settled.
        """
        await self._strays("the write was broken off before an answer")
        settled = 0
        for row in await self.ledger.submissions.batches(states=[IntentState.UNKNOWN]):
            settled += 0 if self.stopping() else await self._read_back(row)
        for item in await self.ledger.submissions.resting():
            venue, account = item.intent.ref.venue, item.intent.account
            if self.stopping() or venue not in self.submitters or not await self._fits(venue, account, item.mode):
                continue
            async with self._turn(venue, account):
                await self._asked(venue, item.intent.batch, reading.read_resting(self._door(venue), item))
        for venue in self.submitters:
            await doubts.resume_settled(self._door(venue), venue)
        return settled

    async def take_stock(self) -> Stock:
        """Ask the venues in use about all that a restored ledger believes to stand or to wait.

        What waits may have left since the backup was made, so it counts as sent until it is read back. What was
        acknowledged and is not there any more waits again. Raises what a venue raises that cannot answer.
        """
        for row in await self.ledger.submissions.batches(states=[*WAITING]):
            await self._doubt(row)
        revoked = 0
        for row in await self.ledger.submissions.batches(states=[IntentState.ACKED]):
            if row.comments or row.venue not in self.submitters:
                continue
            if await self._fits(row.venue, row.account, row.mode):
                revoked += await reading.revoke(self._door(row.venue), row)
        settled = await self.reconcile()
        left = await self.ledger.submissions.batches(states=[IntentState.UNKNOWN])
        doubtful = sum(row.counts[IntentState.UNKNOWN] for row in left if row.venue in self.submitters)
        return Stock(settled=settled, revoked=revoked, doubtful=doubtful)

    async def adopt(self, adoption: Adoption) -> None:
        """Take a person's word for an intent that is unknown or in doubt: it is there (acked), or it is not (absent).

        Raises NotFound, and StoreError for an intent that needs no word, for another state, and for absence while the
        request may still take effect.
        """
        row = await self.ledger.submissions.get(adoption.intent)
        async with self._turn(row.intent.ref.venue, row.intent.account):
            await self.ledger.submissions.adopt(adoption, at=self.clock.now())

    async def _doubt(self, row: BatchRow) -> None:
        items = await intents_of(self.ledger, row)
        waiting = [item.intent for item in items if item.state in WAITING]
        await self.ledger.submissions.begin_attempt([intent.id for intent in waiting], at=self.clock.now())
        receipts = [unknown(intent, "it may have left since the backup was made") for intent in waiting]
        await self.ledger.submissions.settle(receipts, at=self.clock.now())

    async def _flush(self, rows: Sequence[BatchRow]) -> int:
        acknowledged = 0
        for row in rows:
            async with self._turn(row.venue, row.account):
                door = self._door(row.venue)
                if self.stopping() or self.brake.holds() or await doubts.too_many(door, row.venue):
                    break
                if row.comments:
                    acknowledged += await sending.send_comments(door, row)
                elif await self.ready(row, self.clock.now()):
                    acknowledged += await sending.send(door, row)
        for venue in dict.fromkeys(row.venue for row in rows):
            await doubts.too_many(self._door(venue), venue)
        return acknowledged

    async def _read_back(self, row: BatchRow) -> int:
        if row.venue not in self.submitters or not await self._fits(row.venue, row.account, row.mode):
            return 0
        async with self._turn(row.venue, row.account):
            return await self._asked(row.venue, row.batch, reading.read_back(self._door(row.venue), row))

    async def _fits(self, venue: str, account: str, mode: Mode) -> bool:
        """Say whether the submitter in use can tell of what went under that account in that mode."""
        door = self._door(venue)
        if door.fits(mode, account):
            return True
        if door.account not in {None, account} and (venue, account) not in self._strangers:
            self._strangers.add((venue, account))
            await door.alarm(
                venue,
                f"there are submissions under the account {account}, and {door.account} is in use "
                f"now: nobody can tell what became of them, and what they may cost stays reserved",
            )
        return False

    async def _asked(self, venue: str, batch: str, read: Awaitable[int]) -> int:
        """Await a reading; a venue that cannot be read settles nothing."""
        try:
            return await read
        except StoreError:
            raise
        except FoxcastError as error:
            log.warning("cannot be read back", venue=venue, batch=batch, error=str(error))
        except Exception as error:  # noqa: BLE001 - a plugin's fault must not keep other venues from being read
            log.error("cannot be read back", venue=venue, batch=batch, error=named(error))
        return 0

    async def _strays(self, detail: str) -> int:
        """Whatever is on the wire in the record while its account's turn is free has lost its answer."""
        rows = await self.ledger.submissions.sending()
        accounts = dict.fromkeys((row.intent.ref.venue, row.intent.account) for row in rows)
        return sum([await self._strays_of(account, detail) for account in accounts])

    async def _strays_of(self, account: Account, detail: str) -> int:
        async with self._turn(*account):
            rows = await self.ledger.submissions.sending()
            strays = [row.intent for row in rows if (row.intent.ref.venue, row.intent.account) == account]
            for intent in strays:
                at = self.clock.now()
                await self.ledger.submissions.mark(intent.id, IntentState.UNKNOWN, detail=detail, at=at)
            return len(strays)

    def _turn(self, venue: str, account: str) -> asyncio.Lock:
        return self._turns.setdefault((venue, account), asyncio.Lock())

    def _door(self, venue: str) -> Door:
        return Door(
            ledger=self.ledger,
            submitter=self.submitters[venue],
            clock=self.clock,
            brake=self.brake,
            recheck=self.recheck,
            alarm=self.alarm or self._note,
            clock_fault=self.clock_fault,
            mode=self.modes.get(venue),
            account=self.accounts.get(venue),
            most_doubts=self.most_doubts.get(venue, MOST_DOUBTS),
            stopping=self.stopping,
        )

    async def _note(self, venue: str, text: str) -> None:
        await self.ledger.journal.note("alert", f"{venue}: {text}", at=self.clock.now())
