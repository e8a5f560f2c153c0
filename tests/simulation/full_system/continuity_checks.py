"""What goes on where something ended: a life, a day, a halt, a wait, by the passes of jobs that ended well.

By docs/going-live.md ("Stops": losses, requests that wait), docs/settings.md ("lease_s", "caps"), docs/commands.md
("foxcast withdraw", "foxcast halt") and docs/venues.md ("One pass"): what a dead run held is free at the next start,
what waits is done later or given up for a reason, a loss stops an account by all of its readings since the last resume,
nothing is filled long after its venue was halted, and each request of a person is answered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from bot.store.serialization import format_timestamp, parse_timestamp
from tests.ledger_checks import Row, read_rows
from tests.simulation.full_system.omission_checks import (
    ERROR_REASON,
    LONG_PASS,
    ONE_MOMENT,
    JobPass,
    OmissionChecks,
)

# Amounts are rounded.
CENT = 0.01
# Where there is always a price: at an order book there may be no buyer.
MARKET_MAKERS = ("manifold",)
LOSS_LIMITS = ("daily_loss", "drawdown")
# So long after a halt what was under way is filled, and what rests is cancelled, with answers that are lost.
CANCELLED_WITHIN = timedelta(minutes=25)
# How often requests are looked for, where nobody set it.
REQUESTS_EVERY_S = 5.0
_BEGUN = """
select f.id, f.ref, f.forecaster, f.started_at, coalesce(f.ended_at, f.made_at) as ended_at, q.venue, q.closes_at,
  s.why as waits_for, v.body, (
    select min(r.seen_at) from resolution r where r.ref = f.ref) as resolved_at, (
    select min(g.started_at) from forecast g where g.ref = f.ref and g.forecaster = f.forecaster
    and g.started_at > f.started_at) as again_at, (
    select g.why from forecast g where g.ref = f.ref and g.forecaster = f.forecaster
    and g.started_at > f.started_at order by g.started_at limit 1) as again_why
from forecast f join question q on q.ref = f.ref join question_version v on v.version = f.version
left join schedule s on s.ref = f.ref and s.forecaster = f.forecaster
where f.forecast_only = 0 and q.as_of is null order by f.started_at
"""
_GIVEN_UP = """
select i.id, i.ref, i.changed_at, i.detail, q.closes_at, (
    select min(r.seen_at) from resolution r where r.ref = i.ref) as resolved_at, (
    select min(o.planned_at) from intent o where o.ref = i.ref and o.account = i.account and o.seq > i.seq
    and o.action = 'withdraw') as followed_at
