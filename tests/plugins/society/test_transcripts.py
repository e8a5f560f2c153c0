"""What is read back from the record: transcripts, comparisons and scores. Hostile words move no cursor."""

from dataclasses import replace
from typing import Any

import pytest

from bot.core.beliefs import Belief, Step, StepAction, StepObservation
from bot.core.outcomes import BinaryOutcome, ChoiceOutcome, NumericOutcome
from bot.core.predictions import BinaryPrediction, ChoicePrediction, ChoiceShape, CurvePrediction, CurveShape
from bot.evaluation.explanation import ForecastExplanation
from plugins.society import transcripts
from plugins.society.court_scores import score_forecasts
from tests.recorded_explanations import ASKED, recorded_explanation

EVIL = '<script>alert("x")</script><img src=x onerror=alert(1)> & \x1b[31m \u202e "quoted"'


def step(name: str = "message", /, text: str = "", *, remarks: tuple[str, ...] = (), **arguments: Any) -> Step:
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


def test_a_move_is_told_with_who_made_it_and_a_silent_one_is_kept_back() -> None:
    asked: dict[str, Any] = {"to": "judge", "from": "head", "silent": True}
    first, second = transcripts.transcript_entries(
        [step("web_search", "found", step=1, agent="head"), step("message", "hush", step=2, **asked)]
    )
    assert (first.title, first.text, first.speaker) == ("1. web search, by head", "found", "head")
    assert (second.text, second.speaker) == ("(kept out of the transcript)", "judge")


def test_arguments_and_votes_come_before_what_was_searched_and_read() -> None:
    steps = [
        step("web_search", "found", step=1, agent="head"),
        step("process_articles", "rated", step=2, agent="head"),
        said("62 %. The tide."),
        step("tally", "counted", step=4),
    ]
    assert [entry.text for entry in transcripts.tell_court(steps).entries] == [
        "62 %. The tide.", "counted", "found", "rated"
    ]  # fmt: skip
    assert [entry.text for entry in transcripts.transcript_entries(steps)] == [one.observation.text for one in steps]


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
    assert "forecast 0.7 0.5 -0.2" in lines
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
        line.split()[0]: line.split()[1:] for line in score_forecasts([first, second, record(said())]).splitlines()[1:]
    }
    # By hand: juror_1 (0.16 + 0.04) / 2, juror_2 (0.04 + 0.36) / 2, mean (0.09 + 0.16) / 2, judge (0.01 + 0.25) / 2.
    assert {name: row[:2] for name, row in rows.items() if name != "correlation"} == {
        "juror_1": ["2", "0.1000"],
        "juror_2": ["2", "0.2000"],
        "mean": ["2", "0.1250"],
        "judge": ["2", "0.1300"],
    }
    # MAE, accuracy (No that came true counts; an answer of one half does not), mean answer and mean outcome.
    assert rows["juror_1"][2:] == ["0.300", "100", "%", "0.400", "0.500"]
    assert rows["juror_2"][2:] == ["0.400", "50", "%", "0.700", "0.500"]
    assert rows["judge"][2:] == ["0.300", "50", "%", "0.700", "0.500"]


DAYS = CurveShape(grid=tuple(86_400.0 * day for day in range(11)), unit="date")


