"""A gateway in virtual time on a ledger of its own."""

from pathlib import Path

import pytest

from tests.simulation.virtual_gateway import VirtualGateway


@pytest.fixture
def virtual_gateway(tmp_path: Path) -> VirtualGateway:
    return VirtualGateway(tmp_path)
