"""How much orders may cost: caps given what is already at stake, loss limits, and the joint sizing of several orders.

Each planner proposes the stake of its order as if it were the only one. ``size_stakes_jointly`` turns these proposals
into joint stakes in two steps; the order of the questions makes no difference:

1. The legs of one event are correlated. For n equal bets of pairwise correlation r the Kelly stakes are those of single
   bets divided by 1 + (n - 1) r, which follows from the inverse of their covariance matrix. Stakes that differ count as
   n = (their sum) / (the largest of them) equal ones.
2. Bets that are made at the same time share one bankroll. Where stakes that share a bound (cash, a cap, a share of the
   bankroll) add up to more than it allows, all of them are scaled down in proportion; the tightest bound of each
   counts. For many small bets that is close to the optimum.

The resulting stake may be too small to be worth an order, or for the venue. Then the one with the smallest edge is
dropped, and the others are sized again.

Sources: E. O. Thorp, The Kelly Criterion in Blackjack, Sports Betting, and the Stock Market (2006), sections on
simultaneous bets and on portfolios (optimal fractions are the inverse covariance matrix times the excess returns);
C. Whitrow, Algorithms for optimal allocation of bets on many simultaneous events, Applied Statistics 56(5), 2007.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import fsum, inf

from bot.config.venue_schema import CapsSection
from bot.core.light_dataclass import dataclass
from bot.execution.gate.decision_context import DecisionContext, exposure_groups

# Sums of prices carry rounding; no cap is missed by more.
CAP_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class CapHeadroom:
    """One cap and the part of it that is used.

    Orders of the same ``group`` share the rest; "" is a cap of one order alone.
    """

    name: str
    cap: float
    used: float
    group: str = ""

    @property
    def remaining(self) -> float:
        """The most that one more order may cost."""
        return max(0.0, self.cap - self.used)

    def __str__(self) -> str:
        # The name of a share of the bankroll ends with "that is", followed by the amount.
        text = f"{self.name} {self.cap:.2f}" if self.name.endswith("that is") else f"{self.name} = {self.cap:g}"
        if self.used == 0.0:
            return text
        return f"{text} leaves {self.remaining:.2f}, {self.used:.2f} is at stake"


def tightest_headroom(context: DecisionContext) -> CapHeadroom | None:
    """Return the headroom of the tightest cap, None if no cap bounds the order."""
    return min(list_headrooms(context), key=lambda item: item.remaining, default=None)


def max_order_cost(context: DecisionContext) -> float:
    """Return the most that an order may cost."""
    tightest = tightest_headroom(context)
    return inf if tightest is None else tightest.remaining


def loss_limit_breach(caps: CapsSection, lost_today: float, drawdown: float) -> str | None:
    """Return why a venue must halt until a person resumes it, or None."""
    if caps.daily_loss is not None and lost_today > caps.daily_loss:
        return f"{lost_today:.2f} was lost today, more than caps.daily_loss = {caps.daily_loss:g}"
    if caps.drawdown is not None and drawdown > caps.drawdown:
        return f"{drawdown:.2f} was lost since the highest reading, more than caps.drawdown = {caps.drawdown:g}"
    return None


def list_headrooms(context: DecisionContext) -> Iterator[CapHeadroom]:
    """Yield what bounds an order: caps, shares of the bankroll, and its joint limit with other orders of the pass."""
    caps, usage, exposure = context.policy.caps, context.cap_usage, exposure_groups(context.question)
    bounds = (
        ("caps.per_order", caps.per_order, 0.0, ""),
        ("caps.per_question", caps.per_question, usage.question, ""),
        ("caps.per_event", caps.per_event if exposure.event else None, usage.event, exposure.event),
        ("caps.per_creator", caps.per_creator if exposure.creator else None, usage.creator, exposure.creator),
        ("caps.per_category", caps.per_category if exposure.category else None, usage.category, exposure.category),
        ("caps.per_day", caps.per_day, usage.day, "all"),
        ("caps.total", caps.total, usage.total, "all"),
    )
    for name, cap, used, group in (*bounds, *_bankroll_bounds(context, exposure.event), *_arm_record_bounds(context)):
        if cap is not None:
            yield CapHeadroom(name, cap, used, f"{name} {group}" if group else "")
    if context.joint_limit < inf:
        yield CapHeadroom("its share with the other orders of this pass", context.joint_limit, 0.0)


def _bankroll_bounds(context: DecisionContext, event: str) -> Iterator[tuple[str, float | None, float, str]]:
    """Yield the bounds by shares of the bankroll, if the bankroll is known; a share of 1 bounds nothing."""
    share, usage = context.policy.bankroll, context.cap_usage
    bounds = (
        ("per_question", share.per_question, usage.question, ""),
        ("per_event", share.per_event if event else 1.0, usage.event, event),
        ("per_pass", share.per_pass, context.bought_in_pass, "all"),
        ("per_day", share.per_day, usage.day, "all"),
        ("total", share.total, usage.total, "all"),
    )
    for name, fraction, used, group in bounds:
        if context.account_value is not None and fraction < 1.0:
            amount = round(fraction * max(context.account_value, 0.0), 6)
            yield f"bankroll.{name} = {fraction:g} of {context.account_value:.2f}, that is", amount, used, group


def _arm_record_bounds(context: DecisionContext) -> Iterator[tuple[str, float | None, float, str]]:
    arm = context.arm
    if arm is not None and context.policy.is_live:
        yield "the arm record's per-order", arm.per_order, 0.0, ""
        yield "the arm record's per-day", arm.per_day, context.cap_usage.day, "all"
        yield "the arm record's total", arm.total, context.cap_usage.armed, "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedStake:
    """What one order would cost alone, and its expected gain per share, under a unique name.

    ``event`` names the event that it shares with other orders ("" for none), ``headrooms`` are all bounds of it.
    ``min_cost`` is the least that the venue takes.
    """

    name: str
    stake: float
    edge: float
    event: str = ""
    headrooms: Sequence[CapHeadroom] = ()
    min_cost: float = 0.0


def size_stakes_jointly(
    proposed: Sequence[ProposedStake], *, cash: float, correlation: float, min_stake: float
) -> Mapping[str, float]:
    """Return by name what each order may cost, 0 for those that are dropped; never more than it proposed.

    The order of ``proposed`` makes no difference.
    """
    remaining_stakes = {item.name: item for item in proposed}
    while True:
        sized = _scale_stakes([*remaining_stakes.values()], cash, correlation)
        small = [
            item
            for name, item in remaining_stakes.items()
            if sized[name] < max(min_stake, item.min_cost) - CAP_TOLERANCE
        ]
        if not small:
            return {item.name: sized.get(item.name, 0.0) for item in proposed}
        del remaining_stakes[min(small, key=lambda item: (item.edge, item.name)).name]


def _scale_stakes(proposed: Sequence[ProposedStake], cash: float, correlation: float) -> dict[str, float]:
    """Return the stakes after both steps."""
    scaled = _scale_by_event(proposed, correlation)
    remaining: dict[str, float] = {"cash": max(cash, 0.0)}
    stakes_by_group: dict[str, list[float]] = {}
    for item in proposed:
        for group in _bound_groups(item):
            stakes_by_group.setdefault(group, []).append(scaled[item.name])
        for headroom in item.headrooms:
            if headroom.group:
                remaining[headroom.group] = min(headroom.remaining, remaining.get(headroom.group, headroom.remaining))
    share = {group: _share_of(remaining[group], fsum(stakes)) for group, stakes in stakes_by_group.items()}
    return {
        item.name: min([scaled[item.name] * share[group] for group in _bound_groups(item)] + _own_bounds(item))
        for item in proposed
    }


def _scale_by_event(proposed: Sequence[ProposedStake], correlation: float) -> dict[str, float]:
    legs: dict[str, list[ProposedStake]] = {}
    for item in proposed:
        legs.setdefault(f"event {item.event}" if item.event else f"alone {item.name}", []).append(item)
    stakes: dict[str, float] = {}
    for group in legs.values():
        largest = max(item.stake for item in group)
        count = fsum(item.stake for item in group) / largest if largest > 0.0 else 1.0
        stakes |= {item.name: item.stake / (1.0 + (count - 1.0) * correlation) for item in group}
    return stakes


def _bound_groups(item: ProposedStake) -> Iterable[str]:
    return ["cash", *dict.fromkeys(headroom.group for headroom in item.headrooms if headroom.group)]


def _own_bounds(item: ProposedStake) -> list[float]:
    return [headroom.remaining for headroom in item.headrooms if not headroom.group]


def _share_of(remaining: float, wanted: float) -> float:
    """Return which share of the wanted amount is available."""
    return 1.0 if wanted <= remaining else remaining / wanted
