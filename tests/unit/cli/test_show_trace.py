"""Changes of mind on paper."""

import io
from datetime import UTC, datetime

from rich.console import Console

from bot.cli.show import print_trial_trace
from bot.core.beliefs import Belief, Evidence, ModelUsage, Step, StepAction, StepObservation
from bot.core.forecasts import Trial, TrialEnd
from bot.core.predictions import BinaryPrediction
from bot.store.trials import LoggedStep, TrialRecord

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


def told(*steps: LoggedStep, trial: Trial | None = None, several: bool = False) -> str:
    console = Console(file=io.StringIO(), width=200)
    print_trial_trace(console, TrialRecord(number=1, trial=trial, steps=steps), several=several)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def test_a_single_belief_moves_in_one_line() -> None:
    first, second = {"outcome": BinaryPrediction(0.4)}, {"outcome": BinaryPrediction(0.6)}
    said = told(step(1, predictions=first), step(2, predictions=second), step(3, predictions=second))
    assert "belief: 40.0% (low confidence)" in said
    assert "belief: 40.0% -> 60.0% (low confidence)" in said
    assert "belief: 60.0%, as before (low confidence)" in said


def test_targets_that_differ_have_a_line_each() -> None:
    first = {"may": BinaryPrediction(0.4), "june": BinaryPrediction(0.4)}
    said = told(
        step(1, predictions=first), step(2, predictions={"may": BinaryPrediction(0.5), "june": BinaryPrediction(0.6)})
    )
    assert "belief: 40.0% (2 targets) (low confidence)" in said
    assert "     may: 40.0% -> 50.0%\n     june: 40.0% -> 60.0%" in said


def test_reasons_questions_and_cost_are_told() -> None:
    said = told(
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
    said = told(step(1, text="word " * 500, predictions={"outcome": BinaryPrediction(0.4)}))
    assert len(said) < 600
    assert "word ..." in said


def test_the_end_of_a_trial_is_told_with_its_detail() -> None:
    trial = Trial(number=1, end=TrialEnd.TIME_LIMIT, belief=None, steps=0, detail="stopped after 600 s")
    assert told(trial=trial, several=True).splitlines() == ["Trial 1, ended: time limit", "  stopped after 600 s"]
    assert told() == "Steps, not ended yet"
