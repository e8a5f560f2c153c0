"""Forecasts of earlier versions of a question are shown, and scored, on the grid for which they were made."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from bot.cli.output.console import to_json_text
from bot.cli.show import print_question_record, question_record_to_json
from bot.config.schema import Config
from bot.core.outcomes import NumericOutcome, Resolution
from bot.core.predictions import CurvePrediction, CurveShape
from bot.core.questions import Question, QuestionRef, Target
from bot.evaluation.question_record import load_question_record
from bot.jobs.resolution import ScoringContext, score_forecasts
from bot.store.ledger import ReadOnlyState, open_ledger
from bot.store.scores import ScoreFilter
from bot.testing.clock import FakeClock
from tests.recorded_forecasts import record_forecast
from tests.unit.cli.test_score_kinds import told

SNOW = Question(
    ref=QuestionRef("lantern", "snow"),
    title="How much snow?",
    shape=CurveShape(grid=(0.0, 10.0, 20.0, 30.0, 40.0), unit="cm", open_upper=True),
    targets=(Target(),),
)
TENFOLD = replace(SNOW, shape=CurveShape(grid=(0.0, 100.0, 200.0, 300.0, 400.0), unit="cm", open_upper=True))
EVEN = CurvePrediction((0.0, 0.2, 0.4, 0.6, 0.8))


@pytest.fixture
async def records(tmp_path: Path) -> AsyncIterator[ReadOnlyState]:
    """Forecast at 0 to 40 cm; the range is ten times as wide now, and 25 cm fell."""
    clock = FakeClock()
    async with open_ledger(tmp_path / "ledger.sqlite", now=clock.now()) as ledger:
        await ledger.questions.record([SNOW], seen_at=clock.now())
        await record_forecast(ledger, SNOW, {"outcome": EVEN}, clock.now(), "early")
        await clock.advance(60)
        await ledger.questions.record([TENFOLD], seen_at=clock.now())
        await record_forecast(ledger, TENFOLD, {"outcome": EVEN}, clock.now(), "late")
        await record_forecast(ledger, TENFOLD, {"outcome": EVEN}, clock.now() + timedelta(seconds=1), "late")
        came = Resolution(
            ref=SNOW.ref, target="outcome", outcome=NumericOutcome(25.0), resolved_at=clock.now() + timedelta(days=1)
        )
        await ledger.resolutions.record([came], seen_at=clock.now())
        await score_forecasts(ScoringContext(ledger=ledger, clock=clock))
        yield ReadOnlyState(config=Config(), folder=tmp_path, ledger=ledger)


async def test_each_forecast_is_shown_on_its_own_grid_with_what_changed_since(records: ReadOnlyState) -> None:
    found = await load_question_record(records, SNOW.ref)
    said = told(lambda console: print_question_record(console, found))
    cases, history = said.split("All forecasts")
    early = cases[cases.index("early, forecast") : cases.index("late, forecast")]
    assert "the question has changed since: the range was 0 to 40 and is 0 to 400 now" in early
    assert cases.count("the question has changed since") == 1
    # A median at a CDF of one half: 25 of 40, and 250 of 400.
    [first, second, _] = [line for line in history.splitlines() if "early" in line or "late" in line]
    assert "25" in first
    assert "250" not in first
    assert "250" in second


async def test_the_json_has_the_question_of_each_earlier_forecast(records: ReadOnlyState) -> None:
    plain = json.loads(to_json_text(question_record_to_json(await load_question_record(records, SNOW.ref))))
    [(version, older)] = plain["versions"].items()
    assert plain["history"][0]["version"] == version
    assert older["question"]["shape"]["grid"] == [0.0, 10.0, 20.0, 30.0, 40.0]
    assert older["changes"] == ["the range was 0 to 40 and is 0 to 400 now"]


async def test_each_forecast_is_scored_on_its_own_grid(records: ReadOnlyState) -> None:
    marked = {
        row.forecaster: row.values["crps"] for row in await records.ledger.scores.read_non_binary_scores(ScoreFilter())
    }
    # At 5/8 of the range, of a line from 0 to 0.8: 0.64 * (5/8)^3 / 3 + (0.5^3 - 0.2^3) / 2.4.
    assert marked["early"] == pytest.approx(0.64 * 0.625**3 / 3 + (0.5**3 - 0.2**3) / 2.4)
    # At 1/16 of it: 0.64 * (1/16)^3 / 3 + (0.95^3 - 0.2^3) / 2.4.
    assert marked["late"] == pytest.approx(0.64 * 0.0625**3 / 3 + (0.95**3 - 0.2**3) / 2.4)
