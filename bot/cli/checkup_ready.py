"""The doctor's checks of what live venues lack, by what the last run found and left: it asks no venue itself."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from bot.app import Records, open_records
from bot.cli.finding import Finding, Verdict
from bot.cli.output.figures import ago
from bot.config.model import Config
from bot.domain.submission import IntentState, Mode
from bot.errors import FoxcastError
from bot.registry import Registry
from bot.store import stops
from bot.store.journal import JobRun
from bot.store.orders import Asked, OrderRow, listed
from bot.store.stops import Stop, StopEnd

READY = "ready"
# As the job that looks at them tells of them.
_PARTS = re.compile(r"(?:^|, )(credentials|reconciliation|clock|database|audit): ")
# The last request of a venue is among so many orders, or it is long ago.
_NEWEST = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What the last run left: how it found live venues, what has no answer there, and what was sent last.

    ``refused`` are the venues that refused the credentials and are asked nothing more.
    """

    run: JobRun | None = None
    unanswered: Mapping[str, Mapping[IntentState, int]] = field(default_factory=dict)
    last: Mapping[str, OrderRow] = field(default_factory=dict)
    refused: Mapping[str, Stop] = field(default_factory=dict)


def left(config: Config, ledger: Path, now: datetime) -> Left:
    """Read what the last run left; nothing where there is no ledger or none that can be read, as its check says."""
    live = live_venues(config)
    if not live or not ledger.exists():
        return Left()
    try:
        return asyncio.run(_left(config, live, now))
    except FoxcastError:
        return Left()


def live_venues(config: Config) -> list[str]:
    """Return the venues in mode live."""
    return [name for name in config.venues if config.mode_of(name) is Mode.LIVE]


def lacking(run: JobRun | None, venues: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """Return what the job found wrong with each venue that it looked at, by what it looked at; {} for one all well."""
    if run is None or not run.ok:
        return {}
    names = "|".join(re.escape(name) for name in sorted(venues, key=len, reverse=True))
    _, *told = re.split(rf"(?:^|; )({names}): ", run.detail) if names else [""]
    return {name: dict(_parts(said)) for name, said in zip(told[::2], told[1::2], strict=True)}


def _parts(said: str) -> Iterator[tuple[str, str]]:
    _, *found = _PARTS.split(said)
    yield from zip(found[::2], found[1::2], strict=True)


def clock_fault(found: Left, venues: Sequence[str]) -> str:
    """Return what the last run found wrong with the clock, "" for nothing."""
    faults = (parts.get("clock", "") for parts in lacking(found.run, venues).values())
    return next((fault for fault in faults if fault), "")


def readiness(config: Config, registry: Registry, found: Left, now: datetime) -> Iterator[Finding]:
    """Yield for each live venue whose plugin works what keeps its submissions back."""
    live = [name for name in live_venues(config) if name in registry.venues]
    looked = lacking(found.run, live)
    for venue in live:
        if (stop := found.refused.get(venue)) is not None:
            told = f"{venue}: {stop.why}, {ago(now - stop.at)}; nothing more is asked there"
            yield Finding(Verdict.WARN, "credentials", told, stop.remedy)
        else:
            yield from _credentials(venue, found.run, looked, now, is_proved=registry.venues[venue].check is not None)
        yield from _unanswered(venue, found.unanswered.get(venue, {}))
        yield from _refused(venue, found.last.get(venue), now)


def _credentials(
    venue: str, run: JobRun | None, looked: Mapping[str, Mapping[str, str]], now: datetime, *, is_proved: bool
) -> Iterator[Finding]:
    again = f"to look again: foxcast preflight {venue}"
    if run is not None and not run.ok:
        told = f"{venue}: the last look at what it needs failed, {ago(now - run.ended_at)}: {run.detail}"
        yield Finding(Verdict.WARN, READY, told, again)
    elif run is None or venue not in looked:
        if is_proved:
            told = f"{venue}: not proved yet, and nothing is submitted before"
            yield Finding(Verdict.WARN, "credentials", told, f"to look: foxcast preflight {venue}")
    elif why := looked[venue].get("credentials"):
        told = f"{venue}: {why} (found {ago(now - run.ended_at)})"
        yield Finding(Verdict.WARN, "credentials", told, f"mend it, and {again}")
    elif is_proved:
        yield Finding(Verdict.OK, "credentials", f"{venue}: good {ago(now - run.ended_at)}")


def _unanswered(venue: str, counts: Mapping[IntentState, int]) -> Iterator[Finding]:
    parts = [
        f"{counts[state]} {words}"
        for state, words in ((IntentState.SENDING, "on the way"), (IntentState.UNKNOWN, "without an answer"))
        if counts.get(state)
    ]
    if parts:
        found = f"{venue}: {', '.join(parts)}; a run reads that back before it sends anything else"
        yield Finding(Verdict.WARN, "unsettled", found, "look: foxcast orders --open")


def _refused(venue: str, last: OrderRow | None, now: datetime) -> Iterator[Finding]:
    if last is not None and last.row.state is IntentState.REFUSED:
        why = last.why or "it did not say why"
        found = f"{venue}: the last that was sent was refused, {ago(now - last.row.changed_at)}: {why}"
        yield Finding(Verdict.WARN, "refused", found, f"look: foxcast orders show {last.row.intent.id}")


async def _left(config: Config, live: Sequence[str], now: datetime) -> Left:
    async with open_records(config) as records:
        runs = {run.name: run for run in await records.ledger.journal.last_runs()}
        standing = await records.ledger.leave.read(stops.standing)
        return Left(
            run=runs.get(READY),
            unanswered=await _waiting(records, live),
            last={venue: row for venue in live if (row := await _last_sent(records, venue, now)) is not None},
            refused={stop.venue: stop for stop in standing if stop.ends is StopEnd.RENEWED},
        )


async def _waiting(records: Records, live: Sequence[str]) -> Mapping[str, Counter[IntentState]]:
    found = {venue: Counter[IntentState]() for venue in live}
    for row in await records.ledger.submissions.batches(states=[IntentState.SENDING, IntentState.UNKNOWN]):
        if row.venue in found and row.mode is not Mode.PAPER:
            found[row.venue].update(row.counts)
    return found


async def _last_sent(records: Records, venue: str, now: datetime) -> OrderRow | None:
    """Return what was sent to a venue last, for real."""
    asked = Asked(now=now, venue=venue, limit=_NEWEST, paper=False)
    rows = await records.ledger.submissions.readers.run(lambda database: listed(database, asked))
    sent = [row for row in rows if row.attempts]
    return max(sent, key=lambda row: row.attempts[0].started_at) if sent else None
