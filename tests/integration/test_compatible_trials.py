"""Whole trials over real HTTP: whatever a server of models does, a trial ends in order and can be replayed."""

from pathlib import Path

import pytest

from tests.integration.scenes import NAMES, SEATED, Scene, hold
from tests.integration.stage import COMPATIBLE


@pytest.mark.parametrize(("scene", "dialect"), SEATED, ids=NAMES)
async def test_a_trial_ends_as_it_should(scene: Scene, dialect: str, tmp_path: Path) -> None:
    await hold(scene, COMPATIBLE, dialect, tmp_path)
