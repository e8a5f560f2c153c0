"""What all tests share: the neighbouring reference folder and the settings of generated examples."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples on every machine, and no limit on one example: CI shares its cores.
settings.register_profile("ci", derandomize=True, deadline=None, database=None, print_blob=True)
settings.register_profile("dev", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference texts, test vectors and real rounds beside this repository."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("the folder shared/ with the reference data is not beside this repository")
    return folder
