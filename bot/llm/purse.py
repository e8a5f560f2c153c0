"""What may still be spent: every call is held against all limits at its worst case before it is made.

Checking and holding happen without an await in between, so calls that are asked for at once cannot pass together what
each of them would pass alone. A call that would fit once others turn out cheaper than their worst case waits for them,
and whoever comes later to the limit that it waits at waits behind it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from bot.config.llm_schema import LlmSection
from bot.ports import Clock
from bot.store.calls import Spent

# Scopes (forecasts) remembered; one that was forgotten is read from the ledger again.
REMEMBERED = 4096
# Sums of many small amounts are not exact.
SLACK_USD = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A call that wants to be made: in one scope (a forecast), to one provider, at most at this cost."""

    scope: str
    provider: str
    worst_usd: float


@dataclass(slots=True)
class Account:
    """What was spent under one limit, and what calls under way hold of it."""

    spent_usd: float = 0.0
    held_usd: float = 0.0
    holds: int = 0
    # Those who wait and are charged to it, as a scope.
    waiting: int = 0

    @property
    def standing_usd(self) -> float:
        """What is spent or may yet be."""
        return self.spent_usd + self.held_usd

    @property
    def idle(self) -> bool:
        """Whether nobody has to do with it now."""
        return self.holds == self.waiting == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One limit, in US dollars, and the setting that makes it."""

    what: str
    setting: str
    usd: float
    account: Account


@dataclass(slots=True, kw_only=True, eq=False)
class Hold:
    """What one call holds, from ``at`` on, until it is settled."""

    claim: Claim
    at: datetime
    accounts: Sequence[Account]
    settled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """A limit that a claim does not fit under; ``passing`` where it may fit once calls under way are settled."""

    claim: Claim
    limit: Limit

    @property
    def passing(self) -> bool:
        """Whether it is calls under way that stand in the way."""
        return self.claim.worst_usd <= self.limit.usd - self.limit.account.spent_usd + SLACK_USD

    def __str__(self) -> str:
        limit = self.limit
        left_usd = max(0.0, limit.usd - limit.account.standing_usd)
        return (
            f"the budget {limit.what} does not allow the call: it may cost {self.claim.worst_usd:.4f} US dollars, and "
            f"of {limit.usd:g} there are {left_usd:.4f} left; raise {limit.setting} in config.toml to go on"
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    claim: Claim
    done: "asyncio.Future[Hold | Shortage]"


@dataclass(slots=True)
class _Day:
    day: date
    all: Account = field(default_factory=Account)
    providers: dict[str, Account] = field(default_factory=dict)


class Purse:
    """All limits of one run. Days are of UTC and belong to a call by the moment at which it was held."""

    def __init__(self, section: LlmSection, *, clock: Clock) -> None:
        """Begin with nothing spent."""
        self._budget = section.budget
        self._providers = section.providers
        self._clock = clock
        self._run = Account()
        self._today = _Day(clock.now().date())
        self._scopes: OrderedDict[str, Account] = OrderedDict()
        self._waiters: dict[_Waiter, None] = {}
        # The accounts (by identity) at which the first of those who wait are stopped.
        self._stopped_at: set[int] = set()

    @property
    def run(self) -> Account:
        """What this run has spent and holds."""
        return self._run

    @property
    def day(self) -> Account:
        """The same of the present day, whoever spent it."""
        return self._of(self._clock.now()).all

    def begin_day(self, spent: Sequence[Spent]) -> None:
        """Take over what was spent or reserved today before this run."""
        today = self._of(self._clock.now())
        for entry in spent:
            today.all.spent_usd += entry.cost_usd
            today.providers.setdefault(entry.provider, Account()).spent_usd += entry.cost_usd

    def knows(self, scope: str) -> bool:
        """Say whether it is known what was spent in a scope."""
        return scope in self._scopes

    def learn(self, scope: str, spent_usd: float) -> None:
        """Take over what was spent in a scope before; what is known already is the better figure."""
        if self.knows(scope):
            return
        if len(self._scopes) >= REMEMBERED:
            oldest = next((name for name, account in self._scopes.items() if account.idle), None)
            self._scopes.pop(oldest or "", None)
        self._scopes[scope] = Account(spent_usd=spent_usd)

    async def hold(self, claim: Claim) -> Hold | Shortage:
        """Hold the worst case, waiting where calls under way may make room; the scope must be known."""
        held = self.take(claim)
        return await self.wait(claim) if held is None else held

    def take(self, claim: Claim) -> Hold | Shortage | None:
        """Hold the worst case at once, or say why that will never be; None is for what must wait."""
        shortage = self.shortage(claim)
        if shortage is not None:
            return None if shortage.passing else shortage
        return None if self._is_behind(claim) else self._held(claim)

    async def wait(self, claim: Claim) -> Hold | Shortage:
        """Wait in the order of arrival until a claim fits or never will."""
        scope = self._scopes[claim.scope]
        waiter = _Waiter(claim, asyncio.get_running_loop().create_future())
        scope.waiting += 1
        self._waiters[waiter] = None
        self._serve(waiter)
        try:
            return await waiter.done
        except asyncio.CancelledError:
            if waiter.done.done() and not waiter.done.cancelled() and isinstance(held := waiter.done.result(), Hold):
                self.settle(held, 0.0)
            raise
        finally:
            scope.waiting -= 1
            if waiter in self._waiters:
                del self._waiters[waiter]
                self._serve_all()

    def shortage(self, claim: Claim) -> "Shortage | None":
        """Return the first limit that a claim does not fit under now."""
        # What costs nothing is not held up by what was overspent.
        if not claim.worst_usd:
            return None
        for limit in self._limits(claim):
            if claim.worst_usd > limit.usd - limit.account.standing_usd + SLACK_USD:
                return Shortage(claim=claim, limit=limit)
        return None

    def settle(self, hold: Hold, cost_usd: float) -> None:
        """Put what a call really cost in place of what it held; a second time changes nothing."""
        if hold.settled:
            return
        hold.settled = True
        for account in hold.accounts:
            account.holds -= 1
            account.held_usd = account.held_usd - hold.claim.worst_usd if account.holds else 0.0
            account.spent_usd += cost_usd
        if self._waiters:
            self._serve_all()

    def _held(self, claim: Claim) -> Hold:
        self._scopes.move_to_end(claim.scope)
        now = self._clock.now()
        accounts = self._accounts(claim, now)
        for account in accounts:
            account.holds += 1
            account.held_usd += claim.worst_usd
        return Hold(claim=claim, at=now, accounts=accounts)

    def _serve_all(self) -> None:
        """Give way to those who wait, first come first served; who is stopped stops all behind at the same limit."""
        self._stopped_at.clear()
        for waiter in tuple(self._waiters):
            self._serve(waiter)

    def _serve(self, waiter: "_Waiter") -> None:
        if self._is_behind(waiter.claim):
            return
        shortage = self.shortage(waiter.claim)
        if shortage is not None and shortage.passing:
            self._stopped_at.add(id(shortage.limit.account))
            return
        del self._waiters[waiter]
        # Who was cancelled a moment ago holds nothing.
        if not waiter.done.done():
            waiter.done.set_result(shortage or self._held(waiter.claim))

    def _is_behind(self, claim: Claim) -> bool:
        """Say whether somebody who came before waits at a limit that the claim must pass too."""
        if not self._stopped_at or not claim.worst_usd:
            return False
        return not self._stopped_at.isdisjoint(map(id, self._accounts(claim, self._clock.now())))

    def _accounts(self, claim: Claim, now: datetime) -> tuple[Account, Account, Account, Account]:
        today = self._of(now)
        provider = today.providers.setdefault(claim.provider, Account())
        return self._scopes[claim.scope], self._run, today.all, provider

    def _limits(self, claim: Claim) -> Iterator[Limit]:
        scope, run, day, day_of_provider = self._accounts(claim, self._clock.now())
        budget, provider = self._budget, self._providers.get(claim.provider)
        of_provider = None if provider is None else provider.day_usd
        everything = (
            ("of the question", "[llm.budget] question_usd", budget.question_usd, scope),
            ("of this run", "[llm.budget] run_usd", budget.run_usd, run),
            (
                f"of the day for {claim.provider}",
                f"[llm.providers.{claim.provider}] day_usd",
                of_provider,
                day_of_provider,
            ),
            ("of the day", "[llm.budget] day_usd", budget.day_usd, day),
        )
        for what, setting, usd, account in everything:
            if usd is not None:
                yield Limit(what=what, setting=setting, usd=usd, account=account)

    def _of(self, now: datetime) -> _Day:
        # A wall clock that was set back goes on with the later day.
        if now.date() > self._today.day:
            self._today = _Day(now.date())
        return self._today
