"""The context of one trial: its cutoff holds, and its random numbers are its own."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.clock import SeededRandom
from bot.core.errors import LeakError
from bot.core.learning import FittedParameters
from bot.core.predictions import BinaryShape
from bot.core.questions import Question, QuestionRef, Target
from bot.forecasting.trial_tools import GuardedTrialContext, question_cutoff

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def trial_context(*, trial: int = 1, learned: timedelta | None = None) -> GuardedTrialContext:
    fitted = (
        None if learned is None else FittedParameters(forecaster="plain", before=NOW + learned, examples=1, payload={})
    )
    return GuardedTrialContext(forecast="f1", cutoff=NOW, trial=trial, fitted=fitted, random=SeededRandom(1))


@given(asked_at=st.none() | st.timedeltas(timedelta(days=-99), timedelta(days=99)))
def test_the_cutoff_is_now_or_the_moment_of_the_venue_if_that_is_earlier(asked_at: timedelta | None) -> None:
    question = Question(
        ref=QuestionRef("lantern", "1"),
        title="?",
        shape=BinaryShape(),
        targets=(Target(),),
        as_of=None if asked_at is None else NOW + asked_at,
    )
    assert question_cutoff(question, NOW) == NOW + min(timedelta(), asked_at or timedelta())


@pytest.mark.parametrize("learned", [None, timedelta(days=-1), timedelta()])
def test_what_was_learned_up_to_the_cutoff_may_be_used(learned: timedelta | None) -> None:
    assert (trial_context(learned=learned).fitted is None) == (learned is None)


def test_what_was_learned_after_the_cutoff_is_refused() -> None:
    with pytest.raises(LeakError, match="plain learned from outcomes up to 2026-03-01T00:00:01"):
        trial_context(learned=timedelta(seconds=1))


def test_two_trials_of_one_forecast_draw_different_chance() -> None:
    first, second = trial_context(trial=1), trial_context(trial=2)
    assert first.stream("a").random() == trial_context(trial=1).stream("a").random()
    assert first.stream("a").random() != second.stream("a").random()
