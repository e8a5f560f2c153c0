"""Trials step by step in `foxcast show`, and forecasts of earlier versions of a question."""

import io
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from bot.cli.output.console import to_json_text
from bot.cli.show import print_question_record, print_trial_trace, question_record_to_json
from bot.config.schema import Config
from bot.core.beliefs import Belief, Evidence, ModelUsage, Step, StepAction, StepObservation
from bot.core.forecasts import Trial, TrialEnd
from bot.core.orders import ContractSide, Order, OrderSide
from bot.core.outcomes import NumericOutcome, Resolution
from bot.core.predictions import BinaryPrediction, BinaryShape, CurvePrediction, CurveShape
from bot.core.questions import Question, QuestionRef, Target
from bot.core.submissions import ExecutionMode, SendDecision
from bot.evaluation.question_record import load_question_record
from bot.jobs.resolution import ScoringContext, score_forecasts
from bot.store.ledger import ReadOnlyState
from bot.store.scores import ScoreFilter
from bot.store.trials import LoggedStep, TrialRecord
from bot.testing.clock import FakeClock
from tests.blank_ledger import open_blank_ledger
from tests.order_intents import make_intent
from tests.recorded_forecasts import record_forecast
from tests.row_scores import read_row_scores
from tests.unit.cli.test_score import print_to_text

AT = datetime(2026, 4, 26, tzinfo=UTC)


def step(number: int, *, text: str = "", usage: ModelUsage | None = None, **belief: object) -> LoggedStep:
    return LoggedStep(
        number=number,
        at=AT,
        step=Step(
            action=StepAction(name="search", arguments={"query": "who leads"}),
            observation=StepObservation(text=text),
            belief=Belief(**belief),  # type: ignore[arg-type]  # a test names what it needs
            usage=usage or ModelUsage(),
        ),
    )


def print_trace(*steps: LoggedStep, trial: Trial | None = None, several: bool = False) -> str:
    console = Console(file=io.StringIO(), width=200)
    print_trial_trace(console, TrialRecord(number=1, trial=trial, steps=steps), several=several)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def test_a_single_belief_moves_in_one_line() -> None:
    first, second = {"outcome": BinaryPrediction(0.4)}, {"outcome": BinaryPrediction(0.6)}
    said = print_trace(step(1, predictions=first), step(2, predictions=second), step(3, predictions=second))
    assert "belief: 40.0% (low confidence)" in said
    assert "belief: 40.0% -> 60.0% (low confidence)" in said
    assert "belief: 60.0%, as before (low confidence)" in said


def test_targets_that_differ_have_a_line_each() -> None:
    first = {"may": BinaryPrediction(0.4), "june": BinaryPrediction(0.4)}
    said = print_trace(
        step(1, predictions=first), step(2, predictions={"may": BinaryPrediction(0.5), "june": BinaryPrediction(0.6)})
    )
    assert "belief: 40.0% (2 targets) (low confidence)" in said
    assert "     may: 40.0% -> 50.0%\n     june: 40.0% -> 60.0%" in said


def test_reasons_questions_and_cost_are_told() -> None:
    said = print_trace(
        step(
            1,
            text="a page",
            usage=ModelUsage(calls=2, tokens_in=900, tokens_out=80, cost_usd=0.0123),
            predictions={"outcome": BinaryPrediction(0.4)},
            evidence_for=(Evidence(text="leads", source="poll", log_odds=0.5),),
            evidence_against=(Evidence(text="is tired", source=""),),
            open_questions=("who else runs?",),
        )
    )
    for line in (
        "1. search(query=who leads)",
        "   a page",
        "   + +0.50 log-odds: leads [poll]",
        "   - is tired",
        "   ? who else runs?",
        "   2 calls, 900 tokens in (0% cached), 80 out, 0.0123 USD",
    ):
        assert line in said.splitlines()


def test_a_long_observation_is_cut() -> None:
    said = print_trace(step(1, text="word " * 500, predictions={"outcome": BinaryPrediction(0.4)}))
    assert len(said) < 600
    assert "word ..." in said


def test_the_end_of_a_trial_is_told_with_its_detail() -> None:
    trial = Trial(number=1, end=TrialEnd.TIME_LIMIT, belief=None, steps=0, detail="stopped after 600 s")
    assert print_trace(trial=trial, several=True).splitlines() == [
        "Trial 1, ended: time limit",
        "  stopped after 600 s",
    ]
    assert print_trace() == "Steps, not ended yet"


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
    async with open_blank_ledger(tmp_path / "ledger.sqlite", now=clock.now()) as ledger:
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
    said = print_to_text(lambda console: print_question_record(console, found))
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
    marked = {row.forecaster: row.values["crps"] for row in await read_row_scores(records.ledger, ScoreFilter())}
    # At 5/8 of the range, of a line from 0 to 0.8: 0.64 * (5/8)^3 / 3 + (0.5^3 - 0.2^3) / 2.4.
    assert marked["early"] == pytest.approx(0.64 * 0.625**3 / 3 + (0.5**3 - 0.2**3) / 2.4)
    # At 1/16 of it: 0.64 * (1/16)^3 / 3 + (0.95^3 - 0.2^3) / 2.4.
    assert marked["late"] == pytest.approx(0.64 * 0.0625**3 / 3 + (0.95**3 - 0.2**3) / 2.4)


async def test_an_order_is_shown_whatever_the_batch_of_its_question(tmp_path: Path) -> None:
    rain = Question(ref=QuestionRef("lantern", "rain"), title="Rain?", shape=BinaryShape(), targets=(Target(),))
    async with open_blank_ledger(tmp_path / "ledger.sqlite", now=AT) as ledger:
        await ledger.questions.record([rain], seen_at=AT)
        forecast = await record_forecast(ledger, rain, {"outcome": BinaryPrediction(0.7)}, AT)
        order = Order(
            contract="rain",
            leg=ContractSide.YES,
            side=OrderSide.BUY,
            shares=10,
            limit=0.6,
            expected=0.55,
            cost=5.5,
            currency="USD",
        )
        intent = make_intent(rain, order, forecast=forecast.id)
        decision = SendDecision(intent=intent, mode=ExecutionMode.PAPER, why="edge")
        await ledger.submissions.decide(forecast_id=forecast.id, decision=decision, at=AT)
        found = await load_question_record(ReadOnlyState(config=Config(), folder=tmp_path, ledger=ledger), rain.ref)
    assert "intent i1: planned, paper" in print_to_text(lambda console: print_question_record(console, found))
