"""A backtest of two rounds: who is asked what, with what, and what becomes of an answer that is missing or odd."""

from collections.abc import Callable, Sequence
from datetime import date, timedelta

import pytest
from structlog.testing import capture_logs

from bot.core.beliefs import Belief, Step, StepAction, StepObservation
from bot.core.clock import SeededRandom
from bot.core.errors import AuthenticationError, LeakError, ServiceUnavailableError
from bot.core.forecasts import TrialLimits
from bot.core.learning import FittedParameters, Round
from bot.core.outcomes import VoidOutcome
from bot.core.predictions import BinaryPrediction
from bot.core.questions import Question
from bot.evaluation.backtest import BacktestSubject, BacktestWindow, run_backtest
from bot.evaluation.score_rows import BinaryScoreRow, binary_score_rows, missing_share
from bot.forecasting.aggregation import PoolingMethod
from bot.forecasting.forecast_run import ConfiguredForecaster
from bot.testing.forecaster import ScriptedForecaster, believe_yes
from tests.unit.testing.correct_venue import START, LanternArchive, outcome, question

DAY = timedelta(days=1)
Learn = Callable[[Round], FittedParameters | None]


def subject(forecaster: ScriptedForecaster, *, trials: int = 1, learn: Learn = lambda _: None) -> BacktestSubject:
    configured = ConfiguredForecaster(
        name="plain", implementation=forecaster, trials=trials, pool=PoolingMethod.MEAN, limits=TrialLimits()
    )
    return BacktestSubject(configured_forecaster=configured, fit_parameters=learn)


async def run(
    tested: BacktestSubject, window: BacktestWindow | None = None, archive: LanternArchive | None = None
) -> tuple[list[BinaryScoreRow], list[str]]:
    seen: list[str] = []
    found = await run_backtest(
        archive or LanternArchive(), tested, window or BacktestWindow(), random=SeededRandom(1), progress=seen.append
    )
    assert found.by_rule == []
    return found.binary, seen


async def test_each_round_is_forecast_and_scored() -> None:
    rows, seen = await run(subject(ScriptedForecaster(believe_yes(0.3)), trials=2))
    assert seen == ["0", "1"]
    assert [(row.round, row.probability, row.outcome, row.imputed) for row in rows] == [
        ("0", 0.3, 1.0, False),
        ("1", 0.3, 1.0, False),
    ]


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (BacktestWindow(first=date(2026, 1, 2)), ["1"]),
        (BacktestWindow(last=date(2026, 1, 1)), ["0"]),
        (BacktestWindow(first=date(2026, 1, 1), last=date(2026, 1, 2)), ["0", "1"]),
        (BacktestWindow(first=date(2026, 1, 3)), []),
    ],
)
async def test_the_window_includes_its_ends(window: BacktestWindow, expected: list[str]) -> None:
    assert (await run(subject(ScriptedForecaster(believe_yes(0.3))), window))[1] == expected


class Pairs(LanternArchive):
    """Asks both questions in one round."""

    def round_keys(self) -> Sequence[str]:
        return ["0"]

    def read_round(self, key: str) -> Round:
        asked, resolved = (question(0), question(1)), (outcome(0), outcome(1))
        return Round(key=key, as_of=START + DAY, questions=asked, resolutions=resolved)


def only_the_first(asked: Question) -> Step:
    if asked.ref != question(0).ref:
        message = "no model"
        raise ServiceUnavailableError(message)
    belief = Belief(predictions={target.key: BinaryPrediction(0.3) for target in asked.targets})
    return Step(action=StepAction(name="think"), observation=StepObservation(), belief=belief)


async def test_a_question_without_a_forecast_counts_as_one_half_and_is_told() -> None:
    with capture_logs() as logs:
        rows, _ = await run(subject(ScriptedForecaster(only_the_first)), archive=Pairs())
    assert [(row.probability, row.imputed) for row in rows] == [(0.3, False), (0.5, True)]
    [entry] = logs
    assert (entry["event"], entry["count"], entry["of"]) == ("questions without a forecast", 1, 2)
    assert entry["mostly"] == "1 trial failed: no model"


async def test_a_forecaster_that_answers_nothing_of_a_round_is_not_scored() -> None:
    with pytest.raises(
        ServiceUnavailableError, match="plain answered none of the 1 questions of 0: 1 trial failed: no model"
    ):
        await run(subject(ScriptedForecaster(ServiceUnavailableError("no model"))))


def starting_belief_then(error: Exception) -> ScriptedForecaster:
    return ScriptedForecaster(believe_yes(0.8), error)


async def test_a_trial_that_failed_at_once_is_no_forecast() -> None:
    with pytest.raises(ServiceUnavailableError, match="answered none"):
        await run(subject(starting_belief_then(AuthenticationError("401"))))


async def test_parameters_from_after_a_round_are_refused() -> None:
    late = FittedParameters(forecaster="plain", before=START + DAY, examples=3, payload={})
    with pytest.raises(LeakError, match="the cutoff is 2026-01-01"):
        await run(subject(ScriptedForecaster(believe_yes(0.3)), learn=lambda _: late))


def test_outcomes_of_other_questions_and_annulled_ones_are_no_rows() -> None:
    annulled = outcome(0, outcome=VoidOutcome("withdrawn"))
    a_round = Round(key="0", as_of=START, questions=(question(0),), resolutions=(outcome(5), annulled))
    assert list(binary_score_rows(a_round, {})) == []


def test_the_missing_share_is_that_of_targets() -> None:
    answered = {(question(0).ref, "outcome"): 0.3}
    assert missing_share([question(0), question(1)], answered) == 0.5
    assert missing_share([], answered) == 0.0
