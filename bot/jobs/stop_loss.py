"""Stop-loss and take-profit: positions that a policy sells whatever the belief, by what a sale would really bring."""

from collections.abc import Sequence
from dataclasses import replace

import structlog

from bot.domain.order import Account, Position
from bot.domain.submission import Mode
from bot.gate.case import Lane
from bot.jobs.cases import Around
from bot.jobs.closing import POLICY_AGAIN, PositionClosing, close_position, with_questions
from bot.store import closings
from bot.store.closings import ClosingResult
from bot.store.dockets import Asked

log = structlog.get_logger(__name__)

# What is worth so little, in the venue's currency, is not worth an order.
LEAST_WORTH = 0.01


def reason_to_sell(lane: Lane, position: Position, currency: str) -> str | None:
    """Say why the policy of a venue sells a position now, or nothing.

    ``mark`` is the price at which all of it could be sold; one that nobody buys has none, and stays, as does one whose
    outcome is there.
    """
    trading, paid = lane.trading, position.paid
    if position.mark is None or position.decided or paid <= 0.0:
        return None
    brings = position.shares * position.mark
    if brings < LEAST_WORTH:
        return None
    told = f"selling would bring {brings:.2f} of the {paid:.2f} {currency} that it cost"
    if trading.stop_loss is not None and brings <= paid * (1.0 - trading.stop_loss):
        return f"stop-loss: {told} (trading.stop_loss = {trading.stop_loss:g})"
    if trading.take_profit is not None and brings >= paid * (1.0 + trading.take_profit):
        return f"take-profit: {told} (trading.take_profit = {trading.take_profit:g})"
    return None


def has_policy(lane: Lane) -> bool:
    """Say whether positions at a venue are sold by a policy at all."""
    return lane.trading.stop_loss is not None or lane.trading.take_profit is not None


async def close_by_policy(
    parts: PositionClosing, around: Around, lane: Lane, account: Account
) -> tuple[Account, Sequence[ClosingResult]]:
    """Sell what the policy says, one after the other; return the account without it, and what became of each."""
    account, sold = await with_questions(parts.ledger, lane, account), list[ClosingResult]()
    for position in account.positions:
        why = reason_to_sell(lane, position, account.currency)
        if why is None or (objection := await _left_alone(parts, around, lane, position)) is None:
            continue
        if objection:
            log.warning("not sold by policy", contract=position.contract, why=why, because=objection)
            continue
        done = await close_position(parts, around, account, position, venue=lane.venue, why=why)
        result, now = replace(done, reason=why), parts.clock.now()
        await closings.keep(parts.ledger, result, at=now)
        await parts.ledger.journal.note("alert", f"{lane.venue}: {result}", at=now)
        sold.append(result)
    gone = {(one.contract, one.leg) for one in sold}
    left = tuple(one for one in account.positions if (one.contract, one.leg) not in gone)
    return replace(account, positions=left), sold


async def _left_alone(parts: PositionClosing, around: Around, lane: Lane, position: Position) -> str | None:
    """Return "" where it may be sold now, None where it was tried just now, else why it is left alone."""
    now = parts.clock.now()
    if position.ref is None or not await around.ledger.forecasts.history(position.ref):
        return "no forecast here is of its question"
    if lane.mode is Mode.APPROVE:
        return f"{lane.venue} is in mode approve; sell it with: foxcast close {position.ref.key}"
    asked = Asked(ref=position.ref, forecaster="", revision=0, account=lane.account, paper=not lane.live)
    (docket,) = await around.ledger.dockets.of([asked], now=now)
    if docket.closed_at is not None and now - docket.closed_at < POLICY_AGAIN:
        return None
    return "" if docket.locked is None else f"locked: {docket.locked}"
