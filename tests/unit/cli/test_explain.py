"""The whole chain of a forecast on paper and as JSON, out of a ledger in which it was really made."""

import io
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from bot.cli.explain import explanation_to_json, print_explanation
from bot.cli.output.console import SafeConsole, to_json_text
from bot.config.schema import Config
from bot.core.beliefs import Belief, Step, StepAction, StepObservation
from bot.core.errors import NotFoundError, ServiceUnavailableError
from bot.core.interfaces import TrialContext
from bot.core.language_models import CostAttribution
from bot.core.outcomes import BinaryOutcome, Resolution
from bot.core.predictions import (
    BinaryPrediction,
    ChoicePrediction,
    ChoiceShape,
    CurvePrediction,
    CurveShape,
    Prediction,
)
from bot.core.questions import Question
from bot.evaluation.cost_report import load_cost_report
from bot.evaluation.explanation import ForecastExplanation, load_explanation
from bot.evaluation.value_text import describe_changes, describe_prediction
from bot.forecasting.calibration import CalibratedPredictions
from bot.jobs.resolution import ScoringContext, score_forecasts
from bot.store.cost_totals import CostGrouping
from bot.store.documents import compress_document, put_document
from bot.store.forecasts import ForecastStart
from bot.store.ledger import ReadOnlyState
from bot.store.model_calls import CallReservation
from bot.testing.models import ScriptedModelProvider
from tests.unit.forecast_run_fixture import (
    ForecastRunFixture,
    FunctionForecaster,
    model_with_beliefs,
    open_forecast_runs,
    question,
)

DATE = CurveShape(grid=(0.0, 86_400.0, 172_800.0), unit="date", open_upper=True)


@pytest.fixture
async def forecast_runs(tmp_path: Path) -> AsyncIterator[ForecastRunFixture]:
    async with open_forecast_runs(
        tmp_path, ScriptedModelProvider(turns=[model_with_beliefs(0.3, 0.55, 0.7)])
    ) as forecast_runs:
        yield forecast_runs


def records(forecast_runs: ForecastRunFixture) -> ReadOnlyState:
    return ReadOnlyState(config=Config(), folder=forecast_runs.path.parent, ledger=forecast_runs.ledger)


def printed(found: ForecastExplanation, *, full: bool = False) -> str:
    console = SafeConsole(file=io.StringIO(), width=1000, markup=False, highlight=False)
    print_explanation(console, found, full=full)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


async def test_every_link_of_the_chain_is_told(forecast_runs: ForecastRunFixture) -> None:
    forecast = await forecast_runs.forecast(question(criteria="As the almanac says."))
    resolved = Resolution(
        ref=forecast.ref, target="outcome", outcome=BinaryOutcome(1.0), resolved_at=forecast_runs.clock.now()
    )
    await forecast_runs.ledger.resolutions.record([resolved], seen_at=forecast_runs.clock.now())
    await score_forecasts(ScoringContext(ledger=forecast_runs.ledger, clock=forecast_runs.clock))
    told = printed(await load_explanation(records(forecast_runs), forecast.id[:10]))
    for part in (
        "Will there be rain?",
        "As the almanac says.",
        f"Forecast {forecast.id} by blf (revision 1, asked for)",
        f"version of the question: {forecast.version[:12]}",
        "crowd: 40.0% at 2026-01-01 00:00 UTC",
        "Trial 1, ended: finished",
        "1. web_search(query=weather 1)",
        "belief: 30.0% (medium confidence)",
        "anchor: it rains on two days of five",
        "belief: 30.0% -> 55.0% (medium confidence)",
        "reason: thought 2",
        "+ clouds, seen 1 times [search_1_result_2 https://news.example/2]",
        "? which wind, asked 2",
        # (600 new + 400 cached at a tenth) at 1 dollar and 50 out at 4 dollars, each per million.
        "prime:big, 1 call, 1,000 tokens in (40% cached), 50 out, 0.0008 USD",
        "in all: 3 steps, 3 calls, 3,000 tokens in (40% cached), 150 out, 0.0025 USD",
        "aggregate: logit-mean of the trials 1, 2",
        "calibration: none",
        "main  prime:big      6            0      6,000     40%  300  0.0050",
        "spent on this forecast, including calls without an answer: 0.0050 USD",
    ):
        assert part in told
    # The Brier score: three tenths squared.
    assert "70.0%     yes      0.0900" in told


