"""What must be true at the end of a simulation, read from the last ledger and compared with what the venues know."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from bot.core.ids import sha256_hex
from bot.execution.paper.paper_book import paper_book_path
from bot.jobs.halts import STOP_FILE_ACTOR
from bot.simulator.environment import BUCKET_FOLDER
from bot.store.serialization import format_timestamp, parse_timestamp
from tests.ledger_checks import CENT, Row, integrity_faults, paper_book_faults, read_rows, unanswered_writes
from tests.simulation.full_system import polymarket_orders, question_versions
from tests.simulation.full_system.observer import is_cancel, is_write
from tests.simulation.full_system.omission_checks import LONG_PASS
from tests.simulation.full_system.outcome_checks import ASKED, FORECAST, RECORDED, SCORED, SET_BACK, OutcomeChecks
from tests.simulation.full_system.plan import RECONCILE_S
from tests.simulation.full_system.profit_checks import transfers_taken_for_profit, wrong_profits

if TYPE_CHECKING:
    from bot.simulator.fake_service import FakeService
    from bot.simulator.request_log import LoggedRequest, RequestEffect
    from bot.simulator.venues.polymarket_state import FakePolymarketOrder
    from tests.simulation.full_system.fake_venues import SimulationVenues

# On the wire, or nobody knows: once all is calm that is found out within two periods.
OPEN = {"sending", "unknown"}
# What no reading settles is left to a person after an hour.
WAITED_FOR = timedelta(hours=1)
_INTENTS = "select id, seq, ref, venue, state, mode, action, forecast from intent order by seq"
_AUDIT = "select seq, at, kind, venue, actor, body from audit order by seq"
_KEPT = "select ref, leased_until from schedule where owner is not null and leased_until < :late"
# A pass that begins forecasts until its time is over leaves the rest to the next one.
_OVERDUE = """
select s.ref, s.due_at from schedule s left join (
  select started_at, julianday(ended_at) - julianday(started_at) >= :long_days as is_long from job_run
  where job = 'forecast') j on j.started_at > s.due_at
