from pathlib import Path

import pytest

from bot.core.predictions import BinaryPrediction, BinaryShape
from bot.core.questions import Question, QuestionRef, Target
from bot.core.submissions import HoldDecision
from bot.store.ledger import open_ledger
from bot.testing.clock import START
from tests.crash.daemon_campaign import CampaignPlan, campaign
from tests.crash.kill_scenario import InvariantViolation, KillScenario, require_unchanged
from tests.recorded_forecasts import record_forecast


@pytest.mark.crash
@pytest.mark.timeout(180)
def test_killed_at_any_moment_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    """A small version of `make crash`, on the sample."""
    tally = campaign(CampaignPlan(kills=8, source="sample", rounds='"all"', seed=11), tmp_path)
    assert tally.scenarios >= 1
    assert tally.forecasts > 0


def test_a_story_that_does_not_end_is_a_violation(tmp_path: Path) -> None:
    plan = CampaignPlan(kills=1, source="sample", rounds='"latest"', seed=11, most_lives=0)
    with pytest.raises(InvariantViolation, match="not done after 0 lives"):
        campaign(plan, tmp_path)


def test_a_daemon_that_ends_by_itself_is_a_violation(tmp_path: Path) -> None:
    scenario = KillScenario.begin(tmp_path / "story", source=str(tmp_path / "nothing here"), rounds='"nonsense"')
    with pytest.raises(InvariantViolation, match="ended by itself with 2"):
        scenario.live(20.0)


def test_a_forecast_that_changes_or_vanishes_is_a_violation(tmp_path: Path) -> None:
    with pytest.raises(InvariantViolation, match="lost"):
        require_unchanged({"a": "0.3"}, {}, "forecast")
    with pytest.raises(InvariantViolation, match=r"is now 0\.4"):
        require_unchanged({"a": "0.3"}, {"a": "0.4"}, "forecast")
    require_unchanged({"a": "0.3"}, {"a": "0.3", "b": "0.5"}, "forecast")


async def test_a_story_with_a_question_that_is_not_planned_yet_is_not_done(tmp_path: Path) -> None:
    """Discovery records questions first and plans them after that, so a kill in between leaves some without a plan."""
    scenario = KillScenario.begin(tmp_path / "story", source="sample", rounds='"latest"')
    question = Question(
        ref=QuestionRef("forecastbench", "rain"), title="Rain?", shape=BinaryShape(), targets=(Target(),)
    )
    async with open_ledger(scenario.ledger, now=START) as ledger:
        await ledger.questions.record([question], seen_at=START)
    assert not scenario.judge()
    async with open_ledger(scenario.ledger, now=START) as ledger:
        forecast = await record_forecast(ledger, question, {"outcome": BinaryPrediction(0.5)}, START)
        held = HoldDecision(why="nothing to submit", until=None)
        await ledger.submissions.decide(forecast_id=forecast.id, decision=held, at=START)
    assert scenario.judge()
