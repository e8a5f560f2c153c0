"""What the ledger records of forecasts, fills, outcomes and scores, computed again from their own formulas.

By docs/facts/metaculus.md ("scores"), docs/facts/forecastbench.md (squared error), docs/settings.md ("trials",
"divergence", "comment") and docs/venues.md ("Orders"). Only rows are compared; nothing of the engine is used.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from statistics import mean, median
from typing import Any

from bot.execution.paper.forecast_book import FORECAST_BOOK_FILE
from bot.store.serialization import parse_timestamp
from tests.ledger_checks import Row, read_rows
from tests.simulation.full_system.effect_rules import LEAST_CHANCE, TRIAL_SHARE
from tests.simulation.full_system.score_checks import ScoreChecks

Tables = Mapping[str, Any]
# Money and scores carry the rounding of a venue, and of sums.
CENT, SAME = 0.006, 1e-6
# The belief and the price of a decision may have moved by so much before an order; nobody moves the clock by more.
MOVED, PRICED = 0.05, timedelta(hours=13)
# A venue gives the time of an outcome in seconds or better.
ONE_SECOND = timedelta(seconds=1.0)
# Outcomes of Manifold count after so long, where nobody set it.
RESOLVE_AFTER_S = 900.0
# A calibration moves a forecast by so much at most.
MOST_CORRECTED = 0.1
# Questions of a round, which are named by its due date.
ROUNDS = "forecastbench:"
# The weights of a blend before any outcome, and by how much those on record are rounded.
EQUAL_WEIGHTS, ROUNDED_WEIGHT = 1.15, 0.01
# Where shares are pooled, smaller ones count as this.
LEAST_SHARE = 1e-6
# An answer of one half is that of a run that got stuck, and has no weight.
EVEN = 0.5
_TRIAL_ANSWERS = """
select f.id, f.ref, f.forecaster, p.target, t.ending, t.body,
  coalesce(p.raw_body, p.raw_probability, p.probability) as said
from forecast f join prediction p on p.forecast = f.id join trial t on t.forecast = f.id
where f.state = 'done' and f.forecaster in ('drifter', 'drifter_second') order by f.id, p.target
"""
_BLENDS = """
select f.id, f.ref, f.forecaster, f.version, f.cutoff, f.started_at, f.made_at, f.fitted, p.target, t.body,
  coalesce(p.raw_body, p.raw_probability) as said
from forecast f join prediction p on p.forecast = f.id join trial t on t.forecast = f.id and t.number = 1
where f.state = 'done'
"""
_MEMBERS = """
select f.forecaster, f.cutoff, f.made_at, coalesce(p.raw_body, p.raw_probability) as said from forecast f
join prediction p on p.forecast = f.id
where f.state = 'done' and f.ref = :ref and f.version = :version and p.target = :target order by f.made_at, f.revision
"""
# What may teach: who answered it in time, since when it had an outcome, and how many it had.
_LESSONS = """
select r.ref, f.forecaster, min(r.resolved_at) as resolved_at, min(r.seen_at) as seen_at, (
    select count(*) from resolution o where o.ref = r.ref) as outcomes
from resolution r join forecast f on f.ref = r.ref join prediction p on p.forecast = f.id and p.target = r.target
join question q on q.ref = r.ref join question_version v on v.version = f.version
where r.kind = 'happened' and f.state = 'done' and coalesce(p.raw_probability, p.probability) is not null
  and f.cutoff <= r.resolved_at and (q.closes_at is null or f.cutoff <= q.closes_at)
  and coalesce(json_extract(v.body, '$.facts.training'), '') <> 'no' group by r.ref, f.forecaster
