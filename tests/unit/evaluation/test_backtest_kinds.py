"""A backtest of choices and curves: rounds read from a venue in memory, each kind scored by its own rules."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from math import inf, log

import numpy as np
import pytest

from bot.core.beliefs import Belief, Step, StepAction, StepObservation
from bot.core.clock import SeededRandom
from bot.core.errors import ServiceUnavailableError
from bot.core.forecasts import TrialLimits
from bot.core.learning import Round
from bot.core.outcomes import BinaryOutcome, ChoiceOutcome, NumericOutcome, Outcome, Resolution, VoidOutcome
from bot.core.predictions import (
    BinaryPrediction,
    ChoicePrediction,
    ChoiceShape,
    CurvePrediction,
    CurveShape,
    Prediction,
)
from bot.core.questions import CrowdForecast, Question, Target
from bot.evaluation.backtest import BacktestSubject, BacktestWindow, run_backtest
from bot.evaluation.score_report import build_report
from bot.evaluation.score_rows import RuleScoreRow, ScoreRows
from bot.forecasting.aggregation import PoolingMethod
from bot.forecasting.forecast_run import ConfiguredForecaster
from bot.testing.forecaster import ScriptedForecaster
from bot.testing.venue import FakeVenueReader
from tests.unit.testing.correct_venue import START, LanternArchive, outcome, question

COLOURS = ChoiceShape(options=("red", "green", "blue"))
WATTS = CurveShape(grid=(0.0, 10.0, 20.0, 30.0, 40.0), unit="W", open_upper=True)
SAID: dict[str, Prediction] = {
    "binary": BinaryPrediction(0.3),
    "choice": ChoicePrediction({"red": 0.2, "green": 0.5, "blue": 0.3}),
    "curve": CurvePrediction((0.0, 0.2, 0.4, 0.6, 0.8)),
}


class OneRound(LanternArchive):
    """All that a venue in memory asked and knows, as one round."""

    def __init__(self, asked: Sequence[Question], known: Sequence[Resolution]) -> None:
        self._round = Round(key="all", as_of=START, questions=tuple(asked), resolutions=tuple(known))

    @classmethod
    async def of(cls, venue: FakeVenueReader) -> "OneRound":
        asked = [one async for one in venue.questions()]
        return cls(asked, [one async for one in venue.resolutions({one.ref for one in asked})])

    def round_keys(self) -> Sequence[str]:
        return ["all"]

    def read_round(self, key: str) -> Round:
        assert key == "all"
        return self._round


def lamp(number: int, shape: ChoiceShape | CurveShape, **changes: object) -> Question:
    return replace(question(number), as_of=START, opens_at=START, shape=shape, **changes)  # type: ignore[arg-type]


def came(number: int, happened: Outcome) -> Resolution:
    return outcome(number, outcome=happened)


def answer(asked: Question) -> Step:
    belief = Belief(predictions={target.key: SAID[asked.shape.kind] for target in asked.targets})
    return Step(action=StepAction(name="think"), observation=StepObservation(), belief=belief)


async def run(venue: FakeVenueReader, *moves: object) -> ScoreRows:
    forecaster = ScriptedForecaster(*(moves or (answer,)))  # type: ignore[arg-type]
    configured = ConfiguredForecaster(
        name="plain", implementation=forecaster, trials=1, pool=PoolingMethod.MEAN, limits=TrialLimits()
    )
    return await run_backtest(
        await OneRound.of(venue),
        BacktestSubject(configured_forecaster=configured, fit_parameters=lambda _: None),
        BacktestWindow(),
        random=SeededRandom(1),
        progress=lambda _: None,
    )


async def test_each_kind_is_scored_by_its_own_rules() -> None:
    asked = [replace(question(0), as_of=START, opens_at=START), lamp(1, COLOURS), lamp(2, WATTS)]
    found = await run(
        FakeVenueReader(asked, [outcome(0), came(1, ChoiceOutcome("blue")), came(2, NumericOutcome(25.0))])
    )
    assert [(row.probability, row.outcome) for row in found.binary] == [(0.3, 1.0)]
    choice, curve = found.by_rule
    # 0.04 + 0.25 + 0.49 by hand.
    assert choice.scores == pytest.approx(
        {"choice brier": 0.78, "choice log": -log(0.3), "choice baseline": 100 * (1 + log(0.3) / log(3))}
    )
    # Each of four steps has 0.2, and the flat forecast 0.95 / 4.
    assert curve.scores["curve baseline"] == pytest.approx(50 * log(0.2 / (0.95 / 4)))
    assert (choice.kind, curve.kind, choice.imputed, curve.imputed) == ("choice", "curve", False, False)


@pytest.mark.parametrize("landed", [inf, 1000.0, 40.5])
async def test_a_value_above_an_open_bound_is_scored_as_the_tail(landed: float) -> None:
    found = await run(FakeVenueReader([lamp(0, WATTS)], [came(0, NumericOutcome(landed))]))
    assert found.by_rule[0].scores["curve baseline"] == pytest.approx(50 * log(0.2 / 0.05))


@pytest.mark.parametrize("known", [NumericOutcome(-1.0), NumericOutcome(-inf), VoidOutcome("ambiguous")])
async def test_void_and_impossible_outcomes_are_no_rows(known: Outcome) -> None:
    assert not await run(FakeVenueReader([lamp(0, WATTS)], [came(0, known)]))


async def test_a_share_of_yes_and_an_option_nobody_had() -> None:
    asked = [replace(question(0), as_of=START, opens_at=START), lamp(1, COLOURS)]
    found = await run(FakeVenueReader(asked, [came(0, BinaryOutcome(0.25)), came(1, ChoiceOutcome("yellow"))]))
    assert [row.outcome for row in found.binary] == [0.25]
    assert found.by_rule == []


async def test_a_missing_answer_counts_as_the_flat_one() -> None:
    def only_choices(asked: Question) -> Step:
        if asked.shape.kind == "curve":
            message = "no model"
            raise ServiceUnavailableError(message)
        return answer(asked)

    asked = [lamp(1, COLOURS), lamp(2, WATTS)]
    found = await run(
        FakeVenueReader(asked, [came(1, ChoiceOutcome("blue")), came(2, NumericOutcome(25.0))]), only_choices
    )
    choice, curve = found.by_rule
    assert (choice.imputed, curve.imputed) == (False, True)
    assert curve.scores["curve baseline"] == pytest.approx(0.0, abs=1e-9)


async def test_the_report_keeps_kinds_and_rules_apart_and_says_what_is_gained_over_the_crowd() -> None:
    crowd = CrowdForecast(prediction=ChoicePrediction({"red": 0.4, "green": 0.2, "blue": 0.4}), at=START)
    asked = [lamp(1, COLOURS, crowd=crowd, source="hall"), lamp(2, COLOURS, source="yard"), lamp(3, WATTS)]
    known = [came(1, ChoiceOutcome("blue")), came(2, ChoiceOutcome("green")), came(3, NumericOutcome(25.0))]
    found = await run(FakeVenueReader(asked, known))
    report = build_report(found.binary, graded=found.by_rule, rng=np.random.default_rng(1))
    assert [*report.kinds] == ["choice", "curve"]
    choice = report.kinds["choice"]
    # 0.78 for blue as above; 0.04 + 0.25 + 0.09 for green.
    assert choice.scores["choice brier"].estimate == pytest.approx((0.78 + 0.38) / 2)
    assert choice.by_source["yard"].scores["choice brier"] == pytest.approx(0.38)
    assert choice.crowd is not None
    # The crowd's 0.16 + 0.04 + 0.36 on the one question that it had: 0.22 better, so the gain is negative.
    assert choice.crowd.n == 1
    assert choice.crowd.scores["choice brier"] == pytest.approx(0.56)
    assert choice.crowd.gains["choice brier"].estimate == pytest.approx(-0.22)
    assert choice.crowd.gains["choice log"].estimate == pytest.approx(log(0.3 / 0.4))
    assert choice.crowd.gains["choice baseline"].estimate == pytest.approx(100 * log(0.3 / 0.4) / log(3))
    assert report.kinds["curve"].crowd is None
    assert [*report.by_round] == ["all"]
    assert report.block.market.n == 0


def test_horizons_stand_in_the_order_of_their_days_and_series_are_drawn_as_one() -> None:
    def graded(days: int, score: float, series: str) -> RuleScoreRow:
        return RuleScoreRow(
            round="all", kind="curve", family="", source="", series=series, horizon_days=days,
            scores={"crps": score, "curve baseline": 0.0}, crowd_scores={},
        )  # fmt: skip

    rows = [graded(days, score, f"{score}") for days, score in ((30, 0.1), (7, 0.3), (90, 0.1), (7, 0.3))]
    found = build_report([], graded=rows, rng=np.random.default_rng(1)).kinds["curve"]
    assert [*found.by_horizon] == ["7", "30", "90"]
    assert found.by_source == {}
    span = found.scores["crps"]
    # Two series: a resample has one of them twice, or both.
    assert (span.estimate, span.low, span.high) == pytest.approx((0.2, 0.1, 0.3))


async def test_each_target_of_a_curve_is_scored() -> None:
    targets = tuple(Target(key=key, resolves_at=START + timedelta(days=9)) for key in ("a", "b"))
    known = [replace(came(0, NumericOutcome(5.0)), target="a"), replace(came(0, NumericOutcome(35.0)), target="b")]
    found = await run(FakeVenueReader([lamp(0, WATTS, targets=targets)], known))
    assert len(found.by_rule) == 2
    assert found.by_rule[0].scores["crps"] != found.by_rule[1].scores["crps"]