where s.owner is null and s.due_at < :late and s.closes_at > :now and coalesce(s.not_before, '') < :late
group by s.ref, s.forecaster having coalesce(min(j.is_long), 0) = 0
"""
_UNDECIDED = "select ref, made_at from forecast where state = 'done' and decided_at is null and made_at < :late"
_DAYS = """
select venue, substr(planned_at, 1, 10) as day, max(cost) as most, total(cost) as cost from intent
where action = 'order' and state not in ('refused', 'superseded') group by venue, mode, day
"""
_LONG_DAYS = LONG_PASS / timedelta(days=1)
_SIGNED_FILLS = """
select f.intent, f.reference, f.cash, f.shares from fill f join intent i on i.id = f.intent
where i.venue = 'polymarket' and i.mode <> 'paper'
"""
_STOPS = "select venue, at, resumed_at, resumed_by from halt where end_condition = 'settled' order by id"
# What was in doubt when a venue stopped: begun before, and settled since.
_DOUBTS = """
select a.state, a.settled_at from attempt a join intent i on i.id = a.intent
where i.venue = :venue and i.mode <> 'paper' and a.started_at <= :at and (a.settled_at is null or a.settled_at >= :at)
"""
_FENCES = "select intent, max(fence_at) as fence from attempt where fence_at is not null group by intent"


@dataclass(frozen=True)
class FinalChecks:
    """Reads one ledger; ``violations`` yields what is wrong.

    ``limits`` is what orders at a venue could cost at most, by the names of caps. From ``calm_since`` on venues were
    read without faults.
    """

    ledger: Path
    bridges: SimulationVenues
    modes: Mapping[str, str]
    now: datetime
    period: timedelta
    undone: Mapping[str, datetime]
    limits: Callable[[str], Mapping[str, float]]
    calm_since: datetime | None = None

    def violations(self) -> Iterator[str]:
        """Say what is wrong, invariant by invariant."""
        yield from integrity_faults(self.ledger)
        yield from unanswered_writes(self.ledger)
        yield from self._sealed()
        yield from self._once()
        yield from self._same_questions()
        yield from self._ended()
        yield from self._sealed_with_permission()
        yield from self._resumed()
        yield from early_resumes(self.audit)
        yield from self._standing()
        yield from self._fills()
        yield from self._signed_fills()
        yield from self._resting()
        yield from self._at_stake()
        yield from self._paper()
        yield from wrong_profits(self.ledger, self.bridges, self.modes, self.undone)
        yield from transfers_taken_for_profit(self.ledger, self.bridges, self.modes)
        yield from self._done()
        yield from self._outcomes()

    def rows(self, sql: str, values: Mapping[str, object] | None = None) -> list[Row]:
        """Return the rows by the names of their columns."""
        return read_rows(self.ledger, sql, values)

    @cached_property
    def intents(self) -> dict[str, Row]:
        return {row["id"]: row for row in self.rows(_INTENTS)}

    @cached_property
    def audit(self) -> list[Row]:
        return [{**row, "body": json.loads(row["body"])} for row in self.rows(_AUDIT)]

    @cached_property
    def seals(self) -> dict[str, list[Row]]:
        """The audit's rows of writes, by the digest of what was to be written."""
        found = defaultdict(list)
        for row in self.audit:
            if row["kind"] == "write":
                found[row["body"].get("request", "")].append(row)
        return found

    def _live(self) -> Iterator[tuple[str, FakeService]]:
        return ((name, venue) for name, venue in self.bridges.all.items() if self.modes[name] == "live")

    def _sealed(self) -> Iterator[str]:
        """Every write that was heard had been sealed, and was heard once for each time that it was."""
        for name, venue in self._live():
            writes = [one for one in venue.requests if is_write(venue, one) and not is_cancel(one)]
            heard = Counter(_seal(name, one) for one in writes if one.path != polymarket_orders.LOGIN)
            for seal, count in sorted(heard.items()):
                attempts = len(self.seals.get(seal, ()))
                if attempts == 0:
                    yield f"I7: {name} heard a write that is not in the audit: {self._what(name, seal)}"
                elif count > attempts:
                    yield f"I1: {name} heard {count} times what was sealed {attempts} times: {self._what(name, seal)}"

    def _what(self, name: str, seal: str) -> str:
        venue = self.bridges.all[name]
        one = next(heard for heard in venue.requests if heard.body and _seal(name, heard) == seal)
        return f"{one.method} {one.path} {one.body[:200]!r}"

    def _by_intent(self, name: str, venue: FakeService) -> dict[str, list[RequestEffect]]:
        """Return the effects of writes by the intent that they are of; "" for none."""
        heard: dict[int, LoggedRequest] = {one.number: one for one in venue.requests}
        found = defaultdict(list)
        for effect in venue.ledger.effects():
            if effect.kind in {"cancel", "api key"}:
                continue
            rows = [row for row in self.seals.get(_seal(name, heard[effect.request]), ()) if row["venue"] == name]
            names = [row["body"]["intent"] for row in rows]
            if effect.kind in {"forecast", "withdraw"}:
                # One request may have several, each of a question. The same one days later is the same request:
                # of those that claim it, each has an effect first.
                names = [one for one in names if self._question(one) == effect.subject] or names
            # Two sales of all shares are the same request, too, of which one may find nothing to sell.
            names = [one for one in names if self.intents[one]["state"] == "acked"] or names
            names = [one for one in names if one not in found][:1] or names
            found[names[-1] if names else ""].append(effect)
        return found

    def _same_questions(self) -> Iterator[str]:
        """Nothing was sent for another version of a question than the one that was forecast."""
        versions = {row["intent"]: row for row in self.rows(question_versions.VERSIONS)}
        came = {(name, one.number): one.at for name, venue in self._live() for one in venue.requests}
        # A request that takes effect late is judged by what was asked when it came.
        effects = [
            (name, versions[intent], replace(effect, at=came[name, effect.request]))
            for name, venue in self._live()
            for intent, found in sorted(self._by_intent(name, venue).items())
            for effect in found
            if intent in versions and effect.kind in {"forecast", "bet"}
        ]
        for name, row, effect in effects:
            if not self._fits(name, row, effect):
                yield f"I11: {row['intent']} of {name} went onto a question that had changed since it was forecast"

    def _fits(self, name: str, row: Row, effect: RequestEffect) -> bool:
        at_s, manifold, metaculus = effect.at.timestamp(), self.bridges.manifold, self.bridges.metaculus
        if name == "metaculus" and metaculus is not None:
            return question_versions.matches_question(row, metaculus.state.questions[int(effect.subject)], at_s)
        if name == "manifold" and manifold is not None:
            market = manifold.state.markets[manifold.state.bets[effect.subject].market]
            return question_versions.matches_market(row, market, at_s)
        return True

    def _question(self, intent: str) -> str:
        return str(self.intents[intent]["ref"].rsplit(":", 1)[1])

    def _once(self) -> Iterator[str]:
        """An order took effect once at most; what took effect is acknowledged, and the other way round."""
        for name, venue in self._live():
            effects = self._by_intent(name, venue)
            for intent, found in sorted(effects.items()):
                state = self.intents[intent]["state"] if intent in self.intents else "not in the ledger"
                if len(found) > 1 and found[0].kind != "forecast":
                    yield f"I1: {intent} took effect {len(found)} times at {name}"
                if state not in {"acked", "in doubt", *OPEN} and any(self._left(name, effect) for effect in found):
                    yield f"I2: {intent} took effect at {name} and is {state}"
            for row in self.intents.values():
                reported = row["venue"] == name and row["mode"] != "paper" and row["state"] == "acked"
                if reported and row["id"] not in effects and row["action"] in {"order", "forecast"}:
                    yield f"I2: {row['id']} is acknowledged and had no effect at {name}"

    def _left(self, name: str, effect: RequestEffect) -> bool:
        """Say whether an effect left anything: a signed order that ended without a match is listed nowhere, as none."""
        exchange = self.bridges.polymarket
        if exchange is None or name != "polymarket":
            return True
        order = exchange.state.orders[effect.subject]
        return order.matched > 0 or order.status in {"LIVE", "DELAYED"}

    def _ended(self) -> Iterator[str]:
        """Nothing is on its way for ever, once all is calm."""
        states = Counter(row["state"] for row in self.intents.values() if row["state"] in OPEN)
        if states:
            yield f"I2, I9: still {dict(states)}"

    def _sealed_with_permission(self) -> Iterator[str]:
        """Nothing was sealed unarmed or halted: the audit's rows are in the order in which all happened."""
        armed: set[str] = set()
        halted: set[str] = set()
        for row in self.audit:
            venue = row["venue"]
            match row["kind"]:
                case "arm":
                    armed.add(venue)
                case "disarm":
                    armed.discard(venue)
                case "halt" | "stop" if row["actor"] != STOP_FILE_ACTOR:  # the file itself is watched
                    halted.add(venue)
                case "resume":
                    halted = set() if row["body"].get("where") == "all" else halted - {venue}
                case "write" if venue not in armed:
                    yield f"I4: {row['body']['intent']} was sealed, and {venue} was not armed"
                case "write" if halted & {"", venue}:
                    yield f"I4: {row['body']['intent']} was sealed while {venue} was halted"

    def _resumed(self) -> Iterator[str]:
        """A venue that stopped for its unknown writes resumes by itself once all of them have settled well."""
        for row in self.rows(_STOPS):
            doubts = self.rows(_DOUBTS, row)
            if not doubts or any(one["state"] not in {"acked", "absent"} for one in doubts):
                continue
            settled, ended = max(one["settled_at"] for one in doubts), row["resumed_at"] or format_timestamp(self.now)
            # People set clocks, and between two lives nobody reads anything back.
            if row["resumed_by"] != "" and parse_timestamp(ended) > parse_timestamp(settled) + self.period + SET_BACK:
                yield f"I12: {row['venue']} stopped at {row['at']}, all had settled by {settled}, it went on at {ended}"

    def _standing(self) -> Iterator[str]:
        """Of each question the forecast that stands at the venue is the newest that was acknowledged."""
        metaculus = self.bridges.metaculus
        if metaculus is None or self.modes["metaculus"] != "live":
            return
        newest = {row["ref"]: row for row in self.intents.values() if row["venue"] == "metaculus" and _stands(row)}
        last: dict[str, str] = {}
        for intent, effects in self._by_intent("metaculus", metaculus).items():
            for effect in effects:
                last[effect.subject] = max(last.get(effect.subject, ""), f"{effect.request:09d} {intent}")
        for ref, row in sorted(newest.items()):
            there = last.get(ref.rsplit(":", 1)[1], " nothing").split(" ", 1)[1]
            if row["state"] == "acked" and there != row["id"] and not self._same(there, row["id"]):
                yield f"I6: {ref} has {there}, and {row['id']} was acknowledged last"

    def _same(self, one: str, other: str) -> bool:
        """Say whether two intents asked for the same, byte for byte."""
        return any({one, other} <= {row["body"]["intent"] for row in rows} for rows in self.seals.values())

    def _fills(self) -> Iterator[str]:
        """What orders cost by the ledger is what left the account; of what is in doubt only a person can say."""
        manifold = self.bridges.manifold
        if manifold is None or self.modes["manifold"] != "live":
            return
        sql = "select coalesce(-sum(f.cash), 0) as paid from fill f join intent i on i.id = f.intent where i.venue = :v"
        [row] = self.rows(f"{sql} and i.mode <> 'paper'", {"v": "manifold"})
        doubtful = {name for name, one in self.intents.items() if one["state"] == "in doubt"}
        unclear = {
            effect.subject
            for intent, effects in self._by_intent("manifold", manifold).items()
            for effect in effects
            if intent in doubtful
        }
        bets = [
            bet
            for bet in manifold.state.bets_by(self.bridges.trader)
            if not bet.is_redemption and bet.market not in self.bridges.foreign_markets
        ]
        spent = sum(bet.amount for bet in bets if bet.id not in unclear)
        if abs(spent - row["paid"]) > 1e-4 * max(1.0, abs(spent)):
            yield f"fills: {row['paid']:.4f} on record, {spent:.4f} at the venue"

    def _signed_orders(self) -> Iterator[tuple[FakePolymarketOrder, str]]:
        """Yield the orders at Polymarket with their intents, but for those that only a person can tell."""
        exchange = self.bridges.polymarket
        if exchange is None or self.modes["polymarket"] != "live":
            return
        exchange.world.exchange.process_due()
        for intent, effects in self._by_intent("polymarket", exchange).items():
            if intent in self.intents and self.intents[intent]["state"] != "in doubt":
                yield from ((exchange.state.orders[effect.subject], intent) for effect in effects)

    def _signed_fills(self) -> Iterator[str]:
        """What is on record of each signed order is what was settled on chain of it: trade by trade, to the cent."""
        rows, exchange = self.rows(_SIGNED_FILLS), self.bridges.polymarket
        if exchange is None:
            return
        for order, intent in self._signed_orders():
            there = {
                trade.id: (float(cash), float(shares))
                for trade, cash, shares in polymarket_orders.order_trades(order, exchange.state)
                if trade.status == "CONFIRMED"
            }
            known = {row["reference"]: (row["cash"], row["shares"]) for row in rows if row["intent"] == intent}
            if there.keys() != known.keys():
                yield f"fills: of {intent} {sorted(known)} are on record, {sorted(there)} at the venue"
            for name in sorted(there.keys() & known.keys()):
                if any(abs(one - other) > CENT for one, other in zip(there[name], known[name], strict=True)):
                    yield f"fills: {name} of {intent} is {known[name]} on record, {there[name]} at the venue"

    def _resting(self) -> Iterator[str]:
        """Nothing rests at the venue that the ledger takes for ended."""
        ends = {row["intent"]: row["fence"] for row in self.rows(_FENCES)}
        for order, intent in self._signed_orders():
            is_over = self.intents[intent]["state"] != "acked" or parse_timestamp(ends[intent]) <= self.now - SET_BACK
            if order.status in {"LIVE", "DELAYED"} and is_over:
                yield f"I2: {intent} rests at polymarket, and is {self.intents[intent]['state']} to {ends[intent]}"

    def _at_stake(self) -> Iterator[str]:
        """By the ledger no order and no day cost more than they may, on paper too; what is in doubt is spent."""
        for row in self.rows(_DAYS):
            limits = self.limits(row["venue"])
            if row["most"] > limits["per_order"] + CENT or row["cost"] > limits["per_day"] + CENT:
                what = f"{row['cost']:.2f} on {row['day']}, {row['most']:.2f} with one order"
                yield f"I3: {row['venue']} has put at stake {what}, by the ledger"

    def _paper(self) -> Iterator[str]:
        """Books on paper agree with themselves and with the ledger, and what takes no money is written to no book."""
        for name, mode in self.modes.items():
            book = paper_book_path(self.ledger.parent, name)
            if mode == "paper" and book.exists():
                yield from paper_book_faults(book, self.ledger, name)
        bucket = self.bridges.rounds / BUCKET_FOLDER
        if self.modes.get("forecastbench") == "paper" and any(bucket.rglob("*")):
            yield f"I4: forecastbench is on paper, and {sorted(bucket.rglob('*'))[:3]} is in its bucket"

    def _done(self) -> Iterator[str]:
        """What was due two periods ago is done."""
        late = self.now - 2.0 * self.period
        moments = {"late": format_timestamp(late)}
        undone = {"leased": self.rows(_KEPT, moments), "undecided": self.rows(_UNDECIDED, moments)}
        for what, rows in (undone | {"due": overdue_questions(self.ledger, now=self.now, late=late)}).items():
            if rows:
                yield f"I9: {len(rows)} still {what} in calm weather: {rows[:3]}"

    def _outcomes(self) -> Iterator[str]:
        """Each outcome was there when it was read and is what came true, and none is missing."""
        slower = self.period.total_seconds() / RECONCILE_S
        outcomes = OutcomeChecks(bridges=self.bridges, undone=self.undone, now=self.now, slower=slower)
        yield from outcomes.judge(self.rows(RECORDED), self.rows(FORECAST))
        yield from outcomes.judge_scores(self.rows(SCORED))
        yield from outcomes.judge_comments()
        if self.calm_since is not None:
            yield from outcomes.judge_questions(self.rows(ASKED), self.calm_since)


