"""What the ledger says of the work that was due: who was forecast, when, how much it cost in calls, and what is scored.

By docs/settings.md: the policy, the limits of trials, and how many questions are forecast at a time.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from bot.daemon.runner import JobRun
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
MIN_GAP_H, STALE_AFTER_H, STEPS, NEAR_CLOSE_H = 1.0, 72.0, 10, (24.0, 2.0)
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
where i.action = 'withdraw' and not exists (
  select 1 from audit a where a.kind = 'withdraw' and json_extract(a.body, '$.intent') = i.id)
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
_PLANNED = """
select s.ref, s.forecaster, s.due_at, s.why, q.closes_at, f.made_at from schedule s join question q on q.ref = s.ref
join forecast f on f.ref = s.ref and f.forecaster = s.forecaster and f.state = 'done' and f.forecast_only = 0
where s.owner is null and s.not_before is null and s.forecast_only = 0
  and (s.why = 'stale' or s.why like '% before closing') and q.as_of is null and q.closes_at is not null
  and (select count(*) from question_version v where v.ref = s.ref) = 1
  and f.revision = (select max(g.revision) from forecast g where g.ref = f.ref and g.forecaster = f.forecaster
    and g.state = 'done' and g.forecast_only = 0)
"""
_WINDOWS = """
select s.ref, s.forecaster, s.closes_at, s.window, q.first_seen_at, (
  select min(f.made_at) from forecast f where f.ref = s.ref and f.forecaster = s.forecaster and f.state = 'done'
    and f.forecast_only = 0) as made_at,
  exists (select 1 from event e where e.kind = 'missed window'
    and instr(e.text, s.ref || ': no forecast of ' || s.forecaster || ' by ')) as is_told
from schedule s join question q on q.ref = s.ref
where s.window <> 'open' and s.closes_at = q.closes_at
  and (select count(*) from question_version v where v.ref = s.ref) = 1
