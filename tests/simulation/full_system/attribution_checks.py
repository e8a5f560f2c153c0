"""What the ledger says of people: who halted, resumed, armed or answered by the record did so (docs/going-live.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from bot.store.serialization import parse_timestamp
from tests.ledger_checks import read_rows
from tests.simulation.full_system.omission_checks import HEARD, LONGEST_MOVE, ONE_MOMENT

# What each row says that somebody did, where and when.
_ATTRIBUTED = """
select 'resume' as kind, 'resume of ' || venue as what, venue, resumed_by as name, resumed_at as at from halt
where resumed_by <> '' union all
select 'halt', 'halt of ' || venue, venue, by, at from halt where by <> '' union all
select 'arm', 'arm record ' || id, venue, by, armed_at from arm union all
select 'answer', 'answer to ' || id, venue, by, answered_at from approval where by <> '' union all
select kind, kind || ' in the audit', venue, actor, at from audit where actor <> ''
"""
# Live sales that somebody asked for, without a row in the audit in which that person closes the position.
_UNAUDITED_SALES = """
select i.planned_at as at, i.venue, i.order_body ->> 'contract' as contract, i.order_body ->> 'closing' as why
from intent i
where i.mode <> 'paper' and i.order_body ->> 'closing' like '% asked for it' and not exists (
  select 1 from audit a where a.kind = 'close' and a.venue = i.venue
    and a.actor || ' asked for it' = i.order_body ->> 'closing'
    and instr(a.body ->> 'positions', (i.order_body ->> 'leg') || ' ' || (i.order_body ->> 'contract')))
"""
# A file halts everything, too, and who halts everything leaves one.
STOP_FILE = "stop file"
# A resume is refused that is older than a quarter of an hour.
HEARD_WITHIN = HEARD + timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionChecks:
    """Judges one ledger by the acts of people; ``clock_moves`` are the times to which they set the clock."""

    ledger: Path
    acts: Sequence[Mapping[str, Any]]
    clock_moves: Sequence[datetime] = ()

    def violations(self) -> Iterator[str]:
        """Say what is on record as done by somebody who did not do it, and what was done and is not in the audit."""
        names = {act["by"] for act in self.acts if act.get("by")} | {STOP_FILE}
        for row in read_rows(self.ledger, _ATTRIBUTED):
            at = parse_timestamp(row["at"])
            if row["name"] not in names:
                yield f"people: the {row['what']} at {at} is on record as by {row['name']!r}, who did nothing"
            elif row["kind"] == "resume" and row["name"] != STOP_FILE and not self._was_asked(row, at):
                yield f"people: the {row['what']} at {at} is on record as by {row['name']}, who had not asked for it"

        for row in read_rows(self.ledger, _UNAUDITED_SALES):
            what = f"the sale of {row['contract']} at {row['venue']}, planned at {row['at']}"
            yield f"people: {what}, is not in the audit: {row['why']}"

    def _was_asked(self, row: Mapping[str, Any], at: datetime) -> bool:
        """Say whether somebody asked for it, or set the clock around that time."""
        is_moved = any(abs(moved - at) <= LONGEST_MOVE for moved in self.clock_moves)
        return is_moved or any(
            act["kind"] == row["kind"]
            and act.get("by") == row["name"]
            and act.get("venue") in {row["venue"], "", None}
            and at - HEARD_WITHIN <= act["clock"] <= at + ONE_MOMENT
            for act in self.acts
        )
