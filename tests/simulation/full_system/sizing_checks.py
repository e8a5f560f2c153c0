"""What orders were worth, and how large they may have been, recomputed from the documentation's formulas.

By docs/settings.md ("trading", "bankroll") and docs/venues.md ("Orders"): belief, shrinkage to the market, edge after
fees, share of the Kelly stake, cash that nothing else may take, and sales by policy. Nothing of the engine is used.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from bot.store.serialization import format_timestamp, parse_timestamp
from tests.ledger_checks import Row, read_rows
from tests.simulation.full_system.account_values import purchase_cost

Tables = Mapping[str, Any]
Seen = Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]
# A pass that begins with a reading of an account may take so long, and a plan is sent or made again within two minutes.
PASS, PLANNED = timedelta(seconds=900), timedelta(seconds=300)
ONE_MOMENT, LONGEST_MOVE = timedelta(seconds=2), timedelta(hours=1)
# A limit is in whole steps of a price, and a belief is stored with rounding.
PRICE_SLACK = 1e-6
# Beliefs are this far from 0 and 1 at least, and what is derived from two of them has this error.
LEAST_BELIEF, ODDS_SLACK = 0.001, 0.02
# The share of the full Kelly stake where nobody set it; rounding to cents, and the least that a venue takes, add this.
KELLY, STAKE_SLACK = 0.25, 0.02
# The largest share of the account in one question where nobody set it, and the least gain of a share.
PER_QUESTION, EDGE = 0.05, 0.03
# The prices at which shares are bought where nobody set them.
BAND = (0.03, 0.97)
# Where orders meet the levels of an order book, and not those of a market maker.
WITH_BOOKS = ("polymarket",)
# What is bought costs less than twice the price that counts for what is held.
LEAST_MARK = 0.5
# A limit is the last price that is paid, or up to one step above it.
STEP, SAME_SHARES = 0.01, 1e-4
# The least stake where nobody set it (docs/settings.md), a cent that it is rounded by, and what sizes are rounded by.
MIN_STAKE, ONE_CENT, ROUNDING = 1.0, 0.0101, 0.005
# Orders of these types rest at their own price.
RESTING = ("GTC", "GTD")
# A trade of less is none.
LEAST_TRADE = 1e-6
# Fewer shares are none, and so many less or more may be sold than are computed here.
LEAST_HELD, SOLD_SLACK = 1e-6, 0.011
# A mark is the price without fees, and may be some minutes older than the plan.
SALE_SLACK = 0.15
_ORDERS = """
select i.id, i.seq, i.venue, i.account, i.mode, i.mode = 'paper' as paper, i.ref, i.planned_at, i.cost, i.state,
  i.order_body, i.predictions
from intent i where i.action = 'order' order by i.seq
"""
_POLICY_SALES = """
select id, ref, venue, account, mode = 'paper' as paper, seq, order_body from intent
where json_extract(order_body, '$.closing') like 'stop-loss%'
  or json_extract(order_body, '$.closing') like 'take-profit%'
"""
_FILLS_BEFORE = """
select f.shares, f.cash from fill f join intent i on i.id = f.intent
where i.seq < :seq and i.account = :account and (i.mode = 'paper') = :paper
  and json_extract(i.order_body, '$.contract') = :contract and json_extract(i.order_body, '$.leg') = :leg
order by f.at, i.seq, f.reference
"""
_FILLS_OF = "select price from fill where intent = :id"
_HELD = """
select json_extract(i.order_body, '$.contract') as contract, json_extract(i.order_body, '$.leg') as leg,
  total(case when f.cash <= 0 then f.shares else -f.shares end) as shares
from fill f join intent i on i.id = f.intent
where i.ref = :ref and i.account = :account and (i.mode = 'paper') = :paper and f.at <= :planned_at and i.seq < :seq
group by contract, leg
"""
_OPEN_BEFORE = """
select count(*) as count from intent i where i.ref = :ref and i.account = :account and i.id <> :id and i.seq < :seq
  and (i.mode = 'paper') = :paper and i.action = 'order' and i.state not in ('refused', 'superseded')
  and not exists (select 1 from fill f where f.intent = i.id and f.at <= :planned_at)
