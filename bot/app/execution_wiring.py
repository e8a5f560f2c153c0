"""Connects the parts that control submission: gate, recheck, readiness, permissions, halts and audit."""

from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path

import structlog

from bot.app.plugin_factory import PluginFactory
from bot.app.venues import OpenVenues
from bot.config.plugin_settings import load_plugin_settings
from bot.config.schema import Config, DaemonSection, PolicySection
from bot.core.interfaces import Clock
from bot.core.light_dataclass import dataclass
from bot.core.plugin_specs import VenueSpec
from bot.execution.gate.credential_guard import CredentialGuard
from bot.execution.gate.execution_policy import ExecutionPolicy, paper_venues, venue_policies
from bot.execution.gate.gate import Gate, PreSendCheck
from bot.execution.gate.kill_switch import KillSwitch
from bot.execution.gate.readiness import LiveReadiness, clock_fault
from bot.execution.outbox.outbox import Outbox
from bot.jobs.comments import CommentContext
from bot.jobs.foreign_writes import ForeignWriteCheck
from bot.jobs.halts import HaltEnforcer
from bot.jobs.job import DaemonJob
from bot.jobs.ledger_maintenance import AuditExportContext
from bot.jobs.live_readiness import ClockSkewReader, CredentialCheck, ReadinessContext, refresh_readiness
from bot.jobs.position_closing import ClosingContext
from bot.jobs.privileged_requests import PrivilegedRequestContext
from bot.jobs.reconciliation import AccountSettlementContext, settle_accounts
from bot.jobs.submission import RunStart, SubmitJobContext
from bot.jobs.withdrawals import CancellationContext, StaleWithdrawalContext, cancel_requested_orders
from bot.plugin_system.registry import Registry
from bot.store.folder_identity import IdentityCheck
from bot.store.ledger import Ledger

log = structlog.get_logger(__name__)

COMMENTS_NOT_ALLOWED = "comment = true, but the venue or its own settings allow no comments"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionWiring:
    """The connected safety parts of one run; ``recheck`` goes into its outbox, the others into its jobs."""

    kill_switch: KillSwitch
    readiness: LiveReadiness
    recheck: PreSendCheck
    privileged_requests: PrivilegedRequestContext
    live_readiness: ReadinessContext
    audit_export: AuditExportContext
    _policy: PolicySection
    _fees: Mapping[str, float]
    _by_event: Collection[str]
    _ledger: Ledger
    _venues: OpenVenues
    _unopened: Collection[str]

    def clock_fault(self) -> str:
        """Return what is wrong with this clock, by the last answers of the venues.

        "" also where none has answered yet.
        """
        offset_s = self.live_readiness.clock_skew()
        return "" if offset_s is None else clock_fault(offset_s)

    def submit_job(self, outbox: Outbox, folder: Path) -> SubmitJobContext:
        """Return the context of the submit job."""
        return SubmitJobContext(
            ledger=self._ledger,
            execution_policies=self._venues.execution_policies,
            gate=Gate(kill_switch=self.kill_switch),
            outbox=outbox,
            clock=outbox.clock,
            planners=self._venues.planners,
            readiness=self.readiness,
            refresh_readiness=partial(refresh_readiness, self.live_readiness),
            run_start=RunStart(),
            closing=self.close_job(outbox, folder),
            comments=CommentContext(
                ledger=self._ledger,
                execution_policies={name: self._venues.execution_policies[name] for name in self._fees},
                fees=self._fees,
                one_per_event=self._by_event,
                clock=outbox.clock,
                pre_send_check=self.recheck,
            ),
            stale_withdrawals=self._stale_withdrawal(),
            unopened_venues=self._unopened,
            read_only_venues=self._venues.readers.keys() - self._venues.submitters.keys(),
        )

    def _stale_withdrawal(self) -> StaleWithdrawalContext | None:
        """Return the job that withdraws stale forecasts, where the policy asks for it."""
        if not self._policy.withdraw_stale:
            return None
        withdrawal_venues = self.privileged_requests.withdrawal_venues
        return StaleWithdrawalContext(
            ledger=self._ledger,
            execution_policies={
                name: policy for name, policy in self._venues.execution_policies.items() if name in withdrawal_venues
            },
            clock=self.privileged_requests.clock,
            stale_after=timedelta(hours=self._policy.stale_after_h),
            grace_period=timedelta(hours=self._policy.min_gap_h),
        )

    def close_job(self, outbox: Outbox, folder: Path) -> ClosingContext:
        """Return the job that closes positions at people's request."""
        return ClosingContext(
            folder=folder,
            ledger=self._ledger,
            execution_policies=self._venues.execution_policies,
            gate=Gate(kill_switch=self.kill_switch),
            outbox=outbox,
            clock=outbox.clock,
            planners=self._venues.planners,
            readiness=self.readiness,
            refresh_readiness=partial(refresh_readiness, self.live_readiness),
        )

    def halt_job(self) -> HaltEnforcer:
        """Return the job that cancels open orders while something is halted."""
        return HaltEnforcer(
            ledger=self._ledger,
            kill_switch=self.kill_switch,
            clock=self.privileged_requests.clock,
            execution_policies=self._venues.execution_policies,
            submitters=self._venues.submitters,
        )

    def account_jobs(self, outbox: Outbox, every: DaemonSection, folder: Path) -> Iterator[DaemonJob]:
        """Yield the jobs that keep accounts true: settling paper books, reading balances, cancelling orders."""
        policies = self._venues.execution_policies
        accounts = AccountSettlementContext(
            ledger=self._ledger,
            submitters=outbox.submitters,
            names={name: policy.account for name, policy in policies.items()},
            paper=paper_venues(policies),
            clock=outbox.clock,
        )
        cancellation = CancellationContext(
            folder=folder,
            ledger=self._ledger,
            submitters=outbox.submitters,
            modes={name: policy.mode for name, policy in policies.items()},
            clock=outbox.clock,
        )
        yield DaemonJob(
            name="accounts",
            summary="settle paper books, read accounts",
            interval=timedelta(seconds=every.reconcile_every_s),
            run=partial(settle_accounts, accounts),
        )
        yield DaemonJob(
            name="cancel",
            summary="cancel orders as asked",
            interval=timedelta(seconds=every.requests_every_s),
            run=partial(cancel_requested_orders, cancellation),
        )


