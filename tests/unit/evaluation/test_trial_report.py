"""The report on tables of trials, computed again with a few lines of pandas, scikit-learn and statsmodels."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy.optimize import minimize
from scipy.spatial.distance import jensenshannon
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss
from statsmodels.stats.multitest import multipletests

from bot.core.clock import SeededRandom
from bot.core.errors import NotFoundError
from bot.evaluation.score_report import ScoreInterval
from bot.evaluation.trial_pools import blend_methods, calibrate_methods
from bot.evaluation.trial_report import TrialReport, TrialReportPlan, build_trial_report
from bot.evaluation.trial_scores import adjust_p_values
from bot.evaluation.trial_table import TrialTable, read_trial_tables
from tests.unit.evaluation.trial_table_files import random_table, write_table

METHODS = ("model", "table")
KEYS = ["forecast_due_date", "source", "id", "resolution_date"]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return random_table(questions=60)


@pytest.fixture(scope="module")
def table(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> TrialTable:
    return read_trial_tables([write_table(frame, tmp_path_factory.mktemp("tables") / "t.csv")])


@pytest.fixture(scope="module")
def report(table: TrialTable) -> TrialReport:
    return build_trial_report(table, TrialReportPlan(blend=METHODS, resamples=4000), SeededRandom(1))


def rows(report: TrialReport, key: str, **wanted: object) -> list[Mapping[str, Any]]:
    (found,) = [one for one in report.tables if one.key == key]
    return [row for row in found.rows if all(row.get(name) == value for name, value in wanted.items())]


def row(report: TrialReport, key: str, **wanted: object) -> Mapping[str, Any]:
    (found,) = rows(report, key, **wanted)
    return found


def index(probabilities: Any, outcomes: Any) -> float:
    return float(100.0 * (1.0 - np.sqrt(np.mean((np.asarray(probabilities) - np.asarray(outcomes)) ** 2))))


def both_indices(frame: pd.DataFrame, column: str) -> tuple[float, float, float]:
    market, dataset = frame[frame.source != "river"], frame[frame.source == "river"]
    pair = index(market[column], market.resolved_to), index(dataset[column], dataset.resolved_to)
    return *pair, sum(pair) / 2.0


def test_scores_of_a_method(frame: pd.DataFrame, report: TrialReport) -> None:
    own, found = frame[frame.method == "model"], row(report, "scores", method="model")
    expected = both_indices(own, "forecast")
    assert [found[key].estimate for key in ("market", "dataset", "mean")] == pytest.approx(expected)
    assert found["brier"] == pytest.approx(brier_score_loss(own.resolved_to, own.forecast))
    assert found["log"] == pytest.approx(log_loss(own.resolved_to, own.forecast.clip(0.001, 0.999)), abs=1e-6)
    on_outcome = np.where(own.resolved_to == 1.0, own.forecast, 1.0 - own.forecast)
    assert found["baseline"] == pytest.approx(100.0 * (1.0 + np.log2(on_outcome)).mean())
    bins = pd.cut(own.forecast, np.linspace(0.0, 1.0, 11))
    gaps = own.groupby(bins, observed=True)[["forecast", "resolved_to"]].mean()
    sizes = own.groupby(bins, observed=True).size()
    assert found["ece"] == pytest.approx(float((sizes * (gaps.forecast - gaps.resolved_to).abs()).sum() / len(own)))


def test_intervals_are_those_of_a_bootstrap_of_blocks(frame: pd.DataFrame, report: TrialReport) -> None:
    own = frame[(frame.method == "model") & (frame.source == "river")]
    blocks = [part for _, part in own.groupby(["forecast_due_date", "resolution_date", "source"])]
    rng = np.random.default_rng(11)
    drawn = []
    for _ in range(4000):
        chosen = pd.concat([blocks[i] for i in rng.integers(len(blocks), size=len(blocks))])
        drawn.append(index(chosen.forecast, chosen.resolved_to))
    span = row(report, "scores", method="model")["dataset"]
    assert [span.low, span.high] == pytest.approx(np.quantile(drawn, [0.025, 0.975]).tolist(), abs=0.35)


def test_difficulty_is_subtracted_as_by_least_squares(frame: pd.DataFrame, report: TrialReport) -> None:
    full = pd.DataFrame(
        [
            {
                "method": one.method,
                "event": "|".join(one.event),
                "family": report.trials.family(one.event),
                "brier": (one.forecast - (one.outcome or 0.0)) ** 2,
            }
            for one in report.trials.rows
        ]
    )
    adjusted = []
    for _, part in full.groupby("family"):
        dummies = pd.get_dummies(part[["method", "event"]], dtype=float)
        fit = np.linalg.lstsq(dummies.to_numpy(), part.brier.to_numpy(), rcond=None)[0]
        effect = dict(zip(dummies.columns, fit, strict=True))
        difficulty = part.event.map(lambda event, effect=effect: effect[f"event_{event}"])
        level = 0.25 - (0.25 - difficulty.groupby(part.event).first()).mean()
        rest = (part.brier - difficulty)[part.method == "model"].mean() + level
        adjusted.append(100.0 * (1.0 - np.sqrt(rest)))
    assert row(report, "scores", method="model")["adjusted"] == pytest.approx(np.mean(adjusted))


def test_peer_scores_compare_methods_on_the_same_event(report: TrialReport) -> None:
    wide = pd.DataFrame(
        [(one.event, one.method, abs(1.0 - (one.outcome or 0.0) - one.forecast)) for one in report.trials.rows],
        columns=["event", "method", "mass"],
    ).pivot_table(index="event", columns="method", values="mass")
    logs = np.log(wide.clip(0.001, 0.999))
    count = logs.shape[1]
    peer = 100.0 * count / (count - 1) * (logs["model"] - logs.mean(axis=1))
    assert row(report, "scores", method="model")["peer"] == pytest.approx(peer.mean())


def fit_by_hand(known: pd.DataFrame) -> Callable[[pd.DataFrame], Any]:
    """Return the blend that is learned from known events, with an optimiser that knows nothing of it."""
    sources = sorted({*known.source})

    def design(part: pd.DataFrame) -> Any:
        kinds = part.source.eq("river")
        columns = []
        for name in METHODS:
            odds = np.log(part[name] / (1.0 - part[name]))
            columns += [odds * ~kinds, odds * kinds, *(odds * part.source.eq(source) for source in sources)]
        return np.column_stack(columns)

    size = 2 + len(sources)
    prior = np.tile([0.575, 0.575] + [0.0] * len(sources), 2)
    weights = 1.0 / known.groupby(["forecast_due_date", "resolution_date", "source"])["id"].transform("size")
    x, y, w = design(known), known.resolved_to.to_numpy(), weights.to_numpy()

    def loss(at: Any) -> float:
        margins = x @ at
        return float(w @ (np.logaddexp(0.0, margins) - y * margins) + ((at - prior) ** 2).sum() / 0.02)

    best = minimize(loss, prior, method="BFGS", options={"gtol": 1e-9}).x if len(known) else prior
    assert len(best) == 2 * size
    return lambda part: 1.0 / (1.0 + np.exp(-design(part) @ best))


def test_the_blend_is_fitted_on_what_was_known_before_each_round(frame: pd.DataFrame, report: TrialReport) -> None:
    wide = frame.pivot_table(index=[*KEYS, "resolved_to"], columns="method", values="forecast").reset_index()
    parts = []
    for due, part in wide.groupby("forecast_due_date"):
        known = wide[(wide.forecast_due_date < due) & (wide.resolution_date < due)]
        parts.append(part.assign(blend=fit_by_hand(known)(part)))
    by_hand = pd.concat(parts)
    assert row(report, "scores", method="blend")["mean"].estimate == pytest.approx(
        both_indices(by_hand, "blend")[2], abs=1e-4
    )
    odds = np.log(wide[[*METHODS]] / (1.0 - wide[[*METHODS]])).mean(axis=1)
    equal, prior = (wide.assign(p=1.0 / (1.0 + np.exp(-slope * odds))) for slope in (1.0, 1.15))
    assert row(report, "scores", method="mean of log odds")["mean"].estimate == pytest.approx(
        both_indices(equal, "p")[2]
    )
    assert row(report, "scores", method="blend, prior weights")["mean"].estimate == pytest.approx(
        both_indices(prior, "p")[2]
    )


def test_no_outcome_after_a_round_reaches_its_blend(table: TrialTable) -> None:
    rounds = sorted({one.event.round for one in table.rows})
    assert any(one.day < rounds[-1] for one in table.rows)
    for cutoff in rounds:
        flipped = TrialTable(
            tuple(replace(one, outcome=1.0 - (one.outcome or 0.0)) if one.day >= cutoff else one for one in table.rows)
        )
        assert flipped != table
        before, after = (blend_methods(one, METHODS)[0] for one in (table, flipped))
        assert [one.forecast for one in before if one.event.round <= cutoff] == [
            one.forecast for one in after if one.event.round <= cutoff
        ]


def test_a_change_of_what_was_known_does_change_the_blend(table: TrialTable) -> None:
    last = max(one.event.round for one in table.rows)
    flipped = TrialTable(
        tuple(replace(one, outcome=1.0 - (one.outcome or 0.0)) if one.day < last else one for one in table.rows)
    )
    before, after = (
        [one.forecast for one in blend_methods(found, METHODS)[0] if one.event.round == last]
        for found in (table, flipped)
    )
    assert before != after


def test_a_run_that_got_stuck_has_no_weight(table: TrialTable) -> None:
    stuck = TrialTable(tuple(replace(one, forecast=0.5) if one.method == "model" else one for one in table.rows))
    blended = {one.event: one for one in blend_methods(stuck, METHODS)[0] if one.method == "blend, prior weights"}
    for event, other in stuck.by_method["table"].items():
        odds = 1.15 * np.log(other.forecast / (1.0 - other.forecast))
        assert blended[event].forecast == pytest.approx(1.0 / (1.0 + np.exp(-odds)))


def test_the_comparison_is_a_paired_bootstrap(frame: pd.DataFrame, report: TrialReport) -> None:
    blend = {one.event: one.forecast for one in report.trials.rows if one.method == "blend"}
    own = [one for one in report.trials.rows if one.method == "model"]
    marks = pd.DataFrame(
        [
            (
                one.event.source == "river",
                (one.event.round, one.day, one.event.source),
                (blend[one.event] - (one.outcome or 0.0)) ** 2,
                (one.forecast - (one.outcome or 0.0)) ** 2,
            )
            for one in own
        ],
        columns=["dated", "block", "first", "second"],
    )
    rng = np.random.default_rng(4)
    drawn = np.zeros(4000)
    for _, part in marks.groupby("dated"):
        sums = part.groupby("block")[["first", "second"]].sum().to_numpy()
        sizes = part.groupby("block").size().to_numpy()
        counts = rng.multinomial(len(sums), np.full(len(sums), 1.0 / len(sums)), size=4000)
        means = counts @ sums / (counts @ sizes)[:, None]
        drawn += 100.0 * (np.sqrt(means[:, 1]) - np.sqrt(means[:, 0])) / 2.0
    found = row(report, "comparison", method="blend", reference="model")
    span = found["difference"]
    assert [span.low, span.high] == pytest.approx(np.quantile(drawn, [0.025, 0.975]).tolist(), abs=0.2)
    assert span.estimate == pytest.approx(found["own"] - found["other"])
    assert found["p_value"] == pytest.approx(min(1.0, 2.0 * (drawn <= 0.0).mean()), abs=0.02)


def test_p_values_are_corrected_as_by_statsmodels() -> None:
    p_values = [0.04, 0.001, 0.03, 0.2, 0.03]
    assert adjust_p_values(p_values) == pytest.approx(multipletests(p_values, method="holm")[1].tolist())
    assert adjust_p_values([]) == []


def test_pools_of_all_trials(frame: pd.DataFrame, report: TrialReport) -> None:
    own = frame[frame.method == "model"]
    trials = own[["trial_1", "trial_2", "trial_3"]]
    odds = np.log(trials / (1.0 - trials))
    ways = {
        "mean": trials.mean(axis=1),
        "median": trials.median(axis=1),
        "logit mean": 1.0 / (1.0 + np.exp(-odds.mean(axis=1))),
    }
    # Prices leave trials as they are; without one they shrink to one half with weight max(0.7, 1 - 0.4 * spread).
    weight = np.maximum(0.7, 1.0 - 0.4 * odds.std(axis=1, ddof=0)).where(own.market_value.isna(), 1.0)
    ways["shrink"] = 1.0 / (1.0 + np.exp(-weight * odds.mean(axis=1)))
    for pool, values in ways.items():
        found = row(report, "pools", method="model", pool=pool, trials=3)
        assert found["mean"] == pytest.approx(both_indices(own.assign(p=values), "p")[2])


def test_one_trial_has_the_spread_over_which_trial_it_is(frame: pd.DataFrame, report: TrialReport) -> None:
    own = frame[frame.method == "model"]
    rng = np.random.default_rng(2)
    trials = own[["trial_1", "trial_2", "trial_3"]].to_numpy()
    drawn = [
        both_indices(own.assign(p=trials[np.arange(len(own)), rng.integers(3, size=len(own))]), "p")[2]
        for _ in range(400)
    ]
    span = row(report, "pools", method="model", pool="mean", trials=1)["mean"]
    assert span.estimate == pytest.approx(np.mean(drawn), abs=0.1)
    assert [span.low, span.high] == pytest.approx(np.quantile(drawn, [0.025, 0.975]).tolist(), abs=0.25)


def test_forward_calibration_uses_earlier_rounds(frame: pd.DataFrame, table: TrialTable, report: TrialReport) -> None:
    own = frame[frame.method == "model"].copy()
    odds = np.log(own.forecast / (1.0 - own.forecast)).to_numpy()[:, None]
    calibrated = own.forecast.to_numpy(copy=True)
    for due in sorted(set(own.forecast_due_date)):
        known = ((own.forecast_due_date < due) & (own.resolution_date < due)).to_numpy()
        if known.sum() >= 150:
            fit = LogisticRegression(C=np.inf, tol=1e-10).fit(odds[known], own.resolved_to[known])
            now = (own.forecast_due_date == due).to_numpy()
            calibrated[now] = fit.predict_proba(odds[now])[:, 1]
    expected = both_indices(own.assign(p=calibrated), "p")
    found = rows(report, "calibration", method="model", calibration="Platt, forward")
    assert [found[0][key] for key in ("market", "dataset", "mean")] == pytest.approx(expected, abs=1e-3)


def test_leave_one_out_calibration_refits_without_each_question(frame: pd.DataFrame, report: TrialReport) -> None:
    own = frame[frame.method == "model"].reset_index(drop=True)
    odds = sm.add_constant(np.log(own.forecast / (1.0 - own.forecast)).to_numpy())
    calibrated = np.empty(len(own))
    for _, part in own.groupby(["source", "id"]):
        rest = own.index.difference(part.index)
        fit = sm.GLM(own.resolved_to[rest], odds[rest], family=sm.families.Binomial()).fit()
        calibrated[part.index] = fit.predict(odds[part.index])
    expected = both_indices(own.assign(p=calibrated), "p")
    found = row(report, "calibration", method="model", calibration="Platt, leave-one-out")
    assert [found[key] for key in ("market", "dataset", "mean")] == pytest.approx(expected, abs=1e-3)


def test_a_table_of_one_round_has_no_forward_calibration(table: TrialTable) -> None:
    one_round = TrialTable(tuple(one for one in table.rows if one.event.round == "2026-01-04"))
    ways = {str(one["calibration"]) for one in calibrate_methods(one_round).rows}
    assert ways == {"none", "Platt, leave-one-out", "hierarchical Platt, leave-one-out"}


def test_variance_is_decomposed_as_by_an_analysis_of_variance(table: TrialTable, report: TrialReport) -> None:
    marks = pd.DataFrame(
        [
            (one.method, "|".join(one.event), (trial - (one.outcome or 0.0)) ** 2)
            for one in table.rows
            for trial in one.trials
            if table.family(one.event) == "dataset"
        ],
        columns=["method", "event", "brier"],
    )
    anova = sm.stats.anova_lm(smf.ols("brier ~ C(method) + C(event)", marks).fit())
    found = row(report, "variance", family="dataset")
    shares = 100.0 * anova.sum_sq / anova.sum_sq.sum()
    assert [found["method_share"], found["event_share"], found["residual_share"]] == pytest.approx(shares.tolist())
    assert found["p_method"] == pytest.approx(anova["PR(>F)"].iloc[0])


def test_diversity_is_the_jensen_shannon_divergence(report: TrialReport) -> None:
    for first, second in itertools.combinations(report.trials.by_method, 2):
        one, other = report.trials.by_method[first], report.trials.by_method[second]
        bits = [
            jensenshannon([one[e].forecast, 1 - one[e].forecast], [other[e].forecast, 1 - other[e].forecast], base=2)
            ** 2
            for e in one
        ]
        assert row(report, "diversity", one=first, other=second)["bits"] == pytest.approx(np.mean(bits), abs=1e-9)


def test_a_single_block_has_no_interval(table: TrialTable) -> None:
    event = next(one.event for one in table.rows if one.event.source == "exchange")
    alone = TrialTable(tuple(one for one in table.rows if one.event == event))
    found = build_trial_report(alone, TrialReportPlan(resamples=200), SeededRandom(1))
    assert (
        row(found, "scores", method="model")["market"].low,
        row(found, "scores", method="model")["market"].high,
    ) == (None, None)
    compared = row(found, "comparison", method="table")
    assert compared["difference"].low is None
    assert compared["p_value"] is None


def test_unknown_methods_and_tables_without_outcomes_are_refused(table: TrialTable) -> None:
    with pytest.raises(NotFoundError, match="the tables have no method nobody; they have model, table"):
        build_trial_report(table, TrialReportPlan(against=("nobody",)), SeededRandom(1))
    unresolved = TrialTable(tuple(replace(one, outcome=None) for one in table.rows))
    with pytest.raises(NotFoundError, match="no event of the tables has an outcome yet"):
        build_trial_report(unresolved, TrialReportPlan(), SeededRandom(1))


def test_json_and_markdown_hold_every_table(report: TrialReport, tmp_path: Path) -> None:
    plain = report.to_json()
    assert {"methods", "scores", "comparison", "blend", "calibration", "pools", "variance", "diversity"} <= plain.keys()
    text = report.to_markdown()
    span = row(report, "scores", method="blend")["mean"]
    assert isinstance(span, ScoreInterval)
    assert f"{span.estimate:.2f} [{span.low:.2f}, {span.high:.2f}]" in text
    assert text.count("\n## ") == len(report.tables)
