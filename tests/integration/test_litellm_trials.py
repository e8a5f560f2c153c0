"""The same trials through litellm, in one file: its import takes seconds."""

from pathlib import Path

import pytest

from tests.integration.scenes import HALF, NAMES_OF_HALF, Scene, hold
from tests.integration.stage import LITELLM

pytestmark = [
    pytest.mark.xdist_group("litellm trials"),
    # The library says this of its own types, once in each process.
    pytest.mark.filterwarnings("ignore:Item '.*' on TypedDict class:UserWarning"),
    # Its import takes seconds, more on a busy machine.
    pytest.mark.timeout(120),
]


@pytest.mark.parametrize(("scene", "dialect"), HALF, ids=NAMES_OF_HALF)
async def test_a_trial_ends_as_it_should(scene: Scene, dialect: str, tmp_path: Path) -> None:
    await hold(scene, LITELLM, dialect, tmp_path)
