"""Vectors and published rounds, read once for all tests of the sciences."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bot.stats.calibration import CalibrationRows, calibration_rows
from tests.unit.stats.published_rounds import ScoredRow, read, scored_rows


@pytest.fixture(scope="session")
def vectors(shared: Path) -> dict[str, Any]:
    """Outputs of the published code of the seed paper on synthetic inputs."""
    return read(shared / "reference" / "blf_vectors.json")


@pytest.fixture(scope="session")
def expected(shared: Path) -> dict[str, Any]:
    """Scores of the development rounds, computed and cross-checked by two other programs."""
    return read(shared / "venues" / "forecastbench_expected.json")


@pytest.fixture(scope="session")
def published(shared: Path, expected: dict[str, Any]) -> list[ScoredRow]:
    """All 8,990 scored rows of the development rounds with the free forecast."""
    return scored_rows(shared / "data" / "forecastbench", expected["definitions"]["subtypes"]["priors"])


@pytest.fixture(scope="session")
def grouped(vectors: dict[str, Any]) -> CalibrationRows:
    """The 120 synthetic rows in three groups."""
    rows = vectors["rows"]
    return calibration_rows(
        np.array([row["agg"] for row in rows]),
        np.array([row["y"] for row in rows]),
        [row["group"] for row in rows],
    )
