"""Providers that fail in the middle of trials: nothing of such a trial is a forecast, and every command says so."""

from itertools import count
from pathlib import Path

import pytest

from bot.core.values import Json
from bot.testing.model_server import CompletionRequest, ReplyFunction, ScriptedReply, reply_error
from tests.acceptance.scripted_installation import (
    CONFIG,
    PRICE,
    RAIN,
    ROLE,
    VENUE,
    ScriptedInstallation,
    searching,
    serving,
)

REFUSAL = "This model does not take such a request"
POOL = CONFIG.replace("trials = 2", "trials = 5") + ROLE + PRICE + VENUE


def failing(*trials: int) -> ReplyFunction:
    """Search, and refuse the second step of these trials, counted as they come to it; of all of them without any."""
    through, came = searching(1, probability=0.2), count(1)

    def play(asked: CompletionRequest) -> ScriptedReply:
        refused = asked.assistant_turns == 1 and (next(came) in trials or not trials)
        return reply_error(400, why=REFUSAL) if refused else through(asked)

    return play


async def forecasts(context: ScriptedInstallation, name: str) -> list[Json]:
    """Return the forecasts of the model that are on record."""
    history = (await context("show", name, "--json")).json["history"]
    return [one for one in history if one["forecaster"] == "blf"]


async def test_a_provider_that_fails_at_every_second_step_leaves_no_forecast_and_says_why(tmp_path: Path) -> None:
    async with serving(tmp_path, failing(), config=POOL) as context:
        done = await context("run", "--once")
        assert done.code == 3
        last = done.err.splitlines()[-1]
        assert last.startswith(f"foxcast: 5 trials failed: openai_compatible:here/scripted: status 400: {REFUSAL}")
        assert last.endswith("; 1 question has no forecast")
        assert await forecasts(context, "harbour:lamp") == []
        # The forecaster that asks no model is not concerned.
        assert "1 forecasts made, 1 postponed; 5 trials failed: " in " ".join(done.out.split())

        status = await context("status")
        assert status.code == 3
        assert "in the last 24 hours: 5 trials failed: " in " ".join(status.out.split())
        assert (await context("status", "--json")).json["failures"]["questions_without_forecast"] == 1
        doctor = await context("doctor", "--json")
        assert doctor.code == 1
        [found] = [one for one in doctor.json if one["check"] == "trials"]
        assert found["verdict"] == "fail"
        assert REFUSAL in found["found"]


async def test_two_trials_of_five_may_fail_and_the_exit_code_shows_it(tmp_path: Path) -> None:
    async with serving(tmp_path, failing(2, 4), config=POOL) as context:
        done = await context("run", "--once")
        assert done.code == 10
        last = done.err.splitlines()[-1]
        assert last.startswith("foxcast: 2 trials failed: openai_compatible:here/scripted: ")
        assert REFUSAL in last
        assert last.endswith("; 1 forecast was made of fewer trials")
        [made] = await forecasts(context, "harbour:lamp")
        assert isinstance(made, dict)
        explained = await context("explain", str(made["id"]), "--json")
        ends = sorted(trial["trial"]["end"] for trial in explained.json["trials"])
        assert ends == ["failed", "failed", "finished", "finished", "finished"]
        assert [trial["counts"] for trial in explained.json["trials"]].count(True) == 3
        assert (await context("status")).code == 10
        doctor = await context("doctor", "--json")
        assert doctor.code in {1, 10}
        assert [one["verdict"] for one in doctor.json if one["check"] == "trials"] == ["warn"]


@pytest.mark.parametrize(("trials", "code"), [((), 9), ((1,), 10)])
async def test_one_question_asked_for_tells_the_same(tmp_path: Path, trials: tuple[int, ...], code: int) -> None:
    async with serving(tmp_path, failing(*trials)) as context:
        made = await context("forecast", context.write("q.toml", RAIN))
        assert made.code == code
        last = made.err.splitlines()[-1]
        assert REFUSAL in last
        assert ("1 trial failed: " if trials else "2 trials failed: ") in last
        assert len(await forecasts(context, "file:rain")) == len(trials)


async def test_a_share_of_all_trials_lets_none_of_them_fail(tmp_path: Path) -> None:
    config = POOL + "[limits]\nmin_trial_share = 1.0\n"
    async with serving(tmp_path, failing(2), config=config) as context:
        assert (await context("run", "--once")).code == 3
        assert await forecasts(context, "harbour:lamp") == []
