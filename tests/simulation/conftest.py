"""The stage of a test: a gateway on a ledger of its own."""

from pathlib import Path

import pytest

from tests.simulation.gateway_stage import Stage
from tests.unit.llm.rig import make_blank


@pytest.fixture(scope="session")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_blank(tmp_path_factory.mktemp("blank"))


@pytest.fixture
def stage(blank: Path, tmp_path: Path) -> Stage:
    return Stage(blank, tmp_path)
