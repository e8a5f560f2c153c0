"""Approvals: what a person is asked before it leaves, and whether the answer fits what would leave now."""

from collections.abc import Mapping

from bot.domain.order import Order, Side
from bot.domain.permission import Approval, ApprovalState
from bot.domain.submission import Hold, Mode
from bot.gate.caps import TOLERANCE
from bot.gate.case import Case
from bot.gate.market import divergence
from bot.ids import derive_id
from bot.store.codec import PREDICTIONS, stamp

# A price may move so far against an order that was approved before a person is asked again.
PRICE_SLACK = 0.01


def needs(case: Case) -> str | None:
    """Say why a person must look at the forecast before it leaves, or nothing."""
    if not case.lane.live:
        return None
    if case.lane.mode is Mode.APPROVE:
        return f"{case.lane.venue} is in mode approve"
    return diverges(case)


def diverges(case: Case) -> str | None:
    """Say that the forecast is further from the market than config lets pass without a person."""
    limit, distance = case.lane.trading.divergence, divergence(case)
    if limit is None or distance <= limit:
        return None
    return f"{distance:.2f} from the market in log-odds, more than trading.divergence = {limit:g}"


def unanswered(case: Case) -> Hold | None:
    """Hold what a person was asked and has not answered, or has answered with no.

    What nobody answered in time is asked again, as long as the forecast would leave.
    """
    approval = case.approval
    if approval is None or not case.lane.live:
        return None
    match approval.state:
        case ApprovalState.ASKED if case.now < approval.expires_at:
            return case.later(f"waits for approval {approval.id}: foxcast approve {approval.id}")
        case ApprovalState.REJECTED:
            return Hold(why=f"rejected by {approval.by or 'a person'}, approval {approval.id}")
    return None


def misses(case: Case) -> str | None:
    """Say why the approval there is does not cover what would leave now; None where it does, or none is needed."""
    why, approval = needs(case), case.approval
    if why is None:
        return None
    if approval is None or approval.state is not ApprovalState.APPROVED or case.now >= approval.expires_at:
        return why
    changed = _changed(case, approval)
    return None if changed is None else f"{why}; {changed}"


def question(case: Case, why: str) -> Approval:
    """Return what a person is to be asked about the case."""
    order = case.order
    return Approval(
        id=derive_id("approval", case.forecast.id, stamp(case.now))[:12],
        forecast=case.forecast.id,
        venue=case.lane.venue,
        cost=0.0 if order is None else order.cost,
        state=ApprovalState.ASKED,
        asked_at=case.now,
        expires_at=case.now + case.lane.approval,
        shown={"why": why, **_shown(case)},
    )


def _changed(case: Case, approval: Approval) -> str | None:
    """Say how what would leave differs from what was approved, or nothing where it is as good or better."""
    order, shown = case.order, approval.shown
    if order is None:
        return "what was approved was an order" if "order" in shown else None
    if shown.get("order") != _named(case):
        return f"what was approved was {shown.get('order', 'no order')}"
    if order.cost > approval.cost + TOLERANCE:
        return f"the order costs {order.cost:.2f} now, and {approval.cost:.2f} was approved"
    if _worse(order, shown) > PRICE_SLACK + TOLERANCE:
        return f"the price moved to {order.limit:.3f} from the approved {shown.get('limit', '?')}"
    return None


def _shown(case: Case) -> dict[str, str]:
    shown = {
        "question": str(case.forecast.ref),
        "title": case.question.title,
        "forecast": PREDICTIONS.encode(case.forecast.predictions),
    }
    if case.question.crowd is not None:
        shown["market"] = f"{divergence(case):.2f} away in log-odds"
    if (order := case.order) is None:
        return shown
    return shown | {
        "order": _named(case),
        "shares": f"{order.shares:.2f}",
        "limit": f"{order.limit:.4f}",
        "expected": f"{order.expected:.4f}",
        "cost": f"{order.cost:.2f} {order.currency}",
        "fees": f"{order.fees:.2f} {order.currency}",
        "edge": f"{order.edge:.4f}",
    }


def _named(case: Case) -> str:
    order = case.order
    return "" if order is None else f"{order.side} {order.leg} {order.contract}"


def _worse(order: Order, shown: Mapping[str, str]) -> float:
    """Return by how much the limit is worse than what was shown."""
    try:
        approved = float(shown["limit"])
    except (KeyError, ValueError):
        return 1.0
    return order.limit - approved if order.side is Side.BUY else approved - order.limit
