"""One line for trials that failed, the exit code that shows it, and forecasters that never come to submit."""

import pytest

from bot.cli.command_exit import ExitCode
from bot.cli.output.trial_text import failures_exit_code, failures_summary, step_limit_warnings
from bot.core.beliefs import Belief
from bot.core.forecasts import Trial, TrialEnd
from bot.core.predictions import BinaryPrediction
from bot.forecasting.failures import REASON_CHARS, REASONS_SHOWN, describe_failures, explain_too_few_trials
from bot.store.forecast_queries import RecentFailures


def failed(detail: str, end: TrialEnd = TrialEnd.FAILED, *, stated: bool = True) -> Trial:
    belief = Belief(predictions={"outcome": BinaryPrediction(0.5)}, stated=stated)
    return Trial(number=1, end=end, belief=belief, steps=1, detail=detail)


def recent(*trials: Trial, put_off: int = 0, short: int = 0, **ends: dict[TrialEnd, int]) -> RecentFailures:
    return RecentFailures(trials=trials, postponed_questions=put_off, incomplete_forecasts=short, ends=ends)


@pytest.mark.parametrize(
    ("found", "line", "code"),
    [
        (recent(), "", ExitCode.DONE),
        (
            recent(failed("RequestRejectedError: no"), short=1),
            "1 trial failed: no; 1 forecast was made of fewer trials",
            ExitCode.TRIALS_FAILED,
        ),
        (
            recent(*[failed("RequestRejectedError: no")] * 3, put_off=2, short=2),
            "3 trials failed: no; 2 questions have no forecast; 2 forecasts were made of fewer trials",
            ExitCode.UNAVAILABLE,
        ),
        # A question can be put off without a trial: its forecast could not be calibrated, for instance.
        (recent(put_off=1), "1 question has no forecast", ExitCode.UNAVAILABLE),
        (
            recent(failed("TrialLimitReachedError: no step is left", TrialEnd.STEP_LIMIT, stated=False)),
            "1 trial failed: ended at its step limit before it stated a belief on evidence: no step is left",
            ExitCode.TRIALS_FAILED,
        ),
        (recent(failed("", TrialEnd.EMPTY)), "1 trial failed: no step", ExitCode.TRIALS_FAILED),
    ],
)
def test_what_went_wrong_is_one_line_and_one_code(found: RecentFailures, line: str, code: ExitCode) -> None:
    assert failures_summary(found) == line
    assert failures_exit_code(found) is code


def test_the_most_frequent_reason_comes_first_and_rare_ones_are_counted() -> None:
    letters = "abcdefgh"
    reasons = [f"fault {letter}" for place, letter in enumerate(letters, 1) for _ in range(place)]
    line = describe_failures(reasons)
    assert line.startswith("36 trials failed: 8 fault h; 7 fault g; 6 fault f; 5 fault e; 4 fault d; ")
    assert line.endswith("; 6 for other reasons")
    assert line.count(";") == REASONS_SHOWN


def test_a_reason_is_one_line_of_bounded_length() -> None:
    line = describe_failures(["first\nsecond " + "x" * 1000])
    assert line.startswith("1 trial failed: first second xxx")
    assert line.endswith("…")
    assert len(line) == len("1 trial failed: ") + REASON_CHARS


def test_too_few_trials_are_told_with_their_number() -> None:
    good = Trial(
        number=2, end=TrialEnd.FINISHED, belief=Belief(predictions={"outcome": BinaryPrediction(0.5)}), steps=1
    )
    bad = [failed("ServiceUnavailableError: down")] * 4
    assert explain_too_few_trials([good, *bad], wanted=5) == "only 1 of 5 trials count; 4 trials failed: down"
    assert explain_too_few_trials(bad, wanted=4) == "4 trials failed: down"
    assert explain_too_few_trials([], wanted=1) == "there is no trial"


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        ({TrialEnd.STEP_LIMIT: 5}, ["all 5 trials of blf ended at the step limit, none by submitting"]),
        # Too few to say anything.
        ({TrialEnd.STEP_LIMIT: 4}, []),
        ({TrialEnd.STEP_LIMIT: 50, TrialEnd.FINISHED: 1}, []),
        ({TrialEnd.FINISHED: 9}, []),
    ],
)
def test_a_forecaster_whose_trials_all_run_out_of_steps_is_reported(ends: dict[TrialEnd, int], told: list[str]) -> None:
    assert [*step_limit_warnings(recent(blf=ends))] == told
