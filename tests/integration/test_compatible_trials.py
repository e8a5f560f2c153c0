"""Whole trials over real HTTP: whatever a server of models does, a trial ends in order and can be replayed."""

from datetime import timedelta
from pathlib import Path

import pytest

from bot.clock import SystemClock
from bot.domain.forecast import TrialEnd
from bot.testing.model_server import ModelServer, fail
from tests.integration.scenes import NAMES, SEATED, Scene, hold
from tests.integration.stage import COMPATIBLE, question, staged


@pytest.mark.parametrize(("scene", "dialect"), SEATED, ids=NAMES)
async def test_a_trial_ends_as_it_should(scene: Scene, dialect: str, tmp_path: Path) -> None:
    await hold(scene, COMPATIBLE, dialect, tmp_path)


async def test_a_trial_that_died_at_once_is_no_answer_while_there_is_time_for_another(tmp_path: Path) -> None:
    soon = question()
    later = question("mast", closes_at=SystemClock().now() + timedelta(days=1))
    async with ModelServer(fail(500)) as server, staged(tmp_path, server.base_url) as stage:
        last, first = await stage.play(soon), await stage.play(later)
    assert [played.trial.end for played in (last, first)] == [TrialEnd.FAILED] * 2
    assert last.trace.forecast is not None
    assert first.trace.forecast is None
    assert "status 500" in first.trace.detail
