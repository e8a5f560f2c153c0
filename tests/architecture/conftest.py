"""All rules look at the same sources, which one process parses once and then lets go."""

import gc

import pytest

from tests.architecture.source import forget_trees


def _is_rule(item: pytest.Item | None) -> bool:
    return item is not None and "architecture" in item.path.parts


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _is_rule(item):
            item.add_marker(pytest.mark.xdist_group("architecture"))


def pytest_runtest_setup() -> None:
    gc.disable()


def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    # A fixture of the package would end with the session, since these folders are no packages.
    if not _is_rule(nextitem):
        gc.enable()
        forget_trees()
