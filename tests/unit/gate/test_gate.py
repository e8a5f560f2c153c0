from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.domain.forecast import Forecast
from bot.domain.prediction import Binary, BinaryShape, Curve, Prediction
from bot.domain.question import Question, QuestionRef, Target
from bot.domain.submission import Hold, Mode, Send
from bot.gate.brake import Brake
from bot.gate.gate import ASK_AGAIN, Case, Gate, Lane, intent_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
REF = QuestionRef("lantern", "1")


def case(
    *,
    mode: Mode = Mode.PAPER,
    forecaster: str = "first",
    prediction: Prediction | None = None,
    closes_at: datetime | None = None,
    locked: str | None = None,
) -> Case:
    predictions = {"outcome": prediction or Binary(0.3)}
    return Case(
        lane=Lane(venue="lantern", mode=mode, primary="first", account="me"),
        forecast=Forecast(
            id="f1",
            ref=REF,
            version="v1",
            forecaster=forecaster,
            revision=1,
            cutoff=NOW,
            made_at=NOW,
            why="new question",
            raw=predictions,
            predictions=predictions,
        ),
        question=Question(
            ref=REF, title="?", shape=BinaryShape(), targets=(Target(),), batch="round 1", closes_at=closes_at
        ),
        standing=None,
        locked=locked,
        now=NOW,
    )


@pytest.fixture
def gate(tmp_path: Path) -> Callable[..., Gate]:
    def build(*, armed: bool = False) -> Gate:
        brake = Brake(stop_file=tmp_path / "STOP", ledger=tmp_path / "ledger.sqlite")
        return Gate(brake=brake, armed=lambda _lane, _now: armed)

    return build


def test_a_paper_forecast_is_sent_to_the_book(gate: Callable[..., Gate]) -> None:
    decision = gate().decide(case())
    assert isinstance(decision, Send)
    assert decision.mode is Mode.PAPER
    assert (decision.intent.ref, decision.intent.batch) == (REF, "round 1")


@pytest.mark.parametrize(
    ("held", "why"),
    [
        (case(mode=Mode.OFF), "lantern is off"),
        (case(forecaster="second"), "first forecasts for lantern, second runs beside it"),
        (case(prediction=Curve((0.0, 1.0))), "target outcome: curve prediction"),
        (case(locked="waiting for the rules"), "locked: waiting for the rules"),
        (case(mode=Mode.LIVE), "not armed for live"),
        (case(mode=Mode.APPROVE), "not armed for approve"),
    ],
)
def test_what_must_not_leave_is_held_with_its_reason(gate: Callable[..., Gate], held: Case, why: str) -> None:
    decision = gate().decide(held)
    assert isinstance(decision, Hold)
    assert why in decision.why


def test_the_stop_file_holds_everything_even_paper(gate: Callable[..., Gate], tmp_path: Path) -> None:
    (tmp_path / "STOP").touch()
    assert gate(armed=True).decide(case()) == Hold(why="halted by STOP", until=NOW + ASK_AGAIN)


def test_a_closed_window_holds_a_live_forecast_and_is_named_on_paper(gate: Callable[..., Gate]) -> None:
    closed = NOW - timedelta(seconds=1)
    live = gate(armed=True).decide(case(mode=Mode.LIVE, closes_at=closed))
    assert isinstance(live, Hold)
    assert "window closed" in live.why
    paper = gate().decide(case(closes_at=closed))
    assert isinstance(paper, Send)
    assert "live would hold it" in paper.why


def test_an_armed_lane_sends_inside_the_window(gate: Callable[..., Gate]) -> None:
    decision = gate(armed=True).decide(case(mode=Mode.LIVE, closes_at=NOW))
    assert isinstance(decision, Send)


def test_the_forecast_that_already_stands_is_not_sent_again(gate: Callable[..., Gate]) -> None:
    first = case()
    again = Case(
        lane=first.lane,
        forecast=first.forecast,
        question=first.question,
        standing=intent_of(first),
        locked=None,
        now=NOW,
    )
    decision = gate().decide(again)
    assert isinstance(decision, Hold)
    assert "already stands" in decision.why


def test_planning_twice_gives_the_same_intent() -> None:
    assert intent_of(case()).id == intent_of(case()).id
