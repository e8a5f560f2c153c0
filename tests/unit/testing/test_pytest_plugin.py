"""The entry point of pytest, in a pytest of its own: a bare assertion of a kit shows what was compared."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
AUTHOR_TEST = """
from bot.api import PluginSettings
from bot.testing.spec_contract import PluginSpecContract

class OldSpec:
    api_version = 777
    settings = PluginSettings

class TestOldSpec(PluginSpecContract):
    spec = OldSpec()
    settings = PluginSettings()
"""


@pytest.mark.parametrize("plugin", ["bot.testing.pytest_plugin", "no:terminalreporter_other"])
def test_a_failure_of_a_kit_shows_the_values(tmp_path: Path, plugin: str) -> None:
    (tmp_path / "test_author.py").write_text(AUTHOR_TEST)
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", plugin, str(tmp_path))
    env = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert ("assert 777 ==" in done.stdout) is (plugin == "bot.testing.pytest_plugin")


def test_pytest_finds_it_by_its_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"foxcast": "bot.testing.pytest_plugin"}