"""
# "Forecast 38.3% (revision 1, ...": a chance in percent, which is rounded.
_SAID, ROUNDED_PERCENT = re.compile(r"Forecast ([\d.]+)%"), 0.06
_LEARNED = re.compile(r"fitted to (\d+) outcomes")
_CALIBRATED = """
select f.id, f.ref, p.target, p.probability, p.raw_probability, p.body, p.raw_body from forecast f
join prediction p on p.forecast = f.id
where f.state = 'done' and coalesce(p.raw_body, p.raw_probability) is not null
"""
_COMMENTS = """
select i.id, i.ref, i.venue, i.text, f.revision, f.forecaster, f.cutoff, (
  select p.probability from prediction p where p.forecast = f.id and p.probability is not null) as probability
from intent i join forecast f on f.id = i.forecast where i.action = 'comment'
"""
# How many trials a forecast that failed had, and how many of them came to an answer.
_FAILED = """
select f.id, f.ref, f.forecaster, count(*) as trials, total(
  t.ending <> 'failed' and json_extract(t.body, '$.belief') is not null) as answers
from forecast f join trial t on t.forecast = f.id
where f.state = 'failed' and f.forecaster in ('drifter', 'drifter_second') and t.ended_at is not null
  and f.detail like '%trial%failed:%' group by f.id
"""
# The newest one may still be extended.
READINGS = """
select venue, paper, at, equity - transfers - unconfirmed as worth from account_reading a
where id < (select max(id) from account_reading b where b.venue = a.venue and b.paper = a.paper)
"""
_VERSIONS = """
select q.ref, q.title, q.opens_at, q.closes_at, q.as_of, q.source, q.batch, v.body, v.seen_at
from question q join question_version v on v.version = q.version where q.title <> ''
"""
_STATEMENTS = "select account, ref, action, begun_at, ended_at from statement where action <> 'comment' order by seq"
_FILLS = "select intent, shares, price, fee, cash from fill"
_TRIALS = """
select f.id, f.ref, f.forecaster, max(t.number) as trials from forecast f join trial t on t.forecast = f.id
where f.state = 'done' and f.forecaster in ('drifter', 'drifter_second') group by f.id
"""
_PREDICTED = """
select forecast, target, coalesce(body, probability) as said from prediction
where coalesce(body, probability) is not null
"""
_SUBMITTED = """
select id, ref, forecast, predictions from intent
where action in ('order', 'forecast') and predictions is not null
  and coalesce(json_extract(order_body, '$.closing'), '') = ''
"""
_CUTOFFS = """
select f.id, f.ref, f.cutoff, f.started_at, q.as_of from forecast f join question q on q.ref = f.ref
where f.state = 'done' and f.started_at is not null
  and (select count(*) from question_version v where v.ref = f.ref) = 1
"""
_ENDINGS = """
select ref, resolved_at, seen_at from resolution where kind in ('happened', 'void') and ref like 'manifold:%'
"""
_UNAPPROVED = """
select i.id, i.ref, i.venue, i.planned_at, p.probability, p.body, json_extract(i.order_body, '$.expected') as price,
  json_extract(i.order_body, '$.leg') as leg, json_extract(i.order_body, '$.side') as side
from intent i join prediction p on p.forecast = i.forecast
where i.mode <> 'paper' and i.action in ('order', 'forecast') and i.state = 'acked'
  and (p.probability is not null or json_extract(p.body, '$.probabilities') is not null)
  and json_extract(i.order_body, '$.closing') is null
  and not exists (select 1 from approval a where a.forecast = i.forecast and a.state in ('approved', 'used'))