from intent i join question q on q.ref = i.ref where i.action = 'withdraw' and i.state = 'superseded'
"""
_ANSWERS = "select text, at from event where kind = 'request'"
_WORTHS = """
select venue, paper, at, equity - transfers - unconfirmed as worth from account_reading
"""
_HALTS = "select venue, at, resumed_at, resumed_by, by, end_condition from halt order by id"
_LATE_FILLS = """
select i.id, i.venue, i.ref, f.at, min(a.started_at) as started_at from fill f join intent i on i.id = f.intent
join attempt a on a.intent = i.id where i.action = 'order' and i.mode = 'paper' group by i.id, f.reference
"""


@dataclass(frozen=True, kw_only=True)
class ContinuityChecks(OmissionChecks):
    """Judges one ledger; ``readings`` are those of accounts that it had at the ends of lives, in order.

    ``positions`` are all shares that people saw in accounts, in order, also those without a price.
    ``standing`` says since when, by true time, the forecasts stand that open questions have at their venue.
    """

    readings: Sequence[Row] = ()
    positions: Sequence[Mapping[str, Any]] = ()
    standing: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def violations(self) -> Iterator[str]:
        """Say what did not go on."""
        yield from self._unanswered()
        yield from self._not_taken_back()
        yield from self._given_up()
        yield from self._unfinished_forecasts()
        yield from self._losses()
        yield from self._filled_while_halted()
        yield from self._lost_prices()

    def _has_life_begun(self, since: datetime, until: datetime) -> bool:
        return any(since - ONE_MOMENT <= one <= until + ONE_MOMENT for one in self.lives)

    def _unanswered(self) -> Iterator[str]:
        """What a person asks for is done, or refused with a reason, by the next pass that looks for requests."""
        answers = [row["text"] for row in read_rows(self.ledger, _ANSWERS)] if self.passes else []
        for act in [one for one in self.acts if one.get("request")]:
            passes = self._list_passes("requests", act["clock"], None)
            # A life that is killed between what it did and its answer has done it.
            is_sure = bool(passes) and not self._has_life_begun(act["clock"], passes[0].ended_at)
            if is_sure and not any(act["request"] in text for text in answers):
                what = f"the request to {act['kind']} of {act['clock']}"
                yield f"continuity: {what} has no answer, and the pass of {passes[0].started_at} looked for it"

    def _not_taken_back(self) -> Iterator[str]:
        """What a person asked to be withdrawn, and was told that it will be, does not stand in the end."""
        answers = [row["text"] for row in read_rows(self.ledger, _ANSWERS)] if self.standing else []
        for act in [one for one in self.acts if one["kind"] == "withdraw"]:
            is_granted = any(act["request"] in text and "is sent with the next pass" in text for text in answers)
            before = [at_s for at_s in self.standing.get(act["ref"], ()) if at_s < act["at_s"]]
            if is_granted and before:
                what = f"the forecast of {act['ref']} was to be withdrawn at {act['clock']}"
                yield f"continuity: {what}, and stands since {before[-1]:.0f} s"

    def _given_up(self) -> Iterator[str]:
        """A withdrawal waits until it may be sent: only another one, or the end of its question, is in its way."""
        for row in read_rows(self.ledger, _GIVEN_UP):
            ends = [row[name] for name in ("closes_at", "resolved_at", "followed_at") if row[name]]
            at = parse_timestamp(row["changed_at"])
            if not any(parse_timestamp(one) <= at + ONE_MOMENT for one in ends) and not self._has_clock_moved(at, at):
                what = f"the withdrawal {row['id']} of {row['ref']}"
                yield f"continuity: {what} was given up at {at}: {row['detail'] or 'no reason'}"

    def _unfinished_forecasts(self) -> Iterator[str]:
        """What a life was forecasting as it ended is forecast by the next one in its first pass."""
        for begun, (died, until) in self._cut_off_forecasts():
            # The first pass begins with its life.
            passes = self._list_passes("forecast", died - ONE_MOMENT, until)
            passes = [one for one in passes if one.ended_at - one.started_at < LONG_PASS]
            ended = begun["ended_at"] and parse_timestamp(begun["ended_at"])
            again = begun["again_at"] and parse_timestamp(begun["again_at"])
            # Where its price could not be read, or the venue did not list it, it was postponed for that.
            why = (begun["again_why"] if again else begun["waits_for"]) or ""
            if not passes or self._is_left_out(begun) or ERROR_REASON.match(why) or " no longer lists it" in why:
                continue
            first = passes[0]
            ends = [parse_timestamp(begun[name]) for name in ("closes_at", "resolved_at") if begun[name]]
            is_over = any(one <= first.ended_at + self._reader_margin(begun["venue"]) for one in ends)
            is_taken = any(one is not None and one <= first.ended_at + ONE_MOMENT for one in (ended, again))
            if not is_taken and not is_over:
                what = f"{begun['ref']}, which {begun['forecaster']} was forecasting as a life ended by {died}"
                yield f"continuity: {what}, was left alone by the pass of {first.started_at}, and ended at {ended}"

    def _cut_off_forecasts(self) -> Iterator[tuple[Row, tuple[datetime, datetime]]]:
        """Yield forecasts that were under way as a life ended, with when the next one began and ended."""
        rows = read_rows(self.ledger, _BEGUN) if self.passes else ()
        last = max((one.ended_at for one in self.passes), default=None)
        lives = [*self.lives, *([last + timedelta(hours=1)] if last else [])]
        for row in rows:
            started = parse_timestamp(row["started_at"])
            for began, ended, until in zip(lives, lives[1:], lives[2:], strict=False):
                is_begun = began <= started < ended
                is_cut = is_begun and (not row["ended_at"] or parse_timestamp(row["ended_at"]) >= ended)
                if is_cut and not self._has_clock_moved(started, until):
                    yield row, (ended, until)

    @cached_property
    def _stops_of_program(self) -> dict[str, list[tuple[datetime, datetime | None]]]:
        found: dict[str, list[tuple[datetime, datetime | None]]] = defaultdict(list)
        for row in read_rows(self.ledger, _HALTS):
            if not row["by"]:
                resumed = parse_timestamp(row["resumed_at"]) if row["resumed_at"] else None
                found[row["venue"]].append((parse_timestamp(row["at"]), resumed))
        return found

    def _losses(self) -> Iterator[str]:
        """A pass that submits stops an account that has lost more than its limit, by all readings since a resume."""
        for venue, known, bound in self._bounded_accounts() if self.passes else ():
            for one in self._by_job["submit"]:
                if (lost := self._lost_by(venue, known, one.started_at, bound[0])) is not None:
                    yield from self._unstopped(venue, bound, one, lost)

    def _bounded_accounts(self) -> Iterator[tuple[str, list[tuple[str, float, float]], tuple[str, float]]]:
        """Yield accounts with their values, and a limit of losses that all configurations set."""
        worths: dict[tuple[str, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for row in [*self.readings, *read_rows(self.ledger, _WORTHS)]:
            worths[row["venue"], row["paper"]][row["at"]].append(row["worth"])
        for (venue, paper), by_time in worths.items():
            tables = [config["venues"].get(venue, {}) for config in self.configs]
            # What was found out about a reading later may have changed what it counts.
            known = sorted((at, min(values), max(values)) for at, values in by_time.items())
            is_mine = {table.get("mode") == "paper" for table in tables} == {bool(paper)}
            for name in LOSS_LIMITS if is_mine else ():
                caps = [table.get("caps", {}).get(name) for table in tables]
                if None not in caps:
                    yield venue, known, (name, max(caps))

    def _unstopped(self, venue: str, bound: tuple[str, float], one: JobPass, lost: float) -> Iterator[str]:
        is_stopped = any(
            at <= one.ended_at + ONE_MOMENT and (resumed is None or resumed >= one.started_at - ONE_MOMENT)
            for at, resumed in [*self._stops_of_program[venue], *self._stops_of_program[""]]
        )
        if lost > bound[1] + CENT and not is_stopped and not self._has_clock_moved(one.started_at, one.ended_at):
            what = f"lost {lost:.2f} by its readings, {bound[0]} is {bound[1]:g}"
            yield f"continuity: {venue} {what}, and the pass of {one.started_at} did not stop it"

    def _lost_by(self, venue: str, known: Sequence[tuple[str, float, float]], at: datetime, name: str) -> float | None:
        """Return what was lost at least by the last reading before a moment; None where nothing is known."""
        now, day = format_timestamp(at - ONE_MOMENT), format_timestamp(at)[:10]
        resumed = [
            row["resumed_at"]
            for row in read_rows(self.ledger, _HALTS)
            if row["resumed_at"]
            and row["venue"] in {"", venue}
            and (row["end_condition"] == "person" or row["resumed_by"])
            and row["resumed_at"] <= format_timestamp(at + ONE_MOMENT)
        ]
        since = max(resumed, default="")
        seen = [row for row in known if row[0] <= now]
        after = [row for row in seen if row[0] >= since]
        if name == "daily_loss":
            begin = max(day, since)
            before = [row for row in seen if row[0] <= begin]
            after = (before[-1:] or [row for row in seen if row[0] > begin][:1]) + seen[-1:]
        if len(after) < 2:
            return None
        began = after[0][1] if name == "daily_loss" else max(low for _, low, _ in after)
        return began - seen[-1][2]

    def _filled_while_halted(self) -> Iterator[str]:
        """What rests at a halted venue is cancelled: nothing is filled long after it was halted.

        At a venue itself an order may arrive late; the referee judges those that rested there.
        """
        rows = read_rows(self.ledger, _HALTS) if self.passes else ()
        every_s = max(config.get("daemon", {}).get("requests_every_s", REQUESTS_EVERY_S) for config in self.configs)
        halts = [
            (row["venue"], parse_timestamp(row["at"]), row["resumed_at"] and parse_timestamp(row["resumed_at"]))
            for row in rows
            # Where the credentials were refused nothing can be cancelled.
            if row["end_condition"] != "renewed"
        ]
        for fill in read_rows(self.ledger, _LATE_FILLS) if halts else ():
            at, started = parse_timestamp(fill["at"]), parse_timestamp(fill["started_at"])
            for venue, halted, resumed in halts:
                due = halted + CANCELLED_WITHIN + timedelta(seconds=every_s)
                is_late = started < halted and at > due and (resumed is None or at < resumed - ONE_MOMENT)
                # While no life looks, nobody cancels.
                is_seen = is_late and len(self._list_passes("halt", halted, at)) > 1
                if venue in {"", fill["venue"]} and is_seen:
                    what = f"{fill['id']} on {fill['ref']}, on paper, was filled at {at}"
                    yield f"continuity: {what}, and {fill['venue']} was halted at {halted}"

    def _lost_prices(self) -> Iterator[str]:
        """Shares that had a price at a market maker keep one until their outcome, also once their market has closed."""
        priced: dict[tuple[Any, ...], Mapping[str, Any]] = {}
        for one in [one for one in self.positions if one["venue"] in MARKET_MAKERS]:
            place = (one["venue"], one["paper"], one["contract"], one["leg"])
            if one.get("mark") is not None:
                priced[place] = one
            elif (before := priced.pop(place, None)) is not None:
                what = f"{one['shares']:.4f} {one['leg']} of {one['contract']} at {one['venue']}"
                had = f"had a price of {before['mark']:.4f} at {before['clock']}"
                yield f"continuity: {what} {had}, and none at {one['clock']}"
