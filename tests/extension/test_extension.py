"""Plugins as outsiders make them: a real distribution, and the file of docs/writing-a-plugin.md."""

import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from bot.api import PluginContext
from bot.config.loader import load_config
from bot.config.plugin_settings import load_plugin_settings
from bot.core.beliefs import belief_mismatch
from bot.core.clock import SeededRandom
from bot.core.errors import ConfigError
from bot.core.predictions import BinaryPrediction, BinaryShape
from bot.core.questions import CrowdForecast, Question, QuestionRef, Target
from bot.forecasting.trial_tools import GuardedTrialContext
from bot.plugin_system import hook_specs
from bot.plugin_system.discovery import PluginOrigin, discover_plugins
from bot.plugin_system.registry import HOOK_SPECS, Registry, load_registry
from bot.testing.clock import START, FakeClock
from bot.testing.http import FakeHttpClient
from tests.architecture.pages import DocumentPage

HERE = Path(__file__).resolve().parent
PAGE = DocumentPage(HERE.parents[1], HERE.parents[1] / "docs" / "writing-a-plugin.md")
TOKEN = {"FOXCAST_VENUES__LANTERN__SETTINGS__TOKEN": "hush"}


@pytest.fixture(scope="session")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plugin lantern, installed by pip into a folder of its own."""
    target = tmp_path_factory.mktemp("site")
    offline = ("--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check", "--quiet")
    command = (sys.executable, "-m", "pip", "install", *offline, "--target", target, HERE / "lantern")
    subprocess.run(command, check=True, timeout=120)
    return target


@pytest.fixture
def installed(distribution: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(distribution)
    importlib.invalidate_caches()
    yield distribution
    sys.modules.pop("foxcast_lantern", None)


@pytest.fixture
def context(tmp_path: Path) -> PluginContext:
    return PluginContext(clock=FakeClock(), http=FakeHttpClient({}), folder=tmp_path)


def registry_of(folder: Path, text: str) -> Registry:
    (folder / "config.toml").write_text(text)
    return load_registry(load_config(folder / "config.toml", TOKEN))


def code(language: str) -> str:
    (block,) = PAGE.blocks(language)
    return block


@pytest.mark.timeout(180)
def test_an_installed_plugin_is_found_and_not_imported(installed: Path) -> None:
    (lantern,) = [plugin for plugin in discover_plugins() if plugin.name == "lantern"]
    assert lantern.origin is PluginOrigin.INSTALLED
    assert lantern.where == "foxcast-lantern 1.0.0, foxcast_lantern"
    assert "foxcast_lantern" not in sys.modules


@pytest.mark.timeout(180)
async def test_an_installed_plugin_offers_venue_command_and_job(
    installed: Path, tmp_path: Path, context: PluginContext
) -> None:
    text = "plugins = ['lantern', 'ember']\nplugin_files = ['ember.py']\n[venues.lantern]\nforecasters = ['ember']\n"
    (tmp_path / "ember.py").write_text(code("python"))
    registry = registry_of(tmp_path, text)
    assert registry.broken == ()
    assert (registry.commands.names, registry.jobs.names) == (("wave",), ("sweep",))
    spec = registry.venues["lantern"]
    settings = load_plugin_settings(spec, load_config(tmp_path / "config.toml", TOKEN))
    async with spec.reader(settings, context) as venue:
        (question,) = [question async for question in venue.questions()]
        (outcome,) = [outcome async for outcome in venue.resolutions([question.ref])]
    assert (question.ref, outcome.resolved_at) == (QuestionRef("lantern", "harbour"), START)
    assert await registry.jobs["sweep"].run(context) == f"swept {tmp_path}"


@pytest.mark.timeout(180)
def test_an_installed_plugin_that_lacks_its_secret_is_told_so(installed: Path, tmp_path: Path) -> None:
    registry = registry_of(tmp_path, "plugins = ['lantern']")
    with pytest.raises(ConfigError, match="FOXCAST_VENUES__LANTERN__SETTINGS__TOKEN"):
        load_plugin_settings(registry.venues["lantern"], load_config(tmp_path / "config.toml", {}))


@pytest.mark.timeout(180)
def test_a_file_named_like_an_installed_plugin_is_refused_with_both(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "lantern.py").write_text("raise AssertionError")
    with pytest.raises(ConfigError, match=r"foxcast-lantern 1\.0\.0.*lantern\.py|lantern\.py.*foxcast-lantern 1\.0\.0"):
        registry_of(tmp_path, "plugins = ['lantern']\nplugin_files = ['lantern.py']")


async def test_the_plugin_of_the_page_works_as_written(tmp_path: Path, context: PluginContext) -> None:
    (tmp_path / "ember.py").write_text(code("python"))
    (tmp_path / "config.toml").write_text(code("toml"))
    config = load_config(tmp_path / "config.toml", {})
    spec = load_registry(config).forecasters["ember"]
    question = Question(
        ref=QuestionRef("lantern", "harbour"),
        title="Will the harbour lantern be lit tonight?",
        shape=BinaryShape(),
        targets=(Target(),),
        crowd=CrowdForecast(prediction=BinaryPrediction(0.9), at=START),
    )
    cutoff = datetime(2026, 1, 1, tzinfo=UTC)
    trial_context = GuardedTrialContext(forecast="f", cutoff=cutoff, trial=1, fitted=None, random=SeededRandom(1))
    async with spec.open(load_plugin_settings(spec, config), context) as forecaster:
        (step,) = [step async for step in forecaster.steps(question, trial_context)]
    assert belief_mismatch(step.belief, question) is None
    # 0.9 shaded by the weight 0.2 of the page towards 0.5.
    prediction = step.belief.predictions["outcome"]
    assert isinstance(prediction, BinaryPrediction)
    assert prediction.probability == pytest.approx(0.82)


def test_the_settings_of_the_page_refuse_what_they_do_not_know(tmp_path: Path) -> None:
    (tmp_path / "ember.py").write_text(code("python"))
    (tmp_path / "config.toml").write_text(code("toml"))
    spec = load_registry(load_config(tmp_path / "config.toml", {})).forecasters["ember"]
    with pytest.raises(ValidationError, match="wieght"):
        spec.settings(wieght=0.2)


def test_every_hook_has_a_heading_with_its_signature() -> None:
    signatures = re.findall(r"^def (foxcast_.*):$", inspect.getsource(hook_specs), re.MULTILINE)
    assert len(signatures) == len(HOOK_SPECS)
    assert re.findall(r"^### `(.*)`$", PAGE.text, re.MULTILINE) == signatures


def test_every_table_of_config_is_named() -> None:
    tables = {kind.table for kind in HOOK_SPECS.values() if hasattr(kind, "table")}
    assert [table for table in sorted(tables) if f"`[{table}.<name>]`" not in PAGE.text] == []


def test_the_distribution_asks_for_what_it_imports() -> None:
    project: dict[str, Any] = tomllib.loads((HERE / "lantern" / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["foxcast"] == {"lantern": "foxcast_lantern"}
    assert project["dependencies"] == ["foxcast"]
