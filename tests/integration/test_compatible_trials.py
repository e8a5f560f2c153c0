"""Whole trials over real HTTP: whatever a server of models does, a trial ends in order and can be replayed."""

from pathlib import Path

import pytest

from bot.domain.forecast import TrialEnd
from bot.testing.model_server import ModelServer, fail
from tests.integration.scenes import NAMES, SEATED, Scene, hold
from tests.integration.stage import COMPATIBLE, question, staged


@pytest.mark.parametrize(("scene", "dialect"), SEATED, ids=NAMES)
async def test_a_trial_ends_as_it_should(scene: Scene, dialect: str, tmp_path: Path) -> None:
    await hold(scene, COMPATIBLE, dialect, tmp_path)


async def test_a_trial_that_died_at_once_is_no_answer(tmp_path: Path) -> None:
    async with ModelServer(fail(500)) as server, staged(tmp_path, server.base_url) as stage:
        played = await stage.play(question())
    assert played.trial.end is TrialEnd.FAILED
    assert played.trial.belief is not None
    assert played.trace.forecast is None
    assert "status 500" in played.trace.detail
