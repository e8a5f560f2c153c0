"""The published rounds, read once for all tests of the baseline."""

from pathlib import Path

import pytest

from tests.plugins.baseline.rounds import Rounds, load


@pytest.fixture(scope="session")
def rounds(shared: Path) -> Rounds:
    return load(shared / "data" / "forecastbench")
