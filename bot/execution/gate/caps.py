"""Caps: how much an order may cost given what is already at stake, and when losses halt a venue."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from bot.config.venue_schema import CapsSection
from bot.execution.gate.decision_context import DecisionContext, exposure_groups

# Sums of prices carry rounding; no cap is missed by more.
CAP_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class CapHeadroom:
    """What one cap leaves: its name, the cap itself and what of it is used.

    Orders of the same ``group`` share what is left; "" is a cap of one order alone.
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


def tightest_headroom(case: DecisionContext) -> CapHeadroom | None:
    """Return what the tightest cap leaves; None where no cap bounds the order."""
    return min(list_headrooms(case), key=lambda one: one.remaining, default=None)


def max_order_cost(case: DecisionContext) -> float:
    """Return the most that an order may cost."""
    tightest = tightest_headroom(case)
    return inf if tightest is None else tightest.remaining


def loss_limit_breach(caps: CapsSection, lost_today: float, drawdown: float) -> str | None:
    """Return why a venue must halt until a person resumes it, or None."""
    if caps.daily_loss is not None and lost_today > caps.daily_loss:
        return f"{lost_today:.2f} was lost today, more than caps.daily_loss = {caps.daily_loss:g}"
    if caps.drawdown is not None and drawdown > caps.drawdown:
        return f"{drawdown:.2f} was lost since the highest reading, more than caps.drawdown = {caps.drawdown:g}"
    return None


def list_headrooms(case: DecisionContext) -> Iterator[CapHeadroom]:
    """Yield what bounds an order: caps, shares of the bankroll, and its joint limit with other orders of the pass."""
    caps, usage, exposure = case.policy.caps, case.cap_usage, exposure_groups(case.question)
    bounds = (
        ("caps.per_order", caps.per_order, 0.0, ""),
        ("caps.per_question", caps.per_question, usage.question, ""),
        ("caps.per_event", caps.per_event if exposure.event else None, usage.event, exposure.event),
        ("caps.per_creator", caps.per_creator if exposure.creator else None, usage.creator, exposure.creator),
        ("caps.per_category", caps.per_category if exposure.category else None, usage.category, exposure.category),
        ("caps.per_day", caps.per_day, usage.day, "all"),
        ("caps.total", caps.total, usage.total, "all"),
    )
    for name, cap, used, group in (*bounds, *_bankroll_bounds(case, exposure.event), *_arm_record_bounds(case)):
        if cap is not None:
            yield CapHeadroom(name, cap, used, f"{name} {group}" if group else "")
    if case.joint_limit < inf:
        yield CapHeadroom("its share with the other orders of this pass", case.joint_limit, 0.0)


def _bankroll_bounds(case: DecisionContext, event: str) -> Iterator[tuple[str, float | None, float, str]]:
    """Yield the shares of the bankroll in money, where it is known; those of 1 bound nothing."""
    share, usage = case.policy.bankroll, case.cap_usage
    bounds = (
        ("per_question", share.per_question, usage.question, ""),
        ("per_event", share.per_event if event else 1.0, usage.event, event),
        ("per_pass", share.per_pass, case.bought_in_pass, "all"),
        ("per_day", share.per_day, usage.day, "all"),
        ("total", share.total, usage.total, "all"),
    )
    for name, part, used, group in bounds:
        if case.account_value is not None and part < 1.0:
            amount = round(part * max(case.account_value, 0.0), 6)
            yield f"bankroll.{name} = {part:g} of {case.account_value:.2f}, that is", amount, used, group


def _arm_record_bounds(case: DecisionContext) -> Iterator[tuple[str, float | None, float, str]]:
    arm = case.arm
    if arm is not None and case.policy.is_live:
        yield "the arm record's per-order", arm.per_order, 0.0, ""
        yield "the arm record's per-day", arm.per_day, case.cap_usage.day, "all"
        yield "the arm record's total", arm.total, case.cap_usage.armed, "all"
