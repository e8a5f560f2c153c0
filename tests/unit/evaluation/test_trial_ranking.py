"""Ranking figures and mixed effects of tables of trials, computed again with scikit-learn and a few lines of numpy."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.metrics import average_precision_score, mean_absolute_error, roc_auc_score
from statsmodels.stats.multitest import multipletests

from bot.core.clock import SeededRandom
from bot.evaluation.mixed_effects import fit_mixed_effects
from bot.evaluation.trial_report import TrialReportPlan, build_trial_report
from bot.evaluation.trial_scores import rank_methods, summarise_methods
from bot.evaluation.trial_table import TrialTable, read_trial_tables
from tests.unit.evaluation.trial_table_files import random_table, write_table


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    found = random_table(("model", "table", "third"), questions=60)
    # Each round has questions of its own.
    return found.assign(id=found.forecast_due_date + found.id)


@pytest.fixture(scope="module")
def table(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> TrialTable:
    return read_trial_tables([write_table(frame, tmp_path_factory.mktemp("tables") / "t.csv")])


@pytest.mark.parametrize(
    ("name", "method", "column", "is_priced"),
    [
        ("model", "model", "forecast", False),
        ("table, with a price", "table", "forecast", True),
        ("crowd, events of model", "model", "market_value", True),
    ],
)
def test_ranking_figures(
    frame: pd.DataFrame, table: TrialTable, *, name: str, method: str, column: str, is_priced: bool
) -> None:
    (row,) = [one for one in rank_methods(table).rows if one["method"] == name]
    own = frame[frame.method == method]
    chosen = own[own.market_value.notna()] if is_priced else own
    outcomes = chosen.resolved_to.to_numpy()
    assert row["events"] == len(chosen)
    assert row["accuracy"] == pytest.approx(np.mean((chosen[column] > 0.5) == (outcomes == 1)))
    assert row["absolute_error"] == pytest.approx(mean_absolute_error(outcomes, chosen[column]))
    assert row["auc"] == pytest.approx(roc_auc_score(outcomes, chosen[column]))
    assert row["precision"] == pytest.approx(average_precision_score(outcomes, chosen[column]))
    priced = own[own.market_value.notna()]
    favoured = priced.market_value > 0.5
    assert row["auc_crowd"] == pytest.approx(roc_auc_score(favoured, priced[column]))
    assert row["precision_crowd"] == pytest.approx(average_precision_score(favoured, priced[column]))


def test_mixed_effects_are_those_of_a_balanced_analysis_of_variance(frame: pd.DataFrame, table: TrialTable) -> None:
    found = fit_mixed_effects(table)
    assert found is not None
    market = frame[frame.market_value.notna()]
    marks = [
        (row.method, f"{row.source} {row.id}", (getattr(row, f"trial_{trial}") - row.resolved_to) ** 2)
        for row in market.itertuples()
        for trial in (1, 2, 3)
    ]
    long = pd.DataFrame(marks, columns=["method", "question", "score"])
    methods, questions = long.groupby("method").score.mean(), long.groupby("question").score.mean()
    count, each, own = len(long), len(long) / len(questions), len(long) / len(methods)
    fitted = long.method.map(methods) + long.question.map(questions) - long.score.mean()
    rest = float(((long.score - fitted) ** 2).sum()) / (count - len(methods) - len(questions) + 1)
    between = each * float(((questions - long.score.mean()) ** 2).sum()) / (len(questions) - 1)
    # A balanced design, whose likelihood has its optimum inside: the estimators of the analysis of variance.
    assert between > rest
    for name in ("table", "third"):
        (row,) = [one for one in found.rows if one["family"] == "market" and one["method"] == name]
        effect: Any = row["effect"]
        difference = methods[name] - methods["model"]
        assert effect.estimate == pytest.approx(difference, abs=1e-6)
        assert row["residual_variance"] == pytest.approx(rest, rel=1e-3)
        assert row["question_variance"] == pytest.approx((between - rest) / each, rel=1e-3)
        error = np.sqrt(rest * 2 / own)
        assert effect.high - effect.low == pytest.approx(2 * norm.ppf(0.975) * error, rel=1e-3)
        assert row["p_value"] == pytest.approx(2 * norm.sf(abs(difference) / error), rel=1e-2)
    p_values = [row["p_value"] for row in found.rows]
    assert [row["p_holm"] for row in found.rows] == pytest.approx(multipletests(p_values, method="holm")[1])


def test_work_is_the_mean_over_answers_and_a_stuck_run_is_counted(frame: pd.DataFrame, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    columns = ("n_steps", "tokens_in", "tokens_out", "elapsed_seconds", "cost_usd")
    worked = frame.assign(**{name: rng.random(len(frame)) * 100 for name in columns})
    worked.loc[worked.index[:9], "forecast"] = 0.5
    rows = summarise_methods(read_trial_tables([write_table(worked, tmp_path / "w.csv")])).rows
    for method, own in worked.groupby("method"):
        (row,) = [one for one in rows if one["method"] == method]
        assert {name: row[name] for name in columns} == pytest.approx(own[[*columns]].mean().to_dict())
        assert row["stuck"] == pytest.approx(100 * (own.forecast == 0.5).mean())
        assert row["trials"] == 3


def test_the_report_has_mixed_effects_where_they_are_asked_for(table: TrialTable, tmp_path: Path) -> None:
    keys = {
        mixed: [
            one.key
            for one in build_trial_report(table, TrialReportPlan(resamples=100, mixed=mixed), SeededRandom(1)).tables
        ]
        for mixed in (False, True)
    }
    assert {*keys[True]} - {*keys[False]} == {"mixed_effects"}
    assert "ranking" in keys[False]
