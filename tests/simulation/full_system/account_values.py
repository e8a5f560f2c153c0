"""What an account is worth, and what was lost, computed from what the doubles showed (docs/facts/manifold.md).

Part of the referee: it shares no code with the engine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import Any

Fact = Mapping[str, Any]
# The least and the most that something is worth; and shares of one side of a contract.
Worth = tuple[float, float]
Holding = tuple[str, str, float]
# A pass that had begun before something was there to be seen may go on for so long.
PASS_S = 900.0


def list_transfers(
    seen: Sequence[Fact], orders: Sequence[Fact], quiet_s: float = PASS_S
) -> Iterator[tuple[float, bool]]:
    """Yield the money that came or left until each reading of an account, and whether nothing else changed.

    No order is placed within ``quiet_s`` before the last reading, and all readings of that time show the same holdings,
    and the same money for orders that rest: a person may place one too.
    """
    shown = [(list_holdings(one), round(one["cash"] - one["free"], 6)) for one in seen]
    ordered, since = [order["at_s"] for order in orders], 0
    for place, (was, now) in enumerate(pairwise([*seen[:1], *seen])):
        while seen[since]["at_s"] < was["at_s"] - quiet_s:
            since += 1
        is_quiet = all(one == shown[place] for one in (shown[max(0, place - 1)], *shown[since:place])) and not any(
            was["at_s"] - quiet_s < at_s < now["at_s"] + PASS_S for at_s in ordered
        )
        yield now["moved"] - was["moved"], is_quiet


def moved_amounts(seen: Sequence[Fact], orders: Sequence[Fact]) -> Iterator[float]:
    """Yield the money that was moved until each reading of an account, so that what is lost at least can be counted.

    Money that comes while no position and no order changes is no gain, so it hides no loss; other money that comes may
    hide one. Money that leaves may be what had come before, which is no loss.
    """
    return accumulate(came if came < 0.0 or is_quiet else 0.0 for came, is_quiet in list_transfers(seen, orders))


def most_lost(
    values: Sequence[tuple[float, float]], transfers: Sequence[tuple[float, bool]], first: int, late: int
) -> float:
    """Return what may count as lost since a reading, the ``first`` or a later one, until one of the last ``late`` ones.

    Of transfers it counts most: money that came is a gain where anything else changed before the first reading, and is
    taken out of the value after it; money that leaves is lost but where as much had come before.
    """
    moved = [*accumulate(came if came > 0.0 or is_quiet else 0.0 for came, is_quiet in transfers)]
    lowest = [*accumulate(reversed(moved), min)][::-1]
    known, lost = 0.0, -float("inf")
    worst = max(sum_moved - low for sum_moved, (low, _) in zip(moved[-late:], values[-late:], strict=True))
    for place, ((_, high), (came, is_quiet)) in enumerate(zip(values, transfers, strict=True)):
        known = max(0.0, known + (came if came < 0.0 or is_quiet else 0.0))
        unknown = max(0.0, moved[place] - lowest[place] - known)
        lost = max(lost, high - moved[place] + worst + unknown) if place >= first else lost
    return lost


def list_holdings(account: Fact) -> set[Holding]:
    return {holding_of(one) for one in account["positions"]}


def holding_of(position: Fact) -> Holding:
    return position["contract"], position["leg"], position["shares"]


def least_loss(was: tuple[Fact, float, float, float], now: tuple[Fact, float, float, float]) -> float:
    """Return what was lost at least between two readings."""
    return was[1] - now[2] + now[3] - was[3]


def position_worth(position: Fact, unread: Mapping[Holding, Worth] = MappingProxyType({})) -> Worth:
    """Return the least and most that shares are worth: on their own book, what they pay, or what ``unread`` says."""
    if (known := unread.get(holding_of(position))) is not None:
        return known
    shares = position["shares"]
    if position.get("pays") is not None:
        return (shares * position["pays"],) * 2
    if position.get("has_book"):
        return (shares * position["bid"],) * 2
    if position.get("pool") is None:
        # Linked answers, or a market that waits for its outcome: it keeps its last price, whatever that was.
        return 0.0, shares
    return (_sale_value(position["pool"], position["leg"], shares),) * 2


def _sale_value(pool: tuple[float, float, float], leg: str, shares: float) -> float:
    """Return what a sale to the market maker brings: for an amount the other side is bought, and pairs pay 1 each."""
    return shares - purchase_cost(pool, "no" if leg == "yes" else "yes", shares)


def purchase_cost(pool: tuple[float, float, float], leg: str, shares: float) -> float:
    """Return what so many shares cost at the market maker, by bisection: docs/facts/manifold.md."""
    yes, no, weight = pool if leg == "yes" else (pool[1], pool[0], 1.0 - pool[2])
    low, high = 0.0, shares
    for _ in range(100):
        amount = (low + high) / 2.0
        # yes^p * no^(1-p) stays what it was while the amount is added to both and the shares are taken out.
        left = yes * (no / (no + amount)) ** ((1.0 - weight) / weight)
        low, high = (amount, high) if yes + amount - left < shares else (low, amount)
    return high


def value_unread_holdings(seen: Sequence[Fact], markets: Collection[str]) -> Mapping[Holding, Worth]:
    """Return the worth of shares whose market could not be read: as in an earlier reading, or what they cost."""
    found: dict[Holding, Worth] = {}
    for position in (one for account in seen for one in account["positions"]) if markets else ():
        if position["contract"].partition("/")[0] in markets:
            low, high = position_worth(position)
            least, most = found.get(holding_of(position), (position["paid"],) * 2)
            found[holding_of(position)] = min(low, least), max(high, most)
    return found


def seen_around(seen: Sequence[Fact], at: datetime, *, before_s: float) -> list[Fact]:
    """Return what was seen around a moment of the clock and last before; nothing if an answer was old or broken."""
    first, last = at - timedelta(seconds=before_s), at + timedelta(seconds=60.0)
    inside = [one for one in seen if first <= one["clock"] <= last]
    near = [*[one for one in seen if one["clock"] < first][-1:], *inside]
    after = [one for one in seen if one["clock"] > last][:1]
    return near if inside and len({one["faults"] for one in [*near, *after]}) == 1 else []
