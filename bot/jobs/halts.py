"""Halt venues that lost too much.

While a halt is in force, cancel the open orders of this program and record a stop file in the audit.
"""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta

import structlog

from bot.core.errors import FoxcastError, StoreError
from bot.core.interfaces import Clock, TradingSubmitter, VenueSubmitter
from bot.core.light_dataclass import dataclass
from bot.core.submissions import IntentState
from bot.execution.gate.caps import loss_limit_breach
from bot.execution.gate.execution_policy import ExecutionPolicy, paper_venues
from bot.execution.gate.kill_switch import KillSwitch, read_halt_reason
from bot.store import permissions
from bot.store.audit_log import AuditRow
from bot.store.event_log import ALERT_EVENT
from bot.store.ledger import Ledger
from bot.store.permissions import ALL_VENUES, HaltEndCondition, SubmissionHalt
from bot.store.submission_queries import find_own_orders

loss_log = structlog.get_logger(__name__)


async def halt_losing_venues(ledger: Ledger, policies: Mapping[str, ExecutionPolicy], *, now: datetime) -> int:
    """Halt each venue whose account lost more than its caps allow; return how many were halted now.

    A venue that is halted for its losses already stays as it is.
    When a person resumes it, losses are counted from zero.
    """
    bounded = {
        venue: policy.account
        for venue, policy in policies.items()
        if policy.caps.daily_loss is not None or policy.caps.drawdown is not None
    }
    if not bounded:
        return 0
    active_halts = await ledger.permissions.read_status(bounded, now=now, paper=paper_venues(policies))
    halted_venues = {halt.venue for halt in active_halts.halts if not halt.by}
    count = 0
    for venue in bounded.keys() - halted_venues:
        why = loss_limit_breach(policies[venue].caps, *active_halts.losses[venue])
        if why is not None:
            await record_halt(ledger, SubmissionHalt(venue=venue, at=now, why=why))
            count += 1
    return count


async def record_halt(ledger: Ledger, halt: SubmissionHalt) -> None:
    """Halt, with a row in the audit, and alert people."""
    row = AuditRow(at=halt.at, kind="stop", venue=halt.venue, actor=halt.by, body={"why": halt.why})
    await ledger.permissions.write_with_audit(lambda database: permissions.add_halt(database, halt), row)
    loss_log.error("stopped", venue=halt.venue or "all", why=halt.why, resume="foxcast resume")
    await ledger.events.add_event(ALERT_EVENT, str(halt), at=halt.at)


log = structlog.get_logger(__name__)


STOP_FILE_ACTOR = "stop file"


# The field in the audit row of a halt that cancels all open orders.
ALL_ORDERS_FIELD = "all_orders"


# How many recent halts are searched for that field.
_MAX_HALTS_READ = 50


# No account reading lags behind by more than this.
CONFIRM_EMPTY_AFTER = timedelta(minutes=2)


