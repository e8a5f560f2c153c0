"""Orders that are smaller than they should be, and those that were not made: what a pass had to buy at least.

By docs/settings.md ("caps", "trading", "bankroll") and docs/facts/manifold.md ("sizing"): the stake is the share of the
Kelly stake, less where a cap, a share of the account, an arm record, the cash or the market bounds it. What each of
these leaves is counted here at its least, from what is on record of other orders; where nothing explains that less was
bought, or a reason to buy nothing counts more at stake than there is, that is a violation.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from bot.store.serialization import format_timestamp, parse_timestamp
from tests.ledger_checks import Row, read_rows
from tests.simulation.full_system.omission_checks import JobPass
from tests.simulation.full_system.sizing_checks import (
    KELLY,
    ONE_MOMENT,
    PASS,
    PLANNED,
    STEP,
    WITH_BOOKS,
    SizingChecks,
    kelly_at_pool,
    purchase,
    unit_cost,
)

Fact = Mapping[str, Any]
# The largest shares of the value of an account where nobody set them, and the least gain of a share.
SHARES: Mapping[str, float] = {"per_pass": 0.1, "per_question": 0.05, "per_event": 0.1, "per_day": 0.25, "total": 0.75}
EDGE, BAND = 0.03, (0.03, 0.97)
# By how much less may be bought than is counted here, and by how much more may be counted as at stake: cents, and the
# figures of a market that moved a little.
LESS, ROUNDED = 0.03, 0.06
# By so much of its price a share may cost more with its fee: rate times the chance of the other side.
MOST_FEE = 0.07
# Figures of reasons have three places; and by so much more than a sale brings a share may be worth.
TEXT, LOWEST = 1.1e-3, 2e-3
# An order that rests may turn out to have cost less within so long.
RESTS = timedelta(hours=8)
# A hold of these kinds is decided again after so long.
HOUR, COOLDOWN_H = timedelta(hours=1, seconds=5), 168.0
AGAIN, MARKET_AGAIN = timedelta(minutes=10), timedelta(hours=1)
_ORDERS = """
select i.id, i.seq, i.ref, i.venue, i.account, i.mode, i.mode = 'paper' as paper, i.state, i.planned_at, i.changed_at,
  i.cost, i.order_body, i.predictions, i.event, i.creator, i.category,
  (select f.made_at from forecast f where f.id = i.forecast) as made_at,
  -- What was taken back may be at stake again.
  (select case count(*) when 1 then min(r.seen_at) end from resolution r where r.ref = i.ref) as resolved_at
from intent i where i.action = 'order' order by i.seq
"""
# The venue says when a fill was; it is known once the venue was asked.
_FILLS = """
select f.intent, f.at, f.shares, f.cash,
  max(f.at, coalesce((select max(a.settled_at) from attempt a where a.intent = i.id), f.at)) as known_at
from fill f join intent i on i.id = f.intent order by f.at, i.seq, f.reference
"""
_HOLDS = """
select d.at, d.until, d.why, f.ref, q.venue, f.made_at, p.probability from decision d
join forecast f on f.id = d.forecast join question q on q.ref = f.ref
left join prediction p on p.forecast = f.id
where d.verdict = 'hold'
"""
_READINGS = """
select cash, equity from account_reading
where venue = :venue and account = :account and paper = :paper and at <= :planned_at and max(at, until) >= :since
"""
_UNDER_WAY = """
select total(max(i.cost, json_extract(i.order_body, '$.cost'))) as cost from intent i
where i.venue = :venue and i.account = :account and (i.mode = 'paper') = :paper and i.id <> :id
  and i.planned_at <= :planned_at and i.changed_at >= :since and json_extract(i.order_body, '$.side') = 'buy'
"""
# Attempts of an hour, and what waits to be sent in it.
_SENT = """
select (select count(*) from attempt a join intent i on i.id = a.intent
    where i.venue = :venue and i.action <> 'comment' and a.started_at > :since and a.started_at <= :at)
  + (select count(*) from intent i where i.venue = :venue and i.action <> 'comment' and i.planned_at > :since
    and i.planned_at <= :at and not exists (
      select 1 from attempt a where a.intent = i.id and a.state <> 'absent' and a.started_at <= :at)) as count