async def test_evidence_is_told_when_it_is_new_and_in_full_at_every_step(forecast_runs: ForecastRunFixture) -> None:
    forecast = await forecast_runs.forecast(question(), trials=1)
    found = await load_explanation(records(forecast_runs), forecast.id)
    assert printed(found).count("clouds, seen 1 times") == 1
    assert printed(found, full=True).count("clouds, seen 1 times") == 3


async def test_full_cuts_nothing_and_lists_each_call(forecast_runs: ForecastRunFixture) -> None:
    forecast = await forecast_runs.forecast(question(background="grey sky " * 100), trials=1)
    found = await load_explanation(records(forecast_runs), forecast.id)
    short, full = printed(found), printed(found, full=True)
    assert "grey sky " * 100 not in short
    assert "grey sky " * 99 in full
    requests = [call.request.digest[:12] for call in found.chain.calls if call.request]
    assert len(requests) == 3
    assert [request in short for request in requests] == [False] * 3
    # In the order in which they were made.
    assert sorted(requests, key=full.index) == requests
    assert [len(call.request.messages) for call in found.chain.calls if call.request] == [2, 4, 6]


async def test_text_of_strangers_cannot_move_the_cursor(forecast_runs: ForecastRunFixture) -> None:
    forecast = await forecast_runs.forecast(question(title="Will \x1b[31mit\u202e rain?"))
    found = await load_explanation(records(forecast_runs), forecast.id)
    for text in (printed(found, full=True), to_json_text(explanation_to_json(found))):
        assert "\x1b" not in text
        assert "\u202e" not in text


async def test_the_json_holds_the_same_and_more(forecast_runs: ForecastRunFixture) -> None:
    forecast = await forecast_runs.forecast(question())
    plain = json.loads(to_json_text(explanation_to_json(await load_explanation(records(forecast_runs), "rain"))))
    assert (plain["id"], plain["state"]) == (forecast.id, "done")
    assert plain["question"]["ref"] == "lantern:rain"
    assert plain["aggregate"]["pool"] == "logit-mean"
    assert (plain["aggregate"]["counted"], plain["aggregate"]["left_out"]) == ([1, 2], {})
    first, second, last = plain["trials"][0]["steps"]
    assert first["models"] == ["prime:big"]
    assert sorted(first["documents"].values()) == ["call", "search", "text", "tool"]
    assert [*last["documents"].values()] == ["call"]
    assert second["addresses"] == {"search_1_result_2": "https://news.example/2"}
    assert [call["role"] for call in plain["calls"]] == ["main"] * 6
    assert plain["spent_usd"] == pytest.approx(6 * 0.00084)
    for digest in first["documents"]:
        assert (await forecast_runs.ledger.documents.get(digest, scope=forecast.id)).content


