"""What orders on paper had to bring: when they meet the market, at which prices of the doubles, and what is paid out.

By docs/venues.md and docs/facts/polymarket.md ("Paper fills"), docs/facts/manifold.md ("Paper fills", "Resolution").
Nothing of the engine is used, and nothing of its paper books but the readings of their accounts.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any

from bot.store.serialization import format_timestamp, parse_timestamp
from tests.ledger_checks import Row, read_rows
from tests.simulation.full_system.account_values import purchase_cost
from tests.simulation.full_system.sizing_checks import (
    PRICE_SLACK,
    TakenLevel,
    bounded_purchase,
    pool_with_own,
    rounded_levels,
    taken_levels,
    walk_book,
    without_taken,
)

Fact = Mapping[str, Any]
# The seconds after which an order on paper meets the market, where nobody set them.
DELAY_S = 2.0
ONE_MOMENT, LONGEST_MOVE, LONGEST_SET = timedelta(seconds=2), timedelta(hours=1), timedelta(hours=14)
# The market that an order meets is read within so long before the fill.
READ_BEFORE = timedelta(seconds=90)
CENT, MARK_SLACK = 0.01, 1e-4
# A mark is used again for five minutes.
MARKED_WITHIN = timedelta(seconds=330)
# Outcomes are paid after a delay, by a job that was killed once at most.
PAID_WITHIN = timedelta(hours=30)
# Of so many orders some find their market closed, unread or too dear, but no more than such a share.
ENOUGH, MOST_REFUSED = 5, 0.75
# Orders of these types wait at their own price for what others want; lists of trades have whole seconds.
RESTING, SECOND = ("GTC", "GTD"), timedelta(seconds=1)
# An order that meets the market at once does so within a minute after its delay; one that rests is looked at later.
AT_ONCE = timedelta(seconds=60)
# A fill is in millionths of shares, and what an order is left with is rounded with each of its parts.
SAME_FILL = 1e-4
# Who is filled first at a price, where nobody set it; and with which setting a venue says when an outcome is paid.
QUEUE = "neutral"
SETTLES: Mapping[str, tuple[str, float]] = {
    "manifold": ("resolve_after_s", 900.0),
    "polymarket": ("paper_settle_s", 600.0),
}
# The venue ends an order that rests so long before its expiry.
EARLY = timedelta(seconds=60)
# The shares of the account that may be at stake, where nobody set them (docs/settings.md).
BANKROLL: Mapping[str, float] = {"per_question": 0.05, "per_event": 0.1, "per_day": 0.25, "total": 0.75}
# What was lost is told by one of so many readings.
LATEST = 3
# An account is read within so long before an order is planned.
PASS = timedelta(seconds=900)
_FIRST_FILLS = """
select i.id, i.venue, i.ref, i.order_body, min(a.started_at) as started_at, min(f.at) as at,
  sum(f.shares) as shares, sum(f.shares * f.price) / sum(f.shares) as price, not exists (
    select 1 from intent o join fill e on e.intent = o.id where o.ref = i.ref and o.mode = 'paper' and o.seq < i.seq
  ) as is_first
from intent i join attempt a on a.intent = i.id join fill f on f.intent = i.id
where i.mode = 'paper' and f.at = (select min(at) from fill where intent = i.id) group by i.id order by i.seq
"""
_ENDED = """
select i.venue, count(*) as count, sum(i.state = 'refused') as refused, max(a.detail) as why
from intent i join attempt a on a.intent = i.id where i.mode = 'paper' and i.action = 'order' group by i.venue
"""
_ALL_FILLS = """
select i.id, i.venue, i.ref, i.order_body, (select min(started_at) from attempt where intent = i.id) as started_at,
  f.at, f.shares, f.price, f.cash, i.seq,
  exists (select 1 from resolution r where r.ref = i.ref and r.seen_at < f.at) as ended
from fill f join intent i on i.id = f.intent where i.mode = 'paper' order by f.at, i.seq, f.reference
"""
_READINGS = """
select venue, at, max(at, until) as until, cash, reserved, equity from account_reading
where paper = 1 and cash is not null order by id
"""
_NEWEST = """
select venue, max(at, until) as at, cash + reserved as cash, equity, body from account_reading
where paper = 1 and body <> ''
"""
_PURCHASES = """
select i.id, i.venue, i.account, i.ref, i.planned_at, i.cost, i.order_body, (
  select min(r.seen_at) from resolution r where r.ref = i.ref) as resolved_at
