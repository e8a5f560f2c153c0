"""What the ledger says of decisions, judged by the configuration and by what the venues know.

Who submits, what is left out, when nothing is sent or bought, what models may cost, and scores.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.store.serialization import format_timestamp, parse_timestamp
from tests.ledger_checks import Row, read_rows

if TYPE_CHECKING:
    from bot.store.scores import ResolvedBinaryColumns
    from tests.simulation.full_system.fake_venues import SimulationVenues

Tables = Mapping[str, Any]
# From the last check before a write to the moment at which its request arrives.
UNDER_WAY = timedelta(seconds=120)
# A pass that begins with a reading of an account may take so long.
PASS = timedelta(seconds=900)
# An order is sent within two minutes of its plan, and what no reading settles needs a person after an hour.
MAX_PLAN_AGE, IN_DOUBT_AFTER = timedelta(seconds=120), timedelta(hours=1)
# The last check before a write and the record of it may be so far apart.
ONE_MOMENT = timedelta(seconds=2)
# Nobody moves the clock by more.
LONGEST_MOVE = timedelta(hours=1)
# Orders of an hour are counted, less a minute.
HOUR = timedelta(minutes=59)
# Of the settings that nobody set.
COOLDOWN_H, CLOSE_MARGIN_S, DAY_USD, QUESTION_USD = 168.0, 60.0, 20.0, 5.0
UNKNOWN_WRITES = 3
# Sums and products of stored numbers have this error.
USD_SLACK, SAME = 1e-6, 1e-9
# A moment may be recorded as so much earlier than it was.
RECORDED_S = 1e-3
# With such words the program stops a venue that reported fills which contradict their order: here no venue does.
CONTRADICTIONS = ("may cost", "may sell", "was limited to", "differently")
# An intent whose own answer says that it was not taken is sent again so much later.
RETRY_AFTER = timedelta(minutes=5)
_RETRIES = """
select i.id, a.settled_at, b.started_at from attempt a join attempt b on b.intent = a.intent and b.number = a.number + 1
join intent i on i.id = a.intent where a.state = 'absent' and (i.batch = i.id or i.action = 'comment')
  and not exists (select 1 from audit d where d.kind = 'answer' and json_extract(d.body, '$.intent') = a.intent
    and json_extract(d.body, '$.state') = 'unknown' and d.at between a.started_at and a.settled_at)
"""
_SUBMITTED = """
select i.id, i.venue, i.ref, i.action, i.state, i.planned_at, i.order_body, i.predictions, f.forecaster
from intent i join forecast f on f.id = i.forecast where i.state not in ('superseded', 'refused') order by i.seq
"""
_CLOSED = """
select i.ref, i.venue, i.mode = 'paper' as paper, max(f.at) as at from intent i join fill f on f.intent = i.id
where json_extract(i.order_body, '$.closing') <> '' group by i.id order by at
"""
_FORECASTS = "select distinct f.ref, v.body from forecast f join question_version v on v.version = f.version"
_ATTEMPTS = """
select i.id, i.venue, i.ref, i.mode = 'paper' as paper, i.action, i.planned_at, a.started_at
from attempt a join intent i on i.id = a.intent where i.action <> 'withdraw'
"""
_ARM_RECORDS = "select venue, armed_at from arm"
_IN_DOUBT = """
select i.id, i.changed_at, max(a.started_at) as started_at from intent i join attempt a on a.intent = i.id
where i.state = 'in doubt' group by i.id
"""
_REPLACED_FORECASTS = """
select i.id, i.ref, i.planned_at, g.revision, g.made_at from intent i join forecast f on f.id = i.forecast
join forecast g on g.ref = f.ref and g.forecaster = f.forecaster and g.revision > f.revision
where i.action in ('order', 'forecast') and g.state = 'done' and g.forecast_only = 0 and g.made_at < i.planned_at
  and coalesce(json_extract(i.order_body, '$.closing'), '') = ''
