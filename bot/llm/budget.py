"""The spending budget of a run: every call reserves its maximum cost under all limits before it is made.

A call that may fit after others are settled waits for them, in order of arrival.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import field
from datetime import date, datetime

from bot.config.schema import LlmSection
from bot.core.interfaces import Clock
from bot.core.light_dataclass import dataclass
from bot.store.model_calls import ScopeSpending

# How many scopes (forecasts) are cached; others are read from the ledger again.
MAX_SCOPES = 4096
# Sums of many small amounts are not exact.
TOLERANCE_USD = 1e-9
# What each limit is of, and its setting: of a question, of a run, of a provider in a day, and of a day.
_LIMIT_TEXTS = (
    ("of the question", "[llm.budget] question_usd"),
    ("of this run", "[llm.budget] run_usd"),
    ("of the day for {}", "[llm.providers.{}] day_usd"),
    ("of the day", "[llm.budget] day_usd"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingRequest:
    """A request to spend: in one scope (a forecast), with one provider, at most this amount."""

    scope: str
    provider: str
    worst_usd: float


@dataclass(slots=True)
class BudgetAccount:
    """What was spent under one limit, and what calls under way have reserved of it."""

    spent_usd: float = 0.0
    reserved_usd: float = 0.0
    reservations: int = 0
    # Waiting requests of this scope.
    waiting: int = 0

    @property
    def committed_usd(self) -> float:
        """The amount that is spent or reserved."""
        return self.spent_usd + self.reserved_usd

    @property
    def is_idle(self) -> bool:
        """Whether no call uses it now."""
        return self.reservations == self.waiting == 0


# Of the scope, of the run, of the day, and of the provider in the day.
_LimitedAccounts = tuple[BudgetAccount, BudgetAccount, BudgetAccount, BudgetAccount]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLimit:
    """One limit, in US dollars, and the setting that sets it."""

    what: str
    setting: str
    usd: float
    account: BudgetAccount


@dataclass(slots=True, kw_only=True, eq=False)
class BudgetReservation:
    """What one call has reserved, from ``at`` on, until it is settled."""

    request: SpendingRequest
    at: datetime
    accounts: Sequence[BudgetAccount]
    settled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetShortage:
    """A limit that a request exceeds; ``is_temporary`` where it may fit once calls under way are settled."""

    request: SpendingRequest
    limit: BudgetLimit

    @property
    def is_temporary(self) -> bool:
        """Whether the request may fit once calls under way are settled."""
        return self.request.worst_usd <= self.limit.usd - self.limit.account.spent_usd + TOLERANCE_USD

    def __str__(self) -> str:
        limit = self.limit
        left_usd = max(0.0, limit.usd - limit.account.committed_usd)
        return (
            f"the budget {limit.what} does not allow the call: it may cost {self.request.worst_usd:.4f} US dollars, "
            f"and {left_usd:.4f} of {limit.usd:g} are left; raise {limit.setting} in config.toml to continue"
        )


@dataclass(frozen=True, slots=True, eq=False)
class _WaitingRequest:
    request: SpendingRequest
    reservation: "asyncio.Future[BudgetReservation | BudgetShortage]"


@dataclass(slots=True)
class _DailyAccounts:
    day: date
    all: BudgetAccount = field(default_factory=BudgetAccount)
    providers: dict[str, BudgetAccount] = field(default_factory=dict)


class SpendingBudget:
    """All limits of one run.

    Days are UTC days, and a call belongs to the day on which it was reserved.
    """

    def __init__(self, section: LlmSection, *, clock: Clock) -> None:
        """Start with nothing spent."""
        self._budget = section.budget
        self._providers = section.providers
        self._clock = clock
        self._run_account = BudgetAccount()
        self._today = _DailyAccounts(clock.now().date())
        self._scopes: OrderedDict[str, BudgetAccount] = OrderedDict()
        self._waiters: dict[_WaitingRequest, None] = {}
        # The accounts (by identity) whose limits block waiting requests.
        self._blocked_accounts: set[int] = set()

    @property
    def run_account(self) -> BudgetAccount:
        """What this run has spent and reserved."""
        return self._run_account

    @property
    def has_waiting_requests(self) -> bool:
        """Whether a request waits for calls under way to cost less than their maximum."""
        return bool(self._waiters)

    @property
    def day_account(self) -> BudgetAccount:
        """What was spent and reserved today, including other runs."""
        return self._accounts_of_day(self._clock.now()).all

    def load_day(self, spent: Sequence[ScopeSpending]) -> None:
        """Add what was spent or reserved today before this run."""
        today = self._accounts_of_day(self._clock.now())
        for entry in spent:
            today.all.spent_usd += entry.cost_usd
            today.providers.setdefault(entry.provider, BudgetAccount()).spent_usd += entry.cost_usd

    def knows_scope(self, scope: str) -> bool:
        """Return whether the amount spent in a scope is known."""
        return scope in self._scopes

    def load_scope(self, scope: str, spent_usd: float) -> None:
        """Set what was spent in a scope before, unless it is known already."""
        if self.knows_scope(scope):
            return
        if len(self._scopes) >= MAX_SCOPES:
            oldest = next((name for name, account in self._scopes.items() if account.is_idle), None)
            self._scopes.pop(oldest or "", None)
        self._scopes[scope] = BudgetAccount(spent_usd=spent_usd)

    async def reserve(self, request: SpendingRequest) -> BudgetReservation | BudgetShortage:
        """Reserve the maximum cost; wait if calls under way may free budget. The scope must be known."""
        result = self.try_reserve(request)
        return await self.wait_for_room(request) if result is None else result

    def try_reserve(self, request: SpendingRequest) -> BudgetReservation | BudgetShortage | None:
        """Reserve the maximum cost at once, or return why it will never fit; None means that it must wait."""
        now = self._clock.now()
        accounts = self._accounts(request, now)
        shortage = self._find_shortage(request, accounts)
        if shortage is not None:
            return None if shortage.is_temporary else shortage
        return None if self._is_behind(request, accounts) else self._reserve_now(request, accounts, now)

    async def wait_for_room(self, request: SpendingRequest) -> BudgetReservation | BudgetShortage:
        """Wait in the order of arrival until a request fits or never will."""
        scope = self._scopes[request.scope]
        waiter = _WaitingRequest(request, asyncio.get_running_loop().create_future())
        scope.waiting += 1
        self._waiters[waiter] = None
        self._serve_request(waiter)
        try:
            return await waiter.reservation
        except asyncio.CancelledError:
            if (
                waiter.reservation.done()
                and not waiter.reservation.cancelled()
                and isinstance(result := waiter.reservation.result(), BudgetReservation)
            ):
                self.settle(result, 0.0)
            raise
        finally:
            scope.waiting -= 1
            if waiter in self._waiters:
                del self._waiters[waiter]
                self._serve_waiting()

    def find_shortage(self, request: SpendingRequest) -> "BudgetShortage | None":
        """Return the first limit that a request exceeds now."""
        return self._find_shortage(request, self._accounts(request, self._clock.now()))

    def _find_shortage(self, request: SpendingRequest, accounts: _LimitedAccounts) -> "BudgetShortage | None":
        # A free call does not wait for an exhausted limit.
        if not request.worst_usd:
            return None
        scope, run, day, provider_day = accounts
        budget, provider = self._budget, self._providers.get(request.provider)
        limits = (
            (budget.question_usd, scope),
            (budget.run_usd, run),
            (None if provider is None else provider.day_usd, provider_day),
            (budget.day_usd, day),
        )
        for place, (usd, account) in enumerate(limits):
            if usd is not None and request.worst_usd > usd - account.committed_usd + TOLERANCE_USD:
                what, setting = _LIMIT_TEXTS[place]
                limit = BudgetLimit(
                    what=what.format(request.provider),
                    setting=setting.format(request.provider),
                    usd=usd,
                    account=account,
                )
                return BudgetShortage(request=request, limit=limit)
        return None

    def settle(self, reservation: BudgetReservation, cost_usd: float) -> None:
        """Replace what a call reserved by its real cost; a second time changes nothing."""
        if reservation.settled:
            return
        reservation.settled = True
        for account in reservation.accounts:
            account.reservations -= 1
            account.reserved_usd = account.reserved_usd - reservation.request.worst_usd if account.reservations else 0.0
            account.spent_usd += cost_usd
        if self._waiters:
            self._serve_waiting()

    def _reserve_now(self, request: SpendingRequest, accounts: _LimitedAccounts, now: datetime) -> BudgetReservation:
        self._scopes.move_to_end(request.scope)
        for account in accounts:
            account.reservations += 1
            account.reserved_usd += request.worst_usd
        return BudgetReservation(request=request, at=now, accounts=accounts)

    def _serve_waiting(self) -> None:
        """Admit waiting requests in order of arrival; a blocked one blocks all later ones at the same limit."""
        self._blocked_accounts.clear()
        for waiter in tuple(self._waiters):
            self._serve_request(waiter)

    def _serve_request(self, waiter: "_WaitingRequest") -> None:
        now = self._clock.now()
        accounts = self._accounts(waiter.request, now)
        if self._is_behind(waiter.request, accounts):
            return
        shortage = self._find_shortage(waiter.request, accounts)
        if shortage is not None and shortage.is_temporary:
            self._blocked_accounts.add(id(shortage.limit.account))
            return
        del self._waiters[waiter]
        # A request that was cancelled a moment ago reserves nothing.
        if not waiter.reservation.done():
            waiter.reservation.set_result(shortage or self._reserve_now(waiter.request, accounts, now))

    def _is_behind(self, request: SpendingRequest, accounts: _LimitedAccounts) -> bool:
        """Return whether an earlier request waits for a limit that applies to this one too."""
        if not self._blocked_accounts or not request.worst_usd:
            return False
        return not self._blocked_accounts.isdisjoint(map(id, accounts))

    def _accounts(self, request: SpendingRequest, now: datetime) -> _LimitedAccounts:
        today = self._accounts_of_day(now)
        provider = today.providers.get(request.provider)
        if provider is None:
            provider = today.providers[request.provider] = BudgetAccount()
        return self._scopes[request.scope], self._run_account, today.all, provider

    def _accounts_of_day(self, now: datetime) -> _DailyAccounts:
        # If the wall clock was set back, keep the later day.
        if now.date() > self._today.day:
            self._today = _DailyAccounts(now.date())
        return self._today
