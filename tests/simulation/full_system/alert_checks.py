"""What people are told: by docs/alerts.md, what breaks while the daemon looks is reported, and each message arrives.

What is critical, what waits for the end of quiet hours, that what heals is said once, and what the weekly letter says.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from itertools import groupby, pairwise
from pathlib import Path
from statistics import mean
from typing import Any
from zoneinfo import ZoneInfo

from bot.daemon.runner import JobOutcome, JobRun
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
_ALERTS = "select key, level, text, opened_at, closed_at from alert order by id"
# What happens once, with words that its report has.
_HAPPENED = """
select 'the missed window of ' || substr(text, 1, 60) as what, 'closed without a forecast' as words, at from event
where kind = 'missed window' union all
select 'the end of a life', 'the daemon was restarted', at from event where kind = 'crash' union all
select 'the annulled question ' || r.ref, r.ref || ' was annulled', r.seen_at from resolution r
where r.kind = 'void' and coalesce(json_extract(r.body, '$.reason'), '') not in
  ('withdrawn', 'the resolution was undone', 'the resolution has just been changed')
  and r.id = (select max(o.id) from resolution o where o.ref = r.ref and o.target = r.target)
  and exists (select 1 from intent i join fill f on f.intent = i.id where i.ref = r.ref and f.at < r.seen_at) union all
select 'the sale of ' || i.ref, substr(i.order_body ->> 'closing', 1, 40), i.planned_at from intent i
where i.state = 'acked' and i.order_body ->> 'closing' like '%trading.%'
  and exists (select 1 from fill f where f.intent = i.id)
"""
# Levels by the name that begins a key (docs/alerts.md#what-is-reported).
LEVELS: Mapping[str, str] = {
    **dict.fromkeys(("halt", "trials", "in_doubt", "loss", "disk", "disk_halt"), "critical"),
    **dict.fromkeys(("budget_80", "season", "drift", "letter"), "info"),
}
# How long what may pass by itself lasts before it is reported.
DELAYS: Mapping[str, timedelta] = {"discover ": timedelta(minutes=15), "": timedelta(minutes=30)}
# A message that was taken at once has not waited for longer, but behind others.
LONGEST_WAIT = timedelta(hours=3)
# An event is looked for on the day after it.
SEEN_FOR = timedelta(hours=23)
WEEK, LETTER_HOUR = timedelta(days=7), 8
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_CRASHES = "select at from event where kind = 'crash'"
# Whether the next life reports a crash.
HOW_LIVES_END: Mapping[str, bool] = {"killed": True, "asked to stop": False}
_TRIALS = """
select f.forecaster, t.ended_at, json_extract(t.body, '$.belief') is null as is_without from trial t
join forecast f on f.id = t.forecast where t.ended_at is not null order by t.ended_at
"""
# So many of the newest trials of a day are looked at, and so few say nothing.
NEWEST, FEWEST, DAY = 10, 3, timedelta(days=1)
_LETTERS = "select subject, text, at from notification where subject like 'Foxcast, week to %'"
_MADE = """
select q.venue, count(*) as count, count(distinct f.ref) as questions from forecast f join question q on q.ref = f.ref
where f.state = 'done' and f.made_at >= :since and f.made_at <= :at group by q.venue order by q.venue
"""
_FAILED_SINCE = """
select count(*) as count from forecast where state = 'failed' and ended_at >= :since and ended_at <= :at
"""
_SCORED_SINCE = """
select f.forecaster, s.value from score s join forecast f on f.id = s.forecast join resolution r on r.id = s.resolution
join prediction p on p.forecast = s.forecast and p.target = s.target
where s.rule = 'brier' and s.at >= :since and s.at <= :at and r.seen_at <= :at
  and r.id = (select max(o.id) from resolution o where o.ref = r.ref and o.target = r.target and o.seen_at <= :at)
  and f.revision = (select max(g.revision) from forecast g where g.ref = f.ref and g.forecaster = f.forecaster
    and g.state = 'done' and g.forecast_only = 0 and g.made_at <= :at)
