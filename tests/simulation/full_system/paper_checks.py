"""What orders on paper had to bring: when they meet the market, at which prices of the doubles, and what is paid out.

By docs/venues.md and docs/facts/polymarket.md ("Paper fills"), docs/facts/manifold.md ("Paper fills", "Resolution").
Nothing of the engine is used, and nothing of its paper books but the readings of their accounts.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from bot.store.serialization import parse_timestamp
from tests.ledger_checks import Row, read_rows
from tests.simulation.full_system.account_values import purchase_cost

Fact = Mapping[str, Any]
# The seconds after which an order on paper meets the market, where nobody set them.
DELAY_S = 2.0
ONE_MOMENT, LONGEST_MOVE = timedelta(seconds=2), timedelta(hours=1)
# The market that an order meets is read within so long before the fill.
READ_BEFORE = timedelta(seconds=90)
PRICE_SLACK, CENT, MARK_SLACK = 1e-6, 0.01, 1e-4
# A mark is used again for five minutes.
MARKED_WITHIN = timedelta(seconds=330)
# Outcomes are paid after a delay, by a job that was killed once at most.
PAID_WITHIN = timedelta(hours=30)
# Of so many orders some find their market closed, unread or too dear, but no more than such a share.
ENOUGH, MOST_REFUSED = 5, 0.75
# Orders of these types wait at their own price for what others want; lists of trades have whole seconds.
RESTING, SECOND = ("GTC", "GTD"), timedelta(seconds=1)
# Where more amounts are possible nothing is said.
UNCERTAIN = 256
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
_FILLS = """
select i.venue, json_extract(i.order_body, '$.contract') as contract, json_extract(i.order_body, '$.leg') as leg,
  f.shares, f.cash from fill f join intent i on i.id = f.intent where i.mode = 'paper' and f.at <= :at
order by f.at, i.seq
"""
_READINGS = (
    "select venue, max(at, until) as at, cash + reserved as cash from account_reading where paper = 1 order by id"
)
_NEWEST = "select venue, max(at, until) as at, body from account_reading where paper = 1 and body <> ''"
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
_OPEN = "select count(*) as count from intent where mode = 'paper' and state not in ('acked', 'refused', 'superseded')"


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperChecks:
    """Judges the paper orders of one ledger; ``configs`` are the tables of the configuration, first to last.

    ``books`` are the prices that the doubles showed, ``trades`` those of others at the exchange, by contract,
    ``endings`` what each contract pays, by venue and contract, ``contracts`` what each is counted with by caps,
    and ``marks`` what the ledger held shares to be worth as each life ended.
    """

    ledger: Path
    configs: Sequence[Fact]
    books: Mapping[tuple[str, str], Sequence[Fact]]
    endings: Mapping[tuple[str, str], Fact]
    trades: Mapping[str, Sequence[Fact]] = field(default_factory=dict)
    contracts: Mapping[str, Fact] = field(default_factory=dict)
    marks: Sequence[Fact] = ()
    clock_moves: Sequence[datetime] = ()

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
        yield from self._caps()
        yield from self._accounts()
        yield from self._wrong_marks()

    def _first_fill(self, row: Row, order: Fact) -> Iterator[str]:
        """An order meets the market after its delay, as the market is then, within its limit."""
        tables = [config["venues"][row["venue"]].get("paper", {}) for config in self.configs]
        delay = timedelta(seconds=min(table.get("delay_s", DELAY_S) for table in tables))
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
        # Own orders keep their effect on the prices of a market maker.
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
            for name, amount in used.items():
                caps = [config["venues"][row["venue"]].get("caps", {}).get(name) for config in self.configs]
                if None not in caps and amount > max(caps) + CENT:
                    what = f"{amount:.2f} is at stake by {name} with {row['id']} of {row['planned_at']}"
                    yield f"paper: {what} on {row['ref']}, {max(caps):g} may be"

    # What accounts on paper hold in the end

    def _accounts(self) -> Iterator[str]:
        """Cash on paper is what the book began with, what fills brought, and what outcomes paid."""
        [waiting] = read_rows(self.ledger, _OPEN)
        last = {row["venue"]: row for row in read_rows(self.ledger, _READINGS)}
        for venue, row in last.items():
            table = self.configs[0]["venues"][venue]
            cash = table.get("paper", {}).get("cash")
            if cash is None or waiting["count"]:
                continue
            at = parse_timestamp(row["at"])
            sums = {round(cash, 4)}
            for contract, fills in self._fills(venue, row["at"]).items():
                came = sum(part for _, _, part in fills)
                sums = {
                    round(one + came + more, 4) for one in sums for more in self._payouts(venue, contract, fills, at)
                }
                if len(sums) > UNCERTAIN:
                    break
            if len(sums) <= UNCERTAIN and min(abs(one - row["cash"]) for one in sums) > CENT:
                what = f"{row['cash']:.4f} on paper at {venue} at {row['at']}"
                yield f"paper: there are {what}, and by fills and outcomes {sorted(sums)[:4]}"

    def _wrong_marks(self) -> Iterator[str]:
        """Shares on paper are worth what their sale brings once their purchase has moved the market maker.

        That is what they would cost now. Nothing is said of markets with resting orders or linked answers, or that were
        not read, and of marks near a clock that was set.
        """
        for mark in self.marks:
            at = mark["clock"]
            pools = self.books.get((mark["contract"], "pool"), ())
            seen = [one for one in pools if at - MARKED_WITHIN <= one["clock"] <= at + ONE_MOMENT]
            is_clear = bool(seen) and all(one["is_alone"] for one in seen) and len({one["faults"] for one in seen}) == 1
            if not is_clear or any(abs(moved - at) <= LONGEST_MOVE for moved in self.clock_moves):
                continue
            costs = [purchase_cost(one["pool"], mark["leg"], mark["shares"]) for one in seen]
            worth = mark["mark"] * mark["shares"]
            if not min(costs) - MARK_SLACK <= worth <= max(costs) + MARK_SLACK:
                what = f"{mark['shares']:.4f} of {mark['leg']} of {mark['contract']} on paper at {at}"
                yield f"paper: {what} are worth {worth:.4f} on record, and by their market {min(costs):.4f}"

    def _fills(self, venue: str, at: str) -> Mapping[str, list[tuple[str, float, float]]]:
        found: dict[str, list[tuple[str, float, float]]] = defaultdict(list)
        for row in read_rows(self.ledger, _FILLS, {"at": at}):
            if row["venue"] == venue:
                found[row["contract"]].append((row["leg"], row["shares"], row["cash"]))
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
        if ending["was_undone"]:
            return {pairs, held["yes"], held["no"], refund}
        yes = ending["yes"]
        paid = refund if yes is None else held["yes"] * yes + held["no"] * (1.0 - yes)
        return {paid} if at - ending["since"] > PAID_WITHIN else {pairs, paid}


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