"""
_UNREPORTED_WINDOWS = """
select s.ref, s.forecaster, s.closes_at from schedule s join question q on q.ref = s.ref
where s.window = 'past' and q.first_seen_at < s.closes_at
"""
# Writes that had begun by a moment, and of which nothing certain was known then.
_WITHOUT_ANSWER = """
select count(distinct a.intent) as count from attempt a join intent i on i.id = a.intent
where i.venue = :venue and i.mode <> 'paper' and a.started_at <= :at
  and (a.settled_at is null or a.settled_at >= :until)
"""
_UNSETTLED = re.compile(r"more than (\d+) writes are without a known outcome")
_HALTS = "select venue, at, why from halt where by = ''"
_BUDGETED = """
select id, at, scope, ref, worst_usd, coalesce(cost_usd, worst_usd) as usd, coalesce(latency_s, 0) as latency_s
from model_call where worst_usd > 0 order by at, rowid
"""
_CALLS = "select substr(at, 1, 10) as day, total(coalesce(cost_usd, worst_usd)) as usd from model_call group by day"
_SCORABLE = """
select f.id, f.forecaster, f.ref, f.cutoff, p.target, p.probability, r.value, r.resolved_at, q.closes_at, v.body
from forecast f join prediction p on p.forecast = f.id join question q on q.ref = f.ref
join question_version v on v.version = q.version join resolution r on r.ref = f.ref and r.target = p.target
where f.state = 'done' and p.probability is not null and r.kind = 'happened' and r.id = (
  select max(o.id) from resolution o where o.ref = r.ref and o.target = r.target)
