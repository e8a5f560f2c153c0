"""The entry point of pytest: failures in the contract kits show the values that were compared.

https://docs.pytest.org/en/stable/how-to/writing_plugins.html#assertion-rewriting
"""

from pathlib import Path

import pytest


def pytest_load_initial_conftests() -> None:
    """Register the kits before any test module can import them."""
    for path in sorted(Path(__file__).parent.glob("*_contract*.py")):
        pytest.register_assert_rewrite(f"bot.testing.{path.stem}")
