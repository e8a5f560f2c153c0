"""A gateway in virtual time on a ledger of its own."""

from pathlib import Path

import pytest

from tests.simulation.virtual_gateway import VirtualGateway
from tests.unit.llm.gateway_fixture import make_blank


@pytest.fixture(scope="session")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_blank(tmp_path_factory.mktemp("blank"))


@pytest.fixture
def virtual_gateway(blank: Path, tmp_path: Path) -> VirtualGateway:
    return VirtualGateway(blank, tmp_path)
