"""Stops a venue that lost too much, until a person resumes it."""

from collections.abc import Mapping
from datetime import datetime

import structlog

from bot.gate.caps import breach
from bot.gate.case import Lane, on_paper
from bot.store import stops
from bot.store.audit import AuditRow
from bot.store.ledger import Ledger
from bot.store.stops import Stop

log = structlog.get_logger(__name__)


async def stop_losing(ledger: Ledger, lanes: Mapping[str, Lane], *, now: datetime) -> int:
    """Stop each venue whose account fell by more than its caps allow; return how many were stopped now.

    One that stopped itself already is left as it is. When a person resumes it, losses are counted anew.
    """
    bounded = {
        venue: lane.account
        for venue, lane in lanes.items()
        if lane.caps.daily_loss is not None or lane.caps.drawdown is not None
    }
    if not bounded:
        return 0
    standing = await ledger.leave.standing(bounded, now=now, paper=on_paper(lanes))
    stopped = {stop.venue for stop in standing.stops if not stop.by}
    count = 0
    for venue in bounded.keys() - stopped:
        why = breach(lanes[venue].caps, *standing.losses[venue])
        if why is not None:
            await stop_for(ledger, Stop(venue=venue, at=now, why=why))
            count += 1
    return count


async def stop_for(ledger: Ledger, stop: Stop) -> None:
    """Stop, with a row in the audit, and tell people."""
    row = AuditRow(at=stop.at, kind="stop", venue=stop.venue, actor=stop.by, body={"why": stop.why})
    await ledger.leave.act(lambda database: stops.add(database, stop), row)
    log.error("stopped", venue=stop.venue or "all", why=stop.why, resume="foxcast resume")
    await ledger.journal.note("alert", str(stop), at=stop.at)