"""
# A reading holds until it is another one.
_READINGS = """
select at, max(at, until) as until, cash, equity from account_reading
where venue = :venue and account = :account and paper = :paper and at <= :planned_at and max(at, until) >= :since
"""
_SPENT = """
select f.at, f.cash from fill f join intent i on i.id = f.intent
where i.venue = :venue and i.account = :account and (i.mode = 'paper') = :paper and i.seq < :seq and f.cash < 0
  and f.at >= :since and f.at <= :planned_at
"""
# What was sent before the pass began, and of which nobody knew anything while it planned. That an order which rests is
# over is heard of later than that it was taken.
_IN_THE_AIR = """
select total(i.cost) as cost from intent i
where i.venue = :venue and i.account = :account and (i.mode = 'paper') = :paper and i.id <> :id
  and (i.state in ('sending', 'unknown') or i.changed_at > :soon)
  and exists (select 1 from attempt a where a.intent = i.id and a.started_at < :since)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingChecks:
    """Judges the orders of one ledger; ``configs`` are the tables of the configuration, from the first to the last.

    ``books`` are the prices that the doubles showed, by contract, and leg or "pool". ``clock_moves`` are the times to
    which people set the clock. ``contracts`` say which fees each contract has.
    """

    ledger: Path
    configs: Sequence[Tables]
    books: Seen
    clock_moves: Sequence[datetime] = ()
    contracts: Tables = field(default_factory=dict)

    def violations(self) -> Iterator[str]:
        """Say which order is not what its forecast, its prices and its account permit."""
        for row in read_rows(self.ledger, _ORDERS):
            order = json.loads(row["order_body"])
            worth = _worth(order, json.loads(row["predictions"]))
            if worth is not None and not order.get("closing"):
                yield from self._prices(row, order, worth)
                yield from self._edges(row, order, worth)
            planned = parse_timestamp(row["planned_at"])
            if order["side"] == "buy" and not self.has_clock_moved(planned):
                yield from self._stakes(row, order, worth)
            if order["side"] == "sell" and not self.has_clock_moved(planned):
                yield from self._sale_sizes(row, order)
        yield from self._policy_sales()

    def settings(self, venue: str, table: str, name: str, default: Any) -> list[Any]:
        """Return the values that a setting of a venue had."""
        return [config["venues"][venue].get(table, {}).get(name, default) for config in self.configs]

    # Beliefs and prices

    def _prices(self, row: Row, order: Tables, worth: float) -> Iterator[str]:
        """No order is for a worse price than its shares are worth by the forecast that it was made for.

        Nor does it promise more than that, or buy at a price outside the band.
        """
        buys = order["side"] == "buy"
        beyond = order["limit"] - worth if buys else worth - order["limit"] + self.fee(order, order["limit"])
        gain = worth - order["expected"] if buys else order["expected"] - worth
        if order["edge"] > gain + PRICE_SLACK:
            yield f"orders: {row['id']} promises {order['edge']:.4f} a share, {gain:.4f} by its own forecast"
        bands = self.settings(row["venue"], "trading", "band", BAND)
        paid = (order["expected"], order["limit"])
        if buys and not any(low - PRICE_SLACK <= min(paid) <= max(paid) <= high + PRICE_SLACK for low, high in bands):
            yield f"orders: {row['id']} buys for {paid[0]:.4f}, {paid[1]:.4f} at most, and trading.band is {bands}"
        if beyond > PRICE_SLACK:
            what = f"{order['side']} {order['leg']} at {order['limit']:.4f}"
            yield f"orders: {row['id']} would {what}, worth {worth:.4f} by its own forecast"

    def _edges(self, row: Row, order: Tables, worth: float) -> Iterator[str]:
        """The edge is what a share is worth less its price and fee, after the belief was moved to the market as set."""
        fee = order.get("fees", 0.0) / order["shares"]
        sign = 1.0 if order["side"] == "buy" else -1.0
        implied = order["expected"] + sign * (order["edge"] + fee)
        yield from self._last_level(row, order, implied)
        shares = self.settings(row["venue"], "trading", "shrink", 0.0)
        if not any(shares):
            if abs(implied - _bounded(worth)) > PRICE_SLACK:
                what = f"counts a share as worth {implied:.6f}"
                yield f"orders: {row['id']} on {row['ref']} {what}, its forecast says {worth:.6f}"
            return
        near = self._market_prices(row, order)
        wanted = [
            (1.0 - share) * _log_odds(worth) + share * _log_odds(price)
            for share in shares
            for price in (near if share else [0.5])
        ]
        if near and min(abs(_log_odds(implied) - one) for one in wanted) > ODDS_SLACK:
            what = f"counts a share as worth {implied:.4f}: {worth:.4f} moved to {near[-1]:.4f} by {shares}"
            yield f"orders: {row['id']} on {row['ref']} {what}"

    def _last_level(self, row: Row, order: Tables, worth: float) -> Iterator[str]:
        """Each level of an order book that is bought gains the least edge by itself, so the last one too: the limit."""
        least = min(self.settings(row["venue"], "trading", "edge", EDGE))
        gain = worth - order["limit"]
        if row["venue"] in WITH_BOOKS and order["side"] == "buy" and gain < least - PRICE_SLACK:
            what = f"buys shares at up to {order['limit']:.4f} that are worth {worth:.4f}"
            yield f"orders: {row['id']} on {row['ref']} {what}, and each must gain {least:g}"

    def _market_prices(self, row: Row, order: Tables) -> list[float]:
        """Return the prices of the leg that the double showed while an order was planned."""
        planned = parse_timestamp(row["planned_at"])
        for leg in ("pool", "yes"):
            seen = self.books.get((order["contract"], leg), ())
            near = [one for one in seen if planned - PLANNED <= one["clock"] <= planned + ONE_MOMENT]
            yes = [price for one in near if (price := _price_of_yes(one)) is not None]
            if yes:
                return [price if order["leg"] == "yes" else 1.0 - price for price in yes]
        return []

    # Stakes

    def _stakes(self, row: Row, order: Tables, worth: float | None) -> Iterator[str]:
        """A purchase is within the Kelly share of the cash that is free, that cash, and the share of the account."""
        planned = parse_timestamp(row["planned_at"])
        since = {"since": format_timestamp(planned - PASS), "soon": format_timestamp(planned + ONE_MOMENT)}
        values = {**row, **since}
        readings = read_rows(self.ledger, _READINGS, values)
        if not readings:
            return
        [air] = read_rows(self.ledger, _IN_THE_AIR, values)
        cash = max(0.0, max(one["cash"] for one in readings) - air["cost"])
        # What was bought since a reading, in the same pass too, is not free any more. Shares of the Kelly stake are
        # of the cash before the pass, so that the order of its questions makes no difference.
        spent = read_rows(self.ledger, _SPENT, values)
        free = [
            one["cash"] + sum(fill["cash"] for fill in spent if _is_after(fill["at"], one["until"])) for one in readings
        ]
        left = max(0.0, max(free) - air["cost"])
        what = f"{row['id']} of {row['planned_at']}"
        if row["cost"] > left + STAKE_SLACK:
            yield f"orders: {what} costs {row['cost']:.2f}, {left:.2f} are free and {air['cost']:.2f} under way"
        share = max(self.settings(row["venue"], "bankroll", "per_question", PER_QUESTION))
        equity = max(one["equity"] for one in readings)
        if share < 1.0 and row["cost"] > share * equity + STAKE_SLACK and row["state"] != "superseded":
            yield f"orders: {what} costs {row['cost']:.2f} on {row['ref']}, {share:g} of {equity:.2f} may be"
        most = None if worth is None else self.kelly_stake(row, order, cash)
        price = unit_cost(order)
        if most is not None and (stake := order["shares"] * price) > most + STAKE_SLACK:
            on = f"{stake:.2f} on {row['ref']} at {price:.4f}"
            yield f"orders: {what} stakes {on}: {most:.2f} of {cash:.2f} at most by its share"
        yield from self._sizes(row, order, cash)

    def _sizes(self, row: Row, order: Tables, cash: float) -> Iterator[str]:
        """A purchase is no smaller than the least stake, and has no more shares than its book gives for its share."""
        what = f"{row['id']} of {row['planned_at']}"
        least = min(self.settings(row["venue"], "bankroll", "min_stake", MIN_STAKE))
        if (cost := order.get("cost", row["cost"])) < least - ONE_CENT:
            yield f"orders: {what} costs {cost:.2f} on {row['ref']}, and bankroll.min_stake is {least:g}"
        sizes = self.book_sizes(row, order, cash)
        if sizes and not any(self._fits(order, one) for one in sizes):
            near = ", ".join(f"{shares:.2f} at {price:.2f}" for price, shares in sizes[-2:])
            on = f"{order['shares']:.2f} {order['leg']} of {row['ref']} at up to {order['limit']:.2f}"
            yield f"orders: {what} is for {on}, and by its book {near} at most"

    def _fits(self, order: Tables, size: tuple[float, float]) -> bool:
        """Say whether an order has no more shares than it may have; one that rests does so at the right price."""
        rests = order.get("terms", {}).get("type") in RESTING
        return order["shares"] <= size[1] * (1.0 + ROUNDING) + ROUNDING and (
            not rests or abs(order["limit"] - size[0]) < PRICE_SLACK
        )

    def fee(self, order: Tables, price: float) -> float:
        """Return the fee of a share at a price of an order book; what rests pays none."""
        fees = self.contracts.get(order["contract"], {}).get("fees")
        rests = order.get("terms", {}).get("type") in RESTING
        return 0.0 if fees is None or rests else float(fees[0] * (price * (1.0 - price)) ** fees[1])

    def book_sizes(self, row: Row, order: Tables, cash: float, *, most: bool = True) -> list[tuple[float, float]]:
        """Return the last price and the shares that the Kelly share is on each book that an order may be made on.

        ``most``: by the settings with which it is most, else by those with which it is least. An order that rests is
        one tick better than the best, at least the edge below its worth, and below what others want.
        """
        planned, pick = parse_timestamp(row["planned_at"]), (max if most else min)
        seen = self.books.get((order["contract"], order["leg"]), ())
        near = [one for one in seen if planned - PLANNED <= one["clock"] <= planned + ONE_MOMENT and "asks" in one]
        own = self.held_alone(row, order)
        if own is None or (own > LEAST_HELD and order.get("option")):
            return []
        share = pick(self.settings(row["venue"], "trading", "kelly", KELLY))
        edges = self.settings(row["venue"], "trading", "edge", EDGE)
        edge = min(edges) if most else max(edges)
        highest = pick(high for _, high in self.settings(row["venue"], "trading", "band", BAND))
        worth = order["expected"] + order["edge"] + order.get("fees", 0.0) / order["shares"]
        found = []
        for one in near:
            if one["bid"] is None or one["ask"] is None:
                continue
            bankroll = share * cash - (1.0 - share) * own * (one["bid"] + one["ask"]) / 2.0
            levels = one["asks"]
            if order.get("terms", {}).get("type") in RESTING:
                tick = one["tick"]
                price = min(
                    math.floor((worth - edge) / tick + PRICE_SLACK) * tick, one["bid"] + tick, one["ask"] - tick
                )
                levels = [(price, math.inf)]
            levels = [(price, size) for price, size in levels if price <= highest + PRICE_SLACK]
            fits = [
                (price, price + self.fee(order, price), size)
                for price, size in levels
                if worth - price - self.fee(order, price) >= edge - PRICE_SLACK
            ]
            found += [(fits[-1][0], kelly_along(fits, worth, bankroll, own))] if fits else []
        return found

    def held_alone(self, row: Row, order: Tables) -> float | None:
        """Return the shares held of the side of an order; None where others of its question are held, or may be."""
        held = {(one["contract"], one["leg"]): one["shares"] for one in read_rows(self.ledger, _HELD, row)}
        own = held.pop((order["contract"], order["leg"]), 0.0)
        [others] = read_rows(self.ledger, _OPEN_BEFORE, row)
        is_alone = all(abs(shares) <= LEAST_HELD for shares in held.values()) and not others["count"] and own >= 0.0
        return own if is_alone else None

    def _sale_sizes(self, row: Row, order: Tables) -> Iterator[str]:
        """A position is closed as a whole; for a belief as much is sold as brings what it is worth, share by share."""
        planned = parse_timestamp(row["planned_at"])
        held = {(one["contract"], one["leg"]): one["shares"] for one in read_rows(self.ledger, _HELD, row)}
        own = held.get((order["contract"], order["leg"]), 0.0)
        first, last = planned - PLANNED, planned + ONE_MOMENT
        seen = self.books.get((order["contract"], "pool"), ()) or self.books.get((order["contract"], order["leg"]), ())
        near = [one for one in seen if first <= one["clock"] <= last]
        worth = None if order.get("closing") else order["expected"] - order["edge"] - self._sale_fee(order)
        wanted = []
        for one in near:
            if "pool" in one and one.get("is_alone"):
                wanted.append(own if worth is None else min(own, _shares_above(one["pool"], order["leg"], worth)))
            elif "bids" in one:
                good = [
                    size
                    for price, size in one["bids"]
                    if worth is None or price - self.fee(order, price) >= worth - PRICE_SLACK
                ]
                wanted.append(min(own, sum(good)))
        is_less = worth is None or row["venue"] not in WITH_BOOKS
        sold = order["shares"]
        if (
            wanted
            and len(wanted) == len(near)
            and own > LEAST_HELD
            and not any(
                sold <= one + SOLD_SLACK and (not is_less or sold >= one * (1.0 - SOLD_SLACK) - SOLD_SLACK)
                for one in wanted
            )
        ):
            near_text = ", ".join(f"{one:.3f}" for one in wanted[-2:])
            what = f"sells {sold:.3f} {order['leg']} of {row['ref']}, {own:.3f} are held"
            yield f"orders: {row['id']} of {row['planned_at']} {what}, and {near_text} were to be sold"

    def _sale_fee(self, order: Tables) -> float:
        return float(order.get("fees", 0.0) / order["shares"])

    def kelly_stake(self, row: Row, order: Tables, cash: float) -> float | None:
        """Return the most that the share of the Kelly stake is, with what is held of the same side.

        A stake s at c a share, the last of them at m, of a bankroll b, with h shares held and probability p, is right
        where p (1 - m) / (b + h - s + s / c) = (1 - p) m / (b - s); the bankroll is the share of the cash less the rest
        of what is held. From a market maker it is no more than the share of the whole stake (docs/facts/manifold.md).
        None where anything else is held.
        """
        own = self.held_alone(row, order)
        if own is None or (own > LEAST_HELD and order.get("option")):
            return None
        price, share = unit_cost(order), max(self.settings(row["venue"], "trading", "kelly", KELLY))
        fee = order.get("fees", 0.0) / order["shares"]
        worth, last = order["expected"] + order["edge"] + fee, max(order["limit"] - STEP + fee, price)
        bankroll = share * cash - (1.0 - share) * own * LEAST_MARK * price
        # The last share that is bought still adds growth: its chance is worth what it takes, at the wealth of each end.
        chance, risk = worth * (1.0 - last), (1.0 - worth) * last
        stake = (bankroll * (chance - risk) - own * risk) / (chance - risk + risk / price)
        at_pools = [kelly_at_pool(pool, order["leg"], worth, cash, own, share) for pool in self.pools(row, order)]
        return float(max(0.0, min(stake, max(at_pools, default=math.inf))))

    def pools(self, row: Row, order: Tables) -> list[tuple[float, float, float]]:
        """Return what the market makers of a contract had that would have given these shares for this stake.

        None of them did where others offer shares between those of the market maker.
        """
        planned, stake = parse_timestamp(row["planned_at"]), order["shares"] * order["expected"]
        seen = () if "/" in order["contract"] else self.books.get((order["contract"], "pool"), ())
        pools = [one["pool"] for one in seen if planned - PLANNED <= one["clock"] <= planned + ONE_MOMENT]
        given = [(pool, purchase(pool, order["leg"], stake)[0]) for pool in pools]
        return [pool for pool, shares in given if abs(shares - order["shares"]) < SAME_SHARES * shares]

    def _policy_sales(self) -> Iterator[str]:
        """What is sold by policy loses, or gains, the share of its cost that is set, at the price of the plan."""
        for row in read_rows(self.ledger, _POLICY_SALES):
            order, shares, paid = json.loads(row["order_body"]), 0.0, 0.0
            for fill in read_rows(self.ledger, _FILLS_BEFORE, {**row, **order}):
                part = fill["shares"] / shares if fill["cash"] > 0 and shares else 0.0
                shares += fill["shares"] if fill["cash"] <= 0 else -fill["shares"]
                paid -= fill["cash"] if fill["cash"] <= 0 else min(part, 1.0) * paid
            if shares <= 0 or paid <= 0:
                continue
            # Where the bids do not take all of it, the rest would bring nothing.
            sold, name = min(order["shares"], shares), order["closing"].partition(":")[0].replace("-", "_")
            # On paper a plan does not know by how much the own purchase has moved the market maker: the fill does.
            fills = read_rows(self.ledger, _FILLS_OF, row) if row["paper"] else ()
            price = max(order["expected"], *(fill["price"] for fill in fills)) if fills else order["expected"]
            gain = price * sold / paid - 1.0
            shares_set = self.settings(row["venue"], "trading", name, 0.0)
            is_loss = name == "stop_loss"
            if gain > -min(shares_set) + SALE_SLACK if is_loss else gain < min(shares_set) - SALE_SLACK:
                yield f"orders: {row['id']} sells {row['ref']} by {name} {shares_set}, and gains {gain:.3f} of its cost"

    def has_clock_moved(self, at: datetime) -> bool:
        """Say whether somebody set the clock near a moment, by that clock."""
        return any(abs(moved - at) <= LONGEST_MOVE for moved in self.clock_moves)