@pytest.mark.parametrize(
    ("shape", "near", "far", "outcome", "kind"),
    [
        (
            ChoiceShape(options=("red", "blue")),
            {"red": 0.8, "blue": 0.2},
            {"red": 0.2, "blue": 0.8},
            ChoiceOutcome("red"),
            ("options", "Brier / 2", 0.04, 0.64),
        ),
        (
            CurveShape(grid=tuple(float(point) for point in range(11))),
            {"p5": 4.5, "p50": 5.0, "p95": 5.5},
            {"p5": 8.5, "p50": 9.0, "p95": 9.5},
            NumericOutcome(5.0),
            ("numbers and dates", "CRPS share", None, None),
        ),
        (
            DAYS,
            {"p5": "1970-01-05", "p50": "1970-01-06", "p95": "1970-01-07"},
            {"p5": "1970-01-09", "p50": "1970-01-10", "p95": "1970-01-11"},
            NumericOutcome(5 * 86_400.0),
            ("numbers and dates", "CRPS share", None, None),
        ),
    ],
)
def test_votes_on_options_numbers_and_dates_are_scored_too(
    shape: Any, near: Any, far: Any, outcome: Any, kind: Any
) -> None:
    tally = {"votes": {"juror_1": {"outcome": near}, "juror_2": {"outcome": far}}, "mean": {"outcome": near}}
    found = recorded_explanation(
        [step("tally", tally={**tally, "spread": {"outcome": 0.1}})], forecaster="court",
        question=replace(ASKED, shape=shape), outcomes={"outcome": outcome},
    )  # fmt: skip
    name, loss, good, bad = kind
    head, *lines = score_forecasts([found]).splitlines()
    assert head.startswith(name)
    assert head.endswith(loss)
    scores = {line.split()[0]: float(line.split()[2]) for line in lines[:-1]}
    assert scores["juror_1"] == scores["mean"] < scores["juror_2"]
    if good is not None:
        assert [scores["juror_1"], scores["juror_2"]] == pytest.approx([good, bad])
    # Each kind has a table of its own.
    both = score_forecasts([found, record(step("tally", tally=counted(0.6)), outcome=1.0)])
    assert [line.split("  ")[0] for line in both.splitlines() if " n " in line] == [name, "yes or no"]


def test_forecasts_of_options_and_dates_are_compared_part_by_part() -> None:
    asked = replace(ASKED, shape=ChoiceShape(options=("red", "blue")))
    one, other = (
        recorded_explanation(
            [step("tally", tally={"votes": {"juror_1": {"outcome": {"red": red, "blue": 1 - red}}}})],
            forecaster="court",
            question=asked,
            predictions={"outcome": ChoicePrediction({"red": red, "blue": 1 - red})},
        )
        for red in (0.25, 0.75)
    )
    lines = [" ".join(line.split()) for line in transcripts.compare_forecasts(one, other).splitlines()]
    assert "juror_1 red 0.25 0.75 +0.5" in lines
    assert "forecast red 0.25 0.75 +0.5" in lines
    dates = [
        recorded_explanation(
            [step("tally", tally={"votes": {}, "mean": {"outcome": {"p50": day}}})],
            forecaster="court",
            question=replace(ASKED, shape=DAYS),
            predictions={"outcome": CurvePrediction(tuple(point / 10 for point in range(11)))},
        )
        for day in ("2026-01-02", "2026-01-12")
    ]
    lines = [" ".join(line.split()) for line in transcripts.compare_forecasts(*dates).splitlines()]
    assert "mean p50 2026-01-02 2026-01-12 +10 days" in lines
    assert "forecast p50 1970-01-06 1970-01-06 +0 days" in lines


@pytest.mark.parametrize(("wider", "told"), [(True, "1.00"), (False, "-1.00")])
def test_the_correlation_of_spread_and_error_has_the_right_sign(wider: bool, told: str) -> None:  # noqa: FBT001 - a case
    found = [
        record(step("tally", tally=counted(0.35 + shift - width, 0.35 + shift + width)), outcome=0.0)
        for shift, width in ((0.1, 0.1 if wider else 0.3), (0.2, 0.2), (0.3, 0.3 if wider else 0.1))
    ]
    assert score_forecasts(found).splitlines()[-1].endswith(f": {told}")


def test_nothing_decided_is_said_so() -> None:
    assert "nothing can be scored" in score_forecasts([record(said())])
    assert "too few trials" in score_forecasts([record(step("tally", tally=counted(0.6)), outcome=1.0)])
