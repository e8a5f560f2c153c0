"""What the ledger says of the work that was due: who was forecast, when, how much it cost in calls, and what is scored.

By docs/settings.md: the policy, the limits of trials, and how many questions are forecast at a time.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from bot.store.serialization import format_timestamp, parse_timestamp
from tests.ledger_checks import Row, read_rows
from tests.simulation.full_system.plan import PACES

Tables = Mapping[str, Any]
# Nobody moves the clock by more; two things of one pass may be so far apart.
LONGEST_MOVE, ONE_MOMENT = timedelta(hours=1), timedelta(seconds=2)
# After so many failures one after the other a forecast is tried again so much later, or after half of the time that is
# left before the close.
FAILED_AGAIN = (timedelta(minutes=5), timedelta(hours=1), timedelta(hours=6))
# Of the settings that nobody set.
MIN_GAP_H, STALE_AFTER_H, CONCURRENCY, STEPS = 1.0, 72.0, 16, 10
# Why a question is forecast at once: a person asked, or it is open again.
ASKED = ("asked for", "its outcome was withdrawn")
_FORECAST_RUNS = """
select ref, forecaster, version, state, why, started_at, coalesce(ended_at, made_at) as ended_at, forecast_only,
       (select v.body ->> 'closes_at' from question_version v where v.version = forecast.version) as closes_at
from forecast order by ref, forecaster, started_at, revision
"""
_OPEN = """
select q.ref, q.venue, v.body, (
  select json_group_array(s.forecaster) from schedule s where s.ref = q.ref) as planned
from question q join question_version v on v.version = q.version
where q.first_seen_at < :late and q.closes_at > :now
  and not exists (select 1 from resolution r where r.ref = q.ref)
"""
_UNSCORED = """
select p.forecast, p.target, r.kind, r.seen_at from prediction p join forecast f on f.id = p.forecast
join current_resolution r on r.ref = p.ref and r.target = p.target
where f.state = 'done' and max(f.made_at, r.seen_at) < :late and p.scored_against is not r.id
"""
_WITHDRAWN = """
select i.id, i.ref, i.planned_at, f.made_at from intent i join forecast f on f.id = i.forecast
where i.action = 'withdraw'
"""


_BATCHES = """
select i.venue, i.batch, min(a.started_at) as sent_at, (
  select min(closes_at) from question q where q.venue = i.venue and q.batch = i.batch) as closes_at
from attempt a join intent i on i.id = a.intent where i.action = 'forecast' and i.batch <> i.id
group by i.venue, i.batch
"""
_NOT_FORECAST = """
select q.ref from question q where q.venue = :venue and q.batch = :batch and q.first_seen_at < :sent_at and not exists (
  select 1 from forecast f where f.ref = q.ref and f.state = 'done' and f.made_at <= :sent_at)
