"""The same trials through litellm, in one file: its import takes seconds."""

from pathlib import Path

import pytest

from tests.integration.engine_fixture import LITELLM
from tests.integration.server_scenarios import HALF, NAMES_OF_HALF, ServerScenario, check_scenario

pytestmark = [
    pytest.mark.xdist_group("litellm trials"),
    # The library says this of its own types, once in each process.
    pytest.mark.filterwarnings("ignore:Item '.*' on TypedDict class:UserWarning"),
    # Its import takes seconds, more on a busy machine.
    pytest.mark.timeout(120),
]


@pytest.mark.parametrize(("scene", "dialect"), HALF, ids=NAMES_OF_HALF)
async def test_a_trial_ends_as_it_should(scene: ServerScenario, dialect: str, tmp_path: Path) -> None:
    await check_scenario(scene, LITELLM, dialect, tmp_path)