"""
_APPROVALS = "select id, venue, state, asked_at, answered_at, expires_at from approval"
_OTHER_CLOSES = """
select s.ref, s.forecaster, s.closes_at, q.closes_at as due from schedule s join question q on q.ref = s.ref
where s.closes_at is not q.closes_at and q.changed_at < :late and q.closes_at > :now
"""
# Hours for which somebody may answer, and for which an answer is valid.
APPROVAL_H = 12.0
_OVER_BUDGET = """
select t.forecast, f.ref, t.ended_at, json_extract(t.body, '$.detail') as detail from trial t
join forecast f on f.id = t.forecast where json_extract(t.body, '$.detail') like 'BudgetExhaustedError: %'
"""
_SPENT = """
select scope, substr(at, 1, 10) as day, at, cost_usd, worst_usd, state, latency_s, lost_at from model_call
where worst_usd > 0
"""
# "the budget of the question does not allow the call: it may cost 0.0300 US dollars, and 0.0100 of 0.5 are left".
_REFUSED_CALL = re.compile(
    r"the budget of the (question|day) does not .* cost ([\d.]+) US dollars, and [\d.]+ of ([\d.e-]+)"
)
# Amounts on record are rounded.
ROUNDED_USD = 2e-4
# Of one trial, where nobody set it; one that is stopped may still close something.
SECONDS, CLOSES_IN_S = 600.0, 5.0
# The settings that say how often jobs run, by the beginning of their names.
INTERVALS: Mapping[str, str] = {
    **dict.fromkeys(("requests", "halt", "close"), "requests_every_s"),
    **dict.fromkeys(("audit", "evidence", "backup"), "backup_every_s"),
    **dict.fromkeys(("reconcile", "readiness"), "reconcile_every_s"),
    **{name: f"{name}_every_s" for name in ("forecast", "submit", "resolve", "score")},
}
# What people ask for makes these run in between.
ONE_MINUTE_S = 60.0
WOKEN = ("requests", "close", "forecast", "halt")
# What was cut off is begun anew after so long, with what there is then; trials may wait for one another.
RESUMED_WITHIN, TRIALS_IN_A_ROW = timedelta(hours=1), 3
_EVIDENCE = """
select f.id, f.ref, f.cutoff, f.made_at from forecast f join question q on q.ref = f.ref
where f.state = 'done' and q.as_of is null and f.cutoff is not null
"""
# From so long before its close on a batch does not wait for all of its questions.
LAST_CALL = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleChecks:
    """Judges one ledger at ``now``, in calm weather.

    ``configs`` are the tables of the configuration, ``clock_moves`` the times to which people set the clock,
    ``calls`` the paid calls that arrived, ``locked`` the questions that were ever locked, and ``pace`` how many times
    slower than at a common pace jobs run. ``runs`` are all runs of jobs, also those that were cut off, ``lives`` the
    moments at which lives began.
    """

    ledger: Path
    configs: Sequence[Tables]
    clock_moves: Sequence[datetime]
    calls: Sequence[Mapping[str, Any]]
    locked: Collection[str]
    now: datetime
    pace: float
    runs: Sequence[JobRun] = ()
    lives: Sequence[datetime] = ()

    def violations(self) -> Iterator[str]:
        """Say what was done too early, too often, or not at all."""
        yield from self._forecast_times()
        yield from self._left_out()
        yield from self._unscored()
        yield from self._withdrawals()
        yield from self._calls()
        yield from self._batches()
        yield from self._due_times()
        yield from self._closed_windows()
        yield from self._approvals()
        yield from self._long_trials()
        yield from self._old_evidence()
        yield from self._over_budget()
        yield from self._job_times()

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
        late = {"late": format_timestamp(self._late("discover")), "now": format_timestamp(self.now)}
        for row in read_rows(self.ledger, _OTHER_CLOSES, late):
            what = f"{row['ref']} closes at {row['due']}"
            yield f"schedule: {what}, and {row['forecaster']} is to forecast it by {row['closes_at']}"
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
        # What a person waits for is begun although all places are taken; where nobody set how many there are, as many
        # as keep the models busy.
        places = 2.0 * max(config.get("daemon", {}).get("concurrency", math.inf) for config in self.configs)
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
                yield f"schedule: {len(busy)} questions were forecast at {at_s:.0f} s, {places:g} may be"
                return

    def _batches(self) -> Iterator[str]:
        """A batch is sent once each of its questions is forecast, but in its last hour."""
        for row in read_rows(self.ledger, _BATCHES):
            sent, closes = parse_timestamp(row["sent_at"]), row["closes_at"]
            is_last_call = closes is not None and sent > parse_timestamp(closes) - LAST_CALL
            missing = {one["ref"] for one in read_rows(self.ledger, _NOT_FORECAST, row)} - {*self.locked}
            if missing and not is_last_call and not self._has_clock_moved(sent, sent):
                yield f"schedule: batch {row['batch']} of {row['venue']} was sent at {sent} without {sorted(missing)}"

    def _due_times(self) -> Iterator[str]:
        """What was forecast is due again when it is stale, or at the first of the times before its close."""
        for row in read_rows(self.ledger, _PLANNED):
            made, closes = parse_timestamp(row["made_at"]), parse_timestamp(row["closes_at"])
            due = {self._next_due(config.get("policy", {}), made, closes) for config in self.configs}
            planned = row["due_at"] and parse_timestamp(row["due_at"])
            # What has closed meanwhile is not due any more, nor is what was resolved.
            if planned is not None and not any(abs(planned - one) < ONE_MOMENT for one in due):
                what = f"{row['ref']} is due for {row['forecaster']} at {planned}, {row['why']}"
                yield f"schedule: {what}, made at {made}, closes at {closes}, and had to be at {sorted(due)}"

    def _next_due(self, policy: Tables, made: datetime, closes: datetime) -> datetime:
        near = [closes - timedelta(hours=hours) for hours in policy.get("near_close_h", NEAR_CLOSE_H)]
        dues = [made + timedelta(hours=policy.get("stale_after_h", STALE_AFTER_H)), *(at for at in near if at > made)]
        return max(min(dues), made + timedelta(hours=policy.get("min_gap_h", MIN_GAP_H)))

    def _closed_windows(self) -> Iterator[str]:
        """A question that closed before it was forecast is recorded as missed, and no other one is."""
        for row in read_rows(self.ledger, _WINDOWS):
            is_met = row["made_at"] is not None and row["made_at"] <= row["closes_at"]
            window = "met" if is_met else "missed" if row["first_seen_at"] < row["closes_at"] else "past"
            closes = parse_timestamp(row["closes_at"])
            is_told = bool(row["is_told"]) == (window == "missed")
            if (row["window"] != window or not is_told) and not self._has_clock_moved(closes, closes):
                what = f"{row['ref']} closed at {row['closes_at']}, and is recorded as {row['window']}"
                yield f"windows: {what}; {row['forecaster']} had forecast it at {row['made_at']}"

    def _approvals(self) -> Iterator[str]:
        """A person may answer for as long as is set, and an answer is valid for as long."""
        for row in read_rows(self.ledger, _APPROVALS):
            hours = {config["venues"][row["venue"]].get("approval_h", APPROVAL_H) for config in self.configs}
            since = row["answered_at"] or row["asked_at"]
            lasts = parse_timestamp(row["expires_at"]) - parse_timestamp(since)
            is_set = any(abs(lasts - timedelta(hours=one)) < ONE_MOMENT for one in hours)
            if row["state"] != "rejected" and not is_set:
                what = f"the approval {row['id']}, {row['state']}, lasts {lasts} since {since}"
                yield f"schedule: {what}, {sorted(hours)} h are set"

    def _long_trials(self) -> Iterator[str]:
        """No trial goes on for longer than is set."""
        most = max(
            max(config.get("limits", {}).get("seconds", SECONDS), *self._own_seconds(config)) for config in self.configs
        )
        runs: dict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
        # A question that is asked as of a day has the same cutoff whenever it is forecast.
        for call in [one for one in self.calls if not one["question"].startswith("forecastbench:")]:
            names = ("life", "forecaster", "question", "cutoff", "trial")
            runs[tuple(call.get(name) for name in names)].append(call)
        for (_, _, ref, _, trial), calls in runs.items():
            length = max(call["to_s"] for call in calls) - min(call["from_s"] for call in calls)
            if length > most + CLOSES_IN_S:
                yield f"schedule: trial {trial} of {ref} went on for {length:.0f} s, {most:g} may be"

    def _old_evidence(self) -> Iterator[str]:
        """What was cut off continues within the hour or is begun anew: no forecast is of what was known long before."""
        seconds = max(max(c.get("limits", {}).get("seconds", SECONDS), *self._own_seconds(c)) for c in self.configs)
        most = RESUMED_WITHIN + TRIALS_IN_A_ROW * timedelta(seconds=seconds)
        for row in read_rows(self.ledger, _EVIDENCE):
            cutoff, made = parse_timestamp(row["cutoff"]), parse_timestamp(row["made_at"])
            if made - cutoff > most and not self._has_clock_moved(cutoff, made):
                what = f"{row['id']} of {row['ref']} was made at {made}"
                yield f"schedule: {what} of what was known at {cutoff}, {most} may lie between"

    def _own_seconds(self, config: Tables) -> list[float]:
        return [table.get("seconds") or 0.0 for table in config.get("forecasters", {}).values()] or [0.0]

    def _over_budget(self) -> Iterator[str]:
        """No call is refused that would fit once the others are paid: it waits for them."""
        for row in read_rows(self.ledger, _OVER_BUDGET):
            found = None if "it waited" in row["detail"] else _REFUSED_CALL.search(row["detail"])
            if found is None or self._has_clock_moved(*[parse_timestamp(row["ended_at"])] * 2):
                continue
            which, worst, limit = found[1], float(found[2]), float(found[3])
            scope = {"question": row["forecast"], "day": row["ended_at"][:10]}[which]
            name = {"question": "scope", "day": "day"}[which]
            calls = [call for call in read_rows(self.ledger, _SPENT) if call[name] == scope]
            # What was not over by then counts as nothing here: it may have cost nothing.
            spent = sum(_paid_by(call, row["ended_at"]) for call in calls)
            if spent + worst <= limit - ROUNDED_USD:
                what = f"a call for {row['ref']} that may cost {worst:g}, with {spent:.4f} spent of {limit:g}"
                yield f"budget: {what}, was refused at {row['ended_at']} by that of the {which}"

    def _job_times(self) -> Iterator[str]:
        """Each job runs as often as is set in each life."""
        for begin, end in pairwise([*self.lives, self.now + LONGEST_MOVE]):
            mine = sorted((one for one in self.runs if begin <= one.started_at < end), key=_start_of)
            for job in sorted({one.job for one in mine}):
                every = self._interval(job)
                runs = [one for one in mine if one.job == job]
                # The last one was to be followed by another one before the life ended.
                pairs = [*pairwise([*runs, *mine[-1:]])] if every else []
                # The slots in which a job still runs are left out.
                late = [pair for pair in pairs if _gap_s(pair) > pair[0].took_s + max(every) + ONE_MINUTE_S]
                early = [pair for pair in pairs[:-1] if _gap_s(pair) < 0.5 * min(every)]
                late, early = (
                    [pair for pair in found if not self._has_clock_moved(*(one.started_at for one in pair))]
                    for found in (late, early)
                )
                # All run once when a life begins, one after the other, whatever their time is.
                if wrong := [*late, *(early if len(early) > 4 and job not in WOKEN else ())]:
                    before, after = wrong[0]
                    what = f"the job {job} ran at {before.started_at}, took {before.took_s:.0f} s"
                    yield f"schedule: {what}, ran again at {after.started_at}, and is to run every {every} s"

    def _interval(self, job: str) -> list[float]:
        """Return how many seconds lie between two runs of a job, by all configurations; nothing where that is not set.

        A venue is looked at as often as its plugin says, where that is more often.
        """
        if job == "alerts":
            return [config["alerts"]["every_s"] for config in self.configs if "every_s" in config.get("alerts", {})]
        first, _, venue = job.partition(" ")
        if first == "discover":
            return [config["venues"][venue]["discover_every_s"] for config in self.configs if venue in config["venues"]]
        name = INTERVALS.get(first)
        return [config["daemon"][name] for config in self.configs if name in config.get("daemon", {})]

    def _has_clock_moved(self, first: datetime, last: datetime) -> bool:
        """Say whether somebody set the clock between two moments, by that clock, or near them."""
        low, high = min(first, last) - LONGEST_MOVE, max(first, last) + LONGEST_MOVE
        return any(low <= moved <= high for moved in self.clock_moves)


def _paid_by(call: Row, at: str) -> float:
    """Return what a call had cost by a moment, with what was paid at about that moment."""
    late = parse_timestamp(at) + timedelta(seconds=1.0)
    if call["state"] == "lost":
        return float(call["worst_usd"]) if parse_timestamp(call["lost_at"]) <= late else 0.0
    ended = parse_timestamp(call["at"]) + timedelta(seconds=call["latency_s"] or 0.0)
    return float(call["cost_usd"] or 0.0) if ended <= late else 0.0


def _start_of(run: JobRun) -> datetime:
    return run.started_at


def _gap_s(pair: tuple[JobRun, JobRun]) -> float:
    return (pair[1].started_at - pair[0].started_at).total_seconds()
