"""Further rules of the referee, about what was sold, filed, withdrawn and paid: by the world, and by the documentation.

Like ``referee`` they share no code with the engine. Sources: docs/settings.md (``stop_loss``, ``take_profit``,
``min_trial_share``, ``withdraw_stale``, ``question_usd``), docs/going-live.md (approvals), docs/venues.md (sales, void
questions), docs/facts/forecastbench.md#forecast-set.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.simulation.full_system.account_values import PASS_S, position_worth
from tests.simulation.full_system.referee import CENT, UNDER_WAY_S, bill_usd
from tests.simulation.full_system.referee_facts import CLOCK_SET, Fact, WorldFacts

# A share of a fee that is rounded, on a tenth of a share; a fraction of a millionth of a unit of money.
SHARE_SLACK, MILLIONTHS = 5e-4, 2
# An account is read several times in a pass; a pass that saw a position shows it in so many readings at least.
READINGS = 3
# By so much more than its bound a position has lost or gained where a sale is certainly due.
BEYOND = 0.02
# A policy that tried to sell tries again ten minutes later, in the pass after that.
TRIED_S = 3.0 * 3_600.0
# Bills are added up with so much rounding; a call that is on record for less than its most is below a cent.
BILLED_SLACK = 1e-6
# What Metaculus takes of a probability (docs/facts/metaculus.md#forecasts).
LEAST_SAID, MOST_SAID = 0.001, 0.999
# A mean of log-odds takes no chance for smaller, so that one bold trial does not decide alone.
LEAST_CHANCE = 1e-4
# The steps of a forecaster of the simulation; beliefs carry rounding.
STEPS, BELIEF_SLACK = (1, 2, 3), 1e-6
# A clock may be off by so much: venues refuse what has another time.
MOST_AHEAD_S, ONE_MOMENT_S = 30.0, 2.0
# An order at the exchange may end a minute before what is set.
EARLY_S = 60.0
# For how long orders rest, where the configuration says nothing else.
ORDER_LIFETIME_S: Mapping[str, float] = {"manifold": 60.0, "polymarket": 3_600.0}
# A forecast is made, and taken back, at Metaculus with these requests.
FORECAST, WITHDRAW = "/api/questions/forecast/", "/api/questions/withdraw/"
# By so much a sum of shares is rounded, and so far from what was forecast a valid curve may be.
SHARES_SUM, CURVE_SLACK = 1e-5, 0.013
# Of the settings that nobody set.
TRIAL_SHARE, STALE_AFTER_H, MIN_GAP_H, QUESTION_USD = 0.5, 72.0, 1.0, 5.0
ROWS: Mapping[str, str] = {
    "sales": """select i.id, i.mode, i.ref, i.order_body, i.predictions, total(f.shares) as shares,
        total(f.cash) as cash from intent i join fill f on f.intent = i.id where i.venue = 'polymarket'
        and i.order_body ->> 'side' = 'sell' and coalesce(i.order_body ->> 'closing', '') = '' group by i.id""",
    "forecasts": "select id, ref, forecaster, cutoff from forecast where state = 'done'",
    # A price from minutes after the cutoff, which a clock that was set back leaves, is not shown to a forecaster.
    "beliefs": """select f.ref, f.forecaster, f.cutoff, p.probability,
        iif(julianday(c.at) <= julianday(f.cutoff, '5 minutes'), c.probability, null) as crowd, (
          select sum(t.ending = 'finished') > 1 or sum(t.ending not in ('finished', 'failed')) = 0 from trial t
          where t.forecast = f.id) as is_whole from forecast f
        join prediction p on p.forecast = f.id left join price c on c.id = f.price
        where f.state = 'done' and f.forecaster in ('drifter', 'drifter_second') and p.probability is not null
        and (select count(*) from prediction q where q.forecast = f.id) = 1""",
    "costs": """select case state when 'done' then cost_usd else 0 end as usd, coalesce(cost_usd, worst_usd) as most
        from model_call""",
    "spending": "select scope, ref, total(coalesce(cost_usd, worst_usd)) as usd from model_call group by scope, ref",
    "withdrawals": """select i.id, i.ref, i.planned_at, f.made_at from intent i join forecast f on f.id = i.forecast
        where i.action = 'withdraw' and not exists (
          select 1 from audit a where a.kind = 'withdraw' and json_extract(a.body, '$.intent') = i.id)""",
    "said": """select ref, predictions from intent where venue = 'metaculus' and action = 'forecast'
        and mode <> 'paper'""",
    "filed": """select id, ref, batch, state, predictions from intent where venue = 'forecastbench'
        and action = 'forecast' and mode <> 'paper' order by seq""",
    "traded": """select i.order_body ->> 'contract' as contract, i.ref, q.closes_at, i.planned_at,
        i.order_body ->> 'side' as side, coalesce(i.order_body ->> 'closing', '') as closing
        from intent i join question q on q.ref = i.ref where i.order_body is not null""",
}
ROUND_TARGETS = """
select distinct p.ref, p.target from prediction p join forecast f on f.id = p.forecast
where p.ref like 'forecastbench:%' and f.state = 'done' and julianday(f.made_at) < julianday(:since)
"""
ROUND_ROWS = "select ref, target, kind, value from current_resolution where ref like 'forecastbench:%'"
# What a contract brought in cash, what of that was a refund that is in force, and whether there is one.
REFUNDED = """
select p.contract, sum(p.amount) as cash, total(p.amount) filter (where m.kind = 'refund' and s.undone_at is null)
  as refund, max(m.kind = 'refund' and s.undone_at is null) as is_void