"""
_PRICES = "select seen_at, probability, body from price where ref = :ref"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordChecks:
    """Judges one ledger; ``endings`` say since when contracts have an outcome at their venue.

    ``readings`` are those of accounts (``READINGS``) that the ledger had at the ends of lives, ``spots`` the moments at
    which venues score questions at one moment.
    """

    ledger: Path
    configs: Sequence[Tables]
    endings: Mapping[tuple[str, str], Mapping[str, Any]]
    readings: Sequence[Row] = ()
    spots: Mapping[str, datetime] = field(default_factory=dict)

    def violations(self) -> Iterator[str]:
        """Say what is not what it is made of."""
        yield from ScoreChecks(ledger=self.ledger, spots=self.spots).violations()
        yield from self._aggregates()
        yield from self._blends()
        yield from self._calibrated()
        yield from self._peaks()
        yield from self._statements()
        yield from self._comments()
        yield from self._fills()
        yield from self._trials()
        yield from self._failed()
        yield from self._submitted()
        yield from self._cutoffs()
        yield from self._endings()
        yield from self._current_versions()
        yield from self._far_from_the_market()

    def _comments(self) -> Iterator[str]:
        """A comment says what was forecast, and of which forecast it is, where nobody wrote another text."""
        templates = [table.get("comment_template") for config in self.configs for table in config["venues"].values()]
        for row in read_rows(self.ledger, _COMMENTS) if not any(templates) else ():
            until = f"{parse_timestamp(row['cutoff']):%Y-%m-%d %H:%M} UTC"
            words = (f"(revision {row['revision']},", f" of {row['forecaster']},", f"information until {until})")
            said = _SAID.search(row["text"])
            if row["probability"] is not None and not (
                said and abs(float(said[1]) - 100.0 * row["probability"]) <= ROUNDED_PERCENT
            ):
                what = f"the comment {row['id']} on {row['ref']} says {row['text'][:40]!r}"
                yield f"forecast: {what}, and {row['probability']:.4f} was forecast"
            if missing := [one for one in words if one not in row["text"]]:
                yield f"forecast: the comment {row['id']} on {row['ref']} says {row['text'][:120]!r}, and not {missing}"

    def _aggregates(self) -> Iterator[str]:
        """A forecast is made of the trials that finished, where there are two at least, else of all with an answer."""
        trials: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in read_rows(self.ledger, _TRIAL_ANSWERS):
            trials[row["id"], row["target"]].append(row)
        for rows in trials.values():
            tables = [config.get("forecasters", {}).get(rows[0]["forecaster"], {}) for config in self.configs]
            methods = {table.get("aggregate", "logit-mean") for table in tables}
            said = [(row["ending"], _trial_answer(row)) for row in rows]
            finished = [one for ending, one in said if ending == "finished" and one is not None]
            counted = finished if len(finished) > 1 else [one for _, one in said if one is not None]
            if not counted or (len(counted) > 1 and methods - {*_MEANS}):
                continue
            made = _numbers(rows[0]["said"])
            values = [_pooled(counted, method) for method in methods] if len(counted) > 1 else counted
            if not any(_is_same(made, one) for one in values):
                what = f"{str(made)[:80]} on {rows[0]['ref']}, its trials {str(said)[:300]}"
                yield f"forecast: {rows[0]['forecaster']} says {what}, by {sorted(methods)}"

    def _blends(self) -> Iterator[str]:
        """A blend is the weighted sum of the log odds of the newest forecast that each of its members had made."""
        settings = [config.get("forecasters", {}) for config in self.configs]
        names = {
            name: one["settings"]["members"] for tables in settings for name, one in tables.items() if _blends(one)
        }
        for row in [one for one in read_rows(self.ledger, _BLENDS) if one["forecaster"] in names]:
            made, members = _numbers(row["said"]), names[row["forecaster"]]
            known = [one for one in read_rows(self.ledger, _MEMBERS, row) if one["cutoff"] <= row["cutoff"]]
            reason = json.loads(row["body"])["belief"]["reason"]
            by_name = {name: [one for one in known if one["forecaster"] == name] for name in members}
            # How old an answer may be is not documented; one that is not stale counts.
            members = [name for name in members if f"{name} " in reason or self._is_fresh(by_name[name], row)]
            answers = [_newest_answers(row, by_name[name]) for name in members]
            if not all(answers) or isinstance(made, list):
                continue
            yield from self._lessons(row, reason, names[row["forecaster"]])
            weights, slack = _blend_weights(reason, members, len(answers))
            found = [_blended(one, weights) for one in product(*answers)]
            if len(weights) == len(answers) and not any(_is_blend(made, one, slack) for one in found):
                what = f"{row['id']} of {row['ref']} says {made}, by {reason!r}"
                yield f"forecast: the blend {what}, and of the newest answers {answers} it is {found[0]}"

    def _lessons(self, row: Row, reason: str, members: Sequence[str]) -> Iterator[str]:
        """The weights of a day are learned from what had an outcome before that day, and was known by then."""
        found = _LEARNED.search(reason)
        learned, day = int(found[1]) if found else 0, row["cutoff"][:10]
        known = [one for one in read_rows(self.ledger, _LESSONS) if one["forecaster"] in members]
        most = {one["ref"] for one in known if one["resolved_at"] < day}
        least = {one["ref"] for one in known if one["outcomes"] == 1 and max(one["resolved_at"], one["seen_at"]) < day}
        if not len(least) <= learned <= len(most):
            what = f"{learned} outcomes taught {row['id']} of {row['cutoff']}"
            yield f"forecast: {what}, and {len(least)} to {len(most)} had come before that day"

    def _is_fresh(self, known: Sequence[Row], blend: Row) -> bool:
        """Say whether the newest answer of a member was not stale when a blend began, and says something."""
        before = [one for one in known if one["made_at"] <= blend["started_at"]]
        least = timedelta(hours=min(config.get("policy", {}).get("stale_after_h", 72.0) for config in self.configs))
        started = parse_timestamp(blend["started_at"])
        return (
            bool(before)
            and _numbers(before[-1]["said"]) != EVEN
            and (timedelta() <= started - parse_timestamp(before[-1]["cutoff"]) < least)
        )

    def _calibrated(self) -> Iterator[str]:
        """Nothing is corrected where nobody set that, and nothing by more than a tenth."""
        uses = {config.get("calibration", {}).get("use", "identity") for config in self.configs}
        tables = [table for config in self.configs for table in config.get("forecasters", {}).values()]
        most = (
            MOST_CORRECTED if uses | {table.get("calibration", "identity") for table in tables} != {"identity"} else 0.0
        )
        for row in read_rows(self.ledger, _CALIBRATED):
            moved = row["body"] != row["raw_body"]
            if row["probability"] is not None:
                moved = abs(row["probability"] - row["raw_probability"]) > most + SAME
            if moved:
                what = f"{row['id']} on {row['ref']} says {row['probability']}, and its trials {row['raw_probability']}"
                yield f"forecast: {what}; it may be corrected by {most}"

    def _current_versions(self) -> Iterator[str]:
        """The row of a question says what its newest version says, also after that was changed."""
        for row in read_rows(self.ledger, _VERSIONS):
            body = json.loads(row["body"])
            for name in ("title", "opens_at", "closes_at", "as_of", "source", "batch"):
                if (row[name] or "") != (body.get(name) or ""):
                    what = f"{name} of {row['ref']} is {row[name]!r} on record"
                    yield f"questions: {what}, and {body.get(name)!r} in its version of {row['seen_at']}"

    def _peaks(self) -> Iterator[str]:
        """The highest value of an account stays on record, from which its loss limits count."""
        by_account: dict[tuple[str, int], list[Row]] = defaultdict(list)
        for row in self.readings:
            by_account[row["venue"], row["paper"]].append(row)
        kept = {(row["venue"], row["paper"], row["at"]) for row in read_rows(self.ledger, READINGS)}
        for (venue, paper), rows in by_account.items():
            highest = max(rows, key=lambda row: row["worth"])
            if (venue, paper, highest["at"]) not in kept:
                yield f"accounts: the highest value of {venue}, {highest['worth']:.4f} at {highest['at']}, is forgotten"

    def _statements(self) -> Iterator[str]:
        """On paper a forecast is in force until the next one, or until it is taken back."""
        for book in sorted(self.ledger.parent.glob(f"*/{FORECAST_BOOK_FILE}")):
            last: dict[tuple[str, str], Row] = {}
            for row in read_rows(book, _STATEMENTS):
                before = last.get((row["account"], row["ref"]))
                is_forecast = before is not None and before["action"] == "forecast"
                if before is not None and is_forecast and (before["ended_at"] or "~") > row["begun_at"]:
                    what = f"the forecast of {before['ref']} of {before['begun_at']} until {before['ended_at']}"
                    yield f"forecast: on paper {what}, and there was a {row['action']} at {row['begun_at']}"
                last[row["account"], row["ref"]] = row

    def _fills(self) -> Iterator[str]:
        """What a fill takes or brings is its shares at its price, with its fee."""
        for row in read_rows(self.ledger, _FILLS):
            sign = 1.0 if row["cash"] > 0 else -1.0
            if abs(row["cash"] - sign * row["shares"] * row["price"] + row["fee"]) > CENT:
                what = f"{row['shares']:.4f} at {row['price']:.4f}, fee {row['fee']:.4f}"
                yield f"fills: of {row['intent']} {what} moved {row['cash']:.4f}"

    def _trials(self) -> Iterator[str]:
        """A forecast has as many trials as are set."""
        for row in read_rows(self.ledger, _TRIALS):
            wanted = {
                config.get("forecasters", {}).get(row["forecaster"], {}).get("trials", 1) for config in self.configs
            }
            if row["trials"] not in wanted:
                yield f"schedule: {row['id']} of {row['ref']} has {row['trials']} trials, and {sorted(wanted)} are set"

    def _failed(self) -> Iterator[str]:
        """A forecast fails where too few of its trials came to an answer, and only there."""
        for row in read_rows(self.ledger, _FAILED):
            shares = [config.get("limits", {}).get("min_trial_share", TRIAL_SHARE) for config in self.configs]
            tables = [config.get("forecasters", {}).get(row["forecaster"], {}) for config in self.configs]
            shares += [table["min_trial_share"] for table in tables if table.get("min_trial_share") is not None]
            if row["answers"] >= max(1.0, max(shares) * row["trials"]):
                what = f"{row['answers']:g} of {row['trials']} trials with an answer"
                yield f"forecast: {row['id']} of {row['ref']} failed with {what}, {max(shares):g} of them must count"

    def _submitted(self) -> Iterator[str]:
        """What is submitted says what its forecast says, for each date."""
        said: dict[str, dict[str, Numbers]] = defaultdict(dict)
        for row in read_rows(self.ledger, _PREDICTED):
            said[row["forecast"]][row["target"]] = _numbers(row["said"])
        for row in read_rows(self.ledger, _SUBMITTED):
            for target, prediction in json.loads(row["predictions"]).items():
                meant = said[row["forecast"]].get(target)
                if meant is None or not _is_same(_numbers(prediction), meant):
                    what = f"{row['id']} on {row['ref']} says {str(prediction)[:120]}"
                    yield f"forecast: {what} for {target}, and its forecast {str(meant)[:120]}"

    def _cutoffs(self) -> Iterator[str]:
        """A forecast knows what there was when it began, and of a question of an earlier day nothing later."""
        for row in read_rows(self.ledger, _CUTOFFS):
            cutoff = parse_timestamp(row["cutoff"])
            due = min([parse_timestamp(row[name]) for name in ("started_at", "as_of") if row[name]])
            if row["ref"].startswith(ROUNDS):
                # A round is forecast with what was known before its due date.
                day = datetime.fromisoformat(row["ref"].removeprefix(ROUNDS)[:10])
                due = min(parse_timestamp(row["started_at"]), day.replace(tzinfo=UTC))
            if abs(cutoff - due) > ONE_SECOND:
                yield f"forecast: {row['id']} of {row['ref']} knows what there was by {cutoff}, and not by {due}"

    def _endings(self) -> Iterator[str]:
        """An outcome counts since the moment at which its venue gave it, once nobody takes it back at once."""
        for row in read_rows(self.ledger, _ENDINGS):
            ending = self.endings.get(("manifold", row["ref"].partition(":")[2]))
            if ending is None or ending["was_undone"] or ending["since"] is None:
                continue
            if abs(parse_timestamp(row["resolved_at"]) - ending["since"]) > ONE_SECOND:
                yield f"outcome: {row['ref']} counts as known at {row['resolved_at']}, and was at {ending['since']}"
            tables = [config["venues"]["manifold"].get("settings", {}) for config in self.configs]
            waits = timedelta(seconds=min(table.get("resolve_after_s", RESOLVE_AFTER_S) for table in tables))
            if parse_timestamp(row["seen_at"]) - ending["since"] < waits - ONE_SECOND:
                what = f"{row['ref']} had an outcome at {ending['since']}"
                yield f"outcome: {what}, which counted at {row['seen_at']}, to wait for {waits}"

    def _far_from_the_market(self) -> Iterator[str]:
        """Without an answer of a person nothing is sent whose belief is too far from the market."""
        for row in read_rows(self.ledger, _UNAPPROVED):
            venues = [config["venues"][row["venue"]].get("trading", {}) for config in self.configs]
            limits = [table.get("divergence") for table in venues]
            if None in limits:
                continue
            planned = parse_timestamp(row["planned_at"])
            seen = read_rows(self.ledger, _PRICES, row)
            prices = [read_chances(one) for one in seen if _is_near(one["seen_at"], planned)]
            distances = [
                measure_distance(read_chances(row), one) for one in prices if one.keys() & read_chances(row).keys()
            ]
            if row["side"] == "buy" and row["probability"] is not None:
                paid = row["price"] if row["leg"] == "yes" else 1.0 - row["price"]
                distances = [max(abs(_log_odds(row["probability"]) - _log_odds(paid)), min(distances, default=0.0))]
            if distances and min(distances) > max(limits) + MOVED:
                what = f"{row['id']} on {row['ref']}, {min(distances):.2f} from the market"
                yield f"orders: nobody approved {what}, divergence is {limits}"


Numbers = Mapping[str, float] | Sequence[float] | float


def _trial_answer(row: Row) -> Numbers | None:
    """Return what a trial answered: one that finished, or met a limit after it had said what it believes."""
    belief = json.loads(row["body"] or "{}").get("belief")
    if belief is None or row["ending"] == "failed":
        return None
    return _numbers(belief["predictions"][row["target"]])


def _numbers(said: Any) -> Numbers:
    """Return what a prediction says: a chance, chances of options, or a curve."""
    known = json.loads(said) if isinstance(said, str) else said
    if isinstance(known, int | float):
        return float(known)
    found: Numbers = known.get("probability", known.get("probabilities", known.get("cdf")))
    return found


def _pooled(answers: Sequence[Any], method: str) -> Numbers:
    """Return several answers as one: options by mean, median or the product of their shares, curves point by point."""
    first = answers[0]
    if isinstance(first, float):
        return _MEANS[method](answers)
    pools: Mapping[str, Callable[[Sequence[float]], float]] = {"mean": mean, "median": median}
    if isinstance(first, list):
        return [pools.get(method, mean)(points) for points in zip(*answers, strict=True)]
    pool = pools.get(method, _share_product)
    shares = {name: pool([one[name] for one in answers]) for name in first}
    whole = math.fsum(shares.values())
    return {name: share / whole for name, share in shares.items()}


def _blends(table: Mapping[str, Any]) -> bool:
    return bool(table.get("settings", {}).get("members"))


def _newest_answers(blend: Row, known: Sequence[Row]) -> list[Numbers]:
    """Return the newest answer that a member had given when a blend began, and those that it gave while that ran."""
    before = [one for one in known if one["made_at"] <= blend["started_at"]][-1:]
    meanwhile = [one for one in known if blend["started_at"] < one["made_at"] <= blend["made_at"]]
    return [_numbers(one["said"]) for one in [*before, *meanwhile]]


def _blend_weights(reason: str, members: Sequence[str], answered: int) -> tuple[list[float], float]:
    """Return the weights of a blend: equal ones, or as they are on record, which is rounded by so much."""
    if "equal weights" in reason:
        return [EQUAL_WEIGHTS / answered] * answered, SAME
    told = dict(re.findall(r"(\w+) ([\d.]+)", reason.rpartition(": ")[2]))
    return [float(told[name]) for name in members if name in told], ROUNDED_WEIGHT


def _blended(answers: Sequence[Any], weights: Sequence[float]) -> Numbers:
    """Return the weighted sum of the log odds of several answers, or of the logarithms of the shares of options."""
    if isinstance(answers[0], float):
        pairs = zip(answers, weights, strict=False)
        odds = math.fsum(weight * math.log(_bounded(one) / (1.0 - _bounded(one))) for one, weight in pairs)
        return 1.0 / (1.0 + math.exp(-odds))
    logs = {
        name: math.fsum(
            weight * math.log(max(one[name], LEAST_SHARE)) for one, weight in zip(answers, weights, strict=False)
        )
        for name in answers[0]
    }
    whole = math.fsum(map(math.exp, logs.values()))
    return {name: math.exp(one) / whole for name, one in logs.items()}


def _bounded(chance: float) -> float:
    return min(max(chance, LEAST_CHANCE), 1.0 - LEAST_CHANCE)


def _is_blend(made: Any, value: Any, slack: float) -> bool:
    """Say whether a blend is what its members make it, as far as its weights are known."""
    if isinstance(made, float):
        return abs(math.log(_bounded(made) / (1.0 - _bounded(made)) / _bounded(value) * (1.0 - _bounded(value)))) <= (
            slack * 20.0
        )
    return all(abs(made[name] - value[name]) <= max(slack, SAME) for name in made)


def _share_product(shares: Sequence[float]) -> float:
    return math.exp(math.fsum(math.log(max(one, LEAST_SHARE)) for one in shares) / len(shares))


def _is_same(one: Any, other: Any) -> bool:
    """Say whether two answers are the same, but for rounding."""
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= SAME
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(abs(one[name] - other[name]) <= SAME for name in one)
    return len(one) == len(other) and all(abs(a - b) <= SAME for a, b in zip(one, other, strict=True))


def _logit_mean(chances: Sequence[float]) -> float:
    bounded = [min(max(one, LEAST_CHANCE), 1.0 - LEAST_CHANCE) for one in chances]
    odds = math.fsum(math.log(one / (1.0 - one)) for one in bounded) / len(chances)
    return 1.0 / (1.0 + math.exp(-odds))


_MEANS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "logit-mean": _logit_mean,
    "mean": mean,
    "median": median,
}


def read_chances(row: Row) -> Mapping[str, float]:
    """Return what is said of each option, or of YES alone."""
    if row["probability"] is not None:
        return {"": row["probability"]}
    found: Mapping[str, float] = json.loads(row["body"] or "{}").get("probabilities", {})
    return found


def measure_distance(said: Mapping[str, float], price: Mapping[str, float]) -> float:
    """Return how far what is said is from a price: of the option where it is farthest."""
    return max(abs(_log_odds(said[name]) - _log_odds(price[name])) for name in said.keys() & price.keys())


def _is_near(seen_at: str, planned: datetime) -> bool:
    return planned - PRICED <= parse_timestamp(seen_at) <= planned


def _log_odds(chance: float) -> float:
    bounded = min(max(chance, 1e-3), 1.0 - 1e-3)
    return math.log(bounded / (1.0 - bounded))
