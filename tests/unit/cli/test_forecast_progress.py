"""What is seen of a forecast while it is made, and at its end."""

import dataclasses
import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

from bot.cli.forecast_progress import ForecastView
from bot.cli.forecast_result import ForecastResult, FreeForecast, forecast_result_to_json, print_forecast_result
from bot.cli.output.console import SafeConsole
from bot.core.beliefs import Belief, Evidence, ModelUsage, Step, StepAction, StepObservation
from bot.core.forecasts import Forecast, Trial, TrialEnd
from bot.core.predictions import BinaryPrediction, BinaryShape, CurvePrediction, CurveShape
from bot.core.questions import CrowdForecast, Question, QuestionRef, Target
from bot.evaluation.explanation import AggregationSummary, ForecastExplanation, RecordedCalls
from bot.evaluation.value_text import format_with_unit
from bot.store.forecasts import ForecastTrace
from bot.store.trials import LoggedStep, TrialRecord

NOW = datetime(2026, 11, 22, tzinfo=UTC)
REF = QuestionRef("lantern", "rain")
QUESTION = Question(
    ref=REF,
    title="Rain?",
    shape=BinaryShape(),
    targets=(Target(),),
    crowd=CrowdForecast(prediction=BinaryPrediction(0.4), at=NOW),
)


def believing(probability: float, *, reason: str = "", evidence: tuple[Evidence, ...] = ()) -> Belief:
    return Belief(predictions={"outcome": BinaryPrediction(probability)}, reason=reason, evidence_for=evidence)


def searching(belief: Belief, *, tokens: int = 100) -> Step:
    return Step(
        action=StepAction(name="web_search", arguments={"query": "rain " * 50}),
        observation=StepObservation(),
        belief=belief,
        usage=ModelUsage(calls=1, tokens_in=tokens, tokens_out=20, cost_usd=0.01),
    )


def view(question: Question = QUESTION, *, terminal: bool = False) -> tuple[ForecastView, io.StringIO]:
    file = io.StringIO()
    console: Console = SafeConsole(file=file, width=200, markup=False, highlight=False, force_terminal=terminal)
    return ForecastView(console=console, question=question, trials=2, steps=10), file


def test_a_step_tells_what_was_done_how_the_belief_moved_why_and_what_it_cost() -> None:
    shown, file = view()
    shown.on_step(1, 1, searching(believing(0.5)))
    shown.on_step(1, 2, searching(believing(0.7, reason="clouds")))
    lines = file.getvalue().splitlines()
    assert lines[0].startswith("trial 1, step 1 of 10: web_search(query=rain rain")
    assert len(lines[0]) < 200
    assert "   50.0% -> 70.0%" in lines
    assert "   why: clouds" in lines
    assert "so far 0.0200 USD, 240 tokens" in lines[-1]


def test_a_step_that_is_told_twice_is_shown_once() -> None:
    shown, file = view()
    step = searching(believing(0.5))
    shown.on_step(1, 1, step)
    before = file.getvalue()
    trial = Trial(number=1, end=TrialEnd.FINISHED, belief=step.belief, steps=1, usage=step.usage)
    shown.show_recorded([TrialRecord(number=1, trial=None, steps=(LoggedStep(number=1, at=NOW, step=step),))])
    assert file.getvalue() == before
    shown.on_trial_end(trial)
    shown.on_trial_end(trial)
    assert file.getvalue() == f"{before}trial 1 ended after 1 steps: finished\n"
    assert shown.usage == step.usage


def test_a_failure_tells_its_detail() -> None:
    shown, file = view()
    shown.on_trial_end(
        Trial(number=2, end=TrialEnd.FAILED, belief=None, steps=0, detail="ServiceUnavailableError: asleep")
    )
    assert file.getvalue() == "trial 2 ended after 0 steps: failed: asleep\n"


def test_what_is_remarked_of_a_step_is_shown_beside_an_old_reason() -> None:
    shown, file = view()
    shown.on_step(1, 1, searching(believing(0.5, reason="where the trial starts")))
    step = dataclasses.replace(searching(believing(0.5, reason="where the trial starts")), remarks=("kept: no number",))
    shown.on_step(1, 2, step)
    assert file.getvalue().count("where the trial starts") == 1
    assert "   kept: no number\n" in file.getvalue()