def _is_after(at: str, until: str) -> bool:
    return parse_timestamp(at) > parse_timestamp(until) + ONE_MOMENT


def purchase(pool: tuple[float, float, float], leg: str, stake: float) -> tuple[float, float]:
    """Return the shares that a market maker of Manifold gives for a stake, and its price after that.

    yes^p no^(1 - p) stays what it was while the stake is added to both and the shares are taken out.
    """
    own, other, weight = pool if leg == "yes" else (pool[1], pool[0], 1.0 - pool[2])
    left = own * (other / (other + stake)) ** ((1.0 - weight) / weight)
    return own + stake - left, weight * (other + stake) / (weight * (other + stake) + (1.0 - weight) * left)


def full_stake(pool: tuple[float, float, float], leg: str, worth: float, cash: float, held: float) -> float:
    """Return the stake after which another share adds no growth."""
    low, high = 0.0, cash
    for _ in range(60):
        stake = (low + high) / 2.0
        shares, price = purchase(pool, leg, stake)
        gain, loss = worth * (1.0 - price) * (cash - stake), (1.0 - worth) * price * (cash + held + shares - stake)
        low, high = (stake, high) if gain > loss else (low, stake)
    return high


def kelly_at_pool(
    pool: tuple[float, float, float], leg: str, worth: float, cash: float, held: float, share: float
) -> float:
    """Return the share of the whole stake, at most what somebody with that share of the account would add to it."""
    price = purchase(pool, leg, 0.0)[1]
    bankroll = share * cash - (1.0 - share) * held * price
    return min(share * full_stake(pool, leg, worth, cash, held), full_stake(pool, leg, worth, bankroll, held))