from posting p join movement m on m.id = p.movement left join settlement s on s.id = m.settlement
where p.place = 'cash' and p.contract <> '' group by p.contract having is_void
"""


# By so much the limit of an order may be worse than one that a person approved, with what rounding adds.
WORSE_THAN_APPROVED = 0.0101
# No mean of log-odds takes a chance for smaller.
LEAST_CHANCE = 1e-4


@dataclass(frozen=True)
class EffectReferee(WorldFacts):
    """Judges one simulation by these rules; ``ledger`` has ``ROWS``, and ``refunds`` of each paper book.

    ``files`` are the forecast files that the venue received, by name.
    """

    files: Mapping[str, Any]

    def violations(self) -> Iterator[str]:
        """Say what must not have been."""
        for write in [one for one in self.facts["writes"] if one["kind"] != "cancel"]:
            table = self.venue_table(self.era_at(write["at_s"])["config"], write["venue"])
            for why in (*self._clock_objections(write), *self._lifetime_objections(write, table)):
                yield f"referee: {self.describe(write)}, and {why}"
        yield from self._sales()
        yield from self._missed_exits()
        yield from self._approved_writes()
        yield from self._trials()
        yield from self._question_bills()
        yield from self._withdrawals()
        yield from self._withdrawn_twice()
        yield from self._filed_rows()
        yield from self._lost_rows()
        yield from self._said()
        yield from self._refunds()
        yield from self._beliefs()
        yield from self._costs()

    def _setting(self, section: str, name: str, default: float) -> list[float]:
        return [era["config"].get(section, {}).get(name, default) for era in self.facts["eras"]]

    def _clock_objections(self, write: Fact) -> Iterator[str]:
        """Nothing is sent while the clock is not that of the venues (docs/operations.md#disk-and-clock)."""
        first = self.facts["eras"][0]
        ahead_s = (write["clock"] - first["clock"]).total_seconds() - (write["at_s"] - first["at_s"])
        moves = [act["at_s"] for act in self.facts["acts"] if act["kind"] == "clock moved"]
        since = max((at_s for at_s in moves if at_s <= write["at_s"]), default=write["at_s"])
        if abs(ahead_s) > MOST_AHEAD_S and write["at_s"] - since > UNDER_WAY_S and write["kind"] != "login":
            yield f"the clock was {ahead_s:+.0f} s ahead since {since:.0f} s"

    def _lifetime_objections(self, write: Fact, table: Fact) -> Iterator[str]:
        """What rests does so for as long as is set: it was made at most some minutes before it arrived."""
        settings, body = table.get("settings", {}), write["body"] if isinstance(write["body"], dict) else {}
        lasts_s: float | None = None
        if write["venue"] == "manifold" and body.get("expiresAt"):
            lasts_s = body["expiresAt"] / 1000.0 - write["clock"].timestamp()
        elif body.get("orderType") == "GTD":
            # The exchange ends it a minute before its expiry.
            lasts_s = float(body["order"]["expiration"]) - 60.0 - write["clock"].timestamp()
        if lasts_s is None or self.is_clock_set(write["clock"]):
            return
        wanted = settings.get("order_lifetime_s", ORDER_LIFETIME_S[write["venue"]])
        early = EARLY_S if write["venue"] == "polymarket" else 0.0
        if not wanted - early - UNDER_WAY_S <= lasts_s <= wanted + ONE_MOMENT_S:
            yield f"it would rest for {lasts_s:.0f} s more, {wanted:g} s are set"

    def _sales(self) -> Iterator[str]:
        """What is sold for a belief brings, after fees, at least what it is worth by that belief."""
        for row in self.ledger["sales"]:
            order = json.loads(row["order_body"])
            worth, brought = _worth(order, json.loads(row["predictions"])), row["cash"] / row["shares"]
            if worth is not None and brought < worth - SHARE_SLACK:
                what = f"sold {order['leg']} of {row['ref']} for {brought:.4f} a share after fees"
                yield f"referee: {row['id']}, {row['mode']}, {what}, worth {worth:.4f} by its own forecast"

    def _missed_exits(self) -> Iterator[str]:
        """No pass buys while a position has lost, or gained, more than the share at which it is to be sold."""
        for order in self.facts["orders"]:
            table = self.venue_table(self.era_at(order["at_s"])["config"], order["venue"])
            bounds = {name: table.get("trading", {}).get(name) for name in ("stop_loss", "take_profit")}
            if (order["side"], table["mode"]) != ("buy", "live") or not any(bounds.values()):
                continue
            for position, least, most in self._gains_in_pass(order):
                is_due = is_exit_due(least, most, bounds) and not self._is_kept(position["contract"], order, table)
                if is_due and position["contract"] != order["contract"]:
                    what = (
                        f"{position['leg']} {position['contract']} has a gain of {least:.3f} to {most:.3f} of its cost"
                    )
                    yield f"referee: {self.describe(order)}, and {what}, to be sold at {bounds}"

    def _gains_in_pass(self, order: Fact) -> Iterator[tuple[Fact, float, float]]:
        """Yield positions with the least and the most that they had gained in all readings of the pass of an order.

        Nothing if an answer was broken, and nothing of positions that changed, or whose price is not known here.
        """
        since = max(order["at_s"] - PASS_S, self.era_at(order["at_s"])["from_s"])
        seen = [one for one in self.facts["accounts"] if one["venue"] == order["venue"]]
        seen = [one for one in seen if since <= one["at_s"] < order["at_s"]]
        if len(seen) < READINGS or len({one["faults"] for one in seen}) > 1:
            return
        for position in seen[-1]["positions"]:
            same = [one for account in seen for one in account["positions"] if holding_of(one) == holding_of(position)]
            if len(same) == len(seen) and position["paid"] > CENT and all(map(has_price, same)):
                worth = [value / position["paid"] - 1.0 for one in same for value in position_worth(one)]
                yield position, min(worth), max(worth)

    def _is_kept(self, contract: str, order: Fact, table: Fact) -> bool:
        """Say whether a position may stay: closed or soon to be, locked, of somebody else, or tried to sell of late."""
        rows = [row for row in self.ledger["traded"] if row["contract"] == contract]
        if not any(row["side"] == "buy" for row in rows):
            return True
        ref, closes = rows[0]["ref"], rows[0]["closes_at"]
        margin = timedelta(seconds=table.get("close_margin_s", 60.0)) + CLOCK_SET
        tried = [datetime.fromisoformat(row["planned_at"]) for row in rows if row["closing"] or row["side"] == "sell"]
        spans = self.facts.get("closed", {}).get(ref, ())
        return (
            any(since <= order["clock"] and (until is None or until >= order["clock"]) for since, until in spans)
            or (closes is not None and datetime.fromisoformat(closes) <= order["clock"] + margin)
            or any(str(act.get("ref")) == ref for act in self.facts["acts"] if act["kind"] == "lock")
            or any(abs((at - order["clock"]).total_seconds()) < TRIED_S for at in tried)
        )

    def _approved_writes(self) -> Iterator[str]:
        """In mode approve each request to buy has an answer of its own, also where an earlier one did not arrive.

        Its limit is at most a cent worse than one that was shown.
        """
        bought = Counter[tuple[str, str]]()
        answers = [act for act in self.facts["acts"] if act["kind"] == "answer" and act["approved"]]
        for write in self.facts["writes"]:
            table = self.venue_table(self.era_at(write["at_s"])["config"], write["venue"])
            if table["mode"] != "approve" or (purchase := self._purchase(write)) is None:
                continue
            contract, leg, limit = purchase
            bought[write["venue"], contract] += 1
            shown = [act["shown"] for act in answers if act["at_s"] <= write["at_s"]]
            limits = [float(one["limit"]) for one in shown if one.get("order") == f"buy {leg} {contract}"]
            if limits and limit > max(limits) + WORSE_THAN_APPROVED:
                what = f"{leg} of {contract} at {write['at_s']:.0f} s up to {limit:.4f}"
                yield f"referee: {write['venue']} was asked to buy {what}, and {max(limits):.4f} was approved at most"
        granted = Counter(act["shown"].get("order", "").rpartition(" ")[2] for act in answers)
        for (venue, contract), count in bought.items():
            if count > granted[contract]:
                yield f"referee: {venue} got {count} requests to buy {contract}, and {granted[contract]} were approved"

    def _purchase(self, write: Fact) -> tuple[str, str, float] | None:
        """Return contract, side and limit of a request to buy."""
        body = write["body"]
        if write["path"] == "/v0/bet":
            contract = f"{body['contractId']}/{body['answerId']}" if body.get("answerId") else str(body["contractId"])
            leg = body["outcome"].lower()
            # Without a limit it is filled at any price.
            yes = float(body.get("limitProb", leg == "yes"))
            return contract, leg, yes if leg == "yes" else 1.0 - yes
        if write["path"] != "/order" or body.get("order", {}).get("side") != "BUY":
            return None
        order = body["order"]
        limit = float(order["makerAmount"]) / float(order["takerAmount"])
        legs = (name for name, seen in self.facts["books"].items() if seen[0].get("token") == str(order["tokenId"]))
        return next(((contract, leg, limit) for contract, leg in legs), None)

    def _trials(self) -> Iterator[str]:
        """No forecast is made where fewer of its trials came to an answer than are set."""
        runs: dict[tuple[str, str], dict[int, dict[int, bool]]] = defaultdict(lambda: defaultdict(dict))
        for call in self.facts["calls"]:
            runs[call["question"], call["cutoff"]][call["forecaster"]][call["trial"]] = call["slips"]
        for row in self.ledger["forecasts"]:
            if row["forecaster"] not in {"drifter", "drifter_second"}:
                continue
            share = min(self._setting("limits", "min_trial_share", TRIAL_SHARE))
            for era in self.facts["eras"]:
                own = era["config"].get("forecasters", {}).get(row["forecaster"], {}).get("min_trial_share")
                share = min(share, own) if own is not None else share
            cutoff = datetime.fromisoformat(row["cutoff"]).isoformat()
            counts = [(len(one), sum(one.values())) for one in runs.get((row["ref"], cutoff), {}).values()]
            # Which of two forecasters made the same start is not known here.
            if counts and all(count - slips < max(1.0, share * count) for count, slips in counts):
                what = f"{[slips for _, slips in counts]} of {[count for count, _ in counts]} trials without an answer"
                yield f"referee: {row['id']} of {row['ref']} was made with {what}, {share:g} of them must count"

    def _question_bills(self) -> Iterator[str]:
        """One forecast of one question costs no more than its budget, in all lives that worked on it."""
        budgets = [era["config"].get("llm", {}).get("budget", {}) for era in self.facts["eras"]]
        most = max((budget.get("question_usd", QUESTION_USD) for budget in budgets), default=QUESTION_USD)
        for row in self.ledger["spending"]:
            if row["usd"] > most + 1e-6:
                yield f"referee: the forecast {row['scope']} of {row['ref']} costs {row['usd']:.4f}, {most:g} may be"

    def _withdrawals(self) -> Iterator[str]:
        """A stale forecast is withdrawn once there was the time to renew it."""
        stale, gap = (
            min(self._setting("policy", name, default))
            for name, default in (("stale_after_h", STALE_AFTER_H), ("min_gap_h", MIN_GAP_H))
        )
        for row in self.ledger["withdrawals"]:
            made, planned = datetime.fromisoformat(row["made_at"]), datetime.fromisoformat(row["planned_at"])
            is_moved = self.is_clock_set(made) or self.is_clock_set(planned)
            if planned - made < timedelta(hours=stale + gap) and not is_moved:
                what = (
                    f"the forecast of {row['ref']} of {made}, which was to be renewed for {gap:g} h after {stale:g} h"
                )
                yield f"referee: {row['id']} withdraws at {planned} {what}"

    def _withdrawn_twice(self) -> Iterator[str]:
        """What was withdrawn, with an answer that says so, is not withdrawn again before it is forecast again."""
        done: dict[str, Fact] = {}
        for write in [one for one in self.facts["writes"] if one["venue"] == "metaculus"]:
            items = write["body"] if isinstance(write["body"], list) else ()
            for question in [str(item.get("question")) for item in items]:
                if write["path"] != WITHDRAW:
                    done.pop(question, None)
                elif (before := done.get(question)) is not None:
                    what = f"was withdrawn at {before['at_s']:.0f} s, and nothing was forecast since"
                    yield f"referee: {self.describe(write)}: question {question} {what}"
                elif write["number"] not in self.facts["disturbed"]["metaculus"]:
                    done[question] = write

    def _filed_rows(self) -> Iterator[str]:
        """Each row of a forecast file is the probability that was meant for that question and date."""
        meant: dict[tuple[str, str], set[float]] = defaultdict(set)
        for row in self.ledger["filed"]:
            for target, prediction in json.loads(row["predictions"]).items():
                meant[row["ref"], target].add(prediction.get("probability"))
        for name, file in self.files.items():
            for line in file["forecasts"]:
                ref = f"forecastbench:{name[:10]}/{line['source']}/{line['id']}"
                dates = (
                    [line["resolution_date"]] if line["resolution_date"] else [key[1] for key in meant if key[0] == ref]
                )
                if not any(line["forecast"] in meant[ref, date] for date in dates):
                    what = f"{line['forecast']} for {line['resolution_date'] or 'its end'}"
                    yield f"referee: {name} has {what} of {ref}, and that was not forecast"

    def _lost_rows(self) -> Iterator[str]:
        """What was acknowledged of a round is in its newest file, also once others were added to it."""
        last = {(row["batch"], row["ref"]): row for row in self.ledger["filed"] if row.get("state") == "acked"}
        for (batch, ref), row in last.items():
            files = [file for name, file in self.files.items() if name.startswith(batch)]
            known = {(line["source"], line["id"], line["forecast"]) for file in files for line in file["forecasts"]}
            _, source, number = ref.partition(":")[2].split("/", 2)
            said = [one.get("probability") for one in json.loads(row["predictions"]).values()]
            if files and not all((source, number, one) in known for one in said):
                yield f"referee: {row['id']} of {ref} was acknowledged, and is not in the file of {batch}: {said[:3]}"

    def _said(self) -> Iterator[str]:
        """What Metaculus gets is what was forecast, within the bounds that it has: a chance, shares, or a curve.

        What has to be changed is changed least: shares and the points of a curve stay near to what was forecast.
        """
        meant: dict[str, list[Any]] = defaultdict(list)
        for row in self.ledger.get("said", ()):
            meant[row["ref"].rsplit(":", 1)[1]] += json.loads(row["predictions"]).values()
        for write in self.facts["writes"]:
            items = write["body"] if write["venue"] == "metaculus" and isinstance(write["body"], list) else ()
            for item in items if write["path"] == FORECAST else ():
                known = meant[str(item["question"])]
                if not any(_is_said(item, one) for one in known):
                    what = f"{str(item)[:160]}, and {str(known)[:160]} were forecast"
                    yield f"referee: {self.describe(write)}: {what}"

    def _refunds(self) -> Iterator[str]:
        """A void question gives back what was put in and not taken out before, on paper too."""
        for row in self.ledger["refunds"]:
            is_wrong = abs(row["cash"]) > MILLIONTHS if row["cash"] <= row["refund"] else row["refund"] > MILLIONTHS
            if is_wrong:
                what = f"{row['refund'] / 1e6:.4f} were given back, which leaves {row['cash'] / 1e6:.4f}"
                yield f"referee: of {row['contract']}, a void one, {what}"

    def _beliefs(self) -> Iterator[str]:
        """A forecast of yes or no is what its forecaster answers to the price on record, after its last step.

        Only of trials that were cut short it may be what an earlier step says.
        """
        for row in self.ledger["beliefs"]:
            tables = [era["config"].get("forecasters", {}).get(row["forecaster"], {}) for era in self.facts["eras"]]
            steps = STEPS[-1:] if row.get("is_whole") else STEPS
            said = [_drifted(row, table.get("settings", {}), step) for table in tables for step in steps]
            answers = [*said, *(min(max(one, LEAST_CHANCE), 1.0 - LEAST_CHANCE) for one in said)]
            # Where single trials are cut short, it is between them.
            is_mixed = len(steps) > 1 and any(table.get("settings", {}).get("lingers_share") for table in tables)
            is_between = min(answers) - BELIEF_SLACK <= row["probability"] <= max(answers) + BELIEF_SLACK
            is_one = any(abs(one - row["probability"]) < BELIEF_SLACK for one in answers)
            if not (is_between if is_mixed else is_one):
                what = f"{row['probability']:.6f} on {row['ref']}, priced {row['crowd']}"
                yield f"referee: {row['forecaster']} says {what}, and its answers are {sorted({*answers})}"

    def _costs(self) -> Iterator[str]:
        """Calls count for what they are billed, and those whose end is unknown for their most."""
        bills = self.facts.get("bills", ())
        if not bills:
            return
        prices: Fact = next(iter(self.facts["eras"][-1]["config"].get("llm", {}).get("models", {}).values()), {})
        billed = sum(bill_usd(bill, prices) for bill in bills)
        known = sum(row["usd"] for row in self.ledger["costs"])
        most = sum(row["most"] for row in self.ledger["costs"])
        if not known - CENT <= billed <= most + BILLED_SLACK:
            yield f"referee: models billed {billed:.4f} dollars, {known:.4f} to {most:.4f} are on record"


def _drifted(row: Fact, settings: Fact, step: int) -> float:
    """Return what the forecaster of the simulation answers after a step: log-odds moved by its lean."""
    every_h = settings.get("turns_every_h")
    cutoff_s = datetime.fromisoformat(row["cutoff"]).timestamp()
    period = "" if every_h is None else f" {int(cutoff_s // (3_600.0 * every_h))}"
    lean = 2.0 * int.from_bytes(hashlib.sha256(f"{row['ref']}{period}".encode()).digest()[:4], "big") / 2**32 - 1.0
    lean = math.copysign(abs(lean) ** settings.get("caution", 1.0), lean)
    move = settings.get("boldness", 0.9) * lean * step / STEPS[-1]
    price = 0.5 if row["crowd"] is None else row["crowd"]
    odds = max(price, 0.01) / max(1.0 - price, 0.01) * math.exp(move)
    return float(odds / (1.0 + odds))


def missing_outcomes(files: Mapping[str, Any], recorded: Sequence[Fact], said: Sequence[Fact]) -> Iterator[str]:
    """Say which outcome of a round is not on record, of the rows of ``ROUND_TARGETS``."""
    there = {(row["ref"], row["target"]) for row in recorded}
    known = {
        (name[:10], row["id"], row["resolution_date"])
        for name, file in files.items()
        for row in file["resolutions"]
        if row["resolved"]
    }
    for row in said:
        due, _, number = row["ref"].partition(":")[2].split("/", 2)
        if (due, number, row["target"]) in known and (row["ref"], row["target"]) not in there:
            yield f"outcome: {row['ref']}, {row['target']} is in its file, and not on record"


def round_outcomes(files: Mapping[str, Any], recorded: Sequence[Fact]) -> Iterator[str]:
    """Say which outcome of a round is not that of its newest file, ``recorded`` are the rows of ``ROUND_ROWS``.

    An outcome that a file with others no longer has is void (docs/facts/forecastbench.md).
    """
    told: dict[tuple[str, str, str], float] = {}
    for name, file in files.items():
        for row in file["resolutions"]:
            if row["resolved"]:
                told[name[:10], row["id"], row["resolution_date"]] = row["resolved_to"]
    for row in recorded:
        due, _, number = row["ref"].partition(":")[2].split("/", 2)
        mine = {key[2]: value for key, value in told.items() if key[:2] == (due, number)}
        value = mine.get(row["target"]) if len(row["target"]) == len(due) else next(iter(mine.values()), None)
        has_others = any(key[0] == due for key in told)
        is_wrong = (
            row["kind"] != "happened" or row["value"] != value if value is not None else row["kind"] == "happened"
        )
        if has_others and is_wrong:
            what = f"{row['ref']}, {row['target']} is {row['kind']} {row['value']} on record"
            yield f"outcome: {what}, and {value} in its file"


def incomplete_sets(files: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[str]:
    """Say which forecast file lacks rows of its question set, or has one twice or that nobody asked for.

    A question of a market has one row without a date, one of a series a row for each of its dates
    (docs/facts/forecastbench.md#forecast-set).
    """
    for name, file in files.items():
        questions = asked.get(f"{name[:10]}-llm.json", {"questions": []})["questions"]
        due: Counter[tuple[str, str, str | None]] = Counter()
        for one in questions:
            dates = one["resolution_dates"] if isinstance(one["resolution_dates"], list) else [None]
            due.update((one["source"], one["id"], date) for date in dates)
        rows = Counter((row["source"], row["id"], row["resolution_date"]) for row in file["forecasts"])
        if questions and rows != due:
            missing, more = sorted(map(str, due - rows)), sorted(map(str, rows - due))
            yield f"referee: {name} lacks {len(missing)} rows {missing[:2]}, and has {len(more)} more {more[:2]}"


def untold_outcomes(told: Collection[tuple[str, str]], recorded: Sequence[Fact]) -> Iterator[str]:
    """Say which rows of ``ROUND_ROWS`` are of questions, and dates, that no file ever called resolved.

    What is not resolved has a row with yesterday's price (docs/facts/forecastbench.md#essentials).
    """
    dates: dict[str, set[str]] = defaultdict(set)
    for number, date in told:
        dates[number].add(date)
    for row in recorded:
        due, _, number = row["ref"].partition(":")[2].split("/", 2)
        is_told = row["target"] in dates[number] if len(row["target"]) == len(due) else bool(dates[number])
        if row["kind"] == "happened" and not is_told:
            yield f"outcome: {row['ref']}, {row['target']} is {row['value']} on record, and no file called it resolved"


def read_forecast_files(folder: Path) -> dict[str, Any]:
    """Return the files of a bucket by name."""
    return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.json"))}


def _is_said(item: Fact, meant: Fact) -> bool:
    """Say whether a request to Metaculus says what was forecast (docs/facts/metaculus.md#objects)."""
    said = item.get("probability_yes")
    if said is not None and meant.get("probability") is not None:
        return bool(abs(said - min(max(meant["probability"], LEAST_SAID), MOST_SAID)) < BELIEF_SLACK)
    shares, options = item.get("probability_yes_per_category"), meant.get("probabilities")
    if shares is not None and options is not None:
        # Of so many options each may be lifted to the least, which is taken from the others.
        slack = LEAST_SAID * len(shares) + BELIEF_SLACK
        is_whole = abs(math.fsum(shares.values()) - 1.0) < SHARES_SUM
        return is_whole and shares.keys() == options.keys() and _is_close(shares, options, slack)
    points, curve = item.get("continuous_cdf"), meant.get("cdf")
    if points is None or curve is None or len(points) != len(curve):
        return False
    # Each of its steps has a hundredth of a flat one at least, and an open end a thousandth.
    return _is_close(dict(enumerate(points)), dict(enumerate(curve)), CURVE_SLACK)


def _is_close(said: Mapping[Any, float], meant: Mapping[Any, float], slack: float) -> bool:
    return all(abs(value - meant[name]) <= slack for name, value in said.items())


def is_exit_due(least: float, most: float, bounds: Mapping[str, float | None]) -> bool:
    """Say whether a position has certainly lost, or gained, the share of its cost at which it is to be sold."""
    loss, profit = bounds["stop_loss"], bounds["take_profit"]
    return bool((loss and most < -loss - BEYOND) or (profit and least > profit + BEYOND))


def holding_of(position: Fact) -> tuple[object, ...]:
    """Return what a position is: which shares of which contract, and what was paid for them."""
    return tuple(position[name] for name in ("contract", "leg", "shares", "paid"))


def has_price(position: Fact) -> bool:
    """Say whether shares can be sold, at a price that is known here."""
    if position.get("pays") is not None:
        return False
    return bool(position.get("bid")) if position.get("has_book") else position.get("pool") is not None


def _worth(order: Fact, predictions: Fact) -> float | None:
    """Return what a share of an order pays by a forecast, None where the forecast does not say."""
    if len(predictions) != 1:
        return None
    [prediction] = predictions.values()
    yes = prediction.get("probability", prediction.get("probabilities", {}).get(order.get("option", "")))
    return None if yes is None else float(yes if order["leg"] == "yes" else 1.0 - yes)
