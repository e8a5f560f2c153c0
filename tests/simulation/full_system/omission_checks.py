"""What had to be done and was not: by the passes of jobs that ended well, what each of them found waiting.

By docs/decisions.md, docs/settings.md ("policy") and docs/going-live.md: each forecast is decided on in the next pass
that submits, a hold has a reason that is true and is decided again, what is decided leaves, and a forecast is renewed
when it is stale and at the times before its question closes.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from bot.store.serialization import format_timestamp, parse_timestamp
from tests.ledger_checks import Row, read_rows
from tests.simulation.full_system.account_values import position_worth
from tests.simulation.full_system.effect_rules import has_price, holding_of, is_exit_due
from tests.simulation.full_system.operators import ADA
from tests.simulation.full_system.schedule_checks import FAILED_AGAIN

Tables = Mapping[str, Any]
Fact = Mapping[str, Any]
# Nobody moves the clock by more; two things of one pass may be so far apart.
LONGEST_MOVE, ONE_MOMENT = timedelta(hours=1, minutes=5), timedelta(seconds=2)
# What people ask for is heard of within seconds while the program runs, and a pass goes on for so long.
HEARD, CLOSE_MARGIN_S = timedelta(minutes=15), 60.0
# So many lists one after the other may be old answers of a venue; and the reason of what a person asked for.
OLD_LISTS, ASKED = 2, "asked for"
# A price that could not be read: the forecast is postponed before it begins.
ERROR_REASON = re.compile(r"\w+Error: ")
FOR_EVER = datetime(9999, 1, 1, tzinfo=UTC)
# A pass begins forecasts for a quarter of an hour.
LONG_PASS = timedelta(minutes=15)
_STOPS = ("halt", "stop file", "disarm")
_ENDED = ("superseded", "refused", "acked")
MIN_GAP_H, STALE_AFTER_H, NEAR_CLOSE_H, RESOLVE_AFTER_S = 1.0, 72.0, (24.0, 2.0), 900.0
_DECIDED = """
select f.id, f.ref, f.made_at, min(d.at) as first_at, f.decided_at
from forecast f left join decision d on d.forecast = f.id where f.state = 'done' group by f.id
"""
_UNSENT = """
select i.id, i.ref, i.venue, i.action, i.state, i.planned_at, i.changed_at, min(a.started_at) as sent_at
from intent i left join attempt a on a.intent = i.id
where i.venue <> 'forecastbench' and i.action <> 'comment' group by i.id
"""
_RUNS = """
select f.ref, f.forecaster, f.state, f.why, f.detail, f.made_at, f.started_at, f.ended_at, f.forecast_only, q.venue,
  q.closes_at, q.as_of, v.body,
  (select min(r.seen_at) from resolution r where r.ref = f.ref) as resolved_at,
  (select s.why from schedule s where s.ref = f.ref and s.forecaster = f.forecaster) as waits_for,
  (select count(*) from question_version w where w.ref = f.ref) as versions
from forecast f join question q on q.ref = f.ref join question_version v on v.version = q.version
order by f.ref, f.forecaster, f.started_at, f.revision
"""
_HELD = """
select d.id, f.ref, q.venue, q.closes_at, f.forecaster, d.at, d.until, d.why,
  d.id = (select max(e.id) from decision e where e.forecast = f.id) as is_last,
  exists (select 1 from forecast g where g.ref = f.ref and g.forecaster = f.forecaster and g.revision > f.revision
    and g.state = 'done') as is_replaced
from decision d join forecast f on f.id = d.forecast join question q on q.ref = f.ref
where d.verdict = 'hold'
"""
# What nothing but a newer forecast changes: a hold for another reason has an end, at which the gate decides again.
FOR_GOOD = re.compile(
    r"recorded only: |superseded by revision |rejected by |the same forecast is already submitted |target \S+: "
    r"|its order was sent already |it was decided for the account |not traded: |the window close|\S+ is off$"
)
# What was sent alone and provably did not arrive, with when it was sent again.
_NOT_ARRIVED = """
select i.id, i.ref, i.venue, i.action, i.state, i.changed_at, a.settled_at,
  (select min(b.started_at) from attempt b where b.intent = i.id and b.number > a.number) as again_at
from attempt a join intent i on i.id = a.intent
where a.state = 'absent' and i.batch = i.id and i.action in ('forecast', 'withdraw')
"""
_STANDING = """
select i.id, i.ref, i.venue, f.forecaster, f.made_at, i.changed_at, q.closes_at,
  (select min(r.seen_at) from resolution r where r.ref = i.ref) as resolved_at,
  (select min(o.planned_at) from intent o where o.ref = i.ref and o.seq > i.seq
    and o.action in ('forecast', 'withdraw')) as followed_at,
  (select min(g.made_at) from forecast g where g.ref = f.ref and g.forecaster = f.forecaster and g.state = 'done'
    and g.forecast_only = 0 and g.revision > f.revision) as renewed_at
