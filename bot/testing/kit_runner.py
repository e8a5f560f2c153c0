"""Runs the contract kits that fit one plugin with pytest, in a process of its own: ``foxcast plugins check``.

Tests of the plugin's own package that inherit a kit are run, and no others. A kit that needs nothing of its author and
that none of them inherits is run on the plugin itself. Nothing but this machine can be connected to.
"""

import importlib.util
import json
import os
import sys
import tomllib
from collections.abc import Collection, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from bot.app.plugin_opening import describe_part
from bot.config.loader import load_config
from bot.core.plugin_specs import BaseSpec
from bot.net.network_guard import refuse_connections
from bot.plugin_system.discovery import ENTRY_POINT_GROUP, PluginCandidate, PluginOrigin, choose_plugin
from bot.plugin_system.registry import build_registry, find_plugins

KIT_PACKAGE = "bot.testing."
KIT_SUFFIX = "Contract"
# Pytest collects files, so there is one for the kits that need nothing of an author.
OWN_FILE = "test_kits_of_the_plugin.py"
OWN_TESTS = (
    "from bot.testing.fitting_kits import make_test_classes\n\nglobals().update(make_test_classes({!r}, {!r}))\n"
)
SETTINGS_FILE = "pytest.ini"
PROJECT_FILE = "pyproject.toml"
TESTS_FOLDER = "tests"
# A project is at most so many folders above its module: src/PACKAGE/__init__.py is three below it.
PROJECT_DEPTH = 3
MAX_REASON_CHARS = 700
SKIPPED = "all its tests were skipped"
NO_NETWORK = "kits run without the network"
# Of a test class that does not name the spec that it is for.
ANY_PART = "plugin"
ENDED_AS_USUAL = frozenset({pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED})


def main() -> int:
    """Run the kits of the plugin that the first argument describes as JSON, and write the report that it names."""
    asked = json.loads(sys.argv[1])
    name, folder = asked["plugin"], Path(asked["folder"])
    config = load_config(Path(asked["config"]))
    config = config.model_copy(update={"plugins": tuple(dict.fromkeys((*config.plugins, name)))})
    registry = build_registry(config, find_plugins(config))
    plugin = choose_plugin(name, registry.found)
    own = folder / OWN_FILE
    own.write_text(OWN_TESTS.format(name, asked["config"]), encoding="utf-8")
    project, tests = find_tests(plugin)
    recorder = KitRecorder(specs=registry.specs_of_plugin(plugin), own=own, has_tests=bool(tests))
    settings = folder / SETTINGS_FILE
    settings.write_text("[pytest]\n", encoding="utf-8")
    if project is not None:
        os.chdir(project)
        # Where an author runs the tests from is on the path: ``python -m pytest`` adds the working directory.
        sys.path.append(str(project))
        settings = next((path for one in (SETTINGS_FILE, PROJECT_FILE) if (path := project / one).is_file()), settings)
    with refuse_connections(NO_NETWORK, permits_loopback=True):
        code = pytest.main(_pytest_arguments(folder, settings, [*tests, own]), plugins=[recorder])
    if code not in ENDED_AS_USUAL:
        return int(code)
    Path(asked["report"]).write_text(json.dumps([*recorder.report()]), encoding="utf-8")
    return 0


def _pytest_arguments(folder: Path, settings: Path, tests: Sequence[Path]) -> list[str]:
    """Return the arguments of pytest: its results are recorded, and nothing is kept outside the folder."""
    arguments = ["-q", "-c", str(settings), "--basetemp", str(folder / "pytest"), "--continue-on-collection-errors"]
    arguments += ["-p", "no:cacheprovider", "-p", "no:randomly", "--asyncio-mode=auto"]
    if importlib.util.find_spec("xdist") is not None:
        arguments.append("-n0")
    return [*arguments, *map(str, tests)]


def find_tests(plugin: PluginCandidate) -> tuple[Path | None, list[Path]]:
    """Return the project that a plugin comes from, and where its tests are: none of a built-in one.

    Of an installed plugin that is the folder whose pyproject.toml declares it, else tests that are installed with it;
    of a single file its folder, with ``test_NAME.py`` in it or in ``tests`` there.
    """
    if plugin.origin is PluginOrigin.FILE:
        home = Path(plugin.where).resolve().parent
        return home, [path for folder in (home, home / TESTS_FOLDER) for path in folder.glob(f"test_{plugin.name}.py")]
    module = sys.modules.get(getattr(plugin.load(), "__name__", ""))
    if plugin.origin is PluginOrigin.BUILT_IN or module is None or module.__file__ is None:
        return None, []
    home = Path(module.__file__).resolve()
    for project in [*home.parents][:PROJECT_DEPTH]:
        if (names := _test_paths(project, plugin.name)) is not None:
            return project, [path for one in names if (path := project / one).exists()]
    return None, [path for path in (home.parent / TESTS_FOLDER,) if path.is_dir()]