order by f.revision
"""
_SCORES = """
select s.forecast, p.probability, r.value as outcome, s.value from score s
join prediction p on p.forecast = s.forecast and p.target = s.target join resolution r on r.id = s.resolution
where s.rule = 'brier' and r.kind = 'happened' and p.probability is not null
"""
_CROWD_SCORES = """
select s.forecast, c.probability, r.value as outcome, s.value from score s join forecast f on f.id = s.forecast
join price c on c.id = f.price join resolution r on r.id = s.resolution
where s.rule = 'crowd brier' and r.kind = 'happened' and c.probability is not null
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionChecks:
    """Judges one ledger; ``configs`` are the tables of the configuration, from the first to the last.

    ``clock_moves`` are the times, by the clock of the machine, to which people set that clock. ``scored`` is what
    figures are made of.
    """

    ledger: Path
    bridges: SimulationVenues
    configs: Sequence[Tables]
    clock_moves: Sequence[datetime] = ()
    scored: ResolvedBinaryColumns | None = None

    def violations(self) -> Iterator[str]:
        """Say what must not have been decided."""
        submitted = read_rows(self.ledger, _SUBMITTED)
        yield from self._forecasters(submitted)
        yield from self._exclusions()
        yield from self._cooldowns(submitted)
        attempts = read_rows(self.ledger, _ATTEMPTS)
        yield from self._windows(attempts)
        for row in read_rows(self.ledger, _HALTS):
            if any(words in row["why"] for words in CONTRADICTIONS):
                yield f"orders: {row['venue']} was stopped at {row['at']} for what no venue did: {row['why']}"
            limits = {int(one) for one in self._setting(row["venue"], "caps", "unknown_writes", UNKNOWN_WRITES)}
            yield from false_halt(self.ledger, row, limits, self.clock_moves)
        yield from self._spending()
        calls, budgets = (
            read_rows(self.ledger, _BUDGETED),
            [one.get("llm", {}).get("budget", {}) for one in self.configs],
        )
        yield from unreserved_calls(calls, budgets, self.clock_moves)
        yield from self._scores()
        yield from self._scored_forecasts()
        yield from self._plan_ages(attempts)
        yield from self._arm_records(attempts)
        hourly = {
            venue: max(self._setting(venue, "caps", "orders_per_hour", math.inf)) for venue in self.configs[0]["venues"]
        }
        yield from full_hours(attempts, hourly, self.clock_moves)
        yield from self._doubts()
        yield from self._replaced_forecasts()
        yield from self._retries()
        for row in read_rows(self.ledger, _UNREPORTED_WINDOWS):
            what = f"{row['ref']} closed at {row['closes_at']} without a forecast of {row['forecaster']}"
            yield f"windows: {what}, and is not recorded as missed"

    def _setting(self, venue: str, table: str, name: str, default: float) -> list[float]:
        """Return the values that a setting of a venue had."""
        tables = [config["venues"][venue] for config in self.configs]
        return [(one.get(table, {}) if table else one).get(name, default) for one in tables]

    def _forecasters(self, submitted: Sequence[Row]) -> Iterator[str]:
        """Only the first forecaster of a venue submits; the others are scored."""
        for row in submitted:
            first = self.configs[0]["venues"][row["venue"]]["forecasters"][0]
            if row["forecaster"] != first:
                yield f"orders: {row['id']} submits a forecast of {row['forecaster']}, and {first} submits"

    def _exclusions(self) -> Iterator[str]:
        """What is excluded from the beginning to the end is never forecast."""
        for row in read_rows(self.ledger, _FORECASTS):
            venue = row["ref"].partition(":")[0]
            lists = [config["venues"][venue].get("exclude", {}).get("words", ()) for config in self.configs]
            words = [word for word in lists[0] if all(word in one for one in lists)]
            title = f"{json.loads(row['body'])['title']} "
            if found := [word for word in words if f"{word} " in title.replace("?", " ")]:
                yield f"orders: {row['ref']} is excluded by {found} and was forecast"

    def _cooldowns(self, submitted: Sequence[Row]) -> Iterator[str]:
        """A question is not bought again for a while after a position in it was closed."""
        closed: dict[str, list[datetime]] = defaultdict(list)
        for row in read_rows(self.ledger, _CLOSED):
            closed[row["ref"]].append(parse_timestamp(row["at"]))
        for row in submitted:
            order, planned = json.loads(row["order_body"] or "{}"), parse_timestamp(row["planned_at"])
            if order.get("side") != "buy":
                continue
            pause = timedelta(hours=min(self._setting(row["venue"], "trading", "cooldown_h", COOLDOWN_H)))
            # An hour less: the clock may have been set back meanwhile.
            since = [at for at in closed[row["ref"]] if UNDER_WAY < planned - at < pause - timedelta(hours=1.1)]
            if since:
                yield f"orders: {row['id']} buys {row['ref']} at {planned}, closed at {since[-1]}, to pause {pause}"

    def _windows(self, attempts: Sequence[Row]) -> Iterator[str]:
        """Nothing is sent in the last seconds before a question closes; those whose close was moved are left out."""
        for row in [one for one in attempts if not one["paper"]]:
            closes_at = self._closes_at(row["venue"], row["ref"])
            margin = min(self._setting(row["venue"], "", "close_margin_s", CLOSE_MARGIN_S))
            started = parse_timestamp(row["started_at"])
            if closes_at is not None and started > closes_at - timedelta(seconds=margin) + timedelta(seconds=1):
                yield f"orders: {row['id']} was sent at {started}, {row['ref']} closes at {closes_at}: {margin:g} s"

    def _closes_at(self, venue: str, ref: str) -> datetime | None:
        key = ref.rsplit(":", 1)[-1]
        if venue == "manifold" and self.bridges.manifold is not None:
            market = self.bridges.manifold.state.markets.get(key.partition("/")[0])
            if market is not None and market.closes is not None and not market.edits:
                return datetime.fromtimestamp(market.closes / 1000.0, tz=parse_timestamp("2026-01-01T00:00:00Z").tzinfo)
        if venue == "metaculus" and self.bridges.metaculus is not None:
            question = self.bridges.metaculus.state.questions[int(key)]
            return None if question.edits else question.scheduled_close
        return None

    def _plan_ages(self, attempts: Sequence[Row]) -> Iterator[str]:
        """No order is sent on an old plan."""
        for row in attempts:
            age = parse_timestamp(row["started_at"]) - parse_timestamp(row["planned_at"])
            if row["action"] == "order" and age > MAX_PLAN_AGE + ONE_MOMENT:
                yield f"orders: {row['id']} was sent {age.total_seconds():.0f} s after it was planned"

    def _arm_records(self, attempts: Sequence[Row]) -> Iterator[str]:
        """Nothing is sent that was planned before the venue was armed again."""
        armed: dict[str, list[datetime]] = defaultdict(list)
        for row in read_rows(self.ledger, _ARM_RECORDS):
            armed[row["venue"]].append(parse_timestamp(row["armed_at"]))
        for row in attempts:
            planned, started = parse_timestamp(row["planned_at"]), parse_timestamp(row["started_at"])
            newer = [at for at in armed[row["venue"]] if planned < at < started - ONE_MOMENT]
            if newer and not row["paper"] and not self._has_clock_moved(planned, started):
                yield f"orders: {row['id']} of {planned} was sent at {started}, armed again at {newer[-1]}"

    def _doubts(self) -> Iterator[str]:
        """A write is marked in doubt an hour after it was sent, no sooner."""
        for row in read_rows(self.ledger, _IN_DOUBT):
            started, marked = parse_timestamp(row["started_at"]), parse_timestamp(row["changed_at"])
            if marked - started < IN_DOUBT_AFTER and not self._has_clock_moved(started, marked):
                waited = (marked - started).total_seconds()
                yield f"orders: {row['id']} was marked in doubt {waited:.0f} s after it was sent"

    def _replaced_forecasts(self) -> Iterator[str]:
        """Nothing is planned for a forecast that a newer one has replaced."""
        for row in read_rows(self.ledger, _REPLACED_FORECASTS):
            made, planned = parse_timestamp(row["made_at"]), parse_timestamp(row["planned_at"])
            if not self._has_clock_moved(made, planned):
                what = f"planned after revision {row['revision']} had replaced its forecast"
                yield f"orders: {row['id']} on {row['ref']} was {what}"

    def _retries(self) -> Iterator[str]:
        """What was sent, and was not taken by its own answer, is sent again some minutes later at the earliest."""
        for row in read_rows(self.ledger, _RETRIES):
            settled, started = parse_timestamp(row["settled_at"]), parse_timestamp(row["started_at"])
            if started - settled < RETRY_AFTER - ONE_MOMENT and not self._has_clock_moved(settled, started):
                waited = (started - settled).total_seconds()
                yield f"orders: {row['id']} was sent again {waited:.0f} s after its answer said that it was not taken"

    def _has_clock_moved(self, first: datetime, last: datetime) -> bool:
        """Say whether somebody set the clock between two moments, by that clock, or near them."""
        low, high = min(first, last) - LONGEST_MOVE, max(first, last) + LONGEST_MOVE
        return any(low <= moved <= high for moved in self.clock_moves)

    def _spending(self) -> Iterator[str]:
        """What models cost on a day, with calls whose outcome is unknown at their most, is within the budget."""
        most = max(config.get("llm", {}).get("budget", {}).get("day_usd", DAY_USD) for config in self.configs)
        for row in read_rows(self.ledger, _CALLS):
            # Where the clock was set back over midnight, the program goes on with the later day.
            end = parse_timestamp(f"{row['day']}T00:00:00Z") + timedelta(days=1)
            days = 2 if self._has_clock_moved(end, end) else 1
            if row["usd"] > days * most + USD_SLACK:
                yield f"budget: models cost {row['usd']:.4f} dollars on {row['day']}, {most:g} may be spent"

    def _scores(self) -> Iterator[str]:
        """The Brier score is the squared distance from what happened: of the forecast, or of the price at that time."""
        for row in [*read_rows(self.ledger, _SCORES), *read_rows(self.ledger, _CROWD_SCORES)]:
            value = (row["probability"] - row["outcome"]) ** 2
            if abs(value - row["value"]) > SAME:
                yield f"score: the Brier score of {row['forecast']} is {row['value']}, and is {value} by its formula"

    def _scored_forecasts(self) -> Iterator[str]:
        """Of each forecaster the last forecast counts that looked at nothing after close, outcome and scoring time."""
        if self.scored is None:
            return
        last: dict[tuple[str, ...], Row] = {}
        for row in read_rows(self.ledger, _SCORABLE):
            ends = [row["resolved_at"], row["closes_at"], json.loads(row["body"]).get("facts", {}).get("spot_at")]
            if all(end is None or parse_timestamp(row["cutoff"]) <= datetime.fromisoformat(end) for end in ends):
                last[row["forecaster"], row["ref"], row["target"]] = row
        columns = (self.scored.forecast, self.scored.target, self.scored.probability, self.scored.outcome)
        there = {*zip(*columns, strict=True)}
        due = {(row["id"], row["target"], row["probability"], row["value"]) for row in last.values()}
        for name, target, probability, outcome in sorted(there ^ due):
            what = "is scored, and is not the last one in time" if (name, target, probability, outcome) in there else ""
            yield f"score: {name}, {target}, {probability} on {outcome}, {what or 'is the last one, and not scored'}"