def overdue_questions(ledger: Path, *, now: datetime, late: datetime) -> list[Row]:
    """Return what was due at a time and was not forecast by any pass since then that had the time."""
    moments = {"now": format_timestamp(now), "late": format_timestamp(late), "long_days": _LONG_DAYS}
    return read_rows(ledger, _OVERDUE, moments)


def early_resumes(audit: Iterable[Row]) -> Iterator[str]:
    """Say which venue resumed by itself although a write to it had no known outcome, since a person last resumed it.

    After an hour nobody waits for those that cost nothing. The audit's rows are in the order in which all happened.
    """
    unknown: dict[str, Row] = {}
    for row in audit:
        intent = row["body"].get("intent", "")
        if row["kind"] == "write":
            unknown[intent] = row
        elif row["kind"] in {"answer", "adopt"} and row["body"].get("state") != "unknown":
            unknown.pop(intent, None)
        elif row["kind"] == "resume" and row["actor"]:
            where = row["venue"] if row["body"].get("where") != "all" else ""
            unknown = {name: one for name, one in unknown.items() if where not in {"", one["venue"]}}
        elif row["kind"] == "resume":
            waiting = [name for name, one in unknown.items() if _is_waited_for(one, row)]
            yield from (f"I12: {row['venue']} resumed by itself at {row['at']}, not knowing {one}" for one in waiting)


def _is_waited_for(write: Row, resume: Row) -> bool:
    """Say whether a venue waits for the outcome of a write of its own: for an hour."""
    age = parse_timestamp(resume["at"]) - parse_timestamp(write["at"])
    return bool(write["venue"] == resume["venue"]) and timedelta() <= age < WAITED_FOR


def _seal(name: str, heard: LoggedRequest) -> str:
    """Return the digest of what was sealed of a write."""
    return sha256_hex(
        polymarket_orders.sealed_bytes(heard)
        if name == "polymarket" and heard.path != polymarket_orders.LOGIN
        else heard.body
    )


def _stands(row: Row) -> bool:
    return row["action"] in {"forecast", "withdraw"} and row["mode"] != "paper" and row["state"] == "acked"