from intent i where i.mode = 'paper' and i.action = 'order' and i.state not in ('refused', 'superseded') order by i.seq
"""
_TRADES = """
select f.intent, i.venue, i.ref, json_extract(i.order_body, '$.contract') as contract,
  json_extract(i.order_body, '$.leg') as leg, f.at, f.shares, f.cash
from fill f join intent i on i.id = f.intent where i.mode = 'paper' order by f.at, i.seq
"""
# Of the book of an account on paper: the orders that rested until they expired.
EXPIRED = "select intent from ticket where state = 'expired'"
# And the outcomes that were paid.
PAID = "select ref, at from settlement where undone_at is null"
_RESUMED = """
select venue, resumed_at from halt where resumed_at is not null and (end_condition = 'person' or resumed_by <> '')
"""
_LOSS_HALTS = """
select h.venue, h.at, h.why from halt h where h.by = '' and h.why like '%caps.d%'
  and not exists (select 1 from account_reading r where r.venue = h.venue and r.paper = 0)
"""
_VALUES = """
select equity from account_reading
where venue = :venue and paper = 1 and at <= :planned_at and max(at, until) >= :since
"""
_RESTED = """
select i.id, i.venue, i.ref, i.order_body, min(a.started_at) as started_at from intent i
join attempt a on a.intent = i.id where i.mode = 'paper' and i.action = 'order' and i.state = 'acked' group by i.id
"""
_OPEN = "select count(*) as count from intent where mode = 'paper' and state not in ('acked', 'refused', 'superseded')"


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperChecks:
    """Judges the paper orders of one ledger; ``configs`` are the tables of the configuration, first to last.

    ``books`` are the prices that the doubles showed, ``trades`` those of others at the exchange, by contract,
    ``endings`` what each contract pays, by venue and contract, ``contracts`` what each is counted with by caps,
    and ``marks`` what the ledger held shares to be worth as each life ended. ``expired`` are the orders that rested to
    their end, ``payouts`` the rows of ``PAID`` of each book.
    """

    ledger: Path
    configs: Sequence[Fact]
    books: Mapping[tuple[str, str], Sequence[Fact]]
    endings: Mapping[tuple[str, str], Fact]
    trades: Mapping[str, Sequence[Fact]] = field(default_factory=dict)
    contracts: Mapping[str, Fact] = field(default_factory=dict)
    marks: Sequence[Fact] = ()
    clock_moves: Sequence[datetime] = ()
    expired: Collection[str] = ()
    payouts: Sequence[Row] = ()

    def violations(self) -> Iterator[str]:
        """Say which order on paper met the market too early, or at no price of it, and which account is wrong."""
        for row in read_rows(self.ledger, _FIRST_FILLS):
            at = parse_timestamp(row["at"])
            if not any(abs(moved - at) <= LONGEST_MOVE for moved in self.clock_moves):
                yield from self._first_fill(row, json.loads(row["order_body"]))
        for row in read_rows(self.ledger, _ENDED):
            if row["count"] >= ENOUGH and row["refused"] > MOST_REFUSED * row["count"]:
                what = f"{row['refused']} of {row['count']} orders on paper at {row['venue']}"
                yield f"paper: {what} met no market, which was open and within their limits: {row['why']}"
        yield from self._market_maker_fills()
        yield from self._book_fills()
        yield from self._missed_trades()
        yield from self._queue()
        yield from self._early_payouts()
        yield from self._caps()
        yield from self._accounts()
        yield from self._wrong_marks()
        yield from self._losses()
        yield from wrong_values(self.ledger)

    def _first_fill(self, row: Row, order: Fact) -> Iterator[str]:
        """An order meets the market after its delay, as the market is then, within its limit.

        One that is matched at once is held by some markets for some seconds more.
        """
        tables = [config["venues"][row["venue"]].get("paper", {}) for config in self.configs]
        delay = timedelta(seconds=min(table.get("delay_s", DELAY_S) for table in tables))
        if order.get("terms", {}).get("type") not in RESTING:
            delay += timedelta(seconds=self.contracts.get(order["contract"], {}).get("delay_s", 0.0))
        started, at = parse_timestamp(row["started_at"]), parse_timestamp(row["at"])
        what = f"paper: {row['id']} on {row['ref']} of {row['started_at']}"
        if at - started < delay - timedelta(milliseconds=1):
            yield f"{what} was filled after {(at - started).total_seconds():.3f} s, its delay is {delay}"
        sign = 1.0 if order["side"] == "buy" else -1.0
        if sign * (row["price"] - order["limit"]) > PRICE_SLACK:
            yield f"{what} was filled at {row['price']:.4f}, its limit is {order['limit']:.4f}"
        if order.get("terms", {}).get("type") in RESTING:
            yield from self._waited(what, row, order, started + delay)
            return
        seen = [
            *self.books.get((order["contract"], "pool"), ()),
            *self.books.get((order["contract"], order["leg"]), ()),
        ]
        met = [
            one
            for one in seen
            if max(started + delay, at - READ_BEFORE) - ONE_MOMENT <= one["clock"] <= at + ONE_MOMENT
        ]
        if seen and not met:
            yield f"{what} was filled at {row['at']}, and its market was not read then"
        # Own orders keep their effect on the prices of a market maker, which is judged below.
        is_moved = seen and "prob" in seen[0] and not row["is_first"]
        if met and not is_moved and not any(_is_possible(one, order, sign * row["price"], sign) for one in met):
            yield f"{what} was filled at {row['price']:.4f}, and the market was {met[-1]}"

    def _waited(self, what: str, row: Row, order: Fact, arrived: datetime) -> Iterator[str]:
        """An order that rests is filled at its own price, by trades at that price or beyond it, while it rests."""
        at, ends = parse_timestamp(row["at"]), arrived + timedelta(seconds=order["terms"]["lifetime_s"])
        is_bid = (order["side"] == "buy") == (order["leg"] == "yes")
        own = order["limit"] if order["leg"] == "yes" else 1.0 - order["limit"]
        # Trades have the time of the exchange, and people may have set the clock of Foxcast's machine.
        slack = LONGEST_MOVE if self.clock_moves else SECOND
        met = [
            one["size"]
            for one in self.trades.get(order["contract"], ())
            if arrived - slack <= one["at"] <= min(at, ends) + slack
            and one["buys"] is not is_bid
            and (one["price"] - own) * (1.0 if is_bid else -1.0) <= PRICE_SLACK
        ]
        if abs(row["price"] - order["limit"]) > PRICE_SLACK:
            yield f"{what} rested at {order['limit']:.4f} and was filled at {row['price']:.4f}"
        if row["shares"] > sum(met) + PRICE_SLACK:
            yield f"{what} rested, and trades filled {row['shares']:g} shares of it; {sum(met):g} came to its price"

    def _seen_then(self, contract: str, leg: str, first: datetime, last: datetime) -> list[Fact]:
        """Return what was shown of a market in a time, nothing where an answer around it may have been another."""
        seen = self.books.get((contract, leg), ())
        inside = [one for one in seen if first <= one["clock"] <= last]
        before = [one for one in seen if one["clock"] < first][-1:]
        after = [one for one in seen if one["clock"] > last][:1]
        is_moved = any(abs(moved - last) <= LONGEST_MOVE for moved in self.clock_moves)
        return inside if not is_moved and len({one.get("faults") for one in [*before, *inside, *after]}) == 1 else []

    def _market_maker_fills(self) -> Iterator[str]:
        """An order at a market maker gets what it would give once it has sold the shares that are held already.

        As much of its stake is spent as moves the price to its limit. What rests is filled at its limit, by as much as
        moves the price back there. Nothing is said where others offer shares, or answers are linked.
        """
        held, spent = defaultdict[str, float](float), defaultdict[str, float](float)
        for row in read_rows(self.ledger, _ALL_FILLS):
            order, at = json.loads(row["order_body"]), parse_timestamp(row["at"])
            contract, leg, is_sale = order["contract"], order["leg"], order["side"] == "sell"
            own, before = held[contract], spent[row["id"]]
            held[contract] += row["shares"] * (1.0 if (leg == "yes") is not is_sale else -1.0)
            spent[row["id"]] -= row["cash"]
            seen = self._seen_then(contract, "pool", at - READ_BEFORE, at + ONE_MOMENT)
            # Shares that were paid by an outcome that the venue took back later are no longer held meanwhile.
            if row["ended"] or not seen or not all(one.get("is_alone") for one in seen):
                continue
            if order.get("stake") is None and not is_sale:
                continue
            pools = [pool_with_own(one["pool"], own) for one in seen]
            if is_sale:
                other = "no" if leg == "yes" else "yes"
                wanted = [(row["shares"], row["shares"] - purchase_cost(pool, other, row["shares"])) for pool in pools]
            else:
                left = order["stake"] - before
                wanted = [bounded_purchase(pool, leg, left, order["limit"]) for pool in pools]
                wanted = [(shares, -cost) for shares, cost in wanted]
                if at - parse_timestamp(row["started_at"]) > self._delay(row["venue"]) + AT_ONCE or before:
                    most = [min(left / order["limit"], shares) for shares, _ in wanted]
                    wanted = [(shares, -shares * order["limit"]) for shares in most]
            got = (row["shares"], row["cash"])
            if not any(_is_same_fill(got, one) for one in wanted):
                what = f"{order['side']} {leg} got {got[0]:.4f} for {got[1]:.4f} at {row['at']}"
                near = ", ".join(f"{shares:.4f} for {cash:.4f}" for shares, cash in wanted[-2:])
                yield f"paper: {row['id']} on {row['ref']}: {what}, {own:.4f} held, and by its market {near}"

    def _delay(self, venue: str) -> timedelta:
        tables = [config["venues"][venue].get("paper", {}) for config in self.configs]
        return timedelta(seconds=max(table.get("delay_s", DELAY_S) for table in tables))

    def _book_fills(self) -> Iterator[str]:
        """An order that is matched at once takes the levels of the book within its limit, the best first, with fees.

        What own orders took of a level, of either side, is gone until it shows another size. Where it is not known what
        an earlier one was shown, it may get less.
        """
        parts: dict[str, list[Row]] = defaultdict(list)
        for row in read_rows(self.ledger, _ALL_FILLS):
            parts[row["id"]].append(row)
        known: dict[str, list[TakenLevel] | None] = defaultdict(list)
        for rows in parts.values():
            order, at = json.loads(rows[0]["order_body"]), parse_timestamp(rows[0]["at"])
            contract, side = order["contract"], "asks" if order["side"] == "buy" else "bids"
            if order.get("terms", {}).get("type") in {None, *RESTING}:
                continue
            seen = self._seen_then(contract, order["leg"], at - READ_BEFORE, at + ONE_MOMENT)
            fees = self.contracts.get(contract, {}).get("fees")
            shares, cash = sum(row["shares"] for row in rows), sum(row["cash"] for row in rows)
            books, taken = [one[side] for one in seen if side in one], known[contract]
            left = [without_taken(book, order, taken or ()) for book in books]
            full = [walk_book(book, order, order["shares"], fees) for book in left]
            same = [walk_book(book, order, shares, fees) for book in left]
            is_right = (
                any(_is_same_fill((shares, cash), one) for one in full)
                if taken is not None
                else any(got >= shares - SAME_FILL and cash <= best + CENT for got, best in same)
            )
            if books and not is_right:
                what = f"{order['side']} {order['leg']} got {shares:.4f} for {cash:.4f} at {rows[0]['at']}"
                near = ", ".join(f"{got:.4f} for {best:.4f}" for got, best in (same if taken is None else full)[-2:])
                yield f"paper: {rows[0]['id']} on {rows[0]['ref']}: {what}, and by its book {near}"
            found = taken_levels(rows, order, books)
            known[contract] = None if taken is None or found is None else [*taken, *found]

    def _missed_trades(self) -> Iterator[str]:
        """An order that rested to its end has got all that was traded beyond its price."""
        parts, known = defaultdict[str, float](float), dict[str, Row]()
        for row in read_rows(self.ledger, _ALL_FILLS):
            parts[row["id"]] += row["shares"]
        for row in read_rows(self.ledger, _RESTED):
            known[row["id"]] = row
        for name in sorted({*self.expired} & known.keys()):
            row = known[name]
            order, started = json.loads(row["order_body"]), parse_timestamp(row["started_at"])
            lifetime_s = order.get("terms", {}).get("lifetime_s")
            if not lifetime_s:
                continue
            first = started + self._delay(row["venue"]) + AT_ONCE
            last = started + timedelta(seconds=lifetime_s) - EARLY - ONE_MOMENT
            # A clock that was set is set right within some hours.
            if any(started - LONGEST_SET <= moved <= last + LONGEST_SET for moved in self.clock_moves):
                continue
            is_bid = (order["side"] == "buy") == (order["leg"] == "yes")
            own = order["limit"] if order["leg"] == "yes" else 1.0 - order["limit"]
            beyond = [
                one["size"]
                for one in self.trades.get(order["contract"], ())
                if first <= one["at"] <= last
                and one["buys"] is not is_bid
                and (own - one["price"]) * (1.0 if is_bid else -1.0) > PRICE_SLACK
            ]
            if parts[name] < min(order["shares"], sum(beyond)) - SAME_FILL:
                what = f"rested for {order['shares']:g} shares and got {parts[name]:g}"
                yield f"paper: {name} on {row['ref']} {what}, and {sum(beyond):g} were traded beyond its price"

    def _queue(self) -> Iterator[str]:
        """Trades at the price of an order that rests fill what was there before it first, as far as is set."""
        parts: dict[str, list[Row]] = defaultdict(list)
        for row in read_rows(self.ledger, _ALL_FILLS):
            parts[row["id"]].append(row)
        for rows in parts.values():
            order, started = json.loads(rows[0]["order_body"]), parse_timestamp(rows[0]["started_at"])
            if order.get("terms", {}).get("type") not in RESTING or self._has_moved(started):
                continue
            settings = [config["venues"][rows[0]["venue"]].get("settings", {}) for config in self.configs]
            queues = {table.get("paper_queue", QUEUE) for table in settings}
            arrived, side = started + self._delay(rows[0]["venue"]), "bids" if order["side"] == "buy" else "asks"
            seen = self._seen_then(order["contract"], order["leg"], started, arrived + READ_BEFORE)
            sizes = {dict(rounded_levels(one[side])).get(round(order["limit"], 6), 0.0) for one in seen if side in one}
            if len(queues) != 1 or len(sizes) != 1 or self._has_moved(parse_timestamp(rows[-1]["at"])):
                continue
            got = sum(row["shares"] for row in rows)
            most = self._traded_for(order, started, parse_timestamp(rows[-1]["at"]), queues.pop(), sizes.pop())
            if got > most + SAME_FILL:
                what = f"{rows[0]['id']} on {rows[0]['ref']} rested and got {got:g} by {rows[-1]['at']}"
                yield f"paper: {what}, and behind those before it {most:g}"

    def _traded_for(self, order: Fact, since: datetime, until: datetime, queue: str, ahead: float) -> float:
        """Return the most that trades of others leave for an order with so many shares ahead of it."""
        is_bid = (order["side"] == "buy") == (order["leg"] == "yes")
        own, got = order["limit"] if order["leg"] == "yes" else 1.0 - order["limit"], 0.0
        left = 0.0 if queue == "optimistic" else ahead
        for one in sorted(self.trades.get(order["contract"], ()), key=itemgetter("at")):
            beyond = (own - one["price"]) * (1.0 if is_bid else -1.0)
            if one["buys"] is is_bid or beyond < -PRICE_SLACK or not since - SECOND <= one["at"] <= until + SECOND:
                continue
            if beyond > PRICE_SLACK:
                left, got = 0.0, got + one["size"]
            elif queue != "strict":
                got += max(0.0, one["size"] - left)
                left = max(0.0, left - one["size"])
        return got

    def _has_moved(self, at: datetime) -> bool:
        return any(abs(moved - at) <= LONGEST_MOVE for moved in self.clock_moves)

    def _early_payouts(self) -> Iterator[str]:
        """Shares are paid so long after their outcome as is set."""
        for row in self.payouts:
            venue, _, contract = row["ref"].partition(":")
            ending = self.endings.get((venue, contract))
            name, default = SETTLES[venue]
            waits = min(config["venues"][venue].get("settings", {}).get(name, default) for config in self.configs)
            if ending is None or ending["was_undone"] or ending["since"] is None:
                continue
            waited = (parse_timestamp(row["at"]) - ending["since"]).total_seconds()
            if waited < waits - ONE_MOMENT.total_seconds() and not self._has_moved(parse_timestamp(row["at"])):
                yield f"paper: {row['ref']} was paid {waited:.0f} s after its outcome, {waits:g} s are set"

    # Caps (docs/settings.md), which hold on paper too

    def _caps(self) -> Iterator[str]:
        """No purchase takes what is at stake, or what a day costs, beyond its cap."""
        trades, days = read_rows(self.ledger, _TRADES), defaultdict[tuple[str, str], float](float)
        rows = read_rows(self.ledger, _PURCHASES)
        known = {row["ref"]: row["resolved_at"] for row in rows if row["resolved_at"]}
        for row in rows:
            order, day = json.loads(row["order_body"]), (row["venue"], row["planned_at"][:10])
            days[day] += row["cost"]
            if order["side"] != "buy":
                continue
            stakes = _stakes(row, trades, known)
            own = self.contracts.get(order["contract"], {})
            used = {"per_order": row["cost"], "per_day": days[day], "total": sum(stakes.values()) + row["cost"]}
            for name in ("question", "event", "creator", "category"):
                same = [cost for one, cost in stakes.items() if self.contracts.get(one, {}).get(name) == own.get(name)]
                used[f"per_{name}"] = sum(same) + row["cost"] if own.get(name) else 0.0
            yield from self._beyond_shares(row, used)
            for name, amount in used.items():
                caps = [config["venues"][row["venue"]].get("caps", {}).get(name) for config in self.configs]
                if None not in caps and amount > max(caps) + CENT:
                    what = f"{amount:.2f} is at stake by {name} with {row['id']} of {row['planned_at']}"
                    yield f"paper: {what} on {row['ref']}, {max(caps):g} may be"

    def _beyond_shares(self, row: Row, used: Mapping[str, float]) -> Iterator[str]:
        """Say which shares of the account on paper a purchase exceeds, by its highest value of late."""
        planned = parse_timestamp(row["planned_at"])
        values = [
            one["equity"] for one in read_rows(self.ledger, _VALUES, {**row, "since": format_timestamp(planned - PASS)})
        ]
        for name, default in BANKROLL.items() if values else ():
            share = max(
                config["venues"][row["venue"]].get("bankroll", {}).get(name, default) for config in self.configs
            )
            if share < 1.0 and used[name] > share * max(values) + CENT:
                what = f"{used[name]:.2f} is at stake by bankroll.{name} with {row['id']} of {row['planned_at']}"
                yield f"paper: {what} on {row['ref']}, {share:g} of {max(values):.2f} may be"

    # What accounts on paper hold in the end

    def _accounts(self) -> Iterator[str]:
        """Cash on paper is what the book began with, what fills brought, and what outcomes paid.

        What orders that rest may still cost is no free cash: what they got later was held back before.
        """
        [waiting] = read_rows(self.ledger, _OPEN)
        trades = [] if waiting["count"] else read_rows(self.ledger, _ALL_FILLS)
        for row in [] if waiting["count"] else read_rows(self.ledger, _READINGS):
            cash = self.configs[0]["venues"][row["venue"]].get("paper", {}).get("cash")
            at = parse_timestamp(row["at"])
            if cash is None or any(abs(moved - at) <= LONGEST_MOVE for moved in self.clock_moves):
                continue
            low = high = cash
            for contract, fills in self._fills(row["venue"], row["at"], trades).items():
                came = sum(part for _, _, part in fills)
                more = self._payouts(row["venue"], contract, fills, at)
                low, high = low + came + min(more), high + came + max(more)
            there = f"{row['cash'] + row['reserved']:.4f} on paper at {row['venue']} at {row['at']}"
            if not low - CENT <= row["cash"] + row["reserved"] <= high + CENT:
                yield f"paper: there are {there}, and by fills and outcomes {low:.4f} to {high:.4f}"
            later = [
                one for one in trades if one["venue"] == row["venue"] and one["started_at"] < row["at"] < one["at"]
            ]
            kept = -sum(one["cash"] for one in later if one["cash"] < 0.0)
            if kept > row["reserved"] + CENT:
                yield f"paper: of {there} {row['reserved']:.4f} are reserved, and orders of then cost {kept:.4f} later"

    def _losses(self) -> Iterator[str]:
        """Losses stop an account on paper too: those since midnight, or since its best reading after a resume."""
        rows, resumed = read_rows(self.ledger, _READINGS), read_rows(self.ledger, _RESUMED)
        planned = [(row["planned_at"], row) for row in read_rows(self.ledger, _PURCHASES)]
        bought = [(at, row["venue"], row) for at, row in planned if json.loads(row["order_body"])["side"] == "buy"]
        halted = [(row["at"], row["venue"], row) for row in read_rows(self.ledger, _LOSS_HALTS)]
        for at, venue, row in [*bought, *halted]:
            mine = [one for one in rows if one["venue"] == venue and one["at"] <= at]
            seen = [(one["at"], one["equity"]) for one in mine]
            is_moved = any(abs(moved - parse_timestamp(at)) <= LONGEST_MOVE for moved in self.clock_moves)
            # Older readings are thinned out, also the one by which it was decided.
            is_kept = any(one["until"] >= format_timestamp(parse_timestamp(at) - PASS) for one in mine)
            if len(seen) < LATEST or is_moved or not is_kept:
                continue
            since = max(
                (one["resumed_at"] for one in resumed if one["venue"] in {"", venue} and one["resumed_at"] < at),
                default="",
            )
            for name, begin in (("daily_loss", max(at[:10], since)), ("drawdown", since)):
                caps = [config["venues"][venue].get("caps", {}).get(name) for config in self.configs]
                lost = _lost_since(seen, begin, is_day=name == "daily_loss")
                if "why" in row and f"caps.{name}" in row["why"] and None not in caps and max(lost) < min(caps) - CENT:
                    yield f"paper: {venue} stopped at {at}: {row['why']}, and {max(lost):.2f} can have been lost"
                if "why" not in row and None not in caps and min(lost) > max(caps) + CENT:
                    yield f"paper: {row['id']} of {at} buys, {min(lost):.2f} were lost and {name} is {max(caps):g}"

    def _wrong_marks(self) -> Iterator[str]:
        """Shares on paper are worth what their sale brings once their purchase has moved the market maker.

        That is what they would cost now. Nothing is said of markets with resting orders or linked answers, or that were
        not read, and of marks near a clock that was set.
        """
        for mark in self.marks:
            at = mark["clock"]
            pools = self.books.get((mark["contract"], "pool"), ())
            seen = [one for one in pools if at - MARKED_WITHIN <= one["clock"] <= at + ONE_MOMENT]
            books = self.books.get((mark["contract"], mark["leg"]), ())
            if books:
                yield from self._wrong_bids(mark)
                continue
            is_clear = bool(seen) and all(one["is_alone"] for one in seen) and len({one["faults"] for one in seen}) == 1
            if not is_clear or any(abs(moved - at) <= LONGEST_MOVE for moved in self.clock_moves):
                continue
            costs = [purchase_cost(one["pool"], mark["leg"], mark["shares"]) for one in seen]
            worth = mark["mark"] * mark["shares"]
            if not min(costs) - MARK_SLACK <= worth <= max(costs) + MARK_SLACK:
                what = f"{mark['shares']:.4f} of {mark['leg']} of {mark['contract']} on paper at {at}"
                yield f"paper: {what} are worth {worth:.4f} on record, and by their market {min(costs):.4f}"

    def _wrong_bids(self, mark: Fact) -> Iterator[str]:
        """Shares with an order book are worth the bids for all of them."""
        at = mark["clock"]
        # Shares whose book could not be read keep their price, and so do those without a buyer.
        read = self._seen_then(mark["contract"], mark["leg"], at - READ_BEFORE, at + ONE_MOMENT)
        near = read if all(one.get("bids") and one.get("is_told", True) for one in read) else []
        whole = {"side": "sell", "limit": 0.0}
        worth = [walk_book(one["bids"], whole, mark["shares"], None)[1] for one in near]
        there = mark["mark"] * mark["shares"]
        if near and not any(abs(there - one) <= MARK_SLACK * (1.0 + one) for one in worth):
            what = f"{mark['shares']:.4f} of {mark['leg']} of {mark['contract']} on paper at {at}"
            yield f"paper: {what} are worth {there:.4f} on record, and by their bids {worth[-1]:.4f}"

    def _fills(self, venue: str, at: str, trades: Sequence[Row]) -> Mapping[str, list[tuple[str, float, float]]]:
        found: dict[str, list[tuple[str, float, float]]] = defaultdict(list)
        for row in trades:
            if row["venue"] == venue and row["at"] <= at:
                order = json.loads(row["order_body"])
                found[order["contract"]].append((order["leg"], row["shares"], row["cash"]))
        return found

    def _payouts(
        self, venue: str, contract: str, fills: Sequence[tuple[str, float, float]], at: datetime
    ) -> set[float]:
        """Return what a contract may have brought by then but for its fills: one amount where that is certain."""
        held = {"yes": 0.0, "no": 0.0}
        for leg, shares, cash in fills:
            held[leg] += shares if cash <= 0 else -shares
        # Of pairs each brings 1 at once. If a market is called off, all that it took comes back.
        pairs, refund = min(held.values()), -sum(cash for _, _, cash in fills)
        ending = self.endings.get((venue, contract))
        if ending is None:
            return {pairs}
        is_settled = ending["since"] is not None and at - ending["since"] > PAID_WITHIN
        # What was paid by an outcome that was undone comes back, once another one has settled.
        if ending["was_undone"] and not (is_settled and ending.get("is_final")):
            return {pairs, held["yes"], held["no"], refund}
        yes = ending["yes"]
        paid = refund if yes is None else held["yes"] * yes + held["no"] * (1.0 - yes)
        return {paid} if is_settled else {pairs, paid}


def _lost_since(seen: Sequence[tuple[str, float]], begin: str, *, is_day: bool) -> list[float]:
    """Return what was lost by each of the last readings: since the last one before, or since the best one after."""
    before, after = [value for at, value in seen if at <= begin], [value for at, value in seen if at > begin]
    began = (before[-1:] or after[:1]) if is_day else after
    return [max(0.0, max(began, default=value) - value) for _, value in seen[-LATEST:]]


def _is_same_fill(got: tuple[float, float], wanted: tuple[float, float]) -> bool:
    return all(abs(one - other) <= SAME_FILL * (1.0 + abs(other)) for one, other in zip(got, wanted, strict=True))


def wrong_values(ledger: Path) -> Iterator[str]:
    """Say which account on paper is not worth its cash, what orders reserve, and its shares at their prices."""
    for row in read_rows(ledger, _NEWEST):
        held = json.loads(row["body"]).get("positions", ())
        worth = row["cash"] + sum(one["shares"] * (one.get("mark") or 0.0) for one in held)
        if abs(worth - row["equity"]) > CENT:
            what = f"is worth {row['equity']:.4f} at {row['at']} on record"
            yield f"paper: the account at {row['venue']} {what}, and {worth:.4f} by its cash and shares"


def read_marks(ledger: Path) -> Iterator[dict[str, Any]]:
    """Yield the shares on paper of the newest reading of each account, with the price that each has."""
    for row in read_rows(ledger, _NEWEST):
        for position in json.loads(row["body"]).get("positions", ()):
            if position.get("mark") is not None and not position.get("decided"):
                yield {"venue": row["venue"], "clock": parse_timestamp(row["at"]), **position}


def _stakes(row: Row, trades: Sequence[Row], known: Mapping[str, str]) -> Mapping[str, float]:
    """Return what was paid by then for what is still held of each contract whose outcome was not known."""
    held, paid = defaultdict[tuple[str, str], float](float), defaultdict[tuple[str, str], float](float)
    for one in trades:
        is_other = one["intent"] == row["id"] or one["venue"] != row["venue"] or one["at"] > row["planned_at"]
        if is_other or known.get(one["ref"], "~") <= row["planned_at"]:
            continue
        place, part = (one["contract"], one["leg"]), 0.0
        if one["cash"] > 0 and held[place]:
            part = min(1.0, one["shares"] / held[place])
        held[place] += one["shares"] if one["cash"] <= 0 else -one["shares"]
        paid[place] += -one["cash"] if one["cash"] <= 0 else -part * paid[place]
    stakes: dict[str, float] = defaultdict(float)
    for (contract, _), amount in paid.items():
        stakes[contract] += amount
    return stakes


def _is_possible(seen: Fact, order: Fact, signed: float, sign: float) -> bool:
    """Say whether the average price of a first fill is no better than the best one that was shown."""
    if "prob" in seen:
        best = seen["prob"] if order["leg"] == "yes" else 1.0 - seen["prob"]
        return bool(signed >= sign * best - PRICE_SLACK)
    best = seen["ask"] if sign > 0 else seen["bid"]
    return best is not None and signed >= sign * best - PRICE_SLACK