def test_floats_in_arguments_are_told_without_noise() -> None:
    shown, file = view()
    action = StepAction(name="submit", arguments={"quantiles": {"p50": 42.599999999999994, "p95": [0.1 + 0.2]}})
    shown.on_step(1, 1, Step(action=action, observation=StepObservation(), belief=believing(0.5)))
    assert 'submit(quantiles={"p50": 42.6, "p95": [0.3]})' in file.getvalue()


def test_what_is_waited_for_is_said_once() -> None:
    shown, file = view()
    for _ in range(3):
        shown.print_status("waiting")
    assert file.getvalue() == "waiting\n"


def test_many_targets_are_cut_and_counted() -> None:
    targets = tuple(Target(key=f"t{number:02}") for number in range(20))
    many = Question(ref=REF, title="Rain?", shape=BinaryShape(), targets=targets)
    shown, file = view(many)
    beliefs = {target.key: BinaryPrediction(number / 20) for number, target in enumerate(targets)}
    shown.on_step(1, 1, searching(Belief(predictions=beliefs)))
    assert "t07: 35.0%" in file.getvalue()
    assert "t08" not in file.getvalue()
    assert "and 12 more targets" in file.getvalue()


def test_what_strangers_wrote_moves_no_cursor() -> None:
    shown, file = view()
    shown.on_step(1, 1, searching(believing(0.5, reason="\x1b[2Jclouds")))
    assert "\x1b" not in file.getvalue()
    assert "clouds" in file.getvalue()


def test_only_a_terminal_on_which_nobody_is_asked_shows_how_each_trial_stands() -> None:
    for terminal, live in ((False, True), (True, True), (True, False)):
        shown, file = view(terminal=terminal)
        shown.live = live
        with shown.live_display():
            shown.on_step(1, 1, searching(believing(0.5)))
        assert ("action" in file.getvalue()) is (terminal and live)
        assert "step 1 of 10" in file.getvalue()


def made(*, end: TrialEnd = TrialEnd.FINISHED, beside: tuple[FreeForecast, ...] = ()) -> ForecastResult:
    evidence = (Evidence(text="it rained", source="search_1_result_1"),)
    records = []
    for number in (1, 2):
        belief = believing(0.2, evidence=evidence)
        usage = ModelUsage(calls=1, tokens_in=100, tokens_out=20, cost_usd=0.01)
        trial = Trial(
            number=number, end=end, belief=belief, steps=1, usage=usage, detail="RequestRejectedError: no money"
        )
        records.append(TrialRecord(number=number, trial=trial, steps=()))
    answer = {"outcome": BinaryPrediction(0.2)}
    forecast = Forecast(
        id="f" * 24,
        ref=REF,
        version="v",
        forecaster="fox",
        revision=1,
        cutoff=NOW,
        made_at=NOW,
        why="asked for",
        raw={"outcome": BinaryPrediction(0.25)},
        predictions=answer,
        calibration="c" * 64,
    )
    trace = ForecastTrace(
        id=forecast.id,
        state="done",
        detail="",
        forecast=forecast,
        question=QUESTION,
        trials=tuple(records),
        forecast_only=True,
    )
    chain = RecordedCalls(addresses={(1, "search_1_result_1"): "https://almanac.example/rain"})
    found = ForecastExplanation(
        trace=trace,
        chain=chain,
        aggregation=AggregationSummary(counted_trials=(1,), excluded={2: "it was cut"}, method=None),
    )
    return ForecastResult(explanation=found, forecast=forecast, free_forecasts=beside)


def printed(what: ForecastResult) -> str:
    file = io.StringIO()
    print_forecast_result(SafeConsole(file=file, width=200, markup=False, highlight=False), what)
    return file.getvalue()


def test_the_end_tells_evidence_with_its_source_trials_pooling_calibration_and_what_stands_beside() -> None:
    silent = FreeForecast(name="mute", forecast=None, why="nothing to say")
    said = printed(made(beside=(FreeForecast(name="base", forecast=made().forecast), silent)))
    for part in (
        "+ it rained [https://almanac.example/rain] (trial 1)",
        "+ it rained [search_1_result_1] (no such source) (trial 2)",
        "trials 1, 2: no money",
        "in total 2 calls, 200 tokens in",
        "aggregate: trial 1 unchanged: 25.0%",
        "left out: trial 2, it was cut",
        "calibration cccccccccccc: 20.0%",
        "mute gave no forecast: nothing to say",
        "forecast ffffffffffffffffffffffff, made 2026-11-22 00:00 UTC (asked for); nothing was submitted",
    ):
        assert part in said
    [head] = [line for line in said.splitlines() if line.startswith("for ")]
    assert head.split() == ["for", "fox", "crowd", "base"]
    [row] = [line for line in said.splitlines() if line.startswith("outcome ")]
    assert row.split() == ["outcome", "20.0%", "40.0%", "20.0%"]


