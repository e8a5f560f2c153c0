"""Stakes of one pass, sized together: what each order may cost given the others.

Each planner proposes the stake of its order as if it were alone. Two steps turn these into joint stakes, and neither
depends on the order of the questions:

1. The legs of one event are correlated. For n equal bets of pairwise correlation r the Kelly stakes are those of single
   bets divided by 1 + (n - 1) r, which follows from the inverse of their covariance matrix. Stakes that differ count as
   n = (their sum) / (the largest of them) equal ones.
2. Bets that are made at the same time share one bankroll. Where stakes that share a bound (cash, a cap, a share of the
   bankroll) add up to more than it allows, all of them are scaled down in proportion; the tightest bound of each
   counts. For many small bets that is close to the optimum.

What is left of a stake after that may be too small to be made. Then the one of the smallest edge is dropped, and the
others are sized anew.

Sources: E. O. Thorp, The Kelly Criterion in Blackjack, Sports Betting, and the Stock Market (2006), sections on
simultaneous bets and on portfolios (optimal fractions are the inverse covariance matrix times the excess returns);
C. Whitrow, Algorithms for optimal allocation of bets on many simultaneous events, Applied Statistics 56(5), 2007.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from bot.execution.gate.caps import CAP_TOLERANCE, CapHeadroom


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedStake:
    """What one order would cost alone, and its expected gain per share, under a unique name.

    ``event`` names the event that it shares with other orders ("" for none), ``headrooms`` are all bounds of it.
    """

    name: str
    stake: float
    edge: float
    event: str = ""
    headrooms: Sequence[CapHeadroom] = ()


def size_stakes_jointly(
    proposed: Sequence[ProposedStake], *, cash: float, correlation: float, least: float
) -> Mapping[str, float]:
    """Return by name what each order may cost, 0 for those that are dropped; never more than it proposed.

    The order of ``proposed`` makes no difference.
    """
    kept = {one.name: one for one in proposed}
    while True:
        sized = _scale_stakes([*kept.values()], cash, correlation)
        small = [kept[name] for name, stake in sized.items() if stake < least - CAP_TOLERANCE]
        if not small:
            return {one.name: sized.get(one.name, 0.0) for one in proposed}
        del kept[min(small, key=lambda one: (one.edge, one.name)).name]


def _scale_stakes(proposed: Sequence[ProposedStake], cash: float, correlation: float) -> dict[str, float]:
    """Return the stakes after both steps."""
    alone = _scale_by_event(proposed, correlation)
    left: dict[str, float] = {"cash": max(cash, 0.0)}
    wanted: dict[str, list[float]] = {}
    for one in proposed:
        for group in _bound_groups(one):
            wanted.setdefault(group, []).append(alone[one.name])
        for room in one.headrooms:
            if room.group:
                left[room.group] = min(room.remaining, left.get(room.group, room.remaining))
    part = {group: _share_of(left[group], fsum(stakes)) for group, stakes in wanted.items()}
    return {
        one.name: min([alone[one.name] * part[group] for group in _bound_groups(one)] + _own_bounds(one))
        for one in proposed
    }


def _scale_by_event(proposed: Sequence[ProposedStake], correlation: float) -> dict[str, float]:
    legs: dict[str, list[ProposedStake]] = {}
    for one in proposed:
        legs.setdefault(f"event {one.event}" if one.event else f"alone {one.name}", []).append(one)
    stakes: dict[str, float] = {}
    for group in legs.values():
        largest = max(one.stake for one in group)
        count = fsum(one.stake for one in group) / largest if largest > 0.0 else 1.0
        stakes |= {one.name: one.stake / (1.0 + (count - 1.0) * correlation) for one in group}
    return stakes


def _bound_groups(one: ProposedStake) -> Iterable[str]:
    return ["cash", *dict.fromkeys(room.group for room in one.headrooms if room.group)]


def _own_bounds(one: ProposedStake) -> list[float]:
    return [room.remaining for room in one.headrooms if not room.group]


def _share_of(left: float, wanted: float) -> float:
    return 1.0 if wanted <= left else left / wanted
