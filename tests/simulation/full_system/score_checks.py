"""Scores of forecasts, and the totals that reports show, computed again from the formulas of the documentation.

By docs/facts/metaculus.md ("scores"), docs/facts/forecastbench.md (squared error) and docs/glossary.md. Only rows are
compared; nothing of the engine is used.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from bot.store.serialization import parse_timestamp
from tests.ledger_checks import Row, read_rows

# Scores carry the rounding of sums.
SAME = 1e-6
# The mass of a flat curve beyond each open end, and the least that one has there (docs/facts/metaculus.md#scores).
TAIL, LEAST_MASS = 0.05, 0.001
# No chance counts as smaller in a score.
SMALLEST_CHANCE = 0.001
# The rules for each kind of outcome, and the part of a prediction that they score; what is void has none.
_RULES: Mapping[str, tuple[frozenset[str], str]] = {
    "happened": (frozenset({"brier"}), "probability"),
    "chosen": (frozenset({"choice brier", "choice log", "choice baseline"}), "probabilities"),
    "landed": (frozenset({"crps", "curve baseline"}), "cdf"),
}
_CHOICES = """
select s.forecast, s.rule, s.value, r.body as outcome, p.body as said, c.body as crowd from score s
join resolution r on r.id = s.resolution join forecast f on f.id = s.forecast
join prediction p on p.forecast = s.forecast and p.target = s.target left join price c on c.id = f.price
where s.rule like '%choice%' and r.kind = 'chosen'
"""
_CURVES = """
select s.forecast, s.rule, s.value, r.value as outcome, p.body as said, c.body as crowd, v.body as asked from score s
join resolution r on r.id = s.resolution join forecast f on f.id = s.forecast
join prediction p on p.forecast = s.forecast and p.target = s.target join question_version v on v.version = f.version
left join price c on c.id = f.price
where (s.rule like '%curve baseline' or s.rule like '%crps') and r.kind = 'landed'
  and (select count(*) from question_version w where w.ref = f.ref) = 1
"""
_MISSING_SCORES = """
select p.forecast, p.target, p.probability, p.body as said, r.id as resolution, r.kind, r.value, r.body as outcome,
  v.body as asked, c.probability as crowd_chance, c.body as crowd, (
    select json_group_array(s.rule) from score s
    where s.forecast = p.forecast and s.target = p.target and s.resolution = r.id) as rules
from prediction p join resolution r on r.id = p.scored_against join forecast f on f.id = p.forecast
join question_version v on v.version = f.version left join price c on c.id = f.price
"""
_COUNTED = """
select f.forecaster, f.ref, p.target, f.id, f.cutoff, r.id as resolution, r.resolved_at, q.closes_at,
  p.probability, r.value
