"""Forecast what is due: what would cost too much is held, the rest is claimed, soonest close first, and forecast."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import structlog

from bot.desk.troubles import in_words
from bot.jobs.mishaps import Mishaps
from bot.jobs.sitting import Means, NoAnswer, Seat, Sitting, begin
from bot.jobs.spending import Spending
from bot.store.schedule import Claim

log = structlog.get_logger()

# A forecaster that config names no longer, or whose plugin is broken, is asked again the next day.
UNUSED_WAIT = timedelta(days=1)
RETRY_AFTER = (timedelta(minutes=5), timedelta(hours=1), timedelta(hours=6))
# Free places are filled a quarter at a time, or after this long: a claim costs a commit, an idle place costs more.
REFILL_S = 0.05
# What has become due since is looked for this often while the last forecasts of a pass are under way.
LOOK_AGAIN_S = 1.0
# A lease outlives the longest trial by this much.
LEASE_BEYOND = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecasting:
    """What the forecast job works with."""

    means: Means
    seats: Mapping[str, Seat]
    spending: Spending
    owner: str
    lease: timedelta
    concurrency: int
    patience_s: float
    stopping: Callable[[], bool]


async def forecast_due(parts: Forecasting) -> str:
    """Claim and forecast, soonest close first, until nothing is due, patience ends or the daemon stops.

    Patience bounds one pass, so that what is ready is submitted while a long queue is worked off. The line that is
    returned says how many trials failed, and why. Raises Unauthorized at the end where a forecaster made nothing for
    want of credentials.
    """
    tally = await _Pass(parts).work()
    missed = await _missed(parts)
    told = ((tally.failed, "postponed"), (tally.held, "held"), (missed, "windows missed"))
    said = ", ".join([f"{tally.done} forecasts made", *(f"{count} {what}" for count, what in told if count)])
    return tally.mishaps.settle(said)


@dataclass(slots=True)
class _Tally:
    done: int = 0
    failed: int = 0
    held: int = 0
    mishaps: Mishaps = field(default_factory=Mishaps)


@dataclass(slots=True)
class _Pass:
    """One pass: as many questions under way as there are places, each replaced as soon as it is done."""

    parts: Forecasting
    tally: _Tally = field(default_factory=_Tally)
    running: set[asyncio.Task[bool]] = field(default_factory=set)
    claimed_at: float = float("-inf")
    exhausted: bool = False

    async def work(self) -> _Tally:
        try:
            async with asyncio.TaskGroup() as group:
                await self._rounds(group, until=self.parts.means.clock.monotonic() + self.parts.patience_s)
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return self.tally

    async def _rounds(self, group: asyncio.TaskGroup, *, until: float) -> None:
        while True:
            if self._may_claim(until):
                await self._claim(group)
            if not self.running:
                return
            await self._wait(until)

    def _may_claim(self, until: float) -> bool:
        now = self.parts.means.clock.monotonic()
        if self.parts.stopping() or now >= until:
            return False
        if self.exhausted:
            return bool(self.running) and now - self.claimed_at >= LOOK_AGAIN_S
        free = self.parts.concurrency - len(self.running)
        return free > 0 and (4 * free >= self.parts.concurrency or now - self.claimed_at >= REFILL_S)

    async def _claim(self, group: asyncio.TaskGroup) -> None:
        parts, free = self.parts, self.parts.concurrency - len(self.running)
        if free <= 0:
            return
        held = await self._held()
        longest = max((seat.limits.seconds + seat.warm_start_s for seat in parts.seats.values()), default=0.0)
        claims = await parts.means.ledger.schedule.claim(
            now=parts.means.clock.now(),
            owner=parts.owner,
            lease=max(parts.lease, timedelta(seconds=longest) + LEASE_BEYOND),
            limit=free,
            leave=held,
            behind=self._behind,
        )
        parts.spending.begun(claim.forecaster for claim in claims)
        self.claimed_at = parts.means.clock.monotonic()
        self.exhausted = len(claims) < free
        self.running.update(group.create_task(_attempt(parts, claim, self.tally.mishaps)) for claim in claims)

    @property
    def _behind(self) -> list[tuple[str, str]]:
        return [(name, member) for name, seat in self.parts.seats.items() for member in seat.members]

    async def _held(self) -> tuple[str, ...]:
        """Return who must wait for a person's yes, by what is due now."""
        spending, means = self.parts.spending, self.parts.means
        if not spending.matters:
            return ()
        due = await means.ledger.schedule.due(means.clock.now())
        held = await spending.held(self.parts.seats, due, now=means.clock.now())
        self.tally.held = sum(due[name] for name in held)
        return held

    async def _wait(self, until: float) -> None:
        """Wait for the next forecast to end, or for the time to look for more while there is room and patience."""
        clock = self.parts.means.clock
        room = len(self.running) < self.parts.concurrency and clock.monotonic() < until and not self.parts.stopping()
        pause = LOOK_AGAIN_S if self.exhausted else REFILL_S
        done, self.running = await asyncio.wait(
            self.running, timeout=pause if room else None, return_when=asyncio.FIRST_COMPLETED
        )
        # Who builds on those that ended may have its turn now, which must not wait for the next pass.
        self.exhausted = self.exhausted and not (done and self._behind)
        for task in done:
            # One that failed has cancelled the others already, and is raised by the group.
            made = not task.cancelled() and task.exception() is None and task.result()
            self.tally.done += made
            self.tally.failed += not made


async def _missed(parts: Forecasting) -> int:
    """Raise the alarm over windows that closed without a forecast; the ledger tells each of them once."""
    missed = await parts.means.ledger.schedule.missed(parts.means.clock.now())
    if missed:
        log.warning("windows missed", count=len(missed), first=str(missed[0].ref), forecaster=missed[0].forecaster)
    return len(missed)


async def _attempt(parts: Forecasting, claim: Claim, mishaps: Mishaps) -> bool:
    """Forecast one claim; False if that gave no answer, and the question was put off."""
    means, seat = replace(parts.means, watch=mishaps), parts.seats.get(claim.forecaster)
    if seat is None:
        unused = f"{claim.forecaster} is not in use"
        await means.ledger.schedule.postpone(claim, until=means.clock.now() + UNUSED_WAIT, why=unused)
        return False
    sitting: Sitting | None = None
    try:
        question = await means.ledger.questions.get(claim.ref)
        sitting = await begin(means, seat, question, claim.why, apart=claim.apart)
        await sitting.forecast()
    except NoAnswer as nothing:
        mishaps.refused(claim.forecaster, nothing.details)
        until = await _put_off(means, claim, sitting=sitting, why=str(nothing))
        mishaps.tell(claim, until=until, why=str(nothing), trouble=None)
    except Exception as error:  # noqa: BLE001 - what goes wrong with one question must cost no other its forecast
        # A ledger that takes nothing any more refuses the postponement too, and that error ends the pass.
        why = in_words(error)
        mishaps.tell(claim, until=await _put_off(means, claim, sitting=sitting, why=why), why=why, trouble=error)
    else:
        mishaps.made(claim.forecaster)
        return True
    return False


async def _put_off(means: Means, claim: Claim, *, sitting: Sitting | None, why: str) -> datetime:
    wait = RETRY_AFTER[min(claim.attempt, len(RETRY_AFTER)) - 1]
    until = means.clock.now() + wait
    if sitting is not None:
        await means.ledger.forecasts.fail(sitting.running.id, why=why, at=means.clock.now())
    await means.ledger.schedule.postpone(claim, until=until, why=why)
    return until
