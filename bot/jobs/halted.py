"""While something is halted: take back the orders that rest at the venue, and see that the audit knows of the halt."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from bot.domain.submission import IntentState
from bot.errors import FoxcastError, StoreError
from bot.gate.brake import Brake, reason_of
from bot.gate.case import Lane
from bot.ports import Clock, Submitter, Trader
from bot.store import stops
from bot.store.audit import AuditRow
from bot.store.ledger import Ledger
from bot.store.stops import EVERYWHERE, Stop, StopEnd

log = structlog.get_logger(__name__)

BY_FILE = "stop file"
# No venue's readings lag further behind.
SURE_AFTER = timedelta(minutes=2)


@dataclass(slots=True, kw_only=True)
class Halting:
    """Whose orders are taken back. A venue is done until it is halted again when nothing rests there any more.

    That takes two empty readings, as readings may lag behind, and no write that may still arrive.
    """

    ledger: Ledger
    brake: Brake
    clock: Clock
    lanes: Mapping[str, Lane]
    submitters: Mapping[str, Submitter]
    _done: set[str] = field(default_factory=set)
    _empty_since: dict[str, datetime] = field(default_factory=dict)
    _first_look: dict[str, datetime] = field(default_factory=dict)
    _last_look: dict[str, datetime] = field(default_factory=dict)

    async def run(self) -> str:
        """Cancel what rests at each venue that is halted. Cancelling passes where submitting does not."""
        halted = await self._halted()
        self._done &= halted
        for known in (self._empty_since, self._first_look, self._last_look):
            for venue in known.keys() - halted:
                del known[venue]
        cancelled = 0
        for venue in sorted(halted - self._done):
            trader = self.submitters.get(venue)
            if isinstance(trader, Trader):
                if not self._is_due(venue):
                    continue
                cancelled += await self._clear(venue, trader)
            else:
                self._done.add(venue)
        return f"{len(halted)} venues halted, {cancelled} orders cancelled" if halted else "nothing is halted"

    def _is_due(self, venue: str) -> bool:
        """Say whether the account is read now: each time at first, then rarely, for a doubt may last for days."""
        now = self.clock.now()
        late = now - self._first_look.setdefault(venue, now) > SURE_AFTER
        if late and now - self._last_look.get(venue, now - SURE_AFTER) < SURE_AFTER:
            return False
        self._last_look[venue] = now
        return True

    async def _halted(self) -> set[str]:
        standing = await self.ledger.leave.read(stops.standing)
        if self.brake.stop_file.exists():
            standing = [*standing, await self._noted(standing)]
        # Where the credentials were refused nothing can be taken back.
        mute = {stop.venue for stop in standing if stop.ends is StopEnd.RENEWED}
        return {venue for venue in self.lanes.keys() - mute if any(stop.holds(venue) for stop in standing)}

    async def _noted(self, standing: list[Stop]) -> Stop:
        """Return the stop that the file means; the audit hears of a file that was made by hand or by a signal."""
        known = next((stop for stop in standing if stop.venue == EVERYWHERE), None)
        if known is not None:
            return known
        why = reason_of(self.brake.stop_file) or "the stop file is there"
        stop = Stop(venue=EVERYWHERE, at=self.clock.now(), why=why, by=BY_FILE)
        newest = await self.ledger.leave.audited(limit=1, kind="halt")
        if not newest or newest[0].body.get("reason") != why:
            row = AuditRow(at=stop.at, kind="halt", venue="", actor=BY_FILE, body={"reason": why})
            await self.ledger.leave.act(lambda _: None, row)
        return stop

    async def _clear(self, venue: str, trader: Trader) -> int:
        try:
            resting = [order.id for order in (await trader.account()).orders]
            if not resting:
                await self._empty(venue)
                return 0
            self._empty_since.pop(venue, None)
            gone = await self._cancelled(venue, trader, resting)
        except StoreError:
            raise
        except FoxcastError as error:
            self._empty_since.pop(venue, None)
            log.warning("resting orders cannot be cancelled", venue=venue, error=str(error))
            return 0
        except Exception:
            log.exception("resting orders cannot be cancelled", venue=venue)
            return 0
        # Looked at once more: an order that was on its way may rest by then.
        log.warning("resting orders cancelled", venue=venue, orders=len(gone))
        return len(gone)

    async def _cancelled(self, venue: str, trader: Trader, resting: list[str]) -> list[str]:
        await self._tell(venue, "cancel", resting)
        try:
            gone = [*await trader.cancel(None)]
        except Exception:
            await self._tell(venue, "cancel failed", resting)
            raise
        await self._tell(venue, "cancelled", gone)
        return gone

    async def _empty(self, venue: str) -> None:
        """Note that nothing rests at a venue, and when that is sure."""
        under_way = await self.ledger.submissions.batches(states=[IntentState.SENDING, IntentState.UNKNOWN])
        if any(row.venue == venue for row in under_way):
            self._empty_since.pop(venue, None)
        elif self.clock.now() - self._empty_since.setdefault(venue, self.clock.now()) >= SURE_AFTER:
            self._done.add(venue)

    async def _tell(self, venue: str, kind: str, orders: list[str]) -> None:
        body = {"orders": " ".join(orders[:50]), "count": str(len(orders))}
        row = AuditRow(at=self.clock.now(), kind=kind, venue=venue, actor="", body=body)
        await self.ledger.leave.act(lambda _: None, row)