def _test_paths(project: Path, name: str) -> list[str] | None:
    """Return where a project says that its tests are; None for a folder that is not the project of the plugin."""
    try:
        table = tomllib.loads((project / PROJECT_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if name not in table.get("project", {}).get("entry-points", {}).get(ENTRY_POINT_GROUP, {}):
        return None
    settings: dict[str, Any] = table.get("tool", {}).get("pytest", {})
    named: list[str] = (settings | settings.get("ini_options", {})).get("testpaths", [TESTS_FOLDER])
    return named


class KitRecorder:
    """A plugin of pytest: chooses the tests of kits among those that were collected, and records what they find.

    ``specs`` are what the checked plugin offers, ``own`` is the file with the kits that need nothing of its author, and
    ``has_tests`` says whether tests of its author were found.
    """

    def __init__(self, *, specs: Sequence[BaseSpec], own: Path, has_tests: bool) -> None:
        """Record nothing yet."""
        self._specs = {(type(spec).__name__, spec.name): spec for spec in specs}
        self._own = own
        self._has_tests = has_tests
        self._entries: dict[tuple[str, str], dict[str, Any]] = {}
        self._of_test: dict[str, tuple[str, dict[str, Any]]] = {}

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep the tests of kits for what the plugin offers; a kit that its author inherits is run there only."""
        from bot.testing.fitting_kits import TESTED_ON  # noqa: PLC0415 - only now its asserts are rewritten

        classes = {item: cls for item in items if (cls := self._test_class(item)) is not None}
        authored = {
            (self._part_of(cls), kit)
            for item, cls in classes.items()
            if item.path != self._own
            for kit in _kits_of(cls)
        }
        kept = [
            item
            for item, cls in classes.items()
            if item.path != self._own or (self._part_of(cls), _kits_of(cls)[0]) not in authored
        ]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept
        for item in kept:
            cls, is_own = classes[item], item.path == self._own
            file = os.path.relpath(item.path)
            source = f"on {getattr(cls, TESTED_ON, 'the plugin itself')}" if is_own else f"in {file}"
            entry = self._entry(self._part_of(cls), _kits_of(cls)[0].__name__, source=source, why=SKIPPED)
            self._of_test[item.nodeid] = (item.name if is_own else f"{file}::{cls.__name__}::{item.name}", entry)
        self._add_kits_not_run({classes[item] for item in kept})

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record a file that cannot be imported as a failure."""
        if report.failed:
            entry = self._entry("tests", report.nodeid.rpartition("/")[2], source="cannot be collected")
            entry["failures"].append(f"{report.nodeid}: {_failure_text(report)}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test that passed, and record why one failed."""
        place, entry = self._of_test[report.nodeid]
        if report.failed:
            entry["failures"].append(f"{place}: {_failure_text(report)}")
        elif report.passed and report.when == "call":
            entry["passed"] += 1

    def report(self) -> list[dict[str, Any]]:
        """Return an entry for each kit: its part, name, tests that passed, failures, and why it was not run."""
        return [*self._entries.values()]

    def _entry(self, part: str, kit: str, *, source: str = "", why: str = "") -> dict[str, Any]:
        new = {"part": part, "kit": kit, "source": source, "why": why, "passed": 0, "failures": []}
        return self._entries.setdefault((part, kit), new)

    def _add_kits_not_run(self, ran: Collection[type]) -> None:
        from bot.testing.fitting_kits import list_fitting_kits  # noqa: PLC0415 - only now its asserts are rewritten

        for spec in self._specs.values():
            part = describe_part(spec)
            classes = [cls for cls in ran if self._part_of(cls) in {part, ANY_PART}]
            for kit in list_fitting_kits(spec):
                if not any(kit.is_inherited_by(cls) for cls in classes):
                    missing = "no test of its package inherits it" if self._has_tests else "its tests were not found"
                    why = f"{missing}, and it needs {kit.needs}" if kit.needs else "its settings cannot be loaded"
                    self._entry(part, f"{kit.name}{kit.side and f' ({kit.side})'}", why=why)

    def _test_class(self, item: pytest.Item) -> type | None:
        """Return the class of a test if it inherits a kit, and is for something that the plugin offers."""
        cls = getattr(item, "cls", None)
        return cls if cls is not None and _kits_of(cls) and self._part_of(cls) else None

    def _part_of(self, cls: type) -> str:
        """Return the part that a test class is for: ``ANY_PART`` if it does not say, "" if it is of another plugin."""
        spec = getattr(cls, "spec", None)
        if spec is None:
            return ANY_PART
        found = self._specs.get((type(spec).__name__, spec.name))
        return "" if found is None else describe_part(found)


def _kits_of(cls: type) -> list[type]:
    """Return the kits that a test class inherits, the most special one first."""
    return [one for one in cls.__mro__ if one.__module__.startswith(KIT_PACKAGE) and one.__name__.endswith(KIT_SUFFIX)]


def _failure_text(report: pytest.CollectReport | pytest.TestReport) -> str:
    """Return in one line why a test failed: what the kit says, else the assertion."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = (str(report.longrepr) if crash is None else str(crash.message)).splitlines()
    if crash is None:
        # A file that cannot be collected: the error is at the end.
        lines = [line.removeprefix("E ") for line in lines if line.startswith("E ")] or lines[-1:]
    words = [*takewhile(lambda line: not line.startswith("assert "), lines)] or lines[:1]
    text = " ".join(" ".join(words).split())
    return text.removeprefix("AssertionError: ").removeprefix("Failed: ")[:MAX_REASON_CHARS]
