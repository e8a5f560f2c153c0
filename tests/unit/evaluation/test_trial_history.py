"""Rows of tables as forecasts to learn from."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.evaluation.trial_history import table_forecasts
from bot.evaluation.trial_pools import blend_methods
from bot.evaluation.trial_table import read_trial_tables
from plugins.blend.settings import BlendSettings
from plugins.blend.weights import BlendLearner
from tests.unit.evaluation.trial_table_files import ROUNDS, random_table, write_table

BEFORE = datetime.fromisoformat(ROUNDS[2]).replace(tzinfo=UTC)


def test_weights_learned_from_a_table_are_those_of_the_laboratory(tmp_path: Path) -> None:
    table = read_trial_tables([write_table(random_table(questions=30), tmp_path / "t.csv")])
    pasts = [*table_forecasts(table, {"model": "mind", "table": "numbers"}, BEFORE)]
    assert {past.forecaster for past in pasts} == {"mind", "numbers"}
    assert all(past.resolution.resolved_at < BEFORE for past in pasts)
    learned = BlendLearner(BlendSettings(members=("mind", "numbers"))).fit_history(pasts, before=BEFORE)["blend"]
    _, weights = blend_methods(table, ("model", "table"))
    row = next(row for row in weights.rows if row["round"] == ROUNDS[2] and row["source"] == "river")
    assert isinstance(learned, dict)
    coefficients = learned["coefficients"]
    assert isinstance(coefficients, dict)
    total = sum(
        value
        for name, value in coefficients.items()
        if name in {"mind | series", "mind | source river"}
        if isinstance(value, float)
    )
    assert total == pytest.approx(row["model"])
    assert learned["examples"] == row["examples"]


def test_stuck_runs_teach_nothing(tmp_path: Path) -> None:
    frame = random_table()
    frame.loc[frame.method == "model", "forecast"] = 0.5
    table = read_trial_tables([write_table(frame, tmp_path / "t.csv")])
    assert [*table_forecasts(table, {"model": "mind"}, BEFORE)] == []