def false_halt(ledger: Path, halt: Row, limits: Collection[int], clock_moves: Sequence[datetime] = ()) -> Iterator[str]:
    """Say where a venue stopped for its unknown writes, and there were not more of them than are set."""
    found, at = _UNSETTLED.search(halt["why"]), parse_timestamp(halt["at"])
    if found is None or any(abs(moved - at) <= LONGEST_MOVE for moved in clock_moves):
        return
    values = {"venue": halt["venue"], "at": format_timestamp(at + ONE_MOMENT), "until": halt["at"]}
    [row] = read_rows(ledger, _WITHOUT_ANSWER, values)
    if row["count"] <= int(found[1]) or int(found[1]) not in limits:
        what = f"{row['count']} of its writes were without an answer, {sorted(limits)} may be"
        yield f"orders: {halt['venue']} stopped at {at}: {halt['why']}; {what}"


def full_hours(
    attempts: Iterable[Row], limits: Mapping[str, float], clock_moves: Sequence[datetime] = ()
) -> Iterator[str]:
    """Say what was decided though as many orders, or forecasts where nothing is paid, were sent in the hour before."""
    sent: dict[tuple[str, bool], list[Row]] = defaultdict(list)
    for row in sorted(attempts, key=lambda row: str(row["started_at"])):
        if row["action"] != "comment":
            sent[row["venue"], bool(row["paper"])].append(row)
    for (venue, _), rows in sent.items():
        for row in rows if limits[venue] < math.inf else ():
            planned = parse_timestamp(row["planned_at"])
            since, until = format_timestamp(planned - HOUR), format_timestamp(planned - ONE_MOMENT)
            count = sum(since < one["started_at"] < until and one["id"] != row["id"] for one in rows)
            is_moved = any(abs(moved - planned) <= 2.0 * LONGEST_MOVE for moved in clock_moves)
            if count >= limits[venue] and not is_moved:
                what = f"{row['id']} on {row['ref']} was planned at {planned}"
                yield f"orders: {what}, {count} were sent at {venue} in the hour before, {limits[venue]:g} may be"


