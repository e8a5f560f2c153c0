"""Where the packages of a process come from: other folders named like ours stand first on its module path."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bot.core.child_process import INSTALLATION_FOLDER, child_command

IMPORTED = (
    "import foxcast; foxcast.use_own_packages(); import {names}; print(*({name}.__file__ for {name} in ({names},)))"
)
WORKER = """
import foxcast
from multiprocessing import get_context
if __name__ == "__main__":
    foxcast.use_own_packages()
    with get_context("spawn").Pool(1) as pool:
        print(pool.apply(eval, ("__import__('bot').__file__",)))
"""
PATH = "import sys, foxcast; {before}foxcast.use_own_packages(); print(*sys.path, sep='\\n')"
OURS = [str(INSTALLATION_FOLDER / package / "__init__.py") for package in ("bot", "plugins")]


@pytest.fixture
def decoys(tmp_path: Path) -> Path:
    """A folder with packages named like ours, which end whatever imports them, and a library of the operator."""
    for package in ("bot", "plugins"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(f"raise SystemExit('the decoy {package} was imported')")
    (tmp_path / "library.py").write_text("")
    return tmp_path


def run(folder: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    """Run a command in the folder, which stands first on the module path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FOXCAST_")}
    environment = {**kept, "PYTHONPATH": str(folder)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


def python(folder: Path, code: str) -> list[str]:
    done = run(folder, sys.executable, "-c", code)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_our_packages_are_imported_and_not_those_of_the_working_directory(decoys: Path) -> None:
    assert run(decoys, sys.executable, "-c", "import bot").stderr == "the decoy bot was imported\n"
    assert python(decoys, IMPORTED.format(name="one", names="bot, plugins")) == OURS


def test_what_else_such_a_folder_holds_can_still_be_imported(decoys: Path) -> None:
    names = IMPORTED.format(name="one", names="bot, library")
    assert python(decoys, names) == [OURS[0], str(decoys / "library.py")]


def test_a_single_module_of_that_name_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "plugins.py").write_text("raise SystemExit('the decoy was imported')")
    assert python(tmp_path, IMPORTED.format(name="one", names="bot, plugins")) == OURS


@pytest.mark.parametrize("before", ["", "foxcast.use_own_packages(); "], ids=["once", "twice"])
def test_a_path_on_which_nothing_hides_our_packages_stays_as_it_is(tmp_path: Path, before: str) -> None:
    (tmp_path / "plugins").mkdir()
    plain = python(tmp_path, "import sys; print(*sys.path, sep='\\n')")
    assert python(tmp_path, PATH.format(before=before)) == plain


def test_our_folder_is_added_to_a_path_that_lacks_it(tmp_path: Path) -> None:
    lacking = f"sys.path[:] = [one for one in sys.path if one != {str(INSTALLATION_FOLDER)!r}]; "
    assert python(tmp_path, PATH.format(before=lacking))[-1] == str(INSTALLATION_FOLDER)


def test_a_worker_of_multiprocessing_imports_our_packages(decoys: Path) -> None:
    (decoys / "worker.py").write_text(WORKER)
    done = run(decoys, sys.executable, "worker.py")
    assert (done.stdout.split(), done.stderr) == (OURS[:1], "")


def test_the_program_can_be_started_through_the_interpreter(decoys: Path) -> None:
    done = run(decoys, sys.executable, "-m", "foxcast", "--version")
    assert (done.returncode, done.stdout.split()[0], done.stderr) == (0, "foxcast", "")


@pytest.mark.parametrize("is_isolated", [False, True])
def test_a_child_process_runs_the_code_of_this_installation(decoys: Path, is_isolated: bool) -> None:  # noqa: FBT001 - a case
    done = run(decoys, *child_command("bot.cli.main:main", "--version", is_isolated=is_isolated))
    assert (done.returncode, done.stdout.split()[0], done.stderr) == (0, "foxcast", "")


def test_what_the_function_of_a_child_returns_is_its_exit_code(tmp_path: Path) -> None:
    done = run(tmp_path, *child_command("bot.cli.main:main", "no-such-command"))
    assert done.returncode == 2
    assert "there is no command no-such-command" in done.stderr
