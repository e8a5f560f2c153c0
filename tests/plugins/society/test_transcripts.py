"""What is read back from the record: transcripts, comparisons and scores. Hostile words move no cursor."""

from dataclasses import replace
from typing import Any

import pytest

from bot.core.beliefs import Belief, Step, StepAction, StepObservation
from bot.core.outcomes import BinaryOutcome
from bot.core.predictions import BinaryPrediction, ChoicePrediction, CurvePrediction
from bot.evaluation.explanation import ForecastExplanation
from plugins.society import transcripts
from tests.recorded_explanations import ASKED, recorded_explanation

EVIL = '<script>alert("x")</script><img src=x onerror=alert(1)> & \x1b[31m \u202e "quoted"'


def step(name: str = "message", text: str = "", *, remarks: tuple[str, ...] = (), **arguments: Any) -> Step:
    return Step(
        action=StepAction(name=name, arguments=arguments),
        observation=StepObservation(text=text),
        belief=Belief(predictions={"outcome": BinaryPrediction(0.6)}, reason="so"),
        remarks=remarks,
    )


def counted(*votes: float, judge: float = 0.5) -> dict[str, Any]:
    mean = sum(votes) / len(votes)
    spread = (sum((vote - mean) ** 2 for vote in votes) / len(votes)) ** 0.5
    return {
        "votes": {f"juror_{number}": {"outcome": vote} for number, vote in enumerate(votes, 1)},
        "mean": {"outcome": mean},
        "spread": {"outcome": spread},
        "judge": {"outcome": judge},
    }


def record(
    *steps: Step, identity: str = "aa11", outcome: float | None = None, p: float = 0.6, **changes: Any
) -> ForecastExplanation:
    asked = replace(ASKED, **({"title": f"Will it? {EVIL}"} | changes))
    known = None if outcome is None else {"outcome": BinaryOutcome(outcome)}
    return recorded_explanation(
        steps, forecaster="court", identity=identity, question=asked, probability=p, outcomes=known
    )


def said(text: str = EVIL, **more: Any) -> Step:
    told: dict[str, Any] = {"step": 3, "from": "judge", "to": "juror_1", "label": EVIL, "kind": "vote"}
    return step(text=text, **told, **more)


def test_what_was_said_is_told_with_who_said_it_and_the_last_count() -> None:
    steps = [
        said("62 %. The tide.", remarks=("juror_2 said nothing: silence",)),
        step("tally", tally=counted(0.6, 0.8)),
    ]
    trial = transcripts.tell_court(steps)
    first, _ = trial.entries
    assert first.title.endswith("(juror_1), asked by judge")
    assert (first.text, first.speaker) == ("62 %. The tide.", "juror_1")
    assert first.remarks == ("juror_2 said nothing: silence",)
    assert (first.belief, first.probability) == ("outcome 60.0 %; so", 0.6)
    assert [(one.name, one.is_probability) for one in trial.figures] == [
        ("juror_1", True), ("juror_2", True), ("mean", True), ("judge", True), ("spread", False)
    ]  # fmt: skip


def test_numbers_that_are_points_of_a_scale_are_no_probabilities() -> None:
    tally = step("tally", tally={"votes": {"juror_1": {"outcome": {"p5": 0.25, "p95": 0.75}}}})
    curve = Belief(predictions={"outcome": CurvePrediction((0.0, 1.0))})
    assert [one.is_probability for one in transcripts.tell_court([replace(tally, belief=curve)]).figures] == [False] * 2
    assert transcripts.tell_court([said()]).figures == ()


def test_shares_of_options_are_told_in_percent() -> None:
    belief = Belief(predictions={"outcome": ChoicePrediction({"red": 0.25, "blue": 0.75})}, reason="so")
    (entry,) = transcripts.transcript_entries([replace(step(text="x"), belief=belief)])
    assert entry.belief == "outcome red 25.0 %, blue 75.0 %; so"


