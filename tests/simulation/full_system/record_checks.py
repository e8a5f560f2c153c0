"""What the ledger records of forecasts, fills, outcomes and scores, computed again from their own formulas.

By docs/facts/metaculus.md ("scores"), docs/facts/forecastbench.md (squared error), docs/settings.md ("trials",
"divergence", "comment") and docs/venues.md ("Orders"). Only rows are compared; nothing of the engine is used.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from statistics import mean, median
from typing import Any

from bot.store.serialization import parse_timestamp
from tests.ledger_checks import Row, read_rows
from tests.simulation.full_system.effect_rules import LEAST_CHANCE

Tables = Mapping[str, Any]
# Money and scores carry the rounding of a venue, and of sums.
CENT, SAME = 0.006, 1e-6
# The mass of a flat curve beyond each open end, and the least that one has there (docs/facts/metaculus.md#scores).
TAIL, LEAST_MASS = 0.05, 0.001
# No chance counts as smaller in a score.
SMALLEST_CHANCE = 0.001
# The belief and the price of a decision may have moved by so much before an order; nobody moves the clock by more.
MOVED, PRICED = 0.05, timedelta(hours=13)
# A venue gives the time of an outcome in seconds or better.
ONE_SECOND = timedelta(seconds=1.0)
_CHOICES = """
select s.forecast, s.rule, s.value, r.body as outcome, p.body as said, c.body as crowd from score s
join resolution r on r.id = s.resolution join forecast f on f.id = s.forecast
join prediction p on p.forecast = s.forecast and p.target = s.target left join price c on c.id = f.price
where s.rule like '%choice%' and r.kind = 'chosen'
"""
_CURVES = """
select s.forecast, s.value, r.value as outcome, p.body as said, v.body as asked from score s
join resolution r on r.id = s.resolution join forecast f on f.id = s.forecast
join prediction p on p.forecast = s.forecast and p.target = s.target join question_version v on v.version = f.version
where s.rule = 'curve baseline' and r.kind = 'landed'
  and (select count(*) from question_version w where w.ref = f.ref) = 1
"""
_TRIAL_ANSWERS = """
select f.id, f.ref, f.forecaster, p.probability, t.ending, t.body from forecast f
join prediction p on p.forecast = f.id join trial t on t.forecast = f.id
where f.state = 'done' and f.forecaster in ('drifter', 'drifter_second') and p.probability is not null
  and (select count(*) from prediction q where q.forecast = f.id) = 1 order by f.id