def unreserved_calls(
    calls: Iterable[Row], budgets: Sequence[Tables], clock_moves: Sequence[datetime] = ()
) -> Iterator[str]:
    """Say which call began although its most, with what was spent and what others may cost, is beyond a budget.

    A call is under way for its latency at least; what of it is not certain counts as what it cost in the end.
    """
    limits = (
        ("at", max(one.get("day_usd", DAY_USD) for one in budgets)),
        ("scope", max(one.get("question_usd", QUESTION_USD) for one in budgets)),
    )
    known: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in calls:
        at = parse_timestamp(row["at"])
        for name, most in limits:
            before = known[name, row[name][:10] if name == "at" else row[name]]
            # Moments are recorded to the microsecond.
            busy = [
                parse_timestamp(one["at"]) + timedelta(seconds=one["latency_s"] - RECORDED_S) > at for one in before
            ]
            used = sum(one["worst_usd"] if is_busy else one["usd"] for one, is_busy in zip(before, busy, strict=True))
            is_moved = any(abs(moved - at) <= LONGEST_MOVE for moved in clock_moves)
            if used + row["worst_usd"] > most + USD_SLACK and not is_moved:
                what = f"may cost {row['worst_usd']:.4f} dollars, {used:.4f} were spent or under way"
                yield f"budget: the call {row['id']} of {row['ref']} at {at} {what}, {most:g} may be"
            before.append(row)