def test_moves_that_share_a_step_are_told_one_by_one_and_silent_ones_kept_back() -> None:
    several = step(
        "proceedings",
        moves=[
            {"name": "web_search", "arguments": {"step": 1, "agent": "head"}, "text": "found"},
            {
                "name": "message",
                "arguments": {"step": 2, "to": "judge", "from": "head", "silent": True},
                "text": "hush",
            },
        ],
    )
    first, second = transcripts.transcript_entries([several])
    assert (first.title, first.text, first.belief) == ("1. web search, by head", "found", "")
    assert second.text == "(kept out of the transcript)"
    assert second.belief


def test_two_trials_stand_side_by_side_with_what_was_changed() -> None:
    first = record(said("A"), step("tally", tally=counted(0.6, 0.8)), p=0.7)
    second = record(
        said("B", remarks=("intervention: variables rules = x",)),
        step("tally", tally=counted(0.2, 0.8)),
        identity="bb22",
        p=0.5,
    )
    compared = transcripts.compare_forecasts(first, second)
    assert "\x1b" not in compared
    lines = [" ".join(line.split()) for line in compared.splitlines()]
    assert "B intervention: variables rules = x" in lines
    assert "juror_1 0.6 0.2 -0.4" in lines
    assert "juror_2 0.8 0.8 +0" in lines
    assert "mean 0.7 0.5 -0.2" in lines
    assert "spread 0.1 0.3 +0.2" in lines
    assert "forecast outcome 0.7 0.5 -0.2" in lines
    assert any(line.startswith("first said otherwise: 3. message") for line in lines)
    assert "every word is the same" in transcripts.compare_forecasts(first, first)
    assert "only one of them has this trial" in transcripts.compare_forecasts(
        first, recorded_explanation(forecaster="court")
    )


def test_of_options_and_dates_every_part_is_a_row() -> None:
    tally = {"votes": {"juror_1": {"a": {"red": 0.3}, "b": {"red": 0.4}}}, "mean": {"a": {"p50": "2026-01-02"}}}
    assert transcripts.tally_rows(tally) == {"juror_1 a red": 0.3, "juror_1 b red": 0.4, "mean p50": "2026-01-02"}


def test_jurors_and_aggregates_are_scored_where_an_outcome_is_known() -> None:
    first = record(step("tally", tally=counted(0.6, 0.8, judge=0.9)), outcome=1.0)
    second = record(step("tally", tally=counted(0.2, 0.6, judge=0.5)), outcome=0.0)
    rows = {
        line.split()[0]: line.split()[1:]
        for line in transcripts.score_forecasts([first, second, record(said())]).splitlines()[1:]
    }
    # By hand: juror_1 (0.16 + 0.04) / 2, juror_2 (0.04 + 0.36) / 2, mean (0.09 + 0.16) / 2, judge (0.01 + 0.25) / 2.
    assert {name: row[:2] for name, row in rows.items() if name != "correlation"} == {
        "juror_1": ["2", "0.1000"],
        "juror_2": ["2", "0.2000"],
        "mean": ["2", "0.1250"],
        "judge": ["2", "0.1300"],
    }
    assert rows["juror_1"][2:] == ["0.400", "0.500"]


@pytest.mark.parametrize(("wider", "told"), [(True, "1.00"), (False, "-1.00")])
def test_the_correlation_of_spread_and_error_has_the_right_sign(wider: bool, told: str) -> None:  # noqa: FBT001 - a case
    found = [
        record(step("tally", tally=counted(0.5 + shift - width, 0.5 + shift + width)), outcome=0.0)
        for shift, width in ((0.1, 0.1 if wider else 0.3), (0.2, 0.2), (0.3, 0.3 if wider else 0.1))
    ]
    assert transcripts.score_forecasts(found).splitlines()[-1].endswith(f": {told}")


def test_nothing_decided_is_said_so() -> None:
    assert "nothing can be scored" in transcripts.score_forecasts([record(said())])
    assert "too few trials" in transcripts.score_forecasts([record(step("tally", tally=counted(0.6)), outcome=1.0)])