def kelly_along(levels: Sequence[tuple[float, float, float]], worth: float, cash: float, held: float) -> float:
    """Return how many shares to buy of levels (price, cost with fee, size) until another one adds no growth.

    With a chance p that a share pays, x shares at c each are right where p (1 - c) / (won + x (1 - c)) is
    (1 - p) c / (lost - x c).
    """
    won, lost, shares = cash + held, cash, 0.0
    for _, cost, size in levels:
        gain, risk = worth * (1.0 - cost), (1.0 - worth) * cost
        part = min(max(0.0, (gain * lost - risk * won) / (cost * (1.0 - cost))), size) if lost > 0.0 else 0.0
        won, lost, shares = won + part * (1.0 - cost), lost - part * cost, shares + part
        if part < size:
            break
    return shares


def _shares_above(pool: tuple[float, float, float], leg: str, worth: float) -> float:
    """Return how many shares can be sold to a market maker until its price is down to their worth."""
    other, low, high = ("no" if leg == "yes" else "yes"), 0.0, sum(pool[:2])
    for _ in range(60):
        stake = (low + high) / 2.0
        low, high = (stake, high) if purchase(pool, other, stake)[1] < 1.0 - worth else (low, stake)
    return purchase(pool, other, low)[0]


def unit_cost(order: Tables) -> float:
    """Return what a share costs on average, its fee included."""
    return float(order["shares"] * order["expected"] + order.get("fees", 0.0)) / float(order["shares"])