"""
_CLOSINGS = """
select count(*) as count from intent i
where i.ref = :ref and json_extract(i.order_body, '$.closing') <> '' and i.planned_at like :at
"""
_ASKED = "select asked_at, venue from approval"
# What a cap counts together, and what an arm record bounds.
_GROUPS = {"per_question": "ref", "per_event": "event", "per_creator": "creator", "per_category": "category"}
_ARM = ("per_order", "per_day", "total")
# Holds of forecasts that no order was meant for when their pass began; others may have counted for those of the pass.
_NOT_MEANT = (
    "recorded only",
    "no order",
    "nothing may be bought: caps",
    "nothing may be bought: bankroll",
    "nothing may be bought: the arm",
    "the window closed",
    "the question changed",
    "superseded",
    "its order was sent",
)
WITH_LESS = "may be spent, less than the minimum"
# "caps.per_day = 40 leaves 0.30, 39.70 is at stake", and the same of a share of the account or an arm record.
_BOUND = re.compile(
    r"(caps|bankroll|the arm record's)[. ]([\w-]+)(?: = | )([\d.e+-]+).*?leaves ([\d.]+), ([\d.]+) is at"
)
_DEAR = re.compile(
    r"no order: (?P<leg>yes|no) costs (?P<cost>[\d.]+) with fees and is worth (?P<worth>[\d.]+) by the belief: "
    r"a gain of less than (?P<edge>[\d.]+)"
)
_OUTSIDE = re.compile(r"no order: (?P<leg>yes|no) is (?:offered )?at (?P<price>[\d.]+), outside the band")
_CHEAP = re.compile(
    r"no order: [\d.]+ (?P<leg>yes|no) are held, but selling brings less than their worth of (?P<worth>[\d.]+)"
)
_SPENDABLE = re.compile(r"no order: (?:only )?(?P<amount>[\d.]+) may be spent, less than the minimum")
_HOURLY = re.compile(r"caps.orders_per_hour = (?P<cap>\d+): (?P<count>\d+) in the last hour")
_CLOSED = re.compile(r"a position in it was closed at (?P<at>[\d-]+ [\d:]+) UTC.*cooldown_h = (?P<pause>[\d.e+]+)")
_ENOUGH = re.compile("no order: the held shares are enough for a belief")
_NEAR = re.compile(r"the belief ([\d.]+) is within ([\d.]+) of the market's ([\d.]+)")


@dataclass(frozen=True, kw_only=True)
class ShortfallChecks:
    """Judges the purchases and holds of one ledger, with what ``sizing`` knows of it; ``acts`` are those of people."""

    sizing: SizingChecks
    acts: Sequence[Fact]
    passes: Sequence[JobPass]

    def violations(self) -> Iterator[str]:
        """Say which purchase is too small, and which reason to buy nothing is wrong."""
        for row in self._orders:
            order = json.loads(row["order_body"])
            is_moved = self.sizing.has_clock_moved(parse_timestamp(row["planned_at"]))
            # What a person is asked about counts for the others of its pass, too.
            if order["side"] == "buy" and row["mode"] != "approve" and not is_moved:
                yield from self._shortfall(row, order)
        yield from self._beyond_pass()
        for row in self._holds:
            if row["until"] is not None and not self.sizing.has_clock_moved(parse_timestamp(row["until"])):
                yield from self._overcounted(row)
                yield from self._not_near(row)
                yield from self._untrue_price(row)

    @cached_property
    def _orders(self) -> list[Row]:
        return read_rows(self.sizing.ledger, _ORDERS)

    @cached_property
    def _holds(self) -> list[Row]:
        return read_rows(self.sizing.ledger, _HOLDS)

    @cached_property
    def _asked(self) -> list[Row]:
        return read_rows(self.sizing.ledger, _ASKED)

    @cached_property
    def _fills(self) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = defaultdict(list)
        for row in read_rows(self.sizing.ledger, _FILLS):
            found[row["intent"]].append(row)
        return found

    def _arms(self, venue: str, name: str) -> list[float]:
        return [act[name] for act in self.acts if act["kind"] == "arm" and act["venue"] == venue and act.get(name)]

    # What is at stake, at most

    def _at_stake(self, row: Row, at: datetime, name: str, but: Collection[str] = ()) -> float:
        """Return what counts for a cap at most: what orders of its group cost, less the cost of what was sold again."""
        same = [
            one
            for one in self._orders
            if (one["venue"], one["paper"]) == (row["venue"], row["paper"])
            and one["id"] not in but
            and parse_timestamp(one["planned_at"]) <= at
            and one["state"] != "refused"
            and (one["state"] != "superseded" or parse_timestamp(one["changed_at"]) >= at - PASS)
        ]
        if name in {"per_day", "armed"}:
            first = format_timestamp(at)[:10]
            if name == "armed":
                arms = [act["clock"] for act in self.acts if act["kind"] == "arm" and act["venue"] == row["venue"]]
                first = format_timestamp(
                    max([one for one in arms if one <= at - PASS], default=at - timedelta(days=99))
                )
            elif format_timestamp(at - AGAIN)[:10] != first:
                first = format_timestamp(at - AGAIN)[:10]
            return sum(self._cost(one, at) for one in same if one["planned_at"] >= first)
        column = _GROUPS.get(name)
        if column is not None:
            same = [one for one in same if one[column] and one[column] == row[column]]
        same = [one for one in same if not one["resolved_at"] or parse_timestamp(one["resolved_at"]) > at - PASS]
        return sum(self._cost(one, at) for one in same) - self._returned(same, at)

    def _cost(self, one: Row, at: datetime) -> float:
        planned = json.loads(one["order_body"])["cost"] if parse_timestamp(one["planned_at"]) > at - RESTS else 0.0
        return float(max(one["cost"], planned))

    def _returned(self, orders: Sequence[Row], at: datetime) -> float:
        """Return what the shares had cost that were sold again."""
        held, paid = defaultdict[tuple[str, str], float](float), defaultdict[tuple[str, str], float](float)
        returned = 0.0
        trades = [(fill, json.loads(one["order_body"])) for one in orders for fill in self._fills[one["id"]]]
        for fill, order in sorted(trades, key=lambda trade: trade[0]["at"]):
            if parse_timestamp(fill["known_at"]) > at - PASS:
                continue
            place = (order["contract"], order["leg"])
            if fill["cash"] <= 0:
                held[place] += fill["shares"]
                paid[place] -= fill["cash"]
            elif held[place] > 0:
                part = min(1.0, fill["shares"] / held[place])
                returned += part * paid[place]
                held[place] -= part * held[place]
                paid[place] -= part * paid[place]
        return returned

    # Purchases

    def _shortfall(self, row: Row, order: Fact) -> Iterator[str]:
        """A purchase is as large as it may be with the others of its pass, and with what is held of the same side."""
        planned = parse_timestamp(row["planned_at"])
        group = self._list_group(row, planned)
        held = self.sizing.held_alone(row, order)
        if group is None or "/" in order["contract"] or held is None:
            return
        has_book = row["venue"] in WITH_BOOKS
        values = {**row, "since": format_timestamp(planned - PASS)}
        readings = read_rows(self.sizing.ledger, _READINGS, values)
        pools = [] if has_book else self.sizing.pools(row, order)
        if not readings or not (pools or has_book):
            return
        [air] = read_rows(self.sizing.ledger, _UNDER_WAY, values)
        others = sum(json.loads(one["order_body"])["cost"] for one in group if one["id"] != row["id"])
        cash = min(one["cash"] for one in readings) - air["cost"]
        own, shared = self._bounds(row, planned, min(one["equity"] for one in readings), {one["id"] for one in group})
        shared["cash"] = cash
        markets = (
            self._book_bounds(row, order, cash - others)
            if has_book
            else [self._market_bound(row, order, pool, cash - others, held) for pool in pools]
        )
        if not markets:
            return
        own["market"] = min(markets)
        cost = json.loads(row["order_body"])["cost"]
        least = min([*own.values(), *(one - others for one in shared.values())])
        # Lots are whole shares at most, and what a fee may come to is more than what it does. What others of the pass
        # lose by rounding goes to nobody.
        limits = [json.loads(one["order_body"])["limit"] for one in group if has_book]
        lots = sum(limits) * (1.0 + MOST_FEE)
        if cost < least * (1.0 - LESS) / (1.0 + MOST_FEE * has_book) - ROUNDED - lots:
            by_size = sorted({**own, **shared}.items(), key=lambda item: item[1])
            known = ", ".join(f"{one} {value:.2f}" for one, value in by_size[:4])
            what = f"{row['id']} of {row['planned_at']} costs {cost:.2f} on {row['ref']}, with {others:.2f} of others"
            yield f"orders: {what}, and nothing bounds it so: {known}"

    def _list_group(self, row: Row, planned: datetime) -> list[Row] | None:
        """Return the purchases of the pass of one, None where others were meant that are not among them."""
        ended = [one for one in self.passes if one.job == "submit" and one.started_at <= planned <= one.ended_at]
        if len(ended) != 1:
            return None
        first, last = ended[0].started_at, ended[0].ended_at + ONE_MOMENT

        def is_in(text: str) -> bool:
            return first <= parse_timestamp(text) <= last

        near = [
            one
            for one in self._orders
            if (one["venue"], one["paper"]) == (row["venue"], row["paper"]) and is_in(one["planned_at"])
        ]
        is_unclear = any(
            one["state"] == "superseded" or (one["event"] and one["event"] == row["event"] and one["id"] != row["id"])
            for one in near
        )
        # One that was sized with the others may get less than the venue takes.
        held = [
            one
            for one in self._holds
            if one["venue"] == row["venue"] and (WITH_LESS in one["why"] or not one["why"].startswith(_NOT_MEANT))
        ]
        is_unclear |= any(is_in(one["at"]) or _was_decided(one, first, last) for one in held)
        is_unclear |= any(is_in(one["asked_at"]) for one in self._asked if one["venue"] == row["venue"])
        return None if is_unclear else near

    def _bounds(
        self, row: Row, planned: datetime, equity: float, group: Collection[str]
    ) -> tuple[dict[str, float], dict[str, float]]:
        """Return what each cap leaves at least, of a purchase and of all of its pass together."""
        own: dict[str, float] = {}
        shared: dict[str, float] = {}
        for name in ("per_order", "per_question", "per_event", "per_creator", "per_category", "per_day", "total"):
            if name in _GROUPS and not row[_GROUPS[name]]:
                continue
            found = own if name in {"per_order", "per_question", "per_event"} else shared
            used = 0.0 if name == "per_order" else self._at_stake(row, planned, name, group)
            caps = [cap for cap in self.sizing.settings(row["venue"], "caps", name, None) if cap is not None]
            if caps:
                found[f"caps.{name}"] = min(caps) - used
            share = min(self.sizing.settings(row["venue"], "bankroll", name, SHARES.get(name, 1.0)))
            if name in SHARES and share < 1.0:
                found[f"bankroll.{name}"] = share * equity - used
            if not row["paper"] and name in _ARM and (arms := self._arms(row["venue"], name)):
                used = self._at_stake(row, planned, "armed", group) if name == "total" else used
                found[f"arm {name}"] = min(arms) - used
        share = min(self.sizing.settings(row["venue"], "bankroll", "per_pass", SHARES["per_pass"]))
        shared["bankroll.per_pass"] = share * equity
        return own, shared

    def _market_bound(self, row: Row, order: Fact, pool: tuple[float, float, float], cash: float, held: float) -> float:
        """Return the share of the Kelly stake, as far as shares gain enough and the price stays within the belief."""
        fee = order.get("fees", 0.0) / order["shares"]
        worth, share = (
            order["expected"] + order["edge"] + fee,
            min(self.sizing.settings(row["venue"], "trading", "kelly", KELLY)),
        )
        edge = max(self.sizing.settings(row["venue"], "trading", "edge", EDGE))
        kelly = kelly_at_pool(pool, order["leg"], worth, cash, held, share)
        low, high = 0.0, max(kelly, 0.0)
        for _ in range(40):
            stake = (low + high) / 2.0
            shares, price = purchase(pool, order["leg"], stake)
            fits = price < worth - STEP and (
                not shares or worth - stake * unit_cost(order) / order["expected"] / shares > edge
            )
            low, high = (stake, high) if fits else (low, stake)
        return low

    def _book_bounds(self, row: Row, order: Fact, cash: float) -> list[float]:
        """Return what the shares that are wanted on each book cost at their own price, at least.

        Nothing where an order would be for fewer shares, or less money, than the venue takes.
        """
        sizes = self.sizing.book_sizes(row, order, cash, most=False)
        return [shares * min(price, order["expected"]) for price, shares in sizes]

    def _beyond_pass(self) -> Iterator[str]:
        """All that a pass buys is within its share of the account; bets on one event count as one, as far as is set."""
        for one in [one for one in self.passes if one.job == "submit"]:
            first, last = format_timestamp(one.started_at), format_timestamp(one.ended_at)
            rows = [row for row in self._orders if first <= row["planned_at"] <= last]
            bought = [row for row in rows if json.loads(row["order_body"])["side"] == "buy"]
            for venue, paper in sorted({(row["venue"], row["paper"]) for row in bought}):
                group = [row for row in bought if (row["venue"], row["paper"]) == (venue, paper)]
                if not self.sizing.has_clock_moved(one.started_at) and group:
                    yield from self._pass_share(group, one)
                    yield from self._event_shares(group, one)

    def _pass_share(self, group: Sequence[Row], one: JobPass) -> Iterator[str]:
        since = {"since": format_timestamp(one.started_at - ONE_MOMENT), "planned_at": format_timestamp(one.ended_at)}
        readings = read_rows(self.sizing.ledger, _READINGS, {**group[0], **since})
        share = max(self.sizing.settings(group[0]["venue"], "bankroll", "per_pass", SHARES["per_pass"]))
        cost = sum(json.loads(row["order_body"])["cost"] for row in group if row["state"] != "superseded")
        most = max((reading["equity"] for reading in readings), default=0.0) * share
        if readings and share < 1.0 and cost > most + ROUNDED:
            what = f"costs {cost:.2f} at {group[0]['venue']}, {share:g} of the account are {most:.2f}"
            yield f"orders: the pass of {one.started_at} {what}"

    def _event_shares(self, group: Sequence[Row], one: JobPass) -> Iterator[str]:
        """With shares s of n bets on one event each is divided by 1 + (n - 1) c, n being their sum by the largest."""
        correlation = min(self.sizing.settings(group[0]["venue"], "bankroll", "correlation", 1.0))
        for event in sorted({row["event"] for row in group} - {"", None}):
            rows = [row for row in group if row["event"] == event and row["state"] != "superseded"]
            # What was forecast in the course of the pass is decided on after the others.
            rows = [row for row in rows if (row["made_at"] or "") < format_timestamp(one.started_at)]
            alone = [self._most_alone(row) for row in rows]
            known = [stake for stake in alone if stake is not None]
            if len(rows) < 2 or len(known) < len(rows) or not any(known):
                continue
            # Others may have been meant that came to nothing, which makes less of each.
            most = sum(known) / (1.0 + (sum(known) / max(known) - 1.0) * correlation)
            cost = sum(json.loads(row["order_body"])["cost"] for row in rows)
            if cost > most * (1.0 + LESS) + ROUNDED:
                what = f"puts {cost:.2f} on {len(rows)} questions of {event}, each alone may get {max(known):.2f}"
                yield f"orders: the pass of {one.started_at} {what}, together {most:.2f}"

    def _most_alone(self, row: Row) -> float | None:
        """Return what an order may cost alone at most, None if that is not known."""
        planned, order = parse_timestamp(row["planned_at"]), json.loads(row["order_body"])
        readings = read_rows(self.sizing.ledger, _READINGS, {**row, "since": format_timestamp(planned - PASS)})
        cash = max((one["cash"] for one in readings), default=0.0)
        most = self.sizing.kelly_stake(row, order, cash)
        caps = [cap for cap in self.sizing.settings(row["venue"], "caps", "per_order", None) if cap is not None]
        fees = 1.0 + MOST_FEE * (row["venue"] in WITH_BOOKS)
        return None if most is None or not readings else min([most * fees, *(caps[:1] if len(caps) == 1 else [])])

    # Reasons to buy nothing

    def _overcounted(self, hold: Row) -> Iterator[str]:
        """A cap that leaves too little counts no more at stake than there is, and is the one that is set."""
        found = _BOUND.search(hold["why"])
        if found is None:
            return
        table, name, cap, _, used = found.groups()
        name = "armed" if (table, name) == ("the arm record's", "total") else name.replace("-", "_")
        at = parse_timestamp(hold["until"])
        group = next((one for one in reversed(self._orders) if one["ref"] == hold["ref"]), None)
        if group is None:
            papers = [one["paper"] for one in self._orders if one["venue"] == hold["venue"]]
            nothing = dict.fromkeys(("event", "creator", "category"), "")
            group = {"venue": hold["venue"], "ref": hold["ref"], "paper": max(papers, default=0), **nothing}
        if name in _GROUPS and not group[_GROUPS[name]]:
            return
        most = self._at_stake(group, at, name)
        if name != "per_pass" and float(used) > most * 1.001 + ROUNDED:
            yield f"orders: {hold['ref']} was not bought by {at}: {hold['why']}, and {most:.2f} was at stake"
        caps = self.sizing.settings(hold["venue"], table, name, SHARES.get(name))
        if table in {"caps", "bankroll"} and not any(one is not None and abs(one - float(cap)) < 1e-3 for one in caps):
            yield f"orders: {hold['ref']} was not bought by {at}: {hold['why']}, and {name} is {caps}"

    def _not_near(self, hold: Row) -> Iterator[str]:
        """What is too near to the market's price to be bought is, by the least edge that is set."""
        found = _NEAR.search(hold["why"])
        if found is None:
            return
        belief, edge, price = map(float, found.groups())
        edges = self.sizing.settings(hold["venue"], "trading", "edge", EDGE)
        shrinks = self.sizing.settings(hold["venue"], "trading", "shrink", 0.0)
        if abs(belief - price) > edge + 2e-3 or min(abs(edge - one) for one in edges) > 1e-3:
            yield f"orders: {hold['ref']} was not bought: {hold['why']}, trading.edge is {edges}"
        own = hold["probability"]
        if not any(shrinks) and own is not None and "/" not in hold["ref"] and abs(own - belief) > 2e-3:
            yield f"orders: {hold['ref']} was not bought: {hold['why']}, and its forecast says {own:.4f}"

    def _untrue_price(self, hold: Row) -> Iterator[str]:
        """What is too dear, outside the band, or sold too cheaply was so in a market that was shown then.

        Only questions with one market are judged, whose key is that of their market.
        """
        contract, at = hold["ref"].partition(":")[2], _decided_at(hold)
        if at is None:
            return
        near = {
            leg: [
                one
                for one in self.sizing.books.get((contract, leg), ())
                if at - PLANNED <= one["clock"] <= at + ONE_MOMENT
            ]
            for leg in ("yes", "no", "pool")
        }
        for words, judge in ((_DEAR, self._is_dear), (_OUTSIDE, self._is_outside), (_CHEAP, self._is_cheap)):
            found = words.search(hold["why"])
            seen = [] if found is None else near["pool"] or near[found["leg"]]
            if found is not None and seen and not any(judge(hold, found, one) for one in seen):
                yield f"orders: {hold['ref']} was not traded: {hold['why']}, and its market was {_describe(seen[-1])}"
        yield from self._unspendable(hold, at)
        yield from self._uncounted(hold, at)
        if _ENOUGH.search(hold["why"]) and not self._has_bought(hold, at):
            yield f"orders: {hold['ref']} was not bought: {hold['why']}, and nothing was held"

    def _unspendable(self, hold: Row, at: datetime) -> Iterator[str]:
        """No less may be spent than cash, caps, shares of the account and the arm record leave, less its pass."""
        found = _SPENDABLE.search(hold["why"])
        same = [one for one in self._orders if one["venue"] == hold["venue"]]
        groups = self.sizing.contracts.get(hold["ref"].partition(":")[2])
        if found is None or not same or groups is None or any(one["mode"] == "approve" for one in same):
            return
        row = {**same[-1], **groups, "ref": hold["ref"], "id": "", "planned_at": format_timestamp(at)}
        readings = read_rows(self.sizing.ledger, _READINGS, {**row, "since": format_timestamp(at - PASS)})
        near = [one for one in same if abs(parse_timestamp(one["planned_at"]) - at) <= PASS]
        if not readings or any(one["paper"] != row["paper"] for one in same):
            return
        [air] = read_rows(self.sizing.ledger, _UNDER_WAY, {**row, "since": format_timestamp(at - PASS)})
        own, shared = self._bounds(row, at, min(one["equity"] for one in readings), ())
        cash = min(one["cash"] for one in readings) - air["cost"]
        least = min(*own.values(), *shared.values(), cash) - sum(json.loads(one["order_body"])["cost"] for one in near)
        if float(found["amount"]) < least * (1.0 - LESS) - ROUNDED:
            yield f"orders: {hold['ref']} was not bought: {hold['why']}, and {least:.2f} could be spent"

    def _uncounted(self, hold: Row, at: datetime) -> Iterator[str]:
        """So many orders were sent in the hour, and a position was closed when a reason says so."""
        if (found := _HOURLY.search(hold["why"])) is not None:
            values = {"venue": hold["venue"], "since": format_timestamp(at - HOUR), "at": format_timestamp(at + PASS)}
            [sent] = read_rows(self.sizing.ledger, _SENT, values)
            set_caps = self.sizing.settings(hold["venue"], "caps", "orders_per_hour", None)
            if int(found["count"]) > sent["count"] or int(found["cap"]) not in set_caps:
                yield f"orders: {hold['ref']} was held: {hold['why']}, {sent['count']} were sent and {set_caps} may be"
        if (found := _CLOSED.search(hold["why"])) is not None:
            values = {"ref": hold["ref"], "at": found["at"].replace(" ", "T") + "%"}
            [closed] = read_rows(self.sizing.ledger, _CLOSINGS, values)
            pauses = self.sizing.settings(hold["venue"], "trading", "cooldown_h", COOLDOWN_H)
            if not closed["count"] or not any(abs(float(found["pause"]) - one) < TEXT for one in pauses):
                why = f"{closed['count']} sales closed one, and the pause is {pauses}"
                yield f"orders: {hold['ref']} was held: {hold['why']}, {why}"

    def _is_dear(self, hold: Row, found: re.Match[str], seen: Fact) -> bool:
        """A share costs so much with its fee, and gains less than the least edge."""
        cost, worth, edge = (float(found[name]) for name in ("cost", "worth", "edge"))
        edges = self.sizing.settings(hold["venue"], "trading", "edge", EDGE)
        shrinks = self.sizing.settings(hold["venue"], "trading", "shrink", 0.0)
        own = hold["probability"]
        believed = own is None or any(shrinks) or abs((own if found["leg"] == "yes" else 1.0 - own) - worth) < TEXT
        ask = seen.get("ask")
        order = {"contract": hold["ref"].partition(":")[2]}
        return bool(
            ask is not None
            and abs(ask + self.sizing.fee(order, ask) - cost) < TEXT
            and worth - cost < edge + TEXT
            and any(abs(one - edge) < TEXT for one in edges)
            and believed
        )

    def _is_outside(self, hold: Row, found: re.Match[str], seen: Fact) -> bool:
        """The price of a share is that, and is beyond the band."""
        price, bands = float(found["price"]), self.sizing.settings(hold["venue"], "trading", "band", BAND)
        shown = seen.get("ask") if "prob" not in seen else seen["prob"] if found["leg"] == "yes" else 1 - seen["prob"]
        is_beyond = any(
            not low - TEXT < price < high + TEXT or not low <= shown <= high for low, high in bands if shown
        )
        return shown is not None and abs(shown - price) < TEXT and is_beyond

    def _is_cheap(self, hold: Row, found: re.Match[str], seen: Fact) -> bool:
        """The best that somebody offers for a share, less its fee, is below its worth."""
        worth, bid = float(found["worth"]), seen.get("bid")
        if "prob" in seen:
            bid = seen["prob"] if found["leg"] == "yes" else 1.0 - seen["prob"]
        order = {"contract": hold["ref"].partition(":")[2]}
        # Less than a lot may be offered at the best price.
        lots = [price for price, size in seen.get("bids", ()) if size >= 1.0][:1] or [bid]
        return bid is None or lots[0] is None or lots[0] - self.sizing.fee(order, lots[0]) < worth + LOWEST

    def _has_bought(self, hold: Row, at: datetime) -> bool:
        return any(
            one["ref"] == hold["ref"] and parse_timestamp(one["planned_at"]) <= at + PASS for one in self._orders
        )


def _decided_at(hold: Row) -> datetime | None:
    """Return when a hold was decided, None where it may have been decided more than once."""
    at = parse_timestamp(hold["at"])
    until = parse_timestamp(hold["until"])
    is_once = any(abs(until - at - wait) < ONE_MOMENT for wait in (AGAIN, MARKET_AGAIN)) or _CLOSED.search(hold["why"])
    return at if is_once else None


def _describe(seen: Fact) -> str:
    return ", ".join(f"{name} {seen[name]}" for name in ("prob", "bid", "ask") if name in seen)


def _was_decided(hold: Row, first: datetime, last: datetime) -> bool:
    """Say whether a hold was last decided again in a time: it holds for ten minutes, or for an hour."""
    until = parse_timestamp(hold["until"] or hold["at"])
    return any(first <= until - wait <= last for wait in (AGAIN, MARKET_AGAIN))