def test_a_forecast_says_how_many_of_its_trials_failed_and_why() -> None:
    assert made(end=TrialEnd.STEP_LIMIT).failure_summary == ""
    assert made(end=TrialEnd.FAILED).failure_summary == "2 trials failed: no money"


def test_as_json_the_crowd_and_the_others_stand_beside_the_explanation() -> None:
    told = forecast_result_to_json(made(beside=(FreeForecast(name="mute", forecast=None, why="nothing to say"),)))
    assert told["crowd"] == {"kind": "binary", "probability": 0.4}
    assert told["beside"] == {"mute": {"why": "nothing to say", "forecast": None}}
    assert told["forecast"]["predictions"] == {"outcome": {"kind": "binary", "probability": 0.2}}


def test_the_belief_about_a_number_is_told_by_its_quantiles() -> None:
    shape = CurveShape(grid=(0.0, 50.0, 100.0), unit="mm")
    shown, file = view(Question(ref=REF, title="How much?", shape=shape, targets=(Target(),)), terminal=True)
    with shown.live_display():
        shown.on_step(1, 1, searching(Belief(predictions={"outcome": CurvePrediction((0.0, 0.5, 1.0))})))
    assert "50%: 50 mm" in file.getvalue()


BUDGET = (
    "BudgetExhaustedError: prime:big, for file:rain: the budget of the question does not allow the call: "
    "it may cost 0.1 US dollars, and {} of 1 are left; raise [llm.budget] question_usd in config.toml to continue"
)


def test_a_reason_is_told_once_and_a_budget_by_its_name() -> None:
    shown, file = view()
    for number, detail in enumerate(
        ("ServiceUnavailableError: asleep", "ServiceUnavailableError: asleep", BUDGET.format(0.05), BUDGET.format(0))
    ):
        shown.on_trial_end(Trial(number=number + 1, end=TrialEnd.FAILED, belief=None, steps=0, detail=detail))
    assert file.getvalue().count("asleep") == 1
    assert "trial 2 ended after 0 steps: failed: same as trial 1" in file.getvalue()
    assert "trial 3 ended after 0 steps: budget: prime:big" in file.getvalue()
    assert "trial 4 ended after 0 steps: budget: same as trial 3" in file.getvalue()


def standing(width: int) -> list[str]:
    """What stands below the steps of two trials on a terminal of that width."""
    console = SafeConsole(file=io.StringIO(), width=width, markup=False, highlight=False)
    shape = CurveShape(grid=(0.0, 29.85, 100.0), unit="mm of rain in all of the month")
    asked = Question(ref=REF, title="How much?", shape=shape, targets=(Target(),))
    shown = ForecastView(console=console, question=asked, trials=2, steps=10)
    shown.on_step(1, 1, searching(Belief(predictions={"outcome": CurvePrediction((0.1, 0.5, 0.9))}), tokens=1_234_567))
    with console.capture() as capture:
        console.print(shown._render_table())  # noqa: SLF001 - what a terminal repaints is not to be had otherwise
    return capture.get().splitlines()


@pytest.mark.parametrize("width", [40, 60, 69, 70, 100, 300])
def test_however_narrow_the_terminal_numbers_are_whole_and_words_are_cut(width: int) -> None:
    _, head, first, second, _ = standing(width)
    titles = ["trial", "step", "action", "belief", *(["tokens"] if width >= 70 else []), "USD"]
    assert head.split() == titles
    assert first.startswith("1      1/10")
    assert first.endswith("1,234,587  0.0100" if width >= 70 else "  0.0100")
    assert second.endswith(" 0.0000")
    assert ("…" in first) is (width < 300)
    assert max(map(len, (head, first, second))) <= width


def test_numbers_have_four_digits_and_all_of_those_before_the_point() -> None:
    told = {
        29.8512: "29.85 mm",
        0.000123456: "0.0001235 mm",
        45_123.6: "45124 mm",
        8_100_000_000.0: "8100000000 mm",
        5: "5 mm",
    }
    assert {number: format_with_unit(number, "mm") for number in told} == told