def _price_of_yes(seen: Tables) -> float | None:
    if "prob" in seen:
        return float(seen["prob"])
    return None if seen["bid"] is None or seen["ask"] is None else float(seen["bid"] + seen["ask"]) / 2.0


def _bounded(belief: float) -> float:
    return min(max(belief, LEAST_BELIEF), 1.0 - LEAST_BELIEF)


def _log_odds(belief: float) -> float:
    return math.log(_bounded(belief) / (1.0 - _bounded(belief)))


def _worth(order: Mapping[str, Any], predictions: Mapping[str, Any]) -> float | None:
    """Return what a share of an order pays by a forecast, None where the forecast does not say."""
    if len(predictions) != 1:
        return None
    [prediction] = predictions.values()
    yes = prediction.get("probability")
    if yes is None:
        yes = prediction.get("probabilities", {}).get(order.get("option", ""))
    return None if yes is None else float(yes if order["leg"] == "yes" else 1.0 - yes)


def pool_with_own(pool: tuple[float, float, float], own: float) -> tuple[float, float, float]:
    """Return what a market maker has once it has sold so many shares of YES, or of NO where there are fewer than 0."""
    yes, no, weight = pool
    if abs(own) < LEAST_TRADE:
        return pool
    paid = purchase_cost(pool, "yes" if own > 0.0 else "no", abs(own))
    return (yes + paid - max(own, 0.0), no + paid - max(-own, 0.0), weight)