from intent i join forecast f on f.id = i.forecast join question q on q.ref = i.ref
where i.action = 'forecast' and i.state = 'acked' and i.venue = 'metaculus'
"""
# What was forecast at Metaculus, and when its question had a comment in the day before or later on.
_UNCOMMENTED = """
select i.id, i.ref, i.venue, i.changed_at, q.closes_at,
  (select min(r.seen_at) from resolution r where r.ref = i.ref) as resolved_at, (
  select min(c.planned_at) from intent c where c.ref = i.ref and c.action = 'comment'
    and julianday(c.planned_at) > julianday(i.changed_at, '-1 day')) as commented_at
from intent i join question q on q.ref = i.ref
where i.action = 'forecast' and i.state = 'acked' and i.venue = 'metaculus'
"""
_IN_DOUBT = """
select a.started_at, coalesce(a.settled_at, '9999-12-31T00:00:00Z') as settled_at from attempt a
join intent i on i.id = a.intent where i.ref = :ref and i.action = 'forecast'
  and (a.settled_at is null or julianday(a.settled_at) > julianday(a.started_at, '+1 minute'))
"""
_APPROVED = """
select a.forecast, a.venue, f.ref, a.answered_at, a.expires_at, q.closes_at,
  (select d.why from decision d where d.forecast = a.forecast and d.at <= a.answered_at
    order by d.id desc limit 1) as why,
  (select min(d.at) from decision d where d.forecast = a.forecast and d.at > a.answered_at) as decided_at,
  (select min(g.made_at) from forecast g where g.ref = f.ref and g.forecaster = f.forecaster and g.state = 'done'
    and g.revision > f.revision) as replaced_at
from approval a join forecast f on f.id = a.forecast join question q on q.ref = f.ref
where a.answered_at is not null and a.state in ('approved', 'used', 'expired')
"""
# Orders on contracts, with the question and its close.
_TRADED = """
select i.order_body ->> 'contract' as contract, i.ref, i.planned_at, q.closes_at from intent i
join question q on q.ref = i.ref where i.venue = :venue and i.order_body is not null and i.mode <> 'paper'
"""
# A sale is tried again after some minutes, and what closes soon is left. Positions that are worth less, or have fewer
# shares, are not judged.
TRIED_BEFORE, LEAST_SOLD, LEAST_SHARES = timedelta(hours=3), 1.1, 5.5
# What of the acts of people the audit has, under the same names.
AUDITED = ("arm", "disarm", "halt", "resume")
_AUDITED = "select kind, at from audit where actor <> ''"
_CLOSINGS = "select at, text from event where kind = 'close'"
_WORKED_ON = """
select started_at, coalesce(ended_at, started_at) as ended_at from forecast
where ref = :ref and forecaster = :forecaster and forecast_only = 0
"""
# A forecast is commented on within a day.
COMMENTED_WITHIN = timedelta(hours=23)
# So long after it is known that it did not arrive a forecast is sent again.
SENT_AGAIN = timedelta(minutes=6)
_ARMS = "select venue, armed_at, until, disarmed_at from arm order by armed_at"
# What a share pays by an outcome that is not the last one on record.
_PAYOUTS = """
select p.venue, p.contract, p.leg, p.price, p.paper, r.ref, c.kind, c.value, c.seen_at from payout p
join resolution r on r.id = p.resolution join current_resolution c on c.ref = r.ref and c.target = r.target
where c.id <> p.resolution
"""
# On paper a share is paid so long after its outcome at most, and an account is read by one of so many passes.
PAID_ON_PAPER, READ_ONCE = timedelta(hours=8), 2
# A venue tells of an outcome everywhere after so long, and one of so many passes finds it.
TOLD_WITHIN, LISTED_ONCE = timedelta(minutes=10), 2
_FIRST_OUTCOMES = """
select f.ref, q.venue, min(f.made_at) as made_at,
  (select min(r.seen_at) from resolution r where r.ref = f.ref) as seen_at
from forecast f join question q on q.ref = f.ref where f.state = 'done' group by f.ref
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPass:
    """One run of a job that did what it had to, by the clock of the machine."""

    job: str
    started_at: datetime
    ended_at: datetime


