"""What `foxcast new` writes, as its author meets it: tests, types and style are sound, and its config.toml opens it."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.cli.command_exit import ExitCode
from bot.cli.main import main
from bot.cli.new import MAX_NAME_LENGTH, SPEC_KINDS, PluginKind, render_package, write_package
from bot.config.loader import load_config
from bot.core.plugin_specs import BaseSpec
from bot.plugin_system.registry import find_offering_plugin, find_plugins, load_registry

ROOT = Path(__file__).resolve().parents[2]
NAMES = {
    PluginKind.VENUE: "kelp",
    PluginKind.FORECASTER: "fern",
    PluginKind.SEARCH: "moss",
    PluginKind.DATA: "reed",
    PluginKind.MODEL: "teal",
    PluginKind.NOTIFIER: "bell",
    PluginKind.COMMAND: "sage",
}

pytestmark = [pytest.mark.xdist_group("new packages"), pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one package of each kind, by kind."""
    folder = tmp_path_factory.mktemp("packages")
    for kind, name in NAMES.items():
        write_package(render_package(kind, name), folder / kind)
    return folder


@pytest.fixture
def installed(packages: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The packages on the module path, with the entry points that their pyproject.toml declares."""
    for kind in NAMES:
        project = tomllib.loads((packages / kind / "pyproject.toml").read_text())["project"]
        about = packages / kind / "src" / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        about.mkdir(exist_ok=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1.0\n")
        points = project["entry-points"]["foxcast"].items()
        (about / "entry_points.txt").write_text("[foxcast]\n" + "".join(f"{name} = {at}\n" for name, at in points))
        monkeypatch.syspath_prepend(str(packages / kind / "src"))
    # For child processes.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(str(packages / kind / "src") for kind in NAMES))
    yield packages
    for name in [name for name in sys.modules if name.startswith("foxcast_")]:
        del sys.modules[name]


def test_the_tests_of_every_package_pass(packages: Path) -> None:
    """One process runs all of them, each with the settings that its pyproject.toml and those of the others share."""
    settings = tomllib.loads((packages / PluginKind.COMMAND / "pyproject.toml").read_text())["tool"]["pytest"]
    command = (
        sys.executable,
        "-m",
        "pytest",
        "-v",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "--rootdir",
        packages,
    )
    options = [f"--override-ini={name}={value}" for name, value in settings.items() if name != "testpaths"]
    sources = [str(packages / kind / "src") for kind in NAMES]
    done = subprocess.run(
        [*command, *options, *(packages / kind / "tests" for kind in NAMES)],
        cwd=packages,
        env={"PYTHONPATH": ":".join([str(ROOT), *sources]), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stdout
    passed = {
        line.partition("/")[0] for line in done.stdout.splitlines() if "/tests/test_" in line and "PASSED" in line
    }
    assert passed == set(NAMES)


@pytest.mark.parametrize("check", [("check",), ("format", "--check")], ids=" ".join)
def test_ruff_accepts_every_package(packages: Path, check: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "ruff", *check, "--no-cache", str(packages)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", ["x", "abcde_fghij_klmno_pqrst_uvwxyz"], ids=["shortest", "longest"])
def test_lines_and_imports_of_packages_with_other_names_are_sound(tmp_path: Path, name: str) -> None:
    assert len(name) in {1, MAX_NAME_LENGTH}
    for kind in NAMES:
        write_package(render_package(kind, name), tmp_path / kind)
    command = (sys.executable, "-m", "ruff", "check", "--no-cache", tmp_path)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_mypy_accepts_every_package(packages: Path) -> None:
    """Strictly, and package by package, since each has a test module of the same name as others."""
    for kind in NAMES:
        command = (sys.executable, "-m", "mypy", "--cache-dir", packages / "mypy")
        done = subprocess.run(command, cwd=packages / kind, capture_output=True, text=True, timeout=170, check=False)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("kind", NAMES)
def test_its_configuration_opens_it(installed: Path, kind: PluginKind) -> None:
    config = load_config(installed / kind / "config.toml", {})
    registry = load_registry(config)
    assert registry.broken == ()
    assert NAMES[kind] in [plugin.name for plugin in registry.enabled]
    offering: type[BaseSpec] = SPEC_KINDS[kind]
    assert find_offering_plugin(find_plugins(config), offering, NAMES[kind]) == NAMES[kind]


# The kits that a package runs with its own tests, and those that need no author.
KITS = {
    PluginKind.VENUE: {
        *("VenueContract", "QuestionListContract", "QuestionReaderContract"),
        *("OrderPlannerContract", "ClosingPlannerContract", "PaperBookContract", "TradingSubmitterContract"),
    },
    PluginKind.FORECASTER: {"ForecasterContract"},
    PluginKind.SEARCH: {"SearchEngineContract"},
    PluginKind.DATA: {"TimeSeriesContract"},
    PluginKind.MODEL: {"ModelProviderContract", "PluginSpecContract"},
    PluginKind.NOTIFIER: {"NotifierContract"},
    PluginKind.COMMAND: {"CommandContract"},
}


@pytest.mark.parametrize("kind", NAMES)
def test_plugins_check_is_green(installed: Path, kind: PluginKind, capfd: pytest.CaptureFixture[str]) -> None:
    code = main(["--config", str(installed / kind / "config.toml"), "plugins", "check", NAMES[kind]])
    shown = capfd.readouterr()
    assert (code, shown.err) == (ExitCode.DONE, ""), shown.out
    head, _, *rows, last = shown.out.splitlines()
    assert head.startswith(f"installed plugin {NAMES[kind]} (foxcast-{NAMES[kind]} 0.1.0")
    cells = [re.split(r"\s{2,}", row.strip()) for row in rows]
    assert {check for result, _, check, *_ in cells if result == "passed"} == KITS[kind]
    parts = {"venue": 4, "command": 0}.get(kind, 1)
    assert last == f"{NAMES[kind]}: " + (f"{parts} opened, " if parts else "") + f"{len(KITS[kind])} passed"