async def test_trials_that_do_not_count_say_why(forecast_runs: ForecastRunFixture) -> None:
    async def script(asked: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        for probability in (0.2, 0.3):
            yield Step(
                action=StepAction(name="think"),
                observation=StepObservation(),
                belief=Belief(predictions={"outcome": BinaryPrediction(probability)}),
            )
        if context.trial == 2:
            message = "no more ink"
            raise RuntimeError(message)

    forecast_runs.forecasters["plain"] = FunctionForecaster(script)
    forecast = await forecast_runs.forecast(question(), "plain", trials=3)
    told = printed(await load_explanation(records(forecast_runs), forecast.id))
    assert "aggregate: logit-mean of the trials 1, 3" in told
    assert "left out: trial 2, it failed: RuntimeError (test_explain.py:" in told
    assert "detail: RuntimeError (test_explain.py:" in told
    assert "no more ink" not in told


async def test_calibration_is_told_as_a_move(forecast_runs: ForecastRunFixture) -> None:
    class Halving:
        async def calibrate(self, question: Question, *_: object) -> CalibratedPredictions:
            return CalibratedPredictions(predictions={"outcome": BinaryPrediction(0.6)}, digest=kept)

    document = compress_document(b"a calibrator", "text/plain")
    kept = document.digest
    await forecast_runs.ledger.permissions.write(lambda database: put_document(database, document))
    forecast_runs.calibrator = Halving()
    forecast = await forecast_runs.forecast(question())
    told = printed(await load_explanation(records(forecast_runs), forecast.id))
    assert f"calibration {kept[:12]}: 70.0% -> 60.0%" in told


async def test_what_went_wrong_is_told(forecast_runs: ForecastRunFixture) -> None:
    # The two trials ask by turns; one of them gets no answer to its second question.
    forecast_runs.llm.turns = [
        model_with_beliefs(0.3, 0.55),
        model_with_beliefs(0.3, 0.55),
        ServiceUnavailableError("the line is dead"),
        model_with_beliefs(0.3, 0.55),
    ]
    forecast = await forecast_runs.forecast(question(), trials=2)
    told = printed(await load_explanation(records(forecast_runs), forecast.id))
    assert re.search(r"trial \d, model failed: .*the line is dead", told)
    assert re.search(r"left out: trial \d, it failed: ", told)
    assert re.search(r"Trial \d, ended: failed", told)


async def test_an_unfinished_forecast_is_found_by_its_whole_id_alone(forecast_runs: ForecastRunFixture) -> None:
    asked = question()
    await forecast_runs.record(asked)
    now = forecast_runs.clock.now()
    begun = await forecast_runs.ledger.forecasts.begin(
        ForecastStart(question=asked, forecaster="blf", cutoff=now, why="new", now=now)
    )
    told = printed(await load_explanation(records(forecast_runs), begun.id))
    assert f"Forecast {begun.id}: running" in told
    with pytest.raises(NotFoundError, match="foxcast questions"):
        await load_explanation(records(forecast_runs), begun.id[:10])
    with pytest.raises(NotFoundError, match="no forecast yet"):
        await load_explanation(records(forecast_runs), "rain")


def test_predictions_are_told_with_all_options_and_with_quantiles_in_their_unit() -> None:
    choice = ChoicePrediction({"red": 0.25, "green": 0.7, "blue": 0.05})
    assert (
        describe_prediction(choice, ChoiceShape(options=("red", "green", "blue")))
        == "red 25.0%, green 70.0%, blue 5.0%"
    )
    assert (
        describe_prediction(CurvePrediction((0.2, 0.5, 0.8)), DATE)
        == "10%: below 1970-01-01, 50%: 1970-01-02, 90%: above 1970-01-03"
    )


def test_targets_that_move_together_are_told_once() -> None:
    before: Mapping[str, Prediction] = {"may": BinaryPrediction(0.4), "june": BinaryPrediction(0.4)}
    shape = question().shape
    assert describe_changes(before, before, shape) == ["40.0%, as before (2 targets)"]
    assert describe_changes(before, {**before, "june": BinaryPrediction(0.5)}, shape) == [
        "may: 40.0%, as before",
        "june: 40.0% -> 50.0%",
    ]


async def test_calls_that_brought_nothing_are_told_so_that_the_sum_is_that_of_the_bill(
    forecast_runs: ForecastRunFixture,
) -> None:
    forecast = await forecast_runs.forecast(question(), trials=1)
    charge = CostAttribution(scope=forecast.id, ref=str(forecast.ref), venue="lantern", forecaster="blf", trial=1)
    for name in ("one", "two"):
        await forecast_runs.ledger.calls.reserve(
            CallReservation(
                id=name,
                at=forecast_runs.clock.now(),
                charge=charge,
                role="main",
                provider="prime",
                model="prime:big",
                request=name,
                worst_usd=0.25,
            )
        )
    await forecast_runs.ledger.calls.mark_lost(at=forecast_runs.clock.now())
    found = await load_explanation(records(forecast_runs), forecast.id)
    assert "2 calls lost when the program ended, at their maximum cost: 0.5000 USD booked" in printed(found)
    bill = await load_cost_report(records(forecast_runs), CostGrouping.MODEL, None, forecast_runs.clock.now())
    plain = explanation_to_json(found)
    heard = sum(call["cost_usd"] for call in plain["calls"])
    assert heard + 0.5 == pytest.approx(bill.total.usage.cost_usd)
    assert plain["spent_usd"] == pytest.approx(bill.total.usage.cost_usd)
    assert plain["booked"]["by_state"]["lost"] == {"calls": 2, "cost_usd": 0.5}


async def test_an_answer_that_no_trial_heard_is_told(forecast_runs: ForecastRunFixture) -> None:
    forecast = await forecast_runs.forecast(question(), trials=1)
    found = await load_explanation(records(forecast_runs), forecast.id)
    assert "too late" not in printed(found)
    unheard = replace(found.chain, calls=found.chain.calls[:-1])
    # One call: (600 new + 400 cached at a tenth) at 1 dollar and 50 out at 4 dollars, each per million.
    assert "answered too late for their trial: 0.0008 USD booked" in printed(replace(found, chain=unheard))