"""
_FILLS = "select intent, shares, price, fee, cash from fill"
_TRIALS = """
select f.id, f.ref, f.forecaster, max(t.number) as trials from forecast f join trial t on t.forecast = f.id
where f.state = 'done' and f.forecaster in ('drifter', 'drifter_second') group by f.id
"""
_ENDINGS = "select ref, resolved_at from resolution where kind in ('happened', 'void') and ref like 'manifold:%'"
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
    """Judges one ledger; ``endings`` say since when contracts have an outcome at their venue."""

    ledger: Path
    configs: Sequence[Tables]
    endings: Mapping[tuple[str, str], Mapping[str, Any]]

    def violations(self) -> Iterator[str]:
        """Say what is not what it is made of."""
        yield from self._choice_scores()
        yield from self._curve_scores()
        yield from self._aggregates()
        yield from self._fills()
        yield from self._trials()
        yield from self._endings()
        yield from self._far_from_the_market()

    def _choice_scores(self) -> Iterator[str]:
        """Scores of one option among several follow their formulas, of the forecast or of the price at that time."""
        for row in read_rows(self.ledger, _CHOICES):
            body = row["crowd"] if row["rule"].startswith("crowd ") else row["said"]
            outcome = json.loads(row["outcome"])
            # Of options that were added later another one has the share.
            if body is None or outcome.get("otherwise") or outcome.get("early"):
                continue
            rule = row["rule"].removeprefix("crowd ")
            value = _choice_score(rule, json.loads(body)["probabilities"], outcome["option"])
            if abs(value - row["value"]) > SAME:
                what = f"{row['rule']} of {row['forecast']} is {row['value']:.6f}"
                yield f"score: {what} on record, and is {value:.6f} by its formula"

    def _curve_scores(self) -> Iterator[str]:
        """The baseline score of a curve is 50 ln(p / b): of its mass on what happened and of a flat one."""
        for row in read_rows(self.ledger, _CURVES):
            value = _curve_score(json.loads(row["said"])["cdf"], json.loads(row["asked"])["shape"], row["outcome"])
            if abs(value - row["value"]) > SAME:
                what = f"the curve baseline of {row['forecast']} on {row['outcome']} is {row['value']:.6f}"
                yield f"score: {what} on record, and is {value:.6f} by its formula"

    def _aggregates(self) -> Iterator[str]:
        """A forecast is made of the trials that finished, where there are two at least, else of all with an answer."""
        trials: dict[str, list[Row]] = defaultdict(list)
        for row in read_rows(self.ledger, _TRIAL_ANSWERS):
            trials[row["id"]].append(row)
        for rows in trials.values():
            tables = [config.get("forecasters", {}).get(rows[0]["forecaster"], {}) for config in self.configs]
            methods = {table.get("aggregate", "logit-mean") for table in tables}
            said = [(row["ending"], _trial_answer(row)) for row in rows]
            finished = [one for ending, one in said if ending == "finished" and one is not None]
            counted = finished if len(finished) > 1 else [one for _, one in said if one is not None]
            if len(counted) < 2 or methods - {*_MEANS} or any("calibration" in config for config in self.configs):
                continue
            values = [_MEANS[method](counted) for method in methods]
            if min(abs(one - rows[0]["probability"]) for one in values) > SAME:
                what = f"{rows[0]['probability']:.6f} on {rows[0]['ref']}"
                yield f"forecast: {rows[0]['forecaster']} says {what}, its trials {said}, by {sorted(methods)}"

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

    def _endings(self) -> Iterator[str]:
        """An outcome counts since the moment at which its venue gave it."""
        for row in read_rows(self.ledger, _ENDINGS):
            ending = self.endings.get(("manifold", row["ref"].partition(":")[2]))
            if ending is None or ending["was_undone"] or ending["since"] is None:
                continue
            if abs(parse_timestamp(row["resolved_at"]) - ending["since"]) > ONE_SECOND:
                yield f"outcome: {row['ref']} counts as known at {row['resolved_at']}, and was at {ending['since']}"

    def _far_from_the_market(self) -> Iterator[str]:
        """Without an answer of a person nothing is sent whose belief is too far from the market."""
        for row in read_rows(self.ledger, _UNAPPROVED):
            venues = [config["venues"][row["venue"]].get("trading", {}) for config in self.configs]
            limits = [table.get("divergence") for table in venues]
            if None in limits:
                continue
            planned = parse_timestamp(row["planned_at"])
            seen = read_rows(self.ledger, _PRICES, row)
            prices = [_chances(one) for one in seen if _is_near(one["seen_at"], planned)]
            distances = [_distance(_chances(row), one) for one in prices if one.keys() & _chances(row).keys()]
            if row["side"] == "buy" and row["probability"] is not None:
                paid = row["price"] if row["leg"] == "yes" else 1.0 - row["price"]
                distances = [max(abs(_log_odds(row["probability"]) - _log_odds(paid)), min(distances, default=0.0))]
            if distances and min(distances) > max(limits) + MOVED:
                what = f"{row['id']} on {row['ref']}, {min(distances):.2f} from the market"
                yield f"orders: nobody approved {what}, divergence is {limits}"


def _choice_score(rule: str, shares: Mapping[str, float], option: str) -> float:
    """Return the value of a rule for a choice."""
    if rule == "choice brier":
        return sum((share - (name == option)) ** 2 for name, share in shares.items())
    surprise = -math.log(max(shares[option], SMALLEST_CHANCE))
    return surprise if rule == "choice log" else 100.0 * (1.0 - surprise / math.log(len(shares)))


def _curve_score(cdf: Sequence[float], shape: Mapping[str, Any], outcome: float) -> float:
    """Return the score of a curve on a grid (docs/facts/metaculus.md#scores); each bucket has its upper end."""
    grid, inside = shape["grid"], len(shape["grid"]) - 1
    if outcome < grid[0] or outcome > grid[-1]:
        mass, flat, least = cdf[0] if outcome < grid[0] else 1.0 - cdf[-1], TAIL, LEAST_MASS
    else:
        place = max(1, next(number for number, end in enumerate(grid) if outcome <= end + 1e-12 * abs(end)))
        mass, least = cdf[place] - cdf[place - 1], 0.01 / inside
        flat = (1.0 - TAIL * (shape.get("open_lower", False) + shape.get("open_upper", False))) / inside
    return 50.0 * math.log(max(mass, least) / flat)


def _trial_answer(row: Row) -> float | None:
    """Return what a trial answered: one that finished, or met a limit after it had said what it believes."""
    belief = json.loads(row["body"] or "{}").get("belief")
    if belief is None or row["ending"] == "failed":
        return None
    [prediction] = belief["predictions"].values()
    return float(prediction["probability"])


def _logit_mean(chances: Sequence[float]) -> float:
    bounded = [min(max(one, LEAST_CHANCE), 1.0 - LEAST_CHANCE) for one in chances]
    odds = math.fsum(math.log(one / (1.0 - one)) for one in bounded) / len(chances)
    return 1.0 / (1.0 + math.exp(-odds))


_MEANS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "logit-mean": _logit_mean,
    "mean": mean,
    "median": median,
}


def _chances(row: Row) -> Mapping[str, float]:
    """Return what is said of each option, or of YES alone."""
    if row["probability"] is not None:
        return {"": row["probability"]}
    found: Mapping[str, float] = json.loads(row["body"] or "{}").get("probabilities", {})
    return found


def _distance(said: Mapping[str, float], price: Mapping[str, float]) -> float:
    """Return how far what is said is from a price: of the option where it is farthest."""
    return max(abs(_log_odds(said[name]) - _log_odds(price[name])) for name in said.keys() & price.keys())


def _is_near(seen_at: str, planned: datetime) -> bool:
    return planned - PRICED <= parse_timestamp(seen_at) <= planned


def _log_odds(chance: float) -> float:
    bounded = min(max(chance, 1e-3), 1.0 - 1e-3)
    return math.log(bounded / (1.0 - bounded))
