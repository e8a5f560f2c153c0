"""What people are told: by docs/alerts.md, what breaks while the daemon looks is reported, and each message arrives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

from bot.store.serialization import format_timestamp, parse_timestamp
from tests.ledger_checks import Row, read_rows
from tests.simulation.full_system.omission_checks import LONGEST_MOVE, ONE_MOMENT, JobPass

# What is to be reported, in words of it that its report has, from when until when it is to be seen.
_REPORTED = """
select 'the halt of ' || venue as what, substr(why, 1, 40) as words, at as since, resumed_at as until from halt
where venue <> '' union all
select 'the request ' || id, id, asked_at, min(expires_at, coalesce(answered_at, expires_at)) from approval union all
select 'the doubt about ' || id, 'no known outcome', changed_at, null from intent where state = 'in doubt'
"""
_ALERTS = "select key, text, opened_at, closed_at from alert order by id"
# What comes and goes by itself from one look to the next: the pager of the simulation takes no message at times.
MAY_FLAP = ("notifier:", "clock:")
_SENT = "select id, channel, state, at, due_at, ended_at from notification"
# So often in a row nothing breaks and heals by chance.
FLAPS = 2
# A channel that took no message is tried again after a quarter of an hour at the latest.
TRIED_AGAIN = timedelta(minutes=16)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertChecks:
    """Judges one ledger by the passes that report, and by the ids of the messages that people got."""

    ledger: Path
    passes: Sequence[JobPass]
    messages: Collection[str]

    def violations(self) -> Iterator[str]:
        """Say what nobody was told."""
        looks = [one for one in self.passes if one.job == "alerts"]
        alerts = read_rows(self.ledger, _ALERTS)
        for row in read_rows(self.ledger, _REPORTED):
            since, until = parse_timestamp(row["since"]), row["until"] and parse_timestamp(row["until"])
            seen = [one for one in looks if one.started_at > since + LONGEST_MOVE + ONE_MOMENT]
            seen = [one for one in seen if until is None or one.ended_at < until - LONGEST_MOVE]
            if seen and not any(row["words"] in alert["text"] for alert in alerts):
                yield f"alerts: {row['what']} of {since} was not reported by {len(seen)} passes"
        yield from self._reported_again(alerts, looks)
        last = max((one.started_at for one in looks), default=None)
        for row in read_rows(self.ledger, _SENT):
            if row["state"] == "delivered" and row["id"] not in self.messages:
                yield f"alerts: {row['id']} counts as delivered by {row['channel']}, and nobody got it"
            is_due = last is not None and parse_timestamp(row["due_at"]) < last - LONGEST_MOVE - TRIED_AGAIN
            if row["state"] == "waiting" and is_due:
                yield f"alerts: {row['id']} was due at {row['due_at']}, and still waits"

    def _reported_again(self, alerts: Sequence[Row], looks: Sequence[JobPass]) -> Iterator[str]:
        """What lasts is reported once: no look says that it is over, and the next one the same again, several times."""
        by_key: dict[str, list[Row]] = defaultdict(list)
        for alert in alerts:
            if not alert["key"].startswith(MAY_FLAP) and alert["closed_at"] != alert["opened_at"]:
                by_key[alert["key"]].append(alert)
        for key, rows in by_key.items():
            again = 0
            for before, after in pairwise(rows):
                closed, opened = before["closed_at"] or after["opened_at"], after["opened_at"]
                between = [one for one in looks if closed < format_timestamp(one.started_at) < opened]
                again = again + 1 if before["text"] == after["text"] and len(between) <= 1 else 0
                if again == FLAPS:
                    yield f"alerts: {key} was said to be over and reported again {again} times, each at the next look"