"""
_COSTS_SINCE = """
select count(*) as calls, total(coalesce(cost_usd, worst_usd)) as usd from model_call where at >= :since and at <= :at
"""
_SPENT = "select at, cost_usd, worst_usd, latency_s from model_call where worst_usd > 0"
_WORTHS = """
select venue, paper, at, equity, equity - transfers - unconfirmed as worth from account_reading order by id
"""
_RESUMED = "select venue, resumed_at from halt where resumed_at is not null"
# What models may cost in a day, and which share of an account is a big loss, where nobody set it; and which share of a
# budget is most of it.
DAY_USD, LOSS_SHARE, MOSTLY = 20.0, 0.1, 0.8
# Amounts on record are rounded; a loss of so much more, or less, than its bound is judged.
USD_SLACK, CENT, SURELY = 1e-4, 0.02, 1.1
# So long all readings of accounts are kept.
ALL_KEPT = timedelta(hours=47)
# What comes and goes by itself from one look to the next: the pager of the simulation takes no message at times.
HALT_OF_ALL = "halt_by_person:all venues"
MAY_FLAP = ("notifier:", "clock:")
_SENT = """
select id, channel, level, state, at, due_at, ended_at, attempts, text, subject from notification order by at
"""
# So often in a row nothing breaks and heals by chance.
FLAPS = 2
# A channel that took no message is tried again after a quarter of an hour at the latest.
TRIED_AGAIN = timedelta(minutes=16)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertChecks:
    """Judges one ledger by the passes that report, and by the ids of the messages that people got.

    ``runs`` are all runs of jobs, ``configs`` the tables of the configuration, ``clock_moves`` the times to which
    people set the clock. ``lives`` are when lives began, and how they ended.
    """

    ledger: Path
    passes: Sequence[JobPass]
    messages: Collection[str]
    runs: Sequence[JobRun] = ()
    configs: Sequence[Mapping[str, Any]] = ()
    clock_moves: Sequence[datetime] = ()
    lives: Sequence[tuple[datetime, str]] = ()

    def violations(self) -> Iterator[str]:
        """Say what nobody was told."""
        looks = [one for one in self.passes if one.job == "alerts"]
        alerts = read_rows(self.ledger, _ALERTS)
        for row in read_rows(self.ledger, _REPORTED):
            since, until = parse_timestamp(row["since"]), row["until"] and parse_timestamp(row["until"])
            seen = [one for one in looks if one.started_at > since + LONGEST_MOVE + ONE_MOMENT]
            seen = [one for one in seen if until is None or one.ended_at < until - LONGEST_MOVE]
            told = [alert for alert in alerts if row["words"] in alert["text"]]
            if seen and not self._has_clock_moved(since, seen[-1].ended_at):
                # What was reported, and has healed, is reported again when it breaks again.
                looked, broken = format_timestamp(seen[-1].ended_at), row["since"]
                told = [one for one in told if one["opened_at"] <= looked and (one["closed_at"] or "~") > broken]
            if seen and not told:
                yield f"alerts: {row['what']} of {since} was not reported by {len(seen)} passes"
        yield from self._reported_again(alerts, looks)
        yield from self._happened(alerts, looks)
        yield from self._crashes()
        yield from self._failing(alerts, looks)
        yield from self._failing_trials(alerts, looks)
        yield from self._budgets(alerts, looks)
        yield from self._losses(alerts, looks)
        yield from self._messages(alerts)
        yield from self._quiet_hours()
        yield from self._order_of_messages()
        yield from self._letters(looks)
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
        # A person may halt everything again in the same words.
        halted = [row["at"] for row in read_rows(self.ledger, "select at from halt where venue is null or venue = ''")]
        for key, rows in by_key.items():
            again = 0
            for before, after in pairwise(rows):
                if key == HALT_OF_ALL and any(before["opened_at"] < at <= after["opened_at"] for at in halted):
                    continue
                closed, opened = before["closed_at"] or after["opened_at"], after["opened_at"]
                between = [one for one in looks if closed < format_timestamp(one.started_at) < opened]
                again = again + 1 if before["text"] == after["text"] and len(between) <= 1 else 0
                if again == FLAPS:
                    yield f"alerts: {key} was said to be over and reported again {again} times, each at the next look"

    def _happened(self, alerts: Sequence[Row], looks: Sequence[JobPass]) -> Iterator[str]:
        """What happens once is reported by the next look after it."""
        for row in read_rows(self.ledger, _HAPPENED):
            at = parse_timestamp(row["at"])
            first = min((one for one in looks if one.started_at > at + ONE_MOMENT), key=_began, default=None)
            if first is None or self._has_clock_moved(at, first.ended_at) or first.ended_at > at + SEEN_FOR:
                continue
            told = [one for one in alerts if row["words"] in one["text"]]
            # That a question was annulled is said once, whatever becomes of that.
            since = "" if row["what"].startswith("the annulled") else row["at"]
            if not any(since <= one["opened_at"] <= format_timestamp(first.ended_at) for one in told):
                yield f"alerts: {row['what']} at {at} was not reported by the look of {first.started_at}"

    def _crashes(self) -> Iterator[str]:
        """That a life was killed is recorded as the next one begins, and that it was stopped is not."""
        crashes = [parse_timestamp(row["at"]) for row in read_rows(self.ledger, _CRASHES)]
        for (begun, how), (began, _), (until, _) in zip(self.lives, self.lives[1:], self.lives[2:], strict=False):
            has_run = any(begun <= run.started_at < began for run in self.runs)
            has_run &= any(began <= run.started_at < until for run in self.runs)
            is_told = any(began - ONE_MOMENT <= at < until - ONE_MOMENT for at in crashes)
            is_wrong = has_run and how in HOW_LIVES_END and is_told != HOW_LIVES_END[how]
            if is_wrong and not self._has_clock_moved(begun, until):
                what = f"the life of {begun} was {how}"
                yield f"alerts: {what}, and that is {'' if is_told else 'not '}reported as a crash"

    def _failing(self, alerts: Sequence[Row], looks: Sequence[JobPass]) -> Iterator[str]:
        """A job that fails for half an hour, or a venue that cannot be read for a quarter, is reported."""
        runs = sorted((one for one in self.runs if one.job != "backup"), key=lambda one: (one.job, one.started_at))
        for job, of_job in groupby(runs, key=lambda one: one.job):
            since: datetime | None = None
            for run, after in pairwise([*of_job, None]):
                assert run is not None
                since = None if run.outcome is JobOutcome.DONE else since or run.started_at
                ended = run.started_at + timedelta(seconds=run.took_s)
                until = ended + SEEN_FOR if after is None else min(after.started_at, ended + SEEN_FOR)
                delay = next(length for name, length in DELAYS.items() if job.startswith(name))
                if since is None or self._has_clock_moved(since, until):
                    continue
                due = max(ended, since + delay) + ONE_MOMENT
                seen = [one for one in looks if one.started_at > due and one.ended_at < until - ONE_MOMENT]
                words = f"{job.removeprefix('discover ')} could not be read" if " " in job else f"the job {job} fails"
                words = words if job.startswith("discover ") else f"the job {job} fails"
                first = format_timestamp(since)
                told = [one for one in alerts if words in one["text"] and (one["closed_at"] or "~") > first]
                if seen and not any(one["opened_at"] <= format_timestamp(seen[0].ended_at) for one in told):
                    look = f"the look of {seen[0].started_at}"
                    yield f"alerts: {job} failed from {since} on, and was not reported by {look}"
                    break

    def _failing_trials(self, alerts: Sequence[Row], looks: Sequence[JobPass]) -> Iterator[str]:
        """A forecaster none of whose last trials of a day gave an answer is reported."""
        rows = read_rows(self.ledger, _TRIALS)
        for look in looks:
            since, until = format_timestamp(look.started_at - DAY + ONE_MOMENT), format_timestamp(look.started_at)
            newest: dict[str, list[Row]] = defaultdict(list)
            for row in rows:
                if since <= row["ended_at"] < until:
                    newest[row["forecaster"]].append(row)
            for forecaster, trials in newest.items():
                last = trials[-NEWEST:]
                # What ended as they were looked at may be seen or not.
                is_sure = parse_timestamp(last[-1]["ended_at"]) < look.started_at - ONE_MOMENT and not any(
                    until <= row["ended_at"] <= format_timestamp(look.ended_at) for row in rows
                )
                is_failing = len(last) >= FEWEST and all(row["is_without"] for row in last) and is_sure
                told = [one for one in alerts if f"trials of {forecaster} gave an answer" in one["text"]]
                is_told = any(
                    one["opened_at"] <= format_timestamp(look.ended_at) <= (one["closed_at"] or "~") for one in told
                )
                if is_failing and not is_told and not self._has_clock_moved(look.started_at - DAY, look.ended_at):
                    what = f"all {len(last)} trials of {forecaster} up to {last[-1]['ended_at']} failed"
                    yield f"alerts: {what}, and that was not reported by the look of {look.started_at}"
                    return

    def _budgets(self, alerts: Sequence[Row], looks: Sequence[JobPass]) -> Iterator[str]:
        """That most of the budget of a day is used is said by the next look, and not before."""
        sets = [config.get("llm", {}).get("budget", {}).get("day_usd", DAY_USD) for config in self.configs]
        calls: dict[str, list[tuple[datetime, datetime, Row]]] = defaultdict(list)
        for call in read_rows(self.ledger, _SPENT):
            began = parse_timestamp(call["at"])
            ended = began + timedelta(seconds=call["latency_s"] or 0.0)
            calls[call["at"][:10]].append((began, ended, call))
        told = [one for one in alerts if one["key"].startswith("budget_80:all models")]
        for look in looks if sets and calls else ():
            day, least, most = format_timestamp(look.started_at)[:10], 0.0, 0.0
            if self._has_clock_moved(look.started_at, look.ended_at):
                continue
            for began, ended, call in calls[day]:
                is_paid = ended < look.started_at - ONE_MOMENT and call["cost_usd"] is not None
                least += call["cost_usd"] if is_paid else 0.0
                # What is under way, or was never answered, may count with its most.
                most += call["cost_usd"] if is_paid else call["worst_usd"] * (began < look.ended_at + ONE_MOMENT)
            now = format_timestamp(look.ended_at)
            is_told = any(one["opened_at"] <= now and (one["closed_at"] or "~") > day for one in told)
            if least >= MOSTLY * max(sets) + USD_SLACK and not is_told:
                yield f"alerts: {least:.4f} USD of {max(sets):g} were spent by {look.started_at}, and that was not said"
                return
            news = [one for one in told if format_timestamp(look.started_at) <= one["opened_at"] <= now]
            if news and most < MOSTLY * min(sets) - USD_SLACK:
                yield f"alerts: {news[0]['text']!r} was said at {look.started_at}, {most:.4f} USD were spent"

    def _losses(self, alerts: Sequence[Row], looks: Sequence[JobPass]) -> Iterator[str]:
        """That an account lost a big share of it today is said by the next look, and not before."""
        shares = [config.get("alerts", {}).get("loss_share", LOSS_SHARE) for config in self.configs]
        rows, resumed = read_rows(self.ledger, _WORTHS), read_rows(self.ledger, _RESUMED)
        for venue, paper in sorted({(row["venue"], row["paper"]) for row in rows}):
            mine = [row for row in rows if (row["venue"], row["paper"]) == (venue, paper)]
            told = [one for one in alerts if one["key"].startswith(f"loss:{venue}")]
            for look in looks:
                now, day = format_timestamp(look.ended_at), format_timestamp(look.started_at)[:10]
                seen = [row for row in mine if row["at"] <= format_timestamp(look.started_at - ONE_MOMENT)]
                later = [row for row in mine if format_timestamp(look.started_at - ONE_MOMENT) < row["at"] <= now]
                since = max((one["resumed_at"] for one in resumed if one["venue"] in {"", venue}), default="")
                if not seen or later or since > day or self._has_clock_moved(look.started_at, look.ended_at):
                    continue
                before, after = [row for row in seen if row["at"] <= day], [row for row in seen if row["at"] > day]
                began = (before[-1:] or after[:1])[0]["worth"]
                lost, worth = began - seen[-1]["worth"], seen[-1]["equity"]
                is_told = any(one["opened_at"] <= now < (one["closed_at"] or "~") for one in told)
                bounds = [share * (worth + lost) for share in shares]
                if (lost > max(bounds) * SURELY + CENT and not is_told) or (
                    is_told and lost < min(bounds) / SURELY - CENT
                ):
                    what = f"{venue} lost {lost:.2f} of {worth + lost:.2f} by {look.started_at}"
                    yield f"alerts: {what}, and that was {'' if is_told else 'not '}said to be a big loss"
                    return

    def _messages(self, alerts: Sequence[Row]) -> Iterator[str]:
        """Each alert has its level, is told in one message of its look, and what has healed is told once."""
        told: dict[str, list[Row]] = defaultdict(list)
        for row in read_rows(self.ledger, _SENT):
            told[row["at"]].append(row)
        looks = Counter(format_timestamp(one.started_at) for one in self.runs if one.job == "alerts")
        for at, rows in told.items():
            plain = [row for row in rows if not row["subject"].startswith("Foxcast, week to")]
            of_level = Counter(row["level"] == "critical" for row in plain)
            # The clock shows a moment twice that is set back.
            if max(of_level.values(), default=0) > max(1, looks[at]):
                yield f"alerts: the look of {at} made the messages {[row['subject'] for row in plain]}"
        for alert in alerts:
            name = alert["key"].partition(":")[0]
            if alert["level"] != LEVELS.get(name, "warning"):
                yield f"alerts: {alert['key']} is {alert['level']}, and is {LEVELS.get(name, 'warning')}"
            if name in {"letter", "notifier"}:
                continue
            if not any(_has_text(row, alert["text"]) for row in told[alert["opened_at"]]):
                yield f"alerts: {alert['key']} of {alert['opened_at']} is in no message"
            has_healed = alert["closed_at"] is not None and alert["closed_at"] != alert["opened_at"]
            if has_healed and not any("resolved: " in row["text"] for row in told[alert["closed_at"]]):
                yield f"alerts: nobody was told that {alert['key']} was over at {alert['closed_at']}"

    def _quiet_hours(self) -> Iterator[str]:
        """In quiet hours only what is critical is sent, at once; the rest follows at their end."""
        tables = [config.get("alerts", {}) for config in self.configs]
        if not tables or not tables[0].get("quiet_hours"):
            return
        begin, end = map(time.fromisoformat, tables[0]["quiet_hours"].split("-"))
        zone = ZoneInfo(tables[0].get("time_zone", "UTC"))
        for row in read_rows(self.ledger, _SENT):
            quiet_until = _quiet_end(parse_timestamp(row["at"]), begin, end, zone)
            is_critical = row["level"] == "critical"
            ended = row["ended_at"] and parse_timestamp(row["ended_at"])
            at = parse_timestamp(row["at"])
            if ended and self._has_clock_moved(at, ended):
                continue
            if (
                not is_critical
                and quiet_until is not None
                and (parse_timestamp(row["due_at"]) < quiet_until or (ended and ended < quiet_until))
            ):
                what = f"{row['subject']} of {at} was sent at {row['ended_at']}"
                yield f"alerts: {what}, in quiet hours until {quiet_until}"
            # What waits behind a message that is not taken waits with it.
            due = parse_timestamp(row["due_at"])
            if due > at + LONGEST_WAIT and row["attempts"] <= 1 and (is_critical or quiet_until is None):
                yield f"alerts: {row['subject']} of {at}, {row['level']}, waits until {row['due_at']}"

    def _order_of_messages(self) -> Iterator[str]:
        """A channel gets messages in the order in which they were written, but for those that wait for the morning."""
        if any(config.get("alerts", {}).get("quiet_hours") for config in self.configs):
            return
        before: dict[str, Row] = {}
        for row in read_rows(self.ledger, _SENT):
            last = before.get(row["channel"])
            is_ahead = last is not None and row["ended_at"] and (last["ended_at"] or "~") > row["ended_at"]
            if last is not None and is_ahead and last["at"] < row["at"] and last["state"] in {"waiting", "delivered"}:
                is_moved = self._has_clock_moved(*(parse_timestamp(one["at"]) for one in (last, row)))
                if row["state"] == "delivered" and not is_moved:
                    what = f"{row['subject']} of {row['at']} was sent at {row['ended_at']}"
                    yield f"alerts: {what}, before {last['subject']} of {last['at']}, sent at {last['ended_at']}"
            before[row["channel"]] = row

    def _letters(self, looks: Sequence[JobPass]) -> Iterator[str]:
        """The letter of a week comes on its day, and says what was forecast, scored and spent in the seven days."""
        table = self.configs[0].get("alerts", {}) if self.configs else {}
        letters = read_rows(self.ledger, _LETTERS)
        days = [row["subject"][17:27] for row in letters]
        weekday = table.get("letter_day", "monday")
        for day in {day for day in days if days.count(day) > 1}:
            yield f"alerts: the letter of {day} was written {days.count(day)} times"
        if weekday in WEEKDAYS:
            yield from self._missing_letters(days, looks, weekday, ZoneInfo(table.get("time_zone", "UTC")))
        for row in letters:
            due = datetime.fromisoformat(row["subject"][17:27]).replace(
                hour=LETTER_HOUR, tzinfo=ZoneInfo(table.get("time_zone", "UTC"))
            )
            is_early = parse_timestamp(row["at"]) < due and not self._has_clock_moved(due, due)
            if is_early or WEEKDAYS[due.weekday()] != weekday:
                what = f"the letter of {due:%Y-%m-%d}, a {WEEKDAYS[due.weekday()]}"
                yield f"alerts: {what}, was written at {row['at']}, the day of letters is {weekday}"
            since = format_timestamp(due.astimezone(UTC) - WEEK)
            values = {"since": since, "at": row["at"]}
            yield from self._letter_accounts(row, since)
            lines = [*self._letter_lines(values)]
            missing = [line for line in lines if line not in row["text"]]
            if missing and not self._has_clock_moved(parse_timestamp(row["at"]), parse_timestamp(row["at"])):
                yield f"alerts: the letter of {row['at']} says {row['text'][:300]!r}, and not {missing}"

    def _missing_letters(
        self, days: Sequence[str], looks: Sequence[JobPass], weekday: str, zone: ZoneInfo
    ) -> Iterator[str]:
        made = read_rows(self.ledger, "select min(made_at) as first from forecast where state = 'done'")[0]["first"]
        for look in looks if made else ():
            local = look.started_at.astimezone(zone)
            due = datetime.combine(local.date(), time(LETTER_HOUR), zone)
            is_due = (
                local.weekday() == WEEKDAYS.index(weekday) and local > due + ONE_MOMENT and parse_timestamp(made) < due
            )
            if is_due and f"{due:%Y-%m-%d}" not in days and not self._has_clock_moved(due, look.ended_at):
                yield f"alerts: the letter of {due:%Y-%m-%d} was not written by the look of {look.started_at}"
                return

    def _letter_lines(self, values: Mapping[str, str]) -> Iterator[str]:
        """Yield what a letter must say of the time that it is about."""
        made = read_rows(self.ledger, _MADE, values)
        parts = [f"{row['count']} at {row['venue']} (of {row['questions']} questions)" for row in made]
        yield f"Forecasts: {', '.join(parts) or 'none'}"
        if failed := read_rows(self.ledger, _FAILED_SINCE, values)[0]["count"]:
            yield f"; {failed} failed"
        scores: dict[str, list[float]] = defaultdict(list)
        for row in read_rows(self.ledger, _SCORED_SINCE, values):
            scores[row["forecaster"]].append(row["value"])
        for forecaster, found in scores.items():
            yield f"Scored: {len(found)} of {forecaster}, mean Brier score {mean(found):.3f}"
        costs = read_rows(self.ledger, _COSTS_SINCE, values)[0]
        yield f"Models: {costs['calls']} calls, {costs['usd']:.2f} USD"

    def _letter_accounts(self, letter: Row, since: str) -> Iterator[str]:
        """A letter says what each account is worth, and what it gained in the seven days but for what was moved."""
        readings = read_rows(self.ledger, _WORTHS)
        kept = max((row["at"] for row in readings), default="")
        # Older readings are thinned out.
        if not kept or parse_timestamp(letter["at"]) < parse_timestamp(kept) - ALL_KEPT:
            return
        for venue, paper in sorted({(row["venue"], row["paper"]) for row in readings}):
            mine = [
                row for row in readings if (row["venue"], row["paper"], row["at"] <= letter["at"]) == (venue, paper, 1)
            ]
            name = f"Account at {venue}{' (paper)' * bool(paper)}: "
            said = re.search(re.escape(name) + r"([+-][\d.]+) \w+, now worth (-?[\d.]+)", letter["text"])
            if said is None or len(mine) < 2:
                continue
            # The week begins with the last reading before it, or with the first one of it.
            bases = [row for row in mine if row["at"] <= since][-1:] + [row for row in mine if row["at"] >= since][:1]
            gains, (gained, worth) = [mine[-1]["worth"] - row["worth"] for row in bases], map(float, said.groups())
            if abs(worth - mine[-1]["equity"]) > CENT or not any(abs(gained - one) <= CENT for one in gains):
                what = f"gained {gains[-1]:+.2f} and is worth {mine[-1]['equity']:.2f}"
                yield f"alerts: the letter of {letter['at']} says {said[0]!r}, and the account {what}"

    def _has_clock_moved(self, first: datetime, last: datetime) -> bool:
        return any(first - LONGEST_MOVE <= moved <= last + LONGEST_MOVE for moved in self.clock_moves)


def _began(one: JobPass) -> datetime:
    return one.started_at


def _has_text(message: Row, text: str) -> bool:
    """Say whether a message has the text of an alert; what may be taken for an address is written in another way."""
    return " ".join(text.split())[:60] in " ".join(message["text"].split())


def _quiet_end(at: datetime, begin: time, end: time, zone: ZoneInfo) -> datetime | None:
    """Return when the quiet hours end in which a moment lies, None outside of them."""
    local = at.astimezone(zone)
    is_quiet = begin <= local.time() < end if begin < end else local.time() >= begin or local.time() < end
    if not is_quiet:
        return None
    return datetime.combine(local.date() + timedelta(days=local.time() >= end), end, zone).astimezone(UTC)
