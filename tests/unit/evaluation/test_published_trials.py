"""The public trials of BLF with our baseline: what the blend gains, and over whom, on published outcomes."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bot.core.clock import SeededRandom
from bot.core.forecasts import TrialLimits
from bot.core.predictions import BinaryPrediction
from bot.evaluation.backtest import BacktestSubject, forecast_round
from bot.evaluation.trial_pools import blend_methods
from bot.evaluation.trial_scores import ComparisonPlan, compare_methods
from bot.evaluation.trial_table import TrialTable, apply_published_outcomes, read_trial_tables, round_rows
from bot.forecasting.aggregation import PoolingMethod
from bot.forecasting.forecast_run import ConfiguredForecaster
from bot.forecasting.parameter_fitting import ForecasterTraining, best_parameters
from plugins.baseline.forecaster import BaselineForecaster, BaselineLearner
from plugins.forecastbench.archive import ForecastBenchArchive
from plugins.forecastbench.settings import ForecastBenchSettings

PRO, BASELINE = "pro-high-brave-c1-t1", "baseline"
MEMBERS = (PRO, BASELINE)
OTHERS = ("fb-lightning-rod-labs", "fb-google-deepmind-1", "fb-google-deepmind-2")

# The baseline is fitted for seven rounds.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def blended(shared: Path) -> TrialTable:
    """The rounds to 2026-02-15 with published outcomes, the baseline's forecasts, and the blend of both."""
    archive = ForecastBenchArchive(ForecastBenchSettings(), shared / "data" / "forecastbench")
    table = read_trial_tables([shared / "data" / "blf_trials" / "rounds_to_2026-02-15.csv.gz"])
    training = ForecasterTraining(learner=BaselineLearner(), shipped_parameters=())
    subject = BacktestSubject(
        configured_forecaster=ConfiguredForecaster(
            name=BASELINE,
            implementation=BaselineForecaster(),
            trials=1,
            pool=PoolingMethod.MEAN,
            limits=TrialLimits(),
        ),
        fit_parameters=lambda one: best_parameters(BASELINE, training, [archive], before=one.as_of),
    )
    rounds = [archive.read_round(key) for key in sorted({row.event.round for row in table.rows})]
    table = apply_published_outcomes(table, rounds).table
    for one in rounds:
        predictions = asyncio.run(forecast_round(one, subject, random=SeededRandom(1))).predictions
        answers = {
            (ref.key, target): found.probability
            for (ref, target), found in predictions.items()
            if isinstance(found, BinaryPrediction)
        }
        table = table.with_rows(round_rows(one, BASELINE, answers))
    return table.with_rows(blend_methods(table, MEMBERS)[0])


def compared(table: TrialTable, method: str, reference: str) -> Mapping[str, Any]:
    plan = ComparisonPlan(reference=reference, methods=[method], together=[*MEMBERS, "blend"])
    (row,) = compare_methods(table, [plan], SeededRandom(1), 2000).rows
    return row


def test_the_blend_is_better_than_both_of_its_parts(blended: TrialTable) -> None:
    for member, known in zip(MEMBERS, (63.11, 70.03), strict=True):
        row = compared(blended, "blend", member)
        assert (row["market_n"], row["dataset_n"]) == (406, 4278)
        assert row["own"] >= 71.5
        # The figure of the file's own page, on nearly the same rows.
        assert row["other"] == pytest.approx(known, abs=0.1)
        assert row["difference"].low > 0.0
        assert row["p_holm"] < 0.05


@pytest.mark.parametrize(
    ("reference", "known"),
    [("fb-lightning-rod-labs", 68.26), ("fb-google-deepmind-1", 68.19), ("fb-google-deepmind-2", 66.79)],
)
def test_the_blend_is_above_each_entry_of_the_leaderboard(blended: TrialTable, reference: str, known: float) -> None:
    row = compared(blended, "blend", reference)
    assert row["other"] == pytest.approx(known, abs=0.1)
    assert row["own"] > row["other"]


def test_the_entry_with_most_events_is_met_with_the_wanted_index(blended: TrialTable) -> None:
    row = compared(blended, "blend", "fb-lightning-rod-labs")
    assert (row["market_n"], row["dataset_n"]) == (91, 1630)
    assert row["own"] >= 69.37
    pro = compared(blended, PRO, "fb-lightning-rod-labs")
    assert pro["own"] == pytest.approx(60.3, abs=0.2)
    baseline = compared(blended, BASELINE, "fb-lightning-rod-labs")
    assert baseline["own"] == pytest.approx(68.6, abs=0.1)
