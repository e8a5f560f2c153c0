"""The doctor's checks of who may let something leave, and whether anything may."""

import asyncio
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from bot.cli.finding import Finding, Verdict
from bot.config.model import Config
from bot.errors import ContractError, NotFound, StoreError
from bot.gate.armed import unarmed
from bot.gate.lanes import lane_in
from bot.store.audit import HEAD_FILE, Head, read_head
from bot.store.audit import Verdict as Verified
from bot.store.leave import Leaves
from bot.store.ledger import read_ledger
from bot.store.principals import Principal


def leave(config: Config, path: Path, now: datetime) -> Iterator[Finding]:
    """Yield who may do what, what is stopped, which live venues are armed, and whether the audit is whole."""
    try:
        known, standing, verified = asyncio.run(_found(config, path, now))
    except (StoreError, ContractError):
        return  # as the soundness says
    yield _people(known)
    for stop in standing.stops:
        yield Finding(Verdict.WARN, "stopped", str(stop), "to go on run: foxcast resume")
    for venue in config.venues:
        lane = lane_in(config, venue)
        if lane.live:
            why = unarmed(lane, standing.arms.get(venue), now)
            yield Finding(Verdict.WARN, "armed", why) if why else Finding(Verdict.OK, "armed", f"{venue} is armed")
    if verified.sound:
        yield Finding(Verdict.OK, "audit", f"{verified.rows} rows, the chain is whole")
    else:
        yield Finding(Verdict.FAIL, "audit", verified.why, "compare it with a backup and with the venues")


def _people(known: list[Principal]) -> Finding:
    if not known:
        found = "nobody has a token, so whoever can use this state folder is an approver"
        return Finding(Verdict.OK, "roles", found)
    return Finding(Verdict.OK, "roles", ", ".join(f"{one.name} ({one.role})" for one in known))


async def _found(config: Config, path: Path, now: datetime) -> tuple[list[Principal], Leaves, Verified]:
    accounts = {name: table.account for name, table in config.venues.items()}
    try:
        head: Head | None = read_head(path.parent / HEAD_FILE)
    except NotFound:
        head = None
    async with read_ledger(path) as ledger:
        leaves = await ledger.leave.standing(accounts, now=now)
        return await ledger.leave.principals(), leaves, await ledger.leave.verify(head)
