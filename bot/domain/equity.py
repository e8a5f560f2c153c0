"""Equity of one account over time: what its orders gained, and what came or went otherwise.

A deposit is no gain, nor is a loan. What the cash did beyond what fills, payouts and fees explain was moved by others
than the orders of Foxcast: deposits and withdrawals, bonuses, interest, trades by hand.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate

from bot.domain.profit import ONE, TradingBook

# Cash and positions are not read at the same moment. So a difference counts where it is there for so long, where the
# reading before or after has it too, where readings are this far apart, and at the end, where nobody knows yet.
LASTS = timedelta(minutes=1)
APART = timedelta(hours=1)
CENT = ONE // 100


@dataclass(frozen=True, slots=True, kw_only=True)
class EquityReading:
    """The sums of an account, the same from ``at`` to ``until``, in its currency.

    ``cash`` is free, ``reserved`` held back by open orders. ``loan`` is what the account owes. ``owed`` is what decided
    positions pay that were not paid out yet, ``elsewhere`` what positions are worth that no order here was about; both
    are part of ``equity``.
    """

    at: datetime
    until: datetime
    cash: float
    equity: float
    reserved: float = 0.0
    loan: float = 0.0
    owed: float = 0.0
    elsewhere: float = 0.0

    @property
    def settled(self) -> int:
        """Cash without what was lent and with what is owed, in millionths."""
        return round((self.cash + self.reserved - self.loan + self.owed) * ONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class EquityPoint:
    """An account at a moment, since the first reading, in its currency.

    ``moved`` is what came or went otherwise than by orders, ``gain`` what orders gained, realised or not, after fees;
    ``realised`` is the part of it that cannot change any more.
    """

    at: datetime
    equity: float
    cash: float
    reserved: float
    loan: float
    moved: float
    gain: float
    realised: float


def equity_points(
    readings: Sequence[EquityReading], book: TradingBook, fees: Iterable[tuple[datetime, int]]
) -> tuple[EquityPoint, ...]:
    """Return a point for each reading, oldest first; ``fees`` are those that no fill has, such as of comments."""
    if not readings:
        return ()
    events = [(one.at, one.cash, one.gain) for one in book.entries]
    events += [(at, -fee, -fee) for at, fee in fees]
    sums = _sums(sorted(events, key=lambda event: event[0]), [one.at for one in readings])
    first, (spent, _) = readings[0], sums[0]
    differences = [one.settled - first.settled - (cash - spent) for one, (cash, _) in zip(readings, sums, strict=True)]
    moved = _confirmed(readings, differences)
    begun = round((first.equity - first.elsewhere) * ONE)
    return tuple(
        EquityPoint(
            at=one.at,
            equity=one.equity,
            cash=one.cash,
            reserved=one.reserved,
            loan=one.loan,
            moved=other / ONE,
            gain=(round((one.equity - one.elsewhere) * ONE) - begun - other) / ONE,
            realised=(gain - sums[0][1]) / ONE,
        )
        for one, other, (_, gain) in zip(readings, moved, sums, strict=True)
    )


def _sums(events: Sequence[tuple[datetime, int, int]], moments: Sequence[datetime]) -> list[tuple[int, int]]:
    """Return the sums of all events up to each moment; both are in order of time."""
    totals = [(0, 0), *accumulate(((cash, gain) for _, cash, gain in events), lambda a, b: (a[0] + b[0], a[1] + b[1]))]
    found, place = [], 0
    for moment in moments:
        while place < len(events) and events[place][0] <= moment:
            place += 1
        found.append(totals[place])
    return found


def _confirmed(readings: Sequence[EquityReading], differences: Sequence[int]) -> list[int]:
    """Return the differences without those that are there in passing, such as of a trade that settles."""
    confirmed, known = [], 0
    for nth, (one, difference) in enumerate(zip(readings, differences, strict=True)):
        beside = [other for other in (nth - 1, nth + 1) if 0 <= other < len(readings)]
        repeated = any(abs(differences[other] - difference) < CENT for other in beside)
        apart = all(abs(readings[other].at - one.at) >= APART for other in beside)
        newest = nth + 1 == len(readings)
        if newest or repeated or apart or one.until - one.at >= LASTS:
            known = difference
        confirmed.append(known)
    return confirmed
