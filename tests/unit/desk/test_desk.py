"""The desk of one trial: its cutoff holds, and its chance is its own."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.clock import SeededRandom
from bot.desk.desk import TrialDesk, cutoff_of
from bot.domain.learning import Fitted
from bot.domain.prediction import BinaryShape
from bot.domain.question import Question, QuestionRef, Target
from bot.errors import LeakError

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def desk(*, trial: int = 1, learned: timedelta | None = None) -> TrialDesk:
    fitted = None if learned is None else Fitted(forecaster="plain", before=NOW + learned, examples=1, payload={})
    return TrialDesk(forecast="f1", cutoff=NOW, trial=trial, fitted=fitted, random=SeededRandom(1))


@given(asked_at=st.none() | st.timedeltas(timedelta(days=-99), timedelta(days=99)))
def test_the_cutoff_is_now_or_the_moment_of_the_venue_if_that_is_earlier(asked_at: timedelta | None) -> None:
    question = Question(
        ref=QuestionRef("lantern", "1"),
        title="?",
        shape=BinaryShape(),
        targets=(Target(),),
        as_of=None if asked_at is None else NOW + asked_at,
    )
    assert cutoff_of(question, NOW) == NOW + min(timedelta(), asked_at or timedelta())


@pytest.mark.parametrize("learned", [None, timedelta(days=-1), timedelta()])
def test_what_was_learned_up_to_the_cutoff_may_be_used(learned: timedelta | None) -> None:
    assert (desk(learned=learned).fitted is None) == (learned is None)


def test_what_was_learned_after_the_cutoff_is_refused() -> None:
    with pytest.raises(LeakError, match="plain learned from outcomes up to 2026-03-01T00:00:01"):
        desk(learned=timedelta(seconds=1))


def test_two_trials_of_one_forecast_draw_different_chance() -> None:
    first, second = desk(trial=1), desk(trial=2)
    assert first.stream("a").random() == desk(trial=1).stream("a").random()
    assert first.stream("a").random() != second.stream("a").random()