from prediction p join forecast f on f.id = p.forecast join resolution r on r.id = p.scored_against
join question q on q.ref = f.ref where r.kind <> 'void' order by f.revision
"""
_VALUES = "select forecast, target, resolution, rule, value from score where rule not like 'crowd %'"
_BINS = """
select forecaster, bin, sum(n) as count, total(probability) as said, total(outcome) as outcome from score_bin
group by 1, 2
"""
_ROUNDS = "select forecaster, rule, sum(n) as count, total(value) as value from score_round group by 1, 2"
_TOTALS = "select forecaster, rule, sum(n) as count, total(value) as value from score_total group by 1, 2"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreChecks:
    """Judges the scores of one ledger; ``spots`` are the moments at which venues score questions at one moment."""

    ledger: Path
    spots: Mapping[str, datetime] = field(default_factory=dict)

    def violations(self) -> Iterator[str]:
        """Say which score, or sum of scores, is not what it has to be."""
        yield from self._choice_scores()
        yield from self._curve_scores()
        yield from self._missing_scores()
        yield from self._totals()

    def _choice_scores(self) -> Iterator[str]:
        """Scores of one option among several follow their formulas, of the forecast or of the price at that time."""
        for row in read_rows(self.ledger, _CHOICES):
            body = row["crowd"] if row["rule"].startswith("crowd ") else row["said"]
            if body is None:
                continue
            shares, option = _scored_shares(json.loads(body)["probabilities"], json.loads(row["outcome"]))
            rule = row["rule"].removeprefix("crowd ")
            value = math.nan if option is None else _choice_score(rule, shares, option)
            if not abs(value - row["value"]) <= SAME:
                what = f"{row['rule']} of {row['forecast']} is {row['value']:.6f}"
                yield f"score: {what} on record, and is {value:.6f} by its formula"

    def _curve_scores(self) -> Iterator[str]:
        """The scores of a curve: 50 ln(p / b) of its mass and of a flat one, and the squared distance from the step."""
        for row in read_rows(self.ledger, _CURVES):
            body, rule = (
                row["crowd"] if row["rule"].startswith("crowd ") else row["said"],
                row["rule"].split(" ", 1)[-1],
            )
            shape = json.loads(row["asked"])["shape"]
            if body is None or "cdf" not in (known := json.loads(body)):
                continue
            scored = _distance_score if rule.endswith("crps") else _curve_score
            value = scored(known["cdf"], shape, row["outcome"])
            if abs(value - row["value"]) > SAME:
                what = f"the {row['rule']} of {row['forecast']} on {row['outcome']} is {row['value']:.6f}"
                yield f"score: {what} on record, and is {value:.6f} by its formula"

    def _missing_scores(self) -> Iterator[str]:
        """What is marked as scored has the scores of its kind, its price too, and what is void has none."""
        for row in read_rows(self.ledger, _MISSING_SCORES):
            there, due = {*json.loads(row["rules"])}, _due_rules(row)
            if due is not None and there != due:
                what = f"{row['forecast']}, {row['target']}, {row['kind']} {row['value']}"
                yield f"score: {what} has {sorted(there)}, and the scores of its kind are {sorted(due)}"

    def _totals(self) -> Iterator[str]:
        """The totals that reports show are sums over the last forecast in time of each forecaster and target."""
        last: dict[tuple[str, ...], Row] = {}
        for row in read_rows(self.ledger, _COUNTED):
            ends = [datetime.fromisoformat(row[name]) for name in ("resolved_at", "closes_at") if row[name]]
            ends += [self.spots[row["ref"]]] if row["ref"] in self.spots else []
            if all(parse_timestamp(row["cutoff"]) <= end for end in ends):
                last[row["forecaster"], row["ref"], row["target"]] = row
        counted = {(row["id"], row["target"], row["resolution"]): row["forecaster"] for row in last.values()}
        sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0.0])
        for row in read_rows(self.ledger, _VALUES):
            forecaster = counted.get((row["forecast"], row["target"], row["resolution"]))
            if forecaster is not None:
                sums[forecaster, row["rule"]][0] += 1
                sums[forecaster, row["rule"]][1] += row["value"]
        for sql in (_TOTALS, _ROUNDS):
            rows = read_rows(self.ledger, sql)
            kept = {(row["forecaster"], row["rule"]): (row["count"], row["value"]) for row in rows}
            for name in sorted(sums.keys() | kept.keys()):
                (count, value), (known, total) = sums.get(name, [0, 0.0]), kept.get(name, (0, 0.0))
                if count != known or abs(value - total) > SAME * max(1, count):
                    yield f"score: the totals of {name} are {known}, {total:.6f}, and {count} count, with {value:.6f}"
        yield from self._bins([row for row in last.values() if row["probability"] is not None])

    def _bins(self, counted: Sequence[Row]) -> Iterator[str]:
        """How well chances are calibrated is counted in ten bins; one on an edge is in the lower one."""
        sums: dict[tuple[str, int], list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
        for row in counted:
            found = sums[row["forecaster"], sum(row["probability"] > number * 0.1 for number in range(1, 10))]
            for place, value in enumerate((1, row["probability"], row["value"])):
                found[place] += value
        rows = read_rows(self.ledger, _BINS)
        kept = {(row["forecaster"], row["bin"]): [row["count"], row["said"], row["outcome"]] for row in rows}
        for name in sorted(sums.keys() | kept.keys()):
            due, known = sums.get(name, [0, 0.0, 0.0]), kept.get(name, [0, 0.0, 0.0])
            if any(abs(one - other) > SAME * max(1, due[0]) for one, other in zip(due, known, strict=True)):
                yield f"score: the bin {name} has {known} of chances and outcomes, and had to have {due}"


def _scored_shares(shares: Mapping[str, float], outcome: Mapping[str, Any]) -> tuple[Mapping[str, float], str | None]:
    """Return the shares that count, and the option: one that was not in force yet is part of the last one.

    An option that a forecast lacks is read as the first of those that stand for it.
    """
    others, early = outcome.get("otherwise", ()), {*outcome.get("early", ())}
    kept = {name: share for name, share in shares.items() if name not in early}
    if early & shares.keys() and len(kept) > 1 and others and others[-1] in kept:
        kept[others[-1]] += sum(share for name, share in shares.items() if name in early)
    else:
        kept = dict(shares)
    whole = math.fsum(kept.values())
    option = next((name for name in (outcome["option"], *others) if name in kept), None)
    return {name: share / whole for name, share in kept.items()}, option


def _due_rules(row: Row) -> set[str] | None:
    """Return the rules by which a prediction is scored against an outcome; None where its form had changed."""
    said, crowd = ({"probability": row["probability"]}, {"probability": row["crowd_chance"]})
    said, crowd = (said | json.loads(row["said"] or "{}"), crowd | json.loads(row["crowd"] or "{}"))
    rules, form = _RULES.get(row["kind"], (frozenset(), ""))
    if not rules:
        return set()
    if said.get(form) is None or not _can_be_scored(row, said):
        return None
    has_crowd = crowd.get(form) is not None
    is_alike = has_crowd and (form == "probability" or _keys(crowd[form]) == _keys(said[form]))
    return {*rules, *(f"crowd {rule}" for rule in rules if is_alike)}


def _keys(answer: Any) -> set[Any]:
    """Return the options of a choice, or the places of a curve."""
    return {*answer} if isinstance(answer, Mapping) else {*range(len(answer))}


def _can_be_scored(row: Row, said: Mapping[str, Any]) -> bool:
    """Say whether an outcome is one of those that were asked for."""
    if row["kind"] == "chosen":
        return _scored_shares(said["probabilities"], json.loads(row["outcome"]))[1] is not None
    if row["kind"] == "landed":
        shape = json.loads(row["asked"])["shape"]
        low, high = shape["grid"][0], shape["grid"][-1]
        return bool(low <= row["value"] <= high or shape.get("open_lower" if row["value"] < low else "open_upper"))
    return True


def _choice_score(rule: str, shares: Mapping[str, float], option: str) -> float:
    """Return the value of a rule for a choice."""
    if rule == "choice brier":
        return sum((share - (name == option)) ** 2 for name, share in shares.items())
    share = max(shares[option], SMALLEST_CHANCE)
    if rule == "choice log":
        return -math.log(share)
    # Metaculus accepts no option above 0.999 (docs/facts/metaculus.md).
    return 100.0 * (1.0 + math.log(min(share, 1.0 - SMALLEST_CHANCE)) / math.log(len(shares)))


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


def _distance_score(cdf: Sequence[float], shape: Mapping[str, Any], outcome: float) -> float:
    """Return the integral of the squared distance between a curve and the step at an outcome, by the range."""
    grid, steps = shape["grid"], len(shape["grid"]) - 1
    inside = min(max(outcome, grid[0]), grid[-1])
    place = max(1, next(number for number, end in enumerate(grid) if inside <= end + 1e-12 * abs(end)))
    part = (inside - grid[place - 1]) / (grid[place] - grid[place - 1])
    total = 0.0
    for number in range(1, steps + 1):
        first, last = cdf[number - 1], cdf[number]
        split = 1.0 if number < place else 0.0 if number > place else part
        middle = first + (last - first) * split
        total += split * (first * first + first * middle + middle * middle) / 3.0
        over, left = 1.0 - middle, 1.0 - last
        total += (1.0 - split) * (over * over + over * left + left * left) / 3.0
    return total / steps