"""
# From so long before its close on a batch does not wait for all of its questions.
LAST_CALL = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleChecks:
    """Judges one ledger at ``now``, in calm weather.

    ``configs`` are the tables of the configuration, ``clock_moves`` the times to which people set the clock,
    ``calls`` the paid calls that arrived, ``locked`` the questions that were ever locked, and ``pace`` how many times
    slower than at a common pace jobs run.
    """

    ledger: Path
    configs: Sequence[Tables]
    clock_moves: Sequence[datetime]
    calls: Sequence[Mapping[str, Any]]
    locked: Collection[str]
    now: datetime
    pace: float

    def violations(self) -> Iterator[str]:
        """Say what was done too early, too often, or not at all."""
        yield from self._forecast_times()
        yield from self._left_out()
        yield from self._unscored()
        yield from self._withdrawals()
        yield from self._calls()
        yield from self._batches()

    def _policy(self, name: str, default: float) -> list[float]:
        return [config.get("policy", {}).get(name, default) for config in self.configs]

    def _late(self, *jobs: str) -> datetime:
        """Return the moment before which these jobs have passed twice, one after the other."""
        return self.now - sum((timedelta(seconds=2.0 * PACES[job] * self.pace) for job in jobs), LONGEST_MOVE)

    def _forecast_times(self) -> Iterator[str]:
        """No question is forecast again too soon: after an answer, unless it changed, and after failures.

        What people ask for is left out, and so are the forecasts after it.
        """
        gap = timedelta(hours=min(self._policy("min_gap_h", MIN_GAP_H)))
        runs: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in read_rows(self.ledger, _FORECAST_RUNS):
            runs[row["ref"], row["forecaster"]].append(row)
        for (ref, forecaster), rows in runs.items():
            failed = 0
            for row, after in pairwise(rows):
                failed = failed + 1 if row["state"] == "failed" else 0
                is_new = row["state"] == "done" and row["version"] != after["version"]
                # What is only recorded stands beside the others, also where its first run failed.
                is_asked = any(one["forecast_only"] for one in (row, after))
                is_asked |= any(words in one["why"] for words in ASKED for one in (row, after))
                if row["state"] not in {"done", "failed"} or is_new or is_asked:
                    continue
                ended, started = parse_timestamp(row["ended_at"]), parse_timestamp(after["started_at"])
                pause = FAILED_AGAIN[min(failed, len(FAILED_AGAIN)) - 1] if failed else gap
                if failed and row["closes_at"]:
                    left = parse_timestamp(row["closes_at"]) - ended
                    pause = min(pause, max(FAILED_AGAIN[0], left / 2)) if left > timedelta() else pause
                if started - ended < pause - ONE_MOMENT and not self._has_clock_moved(ended, started):
                    what = f"{ref} was forecast by {forecaster} at {started}, {row['state']} at {ended}"
                    yield f"schedule: {what}, to pause {pause}: {after['why']}"

    def _left_out(self) -> Iterator[str]:
        """Each forecaster of a venue has each open question in its schedule, but those that are excluded."""
        late = {"late": format_timestamp(self._late("discover")), "now": format_timestamp(self.now)}
        for row in read_rows(self.ledger, _OPEN, late):
            wanted = {*self.configs[-1]["venues"][row["venue"]]["forecasters"]}
            if not self._is_excluded(row) and (missing := wanted - {*json.loads(row["planned"])}):
                yield f"schedule: {row['ref']} is open, and not planned for {sorted(missing)}"

    def _is_excluded(self, row: Row) -> bool:
        """Say whether a question is, or was, left out by a word of its title."""
        title, tables = json.loads(row["body"])["title"], [config["venues"][row["venue"]] for config in self.configs]
        return any(word in title for table in tables for word in table.get("exclude", {}).get("words", ()))

    def _unscored(self) -> Iterator[str]:
        """Each prediction is scored against each outcome once."""
        for row in read_rows(self.ledger, _UNSCORED, {"late": format_timestamp(self._late("score"))}):
            yield f"score: {row['forecast']}, {row['target']} has no score for what {row['kind']} by {row['seen_at']}"

    def _withdrawals(self) -> Iterator[str]:
        """Nothing is withdrawn that is not stale, and nothing where nobody set that."""
        is_set = any(config.get("policy", {}).get("withdraw_stale") for config in self.configs)
        age = timedelta(hours=min(self._policy("stale_after_h", STALE_AFTER_H)))
        for row in read_rows(self.ledger, _WITHDRAWN):
            made, planned = parse_timestamp(row["made_at"]), parse_timestamp(row["planned_at"])
            if not is_set or (planned - made < age and not self._has_clock_moved(made, planned)):
                yield f"schedule: {row['id']} withdraws at {planned} the forecast of {row['ref']} of {made}"

    def _calls(self) -> Iterator[str]:
        """No trial takes more steps, and no life works on more questions at a time, than the limits say."""
        steps = max(
            config.get("forecasters", {}).get(name, {}).get("steps", config.get("limits", {}).get("steps", STEPS))
            for config in self.configs
            for name in ("drifter", "drifter_second")
        )
        for call in self.calls:
            if call["step"] > steps:
                yield f"schedule: {call['question']} took step {call['step']} at {call['from_s']:.0f} s, {steps} may be"
                return
        # What a person waits for is begun although all places are taken.
        places = 2 * max(config.get("daemon", {}).get("concurrency", CONCURRENCY) for config in self.configs)
        calls = [call for call in self.calls if call["from_s"] < call["to_s"]]
        edges = [edge for call in calls for edge in ((call["from_s"], 1, call), (call["to_s"], 0, call))]
        under_way: list[Mapping[str, Any]] = []
        for at_s, begins, call in sorted(edges, key=lambda edge: edge[:2]):
            if begins:
                under_way.append(call)
            else:
                under_way.remove(call)
            busy = {(one["question"], one["forecaster"]) for one in under_way}
            if len(busy) > places:
                yield f"schedule: {len(busy)} questions were forecast at {at_s:.0f} s, {places} may be"
                return

    def _batches(self) -> Iterator[str]:
        """A batch is sent once each of its questions is forecast, but in its last hour."""
        for row in read_rows(self.ledger, _BATCHES):
            sent, closes = parse_timestamp(row["sent_at"]), row["closes_at"]
            is_last_call = closes is not None and sent > parse_timestamp(closes) - LAST_CALL
            missing = {one["ref"] for one in read_rows(self.ledger, _NOT_FORECAST, row)} - {*self.locked}
            if missing and not is_last_call and not self._has_clock_moved(sent, sent):
                yield f"schedule: batch {row['batch']} of {row['venue']} was sent at {sent} without {sorted(missing)}"

    def _has_clock_moved(self, first: datetime, last: datetime) -> bool:
        """Say whether somebody set the clock between two moments, by that clock, or near them."""
        low, high = min(first, last) - LONGEST_MOVE, max(first, last) + LONGEST_MOVE
        return any(low <= moved <= high for moved in self.clock_moves)
