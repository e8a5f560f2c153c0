"""The wheel, installed outside the source tree: it needs no file of the tree, and its packages cannot be replaced."""

import os
import shlex
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from tests.acceptance.conftest import AS_INSTALLED, CommandResult, FoxcastInstallation

ROOT = Path(__file__).resolve().parents[2]
QUIET = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-index")
NOTICE = "foxcast: no configuration file found; this pass uses the built-in one: venue forecastbench, "

WheelCommand = Callable[..., CommandResult]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this source tree."""
    target = tmp_path_factory.mktemp("dist")
    build = (sys.executable, "-m", "pip", "wheel", *QUIET, "--no-build-isolation", "--wheel-dir", target, ROOT)
    subprocess.run(build, check=True, timeout=60)
    (built,) = target.glob("foxcast-*.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has the wheel; the libraries are those of this interpreter."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "libraries.pth").write_text(str(Path(typer.__file__).resolve().parents[1]))
    install = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", *QUIET, wheel)
    subprocess.run(install, check=True, timeout=60)
    return folder / "bin"


@pytest.fixture
def installed(programs: Path, tmp_path: Path) -> WheelCommand:
    """Run a program of the environment in an empty folder, which also stands first on the module path."""

    def call(*command: str) -> CommandResult:
        program, *arguments = command
        environment = FoxcastInstallation(tmp_path).environment
        done = subprocess.run(
            [programs / program, *arguments],
            cwd=tmp_path,
            env={**environment, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(AS_INSTALLED)])},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        return CommandResult(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture
def decoys(tmp_path: Path) -> None:
    """Packages named like ours in the working directory, which end whatever imports them."""
    for package in ("bot", "plugins"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(f"raise SystemExit('the decoy {package} was imported')")


def test_the_wheel_has_the_program_and_says_that_it_is_typed(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"foxcast.py", "bot/py.typed", "plugins/py.typed", "plugins/built_in.toml"} <= names
    assert "bot/cli/plugin_templates/common/pyproject.toml.jinja" in names
    tops = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"foxcast.py", "bot", "plugins"}


def test_one_pass_needs_no_configuration(installed: WheelCommand, tmp_path: Path) -> None:
    answer = installed("foxcast", "run", "--once")
    assert answer.code == 0
    assert answer.err.startswith(NOTICE)
    assert answer.err.count("\n") == 1
    assert "baseline: Brier Index" in answer.out
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    tried = [shlex.split(line)[1:] for line in answer.out.partition("Try next")[2].splitlines() if "foxcast" in line]
    assert len(tried) == 3
    for arguments in tried:
        assert installed("foxcast", *arguments).code == 0


def test_the_daemon_asks_for_a_configuration_and_says_how_to_get_one(installed: WheelCommand, tmp_path: Path) -> None:
    assert installed("foxcast", "run").is_refusal(2, "no venue is configured", "foxcast demo", "run --once")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.usefixtures("decoys")
@pytest.mark.parametrize("start", [("foxcast",), ("python", "-m", "foxcast")], ids=["script", "module"])
def test_folders_of_our_names_hide_nothing(installed: WheelCommand, programs: Path, start: tuple[str, ...]) -> None:
    answer = installed(*start, "--help")
    assert (answer.code, answer.err) == (0, "")
    assert "find questions, forecast, submit" in answer.out
    listed = installed(*start, "plugins")
    assert (listed.code, listed.err) == (0, "")
    assert str(programs.parent) in listed.out
    once = installed(*start, "run", "--once")
    assert (once.code, once.err.startswith(NOTICE)) == (0, True)


@pytest.mark.usefixtures("decoys")
def test_the_demo_plays_from_the_wheel(installed: WheelCommand, tmp_path: Path) -> None:
    answer = installed("foxcast", "demo", "--fast", "--days", "1", "--seed", "51")
    assert (answer.code, answer.err) == (0, "")
    assert "Look further" in answer.out
    assert (tmp_path / "state" / "demo" / "real.toml").is_file()


def test_the_wheel_leads_from_an_empty_folder_to_a_scored_forecast_in_two_commands(installed: WheelCommand) -> None:
    begun = installed("foxcast", "init", "--venue", "forecastbench", "--model", "none", "--yes")
    assert (begun.code, "venue forecastbench  answers" in begun.out) == (0, True)
    passed = installed("foxcast", "run", "--once")
    assert (passed.code, passed.err, "baseline: Brier Index" in passed.out) == (0, "", True)


@pytest.mark.slow
def test_a_new_venue_is_installed_and_passes_its_tests(installed: WheelCommand, programs: Path, tmp_path: Path) -> None:
    assert installed("foxcast", "new", "venue", "kelp").code == 0
    package = tmp_path / "foxcast-kelp"
    offline = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--no-build-isolation")
    pip = (sys.executable, "-m", "pip", "--python", programs / "python", "install", *offline, "--editable", package)
    subprocess.run(pip, check=True, timeout=60)
    tested = installed("python", "-m", "pytest", "-q", str(package))
    assert (tested.code, " passed" in tested.out) == (0, True), tested.out
    listed = installed("foxcast", "--config", str(package / "config.toml"), "plugins")
    assert (listed.code, "venue kelp (paper, submit, trade)" in listed.out) == (0, True), listed.err


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_three_commands_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    """The first of the three installs all requirements from the package index."""
    venv.create(tmp_path / "venv", with_pip=True)
    folder = tmp_path / "folder"
    folder.mkdir()
    programs, environment = tmp_path / "venv" / "bin", FoxcastInstallation(folder).environment
    for command in (
        ("pip", "install", "--quiet", "--disable-pip-version-check", wheel),
        ("foxcast", "init", "--venue", "forecastbench", "--model", "none", "--yes"),
        ("foxcast", "run", "--once"),
    ):
        program, *arguments = command
        done = subprocess.run(
            [programs / str(program), *arguments],
            cwd=folder,
            env={name: value for name, value in environment.items() if name != "PYTHONPATH"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert "baseline: Brier Index" in done.stdout
