"""The referee: computes from what the world saw what had to be true, and compares the ledger with that at the end.

It shares no code with the engine and imports nothing of it. Its rules are those of the documentation:
docs/going-live.md (permission, approval, caps, stops), docs/settings.md (caps), docs/venues.md (one request for one
effect), docs/models.md (nothing is paid twice), docs/facts/manifold.md and docs/facts/polymarket.md (fills, marks,
fees). All that it gets is plain data: ``facts`` of ``WorldRecord`` and rows of the ledger.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from itertools import pairwise
from operator import itemgetter

from tests.simulation.full_system.account_values import (
    PASS_S,
    list_holdings,
    seen_around,
    value_unread_holdings,
)
from tests.simulation.full_system.loss_referee import LossReferee
from tests.simulation.full_system.referee_facts import CLOCK_SET, Fact, WorldFacts

CENT = 0.005
# What was permitted when it was sent may be under way so long: requests are looked for every 5 s, a write has 60 s.
UNDER_WAY_S = 120.0
# An order is planned on a book that was read within two minutes, and may take as long again to arrive.
PLANNED_S = 300.0
# A price of Manifold is used again for so long.
MARKED_S = 330.0
# An account is read within so many seconds.
READ_S = 60.0
# Seconds before the close in which nothing is sent, where the configuration says nothing else.
CLOSE_MARGIN_S = 60.0
# What models may cost in a day, where the configuration says nothing else. The hours of a day by true time that are of
# the same day by any clock that people set.
DAY_USD, SAME_DAY_H = 20.0, range(1, 23)
# The largest shares of the value of an account that may be at stake, where the configuration says nothing else.
BANKROLL_SHARES: Mapping[str, float] = {"per_question": 0.05, "per_event": 0.1, "per_day": 0.25, "total": 0.75}
# With such words a venue refuses what an account cannot pay, or does not have.
NOT_ENOUGH = ("Insufficient balance", "not enough balance", "shares to sell", "only sell up to")
# Words of venues for what may have changed since a request was planned. Any other refusal is one of its form, which the
# venues document.
CHANGED_MEANWHILE = (
    *NOT_ENOUGH,
    "closed",
    "resolved",
    "not open",
    "not found",
    "does not exist",
    "crosses book",
    "fully filled",
    "no orders found",
    "current options",
    "unknown options",
    "in the past",
    "in the future",
    "not ready",
    "post-only mode",
    "current liquidity",
    "already",
)
# A forecast is commented on within a day of its acknowledgement.
COMMENTED_S = 24 * 3_600.0 + 2 * 3_600.0
# The widest and the oldest order book that is traded on, where the configuration says nothing else.
MAX_SPREAD, MAX_BOOK_AGE_S = 0.1, 21_600.0
ONE_MOMENT_S = 2.0
# Hours for which an approval is valid, where the configuration says nothing else.
APPROVAL_H = 12.0
# A request to close a position is refused when it is older, and its sale may take so long.
CLOSING_S = 15 * 60.0 + UNDER_WAY_S
# By so much worse a price than the approved one may be.
APPROVED_SLACK = 0.01
# A change in these tables ends the arm records of all venues.
DECISIVE = ("policy", "limits", "calibration", "forecasters")
LEDGER_TABLES: Mapping[str, str] = {
    "intents": """select i.id, i.ref, i.venue, i.mode, i.action, i.state, i.planned_at, i.order_body, f.forecaster,
        f.made_at from intent i join forecast f on f.id = i.forecast order by i.seq""",
    "attempts": "select intent, reference, state, started_at, settled_at from attempt order by started_at",
    "halts": "select venue, at, why, resumed_at from halt where by = '' order by id",
    "resumed": "select venue, resumed_at from halt where resumed_at is not null "
    "and (end_condition = 'person' or resumed_by <> '')",
    "refusals": "select i.id, i.venue, i.mode, i.ref, i.action, a.started_at, a.detail from attempt a "
    "join intent i on i.id = a.intent where a.state = 'refused'",
    "fills": "select f.intent, f.reference, f.shares, f.cash from fill f order by 1, 2",
    "readings": "select venue, paper, at, until, equity, cash, reserved from account_reading order by id",
    "scores": """select f.ref, s.rule, s.value, p.probability from score s join forecast f on f.id = s.forecast
        join prediction p on p.forecast = s.forecast and p.target = s.target
        where s.rule = 'brier' and s.resolution = (
          select max(r.id) from resolution r where r.ref = f.ref and r.target = s.target)""",
    "venue_scores": "select ref, rule, value from venue_score where rule = 'spot baseline'",
}


class WorldReferee(WorldFacts):
    """Judges one simulation; ``violations`` names what the world saw, and what the ledger says."""

    def violations(self) -> Iterator[str]:
        """Say what must not have been."""
        for write in self.facts["writes"]:
            if write["kind"] != "cancel":
                yield from (f"referee: {self.describe(write)}, and {why}" for why in self._objections(write))
        yield from self._comments()
        yield from self._approvals()
        for venue in sorted({order["venue"] for order in self.facts["orders"]}):
            orders = [order for order in self.facts["orders"] if order["venue"] == venue]
            for place, order in enumerate(orders):
                yield from (f"referee: {self.describe(order)}, and {why}" for why in self._excess(orders, place))
                yield from (f"referee: {self.describe(order)}, and {why}" for why in self._foreign_objections(order))
        yield from LossReferee(self.facts, self.ledger).violations()
        yield from self._refusals()
        yield from self._clairvoyance()
        yield from self._cancels()
        yield from self._effects()
        for taker, maker in self.facts.get("self_trades", ()):
            yield f"referee: bet {taker} of manifold was filled by an own order, {maker}, to be cancelled first"
        yield from self._books()
        yield from self._paid_calls()
        yield from self._bills()
        yield from self._fills()
        yield from self._equity()
        yield from self._scores()

    # Permission, as docs/going-live.md describes it

    def _is_in_force(self, act: Fact, write: Fact) -> bool:
        """Say whether Foxcast has had the time to hear of an act and to finish what was under way."""
        return bool(write["at_s"] - max(act["at_s"], self.era_at(write["at_s"])["from_s"]) > UNDER_WAY_S)

    def _objections(self, write: Fact) -> Iterator[str]:
        venue, era = write["venue"], self.era_at(write["at_s"])
        table = self.venue_table(era["config"], venue)
        if table["mode"] not in {"live", "approve"}:
            yield f"its mode is {table['mode']}"
        if write["kind"] != "login":
            yield from self._arm_objections(write, table)
        for kind, ends in (("halt", "resume"), ("stop file", "stop file gone")):
            halts = [act for act in self.acts_at(venue, kind) if self._is_in_force(act, write)]
            ended = [act for act in self.acts_at(venue, ends) if act["at_s"] <= write["at_s"]]
            if halts and not any(end["at_s"] > halts[-1]["at_s"] for end in ended):
                yield f"there was a {kind} at {halts[-1]['at_s']:.0f} s"
        yield from self._lock_objections(write)
        yield from self._close_objections(write, table)
        yield from (f"{name} is not open yet" for name in write.get("unopened", ()))

    def _arms(self, write: Fact, table: Fact) -> list[Fact]:
        """Return the arm records that may be in force when a write arrives: the last one heard of, and newer ones."""
        config = self.era_at(write["at_s"])["config"]
        before = [act for act in self.acts_at(write["venue"], "arm", "disarm") if act["at_s"] <= write["at_s"]]
        heard = [place for place, act in enumerate(before) if self._is_in_force(act, write)]
        return [
            act
            for act in before[heard[-1] if heard else 0 :]
            if act["kind"] == "arm"
            and self.venue_table(act["config"], write["venue"]) == table
            and all(act["config"].get(name) == config.get(name) for name in DECISIVE)
        ]

    def _arm_objections(self, write: Fact, table: Fact) -> Iterator[str]:
        arms = self._arms(write, table)
        if not arms:
            yield "nobody had armed it under this configuration"
        elif all(act["until"] < write["clock"] - timedelta(seconds=UNDER_WAY_S) for act in arms):
            yield f"its arm record ended at {arms[-1]['until']:%m-%d %H:%M:%S}"

    def _lock_objections(self, write: Fact) -> Iterator[str]:
        table = self.venue_table(self.era_at(write["at_s"])["config"], write["venue"])
        # The first forecaster of a venue is the one whose forecasts are submitted.
        locked = dict.fromkeys((None, *table.get("forecasters", ())[:1]))
        for ref in write.get("questions", ()):
            for forecaster in locked:
                yield from self._locked(write, ref, forecaster)

    def _locked(self, write: Fact, ref: str, forecaster: str | None) -> Iterator[str]:
        """Say whether a question was locked, for all forecasters or for the one whose forecasts are submitted."""
        acts = [act for act in self.facts["acts"] if act["kind"] in {"lock", "unlock"} and str(act["ref"]) == ref]
        acts = [act for act in acts if act.get("forecaster") == forecaster]
        heard = [act for act in acts if self._is_in_force(act, write)]
        newer = [act for act in acts if act["at_s"] <= write["at_s"] and act not in heard]
        if heard and heard[-1]["kind"] == "lock" and not any(act["kind"] == "unlock" for act in newer):
            yield f"its question was locked{f' for {forecaster}' * bool(forecaster)} at {heard[-1]['at_s']:.0f} s"

    def _close_objections(self, write: Fact, table: Fact) -> Iterator[str]:
        """Nothing is sent in the last seconds before a question closes; what was sent before may arrive in them."""
        for ref, closes in write.get("questions", {}).items():
            margin = timedelta(seconds=table.get("close_margin_s", CLOSE_MARGIN_S) - UNDER_WAY_S)
            if closes is not None and margin > timedelta() and closes - margin < write["clock"]:
                yield f"{ref} closes at {closes:%m-%d %H:%M:%S}"

    def _foreign_objections(self, order: Fact) -> Iterator[str]:
        """Nothing is bought once an account has writes of somebody else, until a person resumes the venue.

        The venue's own record of writes is read before each pass; an old one does not show them.
        """
        table = self.venue_table(self.era_at(order["at_s"])["config"], order["venue"])
        if order["side"] != "buy" or table.get("hand_trading"):
            return
        resumed = [act["at_s"] for act in self.acts_at(order["venue"], "resume") if act["at_s"] <= order["at_s"]]
        since = max(resumed, default=0.0)
        for act in self.acts_at(order["venue"], "foreign write"):
            is_unseen = act["old_answers"] != order["old_answers"]
            listed_s = act["at_s"] + act.get("listed_after_s", 0.0)
            if since < act["at_s"] and listed_s < order["at_s"] - PASS_S and not is_unseen:
                yield f"somebody else wrote to the account at {act['at_s']:.0f} s"
                return

    def _comments(self) -> Iterator[str]:
        """A comment follows a forecast, or an order, of its question that arrived within the last day.

        At Metaculus it is private, and below the post of the question, whose number is another one.
        """
        for write in [one for one in self.facts["writes"] if one["kind"] == "comment"]:
            post = write["body"].get("on_post")
            about = str(write["body"]["contractId"]) if post is None else f"metaculus:{post}:"
            if post is not None and write["body"].get("is_private") is not True:
                yield f"referee: {self.describe(write)}, and everybody can read it"
            before = [
                one["at_s"]
                for one in self.facts["writes"]
                if one["venue"] == write["venue"]
                and any(ref.startswith(about) or about in ref.split(":") for ref in one.get("questions", ()))
            ]
            if not any(0.0 <= write["at_s"] - at_s < COMMENTED_S for at_s in before):
                yield f"referee: {self.describe(write)}, and nothing of {about} was submitted in the day before"

    def _approvals(self) -> Iterator[str]:
        """Each order in mode approve had an approval of its own, within what the person was shown."""
        answers = [act for act in self.facts["acts"] if act["kind"] == "answer" and act["approved"]]
        for order in self.facts["orders"]:
            table = self.venue_table(self.era_at(order["at_s"])["config"], order["venue"])
            if table["mode"] == "approve" and not self._is_closing(order):
                hours = table.get("approval_h", APPROVAL_H)
                found = next((act for act in answers if _is_covered(order, act, hours)), None)
                if found is None:
                    yield f"referee: {self.describe(order)} for {order['asked']:.2f}, and nobody approved that"
                else:
                    answers.remove(found)

    def _is_closing(self, order: Fact) -> bool:
        """Say whether a person asked for a sale, which needs no approval: one that a policy wants does."""
        asked = [act for act in self.acts_at(order["venue"], "close") if 0.0 <= order["at_s"] - act["at_s"] < CLOSING_S]
        is_asked = any(target["contract"] == order["contract"] for act in asked for target in act["targets"])
        return order["side"] == "sell" and is_asked

    # Caps, as docs/settings.md describes them

    def _excess(self, orders: Sequence[Fact], place: int) -> Iterator[str]:
        """Say which caps a purchase exceeds, with all that was at stake when it took effect."""
        order = orders[place]
        if order["side"] != "buy":
            return
        table = self.venue_table(self.era_at(order["at_s"])["config"], order["venue"])
        caps, arms = table.get("caps", {}), self._arms(order, table)
        yield from self._beyond_shares(order, table.get("bankroll", {}), stakes := self._stakes(orders, place))
        for name, used in stakes.items():
            bounds = [caps[name]] if name in caps else []
            armed = [act[name] for act in arms if act.get(name) is not None] if name in {"per_order", "per_day"} else []
            most = min([*bounds, *([max(armed)] if armed else [])], default=math.inf)
            if used > most + CENT:
                yield f"{used:.2f} is at stake by {name}, {most:g} may be"
        beyond = []
        for act in arms:
            since = [one for one in orders[: place + 1] if one["at_s"] >= act["at_s"]]
            spent, most = sum(_stake_at(one, order["effect_s"]) for one in since), act["total"] or math.inf
            beyond += [f"{spent:.2f} were spent under an arm record of {most:g}"] if spent > most + CENT else []
        # Which of several records was heard of last is not known here.
        if arms and len(beyond) == len(arms):
            yield beyond[-1]
        most_an_hour = caps.get("orders_per_hour")
        # Orders come as they took effect, which some do hours after others that were sent later.
        sent = sorted((one for one in orders[: place + 1] if one["at_s"] <= order["at_s"]), key=itemgetter("at_s"))
        if most_an_hour is not None and len(sent) > most_an_hour:
            first = sent[-1 - most_an_hour]
            times = [order[of] - first[of] for of in ("at_s", "clock")]
            # Only where the clock was not set meanwhile.
            if times[0] < 3_540.0 and abs(times[1].total_seconds() - times[0]) < 1.0:
                yield f"it is order {most_an_hour + 1} in {times[0]:.0f} s, {most_an_hour} an hour may be"

    def _beyond_shares(self, order: Fact, shares: Fact, stakes: Mapping[str, float]) -> Iterator[str]:
        """Say which shares of the value of the account a purchase exceeds, by its highest value of late."""
        before = [one for one in self.facts["accounts"] if one["venue"] == order["venue"]]
        before = [one for one in before if order["at_s"] - PASS_S <= one["at_s"] <= order["at_s"]]
        most = max((self.value_range(one)[1] for one in before), default=math.inf)
        for name, share in {**BANKROLL_SHARES, **shares}.items():
            if share < 1.0 and stakes.get(name, 0.0) > share * most + CENT:
                yield f"{stakes[name]:.2f} is at stake by bankroll.{name}, {share:g} of {most:.2f} may be"

    def _stakes(self, orders: Sequence[Fact], place: int) -> dict[str, float]:
        order, contracts = orders[place], self.facts["contracts"]
        groups = contracts[order["contract"]]
        today = [one for one in orders[: place + 1] if _cap_day(one) == _cap_day(order)]
        # What an outcome had set free is at stake again once that is taken back, which is heard of later.
        undone = self.facts.get("undone", ())
        held = {one: c for one, c in order["held"].items() if f"{order['venue']}:{one.partition('/')[0]}" not in undone}
        found = {
            "per_order": order["asked"],
            "per_day": sum(_stake_at(one, order["effect_s"]) for one in today) if _cap_day(order) else 0.0,
            "total": sum(held.values()),
        }
        for name in ("question", "event", "creator", "category"):
            same = [cost for one, cost in held.items() if contracts[one][name] == groups[name]]
            found[f"per_{name}"] = sum(same) if groups[name] else 0.0
        return found

    def _clairvoyance(self) -> Iterator[str]:
        """What was forecast by somebody who may know the future is never submitted, also when that is over."""
        for row in self.ledger["intents"]:
            made_at, eras = datetime.fromisoformat(row["made_at"]), self.facts["eras"]
            # The life it was made in, whether or not the clock was set meanwhile.
            around = [made_at - CLOCK_SET, made_at, made_at + CLOCK_SET]
            lives = [era for at in around for era in [one for one in eras if one["clock"] <= at][-1:]]
            tables = [era["config"].get("forecasters", {}).get(row["forecaster"], {}) for era in lives]
            if tables and all(table.get("clairvoyant") for table in tables):
                who = f"{row['forecaster']}, which was clairvoyant at {made_at}"
                yield f"referee: {row['id']}, {row['mode']}, is of {who}"

    def _refusals(self) -> Iterator[str]:
        """No venue refuses a request for its form, nor an order because the account has too little.

        Caps and cash are counted before it is sent. Left out are accounts that somebody else uses or takes money from,
        and those that were shown as they had been.
        """
        shared = {act["venue"] for act in self.facts["acts"] if act["kind"] == "foreign write"}
        for row in self.ledger["refusals"]:
            found = [text for text in NOT_ENOUGH if text in row["detail"]]
            if found and row["venue"] not in shared and not self._is_misread(row):
                what = f"{row['id']} of {row['started_at']} on {row['ref']}"
                yield f"referee: {row['venue']} refused {what}: {row['detail']}"
            is_judged = row["mode"] != "paper" and row["action"] != "comment"
            if is_judged and not any(words in row["detail"] for words in CHANGED_MEANWHILE):
                yield f"referee: {row['venue']} refused {row['id']} on {row['ref']} for its form: {row['detail']}"

    def _is_misread(self, refusal: Fact) -> bool:
        """Say whether money left the account around an order, or an answer may not have been what was true."""
        at = datetime.fromisoformat(refusal["started_at"])
        seen = [one for one in [*self.facts["accounts"], *self.facts["last"]] if one["venue"] == refusal["venue"]]
        before = [one for one in seen if one["clock"] <= at - timedelta(seconds=PASS_S)][-1:]
        near = [one for one in seen if abs(one["clock"] - at) < timedelta(seconds=PASS_S)]
        after = [one for one in seen if one["clock"] >= at + timedelta(seconds=PASS_S)][:1]
        pairs = [*pairwise([*before, *near, *after])]
        return any(later["moved"] < earlier["moved"] or later["faults"] > earlier["faults"] for earlier, later in pairs)

    def _cancels(self) -> Iterator[str]:
        """What somebody else ordered is not cancelled (docs/commands.md, "foxcast halt").

        Left out are markets where a write of Foxcast has no known outcome: there any order may be its own.
        """
        theirs = self.facts.get("foreign_orders", {})
        for write in self.facts["writes"]:
            market = theirs.get(write["path"].rsplit("/", 1)[-1]) if write["kind"] == "cancel" else None
            if market is not None and not self._is_in_doubt(market, write["clock"]):
                yield f"referee: {self.describe(write)}, and somebody else had placed that order"

    def _is_in_doubt(self, market: str, at: datetime) -> bool:
        refs = {row["id"]: row["ref"] for row in self.ledger["intents"]}
        return any(
            market in refs.get(row["intent"], "")
            and datetime.fromisoformat(row["started_at"]) <= at + CLOCK_SET
            and (row["settled_at"] is None or datetime.fromisoformat(row["settled_at"]) >= at - CLOCK_SET)
            for row in self.ledger["attempts"]
        )

    # One effect of one request (docs/facts/manifold.md#lost-answers, docs/facts/polymarket.md#orders)

    def _effects(self) -> Iterator[str]:
        counts = Counter((order["venue"], order["same_as"]) for order in self.facts["orders"] if order["side"] == "buy")
        for (venue, what), count in counts.items():
            if count > 1:
                yield f"referee: {venue} executed {count} times what was one order: {what}"

    # The right book (docs/venues.md, "Orders"): each leg has its own prices, and a sale is for the bids of its own leg

    def _books(self) -> Iterator[str]:
        """Each order at Polymarket, on paper too, is for a price that its own token had when its book was read."""
        for row in self.ledger["intents"]:
            order = json.loads(row["order_body"]) if row["venue"] == "polymarket" and row["order_body"] else None
            if order is None:
                continue
            at = datetime.fromisoformat(row["planned_at"])
            books = self.facts["books"].get((order["contract"], order["leg"]), [])
            near = seen_around(books, at, before_s=PLANNED_S)
            # What is sold needs bids alone.
            unfit = self._unfit_book if order["side"] == "buy" else lambda _: None
            if near and (why := _wrong_price(order, near) or unfit(near)):
                yield f"referee: {row['id']}, {row['mode']}, planned at {row['planned_at']}, {why}"

    def _unfit_book(self, books: Sequence[Fact]) -> str | None:
        """Return why no order may be for any of these books: one side is empty, too far away, or nothing moved."""
        settings = [era["config"]["venues"]["polymarket"].get("settings", {}) for era in self.facts["eras"]]
        widest, oldest_s = (
            max((one.get(name, default) for one in settings), default=default)
            for name, default in (("max_spread", MAX_SPREAD), ("max_book_age_s", MAX_BOOK_AGE_S))
        )
        two_sided = [one for one in books if one["bid"] is not None and one["ask"] is not None]
        narrow = [one for one in two_sided if one["ask"] - one["bid"] <= widest + 1e-9]
        if not narrow:
            sides = [(one["bid"], one["ask"]) for one in books]
            return f"is for a book whose sides were {sides[-2:]}, {widest:g} may be"
        if all(one.get("age_s", 0.0) > oldest_s + ONE_MOMENT_S for one in narrow):
            age_s = min(one["age_s"] for one in narrow)
            return f"is for a book that had not moved for {age_s:.0f} s, {oldest_s:g} may be"
        return None

    # Paid calls (docs/models.md, "Nothing is paid twice")

    def _paid_calls(self) -> Iterator[str]:
        runs: dict[tuple[str, ...], list[Fact]] = defaultdict(list)
        for call in self.facts["calls"]:
            runs[call["question"], call["forecaster"], call["trial"], call["life"]].append(call)
        for (question, _, trial, life), calls in runs.items():
            by_time = sorted(calls, key=lambda call: call["from_s"])
            for one, other in pairwise(by_time):
                if other["from_s"] < one["to_s"] - 1e-6:
                    what = (
                        f"calls {one['step']} at {one['from_s']:.0f} s and {other['step']} at {other['from_s']:.0f} s"
                    )
                    yield f"referee: {question} is paid twice side by side in {life}, trial {trial}: {what}"
                    break

    def _bills(self) -> Iterator[str]:
        """The bills of a day are within the budget of a day (docs/models.md, "Costs")."""
        tables = [era["config"].get("llm", {}) for era in self.facts["eras"]]
        # There is one provider, which may have a budget of its own.
        own = [[one["day_usd"] for one in table.get("providers", {}).values() if "day_usd" in one] for table in tables]
        all_day = [table.get("budget", {}).get("day_usd", DAY_USD) for table in tables]
        most = max((min([day, *more]) for day, more in zip(all_day, own, strict=True)), default=DAY_USD)
        days: dict[str, float] = defaultdict(float)
        for bill in self.facts.get("bills", ()):
            if bill["true_time"].hour in SAME_DAY_H:
                prices: Fact = next(iter(tables[-1].get("models", {}).values()), {})
                days[f"{bill['true_time']:%Y-%m-%d}"] += bill_usd(bill, prices)
        for day, cost in days.items():
            if cost > most + CENT:
                yield f"referee: models cost {cost:.4f} dollars on {day}, {most:g} may be"

    # Positions and cash

    @cached_property
    def _references(self) -> dict[str, list[Fact]]:
        """Return the intents by what the venue calls the orders that they became."""
        intents = {row["id"]: row for row in self.ledger["intents"]}
        found: dict[str, list[Fact]] = defaultdict(list)
        for row in self.ledger["attempts"]:
            if row["reference"] and row["state"] == "acked":
                found[row["reference"]].append(intents[row["intent"]])
        return found

    def _fills(self) -> Iterator[str]:
        """Position and cash after each order are those of the venue, for both legs and sides."""
        doubtful = {
            json.loads(row["order_body"])["contract"]
            for row in self.ledger["intents"]
            if row["order_body"] and row["state"] not in {"acked", "refused", "superseded"}
        }
        booked: dict[str, list[Fact]] = defaultdict(list)
        for row in self.ledger["fills"]:
            booked[row["intent"]].append(row)
        for order in self.facts["orders"]:
            intents = self._references.get(order["id"], [])
            if order["contract"] in doubtful or (not intents and not order["fills"]):
                continue
            if len(intents) != 1:
                names = [row["id"] for row in intents]
                yield f"referee: {self.describe(order)}, {order['id']}, and by the ledger that is of {names}"
                continue
            yield from self._fill_differences(order, intents[0], booked[intents[0]["id"]])

    def _fill_differences(self, order: Fact, intent: Fact, rows: Sequence[Fact]) -> Iterator[str]:
        body = json.loads(intent["order_body"])
        named = (body["side"], body["leg"], body["contract"])
        if named != (order["side"], order["leg"], order["contract"]):
            yield f"referee: {self.describe(order)}, and {intent['id']} was for {' '.join(named)}"
        there = [sum(part[place] for part in order["fills"]) for place in (1, 2)]
        known = [sum(row[name] for row in rows) for name in ("shares", "cash")]
        if any(abs(one - other) > CENT for one, other in zip(there, known, strict=True)):
            what = f"{there[0]:.4f} shares for {there[1]:.4f}"
            yield f"referee: {self.describe(order)}: {what}, and {known[0]:.4f} for {known[1]:.4f} on record"

    # Equity (docs/glossary.md; marks of docs/facts/polymarket.md#paper-fills)

    def _equity(self) -> Iterator[str]:
        """A reading is what the account was worth: no less and no more than at any moment around it."""
        accounts: dict[str, list[Fact]] = defaultdict(list)
        for account in [*self.facts["accounts"], *self.facts["last"]]:
            accounts[account["venue"]].append(account)
        for row in self.ledger["readings"]:
            if row["paper"] or row["venue"] not in accounts:
                continue
            at = datetime.fromisoformat(row["at"])
            near = seen_around(accounts[row["venue"]], at, before_s=MARKED_S)
            if not near:
                continue
            times = (at - timedelta(seconds=MARKED_S), at + timedelta(seconds=60.0))
            failed = [one for one in self.facts.get("unread", ()) if times[0] <= one["clock"] <= times[1]]
            markets = {one["market"] for one in failed if one["venue"] == row["venue"]}
            unread = value_unread_holdings([one for one in accounts[row["venue"]] if one["clock"] < times[1]], markets)
            values = [self.value_range(one, unread) for one in near]
            # A price is used again for some minutes, also once money has come or gone.
            values += [
                (low + one["cash"] - other["cash"], high + one["cash"] - other["cash"])
                for other, (low, high) in zip(near, [*values], strict=True)
                for one in near
                if one["cash"] != other["cash"] and list_holdings(one) == list_holdings(other)
            ]
            if not self.is_clock_set(at):
                yield from _wrong_cash(row, seen_around(accounts[row["venue"]], at, before_s=READ_S))
            low, high = min(one for one, _ in values), max(one for _, one in values)
            if not low - CENT <= row["equity"] <= high + CENT:
                what = f"{low:.4f}" if high - low < CENT else f"{low:.4f} to {high:.4f}"
                yield f"referee: {row['venue']} is worth {row['equity']:.4f} at {row['at']} on record, and was {what}"

    # Scores: docs/facts/forecastbench.md (squared error), docs/facts/metaculus.md#scores (baseline)

    def _scores(self) -> Iterator[str]:
        """Scores of yes-or-no questions follow the published formulas, from what came true at the venue."""
        outcomes = self.facts["outcomes"]
        for row in self.ledger["scores"]:
            if (known := outcomes.get(row["ref"])) is not None:
                yield from _wrong_score(row, (row["probability"] - known["yes"]) ** 2)
        for row in self.ledger["venue_scores"]:
            known = outcomes.get(row["ref"])
            said = [] if known is None else [p for start, end, p in known["said"] if start <= known["spot"] < end]
            if said:
                on_outcome = said[-1] if known["yes"] else 1.0 - said[-1]
                yield from _wrong_score(row, 100.0 * math.log(2.0 * on_outcome) / math.log(2.0))


def _wrong_cash(row: Fact, near: Sequence[Fact]) -> Iterator[str]:
    """What orders may still cost, and matches that are not settled yet, is no free cash."""
    free = [one["free"] for one in near]
    if free and not min(free) - CENT <= row["cash"] <= max(free) + CENT:
        what = f"{row['cash']:.4f} is free at {row['venue']} at {row['at']} on record"
        yield f"referee: {what}, and by its orders {min(free):.4f} to {max(free):.4f} was"


def _wrong_score(row: Fact, value: float) -> Iterator[str]:
    if abs(row["value"] - value) > 1e-6:
        yield f"referee: {row['rule']} of {row['ref']} is {row['value']:.6f} on record, and had to be {value:.6f}"


def bill_usd(bill: Fact, prices: Fact) -> float:
    """Return what an answer costs by its tokens, at prices in dollars per million."""
    cached = bill["prompt_tokens_details"]["cached_tokens"]
    rows = (
        (bill["prompt_tokens"] - cached, "price_in"),
        (cached, "price_cached"),
        (bill["completion_tokens"], "price_out"),
    )
    return float(sum(tokens * prices.get(name, 0.0) for tokens, name in rows)) / 1e6


def _is_covered(order: Fact, act: Fact, hours: float) -> bool:
    shown, age = act["shown"], order["clock"] - act["clock"]
    slack = APPROVED_SLACK + 1e-6
    limit = float(shown.get("limit", "nan"))
    worse = order.get("limit", limit) - limit if order["side"] == "buy" else limit - order.get("limit", limit)
    return bool(
        act["at_s"] <= order["at_s"]
        and timedelta() <= age <= timedelta(hours=hours, seconds=UNDER_WAY_S)
        and shown.get("order") == f"{order['side']} {order['leg']} {order['contract']}"
        and order["asked"] <= float(shown["cost"].split()[0]) + CENT
        and worse <= slack
    )


def _wrong_price(order: Fact, books: Sequence[Fact]) -> str | None:
    """Return why an order cannot have been planned on any of these books of its own token."""
    price, rests = order["expected"], order["terms"]["type"] == "GTD"
    bids, asks = ([book[side] for book in books if book[side] is not None] for side in ("bid", "ask"))
    what = f"to {order['side']} {order['leg']} at {price:.4f}"
    if order["side"] == "sell" and not any(price <= bid + 1e-9 for bid in bids):
        return f"{what}, is not for its own book, where the best bids were {sorted(set(bids))}"
    if order["side"] == "buy" and not any(price < ask if rests else price >= ask - 1e-9 for ask in asks):
        return f"{what}, is not for its own book, where the best asks were {sorted(set(asks))}"
    return None


def _cap_day(order: Fact) -> str:
    """Return the day that an order counts for, "" in its first minutes: it may be planned on the day before."""
    at = order["clock"]
    return "" if at.hour == 0 and at.minute < 6 else f"{at:%Y-%m-%d}"


def _stake_at(order: Fact, at_s: float) -> float:
    """Return what a purchase had cost or might still cost at a moment."""
    known = [stake for since, stake in order["stakes"] if since <= at_s]
    return float(known[-1]) if known and order["side"] == "buy" else 0.0
