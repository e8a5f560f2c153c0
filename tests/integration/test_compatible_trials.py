"""Whole trials over real HTTP: whatever a server of models does, a trial ends in order and can be replayed."""

from pathlib import Path

import pytest

from bot.core.forecasts import TrialEnd
from bot.testing.model_server import ScriptedModelServer, reply_error
from tests.integration.engine_fixture import COMPATIBLE, open_engine, question
from tests.integration.server_scenarios import NAMES, SCENARIOS_BY_DIALECT, ServerScenario, check_scenario


@pytest.mark.parametrize(("scene", "dialect"), SCENARIOS_BY_DIALECT, ids=NAMES)
async def test_a_trial_ends_as_it_should(scene: ServerScenario, dialect: str, tmp_path: Path) -> None:
    await check_scenario(scene, COMPATIBLE, dialect, tmp_path)


async def test_a_trial_that_died_at_once_is_no_answer(tmp_path: Path) -> None:
    async with ScriptedModelServer(reply_error(500)) as server, open_engine(tmp_path, server.base_url) as engine:
        played = await engine.play(question())
    assert played.trial.end is TrialEnd.FAILED
    assert played.trial.belief is not None
    assert played.trace.forecast is None
    assert "status 500" in played.trace.detail