@dataclass(frozen=True, kw_only=True)
class OmissionChecks:
    """Judges one ledger by the passes of jobs that ended well.

    ``configs`` are the tables of the configuration, ``clock_moves`` the times to which people set the clock, ``locked``
    the questions that were ever locked, ``acts`` what people did, and ``closed`` from when until when each question was
    closed at its venue. ``accounts`` are those of venues at the moments at which they were read,
    ``spoilt`` says when an answer of a venue may not have been what was true, and ``outcomes`` since when questions
    have an outcome at their venue. ``lives`` are the moments at which lives began.
    """

    ledger: Path
    configs: Sequence[Tables]
    passes: Sequence[JobPass]
    clock_moves: Sequence[datetime]
    locked: Collection[str]
    acts: Sequence[Fact]
    closed: Mapping[str, Sequence[Sequence[datetime | None]]] = field(default_factory=dict)
    accounts: Sequence[Fact] = ()
    spoilt: Mapping[str, Sequence[datetime]] = field(default_factory=dict)
    outcomes: Mapping[str, datetime] = field(default_factory=dict)
    lives: Sequence[datetime] = ()

    def violations(self) -> Iterator[str]:
        """Say what was not done, or too late."""
        yield from self._undecided()
        yield from self._unsent()
        yield from self._not_sent_again()
        yield from self._not_withdrawn()
        yield from self._not_commented()
        yield from self._not_closed()
        yield from self._not_in_the_audit()
        yield from self._approved_in_vain()
        yield from self._not_sold()
        yield from self._not_renewed()
        yield from self._forecast_after_close()
        yield from self._held_on()
        yield from self._false_reasons()
        yield from self._not_paid_again()
        yield from self._late_outcomes()

    @cached_property
    def _by_job(self) -> dict[str, list[JobPass]]:
        found: dict[str, list[JobPass]] = defaultdict(list)
        for one in sorted(self.passes, key=lambda one: one.started_at):
            found[one.job].append(one)
        return found

    def _passes_between(self, job: str, since: datetime, until: datetime | None, *, open_venue: str = "") -> int:
        """Return how many passes began and ended in a time in which nobody set the clock.

        Those that began while ``open_venue`` was halted, or that it answered badly, are not counted.
        """
        ended = self._list_passes(job, since, until)
        return sum(not open_venue or self._is_able(open_venue, one) for one in ended)

    def _is_able(self, venue: str, one: JobPass) -> bool:
        return not self._is_spoilt(venue, one) and not self._is_halted(venue, one.started_at, one.ended_at)

    def _is_spoilt(self, venue: str, one: JobPass) -> bool:
        first, last = one.started_at - ONE_MOMENT, one.ended_at + ONE_MOMENT
        moments = self._spoilt[venue]
        place = bisect_left(moments, first)
        return place < len(moments) and moments[place] <= last

    @cached_property
    def _spoilt(self) -> dict[str, list[datetime]]:
        """When answers of each venue were not what was true, in order."""
        return defaultdict(list, {venue: sorted(moments) for venue, moments in self.spoilt.items()})

    @cached_property
    def _halts(self) -> dict[str, list[tuple[datetime, datetime]]]:
        """From when until when each venue, or everything, was halted."""
        found: dict[str, list[tuple[datetime, datetime]]] = defaultdict(list)
        for row in read_rows(self.ledger, "select venue, at, resumed_at from halt"):
            until = parse_timestamp(row["resumed_at"]) if row["resumed_at"] else FOR_EVER
            found[row["venue"]].append((parse_timestamp(row["at"]), until))
        return found

    def _list_passes(self, job: str, since: datetime, until: datetime | None) -> list[JobPass]:
        found = self._by_job[job]
        until = until or max((one.ended_at for one in found[-3:]), default=since) + timedelta(hours=1)
        if self._has_clock_moved(since, until):
            return []
        first = bisect_right([one.started_at for one in found], since + ONE_MOMENT)
        return [one for one in found[first:] if one.ended_at < until - ONE_MOMENT]

    def _forecast_passes(self, venue: str, since: datetime, until: datetime) -> int:
        """Return how many passes could forecast what was due.

        A long one leaves the rest to the next, and a venue that answers badly may not say what it asks.
        """
        passes = self._list_passes("forecast", since, until)
        return sum(one.ended_at - one.started_at < LONG_PASS and not self._is_spoilt(venue, one) for one in passes)

    def _policy(self, name: str, default: Any) -> list[Any]:
        return [config.get("policy", {}).get(name, default) for config in self.configs]

    def _undecided(self) -> Iterator[str]:
        """Each forecast is decided on by the next passes that submit."""
        for row in read_rows(self.ledger, _DECIDED):
            made, decided = parse_timestamp(row["made_at"]), row["first_at"] or row["decided_at"]
            if count := self._passes_between("submit", made, decided and parse_timestamp(decided)):
                what = f"{row['id']} of {row['ref']}, made at {made}"
                yield f"omission: {what}, was decided on at {decided}, {count} passes later"

    def _unsent(self) -> Iterator[str]:
        """What is decided leaves, or is given up, in the next passes."""
        for row in read_rows(self.ledger, _UNSENT):
            planned = parse_timestamp(row["planned_at"])
            until = row["sent_at"] or (row["changed_at"] if row["state"] == "superseded" else None)
            if self._is_stopped(row["venue"], planned, until and parse_timestamp(until)):
                continue
            # What is decided is given up where nobody permits it; what takes something back waits until somebody does.
            if row["action"] == "withdraw" and not self._is_armed(row["venue"], planned, until):
                continue
            if count := self._passes_between("submit", planned, until and parse_timestamp(until)):
                what = f"{row['id']} on {row['ref']}, planned at {planned}"
                yield f"omission: {what}, left at {until}, {count} passes later"

    def _is_armed(self, venue: str, since: datetime, until: str | None) -> bool:
        """Say whether one arm record was in force all that time, with one configuration."""
        last = until or format_timestamp(max(one.ended_at for one in self._by_job["submit"]))
        return len(self.configs) == 1 and any(
            arm["venue"] == venue
            and arm["armed_at"] <= format_timestamp(since)
            and min(arm["until"], arm["disarmed_at"] or arm["until"]) >= last
            for arm in read_rows(self.ledger, _ARMS)
        )

    def _not_sent_again(self) -> Iterator[str]:
        """What provably did not arrive is sent again some minutes later, or given up."""
        for row in read_rows(self.ledger, _NOT_ARRIVED):
            settled = parse_timestamp(row["settled_at"])
            ended = row["again_at"] or (row["changed_at"] if row["state"] in _ENDED else None)
            until = ended and parse_timestamp(ended)
            due = settled + SENT_AGAIN
            if (until is not None and until < due) or self._is_stopped_by_people(row["venue"], settled, until):
                continue
            if row["action"] == "withdraw" and not self._is_armed(row["venue"], settled, ended):
                continue
            if count := self._passes_between("submit", due, until, open_venue=row["venue"]):
                what = f"{row['id']} on {row['ref']}, which had not arrived at {settled}"
                yield f"omission: {what}, was sent again at {ended}, {count} passes after {due}"

    def _not_withdrawn(self) -> Iterator[str]:
        """A forecast that is stale, and was not renewed for a while, is withdrawn where that is set."""
        if not all(self._policy("withdraw_stale", default=False)):
            return
        pauses = (max(self._policy("stale_after_h", STALE_AFTER_H)), max(self._policy("min_gap_h", MIN_GAP_H)))
        for row in read_rows(self.ledger, _STANDING):
            # It may be stale by the time at which it is sent.
            due = parse_timestamp(row["made_at"]) + timedelta(hours=sum(pauses))
            due = max(due, parse_timestamp(row["changed_at"]))
            ends = [row[name] for name in ("followed_at", "renewed_at", "resolved_at", "closes_at") if row[name]]
            until = min(map(parse_timestamp, ends), default=None)
            if (until is not None and until < due) or self._is_stopped(row["venue"], due, until):
                continue
            # While it is worked on there may still be another one.
            runs = [(one["started_at"], one["ended_at"]) for one in read_rows(self.ledger, _WORKED_ON, row)]
            passes = self._list_passes("submit", due, until)
            if count := sum(not any(_overlaps(one, *run) for run in runs) for one in passes):
                what = f"the forecast of {row['ref']} of {row['made_at']}"
                yield f"omission: {what} was to be withdrawn from {due} on, and {count} passes did not"

    def _not_commented(self) -> Iterator[str]:
        """Where that is set, the first forecast of a question at Metaculus in a day is followed by a comment."""
        tables = [config["venues"].get("metaculus", {}) for config in self.configs]
        modes = {table.get("mode") for table in tables}
        if not all(table.get("comment") for table in tables) or not modes <= {"live", "approve"}:
            return
        for row in read_rows(self.ledger, _UNCOMMENTED):
            since = parse_timestamp(row["changed_at"])
            ends = [parse_timestamp(row[name]) for name in ("commented_at", "closes_at", "resolved_at") if row[name]]
            until = min([*ends, since + COMMENTED_WITHIN])
            is_quiet = self._is_armed(row["venue"], since, format_timestamp(until))
            if row["ref"] in self.locked or not is_quiet or self._is_stopped(row["venue"], since, until):
                continue
            # A newer forecast that may have arrived is the one that is commented on, once that is known.
            doubts = [(one["started_at"], one["settled_at"]) for one in read_rows(self.ledger, _IN_DOUBT, row)]
            passes = self._list_passes("submit", since, until)
            passes = [one for one in passes if not any(_overlaps(one, *doubt) for doubt in doubts)]
            if (count := sum(not self._is_halted(row["venue"], one.started_at, one.ended_at) for one in passes)) > 1:
                what = f"the forecast of {row['ref']} that arrived by {since}"
                yield f"omission: {what} was commented on at {row['commented_at']}, {count} passes did not"

    def _not_closed(self) -> Iterator[str]:
        """What people ask to be closed is sold by the next pass that closes, or that says why not."""
        if not any(act["kind"] == "close" for act in self.acts):
            return
        told = [(parse_timestamp(row["at"]), json.loads(row["text"])) for row in read_rows(self.ledger, _CLOSINGS)]
        for act in self.acts if self.passes else ():
            until = act["clock"] + HEARD if act["kind"] == "close" and not act.get("refused") else None
            if until is None or not self._passes_between("close", act["clock"], until):
                continue
            for target in act["targets"]:
                named = [
                    at
                    for at, one in told
                    if all(one.get(name) == str(target[name]) for name in ("venue", "contract", "leg"))
                    and act["clock"] - ONE_MOMENT <= at <= until + HEARD
                ]
                if not named:
                    yield f"omission: {target} was to be closed at {act['clock']}, and nothing is said of it"

    def _not_in_the_audit(self) -> Iterator[str]:
        """What people permit, stop and resume is in the audit by the next passes that hear of requests."""
        acts = [act for act in self.acts if act["kind"] in AUDITED and not act.get("refused")]
        rows = read_rows(self.ledger, _AUDITED) if acts and self.passes else ()
        there = [(row["kind"], parse_timestamp(row["at"])) for row in rows]
        for act in acts if self.passes else ():
            until = act["clock"] + HEARD - timedelta(minutes=5)
            if not self._passes_between("requests", act["clock"], until):
                continue
            if not any(kind == act["kind"] and act["clock"] - ONE_MOMENT <= at <= until for kind, at in there):
                what = f"the {act['kind']} of {act.get('venue') or 'all'} at {act['clock']}"
                yield f"omission: {what} is not in the audit"

    def _approved_in_vain(self) -> Iterator[str]:
        """What a person approved is decided again by the next passes."""
        for row in read_rows(self.ledger, _APPROVED):
            # What is held for another reason, such as a lock, waits for the end of that.
            if not (row["why"] or "").startswith("waits for approval"):
                continue
            answered = parse_timestamp(row["answered_at"])
            ends = [row[name] for name in ("decided_at", "replaced_at", "closes_at", "expires_at") if row[name]]
            until = min(map(parse_timestamp, ends))
            if self._is_stopped(row["venue"], answered, until):
                continue
            if (count := self._passes_between("submit", answered, until)) > 1:
                what = f"the forecast {row['forecast']} of {row['ref']}, approved at {answered}"
                yield f"omission: {what}, was decided on again at {row['decided_at']}, {count} passes did not"

    def _not_sold(self) -> Iterator[str]:
        """What has lost, or gained, the share at which it is to be sold is tried to be sold by one of two passes."""
        for venue in sorted({str(one["venue"]) for one in self.accounts}):
            tables = [config["venues"][venue] for config in self.configs]
            bounds = {name: tables[0].get("trading", {}).get(name) for name in ("stop_loss", "take_profit")}
            if len(tables) > 1 or tables[0].get("mode") != "live" or not any(bounds.values()):
                continue
            mine = [one for one in self.accounts if one["venue"] == venue]
            traded = read_rows(self.ledger, _TRADED, {"venue": venue})
            for first, last in pairwise(self._by_job["submit"]):
                seen = [[one for one in mine if _is_in(one["clock"], each)] for each in (first, last)]
                faults = {one["faults"] for one in mine if first.started_at <= one["clock"] <= last.ended_at}
                if not all(seen) or len(faults) > 1 or not self._is_quiet(venue, first.started_at, last.ended_at):
                    continue
                for position in seen[1][-1]["positions"]:
                    yield from self._unsold(position, [*seen[0], *seen[1]], bounds, (first, last), traded)

    def _unsold(
        self,
        position: Fact,
        seen: Sequence[Fact],
        bounds: Mapping[str, float | None],
        passes: tuple[JobPass, JobPass],
        traded: Sequence[Row],
    ) -> Iterator[str]:
        rows = [row for row in traded if row["contract"] == position["contract"]]
        same = [one for each in seen for one in each["positions"] if holding_of(one) == holding_of(position)]
        if not rows or len(same) != len(seen) or not all(map(has_price, same)) or rows[0]["ref"] in self.locked:
            return
        worth = [value for one in same for value in position_worth(one)]
        gains = [value / max(position["paid"], LEAST_SOLD) - 1.0 for value in worth]
        closes = rows[0]["closes_at"] and parse_timestamp(rows[0]["closes_at"]) - TRIED_BEFORE
        since, until = passes[0].started_at - TRIED_BEFORE, passes[1].ended_at + ONE_MOMENT
        is_tried = any(since <= parse_timestamp(row["planned_at"]) <= until for row in rows)
        # A venue takes no sale of less.
        is_little = min(worth) < LEAST_SOLD or position["shares"] < LEAST_SHARES
        if is_tried or is_little or (closes and closes < until) or not is_exit_due(min(gains), max(gains), bounds):
            return
        what = (
            f"{position['leg']} {position['contract']} has a gain of {min(gains):.3f} to {max(gains):.3f} of its cost"
        )
        yield f"omission: {what}, to be sold at {bounds}, and the passes of {passes[0].started_at} and after did not"

    def _is_quiet(self, venue: str, since: datetime, until: datetime) -> bool:
        """Say whether a venue was armed all that time, and nobody stopped it or set the clock."""
        is_moved = self._has_clock_moved(since, until)
        is_armed = self._is_armed(venue, since - TRIED_BEFORE, format_timestamp(until))
        return is_armed and not is_moved and not self._is_stopped(venue, since - TRIED_BEFORE, until)

    def _is_stopped(self, venue: str, since: datetime, until: datetime | None) -> bool:
        """Say whether somebody, or the program, had stopped a venue in that time."""
        return self._is_stopped_by_people(venue, since, until) or self._is_halted(venue, since, until)

    def _is_stopped_by_people(self, venue: str, since: datetime, until: datetime | None) -> bool:
        until = until or FOR_EVER
        return any(
            act["clock"] <= until and min(ended, until) + LONGEST_MOVE >= since
            for act, ended in self._stops
            if act.get("venue") in {venue, "", None}
        )

    @cached_property
    def _stops(self) -> list[tuple[Fact, datetime]]:
        """What people did to stop something, with when they made that good."""
        ends = [act["clock"] for act in self.acts if act["kind"] == "stop file gone"]
        stops = [act for act in self.acts if act["kind"] in _STOPS]
        return [(act, min((at for at in ends if at > act["clock"]), default=FOR_EVER)) for act in stops]

    def _is_halted(self, venue: str, since: datetime, until: datetime | None) -> bool:
        halts = [*self._halts[venue], *self._halts[""]]
        return any(at <= (until or FOR_EVER) and resumed >= since for at, resumed in halts)

    def _not_renewed(self) -> Iterator[str]:
        """A forecast is renewed once it is stale and at the times before the close, and tried again where it failed."""
        runs: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in read_rows(self.ledger, _RUNS):
            runs[row["ref"], row["forecaster"]].append(row)
        for rows in runs.values():
            in_a_row, answered = 0, ""
            for row, after in zip(rows, [*rows[1:], None], strict=True):
                # What was only recorded stands beside the others.
                if row["state"] == "done" and not row["forecast_only"]:
                    in_a_row, answered = 0, row["made_at"]
                else:
                    in_a_row += 1
                if row["state"] == "done" and row["closes_at"] is not None and not self._is_left_out(row):
                    yield from self._late_renewal(row, after)
                if row["state"] == "failed" and row["closes_at"] is not None and not self._is_left_out(row):
                    # What was cut off with a life may count as a failure.
                    cut = sum(answered < format_timestamp(one) < row["ended_at"] for one in self.lives)
                    yield from self._late_retry(row, after, in_a_row + cut)

    def _forecast_after_close(self) -> Iterator[str]:
        """What several lists of its venue did not have, because it is closed there, is not forecast unasked."""
        for row in read_rows(self.ledger, _RUNS):
            started, is_event = parse_timestamp(row["started_at"]), ":event:" in row["ref"]
            for since, until in () if is_event or row["why"] == ASKED else self.closed.get(row["ref"], ()):
                if since is None or not since < started < (until or FOR_EVER):
                    continue
                if (count := self._passes_between(f"discover {row['venue']}", since, started)) > OLD_LISTS:
                    what = f"{row['ref']} was forecast at {started} by {row['forecaster']}, {row['why']}"
                    yield f"omission: {what}, and was closed since {since}, {count} lists before that"

    def _late_renewal(self, row: Row, after: Row | None) -> Iterator[str]:
        made, closes = parse_timestamp(row["made_at"]), parse_timestamp(row["closes_at"])
        ends = [
            closes - self._reader_margin(row["venue"]),
            *[parse_timestamp(row[name]) for name in ("as_of", "resolved_at") if row[name]],
        ]
        # A venue may close a question before its time; one that it opens again may still be postponed.
        ends += [since for since, _ in self.closed.get(row["ref"], ()) if since is not None]
        until = min([*ends, *([parse_timestamp(after["started_at"])] if after else [])])
        due, why = self._due(made, closes, is_moved=row["versions"] > 1)
        if ERROR_REASON.match((after["why"] if after else row["waits_for"]) or ""):
            return
        if due < min(ends) and (count := self._forecast_passes(row["venue"], due, until)):
            what = f"the forecast of {row['ref']} by {row['forecaster']} of {made}"
            yield f"omission: {what} was to be renewed at {due}, {why}, and {count} passes did not"

    def _reader_margin(self, venue: str) -> timedelta:
        """Return how long before its close a question is no longer found, and need not be forecast."""
        settings = [config["venues"].get(venue, {}).get("settings", {}) for config in self.configs]
        return timedelta(seconds=max(one.get("close_margin_s", CLOSE_MARGIN_S) for one in settings))

    def _late_retry(self, row: Row, after: Row | None, in_a_row: int) -> Iterator[str]:
        """One that failed is tried again the later the more failed since the last answer, and before its close."""
        ended, closes = parse_timestamp(row["ended_at"]), parse_timestamp(row["closes_at"])
        ends = [
            closes - self._reader_margin(row["venue"]),
            *[parse_timestamp(row[name]) for name in ("as_of", "resolved_at") if row[name]],
        ]
        # A venue may close a question before its time; one that it opens again may still be postponed.
        ends += [since for since, _ in self.closed.get(row["ref"], ()) if since is not None]
        pause = FAILED_AGAIN[min(in_a_row, len(FAILED_AGAIN)) - 1]
        due = ended + min(pause, max(FAILED_AGAIN[0], (closes - ended) / 2))
        until = min([*ends, *([parse_timestamp(after["started_at"])] if after else [])])
        # What people ask for is only recorded, and an hour that was set is no hour that passed.
        if row["forecast_only"] or row["versions"] > 1 or due >= min(ends):
            return
        # It was tried, and postponed for another reason, such as a price that could not be read.
        if (after["why"] if after else row["waits_for"]) not in {row["detail"], None}:
            return
        if count := self._forecast_passes(row["venue"], due, until):
            what = f"the forecast of {row['ref']} by {row['forecaster']} that failed at {ended}"
            yield f"omission: {what} was to be tried again at {due}, it closes at {closes}, and {count} passes did not"

    def _due(self, made: datetime, closes: datetime, *, is_moved: bool) -> tuple[datetime, str]:
        """Return when a forecast is due again at the latest, by all policies that were in force."""
        found = []
        for stale, gap, near in zip(
            self._policy("stale_after_h", STALE_AFTER_H),
            self._policy("min_gap_h", MIN_GAP_H),
            self._policy("near_close_h", NEAR_CLOSE_H),
            strict=True,
        ):
            dues = [(made + timedelta(hours=stale), "stale")]
            before = [] if is_moved else [closes - timedelta(hours=hours) for hours in near]
            dues += [(at, "near its close") for at in before if at > made]
            at, why = min(dues)
            found.append((max(at, made + timedelta(hours=gap)), why))
        return max(found)

    def _is_left_out(self, row: Row) -> bool:
        """Say whether a question was locked, or excluded by a word of its title, or nobody forecasts it any more."""
        if row["ref"] in self.locked or row["venue"] == "forecastbench":
            return True
        title = json.loads(row["body"])["title"]
        for config in self.configs:
            table = config["venues"][row["venue"]]
            if any(word in title for word in table.get("exclude", {}).get("words", ())):
                return True
            if not row["forecaster"].startswith("drifter") or row["forecaster"] not in table["forecasters"]:
                return True
        return False

    def _held_on(self) -> Iterator[str]:
        """What is held until a time is decided again in the next passes after it, and at once where it has no end."""
        for row in read_rows(self.ledger, _HELD):
            if not row["is_last"] or row["is_replaced"] or (row["until"] is None and FOR_GOOD.match(row["why"])):
                continue
            until = parse_timestamp(row["until"] or row["at"])
            if count := self._passes_between("submit", until, None):
                what = f"{row['ref']} was held until {until}: {row['why']}"
                yield f"omission: {what}, and {count} passes did not decide again"

    def _not_paid_again(self) -> Iterator[str]:
        """Shares pay by the last outcome on record, also where that was corrected or taken back."""
        for row in read_rows(self.ledger, _PAYOUTS):
            since = parse_timestamp(row["seen_at"]) + row["paper"] * PAID_ON_PAPER
            if (count := self._passes_between("accounts", since, None, open_venue=row["venue"])) > READ_ONCE:
                what = f"{row['leg']} of {row['contract']} pays {row['price']} on record, {count} passes later"
                yield f"omission: {what}, {row['ref']} is {row['kind']} {row['value']} since {since}"

    def _late_outcomes(self) -> Iterator[str]:
        """What has an outcome at its venue, and a forecast, has it on record after the next passes that look for it."""
        for row in read_rows(self.ledger, _FIRST_OUTCOMES) if self.outcomes else ():
            if (since := self.outcomes.get(row["ref"])) is None:
                continue
            settings = [config["venues"][row["venue"]].get("settings", {}) for config in self.configs]
            # Creators of Manifold may undo theirs, which is waited for.
            waits = max(one.get("resolve_after_s", RESOLVE_AFTER_S) for one in settings) * (row["venue"] == "manifold")
            due = max(parse_timestamp(row["made_at"]), since + timedelta(seconds=waits)) + TOLD_WITHIN
            until = row["seen_at"] and parse_timestamp(row["seen_at"])
            job = f"resolve {row['venue']}"
            if (count := self._passes_between(job, due, until, open_venue=row["venue"])) > LISTED_ONCE:
                what = f"{row['ref']} has an outcome since {since}"
                yield f"omission: {what}, and it was on record at {row['seen_at']}, {count} passes after {due}"

    def _false_reasons(self) -> Iterator[str]:
        """What a hold says of locks, stops, permissions and windows is true."""
        for row in read_rows(self.ledger, _HELD):
            at = parse_timestamp(row["at"])
            if not self._has_clock_moved(at, at) and (why := self._wrong_reason(row, at)):
                yield f"omission: {row['ref']} was held at {at}: {row['why']}; and {why}"

    def _wrong_reason(self, row: Row, at: datetime) -> str | None:
        why, venue = row["why"], row["venue"]
        if why.startswith("the window close"):
            return self._wrong_window(row, at)
        mine: Sequence[Fact] = self.acts
        kinds: tuple[tuple[str, str], ...] = ()
        what = ""
        if why.startswith("locked"):
            mine = [act for act in mine if str(act.get("ref")) == row["ref"]]
            mine = [act for act in mine if act.get("forecaster") in {None, row["forecaster"]}]
            kinds, what = (("lock", "unlock"),), "nobody had locked it"
        elif why.startswith("halted by STOP"):
            # Who halts everything leaves such a file, too.
            mine = [act for act in mine if act["kind"] != "halt" or not act.get("venue")]
            # A halt that is heard of only after the file was taken away leaves another one.
            late = [act["clock"] for act in mine if act["kind"] == "halt"]
            mine = [act for act in mine if act["kind"] != "stop file gone" or not self._was_unheard(late, act["clock"])]
            kinds, what = (("stop file", "stop file gone"), ("halt", "stop file gone")), "there was no such file"
        elif f"was stopped by {ADA} at" in why:
            mine = [act for act in mine if act.get("venue") in {venue, "", None}]
            kinds, what = (("halt", "resume"),), "nobody had halted it"
        if kinds:
            # The program refuses a resume that it hears of too late.
            mine = [act for act in mine if act["kind"] != "resume" or self._was_heard(act["clock"])]
            return None if any(_lasts(mine, begins, ends, at) for begins, ends in kinds) else what
        return self._wrong_permission(row, at)

    def _was_unheard(self, asked: Sequence[datetime], at: datetime) -> bool:
        """Say whether what was asked for last before a moment was not heard of by then."""
        last = max((one for one in asked if one <= at), default=None)
        found = self._by_job["requests"]
        return last is not None and not any(last <= one.started_at <= at for one in found)

    def _was_heard(self, at: datetime) -> bool:
        """Say whether the program ran soon after a moment."""
        found = self._by_job["requests"]
        first = bisect_right([one.started_at for one in found], at)
        return any(one.started_at <= at + HEARD for one in found[first : first + 1])

    def _wrong_permission(self, row: Row, at: datetime) -> str | None:
        why, venue = row["why"], row["venue"]
        arms = [one for one in read_rows(self.ledger, _ARMS) if one["venue"] == venue]
        last = next((one for one in reversed(arms) if parse_timestamp(one["armed_at"]) < at - HEARD), None)
        if f"the configuration of {venue} was changed" in why and len(self.configs) == 1:
            return "nobody had changed it"
        if last is None:
            return None
        if f"{venue} is not armed" in why:
            return f"it was armed at {last['armed_at']}"
        if f"{venue} was disarmed" in why and not last["disarmed_at"]:
            return "nobody had disarmed it"
        if f"the arm record of {venue} ended" in why and parse_timestamp(last["until"]) > at + ONE_MOMENT:
            return f"that is until {last['until']}"
        return None

    def _wrong_window(self, row: Row, at: datetime) -> str | None:
        margins = [config["venues"][row["venue"]].get("close_margin_s", CLOSE_MARGIN_S) for config in self.configs]
        margin = timedelta(seconds=max(margins)) if "closes at" in row["why"] else timedelta()
        versions = read_rows(self.ledger, "select body from question_version where ref = :ref", row)
        known = [json.loads(one["body"]).get("closes_at") for one in versions]
        closes = [parse_timestamp(one) for one in [*known, row["closes_at"]] if one]
        is_over = any(at >= one - margin - ONE_MOMENT for one in closes)
        return None if is_over or not closes else f"it closes at {max(closes)}"

    def _has_clock_moved(self, first: datetime, last: datetime) -> bool:
        return any(first - LONGEST_MOVE <= moved <= last + LONGEST_MOVE for moved in self.clock_moves)


def _lasts(acts: Sequence[Fact], begins: str, ends: str, at: datetime) -> bool:
    """Say whether something that people began lasts at a moment, or ended just before."""
    for act in acts:
        if act["kind"] == begins and act["clock"] <= at + HEARD:
            # A lock of one forecaster is not undone with that of all.
            same = [one for one in acts if one["kind"] == ends and one.get("forecaster") == act.get("forecaster")]
            after = [one["clock"] for one in same if one["clock"] > act["clock"]]
            if min(after, default=at) >= at - HEARD:
                return True
    return False


def _is_in(at: datetime, one: JobPass) -> bool:
    return one.started_at - ONE_MOMENT <= at <= one.ended_at + ONE_MOMENT


def _overlaps(one: JobPass, begun: str, ended: str) -> bool:
    """Say whether a pass may have been under way in a time."""
    first, last = parse_timestamp(begun) - ONE_MOMENT, parse_timestamp(ended) + ONE_MOMENT
    return first <= one.ended_at and one.started_at <= last
