"""All rules look at the same sources, which one process parses once and then lets go."""

import gc
from collections.abc import Iterator

import pytest

from tests.architecture.source import forget_trees


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "architecture" in item.path.parts:
            item.add_marker(pytest.mark.xdist_group("architecture"))


@pytest.fixture(scope="package", autouse=True)
def _trees() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()
    forget_trees()
