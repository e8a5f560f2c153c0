"""The doctor's checks of who may let something leave, and whether anything may."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from bot.cli.finding import Finding, Verdict
from bot.config.model import Config
from bot.domain.submission import IntentState
from bot.errors import ConfigError, ContractError, NotFound, StoreError
from bot.gate.armed import unarmed
from bot.gate.brake import STOP_FILE, besides, reason_of
from bot.gate.lanes import lanes_in
from bot.guards import UNCOMMENTED, comment_fee
from bot.registry import load_registry
from bot.store.audit import HEAD_FILE, Head, read_head
from bot.store.audit import Verdict as Verified
from bot.store.leave import Leaves
from bot.store.ledger import read_ledger
from bot.store.principals import Principal
from bot.store.stops import Stop


def leave(config: Config, path: Path, now: datetime) -> Iterator[Finding]:
    """Yield who may do what, what is stopped or in doubt, which live venues are armed, and whether the audit is whole.

    Where there is no ledger yet, only what live venues lack.
    """
    if not path.exists():
        yield _halt(config, ())
        yield from _armed(config, Leaves(), now)
        return
    try:
        known, standing, verified, doubts = asyncio.run(_found(config, path, now))
    except (StoreError, ContractError):
        yield _halt(config, ())
        return  # as the soundness says
    yield _halt(config, standing.stops)
    yield _people(known)
    yield from _armed(config, standing, now)
    for venue, count in doubts.items():
        found = (
            f"{count} {'submission is' if count == 1 else 'submissions are'} in doubt at {venue}, and count as spent"
        )
        remedy = "foxcast orders --open names them; look at the venue, then say so: foxcast orders adopt"
        yield Finding(Verdict.WARN, "in doubt", found, remedy)
    if verified.sound:
        yield Finding(Verdict.OK, "audit", f"{verified.rows} rows, the chain is whole")
    else:
        yield Finding(Verdict.FAIL, "audit", verified.why, "compare it with a backup and with the venues")


def _halt(config: Config, stops: Sequence[Stop]) -> Finding:
    """Return one row about all that holds something back until a person resumes it."""
    file = config.state / STOP_FILE
    others = besides(file, stops)
    held, remedies = [str(stop) for stop in others], dict.fromkeys(stop.remedy for stop in others)
    if file.exists():
        why = reason_of(file)
        held.insert(0, f"{file} is there, so nothing leaves" + (f": {why}" if why else ""))
        remedies = {f"to go on run: foxcast resume, or rm {file}": None, **remedies}
    if not held:
        return Finding(Verdict.OK, "halt", "not halted")
    return Finding(Verdict.WARN, "halt", "; ".join(held), "; ".join(remedies))


def _armed(config: Config, standing: Leaves, now: datetime) -> Iterator[Finding]:
    try:
        registry = load_registry(config)
        lanes = lanes_in(config, registry.configurable)
        commenting = [lane for lane in lanes.values() if lane.live and lane.comment and lane.venue in registry.venues]
        silent = [lane.venue for lane in commenting if comment_fee(config, registry, lane) is None]
    except ConfigError:
        return  # as the plugins say
    for venue in silent:
        yield Finding(Verdict.WARN, "comments", f"{venue}: {UNCOMMENTED}", "set both, or neither")
    for venue, lane in lanes.items():
        if not lane.live:
            continue
        arm = standing.arms.get(venue)
        if (why := unarmed(lane, arm, now)) is not None or arm is None:
            yield Finding(Verdict.WARN, "armed", why or f"{venue} is not armed")
        else:
            yield Finding(Verdict.OK, "armed", f"{venue} is armed until {arm.until:%Y-%m-%d %H:%M} UTC")


def _people(known: list[Principal]) -> Finding:
    if not known:
        found = "nobody has a token, so whoever can use this state folder is an approver"
        return Finding(Verdict.OK, "roles", found)
    return Finding(Verdict.OK, "roles", ", ".join(f"{one.name} ({one.role})" for one in known))


async def _found(
    config: Config, path: Path, now: datetime
) -> tuple[list[Principal], Leaves, Verified, Mapping[str, int]]:
    accounts = {name: table.account for name, table in config.venues.items()}
    try:
        head: Head | None = read_head(path.parent / HEAD_FILE)
    except NotFound:
        head = None
    async with read_ledger(path) as ledger:
        leaves = await ledger.leave.standing(accounts, now=now)
        doubts: Counter[str] = Counter()
        for row in await ledger.submissions.batches(states=[IntentState.IN_DOUBT]):
            doubts[row.venue] += row.counts.get(IntentState.IN_DOUBT, 0)
        return await ledger.leave.principals(), leaves, await ledger.leave.verify(head), doubts
