"""All three shapes and several targets: asked of every member, pooled, and shown as the question wants it."""

from datetime import timedelta
from typing import Any

import pytest

from bot.core.beliefs import belief_mismatch
from bot.core.language_models import ModelDialect
from bot.core.predictions import (
    BinaryPrediction,
    ChoicePrediction,
    ChoiceShape,
    CurvePrediction,
    CurveShape,
    QuestionShape,
)
from tests.plugins.team.cases import CUTOFF, ScriptedMember, question, steps_of, team_context

COLOURS = ChoiceShape(options=("red", "green", "blue"))
POINTS = CurveShape(grid=tuple(float(point) for point in range(0, 101, 5)), unit="points", open_upper=True)
DAYS = CurveShape(grid=tuple((CUTOFF + timedelta(days=day)).timestamp() for day in range(100)), unit="date")
LEVELS = (5, 10, 25, 50, 75, 90, 95)


def quantiles(*values: Any) -> dict[str, Any]:
    return {f"p{level}": value for level, value in zip(LEVELS, values, strict=True)}


LOW, HIGH = quantiles(5, 8, 15, 20, 30, 40, 45), quantiles(45, 50, 60, 70, 80, 85, 90)
DATED = quantiles(*(f"2026-0{month}-10" for month in (1, 1, 2, 2, 3, 3, 4)))


@pytest.mark.parametrize(
    ("shape", "dialect", "name", "values"),
    [
        (COLOURS, ModelDialect.TOOLS, "probabilities", [{"red": 0.6, "green": 0.3, "blue": 0.1}] * 2),
        (COLOURS, ModelDialect.JSON, "percents", [{"red": 60, "green": 30, "blue": 10}] * 2),
        (POINTS, ModelDialect.TOOLS, "quantiles", [LOW, HIGH]),
        (POINTS, ModelDialect.JSON, "quantiles", [LOW, HIGH]),
        (DAYS, ModelDialect.TOOLS, "quantiles", [DATED, DATED]),
    ],
    ids=["choice", "choice in JSON", "number", "number in JSON", "date"],
)
async def test_a_team_answers_every_shape(
    shape: QuestionShape, dialect: ModelDialect, name: str, values: list[Any]
) -> None:
    asked = question(shape)
    players = [ScriptedMember(probability=value, field_name=name, dialect=dialect) for value in values]
    steps, error = await steps_of(asked, team_context(*players), members=2, steps=3)
    assert error is None
    assert [belief_mismatch(step.belief, asked) for step in steps] == [None] * len(steps)
    assert "recorded" not in steps[-1].observation.text
    (found,) = steps[-1].belief.predictions.values()
    if isinstance(found, ChoicePrediction):
        # Members who agree are the team's opinion.
        assert found.probabilities == pytest.approx({"red": 0.6, "green": 0.3, "blue": 0.1}, abs=0.02)


async def test_of_two_curves_the_pool_is_the_mean_at_every_point() -> None:
    alone = []
    for value in (LOW, HIGH):
        steps, _ = await steps_of(
            question(POINTS),
            team_context(ScriptedMember(probability=value, field_name="quantiles")),
            members=1,
            steps=1,
        )
        alone.append(steps[-1].belief.predictions["outcome"])
    players = [ScriptedMember(probability=value, field_name="quantiles") for value in (LOW, HIGH)]
    steps, _ = await steps_of(question(POINTS), team_context(*players), members=2, steps=1)
    together = steps[-1].belief.predictions["outcome"]
    assert isinstance(together, CurvePrediction)
    low, high = (one.cdf for one in alone if isinstance(one, CurvePrediction))
    assert together.cdf == pytest.approx([(a + b) / 2 for a, b in zip(low, high, strict=True)])


async def test_every_target_is_pooled_by_itself() -> None:
    dates = ("2026-02-01", "2026-03-01")
    asked = question(targets=dates)
    players = [
        ScriptedMember(probability=dict(zip(dates, values, strict=True)), field_name="probability")
        for values in ((0.2, 0.6), (0.4, 0.9))
    ]
    steps, error = await steps_of(asked, team_context(*players), members=2, steps=2, pool="mean")
    assert error is None
    found = {
        key: one.probability for key, one in steps[-1].belief.predictions.items() if isinstance(one, BinaryPrediction)
    }
    assert found == pytest.approx({dates[0]: 0.3, dates[1]: 0.75})


@pytest.mark.parametrize(
    ("pool", "expected"), [("mean", (0.1 + 0.2 + 0.9) / 3), ("median", 0.2), ("logit-mean", 0.3848640)]
)
async def test_how_beliefs_are_pooled_is_a_setting(pool: str, expected: float) -> None:
    # The logit mean: log-odds of -ln 9, -ln 4 and ln 9, so 1 / (1 + 4 ** (1/3)).
    players = [ScriptedMember(probability=value) for value in (0.1, 0.2, 0.9)]
    steps, _ = await steps_of(question(), team_context(*players), steps=1, pool=pool)
    found = steps[-1].belief.predictions["outcome"]
    assert isinstance(found, BinaryPrediction)
    assert found.probability == pytest.approx(1 / (1 + 4 ** (1 / 3)) if pool == "logit-mean" else expected, abs=1e-9)
