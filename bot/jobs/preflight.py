"""What would leave now, and why all else would not: the same checks and plans as submitting, and nothing that writes.

It holds readers and planners alone: there is no submitter here that anything could be sent with.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from bot.domain.forecast import Forecast
from bot.domain.order import Account
from bot.domain.permission import Usage
from bot.domain.submission import Decision, Hold, Send
from bot.errors import FoxcastError, StoreError
from bot.gate.case import Case, exposure_of
from bot.gate.gate import Gate
from bot.jobs.cases import Around, Shop, counted, counts, with_dockets
from bot.ports import Clock, Finder, Venue
from bot.store.dockets import Docket

# Held until whenever: all of them wait.
FAR = timedelta(days=36_500)
MOST = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """What it takes: ``accounts`` are by venue, as they were read last, or as they would begin."""

    around: Around
    gate: Gate
    clock: Clock
    reader: Venue
    accounts: Mapping[str, Account] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One forecast that waits, and what would be decided over it now; ``case`` is as far as it came."""

    case: Case
    decision: Decision


@dataclass(slots=True)
class _Tally:
    """What would have left before, in this look: the caps count it, though it is nowhere on record."""

    sent: list[Case] = field(default_factory=list)

    @property
    def reserved(self) -> float:
        """What all of it would cost."""
        return _cost(self.sent)

    def usage(self, known: Usage, case: Case) -> Usage:
        """Return what would be at stake by now."""
        mine, cost = exposure_of(case.question), _cost
        others = [(exposure_of(one.question), one) for one in self.sent]
        return replace(
            known,
            question=known.question + cost(one for _, one in others if one.forecast.ref == case.forecast.ref),
            event=known.event + cost(one for theirs, one in others if mine.event and theirs.event == mine.event),
            creator=known.creator + cost(one for its, one in others if mine.creator and its.creator == mine.creator),
            category=known.category + cost(one for its, one in others if its.category == mine.category != ""),
            day=known.day + self.reserved,
            total=known.total + self.reserved,
            armed=known.armed + self.reserved,
            hour=known.hour + len(self.sent),
        )


async def look(parts: Preflight, venue: str) -> list[Look]:
    """Return what would become of each forecast of the venue that waits, in the order in which they are decided."""
    ledger, now = parts.around.ledger, parts.clock.now()
    waiting = [*await ledger.forecasts.undecided(MOST), *await ledger.forecasts.held(MOST, now=now + FAR)]
    mine = [forecast for forecast in waiting if forecast.ref.venue == venue]
    tally, shop, pairs = _Tally(), _shop(parts, venue), await with_dockets(parts.around, mine, now)
    await _propose(parts, pairs, shop)
    return [await _look(parts, pair, tally, shop) for pair in pairs]


async def _propose(parts: Preflight, pairs: Sequence[tuple[Forecast, Docket]], shop: Shop | None) -> None:
    """Have the orders sized together, as submitting does."""
    leave, cases = parts.around.ledger.leave, []
    for forecast, docket in pairs if shop is not None else ():
        case = await parts.around.case(forecast, docket, parts.clock.now())
        if case.trades and docket.successor is None and parts.gate.before(case) is None:
            cases.append(replace(case, usage=await leave.usage(counted(case), now=case.now)))
    if shop is not None and cases:
        lane = cases[0].lane
        await shop.propose(cases, reserved=await leave.waiting(lane.venue, lane.account, paper=not lane.live))


async def _look(parts: Preflight, pair: tuple[Forecast, Docket], tally: _Tally, shop: Shop | None) -> Look:
    forecast, docket = pair
    case = await parts.around.case(forecast, docket, parts.clock.now())
    if docket.successor is not None:
        return Look(case=case, decision=Hold(why=f"superseded by revision {docket.successor}"))
    if hold := parts.gate.before(case):
        return Look(case=case, decision=hold)
    fresh = await _fresh(parts, docket)
    if isinstance(fresh, str):
        return Look(case=case, decision=case.later(fresh))
    case = await parts.around.case(forecast, fresh, parts.clock.now())
    if counts(case):
        known = await parts.around.ledger.leave.usage(counted(case), now=case.now)
        case = replace(case, usage=tally.usage(known, case))
    planned = await _planned(parts, case, tally, shop)
    if isinstance(planned, Hold):
        return Look(case=case, decision=planned)
    decision = parts.gate.decide(planned)
    if isinstance(decision, Send):
        tally.sent.append(planned)
        if shop is not None:
            shop.bought = tally.reserved
    return Look(case=planned, decision=decision)


async def _fresh(parts: Preflight, docket: Docket) -> Docket | str:
    """Return the docket with the question as the venue states it now, where it can be asked for one by its name."""
    if not isinstance(parts.reader, Finder):
        return docket
    try:
        return replace(docket, question=await parts.reader.find(docket.question.ref.key))
    except StoreError:
        raise
    except FoxcastError as error:
        return f"the question cannot be read: {error}"


async def _planned(parts: Preflight, case: Case, tally: _Tally, shop: Shop | None) -> Case | Hold:
    if not case.trades:
        return case
    if shop is None:
        return case.later("its account was never read; it is when the daemon runs")
    waiting = await parts.around.ledger.leave.waiting(case.lane.venue, case.lane.account, paper=not case.lane.live)
    return await shop.plan(case, reserved=waiting + tally.reserved)


def _shop(parts: Preflight, venue: str) -> Shop | None:
    planner, account = parts.around.planners.get(venue), parts.accounts.get(venue)
    return None if planner is None or account is None else Shop(planner=planner, account=account)


def _cost(cases: Iterable[Case]) -> float:
    return sum(case.order.cost for case in cases if case.order is not None)