def wire_execution(
    factory: PluginFactory,
    venues: OpenVenues,
    ledger: Ledger,
    kill_switch: KillSwitch,
    clock_skew: ClockSkewReader,
    *,
    identity: IdentityCheck | None = None,
) -> ExecutionWiring:
    """Return the wiring; ``clock_skew`` returns by how many seconds this clock is ahead of those of the venues.

    ``identity`` is the check of the state folder: in one that was copied or moved, live venues use paper books.
    """
    clock, readiness = factory.clock, LiveReadiness()
    withdrawal_venues = frozenset(spec.name for spec in factory.registry.venues if spec.withdraws)
    return ExecutionWiring(
        kill_switch=kill_switch,
        readiness=readiness,
        recheck=PreSendCheck(
            ledger=ledger,
            policies=venues.execution_policies,
            kill_switch=kill_switch,
            clock=clock,
            readiness=readiness,
            trading_venues=venues.planners.keys(),
        ),
        privileged_requests=PrivilegedRequestContext(
            ledger=ledger,
            clock=clock,
            stop_file=kill_switch.stop_file,
            execution_policies=venue_policies(
                factory.config, factory.registry.specs_of_table, known=venues.execution_policies
            ),
            trading_venues=frozenset(venues.planners),
            withdrawal_venues=withdrawal_venues,
            folder=kill_switch.ledger_file.parent,
            is_displaced=bool(identity and identity.fault),
            on_resume=partial(_recheck_credentials, readiness, factory.credentials),
        ),
        live_readiness=ReadinessContext(
            readiness=readiness,
            ledger=ledger,
            path=kill_switch.ledger_file,
            execution_policies=venues.execution_policies,
            clock=clock,
            clock_skew=clock_skew,
            started_at=clock.now(),
            credentials=credential_checks(factory, venues),
            credential_refusal=lambda venue: _credential_refusal(factory, venue),
            check_own_writes=_foreign_writes(ledger, clock, venues, identity).check_venue,
        ),
        audit_export=AuditExportContext(ledger=ledger, folder=kill_switch.ledger_file.parent, clock=clock),
        _policy=factory.config.policy,
        _fees=dict(_comment_fees(factory, venues)),
        _by_event=[spec.name for spec in factory.registry.venues if spec.comments_by_event],
        _ledger=ledger,
        _venues=venues,
        _unopened=[fault.spec.name for fault in factory.faults if isinstance(fault.spec, VenueSpec)],
    )


def _foreign_writes(
    ledger: Ledger, clock: Clock, venues: OpenVenues, identity: IdentityCheck | None
) -> ForeignWriteCheck:
    known = None if identity is None else identity.identity
    return ForeignWriteCheck(
        ledger=ledger,
        clock=clock,
        execution_policies=venues.execution_policies,
        submitters=venues.submitters,
        since=clock.now() if known is None else known.made_at,
    )


def _recheck_credentials(
    readiness: LiveReadiness, credentials: Mapping[str, CredentialGuard], venue: str | None, refused: Collection[str]
) -> None:
    """Ask again the venue that a person resumed, all for None, but those still refused; trust no earlier finding."""
    for name, one in credentials.items():
        if venue in {None, name} and name not in refused:
            one.clear_refusal()
    readiness.mark_outdated()


def _credential_refusal(factory: PluginFactory, venue: str) -> str:
    credentials = factory.credentials.get(venue)
    return "" if credentials is None else credentials.refusal_reason


def credential_checks(factory: PluginFactory, venues: OpenVenues) -> Mapping[str, CredentialCheck]:
    """Return the credential check of each live venue that has one."""
    found: dict[str, CredentialCheck] = {}
    for name, policy in venues.execution_policies.items():
        spec = factory.registry.venues[name]
        if policy.is_live and spec.check is not None:
            found[name] = partial(spec.check, load_plugin_settings(spec, factory.config), factory.plugin_context(spec))
    return found


def comment_fee(config: Config, registry: Registry, policy: ExecutionPolicy) -> float | None:
    """Return what a comment on a forecast costs, or None where config or venue permits none."""
    spec = registry.venues[policy.venue]
    if not policy.posts_comments or spec.comment_fee is None:
        return None
    fee: float | None = spec.comment_fee(load_plugin_settings(spec, config))
    return fee


def _comment_fees(factory: PluginFactory, venues: OpenVenues) -> Iterator[tuple[str, float]]:
    """Yield the cost of a comment where comments are made.

    Warn where config asks for them and the venue accepts none.
    """
    for name, policy in venues.execution_policies.items():
        fee = comment_fee(factory.config, factory.registry, policy)
        if fee is not None:
            yield name, fee
        elif policy.posts_comments:
            log.warning(COMMENTS_NOT_ALLOWED, venue=name)
