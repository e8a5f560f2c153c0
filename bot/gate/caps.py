"""Caps: how much an order may cost, given what is at stake already, and when a venue stops itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from bot.config.venue_schema import CapsSection
from bot.domain.submission import Hold
from bot.gate.case import Case, exposure_of

# Sums of prices carry rounding; no cap is missed by more.
TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Room:
    """What one cap leaves: its name, the cap itself and what of it is used.

    Orders of the same ``group`` share what is left; "" is a cap of one order alone.
    """

    name: str
    cap: float
    used: float
    group: str = ""

    @property
    def left(self) -> float:
        """The most that one more order may cost."""
        return max(0.0, self.cap - self.used)

    def __str__(self) -> str:
        # The name of a share ends with the amount that it comes to.
        told = f"{self.name} {self.cap:.2f}" if self.name.endswith("that is") else f"{self.name} = {self.cap:g}"
        if self.used == 0.0:
            return told
        return f"{told} leaves {self.left:.2f}, {self.used:.2f} is at stake"


def room(case: Case) -> Room | None:
    """Return what the tightest cap leaves; None where no cap bounds the order."""
    return min(rooms(case), key=lambda one: one.left, default=None)


def most(case: Case) -> float:
    """Return the most that an order may cost."""
    tightest = room(case)
    return inf if tightest is None else tightest.left


def over_cap(case: Case) -> Hold | None:
    """Hold an order that costs more than the caps leave; they may have been used while it was planned."""
    order, tightest = case.order, room(case)
    if order is None or tightest is None or order.cost <= tightest.left + TOLERANCE:
        return None
    return case.later(f"the order would cost {order.cost:.2f} {order.currency}, and {tightest}")


def too_often(case: Case) -> Hold | None:
    """Hold what would be one too many in an hour."""
    limit = case.lane.caps.orders_per_hour
    if limit is None or case.usage.hour < limit:
        return None
    return case.later(f"caps.orders_per_hour = {limit}: {case.usage.hour} in the last hour")


def breach(caps: CapsSection, lost_today: float, drawdown: float) -> str | None:
    """Say why a venue must stop until a person resumes it, or nothing."""
    if caps.daily_loss is not None and lost_today > caps.daily_loss:
        return f"{lost_today:.2f} was lost today, more than caps.daily_loss = {caps.daily_loss:g}"
    if caps.drawdown is not None and drawdown > caps.drawdown:
        return f"{drawdown:.2f} was lost since the highest reading, more than caps.drawdown = {caps.drawdown:g}"
    return None


def losing(case: Case) -> Hold | None:
    """Hold everything of a venue that lost too much."""
    why = breach(case.lane.caps, case.usage.lost_today, case.usage.drawdown)
    return None if why is None else case.later(f"{why}; a person must resume {case.lane.venue}")


def rooms(case: Case) -> Iterator[Room]:
    """Yield what bounds an order of the case: caps, shares of the bankroll, and its part beside others of the pass."""
    caps, usage, exposure = case.lane.caps, case.usage, exposure_of(case.question)
    bounds = (
        ("caps.per_order", caps.per_order, 0.0, ""),
        ("caps.per_question", caps.per_question, usage.question, ""),
        ("caps.per_event", caps.per_event if exposure.event else None, usage.event, exposure.event),
        ("caps.per_creator", caps.per_creator if exposure.creator else None, usage.creator, exposure.creator),
        ("caps.per_category", caps.per_category if exposure.category else None, usage.category, exposure.category),
        ("caps.per_day", caps.per_day, usage.day, "all"),
        ("caps.total", caps.total, usage.total, "all"),
    )
    for name, cap, used, group in (*bounds, *_shares(case, exposure.event), *_armed(case)):
        if cap is not None:
            yield Room(name, cap, used, f"{name} {group}" if group else "")
    if case.part < inf:
        yield Room("its part beside the others of this pass", case.part, 0.0)


def _shares(case: Case, event: str) -> Iterator[tuple[str, float | None, float, str]]:
    """Yield the shares of the bankroll in money, where it is known; those of 1 bound nothing."""
    share, usage = case.lane.bankroll, case.usage
    bounds = (
        ("per_question", share.per_question, usage.question, ""),
        ("per_event", share.per_event if event else 1.0, usage.event, event),
        ("per_pass", share.per_pass, case.in_pass, "all"),
        ("per_day", share.per_day, usage.day, "all"),
        ("total", share.total, usage.total, "all"),
    )
    for name, part, used, group in bounds:
        if case.worth is not None and part < 1.0:
            amount = round(part * max(case.worth, 0.0), 6)
            yield f"bankroll.{name} = {part:g} of {case.worth:.2f}, that is", amount, used, group


def _armed(case: Case) -> Iterator[tuple[str, float | None, float, str]]:
    arm = case.arm
    if arm is not None and case.lane.live:
        yield "the arm record's per-order", arm.per_order, 0.0, ""
        yield "the arm record's per-day", arm.per_day, case.usage.day, "all"
        yield "the arm record's total", arm.total, case.usage.armed, "all"