@dataclass(slots=True, kw_only=True)
class HaltEnforcer:
    """Cancels the open orders at halted venues.

    A venue is done, until it is halted again, when no order is open there. That takes two empty readings, as readings
    may lag behind, and no unknown write that may still arrive.
    """

    ledger: Ledger
    kill_switch: KillSwitch
    clock: Clock
    execution_policies: Mapping[str, ExecutionPolicy]
    submitters: Mapping[str, VenueSubmitter]
    _cleared: set[str] = field(default_factory=set)
    _all_orders_venues: set[str] = field(default_factory=set)
    _empty_since: dict[str, datetime] = field(default_factory=dict)
    _first_read: dict[str, datetime] = field(default_factory=dict)
    _last_read: dict[str, datetime] = field(default_factory=dict)

    async def enforce_halts(self) -> str:
        """Cancel the open orders at each halted venue. A cancellation is allowed where a submission is not."""
        active_halts = await self._active_halts()
        # Where the credentials were refused nothing can be cancelled.
        unreachable = {halt.venue for halt in active_halts if halt.end_condition is HaltEndCondition.RENEWED}
        halted = {
            venue
            for venue in self.execution_policies.keys() - unreachable
            if any(halt.applies_to(venue) for halt in active_halts)
        }
        clear_all_venues = await self._venues_to_clear(halted, active_halts)
        # If a person asks to cancel all orders after ours are gone, the venue is read again.
        begun = halted - (clear_all_venues - self._all_orders_venues)
        self._all_orders_venues = clear_all_venues
        self._cleared &= begun
        for known in (self._empty_since, self._first_read, self._last_read):
            for venue in known.keys() - begun:
                del known[venue]
        cancelled = 0
        for venue in sorted(halted - self._cleared):
            submitter = self.submitters.get(venue)
            if isinstance(submitter, TradingSubmitter):
                if not self._is_read_due(venue):
                    continue
                cancelled += await self._cancel_resting(venue, submitter)
            else:
                self._cleared.add(venue)
        return f"{len(halted)} venues halted, {cancelled} orders cancelled" if halted else "nothing is halted"

    def _is_read_due(self, venue: str) -> bool:
        """Return whether to read the account now: always at first, then rarely; a write may stay unknown for days."""
        now = self.clock.now()
        late = now - self._first_read.setdefault(venue, now) > CONFIRM_EMPTY_AFTER
        if late and now - self._last_read.get(venue, now - CONFIRM_EMPTY_AFTER) < CONFIRM_EMPTY_AFTER:
            return False
        self._last_read[venue] = now
        return True

    async def _active_halts(self) -> list[SubmissionHalt]:
        active_halts = await self.ledger.permissions.read(permissions.list_active_halts)
        if self.kill_switch.stop_file.exists():
            active_halts = [*active_halts, await self._stop_file_halt(active_halts)]
        return active_halts

    async def _venues_to_clear(self, halted: set[str], active_halts: list[SubmissionHalt]) -> set[str]:
        """Return the halted venues where all orders are to be cancelled: their halts in force say so."""
        all_order_halts = [
            row
            for row in await self.ledger.permissions.recent_audit_rows(limit=_MAX_HALTS_READ, kind="halt")
            if row.body.get(ALL_ORDERS_FIELD)
        ]
        since = {venue: min(halt.at for halt in active_halts if halt.applies_to(venue)) for venue in halted}
        return {
            venue
            for venue in halted
            if any(row.venue in {ALL_VENUES, venue} and row.at >= since[venue] for row in all_order_halts)
        }

    async def _stop_file_halt(self, active_halts: list[SubmissionHalt]) -> SubmissionHalt:
        """Return the halt that the stop file represents; record a file made by hand or by a signal in the audit."""
        known = next((halt for halt in active_halts if halt.venue == ALL_VENUES), None)
        if known is not None:
            return known
        why = read_halt_reason(self.kill_switch.stop_file) or "the stop file exists"
        halt = SubmissionHalt(venue=ALL_VENUES, at=self.clock.now(), why=why, by=STOP_FILE_ACTOR)
        newest = await self.ledger.permissions.recent_audit_rows(limit=1, kind="halt")
        if not newest or newest[0].body.get("reason") != why:
            row = AuditRow(at=halt.at, kind="halt", venue="", actor=STOP_FILE_ACTOR, body={"reason": why})
            await self.ledger.permissions.write_with_audit(lambda _: None, row)
        return halt

    async def _cancel_resting(self, venue: str, submitter: TradingSubmitter) -> int:
        try:
            orders = (await submitter.account()).orders
            order_ids = await self.ledger.permissions.read(lambda database: find_own_orders(database, venue, orders))
            if venue in self._all_orders_venues:
                order_ids = [order.id for order in orders]
            if not order_ids:
                await self._note_empty(venue)
                return 0
            self._empty_since.pop(venue, None)
            cancelled_ids = await self._cancel_orders(venue, submitter, order_ids)
        except StoreError:
            raise
        except FoxcastError as error:
            self._empty_since.pop(venue, None)
            log.warning("open orders cannot be cancelled", venue=venue, error=str(error))
            return 0
        except Exception:
            log.exception("open orders cannot be cancelled", venue=venue)
            return 0
        # Look once more: an order that was on its way may be open by then.
        if cancelled_ids:
            log.warning("open orders cancelled", venue=venue, orders=len(cancelled_ids))
        if left := set(order_ids) - set(cancelled_ids):
            log.warning("open orders were not cancelled", venue=venue, orders=len(left))
        return len(cancelled_ids)

    async def _cancel_orders(self, venue: str, submitter: TradingSubmitter, order_ids: list[str]) -> list[str]:
        await self._audit_orders(venue, "cancel", order_ids)
        try:
            cancelled_ids = [*await submitter.cancel(None if venue in self._all_orders_venues else order_ids)]
        except Exception:
            await self._audit_orders(venue, "cancel failed", order_ids)
            raise
        await self._audit_orders(venue, "cancelled", cancelled_ids)
        return cancelled_ids

    async def _note_empty(self, venue: str) -> None:
        """Note that no order is open at a venue, and when that is certain."""
        under_way = await self.ledger.submissions.batches(states=[IntentState.SENDING, IntentState.UNKNOWN])
        if any(row.venue == venue for row in under_way):
            self._empty_since.pop(venue, None)
        elif self.clock.now() - self._empty_since.setdefault(venue, self.clock.now()) >= CONFIRM_EMPTY_AFTER:
            self._cleared.add(venue)

    async def _audit_orders(self, venue: str, kind: str, orders: list[str]) -> None:
        body = {"orders": " ".join(orders[:50]), "count": str(len(orders))}
        row = AuditRow(at=self.clock.now(), kind=kind, venue=venue, actor="", body=body)
        await self.ledger.permissions.write_with_audit(lambda _: None, row)
