"""Plugins as outsiders make them: a real distribution, and the file of plugins/README.md."""

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

from bot import hookspecs
from bot.api import Can, Workplace
from bot.clock import SeededRandom
from bot.config.loader import load_config
from bot.config.plugin_settings import load_plugin_settings
from bot.desk.desk import TrialDesk
from bot.discovery import Kind, discover
from bot.domain.belief import unfit
from bot.domain.prediction import Binary, BinaryShape
from bot.domain.question import Crowd, Question, QuestionRef, Target
from bot.errors import ConfigError
from bot.registry import HOOKS, Registry, load_registry
from bot.testing.clock import START, FakeClock
from bot.testing.http import DictHttp

HERE = Path(__file__).resolve().parent
README = (HERE.parents[1] / "plugins" / "README.md").read_text()
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
def workplace(tmp_path: Path) -> Workplace:
    return Workplace(clock=FakeClock(), http=DictHttp({}), folder=tmp_path)


def registry_of(folder: Path, text: str) -> Registry:
    (folder / "config.toml").write_text(text)
    return load_registry(load_config(folder / "config.toml", TOKEN))


def code(language: str) -> str:
    (block,) = re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    return str(block)


@pytest.mark.timeout(180)
def test_an_installed_plugin_is_found_and_not_imported(installed: Path) -> None:
    (lantern,) = [plugin for plugin in discover() if plugin.name == "lantern"]
    assert lantern.kind is Kind.INSTALLED
    assert lantern.where == "foxcast-lantern 1.0.0, foxcast_lantern"
    assert "foxcast_lantern" not in sys.modules


@pytest.mark.timeout(180)
async def test_an_installed_plugin_offers_venue_command_and_job(
    installed: Path, tmp_path: Path, workplace: Workplace
) -> None:
    text = "plugins = ['lantern', 'ember']\nplugin_files = ['ember.py']\n[venues.lantern]\nforecasters = ['ember']\n"
    (tmp_path / "ember.py").write_text(code("python"))
    registry = registry_of(tmp_path, text)
    assert registry.broken == ()
    assert (registry.commands.names, registry.jobs.names) == (("wave",), ("sweep",))
    spec = registry.venues["lantern"]
    settings = load_plugin_settings(spec, load_config(tmp_path / "config.toml", TOKEN))
    async with spec.reader(settings, workplace) as venue:
        (question,) = [question async for question in venue.questions()]
        (outcome,) = [outcome async for outcome in venue.resolutions([question.ref])]
    assert (question.ref, outcome.resolved_at) == (QuestionRef("lantern", "harbour"), START)
    assert await registry.jobs["sweep"].run(workplace) == f"swept {tmp_path}"


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


async def test_the_plugin_of_the_readme_works_as_written(tmp_path: Path, workplace: Workplace) -> None:
    (tmp_path / "ember.py").write_text(code("python"))
    (tmp_path / "config.toml").write_text(code("toml"))
    config = load_config(tmp_path / "config.toml", {})
    spec = load_registry(config).forecasters["ember"]
    question = Question(
        ref=QuestionRef("lantern", "harbour"),
        title="Will the harbour lantern be lit tonight?",
        shape=BinaryShape(),
        targets=(Target(),),
        crowd=Crowd(prediction=Binary(0.9), at=START),
    )
    cutoff = datetime(2026, 1, 1, tzinfo=UTC)
    desk = TrialDesk(forecast="f", cutoff=cutoff, trial=1, fitted=None, random=SeededRandom(1))
    async with spec.open(load_plugin_settings(spec, config), workplace) as forecaster:
        (step,) = [step async for step in forecaster.steps(question, desk)]
    assert unfit(step.belief, question) is None
    # 0.9 shaded by the weight 0.2 of the README towards 0.5.
    prediction = step.belief.predictions["outcome"]
    assert isinstance(prediction, Binary)
    assert prediction.probability == pytest.approx(0.82)


def test_the_settings_of_the_readme_refuse_what_they_do_not_know(tmp_path: Path) -> None:
    (tmp_path / "ember.py").write_text(code("python"))
    (tmp_path / "config.toml").write_text(code("toml"))
    spec = load_registry(load_config(tmp_path / "config.toml", {})).forecasters["ember"]
    with pytest.raises(ValidationError, match="wieght"):
        spec.settings(wieght=0.2)


def test_every_hook_has_a_heading_with_its_signature() -> None:
    signatures = re.findall(r"^def (foxcast_.*):$", inspect.getsource(hookspecs), re.MULTILINE)
    assert len(signatures) == len(HOOKS)
    assert re.findall(r"^### `(.*)`$", README, re.MULTILINE) == signatures


def test_every_ability_is_explained() -> None:
    assert sorted(re.findall(r"^\| `Can\.(\w+)`", README, re.MULTILINE)) == sorted(Can.__members__)


def test_every_table_of_config_is_named() -> None:
    tables = {kind.table for kind in HOOKS.values() if hasattr(kind, "table")}
    assert [table for table in sorted(tables) if f"`[{table}.<name>]`" not in README] == []


def test_the_distribution_asks_for_what_it_imports() -> None:
    project: dict[str, Any] = tomllib.loads((HERE / "lantern" / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["foxcast"] == {"lantern": "foxcast_lantern"}
    assert project["dependencies"] == ["foxcast"]