def bounded_purchase(pool: tuple[float, float, float], leg: str, stake: float, limit: float) -> tuple[float, float]:
    """Return shares and cost of a purchase that ends where its stake is spent, or the price is at its limit."""
    shares, price = purchase(pool, leg, stake)
    if price <= limit:
        return shares, stake
    low, high = 0.0, stake
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if purchase(pool, leg, middle)[1] < limit else (low, middle)
    return purchase(pool, leg, low)[0], low


def walk_book(
    levels: Sequence[tuple[float, float]], order: Tables, shares: float, fees: tuple[float, float] | None
) -> tuple[float, float]:
    """Return the shares, at most so many, that the levels within a limit give, and their cash with fees."""
    sign, got, cash = (1.0 if order["side"] == "buy" else -1.0), 0.0, 0.0
    rate, exponent = fees or (0.0, 1.0)
    for price, size in levels:
        if sign * (price - order["limit"]) > PRICE_SLACK:
            break
        part = min(size, shares - got)
        got += part
        cash -= sign * part * price + part * rate * (price * (1.0 - price)) ** exponent
    return got, cash


# A level of the one pool of a market, what it showed, and how much of it an own order took.
TakenLevel = tuple[tuple[str, float], float, float]


def taken_levels(rows: Sequence[Row], order: Tables, books: Sequence[Any]) -> list[TakenLevel] | None:
    """Return what the fills of an order took, None where what it was shown is not one book."""
    if not books or any(book != books[0] for book in books):
        return None
    shown = {round(price, 6): size for price, size in books[0]}
    levels = [(pool_level(order, row["price"]), shown.get(round(row["price"], 6)), row["shares"]) for row in rows]
    found = [(level, size, taken) for level, size, taken in levels if size is not None]
    return found if len(found) == len(levels) else None


def without_taken(
    book: Sequence[tuple[float, float]], order: Tables, taken: Sequence[TakenLevel]
) -> list[tuple[float, float]]:
    """Return what own orders have left of a book: what they took is gone while a level shows the same size."""
    left = []
    for price, size in book:
        mine = [(shown, part) for level, shown, part in reversed(taken) if level == pool_level(order, price)]
        changed = [place for place, (shown, _) in enumerate(mine) if abs(shown - size) > LEAST_TRADE]
        left.append((price, size - sum(part for _, part in mine[: min(changed, default=len(mine))])))
    return [(price, size) for price, size in left if size > LEAST_TRADE]


def rounded_levels(levels: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return levels whose prices can be looked up."""
    return [(round(price, 6), size) for price, size in levels]


def pool_level(order: Tables, price: float) -> tuple[str, float]:
    """Return the side and the price of the one pool of YES and NO that an order takes from."""
    is_yes = order["leg"] == "yes"
    return "asks" if is_yes is (order["side"] == "buy") else "bids", round(price if is_yes else 1.0 - price, 6)
