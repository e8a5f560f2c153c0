"""Score reports of forecasters from the sums that the ledger keeps: the work does not grow with the forecasts."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.random import Generator

from bot.core.light_dataclass import dataclass
from bot.core.outcomes import BRIER, SCORING_RULES, ScoringRule, scoring_rules_for
from bot.evaluation.group_scores import (
    SUMS,
    GroupScore,
    ResampledGroup,
    divide_sums,
    resample_groups,
    score_resampled,
)
from bot.evaluation.report_tables import ReportCell, ReportColumn, ReportTable
from bot.evaluation.score_report import (
    FAMILIES,
    REPORTED_KINDS,
    BinaryScores,
    CrowdScores,
    FamilyScores,
    GroupMeans,
    KindReport,
    ScoreInterval,
    ScoreReport,
    binary_scores,
    combine_families,
)
from bot.stats.arrays import FloatArray, IntArray
from bot.stats.calibration import ReliabilityBins
from bot.stats.scores import index_from_brier
from bot.store.score_totals import BIN_EDGES, NO_HORIZON, CalibrationBin, RoundSums, ScoreSums

ALL, FAMILY = "all", "family"
# What predictions are grouped by; a prediction without a name is in no group.
GROUP_KEYS = (FAMILY, "venue", "source", "horizon")
GroupScores = Mapping[str, Mapping[str, GroupScore]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RuleSums:
    """The sums of one forecaster and rule: columns ``SUMS`` of shape (rows, 6), with unit and groups of each row."""

    values: FloatArray
    units: IntArray
    groups: Mapping[str, Sequence[str]]

    def sum_all(self) -> FloatArray:
        """Return the sums of each unit, shape (units, 6)."""
        return self._sum_units(np.ones(len(self.values), dtype=np.bool_))

    def sum_groups(self, key: str) -> Iterator[tuple[str, FloatArray]]:
        """Yield the sums of each unit by group, horizons in the order of their days."""
        names, codes = np.unique(np.array(self.groups[key]), return_inverse=True)
        for name in sorted(filter(None, names.tolist()), key=_group_order):
            yield name, self._sum_units(codes == names.searchsorted(name))

    def _sum_units(self, chosen: "np.typing.NDArray[np.bool_]") -> FloatArray:
        units, codes = np.unique(self.units, return_inverse=True)
        columns = (np.bincount(codes[chosen], weights=column[chosen], minlength=len(units)) for column in self.values.T)
        return np.column_stack([*columns])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForecasterSums:
    """The sums of one forecaster, by rule."""

    rules: Mapping[str, RuleSums]

    def score_groups(self, rng: Generator, keys: Sequence[str] = GROUP_KEYS) -> GroupScores:
        """Return the Brier scores of all binary predictions (``ALL``) and of each group, by key; none without any."""
        own = self.rules.get(BRIER)
        if own is None:
            return {}
        named = [(ALL, ALL, own.sum_all()), *((key, *group) for key in keys for group in own.sum_groups(key))]
        found: dict[str, dict[str, GroupScore]] = {ALL: {}, **{key: {} for key in keys}}
        for (key, name, _), group in zip(named, resample_groups([sums for *_, sums in named], rng), strict=True):
            found[key][name] = score_resampled(group)
        return found

    def report(self, groups: GroupScores, rounds: Sequence[RoundSums], rng: Generator) -> ScoreReport:
        """Return the whole report, of the groups of ``score_groups`` and the rounds of this forecaster."""
        families = groups.get(FAMILY, {})
        market, dataset = (_plain_scores(families.get(name)) for name in FAMILIES)
        return ScoreReport(
            block=combine_families(market, dataset),
            crowd=self._score_crowd(sum(one.outcome_with_crowd for one in rounds if one.rule == BRIER)),
            by_source=self._score_sources(),
            by_round=_score_rounds(rounds),
            by_horizon={name: _plain_scores(one) for name, one in groups.get("horizon", {}).items()},
            intervals={
                **{f"{name}.brier_index": families[name].brier_index for name in FAMILIES if name in families},
                **self._overall_interval(rng),
            },
            imputed=0,
            kinds=self.report_kinds(rng, rounds),
        )

    def _score_sources(self) -> dict[str, BinaryScores]:
        """Return the scores by source, also of predictions without one, so that their numbers add up."""
        if BRIER not in self.rules:
            return {}
        own = self.rules[BRIER]
        names, codes = np.unique(np.array(own.groups["source"]), return_inverse=True)
        sums = (own.values[codes == code].sum(axis=0).tolist() for code in range(len(names)))
        return {
            name: binary_scores(round(n), outcome / n, value / n)
            for name, (n, outcome, value, *_) in zip(names.tolist(), sums, strict=True)
        }

    def _score_crowd(self, outcome: float) -> BinaryScores:
        n, _, crowd = self.rules[BRIER].values.sum(axis=0)[3:].tolist() if BRIER in self.rules else (0, 0, 0)
        return binary_scores(round(n), outcome / n, crowd / n) if n else BinaryScores(n=0)

    def _overall_interval(self, rng: Generator) -> dict[str, ScoreInterval]:
        """Return the interval of the mean of the two indices, of the resamples in which both families have rows."""
        sums = dict(self.rules[BRIER].sum_groups(FAMILY)) if BRIER in self.rules else {}
        if not sums.keys() >= {*FAMILIES}:
            return {}
        families = resample_groups([sums[name] for name in FAMILIES], rng)
        drawn = [index_from_brier(divide_sums(one.drawn[:, 2], one.drawn[:, 0])) for one in families]
        totals = [one.clusters.sum(axis=0) for one in families]
        estimates = [float(index_from_brier(total[2] / total[0])) for total in totals]
        smaller = min(families, key=lambda one: int(np.count_nonzero(one.clusters[:, 0])))
        both = ResampledGroup(clusters=smaller.clusters, drawn=np.minimum(families[0].drawn, families[1].drawn))
        estimate, mean = sum(estimates) / 2, (drawn[0] + drawn[1]) / 2
        return {"overall.mean_of_indices": both.interval(estimate, mean, count=0)}

    def report_kinds(self, rng: Generator, rounds: Sequence[RoundSums] = ()) -> dict[str, KindReport]:
        """Return the report of each kind of choices and curves that has scores, with those of these rounds."""
        return {
            kind: self._report_kind(scoring_rules_for(kind), rng, rounds)
            for kind in REPORTED_KINDS
            if all(rule.name in self.rules for rule in scoring_rules_for(kind))
        }

    def _report_kind(self, rules: Sequence[ScoringRule], rng: Generator, rounds: Sequence[RoundSums]) -> KindReport:
        sums = {rule.name: self.rules[rule.name] for rule in rules}
        groups = dict(zip(sums, resample_groups([one.sum_all() for one in sums.values()], rng), strict=True))
        return KindReport(
            n=round(groups[rules[0].name].clusters[:, 0].sum()),
            imputed=0,
            scores={name: group.mean_interval() for name, group in groups.items()},
            crowd=_crowd_scores(groups),
            by_source=_group_means(sums, "source"),
            by_round=_round_means(rules, rounds),
            by_horizon=_group_means(sums, "horizon"),
        )


def sums_by_forecaster(sums: ScoreSums) -> dict[str, ForecasterSums]:
    """Return the sums of each forecaster, by name."""
    values = np.array([getattr(sums, name) for name in SUMS], dtype=np.float64).T
    units = np.array(sums.unit, dtype=np.int64)
    horizons = ["" if days == NO_HORIZON else str(days) for days in sums.horizon_days]
    names = {FAMILY: sums.family, "venue": sums.venue, "source": sums.source, "horizon": horizons}
    rows: dict[str, dict[str, list[int]]] = {}
    for row, (forecaster, rule) in enumerate(zip(sums.forecaster, sums.rule, strict=True)):
        rows.setdefault(forecaster, {}).setdefault(rule, []).append(row)
    return {
        forecaster: ForecasterSums(
            rules={
                rule: RuleSums(
                    values=values[chosen],
                    units=units[chosen],
                    groups={key: [column[row] for row in chosen] for key, column in names.items()},
                )
                for rule, chosen in by_rule.items()
            }
        )
        for forecaster, by_rule in sorted(rows.items())
    }


def reliability_bins(bins: Iterable[CalibrationBin]) -> dict[str, ReliabilityBins]:
    """Return the bins of each forecaster, by name."""
    found: dict[str, list[CalibrationBin]] = {}
    for one in sorted(bins, key=lambda item: (item.forecaster, item.bin)):
        found.setdefault(one.forecaster, []).append(one)
    edges = np.array([0.0, *BIN_EDGES, 1.0])
    return {
        name: ReliabilityBins(
            lower=edges[[one.bin for one in own]],
            upper=edges[[one.bin + 1 for one in own]],
            rows=np.array([one.n for one in own], dtype=np.int64),
            mean_forecast=np.array([one.probability / one.n for one in own]),
            event_rate=np.array([one.outcome / one.n for one in own]),
        )
        for name, own in found.items()
    }


def reliability_table(by_name: Mapping[str, ReliabilityBins]) -> ReportTable:
    """Return bins of probabilities and outcomes by name."""
    rows: list[dict[str, ReportCell]] = []
    for name, bins in by_name.items():
        rows += [
            {"method": name, "from": low, "to": high, "n": count, "forecast": forecast, "came_true": rate}
            for low, high, count, forecast, rate in zip(
                bins.lower.tolist(),
                bins.upper.tolist(),
                bins.rows.tolist(),
                bins.mean_forecast.tolist(),
                bins.event_rate.tolist(),
                strict=True,
            )
        ]
    return ReportTable(
        key="reliability",
        title="Reliability of forecasts",
        columns=(
            ReportColumn("method", "method"),
            ReportColumn("from", "from", 1),
            ReportColumn("to", "to", 1),
            ReportColumn("n", "n"),
            ReportColumn("forecast", "mean forecast", 3),
            ReportColumn("came_true", "came true", 3),
        ),
        rows=rows,
    )


def _plain_scores(group: GroupScore | None) -> BinaryScores:
    return BinaryScores(n=0) if group is None else binary_scores(group.n, group.base_rate, group.brier)


def _score_rounds(rounds: Sequence[RoundSums]) -> dict[str, FamilyScores]:
    """Return the Brier scores of each round, also of rounds with only choices and curves."""
    briers = {(one.round, one.family): one for one in rounds if one.rule == BRIER and one.n}
    scores = {key: binary_scores(one.n, one.outcome / one.n, one.value / one.n) for key, one in briers.items()}
    return {
        name: combine_families(*(scores.get((name, family), BinaryScores(n=0)) for family in FAMILIES))
        for name in dict.fromkeys(one.round for one in rounds)
    }


def _round_means(rules: Sequence[ScoringRule], rounds: Sequence[RoundSums]) -> dict[str, GroupMeans]:
    sums: dict[str, dict[str, list[float]]] = defaultdict(lambda: {rule.name: [0, 0.0] for rule in rules})
    for one in rounds:
        if one.rule in {rule.name for rule in rules}:
            total = sums[one.round][one.rule]
            total[0] += one.n
            total[1] += one.value
    return {
        name: GroupMeans(
            n=round(found[rules[0].name][0]), scores={rule: value / n for rule, (n, value) in found.items() if n}
        )
        for name, found in sums.items()
    }


def _crowd_scores(groups: Mapping[str, ResampledGroup]) -> CrowdScores | None:
    count, scores, gains = 0.0, dict[str, float](), dict[str, ScoreInterval]()
    for name, group in groups.items():
        count, own, crowd = group.clusters.sum(axis=0)[3:].tolist()
        if not count:
            return None
        sign = 1.0 if SCORING_RULES[name].more_is_better else -1.0
        drawn_n, drawn_own, drawn_crowd = group.drawn.T[3:]
        drawn = divide_sums(sign * (drawn_own - drawn_crowd), drawn_n)
        scores[name] = crowd / count
        gains[name] = group.interval(sign * (own - crowd) / count, drawn, count=3)
    return CrowdScores(n=round(count), scores=scores, gains=gains)


def _group_means(sums: Mapping[str, RuleSums], key: str) -> dict[str, GroupMeans]:
    found: dict[str, GroupMeans] = {}
    for rule, one in sums.items():
        for group, units in one.sum_groups(key):
            n, _, value, *_ = units.sum(axis=0).tolist()
            scores = {**(found[group].scores if group in found else {}), rule: value / n}
            found[group] = GroupMeans(n=round(n), scores=scores)
    return found


def _group_order(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdecimal() else (0, name)
