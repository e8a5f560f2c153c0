"""The published rounds, read once for all tests of the baseline."""

from pathlib import Path

import pytest

from tests.plugins.baseline.published_rounds import PublishedRounds, load


@pytest.fixture(scope="session")
def rounds(shared: Path) -> PublishedRounds:
    return load(shared / "data" / "forecastbench")
