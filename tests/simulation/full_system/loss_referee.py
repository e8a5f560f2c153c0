"""The part of the referee that knows losses: what is bought after one, and which stops it must and must not cause.

And what rests at a venue that was halted: by docs/commands.md ("foxcast halt") it is cancelled.

By docs/settings.md ("caps") and docs/going-live.md ("Stops"): loss limits count without deposits; money that comes
while no position and no order changes is taken out, and so is taking it out again; other money that leaves is lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime

from tests.simulation.full_system.account_values import (
    least_loss,
    list_transfers,
    most_lost,
    moved_amounts,
    value_unread_holdings,
)
from tests.simulation.full_system.referee_facts import Fact, WorldFacts

CENT, ROUNDED = 0.005, 0.25
# What was permitted when it was sent may be under way so long.
UNDER_WAY_S = 120.0
# What rests at a venue that is halted is cancelled, with answers that are lost and limits of pace, so long after the
# first look at what people asked for.
CANCELLED_S = 1_500.0
# What an account has lost may be noticed with one of so many requests for it, and once a venue has lost too much by all
# of them for so long, it has stopped.
LATE_READS, NOTICED_S = 40, 4.5 * 3_600.0
# So far apart are two readings that an account is sure to have: money that came between them, and an order too, may
# count as a gain, although requests in between saw one without the other.
READ_EVERY_S = 3.0 * 3_600.0


class LossReferee(WorldFacts):
    """Judges losses of real accounts."""

    def violations(self) -> Iterator[str]:
        """Say what was bought or stopped, and should not have been, and what was not stopped."""
        for venue in sorted({order["venue"] for order in self.facts["orders"]}):
            orders = [order for order in self.facts["orders"] if order["venue"] == venue]
            yield from self._losses(venue, orders)
            yield from self._missing_halt(venue, orders)
            yield from self._orders_of_halted(venue, orders)
        yield from self._unfounded_halts()

    def _losses(self, venue: str, orders: Sequence[Fact]) -> Iterator[str]:
        """Nothing is bought after a loss beyond its limit, until a person resumes."""
        seen = [one for one in self.facts["accounts"] if one["venue"] == venue]
        readings = [
            (one, *self.value_range(one), moved) for one, moved in zip(seen, moved_amounts(seen, orders), strict=True)
        ]
        for order in orders:
            caps = self.venue_table(self.era_at(order["at_s"])["config"], venue).get("caps", {})
            if not {"daily_loss", "drawdown"} & caps.keys():
                continue
            resumed = [act["at_s"] for act in self.acts_at(venue, "resume") if act["at_s"] <= order["at_s"]]
            since = max(resumed, default=0.0)
            past = [one for one in readings if since <= one[0]["at_s"] < order["at_s"] - UNDER_WAY_S]
            # By the worst value of then and the best one of now, in each of the last three readings.
            days = [one for one in past if f"{one[0]['clock']:%Y-%m-%d}" == f"{order['clock']:%Y-%m-%d}"]
            for name, began in (("daily_loss", days[:1]), ("drawdown", past)):
                lost = [max((least_loss(was, now) for was in began), default=0.0) for now in past[-3:]]
                if name in caps and len(past) >= 3 and began and min(lost) > caps[name] + 1.0:
                    yield f"referee: {self.describe(order)}, and {min(lost):.2f} were lost, {name} is {caps[name]:g}"

    def _missing_halt(self, venue: str, orders: Sequence[Fact]) -> Iterator[str]:
        """A venue that lost more than its limit since its best reading, by all readings of some hours, has stopped."""
        seen = [one for one in self.facts["accounts"] if one["venue"] == venue]
        resumes = [act["at_s"] for act in self.acts_at(venue, "resume")]
        best, began, since_s = -float("inf"), None, 0.0
        for now, moved in zip(seen, moved_amounts(seen, orders), strict=True):
            at_s, era = now["at_s"], self.era_at(now["at_s"])
            low, high = (value - moved for value in self.value_range(now))
            if (resumed_s := max([one for one in resumes if one <= at_s], default=0.0)) > since_s:
                best, began, since_s = low, None, resumed_s
            table, best = self.venue_table(era["config"], venue), max(best, low)
            limit = table.get("caps", {}).get("drawdown") if table["mode"] != "paper" else None
            if limit is None or best - high <= limit + ROUNDED or self.is_clock_set(now["clock"]):
                began = None
            elif began is None or began < era["from_s"]:
                began = at_s
            elif at_s - began > NOTICED_S and not self._is_halted(venue, now["clock"]):
                lost = f"{best - high:.2f} by {now['clock']:%m-%d %H:%M}"
                yield f"referee: {venue} lost {lost}, and has not stopped although drawdown is {limit:g}"
                return

    def _orders_of_halted(self, venue: str, orders: Sequence[Fact]) -> Iterator[str]:
        """No order rests for long at a venue that a person halted, by a file too, while the program runs."""
        resumes = [act["at_s"] for act in self.acts_at(venue, "resume", "stop file gone")]
        for halt in self.acts_at(venue, "halt", "stop file"):
            until_s = min([at_s for at_s in resumes if at_s > halt["at_s"]], default=self.facts.get("at_s", math.inf))
            for order in orders:
                over_s = min(order.get("over_s", until_s), until_s)
                is_same = self.era_at(halt["at_s"]) == self.era_at(over_s)
                within_s = CANCELLED_S + self.era_at(over_s)["config"].get("daemon", {}).get("requests_every_s", 5.0)
                rested = order["effect_s"] < halt["at_s"] - UNDER_WAY_S and over_s > halt["at_s"] + within_s
                if rested and is_same and self.venue_table(self.era_at(over_s)["config"], venue)["mode"] != "paper":
                    what = f"rested until {over_s:.0f} s, although {venue} was halted at {halt['at_s']:.0f} s"
                    yield f"referee: {self.describe(order)}, and {what}"

    def _is_halted(self, venue: str, at: datetime) -> bool:
        """Say whether a venue had stopped itself by then, and nobody had resumed it."""
        return any(
            row["venue"] == venue
            and datetime.fromisoformat(row["at"]) <= at
            and (row["resumed_at"] is None or datetime.fromisoformat(row["resumed_at"]) >= at)
            for row in self.ledger["halts"]
        )

    def _unfounded_halts(self) -> Iterator[str]:
        """No venue stops for a loss that its account cannot have had: since its best reading, or since midnight.

        Both are counted again from zero when a person resumes.
        """
        for halt in self.ledger["halts"]:
            at, venue = datetime.fromisoformat(halt["at"]), halt["venue"]
            seen = [one for one in self.facts["accounts"] if one["venue"] == venue and one["clock"] <= at]
            if "caps.d" not in halt["why"] or not seen or self.is_clock_set(at):
                continue
            if self.venue_table(self.era_at(seen[-1]["at_s"])["config"], venue)["mode"] == "paper":
                continue
            # An old answer beside a new one shows money that is not there, or hides some that is.
            if len({one.get("old_answers") for one in seen[-LATE_READS:]}) > 1:
                continue
            markets = {one["market"] for one in self.facts.get("unread", ()) if one["venue"] == venue}
            unread = value_unread_holdings(seen, markets)
            values, first = [self.value_range(one, unread) for one in seen], 0
            if "caps.daily_loss" in halt["why"]:
                days = [f"{one['clock']:%Y-%m-%d}" for one in seen]
                first = max(0, days.index(f"{at:%Y-%m-%d}") - 1) if f"{at:%Y-%m-%d}" in days else len(seen) - 1
            first = max([first, *self._first_since_resumes(venue, seen, at)])
            orders = [order for order in self.facts["orders"] if order["venue"] == venue]
            lost = most_lost(values, [*list_transfers(seen, orders, READ_EVERY_S)], first, LATE_READS)
            if lost < float(halt["why"].rpartition(" = ")[2]) - CENT:
                yield f"referee: {venue} stopped at {halt['at']}: {halt['why']}, and {lost:.2f} can have been lost"

    def _first_since_resumes(self, venue: str, seen: Sequence[Fact], at: datetime) -> Iterator[int]:
        """Yield the place of the first reading that may count after each resume of a person before a moment."""
        for row in self.ledger["resumed"]:
            resumed = datetime.fromisoformat(row["resumed_at"])
            if row["venue"] in {"", venue} and resumed < at and not self.is_clock_set(resumed):
                yield max(0, sum(one["clock"] <= resumed for one in seen) - LATE_READS)
