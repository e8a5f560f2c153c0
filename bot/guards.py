"""What guards the way out of one run: gate, last look, readiness, leave to submit, halts and the audit, wired."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import structlog

from bot.config.plugin_settings import load_plugin_settings
from bot.config.schema import Config, DaemonSection, PolicySection
from bot.gate.brake import Brake
from bot.gate.case import Lane, on_paper
from bot.gate.credentials import VenueCredentials
from bot.gate.gate import Gate
from bot.gate.lanes import lanes_in
from bot.gate.readiness import Readiness, clock_fault
from bot.gate.recheck import Recheck
from bot.jobs.audited import Auditing
from bot.jobs.cancel import Cancelling, cancel_asked
from bot.jobs.closing import PositionClosing
from bot.jobs.comment import Commenting
from bot.jobs.halted import Halting
from bot.jobs.job import Job
from bot.jobs.permit import Permitting
from bot.jobs.ready import Credentials, Offset, Preparing, look_before_deciding
from bot.jobs.settle import Accounts, settle_accounts
from bot.jobs.submit import Begin, Submitting
from bot.jobs.withdraw import StaleWithdrawing
from bot.outbox.outbox import Outbox
from bot.outfit import Outfitter
from bot.registry import Registry
from bot.specs import Can
from bot.store.ledger import Ledger
from bot.venues import Venues

log = structlog.get_logger(__name__)

UNCOMMENTED = "comment = true, and the venue or its own settings let no comments pass"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """The guards of one run; ``recheck`` goes into its outbox, the others into its jobs."""

    brake: Brake
    readiness: Readiness
    recheck: Recheck
    permitting: Permitting
    preparing: Preparing
    auditing: Auditing
    _policy: PolicySection
    _fees: Mapping[str, float]
    _by_event: Collection[str]
    _ledger: Ledger
    _venues: Venues

    def clock_fault(self) -> str:
        """Say what is wrong with this clock, by what the venues said last; "" also where none has answered yet."""
        offset_s = self.preparing.offset()
        return "" if offset_s is None else clock_fault(offset_s)

    def submitting(self, outbox: Outbox, folder: Path) -> Submitting:
        """Return what the submit job works with."""
        return Submitting(
            ledger=self._ledger,
            lanes=self._venues.lanes,
            gate=Gate(brake=self.brake),
            outbox=outbox,
            clock=outbox.clock,
            planners=self._venues.planners,
            readiness=self.readiness,
            look=partial(look_before_deciding, self.preparing),
            begin=Begin(),
            closing=self.closing(outbox, folder),
            commenting=Commenting(
                ledger=self._ledger,
                lanes={name: self._venues.lanes[name] for name in self._fees},
                fees=self._fees,
                by_event=self._by_event,
                clock=outbox.clock,
                recheck=self.recheck,
            ),
            stale=self._stale(),
        )

    def _stale(self) -> StaleWithdrawing | None:
        """Return what withdraws stale forecasts, where the policy says so."""
        if not self._policy.withdraw_stale:
            return None
        able = self.permitting.withdrawing
        return StaleWithdrawing(
            ledger=self._ledger,
            lanes={name: lane for name, lane in self._venues.lanes.items() if name in able},
            clock=self.permitting.clock,
            stale_after=timedelta(hours=self._policy.stale_after_h),
            patience=timedelta(hours=self._policy.min_gap_h),
        )

    def closing(self, outbox: Outbox, folder: Path) -> PositionClosing:
        """Return what closes positions that people asked to close."""
        return PositionClosing(
            folder=folder,
            ledger=self._ledger,
            lanes=self._venues.lanes,
            gate=Gate(brake=self.brake),
            outbox=outbox,
            clock=outbox.clock,
            planners=self._venues.planners,
            readiness=self.readiness,
        )

    def halting(self) -> Halting:
        """Return what takes back resting orders while something is halted."""
        return Halting(
            ledger=self._ledger,
            brake=self.brake,
            clock=self.permitting.clock,
            lanes=self._venues.lanes,
            submitters=self._venues.submitters,
        )

    def keeping(self, outbox: Outbox, every: DaemonSection, folder: Path) -> Iterator[Job]:
        """Yield what keeps accounts true: settling paper books, reading balances, taking orders back."""
        lanes = self._venues.lanes
        accounts = Accounts(
            ledger=self._ledger,
            submitters=outbox.submitters,
            names={name: lane.account for name, lane in lanes.items()},
            paper=on_paper(lanes),
            clock=outbox.clock,
        )
        cancelling = Cancelling(
            folder=folder,
            ledger=self._ledger,
            submitters=outbox.submitters,
            modes={name: lane.mode for name, lane in lanes.items()},
            clock=outbox.clock,
        )
        yield Job(
            name="accounts",
            summary="settle paper books, read accounts",
            every=timedelta(seconds=every.reconcile_every_s),
            run=partial(settle_accounts, accounts),
        )
        yield Job(
            name="cancel",
            summary="take orders back",
            every=timedelta(seconds=every.attend_every_s),
            run=partial(cancel_asked, cancelling),
        )


def guards_of(outfitter: Outfitter, venues: Venues, ledger: Ledger, brake: Brake, offset: Offset) -> Guards:
    """Return the guards; ``offset`` tells by how many seconds this clock is ahead of those of the venues."""
    clock, readiness = outfitter.clock, Readiness()
    withdrawing = frozenset(spec.name for spec in outfitter.registry.venues if Can.WITHDRAW in spec.abilities)
    return Guards(
        brake=brake,
        readiness=readiness,
        recheck=Recheck(
            ledger=ledger,
            lanes=venues.lanes,
            brake=brake,
            clock=clock,
            readiness=readiness,
            trading=venues.planners.keys(),
        ),
        permitting=Permitting(
            ledger=ledger,
            clock=clock,
            stop_file=brake.stop_file,
            lanes=lanes_in(outfitter.config, outfitter.registry.configurable, known=venues.lanes),
            trading=frozenset(venues.planners),
            withdrawing=withdrawing,
            folder=brake.ledger.parent,
            resumed=partial(_look_again, readiness, outfitter.credentials),
        ),
        preparing=Preparing(
            readiness=readiness,
            ledger=ledger,
            path=brake.ledger,
            lanes=venues.lanes,
            clock=clock,
            offset=offset,
            started_at=clock.now(),
            credentials=credentials_of(outfitter, venues),
            refused=lambda venue: _refused(outfitter, venue),
        ),
        auditing=Auditing(ledger=ledger, folder=brake.ledger.parent, clock=clock),
        _policy=outfitter.config.policy,
        _fees=dict(_fees(outfitter, venues)),
        _by_event=[spec.name for spec in outfitter.registry.venues if spec.comments_by_event],
        _ledger=ledger,
        _venues=venues,
    )


def _look_again(readiness: Readiness, credentials: Mapping[str, VenueCredentials], venue: str | None) -> None:
    """Ask a venue again that a person resumed, all of them for None, and trust nothing that was found before."""
    for name, one in credentials.items():
        if venue in {None, name}:
            one.ask_again()
    readiness.outdate()


def _refused(outfitter: Outfitter, venue: str) -> str:
    credentials = outfitter.credentials.get(venue)
    return "" if credentials is None else credentials.refused


def credentials_of(outfitter: Outfitter, venues: Venues) -> Mapping[str, Credentials]:
    """Return what proves the credentials of each live venue that can tell."""
    found: dict[str, Credentials] = {}
    for name, lane in venues.lanes.items():
        spec = outfitter.registry.venues[name]
        if lane.live and spec.check is not None:
            found[name] = partial(spec.check, load_plugin_settings(spec, outfitter.config), outfitter.place(name))
    return found


def comment_fee(config: Config, registry: Registry, lane: Lane) -> float | None:
    """Return what a comment beside a forecast costs; None where none is made: nobody asks, or the venue takes none."""
    if not lane.comment or Can.COMMENT not in registry.venues[lane.venue].abilities:
        return None
    spec = registry.venues[lane.venue]
    fee: float | None = spec.comment_fee(load_plugin_settings(spec, config))
    return fee


def _fees(outfitter: Outfitter, venues: Venues) -> Iterator[tuple[str, float]]:
    """Yield what a comment costs where some are made; say where config asks for what the venue does not let pass."""
    for name, lane in venues.lanes.items():
        fee = comment_fee(outfitter.config, outfitter.registry, lane)
        if fee is not None:
            yield name, fee
        elif lane.comment:
            log.warning(UNCOMMENTED, venue=name)
